"""Run the service on one machine: its socket, its server, and an end that loses nothing."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any, Final, cast

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from p3iv.errors import ConfigError
from p3iv.serving.problems import ServiceError
from p3iv.serving.protection import HEADERS
from p3iv.serving.schema import InfoAnswer
from p3iv.serving.service import Service
from p3iv.serving.settings import ServiceSettings

GRACE_S: Final = 10  # that running requests get when the service is stopped
MAX_CONNECTIONS: Final = 400  # each takes a file handle, of which a process usually has 1,024


class Http(H11Protocol):
    """HTTP/1.1 whose answer to what is not HTTP has the form of all errors, and that does not wait for ever.

    Args:
        idle_s: seconds from the beginning of a connection, or from its last answer, to the end of a request's headers.
        settings: of uvicorn.
    """

    def __init__(self, *, idle_s: float, **settings: Any) -> None:
        super().__init__(**settings)
        self._idle_s = idle_s
        self._end_of_wait: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
        self._limit_wait()
        if len(self.connections) > MAX_CONNECTIONS:
            self._refuse(ServiceError(503, "There are too many connections.", "Try again.", retry_after_s=5))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        if self._end_of_wait:
            self._end_of_wait.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._limit_wait()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 uvicorn's sentence for the same
        """Refuse what cannot be parsed; in the middle of an answer it is too late to say so."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(ServiceError(400, "This is not a valid HTTP request."))
        else:
            self.transport.close()

    def _refuse(self, error: ServiceError) -> None:
        """Answer what is not a request to the application, and close the connection."""
        body = bytes(error.response().body)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
        headers |= HEADERS | {"Cache-Control": "no-store"} | error.headers
        start = h11.Response(status_code=error.status, headers=list(headers.items()))
        for event in (start, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def _limit_wait(self) -> None:
        if self._end_of_wait:
            self._end_of_wait.cancel()
        self._end_of_wait = self.loop.call_later(self._idle_s, self._close_if_waiting)

    def _close_if_waiting(self) -> None:
        """Close a connection without a request; one whose request is being answered waits again after it."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


class Server(uvicorn.Server):
    """uvicorn, for which it is not an error to be told to stop.

    Args:
        config: of uvicorn.
        on_exit: is called when it is told to stop, before it waits for running requests.
    """

    def __init__(self, config: uvicorn.Config, on_exit: Callable[[], object]) -> None:
        super().__init__(config)
        self._on_exit = on_exit

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop soon, or at once when told again."""
        self._on_exit()
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at Ctrl-C and SIGTERM. uvicorn would raise the signal again when it has stopped."""
        is_main = threading.current_thread() is threading.main_thread()
        numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run_service(service: Service, app: ASGIApp, on_ready: Callable[[str, InfoAnswer], None]) -> None:
    """Serve until the process is told to stop (Ctrl-C, SIGTERM).

    Args:
        service: what to serve.
        app: its application.
        on_ready: is called with the address and what the service can do when plans are answered.

    Raises:
        P3ivError: the address cannot be used, or the planner cannot be loaded.
    """
    settings, idle_s = service.settings, service.settings.limits.idle_s
    with bind(settings.host, settings.port) as listener:
        end_unread_answers(listener, idle_s)
        config = uvicorn.Config(
            app,
            http=cast(type[asyncio.Protocol], partial(Http, idle_s=idle_s)),
            ws="none",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.allowed_names),  # then a proxy on this machine says who its clients are
            timeout_graceful_shutdown=GRACE_S,
        )
        server = Server(config, service.end_long_answers)

        def started() -> None:
            if service.failure is not None:
                server.should_exit = True
            else:
                on_ready(address_of(replace(settings, port=listener.getsockname()[1])), service.info())

        service.on_start = started
        server.run(sockets=[listener])
    if service.failure is not None:
        raise service.failure


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; port 0 takes any free port.

    Raises:
        ConfigError: saying why it cannot, and what to type.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With the protocol, because asyncio sends small answers at once on sockets that say TCP.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"--host {host}: there is no such address ({error}).") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"Port {port} is used by another program. Pass another one, or --port 0 for any that is free."
            ) from error
        raise ConfigError(f"--host {host} --port {port}: cannot listen there ({error.strerror}).") from error
    return listener


def end_unread_answers(connection: socket.socket, seconds: float) -> None:
    """Let the system close a connection whose client takes no byte of an answer for some time.

    Connections inherit it from the socket that listens.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # not on macOS
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * seconds))


def address_of(settings: ServiceSettings) -> str:
    """The address to open in a browser, with the token behind it, which browsers do not send."""
    host = "127.0.0.1" if settings.host in ("", "0.0.0.0", "::") else settings.host  # noqa: S104
    fragment = f"#token={settings.token}" if settings.token else ""
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}/{fragment}"
