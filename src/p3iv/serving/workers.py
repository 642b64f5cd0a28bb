"""A pool of processes with limits on memory and time, for work on files that are not trusted.

A file may have been made to attack the library that decodes it. So the work runs in processes of its own
(`worker_process.py`), and what they answer is read as plain values (`plain_values.py`), never with pickle.

On Linux a process that has been set up can neither use more memory than its limit nor make a file larger, open many
files or gain privileges. On macOS the memory has no limit.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from typing import Final, TypeVar, cast

from p3iv.errors import FeatureError, P3ivError
from p3iv.serving.plain_values import MAX_BYTES, Readers, make_readers, unpack_value
from p3iv.serving.worker_process import LENGTH_BYTES, OUT_OF_CPU_TIME, serve_jobs
from p3iv.validation import make_plain

T = TypeVar("T")

_BUFFER_BYTES: Final = 2**20  # of an answer, read before it is asked for
_EXIT_TIMEOUT_S: Final = 10.0  # until a killed process has ended

_log = logging.getLogger("p3iv.serving")


class QueueFullError(P3ivError):
    """No more jobs are taken now: too many wait, or the pool is being closed."""


class JobTooLongError(P3ivError):
    """A job used up its time, and its process was ended."""


class WorkerDiedError(P3ivError):
    """The process of a job died, or it needed more memory than it may have."""


@dataclass(frozen=True)
class WorkerLimits:
    """What one job may use."""

    memory_bytes: int  # beyond what the process has after it was set up
    cpu_s: float  # of all its threads together, as the system counts it: about a tenth more or less
    wall_s: float


class WorkerPool:
    """Runs functions in processes, one at a time in each. The first process starts with the pool, others when needed.

    Args:
        set_up: called once in every new process. It must be picklable, like the jobs. Nothing limits its time.
        num_workers: the most processes.
        max_waiting: the most jobs that wait while all processes are busy.
        limits: what one job may use.
        results: the dataclasses that jobs return, alone or as parts of other values.
    """

    def __init__(
        self,
        set_up: Callable[[], object],
        *,
        num_workers: int,
        max_waiting: int,
        limits: WorkerLimits,
        results: Sequence[type] = (),
    ) -> None:
        readers = make_readers(results)
        self._workers = [_Worker(set_up, limits, readers) for _ in range(num_workers)]
        self._idle = list(self._workers)
        self._turns: deque[asyncio.Future[_Worker | None]] = deque()  # of the jobs that wait
        self._num_starting = 0
        self._running: set[asyncio.Task[object]] = set()  # jobs and starts
        self._max_waiting = max_waiting
        self._is_closed = False

    async def start(self) -> None:
        """Start the first process and wait until it is set up.

        Raises:
            P3ivError: `set_up` raised it.
        """
        await self.run(_do_nothing)

    @property
    def waiting(self) -> int:
        """How many jobs wait for a process."""
        return len(self._turns)

    async def run(self, work: Callable[..., T], *args: object) -> T:
        """Call `work(*args)` in a process.

        A job that is cancelled while it waits is dropped. One that runs goes on to its end; its result is thrown away.

        Returns:
            The result: a plain value (see `plain_values.py`) with dataclasses that the pool was told about.

        Raises:
            P3ivError: the one that `work` raised, or that `set_up` raised in a new process.
            FeatureError: `work` raised something else.
            QueueFullError: too many jobs wait, or the pool is closed.
            JobTooLongError: the job used up its time.
            WorkerDiedError: the process died or had too little memory.
        """
        job = pickle.dumps((work, args))
        worker = await self._take_worker()
        outcome = await asyncio.shield(self._finish_in_background(self._finish(worker, job)))
        if isinstance(outcome, P3ivError):
            raise outcome
        return cast(T, outcome)

    async def close(self) -> None:
        """End the processes. Jobs that run or wait fail with QueueFullError."""
        self._is_closed = True
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
        for worker in self._workers:
            worker.close()
        await asyncio.gather(*self._running, return_exceptions=True)
        await asyncio.gather(*(worker.stop() for worker in self._workers))

    def _finish_in_background(self, work: Coroutine[object, object, object]) -> asyncio.Task[object]:
        """Do something to its end, even if nobody waits for it."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _take_worker(self) -> _Worker:
        """Wait for a process without a job; if all have one, another is started, and the first free one is taken."""
        if self._is_closed:
            raise _closed()
        if (free := next((worker for worker in self._idle if worker.is_running), None)) is not None:
            self._idle.remove(free)
            return free
        if self._idle:
            self._start_another()
        if self.waiting >= self._max_waiting + self._num_starting:
            raise QueueFullError(f"The service is busy: {self.waiting} jobs wait already. Try again in a moment.")
        return await self._wait_for_turn()

    def _start_another(self) -> None:
        """Start a process for a worker that has none, beside the jobs."""
        self._num_starting += 1
        self._finish_in_background(self._start(self._idle.pop()))

    async def _start(self, worker: _Worker) -> None:
        """Start a process. An error is raised in the job that waits longest; in all, if no process is left for them."""
        try:
            await worker.start()
        except P3ivError as error:
            self._idle.append(worker)
            waiting = [turn for turn in self._turns if not turn.done()]
            for turn in waiting if len(self._idle) == len(self._workers) else waiting[:1]:
                self._turns.remove(turn)
                turn.set_exception(error)
        else:
            self._give_back(worker)
        finally:
            self._num_starting -= 1

    async def _wait_for_turn(self) -> _Worker:
        turn: asyncio.Future[_Worker | None] = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        try:
            worker = await turn
        except asyncio.CancelledError:
            if turn in self._turns:
                self._turns.remove(turn)
            elif not turn.cancelled() and turn.exception() is None and (given := turn.result()) is not None:
                self._give_back(given)  # it was given to this job just before the job was cancelled
            raise
        if worker is None:
            raise _closed()
        return worker

    def _give_back(self, worker: _Worker) -> None:
        """Give a worker to the job that waits longest; one whose process has died gets a new one first."""
        if not worker.is_running:
            self._idle.append(worker)
            if any(not turn.done() for turn in self._turns) and not self._is_closed:
                self._start_another()
            return
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():  # else it was cancelled
                turn.set_result(worker)
                return
        self._idle.append(worker)

    async def _finish(self, worker: _Worker, job: bytes) -> object:
        """The result of a job, or its error, which nobody might wait for if it were raised."""
        try:
            return await worker.run(job)
        except P3ivError as error:
            return error
        finally:
            self._give_back(worker)


