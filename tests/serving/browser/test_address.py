"""The address of the page holds the query: reload, sharing, and the buttons of the browser work."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, expect

from serving.browser.driving import REPOT, open_clip, open_example, set_times, steps_shown, wait_for_phase
from soak.service_process import ServiceProcess


def wait_for_query(page: Page, **fields: str) -> None:
    """Wait until the address has these fields."""
    for name, value in fields.items():
        expect(page).to_have_url(re.compile(rf"#.*\b{name}={value}(&|$)"))


def query_of(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).fragment)


def test_reload_keeps_video_start_goal_and_seed(page: Page, service: ServiceProcess) -> None:
    open_clip(page, service, REPOT)
    set_times(page, start="2", goal="13")
    wait_for_phase(page, "plans")
    page.locator("#settings summary").click()
    for field, value in (("#seed-field", "7"), ("#number-field", "12")):
        page.locator(field).fill(value)
        page.locator(field).press("Enter")
    wait_for_phase(page, "plans")
    wait_for_query(page, start="2", goal="13", seed="7", number="12")
    query, steps = query_of(page), steps_shown(page)
    page.reload()
    wait_for_phase(page, "plans")
    expect(page.locator("video-bar .video-name")).to_contain_text(REPOT.file)
    expect(page.locator("#start-time")).to_have_value("0:02.0")
    expect(page.locator("#goal-time")).to_have_value("0:13.0")
    expect(page.locator("#seed-field")).to_have_value("7")
    expect(page.locator("#number-field")).to_have_value("12")
    assert steps_shown(page) == steps
    assert query_of(page) == query
    page.locator("#more-plans").click()
    expect(page.locator("[data-plan]")).to_have_count(12)


def test_a_shared_address_opens_the_same_query(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    wait_for_query(page, start="12", goal="26", seed="0")
    address, steps = page.url, steps_shown(page)
    other = page.context.new_page()
    other.goto(address.replace("goal=26", "goal=29.5"))
    wait_for_phase(other, "plans")
    expect(other.locator("#goal-time")).to_have_value("0:29.5")
    other.goto(address)  # only the fragment changes: the page stays and follows it
    expect(other.locator("#goal-time")).to_have_value("0:26.0")
    wait_for_phase(other, "plans")
    assert steps_shown(other) == steps


def test_an_address_that_makes_no_sense_shows_the_example(page: Page, service: ServiceProcess) -> None:
    page.goto(f"{service.url}/#video=&start=abc&goal=-1&seed=x&number=1e999&%&=&&#")
    wait_for_phase(page, "plans")
    expect(page.locator("#start-time")).to_have_value("0:12.0")


def test_back_leaves_the_page_and_forward_restores_it(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)  # after the empty page of a new tab
    for second in ("15", "16"):
        set_times(page, start=second)
        wait_for_phase(page, "plans")
    wait_for_query(page, start="16")
    page.go_back()
    expect(page).to_have_url("about:blank")
    page.go_forward()
    wait_for_phase(page, "plans")
    expect(page.locator("#start-time")).to_have_value("0:16.0")
