"""HTTP without a library on the sending side: any bytes can be sent, and answers are read as they come."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any, cast

TIMEOUT_S = 10.0


@dataclass(frozen=True)
class RawAnswer:
    """An answer as it came; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        """The content of an error in the form of the service.

        Raises:
            ValueError: it has another form.
        """
        content = json.loads(self.body)
        match content:
            case {"error": {"code": str(), "message": str(message), "hint": str() | None} as error} if message:
                if len(content) == 1 and len(error) == 3:
                    return cast(dict[str, Any], error)
        raise ValueError(f"not the form of an error: {self.body[:300]!r}")


def exchange(port: int, sent: bytes, *, wanted: int = 1, timeout_s: float = TIMEOUT_S) -> list[RawAnswer]:
    """Send bytes over a new connection, and read answers until there are enough or the connection is closed.

    Where no answer is wanted, the connection is closed at once.
    """
    received, method = b"", "HEAD" if sent.startswith(b"HEAD ") else "GET"
    with socket.create_connection(("127.0.0.1", port), timeout_s) as connection:
        with suppress(ConnectionError):  # the service may refuse a request before all of it was sent
            connection.sendall(sent)
        with suppress(ConnectionError, TimeoutError):
            while wanted and (chunk := connection.recv(1 << 16)):
                received += chunk
                if len(answers := list(read_answers(received, method))) >= wanted:
                    return answers
    return list(read_answers(received, method))


def read_answers(received: bytes, method: str = "GET") -> Iterator[RawAnswer]:
    """The complete answers in some bytes."""
    source = _Received(received)
    while received.find(b"\r\n\r\n", source.tell()) >= 0:
        response = HTTPResponse(cast(socket.socket, source), method=method)
        try:
            response.begin()
            body = response.read()
        except (HTTPException, OSError):  # the rest is not complete
            return
        yield RawAnswer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)


def request(method: str, target: str, body: bytes = b"", /, **headers: str) -> bytes:
    """The bytes of a request; `content_type="x"` is the header content-type."""
    named = {"host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if body and "transfer-encoding" not in named:
        named.setdefault("content-length", str(len(body)))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class _Received(io.BytesIO):
    """What HTTPResponse needs of a socket; it stays open for the next answer."""

    def makefile(self, mode: str) -> io.BytesIO:
        """The bytes from the end of the last answer on."""
        del mode
        return self

    def close(self) -> None:
        """Nothing: HTTPResponse closes what it has read an answer from."""
