"""What the page reads: all that it shows and no more, whatever stands in the store."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import pytest

from bench.fleet import Fleet, fill
from cronce.errors import BadInput, StoreUnavailable
from cronce.model import (
    ABSENT,
    BOARD_JOBS,
    SWITCH,
    Instant,
    Mark,
    Slot,
    Write,
    job_cell,
    refusals_cell,
    stored_cell,
    unspell,
)
from cronce.monitor import read_jobs, read_lists, read_overview
from cronce.monitor.read_jobs import JOB_CELLS_AT_ONCE, STALE, WALK_WAIT
from cronce.monitor.read_lists import LIST_COUNTED, RUNS_SEARCHED
from cronce.monitor.read_overview import DOUBTS_COUNTED
from cronce.protocol.notices import Alert, Refusals, Refused, Stored, encode_notice
from cronce.protocol.record import Act, Job, Outcome, Record, Spec, State, encode, encode_act, encode_job
from cronce.runtime.declare import declare
from cronce.runtime.flow import Flow, Timed, perform
from cronce.runtime.queries import JobLine, sparing
from cronce.runtime.why import why
from cronce.stores import open_store
from cronce.stores.base import Store
from cronce.stores.memory import MemoryStore
from tests.servers.kubernetes import Kubernetes

NOW: Final = datetime(2026, 3, 29, 12, 30, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
MINUTE: Final = timedelta(minutes=1)
FLEET: Final = Fleet(jobs=30, runs=10, open=12, attention=8, effects=200, refused=30)

T = TypeVar("T")


class Reader:
    """Drives flows over a store, and counts what they ask. `boot` is this machine's clock; a request takes `lasts`."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = store or MemoryStore(clock=lambda: NOW)
        self.boot, self.lasts = 1000.0, 0.0
        self.calls = self.cells = 0

    def __call__(self, flow: Flow[T]) -> T:
        self.calls = self.cells = 0
        try:
            request = next(flow)
            while True:
                reply: Any = perform(self.store, request)
                self.calls, self.cells = self.calls + 1, self.cells + len(reply.cells)
                self.boot += self.lasts
                request = flow.send(Timed(reply, self.boot, self.boot))
        except StopIteration as stop:
            result: T = stop.value
            return result

    def put(self, key: str, value: str = "", mark: Mark = Mark.FREE, at: Instant | None = None, **how: Any) -> None:
        loaded = self.store.load([key])
        write = Write(key, loaded.cells[0].version, value, mark, at, **how)
        (verdict,) = self.store.swap([write], loaded.epoch.seen).verdicts
        assert verdict.refused is None

    def run(self, slot: Slot, mark: Mark = Mark.CLOSED, outcome: Outcome = Outcome.SUCCEEDED) -> None:
        record = Record(State.CLOSED, 1, "n", "web-1:1:a", started=slot.at, finished=slot.at + HOUR, outcome=outcome)
        if mark is Mark.OPEN:
            record = Record(State.RUNNING, 1, "n", "web-1:1:a", started=slot.at)
        self.put(slot.cell, encode(record), mark, slot.at, grant=True, ttl=HOUR)

    def job(self, name: str, schedule: str = "0 * * * *", **job: Any) -> None:
        digest, text = declare(name, schedule=schedule).spec
        self.put(job_cell(name), encode_job(Job(NOW - HOUR, specs=(Spec(digest, NOW, text),), firing=digest, **job)))

    def news(self) -> None:
        self.put(BOARD_JOBS)


@pytest.fixture
def read() -> Reader:
    return Reader()


@pytest.fixture(scope="module")
def fleet() -> Reader:
    made = Reader()
    assert fill(made.store, FLEET) == 30 * 2 + 300 + 20 + 200 + 30 + 1 + 3
    return made


# --- all of it ------------------------------------------------------------------------------------------------------

