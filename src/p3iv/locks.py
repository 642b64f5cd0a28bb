"""One process at a time in a folder: two that write the same run or the same table would spoil each other's work."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from p3iv.errors import BusyError


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
