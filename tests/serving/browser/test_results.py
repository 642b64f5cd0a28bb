"""What the page shows and gives away is what the planner says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser, Page, expect

from p3iv.planner import Planner
from serving.browser.driving import EGGS, open_example, steps_shown, wait_for_phase
from serving.browser.watching import DESKTOP, Watch, watched_page
from soak.service_process import ServiceProcess


def copied(page: Page, button: str) -> str:
    """The text that a button copies."""
    page.locator(button).click()
    expect(page.locator(button)).to_have_text("Copied")
    return str(page.evaluate("navigator.clipboard.readText()"))


@pytest.fixture(scope="module")
def plans_page(browser: Browser, shared_service: ServiceProcess) -> Iterator[Page]:
    """The example with seed 3."""
    with watched_page(browser, Watch(), permissions=["clipboard-read", "clipboard-write"], **DESKTOP) as page:
        open_example(page, shared_service)
        page.locator("#settings summary").click()
        page.locator("#seed-field").fill("3")
        page.locator("#seed-field").press("Enter")
        wait_for_phase(page, "plans")
        yield page


def test_the_plans_of_the_page_are_those_of_python(plans_page: Page, planner: Planner) -> None:
    expected = planner.plan(EGGS.start, EGGS.goal, number=100, seed=3)
    assert json.loads(copied(plans_page, "#copy-json")) == json.loads(json.dumps(expected.to_dict()))
    assert steps_shown(plans_page) == list(expected.plan)
    shares = plans_page.locator("[data-plan] .share").all_inner_texts()
    assert [share.replace("\u00a0", " ") for share in shares] == [
        f"{100 * probability:.1f} %" for _, probability in expected.top(5)
    ]


def test_the_plans_are_copied_as_text_and_the_graph_is_saved(plans_page: Page, tmp_path: Path) -> None:
    text = copied(plans_page, "#copy-text")
    assert text.startswith("plan (probability ")
    assert [f"  {index}. {step}" for index, step in enumerate(steps_shown(plans_page), 1)] == text.splitlines()[1:4]
    with plans_page.expect_download() as download:
        plans_page.locator("#save-svg").click()
    download.value.save_as(tmp_path / "plans.svg")
    assert download.value.suggested_filename == "plans.svg"
    root = ElementTree.parse(tmp_path / "plans.svg").getroot()  # noqa: S314
    words = " ".join(root.itertext())
    assert root.tag.endswith("svg") and all(step.split()[0] in words for step in steps_shown(plans_page))


def test_the_commands_ask_for_these_plans(plans_page: Page, shared_service: ServiceProcess, planner: Planner) -> None:
    command = copied(plans_page, "[data-copy=p3iv]")
    assert command == f"{EGGS.command} --seed 3"
    curl = plans_page.locator("pre").first.inner_text()
    assert f"{shared_service.url}/v1/plan" in curl
    query = json.loads(curl[curl.index("'") + 1 : curl.rindex("'")])
    answer = plans_page.request.post(f"{shared_service.url}/v1/plan", data=query).json()
    assert answer["plan"] == list(planner.plan(EGGS.start, EGGS.goal, seed=3).plan)
