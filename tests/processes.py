"""Processes that tests look at from outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def is_running(process: int) -> bool:
    """Return whether a process still runs; one that has ended may remain as a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def becomes_true(condition: Callable[[], bool], *, timeout_s: float = 10.0) -> bool:
    """Return whether a condition is met in time."""
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
