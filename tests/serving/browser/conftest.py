"""A browser, and services for it to open: one of each for all tests of this folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from p3iv.shipped import shipped_planner
from serving.browser.driving import MAX_WAITING, PLANNER, TOKEN
from serving.browser.restarting import RestartableService
from serving.browser.watching import DESKTOP, PHONE, WAIT_MS, Watch, watched_page
from soak.service_process import ServiceProcess, running_service
from tools.chromium import ADVICE, find_browser, is_required

# Playwright keeps an event loop in the thread of the tests, in which asyncio.run does not work. So the browser ends
# with the last test of this folder (scope="package"), before other tests of the same process.


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The installed Chromium; where there is none, tests are skipped, or fail if P3IV_BROWSER=required is set."""
    path = find_browser()
    if path is None:
        (pytest.fail if is_required() else pytest.skip)(ADVICE)
    expect.set_options(timeout=WAIT_MS)
    arguments = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=arguments)
        yield opened
        opened.close()


@pytest.fixture
def watch() -> Watch:
    """What the page of a test does."""
    return Watch()


@pytest.fixture
def page(browser: Browser, watch: Watch) -> Iterator[Page]:
    """A page on a desktop, 1280 pixels wide; it may not do what `Watch.findings` names."""
    with watched_page(browser, watch, **DESKTOP) as page:
        yield page


@pytest.fixture
def phone(browser: Browser, watch: Watch) -> Iterator[Page]:
    """A page on a telephone, 400 pixels wide, with touch."""
    with watched_page(browser, watch, **PHONE) as page:
        yield page


@pytest.fixture(scope="package")
def shared_service(browser: Browser) -> Iterator[ServiceProcess]:
    """`p3iv serve` as it starts without arguments; with one worker, a short queue, and uploads of at most 1 MiB."""
    assert browser.is_connected()
    limits = ("jobs=1", f"waiting={MAX_WAITING}", "upload_mib=1", "picture_mib=1")
    with running_service(*(word for limit in limits for word in ("--limit", limit))) as service:
        yield service


@pytest.fixture
def service(shared_service: ServiceProcess) -> Iterator[ServiceProcess]:
    """The service with the example, without uploads of another test."""
    yield shared_service
    with httpx.Client(base_url=shared_service.url, timeout=30) as client:
        for video in client.get("/v1/videos").json()["videos"]:
            if video["source"] == "upload":
                client.delete(f"/v1/videos/{video['id']}").raise_for_status()


@pytest.fixture(scope="package")
def bare_service(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A planner without clips and dataset, on a public address: with a token, and one plan a minute."""
    assert browser.is_connected()
    folder, shipped = tmp_path_factory.mktemp("planner") / "my-planner", shipped_planner(PLANNER)
    assert shipped is not None
    shutil.copytree(shipped, folder)
    public = ("--host", "0.0.0.0", "--token", TOKEN, "--limit", "plans_per_minute=1")  # noqa: S104
    with running_service(str(folder), *public, "--limit", "jobs=1") as service:
        yield service


@pytest.fixture(scope="package")
def dataset_service(browser: Browser, demo: Path) -> Iterator[ServiceProcess]:
    """A run of the demo, whose dataset has videos and features."""
    assert browser.is_connected()
    with running_service(str(demo / "run"), "--limit", "jobs=1") as service:
        yield service


@pytest.fixture(scope="package")
def features_service(browser: Browser, plus_run: Path) -> Iterator[RestartableService]:
    """A run whose dataset has features and no videos, and whose features no encoder computes."""
    assert browser.is_connected()
    service = RestartableService(plus_run)
    yield service
    service.stop()
