"""Run the service on Ray Serve: the same application in several replicas, on one machine or many.

The HTTP proxy of Ray Serve listens at the address of the service and passes every request to one replica. All replicas
use one folder of uploads. Rate limits and the cache of features are those of each replica.
"""

from __future__ import annotations

import io
import logging
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from p3iv.errors import ConfigError, MissingExtraError, P3ivError
from p3iv.hub import find_planner
from p3iv.parallel import connect_to_ray, prepare_own_cluster
from p3iv.serving.log import LOGGER, log_event, log_failure
from p3iv.serving.ray_proxy import IDLE_S, middlewares
from p3iv.serving.ray_replica import LogTarget, Replica, find_reason
from p3iv.serving.run import GRACE_S, address_of, bind
from p3iv.serving.schema import InfoAnswer
from p3iv.serving.settings import ServiceSettings
from p3iv.serving.uploads import temporary_uploads

NAME: Final = "p3iv"  # of the application and of its only deployment
MIN_RAY: Final = (2, 60)  # all its ports ask for a token; not those of 2.51, and those between were not tried
MAX_REQUESTS: Final = 1000  # at a time in a replica, which refuses long before that what takes computing
POLL_S: Final = 0.2  # between looks at a service that starts
WATCH_S: Final = 2.0  # between looks at one that runs; a replica that died is replaced after at most this time
STOP_S: Final = 10  # that Ray gets for ending replicas without requests

_COLOURS: Final = re.compile(r"\x1b\[[\d;]*m")


def run_on_ray(
    settings: ServiceSettings, *, replicas: int, address: str | None, on_ready: Callable[[str, InfoAnswer], None]
) -> None:
    """Serve until the process is told to stop (Ctrl-C, SIGTERM).

    Args:
        settings: what to serve, and where.
        replicas: copies of the service; each needs a CPU.
        address: HOST:PORT of a Ray cluster; None starts one on this machine.
        on_ready: is called with the address and what the service can do when all replicas answer.

    Raises:
        P3ivError: the address or the cluster cannot be used, or the planner cannot be loaded.
    """
    if address is not None:
        _check_for_cluster(settings, address)
    os.environ.update(serve_environment(settings))
    if address is None:
        prepare_own_cluster()
    _import_serve()  # which may be missing
    with ExitStack() as stack:
        stop = stack.enter_context(_stoppable())
        folder = stack.enter_context(temporary_uploads())
        settings = _locate(replace(settings, uploads=settings.uploads or folder))
        if address is None:
            settings = _choose_port(settings)
            find_planner(settings.planner or "", on_note=lambda note: log_event("note", note=note))  # before Ray starts
        relay = stack.enter_context(_relay_logs(folder / "log.socket"))
        log = LogTarget(logging.getLevelName(LOGGER.getEffectiveLevel()), relay)
        stdout = sys.stdout
        stack.enter_context(redirect_stdout(_RayMessages()))
        stack.enter_context(_ray(address, replicas, stop))
        stack.enter_context(_ray_serve(settings, address))
        info = _start_replicas(settings, replicas, log, stop)
        with redirect_stdout(stdout):
            on_ready(address_of(settings), info)
        _watch(stop)


def _check_for_cluster(settings: ServiceSettings, address: str) -> None:
    if settings.uploads is None:
        raise ConfigError(
            f"--address {address}: replicas on several machines need a folder for uploads that all of them see. "
            f"Pass --uploads FOLDER."
        )
    if settings.port == 0:
        raise ConfigError(
            f"--address {address}: which ports are free on the head node, where the service listens, is not known "
            f"here. Pass --port with one that is."
        )


def serve_environment(settings: ServiceSettings) -> dict[str, str]:
    """The environment variables that Ray Serve's processes need."""
    return {
        "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": f"{middlewares.__module__}.{middlewares.__name__}",
        "RAY_SERVE_ENABLE_HA_PROXY": "0",  # which would listen on all addresses
        "RAY_SERVE_ENABLE_DIRECT_INGRESS": "0",
        "RAY_SERVE_PROXY_PREFER_LOCAL_NODE_ROUTING": "0",  # else replicas on other machines get requests last
        "RAY_SERVE_PROXY_PREFER_LOCAL_AZ_ROUTING": "0",
        IDLE_S: str(settings.limits.idle_s),
    }


