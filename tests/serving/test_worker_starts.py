"""Processes beyond the first start beside the jobs: no job waits for a start while another process is free."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from pathlib import Path

import pytest

from p3iv.errors import PlanError
from p3iv.serving.workers import WorkerDiedError
from serving import worker_jobs as jobs
from serving.pools import open_pool, until_there


def test_a_job_takes_the_process_that_is_free_first(tmp_path: Path) -> None:
    begun, go, allowed = (tmp_path / name for name in ("begun", "go", "allowed"))

    async def scenario() -> None:
        allowed.touch()
        async with open_pool(partial(jobs.wait_until_there, tmp_path / "starts", allowed), num_workers=2) as pool:
            first = await pool.run(jobs.process_id)
            allowed.unlink()  # the second process will not get ready
            busy = asyncio.create_task(pool.run(jobs.wait_until_there, begun, go))
            await until_there(begun)
            waiting = asyncio.create_task(pool.run(jobs.process_id))
            await asyncio.sleep(0.1)
            assert pool.waiting == 1
            go.touch()
            assert await busy == first
            assert await waiting == first
            allowed.touch()

    asyncio.run(scenario())


def test_a_process_that_dies_costs_the_job_that_it_had_and_no_other(tmp_path: Path) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"

    async def scenario() -> None:
        async with open_pool() as pool:
            process = await pool.run(jobs.process_id)
            first = asyncio.create_task(pool.run(jobs.wait_until_there, begun, go))
            await until_there(begun)
            waiting = [asyncio.create_task(pool.run(jobs.echo, number)) for number in range(3)]
            await asyncio.sleep(0)
            os.kill(process, signal.SIGKILL)
            with pytest.raises(WorkerDiedError):
                await first
            assert await asyncio.gather(*waiting) == [0, 1, 2]

    asyncio.run(scenario())


def test_all_jobs_that_wait_for_a_process_hear_that_it_cannot_be_set_up(tmp_path: Path) -> None:
    begun, go, broken = (tmp_path / name for name in ("begun", "go", "broken"))

    async def scenario() -> None:
        async with open_pool(partial(jobs.fail_if_there, broken)) as pool:
            process = await pool.run(jobs.process_id)
            first = asyncio.create_task(pool.run(jobs.wait_until_there, begun, go))
            await until_there(begun)
            waiting = [asyncio.create_task(pool.run(jobs.echo, number)) for number in range(3)]
            await asyncio.sleep(0)
            broken.touch()
            os.kill(process, signal.SIGKILL)
            with pytest.raises(WorkerDiedError):
                await first
            found = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(each) for each in found] == [PlanError] * 3
            broken.unlink()
            assert await pool.run(jobs.echo, 4) == 4

    asyncio.run(scenario())
