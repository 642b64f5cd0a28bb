"""Notices that any process opens a file, through inotify of Linux."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_OPENED, _NONBLOCK = 0x20, os.O_NONBLOCK  # IN_OPEN and IN_NONBLOCK of sys/inotify.h


class OpenedFile:
    """A file that is watched."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @property
    def was_opened(self) -> bool:
        """Whether it was opened since this was asked last."""
        with suppress(BlockingIOError):
            return bool(os.read(self._handle, 1 << 16))
        return False


@contextmanager
def watching(path: Path) -> Iterator[OpenedFile]:
    """Watch a file during a block."""
    library = ctypes.CDLL(None, use_errno=True)
    handle = library.inotify_init1(_NONBLOCK)
    try:
        if handle < 0 or library.inotify_add_watch(handle, os.fsencode(path), _OPENED) < 0:
            raise OSError(ctypes.get_errno(), "inotify")
        yield OpenedFile(handle)
    finally:
        os.close(handle)
