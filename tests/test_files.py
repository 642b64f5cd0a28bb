from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from p3iv.config import override, preset_config
from p3iv.data.folder import open_dataset
from p3iv.errors import BusyError
from p3iv.experiments.compare import CompareRequest, compare
from p3iv.experiments.reproduce import ReproduceRequest, reproduce
from p3iv.files import held, lock_of
from p3iv.training.loop import TrainRequest, train

HOLD = """
import sys, time
from pathlib import Path
from p3iv.files import held
with held(Path(sys.argv[1]), doing="waits"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_second_is_told_and_the_lock_goes_with_the_first_even_killed(tmp_path: Path) -> None:
    lock = lock_of(tmp_path / "new" / "run")
    with subprocess.Popen([sys.executable, "-c", HOLD, lock], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with (
            pytest.raises(BusyError, match=r"Another process waits in run\. Wait until"),
            held(lock, doing="waits in run"),
        ):
            pytest.fail("two at once")
        other.kill()
    with held(lock, doing="waits"):
        assert lock.exists()
    assert not any(lock.parent.iterdir())


def test_never_two_at_once_though_each_removes_the_file(tmp_path: Path) -> None:
    inside: list[int] = []
    most, times = [0], [0]

    def come_and_go() -> None:
        for _ in range(200):
            try:
                with held(lock_of(tmp_path / "run"), doing="is there"):
                    inside.append(1)
                    most[0] = max(most[0], len(inside))
                    times[0] += 1
                    inside.pop()
            except BusyError:
                pass

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert times[0] > 0


def test_a_run_a_comparison_and_a_reproduction_have_one_writer(tabletop: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    config = override(preset_config("tiny"), {"planner": "random", "data.split": "release"})
    writers: list[Callable[[], object]] = [
        lambda: train(TrainRequest(open_dataset(tabletop), out, config)),
        lambda: compare(CompareRequest(tabletop, out, {"random": config}, ("random",))),
        lambda: reproduce(ReproduceRequest(("unique-plans",), (tabletop,), out)),
    ]
    for write in writers:
        with held(lock_of(out), doing="was first"), pytest.raises(BusyError, match=f"Another process is .* in {out}"):
            write()
        assert not out.exists()
