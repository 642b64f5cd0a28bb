from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from p3iv.config import override, preset_config
from p3iv.data.folder import open_dataset
from p3iv.errors import BusyError, ConfigError, MissingExtraError
from p3iv.experiments.compare import CompareRequest, compare
from p3iv.experiments.reproduce import ReproduceRequest, reproduce
from p3iv.files import exclusive, remove_leftovers, remove_leftovers_in
from p3iv.training.loop import TrainRequest, train

HOLD = """
import sys, time
from pathlib import Path
from p3iv.files import exclusive, remove_leftovers
with exclusive(Path(sys.argv[1]), doing="waits"):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_the_second_process_is_refused_until_the_first_ends_even_killed(tmp_path: Path) -> None:
    run = tmp_path / "new" / "run"
    with subprocess.Popen([sys.executable, "-c", HOLD, run], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with (
            pytest.raises(BusyError, match=r"Another process waits in run\. Wait until"),
            exclusive(run, doing="waits in run"),
        ):
            pytest.fail("two at once")
        other.kill()
    with exclusive(run, doing="waits"):
        assert [path.name for path in run.parent.iterdir()] == [".run.lock"]
    assert not any(run.parent.iterdir())


def test_a_folder_that_cannot_be_written_is_not_said_to_be_busy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"x cannot be written: .*file is a file, not a folder\."):
        exclusive(tmp_path / "file" / "y" / "x", doing="is there").__enter__()
    if Path("/proc/self").exists():
        with pytest.raises(ConfigError, match=r"/proc/x cannot be written: "):
            exclusive(Path("/proc/x"), doing="is there").__enter__()


def test_two_threads_never_hold_one_lock_though_each_deletes_its_file(tmp_path: Path) -> None:
    inside: list[int] = []
    most, times = [0], [0]

    def come_and_go() -> None:
        for _ in range(200):
            try:
                with exclusive(tmp_path / "run", doing="is there"):
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


def test_threads_that_wait_for_a_lock_all_get_it_one_after_the_other(tmp_path: Path) -> None:
    inside: list[int] = []
    times: list[int] = []

    def come_and_go() -> None:
        for _ in range(25):
            with exclusive(tmp_path / "file", doing="is there", wait=True):
                inside.append(1)
                times.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=come_and_go) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert times == [1] * 75


def test_a_run_a_comparison_and_a_reproduction_have_one_writer(tabletop: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    config = override(preset_config("tiny"), {"planner": "random", "data.split": "release"})
    writers: list[Callable[[], object]] = [
        lambda: train(TrainRequest(open_dataset(tabletop), out, config)),
        lambda: compare(CompareRequest(tabletop, out, planners=("random",))),
        lambda: reproduce(ReproduceRequest(("unique-plans",), (tabletop,), out)),
    ]
    for write in writers:
        with exclusive(out, doing="was first"), pytest.raises(BusyError, match=f"Another process is .* in {out}"):
            write()
        assert not out.exists()


def test_a_folder_that_was_moved_away_but_not_replaced_is_moved_back(tmp_path: Path) -> None:
    was = tmp_path / ".data.abcdefgh.old" / "was"
    was.mkdir(parents=True)
    (was / "steps.csv").touch()
    (tmp_path / ".data.abcdefgh.part").mkdir()
    (tmp_path / ".other.abcdefgh.part").mkdir()
    remove_leftovers(tmp_path / "data")
    assert (tmp_path / "data" / "steps.csv").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.abcdefgh.part", "data"]


def test_a_folder_that_was_replaced_is_removed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in (".data.abcdefgh.old", "..data.abcdefgh.part.abcdefgh.old"):
        (tmp_path / name / "was" / "features").mkdir(parents=True)
    (tmp_path / ".data.hgfedcba.part").touch()
    remove_leftovers(tmp_path / "data")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert not any((tmp_path / "data").iterdir())


def test_leftovers_anywhere_in_a_folder_are_removed_except_those_of_running_processes(tmp_path: Path) -> None:
    left = [
        ".runs.csv.abcdefgh.part",
        "tables/.a.csv.abcdefgh.part",
        "runs/done/.scores_k3.npz.abcdefgh.part",
        "runs/.new.abcdefgh.part",
        "runs/stale/checkpoints/.x.abcdefgh.part",
    ]
    kept = [
        "runs/training/.trained.json.abcdefgh.part",
        "runs/.training.abcdefgh.part",
        "runs/reported/.report.html.abcdefgh.part",
        "runs/done/trained.json",
        "runs/done/.hidden",
    ]
    for name in (*left, *kept):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "runs" / ".stale.lock").touch()  # of a killed process
    with (
        exclusive(tmp_path / "runs" / "training", doing="is training"),
        exclusive(tmp_path / "runs" / "reported" / "report.html", doing="is writing a report"),
    ):
        remove_leftovers_in(tmp_path)
        files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert {name for name in files if not name.endswith(".lock")} == set(kept)
    remove_leftovers_in(tmp_path / "missing")


def test_errors_can_be_sent_to_another_process() -> None:
    error = MissingExtraError("ray", "ray", "--engine ray")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301
    error = MissingExtraError("a and b", "x", "This", "or do without")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301
    assert str(error) == "This needs a and b, which are not installed. Type: pip install 'p3iv[x]' (or do without)"
