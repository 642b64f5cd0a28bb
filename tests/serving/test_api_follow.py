"""Videos that are followed over HTTP: every second as in Python, one event after the other, to the end or not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from clips import write_clip
from p3iv.planner import Planner
from p3iv.plans.conditions import Conditions
from serving.browser.driving import busy_workers
from serving.conftest import OpenClient, figure
from soak.service_process import ServiceProcess, wait_for

STEP, OTHER = "crack eggs into the bowl", "add salt to the eggs"
Json = dict[str, Any]
Event = tuple[str, Json]


@pytest.fixture(scope="module")
def queries_planner(queries_run: Path) -> Planner:
    """The planner of the service, in this process."""
    return Planner.from_pretrained(queries_run)


@pytest.fixture(scope="module")
def stored_planner(query_run: Path) -> Planner:
    """The planner of the service without encoder, in this process."""
    return Planner.from_pretrained(query_run)


@pytest.fixture
def videos(queries_client: httpx.Client) -> dict[str, str]:
    """The ids of the videos by name."""
    return {each["name"]: each["id"] for each in queries_client.get("/v1/videos").json()["videos"]}


@pytest.fixture
def uploaded(queries_client: httpx.Client, clip: Path) -> Iterator[str]:
    """A video of 30 seconds that is not one of the dataset."""
    video = str(queries_client.put("/v1/videos", content=clip.read_bytes()).json()["id"])
    yield video
    queries_client.delete(f"/v1/videos/{video}")


@pytest.fixture
def long_video(queries_client: httpx.Client, tmp_path: Path) -> Iterator[str]:
    """A video of 200 seconds."""
    write_clip(tmp_path / "long.mp4", range(0, 200_000, 500))
    video = str(queries_client.put("/v1/videos", content=(tmp_path / "long.mp4").read_bytes()).json()["id"])
    yield video
    queries_client.delete(f"/v1/videos/{video}")


def read_events(lines: Iterable[str]) -> Iterator[Event]:
    """The names and contents of server-sent events."""
    name = ""
    for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


@contextmanager
def opened(client: httpx.Client, question: Json) -> Iterator[Iterator[Event]]:
    """The events of a video, as they come."""
    with client.stream("POST", "/v1/follow", json=question) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield read_events(answer.iter_lines())


def follow(client: httpx.Client, question: Json) -> list[Json]:
    """All moments of a video."""
    with opened(client, question) as events:
        *moments, end = events
    assert end == ("end", {"moments": len(moments)})
    assert {name for name, _ in moments} <= {"moment"}
    return [moment for _, moment in moments]


QUESTIONS: list[tuple[Json, Json]] = [
    ({}, {}),
    ({"goal": {"text": "scramble eggs"}, "number": 2}, {"goal_text": "scramble eggs", "number": 2}),
    ({"procedure": "make tea", "horizon": 2}, {"procedure": "make tea", "horizon": 2}),
    (
        {"conditions": {"without": [STEP], "done": [OTHER]}},
        {"conditions": Conditions(without=[STEP], done=[OTHER])},
    ),
]


@pytest.mark.parametrize(("asked", "options"), QUESTIONS)
def test_features_of_the_dataset_are_followed_as_in_python(
    stored_service: ServiceProcess, stored_planner: Planner, asked: Json, options: Json
) -> None:
    with httpx.Client(base_url=stored_service.url, timeout=60) as client:
        videos = client.get("/v1/videos").json()["videos"]
        moments = follow(client, {"video": videos[1]["id"]} | asked)
    assert moments == [moment.to_dict() for moment in stored_planner.follow(videos[1]["name"], **options)]
    assert [moment["second"] for moment in moments] == list(range(int(videos[1]["length_s"])))


def test_a_video_of_the_dataset_is_followed_by_its_file_where_features_are_missing(
    queries_client: httpx.Client, queries_planner: Planner, videos: dict[str, str], demo: Path
) -> None:
    name, file = "tabletop-0001", demo / "tabletop" / "videos" / "tabletop-0001.mp4"
    question = {"video": videos[name], "goal": {"video": videos[name], "t": 25}}
    moments = follow(queries_client, question)
    assert moments == [moment.to_dict() for moment in queries_planner.follow(file, (file, 25))]
    assert [moment["second"] for moment in moments] == list(range(len(moments)))


def test_a_file_is_followed_as_in_python_and_every_second_is_encoded_once(
    queries_service: ServiceProcess,
    queries_client: httpx.Client,
    queries_planner: Planner,
    uploaded: str,
    clip: Path,
) -> None:
    moments = follow(queries_client, {"video": uploaded})
    assert moments == [moment.to_dict() for moment in queries_planner.follow(clip)]
    assert len(moments) == 30
    question: Json = {"start": {"video": uploaded, "t": 20}, "goal": {"video": uploaded, "t": 26}}
    with busy_workers(queries_service):  # nothing can be encoded
        again = follow(queries_client, {"video": uploaded, "from": 12.5})
        plan = queries_client.post("/v1/plan", json=question)
    assert again == moments[13:]
    assert plan.json()["plan"] == list(queries_planner.plan((clip, 20), (clip, 26)).plan)


def test_nothing_is_sent_from_after_the_end(queries_client: httpx.Client, videos: dict[str, str]) -> None:
    assert follow(queries_client, {"video": videos["tabletop-0001"], "from": 4000}) == []


def test_a_client_that_goes_away_ends_the_work(queries_client: httpx.Client, long_video: str) -> None:
    before = figure(queries_client, "p3iv_cached_rows")
    with opened(queries_client, {"video": long_video}) as events:
        assert next(events)[1]["second"] == 0
        assert next(events)[1]["second"] == 1
        assert figure(queries_client, "p3iv_follows") == 1
    wait_for(lambda: figure(queries_client, "p3iv_follows") == 0, "the end of the work", 20)
    wait_for(lambda: figure(queries_client, "p3iv_jobs_waiting") == 0, "the end of its jobs", 20)
    assert figure(queries_client, "p3iv_cached_rows") - before < 100


def test_others_have_their_turn(queries_client: httpx.Client, long_video: str, uploaded: str) -> None:
    question: Json = {"start": {"video": uploaded, "t": 3.0}, "goal": {"video": uploaded, "t": 9.0}, "history": False}
    with opened(queries_client, {"video": long_video}) as events:
        next(events)
        assert queries_client.post("/v1/plan", json=question).status_code == 200
        assert figure(queries_client, "p3iv_follows") == 1  # it was not over before


def test_a_video_that_is_deleted_meanwhile(queries_client: httpx.Client, long_video: str) -> None:
    with opened(queries_client, {"video": long_video}) as events:
        assert next(events)[0] == "moment"
        queries_client.delete(f"/v1/videos/{long_video}").raise_for_status()
        *_, (name, content) = events
    assert name == "error"
    assert content["error"]["code"] == "not_found"


def test_silence_is_filled(queries_service: ServiceProcess, queries_client: httpx.Client, long_video: str) -> None:
    """While nothing comes, the client knows that the service is there."""
    question = {"video": long_video}
    with queries_client.stream("POST", "/v1/follow", json=question) as answer:
        lines = answer.iter_lines()
        while not next(lines).startswith("data: "):
            pass
        with busy_workers(queries_service):
            while not next(lines).startswith(": "):
                pass


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"video": "0" * 32}, 404, "no such video"),
        ({"video": "../x"}, 400, "video"),
        ({"video": None}, 400, "video"),
        ({"start": {"features": [1.0]}}, 400, "start"),
        ({"history": False}, 400, "history"),
        ({"number": 0}, 400, "number"),
        ({"number": 1_001}, 422, "at most 1000"),
        ({"from": -1}, 400, "from"),
        ({"from_s": 1}, 400, "from_s"),
        ({"horizon": 7}, 422, "1 to 6 steps"),
        ({"goal": {"text": "quantum chromodynamics"}}, 422, "did you mean"),
        ({"goal": {"video": "0" * 32, "t": 1}}, 404, "no such video"),
        ({"procedure": "make te"}, 422, "did you mean"),
        ({"conditions": {"without": ["crack egs into the bowl"]}}, 422, f"Similar: '{STEP}'"),
    ],
)
def test_what_cannot_be_followed_is_refused_before_the_first_event(
    queries_client: httpx.Client, videos: dict[str, str], change: Json, status: int, words: str
) -> None:
    answer = queries_client.post("/v1/follow", json={"video": videos["tabletop-0001"]} | change)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]["message"]


def test_a_planner_that_cannot_follow_says_so(client: httpx.Client, queries_client: httpx.Client) -> None:
    assert queries_client.get("/v1/info").json()["can_follow"] is True
    info = client.get("/v1/info").json()
    assert info["can_follow"] is False
    answer = client.post("/v1/follow", json={"video": info["example"]["video"]})
    assert answer.status_code == 422
    assert answer.json()["error"]["message"] == "This planner cannot follow videos."
    assert "--horizon 1-6" in answer.json()["error"]["hint"]


def test_it_counts_as_a_plan_on_a_public_address(public_client: OpenClient, public_token: str) -> None:
    client = public_client("127.0.3.9", public_token)
    answers = [client.post("/v1/follow", json={"video": "0" * 32}).status_code for _ in range(4)]
    assert answers == [422, 422, 422, 429]
