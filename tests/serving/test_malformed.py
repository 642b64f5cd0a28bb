"""What is not HTTP, or tries to be two requests at once, gets one answer in the form of all errors."""

from __future__ import annotations

import socket

import pytest

from p3iv.serving.protection import HEADERS
from soak.raw_http import exchange, request
from soak.service_process import ServiceProcess, wait_for

TEXT = {"content_type": "application/json"}
HIDDEN = request("GET", "/v1/info")  # what a proxy would not see

NOT_HTTP = {
    "words": b"hello\r\n\r\n",
    "nothing but an end": b"\r\n\r\n\r\n",
    "a greeting of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
    "zeros": bytes(100_000),
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "a space before a colon": b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "a folded header": b"GET / HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "a zero in a header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n",
    "a letter in the target": "GET /\u00e4 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
    "an end of line in the target": b"GET /\nX HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "two lengths": b"POST /v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "a negative length": request("POST", "/v1/plan", content_length="-1"),
    "a coding that nobody knows": request("POST", "/v1/plan", b"x", transfer_encoding="gzip"),
    "two codings": request("POST", "/v1/plan", b"x", transfer_encoding="gzip, chunked"),
    "a chunk without a size": request("POST", "/v1/plan", b"zz\r\n\r\n", transfer_encoding="chunked", **TEXT),
    "a chunk of negative size": request("POST", "/v1/plan", b"-1\r\n\r\n", transfer_encoding="chunked", **TEXT),
    "a long target": request("GET", "/" + "a" * 2_000_000),
    "a long header": request("GET", "/", x="a" * 2_000_000),
    "many headers": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 300_000,
}


@pytest.mark.parametrize("kind", NOT_HTTP)
def test_what_is_not_http_is_refused(service: ServiceProcess, kind: str) -> None:
    (answer,) = exchange(service.port, NOT_HTTP[kind], wanted=2)  # the connection ends after the first
    assert (answer.status, answer.error["code"]) == (400, "bad_request")
    assert {name: answer.headers[name.lower()] for name in HEADERS} == HEADERS
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("coding", ["chunked", "Chunked", "identity, chunked", "\tchunked"])
def test_a_request_with_two_lengths_is_one_request(service: ServiceProcess, coding: str) -> None:
    for length in ("5", "0", "500"):
        headers = {"content_length": length, "transfer_encoding": coding, **TEXT}
        answers = exchange(service.port, request("POST", "/v1/plan", b"0\r\n\r\n" + HIDDEN, **headers), wanted=2)
        assert [answer.status for answer in answers] == [400]
        assert answers[0].error["code"] == "bad_request"
        assert answers[0].headers["connection"] == "close"


def test_requests_one_after_the_other_are_answered_in_their_order(service: ServiceProcess) -> None:
    targets = ["/healthz", "/nowhere", "/v1/videos", "/healthz", "/v1/info"]
    answers = exchange(service.port, b"".join(request("GET", target) for target in targets), wanted=5)
    assert [answer.status for answer in answers] == [200, 404, 200, 200, 200]
    assert b'"actions"' in answers[-1].body


@pytest.mark.parametrize("target", ["/", "/v1/info", "/v1/plan", "/ws"])
def test_there_are_no_websockets(service: ServiceProcess, target: str) -> None:
    upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec_websocket_version": "13"}
    (answer,) = exchange(service.port, request("GET", target, sec_websocket_key="AAAAAAAAAAAAAAAAAAAAAA==", **upgrade))
    assert answer.status in (200, 404, 405)
    assert "upgrade" not in answer.headers


@pytest.mark.parametrize(
    "line", ["OPTIONS *", "CONNECT localhost:22", "GET http://evil.example/", "TRACE /", "PURGE /"]
)
def test_forms_of_requests_for_proxies(service: ServiceProcess, line: str) -> None:
    (answer,) = exchange(service.port, f"{line} HTTP/1.1\r\nHost: localhost\r\nCookie: a=secret\r\n\r\n".encode())
    assert answer.status in (404, 405)
    assert answer.error["message"]
    assert b"secret" not in answer.body


def test_a_body_that_turns_into_something_else(service: ServiceProcess) -> None:
    """The answer has been sent when the rest of the body turns out not to be one; there is nothing more to say."""
    headers = {"content_type": "multipart/form-data", "transfer_encoding": "chunked"}
    with socket.create_connection(("127.0.0.1", service.port), 10) as connection:
        connection.sendall(request("PUT", "/v1/videos", b"1\r\na\r\n", **headers))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 415")
        connection.sendall(b"zz\r\n\r\n")
        while connection.recv(1 << 16):
            pass  # until the service closes the connection
    assert [event for event in service.log() if event["event"] == "failure" or "exception" in event] == []


def test_clients_that_hang_up_are_not_failures(service: ServiceProcess) -> None:
    def incomplete() -> int:
        return sum(event.get("status") == 400 for event in service.log())

    before = incomplete()
    for sent in (
        request("PUT", "/v1/videos", content_length="1000") + b"abc",
        request("PUT", "/v1/pictures", b"5\r\nab", transfer_encoding="chunked"),
        request("POST", "/v1/plan", content_length="1000", **TEXT) + b'{"start": {"video": "',
        request("GET", "/v1/videos"),
        b"GET /v1/inf",
    ):
        with socket.create_connection(("127.0.0.1", service.port), 10) as connection:
            connection.sendall(sent)
    wait_for(lambda: incomplete() >= before + 3, "the three that had begun to send a body")
    assert [event for event in service.log() if event["event"] == "failure" or "exception" in event] == []
    assert list(service.folder.glob("p3iv-uploads-*/*.part")) == []
