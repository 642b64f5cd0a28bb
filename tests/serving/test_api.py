"""Every route answers over HTTP as the contract says: pages, videos, pictures, health and metrics."""

from __future__ import annotations

import hashlib
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from clips import number_of, write_clip
from p3iv import __version__
from p3iv.planner import Planner
from p3iv.shipped import shipped_clips
from serving.browser.driving import busy_workers
from serving.conftest import figure
from soak.service_process import ServiceProcess, wait_for

VIDEO_FIELDS = {
    *("id", "name", "source", "length_s", "width", "height", "media_type", "has_frames", "expires_s"),
}


def put_video(client: httpx.Client, content: bytes, name: str = "clip.mp4") -> dict[str, Any]:
    answer = client.put("/v1/videos", params={"name": name}, content=content)
    assert answer.status_code in (200, 201), answer.text
    return dict(answer.json())


def picture_of(answer: httpx.Response) -> Image.Image:
    """The picture in an answer."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "image/jpeg"
    return Image.open(io.BytesIO(answer.content), formats=["JPEG"]).convert("RGB")


@pytest.fixture(scope="session")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A video of ten seconds, each of which shows its number."""
    path = tmp_path_factory.mktemp("clips") / "numbered.mp4"
    write_clip(path, range(0, 10_000, 1000))
    return path.read_bytes()