def _locate(settings: ServiceSettings) -> ServiceSettings:
    """The settings with absolute paths: replicas have other working directories."""
    encoder = settings.encoder
    return replace(
        settings,
        planner=_absolute(settings.planner or ""),
        data=settings.data and settings.data.absolute(),
        ensemble=tuple(map(_absolute, settings.ensemble)),
        encoder=replace(encoder, weights=encoder.weights and _absolute(encoder.weights)),
        uploads=settings.uploads and settings.uploads.absolute(),
    )


def _absolute(name: str) -> str:
    """A path, if the name is one; a name of the package or the hub stays."""
    return str(Path(name).absolute()) if os.path.lexists(name) else name


def _choose_port(settings: ServiceSettings) -> ServiceSettings:
    """Find a free port, or make sure that the given one is free: Ray's proxy would share it with another of its kind.

    Raises:
        ConfigError: the service cannot listen there.
    """
    with bind(settings.host, settings.port) as listener:
        return replace(settings, port=listener.getsockname()[1])


@contextmanager
def _ray(address: str | None, replicas: int, stop: _Stop) -> Iterator[None]:
    import ray

    try:
        try:
            connect_to_ray(address, replicas)
        except SystemExit as error:  # what Ray makes of SIGTERM while it starts
            raise _StoppedError from error
        stop.listen()  # again, because Ray has replaced a handler
        stop.check()
        yield
    finally:
        ray.shutdown()


@contextmanager
def _ray_serve(settings: ServiceSettings, address: str | None) -> Iterator[None]:
    """Start Ray Serve, and at the end let the replicas finish their requests and stop."""
    serve = _import_serve()
    known = serve.status()
    if known.proxies or known.applications:
        raise ConfigError(
            f"--address {address}: Ray Serve runs on this cluster already, with an address of its own. End it with "
            f"`serve shutdown`, or take another cluster."
        )
    try:
        _start_proxy(settings, address)
        yield
    finally:
        # What is left of Serve on a cluster of our own ends with it, without messages about its controller.
        _finish(partial(serve.delete, NAME) if address is None else serve.shutdown)


def _start_proxy(settings: ServiceSettings, address: str | None) -> None:
    """Start Ray Serve with its HTTP proxy on the head node.

    Raises:
        ConfigError: it cannot listen there.
    """
    from ray.exceptions import RayError

    where = {"host": settings.host, "port": settings.port, "keep_alive_timeout_s": settings.limits.idle_s}
    environment = {"runtime_env": {"env_vars": serve_environment(settings)}} if address else None
    try:
        _import_serve().start(
            proxy_location="HeadOnly", http_options=where, logging_config=_quiet(), controller_options=environment
        )
    except (RayError, RuntimeError) as error:
        raise ConfigError(
            f"--host {settings.host} --port {settings.port}: Ray Serve cannot listen there "
            f"({_last_line(str(error))}). Pass another port, or an address of the cluster's head node."
        ) from error


