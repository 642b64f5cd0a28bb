"""Extraction and training that a page starts: one at a time, in a process of its own that can be cancelled."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal

from p3iv.errors import P3ivError
from p3iv.files import remove_leftovers
from p3iv.serving.annotate_schema import JobAnswer, JobProgress
from p3iv.serving.log import log_event
from p3iv.serving.problems import ServiceError, not_found

RUNS: Final = "runs"  # the folder of the planners, in that of the videos
END_S: Final = 5.0  # until a cancelled process is killed
MAX_JOBS: Final = 100  # that are remembered
_LINE_BYTES: Final = 2**20

Kind = Literal["extract", "train"]


@dataclass
class _Job:
    """A job, and its process while it runs."""

    id: str
    kind: Kind
    run: Path  # of a training
    status: Literal["running", "done", "failed", "cancelled"] = "running"
    progress: JobProgress | None = None
    message: str | None = None
    planner: str | None = None
    process: Process | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    def answer(self) -> JobAnswer:
        return JobAnswer(
            id=self.id,
            kind=self.kind,
            status=self.status,
            progress=self.progress,
            message=self.message,
            planner=self.planner,
        )


class CommandJobs:
    """Runs jobs on a dataset folder.

    Args:
        folder: with steps.csv and videos/.
        use_planner: is called with the run folder of a training that has succeeded.
    """

    def __init__(self, folder: Path, use_planner: Callable[[str], Awaitable[None]]) -> None:
        self._folder, self._use_planner = folder, use_planner
        self._jobs: dict[str, _Job] = {}

    def start(self, kind: Kind) -> JobAnswer:
        """Start a job.

        Raises:
            ServiceError: another one is running, or there are no steps yet.
        """
        if not (self._folder / "steps.csv").is_file():
            raise ServiceError(422, "There are no steps yet.", "Name the procedure of a video and mark its steps.")
        if running := next((job for job in self._jobs.values() if job.status == "running"), None):
            doing = "Features are computed" if running.kind == "extract" else "A planner is trained"
            raise ServiceError(409, f"{doing} already.", "Wait for its end, or cancel it.", code="busy")
        job = _Job(secrets.token_hex(16), kind, self._new_run())
        self._jobs[job.id] = job
        for old in list(self._jobs)[:-MAX_JOBS]:
            del self._jobs[old]
        job.task = asyncio.create_task(self._run(job))
        return job.answer()

    def listed(self) -> tuple[JobAnswer, ...]:
        """All jobs, the newest last."""
        return tuple(job.answer() for job in self._jobs.values())

    def find(self, job_id: str) -> JobAnswer:
        """How far a job is.

        Raises:
            ServiceError: there is none of that id.
        """
        return self._find(job_id).answer()

    async def cancel(self, job_id: str) -> JobAnswer:
        """End a job that runs; a job that has ended stays as it is."""
        job = self._find(job_id)
        if job.status == "running" and job.task:
            job.status, job.message = "cancelled", "Cancelled."
            await _end(job.process)
            await asyncio.gather(job.task, return_exceptions=True)
        return job.answer()

    async def close(self) -> None:
        """End the job that runs."""
        for job in list(self._jobs.values()):
            await self.cancel(job.id)

    def _find(self, job_id: str) -> _Job:
        if job_id not in self._jobs:
            raise not_found("job")
        return self._jobs[job_id]

    def _new_run(self) -> Path:
        """The folder of the next planner."""
        places = (self._folder / RUNS / f"planner-{number}" for number in count(1))
        return next(place for place in places if not place.exists())

    async def _run(self, job: _Job) -> None:
        try:
            await self._read(job)
            if job.status == "running" and job.kind == "train":
                job.progress = JobProgress(what="Loading the planner", done=0, total=1, about="")
                await self._use_planner(str(job.run))
                job.planner = job.run.name
            job.status = "done" if job.status == "running" else job.status
        except P3ivError as error:
            self._fail(job, str(error))
        except Exception as error:
            self._fail(job, "It failed; this was logged.")
            log_event("failure", error=repr(error))
        finally:
            job.process = None
            if job.kind == "train" and job.status != "done":
                await asyncio.to_thread(_remove_run, job.run)
            log_event("job", kind=job.kind, status=job.status)

    def _fail(self, job: _Job, message: str) -> None:
        if job.status == "running":
            job.status, job.message = "failed", message.replace(str(self._folder), "DIR")

    async def _read(self, job: _Job) -> None:
        """Start the process and take its reports to their end.

        Raises:
            ServiceError: what went wrong.
        """
        words = (job.kind, str(self._folder), str(job.run))
        job.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "p3iv.serving.command_process", *words),
            stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, limit=_LINE_BYTES, start_new_session=True,
        )  # fmt: skip
        if job.status != "running":  # cancelled meanwhile
            await _end(job.process)
        last: dict[str, Any] = {}
        assert job.process.stdout is not None  # noqa: S101 a pipe, see above
        async for line in job.process.stdout:
            with suppress(ValueError):
                last = json.loads(line)
            if "what" in last:
                job.progress = JobProgress(**last)
        code = await job.process.wait()
        if job.status != "running":
            return
        if "result" not in last:
            raise ServiceError(422, str(last.get("error") or f"The process ended with {code}."))
        job.message = str(last["result"])


def _remove_run(run: Path) -> None:
    """Delete what a training left that did not come to its end; its folder was new."""
    remove_leftovers(run)
    shutil.rmtree(run, ignore_errors=True)
    with suppress(OSError):  # it has other planners
        run.parent.rmdir()


async def _end(process: Process | None) -> None:
    """End a process, by force if it does not end by itself."""
    if process is None or process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(END_S):
                await process.wait()
        except TimeoutError:
            process.kill()
