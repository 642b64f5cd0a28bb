"""What a screen reader says: roles, names and values, headings, and what is announced."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from playwright.sync_api import Browser, Page, expect

from serving.browser.driving import EGGS, busy_workers, open_example, set_times, steps_shown, wait_for_phase
from serving.browser.watching import DESKTOP, Watch, watched_page
from soak.service_process import ServiceProcess

UNNAMED = re.compile(r"- (?:button|link|textbox|slider|spinbutton|checkbox)(?: \[.*\])?:?$", re.MULTILINE)
HEADINGS = """() => [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")]
  .filter((heading) => heading.checkVisibility()).map((heading) => Number(heading.localName[1]))"""


@pytest.fixture(scope="module")
def example(browser: Browser, shared_service: ServiceProcess) -> Iterator[Page]:
    """The page with its example, for tests that only look at it."""
    with watched_page(browser, Watch(), **DESKTOP) as page:
        open_example(page, shared_service)
        yield page


def snapshot(page: Page) -> str:
    """The roles and names of everything on the page, with its details unfolded."""
    for summary in page.locator("summary:visible").all():
        summary.click()
    return page.locator("body").aria_snapshot()


def test_the_page_has_a_language_a_title_and_landmarks(example: Page) -> None:
    assert example.locator("html").get_attribute("lang") == "en"
    expect(example).to_have_title(re.compile("p3iv.*steps between two moments"))
    for role in ("banner", "main", "contentinfo"):
        expect(example.get_by_role(role)).to_have_count(1)
    expect(example.get_by_role("region", name="Recommended plan")).to_be_visible()


def test_headings_are_in_order(example: Page) -> None:
    levels = example.evaluate(HEADINGS)
    assert levels.count(1) == 1 and levels[0] == 1
    assert len(levels) >= 4
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_controls_have_names_and_values(example: Page) -> None:
    for name, second in (("Start", 12), ("Goal", 26)):
        slider = example.get_by_role("slider", name=name)
        spoken = f"{name.lower()} at {second} seconds, 0 minutes {second}"
        for attribute, value in (
            ("valuemin", "0"),
            ("valuemax", "30"),
            ("valuenow", f"{second}"),
            ("valuetext", spoken),
        ):
            expect(slider).to_have_attribute(f"aria-{attribute}", value)
        expect(example.get_by_role("textbox", name=name)).to_have_value(f"0:{second}.0")
        expect(example.get_by_role("group", name=name).get_by_role("button", name="Set here")).to_be_visible()
        expect(example.get_by_role("button", name=f"{name} at 0:{second}.0; show it in the video")).to_be_visible()
    buttons = ["Keys", "Use your video", "One second back", "One frame back", "Play", "One frame on", "One second on"]
    for button in [*buttons, "Copy as text", "Copy as JSON", "Save the graph"]:
        expect(example.get_by_role("button", name=button, exact=True)).to_be_visible()
    expect(example.get_by_role("button", name=EGGS.file)).to_have_attribute("aria-haspopup", "dialog")
    unnamed = re.findall(
        r"- (?:button|link|textbox|slider|spinbutton|checkbox)(?: \[.*\])?:?$", snapshot(example), re.M
    )
    assert unnamed == []


def test_plans_are_lists_and_the_graph_has_words(example: Page) -> None:
    steps = example.get_by_role("list", name="Steps of the plan").get_by_role("listitem")
    expect(steps).to_have_count(3)
    assert steps.all_inner_texts() == steps_shown(example)
    plans = example.get_by_role("list", name="All plans, the most probable first").get_by_role("listitem")
    expect(plans).to_have_count(5)
    expect(plans.nth(0).get_by_role("button")).to_have_attribute("aria-pressed", "true")
    expect(plans.nth(0)).to_contain_text(re.compile(r"\d\.\d\s%"))
    graph = example.get_by_role("region", name="Graph of the plans").get_by_role("img")
    name = graph.get_attribute("aria-label") or ""
    assert all(step in name for step in steps_shown(example)), name


def test_results_and_problems_are_announced(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    said = page.locator("#announcer")
    expect(said).to_have_attribute("aria-live", "polite")
    share = (page.locator(".figure").text_content() or "").strip()
    steps = ", then ".join(steps_shown(page))
    expect(said).to_have_text(f"Plans are ready. Recommended, {share} likely: {steps}.")
    page.keyboard.press("2")
    expect(said).to_contain_text("Plan 2, ")
    page.keyboard.press("s")
    expect(said).to_have_text("start at 12 seconds, 0 minutes 12")
    wait_for_phase(page, "plans")
    with busy_workers(service):
        set_times(page, goal="9")
        wait_for_phase(page, "planning")
        expect(page.locator(".results")).to_have_attribute("aria-busy", "true")
        page.locator("#cancel-planning").click()
        expect(said).to_have_text("Planning was cancelled.")


def test_the_guide_says_what_is_done(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    set_times(page, goal="")
    wait_for_phase(page, "start")
    items = page.locator(".guide").get_by_role("listitem")
    expect(items).to_have_text(
        [re.compile("^Done: Choose a video"), re.compile("^Done: Set the start"), re.compile("^Set the goal")]
    )
    expect(page.get_by_role("slider", name="Goal")).to_have_attribute(
        "aria-valuetext", "goal is not set; press Enter for 30 seconds, 0 minutes 30"
    )
    page.get_by_role("slider", name="Goal").press("Enter")
    wait_for_phase(page, "plans")
