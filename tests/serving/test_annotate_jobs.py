"""Suggestions, agreement, extraction and training over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from p3iv.serving.annotate_routes import annotate_router
from serving.annotate_folders import add_step, make_folder, put_steps, video_ids
from serving.test_api_follow import read_events
from serving.test_openapi import validate
from soak.service_process import ServiceProcess, running_service

Json = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("annotate") / "kitchen")


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[ServiceProcess]:
    with running_service("--annotate", str(folder), "--limit", "jobs=1") as started:
        yield started


@pytest.fixture
def client(service: ServiceProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=60) as opened:
        yield opened


def wait_for_end(client: httpx.Client, job: Json, seconds: float = 120) -> Json:
    """A job when it does not run any more."""
    end = time.monotonic() + seconds
    while job["status"] == "running" and time.monotonic() < end:
        time.sleep(0.1)
        job = client.get(f"/v1/jobs/{job['id']}").json()
    return job


def test_nothing_is_trained_before_there_are_steps(client: httpx.Client, folder: Path) -> None:
    assert not (folder / "steps.csv").exists()
    for kind in ("extract", "train"):
        answer = client.post(f"/v1/{kind}", json={})
        assert (answer.status_code, answer.json()["error"]["message"]) == (422, "There are no steps yet.")
        assert client.post(f"/v1/{kind}", json={"folder": "/"}).status_code == 400
    assert client.get("/v1/jobs").json() == {"jobs": []}


def test_parts_of_a_video_with_progress(client: httpx.Client) -> None:
    video = video_ids(client)["eggs"]
    length = client.get(f"/v1/videos/{video}").json()["length_s"]
    with client.stream("GET", f"/v1/suggestions/{video}", headers={"Accept": "text/event-stream"}) as answer:
        events = list(read_events(answer.iter_lines()))
    assert {name for name, _ in events} == {"progress", "result"}
    found = events[-1][1]
    assert (found["source"], found["learned_from"]) == ("features", 0)
    parts = found["suggestions"]
    assert len(parts) > 2
    assert parts[0]["start_s"] == 0
    assert [part["end_s"] for part in parts] == [
        *(part["start_s"] for part in parts[1:]),
        pytest.approx(length, abs=0.01),
    ]
    assert {part["step"] for part in parts} == {None}  # without a planner there are no names
    assert client.get(f"/v1/suggestions/{video}").json() == found
    assert client.get(f"/v1/suggestions/{'0' * 32}").status_code == 404


def test_suggestions_learn_from_marked_videos(client: httpx.Client) -> None:
    """A video whose steps are marked teaches its own suggestions, and those of others, for its annotator only."""
    videos = video_ids(client)
    steps = [{"step": f"step {number}", "start_s": 4 * number + 1, "end_s": 4 * number + 4} for number in range(6)]
    tag = client.get(f"/v1/steps/{videos['eggs']}?annotator=teacher").headers["etag"]
    put_steps(client, videos["eggs"], tag, {"task": "eggs", "steps": steps}, "teacher").raise_for_status()
    own, other = (client.get(f"/v1/suggestions/{videos[name]}?annotator=teacher").json() for name in ("eggs", "repot"))
    assert own["learned_from"] == other["learned_from"] == 1
    assert {part["step"] for part in own["suggestions"]} & {step["step"] for step in steps}
    assert all(1 <= part["end_s"] - part["start_s"] <= 8 for part in (*own["suggestions"], *other["suggestions"]))
    assert client.get(f"/v1/suggestions/{videos['repot']}").json()["learned_from"] == 0


def test_agreement_of_two_annotators(client: httpx.Client) -> None:
    video = video_ids(client)["eggs"]
    for annotator, end in (("one", 4), ("two", 2)):
        tag = client.get(f"/v1/steps/{video}?annotator={annotator}").headers["etag"]
        content = {"task": "make tea", "steps": [{"step": "boil", "start_s": 0, "end_s": end}]}
        put_steps(client, video, tag, content, annotator).raise_for_status()
    found = client.get("/v1/agreement?first=one&second=two").json()
    assert [(each["name"], each["same_share"], each["boundary_s"]) for each in found["videos"]] == [("eggs", 0.5, 1.0)]
    assert (found["overall"]["seconds"], found["overall"]["kappa"]) == (4, 0.0)
    assert client.get("/v1/agreement?first=one&second=nobody").json()["videos"] == []
    assert client.get("/v1/agreement?first=one&second=../x").status_code == 400


def test_jobs_fail_with_the_sentence_of_the_command_and_are_cancelled(client: httpx.Client, folder: Path) -> None:
    add_step(client, video_ids(client)["eggs"], "boil water")
    failed = wait_for_end(client, client.post("/v1/train", json={}).json())
    assert failed["status"] == "failed"
    assert "has no features" in failed["message"]
    assert str(folder) not in failed["message"]
    started = client.post("/v1/extract", json={})
    assert (started.status_code, started.json()["status"]) == (202, "running")
    second = client.post("/v1/train", json={})
    assert (second.status_code, second.json()["error"]["message"]) == (409, "Features are computed already.")
    cancelled = client.delete(f"/v1/jobs/{started.json()['id']}").json()
    assert (cancelled["status"], cancelled["message"]) == ("cancelled", "Cancelled.")
    assert client.get(f"/v1/jobs/{started.json()['id']}").json() == cancelled
    assert client.get("/v1/jobs/nothing").status_code == 404
    assert [job["status"] for job in client.get("/v1/jobs").json()["jobs"]] == ["failed", "cancelled"]
    assert not (folder / "runs").exists()


def test_answers_are_as_openapi_describes_them(client: httpx.Client) -> None:
    description = client.get("/openapi.json").json()
    video = video_ids(client)["repot"]
    place, steps = f"/v1/steps/{video}", "/v1/steps/{video}"
    tag, content = client.get(place).headers["etag"], {"task": "repot a plant", "steps": []}
    started = client.post("/v1/extract", json={})
    job = started.json()["id"]
    answers = [
        ("/v1/steps", client.get("/v1/steps")),
        (steps, client.get(place)),
        (steps, client.get("/v1/steps/nothing")),
        (steps, put_steps(client, video, tag, content)),
        (steps, put_steps(client, video, tag, {"task": "other", "steps": []})),
        (steps, client.put(place, json=content)),
        ("/v1/suggestions/{video}", client.get(f"/v1/suggestions/{video}")),
        ("/v1/agreement", client.get("/v1/agreement?first=one&second=two")),
        ("/v1/extract", started),
        ("/v1/train", client.post("/v1/train", json={})),
        ("/v1/jobs", client.get("/v1/jobs")),
        ("/v1/jobs/{job}", client.get(f"/v1/jobs/{job}")),
        ("/v1/jobs/{job}", client.delete(f"/v1/jobs/{job}")),
    ]
    for path, answer in answers:
        validate(description, path, answer)
    assert {path for path, _ in answers} == {getattr(route, "path", "") for route in annotate_router.routes}


@pytest.mark.slow
def test_from_steps_to_a_planner_that_the_service_plans_with(demo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kitchen"
    folder.mkdir()
    (folder / "videos").symlink_to(demo / "tabletop" / "videos")
    lines = (demo / "tabletop" / "steps.csv").read_text().splitlines(keepends=True)
    videos = list(dict.fromkeys(line.partition(",")[0] for line in lines[1:]))[:8]
    (folder / "steps.csv").write_text(
        "".join([lines[0], *(line for line in lines if line.partition(",")[0] in videos)])
    )
    with (
        running_service("--annotate", str(folder), "--limit", "jobs=1") as service,
        httpx.Client(base_url=service.url, timeout=60) as other,
    ):
        assert wait_for_end(other, other.post("/v1/extract", json={}).json(), 600)["status"] == "done"
        trained = wait_for_end(other, other.post("/v1/train", json={}).json(), 600)
        assert (trained["status"], trained["planner"]) == ("done", "planner-1")
        info = other.get("/v1/info").json()
        assert (info["planner"]["name"], info["can_follow"]) == ("planner-1", True)
        start = {"video": video_ids(other)[videos[0]], "t": 3}
        assert other.post("/v1/plan", json={"start": start}).json()["plans"]
        assert "Which steps lead" in other.get("/").text
