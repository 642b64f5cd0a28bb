"""Services that are not the example: without videos, with a token, with features only, with a dataset, stopped."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect

from p3iv.data.folder import open_dataset
from serving.browser.driving import EGGS, TOKEN, is_loaded, set_times, steps_shown, upload, wait_for_phase
from serving.browser.restarting import RestartableService
from serving.browser.watching import Watch
from soak.service_process import ServiceProcess


def test_the_address_with_the_token_opens_an_empty_page(page: Page, bare_service: ServiceProcess) -> None:
    page.goto(bare_service.address)
    wait_for_phase(page, "empty")
    assert TOKEN not in page.url
    assert TOKEN not in page.evaluate("document.cookie")
    expect(page.locator("video-stage")).to_have_attribute("data-shows", "empty")
    expect(page.locator("#choose-first-file")).to_be_visible()
    expect(page.locator("#choose-video")).to_be_hidden()
    expect(page.locator("#planner-name")).to_have_text("my-planner")
    page.reload()  # the cookie is enough
    wait_for_phase(page, "empty")
    expect(page.locator("#token-dialog")).to_be_hidden()


def test_a_missing_and_a_wrong_token_are_asked_for(page: Page, bare_service: ServiceProcess, watch: Watch) -> None:
    watch.provoke(401)
    page.goto(f"{bare_service.url}/#token=stale")
    expect(page.get_by_role("dialog", name="This server asks for a token")).to_be_visible()
    page.get_by_label("Token", exact=True).fill("wrong")
    page.get_by_role("button", name="Open the page").click()
    expect(page.locator("#token-problem")).to_have_text("This is not the token of the service.")
    expect(page.get_by_label("Token", exact=True)).to_be_focused()
    page.get_by_label("Token", exact=True).fill(TOKEN)
    page.keyboard.press("Enter")
    wait_for_phase(page, "empty")
    expect(page.locator("#token-dialog")).to_be_hidden()


def test_closing_the_form_of_the_token_leaves_a_way_back(
    page: Page, bare_service: ServiceProcess, watch: Watch
) -> None:
    watch.provoke(401)
    page.goto(bare_service.url)
    expect(page.locator("#token-dialog")).to_be_visible()
    page.keyboard.press("Escape")
    wait_for_phase(page, "error")
    expect(page.locator("video-stage .problem")).to_contain_text("This server asks for a token.")
    page.locator("video-stage [data-action=retry]").click()
    expect(page.locator("#token-dialog")).to_be_visible()


def test_more_plans_than_allowed_are_refused_kindly(page: Page, bare_service: ServiceProcess, watch: Watch) -> None:
    watch.provoke(429)
    page.goto(bare_service.address)
    wait_for_phase(page, "empty")
    upload(page, EGGS.path, button="#choose-first-file")
    wait_for_phase(page, "video")
    set_times(page, start="12", goal="26")
    wait_for_phase(page, "plans")
    set_times(page, goal="25")
    wait_for_phase(page, "error")
    expect(page.locator("#plans .problem-message")).to_have_text("More than 1 plans in a minute.")
    expect(page.locator("#plans .problem-hint")).to_have_text(re.compile(r"Try again in \d+ seconds\."))
    expect(page.locator("#plans [data-action=retry]")).to_be_visible()


def test_videos_without_pictures_are_planned(page: Page, features_service: RestartableService, watch: Watch) -> None:
    page.goto(features_service.url)
    wait_for_phase(page, "empty")
    expect(page.locator("video-stage")).to_contain_text("Choose one of 40 videos")
    expect(page.locator("#choose-file")).to_be_hidden()  # without an encoder, no file can be used
    page.locator("#choose-video").click()
    rows = page.locator("[data-video]:visible")
    name = rows.locator(".video-name").all_inner_texts()[7]
    page.get_by_role("searchbox", name="Search videos by name").fill(name.upper())
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(name)
    rows.click()
    wait_for_phase(page, "video")
    expect(page.locator("video-stage")).to_contain_text("not its pictures. Planning works.")
    page.locator("#whole-video").click()
    wait_for_phase(page, "plans")
    assert len(steps_shown(page)) == 3
    assert not [path for path in watch.paths() if re.search("/(frame|strip|file)$", path)]


def test_a_service_that_is_stopped_and_started_again(
    page: Page, features_service: RestartableService, watch: Watch
) -> None:
    watch.provoke("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", 503)
    page.goto(features_service.url)
    page.locator("#choose-video").click()
    page.locator("[data-video]").first.click()
    wait_for_phase(page, "video")
    features_service.stop()
    page.locator("#whole-video").click()
    wait_for_phase(page, "error")
    expect(page.locator("#plans .problem")).to_contain_text("The service does not answer.")
    expect(page.locator("#announcer")).to_have_text("No plans: The service does not answer.")
    features_service.begin_start()
    other = page.context.new_page()
    other.goto(features_service.url)
    wait_for_phase(other, "empty")  # by itself, when the service has started
    page.locator("#plans [data-action=retry]").click()
    wait_for_phase(page, "plans")


def test_videos_of_the_dataset_play_and_steps_have_pictures_of_training_videos(
    page: Page, dataset_service: ServiceProcess, demo: Path
) -> None:
    page.goto(dataset_service.url)
    wait_for_phase(page, "empty")
    page.locator("#choose-video").click()
    rows = page.locator("#videos-dialog [data-video]")
    expect(page.get_by_role("heading", name="Videos of the dataset")).to_be_visible()
    expect(rows).to_have_count(4)
    names = rows.locator(".video-name").all_inner_texts()
    rows.nth(1).click()
    wait_for_phase(page, "video")
    expect(page.locator("video-bar .video-name")).to_have_text(names[1])
    expect(page.locator("video-stage")).to_have_attribute("data-shows", "video")
    page.locator("#play").click()
    expect(page.locator(".clock .now")).not_to_have_text("0:00.0")
    page.locator("#play").click()
    expect(page.locator("video-stage")).to_have_attribute("data-shows", "video")
    page.locator("#whole-video").click()
    wait_for_phase(page, "plans")
    pictures = page.locator("plan-steps img")
    expect(pictures).to_have_count(3)
    assert is_loaded(pictures.first)
    shown = {(picture.get_attribute("src") or "").split("/")[3] for picture in pictures.all()}
    videos = httpx.get(f"{dataset_service.url}/v1/videos").json()["videos"]
    split = open_dataset(demo / "tabletop").split
    assert split is not None
    assert {video["name"] for video in videos if video["id"] in shown} <= set(split.train)
