"""What a user does on the page, and the states that tests wait for."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from p3iv.shipped import ShippedClip, shipped_clips
from soak.service_process import ServiceProcess

PLANNER = "tabletop-demo"
MAX_WAITING = 12  # jobs in the queue of the service with the example
TOKEN = "a-token-for-tests"  # noqa: S105
EGGS, REPOT = shipped_clips(PLANNER)  # the first is the example of the page


def wait_for_phase(page: Page, phase: str) -> None:
    """Wait until the page is in a state: empty, video, start, goal, planning, plans, error."""
    expect(page.locator("body")).to_have_attribute("data-phase", phase)


def open_example(page: Page, service: ServiceProcess) -> None:
    """Open the page, which shows its example."""
    page.goto(service.url)
    wait_for_phase(page, "plans")


def open_clip(page: Page, service: ServiceProcess, clip: ShippedClip = EGGS) -> None:
    """Open the page and choose a clip from the list, so that neither start nor goal is set."""
    open_example(page, service)
    page.locator("#choose-video").click()
    page.locator("#videos-dialog").get_by_role("button", name=clip.file).click()
    wait_for_phase(page, "video")


def set_times(page: Page, *, start: str | None = None, goal: str | None = None) -> None:
    """Type times into the fields of start and goal."""
    for field, text in (("#start-time", start), ("#goal-time", goal)):
        if text is not None:
            page.locator(field).fill(text)
            page.locator(field).press("Enter")


def upload(page: Page, *files: Path, button: str = "#choose-file") -> None:
    """Choose files in the dialog of the browser."""
    with page.expect_file_chooser() as chooser:
        page.locator(button).click()
    chooser.value.set_files(list(files))


def drop_files(page: Page, target: Locator, files: Sequence[Path]) -> None:
    """Drag files over an element and drop them there, as the browser does for a user."""
    target.scroll_into_view_if_needed()
    box = target.bounding_box()
    assert box is not None
    middle = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    data = {"items": [], "files": list(map(str, files)), "dragOperationsMask": 1}
    session = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, **middle, "data": data})


def steps_shown(page: Page) -> list[str]:
    """The steps of the plan that the list shows."""
    return page.locator("plan-steps .step-name").all_inner_texts()


def is_loaded(image: Locator) -> bool:
    """Whether a picture is shown and has pixels."""
    expect(image).to_be_visible()
    return bool(image.evaluate("image => image.complete && image.naturalWidth > 0"))


def style_of(element: Locator, name: str, pseudo: str | None = None) -> str:
    """A computed style of an element, or of its ::before."""
    found: Any = element.evaluate(
        "(element, [name, pseudo]) => getComputedStyle(element, pseudo)[name]", [name, pseudo]
    )
    return str(found)


@contextmanager
def busy_workers(service: ServiceProcess) -> Iterator[None]:
    """During this block, nothing is decoded and encoded: the processes that do it stand still."""
    workers = [pid for pid in service.pids() if pid != service.pid]
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
