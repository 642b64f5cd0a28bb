"""Steps over HTTP: versions, two clients, names that are not ids, and a service that is killed."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from serving.annotate_folders import add_step, make_folder, put_steps, video_ids
from soak.service_process import ServiceProcess, running_service

TEA = {"task": "make tea", "steps": [{"step": "boil water", "start_s": 1, "end_s": 4}]}
EGGS = {"task": "make eggs", "steps": [{"step": "crack", "start_s": 0.5, "end_s": 2}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("annotate") / "kitchen")


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[ServiceProcess]:
    """A service without a planner."""
    with running_service("--annotate", str(folder), "--limit", "jobs=1") as started:
        yield started


@pytest.fixture
def client(service: ServiceProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=60) as opened:
        yield opened


def test_a_change_needs_the_version_that_it_changes(client: httpx.Client, folder: Path) -> None:
    video = video_ids(client)["eggs"]
    first = client.get(f"/v1/steps/{video}")
    assert first.json() == {"video": video, "annotator": "main", "task": "", "steps": []}
    stored = put_steps(client, video, first.headers["etag"], TEA)
    assert (stored.status_code, stored.json()["steps"][0]["step"]) == (200, "boil water")
    assert (folder / "steps.csv").read_text() == "video,task,step,start_s,end_s\neggs,make tea,boil water,1.0,4.0\n"
    refused = put_steps(client, video, first.headers["etag"], EGGS)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
    assert refused.json()["current"] == stored.json()
    assert refused.headers["etag"] == stored.headers["etag"] != first.headers["etag"]
    assert put_steps(client, video, refused.headers["etag"], EGGS).status_code == 200
    assert put_steps(client, video, first.headers["etag"], EGGS).status_code == 200  # the same again
    for tag in ("", "*", "x", '"1"', f"W/{refused.headers['etag']}"):
        assert put_steps(client, video, tag, TEA).status_code == 428
    assert client.get(f"/v1/steps/{video}").json()["task"] == "make eggs"


def test_of_two_clients_at_once_one_is_refused(client: httpx.Client) -> None:
    video = video_ids(client)["repot"]
    tag = client.get(f"/v1/steps/{video}").headers["etag"]
    statuses: list[int] = []

    def send(number: int) -> None:
        content = {"task": "", "steps": [{"step": f"dig {number}", "start_s": 1, "end_s": 4}]}
        statuses.append(put_steps(client, video, tag, content).status_code)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, *[409] * 7]


def test_the_names_in_use_and_how_far_each_video_is(client: httpx.Client) -> None:
    video = video_ids(client)["eggs"]
    tag = client.get(f"/v1/steps/{video}?annotator=anna").headers["etag"]
    assert put_steps(client, video, tag, TEA, "anna").status_code == 200
    found = client.get("/v1/steps?annotator=anna").json()
    assert found["annotators"] == ["main", "anna"]
    assert "boil water" in found["steps"]
    assert "make tea" in found["tasks"]
    assert [(each["name"], each["num_steps"]) for each in found["videos"]] == [("eggs", 1), ("repot", 0)]


@pytest.mark.parametrize("video", ["eggs", "..", "%2e%2e%2feggs", "../steps.csv", "0" * 32, "a" * 64, "x\0", "ä" * 99])
def test_a_video_is_named_by_its_id_only(client: httpx.Client, folder: Path, video: str) -> None:
    before = sorted(folder.rglob("*"))
    for answer in (
        client.get(f"/v1/steps/{video}".replace("\0", "%00")),
        put_steps(client, video.replace("\0", "%00"), f'"{"0" * 32}"', TEA),
    ):
        assert answer.status_code in (404, 405)
        assert str(folder) not in answer.text
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("annotator", ["", "..", "../../x", "A", "a b", "a%00", "a/b", "a" * 33, "con.json", "é"])
def test_an_annotator_has_a_plain_name(client: httpx.Client, folder: Path, annotator: str) -> None:
    video, before = video_ids(client)["eggs"], sorted(folder.rglob("*"))
    assert client.get(f"/v1/steps/{video}?annotator={annotator}").status_code == 400
    assert put_steps(client, video, f'"{"0" * 32}"', TEA, annotator).status_code == 400
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    "content",
    [
        {"steps": [{"step": "", "start_s": 0, "end_s": 1}]},
        {"steps": [{"step": " ", "start_s": 0, "end_s": 1}]},
        {"steps": [{"step": "a\nb", "start_s": 0, "end_s": 1}]},
        {"steps": [{"step": "a" * 501, "start_s": 0, "end_s": 1}]},
        {"steps": [{"step": "a", "start_s": 2, "end_s": 1}]},
        {"steps": [{"step": "a", "start_s": -1, "end_s": 1}]},
        {"steps": [{"step": "a", "start_s": 0, "end_s": 1e9}]},
        {"steps": [{"step": "a", "start_s": 0, "end_s": 1, "path": "/"}]},
        {"task": "a\x1b[2J", "steps": []},
        {"video": "eggs", "task": "", "steps": []},
        {"steps": [{"step": "a", "start_s": 0, "end_s": 1}] * 2000},
    ],
)
def test_what_is_not_a_list_of_steps_is_refused(client: httpx.Client, content: dict[str, object]) -> None:
    video = video_ids(client)["eggs"]
    tag = client.get(f"/v1/steps/{video}").headers["etag"]
    answer = put_steps(client, video, tag, content)
    assert answer.status_code in (400, 413)
    assert client.get(f"/v1/steps/{video}").headers["etag"] == tag


def test_a_video_that_comes_later_can_be_annotated(client: httpx.Client, folder: Path) -> None:
    (folder / "videos" / "late.mp4").write_bytes((folder / "videos" / "eggs.mp4").read_bytes())
    try:
        video = video_ids(client)["late"]
        assert client.get(f"/v1/videos/{video}").json()["length_s"] > 5
        assert client.get(f"/v1/steps/{video}").json()["steps"] == []
        assert client.delete(f"/v1/videos/{video}").status_code == 403
    finally:
        (folder / "videos" / "late.mp4").unlink()
    assert "late" not in video_ids(client)


def test_without_a_planner_there_are_no_plans_and_the_first_page_is_the_annotator(client: httpx.Client) -> None:
    info = client.get("/v1/info").json()
    assert (info["planner"], info["annotates"], info["horizons"], info["example"]) == (None, True, [], None)
    question = {"start": {"features": [0.0]}, "goal": {"features": [0.0]}}
    assert client.post("/v1/plan", json=question).json()["error"]["message"] == "This service has no planner."
    assert client.post("/v1/follow", json={"video": "0" * 32}).status_code == 422
    assert client.get("/").text == client.get("/annotate").text
    assert "Annotate" in client.get("/").text


def test_without_annotate_there_are_no_such_routes(strict_client: httpx.Client) -> None:
    for path in ("/annotate", "/v1/steps", f"/v1/steps/{'0' * 32}", "/v1/jobs", f"/v1/suggestions/{'0' * 32}"):
        assert strict_client.get(path).status_code == 404
    assert strict_client.post("/v1/train", json={}).status_code == 404


def kill_while_saving(folder: Path, moments: list[float]) -> None:
    """Kill the service some seconds after its first change, several times; each loses at most the last change."""
    for moment in moments:
        confirmed = 0
        with ExitStack() as stack:
            service = ServiceProcess(_new_folder(folder), ("--annotate", str(folder), "--limit", "jobs=1"))
            stack.callback(service.kill)
            client = stack.enter_context(httpx.Client(base_url=service.url, timeout=10))
            video = video_ids(client)["eggs"]
            before = len(client.get(f"/v1/steps/{video}").json()["steps"])
            killing = threading.Timer(moment, lambda pid=service.pid: os.kill(pid, signal.SIGKILL))
            confirmed = before
            killing.start()
            with suppress(httpx.TransportError):
                while True:
                    confirmed = add_step(client, video, "stir")
            killing.join()
        rows = (folder / "steps.csv").read_text().splitlines() if confirmed else ["header"]
        assert confirmed <= len(rows) - 1 <= confirmed + 1, f"{len(rows) - 1} of {confirmed} after {moment:.3f} s"


def _new_folder(folder: Path) -> Path:
    place = folder.parent / f"service-{random.randrange(10**9)}"
    place.mkdir()
    return place


def test_a_service_that_is_killed_loses_at_most_the_last_change(tmp_path: Path) -> None:
    kill_while_saving(make_folder(tmp_path / "kitchen"), [0.11, 0.4])


@pytest.mark.slow
def test_a_service_that_is_killed_fifty_times_loses_at_most_the_last_change_each_time(tmp_path: Path) -> None:
    moments = random.Random(0)
    kill_while_saving(make_folder(tmp_path / "kitchen"), [moments.uniform(0.01, 1.0) for _ in range(50)])
