"""What stands in Ray Serve's proxy and around a replica's application, without Ray between them."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from p3iv.serving.ray_flow import WINDOW_BYTES, FlowingApp, body_size
from p3iv.serving.ray_proxy import MARK, ProxyFront
from p3iv.serving.ray_replica import RelayHandler, StartError, find_reason

CHUNK = 2**16


class Link:
    """Passes messages on as fast as they come, as Ray does, and remembers the most bytes that it held."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.most = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        incoming, outgoing = _Held(self), _Held(self)
        reading, sending = asyncio.create_task(incoming.read_all(receive)), asyncio.create_task(outgoing.send_all(send))
        await self._app(scope, incoming.get, outgoing.put)
        await outgoing.join()
        reading.cancel()
        sending.cancel()


class _Held(asyncio.Queue[Message]):
    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link, self._num_bytes = link, 0

    async def put(self, message: Message) -> None:
        self._num_bytes += body_size(message)
        self._link.most = max(self._link.most, self._num_bytes)
        await super().put(message)

    async def get(self) -> Message:
        message = await super().get()
        self._num_bytes -= body_size(message)
        return message

    async def read_all(self, receive: Receive) -> None:
        while True:
            await self.put(await receive())

    async def send_all(self, send: Send) -> None:
        while True:
            await send(await self.get())
            self.task_done()


class Client:
    """Sends a body in chunks, and reads the answer one message at a time."""

    def __init__(self, body: bytes = b"", chunk: int = CHUNK) -> None:
        self._parts = [body[first : first + chunk] for first in range(0, len(body), chunk)] or [b""]
        self.status, self.headers, self.num_read = 0, Headers(), 0
        self._answer: list[bytes] = []

    @property
    def body(self) -> bytes:
        return b"".join(self._answer)

    async def receive(self) -> Message:
        if not self._parts:
            await asyncio.Event().wait()
        self.num_read += 1
        return {"type": "http.request", "body": self._parts.pop(0), "more_body": bool(self._parts)}

    async def send(self, message: Message) -> None:
        await asyncio.sleep(0)
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], Headers(raw=message["headers"])
        self._answer.append(message.get("body", b""))

    async def ask(self, app: ASGIApp, path: str = "/", headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        scope = {"type": "http", "method": "PUT", "path": path, "headers": list(headers)}
        async with asyncio.timeout(30):
            await app(scope, self.receive, self.send)


async def echo(_: Scope, receive: Receive, send: Send) -> None:
    """Answer with the body of the request, which is read to its end before."""
    parts, is_complete = [], False
    while not is_complete:
        message = await receive()
        await asyncio.sleep(0)
        parts.append(message["body"])
        is_complete = not message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(MARK.encode(), b"x")]})
    for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def test_a_large_body_arrives_unchanged_and_is_never_held_whole() -> None:
    body = bytes(range(256)) * (5 * WINDOW_BYTES // 256)
    held: dict[bool, int] = {}
    for is_flowing in (True, False):
        link, client = Link(FlowingApp(echo) if is_flowing else echo), Client(body)
        asyncio.run(client.ask(ProxyFront(link) if is_flowing else link))
        assert client.body == body
        held[is_flowing] = link.most
    assert held[True] <= WINDOW_BYTES + CHUNK
    assert held[False] > 2 * WINDOW_BYTES  # without it, which shows that the link would hold it


@given(st.binary(max_size=200), st.integers(1, 50))
def test_small_bodies_of_any_parts_arrive_unchanged(body: bytes, chunk: int) -> None:
    client = Client(body, chunk)
    asyncio.run(client.ask(ProxyFront(Link(FlowingApp(echo)))))
    assert (client.status, client.body) == (200, body)


def test_a_body_that_is_refused_is_not_read_to_its_end() -> None:
    async def refuse(_: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 413, "headers": [(MARK.encode(), b"x")]})
        await send({"type": "http.response.body", "body": b"too large", "more_body": False})

    client = Client(bytes(16 * WINDOW_BYTES))
    asyncio.run(client.ask(ProxyFront(Link(FlowingApp(refuse)))))
    assert (client.status, client.body) == (413, b"too large")
    assert client.num_read <= 2 + WINDOW_BYTES // CHUNK


def test_a_client_that_goes_away_is_noticed() -> None:
    seen: list[str] = []

    async def wait(_: Scope, receive: Receive, __: Send) -> None:
        seen.extend([(await receive())["type"] for _ in range(3)])

    async def gone() -> Message:
        return {"type": "http.disconnect"}

    asyncio.run(ProxyFront(FlowingApp(wait))({"type": "http", "path": "/", "headers": []}, gone, Client().send))
    assert seen == ["http.disconnect"] * 3  # as often as it asks, as ASGI demands


async def die(*_: object) -> None:
    """Ray's proxy when a replica has died: it sends nothing."""


@pytest.mark.parametrize("answer", [PlainTextResponse("Request timed out.", 408), PlainTextResponse("x"), die])
def test_what_the_proxy_says_itself_gets_the_form_of_errors(answer: ASGIApp) -> None:
    client = Client()
    asyncio.run(client.ask(ProxyFront(answer)))
    assert client.status == 503
    assert json.loads(client.body)["error"]["code"] == "busy"
    assert client.headers["retry-after"] == "1"
    assert MARK in client.headers


@pytest.mark.parametrize("path", ["/-/routes", "/-/healthz", "/-/"])
def test_the_routes_of_the_proxy_are_hidden(path: str) -> None:
    client = Client()
    asyncio.run(client.ask(ProxyFront(PlainTextResponse("success")), path))
    assert client.status == 404
    assert json.loads(client.body)["error"]["code"] == "not_found"
    assert client.headers["x-content-type-options"] == "nosniff"


def test_a_client_cannot_steer_the_proxy_and_other_headers_pass() -> None:
    received: list[tuple[bytes, bytes]] = []

    async def look(scope: Scope, *_: object) -> None:
        received.extend(scope["headers"])

    kept = ((b"host", b"kitchen.test"), (b"origin", b"http://x"), (b"authorization", b"Bearer a"), (b"cookie", b"b=c"))
    dropped = ((b"x-session-id", b"1"), (b"X-Request-Timeout-Seconds", b"9"), (b"serve_multiplexed_model_id", b"m"))
    asyncio.run(Client().ask(ProxyFront(look), headers=(*kept, *dropped)))
    assert tuple(received) == kept


@given(st.text())
def test_the_reason_of_a_replica_is_found_in_what_ray_says(reason: str) -> None:
    text = f'Traceback:\n  raise StartError("[p3iv: ")\nray.exceptions.RayTaskError: {StartError(reason)}\nSee ["a"].'
    assert find_reason(text) == reason
    assert find_reason("the replica died") is None


def test_lines_of_a_replica_reach_the_command_or_are_dropped(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as relay:
        relay.bind(str(tmp_path / "socket"))
        handler = RelayHandler(tmp_path / "socket")
        handler.handle(logging.makeLogRecord({"msg": "hello"}))
        assert relay.recv(100) == b"hello"
    handler.handle(logging.makeLogRecord({"msg": "nobody listens"}))
    handler.close()
