"""The page on a telephone: one column, large targets, touch."""

from __future__ import annotations

from itertools import pairwise

import pytest
from playwright.sync_api import Page, expect

from serving.browser.driving import open_clip, open_example, wait_for_phase
from soak.service_process import ServiceProcess

# Everything that one can touch, and is smaller than 44 pixels. A label belongs to its box.
SMALL_TARGETS = """() => [...document.querySelectorAll("button, a, summary, input, select, [role=slider]")]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }) && one.type !== "file" && !one.closest("p"))
  .map((one) => (["checkbox", "radio"].includes(one.type) ? one.closest("label") : one))
  .filter((one) => !one.classList.contains("skip"))
  .map((one) => [one.id || one.ariaLabel || one.textContent.trim(), one.getBoundingClientRect()])
  .filter(([, { width, height }]) => Math.min(width, height) < 44)
  .map(([name, { width, height }]) => `${name}: ${width} x ${height}`)"""
OVERFLOW = "() => document.documentElement.scrollWidth - window.innerWidth"
COLUMNS = """() => ["video-stage", "video-controls", "video-timeline", ".moments", "#plans", "plan-graph"]
  .map((name) => document.querySelector(name).getBoundingClientRect()).map(({ top, bottom }) => [top, bottom])"""


def drag(page: Page, first: tuple[float, float], last: tuple[float, float]) -> None:
    """Put a finger on a place, move it to another one, and lift it."""
    session = page.context.new_cdp_session(page)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]})

    touch("touchStart", first)
    for share in (0.1, 0.5, 0.9, 1.0):
        touch("touchMove", (first[0] + share * (last[0] - first[0]), first[1] + share * (last[1] - first[1])))
    touch("touchEnd")


def middle_of(page: Page, selector: str) -> tuple[float, float]:
    box = page.locator(selector).bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_there_is_one_column_and_nothing_scrolls_sideways(phone: Page, service: ServiceProcess) -> None:
    open_example(phone, service)
    rows = phone.evaluate(COLUMNS)
    assert all(above[1] <= below[0] for above, below in pairwise(rows)), rows
    for summary in phone.locator("summary:visible").all():
        summary.click()
    assert phone.evaluate(OVERFLOW) <= 0
    expect(phone.locator("plan-graph svg.vertical")).to_be_visible()
    graph = phone.locator(".graph-box").evaluate("box => box.scrollWidth - box.clientWidth")
    assert graph <= 0


def test_the_timeline_stays_in_view_above_the_plans(phone: Page, service: ServiceProcess) -> None:
    open_example(phone, service)
    phone.locator("#copy-json").scroll_into_view_if_needed()
    timeline = phone.locator("video-timeline").bounding_box()
    assert timeline is not None and timeline["y"] == 0
    expect(phone.locator("#start-handle")).to_be_in_viewport()
    expect(phone.locator("video-stage")).not_to_be_in_viewport()
    phone.locator("[data-plan='1']").scroll_into_view_if_needed()
    phone.locator("[data-plan='1']").tap()
    expect(phone.locator("#plan-title")).to_contain_text("Plan 2 of")


def test_what_one_touches_has_at_least_44_pixels(phone: Page, service: ServiceProcess) -> None:
    open_example(phone, service)
    for summary in phone.locator("summary:visible").all():
        summary.tap()
    assert phone.evaluate(SMALL_TARGETS) == []
    for opens, dialog in (("#help-button", "#help-dialog"), ("#choose-video", "#videos-dialog")):
        phone.locator(opens).tap()
        expect(phone.locator(dialog)).to_be_visible()
        assert phone.evaluate(SMALL_TARGETS) == []
        assert phone.evaluate(OVERFLOW) <= 0
        phone.locator(f"{dialog} [data-close]").tap()


def test_an_empty_page_fits(phone: Page, bare_service: ServiceProcess) -> None:
    phone.goto(bare_service.address)
    wait_for_phase(phone, "empty")
    assert phone.evaluate(SMALL_TARGETS) == []
    assert phone.evaluate(OVERFLOW) <= 0


def test_handles_are_dragged_by_a_finger(phone: Page, service: ServiceProcess) -> None:
    open_clip(phone, service)
    phone.locator("video-timeline").scroll_into_view_if_needed()
    lane = phone.locator(".lane").bounding_box()
    assert lane is not None
    for handle, share in (("#start-handle", 0.4), ("#goal-handle", 0.8)):
        x, y = middle_of(phone, handle)
        own = float(phone.locator(handle).get_attribute("aria-valuenow") or 0) / 30
        drag(phone, (x, y), (x + (share - own) * lane["width"], y + 2))
    wait_for_phase(phone, "plans")
    for field, second in (("#start-handle", 12), ("#goal-handle", 24)):
        value = float(phone.locator(field).get_attribute("aria-valuenow") or "nan")
        assert value == pytest.approx(second, abs=0.2)


def test_a_touch_beside_the_handles_moves_the_playhead_alone(phone: Page, service: ServiceProcess) -> None:
    open_example(phone, service)
    phone.locator("video-timeline").scroll_into_view_if_needed()
    lane = phone.locator(".lane").bounding_box()
    assert lane is not None
    phone.touchscreen.tap(lane["x"] + lane["width"] * 0.6, lane["y"] + lane["height"] / 2)
    expect(phone.locator(".clock .now")).to_contain_text("0:18")
    expect(phone.locator("#start-time")).to_have_value("0:12.0")
    expect(phone.locator("#goal-time")).to_have_value("0:26.0")
