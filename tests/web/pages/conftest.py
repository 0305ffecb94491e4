"""One busy store for all tests of pages, and every page of it, read once."""

from urllib.parse import quote

import pytest

from tests.web.house import Browser, Busy
from tests.web.pages.paper import Paper, still
from tests.web.scene import JOBS, REPORT

PLAIN = (
    "/",
    "/jobs",
    "/runs",
    "/holders",
    "/locks",
    "/leaders",
    "/effects",
    "/alerts",
    "/others",
    "/findings",
    "/help",
)
ASKED = ("/jobs?q=mail", "/jobs?state=failing", "/jobs?sort=next", "/runs?state=lost", "/effects?all=1", "/timeline")


@pytest.fixture(scope="session")
def busy() -> Busy:
    made = still()
    made.app.state.site.findings = REPORT
    return made


@pytest.fixture(scope="session")
def papers(busy: Busy) -> dict[str, Paper]:
    scene, visitor = busy.scene, Browser(busy.app)
    slots = (scene.running, scene.lost, scene.taken_over, scene.failed, scene.unknown, scene.doubled, scene.by_hand)
    runs = (f"/runs/{quote(slot.key, safe='@:')}" for slot in slots)
    answers = {way: visitor.get(way) for way in (*PLAIN, *ASKED, *(f"/jobs/{job}" for job in JOBS), *runs)}
    assert {way: one.status_code for way, one in answers.items() if one.status_code != 200} == {}
    return {way: Paper(one.text) for way, one in answers.items()}
