"""What a survey reads: never all of it, whatever there is; and that no store makes the judgement fail."""

from collections import Counter
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronce.errors import StoreUnavailable
from cronce.model import BOARD_JOBS, Cell, Epoch, Fence, Mark, Origin, Slot, Write, from_us, to_us
from cronce.monitor import survey as surveying
from cronce.monitor.settings import Settings
from cronce.monitor.survey import SLICE, Survey, WatcherState, WatchMemory, survey
from cronce.monitor.watch import judge
from cronce.protocol.notices import Alert, Beats, Bundle, Doubled, Holder, LastBeat, Observed
from cronce.protocol.record import TOO_LATE, Act, Outcome, Past, Record, SpanRecord, State, encode, encode_job
from cronce.protocol.specs import respec
from cronce.protocol.terms import Terms
from cronce.runtime.effects.review import EffectSeen
from cronce.runtime.flow import drive
from cronce.runtime.ledger import Grant, Ledger, Wanted
from cronce.runtime.queries import HeldSeen, HolderSeen, JobSeen, RunSeen, seen_job
from cronce.runtime.scheduling.roster import JOBS_PER_CELL
from cronce.stores.base import Loaded, Page, Scan
from cronce.stores.kubernetes import KubernetesStore
from cronce.stores.kubernetes.api import read_url
from tests.monitor.shelf import HOUR, MINUTE, SECOND, Shelf, Town, every
from tests.runtime.shelf import START, HandClock
from tests.servers.kubernetes import Kubernetes

WEB = "web-1:1:a"
QUIET = [
    "load",  # whether everything is paused, whether jobs changed
    "scan stored/",
    "scan job/",
    "scan drain/",
    "scan holder/",
    "scan run/",  # what is open
    "scan run/",  # what wants attention
    "scan effect/",
    "scan once/",
    "scan once/",
    "scan leader/",
    "scan beat/",
    "scan observed/",
    "scan machine/",
]


class Counted(Shelf):
    """How many cells were handed out."""

    cells = 0

    def load(self, keys: Any) -> Loaded:
        loaded = super().load(keys)
        self.cells += sum(cell.version > 0 for cell in loaded.cells)
        return loaded

    def scan(self, scan: Scan) -> Page:
        page = super().scan(scan)
        self.cells += len(page.cells)
        return page


def put_all(town: Town, values: dict[str, str], mark: Mark = Mark.FREE, *, at: bool = False) -> None:
    """Cells that were not there."""
    slots = {key: _at(key) if at else None for key in values}
    writes = [Write(key, 0, value, mark, at=slots[key]) for key, value in values.items()]
    town.store.swap(writes, town.store.load([]).epoch.seen)


def _at(key: str) -> Any:
    return START.fromisoformat(key.rpartition("/")[2])


def jobs(count: int, **policies: Any) -> dict[str, str]:
    value = encode_job(respec(None, every("1h", **policies).spec, (), START))
    return {f"job/job-{number:05}": value for number in range(count)}


def looks(town: Town) -> Counter[str]:
    """What the next survey asks of the store."""
    town.store.calls.clear()
    town.look()
    return Counter(town.store.calls)


def test_a_quiet_store_is_asked_so_much_and_no_more() -> None:
    town = Town()
    town.look()
    town.store.calls.clear()
    town.look()
    assert town.store.calls == QUIET


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Town:
    """A hundred jobs are many here: there are 250, which are read in three slices."""
    monkeypatch.setattr(surveying, "SLICE", 100)
    town = Town()
    put_all(town, jobs(250))
    return town


def test_jobs_are_all_read_at_first_and_then_in_slices(small: Town) -> None:
    assert looks(small) == Counter(QUIET) + Counter({"scan job/": 2, "load": 2})  # the latest slot, and one before
    assert len(small.known.jobs) == 250
    goes_on = Counter(QUIET) - Counter(["scan stored/"]) + Counter(["scan job/"])
    for slices in (Counter(QUIET), goes_on) * 2:  # two at a time, of those for definitions and for jobs
        assert looks(small) == slices
    small.pass_time(HOUR)
    assert looks(small) == Counter(QUIET) + Counter({"load": 1})  # slots fell due
    small.put(BOARD_JOBS, "")
    assert looks(small) == Counter(QUIET) + Counter({"scan job/": 2, "load": 1})


