"""Files of strangers: only the containers and formats that p3iv names are opened, and none can use up the machine."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from clips import write_clip
from p3iv.types import UNFIT
from serving.hostile_files import not_pictures, picture_bombs, playlists, slow_video, video_bombs
from serving.opened_files import watching
from soak.raw_http import RawAnswer, exchange, request
from soak.service_process import ServiceProcess, wait_for

NEIGHBOUR = Path("/neighbour.mp4")  # stands for a file beside the uploads
IDLE_MB = 900  # more than the processes of a service need together


def upload_folder(service: ServiceProcess) -> Path:
    (folder,) = service.folder.glob("p3iv-uploads-*")
    return folder


def error_of(answer: httpx.Response) -> dict[str, Any]:
    """The error of an answer in its form; it says nothing about this machine."""
    error = RawAnswer(answer.status_code, {}, answer.content).error
    said = f"{error['message']} {error['hint']}"
    for secret in (tempfile.gettempdir(), "p3iv-uploads", ".part", "site-packages", "Traceback", ".py"):
        assert secret not in said
    return error


@pytest.fixture
def neighbour(service: ServiceProcess, tmp_path: Path) -> Path:
    """A video in the folder of uploads that nobody uploaded."""
    write_clip(tmp_path / "a.mp4", range(0, 3000, 100))
    path = upload_folder(service) / "a.mp4"
    path.write_bytes((tmp_path / "a.mp4").read_bytes())
    return path


@pytest.mark.parametrize("kind", playlists(NEIGHBOUR))
def test_a_playlist_is_refused_and_its_neighbour_is_not_opened(
    client: httpx.Client, neighbour: Path, kind: str
) -> None:
    with watching(neighbour) as file:
        neighbour.read_bytes()
        assert file.was_opened  # the watch sees this
        answer = client.put("/v1/videos?name=x.mp4", content=playlists(neighbour)[kind])
        assert answer.status_code == 422
        error_of(answer)
        assert not file.was_opened


@pytest.mark.parametrize("kind", not_pictures(NEIGHBOUR))
def test_other_formats_are_not_pictures(client: httpx.Client, neighbour: Path, kind: str) -> None:
    with watching(neighbour) as file:
        answer = client.put("/v1/pictures", content=not_pictures(neighbour)[kind])
        assert answer.status_code == 422
        error_of(answer)
        assert not file.was_opened


@pytest.mark.parametrize("kind", picture_bombs())
def test_a_picture_cannot_use_up_memory(strict_client: httpx.Client, strict: ServiceProcess, kind: str) -> None:
    answer = strict_client.put("/v1/pictures", content=picture_bombs()[kind]())
    if kind == "gif of many frames":  # of which the first is taken
        assert (answer.status_code, answer.json()["width"]) == (201, 8)
    else:
        assert answer.status_code == 422
        error_of(answer)
    assert strict.usage().resident_mb < IDLE_MB
    assert strict_client.get("/readyz").status_code == 200


@pytest.mark.parametrize("kind", video_bombs())
def test_a_video_cannot_use_up_memory(
    strict_client: httpx.Client, strict: ServiceProcess, tmp_path: Path, kind: str
) -> None:
    answer = strict_client.put("/v1/videos", content=video_bombs()[kind](tmp_path))
    if answer.status_code == 201:  # what it declares was not believed
        assert answer.json()["length_s"] < 60
        assert answer.json()["width"] < 1000
    else:
        assert answer.status_code in (413, 422)
        error_of(answer)
    assert strict.usage().resident_mb < IDLE_MB
    assert strict_client.get("/readyz").status_code == 200


def test_a_video_that_takes_long_to_decode_is_given_up(
    strict_client: httpx.Client, strict: ServiceProcess, tmp_path: Path
) -> None:
    video = strict_client.put("/v1/videos", content=slow_video(tmp_path)).json()["id"]
    slow = strict_client.get(f"/v1/videos/{video}/frame?t=55")
    assert (slow.status_code, error_of(slow)["code"]) == (503, "too_long")
    assert int(slow.headers["retry-after"]) > 0
    example = strict_client.get("/v1/info").json()["example"]["video"]
    place = f"/v1/videos/{example}/frame?t=1"
    wait_for(lambda: strict_client.get(place).status_code == 200, "an answer of a new process", 60)
    assert len(strict.worker_pids()) == 1


def test_a_long_video_is_refused(strict_client: httpx.Client, tmp_path: Path) -> None:
    write_clip(tmp_path / "long.mp4", range(0, 120_000, 1000))
    answer = strict_client.put("/v1/videos", content=(tmp_path / "long.mp4").read_bytes())
    assert (answer.status_code, error_of(answer)["code"]) == (413, "too_large")
    assert "2 minutes long, at most 1" in error_of(answer)["message"]


@pytest.mark.parametrize("content", [b"", b"x", b"\0" * 1000, b"GIF89a", b"\xff\xd8\xff\xe0", b"RIFF....AVI LIST"])
@pytest.mark.parametrize("kind", ["videos", "pictures"])
def test_what_is_not_a_file_leaves_nothing(
    client: httpx.Client, service: ServiceProcess, kind: str, content: bytes
) -> None:
    before = sorted(upload_folder(service).iterdir())
    answer = client.put(f"/v1/{kind}", content=content)
    assert (answer.status_code, error_of(answer)["code"]) == (422, "cannot_plan")
    assert sorted(upload_folder(service).iterdir()) == before


TRICKS = [
    *("..", "../x", "../../../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "http://127.0.0.1:9/x", "~root"),
    *("a\0b", "\0", "in-use.lock", "*", "%", "%2e%2e", "..\\..\\x", "C:\\x", "\\\\host\\x", "data:,x", "pipe:0"),
    *("concat:a|b", "A" * 64, "\u0660" * 64, "0" * 63, "0" * 65, "0" * 64 + ".json", "g" * 32, " " * 32, "x" * 5000),
    *("/dev/zero", "/proc/self/environ", "\u202e", "'; DROP TABLE videos", "${HOME}", "$(id)", "<script>"),
]


@pytest.mark.parametrize("trick", TRICKS)
def test_an_id_is_not_a_path(service: ServiceProcess, trick: str) -> None:
    for once in (quote(trick, safe=""), quote(quote(trick, safe=""), safe="")):
        for method, target in [
            *(("GET", f"/v1/videos/{once}{rest}") for rest in ("", "/file", "/frame?t=1", "/strip")),
            *(("DELETE", f"/v1/videos/{once}"), ("GET", f"/v1/pictures/{once}"), ("GET", f"/static/{once}")),
        ]:
            (answer,) = exchange(service.port, request(method, target))
            assert answer.status in (400, 404, 405), target
            assert answer.error["code"] in ("bad_request", "not_found", "method_not_allowed")


@pytest.mark.parametrize("trick", TRICKS)
def test_a_moment_is_not_a_path(client: httpx.Client, trick: str) -> None:
    for moment in ({"video": trick, "t": 1}, {"picture": trick}, {"path": trick}, {"url": trick}, trick):
        answer = client.post("/v1/plan", json={"start": moment, "goal": moment})
        assert answer.status_code in (400, 404)
        assert "root:" not in answer.text
        RawAnswer(answer.status_code, {}, answer.content).error  # noqa: B018 it raises what is wrong


NAMES = [
    "<img src=x onerror=alert(1)>.mp4",
    '"><script>alert(1)</script>',
    "a\u202egnp.mp4",
    "a\u2066b\u2069",
    "a\r\nSet-Cookie: x=1",
    "a\0b\x1b[31mred",
    "\ud7ff\ufffe\U0001f95a" * 60,
    "../../etc/cron.d/x",
    "&lt;b&gt;",
    "`{{7*7}}`",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_text(client: httpx.Client, service: ServiceProcess, clip: Path, name: str) -> None:
    client.delete(f"/v1/videos/{client.put('/v1/videos', content=clip.read_bytes()).json()['id']}")
    sent = client.put(f"/v1/videos?name={quote(name, safe='')}", content=clip.read_bytes())
    assert sent.status_code == 201
    assert sent.headers["content-type"] == "application/json"
    assert "set-cookie" not in sent.headers
    shown = sent.json()["name"]
    assert 1 <= len(shown) <= 100
    assert not UNFIT.search(shown)
    assert "/" not in shown
    if name.startswith(("<img", "&lt;", "`")):
        assert shown == name  # neither interpreted nor escaped: the page shows it as text
    found = {path.name.partition(".")[0] for path in upload_folder(service).iterdir()}
    assert sent.json()["id"] in found
    assert name not in json.dumps(service.log(), ensure_ascii=False)
