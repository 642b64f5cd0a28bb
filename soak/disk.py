"""Full disks: every command that writes ends with one sentence, and succeeds after room was made."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from soak.kills import Trials, next_point
from soak.processes import Ended, FullAt
from soak.report import Failure, Part

PAGE = 4096


def run_disk(part: Part, trials: Sequence[Trials], *, mount: bool = True) -> None:
    """Let commands run on full disks in turn: one that is simulated, and where possible a small file system."""
    rng = random.Random(part.seed)
    points: dict[str, list[int]] = {one.scenario.name: [] for one in trials}
    done = 0
    while done < part.size:
        for one in trials:
            if part.is_over:
                return
            _simulate(part, one, next_point(rng, points[one.scenario.name], one.num_changes))
            if mount and can_mount():
                _mount_and_run(part, one, rng)
        done += 1


def _simulate(part: Part, trials: Trials, number: int) -> None:
    ended = trials.disturb(hook=FullAt(trials.folder, number))
    _judge(part, trials, ended, {"full from change": number})


def _mount_and_run(part: Part, trials: Trials, rng: random.Random) -> None:
    """Run a command in a file system with less room than it needs."""
    before, after = _size(trials.work / "before"), _size(trials.work / "after")
    pages = rng.randrange(before // PAGE + 1, max(before, after) // PAGE + 4)
    what: dict[str, object] = {"size": pages * PAGE}
    with mounted(trials.folder, pages * PAGE):
        trials.renew()
        ended = trials.disturb()
        subprocess.run(["mount", "-o", "remount,size=64m", str(trials.folder)], check=True)
        _judge(part, trials, ended, what)


def _judge(part: Part, trials: Trials, ended: Ended, what: dict[str, object]) -> None:
    name = trials.scenario.name
    part.count(name, **{"ended with an error" if ended.exit_code else "ended well": 1})
    if ended.exit_code not in (0, 1) or (ended.exit_code and "No space left" not in ended.stderr):
        part.fail(Failure(name, f"exit code {ended.exit_code}: {ended.stderr[-1000:]}", what))
    for problem in trials.problems(ended):
        part.fail(Failure(name, problem, what))


def _size(folder: Path) -> int:
    """What the files below a folder take in a file system of pages."""
    return sum(PAGE + -(-path.stat().st_size // PAGE) * PAGE for path in folder.rglob("*"))


def can_mount() -> bool:
    """Whether this user can mount a file system."""
    return shutil.which("mount") is not None and _mounts()


def _mounts() -> bool:
    words = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@contextmanager
def mounted(folder: Path, size: int) -> Iterator[None]:
    """A small file system at `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=False)
