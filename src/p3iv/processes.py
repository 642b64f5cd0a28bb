"""Worker processes: who gives them work, and how they behave towards the one that started them."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context
from threading import Thread
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_in_pool(
    work: Callable[[Item], Result], waiting: deque[Item], jobs: int, *, is_patient: bool = True
) -> Generator[tuple[Item, Result], None, list[Item]]:
    """Take items from `waiting` until it is empty, or a process dies: then return those that were under way.

    Where the caller is interrupted, what is under way is finished first, unless `is_patient` is False: then its
    processes are ended.
    """
    under_way: dict[Future[Result], Item] = {}
    others = active_children()
    initializer = (os.getpid(),)
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=follow_parent, initargs=initializer) as pool:
        try:
            while waiting or under_way:
                while waiting and len(under_way) < jobs:
                    item = waiting.popleft()
                    under_way[pool.submit(work, item)] = item
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    result = future.result()
                    yield under_way.pop(future), result
        except BrokenProcessPool:
            return list(under_way.values())
        except BaseException:
            for child in active_children():
                if not is_patient and child not in others:
                    child.terminate()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return []


def follow_parent(parent: int) -> None:
    """A worker leaves Ctrl-C to its parent, and ends when that is gone, even killed: else it would wait for ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_exit_without, args=(parent,), daemon=True).start()


def _exit_without(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
