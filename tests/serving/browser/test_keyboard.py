"""The page without a mouse."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from serving.browser.driving import EGGS, REPOT, open_example, steps_shown, wait_for_phase
from soak.service_process import ServiceProcess

# How an element that has the focus looks: its outline, or that of the part of a handle that one sees.
FOCUS = """() => {
  const element = document.activeElement;
  const outlines = [getComputedStyle(element), getComputedStyle(element, "::before")];
  const isVisible = outlines.some((style) => style.outlineStyle === "solid" && parseFloat(style.outlineWidth) >= 2);
  const { width, height } = element.getBoundingClientRect();
  const name = element.id || element.dataset.plan || element.ariaLabel || element.textContent.trim();
  return { name, isVisible: isVisible && width > 0 && height > 0 };
}"""


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.locator(selector).evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"Tab does not reach {selector}")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_another_video_is_planned_by_keys_alone(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    tab_to(page, "#choose-video")
    press(page, "Enter")
    expect(page.locator("#videos-dialog")).to_be_visible()
    repot = page.locator("#videos-dialog").get_by_role("button", name=REPOT.file)
    repot.wait_for()
    tab_to(page, f"[data-video='{repot.get_attribute('data-video')}']")
    press(page, "Enter")
    wait_for_phase(page, "video")
    expect(page.locator("#choose-video")).to_be_focused()
    press(page, "Shift+ArrowRight", "Shift+ArrowRight", "s")
    expect(page.locator("#start-time")).to_have_value("0:02.0")
    wait_for_phase(page, "start")
    press(page, *["Shift+ArrowRight"] * 11, "g")
    expect(page.locator("#goal-time")).to_have_value("0:13.0")
    wait_for_phase(page, "plans")
    recommended = steps_shown(page)
    press(page, "2")
    expect(page.locator("[data-plan='1']")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#plan-title")).to_contain_text("Plan 2 of")
    assert steps_shown(page) != recommended
    press(page, "9")
    expect(page.locator("[data-plan='8']")).to_have_attribute("aria-pressed", "true")
    press(page, "1")
    assert steps_shown(page) == recommended


def test_tab_reaches_everything_in_order_and_the_focus_is_seen(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    order = []
    while True:
        press(page, "Tab")
        focus = page.evaluate(FOCUS)
        if focus["name"] in order or page.evaluate("document.activeElement === document.body"):
            break
        assert focus["isVisible"], focus["name"]
        order.append(focus["name"])
    landmarks = ["Skip to the plans", "help-button", "choose-video", "choose-file", "One second back", "play"]
    landmarks += ["start-handle", "goal-handle", "start-time", "set-start", "goal-time", "set-goal"]
    landmarks += ["0", "4", "more-plans", "copy-text", "copy-json", "save-svg", "Graph of the plans"]
    assert [name for name in order if name in landmarks] == landmarks
    assert order[-1] == "The steps that it knows"
    page.locator(".skip").focus()
    expect(page.locator(".skip")).to_be_in_viewport()
    press(page, "Enter")
    expect(page.locator("#plans")).to_be_focused()
    assert "#plans" not in page.url  # which would overwrite the query
    press(page, "Tab")
    assert page.evaluate("document.querySelector('#plans').contains(document.activeElement)")


def test_arrows_on_a_handle_move_it_by_a_frame_or_a_second(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    start = page.get_by_role("slider", name="Start")
    tab_to(page, "#start-handle")

    def value() -> float:
        return float(start.get_attribute("aria-valuenow") or "nan")

    press(page, "ArrowRight")
    assert 12 < value() <= 12.1  # the clip has ten frames a second
    press(page, "ArrowLeft")
    assert value() == pytest.approx(12)
    for key, second in (("Shift+ArrowRight", 13), ("Shift+ArrowLeft", 12), ("PageUp", 15), ("PageDown", 12)):
        press(page, key)
        assert value() == pytest.approx(second)
    press(page, "Home")
    assert value() == 0
    press(page, "ArrowLeft")
    assert value() == 0
    expect(start).to_have_attribute("aria-valuetext", "start at 0 seconds, 0 minutes 0")
    press(page, "End")
    assert value() == 30
    expect(page.locator(".clock .now")).to_have_text("0:30.0")  # the video shows the handle's moment
    wait_for_phase(page, "plans")
    expect(page.locator("#start-time")).to_have_value("0:30.0")
    expect(page.locator("plan-summary")).to_contain_text("The goal is before the start")


def test_space_plays_and_pauses_and_arrows_move_by_a_frame(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    now = page.locator(".clock .now")
    press(page, "Space")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(now).not_to_have_text("0:12.0")
    expect(now).to_have_text(re.compile(r"0:1[2-9]\.\d"))
    press(page, "Space")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    assert page.locator("video").evaluate("video => video.paused")
    page.locator("#start-time").fill("20")
    page.keyboard.press("Enter")
    page.locator("#start-time").blur()
    press(page, "Shift+ArrowRight")
    expect(now).to_have_text("0:21.0")
    press(page, *["ArrowRight"] * 5)
    expect(now).not_to_have_text("0:21.0")
    press(page, *["ArrowLeft"] * 5)
    expect(now).to_have_text("0:21.0")


def test_keys_do_nothing_while_somebody_types(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    page.locator("#goal-time").focus()
    page.locator("#goal-time").select_text()
    page.keyboard.type("2 sg?1")
    expect(page.locator("#goal-time")).to_have_value("2 sg?1")
    expect(page.locator("#help-dialog")).to_be_hidden()
    expect(page.locator("#start-time")).to_have_value("0:12.0")
    assert page.locator("video").evaluate("video => video.paused")
    press(page, "Escape")
    expect(page.locator("#goal-time")).to_have_value("0:26.0")


def test_the_list_of_keys_opens_and_closes_and_the_focus_returns(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    dialog = page.get_by_role("dialog", name="Keys")
    tab_to(page, "#choose-video")
    press(page, "?")
    expect(dialog).to_be_visible()
    expect(dialog.locator(":focus")).to_have_count(1)
    press(page, "2")  # keys of the page behind it do nothing
    press(page, "Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator("#choose-video")).to_be_focused()
    expect(page.locator("#plan-title")).to_have_text("Recommended plan")
    page.locator("#help-button").click()
    page.get_by_label("Use these keys").uncheck()
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator("#help-button")).to_be_focused()
    press(page, "2")
    expect(page.locator("#plan-title")).to_have_text("Recommended plan")
    page.reload()  # the choice is remembered
    wait_for_phase(page, "plans")
    press(page, "2")
    expect(page.locator("#plan-title")).to_have_text("Recommended plan")
    expect(page.locator("video-bar .video-name")).to_contain_text(EGGS.file)
