"""The list of jobs, and the page of one."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from cronce import Cronce
from cronce.model import ABSENT, Mark, Slot, Write, job_cell, observed_cell
from cronce.protocol.notices import LastBeat, Observed, encode_notice
from cronce.protocol.record import Job, Outcome, Record, State, encode, encode_job
from cronce.schedule import Cron
from cronce.stores.memory import MemoryStore
from cronce.web.app import application
from cronce.web.pages.jobs import fires
from tests.web.house import TOKEN, Browser, Busy
from tests.web.pages.paper import NOW, Paper, paper, still
from tests.web.scene import ABANDONED, HOSTILE, JOBS, REFUSED

pytestmark = pytest.mark.xdist_group("pages")


# --- jobs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", sorted(JOBS)),
        ("?q=MAIL", ["invoice-mail"]),
        ("?q=america/new", ["daily-report"]),
        ("?q=nothing-like-it", []),
        ("?state=paused", ["cleanup"]),
        ("?state=silent", [ABANDONED]),
        ("?state=running", ["order-sync"]),
        ("?state=failing", ["invoice-mail", "reindex"]),
        ("?state=failing&q=bill", []),
    ],
)
def test_jobs_are_found_by_a_text_and_by_how_they_stand(visitor: Browser, query: str, found: list[str]) -> None:
    assert paper(visitor, f"/jobs{query}").jobs == found


def test_where_looking_for_jobs_stops_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = still()
    for number in range(2):
        slot = Slot("billing", busy.scene.now, f"again-{number}")
        for state in (Record(State.RUNNING), Record(State.CLOSED, outcome=Outcome.LOST)):
            mark = Mark.OPEN if state.state is State.RUNNING else Mark.ATTENTION
            write = Write(f"{slot.cell}{mark}", ABSENT, encode(state), mark, slot.at, ttl=timedelta(hours=1))
            busy.store.swap([write], busy.store.load([]).epoch.seen)
    visitor = Browser(busy.app)
    told = "were searched: there may be more such jobs."
    for stand, most, words in (("failing", "FAILING_SEARCHED", "lost"), ("running", "RUNNING_SEARCHED", "running")):
        assert told not in paper(visitor, f"/jobs?state={stand}").text
        monkeypatch.setattr(f"cronce.web.pages.jobs.{most}", 2)
        assert f"Only the newest 2 runs that are {words} {told}" in paper(visitor, f"/jobs?state={stand}").text


def test_jobs_are_sorted_by_what_is_due_next_those_that_are_paused_last(visitor: Browser, busy: Busy) -> None:
    now = busy.scene.now
    due = {name: rule.next(now) for name, job in JOBS.items() if name != "cleanup" and (rule := job.schedule)}
    listed = paper(visitor, "/jobs?sort=next").jobs
    assert listed[-1] == "cleanup"
    assert sorted(listed[:-1]) == sorted(due)
    assert due[listed[-2]] == max(slot for slot in due.values() if slot)


@pytest.mark.parametrize("query", ["?state=happy", "?sort=size"])
def test_what_jobs_cannot_be_asked_for_is_said(visitor: Browser, query: str) -> None:
    assert "is not one of" in paper(visitor, f"/jobs{query}", 400).text


@pytest.mark.parametrize("order", ["name", "next"])
def test_a_long_list_of_jobs_comes_part_by_part(monkeypatch: pytest.MonkeyPatch, visitor: Browser, order: str) -> None:
    whole = paper(visitor, f"/jobs?sort={order}").jobs
    assert sorted(whole) == sorted(JOBS)
    monkeypatch.setattr("cronce.web.pages.jobs.JOBS_PER_PAGE", 4)
    seen, way = [], f"/jobs?sort={order}"
    while way:
        one = paper(visitor, way)
        seen.append(one.jobs)
        way = one.next
    assert seen == [whole[:4], whole[4:8], whole[8:]]


def test_the_last_outcomes_are_told_in_words_too(visitor: Browser) -> None:
    told = [one["aria-label"] for one in paper(visitor, "/jobs?q=thumb").all("span", **{"class": "spark"})]
    outcomes = ", ".join(["succeeded"] * 4 + ["unknown"] + ["succeeded"] * 3)
    assert told == [f"the last outcomes, the newest last: {outcomes}"]


# --- one job ----------------------------------------------------------------------------------------------------------


def test_a_job_says_when_it_runs_and_what_was_kept_from_running_twice(papers: dict[str, Paper]) -> None:
    text = papers["/jobs/order-sync"].text
    assert "Runs every 15 minutes, counted from 00:00 UTC every 15m" in text
    assert f"duplicates prevented {sum(REFUSED.values())} extra runs prevented, 0 today" in text
    assert "success rate 100.0 % 11 of 11 runs started late 180ms median; 95 % within 1s took 1m 25s median" in text
    assert "scheduled invocations 13 of the 12 slots below completions 11 at most one for each slot" in text
    assert "timeout 10m" in text
    twice = [one["title"] for one in papers["/jobs/order-sync"].all("span", **{"class": "label"})]
    assert twice == ["scheduled invocations: 2, completions: 1"]
    assert "lease 30s by default" in text


def test_a_job_shows_its_pictures(papers: dict[str, Paper]) -> None:
    one = papers["/jobs/order-sync"]
    assert len(list(one.all("svg", **{"class": "plot"}))) == 2  # how many there were, and how long they took
    assert len(list(one.all("svg", **{"class": "timeline"}))) == 1


def test_a_job_says_which_version_fires(papers: dict[str, Paper]) -> None:
    text = papers[f"/jobs/{ABANDONED}"].text
    assert re.search(r"0 \* \* \* \* 20d ago fires .* 30 \* \* \* \* 30d ago superseded", text)
    assert "No live scheduler has this job: its slots do not run, and you cannot run it from here." in text


def test_a_job_that_is_paused_says_by_whom_and_offers_to_resume_it(busy: Busy) -> None:
    member = Browser(busy.app)
    member.log_in()
    one = paper(member, "/jobs/cleanup")
    assert f"Paused by ana@laptop {HOSTILE} at" in one.text
    acts = [link for link in one.links if link.startswith("/jobs/cleanup/")]
    assert acts == ["/jobs/cleanup/resume", "/jobs/cleanup/trigger"]


def test_a_job_that_no_scheduler_carries_is_not_run_from_here(busy: Busy) -> None:
    member = Browser(busy.app)
    member.log_in()
    acts = [link for link in paper(member, f"/jobs/{ABANDONED}").links if link.startswith(f"/jobs/{ABANDONED}/")]
    assert acts == [f"/jobs/{ABANDONED}/pause"]


@pytest.fixture
def observer() -> Browser:
    """Of a job that ran late, and is only observed."""
    store, slot = MemoryStore(lambda: NOW), Slot("export", NOW - timedelta(hours=2))
    late = Record(State.CLOSED, 1, started=NOW - timedelta(minutes=3), finished=NOW, outcome=Outcome.SUCCEEDED)
    calls = Observed(None, (LastBeat(NOW, "app-1"), LastBeat(NOW, "app-2")), 1482, 2, ())
    writes = [
        Write(job_cell("export"), ABSENT, encode_job(Job(NOW - timedelta(days=1))), Mark.FREE),
        Write(slot.cell, ABSENT, encode(late), Mark.CLOSED, slot.at),
        Write(observed_cell("export"), ABSENT, encode_notice(calls), Mark.FREE, ttl=timedelta(days=1)),
    ]
    assert [one.refused for one in store.swap(writes, store.load([]).epoch.seen).verdicts] == [None] * 3
    member = Browser(application(Cronce(store=store), token=TOKEN, private=False))
    member.log_in()
    return member


def test_a_job_that_is_only_observed_says_how_many_duplicates_ran(observer: Browser) -> None:
    one = paper(observer, "/jobs/export")
    assert "only observed 1,482 calls 2 duplicates ran" in one.text
    assert "nobody tried to run one twice" not in one.text
    assert "run it from here: it runs when cron or another program calls it, and it is only observed." in one.text
    assert [link for link in one.links if link.startswith("/jobs/export/")] == ["/jobs/export/pause"]


def test_the_last_run_is_told_by_when_it_started_with_its_slot_beside(observer: Browser) -> None:
    assert "last run succeeded 3m ago , slot 10:07:13Z" in paper(observer, "/jobs/export").text
    assert "3m ago slot 10:07:13Z succeeded" in paper(observer, "/jobs").text


def test_who_cannot_act_is_told_how(busy: Busy) -> None:
    shown = Browser(still(token=None).app)
    one = paper(shown, "/jobs/billing")
    assert "cronce pause billing cronce trigger billing" in one.text
    assert [link for link in one.links if link.endswith("/pause")] == []
    assert busy.scene.lost.key in paper(shown, f"/runs/{busy.scene.lost.key}").text


def test_the_history_of_a_job_comes_part_by_part(visitor: Browser) -> None:
    seen, way = [], "/jobs/probe"
    while way:
        one = paper(visitor, way)
        history = one.text.partition(" History")[2]
        seen += re.findall(r"(\S+Z) succeeded", history)
        way = one.next
    assert len(seen) == len(set(seen)) == 60


def test_changes_of_clocks_stand_among_the_next_slots() -> None:
    told = fires(Cron("30 2 * * *", "Europe/Berlin"), datetime(2026, 3, 27, 12, tzinfo=UTC))
    assert [one.wall or one.change for one in told][:3] == [
        "Sat 2026-03-28 02:30:00 CET",
        "Sun 2026-03-29, 02:00 becomes 03:00: 02:30 does not show, and runs at 03:00 (01:00:00Z)",
        "Sun 2026-03-29 03:00:00 CEST",
    ]
    assert len([one for one in told if one.wall]) == 10


def test_the_page_of_a_job_marks_where_clocks_change(papers: dict[str, Paper]) -> None:
    text = papers["/jobs/billing"].text
    gap = "clocks change Sun 2026-03-29, 02:00 becomes 03:00: 02:00 does not show, and runs at 03:00 (01:00:00Z)"
    assert f"{gap} Sun 2026-03-29 03:00:00 CEST in 12h 52m" in text


def test_a_job_that_is_not_there_is_named(visitor: Browser) -> None:
    one = paper(visitor, "/jobs/ordersync", 404)
    assert "there is no job with this name: ordersync" in one.text
