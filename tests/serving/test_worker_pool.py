"""The worker pool: the queue, jobs that are cancelled, the number of processes, and the end of all of them."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import active_children
from pathlib import Path

import pytest

from p3iv.serving.workers import QueueFullError, WorkerPool
from processes import becomes_true, is_running
from serving import worker_jobs as jobs
from serving.pools import LIMITS, open_pool, until, until_there

Job = asyncio.Task[int]


async def begin(pool: WorkerPool, folder: Path, name: str) -> Job:
    """Start a job that goes on until there is a file `go`, and wait until it runs."""
    job = wait_in(pool, folder, name)
    await until_there(folder / name)
    return job


def wait_in(pool: WorkerPool, folder: Path, name: str) -> Job:
    return asyncio.create_task(pool.run(jobs.wait_until_there, folder / name, folder / "go"))


def test_jobs_wait_for_their_turn_and_too_many_are_refused(tmp_path: Path) -> None:
    async def fill() -> None:
        async with open_pool(max_waiting=2) as pool:
            first = await begin(pool, tmp_path, "first")
            others = [asyncio.create_task(pool.run(jobs.echo, number)) for number in range(2)]
            await until(lambda: pool.waiting == 2)
            with pytest.raises(QueueFullError, match="2 jobs wait already"):
                await pool.run(jobs.echo, 3)
            (tmp_path / "go").touch()
            assert await asyncio.gather(*others) == [0, 1]
            assert pool.waiting == 0
            await first

    asyncio.run(fill())


def test_a_job_that_waits_is_dropped_when_it_is_cancelled(tmp_path: Path) -> None:
    async def cancel() -> None:
        async with open_pool(max_waiting=2) as pool:
            first = await begin(pool, tmp_path, "first")
            dropped, kept = wait_in(pool, tmp_path, "dropped"), wait_in(pool, tmp_path, "kept")
            await until(lambda: pool.waiting == 2)
            dropped.cancel()
            await asyncio.wait([dropped])
            assert dropped.cancelled()
            assert pool.waiting == 1
            (tmp_path / "go").touch()
            assert await kept == await first
            assert not (tmp_path / "dropped").exists()

    asyncio.run(cancel())


def test_a_job_that_runs_goes_on_when_it_is_cancelled(tmp_path: Path) -> None:
    async def cancel() -> None:
        async with open_pool() as pool:
            worker = await pool.run(jobs.process_id)
            job = await begin(pool, tmp_path, "begun")
            job.cancel()
            await asyncio.wait([job])
            assert job.cancelled()
            following = asyncio.create_task(pool.run(jobs.process_id))
            await until(lambda: pool.waiting == 1)  # for the end of the job that was cancelled
            (tmp_path / "go").touch()
            assert await following == worker

    asyncio.run(cancel())


def test_a_worker_is_not_lost_when_a_job_is_cancelled_at_its_turn(tmp_path: Path) -> None:
    async def cancel(steps: int) -> None:
        async with open_pool() as pool:
            folder = tmp_path / str(steps)
            folder.mkdir()
            first = await begin(pool, folder, "first")
            cancelled, last = (asyncio.create_task(pool.run(jobs.echo, number)) for number in range(2))
            await until(lambda: pool.waiting == 2)
            (folder / "go").touch()
            time.sleep(0.2)  # blocks the loop, so that the answer of the first job is there at its next step
            for _ in range(steps):
                await asyncio.sleep(0)
            cancelled.cancel()
            assert await asyncio.wait_for(last, 20) == 1
            assert await asyncio.wait_for(pool.run(jobs.process_id), 20) == await first

    for steps in range(5):
        asyncio.run(cancel(steps))


def test_an_error_of_a_cancelled_job_is_not_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def cancel() -> None:
        async with open_pool() as pool:
            job = asyncio.create_task(pool.run(jobs.raise_when_there, tmp_path / "begun", tmp_path / "go"))
            await until_there(tmp_path / "begun")
            job.cancel()
            await asyncio.wait([job])
            (tmp_path / "go").touch()
            await pool.run(jobs.nothing)

    asyncio.run(cancel())
    gc.collect()
    assert caplog.messages == []


def test_a_second_process_starts_when_the_first_is_busy_and_stays(tmp_path: Path) -> None:
    async def use_both() -> None:
        async with open_pool(num_workers=3) as pool:
            alone = {await pool.run(jobs.process_id) for _ in range(5)}
            assert len(alone) == len(active_children()) == 1
            first, second = await begin(pool, tmp_path, "first"), await begin(pool, tmp_path, "second")
            (tmp_path / "go").touch()
            both = {await first, await second}
            assert len(both) == 2
            assert alone < both
            later = await asyncio.gather(*(pool.run(jobs.process_id) for _ in range(2)))
            assert set(later) == both
            assert len(active_children()) == 2

    asyncio.run(use_both())


def test_jobs_that_run_or_wait_fail_when_the_pool_is_closed(tmp_path: Path) -> None:
    async def close() -> None:
        async with open_pool() as pool:
            under_way = [await begin(pool, tmp_path, "first"), wait_in(pool, tmp_path, "second")]
            await until(lambda: pool.waiting == 1)
            cancelled = wait_in(pool, tmp_path, "third")
            await until(lambda: pool.waiting == 2)
            cancelled.cancel()
            await pool.close()
            for job in under_way:
                with pytest.raises(QueueFullError, match="being stopped"):
                    await job
            with pytest.raises(QueueFullError, match="being stopped"):
                await pool.run(jobs.nothing)
            assert active_children() == []

    asyncio.run(close())


def test_a_pool_can_be_closed_before_and_while_it_starts() -> None:
    async def close() -> None:
        pool = WorkerPool(jobs.nothing, num_workers=1, max_waiting=1, limits=LIMITS)
        await pool.close()
        for steps in (0, 1, 2, 3, 10, 100):
            pool = WorkerPool(jobs.nothing, num_workers=1, max_waiting=1, limits=LIMITS)
            starting = asyncio.create_task(pool.start())
            for _ in range(steps):
                await asyncio.sleep(0)
            await pool.close()
            with pytest.raises(QueueFullError):
                await starting

    asyncio.run(close())
    assert active_children() == []


def own_resources() -> tuple[int, int, int]:
    """Open files, threads and child processes of this process."""
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count(), len(active_children())


@pytest.mark.parametrize("num_jobs", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_files_and_threads_stay_constant_over_many_jobs(num_jobs: int) -> None:
    async def run_many() -> None:
        before = own_resources()
        async with open_pool(num_workers=2) as pool:
            running, in_worker = own_resources(), await pool.run(jobs.count_own_resources)
            for _ in range(num_jobs // 2):
                await pool.run(jobs.echo, b"some bytes")
                await asyncio.wait([asyncio.create_task(pool.run(jobs.raise_plan_error))])
            assert own_resources() == running
            assert await pool.run(jobs.count_own_resources) == in_worker
            for _ in range(3):
                await asyncio.wait([asyncio.create_task(pool.run(jobs.crash))])
            await pool.run(jobs.nothing)
            assert own_resources() == running
        assert own_resources() == before

    async def warm_up() -> None:  # multiprocessing keeps a process of its own from the first start on
        async with open_pool():
            pass

    asyncio.run(warm_up())
    asyncio.run(run_many())


SCRIPT = """
import asyncio
import signal
from p3iv.errors import P3ivError
from serving.pools import open_pool
from serving import worker_jobs as jobs

