"""Run one function over many items: in this process, in several processes, or on a Ray cluster.

The nodes of a cluster need this package and see the same folders under the same paths. Results come back through Ray.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from threading import Thread
from typing import Any, TypeVar

from p3iv.catalogue import ENGINES
from p3iv.errors import ConfigError, one_of, require_modules

_CONNECT_TIMEOUT_S = 10.0
_RAY_RETRIES = 3  # of an item whose worker or node was lost

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class WorkerLost:
    """Returned in place of a result when the workers that had the item died on every attempt."""

    reason: str


def check_engine(engine: str, address: str | None, jobs: int = 1) -> None:
    """Refuse an engine that is unknown or not installed, and options that it does not use."""
    if engine not in ENGINES:
        raise ConfigError(f"--engine {engine}, but it must be {one_of(engine, ENGINES)}")
    if address is not None and engine != "ray":
        raise ConfigError(f"--address {address} is the address of a Ray cluster: pass --engine ray with it.")
    if address is not None and jobs != 1:
        raise ConfigError(
            f"--jobs {jobs}, but the cluster at {address} decides how many run at a time: pass only one of the two."
        )
    if engine == "ray":
        _require_ray()


def _require_ray() -> None:
    require_modules(["ray"], "ray", "--engine ray")


def run(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    engine: str = "local",
    jobs: int = 1,
    address: str | None = None,
    finish_started: bool = False,
) -> Iterator[tuple[Item, Result | WorkerLost]]:
    """Yield every item with its result, in the order in which they finish. An exception of `work` is raised here.

    Args:
        work: a function that can be pickled, unless engine is "local" and jobs is 1.
        items: its arguments.
        engine: "local" (this process, or `jobs` processes) or "ray".
        jobs: items at a time.
        address: HOST:PORT of a Ray cluster; None starts one on this machine.
        finish_started: on an interrupt, let local processes finish their item instead of ending them.
    """
    if engine == "ray":
        return _run_on_ray(work, deque(items), address=address, jobs=jobs)
    if jobs == 1:
        return ((item, work(item)) for item in items)
    return _run_in_processes(work, deque(items), jobs, finish_started=finish_started)


def _run_in_processes(
    work: Callable[[Item], Result], waiting: deque[Item], jobs: int, *, finish_started: bool
) -> Iterator[tuple[Item, Result | WorkerLost]]:
    """A process that dies breaks its pool, so every item that was started is run once more, alone."""
    while waiting:
        suspects = yield from _run_pool(work, waiting, jobs, finish_started=finish_started)
        for item in suspects:
            if (yield from _run_pool(work, deque([item]), 1, finish_started=finish_started)):
                yield item, WorkerLost("the process died twice")


def _run_pool(
    work: Callable[[Item], Result], waiting: deque[Item], jobs: int, *, finish_started: bool
) -> Generator[tuple[Item, Result], None, list[Item]]:
    """Take items from `waiting` until it is empty or a process dies; return the items that were started then."""
    started: dict[Future[Result], Item] = {}
    other_children = active_children()
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=follow_parent, initargs=(os.getpid(),)) as pool:
        try:
            while waiting or started:
                while waiting and len(started) < jobs:
                    item = waiting.popleft()
                    started[pool.submit(work, item)] = item
                for future in wait(started, return_when=FIRST_COMPLETED).done:
                    result = future.result()
                    yield started.pop(future), result
        except BrokenProcessPool:
            return list(started.values())
        except BaseException:
            for child in active_children():
                if not finish_started and child not in other_children:
                    child.terminate()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return []


def follow_parent(parent: int) -> None:
    """Leave Ctrl-C to the parent process, and exit when the parent is gone, even if it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_exit_without, args=(parent,), daemon=True).start()


def _exit_without(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _run_on_ray(
    work: Callable[[Item], Result], waiting: deque[Item], *, address: str | None, jobs: int
) -> Iterator[tuple[Item, Result | WorkerLost]]:
    connect_to_ray(address, jobs)
    import ray
    from ray.exceptions import RayError, RayTaskError

    def call(item: Item) -> Result:  # Ray takes functions only, not a functools.partial
        return work(item)

    try:
        remote = ray.remote(num_cpus=1, max_retries=_RAY_RETRIES)(call)
        started: dict[Any, Item] = {}
        while waiting or started:
            num_workers = max(1, int(ray.cluster_resources().get("CPU", 1)))  # type: ignore[no-untyped-call]
            while waiting and len(started) < 2 * num_workers:  # a free worker finds the next item waiting
                item = waiting.popleft()
                started[remote.remote(item)] = item
            [done], _ = ray.wait(list(started), num_returns=1)
            item = started.pop(done)
            try:
                result: Result | WorkerLost = ray.get(done)
            except RayTaskError as error:
                raise error.as_instanceof_cause() from error  # type: ignore[no-untyped-call]
            except RayError as error:
                result = WorkerLost(f"the workers died: {type(error).__name__}")
            yield item, result
    finally:
        ray.shutdown()


def connect_to_ray(address: str | None, num_cpus: int) -> None:
    """Join a Ray cluster, or start one on this machine that only its user can reach; `ray.shutdown()` leaves it.

    Args:
        address: HOST:PORT of a cluster; None starts one.
        num_cpus: of one that is started, which is how many tasks it runs at a time.

    Raises:
        ConfigError: the cluster cannot be joined.
        MissingExtraError: Ray is not installed.
    """
    _require_ray()
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        prepare_own_cluster()
        import ray

        # "local", because without an address Ray joins the cluster that the machine last heard of, dead or alive
        ray.init(address="local", num_cpus=num_cpus, include_dashboard=False, **options)
        return
    import ray
    from ray.exceptions import RayError

    _require_listener(address)
    try:
        ray.init(address=address, **options)
    except (OSError, ValueError, RuntimeError, RayError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"--address {address}: this cluster cannot be joined ({reason}). It needs the same versions of Ray and "
            f"Python as here and, where it asks for a token, the same one in RAY_AUTH_TOKEN with RAY_AUTH_MODE=token."
        ) from error


def prepare_own_cluster() -> None:
    """Set what Ray reads from the environment when it is imported and when it starts processes of its own."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns about a coming change
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing about a user's machine is reported unasked
    if "ray" in sys.modules:  # then it has read the following ones
        return
    # Whoever reaches a port of Ray can run code with it. By default they listen on all addresses of a Linux machine.
    # Without "clusters", which this variable is about on all systems, they listen on 127.0.0.1.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["RAY_AUTH_MODE"] = "token"  # against other users of this machine
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def _require_listener(address: str) -> None:
    """Raise an error if nothing listens at the address: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"--address {address}: no Ray cluster answers there ({error}). Give HOST:PORT of its head node, auto for "
            f"the one on this machine, or leave the option out to start one here."
        ) from error
