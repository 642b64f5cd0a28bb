"""What is loaded, how often, and how the page follows the wishes of its user."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import Page, expect

from serving.browser.driving import open_example, style_of, wait_for_phase
from serving.browser.watching import Watch
from soak.service_process import ServiceProcess

MAX_FIRST_LOAD = 80_000  # bytes as they are sent, see docs/reference/service.md
MEDIA = ("/file", "/frame", "/strip", "/picture")  # how much these are depends on the video


def test_the_first_load_is_small_and_the_second_is_cached(page: Page, service: ServiceProcess, watch: Watch) -> None:
    open_example(page, service)
    own = [each for each in watch.requests if not each.url.endswith("/v1/plan") and not is_media(each.url)]
    sizes = [each.sizes()["responseBodySize"] for each in own]
    assert {"/", "/static/main.js", "/v1/info", "/v1/videos"} <= {urlsplit(each.url).path for each in own}
    assert 20_000 < sum(sizes) <= MAX_FIRST_LOAD
    watch.requests.clear()
    page.reload()
    wait_for_phase(page, "plans")
    files = [each for each in watch.requests if "/static/" in each.url]
    assert len(files) > 20
    assert sum(each.sizes()["responseBodySize"] for each in files) == 0
    answers = [each.response() for each in files]
    assert 304 in {answer.status for answer in answers if answer}


def is_media(url: str) -> bool:
    return urlsplit(url).path.endswith(MEDIA)


def test_dark_colours_follow_the_system(page: Page, service: ServiceProcess) -> None:
    page.emulate_media(color_scheme="light")
    open_example(page, service)
    body = page.locator("body")
    assert brightness(style_of(body, "color")) < 60
    assert brightness(style_of(body, "backgroundColor")) > 200
    page.emulate_media(color_scheme="dark")
    assert brightness(style_of(body, "color")) > 200
    assert brightness(style_of(body, "backgroundColor")) < 60
    assert brightness(style_of(page.locator("#choose-file"), "backgroundColor")) < 60


def brightness(colour: str) -> float:
    """The mean of red, green and blue of a computed colour."""
    parts = [float(part) for part in colour.partition("(")[2].rstrip(")").split(",")[:3]]
    return sum(parts) / 3


def test_nothing_moves_where_motion_is_unwanted(page: Page, service: ServiceProcess) -> None:
    page.emulate_media(reduced_motion="no-preference")
    open_example(page, service)
    arrow = page.locator("#settings summary")
    assert style_of(arrow, "transitionDuration", "::before") == "0.15s"
    page.emulate_media(reduced_motion="reduce")
    assert style_of(arrow, "transitionDuration", "::before") == "0s"
    arrow.click()
    assert page.evaluate("document.getAnimations().length") == 0


def test_the_page_is_readable_at_320_pixels_and_at_200_percent(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    for width, height in ((320, 640), (640, 400)):  # the second is 1280 x 800 at 200 %
        page.set_viewport_size({"width": width, "height": height})
        wait_for_phase(page, "plans")
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
        expect(page.locator("#start-handle")).to_be_visible()
