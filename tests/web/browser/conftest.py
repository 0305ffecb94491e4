"""One browser for these tests, a fresh page for each, and an eye on whatever a page should not do."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.house.needs import needs
from tests.house.wait import PATIENCE
from tests.web.browser.cluster import Cluster
from tests.web.browser.eye import Eye
from tests.web.browser.stage import Stage

SOON = 1000 * PATIENCE
"""Milliseconds, for whatever a page is expected to show in its own time."""

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run"),
)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Closed before other tests go on: while it lives its thread has a running event loop."""
    if not CHROMIUM.exists():
        needs("chromium", "apt-get install chromium")
    expect.set_options(timeout=SOON)
    with sync_playwright() as playwright:
        short: dict[str, str | float | bool] = {
            **os.environ,
            "TMPDIR": "/tmp",
        }  # for a socket, whose path may have 107 bytes
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, env=short)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(SOON)
    yield context
    context.close()


@pytest.fixture
def eye(context: BrowserContext) -> Iterator[Eye]:
    """Whatever a test is about: its pages say no error, ask nobody else, and keep to their policy."""
    eye = Eye(context)
    yield eye
    assert eye.seen == []


@pytest.fixture
def page(context: BrowserContext, eye: Eye) -> Page:
    return context.new_page()


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage
