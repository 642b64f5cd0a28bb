"""The worker pool: results and errors, limits, processes that die, and answers that are not trusted."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clips import write_clip
from p3iv.errors import FeatureError, MissingExtraError, PlanError
from p3iv.serving.plain_values import pack_value
from p3iv.serving.workers import JobTooLongError, WorkerDiedError, WorkerLimits
from serving import worker_jobs as jobs
from serving.pools import LIMITS, open_pool, until, until_there

MIB = 2**20


def frame(content: bytes) -> bytes:
    """An answer as it goes through the channel."""
    return len(content).to_bytes(8, "big") + content


async def outcome(
    work: Callable[..., Any], *args: object, set_up: Callable[[], object] = jobs.nothing, limits: WorkerLimits = LIMITS
) -> Any:
    """The result of one job in a new pool, which must be usable after it."""
    async with open_pool(set_up, limits=limits) as pool:
        try:
            return await pool.run(work, *args)
        finally:
            assert await pool.run(jobs.echo, "usable") == "usable"


def test_a_job_returns_plain_values_and_known_dataclasses() -> None:
    value = (None, 2.5, b"bytes", [True, {"key": "text"}], jobs.Facts("clip", 2.5, jobs.Size(4, None), b"\xff"))
    assert asyncio.run(outcome(jobs.echo, value)) == value


def test_jobs_run_under_the_event_loop_that_a_server_may_choose() -> None:
    uvloop = pytest.importorskip("uvloop")
    assert uvloop.run(outcome(jobs.echo, b"bytes" * 2**20)) == b"bytes" * 2**20
    with pytest.raises(WorkerDiedError):
        uvloop.run(outcome(jobs.crash))


def test_a_job_returns_arrays_of_megabytes() -> None:
    found = asyncio.run(outcome(jobs.make_array, 3, 2**20, limits=replace(LIMITS, memory_bytes=200 * MIB)))
    assert found.dtype == np.float32
    assert (found == jobs.make_array(3, 2**20)).all()


def test_a_project_error_of_a_job_is_raised() -> None:
    async def try_all() -> None:
        async with open_pool() as pool:
            with pytest.raises(PlanError, match="Two videos, but one is needed"):
                await pool.run(jobs.raise_plan_error)
            with pytest.raises(MissingExtraError, match="Reading video needs PyAV"):
                await pool.run(jobs.raise_missing_extra)
            with pytest.raises(FeatureError, match="Only the worker knows this class"):
                await pool.run(jobs.raise_unknown_error)

    asyncio.run(try_all())


@pytest.mark.parametrize(("work", "name"), [(jobs.fail, "ValueError"), (jobs.return_path, "TypeError")])
def test_another_exception_is_logged_by_its_type_alone(
    work: Callable[[], object], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(FeatureError, match="cannot be read") as raised:
        asyncio.run(outcome(work))
    assert "secret" not in str(raised.value)
    assert caplog.record_tuples == [("p3iv.serving", logging.ERROR, f"job_failed error={name}")]


def test_a_job_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    limits, begun, never = replace(LIMITS, wall_s=1.5), tmp_path / "begun", tmp_path / "never"
    with pytest.raises(JobTooLongError, match=r"longer than 1\.5 seconds"):
        asyncio.run(outcome(jobs.wait_until_there, begun, never, limits=limits))


def test_a_job_that_computes_too_much_is_ended() -> None:
    with pytest.raises(JobTooLongError, match="more than 1 seconds of CPU time"):
        asyncio.run(outcome(jobs.compute_forever, limits=replace(LIMITS, cpu_s=1)))


def test_the_cpu_time_of_earlier_jobs_does_not_count() -> None:
    async def compute_three_times() -> list[int]:
        async with open_pool(limits=replace(LIMITS, cpu_s=1)) as pool:
            return [await pool.run(jobs.compute_for, 0.5) for _ in range(3)]

    assert len(set(asyncio.run(compute_three_times()))) == 1  # in one process


@pytest.mark.parametrize("work", [jobs.use_memory, jobs.hide_lack_of_memory])
def test_a_job_that_needs_too_much_memory_is_ended(work: Callable[[int], object]) -> None:
    with pytest.raises(WorkerDiedError, match="more memory than the 100 MiB"):
        asyncio.run(outcome(work, 1024 * MIB))


def test_a_process_that_ran_out_of_memory_is_replaced() -> None:
    async def use_too_much() -> None:
        async with open_pool() as pool:
            worker = await pool.run(jobs.process_id)
            with pytest.raises(WorkerDiedError):
                await pool.run(jobs.use_memory, 1024 * MIB)
            assert await pool.run(jobs.process_id) != worker

    asyncio.run(use_too_much())


def test_a_job_may_use_the_memory_that_it_is_given() -> None:
    assert asyncio.run(outcome(jobs.use_memory, 80 * MIB)) == 1


def test_the_memory_of_set_up_does_not_count() -> None:
    assert asyncio.run(outcome(jobs.use_memory, 80 * MIB, set_up=jobs.keep_memory)) == 1


def test_a_crash_costs_one_job(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(WorkerDiedError, match="ended unexpectedly"):
        asyncio.run(outcome(jobs.crash))
    assert [record.message for record in caplog.records] == [f"worker_died exit_code={-signal.SIGSEGV}"]


def test_a_process_that_is_killed_is_replaced(tmp_path: Path) -> None:
    async def kill() -> None:
        begun, never = tmp_path / "begun", tmp_path / "never"
        async with open_pool() as pool:
            job = asyncio.create_task(pool.run(jobs.wait_until_there, begun, never))
            await until_there(begun)
            [worker] = active_children()
            worker.kill()
            with pytest.raises(WorkerDiedError):
                await job
            first = await pool.run(jobs.process_id)
            os.kill(first, signal.SIGKILL)  # while it has nothing to do
            await until(lambda: not active_children())
            assert await pool.run(jobs.process_id) != first

    asyncio.run(kill())


def test_an_error_of_set_up_is_raised_at_the_start_and_by_the_job_that_needs_a_new_process(tmp_path: Path) -> None:
    async def lose_encoder() -> None:
        missing = tmp_path / "missing"
        async with open_pool(partial(jobs.fail_if_there, missing)) as pool:
            missing.touch()
            assert await pool.run(jobs.echo, 1) == 1
            with pytest.raises(WorkerDiedError):
                await pool.run(jobs.crash)
            for _ in range(2):
                with pytest.raises(PlanError, match="There is no encoder"):
                    await pool.run(jobs.echo, 1)
            missing.unlink()
            assert await pool.run(jobs.echo, 1) == 1

    asyncio.run(lose_encoder())
    (tmp_path / "missing").touch()
    for set_up, error in (
        (partial(jobs.fail_if_there, tmp_path / "missing"), PlanError),
        (jobs.fail, WorkerDiedError),
        (jobs.crash, WorkerDiedError),
    ):
        with pytest.raises(error):
            asyncio.run(outcome(jobs.nothing, set_up=set_up))
    assert active_children() == []


class Malicious:
    """What unpickles to a call: it would end the process of the tests."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (3,)


