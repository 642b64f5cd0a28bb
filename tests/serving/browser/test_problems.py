"""Every problem is told in words, and has a way back."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Locator, Page, expect

from clips import write_clip
from serving.browser.driving import (
    EGGS,
    MAX_WAITING,
    REPOT,
    busy_workers,
    drop_files,
    is_loaded,
    open_clip,
    open_example,
    set_times,
    upload,
    wait_for_phase,
)
from serving.browser.watching import Watch
from soak.service_process import ServiceProcess, wait_for


def problem_of_video(page: Page) -> Locator:
    """The box in the place of the video."""
    wait_for_phase(page, "error")
    return page.locator("video-stage .problem")


def problem_of_plan(page: Page) -> Locator:
    """The box in the place of the plans."""
    wait_for_phase(page, "error")
    return page.locator("#plans .problem")


def test_a_file_that_is_not_a_video(page: Page, service: ServiceProcess, watch: Watch, tmp_path: Path) -> None:
    watch.provoke(422)
    (tmp_path / "notes.mp4").write_text("This is not a video.")
    open_example(page, service)
    upload(page, tmp_path / "notes.mp4")
    problem = problem_of_video(page)
    expect(problem.locator(".problem-message")).to_be_visible()
    assert "/" not in problem.inner_text()  # nor any other name of the service's files
    expect(page.locator("#announcer")).to_have_text(problem.locator(".problem-message").inner_text())
    problem.get_by_role("button", name=f"Back to {EGGS.file}").click()
    wait_for_phase(page, "plans")
    expect(page.locator("video-stage")).to_have_attribute("data-shows", "video")


def test_a_video_that_is_too_large_is_not_sent(
    page: Page, service: ServiceProcess, watch: Watch, tmp_path: Path
) -> None:
    (tmp_path / "long.mp4").write_bytes(EGGS.path.read_bytes() + bytes(2**20))
    open_example(page, service)
    upload(page, tmp_path / "long.mp4")
    expect(problem_of_video(page)).to_contain_text("long.mp4 has 1.44 MB; at most 1.05 MB can be sent.")
    expect(page.locator("video-stage .problem-hint")).to_contain_text("Cut it")
    assert not [path for path in watch.paths() if path.startswith("PUT")]
    page.locator("video-stage [data-action=way-back]").click()
    wait_for_phase(page, "plans")


def test_a_picture_that_cannot_be_read(page: Page, service: ServiceProcess, watch: Watch, tmp_path: Path) -> None:
    watch.provoke(422)
    (tmp_path / "photo.jpg").write_bytes(b"not a picture")
    open_example(page, service)
    drop_files(page, page.locator("moment-card[which=goal]"), [tmp_path / "photo.jpg"])
    expect(problem_of_video(page)).to_be_visible()
    page.locator("video-stage [data-action=way-back]").click()
    wait_for_phase(page, "plans")
    expect(page.locator("#goal-time")).to_have_value("0:26.0")


def test_a_video_that_is_gone(page: Page, service: ServiceProcess, watch: Watch, tmp_path: Path) -> None:
    watch.provoke(404)
    (tmp_path / "gone.mp4").write_bytes(REPOT.path.read_bytes() + bytes(9))
    open_example(page, service)
    upload(page, tmp_path / "gone.mp4")
    wait_for_phase(page, "video")
    [gone] = [video for video in httpx.get(f"{service.url}/v1/videos").json()["videos"] if video["name"] == "gone.mp4"]
    assert httpx.delete(f"{service.url}/v1/videos/{gone['id']}").status_code == 204
    set_times(page, start="2", goal="13")
    expect(problem_of_plan(page)).to_contain_text("There is no such video.")
    expect(page.locator("#plans .problem-hint")).to_contain_text("Uploads are deleted after some time")
    page.locator("#plans [data-action=way-back]").click()
    page.locator("#videos-dialog").get_by_role("button", name=EGGS.file).click()
    wait_for_phase(page, "video")
    page.locator("#whole-video").click()
    wait_for_phase(page, "plans")


def test_a_moment_that_cannot_be_planned(page: Page, service: ServiceProcess, watch: Watch, tmp_path: Path) -> None:
    """The middle of the video is damaged: it can be opened, and its first seconds can be read."""
    watch.provoke(422)
    broken = tmp_path / "broken.mp4"
    write_clip(broken, range(0, 12_000, 100), options={"g": "10"}, container_options={"movflags": "faststart"})
    damage(broken)
    open_example(page, service)
    upload(page, broken)
    wait_for_phase(page, "video")
    set_times(page, start="1", goal="7")
    expect(problem_of_plan(page).locator(".problem-message")).not_to_be_empty()
    expect(page.locator("#announcer")).to_contain_text("No plans: ")
    set_times(page, goal="2")
    wait_for_phase(page, "plans")
    expect(page.locator("video-stage")).to_have_attribute("data-shows", "frames")  # the browser gave the file up
    assert is_loaded(page.locator(".stage-frame"))


def damage(video: Path) -> None:
    """Overwrite the third quarter of the frames."""
    content = bytearray(video.read_bytes())
    first = content.index(b"mdat") + 4
    quarter = (len(content) - first) // 4
    content[first + 2 * quarter : first + 3 * quarter] = bytes(quarter)
    video.write_bytes(content)


@contextmanager
def full_queue(service: ServiceProcess) -> Iterator[None]:
    """During this block, all places of the queue are taken."""
    [clip, *_] = httpx.get(f"{service.url}/v1/videos").json()["videos"]
    address = f"{service.url}/v1/videos/{clip['id']}/frame"

    def ask(second: int) -> int:
        return httpx.get(address, params={"t": second, "w": 16}, timeout=60).status_code

    number = MAX_WAITING + 4
    with ThreadPoolExecutor(number) as clients, busy_workers(service):
        asked = [clients.submit(ask, each) for each in range(number)]
        wait_for(lambda: sum(each.done() for each in asked) == 3, "refusals: one job runs, the others wait", 30)
        yield
    assert {each.result() for each in asked} == {200, 503}


def test_a_busy_service(page: Page, service: ServiceProcess, watch: Watch) -> None:
    watch.provoke(503)
    open_clip(page, service)
    set_times(page, start="12")
    wait_for_phase(page, "start")
    with full_queue(service):
        set_times(page, goal="21")
        expect(problem_of_plan(page)).to_be_visible()
        assert "503" not in page.locator("#plans .problem").inner_text()
        expect(page.locator("#plans .problem-message")).not_to_be_empty()
    page.locator("#plans [data-action=retry]").click()
    wait_for_phase(page, "plans")


def test_an_address_with_a_video_that_is_not_there(page: Page, service: ServiceProcess, watch: Watch) -> None:
    watch.provoke(404)
    page.goto(f"{service.url}/#video={'ab' * 32}&start=1&goal=5&seed=0")
    expect(problem_of_video(page)).to_contain_text("There is no such video.")
    page.locator("video-stage [data-action=way-back]").click()
    page.locator("#videos-dialog").get_by_role("button", name=REPOT.file).click()
    wait_for_phase(page, "video")
    page.locator("#whole-video").click()
    wait_for_phase(page, "plans")
