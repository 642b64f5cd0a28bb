"""One function over many items: every engine gives the same results, and a worker that dies costs only its item."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from p3iv.errors import ConfigError
from p3iv.parallel import WorkerLost, check_engine, run


def square(number: int) -> int:
    if number == 13:
        os._exit(1)
    if number == 99:
        raise ValueError(number)
    return number * number


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_item_has_its_result_and_an_exception_is_raised(jobs: int) -> None:
    assert dict(run(square, range(4), jobs=jobs)) == {0: 0, 1: 1, 2: 4, 3: 9}
    assert dict(run(square, [], jobs=jobs)) == {}
    with pytest.raises(ValueError, match="99"):
        list(run(square, [1, 99], jobs=jobs))


def test_a_process_that_dies_costs_one_item() -> None:
    results = dict(run(square, [1, 13, 2, 3], jobs=2))
    assert results.pop(13) == WorkerLost("the process died twice")
    assert results == {1: 1, 2: 4, 3: 9}


@pytest.mark.slow
def test_ray_gives_the_same_results_and_survives_a_worker_that_dies() -> None:
    pytest.importorskip("ray")
    results = dict(run(square, [1, 13, 2], engine="ray"))
    lost = results.pop(13)
    assert isinstance(lost, WorkerLost)
    assert lost.reason.startswith("the workers died")
    assert results == {1: 1, 2: 4}


def test_an_engine_and_its_options_are_checked() -> None:
    for arguments, message in (
        (("spark", None), "--engine spark, but it must be one of local, ray"),
        (("local", "auto"), "pass --engine ray"),
        (("ray", "auto", 2), "--jobs 2, but the cluster at auto"),
    ):
        with pytest.raises(ConfigError, match=message):
            check_engine(*arguments)


SCRIPT = """
import os, time
from p3iv.parallel import run
def process_id(_):
    return os.getpid()
if __name__ == "__main__":
    for _, worker in run(process_id, range(9), jobs=2):
        print(worker, flush=True)
        time.sleep(60)
"""


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    from processes import becomes_true, is_running  # here, because Ray imports this module with another path

    (tmp_path / "script.py").write_text(SCRIPT)
    with subprocess.Popen([sys.executable, str(tmp_path / "script.py")], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        assert becomes_true(lambda: not is_running(worker)), "the worker outlived its parent"
