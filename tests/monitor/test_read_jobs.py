"""Jobs as the page finds and shows them: which there are, a part of their list, and one of them."""

import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from cronce.errors import StoreUnavailable
from cronce.model import (
    Instant,
    Mark,
    Slot,
    refusals_cell,
    stored_cell,
    unspell,
)
from cronce.monitor import read_jobs, read_overview
from cronce.monitor.read_jobs import JOB_CELLS_AT_ONCE, STALE, WALK_WAIT
from cronce.protocol.notices import Refusals, Refused, Stored, encode_notice
from cronce.protocol.record import Act, Outcome, Record, State, encode
from cronce.runtime import run_lists
from cronce.runtime.flow import Timed, perform
from cronce.runtime.queries import JobLine
from tests.monitor.reader import HOUR, MINUTE, NOW, Reader, every


def names(found: tuple[read_jobs.JobMatches, list[JobLine]]) -> list[str]:
    return [line.seen.name for line in found[1]]


def test_jobs_are_found_by_their_names_and_schedules_part_by_part(read: Reader) -> None:
    index = read_jobs.JobIndex()
    for name, schedule in (("a", "5 4 * * *"), ("b", "0 * * * *"), ("Bank", "5 4 * * *"), ("c", "0 0 * * *")):
        read.job(name, schedule)
    first = read(read_jobs.job_lines(limit=3, index=index))
    assert (names(first), first[0].total, first[0].next) == (["Bank", "a", "b"], 4, "b")
    second = read(read_jobs.job_lines("b", 3, index=index))
    assert (names(second), second[0].total, second[0].next) == (["c"], 4, None)
    assert names(read(read_jobs.job_lines(matching="BANK", index=index))) == ["Bank"]
    assert names(read(read_jobs.job_lines(matching="5 4", index=index))) == ["Bank", "a"]
    assert names(read(read_jobs.job_lines(matching="none", index=index))) == []


def test_a_line_has_the_next_slot_and_the_newest_run(read: Reader) -> None:
    read.job("billing")
    read.run(Slot("billing", NOW.replace(minute=0)))
    _, (line,) = read(read_jobs.job_lines(index=read_jobs.JobIndex()))
    assert line.next == NOW.replace(hour=13, minute=0)
    assert line.last is not None
    assert line.last.slot.at == NOW.replace(minute=0)


def test_a_list_reads_only_what_it_shows(fleet: Reader) -> None:
    index = read_jobs.JobIndex()
    fleet(index.keep_up())
    fleet(read_jobs.job_lines(limit=10, index=index))
    assert (fleet.calls, fleet.cells) == (1 + 1 + 1, 1 + 2 * 10 + 320), "all runs: there are few"


def test_the_index_is_walked_anew_when_a_job_changes_or_after_a_minute(read: Reader) -> None:
    index = read_jobs.JobIndex()
    read.job("a")
    read.news()
    read(index.keep_up())
    read.job("b")
    read(index.keep_up())
    assert index.search().names == ("a",), "nobody said that there is another"
    read.news()
    read(index.keep_up())
    assert index.search().names == ("a", "b")
    read.job("c")
    read.boot += STALE
    read(index.keep_up())
    assert index.search().names == ("a", "b", "c")


def test_a_long_walk_is_gone_for_a_moment_at_a_time(read: Reader) -> None:
    for number in range(3 * JOB_CELLS_AT_ONCE):
        read.job(f"job-{number:05}")
    read.news()
    index = read_jobs.JobIndex()
    read(index.keep_up())
    assert (len(index), read.calls) == (3 * JOB_CELLS_AT_ONCE, 5), "the first is gone to its end"
    read.job("new")
    read.news()
    read.lasts = 2 * WALK_WAIT
    for length in (
        3 * JOB_CELLS_AT_ONCE,
        3 * JOB_CELLS_AT_ONCE,
        3 * JOB_CELLS_AT_ONCE,
        3 * JOB_CELLS_AT_ONCE,
        3 * JOB_CELLS_AT_ONCE + 1,
    ):
        read(index.keep_up())
        assert (len(index), read.calls) == (length, 2)


def test_a_job_that_has_not_changed_is_not_read_anew(fleet: Reader) -> None:
    index = read_jobs.JobIndex()
    fleet(index.keep_up())
    before = dict(index._entries)
    fleet.boot += STALE
    fleet(index.keep_up())
    assert fleet.calls == 3
    assert all(index._entries[name] is entry for name, entry in before.items())
    assert len({id(rule) for entry in before.values() for rule in entry.rules}) == 30, "equal schedules are one"


def test_a_job_that_no_process_has_carried_yet_is_found_too(read: Reader) -> None:
    definition = '{"schedule": "5 4 * * *", "command": ["true"]}'
    read.put(stored_cell("nightly"), encode_notice(Stored(1, definition, "ann", NOW)), Mark.OPEN)
    index = read_jobs.JobIndex()
    _, (line,) = read(read_jobs.job_lines(matching="5 4", index=index))
    assert (line.seen.name, line.stored is not None) == ("nightly", True)
    assert index.soonest(1, NOW) == [(datetime(2026, 3, 30, 4, 5, tzinfo=UTC), "nightly")]


def test_what_is_due_next_comes_first_and_what_is_paused_not_at_all(read: Reader) -> None:
    read.job("hourly")
    read.job("soon", "31 * * * *")
    read.job("late", "0 0 * * *")
    read.job("paused", "31 * * * *", paused=Act("ann", NOW))
    index = read_jobs.JobIndex()
    assert upcoming(read, index) == ["soon", "hourly", "late"]
    later = NOW + timedelta(minutes=5)
    assert index.soonest(3, later) == [
        (NOW.replace(hour=13, minute=0), "hourly"),
        (NOW.replace(hour=13, minute=31), "soon"),
        (datetime(2026, 3, 30, tzinfo=UTC), "late"),
    ]


