"""Worker pools of tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from p3iv.serving.workers import WorkerLimits, WorkerPool
from serving.worker_jobs import Facts, Size, nothing

LIMITS = WorkerLimits(memory_bytes=100 * 2**20, cpu_s=60, wall_s=60)


@asynccontextmanager
async def open_pool(
    set_up: Callable[[], object] = nothing, *, num_workers: int = 1, max_waiting: int = 9, limits: WorkerLimits = LIMITS
) -> AsyncIterator[WorkerPool]:
    """A pool that has been started and is closed at the end."""
    pool = WorkerPool(set_up, num_workers=num_workers, max_waiting=max_waiting, limits=limits, results=[Facts, Size])
    try:
        await pool.start()
        yield pool
    finally:
        await pool.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is met."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "waited for too long"
        await asyncio.sleep(0.01)


async def until_there(*paths: Path) -> None:
    """Wait until there are such files."""
    await until(lambda: all(path.exists() for path in paths))
