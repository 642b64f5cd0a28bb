"""Requests to the service: valid ones of every kind, and what a broken or hostile client would send instead."""

from __future__ import annotations

import io
import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_from_bytes

import numpy as np
from PIL import Image

from p3iv.features.video_file import write_video
from soak.mutations import WORDS, mutate_bytes, mutate_json
from soak.raw_http import request

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get", "G\u00c4T", "A" * 300, "")
HEADERS: Final = (
    *(
        "host",
        "origin",
        "content-type",
        "content-length",
        "transfer-encoding",
        "connection",
        "upgrade",
        "expect",
        "range",
    ),
    *("if-range", "if-none-match", "accept", "accept-encoding", "authorization", "cookie", "te", "x-forwarded-for"),
    *("x-http-method-override", "forwarded", "keep-alive", "", "a" * 200, "x y", "x\0"),
)
VALUES: Final = (
    *(
        "chunked",
        "gzip, chunked",
        "identity",
        "0",
        "-1",
        "5",
        "99999999999",
        "close",
        "websocket",
        "h2c",
        "100-continue",
    ),
    *("bytes=0-", "bytes=9-1", "bytes=-0", "bytes=0-1,4-5", "bytes=" + "0-0," * 500, "null", "http://localhost", "*/*"),
    *(
        "text/event-stream",
        "application/json",
        "multipart/form-data; boundary=x",
        "Bearer x",
        "p3iv_token=x",
        "a" * 9000,
    ),
)


@dataclass(frozen=True)
class Known:
    """What valid requests name: ids and files that the service has or takes."""

    video: str  # the id of one that comes with the planner
    plan: tuple[str, ...]
    clip: bytes  # a video to upload
    picture: bytes

    @property
    def question(self) -> dict[str, Any]:
        return {"start": {"video": self.video, "t": 3.0}, "goal": {"video": self.video, "t": 21.5}}


def make_known(video: str, plan: tuple[str, ...]) -> Known:
    """A known video and a plan, with a small video and a small picture to upload."""
    rng, picture = np.random.default_rng(0), io.BytesIO()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        path = Path(folder) / "clip.mp4"
        write_video(path, (rng.integers(0, 255, (32, 48, 3), dtype=np.uint8) for _ in range(12)), fps=4)
        clip = path.read_bytes()
    Image.fromarray(rng.integers(0, 255, (30, 40, 3), dtype=np.uint8)).save(picture, "PNG")
    return Known(video, plan, clip, picture.getvalue())


def valid_requests(known: Known) -> list[bytes]:
    """One of every kind; those with the same place are the same in every run."""
    place, asked = f"/v1/videos/{known.video}", json.dumps(known.question).encode()
    plan = json.dumps(known.question | {"plan": known.plan}).encode()
    rich = json.dumps(known.question | {"samples": 20, "mode": "chain", "seed": 3, "number": 5, "graph": "vertical"})
    typed, events = {"content_type": "application/json"}, {"accept": "text/event-stream"}
    return [
        *(request("GET", target) for target in ("/", "/static/main.js", "/healthz", "/readyz", "/v1/info", "/metrics")),
        *(request("GET", target) for target in ("/v1/videos", "/openapi.json", place, f"{place}/file", "/nowhere")),
        request("GET", f"{place}/file", range="bytes=100-199", if_range="x"),
        *(request("GET", f"{place}/{rest}") for rest in ("frame?t=3&w=64", "strip?n=3&w=32", "frame?t=29.5")),
        *(request("GET", target) for target in ("/v1/steps/3/picture", "/v1/pictures/" + "0" * 64)),
        request("POST", "/v1/plan", asked, **typed),
        request("POST", "/v1/plan", rich.encode(), **typed),
        request("POST", "/v1/plan", asked, **typed, **events),
        request("POST", "/v1/follow", json.dumps({"video": known.video, "number": 2}).encode(), **typed),
        request("POST", "/v1/probability", plan, **typed),
        request("POST", "/v1/session", b'{"token": ""}', **typed),
        request("PUT", "/v1/videos?name=a.mp4", known.clip),
        request("PUT", "/v1/pictures", known.picture),
        request("DELETE", "/v1/videos/" + "0" * 64),
        request("OPTIONS", "/v1/plan", origin="http://evil.example"),
    ]


