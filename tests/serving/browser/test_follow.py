"""The page follows a video: what is done, under way and left where the playhead is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from clips import write_clip
from p3iv.planner import Planner
from p3iv.plans.distribution import as_percent
from serving.browser.driving import EGGS, busy_workers, is_loaded, open_example, upload, wait_for_phase
from serving.browser.test_appearance import MAX_FIRST_LOAD
from serving.browser.test_axe import check_all_looks
from serving.browser.test_phone import OVERFLOW, SMALL_TARGETS
from serving.browser.watching import Watch
from serving.test_api_follow import follow, read_events
from soak.service_process import ServiceProcess

Json = dict[str, Any]
SOON_MS = 2000  # for what takes no computing


@pytest.fixture
def kitchen(browser: Browser, queries_service: ServiceProcess) -> Iterator[ServiceProcess]:
    """A service whose planner can follow, with videos that the browser plays; uploads are deleted afterwards."""
    assert browser.is_connected()
    yield queries_service
    with httpx.Client(base_url=queries_service.url, timeout=30) as client:
        for video in client.get("/v1/videos").json()["videos"]:
            if video["source"] == "upload":
                client.delete(f"/v1/videos/{video['id']}").raise_for_status()


@pytest.fixture(scope="package")
def rows(browser: Browser, stored_service: ServiceProcess) -> Iterator[ServiceProcess]:
    """A service whose planner can follow, with features of videos only: nothing has to be encoded."""
    assert browser.is_connected()
    yield stored_service


def first_video(service: ServiceProcess) -> Json:
    (found, *_) = [
        each for each in httpx.get(f"{service.url}/v1/videos").json()["videos"] if each["source"] == "dataset"
    ]
    return dict(found)


def moments_of(service: ServiceProcess, **question: Any) -> list[Json]:
    """The moments of the first video."""
    with httpx.Client(base_url=service.url, timeout=60) as client:
        return follow(client, {"video": first_video(service)["id"], **question})


def open_video(page: Page, service: ServiceProcess, more: str = "&start=3&goal=none") -> None:
    page.goto(f"{service.url}/#video={first_video(service)['id']}{more}")
    expect(page.locator("video-bar .video-name")).to_have_text(first_video(service)["name"])


def open_followed(page: Page, service: ServiceProcess, more: str = "&goal=none") -> None:
    """Open the page so that it follows, and wait for all moments."""
    open_video(page, service, f"{more}&follow=on")
    wait_for_phase(page, "following")
    wait_until_whole(page)


def wait_until_whole(page: Page) -> None:
    expect(panel(page)).to_have_attribute("data-whole", "")
    expect(page.locator("follow-state")).to_be_empty()


def panel(page: Page) -> Locator:
    return page.locator("follow-panel")


def click_timeline(page: Page, share: float) -> None:
    box = page.locator(".lane").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + share * box["width"], box["y"] + box["height"] / 2)


def shown_second(page: Page) -> int:
    return int(panel(page).get_attribute("data-second") or -1)


def expect_moment(page: Page, moment: Json) -> None:
    """Check that the page shows a moment, at once."""
    expect(panel(page)).to_have_attribute("data-second", str(moment["second"]), timeout=SOON_MS)
    done = [each["step"] for each in moment["done"]][-4:]
    assert page.locator(".done-steps .step-name").all_inner_texts() == done
    shares = [as_percent(each["probability"]).partition(".")[0] for each in moment["done"]][-4:]
    told = [text.replace("\u00a0%", "") for text in page.locator(".done-steps .share").all_inner_texts()]
    assert all(abs(int(one) - int(other)) <= 1 for one, other in zip(told, shares, strict=True))
    now = [each["step"] or "no step" for each in moment["now"]]
    assert page.locator(".now-steps .step-name").all_inner_texts() == now
    assert page.locator(".left-steps .step-name").all_inner_texts() == moment["left"]["plan"]


def requests_to_follow(watch: Watch) -> list[Json]:
    return [json.loads(each.post_data or "") for each in watch.requests if each.url.endswith("/v1/follow")]


def test_a_video_is_followed_as_it_plays(page: Page, kitchen: ServiceProcess, watch: Watch) -> None:
    moments = moments_of(kitchen)
    open_video(page, kitchen)
    wait_for_phase(page, "plans")
    page.get_by_role("button", name="Follow").click()
    wait_for_phase(page, "following")
    expect(page.locator("#stop-following")).to_be_focused()
    expect(page.locator("#plan-title")).to_have_text("Following")
    expect(page.locator(".results")).to_be_hidden()
    expect(page.locator("plan-graph")).to_be_hidden()
    expect(page.locator("#start-handle")).to_be_hidden()
    assert not page.locator("video").evaluate("video => video.paused")
    expect(panel(page)).to_have_attribute("data-second", "5")  # two seconds later
    page.locator("#play").click()
    wait_until_whole(page)
    expect_moment(page, moments[shown_second(page)])
    assert requests_to_follow(watch) == [{"video": first_video(kitchen)["id"]}]
    expect(page).to_have_url(re.compile("follow=on"))


def test_the_moments_are_those_of_python(page: Page, kitchen: ServiceProcess, queries_run: Path, demo: Path) -> None:
    open_followed(page, kitchen, "&start=20&goal=none&procedure=scramble%20eggs")
    file = demo / "tabletop" / "videos" / f"{first_video(kitchen)['name']}.mp4"
    expected = list(Planner.from_pretrained(queries_run).follow(file, procedure="scramble eggs"))
    assert panel(page).get_attribute("data-computed") == str(len(expected))
    expect_moment(page, expected[20].to_dict())


def test_seeking_shows_the_right_state_at_once(page: Page, rows: ServiceProcess) -> None:
    moments = moments_of(rows)
    open_followed(page, rows)
    for share in (0.9, 0.3, 0.75, 0.0):
        click_timeline(page, share)
        clock = page.locator(".clock .now").inner_text()
        expect_moment(page, moments[int(clock[2:4])])
    page.keyboard.press("Shift+ArrowRight")
    expect_moment(page, moments[1])
    assert any(len(moment["done"]) > 4 for moment in moments)


def test_what_was_done_first_unfolds(page: Page, rows: ServiceProcess) -> None:
    open_followed(page, rows)
    click_timeline(page, 0.999)
    done = [each["step"] for each in moments_of(rows)[-1]["done"]]
    earlier = page.get_by_role("button", name=f"Show {len(done) - 4} earlier step")
    expect(earlier).to_have_attribute("aria-expanded", "false")
    earlier.click()
    assert page.locator(".done-steps .step-name").all_inner_texts() == done
    expect(page.locator("#earlier-steps")).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Enter")
    assert page.locator(".done-steps .step-name").all_inner_texts() == done[-4:]
    segments = page.locator(".track-steps span:not(.is-now)")
    assert segments.count() == len(done)
    assert segments.first.get_attribute("title") == done[0]


def test_a_video_without_pictures_goes_on_by_itself(page: Page, rows: ServiceProcess) -> None:
    open_video(page, rows)
    page.keyboard.press("f")
    wait_for_phase(page, "following")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(panel(page)).to_have_attribute("data-second", "6")
    page.locator("#play").click()
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    expect_moment(page, moments_of(rows)[shown_second(page)])
    click_timeline(page, 0.98)
    page.locator("#play").click()
    expect(page.locator(".clock .now")).to_have_text(re.compile(r"0:47\.0"))
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()  # the end


def test_a_format_that_the_browser_cannot_play(page: Page, kitchen: ServiceProcess, tmp_path: Path) -> None:
    hevc = tmp_path / "phone.mov"
    write_clip(hevc, range(0, 8_000, 100), codec="libx265", options={"x265-params": "log-level=none"})
    page.goto(kitchen.url)
    wait_for_phase(page, "empty")
    upload(page, hevc)
    wait_for_phase(page, "video")
    expect(page.locator("#play")).to_be_hidden()
    page.keyboard.press("f")
    wait_for_phase(page, "following")
    expect(panel(page)).to_have_attribute("data-second", "3")
    assert is_loaded(page.locator(".stage-frame"))
    page.locator("#play").click()
    wait_until_whole(page)
    at = page.locator(".clock .now").inner_text()
    click_timeline(page, 0.05)
    expect(panel(page)).to_have_attribute("data-second", "0", timeout=SOON_MS)
    assert page.locator(".clock .now").inner_text() != at
    page.keyboard.press("Escape")
    expect(page.locator("#play")).to_be_hidden()


def test_stop_and_keys(page: Page, rows: ServiceProcess) -> None:
    open_video(page, rows)
    wait_for_phase(page, "plans")
    before = page.locator("plan-steps .step-name").all_inner_texts()
    page.keyboard.press("f")
    wait_for_phase(page, "following")
    page.keyboard.press("2")  # there are no plans to choose from
    page.keyboard.press("s")
    expect(page.locator("#start-time")).to_have_value("0:03.0")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("follow the video")
    page.keyboard.press("Escape")  # closes the list only
    wait_for_phase(page, "following")
    page.keyboard.press("Escape")
    wait_for_phase(page, "plans")
    expect(page.locator("#announcer")).to_contain_text(re.compile("not followed any more|Plans are ready"))
    assert page.locator("plan-steps .step-name").all_inner_texts() == before
    expect(page).not_to_have_url(re.compile("follow=on"))
    expect(page.locator(".clock .now")).to_have_text(page.locator(".clock .now").inner_text())
    page.locator("#follow").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#stop-following")).to_be_focused()
    page.keyboard.press("Enter")
    wait_for_phase(page, "plans")
    expect(page.locator("#follow")).to_be_focused()
    page.keyboard.press("f")
    wait_for_phase(page, "following")
    page.keyboard.press("f")
    wait_for_phase(page, "plans")


def test_the_address_remembers_it(page: Page, kitchen: ServiceProcess) -> None:
    open_followed(page, kitchen, "&start=9&goal=none")
    assert shown_second(page) == 9
    assert page.locator("video").evaluate("video => video.paused")  # nobody has pressed play
    page.reload()
    wait_for_phase(page, "following")
    expect(panel(page)).to_have_attribute("data-second", "9")
    open_video(page, kitchen, "&start=9&goal=none")
    wait_for_phase(page, "plans")


def test_another_goal_is_another_question(page: Page, rows: ServiceProcess, watch: Watch) -> None:
    open_followed(page, rows)
    expect(page.locator("follow-panel .end.goal")).to_have_text("Goal not said")
    expect(page.locator("follow-panel .likelihood")).to_contain_text("likely; the next")
    page.get_by_role("radio", name="Words").check(force=True)
    page.locator("#goal-text").fill("scrambled eggs")
    expect(page.locator("#understood")).to_contain_text('Understood "scrambled eggs" as the procedure "scramble eggs"')
    expect(page.locator("follow-panel .end.goal")).to_have_text("Goal scrambled eggs")
    wait_until_whole(page)
    expect_moment(page, moments_of(rows, goal={"text": "scrambled eggs"})[0])
    click_timeline(page, 0.8)
    page.locator(".lane").blur()
    page.locator("#plan-title").click()
    page.keyboard.press("g")
    expect(page.locator("follow-panel .end.goal")).to_have_text(re.compile(r"Goal 0:3\d"))
    wait_until_whole(page)
    asked = requests_to_follow(watch)
    assert [set(each) - {"video"} for each in asked] == [set(), {"goal"}, {"goal"}]
    assert asked[1]["goal"] == {"text": "scrambled eggs"}
    assert asked[2]["goal"]["video"] == first_video(rows)["id"]
    page.get_by_label("Procedure").select_option("make tea")
    wait_until_whole(page)
    assert requests_to_follow(watch)[-1]["procedure"] == "make tea"


def test_a_video_that_is_ahead_of_what_was_computed(page: Page, kitchen: ServiceProcess) -> None:
    page.goto(kitchen.url)
    wait_for_phase(page, "empty")
    upload(page, EGGS.path)
    wait_for_phase(page, "video")
    with busy_workers(kitchen):
        page.keyboard.press("f")
        expect(page.locator(".now-steps .step-name").first).to_have_text("Looking at the video…")
        expect(page.locator("#left-title")).to_be_hidden()
        check_all_looks(page)
        page.set_viewport_size({"width": 1280, "height": 800})
    expect(panel(page)).to_have_attribute("data-second", re.compile(r"\d+"))
    with busy_workers(kitchen):
        click_timeline(page, 0.97)
        state = page.locator("follow-state")
        if state.inner_text():  # else the whole video was computed before the processes stood still
            expect(state).to_have_text(re.compile(r"Computed up to 0:\d\d"))
            expect(state).to_have_class("is-late")
            expect(panel(page)).to_have_attribute("data-late", "")
    expect(panel(page)).to_have_attribute("data-second", "29")
    expect(panel(page)).not_to_have_attribute("data-late", "")
    wait_until_whole(page)


def test_words_that_mean_nothing_lead_back(page: Page, rows: ServiceProcess, watch: Watch) -> None:
    watch.provoke(422)
    open_video(page, rows, "&words=quantum%20chromodynamics&follow=on")
    wait_for_phase(page, "error")
    expect(panel(page).locator(".problem")).to_contain_text("did you mean")
    expect(page.locator("[data-action=retry]")).to_have_count(0)
    check_all_looks(page)
    page.get_by_role("button", name="Say it in other words").click()
    page.locator("#goal-text").fill("make tea")
    wait_for_phase(page, "following")
    wait_until_whole(page)
    expect(panel(page).locator(".problem")).to_have_count(0)


def test_a_broken_connection_is_taken_up_again(page: Page, rows: ServiceProcess, watch: Watch) -> None:
    moments = moments_of(rows)
    part = "".join(f"event: moment\ndata: {json.dumps(moment)}\n\n" for moment in moments[:12])
    assert len(list(read_events(part.splitlines()))) == 12
    page.route("**/v1/follow", lambda route: route.fulfill(content_type="text/event-stream", body=part))
    open_video(page, rows, "&start=5&goal=none&follow=on")
    wait_for_phase(page, "error")
    expect(panel(page).locator(".problem")).to_contain_text("The service does not answer.")
    expect_moment(page, moments[5])  # what is there stays
    check_all_looks(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    page.unroute("**/v1/follow")
    page.get_by_role("button", name="Try again").click()
    wait_for_phase(page, "following")
    wait_until_whole(page)
    assert requests_to_follow(watch)[-1]["from"] == 12
    click_timeline(page, 0.9)
    expect_moment(page, moments[shown_second(page)])
    assert shown_second(page) > 30


def test_changes_of_the_step_are_announced_and_nothing_else(page: Page, rows: ServiceProcess) -> None:
    moments = moments_of(rows)
    open_followed(page, rows)
    page.evaluate("""() => {
      window.told = [];
      const announcer = document.querySelector("#announcer");
      new MutationObserver(() => told.push(announcer.textContent)).observe(announcer, { childList: true });
    }""")
    page.locator("#play").click()
    expect(panel(page)).to_have_attribute("data-second", "8")
    page.locator("#play").click()
    page.wait_for_timeout(1200)
    steps = [moment["now"][0]["step"] for moment in moments[: shown_second(page) + 1]]
    changes = [step for step, before in zip(steps, [object(), *steps], strict=False) if step != before]
    told = [text for text in page.evaluate("window.told") if text.startswith("Now: ")]
    assert told and len(told) <= len(changes)
    assert told[-1] == f"Now: {steps[-1] or 'no step'}."


def test_looks_and_motion(page: Page, rows: ServiceProcess) -> None:
    open_followed(page, rows)
    click_timeline(page, 0.9)
    page.locator(".others summary").click()
    page.locator("#earlier-steps").click()
    page.emulate_media(reduced_motion="reduce")
    click_timeline(page, 0.5)
    assert page.evaluate("document.getAnimations().length") == 0
    check_all_looks(page)


def test_what_following_needs_is_loaded_when_it_is_asked_for(page: Page, rows: ServiceProcess, watch: Watch) -> None:
    def files() -> set[str]:
        return {path for path in watch.paths() if "/static/follow" in path and path.endswith(".js")}

    open_video(page, rows)
    wait_for_phase(page, "plans")
    assert files() == set()
    loaded = [each for each in watch.requests if urlsplit(each.url).path.startswith(("/static/", "/#"))]
    assert 20_000 < sum(each.sizes()["responseBodySize"] for each in loaded) <= MAX_FIRST_LOAD
    page.keyboard.press("f")
    wait_until_whole(page)
    assert len(files()) == 3


def test_on_a_telephone(phone: Page, kitchen: ServiceProcess) -> None:
    open_video(phone, kitchen)
    wait_for_phase(phone, "plans")
    for width in (320, 400):
        phone.set_viewport_size({"width": width, "height": 800})
        box = phone.locator("#follow").bounding_box()
        assert box is not None and box["x"] + box["width"] <= width - 16
    phone.locator("#follow").tap()
    wait_for_phase(phone, "following")
    expect(phone.locator("#plan-title")).to_be_in_viewport()
    expect(phone.locator("video-stage")).to_be_in_viewport(ratio=0.95)  # the video stays above what is said about it
    expect(phone.locator(".now-steps")).to_be_in_viewport()
    phone.locator(".left-steps").scroll_into_view_if_needed()
    expect(phone.locator("video-stage")).to_be_in_viewport(ratio=0.95)
    wait_until_whole(phone)
    for summary in phone.locator("summary:visible").all():
        summary.tap()
    assert phone.evaluate(SMALL_TARGETS) == []
    assert phone.evaluate(OVERFLOW) <= 0
    phone.set_viewport_size({"width": 320, "height": 640})
    assert phone.evaluate(OVERFLOW) <= 0


def test_a_planner_that_cannot_follow_has_no_button(page: Page, service: ServiceProcess) -> None:
    open_example(page, service)
    expect(page.locator("#follow")).to_be_hidden()
    page.keyboard.press("f")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys").get_by_text("follow the video")).to_be_hidden()
    wait_for_phase(page, "plans")