def test_slots_are_loaded_a_thousand_at_a_time() -> None:
    town = Town()
    put_all(town, jobs(JOBS_PER_CELL + 1))
    town.look()
    town.pass_time(HOUR)
    assert looks(town) == Counter(QUIET) + Counter({"load": 2})


def test_what_was_added_and_deleted_is_noticed_within_a_round(small: Town) -> None:
    small.look()
    put_all(small, {"job/zoo": jobs(1)["job/job-00000"]})
    small.store.purge(small.store.load(["job/job-00007"]).cells)
    small.look()
    assert "zoo" not in small.known.jobs
    small.look()
    assert "zoo" in small.known.jobs
    assert "job-00007" not in small.known.jobs
    assert len(small.known.jobs) == 250


def test_of_many_runs_only_those_are_read_that_fell_due() -> None:
    town = Town()
    town.store = Counted(town.clock)
    put_all(town, jobs(3))
    done = encode(Record(State.CLOSED, grant=1, outcome=Outcome.SUCCEEDED, started=START, finished=START))
    slots = [Slot(f"job-{job:05}", START - hours * HOUR).cell for job in range(3) for hours in range(1000)]
    put_all(town, dict.fromkeys(slots, done), Mark.CLOSED, at=True)
    town.look()
    town.pass_time(MINUTE)
    town.store.cells = 0
    town.look()
    assert town.store.cells == 3  # the jobs
    town.pass_time(HOUR - MINUTE)
    put_all(town, {Slot(f"job-{job:05}", START + HOUR).cell: done for job in range(3)}, Mark.CLOSED, at=True)
    town.store.cells = 0
    town.look()
    assert town.store.cells == 6
    town.store.cells = 0
    town.look()
    assert town.store.cells == 3  # what is closed is not looked at again


def test_of_more_open_runs_and_doubts_than_fit_the_newest_are_seen() -> None:
    town = Town()
    lost = encode(Record(State.CLOSED, grant=1, holder=WEB, outcome=Outcome.LOST, started=START, finished=START))
    slots = [Slot("billing", START - minutes * MINUTE).cell for minutes in range(SLICE)]
    put_all(town, dict.fromkeys(slots, lost), Mark.ATTENTION, at=True)
    assert looks(town) == Counter(QUIET)
    put_all(town, {Slot("zoo", START + MINUTE).cell: lost}, Mark.ATTENTION, at=True)
    assert looks(town) == Counter(QUIET) + Counter({"scan run/": 1})
    assert [one.subject for one in town.look()] == ["billing", "zoo"]
    text = town.look()[0].text
    assert text.endswith("; 1,000 or more runs of billing in all.")


def test_of_what_is_open_no_more_than_some_pages_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveying, "OPEN_SURVEYED", 2 * SLICE)
    town = Town()
    running = encode(Record(State.RUNNING, grant=1, holder=WEB, started=START, lease=MINUTE))
    slots = [Slot("billing", START - number * SECOND).cell for number in range(2 * SLICE + 1)]
    writes = [Write(key, 0, running, Mark.OPEN, ttl=MINUTE) for key in slots]
    town.store.swap(writes, town.store.load([]).epoch.seen)
    assert looks(town) == Counter(QUIET) + Counter({"scan run/": 1})


def test_a_job_that_nobody_runs_is_watched_for_some_of_its_slots() -> None:
    town = Town()
    put_all(town, {"job/busy": encode_job(respec(None, every("1s", "busy").spec, (), START))})
    for _ in range(20):
        town.pass_time(10 * SECOND)
        town.look()
    assert len(town.known.unclaimed()) == surveying.UNCLAIMED
    assert len(town.memory.missed["busy"]) == surveying.UNCLAIMED
    (missed,) = [one for one in town.look() if one.kind == "missed"]
    assert missed.text == "busy: 20 or more slots fell due and did not run, the first at 2026-03-29T12:00:09Z."
    assert missed.remedy.endswith("--to 2026-03-29T12:03:20Z` runs the slots that did not run.")


def test_of_very_many_slots_one_of_each_job_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveying, "SLOTS_WATCHED", 25)
    town = Town()
    put_all(town, jobs(10))
    town.look()
    for hour, slots in ((1, 10), (2, 20), (3, 10)):
        town.pass_time(START + hour * HOUR - town.now)
        town.look()
        assert len(town.known.unclaimed()) == slots
        town.pass_time(MINUTE + SECOND)
        assert len([one for one in town.look() if one.kind == "missed"]) == 10