@dataclass(frozen=True)
class Sent:
    """Bytes for a connection, and whether the client waits for an answer."""

    kind: str
    content: bytes
    waits: bool = True


def draw_malformed(rng: random.Random, known: Known) -> Sent:
    """A request with something wrong with it, mostly."""
    kind = rng.choice(tuple(_KINDS))
    valid = rng.choice(valid_requests(known))
    return Sent(kind, _KINDS[kind](rng, valid, known), waits=kind != "hang up")


def _noise(rng: random.Random, valid: bytes, known: Known) -> bytes:
    del valid, known
    return rng.randbytes(rng.choice((1, 10, 100, 5000))) if rng.random() < 0.7 else rng.choice(WORDS) + b"\r\n\r\n"


def _any_damage(rng: random.Random, valid: bytes, known: Known) -> bytes:
    del known
    return mutate_bytes(rng, valid)


def _damaged_head(rng: random.Random, valid: bytes, known: Known) -> bytes:
    del known
    head, _, body = valid.partition(b"\r\n\r\n")
    return mutate_bytes(rng, head) + b"\r\n\r\n" + body


def _damaged_json(rng: random.Random, valid: bytes, known: Known) -> bytes:
    del valid
    target, content = rng.choice(
        [
            ("/v1/plan", known.question | {"samples": 5, "number": 3, "seed": 1, "mode": "chain", "graph": "vertical"}),
            ("/v1/plan", {"start": {"picture": "0" * 64}, "goal": {"features": [0.5] * 1280}}),
            ("/v1/probability", known.question | {"plan": list(known.plan)}),
            ("/v1/follow", {"video": known.video, "goal": {"text": "tea"}, "number": 3, "from": 1.5}),
            ("/v1/session", {"token": "guess"}),
        ]
    )
    body = mutate_json(rng, json.dumps(content).encode())
    more = {"accept": "text/event-stream"} if rng.random() < 0.2 else {}
    return request("POST", target, body, content_type="application/json", **more)


def _damaged_file(rng: random.Random, valid: bytes, known: Known) -> bytes:
    del valid
    content, target = (known.clip, "/v1/videos") if rng.random() < 0.5 else (known.picture, "/v1/pictures")
    return request("PUT", target, mutate_bytes(rng, content))


def _wrong_target(rng: random.Random, valid: bytes, known: Known) -> bytes:
    del known
    method, target, _ = valid.split(b" ", 2)
    parts = target.decode().split("/")
    parts[rng.randrange(1, len(parts))] = quote_from_bytes(rng.choice(WORDS)[:3000], safe=rng.choice(("", "/?#%;")))
    chosen = rng.choice(METHODS).encode("utf-8") if rng.random() < 0.4 else method
    return b" ".join([chosen, "/".join(parts).encode(), b"HTTP/1.1\r\nHost: localhost\r\n\r\n"])


def _wrong_header(rng: random.Random, valid: bytes, known: Known) -> bytes:
    del known
    line, _, rest = valid.partition(b"\r\n")
    value = rng.choice(VALUES).encode() if rng.random() < 0.7 else rng.choice(WORDS)
    return line + b"\r\n" + rng.choice(HEADERS).encode() + b": " + value + b"\r\n" + rest


def _several(rng: random.Random, valid: bytes, known: Known) -> bytes:
    return b"".join([valid, rng.choice(valid_requests(known)), mutate_bytes(rng, valid)])


def _cut(rng: random.Random, valid: bytes, known: Known) -> bytes:
    del known
    return valid[: rng.randrange(len(valid))]


_KINDS: Final[dict[str, Callable[[random.Random, bytes, Known], bytes]]] = {
    "noise": _noise,
    "any damage": _any_damage,
    "damaged head": _damaged_head,
    "damaged JSON": _damaged_json,
    "damaged file": _damaged_file,
    "wrong target": _wrong_target,
    "wrong header": _wrong_header,
    "several": _several,
    "hang up": _cut,
}
