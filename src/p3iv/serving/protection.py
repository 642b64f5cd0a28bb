"""What is checked before the routes: who may ask and how much; and the headers of every answer.

A page of another origin must not use a service on somebody's machine: host names are checked against DNS rebinding,
origins on every request that changes something, and nothing is shared across origins.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from p3iv.serving.log import log_event, log_failure
from p3iv.serving.problems import ServiceError, error_of_status
from p3iv.serving.settings import LOCAL_NAMES, MIB, Limits, ServiceSettings

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
OPEN_PATHS: Final = (
    "/",
    "/annotate",
    "/healthz",
    "/readyz",
    "/v1/session",
)  # without a token; and the files of the page
PAGES: Final = ("/", "/annotate")
SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")
MAX_CLIENTS: Final = 10_000  # whose requests are counted
MAX_WRONG_TOKENS: Final = 10  # different ones of a client in a minute

OnAnswer = Callable[[str, str, int, float], None]  # method, route, status, seconds


class Protection:
    """The application with everything that is checked before it.

    Args:
        app: the application.
        settings: of the service.
        on_answer: is called after every answer, for metrics.
        clock: the time in seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: ServiceSettings,
        on_answer: OnAnswer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app, self._settings, self._on_answer = app, settings, on_answer
        limits = settings.limits
        self._plans = RateLimit(limits.plans_per_minute, 60, clock)
        self._uploads = RateLimit(limits.uploads_per_hour, 3600, clock)
        self._guesses = RateLimit(1, 60, clock)  # of the same wrong token
        self._guessing = RateLimit(MAX_WRONG_TOKENS, 60, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, pass it on, and write its answer down."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:  # a WebSocket, of which there are none
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer, began = _Answer(send), time.perf_counter()
        try:
            self._check(scope)
            body = _Body(receive, self._settings.limits, Headers(scope=scope), scope["path"])
            await self._app(scope, body.receive, answer.send)
        except ServiceError as error:
            await answer.refuse(error, scope, receive)
        except asyncio.CancelledError:  # the time for running requests is over
            await answer.refuse(ServiceError(503, "The service is being stopped.", retry_after_s=10), scope, receive)
        except Exception as error:
            log_failure(error, route=_route(scope))
            await answer.refuse(error_of_status(500), scope, receive)
        finally:
            self._note(scope, answer, time.perf_counter() - began)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:  # a proxy may have read it in another way
            raise ServiceError(400, "A request has either Content-Length or Transfer-Encoding.", closes=True)
        self._check_host(headers)
        self._check_origin(scope["path"], headers)
        client = client_of(scope)
        if self._settings.token is not None and not _is_open(scope["path"]):
            self._check_credentials(headers, client)
        if self._settings.is_public:
            self._check_rate(scope["method"], scope["path"], client)

    def _check_host(self, headers: Headers) -> None:
        """Names that point to this machine in somebody else's DNS are refused; an address has no such owner."""
        name = _host_name(headers.get("host", ""))
        known = (*LOCAL_NAMES, *self._settings.allowed_names, self._settings.host.lower())
        if name not in known and not _is_address(name):
            raise ServiceError(
                403, "This service does not answer under that host name.", "Start it with --allow-name NAME."
            )

    def _check_origin(self, path: str, headers: Headers) -> None:
        """A browser names the page that sends a request; programs do not."""
        origin, host = headers.get("origin"), headers.get("host", "").lower()
        is_own = origin is None or origin.lower() in (f"http://{host}", f"https://{host}")
        is_foreign = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")  # of images and links, too
        if not is_own or (is_foreign and path not in PAGES):
            raise ServiceError(403, "A page of another origin cannot use this service.")

    def check_token(self, given: str, client: str) -> None:
        """Refuse what is not the token, and all that comes from a client that guesses.

        A program that sends the same wrong token many times does not guess.

        Raises:
            ServiceError: the token is wrong, or the client guesses.
        """
        self._guessing.require_room(client, "Too many wrong tokens.")
        if self._is_token(given):
            return
        guess = f"{client} {hash(given)}"
        if given and self._guesses.wait_s(guess) == 0:
            self._guesses.count(guess)
            self._guessing.count(client)
        raise ServiceError(
            401,
            "This is not the token of the service." if given else "This service needs its token.",
            "Send `Authorization: Bearer TOKEN`, or open the address that the service printed.",
        )

    @property
    def cookie(self) -> tuple[str, str]:
        """The name and the value of the cookie that stands for the token.

        Browsers send cookies to all ports of a host: the value does not tell the token to other programs there, and
        the name differs from that of another service.
        """
        token = (self._settings.token or "").encode()
        return f"p3iv_{_digest(token, b'name')[:16]}", _digest(token, b"value")

    def _check_credentials(self, headers: Headers, client: str) -> None:
        """Refuse a request with neither the token nor the cookie."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        name, value = self.cookie
        brought = cookie_parser(headers.get("cookie", "")).get(name, "")
        if not hmac.compare_digest(brought.encode(), value.encode()):
            self.check_token(given.strip() if scheme.lower() == "bearer" else "", client)

    def _is_token(self, given: str) -> bool:
        """Whether this is the token; takes the same time for every wrong one."""
        return hmac.compare_digest(given.encode(), (self._settings.token or "").encode())

    def _check_rate(self, method: str, path: str, client: str) -> None:
        if method == "POST" and path in ("/v1/plan", "/v1/probability", "/v1/follow"):
            self._plans.check(client, f"More than {self._settings.limits.plans_per_minute} plans in a minute.")
        elif method == "PUT" and path in ("/v1/videos", "/v1/pictures"):
            self._uploads.check(client, f"More than {self._settings.limits.uploads_per_hour} uploads in an hour.")

    def _note(self, scope: Scope, answer: _Answer, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        route = _route(scope)
        if self._on_answer:
            self._on_answer(method, route, answer.status, seconds)
        log_event(
            "request", method=method, route=route, status=answer.status, ms=round(1000 * seconds, 1), sent=answer.sent
        )


_METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE")


class RateLimit:
    """At most so many events of a client in some seconds; the clients that were idle longest are forgotten first."""

    def __init__(self, number: int, seconds: float, clock: Callable[[], float]) -> None:
        self._number, self._seconds, self._clock = number, seconds, clock
        self._events: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, client: str, message: str) -> None:
        """Count an event, if there is room for it.

        Raises:
            ServiceError: there are too many.
        """
        self.require_room(client, message)
        self.count(client)

    def require_room(self, client: str, message: str) -> None:
        """Refuse a client that has no room for another event.

        Raises:
            ServiceError: saying when to try again.
        """
        if wait_s := self.wait_s(client):
            raise ServiceError(429, message, f"Try again in {wait_s} seconds.", retry_after_s=wait_s)

    def wait_s(self, client: str) -> int:
        """Full seconds until there is room for another event of a client; 0 if there is."""
        now, events = self._clock(), self._events.get(client, deque())
        while events and events[0] <= now - self._seconds:
            events.popleft()
        return 0 if len(events) < self._number else math.ceil(events[0] + self._seconds - now)

    def count(self, client: str) -> None:
        """Count an event."""
        self._events.setdefault(client, deque()).append(self._clock())
        self._events.move_to_end(client)
        while len(self._events) > MAX_CLIENTS:
            self._events.popitem(last=False)


@dataclass
class _Answer:
    """Sends an answer with the headers that all answers have."""

    inner: Send
    status: int = 0
    sent: int = 0
    _started: bool = field(default=False)
    _own_body: bytes | None = field(default=None)  # in the place of what a library says about an error

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started, self.status = True, message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
            if self.status >= 400 and headers.get("content-type") != "application/json":
                self._own_body = self._rewrite(headers)
        else:
            if self._own_body is not None:
                message = {**message, "body": b"" if self.sent else self._own_body}
            self.sent += len(message.get("body", b""))
        await self.inner(message)

    def _rewrite(self, headers: MutableHeaders) -> bytes:
        """The error of a library in the form of all errors; its other headers stay."""
        body = bytes(error_of_status(self.status).response().body)
        headers["Content-Type"], headers["Content-Length"] = "application/json", str(len(body))
        return body

    async def refuse(self, error: ServiceError, scope: Scope, receive: Receive) -> None:
        if not self._started:
            await error.response()(scope, receive, self.send)


class _Body:
    """Reads a body up to its limit, and not slower than allowed."""

    def __init__(self, receive: Receive, limits: Limits, headers: Headers, path: str) -> None:
        self._receive, self._limits = receive, limits
        self._max_bytes = _max_bytes(path, limits)
        self._is_complete, self._num_bytes = False, 0
        declared = headers.get("content-length", "0")
        if declared.isdecimal() and int(declared[:20]) > self._max_bytes:
            raise self._too_large()

    async def receive(self) -> Message:
        if self._is_complete:
            return await self._receive()  # until the client goes away
        try:
            async with asyncio.timeout(self._limits.idle_s):
                message = await self._receive()
        except TimeoutError as error:
            raise ServiceError(408, f"Nothing arrived for {self._limits.idle_s} seconds.", "Send it again.") from error
        self._num_bytes += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        if self._num_bytes > self._max_bytes:
            raise self._too_large()
        return message

    def _too_large(self) -> ServiceError:
        size = f"{self._max_bytes // MIB} MiB" if self._max_bytes >= MIB else f"{self._max_bytes // 1024} KiB"
        return ServiceError(413, f"The request is larger than {size}, the limit for it.", "Send a smaller one.")


def _max_bytes(path: str, limits: Limits) -> int:
    """The size limit of a body, by its route."""
    if path == "/v1/videos":
        return limits.upload_mib * MIB
    return limits.picture_mib * MIB if path == "/v1/pictures" else limits.json_kib * 1024


def client_of(scope: Scope) -> str:
    """Who sends a request: an address; of an IPv6 address the half that a provider gives to one customer."""
    host = str((scope.get("client") or ("",))[0])
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith("/static/")


def _digest(token: bytes, purpose: bytes) -> str:
    return hmac.new(token, b"p3iv " + purpose, "sha256").hexdigest()


def _host_name(host: str) -> str:
    """The name of a Host header without its port: [::1]:8000 -> ::1."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _route(scope: Scope) -> str:
    """The route of a request, without the ids in its path."""
    route = scope.get("route")
    return getattr(route, "path", "none")
