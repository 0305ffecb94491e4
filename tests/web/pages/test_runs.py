"""The page of a run, a search, and what else there is to see."""

import re
from urllib.parse import quote

import pytest

from tests.web.house import Browser, Busy
from tests.web.pages.paper import Paper, paper, still
from tests.web.scene import BATCH, HOSTILE, WEB_1, WEB_2, WEB_3

pytestmark = pytest.mark.xdist_group("pages")


# --- one run ----------------------------------------------------------------------------------------------------------


def test_a_run_that_was_taken_over_tells_its_whole_story(papers: dict[str, Paper], busy: Busy) -> None:
    text = papers[f"/runs/{busy.scene.taken_over.key}"].text
    told = (f"granted to {WEB_2}", f"{WEB_3} was refused: held by {WEB_1}", "lapsed:", f"taken over by {WEB_1}")
    places = [text.index(one) for one in told]
    assert places == sorted(places)
    assert "scheduled invocations 2 times its work was started completions 1" in text
    assert "refused 2 duplicates that did not run" in text


def test_a_run_says_why_it_failed_and_what_it_printed(papers: dict[str, Paper], busy: Busy) -> None:
    one = papers[f"/runs/{busy.scene.failed.key}"]
    assert f"SMTPAuthenticationError: (535) {HOSTILE}" in one.text
    assert "29 lines before" in one.text
    assert one.text.count("line 39") == 1


def test_a_run_offers_what_fits(busy: Busy) -> None:
    member, scene = Browser(busy.app), busy.scene
    member.log_in()
    offered = {
        slot.key: [link.rpartition("/")[2] for link in paper(member, f"/runs/{slot.key}").links if link.count("/") == 3]
        for slot in (scene.running, scene.lost, scene.taken_over)
    }
    assert offered == {
        scene.running.key: ["cancel"],
        scene.lost.key: ["rerun", "resolve"],
        scene.taken_over.key: ["rerun"],
    }


def test_a_slot_that_is_on_record_nowhere_says_why(visitor: Browser) -> None:
    text = paper(visitor, "/runs/order-sync@2000-01-01T00:00:00Z").text
    assert "has no record and will not run: it was due before order-sync was registered" in text


@pytest.mark.parametrize("key", ["nonsense", "billing@never", "nobody@2026-03-29T01:00:00Z"])
def test_a_run_that_cannot_be_meant_is_not_there(visitor: Browser, key: str) -> None:
    paper(visitor, f"/runs/{key}", 404)


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("billing", "/jobs/billing"),
        ("billing@2026-03-29T01:00:00Z", "/runs/billing@2026-03-29T01:00:00Z"),
        ("mail", "/jobs?q=mail"),
        ("a b<c>", "/jobs?q=a+b%3Cc%3E"),
        ("billing@never", "/jobs?q=billing%40never"),
        ("", "/jobs"),
    ],
)
def test_a_search_leads_to_what_is_named(visitor: Browser, text: str, way: str) -> None:
    answer = visitor.get(f"/search?q={quote(text)}")
    assert (answer.status_code, answer.headers["location"]) == (303, way)


# --- the others -------------------------------------------------------------------------------------------------------


def test_runs_are_those_in_the_state_that_is_asked_for(visitor: Browser, busy: Busy) -> None:
    scene = busy.scene
    states = ("lost", "unknown", "failed", "running")
    found = {state: sorted(paper(visitor, f"/runs?state={state}").runs) for state in states}
    assert found == {
        "lost": [scene.lost.key],
        "unknown": [scene.unknown.key],
        "failed": [scene.failed.key],
        "running": [scene.running.key, scene.stuck.key],
    }


def test_holders_say_how_their_clocks_stand(papers: dict[str, Paper]) -> None:
    text = papers["/holders"].text
    assert re.search(rf"{WEB_3} late .* schedules and works \+1\.7s 1\.0\.0", text)
    assert re.search(rf"{BATCH} draining .* works −20ms", text)
    assert f"{WEB_2} dead it stopped sending heartbeats without shutting down" in text


def test_a_run_that_was_resolved_does_not_say_how_long_it_took() -> None:
    """Its end on record is when somebody resolved it."""
    other = still()
    key = other.scene.lost.key
    member = Browser(other.app)
    assert "took –" in paper(member, f"/runs/{key}").text  # lost: its end on record is when that was noticed
    other.cron.resolve(key, "done", reason="looked")
    text = paper(member, f"/runs/{key}").text
    assert "counts as succeeded" in text
    assert "took – started" in text
    assert "resolved 2026-03-28T12:07:13Z" in text
    row = r"succeeded web-2:\S* 1d 11h ago lost: .*; resolved: by .* looked"
    assert re.search(row, paper(member, "/runs?job=billing").text)
