"""What a clock that leapt has dated ahead of now, as an older cronce did, and the one command that brings it back."""

from datetime import timedelta

import pytest

from cronce.errors import ClockOff
from cronce.model import CLOCK, FREE, Mark, Slot, Write, job_cell
from cronce.monitor.alerts import AlertKind
from cronce.monitor.settings import Settings
from cronce.monitor.survey import WatcherState, WatchMemory, survey
from cronce.monitor.watch import judge
from cronce.protocol.commands import Closed, Held
from cronce.protocol.notices import Alert
from cronce.protocol.record import Job, Outcome, SpanRecord, decode_job, encode_job, standing_act
from cronce.protocol.specs import brought_back
from cronce.runtime.clock_repair import clock_doubt, find_ahead, set_clock
from cronce.runtime.doctor import lying_ahead
from cronce.runtime.ledger import Grant
from cronce.runtime.why import why
from cronce.telling.story import about
from tests.runtime.shelf import LEASE, START, HandClock, HandNode, Wire, beat, claim, granted

SPEC = ("v1", '{"schedule": {"text": "every 1m"}}')
DAYS = timedelta(days=400)
SECOND = timedelta(seconds=1)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(clock: HandClock) -> Wire:
    """A clock 400 days ahead was believed: a job was edited, one is paused and resumed, one runs, a scheduler beats."""
    store = Wire(clock)
    node = HandNode(store)
    beat(node, {"mail": SPEC})
    granted(node)
    clock.back = -DAYS.total_seconds()  # and nobody has another clock
    node = HandNode(store)
    node.do(node.ledger.jobs.pause("mail"))
    node.do(node.ledger.jobs.resume("mail"))
    late = Job(floor=clock.store() + SECOND, spans=(SpanRecord(START, clock.store() + SECOND, None, "missed"),))
    store.swap([Write(job_cell("late"), FREE, encode_job(late), Mark.OPEN)], store.load([]).epoch.seen)
    (cell,) = store.load(["run/billing/2026-03-29T12:00:00Z"]).cells
    store.swap([Write(cell.key, cell.version, cell.value, Mark.OPEN, ttl=LEASE)], store.load([]).epoch.seen)
    beat(HandNode(store, "web-9"), {"mail": SPEC})
    clock.back = 0.0
    clock.turn(1)
    return store


def job_of(store: Wire, name: str) -> Job:
    return decode_job(store.load([job_cell(name)]).cells[0].value)


def found(store: Wire) -> list[Alert]:
    node = HandNode(store)
    alerts, _ = judge(node.do(survey(WatcherState(), store.traits)), WatchMemory(), Settings())
    return [one for one in alerts if one.kind == AlertKind.AHEAD]


def test_what_lies_ahead_is_found_told_and_brought_back_by_one_command(store: Wire, clock: HandClock) -> None:
    node = HandNode(store, "web-2")
    ahead = node.do(find_ahead())
    assert ahead.jobs == ("late", "mail")
    assert [cell.key for cell in ahead.leases] == ["run/billing/2026-03-29T12:00:00Z"]
    assert [cell.key for cell in ahead.holders] == ["holder/web-9"]
    assert [check.remedy.split("`")[1] for check in lying_ahead(ahead)] == ["cronce store clock"] * 2
    assert [(one.subject, one.severity) for one in found(store)] == [("jobs", "critical"), ("leases", "warning")]
    assert all("`cronce store clock`" in one.remedy for one in found(store))

    assert node.do(set_clock(node.ledger, "ada", clock.wall())) == (clock.wall(), ahead)
    assert not node.do(find_ahead())
    assert found(store) == []
    assert job_of(store, "mail").floor == job_of(store, "late").floor == clock.wall()
    assert job_of(store, "late").spans == (SpanRecord(START, clock.wall(), None, "missed"),)
    (run,) = store.load(["run/billing/2026-03-29T12:00:00Z"]).cells
    assert run.until == clock.wall() + LEASE
    said = standing_act(store.load([CLOCK]).cells[0])
    assert said is not None
    assert (said.by, said.at) == ("ada", clock.wall())


def test_slots_to_come_run_again_and_those_that_are_passed_stay_closed(store: Wire, clock: HandClock) -> None:
    node = HandNode(store, "web-2")
    passed, later = Slot("late", clock.wall() - SECOND), Slot("late", clock.wall() + 10 * SECOND)
    clock.turn(15)
    assert isinstance(claim(node, later), Closed)
    clock.turn(-14)
    node.do(set_clock(node.ledger, "ada", clock.wall()))
    clock.turn(14)
    answer = claim(node, passed)
    assert isinstance(answer, Closed)
    assert answer.outcome is Outcome.TOO_OLD
    assert isinstance(claim(node, later), Grant)


def test_a_run_whose_holder_died_in_the_leap_is_taken_over_one_lease_later(store: Wire, clock: HandClock) -> None:
    node = HandNode(store, "web-2")
    assert isinstance(claim(node, on_lost="rerun"), Held)
    node.do(set_clock(node.ledger, "ada", clock.wall()))
    for _ in range(11):
        clock.turn(1)
        node.do(node.ledger.client.probe())
    assert not isinstance(claim(node, on_lost="rerun"), Held)


def test_why_says_that_slots_to_come_are_closed_and_when_the_next_one_runs(store: Wire) -> None:
    seen = HandNode(store).do(why("mail", None, store.traits))
    assert seen is not None
    text = about(seen._replace(doubt="the store's clock jumped"))
    assert "The store's clock was far ahead at some time, which closed slots up to 2027-05-03" in text
    assert "then run `cronce store clock` to repair that." in text
    assert "The store's clock jumped." in text
    assert "Its next slot is 2027-05-03" in text


def test_whoever_has_another_time_than_the_store_cannot_say_that_it_is_right(store: Wire, clock: HandClock) -> None:
    node = HandNode(store)
    with pytest.raises(
        ClockOff, match=r"the store's clock says .*, and this machine's .*: one of them is wrong, by 1h"
    ):
        node.do(set_clock(node.ledger, "ada", clock.wall() - timedelta(hours=1)))
    assert store.load([CLOCK]).cells[0].version == 0
    assert node.do(find_ahead())


def test_a_floor_that_lies_right_is_left_alone() -> None:
    job = Job(floor=START, spans=(SpanRecord(START - SECOND, START, 1, "edited"),))
    assert brought_back(job, START) is job


def test_whoever_only_looks_says_whether_it_believes_the_clock(store: Wire, clock: HandClock) -> None:
    node = HandNode(store)
    assert node.do(clock_doubt(node.ledger)) is None
    clock.leap = DAYS
    doubt = node.do(clock_doubt(node.ledger))
    assert doubt is not None
    assert doubt.why == "jumped 400d ahead"