def _finish(stop: Callable[[], object]) -> None:
    """Let the replicas stop, but do not wait for a cluster that is gone: it may have got the same signal."""

    def run() -> None:
        try:
            stop()
        except Exception as error:
            log_failure(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(GRACE_S + STOP_S)


def _import_serve() -> Any:
    """The module of Ray Serve.

    Raises:
        MissingExtraError: a package that it needs is not installed.
        ConfigError: it is too old.
    """
    try:
        import ray
        from ray import serve
    except ImportError as error:
        raise MissingExtraError("Ray Serve", "ray", "p3iv serve --engine ray") from error
    if tuple(map(int, ray.__version__.split(".")[:2])) < MIN_RAY:
        needed = ".".join(map(str, MIN_RAY))
        raise ConfigError(f"p3iv serve --engine ray needs Ray {needed} or later; {ray.__version__} is installed.")
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    return serve


def _quiet() -> dict[str, object]:
    return {"log_level": "ERROR", "enable_access_log": False}


def _start_replicas(settings: ServiceSettings, replicas: int, log: LogTarget, stop: _Stop) -> InfoAnswer:
    """Start the replicas and return what the service can do, when all of them are ready.

    Raises:
        P3ivError: a replica cannot start.
    """
    serve = _import_serve()
    deployment = serve.deployment(
        serve.ingress()(Replica),
        name=NAME,
        num_replicas=replicas,
        ray_actor_options={"num_cpus": 1},
        max_ongoing_requests=MAX_REQUESTS,
        max_constructor_retry_count=1,  # at the start; later, Ray Serve tries again and again
        health_check_period_s=WATCH_S,
        graceful_shutdown_timeout_s=GRACE_S,
        graceful_shutdown_wait_loop_s=0.2,
        logging_config=_quiet(),
    )
    target = serve.RunTarget(deployment.bind(settings, log), name=NAME, route_prefix="/")
    [handle] = serve.run_many([target], wait_for_applications_running=False)
    _wait_until_running(replicas, stop)
    info: InfoAnswer = handle.info.remote().result(timeout_s=settings.limits.request_s)
    return info


def _wait_until_running(replicas: int, stop: _Stop) -> None:
    import ray

    serve, began, has_warned = _import_serve(), time.monotonic(), False
    while (state := serve.status().applications[NAME]).status != "RUNNING":
        if state.status in ("DEPLOY_FAILED", "UNHEALTHY"):
            raise _explain_failure(state)
        num_cpus = int(ray.cluster_resources().get("CPU", 0))  # type: ignore[no-untyped-call]
        if num_cpus < replicas and not has_warned and time.monotonic() > began + 10:
            has_warned = True
            log_event("waiting", level=logging.WARNING, note=f"{replicas} replicas need as many CPUs, not {num_cpus}")
        stop.check(POLL_S)


def _explain_failure(state: Any) -> P3ivError:
    """Why replicas cannot start: the service's own sentence, or the last line of what Ray says."""
    said = "\n".join([state.message, *(deployment.message for deployment in state.deployments.values())])
    return ConfigError(find_reason(said) or f"Ray cannot start the replicas: {_last_line(said)}")


def _last_line(text: str) -> str:
    """What an error says at the end of a traceback."""
    return text.strip().rpartition("\n")[2].strip()[:300] or "it does not say why"


def _watch(stop: _Stop) -> None:
    """Look after the replicas; say when their number changes.

    Raises:
        _StoppedError: a signal came.
        P3ivError: Ray is gone.
    """
    from ray.exceptions import RayError

    serve, running = _import_serve(), None
    while True:
        try:
            [deployment] = serve.status().applications[NAME].deployments.values()
        except (RayError, OSError, KeyError, ValueError) as error:
            raise ConfigError(f"The service on Ray has ended ({type(error).__name__}). Start it again.") from error
        if (now := deployment.replica_states.get("RUNNING", 0)) != running:
            log_event("replicas", running=now)
            running = now
        stop.check(WATCH_S)


class _StoppedError(Exception):
    """The process was told to stop."""


class _Stop:
    """Notes that a signal came, and nothing more: an exception in the middle of Ray's code may get lost in it."""

    def __init__(self) -> None:
        self._is_set = Event()

    def set(self, *_: object) -> None:
        """Note it, as a signal handler; whoever presses Ctrl-C again does not want to wait."""
        if self._is_set.is_set():
            raise KeyboardInterrupt
        self._is_set.set()

    def listen(self) -> None:
        """Take the signals."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.set)

    def check(self, wait_s: float = 0) -> None:
        """Wait for some time, or less if a signal comes.

        Raises:
            _StoppedError: one has come.
        """
        if self._is_set.wait(wait_s):
            raise _StoppedError


@contextmanager
def _stoppable() -> Iterator[_Stop]:
    """End the block when a signal came, which is not an error."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    stop = _Stop()
    stop.listen()
    try:
        with suppress(_StoppedError):
            yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _RayMessages(io.TextIOBase):
    """Takes what Ray prints on standard output, from threads of its own, into the log."""

    def write(self, text: str) -> int:
        if line := _COLOURS.sub("", text).strip():
            log_event("ray", text=line)
        return len(text)


@contextmanager
def _relay_logs(path: Path) -> Iterator[Path]:
    """Make a socket to which replicas on this machine send lines of the log, and copy them to standard error."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as relay:
        relay.bind(str(path))
        relay.settimeout(0.2)
        is_over = Event()
        thread = Thread(target=_copy_lines, args=(relay, is_over), daemon=True)
        thread.start()
        try:
            yield path
        finally:
            is_over.set()
            thread.join()


def _copy_lines(relay: socket.socket, is_over: Event) -> None:
    while True:
        try:
            line = relay.recv(2**16)
        except TimeoutError:
            if is_over.is_set():
                return
            continue
        with suppress(OSError, ValueError):  # nobody reads standard error any more
            sys.stderr.write(f"{line.decode(errors='replace')}\n")
            sys.stderr.flush()
