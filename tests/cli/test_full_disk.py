"""A disk that is full ends a command with one sentence; after making room, the command can be run again."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from commands import RunP3iv
from p3iv.data.folder import open_dataset

TRAIN = ("--preset", "tiny", "--split", "release", "--planner", "retrieval")


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A function that mounts a file system of the given size."""
    folder = tmp_path / "small"
    folder.mkdir()

    def mount_size(size: str) -> Path:
        words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        if shutil.which("mount") is None or subprocess.run(words, capture_output=True, check=False).returncode != 0:
            pytest.skip("this user cannot mount a small file system")
        return folder

    yield mount_size
    subprocess.run(["umount", str(folder)], capture_output=True, check=False)


@pytest.mark.parametrize("size", ["8k", "40k", "100k"])
def test_training(mount: Callable[[str], Path], p3iv: RunP3iv, tabletop: Path, size: str) -> None:
    small = mount(size)
    done = p3iv("train", tabletop, "--out", small / "run", *TRAIN)
    assert done.returncode == 1
    (sentence,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert "No space left on device" in sentence
    assert "Make room" in sentence
    assert not list(small.rglob("*.part"))
    subprocess.run(["mount", "-o", "remount,size=4m", str(small)], check=True)
    assert p3iv("train", tabletop, "--out", small / "run", "--resume", *TRAIN).returncode == 0


def test_other_commands(mount: Callable[[str], Path], p3iv: RunP3iv, tabletop: Path, p3iv_run: Path) -> None:
    small = mount("16m")
    run, data = Path(shutil.copytree(p3iv_run, small / "run")), Path(shutil.copytree(tabletop, small / "tabletop"))
    before = {name: (run / name).read_bytes() for name in ("evaluation.json", "predictions.jsonl")}
    with pytest.raises(OSError, match="No space left"), (small / "fill").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(100))
    for words in (
        ("evaluate", run, "--samples", "20"),
        ("report", run),
        ("data", "import", "folder", tabletop, small / "data"),
        ("data", "import", "folder", tabletop, data, "--overwrite"),
        ("data", "simulate", data, "--overwrite"),
        ("align", data),
        ("reproduce", "unique-plans", "--data", tabletop, "--out", small / "tables"),
    ):
        done = p3iv(*words)
        assert done.returncode == 1
        assert [line.startswith("error: ") for line in done.stderr.splitlines() if "note:" not in line] == [True]
        assert "No space left on device" in done.stderr
    assert open_dataset(data).card == open_dataset(tabletop).card
    assert before == {name: (run / name).read_bytes() for name in before}
    assert not list(small.rglob("*.part"))