async def main():
    async with open_pool(num_workers=2) as pool:
        {}

async def attempt(job):
    try:
        await job
    except P3ivError:
        pass

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start the tests with interrupts ignored
    asyncio.run(main())
"""


def start_script(folder: Path, line: str) -> subprocess.Popen[str]:
    """Start a program that does something with a pool."""
    script = folder / "script.py"
    script.write_text(SCRIPT.format(line))
    environment = {"PYTHONPATH": f"{Path(__file__).parents[1]}:{':'.join(sys.path)}"}
    command = [sys.executable, str(script)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_processes_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    line = "await asyncio.gather(*(pool.run(jobs.show_process_id) for _ in range(2)))"
    with start_script(tmp_path, line) as parent:
        assert parent.stdout is not None
        workers = [int(parent.stdout.readline()) for _ in range(2)]
        parent.kill()
        parent.wait()
        assert becomes_true(lambda: not any(map(is_running, workers))), "a worker outlived its parent"


def test_a_worker_prints_its_messages_and_no_traceback(tmp_path: Path) -> None:
    line = (
        "await attempt(pool.run(jobs.log)); await attempt(pool.run(jobs.raise_plan_error)); "
        "await attempt(pool.run(jobs.fail))"
    )
    with start_script(tmp_path, line) as program:
        printed, messages = program.communicate(timeout=60)
    assert printed == ""
    assert messages.splitlines() == ["A message of a worker.", "job_failed error=ValueError"]


def test_an_interrupt_reaches_the_parent_alone(tmp_path: Path) -> None:
    line = "print(await pool.run(jobs.process_id), flush=True); await asyncio.sleep(60)"
    with start_script(tmp_path, line) as program:
        assert program.stdout is not None
        worker = int(program.stdout.readline())
        for process in (worker, program.pid):  # as a terminal does
            subprocess.run(["kill", f"-{int(signal.SIGINT)}", str(process)], check=True)
        _, messages = program.communicate(timeout=60)
    assert "worker" not in messages
    assert not is_running(worker)
