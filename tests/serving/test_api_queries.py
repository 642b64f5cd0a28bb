"""Queries over HTTP (words, procedures, history, any length, conditions, reasons) are answered as in Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from commands import RunP3iv
from p3iv.planner import Planner
from p3iv.plans.conditions import Conditions
from p3iv.plans.distribution import PlanDistribution

BESIDE = ("graph", "steps", "timings", "why_words")  # what an answer has beside the fields of `p3iv plan --json`
STEP, OTHER = "crack eggs into the bowl", "add salt to the eggs"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def queries_planner(queries_run: Path) -> Planner:
    """The planner of the service, in this process."""
    return Planner.from_pretrained(queries_run)


@pytest.fixture
def video(queries_client: httpx.Client, queries_planner: Planner) -> tuple[str, str, list[float]]:
    """A video of the dataset: its id, its name, and the starts of its steps."""
    dataset = queries_planner.moments.find_dataset()
    assert dataset is not None
    chosen = dataset.videos[0]
    ids = {each["name"]: each["id"] for each in queries_client.get("/v1/videos").json()["videos"]}
    return ids[chosen.id], chosen.id, [step.start_s or 0.0 for step in chosen.steps]


def ask(client: httpx.Client, question: Json) -> Json:
    answer = client.post("/v1/plan", json=question)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def plans_in(answer: Json) -> Json:
    return {name: value for name, value in answer.items() if name not in BESIDE}


QUERIES: list[tuple[Json, Json]] = [
    ({}, {}),
    ({"history": False}, {"history": False}),
    ({"goal": {"text": "scramble eggs"}}, {"goal_text": "scramble eggs"}),
    ({"goal": {"text": "beat some eggs"}, "horizon": 3}, {"goal_text": "beat some eggs", "horizon": 3}),
    ({"procedure": "make tea"}, {"procedure": "make tea"}),
    ({"samples": 30, "seed": 5, "number": 7}, {"num_samples": 30, "seed": 5, "number": 7}),
    ({"conditions": {"with": [OTHER], "first": STEP}}, {"conditions": Conditions(including=[OTHER], first=STEP)}),
    (
        {
            "conditions": {
                "without": [STEP],
                "at": [[2, OTHER]],
                "before": [[STEP, OTHER]],
                "done": [STEP],
            }
        },
        {"conditions": Conditions(without=[STEP], at=[(2, OTHER)], before=[(STEP, OTHER)], done=[STEP])},
    ),
    ({"why": True, "goal": {"text": "make tea"}, "number": 4}, {"why": True, "goal_text": "make tea", "number": 4}),
]


@pytest.mark.parametrize(("asked", "options"), QUERIES)
def test_answers_are_those_of_python(
    queries_client: httpx.Client,
    queries_planner: Planner,
    video: tuple[str, str, list[float]],
    asked: Json,
    options: Json,
) -> None:
    video_id, name, starts = video
    start, goal = ({"video": video_id, "t": second} for second in (starts[2], starts[-1]))
    for more, end in (({}, None), ({"goal": goal}, (name, starts[-1]))):
        expected = queries_planner.plan((name, starts[2]), None if "goal" in asked else end, **options)
        answer = plans_in(ask(queries_client, {"start": start} | more | asked))
        assert answer == expected.to_dict()
        assert PlanDistribution.from_dict(answer) == expected


def test_the_history_of_a_video_file_is_that_of_python(
    queries_client: httpx.Client, queries_planner: Planner, clip: Path
) -> None:
    uploaded = queries_client.put("/v1/videos", content=clip.read_bytes()).json()["id"]
    question: Json = {"start": {"video": uploaded, "t": 12}, "goal": {"video": uploaded, "t": 26}}
    first = ask(queries_client, question)
    assert plans_in(first) == queries_planner.plan((clip, 12), (clip, 26)).to_dict()
    again = ask(queries_client, question)
    assert plans_in(again) == plans_in(first)
    without = ask(queries_client, question | {"history": False})
    assert plans_in(without) == queries_planner.plan((clip, 12), (clip, 26), history=False).to_dict()
    assert without["plans"] != first["plans"]
    nothing_before = ask(queries_client, question | {"start": {"video": uploaded, "t": 0.5}})
    assert plans_in(nothing_before) == queries_planner.plan((clip, 0.5), (clip, 26)).to_dict()


def test_answers_are_those_of_the_command_line(
    queries_client: httpx.Client, queries_run: Path, video: tuple[str, str, list[float]], p3iv: RunP3iv
) -> None:
    video_id, name, starts = video
    words = ("plan", queries_run, "--start", f"{name}@{starts[3]:g}", "--goal-text", "some eggs")
    printed = p3iv(*words, "--without", STEP, "--done", OTHER, "--why", "--json")
    answer = ask(
        queries_client,
        {
            "start": {"video": video_id, "t": float(f"{starts[3]:g}")},
            "goal": {"text": "some eggs"},
            "conditions": {"without": [STEP], "done": [OTHER]},
            "why": True,
        },
    )
    assert plans_in(answer) == json.loads(printed.stdout)
    assert answer["understood"][0].startswith('understood "some eggs" as ')


def test_reasons_come_with_sentences(
    queries_client: httpx.Client, queries_planner: Planner, video: tuple[str, str, list[float]]
) -> None:
    video_id, name, starts = video
    start = {"video": video_id, "t": starts[4]}
    answer = ask(queries_client, {"start": start, "why": True, "number": 3})
    expected = queries_planner.plan((name, starts[4]), why=True, number=3)
    assert [each["headline"] for each in answer["why_words"]] == [each.headline() for each in expected.reasons]
    changes = [each.change.to_text() if each.change else None for each in expected.reasons]
    assert [each["change"] for each in answer["why_words"]] == changes
    assert "why" not in ask(queries_client, {"start": start})


def test_the_probability_of_a_plan_of_any_length_under_conditions(
    queries_client: httpx.Client, queries_planner: Planner, video: tuple[str, str, list[float]]
) -> None:
    video_id, name, starts = video
    query: Json = {"start": {"video": video_id, "t": starts[2]}, "procedure": "scramble eggs"}
    conditions = {"without": [STEP]}
    best = ask(queries_client, query | {"conditions": conditions})
    for plan in best["plans"][:3]:
        asked = query | {"conditions": conditions, "plan": plan["steps"]}
        answer = queries_client.post("/v1/probability", json=asked).json()
        options: Json = {"procedure": "scramble eggs", "conditions": Conditions.from_dict(conditions)}
        assert answer == {"probability": queries_planner.probability((name, starts[2]), None, plan["steps"], **options)}
    excluded = queries_client.post("/v1/probability", json=query | {"conditions": conditions, "plan": [STEP]})
    assert excluded.json() == {"probability": 0.0}


def test_what_a_planner_understands_is_said(queries_client: httpx.Client, client: httpx.Client) -> None:
    info = queries_client.get("/v1/info").json()
    assert info["horizons"] == [1, 2, 3, 4, 5, 6]
    assert info["procedures"] == ["make tea", "scramble eggs", "send a card"]
    assert info["evidence"] == ["start", "goal", "history", "words", "procedure"]
    assert info["reasons"] is True
    fixed = client.get("/v1/info").json()
    assert (fixed["horizons"], fixed["procedures"], fixed["evidence"]) == ([3], [], ["start", "goal"])
    assert fixed["reasons"] is False


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"goal": {"text": ""}}, 400, "goal.text"),
        ({"goal": {"text": "x" * 501}}, 400, "goal.text"),
        ({"goal": {"text": "tea", "t": 1}}, 400, "goal.t"),
        ({"goal": {"words": "tea"}}, 400, '"text"'),
        ({"goal": {"text": "quantum chromodynamics"}}, 422, "did you mean"),
        ({"goal": {"text": "???"}}, 422, "no words"),
        ({"procedure": "make te"}, 422, "did you mean"),
        ({"history": 1}, 400, "history"),
        ({"why": "yes"}, 400, "why"),
        ({"horizon": 7}, 422, "1 to 6 steps"),
        ({"conditions": []}, 400, "conditions"),
        ({"conditions": {"unless": []}}, 400, "conditions.unless"),
        ({"conditions": {"including": [STEP]}}, 400, "conditions.including"),
        ({"conditions": {"at": [["2", STEP]]}}, 400, "conditions.at"),
        ({"conditions": {"at": [[0, STEP]]}}, 400, "conditions.at"),
        ({"conditions": {"before": [[STEP]]}}, 400, "conditions.before"),
        ({"conditions": {"before": [[STEP, STEP]]}}, 422, "two different steps"),
        ({"conditions": {"without": [STEP] * 101}}, 400, "conditions.without"),
        ({"conditions": {"without": ["crack egs into the bowl"]}}, 422, f"Similar: '{STEP}'"),
        ({"conditions": {"without": [STEP], "first": STEP}}, 422, "cannot hold together in a plan of 1 to 6 steps"),
        ({"conditions": {"first": STEP, "last": OTHER}, "horizon": 1}, 422, "a plan has 1 step"),
    ],
)
def test_a_query_that_has_no_answer(
    queries_client: httpx.Client,
    video: tuple[str, str, list[float]],
    change: Json,
    status: int,
    words: str,
) -> None:
    question = {"start": {"video": video[0], "t": video[2][1]}} | change
    answer = queries_client.post("/v1/plan", json=question)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert words in error["message"]
    assert error["code"] == ("bad_request" if status == 400 else "cannot_plan")


def test_a_planner_of_pictures_refuses_words_and_takes_conditions(client: httpx.Client, planner: Planner) -> None:
    example = client.get("/v1/info").json()["example"]
    start, goal = ({"video": example["video"], "t": example[end]} for end in ("start", "goal"))
    for change in ({"goal": {"text": "tea"}}, {"procedure": "make tea", "goal": goal}, {"goal": None}):
        answer = client.post("/v1/plan", json={"start": start} | change)
        assert answer.status_code == 422
        assert "--horizon 1-6" in answer.json()["error"]["message"]
    plan = ask(client, {"start": start, "goal": goal})["plan"]
    under = ask(client, {"start": start, "goal": goal, "conditions": {"without": plan[:1]}})
    expected = planner.plan(
        "tabletop-demo/eggs.mp4@12", "tabletop-demo/eggs.mp4@26", conditions=Conditions(without=plan[:1])
    )
    assert plans_in(under) == expected.to_dict()
    refused = client.post("/v1/plan", json={"start": start, "goal": goal, "why": True})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "cannot_plan")