def test_how_long_runs_take_is_read_of_a_few_jobs_at_a_time_and_not_again_at_once() -> None:
    town = Town()
    running = encode(Record(State.RUNNING, grant=1, holder=WEB, started=START, lease=MINUTE))
    writes = [Write(Slot(f"job-{job:02}", START).cell, 0, running, Mark.OPEN, ttl=HOUR) for job in range(25)]
    town.store.swap(writes, town.store.load([]).epoch.seen)
    assert looks(town) == Counter(QUIET)
    town.pass_time(MINUTE + SECOND)
    assert sum(call.startswith("scan run/job-") for call in looks(town).elements()) == 20
    assert sum(call.startswith("scan run/job-") for call in looks(town).elements()) == 5
    assert looks(town) == Counter(QUIET)


def test_an_interrupted_survey_is_made_up_for_by_the_next() -> None:
    """A slot that fell due when the store did not answer is looked at as soon as it does."""
    town = Town()
    town.beat(WEB, every("10m"))
    town.look()
    town.pass_time(10 * MINUTE)
    for lost in range(1, 3):
        town.store.lose = partial(_lost, Counter(), lost)
        with pytest.raises(StoreUnavailable):
            town.look()
    town.store.lose = lambda _call: ""
    town.pass_time(MINUTE + SECOND)
    town.beat(WEB)
    assert "missed/billing" in town.kinds()


def _lost(seen: Counter[str], number: int, call: str) -> str:
    seen[call] += 1
    return "before" if call == "load" and seen["load"] == number else ""


def test_on_leases_there_is_less_to_see_and_nothing_goes_wrong() -> None:
    """Effects are not kept there, and of a job only its last slots."""
    clock = HandClock()
    with Kubernetes() as server:
        server.clock = lambda: clock.wall().timestamp()
        with closing(KubernetesStore(read_url(server.url("jobs")), clock)) as store:
            ledger = Ledger(store.traits, clock, WEB)
            terms = Terms(MINUTE, outside=True)
            for number in range(5):
                clock.turn(60)
                slot = Slot("billing", START + number * MINUTE)
                (grant,) = drive(ledger.claim([Wanted(slot, terms)]), store, clock)
                assert isinstance(grant, Grant)
                drive(ledger.finish(grant, Outcome.FAILED, "boom"), store, clock)
            found, _ = judge(drive(survey(WatcherState(), store.traits), store, clock), WatchMemory(), Settings())
            assert [one.id for one in found] == ["failed/billing"]


# --- whatever there is ---


def made(kind: Any, *fields: Any, **named: Any) -> Any:
    """Fields that are not given have their defaults."""
    return st.builds(lambda *given, **others: kind(*given, **others), *fields, **named)  # noqa: PLW0108  hides the types


