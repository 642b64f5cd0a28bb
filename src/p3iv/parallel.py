"""Work spread over Ray: a cluster on this machine, or one that runs elsewhere.

The nodes of a cluster need this package, and whatever folders the work names under the same paths; results come back
through Ray.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from threading import Thread
from typing import Any, TypeVar

from p3iv.errors import ConfigError, MissingExtraError

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


try:
    import ray
    from ray.exceptions import RayError, RayTaskError
except ImportError as error:
    raise MissingExtraError("ray", "ray", "--engine ray") from error

_PATIENCE_S = 10.0

_RETRIES = 3  # of an item whose worker, or whose node, was lost


@dataclass(frozen=True)
class Lost:
    """In place of a result: the workers that had the item died every time."""

    why: str


def run_on_cluster(
    work: Callable[[Item], Result], waiting: deque[Item], *, address: str | None, jobs: int
) -> Iterator[tuple[Item, Result | Lost]]:
    """Take items from `waiting`, to which the caller may add, and yield each with its result as it is done."""
    _connect(address, jobs)
    try:
        remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(work)
        under_way: dict[Any, Item] = {}
        while waiting or under_way:
            while waiting and len(under_way) < 2 * _num_workers():  # the next item is there when a worker is free
                item = waiting.popleft()
                under_way[remote.remote(item)] = item
            [done], _ = ray.wait(list(under_way), num_returns=1)
            item = under_way.pop(done)
            try:
                result: Result | Lost = ray.get(done)
            except RayTaskError as error:
                raise error.as_instanceof_cause() from error  # type: ignore[no-untyped-call]
            except RayError as error:
                result = Lost(type(error).__name__)
            yield item, result
    finally:
        ray.shutdown()


def _connect(address: str | None, jobs: int) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns about a coming change
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing of a user's machine is reported unasked
        # "local", because without an address Ray joins the cluster that the machine last heard of, dead or alive
        ray.init(address="local", num_cpus=jobs, include_dashboard=False, **options)
        return
    _require_answer(address)
    try:
        ray.init(address=address, **options)
    except (OSError, ValueError, RuntimeError, RayError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"--address {address}: this cluster cannot be joined ({reason}). It needs the same versions of Ray and "
            f"Python as here and, where it asks for a token, the same one in RAY_AUTH_TOKEN with RAY_AUTH_MODE=token."
        ) from error


def _require_answer(address: str) -> None:
    """Whether anybody listens there: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE_S).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"--address {address}: no Ray cluster answers there ({error}). Give HOST:PORT of its head node, auto for "
            f"the one on this machine, or leave the option out to start one here."
        ) from error


def _num_workers() -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))  # type: ignore[no-untyped-call]