FLOWS: Final[dict[str, Callable[[Reader], Flow[Any]]]] = {
    "overview": lambda _: read_overview.overview(),
    "jobs": lambda _: read_jobs.job_lines(index=read_jobs.JobIndex()),
    "what is due next": lambda _: read_overview.overview(index=read_jobs.JobIndex()),
    "job": lambda _: read_jobs.job_view("billing-00000"),
    "runs": lambda _: read_lists.newest_runs(),
    "runs of a job": lambda _: read_lists.newest_runs("billing-00000"),
    "runs that failed": lambda _: read_lists.newest_runs(wanted="failed"),
    "run": lambda reader: why("billing-00000", Slot("billing-00000", NOW - HOUR / 2), reader.store.traits),
    "stretch": lambda _: read_overview.stretch(NOW - HOUR, NOW),
    "stretch of a job": lambda _: read_overview.stretch(NOW - HOUR, NOW, "billing-00000"),
    "holders": lambda _: read_overview.holders(),
    "alerts": lambda _: read_lists.alerts(),
    "beats": lambda _: read_lists.beats(),
    "observed": lambda _: read_lists.observed(),
    "locks": lambda _: read_lists.held("lock/"),
    "leaders": lambda _: read_lists.held("leader/"),
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


# --- the overview ---------------------------------------------------------------------------------------------------


def test_the_overview_tells_what_is_wrong_who_is_there_and_what_runs(fleet: Reader) -> None:
    seen = fleet(read_overview.overview(recent=5))
    assert (seen.open.number, seen.open.more, len(seen.open.runs)) == (12, False, 12)
    assert (seen.attention.number, seen.attention.more, len(seen.attention.runs)) == (8, False, 8)
    assert (seen.in_doubt.number, seen.in_doubt.more) == (2, False)
    assert [line.holder.holder.partition(":")[0] for line in seen.holders] == ["batch-1", "web-1", "web-2"]
    assert [one.life(seen.now) for one in seen.holders] == ["alive"] * 3
    assert [run.cell.at for run in seen.newest] == [NOW - timedelta(seconds=number) for number in range(5)]
    assert seen.halted is None
    assert fleet.calls == 4


def test_counts_end_somewhere(read: Reader) -> None:
    for number in range(LIST_COUNTED + 2):
        read.run(Slot("billing", NOW - number * HOUR, request=f"a{number}"), Mark.OPEN)
        read.run(Slot("report", NOW - number * HOUR), Mark.ATTENTION, Outcome.LOST)
    seen = read(read_overview.overview())
    assert (seen.open.number, seen.open.more) == (LIST_COUNTED, True)
    assert (seen.attention.number, seen.attention.more) == (DOUBTS_COUNTED, True)
    assert (len(seen.open.runs), len(seen.attention.runs), len(seen.newest)) == (200, 50, 30)


def test_alerts_that_stand_are_told_apart_from_those_that_are_over(read: Reader) -> None:
    stands = Alert("late", "billing", "warning", "it is late", NOW)
    read.put("alert/late/billing", encode_notice(stands), Mark.OPEN)
    read.put("alert/late/report", encode_notice(stands._replace(subject="report", cleared=NOW)), Mark.FREE)
    assert [one.subject for one in read(read_lists.alerts()).alerts] == ["billing"]
    assert [one.subject for one in read(read_lists.alerts(open=False)).alerts] == ["report"]
    assert [one.subject for one in read(read_overview.overview()).alerts.alerts] == ["billing"]


def test_who_stopped_everything_is_told(read: Reader) -> None:
    read.put(SWITCH, encode_act(Act("ann", NOW, "moving house")), Mark.OPEN)
    stopped = read(read_overview.overview()).halted
    assert stopped is not None
    assert stopped.by == "ann"


# --- runs -----------------------------------------------------------------------------------------------------------


def every(read: Reader, **asked: Any) -> Iterator[str]:
    """All runs of a list, part by part."""
    after = None
    while True:
        page = read(read_lists.newest_runs(after=after, limit=7, **asked))
        yield from (run.cell.key for run in page.runs)
        after = page.next
        if after is None:
            return


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


def test_one_looks_so_far_for_what_is_wanted_and_the_list_goes_on(read: Reader) -> None:
    for number in range(RUNS_SEARCHED + 100):
        outcome = Outcome.SUCCEEDED if number < RUNS_SEARCHED + 50 else Outcome.FAILED
        read.run(Slot("billing", NOW - number * HOUR), outcome=outcome)
    first = read(read_lists.newest_runs(wanted="failed", limit=30))
    assert (first.runs, read.cells) == ((), RUNS_SEARCHED)
    assert first.next is not None
    second = read(read_lists.newest_runs(wanted="failed", limit=30, after=first.next))
    assert [len(second.runs), len(list(every(read, wanted="failed")))] == [30, 50]


@pytest.mark.parametrize(
    "after", ["", "x", "1@", "1@job/a", "-1@run/a", "1@run/a\0", "9" * 18 + "@run/a", "²@run/a", "1@run/" + "a" * 1000]
)
def test_a_list_goes_on_only_where_it_said(after: str, fleet: Reader) -> None:
    if not after:
        assert fleet(read_lists.newest_runs(after=after, limit=1)).runs
        return
    with pytest.raises(BadInput, match="is not a place in this list"):
        fleet(read_lists.newest_runs(after=after))


def test_what_is_wanted_is_a_state_or_an_outcome(fleet: Reader) -> None:
    with pytest.raises(BadInput, match="not a state or an outcome; use one of due, waiting"):
        fleet(read_lists.newest_runs(wanted="<b>"))


def test_a_failed_run_that_an_alert_names_stays_in_the_picture(read: Reader) -> None:
    """Only lost ones did: a failed one was gone past 250 runs."""
    failed = Slot("billing", NOW - 50 * MINUTE)
    read.run(failed, outcome=Outcome.FAILED)
    for number in range(20):
        read.run(Slot("probe", NOW - timedelta(seconds=number)))
    alert = Alert("failed", "billing", "warning", "it failed", NOW, slots=(failed.key, "no slot"))
    read.put("alert/failed/billing", encode_notice(alert), Mark.OPEN)
    seen = read(read_overview.overview(1, 10))
    assert read.calls == 4
    drawn = read(read_overview.stretch_of(seen, NOW - HOUR, NOW + MINUTE, 10))
    assert (len(drawn.runs), drawn.runs[-1].slot) == (11, failed)
    earlier = read(read_overview.stretch_of(seen, NOW - 30 * MINUTE, NOW + MINUTE, 10))
    assert failed not in {run.slot for run in earlier.runs}


# --- jobs -----------------------------------------------------------------------------------------------------------


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
    monkeypatch.setattr(read_lists, "OF_A_JOB", 30)
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


# --- a stretch of time ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("job", [None, "billing"])
def test_a_stretch_has_its_start_and_not_its_end(job: str | None, read: Reader) -> None:
    slots = [Slot("billing", NOW.replace(minute=0) - number * HOUR) for number in range(6)]
    for place, slot in enumerate(slots):
        read.run(slot, [Mark.CLOSED, Mark.ATTENTION][place % 2])
    found = read(read_overview.stretch(slots[4].at, slots[1].at, job))
    assert [run.slot for run in found.runs] == slots[2:5]
    assert (found.capped, found.more_open, found.ghosts) == (False, False, ())
    later = slots[1].at + timedelta(microseconds=1)
    assert [run.slot for run in read(read_overview.stretch(slots[4].at, later, job)).runs] == slots[1:5]


@pytest.mark.parametrize("job", [None, "billing"])
def test_of_too_many_runs_it_is_told_from_when_on_they_are_all_there(job: str | None, read: Reader) -> None:
    slots = [Slot("billing", NOW.replace(minute=0) - number * HOUR) for number in range(40)]
    for slot in slots:
        read.run(slot)
    found = read(read_overview.stretch(slots[-1].at, NOW, job, limit=10))
    assert [run.slot for run in found.runs] == slots[:10]
    assert (found.capped, found.whole_from) == (True, slots[9].at + timedelta(microseconds=1))
    exactly = read(read_overview.stretch(slots[9].at, NOW, job, limit=10))
    assert ([run.slot for run in exactly.runs], exactly.capped) == (slots[:10], False)


@pytest.mark.parametrize("job", [None, "billing"])
def test_what_is_open_from_before_is_in_it_once(job: str | None, read: Reader) -> None:
    old, new = Slot("billing", NOW - 9 * HOUR), Slot("billing", NOW - HOUR)
    read.run(old, Mark.OPEN)
    read.run(new, Mark.OPEN)
    found = read(read_overview.stretch(NOW - 2 * HOUR, NOW, job))
    assert [run.slot for run in found.runs] == [new, old]


def test_what_was_refused_in_that_time_is_told_of_all_jobs_that_are_shown(read: Reader) -> None:
    def refuse(job: str, host: str, *at: Instant) -> None:
        recent = tuple(Refused(f"{job}@…", one, f"{host}:1:a: held") for one in at)
        read.put(refusals_cell(job, host), encode_notice(Refusals(9, recent)))

    refuse("billing", "web-1", NOW - 2 * HOUR, NOW - HOUR / 2)
    refuse("report", "web-2", NOW - HOUR / 3, NOW)
    read.run(Slot("report", NOW - HOUR / 2))
    found = read(read_overview.stretch(NOW - HOUR, NOW))
    assert [(one.job, one.host) for one in found.ghosts] == [("billing", "web-1"), ("report", "web-2")]
    assert not found.more_ghosts
    for number in range(200):
        refuse(f"a-{number}", "web-1", NOW - HOUR / 2)
    found = read(read_overview.stretch(NOW - HOUR, NOW))
    assert [(one.job, one.host) for one in found.ghosts] == [("report", "web-2")]
    assert read.calls == 2 + 1 + 1 + 1


@pytest.mark.parametrize(("hours", "told"), [(1, (False, 30)), (30, (True, 40 + 12))])
def test_an_overview_that_was_read_to_be_drawn_needs_no_other_runs(
    hours: int, told: tuple[bool, int], fleet: Reader
) -> None:
    start, end = NOW - hours * HOUR, NOW + HOUR / 20
    seen = fleet(read_overview.overview(5, drawn=40))
    drawn = fleet(read_overview.stretch_of(seen, start, end, 40))
    assert fleet.calls == 0
    whole = fleet(read_overview.stretch(start, end, None, 40))
    assert drawn == whole
    assert (drawn.capped, len(drawn.runs)) == told


@pytest.mark.parametrize(("every", "hours", "calls"), [(1, 2, 0), (1, 4, 1), (1, 6, 1), (30, 2, 0), (30, 300, 1)])
@pytest.mark.parametrize("limit", [40, 250])
def test_the_view_of_a_job_is_drawn_without_reading_its_runs_again(
    every: int, hours: int, calls: int, limit: int, read: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_lists, "OF_A_JOB", 200)
    read.job("billing")
    slots = [Slot("billing", NOW + (5 - number * every) * timedelta(minutes=1)) for number in range(300)]
    for place, slot in enumerate(slots):
        read.run(slot, Mark.OPEN if place in (0, 7, 260) else Mark.CLOSED)
    refused = Refusals(7, (Refused(slots[1].key, NOW - HOUR, "web-2:1:a: held"),))
    read.put(refusals_cell("billing", "web-2"), encode_notice(refused))
    start, end = NOW - hours * HOUR, NOW + HOUR / 20

    def seen_and_drawn() -> Flow[read_overview.TimeSpan]:
        view = yield from read_jobs.job_view("billing")
        assert view is not None
        return (yield from read_overview.stretch(start, end, "billing", limit, view.present))

    assert read(read_jobs.job_view("billing"))
    alone = read.calls
    drawn = read(sparing(seen_and_drawn()))
    assert read.calls - alone == (calls if limit == 250 else 0)
    assert drawn == read(read_overview.stretch(start, end, "billing", limit))


@pytest.mark.parametrize("number", [120, 300])
def test_what_is_open_or_lost_of_a_job_is_told_however_many_runs_came_since(
    number: int, read: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_lists, "OF_A_JOB", 200)
    read.job("billing")
    slots = [Slot("billing", NOW - place * HOUR) for place in range(number)]
    for slot in slots[:-2]:
        read.run(slot)
    read.run(slots[-2], Mark.ATTENTION, Outcome.LOST)
    read.run(slots[-1], Mark.OPEN)
    view = read(read_jobs.job_view("billing"))
    assert view is not None
    assert read.calls == (4 if number == 120 else 4 + 3), "those by hand, what is open, what is lost"
    assert [run.slot for run in (*view.attention.runs, *view.open.runs)] == slots[-2:]


@pytest.mark.parametrize(("steps", "more"), [(DOUBTS_COUNTED - 2, 0), (DOUBTS_COUNTED + 3, 1), (3 * DOUBTS_COUNTED, 1)])
def test_runs_and_steps_that_wait_for_a_person_are_read_together_unless_there_are_many(
    steps: int, more: int, read: Reader
) -> None:
    unknown = encode(Record(State.CLOSED, 1, "n", "web-1:1:a", outcome=Outcome.UNKNOWN, finished=NOW))
    for number in range(DOUBTS_COUNTED + 1):
        read.run(Slot("report", NOW - number * HOUR), Mark.ATTENTION, Outcome.LOST)
    for number in range(steps):
        read.put(f"effect/report/2026-03-29T12:00:00Z/{number}", unknown, Mark.ATTENTION, NOW)
    seen = read(read_overview.overview())
    assert (seen.attention.number, seen.attention.more) == (DOUBTS_COUNTED, True)
    assert (seen.in_doubt.number, seen.in_doubt.more) == (min(steps, DOUBTS_COUNTED), steps > DOUBTS_COUNTED)
    assert read.calls == 4 + more


@pytest.mark.parametrize(
    ("keys", "refused", "calls", "drawn_of"),
    [(2, 3, 4, 3), (150, 60, 4, 60), (190, 0, 4, 0), (2, 250, 4, 200), (450, 3, 4 + 3, 3)],
)
def test_keys_in_doubt_and_what_was_refused_are_read_together_unless_there_are_many_keys(
    keys: int, refused: int, calls: int, drawn_of: int, read: Reader
) -> None:
    """Also of what is done much may be on record."""
    done = Record(State.CLOSED, 1, "n", "web-1:1:a", outcome=Outcome.SUCCEEDED, finished=NOW)
    read.put("once/mail/0", encode(done._replace(outcome=Outcome.UNKNOWN)), Mark.ATTENTION, ttl=HOUR)
    begun = Record(State.RUNNING, 1, "n", "web-1:1:a", started=NOW)
    read.put("once/mail/zz", encode(begun), Mark.OPEN, grant=True, ttl=timedelta(0))
    for number in range(2, keys):
        read.put(f"once/mail/{number}", encode(done), Mark.CLOSED, ttl=HOUR)
    for number in range(refused):
        recent = (Refused("report@…", NOW - HOUR / 2, f"web-{number}:1:a: held"),)
        read.put(refusals_cell("report", f"web-{number}"), encode_notice(Refusals(9, recent)))
    read.run(Slot("report", NOW - HOUR / 2))
    seen = read(read_overview.overview(5, drawn=40))
    assert (seen.in_doubt.number, seen.in_doubt.more) == (2, False)
    assert read.calls == calls
    drawn = read(read_overview.stretch_of(seen, NOW - HOUR, NOW, 40))
    assert (len(drawn.ghosts), read.calls) == (drawn_of, int(refused > drawn_of)), "of the hosts that were seen"
    whole = read(read_overview.stretch(NOW - HOUR, NOW, None, 40))
    assert len(whole.ghosts) == min(refused, 200)
    assert drawn._replace(ghosts=()) == whole._replace(ghosts=())


def test_what_an_overview_has_not_read_is_not_told_as_whole(read: Reader) -> None:
    slots = [Slot("billing", NOW.replace(minute=0) - number * HOUR) for number in range(12)]
    for place, slot in enumerate(slots):
        read.run(slot, [Mark.CLOSED, Mark.ATTENTION][place % 4 == 3])
    seen = read(read_overview.overview(drawn=3))
    found = read(read_overview.stretch_of(seen, slots[-1].at, NOW, 10))
    assert [run.slot for run in found.runs] == [*slots[:4], slots[7], slots[11]]
    assert found.whole_from == slots[2].at + timedelta(microseconds=1)


def test_a_stretch_needs_a_job_that_can_be_one(read: Reader) -> None:
    with pytest.raises(BadInput):
        read(read_overview.stretch(NOW - HOUR, NOW, "a/b"))


def test_an_incident_stays_in_the_picture_however_many_runs_came_after() -> None:
    """Past 250 runs it was gone."""
    reader = Reader()
    lost = Slot("billing", NOW - 50 * MINUTE)
    slots = [Slot("probe", NOW - timedelta(seconds=number)) for number in range(300)]
    records = {slot: Record(State.CLOSED, 1, started=slot.at, finished=slot.at) for slot in (*slots, lost)}
    writes = [
        Write(
            slot.cell,
            ABSENT,
            encode(record._replace(outcome=Outcome.LOST if slot == lost else Outcome.SUCCEEDED)),
            Mark.ATTENTION if slot == lost else Mark.CLOSED,
            slot.at,
            grant=True,
        )
        for slot, record in records.items()
    ]
    reader.store.swap(writes, reader.store.load([]).epoch.seen)
    seen = reader(read_overview.overview(1, 250))
    drawn = reader(read_overview.stretch_of(seen, NOW - HOUR, NOW + MINUTE, 250))
    assert (len(drawn.runs), drawn.runs[-1].slot) == (251, lost)
    whole = reader(read_overview.stretch(NOW - HOUR, NOW + MINUTE, limit=100))
    assert (len(whole.runs), whole.runs[-1].slot) == (101, lost)