class _Worker:
    """One process at a time: started when there is a job and no process, ended when a job breaks a limit."""

    def __init__(self, set_up: Callable[[], object], limits: WorkerLimits, readers: Readers) -> None:
        self._set_up, self._limits, self._readers = set_up, limits, readers
        self._process: BaseProcess | None = None
        self._reader: asyncio.StreamReader  # both are set while there is a process
        self._writer: asyncio.StreamWriter
        self._is_closed = False

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.exitcode is None

    async def run(self, job: bytes) -> object:
        """The result of a job.

        Raises:
            P3ivError: of the job, of `set_up`, or for what became of the process.
        """
        try:
            async with asyncio.timeout(self._limits.wall_s):
                answer = await self._ask(job)
        except TimeoutError:
            await self.stop()
            raise JobTooLongError(f"This took longer than {self._limits.wall_s:g} seconds and was ended.") from None
        return await self._result_of(answer, FeatureError("This file cannot be read: the job failed unexpectedly."))

    def close(self) -> None:
        """End the process now, and start no other one."""
        self._is_closed = True
        if self._process is not None:
            self._process.kill()

    async def stop(self) -> int | None:
        """End the process, if there is one, and return its exit code."""
        if self._process is None:
            return None
        process, self._process = self._process, None
        process.kill()
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
        with suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_TIMEOUT_S):
                while process.exitcode is None:
                    await asyncio.sleep(0.01)
        exit_code = process.exitcode
        if exit_code is not None:
            process.close()
        return exit_code

    async def start(self) -> None:
        """Start a process and wait until it is set up.

        Raises:
            P3ivError: of `set_up`.
        """
        await self.stop()
        if self._is_closed:
            raise _closed()
        try:
            channel = self._start_process()
        except OSError as error:
            _log.error("worker_not_started error=%s", type(error).__name__)
            raise QueueFullError("No process can be started for this job. Try again in a moment.") from error
        self._reader, self._writer = await asyncio.open_connection(sock=channel, limit=_BUFFER_BYTES)
        try:
            failure = WorkerDiedError("A process for jobs cannot be set up: an unexpected error.")
            await self._result_of(await self._ask(None), failure)
        except P3ivError:
            await self.stop()
            raise

    def _start_process(self) -> socket.socket:
        """Start a process and return the channel to it."""
        ours, theirs = socket.socketpair()
        args = (theirs, os.getpid(), self._set_up, self._limits.memory_bytes, self._limits.cpu_s)
        process = get_context("spawn").Process(target=serve_jobs, args=args, daemon=True)
        try:
            with theirs, _without_interrupts():
                process.start()
        except BaseException:
            ours.close()
            raise
        self._process = process
        return ours

    async def _ask(self, job: bytes | None) -> object:
        """Send a job and return the answer, None if it cannot be read. Without a job, return the answer of set-up."""
        try:
            if job is not None:
                self._writer.write(len(job).to_bytes(LENGTH_BYTES, "big") + job)
                await self._writer.drain()
            length = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES), "big")
            if length > MAX_BYTES:
                return None
            return unpack_value(await self._reader.readexactly(length), self._readers)
        except ValueError:
            return None
        except (EOFError, OSError):
            raise await self._explain_end() from None

    async def _explain_end(self) -> P3ivError:
        """Why the process has closed its channel."""
        exit_code = await self.stop()
        if self._is_closed:
            return _closed()
        if exit_code == -OUT_OF_CPU_TIME:
            return JobTooLongError(f"This used more than {self._limits.cpu_s:g} seconds of CPU time and was ended.")
        _log.error("worker_died exit_code=%s", exit_code)
        return _died()

    async def _result_of(self, answer: object, failure: P3ivError) -> object:
        """The result in an answer. The forms of answers are listed in `worker_process.py`."""
        match answer:
            case ("result", value):
                return value
            case ("error", str(name), tuple(args), str(message)):
                raise _make_error(name, args, message)
            case ("failed", str(name)):
                _log.error("job_failed error=%s", make_plain(name))
                raise failure
            case ("memory",):
                await self.stop()  # its memory may be in pieces
                mebibytes = self._limits.memory_bytes >> 20
                raise WorkerDiedError(f"This needs more memory than the {mebibytes} MiB that a job may use.")
        await self.stop()
        _log.error("worker_answer_refused")
        raise _died()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach, not even before they ignore it themselves."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _do_nothing() -> None:
    """A job for a process that only has to be there."""


def _closed() -> QueueFullError:
    return QueueFullError("The service is being stopped.")


def _died() -> WorkerDiedError:
    return WorkerDiedError("The process of this job ended unexpectedly. The file may be damaged.")


def _make_error(name: str, args: tuple[object, ...], message: str) -> P3ivError:
    """The error of a job; a FeatureError where this process does not know its class."""
    classes = {each.__name__: each for each in _with_subclasses(P3ivError)}
    try:
        return classes[name](*map(str, args))
    except (KeyError, TypeError, ValueError):
        return FeatureError(message)


def _with_subclasses(base: type[P3ivError]) -> Iterator[type[P3ivError]]:
    yield base
    for each in base.__subclasses__():
        yield from _with_subclasses(each)
