"""Annotating in a browser: by keys alone, in two tabs, with a lost connection, and with suggestions."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from serving.annotate_folders import make_folder
from serving.browser.test_axe import check_all_looks, check_looks
from serving.browser.watching import Watch
from soak.service_process import ServiceProcess, running_service

STEPS = (
    *("get the bowl", "crack the eggs", "whisk the eggs", "add salt to the eggs"),
    *("put the pan on the stove", "turn on the stove", "crack the eggs", "whisk the eggs"),
)
Step = tuple[str, float, float]


@pytest.fixture(scope="package")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("annotate") / "kitchen")


@pytest.fixture(scope="package")
def annotator(browser: Browser, kitchen: Path) -> Iterator[ServiceProcess]:
    """A service without a planner, with two videos to annotate. Tests share it under different names."""
    assert browser.is_connected()
    with running_service("--annotate", str(kitchen), "--limit", "jobs=1") as service:
        yield service


def open_annotator(page: Page, service: ServiceProcess, name: str) -> None:
    """Open the page under a name of one's own."""
    page.goto(f"{service.url}/annotate#annotator={name}")
    expect_saving(page, "saved")


def expect_saving(page: Page, state: str) -> None:
    expect(page.locator("annotate-steps")).to_have_attribute("data-saving", state)


def add_step(page: Page, name: str, seconds: int = 3) -> None:
    """Mark a step that begins at the playhead, by keys."""
    page.keyboard.press("i")
    for _ in range(seconds):
        page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("o")
    expect(page.locator("#step-name")).to_be_focused()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    expect(page.locator("step-editor")).to_be_hidden()


def listed(page: Page) -> list[str]:
    return page.locator("#step-list .step-name").all_inner_texts()


def focus_by_tab(page: Page, element_id: str) -> None:
    """Go to an element with the Tab key."""
    for _ in range(60):
        if page.evaluate("document.activeElement.id") == element_id:
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"#{element_id} cannot be reached")


