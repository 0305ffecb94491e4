"""What is true of every page, of the overview, and of pages that have nothing to show."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cronce.stores.base import Scan
from cronce.web import pages
from tests.web.house import Browser, Busy
from tests.web.pages.paper import Paper, paper, still
from tests.web.scene import HOSTILE

pytestmark = pytest.mark.xdist_group("pages")

STATIC = Path(pages.__file__).parents[1] / "static"


# --- all of them ------------------------------------------------------------------------------------------------------


def test_every_link_of_every_page_leads_somewhere(papers: dict[str, Paper], visitor: Browser) -> None:
    links = {link.partition("#")[0] for one in papers.values() for link in one.links if not link.startswith("#")}
    assert {link for link in links if not link.startswith("/")} == set()
    statuses = {link: visitor.get(link).status_code for link in sorted(links - set(papers))}
    assert {link: status for link, status in statuses.items() if status != 200} == {}


def test_what_strangers_wrote_is_shown_as_it_stands(papers: dict[str, Paper], busy: Busy) -> None:
    """The parser knows no element that the hostile text would make; and where it is, all of it is."""
    for way, one in papers.items():
        assert list(one.all("img")) == [], way
        assert [script["src"] for script in one.all("script")] in (
            ["/static/theme.js", "/static/page.js"],
            ["/static/theme.js", "/static/page.js", "/static/timeline.js"],
        ), way
        assert "{{" not in one.text.replace(HOSTILE, ""), way
    shown = (*("/", "/holders", "/alerts", "/others", "/effects", "/findings"), f"/runs/{busy.scene.failed.key}")
    assert [way for way in shown if HOSTILE not in papers[way].text] == []


def test_nothing_is_asked_of_a_stranger_and_nothing_stands_inline(papers: dict[str, Paper]) -> None:
    for way, one in papers.items():
        asked = [
            value
            for element in one.elements
            for name, value in element.attributes.items()
            if name in ("src", "href", "action") and not value.startswith(("/", "#", "url(#"))
        ]
        assert asked == [], way
        assert [element for element in one.elements if "style" in element.attributes] == [], way
        assert [element for element in one.elements if any(name.startswith("on") for name in element.attributes)] == []
    for file in STATIC.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert re.findall(r"https?:|//[a-z]|@import|url\(", text) == [], file.name


def test_a_page_can_be_found_through_without_eyes(papers: dict[str, Paper]) -> None:
    for way, one in papers.items():
        assert len(list(one.all("main", id="main"))) == 1, way
        assert len(list(one.all("h1"))) == 1, way
        assert one.links[0] == "#main", way
        assert len(list(one.all("table"))) == len(list(one.all("caption"))), way
        assert [cell for cell in one.all("th") if cell.get("scope") != "col"] == [], way
        ids = [element.attributes["id"] for element in one.elements if "id" in element.attributes]
        assert len(ids) == len(set(ids)), way
        current = [link["href"] for link in one.all("a") if link.get("aria-current") == "page"]
        assert current == [f"/{way[1:].partition('/')[0].partition('?')[0]}"], way


def test_times_say_the_very_instant(papers: dict[str, Paper]) -> None:
    for way, one in papers.items():
        for time in one.all("time"):
            told = datetime.fromisoformat(time["datetime"])
            assert told.tzinfo == UTC, way
            assert time["title"].startswith(f"{told:%Y-%m-%dT%H:%M:%S}"), way


def test_the_sheet_and_the_script_stay_small() -> None:
    assert (STATIC / "style.css").stat().st_size < 20_480
    assert (STATIC / "page.js").stat().st_size < 12_288


def test_a_part_of_a_page_is_its_main_and_nothing_else(visitor: Browser) -> None:
    part = visitor.get("/jobs", {"X-Fragment": "1"})
    assert part.status_code == 200
    one = Paper(part.text)
    assert list(one.all("nav", **{"aria-label": "pages"})) == []
    assert list(one.all("main")) == []
    assert "/jobs/billing" in one.links


def test_that_everything_is_paused_stands_on_every_page() -> None:
    busy = still()
    busy.cron.pause_all(f"a flood {HOSTILE}", by="ana")
    told = f"Everything is paused by ana at 2026-03-28T12:07:13Z (a flood {HOSTILE})"
    for way in ("/", "/jobs", "/jobs/billing", "/help"):
        assert told in paper(Browser(busy.app), way).text
    busy.cron.close()


# --- nothing yet, and nothing at all ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def newcomer() -> Browser:
    busy = still(token=None)
    busy.store.purge(busy.store.scan(Scan("")).cells)
    return Browser(busy.app)


@pytest.mark.parametrize(
    ("way", "teaches"),
    [
        ("/", "cron.run()"),
        ("/jobs", "cronce exec daily-report"),
        ("/runs", "cronce run app:cron"),
        ("/holders", "cronce run app:cron -n 3"),
        ("/locks", 'with cron.lock("reindex"'),
        ("/leaders", 'cron.leader("indexer")'),
        ("/effects", "run.on("),
        ("/alerts", "cronce watch --alert"),
        ("/others", "cronce beat legacy-cron"),
        ("/findings", "cronce audit . --format json"),
    ],
)
def test_a_page_with_nothing_on_it_teaches_what_fills_it(newcomer: Browser, way: str, teaches: str) -> None:
    assert teaches in paper(newcomer, way).text