@pytest.mark.parametrize(
    "content",
    [
        b"no length and no value",
        (2**40).to_bytes(8, "big"),
        frame(pickle.dumps(Malicious())),
        frame(pack_value("not one of the answers")),
        frame(pack_value(("result", LIMITS))),
    ],
)
def test_an_answer_that_is_not_a_plain_value_is_refused(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(WorkerDiedError, match="ended unexpectedly"):
        asyncio.run(outcome(jobs.answer_with, content))
    assert [record.message for record in caplog.records] == ["worker_answer_refused"]


def test_an_answer_makes_no_object_but_errors_of_the_project() -> None:
    async def forge(name: str, *args: str) -> None:
        async with open_pool() as pool:
            await pool.run(jobs.answer_with, frame(pack_value(("error", name, args, "the message"))))

    for name, args in (("SystemExit", ["1"]), ("MissingExtraError", ["too", "few"]), ("ServiceError", ["999", "text"])):
        with pytest.raises(FeatureError, match="the message"):
            asyncio.run(forge(name, *args))


def test_a_process_is_confined(tmp_path: Path) -> None:
    found = asyncio.run(outcome(jobs.try_forbidden, tmp_path))
    assert found.pop("opened") < 64
    assert found == {"written": 0, "no_new_privileges": True}


@pytest.mark.usefixtures("capfd")  # with which the output goes to a file
def test_a_job_may_print_when_the_output_goes_to_a_file() -> None:
    assert asyncio.run(outcome(jobs.print_much)) is None


@pytest.mark.parametrize("set_up", [jobs.nothing, jobs.import_libraries])
def test_the_libraries_work_in_a_confined_process(set_up: Callable[[], object], tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", sides[:1], sides[1:])
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    write_clip(tmp_path / "clip.mp4", range(0, 400, 40))
    limits = replace(LIMITS, memory_bytes=1024 * MIB)
    found = asyncio.run(outcome(jobs.use_libraries, tmp_path / "clip.mp4", network, set_up=set_up, limits=limits))
    assert found == {"frames": 10, "size": (128, 32), "maps": (10, 8, 30, 126), "doubled": [2.0, 2.0, 2.0]}


def test_torch_in_want_of_memory() -> None:
    with pytest.raises(WorkerDiedError, match="more memory than the 100 MiB"):
        asyncio.run(outcome(jobs.use_memory_of_torch, 1024 * MIB, set_up=jobs.import_libraries))
