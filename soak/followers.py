"""Clients that follow videos: to the end, for a while, without reading, or while the video is deleted."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import httpx

from soak.raw_http import exchange, request
from soak.visits import padded

Visit = Callable[["Followers", random.Random], "str | None"]
REFUSED = ("busy", "too_long", "not_found")  # what may end a video: others need the service, or the video is gone


def make_following_run(folder: Path) -> Path:
    """A small planner that can follow, on videos whose features are not complete."""
    data, run = folder / "demo" / "tabletop", folder / "follow"
    options = ("--planner", "p3iv-plus", "--horizon", "1-6", "--split", "release", "--set", "optim.epochs=2")
    for words in (("demo", folder / "demo", "--quick"), ("train", data, *options, "--out", run)):
        subprocess.run([sys.executable, "-m", "p3iv", *words], capture_output=True, check=True)
    return run


class Followers:
    """Follow videos of a service; each visit returns what was wrong, if anything was.

    Args:
        url: of the service.
        clip: the content of a video.
        seed: of the visits.
    """

    def __init__(self, url: str, clip: bytes, seed: int) -> None:
        self._client = httpx.Client(base_url=url, timeout=60)
        self._clip, self._seed = clip, seed
        videos = self._client.get("/v1/videos").json()["videos"]
        self._videos = [video["id"] for video in videos if video["source"] == "dataset"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End its connections."""
        self._client.close()

    def pay(self, number: int) -> str | None:
        """The visit of a number."""
        rng = random.Random(f"{self._seed} {number}")
        visit = rng.choice(_VISITS)
        try:
            return visit(self, rng)
        except (httpx.HTTPError, KeyError, ValueError) as error:
            return f"{visit.__name__}: {type(error).__name__} {error}"

    def stay(self, rng: random.Random) -> str | None:
        """Follow a video to its end."""
        return self._follow(self._question(rng), number=None)

    def leave(self, rng: random.Random) -> str | None:
        """Follow a video for a while."""
        return self._follow(self._question(rng), number=rng.randrange(1, 20))

    def ignore(self, rng: random.Random) -> str | None:
        """Ask, and do not read what comes."""
        body = json.dumps(self._question(rng)).encode()
        port = self._client.base_url.port or 80
        exchange(port, request("POST", "/v1/follow", body, content_type="application/json"), wanted=0)
        return None

    def delete(self, rng: random.Random) -> str | None:
        """Send a video, follow it, and delete it meanwhile."""
        sent = self._client.put("/v1/videos", content=padded(self._clip, rng))
        if sent.status_code != 201:
            return None  # there was no room for it
        question = {"video": sent.json()["id"]}
        at = rng.randrange(1, 20)
        return self._follow(question, None, lambda: self._client.delete(f"/v1/videos/{question['video']}"), at)

    def plan(self, rng: random.Random) -> str | None:
        """Plan while others follow."""
        moment = {"video": rng.choice(self._videos), "t": rng.randrange(30)}
        answer = self._client.post("/v1/plan", json={"start": moment, "number": 5})
        return None if answer.status_code in (200, 503) else f"plan: {answer.status_code} {answer.text[:300]}"

    def _question(self, rng: random.Random) -> dict[str, Any]:
        choices: tuple[dict[str, Any], ...] = ({}, {"goal": {"text": "make tea"}}, {"from": 20}, {"horizon": 2})
        return {"video": rng.choice(self._videos), **rng.choice(choices)}

    def _follow(
        self,
        question: dict[str, Any],
        number: int | None,
        meanwhile: Callable[[], object] = lambda: None,
        meanwhile_at: int = 0,
    ) -> str | None:
        """Read so many moments, or all; what is wrong with them."""
        with self._client.stream("POST", "/v1/follow", json=question) as answer:
            if answer.status_code != 200:
                content = json.loads(answer.read())
                return None if content["error"]["code"] in REFUSED else f"follow: {content}"
            second, name = -1, ""
            for at, (name, content) in enumerate(_events(answer.iter_lines())):
                if name == "moment" and content["second"] <= second:
                    return f"second {content['second']} after {second}"
                second = content.get("second", second)
                if at == meanwhile_at:
                    meanwhile()
                if at == number:
                    return None
        if name == "error" and content["error"]["code"] in REFUSED:
            return None
        return None if name == "end" else f"a video ends with {name} {content}"


def _events(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


_VISITS: tuple[Visit, ...] = (
    Followers.stay,
    Followers.leave,
    Followers.leave,
    Followers.ignore,
    Followers.delete,
    Followers.plan,
)
