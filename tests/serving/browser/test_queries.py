"""What one can ask beside two moments: words, no goal, procedure, number of steps, conditions, history and reasons."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from p3iv.data.folder import open_dataset
from p3iv.planner import Planner
from p3iv.plans.conditions import Conditions
from p3iv.plans.distribution import as_percent
from serving.browser.driving import EGGS, open_example, set_times, steps_shown, upload, wait_for_phase
from serving.browser.test_axe import check_all_looks
from serving.browser.test_phone import OVERFLOW, SMALL_TARGETS
from serving.browser.watching import Watch
from soak.service_process import ServiceProcess

SALT, CRACK, TEA = "add salt to the eggs", "crack eggs into the bowl", "make tea"


@pytest.fixture(scope="package")
def kitchen(browser: Browser, queries_service: ServiceProcess) -> Iterator[ServiceProcess]:
    """A service whose planner understands words, procedures and history, and plans one to six steps."""
    assert browser.is_connected()
    yield queries_service


@pytest.fixture
def address(kitchen: ServiceProcess) -> str:
    """The page with a start in the first video of the dataset, which cracks eggs."""
    video = httpx.get(f"{kitchen.url}/v1/videos").json()["videos"][0]
    return f"{kitchen.url}/#video={video['id']}&start=12"


def open_none(page: Page, address: str, more: str = "") -> None:
    """Open the page without a goal: what comes next?"""
    page.goto(f"{address}&goal=none{more}")
    wait_for_phase(page, "plans")


def last_question(watch: Watch) -> dict[str, object]:
    """What the page asked last for plans."""
    return dict(json.loads([each for each in watch.requests if each.url.endswith("/v1/plan")][-1].post_data or ""))


def choose_goal(page: Page, kind: str) -> None:
    page.get_by_role("group", name="Kind of goal").get_by_role("radio", name=kind).check(force=True)


def click_condition(page: Page, step: str, kind: str) -> None:
    """Unfold the conditions of a step of the plan, and choose one."""
    page.get_by_role("button", name=f"Change this step: {step}", exact=True).first.click()
    page.locator(f"[data-step='{step}']").first.locator(f"[data-kind={kind}]").click()


def test_a_goal_in_words(page: Page, address: str, watch: Watch) -> None:
    page.goto(address)
    wait_for_phase(page, "start")
    choose_goal(page, "Words")
    expect(page.locator("#goal-text")).to_be_focused()
    expect(page.locator("#goal-handle")).to_be_hidden()
    page.keyboard.type("scrambled eggs")
    wait_for_phase(page, "plans")
    expect(page.locator("#understood")).to_contain_text('Understood "scrambled eggs" as the procedure "scramble eggs"')
    expect(page.locator("#announcer")).to_contain_text('understood "scrambled eggs" as')
    expect(page.locator("plan-steps .end.goal")).to_have_text("Goal scrambled eggs")
    assert last_question(watch)["goal"] == {"text": "scrambled eggs"}
    before = steps_shown(page)
    expect(page).to_have_url(re.compile("words=scrambled%20eggs"))
    page.reload()
    wait_for_phase(page, "plans")
    expect(page.locator("#goal-text")).to_have_value("scrambled eggs")
    assert steps_shown(page) == before
    page.keyboard.press("g")  # a moment again
    wait_for_phase(page, "plans")
    expect(page.locator("#goal-time")).to_have_value("0:12.0")
    expect(page).to_have_url(re.compile("start=12&goal=12&"))


def test_words_that_mean_nothing_lead_back_to_the_field(page: Page, address: str) -> None:
    page.goto(f"{address}&words=quantum%20chromodynamics")
    wait_for_phase(page, "error")
    problem = page.locator("#plans .problem")
    expect(problem).to_contain_text('Nothing that this planner knows is near "quantum chromodynamics": did you mean')
    expect(problem).to_contain_text("Say it in other words")
    page.locator("#plans [data-action=way-back]").click()
    expect(page.locator("#goal-text")).to_be_focused()
    page.locator("#goal-text").fill(TEA)
    page.keyboard.press("Enter")
    wait_for_phase(page, "plans")
    check_all_looks(page)


def test_no_goal_asks_for_what_comes_next(page: Page, address: str, watch: Watch) -> None:
    page.goto(address)
    wait_for_phase(page, "start")
    choose_goal(page, "None")
    wait_for_phase(page, "plans")
    assert "goal" not in last_question(watch)
    expect(page.locator("goal-choice")).to_contain_text("No goal: the plans say what probably comes next.")
    expect(page.locator("plan-steps .end.goal")).to_have_text("Goal not said")
    expect(page.locator("#goal-handle")).to_be_hidden()
    check_all_looks(page)


def test_the_plans_are_those_of_python(page: Page, address: str, queries_run: Path, demo: Path) -> None:
    conditions = Conditions(without=[SALT], first=CRACK)
    more = f"&procedure={quote(TEA)}&steps=3&history=off&without={quote(SALT)}&first={quote(CRACK)}"
    open_none(page, address, more)
    video = open_dataset(demo / "tabletop").videos[0].id
    expected = Planner.from_pretrained(queries_run).plan(
        (video, 12), procedure=TEA, horizon=3, history=False, conditions=conditions
    )
    assert steps_shown(page) == list(expected.plan)
    rows = page.locator("[data-plan] .share").all_inner_texts()
    assert [row.replace("\u00a0", " ") for row in rows] == [as_percent(share) for _, share in expected.top(len(rows))]


def test_the_procedure_and_the_number_of_steps(page: Page, address: str, watch: Watch) -> None:
    open_none(page, address)
    lengths = page.get_by_role("group", name="Number of steps").get_by_role("radio")
    expect(lengths).to_have_count(7)
    expect(lengths.first).to_be_checked()
    spoken = page.get_by_role("radio", name=re.compile(r"^2 steps, \d+"))
    expect(spoken).to_have_count(1)
    bars = page.locator(".length-bar").evaluate_all("all => all.map((bar) => bar.getBoundingClientRect().height)")
    assert max(bars) > 12 and len(bars) == 6
    spoken.check(force=True)
    wait_for_phase(page, "plans")
    assert last_question(watch)["horizon"] == 2
    assert len(steps_shown(page)) == 2
    page.get_by_label("Procedure").select_option(TEA)
    wait_for_phase(page, "plans")
    assert last_question(watch)["procedure"] == TEA
    expect(page).to_have_url(re.compile("procedure=make%20tea&steps=2"))
    page.reload()
    wait_for_phase(page, "plans")
    expect(page.get_by_label("Procedure")).to_have_value(TEA)
    expect(page.get_by_role("radio", name="2 steps")).to_be_checked()
    page.get_by_role("radio", name="Any number").check(force=True)
    page.get_by_label("Procedure").select_option("not known")
    wait_for_phase(page, "plans")
    assert not {"horizon", "procedure"} & set(last_question(watch))


def test_conditions_by_a_click_on_a_step(page: Page, address: str, watch: Watch) -> None:
    open_none(page, address, f"&procedure={quote('scramble eggs')}&steps=5")
    first = steps_shown(page)[0]
    click_condition(page, first, "without")
    wait_for_phase(page, "plans")
    assert last_question(watch)["conditions"] == {"without": [first]}
    assert first not in steps_shown(page)
    chip = page.get_by_role("button", name=f"Remove the condition: without {first}")
    expect(chip).to_be_focused()
    expect(page.locator("#announcer")).to_contain_text("Plans are ready")
    other = steps_shown(page)[-1]
    click_condition(page, other, "first")
    wait_for_phase(page, "plans")
    assert steps_shown(page)[0] == other
    needed = next(step for step in steps_shown(page) if step != other)
    click_condition(page, needed, "with")
    wait_for_phase(page, "plans")
    click_condition(page, next(step for step in steps_shown(page) if step not in (other, needed)), "done")
    wait_for_phase(page, "plans")
    assert set(last_question(watch)["conditions"]) == {"without", "first", "with", "done"}  # type: ignore[call-overload]
    expect(page.locator(".chip")).to_have_count(4)
    check_all_looks(page)
    page.reload()
    wait_for_phase(page, "plans")
    expect(page.locator(".chip")).to_have_count(4)
    page.locator(".chip").nth(1).click()
    wait_for_phase(page, "plans")
    expect(page.locator(".chip")).to_have_count(3)
    page.locator("#remove-conditions").click()
    wait_for_phase(page, "plans")
    expect(page.locator(".chip")).to_have_count(0)
    assert "conditions" not in last_question(watch)
    assert steps_shown(page)[0] == first


def test_a_condition_replaces_what_contradicts_it(page: Page, address: str) -> None:
    open_none(page, address, "&steps=2")
    step = steps_shown(page)[0]
    click_condition(page, step, "first")
    wait_for_phase(page, "plans")
    click_condition(page, step, "done")
    wait_for_phase(page, "plans")
    expect(page.locator(".chip")).to_have_text([f"already done: {step}"])


def test_impossible_conditions_lead_back(page: Page, address: str) -> None:
    page.goto(f"{address}&goal=none&steps=1&first={quote(CRACK)}&with={quote(SALT)}")
    wait_for_phase(page, "error")
    problem = page.locator("#plans .problem")
    expect(problem).to_contain_text("2 steps must occur")
    expect(problem).to_contain_text("but a plan has 1 step.")
    expect(problem.locator("[data-action=retry]")).to_have_count(0)  # it would be the same
    check_all_looks(page)
    page.get_by_role("button", name="Remove the last condition").click()
    wait_for_phase(page, "plans")
    assert steps_shown(page) == [CRACK]


def test_reasons_unfold(page: Page, address: str, watch: Watch) -> None:
    open_none(page, address)
    assert "why" not in last_question(watch)
    expect(page.locator(".reasons")).to_be_hidden()
    page.keyboard.press("w")
    expect(page.locator(".reasons")).to_be_visible()
    assert last_question(watch)["why"] is True
    wait_for_phase(page, "plans")
    steps = steps_shown(page)
    names = page.locator(".reasons tbody th").all_inner_texts()
    assert names == [f"{number}. {step}" for number, step in enumerate(steps, start=1)]
    for row in page.locator(".reasons tbody tr").all():
        *parts, total = [float(text.replace("\u2212", "-")) for text in row.locator("td").all_inner_texts()]
        assert (
            abs(sum(parts) - total) < 0.05 * (len(parts) + 1) + 0.05
        )  # each is rounded, and small sources are left out
    expect(page.locator("#why .headline")).to_contain_text("for this plan.")
    expect(page.get_by_role("region", name="Table of reasons").get_by_role("table")).to_have_count(1)
    page.keyboard.press("2")  # the reasons of another plan
    other = steps_shown(page)
    assert page.locator(".reasons tbody th").all_inner_texts()[-1] == f"{len(other)}. {other[-1]}"
    check_all_looks(page)
    expect(page).to_have_url(re.compile("why=on"))
    page.reload()
    wait_for_phase(page, "plans")
    expect(page.locator(".reasons")).to_be_visible()
    page.keyboard.press("w")
    expect(page.locator(".reasons")).to_be_hidden()


def test_what_would_change_the_plan(page: Page, kitchen: ServiceProcess) -> None:
    """Some moment of the videos has such a sentence; the page shows that of the service."""
    with httpx.Client(base_url=kitchen.url, timeout=60) as client:
        for video in client.get("/v1/videos").json()["videos"]:
            for second in range(2, 40, 2):
                start = {"video": video["id"], "t": second}
                answer = client.post("/v1/plan", json={"start": start, "number": 100, "why": True})
                if answer.status_code == 200 and (change := answer.json()["why_words"][0]["change"]):
                    page.goto(f"{kitchen.url}/#video={video['id']}&start={second}&goal=none&why=on")
                    expect(page.locator("#why-change")).to_have_text(change.replace("->", "→"))
                    return
    pytest.fail("no moment has a change")


def test_the_video_before_the_start(page: Page, address: str, watch: Watch) -> None:
    open_none(page, address)
    assert "history" not in last_question(watch)
    page.get_by_label("The video before it counts").uncheck()
    wait_for_phase(page, "plans")
    assert last_question(watch)["history"] is False
    expect(page).to_have_url(re.compile("history=off"))
    page.reload()
    wait_for_phase(page, "plans")
    expect(page.get_by_label("The video before it counts")).not_to_be_checked()


def test_an_upload_shows_how_much_of_it_is_seen(page: Page, kitchen: ServiceProcess, queries_run: Path) -> None:
    page.goto(kitchen.url)
    wait_for_phase(page, "empty")
    upload(page, EGGS.path)
    wait_for_phase(page, "video")
    choose_goal(page, "None")
    page.evaluate("""() => {
      window.told = new Set();
      const words = document.querySelector(".stage-words");
      new MutationObserver(() => told.add(words.textContent)).observe(words, { childList: true, characterData: true });
    }""")
    set_times(page, start="26")
    wait_for_phase(page, "plans")
    told = page.evaluate("[...window.told]")
    assert any(re.fullmatch(r"Looking at the video: \d+ of 26", words) for words in told), told
    assert steps_shown(page) == list(Planner.from_pretrained(queries_run).plan((EGGS.path, 26)).plan)


def test_another_video_is_another_question(page: Page, address: str) -> None:
    open_none(page, address, f"&procedure={quote(TEA)}&steps=2&without={quote(SALT)}")
    page.locator("#choose-video").click()
    page.locator("#videos-dialog [data-video]").nth(1).click()
    wait_for_phase(page, "video")
    expect(page.locator(".chip")).to_have_count(0)
    expect(page.get_by_label("Procedure")).to_have_value("")
    expect(page.get_by_role("radio", name="Any number")).to_be_checked()


def test_commands_and_copies_say_the_same(page: Page, address: str, kitchen: ServiceProcess) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_none(page, address, f"&why=on&procedure={quote(TEA)}&without={quote(SALT)}")
    page.locator("#settings summary").click()
    command = page.locator(".command code").first.inner_text()
    body = json.loads(command.partition(" -d ")[2].strip("'"))
    assert body["conditions"] == {"without": [SALT]}
    assert (body["procedure"], body["why"]) == (TEA, True)
    answer = httpx.post(f"{kitchen.url}/v1/plan", json=body, timeout=60).json()
    page.locator("#copy-json").click()
    expect(page.locator("#copy-json")).to_have_text("Copied")
    beside = {"graph", "steps", "timings", "why_words"}
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert copied == {name: value for name, value in answer.items() if name not in beside}
    page.locator("#copy-text").click()
    expect(page.locator("#copy-text")).to_have_text("Copied")
    assert "number of steps: 1: " in page.evaluate("navigator.clipboard.readText()")


def test_by_keyboard_alone(page: Page, address: str) -> None:
    open_none(page, address)
    more = page.locator(".step-more").first
    more.focus()
    page.keyboard.press("Enter")
    expect(more).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Tab")
    expect(page.locator("[data-kind=without]").first).to_be_focused()
    page.keyboard.press("Enter")
    wait_for_phase(page, "plans")
    expect(page.locator(".chip")).to_be_focused()
    page.keyboard.press("Enter")
    wait_for_phase(page, "plans")
    expect(page.locator("#plans")).to_be_focused()
    page.get_by_role("radio", name="Any number").focus()
    page.keyboard.press("ArrowRight")
    wait_for_phase(page, "plans")
    assert len(steps_shown(page)) == 1
    expect(page.get_by_role("radio", name="1 step")).to_be_focused()


def test_on_a_telephone(phone: Page, address: str) -> None:
    open_none(phone, address, f"&why=on&without={quote(SALT)}&done={quote(CRACK)}")
    phone.locator(".step-more").first.tap()
    assert phone.evaluate(SMALL_TARGETS) == []
    assert phone.evaluate(OVERFLOW) <= 0
    box = phone.locator(".why-box")
    assert box.evaluate("box => box.scrollWidth >= box.clientWidth")
    phone.set_viewport_size({"width": 320, "height": 640})
    assert phone.evaluate(OVERFLOW) <= 0


def test_a_planner_of_pictures_shows_none_of_this_but_conditions(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    for absent in ("#history", "goal-choice", "#procedure", ".lengths", "#why"):
        expect(page.locator(absent)).to_be_hidden()
    page.keyboard.press("w")
    step = steps_shown(page)[0]
    click_condition(page, step, "without")
    wait_for_phase(page, "plans")
    assert step not in steps_shown(page)
    page.locator("#settings summary").click()
    expect(page.locator(".command code").nth(1)).to_contain_text(f"--without '{step}'")
    check_all_looks(page)
