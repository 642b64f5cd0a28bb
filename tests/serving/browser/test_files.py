"""Files of the user: formats that the browser cannot play, pictures, drops, and names."""

from __future__ import annotations

from pathlib import Path

import av
from PIL import Image
from playwright.sync_api import Page, expect

from clips import write_clip
from serving.browser.driving import (
    EGGS,
    REPOT,
    drop_files,
    is_loaded,
    open_clip,
    open_example,
    steps_shown,
    upload,
    wait_for_phase,
)
from serving.browser.watching import Watch
from soak.service_process import ServiceProcess, wait_for

PIXELS = """image => {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [128, 32];
  const drawing = canvas.getContext("2d");
  drawing.drawImage(image, 0, 0, 128, 32);
  return [...drawing.getImageData(0, 8, 128, 1).data].filter((_, index) => index % 4 === 0);
}"""


def save_frame(clip: Path, second: float, path: Path) -> Path:
    """A frame of a clip as a picture file."""
    with av.open(str(clip)) as container:
        frame = next(each for each in container.decode(video=0) if (each.time or 0) >= second)
        Image.fromarray(frame.to_ndarray(format="rgb24")).save(path)
    return path


def frame_number(page: Page) -> int:
    """The number in the frame that the page shows, see clips.py."""
    row = page.locator(".stage-frame").evaluate(PIXELS)
    return sum(int(row[16 * bit + 8] > 128) << bit for bit in range(8))


def expect_frame(page: Page, number: int) -> None:
    """Wait until a frame is shown."""
    expect(page.locator(".stage-frame")).to_be_visible()
    wait_for(lambda: frame_number(page) == number, f"frame {number}", 30)


def test_a_format_that_the_browser_cannot_play(page: Page, service: ServiceProcess, tmp_path: Path) -> None:
    hevc = tmp_path / "phone.mov"
    write_clip(hevc, range(0, 10_000, 100), codec="libx265", options={"x265-params": "log-level=none"})
    open_example(page, service)
    upload(page, hevc)
    wait_for_phase(page, "video")
    expect(page.locator("video-stage")).to_have_attribute("data-shows", "frames")
    expect(page.locator("video-stage")).to_contain_text("shown as single frames")
    expect(page.locator("#play")).to_be_hidden()
    assert is_loaded(page.locator(".strip"))
    expect_frame(page, 0)
    page.get_by_role("button", name="One second on").click()
    expect_frame(page, 10)
    page.keyboard.press("Space")  # goes on by a second, since nothing plays
    expect_frame(page, 20)
    page.keyboard.press("Shift+ArrowLeft")
    expect_frame(page, 10)
    page.keyboard.press("s")
    page.locator("#whole-video").click()
    wait_for_phase(page, "plans")
    expect(page.locator("#start-time")).to_have_value("0:01.0")
    expect(page.locator("plan-summary")).to_contain_text("This planner learned from")


def test_a_video_that_was_filmed_upright(page: Page, service: ServiceProcess, tmp_path: Path) -> None:
    upright = tmp_path / "upright.mp4"
    write_clip(upright, range(0, 3000, 100), size=(128, 64), rotation=90)
    open_example(page, service)
    upload(page, upright)
    wait_for_phase(page, "video")
    expect(page.locator("video-stage")).to_have_attribute("data-shows", "video")
    page.locator("#whole-video").click()
    wait_for_phase(page, "plans")
    picture = page.locator("moment-card[which=start] img")
    assert is_loaded(picture)
    width, height = picture.evaluate("image => [image.naturalWidth, image.naturalHeight]")
    assert height == 2 * width
    assert page.locator("video").evaluate("video => [video.videoWidth, video.videoHeight]") == [64, 128]


def test_pictures_that_are_dropped_on_start_and_goal_are_planned(
    page: Page, service: ServiceProcess, watch: Watch, tmp_path: Path
) -> None:
    start = save_frame(EGGS.path, EGGS.start_s, tmp_path / "before.png")
    goal = save_frame(EGGS.path, EGGS.goal_s, tmp_path / "after.jpg")
    open_clip(page, service, REPOT)
    drop_files(page, page.locator("moment-card[which=start]"), [start])
    wait_for_phase(page, "start")
    expect(page.locator("#start-time")).to_have_value("before.png")
    drop_files(page, page.locator("moment-card[which=goal]"), [goal])
    wait_for_phase(page, "plans")
    assert is_loaded(page.locator("moment-card[which=goal] img"))
    assert watch.paths().count("PUT /v1/pictures") == 2
    expect(page.get_by_role("slider", name="Start")).to_have_attribute("aria-valuetext", "start is a picture")
    assert len(steps_shown(page)) == 3
    page.reload()  # the address names the pictures
    wait_for_phase(page, "plans")
    expect(page.locator("moment-card.is-picture")).to_have_count(2)
    page.locator("moment-card[which=start] .remove-picture").click()
    wait_for_phase(page, "goal")


def test_a_video_that_is_dropped_anywhere_is_opened(page: Page, service: ServiceProcess, tmp_path: Path) -> None:
    mine = tmp_path / "dropped.mp4"
    mine.write_bytes(REPOT.path.read_bytes() + bytes(10))
    open_example(page, service)
    drop_files(page, page.locator("plan-steps"), [mine])
    expect(page.locator("video-bar .video-name")).to_have_text("dropped.mp4")
    wait_for_phase(page, "video")
    expect(page.locator("#drop-hint")).to_be_hidden()


def test_a_name_with_markup_is_shown_as_text(page: Page, service: ServiceProcess, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>.mp4"
    evil = tmp_path / name
    evil.write_bytes(EGGS.path.read_bytes() + bytes(11))
    open_example(page, service)
    upload(page, evil)
    expect(page.locator("video-bar .video-name")).to_have_text(name)
    wait_for_phase(page, "video")
    page.locator("#choose-video").click()
    expect(page.locator("#videos-dialog").get_by_role("button", name=f"Delete {name}")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("#whole-video").click()
    wait_for_phase(page, "plans")
    assert page.locator("img[src=x]").count() == 0  # and no dialog opened, which the page fixture checks
