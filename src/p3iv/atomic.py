"""Outputs are written beside their destination and moved into place when whole."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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


def _replace_folder(new: Path, path: Path) -> None:
    if not path.exists():
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
