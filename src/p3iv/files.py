"""Writing files and folders as a whole, and locks that let one process write at a time."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from p3iv.errors import BusyError, ConfigError

LEFTOVER = re.compile(r"\.(?P<name>.+)\.[a-z0-9_]{8}\.(part|old)")  # the temporary name of unfinished work on `name`
_LOCK = re.compile(r"\.(?P<name>.+)\.lock")
_OLD = "was"  # in a folder .NAME.xxxxxxxx.old: the folder that is being replaced


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it replaces `path` if the block succeeds and is deleted if it fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary folder beside `path`; it replaces `path` and its content if the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        _replace_folder(temporary, path)
        _sync_folder(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a complete text file or nothing."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def is_leftover(path: Path) -> bool:
    """Whether the name of a folder says that a killed process left it unfinished."""
    return LEFTOVER.fullmatch(Path(os.path.realpath(path)).name) is not None


def leftovers_of(path: Path) -> list[Path]:
    """The temporary files and folders that killed processes left beside `path` while writing it."""
    path = Path(os.path.realpath(path))  # unlike resolve(), it accepts a link to itself
    beside = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
    return [other for other in beside if other.name != path.name and _final_name(other.name) == path.name]


def remove_leftovers(path: Path) -> None:
    """Delete what killed processes left beside `path`; only for the process that alone may write `path`.

    A folder that was moved away, but not yet replaced, is moved back.
    """
    path = Path(os.path.realpath(path))
    for left in leftovers_of(path):
        match = LEFTOVER.fullmatch(left.name)
        if match and match["name"] == path.name and (left / _OLD).exists() and not os.path.lexists(path):
            (left / _OLD).rename(path)
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def remove_leftovers_in(folder: Path) -> None:
    """Delete what killed processes left anywhere in `folder`; only for the process that has locked it.

    What another process has locked in it, and what is beside a locked file, stays.
    """
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    lockable = [match["name"] for match in map(_LOCK.fullmatch, names) if match]
    busy = {name for name in lockable if _is_locked(folder / name)}
    if any(not (folder / name).is_dir() for name in busy):
        return
    for name in names:
        if LEFTOVER.fullmatch(name):
            if _final_name(name) not in busy:
                remove_leftovers(folder / _final_name(name))
        elif name not in busy and (folder / name).is_dir() and not (folder / name).is_symlink():
            remove_leftovers_in(folder / name)


def _is_locked(path: Path) -> bool:
    try:
        with exclusive(path, doing=""):
            return False
    except (BusyError, ConfigError):
        return True


def _final_name(name: str) -> str:
    """The name that unfinished work was meant to get; temporary names nest when an unfinished folder is replaced."""
    while match := LEFTOVER.fullmatch(name):
        name = match["name"]
    return name


def _replace_folder(new: Path, path: Path) -> None:
    if not os.path.lexists(path):
        new.rename(path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".old", dir=path.parent))
    path.rename(old / _OLD)
    try:
        new.rename(path)
    except OSError:
        (old / _OLD).rename(path)
        raise
    (old / _OLD).rename(old / "replaced")  # so that a folder named `was` is whole
    shutil.rmtree(old)


def _sync_folder(path: Path) -> None:
    if os.name == "nt":  # Windows cannot open a folder
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_writable(path: Path, lock_path: Path) -> None:
    """Make the folder of `path` and the lock file, without which FileLock says that another process has the lock."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock_path.touch()
    except (FileExistsError, NotADirectoryError, FileNotFoundError, PermissionError) as error:
        file = next((folder for folder in path.parents if folder.is_file()), None)
        full = f"{path.parent} takes no new files" if isinstance(error, FileNotFoundError) else error.strerror
        reason = f"{file} is a file, not a folder" if file else full
        raise ConfigError(f"{path} cannot be written: {reason}.") from error


@contextmanager
def exclusive(path: Path, *, doing: str, wait: bool = False) -> Iterator[None]:
    """Allow one process at a time to write `path`; the operating system frees the lock of a killed process.

    The lock is a file beside `path`, so that `path` may be missing or be replaced as a whole. It is deleted at the end.

    Args:
        path: The file or folder that the block writes.
        doing: What the process does that holds the lock, for the error message of the second: "is training in RUN".
        wait: Wait for the lock; for what takes less than a second.

    Raises:
        BusyError: another process, or another thread of this one, holds the lock.
        ConfigError: the folder of `path` cannot be made or written.
    """
    path = Path(os.path.realpath(path))
    lock_path = path.parent / f".{path.name}.lock"
    _make_writable(path, lock_path)
    lock = FileLock(lock_path)
    try:
        lock.acquire(blocking=wait, poll_interval=0.01)
    except Timeout as error:
        raise BusyError(
            f"Another process {doing}. Wait until it has ended, or stop it; then run the same command again."
        ) from error
    try:
        yield
    finally:
        with suppress(OSError):  # Windows does not delete an open file; the lock works without
            lock_path.unlink()  # before the release: FileLock does not accept a lock on a deleted file
        lock.release()
