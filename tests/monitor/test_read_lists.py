"""Lists of runs, part by part; and that all flows of the page can be read whatever stands in the store."""

from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

import pytest

from cronce.errors import BadInput
from cronce.model import (
    SWITCH,
    Mark,
    Slot,
)
from cronce.monitor import read_jobs, read_lists, read_overview
from cronce.protocol.record import Outcome
from cronce.runtime import queries, run_lists
from cronce.runtime.flow import Flow
from cronce.runtime.run_lists import RUNS_SEARCHED
from cronce.runtime.why import why
from cronce.stores import open_store
from tests.monitor.reader import HOUR, NOW, Reader, every
from tests.servers.kubernetes import Kubernetes

# --- all of it ------------------------------------------------------------------------------------------------------

FLOWS: Final[dict[str, Callable[[Reader], Flow[Any]]]] = {
    "overview": lambda _: read_overview.overview(),
    "jobs": lambda _: read_jobs.job_lines(index=read_jobs.JobIndex()),
    "what is due next": lambda _: read_overview.overview(index=read_jobs.JobIndex()),
    "job": lambda _: read_jobs.job_view("billing-00000"),
    "runs": lambda _: run_lists.newest_runs(),
    "runs of a job": lambda _: run_lists.newest_runs("billing-00000"),
    "runs that failed": lambda _: run_lists.newest_runs(wanted="failed"),
    "run": lambda reader: why("billing-00000", Slot("billing-00000", NOW - HOUR / 2), reader.store.traits),
    "stretch": lambda _: read_overview.stretch(NOW - HOUR, NOW),
    "stretch of a job": lambda _: read_overview.stretch(NOW - HOUR, NOW, "billing-00000"),
    "holders": lambda _: read_overview.holders(),
    "alerts": lambda _: read_lists.alerts(),
    "beats": lambda _: read_lists.beats(),
    "observed": lambda _: read_lists.observed(),
    "locks": lambda _: queries.held("lock/", most=200),
    "leaders": lambda _: queries.held("leader/", most=200),
}


@pytest.mark.parametrize("name", FLOWS)
def test_what_cannot_be_read_is_shown_as_that_or_left_out(name: str, read: Reader) -> None:
    slot = Slot("billing-00000", NOW - HOUR / 2)
    kinds = [
        "job",
        "stored",
        "alert",
        "holder",
        "drain",
        "beat",
        "observed",
        "lock",
        "leader",
        "effect",
        "once",
        "refusals",
        "turn",
        "bundle",
    ]
    keys = [f"{kind}/billing-00000{rest}" for kind in kinds for rest in ("", "/x", "/2026-03-29T12:00:00Z/x")]
    marks = (Mark.OPEN, Mark.CLOSED, Mark.ATTENTION)
    keys += [slot.cell, *(f"run/billing-00000/no-slot-{mark}" for mark in marks), "run/x", "run/", SWITCH]
    for place, key in enumerate(keys):
        read.put(key, "{" if place % 2 else '{"v":99}', marks[place % 3], NOW - HOUR / 2, ttl=HOUR)
    read(FLOWS[name](read))


@pytest.mark.parametrize("name", FLOWS)
def test_an_empty_store_can_be_looked_at(name: str, read: Reader) -> None:
    read(FLOWS[name](read))


def test_a_store_without_history_answers_what_it_can(kubernetes: Kubernetes) -> None:
    with closing(open_store(kubernetes.url("reading"))) as store:
        read = Reader(store)
        now = store.load([]).now
        read.run(Slot("billing", now.replace(minute=0, second=0, microsecond=0)))
        for make in FLOWS.values():
            read(make(read))
        assert [run.slot.job for run in read(read_overview.overview()).newest] == ["billing"]


# --- runs -----------------------------------------------------------------------------------------------------------


def test_part_by_part_each_run_is_told_once_and_the_newest_first(fleet: Reader) -> None:
    told = list(every(fleet))
    assert len(told) == len(set(told)) == 300 + 12 + 8
    at = [fleet.store.load([key]).cells[0].at for key in told]
    assert at == sorted(at, key=lambda one: one or NOW, reverse=True)


@pytest.mark.parametrize(
    ("asked", "number"),
    [
        ({"wanted": "failed"}, 11),
        ({"wanted": "succeeded"}, 289),
        ({"wanted": "lost"}, 8),
        ({"wanted": "closed"}, 308),
        ({"wanted": "running"}, 12),
        ({"wanted": "lapsed"}, 6),
        ({"wanted": "skipped"}, 0),
        ({"job": "billing-00000"}, 11),
        ({"job": "billing-00000", "wanted": "succeeded"}, 9),
        ({"job": "nobody"}, 0),
    ],
)
def test_only_those_that_are_wanted_are_told(asked: dict[str, str], number: int, fleet: Reader) -> None:
    told = list(every(fleet, **asked))
    assert len(told) == len(set(told)) == number


def test_a_record_that_cannot_be_read_is_closed_if_its_mark_says_so(read: Reader) -> None:
    """It was left out, and a list of all that is closed had a hole."""
    slots = [Slot("billing", NOW - number * HOUR) for number in range(3)]
    for slot, mark in zip(slots, (Mark.CLOSED, Mark.ATTENTION, Mark.OPEN), strict=True):
        read.put(slot.cell, '{"v":99}', mark, slot.at, ttl=HOUR)
    assert list(every(read, wanted="closed")) == [slot.cell for slot in slots[:2]]
    assert list(every(read, job="billing", wanted="closed")) == [slot.cell for slot in slots[:2]]
    assert list(every(read, wanted="failed")) == list(every(read, wanted="running")) == []


def test_one_looks_so_far_for_what_is_wanted_and_the_list_goes_on(read: Reader) -> None:
    for number in range(RUNS_SEARCHED + 100):
        outcome = Outcome.SUCCEEDED if number < RUNS_SEARCHED + 50 else Outcome.FAILED
        read.run(Slot("billing", NOW - number * HOUR), outcome=outcome)
    first = read(run_lists.newest_runs(wanted="failed", limit=30))
    assert (first.runs, read.cells) == ((), RUNS_SEARCHED)
    assert first.next is not None
    second = read(run_lists.newest_runs(wanted="failed", limit=30, after=first.next))
    assert [len(second.runs), len(list(every(read, wanted="failed")))] == [30, 50]


@pytest.mark.parametrize(
    "after", ["", "x", "1@", "1@job/a", "-1@run/a", "1@run/a\0", "9" * 18 + "@run/a", "²@run/a", "1@run/" + "a" * 1000]
)
def test_a_list_goes_on_only_where_it_said(after: str, fleet: Reader) -> None:
    if not after:
        assert fleet(run_lists.newest_runs(after=after, limit=1)).runs
        return
    with pytest.raises(BadInput, match="is not a place in this list"):
        fleet(run_lists.newest_runs(after=after))


def test_what_is_wanted_is_a_state_or_an_outcome(fleet: Reader) -> None:
    with pytest.raises(BadInput, match="not a state or an outcome; use one of due, waiting"):
        fleet(run_lists.newest_runs(wanted="<b>"))