def test_the_page_and_its_files(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<title>" in page.text
    assert client.get("/static/index.html").text == page.text
    again = client.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    plain = client.get("/", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == page.content


def test_info(client: httpx.Client, planner: Planner) -> None:
    info = client.get("/v1/info").json()
    assert info["version"] == __version__
    assert info["planner"] == {
        "name": "tabletop-demo",
        "method": planner.header.config.planner,
        "backend": planner.backend,
        "data_label": planner.header.data_label,
        "data_fingerprint": planner.header.data_fingerprint,
    }
    assert info["horizons"] == [planner.horizon]
    assert info["actions"] == list(planner.names)
    assert info["encoder"]["name"] == "efficientnet-lite0"
    assert info["encoder"]["pictures"] is True
    assert info["encoder_problem"] is None
    limits = {"upload_bytes": 512 << 20, "upload_s": 7200, "picture_bytes": 20 << 20, "samples": 10_000, "plans": 1000}
    assert info["limits"] == limits
    assert info["needs_token"] is False
    clip = shipped_clips("tabletop-demo")[0]
    assert (info["example"]["start"], info["example"]["goal"]) == (clip.start_s, clip.goal_s)


def test_the_videos_of_the_planner(client: httpx.Client) -> None:
    clips = shipped_clips("tabletop-demo")
    listed = [video for video in client.get("/v1/videos").json()["videos"] if video["source"] == "clip"]
    assert [video["name"] for video in listed] == [f"{clip.file} ({clip.task})" for clip in clips]
    for video, clip in zip(listed, clips, strict=True):
        described = client.get(f"/v1/videos/{video['id']}").json()
        assert set(described) == set(video) == VIDEO_FIELDS
        assert described["length_s"] == clip.length_s
        assert (described["media_type"], described["has_frames"], described["expires_s"]) == ("video/mp4", True, None)
        with Image.open(io.BytesIO(client.get(f"/v1/videos/{video['id']}/frame?t=0").content)) as frame:
            assert frame.width / frame.height == pytest.approx(described["width"] / described["height"], rel=0.02)


def test_an_upload_is_kept_under_the_hash_of_its_bytes(client: httpx.Client, numbered: bytes) -> None:
    first = client.put("/v1/videos", params={"name": "tea.mp4"}, content=numbered)
    assert first.status_code == 201
    video = first.json()
    assert video["id"] == hashlib.sha256(numbered).hexdigest()
    assert (video["name"], video["source"], video["has_frames"]) == ("tea.mp4", "upload", True)
    assert (video["width"], video["height"], video["media_type"]) == (128, 32, "video/mp4")
    assert video["length_s"] == pytest.approx(9.04, abs=1.0)
    assert 3590 < video["expires_s"] <= 3600
    again = client.put("/v1/videos", params={"name": "other.mp4"}, content=numbered)
    assert again.status_code == 200
    assert again.json() | {"expires_s": 0} == video | {"expires_s": 0}
    assert client.get("/v1/videos").json()["videos"][0]["id"] == video["id"]
    assert client.get(f"/v1/videos/{video['id']}/file").content == numbered


def test_an_upload_is_deleted(client: httpx.Client, numbered: bytes) -> None:
    place = f"/v1/videos/{put_video(client, numbered)['id']}"
    deleted = client.delete(place)
    assert (deleted.status_code, deleted.content) == (204, b"")
    for method, path in [("DELETE", place), ("GET", place), ("GET", f"{place}/file"), ("GET", f"{place}/frame?t=0")]:
        answer = client.request(method, path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


def test_an_upload_that_is_deleted_while_its_jobs_wait(
    service: ServiceProcess, client: httpx.Client, numbered: bytes
) -> None:
    place = f"/v1/videos/{put_video(client, numbered)['id']}"
    with ThreadPoolExecutor() as threads, busy_workers(service):
        frames = [threads.submit(client.get, f"{place}/frame?t={second}") for second in (0, 1)]
        wait_for(lambda: figure(client, "p3iv_jobs_waiting") == 1, "both requests", 20)
        client.delete(place).raise_for_status()
    for frame in frames:
        assert (frame.result().status_code, frame.result().json()["error"]["code"]) == (404, "not_found")


def test_only_uploads_are_deleted(client: httpx.Client) -> None:
    video = client.get("/v1/info").json()["example"]["video"]
    answer = client.delete(f"/v1/videos/{video}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    assert client.get(f"/v1/videos/{video}").status_code == 200


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [("bytes=0-99", 0, 99), ("bytes=500-", 500, -1), ("bytes=-20", -20, -1), ("bytes=10-99999999", 10, -1)],
)
def test_a_part_of_a_file(client: httpx.Client, clip: Path, asked: str, first: int, last: int) -> None:
    video, content = client.get("/v1/info").json()["example"]["video"], clip.read_bytes()
    part = client.get(f"/v1/videos/{video}/file", headers={"Range": asked})
    first, last = first % len(content), last % len(content)
    assert part.status_code == 206
    assert part.headers["content-range"] == f"bytes {first}-{last}/{len(content)}"
    assert part.headers["content-type"] == "video/mp4"
    assert part.content == content[first : last + 1]


@pytest.mark.parametrize(("asked", "status"), [("bytes=99999999-", 416), ("bytes=7-3", 400), ("lines=1-2", 400)])
def test_a_part_that_is_not_there(client: httpx.Client, clip: Path, asked: str, status: int) -> None:
    video = client.get("/v1/info").json()["example"]["video"]
    answer = client.get(f"/v1/videos/{video}/file", headers={"Range": asked})
    assert answer.status_code == status
    assert answer.json()["error"]["message"]
    if status == 416:
        assert answer.headers["content-range"] == f"bytes */{clip.stat().st_size}"


def test_an_upload_that_is_used_has_the_same_tag(client: httpx.Client, numbered: bytes) -> None:
    video = put_video(client, numbered)["id"]
    place = f"/v1/videos/{video}"
    tag = client.get(f"{place}/file").headers["etag"]
    wait_for(lambda: _left_s(client, video) < 3598.9, "an upload that is a second old")
    client.get(f"{place}/frame", params={"t": 1})  # now it is young again
    assert _left_s(client, video) > 3599
    part = client.get(f"{place}/file", headers={"Range": "bytes=1-2", "If-Range": tag})
    assert (part.status_code, part.headers["etag"]) == (206, tag)


def _left_s(client: httpx.Client, video: str) -> float:
    """The time that an upload has left; unlike to ask for it, to list it does not make it young."""
    (found,) = (each for each in client.get("/v1/videos").json()["videos"] if each["id"] == video)
    return float(found["expires_s"])


def test_the_frame_at_a_second(client: httpx.Client, numbered: bytes) -> None:
    place = f"/v1/videos/{put_video(client, numbered)['id']}/frame"
    for second, number in [(0, 0), (4.2, 4), (8.99, 8), (86400, 9)]:
        frame = picture_of(client.get(place, params={"t": second, "w": 128}))
        assert frame.size == (128, 32)
        assert number_of(np.asarray(frame)) == number
    assert picture_of(client.get(place, params={"t": 1})).width == 128  # it is not enlarged
    assert picture_of(client.get(place, params={"t": 1, "w": 16})).width == 16


def test_frames_side_by_side(client: httpx.Client, numbered: bytes) -> None:
    place = f"/v1/videos/{put_video(client, numbered)['id']}/strip"
    strip = picture_of(client.get(place, params={"n": 3, "w": 128}))
    assert strip.size == (3 * 128, 32)
    parts = [np.asarray(strip.crop((128 * at, 0, 128 * (at + 1), 32))) for at in range(3)]
    numbers = [number_of(part) for part in parts]  # at 1.5, 4.5 and 7.5 of 9 seconds, or a little earlier
    assert all(3 * at <= number <= 3 * at + 1 for at, number in enumerate(numbers))


@pytest.mark.parametrize(
    "query",
    [
        *("frame", "frame?t=-1", "frame?t=nan", "frame?t=1&w=15", "frame?t=1&w=1281", "frame?t=86401", "frame?t=x"),
        *("strip?n=0", "strip?n=61", "strip?w=15", "strip?w=321", "strip?n=2.5"),
    ],
)
def test_numbers_out_of_range(client: httpx.Client, query: str) -> None:
    video = client.get("/v1/info").json()["example"]["video"]
    answer = client.get(f"/v1/videos/{video}/{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request")
    name = query.rpartition("?")[2].rpartition("&")[2].partition("=")[0]
    assert f"`{'t' if name == 'frame' else name}`" in answer.json()["error"]["message"]


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_a_picture(client: httpx.Client, form: str) -> None:
    file = io.BytesIO()
    Image.new("RGB", (40, 30), (200, 10, 10)).save(file, form)
    sent = client.put("/v1/pictures", content=file.getvalue())
    assert sent.status_code == 201
    picture = sent.json()
    assert set(picture) == {"id", "width", "height", "expires_s"}
    assert picture["id"] == hashlib.sha256(file.getvalue()).hexdigest()
    assert (picture["width"], picture["height"]) == (40, 30)
    shown = picture_of(client.get(f"/v1/pictures/{picture['id']}", params={"w": 20}))
    assert shown.size == (20, 15)
    assert np.abs(np.asarray(shown).mean(axis=(0, 1)) - (200, 10, 10)).max() < 12
    assert client.put("/v1/pictures", content=file.getvalue()).json()["id"] == picture["id"]


def test_a_picture_is_not_a_video(client: httpx.Client) -> None:
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "PNG")
    picture = client.put("/v1/pictures", content=file.getvalue()).json()["id"]
    assert client.get(f"/v1/videos/{picture}").status_code == 404
    assert client.get("/v1/pictures/" + "0" * 64).status_code == 404


def test_pictures_of_steps(client: httpx.Client) -> None:
    info = client.get("/v1/info").json()
    answer = client.get("/v1/steps/0/picture")
    if info["step_pictures"]:
        picture_of(answer)
    else:
        assert answer.status_code == 404
    assert client.get(f"/v1/steps/{len(info['actions'])}/picture").status_code == 404
    assert client.get("/v1/steps/-1/picture").status_code in (400, 404)
    assert client.get("/v1/steps/mug/picture").status_code == 400


def test_metrics(client: httpx.Client) -> None:
    def count(route: str) -> float:
        lines = client.get("/metrics").text.splitlines()
        wanted = f'p3iv_requests_total{{method="GET",route="{route}",status="200"}} '
        return sum(float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted))

    before = count("/v1/videos")
    client.get("/v1/videos")
    assert count("/v1/videos") == before + 1
    assert "p3iv_ready 1.0" in client.get("/metrics").text


def test_every_line_of_the_log_is_an_event(client: httpx.Client, service: ServiceProcess) -> None:
    def lines() -> list[dict[str, Any]]:
        asked = "/v1/videos/{video}", 404
        return [event for event in service.log() if (event.get("route"), event.get("status")) == asked]

    client.get("/v1/videos/" + "0" * 64)
    wait_for(lambda: bool(lines()), "the line of a request")
    line = lines()[0]
    assert set(line) == {"time", "level", "event", "method", "route", "status", "ms", "sent"}
    assert [event for event in service.log() if event["event"] == "text"] == []
