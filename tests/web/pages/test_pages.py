"""What is true of every page, of the overview, and of pages that have nothing to show."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cronce.model import FREE, Mark, Write, holder_cell
from cronce.protocol.notices import Holder, encode_holder
from cronce.runtime.scheduling.roster import HOLDER_TTL
from cronce.stores.base import Scan
from cronce.web import pages
from tests.web.house import Browser, Busy
from tests.web.pages.paper import NOW, Paper, paper, still
from tests.web.scene import BATCH, HOSTILE, JOBS, WEB_1, WEB_2, WEB_3

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


# --- overview ---------------------------------------------------------------------------------------------------------


def test_the_overview_says_in_one_sentence_how_things_stand(papers: dict[str, Paper]) -> None:
    assert (
        "Scheduler web-3:90 stopped sending heartbeats; 5 items need attention, 4 of them critical." in papers["/"].text
    )


def test_the_overview_has_on_top_what_needs_attention_with_what_to_do(papers: dict[str, Paper], busy: Busy) -> None:
    """What one host left behind is one card: that it is gone, and the run that is stuck."""
    assert papers["/"].text.index("Host web-2 is gone") < papers["/"].text.index("Schedulers all holders")
    assert "all 6 incidents" in papers["/"].text
    text = papers["/alerts"].text
    told = ("billing was on web-2, which was gone", "Host web-2 is gone", "thumbnails may or may not have run")
    places = [text.index(one) for one in (*told, "thumbnails: effects in doubt", "invoice-mail failed", "skew: web-3")]
    assert max(places[:4]) < places[4] < places[5]
    lost, host = (text[place : text.find(" since ", place + 100)] for place in places[:2])
    for part in (f"{busy.scene.lost.key} is lost", "How much of its work was done.", "1d ago"):
        assert part in lost
    assert f"cronce resolve {busy.scene.lost.key} done" in lost
    assert f"{busy.scene.stuck.key} was granted to {WEB_2}" in host
    assert f"cronce why invoice-mail has more; {HOSTILE}" in text
    assert text.count("is lost. Look, then resolve it.") == 0  # it is told as it is now


def test_the_overview_shows_who_beats_and_what_runs(papers: dict[str, Paper], busy: Busy) -> None:
    states = {one["data-holder"]: one["data-state"] for one in papers["/"].all("li") if "data-holder" in one}
    assert states == {WEB_1: "alive", BATCH: "draining", WEB_3: "late", WEB_2: "dead"}
    assert {(one["value"], one["max"]) for one in papers["/"].all("progress")} == {("412", "1000")}
    running = papers["/"].text.partition("Running now")[2].partition("Next up")[0]
    assert f"order-sync {busy.scene.running.at:%H:%M:%S}Z web-1:4711 " in running


@pytest.mark.parametrize(("ago", "told"), [(-1, "just now"), (1.9, "just now"), (2, "2s ago")])
def test_a_beat_that_is_newer_than_the_page_was_just_now(ago: float, told: str) -> None:
    busy = still()
    busy.store.purge(busy.store.scan(Scan("holder/")).cells)
    busy.store.swap([_beating(WEB_1, timedelta(seconds=ago))], busy.store.load([]).epoch.seen)
    visitor = Browser(busy.app)
    assert f"alive · beat {told}" in paper(visitor, "/").text
    assert f" {told} " in paper(visitor, "/holders").text


def calm(*holders: tuple[str, float]) -> tuple[str, str, list[str]]:
    """A store in which nothing went wrong, with schedulers that beat so long ago: the tone, the sentence, and who is
    shown."""
    busy = still()
    store = busy.store
    prefixes = ("alert/", "holder/", "effect/")
    store.purge([cell for prefix in prefixes for cell in store.scan(Scan(prefix)).cells])
    store.purge(store.scan(Scan("run/", mark=Mark.ATTENTION)).cells)
    store.purge(store.scan(Scan("run/reindex/")).cells)
    writes = [_beating(name, timedelta(seconds=ago)) for name, ago in holders]
    assert [one.refused for one in store.swap(writes, store.load([]).epoch.seen).verdicts] == [None] * len(writes)
    answer = Browser(busy.app).get("/")
    told_of_hosts = {"Needs attention" in answer.text, "is gone" in answer.text}
    assert len(told_of_hosts) == 1  # and of nothing else
    told = re.search(r'<p class="health (\w+)".*?<span>(.*?)</span>', answer.text, re.DOTALL)
    assert told is not None
    return told[1], told[2], re.findall(r'data-holder="([^"]+)"', answer.text)


def _beating(name: str, ago: timedelta) -> Write:
    holder = Holder(name, "b1", "both", 8, {}, NOW - ago, "1.0.0")
    return Write(holder_cell(name), FREE, encode_holder(holder), Mark.OPEN, ttl=HOLDER_TTL - ago)


def test_all_is_well_when_it_is() -> None:
    last = "the last run started 13s ago"
    strangers = "calls from 2 hosts"  # which ran something, and left no beat
    well = f"All is well: {len(JOBS)} jobs, 2 schedulers, {strangers}, {last}."
    assert calm((WEB_1, 1), (WEB_3, 4)) == ("good", well, [WEB_1, WEB_3])


@pytest.mark.parametrize(
    ("holders", "told"),
    [
        ([], ("bad", "No scheduler is alive.")),
        ([(WEB_1, 1), (WEB_2, 25)], ("odd", "Scheduler web-2:812 stopped sending heartbeats.")),
        ([(WEB_1, 1), (WEB_2, 55)], ("bad", "Host web-2 is gone.")),
        ([(WEB_1, 1), (WEB_2, 55), (WEB_3, 99)], ("bad", "2 items need attention.")),
    ],
)
def test_a_scheduler_that_fell_silent_is_told_of(holders: list[tuple[str, float]], told: tuple[str, str]) -> None:
    assert calm(*holders) == (*told, [name for name, _ in holders])


@pytest.mark.parametrize("others", [[(WEB_2, 2000)], [(WEB_2, 55), ("web-2:99:ab", 3)]])
def test_one_that_has_been_dead_for_long_or_was_replaced_is_not(others: list[tuple[str, float]]) -> None:
    tone, told, strip = calm((WEB_1, 1), *others)
    assert tone == "good", told
    assert strip == [one[0] for one in ((WEB_1, 1), *others) if one[1] < 30]


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
