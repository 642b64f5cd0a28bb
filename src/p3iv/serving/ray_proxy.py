"""What runs in the HTTP proxy of Ray Serve, before it passes a request to a replica.

Who may ask is checked in the replicas: the proxy passes all headers on but those by which a client could steer Ray.
What the proxy answers itself, because no replica did, gets the form of the service's errors. Connections have the
limits that they have without Ray.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import HTTP_PROTOCOLS, WS_PROTOCOLS

from p3iv.serving.problems import ServiceError, error_of_status
from p3iv.serving.protection import HEADERS
from p3iv.serving.ray_flow import EXTENSION, USED, Usage, Window, body_size
from p3iv.serving.run import Http, end_unread_answers

STEERING: Final = (  # of Ray Serve: which replica, which time limit, whether to notice that the client has gone
    "serve_multiplexed_model_id",
    "x_session_id",
    "x_request_timeout_seconds",
    "x_request_disconnect_disabled",
    "x_request_id",
    "traceparent",
)
MARK: Final = "content-security-policy"  # every answer of a replica has it


IDLE_S: Final = "P3IV_PROXY_IDLE_S"  # the environment variable with the limit `idle_s`


def middlewares() -> list[Middleware]:
    """Prepare the process of the proxy, and return what stands before it.

    Ray Serve calls this because of RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH. It then starts uvicorn with the protocols
    that are called "auto" there.
    """
    HTTP_PROTOCOLS["auto"] = f"{__name__}:ProxyHttp"
    WS_PROTOCOLS["auto"] = None
    return [Middleware(ProxyFront)]


class ProxyHttp(Http):
    """HTTP/1.1 with the limits of the service."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(idle_s=float(os.environ[IDLE_S]), **settings)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """Take a connection; the socket of the proxy is Ray's, so the limit is set on each connection."""
        connection: socket.socket = transport.get_extra_info("socket")
        end_unread_answers(connection, float(os.environ[IDLE_S]))
        super().connection_made(transport)


class ProxyFront:
    """The proxy as clients see it.

    Args:
        app: the proxy of Ray Serve.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its answer back."""
        if scope["path"].startswith("/-/"):  # the proxy's own /-/routes and /-/healthz, which ask for no token
            await _refuse(error_of_status(404), scope, receive, send)
        else:
            await self._pass_on(scope, receive, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = _Client(receive, send)
        pump = asyncio.create_task(client.pump())
        try:
            await self._app(_prepare(scope), client.receive, client.send)
        finally:
            pump.cancel()
        if not client.is_answered:
            await _refuse(_unanswered(), scope, receive, send)


class _Client:
    """A request and its answer, at the client's end. What the proxy says itself is held back."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()  # what goes to the replica; at most a window
        self._window, self._usage = Window(), Usage()
        self.is_answered = False

    async def pump(self) -> None:
        """Read the request as fast as the replica uses it, until the client goes away."""
        message: Message = {"type": ""}
        while message["type"] != "http.disconnect":
            await self._window.wait()
            message = await self._receive()
            self._window.take(body_size(message))
            self._inbox.put_nowait(message)

    async def receive(self) -> Message:
        return await self._inbox.get()

    async def send(self, message: Message) -> None:
        if message["type"] == USED:
            self._window.give(message["bytes"])
            return
        if message["type"] == "http.response.start":
            self.is_answered = MARK in Headers(raw=message["headers"])
        if self.is_answered:
            await self._send(message)  # waits for a client that reads slowly
            if report := self._usage.add(body_size(message)):
                self._inbox.put_nowait(report)


def _prepare(scope: Scope) -> Scope:
    """A request as the replica gets it."""
    kept = [(name, value) for name, value in scope["headers"] if not _steers(name)]
    return {**scope, "headers": kept, "extensions": {**(scope.get("extensions") or {}), EXTENSION: {}}}


def _steers(header: bytes) -> bool:
    return header.decode("latin-1").lower().replace("-", "_") in STEERING


def _unanswered() -> ServiceError:
    return ServiceError(
        503, "No replica of the service answered; one may be starting again.", "Try again.", retry_after_s=1
    )


async def _refuse(error: ServiceError, scope: Scope, receive: Receive, send: Send) -> None:
    response = error.response()
    headers = MutableHeaders(raw=response.raw_headers)
    headers.update({**HEADERS, "Cache-Control": "no-store"})
    await response(scope, receive, send)
