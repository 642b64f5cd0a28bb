"""Valid requests as the page and programs send them: to look at videos, to upload, to plan, and to go away."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import httpx

from soak.raw_http import exchange, request
from soak.requests import Known

Visit = Callable[["Visits", random.Random], "str | None"]


class Visits:
    """Pays visits to a service; each returns what was wrong, if anything was."""

    def __init__(self, url: str, known: Known, seed: int) -> None:
        self._client = httpx.Client(base_url=url, timeout=60)
        self._known, self._seed = known, seed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End its connections."""
        self._client.close()

    def pay(self, number: int) -> str | None:
        """The visit of a number."""
        rng = random.Random(f"{self._seed} {number}")
        (visit,) = rng.choices(list(_VISITS), list(_VISITS.values()))
        try:
            return visit(self, rng)
        except (httpx.HTTPError, KeyError, ValueError) as error:
            return f"{visit.__name__}: {type(error).__name__} {error}"

    def look(self, rng: random.Random) -> str | None:
        """Ask for what the page asks for when it is opened."""
        paths = (
            "/",
            "/static/main.js",
            "/static/style.css",
            "/healthz",
            "/readyz",
            "/v1/info",
            "/v1/videos",
            "/metrics",
        )
        return self._expect(self._client.get(rng.choice(paths)), 200)

    def play(self, rng: random.Random) -> str | None:
        """Ask for a part of a file."""
        first = rng.randrange(300_000)
        part = f"bytes={first}-{first + rng.randrange(50_000)}"
        return self._expect(self._client.get(self._place("file"), headers={"Range": part}), 206)

    def scrub(self, rng: random.Random) -> str | None:
        """Ask for a frame, or for many in one picture."""
        query = f"frame?t={30 * rng.random():.3f}&w={rng.randrange(16, 200)}"
        return self._expect(self._client.get(self._place(rng.choice((query, query, query, "strip?n=4&w=40")))), 200)

    def plan(self, rng: random.Random) -> str | None:
        """Plan between two moments of a known video."""
        question = self._question(rng)
        if rng.random() < 0.3:
            answer = self._client.post("/v1/probability", json=question | {"plan": self._known.plan})
        else:
            answer = self._client.post(
                "/v1/plan", json=question | {"samples": rng.choice((None, 10)), "graph": "vertical"}
            )
        return self._expect(answer, 200)

    def plan_with_progress(self, rng: random.Random) -> str | None:
        """Plan with progress, and stay to the end or not."""
        body, events = self._question(rng), {"Accept": "text/event-stream"}
        with self._client.stream("POST", "/v1/plan", json=body, headers=events) as answer:
            lines = answer.iter_lines()
            if rng.random() < 0.5:
                next(lines)
                return self._expect(answer, 200)
            names = [line for line in lines if line.startswith("event: ")]
        return None if names[-1] == "event: result" else f"events end with {names[-1]}"

    def upload(self, rng: random.Random) -> str | None:
        """Send a video that nobody sent before, and use it while it is there."""
        content = padded(self._known.clip, rng)
        sent = self._client.put("/v1/videos", params={"name": f"{rng.random()}.mp4"}, content=content)
        if problem := self._expect(sent, 201, 404):  # 404: others have needed its room already
            return problem
        place = f"/v1/videos/{sent.json().get('id')}"
        for path in rng.sample(("", "/file", "/frame?t=1", "/strip?n=2"), 2):
            if problem := self._expect(self._client.get(place + path), 200, 404):
                return problem
        if rng.random() < 0.2:
            moment = {"video": sent.json().get("id", "0" * 64), "t": 1}
            return self._expect(self._client.post("/v1/plan", json={"start": moment, "goal": moment}), 200, 404, 422)
        return self._expect(self._client.delete(place), 204, 404) if rng.random() < 0.3 else None

    def send_picture(self, rng: random.Random) -> str | None:
        """Send a picture, and look at it."""
        sent = self._client.put("/v1/pictures", content=self._known.picture + rng.randbytes(8))
        if problem := self._expect(sent, 201):
            return problem
        return self._expect(self._client.get(f"/v1/pictures/{sent.json()['id']}?w=20"), 200, 404)

    def break_off(self, rng: random.Random) -> str | None:
        """Send a part of an upload, or ask for a file and do not read it."""
        port = self._client.base_url.port or 80
        content = padded(self._known.clip, rng)
        part = request("PUT", "/v1/videos", content_length=str(len(content))) + content[: rng.randrange(len(content))]
        exchange(port, rng.choice((part, request("GET", self._place("file")))), wanted=0)
        return None

    def ask_wrongly(self, rng: random.Random) -> str | None:
        """Ask for what is not there."""
        path = rng.choice(("/v1/videos/" + "0" * 64, "/v1/pictures/" + "0" * 64, "/v1/steps/999/picture", "/nowhere"))
        return self._expect(self._client.get(path), 404)

    def _place(self, rest: str) -> str:
        return f"/v1/videos/{self._known.video}/{rest}"

    def _question(self, rng: random.Random) -> dict[str, Any]:
        moments = ({"video": self._known.video, "t": rng.randrange(30)} for _ in range(2))
        return dict(zip(("start", "goal"), moments, strict=True))

    def _expect(self, answer: httpx.Response, *statuses: int) -> str | None:
        if answer.status_code in statuses:
            return None
        with suppress(httpx.ResponseNotRead):
            return f"{answer.request.method} {answer.request.url.path}: {answer.status_code} {answer.text[:300]}"
        return f"{answer.status_code}"


def padded(clip: bytes, rng: random.Random) -> bytes:
    """The video with bytes behind it that players skip, up to 2 MB of them."""
    rest = rng.randbytes(rng.choice((10, 10_000, 500_000, 2_000_000)))
    return clip + struct.pack(">I", len(rest) + 8) + b"free" + rest


_VISITS: dict[Visit, int] = {
    Visits.look: 22,
    Visits.play: 10,
    Visits.scrub: 14,
    Visits.plan: 12,
    Visits.plan_with_progress: 6,
    Visits.upload: 18,
    Visits.send_picture: 6,
    Visits.break_off: 6,
    Visits.ask_wrongly: 6,
}
