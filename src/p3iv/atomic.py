"""Outputs are written beside their destination and moved into place when whole."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
