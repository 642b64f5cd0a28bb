"""axe finds nothing in any state, on a desktop and on a telephone, in light and in dark colours."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page, expect

from serving.browser.driving import (
    busy_workers,
    open_clip,
    open_example,
    set_times,
    upload,
    wait_for_phase,
)
from serving.browser.restarting import RestartableService
from serving.browser.watching import DESKTOP, PHONE, Watch
from soak.service_process import ServiceProcess

AXE = Axe()
COLOURS: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")


def check_looks(page: Page) -> None:
    """Run axe as the page is now."""
    found = AXE.run(page)
    assert found.violations_count == 0, found.generate_report()


def check_all_looks(page: Page) -> None:
    """Run axe in both colours at both widths; transitions have no time to run."""
    page.emulate_media(reduced_motion="reduce")
    for size in (DESKTOP, PHONE):
        page.set_viewport_size(size["viewport"])
        expect(page.locator("body")).not_to_have_attribute("data-phase", "planning")  # the graph is drawn again
        for colours in COLOURS:
            page.emulate_media(color_scheme=colours)
            check_looks(page)


def test_plans(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    page.locator("#settings summary").click()
    page.locator("#known-steps summary").click()
    check_all_looks(page)
    page.keyboard.press("3")  # a plan that is not the recommended one
    expect(page.locator("[data-plan='2']")).to_have_attribute("aria-pressed", "true")
    check_looks(page)


def test_a_video_without_moments(page: Page, service: ServiceProcess) -> None:
    open_clip(page, service)
    check_all_looks(page)


def test_a_start_without_a_goal_and_a_time_that_is_wrong(page: Page, service: ServiceProcess) -> None:
    open_clip(page, service)
    set_times(page, start="5")
    wait_for_phase(page, "start")
    set_times(page, goal="late")
    expect(page.locator("#goal-note")).not_to_be_empty()
    check_all_looks(page)


def test_planning_and_its_end(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    with busy_workers(service):
        set_times(page, goal="6")
        expect(page.locator("#cancel-planning")).to_be_visible()
        page.emulate_media(reduced_motion="reduce")
        for colours in COLOURS:
            page.emulate_media(color_scheme=colours)
            check_looks(page)
        page.locator("#cancel-planning").click()
        wait_for_phase(page, "error")
    check_all_looks(page)


def test_a_problem_with_a_video(page: Page, service: ServiceProcess, watch: Watch, tmp_path: Path) -> None:
    watch.provoke(422)
    (tmp_path / "notes.mp4").write_text("not a video either")
    open_example(page, service)
    upload(page, tmp_path / "notes.mp4")
    wait_for_phase(page, "error")
    check_all_looks(page)


def test_dialogs(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    for opens, dialog in (("#help-button", "#help-dialog"), ("#choose-video", "#videos-dialog")):
        page.locator(opens).click()
        expect(page.locator(dialog)).to_be_visible()
        check_all_looks(page)
        page.keyboard.press("Escape")


def test_the_form_of_the_token_and_an_empty_page(page: Page, bare_service: ServiceProcess, watch: Watch) -> None:
    watch.provoke(401)
    page.goto(bare_service.url)
    expect(page.locator("#token-dialog")).to_be_visible()
    check_all_looks(page)
    page.goto(bare_service.address)
    page.reload()
    wait_for_phase(page, "empty")
    check_all_looks(page)


def test_a_video_without_pictures(page: Page, features_service: RestartableService) -> None:
    page.goto(features_service.url)
    page.locator("#choose-video").click()
    page.locator("[data-video]").first.click()
    wait_for_phase(page, "video")
    check_all_looks(page)