INSTANTS = st.integers(to_us(START) - 10**11, to_us(START) + 10**11).map(from_us)
MAYBE = st.none() | INSTANTS
NAMES = st.sampled_from(["billing", "mail", "a.b:c"])
HOLDERS = st.sampled_from([WEB, "web-1:2:b", "web-2:1:a", ""])
SPANS = st.timedeltas(timedelta(0), timedelta(days=2))
TEXTS = st.sampled_from(["", "boom", TOO_LATE, "resolved: by ada", "\x1b[31m\n"])
SLOTS = made(Slot, NAMES, INSTANTS.map(lambda at: at.replace(microsecond=0)), st.sampled_from(["", "hand-1"]))
ENDS = st.sampled_from(["lapsed", "released", "never started", "failed: boom"])
PASTS = made(Past, st.none(), HOLDERS, MAYBE, ENDS, MAYBE)
RECORDS = made(
    Record,
    st.sampled_from(State),
    grant=st.integers(0, 3),
    holder=HOLDERS,
    lease=SPANS,
    on_lost=st.sampled_from(["skip", "rerun"]),
    failures=st.integers(0, 3),
    started=MAYBE,
    finished=MAYBE,
    outcome=st.none() | st.sampled_from(Outcome),
    reason=TEXTS,
    past=st.lists(PASTS, max_size=4).map(tuple),
    progress=st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
MARKS = st.sampled_from(Mark)
CELLS = made(Cell, st.just("run/x"), st.integers(1, 9), st.just(""), MAYBE, MARKS, st.just(Fence(1, 1)), MAYBE)
RUNS = made(RunSeen, SLOTS, CELLS, RECORDS, st.booleans())
ACTS = st.none() | made(Act, NAMES, MAYBE)
REASONS = st.sampled_from(["missed", "superseded", "capped", "edited"])
PASSED = made(SpanRecord, INSTANTS, INSTANTS, st.none() | st.integers(0, 9), REASONS)


def _job(
    name: str, floor: Any, paused: Act | None, spans: list[SpanRecord], policies: dict[str, str], firing: bool
) -> JobSeen:
    job = respec(None, every("1h", name, **policies).spec, (), floor)
    job = job._replace(paused=paused, spans=tuple(spans), firing=job.firing if firing else "")
    return seen_job(Cell(f"job/{name}", 1, encode_job(job)))


POLICIES = st.sampled_from([{}, {"timeout": "10s"}, {"start_within": "5m", "jitter": "30s"}])
JOBS = st.builds(_job, NAMES, INSTANTS, ACTS, st.lists(PASSED, max_size=3), POLICIES, st.booleans())
UNREADABLE = made(JobSeen, NAMES, st.none(), trouble=st.just("newer"))
SEEN_HOLDERS = made(
    HolderSeen,
    made(
        Holder,
        HOLDERS,
        st.sampled_from(["v1", "v2"]),
        st.sampled_from(["both", "schedule", "work"]),
        st.integers(1, 9),
        st.just({}),
        INSTANTS,
        st.just(""),
        st.booleans(),
        st.booleans(),
        SPANS,
        st.timedeltas(timedelta(days=-1), timedelta(days=1)),
        st.integers(0, 9),
    ),
    INSTANTS,
    ACTS,
)
BEATEN = made(LastBeat, INSTANTS, HOLDERS)
PLACES = st.dictionaries(NAMES, st.sampled_from(["app.py", "other.py"]))
BUNDLES = made(Bundle, st.dictionaries(NAMES, st.sampled_from(["d1", "d2"])), PLACES)
SURVEYS = made(
    Survey,
    INSTANTS,
    made(Epoch, INSTANTS.map(to_us), st.just(5), st.just(0), st.sampled_from(Origin), MAYBE),
    ACTS,
    st.lists(JOBS | UNREADABLE, max_size=3).map(lambda found: {one.name: one for one in found}),
    st.lists(SEEN_HOLDERS, max_size=4, unique_by=lambda one: one.holder.holder),
    st.dictionaries(st.sampled_from(["v1", "v2"]), BUNDLES),
    st.lists(SLOTS, max_size=3),
    st.lists(RUNS, max_size=3),
    st.lists(RUNS, max_size=3).map(lambda runs: {run.slot.job: run for run in runs}),
    st.lists(RUNS, max_size=3).map(lambda runs: {run.slot.job: run for run in runs}),
    st.lists(RUNS, max_size=3),
    st.lists(RUNS, max_size=3),
    st.booleans(),
    st.lists(
        made(EffectSeen, TEXTS, st.just("in doubt"), st.just(Cell("once/mail/7")), st.none() | RECORDS), max_size=3
    ),
    st.lists(made(HeldSeen, NAMES, st.just("free"), CELLS, st.none() | RECORDS), max_size=2),
    st.dictionaries(NAMES, made(Beats, SPANS, st.lists(BEATEN, max_size=5).map(tuple), st.integers(0, 9))),
    st.dictionaries(
        NAMES,
        made(
            Observed,
            st.none() | SPANS,
            st.lists(BEATEN, max_size=3).map(tuple),
            st.integers(0, 9),
            st.integers(0, 9),
            st.lists(made(Doubled, TEXTS, INSTANTS, HOLDERS, TEXTS), max_size=3).map(tuple),
        ),
    ),
    st.dictionaries(HOLDERS, st.sampled_from(["2025a", "2026b"])),
    st.dictionaries(NAMES, st.lists(SPANS, min_size=1, max_size=7)),
)


@settings(max_examples=20, deadline=None)
@given(st.lists(SURVEYS, min_size=1, max_size=2), st.integers(1, 3))
def test_whatever_there_is_can_be_judged(surveys: list[Survey], schedulers: int) -> None:
    memory = WatchMemory()
    for seen in surveys:
        found, memory = judge(seen, memory, Settings(schedulers=schedulers))
        assert len({one.id for one in found}) == len(found)
        for one in found:
            assert isinstance(one, Alert)
            assert one.text.endswith(".")
            assert one.remedy.endswith(".")
            assert "\n" not in one.text
            assert "\x1b" not in one.text
            assert one.since <= memory.since[one.id]
