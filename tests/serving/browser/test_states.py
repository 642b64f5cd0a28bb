"""The states of the page: the example, choosing a video, start and goal, planning, plans."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from serving.browser.driving import (
    EGGS,
    REPOT,
    busy_workers,
    is_loaded,
    open_clip,
    open_example,
    set_times,
    steps_shown,
    upload,
    wait_for_phase,
)
from serving.browser.watching import Watch
from soak.service_process import ServiceProcess


def test_the_first_load_shows_the_example_with_its_plan(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    expect(page.locator("video-bar .video-name")).to_contain_text(EGGS.file)
    expect(page.locator("#start-time")).to_have_value("0:12.0")
    expect(page.locator("#goal-time")).to_have_value("0:26.0")
    expect(page.locator("#plan-title")).to_have_text("Recommended plan")
    assert len(steps_shown(page)) == 3
    expect(page.locator(".figure")).to_have_text(re.compile(r"^\d[\d.]*\s%$"))
    for image in (".strip", "moment-card[which=start] img", "moment-card[which=goal] img"):
        assert is_loaded(page.locator(image))
    expect(page.locator("video-stage")).to_have_attribute("data-shows", "video")
    expect(page.locator("plan-graph svg")).to_be_visible()
    pictures = page.locator("plan-steps img")
    expect(pictures).to_have_count(3)
    assert all(map(is_loaded, pictures.all()))


def test_a_video_then_a_start_then_a_goal_lead_to_plans(page: Page, service: ServiceProcess) -> None:
    open_clip(page, service, REPOT)
    expect(page.locator("#plans")).to_have_attribute("data-shows", "guide")
    expect(page.locator("[data-guide=video]")).to_have_class("is-done")
    page.locator("#set-start").click()
    wait_for_phase(page, "start")
    expect(page.locator("[data-guide=start]")).to_have_class("is-done")
    lane = page.locator(".lane").bounding_box()
    assert lane is not None
    page.mouse.click(lane["x"] + lane["width"] / 2, lane["y"] + lane["height"] / 2)
    expect(page.locator(".clock .now")).to_have_text(re.compile(r"0:1[45]\.\d"))
    page.locator("#set-goal").click()
    wait_for_phase(page, "plans")
    expect(page.locator("#goal-time")).to_have_value(re.compile(r"0:1[45]\.\d"))
    assert len(steps_shown(page)) == 3


def test_a_goal_without_a_start_is_a_state_of_its_own(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    set_times(page, start="")
    wait_for_phase(page, "goal")
    expect(page.locator("#plans")).to_have_attribute("data-shows", "guide")
    expect(page.locator("[data-guide=start]")).not_to_have_class("is-done")
    page.locator("#whole-video").click()
    wait_for_phase(page, "plans")
    expect(page.locator("#start-time")).to_have_value("0:00.0")
    expect(page.locator("#goal-time")).to_have_value("0:26.0")


def test_a_time_that_the_video_does_not_have_is_refused_in_place(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    for text, reason in (("soon", "Type seconds"), ("0:31", "The video ends at 0:30")):
        set_times(page, goal=text)
        expect(page.locator("#goal-note")).to_contain_text(reason)
        expect(page.locator("#goal-time")).to_have_attribute("aria-invalid", "true")
    set_times(page, goal="0:12,5")
    wait_for_phase(page, "plans")
    expect(page.locator("#goal-time")).to_have_value("0:12.5")
    expect(page.locator("#goal-note")).to_be_empty()


def test_planning_shows_its_progress_and_can_be_cancelled(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    with busy_workers(service):
        set_times(page, goal="18")
        wait_for_phase(page, "planning")
        expect(page.locator(".stage-words")).to_contain_text("Looking at the video: 1 of 2")
        expect(page.get_by_role("progressbar", name="Planning")).to_have_attribute("value", "0.5")
        page.locator("#cancel-planning").click()
        wait_for_phase(page, "error")
        expect(page.locator("#plans .problem")).to_contain_text("Planning was cancelled.")
    page.locator("#plans [data-action=retry]").click()
    wait_for_phase(page, "plans")
    expect(page.locator("#goal-time")).to_have_value("0:18.0")


def test_only_the_plans_of_the_last_moments_are_shown(page: Page, service: ServiceProcess, watch: Watch) -> None:
    open_example(page, service)
    with busy_workers(service):
        set_times(page, start="5")
        expect(page.locator(".stage-words")).to_contain_text("1 of 2")
        set_times(page, start="12")
        wait_for_phase(page, "plans")  # both moments are known to the service
        expect(page.locator("plan-steps .start")).to_contain_text("0:12.0")
    assert watch.paths().count("POST /v1/plan") == 3


def test_an_upload_shows_its_progress_and_can_be_cancelled(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    with busy_workers(service):
        upload(page, REPOT.path)
        expect(page.locator("video-stage")).to_have_attribute("data-shows", "upload")
        expect(page.locator(".upload-name")).to_have_text(REPOT.file)
        expect(page.locator(".upload-share")).to_have_text("Reading the video…")
        page.locator("#cancel-upload").click()
        expect(page.locator("video-stage")).to_have_attribute("data-shows", "video")
    expect(page.locator("video-bar .video-name")).to_contain_text(EGGS.file)


def test_an_uploaded_video_is_shown_planned_and_deleted(page: Page, service: ServiceProcess, tmp_path: Path) -> None:
    mine = tmp_path / "my eggs.mp4"
    mine.write_bytes(EGGS.path.read_bytes() + bytes(8))
    open_example(page, service)
    plan = steps_shown(page)
    upload(page, mine)
    expect(page.locator("video-bar .video-name")).to_have_text("my eggs.mp4")
    expect(page.locator("video-bar .video-facts")).to_contain_text("deleted in")
    wait_for_phase(page, "video")
    set_times(page, start="12", goal="26")
    wait_for_phase(page, "plans")
    assert steps_shown(page) == plan
    page.locator("#choose-video").click()
    page.locator("#videos-dialog").get_by_role("button", name="Delete my eggs.mp4").click()
    wait_for_phase(page, "empty")
    expect(page.locator("#videos-dialog").get_by_text("my eggs.mp4")).to_have_count(0)
    page.locator("#videos-dialog [data-close]").click()
    expect(page.locator("video-stage")).to_have_attribute("data-shows", "empty")


def test_another_plan_is_chosen_and_all_plans_are_listed(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    recommended = steps_shown(page)
    rows = page.locator("[data-plan]")
    expect(rows).to_have_count(5)
    rows.nth(1).click()
    expect(page.locator("#plan-title")).to_have_text("Plan 2 of 100")
    assert steps_shown(page) != recommended
    assert rows.nth(1).inner_text().count("→") == 2
    page.locator("#more-plans").click()
    expect(rows).to_have_count(100)
    expect(rows.nth(5)).to_be_focused()
    rows.nth(0).click()
    assert steps_shown(page) == recommended
