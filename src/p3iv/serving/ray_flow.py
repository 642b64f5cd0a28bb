"""Flow control between the HTTP proxy of Ray Serve and a replica, so that neither holds a whole upload or video.

Ray passes the parts of requests and answers on as fast as they come, and keeps in memory what the other end has not
used: during an upload of 400 MiB the proxy grew by 450 MiB and the replica by 480 MiB. Here each end tells the other
how much it has used, in messages of its own kind beside those of ASGI, and neither sends more than a window beyond
that: the same upload took 8 MiB in the proxy and 16 MiB in the replica.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

EXTENSION: Final = "p3iv.flow"  # in the scope of requests whose proxy takes part
USED: Final = "p3iv.used"  # the type of a message: `bytes` more have been used
WINDOW_BYTES: Final = 4 * 2**20
REPORT_BYTES: Final = 2**20


class Window:
    """Holds up a sender while the receiver has not used enough of what was sent."""

    def __init__(self) -> None:
        self._ahead = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def wait(self) -> None:
        """Wait until more may be sent."""
        await self._has_room.wait()

    def take(self, num_bytes: int) -> None:
        """Count what is sent."""
        self._ahead += num_bytes
        if self._ahead >= WINDOW_BYTES:
            self._has_room.clear()

    def give(self, num_bytes: int) -> None:
        """Count what the receiver has used."""
        self._ahead -= num_bytes
        if self._ahead < WINDOW_BYTES:
            self._has_room.set()


class Usage:
    """Counts what was used and not yet reported."""

    def __init__(self) -> None:
        self._num_bytes = 0

    def add(self, num_bytes: int) -> Message | None:
        """Count more; a message for the sender, if it is time for one."""
        self._num_bytes += num_bytes
        if self._num_bytes < REPORT_BYTES:
            return None
        reported, self._num_bytes = self._num_bytes, 0
        return {"type": USED, "bytes": reported}


def body_size(message: Message) -> int:
    """The bytes of a body in a message."""
    return len(message.get("body", b""))


class FlowingApp:
    """An application whose requests come through a proxy that takes part in flow control, or another one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if EXTENSION not in (scope.get("extensions") or {}):
            await self._app(scope, receive, send)
            return
        async with _flow(receive, send) as request:
            await self._app(scope, request.receive, request.send)


class _Request:
    """A request and its answer, at the replica's end."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()  # holds at most a window
        self._window, self._usage = Window(), Usage()
        self._is_over = False

    async def pump(self) -> None:
        """Tell messages about what was used from those of the request, until the client goes away."""
        message: Message = {"type": ""}
        while message["type"] != "http.disconnect":
            message = await self._receive()
            if message["type"] == USED:
                self._window.give(message["bytes"])
            else:
                self._inbox.put_nowait(message)

    async def receive(self) -> Message:
        message = {"type": "http.disconnect"} if self._is_over else await self._inbox.get()
        self._is_over = message["type"] == "http.disconnect"
        if report := self._usage.add(body_size(message)):
            await self._send(report)
        return message

    async def send(self, message: Message) -> None:
        await self._window.wait()
        self._window.take(body_size(message))
        await self._send(message)


@asynccontextmanager
async def _flow(receive: Receive, send: Send) -> AsyncIterator[_Request]:
    request = _Request(receive, send)
    pump = asyncio.create_task(request.pump())
    try:
        yield request
    finally:
        pump.cancel()
