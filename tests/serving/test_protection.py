"""The checks before the routes, with a clock that tests move: how long a client is refused, and what is remembered."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from commands import RunP3iv
from p3iv.serving.problems import ServiceError
from p3iv.serving.protection import MAX_CLIENTS, Protection, RateLimit, client_of
from p3iv.serving.settings import Limits, ServiceSettings

PUBLIC = ServiceSettings("tabletop-demo", host="192.0.2.1", token="right")  # noqa: S106


class Clock:
    """A time that tests move."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def say_ok(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("ok")(scope, receive, send)


Ask = Callable[..., int]


def asking(settings: ServiceSettings, clock: Clock) -> Ask:
    """A function that sends a request from an address and returns the status of the answer."""
    protection = Protection(say_ok, settings, clock=clock)

    def ask(method: str, path: str, token: str = "right", address: str = "192.0.2.7") -> int:  # noqa: S107
        async def send() -> int:
            transport = httpx.ASGITransport(protection, client=(address, 5))
            async with httpx.AsyncClient(transport=transport, base_url="http://192.0.2.1") as client:
                answer = await client.request(method, path, headers={"Authorization": f"Bearer {token}"})
            return answer.status_code

        return asyncio.run(send())

    return ask


def test_a_client_may_ask_again_when_its_oldest_question_is_a_minute_old() -> None:
    clock = Clock()
    ask = asking(replace(PUBLIC, limits=Limits(plans_per_minute=2)), clock)
    statuses = []
    for _ in range(5):
        statuses.append(ask("POST", "/v1/plan"))
        clock.now += 25
    assert statuses == [200, 200, 429, 200, 200]  # at 0, 25, 50, 75 and 100 seconds


def test_a_client_that_guessed_may_ask_again_after_a_minute() -> None:
    clock = Clock()
    ask = asking(PUBLIC, clock)
    assert {ask("GET", "/v1/info", f"guess{number}") for number in range(10)} == {401}
    assert ask("GET", "/v1/info") == 429
    clock.now += 61
    assert ask("GET", "/v1/info") == 200


def test_a_customer_of_a_provider_is_one_client() -> None:
    ask = asking(replace(PUBLIC, limits=Limits(plans_per_minute=1)), Clock())
    assert ask("POST", "/v1/plan", address="2001:db8::1") == 200
    assert ask("POST", "/v1/plan", address="2001:db8::2") == 429  # has 2**64 of these
    assert ask("POST", "/v1/plan", address="2001:db8:0:1::1") == 200


@pytest.mark.parametrize(
    ("host", "client"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::9", "2001:db8::/64"),
        ("testclient", "testclient"),
    ],
)
def test_the_name_of_a_client(host: str, client: str) -> None:
    assert client_of({"client": (host, 1)}) == client
    assert client_of({"client": None}) == ""


def test_clients_that_ask_once_are_forgotten() -> None:
    limit = RateLimit(1, 3600, Clock())
    for number in range(MAX_CLIENTS):
        limit.check(f"client {number}", "Too many.")
    with pytest.raises(ServiceError, match="Too many"):
        limit.check("client 0", "Too many.")
    limit.check("one more", "Too many.")
    limit.check("client 0", "Too many.")  # its request was forgotten; memory is bounded


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(first: bytes, second: bytes) -> bool:
        compared.append((first, second))
        return first == second

    monkeypatch.setattr(hmac, "compare_digest", compare)
    ask = asking(PUBLIC, Clock())
    assert [ask("GET", "/v1/info"), ask("GET", "/v1/info", "righ")] == [200, 401]
    assert [pair for pair in compared if pair[1] == b"right"] == [(b"right", b"right"), (b"righ", b"right")]


@pytest.mark.parametrize("token", ["with space", "semi;colon", "comma,", "ümlaut", 'quo"te', "hash#", "a&b", "%41"])
def test_a_token_that_no_address_can_hold_is_refused(p3iv: RunP3iv, token: str) -> None:
    done = p3iv("serve", "--token", token)
    assert done.returncode == 1
    assert "--token: use letters" in done.stderr
