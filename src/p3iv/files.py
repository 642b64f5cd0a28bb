"""One process at a time in a folder: two that write the same run or the same table would spoil each other's work."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from p3iv.errors import BusyError

LEFTOVER = re.compile(r"\.(?P<name>.+)\.[a-z0-9_]{8}\.(part|old)")  # what a killed process leaves of `name`


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a path beside `path`; it replaces `path` if the block ends well and vanishes if it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    beside = Path(name)
    try:
        yield beside
        beside.chmod(0o644)
        _sync(beside)
        beside.replace(path)
        _sync(path.parent)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`; it takes the place of `path` and all in it if the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    try:
        yield beside
        beside.chmod(0o755)
        _replace_folder(beside, path)
        _sync(path.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a whole text file or none."""
    with whole_file(path) as beside:
        beside.write_text(text, encoding="utf-8")


def is_leftover(path: Path) -> bool:
    """Whether a folder is what a killed process left of its unfinished work, by its name."""
    return LEFTOVER.fullmatch(Path(os.path.realpath(path)).name) is not None


def leftovers_of(path: Path) -> list[Path]:
    """What killed processes left beside `path` when they were writing it."""
    path = Path(os.path.realpath(path))  # unlike resolve(), it bears a link that leads to itself
    beside = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
    return [other for other in beside if other.name != path.name and _wanted_name(other.name) == path.name]


def _wanted_name(name: str) -> str:
    """The name that unfinished work was to have; a folder in the making may itself be replaced as a whole."""
    while match := LEFTOVER.fullmatch(name):
        name = match["name"]
    return name


def _replace_folder(new: Path, path: Path) -> None:
    if not os.path.lexists(path):
        new.rename(path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".old", dir=path.parent))
    path.rename(old / "was")
    try:
        new.rename(path)
    except OSError:
        (old / "was").rename(path)
        raise
    shutil.rmtree(old)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock_of(folder: Path) -> Path:
    """The lock file of a folder: beside it, so that the folder may be empty, or be replaced as a whole."""
    folder = Path(os.path.realpath(folder))
    return folder.parent / f".{folder.name}.lock"


@contextmanager
def held(lock: Path, *, doing: str) -> Iterator[None]:
    """Hold a lock file while the block runs; the lock goes with the process, even killed.

    Args:
        lock: The file. It is made, and its folder too, and removed at the end.
        doing: What a process that holds it is at, for the one that comes second: "is at work in FOLDER".

    Raises:
        BusyError: where another process has it.
    """
    while True:
        lock.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = lock.open("a", encoding="utf-8")
        except FileNotFoundError:
            continue  # the one that ended has just removed the folder
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BusyError(
                    f"Another process {doing}. Wait until it has ended, or stop it; then run the same command again."
                ) from error
            if _is_still_there(lock, file.fileno()):
                try:
                    yield
                finally:
                    lock.unlink(missing_ok=True)
                return


def _is_still_there(path: Path, handle: int) -> bool:
    """Whether the file that was locked is the one under its name: who ends removes it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False
