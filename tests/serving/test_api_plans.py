"""Plans over HTTP are those of Python and of the command line, to the last bit; events show how far they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from commands import RunP3iv
from p3iv.planner import Planner
from p3iv.plans.distribution import PlanDistribution

START, GOAL = "tabletop-demo/eggs.mp4@12", "tabletop-demo/eggs.mp4@26"
EVENTS = {"Accept": "text/event-stream"}
Json = dict[str, Any]


@pytest.fixture
def pair(client: httpx.Client) -> Json:
    """The example of the service."""
    example = client.get("/v1/info").json()["example"]
    return {moment: {"video": example["video"], "t": example[moment]} for moment in ("start", "goal")}


def ask(client: httpx.Client, question: Json) -> Json:
    answer = client.post("/v1/plan", json=question)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def plans_in(answer: Json) -> Json:
    """The fields that the command line has, too."""
    return {name: answer[name] for name in ("plan", "plan_probability", "source", "plans", "samples")}


def events_of(answer: httpx.Response) -> Iterator[tuple[str, Json]]:
    """Names and contents of events as they come."""
    name = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


@pytest.mark.parametrize("more", [{}, {"samples": 50, "seed": 7}, {"samples": 20, "mode": "argmax", "number": 3}])
def test_plans_are_those_of_python(client: httpx.Client, planner: Planner, pair: Json, more: Json) -> None:
    options = {**more, "num_samples": more.get("samples")}
    options.pop("samples", None)
    expected = planner.plan(START, GOAL, **options)
    answer = ask(client, pair | more)
    assert plans_in(answer) == expected.to_dict()
    assert PlanDistribution.from_dict(plans_in(answer)) == expected


def test_plans_are_those_of_the_command_line(client: httpx.Client, pair: Json, p3iv: RunP3iv) -> None:
    words = ("plan", "tabletop-demo", "--start", START, "--goal", GOAL, "--samples", "30", "--seed", "5", "--json")
    printed = p3iv(*words)
    assert plans_in(ask(client, pair | {"samples": 30, "seed": 5})) == json.loads(printed.stdout)


def test_the_same_video_as_an_upload_gives_the_same_plans(client: httpx.Client, pair: Json, clip: Path) -> None:
    video = client.put("/v1/videos", content=clip.read_bytes()).json()["id"]
    assert video != pair["start"]["video"]
    uploaded = {name: {"video": video, "t": pair[name]["t"]} for name in pair}
    assert plans_in(ask(client, uploaded)) == plans_in(ask(client, pair))


def test_features_and_pictures(client: httpx.Client, planner: Planner, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).random((2, planner.header.shape.feature_width)).astype(np.float32)
    start, goal = ({"features": row.tolist()} for row in rows)
    assert plans_in(ask(client, {"start": start, "goal": goal})) == planner.plan(rows[0], rows[1]).to_dict()
    path = tmp_path / "p.png"
    Image.effect_noise((300, 260), 50).convert("RGB").save(path)
    picture = {"picture": client.put("/v1/pictures", content=path.read_bytes()).json()["id"]}
    assert plans_in(ask(client, {"start": picture, "goal": goal})) == planner.plan(str(path), rows[1]).to_dict()


def test_the_graph_the_steps_and_the_times(client: httpx.Client, planner: Planner, pair: Json) -> None:
    answer = ask(client, pair | {"graph": "vertical"})
    assert answer["graph"] == {"svg": planner.plan(START, GOAL).to_svg(vertical=True)}
    assert ask(client, pair)["graph"] is None
    assert set(answer["plan"]) <= set(answer["steps"])
    for name, step in answer["steps"].items():
        assert planner.names[step["index"]] == name
    assert set(answer["timings"]) == {"encode_ms", "plan_ms", "total_ms"}
    assert answer["timings"]["total_ms"] >= answer["timings"]["plan_ms"] > 0


def test_the_probability_of_any_plan(client: httpx.Client, planner: Planner, pair: Json) -> None:
    best = ask(client, pair)
    for plan in (best["plan"], best["plans"][-1]["steps"], [planner.names[0]] * planner.horizon):
        answer = client.post("/v1/probability", json=pair | {"plan": plan})
        assert answer.json() == {"probability": planner.probability(START, GOAL, plan)}
    assert client.post("/v1/probability", json=pair | {"plan": best["plan"]}).json() == {
        "probability": best["plan_probability"]
    }


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"start": None}, 400, "start"),
        ({"start": {"video": "0" * 32}}, 400, "start.t"),
        ({"start": {"video": "0" * 32, "t": 1}}, 404, "no such video"),
        ({"start": {"video": "x" * 32, "t": 1}}, 400, "start.video"),
        ({"start": {"picture": "0" * 64}}, 404, "no such picture"),
        ({"start": {"features": [1.0, 2.0]}}, 422, "1280"),
        ({"start": {"features": []}}, 400, "start.features"),
        ({"start": {"text": "tea"}}, 400, "features"),
        ({"number": 0}, 400, "number"),
        ({"number": 1.0}, 400, "number"),
        ({"number": 1001}, 422, "1000"),
        ({"samples": 10_001}, 422, "10000"),
        ({"samples": True}, 400, "samples"),
        ({"mode": "chain"}, 422, "num_samples"),
        ({"mode": "best", "samples": 3}, 400, "mode"),
        ({"seed": -1}, 400, "seed"),
        ({"seed": 2**63}, 400, "seed"),
        ({"horizon": 4}, 422, "3 steps"),
        ({"graph": "round"}, 400, "graph"),
        ({"path": "/etc/passwd"}, 400, "path"),
    ],
)
def test_a_question_that_has_no_answer(client: httpx.Client, pair: Json, change: Json, status: int, words: str) -> None:
    answer = client.post("/v1/plan", json=pair | change)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert words in error["message"] or words in (error["hint"] or "")


def test_a_moment_after_the_end(client: httpx.Client, pair: Json) -> None:
    answer = client.post("/v1/plan", json=pair | {"goal": pair["goal"] | {"t": 31}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "cannot_plan")
    assert answer.json()["error"]["message"] == "The video is 30 s long, asked for 31 s."


def test_a_step_that_the_planner_does_not_know(client: httpx.Client, planner: Planner, pair: Json) -> None:
    answer = client.post("/v1/probability", json=pair | {"plan": ["fly to the moon"] * planner.horizon})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "cannot_plan")
    assert "fly to the moon" in answer.json()["error"]["message"]


def test_events_show_progress_and_end_with_the_answer(client: httpx.Client, pair: Json) -> None:
    with client.stream("POST", "/v1/plan", json=pair, headers=EVENTS) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        names, contents = zip(*events_of(answer), strict=True)
    assert names == ("progress",) * (len(names) - 1) + ("result",)
    stages = [event["stage"] for event in contents[:-1]]
    assert stages == sorted(stages, key=("encoding", "planning").index)
    assert {"encoding", "planning"} == set(stages)
    for event in contents[:-1]:
        assert 0 <= event["done"] <= event["total"]
    assert plans_in(contents[-1]) == plans_in(ask(client, pair))


def test_events_end_with_an_error(client: httpx.Client, pair: Json) -> None:
    question = pair | {"goal": {"picture": "0" * 64}}
    with client.stream("POST", "/v1/plan", json=question, headers=EVENTS) as answer:
        assert answer.status_code == 200
        *_, (name, content) = events_of(answer)
    assert name == "error"
    assert content == client.post("/v1/plan", json=question).json()
    assert content["error"]["code"] == "not_found"