def stored_rows(kitchen: Path, video: str) -> list[Step]:
    """The rows of a video in steps.csv."""
    with (kitchen / "steps.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["video"] == video]
    return [(row["step"], float(row["start_s"]), float(row["end_s"])) for row in rows]


def test_eight_steps_by_keys_alone(page: Page, annotator: ServiceProcess, kitchen: Path) -> None:
    open_annotator(page, annotator, "main")
    focus_by_tab(page, "task")
    page.keyboard.type("make scrambled eggs")
    page.keyboard.press("Enter")
    for name in STEPS[:6]:
        add_step(page, name)
    add_step(page, "cra")  # Enter accepts what completes it
    add_step(page, "whi")
    expect_saving(page, "saved")
    assert listed(page) == list(STEPS)
    expected = [(name, 3.0 * index, 3.0 * index + 3) for index, name in enumerate(STEPS)]
    assert stored_rows(kitchen, "eggs") == expected
    page.keyboard.press("k")  # from the last step to the one before
    page.keyboard.press("ArrowUp")
    expect(page.locator("[aria-pressed=true]")).to_contain_text("turn on the stove")
    page.keyboard.press("Delete")
    assert len(listed(page)) == 7
    page.keyboard.press("Control+z")
    assert listed(page) == list(STEPS)
    page.keyboard.press("Control+Shift+z")
    assert len(listed(page)) == 7
    page.keyboard.press("Control+z")
    page.keyboard.press("j")
    page.keyboard.press("Enter")  # change the step
    expect(page.locator("#step-name")).to_be_focused()
    page.keyboard.type("light the stove")
    page.keyboard.press("Enter")
    expect_saving(page, "saved")
    page.reload()
    expect_saving(page, "saved")
    assert len(listed(page)) == 8
    assert "light the stove" in listed(page)
    page.keyboard.press("n")
    expect(page.locator("#next")).to_be_disabled()
    expect(page.locator("#step-list li")).to_have_count(0)
    page.keyboard.press("p")
    expect(page.locator("#step-list li")).to_have_count(8)
    assert len(stored_rows(kitchen, "eggs")) == 8


def test_a_name_that_is_new_though_it_begins_a_known_one(page: Page, annotator: ServiceProcess) -> None:
    open_annotator(page, annotator, "names")
    add_step(page, "stir the tea")
    page.keyboard.press("o")
    page.keyboard.type("stir")
    expect(page.locator("#step-options [aria-selected=true]")).to_have_text("stir the tea")
    page.keyboard.press("ArrowUp")  # the last option is what was typed
    expect(page.locator("#step-options [aria-selected=true]")).to_contain_text("New step")
    page.keyboard.press("Enter")
    assert sorted(listed(page)) == ["stir", "stir the tea"]
    page.keyboard.press("o")
    page.keyboard.press("Enter")
    expect(page.locator("#editor-problem")).to_have_text("Type the name of the step.")
    page.locator("#step-to").fill("soon")
    page.locator("#step-name").fill("pour")
    page.locator("#save-step").click()
    expect(page.locator("#editor-problem")).to_have_text("Times look like 12.5 or 1:02.5.")
    page.keyboard.press("Escape")
    expect(page.locator("step-editor")).to_be_hidden()


@contextmanager
def second_tab(page: Page) -> Iterator[Page]:
    """Another tab of the same address."""
    other = page.context.new_page()
    other.goto(page.url)
    expect_saving(other, "saved")
    try:
        yield other
    finally:
        other.close()


@pytest.mark.parametrize("choice", ["#keep-mine", "#take-theirs"])
def test_two_tabs_do_not_overwrite_each_other(page: Page, annotator: ServiceProcess, watch: Watch, choice: str) -> None:
    watch.provoke(409)
    open_annotator(page, annotator, f"tabs{choice[1:5]}")
    with second_tab(page) as other:
        add_step(other, "boil water")
        add_step(other, "pour water")
        expect_saving(other, "saved")
        add_step(page, "open the box")
        expect_saving(page, "conflict")
        expect(page.locator("#conflict")).to_contain_text("Here: 1\u00a0step")
        expect(page.locator("#conflict")).to_contain_text("There: 2\u00a0steps")
        expect(page.locator("#keep-mine")).to_be_focused()
        check_all_looks(page)
        page.locator(choice).click()
        expect_saving(page, "saved")
        kept = ["open the box"] if choice == "#keep-mine" else ["boil water", "pour water"]
        assert listed(page) == kept
        other.reload()
        expect_saving(other, "saved")
        assert listed(other) == kept


def test_a_lost_connection_is_said_and_tried_again(page: Page, annotator: ServiceProcess, watch: Watch) -> None:
    watch.provoke("ERR_FAILED")
    open_annotator(page, annotator, "lost")

    def fail(route: Route) -> None:
        route.abort() if route.request.method == "PUT" else route.continue_()

    page.route("**/v1/steps/**", fail)
    add_step(page, "boil water")
    expect_saving(page, "retrying")
    expect(page.locator("#saving-state")).to_have_text("Not saved: trying again…")
    add_step(page, "pour water")
    page.keyboard.press("n")  # stays, since this video is not saved
    assert listed(page) == ["boil water", "pour water"]
    check_all_looks(page)
    page.unroute("**/v1/steps/**", fail)
    expect_saving(page, "saved")
    page.reload()
    expect_saving(page, "saved")
    assert listed(page) == ["boil water", "pour water"]


def test_suggestions_are_accepted_by_a_key(page: Page, annotator: ServiceProcess) -> None:
    open_annotator(page, annotator, "helped")
    suggestions = page.locator("annotate-suggestions")
    page.keyboard.press("a")
    expect(suggestions).to_have_attribute("data-shows", "suggestion")
    check_all_looks(page)
    number = page.locator(".ghost").count()
    assert number > 2
    moment = page.locator(".clock .now").inner_text()
    page.keyboard.press("a")
    expect(page.locator("#step-name")).to_be_focused()
    assert page.locator(".clock .now").inner_text() == moment  # the picture is that of the step to name
    page.keyboard.type("crack the eggs")
    page.keyboard.press("Enter")
    assert listed(page) == ["crack the eggs"]
    expect(page.locator(".clock .now")).not_to_have_text(moment)
    expect(page.locator(".ghost")).to_have_count(number - 1)
    page.keyboard.press("x")
    expect(page.locator(".ghost")).to_have_count(number - 2)
    expect_saving(page, "saved")


def test_every_state_has_no_findings_of_axe(page: Page, annotator: ServiceProcess) -> None:
    open_annotator(page, annotator, "looks")
    check_all_looks(page)  # nothing yet
    page.keyboard.press("i")
    page.keyboard.press("Shift+ArrowRight")
    check_looks(page)
    page.keyboard.press("o")
    page.keyboard.type("st")
    check_all_looks(page)  # a step is named
    page.keyboard.press("Enter")
    add_step(page, "stir")
    page.keyboard.press("ArrowUp")
    check_all_looks(page)  # steps, one of them chosen
    page.keyboard.press("?")
    expect(page.locator("#help-dialog")).to_be_visible()
    check_all_looks(page)
    page.keyboard.press("Escape")


def test_agreement_with_another_annotator(page: Page, annotator: ServiceProcess) -> None:
    open_annotator(page, annotator, "one")
    add_step(page, "boil water", 4)
    expect_saving(page, "saved")
    open_annotator(page, annotator, "two")
    page.reload()
    expect_saving(page, "saved")
    add_step(page, "boil water", 2)
    expect_saving(page, "saved")
    page.locator("#agreement summary").click()
    page.locator("#other-annotator").select_option("one")
    row = page.locator("#agreement tfoot tr")
    expect(row).to_contain_text("50\u00a0%")
    expect(row).to_contain_text("1.0\u00a0s")
    check_all_looks(page)
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    name = page.locator("#agreement tbody th").bounding_box()
    assert name is not None
    assert name["width"] > 60


def test_a_training_is_started_and_cancelled(page: Page, annotator: ServiceProcess) -> None:
    open_annotator(page, annotator, "main")
    if not listed(page):
        add_step(page, "boil water")
    if not page.locator("#task").input_value():
        page.locator("#task").fill("make tea")
        page.keyboard.press("Enter")
    expect_saving(page, "saved")
    training = page.locator("annotate-training")
    page.locator("#train").click()
    expect(training).to_have_attribute("data-shows", "extract running")
    check_looks(page)
    page.locator("#cancel-job").click()
    expect(training).to_have_attribute("data-shows", "extract cancelled")
    check_all_looks(page)


def test_on_a_telephone(phone: Page, annotator: ServiceProcess) -> None:
    open_annotator(phone, annotator, "phone")
    phone.locator("#mark-in").tap()
    phone.get_by_role("button", name="One second on").tap()
    phone.locator("#mark-out").tap()
    phone.locator("#step-name").fill("boil water")
    phone.locator("#save-step").tap()
    assert listed(phone) == ["boil water"]
    expect_saving(phone, "saved")
    for width in (400, 320):
        phone.set_viewport_size({"width": width, "height": 700})
        assert phone.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    for button in phone.locator("button:visible, select:visible, input:visible").all():
        box = button.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= 43.9, button.get_attribute("id")


def test_the_page_is_small(page: Page, annotator: ServiceProcess, watch: Watch) -> None:
    open_annotator(page, annotator, "size")
    files = [each for each in watch.requests if re.search("/static/|/annotate$", each.url)]
    assert 10_000 < sum(each.sizes()["responseBodySize"] for each in files) <= 60_000