def upcoming(read: Reader, index: read_jobs.JobIndex) -> list[str]:
    return [line.seen.name for line in read(read_overview.overview(index=index)).upcoming]


def test_what_is_due_next_is_read_beside_the_rest_and_once_more_where_the_index_learns_of_others(read: Reader) -> None:
    read.job("hourly")
    index = read_jobs.JobIndex()
    read(index.keep_up())
    read(read_overview.overview())
    alone = read.calls
    assert (upcoming(read, index), read.calls) == (["hourly"], alone)
    read.job("soon", "31 * * * *")
    read.news()
    assert (upcoming(read, index), read.calls) == (["soon", "hourly"], alone + 1 + 1), "a walk, and what it found"
    assert (upcoming(read, index), read.calls) == (["soon", "hourly"], alone)


def test_all_of_a_job_is_told(read: Reader) -> None:
    read.job("billing")
    slots = [Slot("billing", NOW.replace(minute=0) - number * HOUR) for number in range(120)]
    for slot in slots[1:]:
        read.run(slot)
    read.run(slots[0], Mark.OPEN)
    read.run(slots[3]._replace(request="again"), Mark.ATTENTION, Outcome.LOST)
    refused = Refusals(7, (Refused(slots[1].key, NOW, "web-2:1:a: held"),))
    read.put(refusals_cell("billing", "web-2"), encode_notice(refused))
    view = read(read_jobs.job_view("billing", runs=5))
    assert view is not None
    assert read.calls == 4
    assert [run.slot for run in view.runs.runs] == [*slots[:3], slots[3]._replace(request="again"), slots[3]]
    assert (view.open.number, view.attention.number, view.next) == (1, 1, NOW.replace(hour=13, minute=0))
    assert [(one.host, one.refusals.times) for one in view.refused] == [("web-2", 7)]
    assert [took for _, took in view.durations] == [HOUR] * 98  # how long the lost run took is not known
    more = read(read_jobs.job_view("billing", runs=5, after=view.runs.next))
    assert more is not None
    assert [run.slot for run in more.runs.runs] == slots[4:9]
    assert read(read_jobs.job_view("nobody")) is None


def by_hand(read: Reader, slot: Slot, asked: Instant, started: Instant) -> Slot:
    """A run that somebody asked for, of a slot that may be long past."""
    again = slot._replace(request="rerun-1")
    record = Record(State.CLOSED, 1, "n", "web-1:1:a", started=started, finished=started, outcome=Outcome.FAILED)
    read.put(again.cell, encode(record), Mark.CLOSED, asked, grant=True)
    return again


@pytest.mark.parametrize("number", [5, 40])
def test_runs_of_a_job_are_told_in_the_order_they_ran_those_by_hand_among_them(
    number: int, read: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were told by their slots: the rerun of an old one stood there, and the job had last run at its last slot."""
    monkeypatch.setattr(run_lists, "OF_A_JOB", 30)
    read.job("billing")
    slots = [Slot("billing", NOW.replace(minute=0) - place * HOUR) for place in range(number)]
    for slot in slots:
        read.run(slot)
    later = by_hand(read, slots[-1], NOW - 4 * HOUR, NOW - MINUTE)
    between = by_hand(read, slots[-2], NOW - 2 * HOUR, NOW - HOUR - MINUTE)
    expected = [later, slots[0], between, *slots[1:]]
    assert [Slot("billing", *_of(key)) for key in every(read, job="billing")] == expected
    failed = [Slot("billing", *_of(key)) for key in every(read, job="billing", wanted="failed")]
    assert failed == [later, between]
    view = read(read_jobs.job_view("billing", runs=3))
    assert view is not None
    assert [run.slot for run in view.runs.runs] == expected[:3]
    more = read(read_jobs.job_view("billing", runs=3, after=view.runs.next))
    assert more is not None
    assert [run.slot for run in more.runs.runs] == expected[3:6]
    _, (line,) = read(read_jobs.job_lines(index=read_jobs.JobIndex()))
    assert line.last is not None
    assert line.last.slot == later
    drawn = read(read_overview.stretch(NOW - 5 * HOUR, NOW, "billing"))
    assert {later, between} <= {run.slot for run in drawn.runs}


def _of(key: str) -> tuple[Instant, str]:
    when, _, request = key.rpartition("/")[2].partition("#")
    return unspell(when), request


def test_the_first_walk_is_gone_once_whoever_waits_for_it(fleet: Reader) -> None:
    index = read_jobs.JobIndex()
    first = index.keep_up()
    request = next(first)
    other = Reader(fleet.store)
    waiting = threading.Thread(target=other, args=(index.keep_up(),))
    waiting.start()
    waiting.join(0.1)
    assert (waiting.is_alive(), len(index)) == (True, 0)
    with suppress(StopIteration):
        while True:
            request = first.send(Timed(perform(fleet.store, request), 1000.0, 1000.0))
    waiting.join()
    assert (len(index), other.calls) == (30, 1)


def test_a_first_walk_that_failed_is_gone_by_the_next(fleet: Reader) -> None:
    index = read_jobs.JobIndex()
    first = index.keep_up()
    next(first)
    with pytest.raises(StoreUnavailable):
        first.throw(StoreUnavailable("gone"))
    fleet(index.keep_up())
    assert len(index) == 30
