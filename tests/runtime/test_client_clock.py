"""A store's clock that leaps is believed by nobody: no grant, no floor, no lapse and no deletion by it; what runs goes
on. All on a clock that is turned by hand, a second at a time."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from cronce.clock import boot_id
from cronce.errors import ClockOff, StoreUnavailable
from cronce.events import What
from cronce.model import CLOCK, FREE, Mark, Slot, Write, job_cell, machine_cell
from cronce.protocol.commands import Finished, Held
from cronce.protocol.lease import Sample
from cronce.protocol.notices import Machine, encode_notice
from cronce.protocol.record import Act, Job, Outcome, Purging, decode, decode_job, encode_act
from cronce.protocol.specs import raise_floor
from cronce.protocol.store_clock import HARMLESS_ERROR
from cronce.runtime.flow import Purge
from cronce.runtime.ledger import Begin, Expired, Grant, Wanted
from tests.runtime.office import Office
from tests.runtime.office import job as declared
from tests.runtime.shelf import LEASE, START, HandClock, HandNode, Wire, claim, granted, terms

NOON = Slot("billing", START + timedelta(hours=1))
LEAPS = [timedelta(hours=1), timedelta(hours=-1), timedelta(days=400), timedelta(days=-400)]
SECOND = timedelta(seconds=1)


@pytest.fixture
def clock() -> HandClock:
    clock = HandClock()
    clock.turn(3600)
    return clock


@pytest.fixture
def store(clock: HandClock) -> Wire:
    """Made two years before: it is never younger than its clock says."""
    clock.leap = timedelta(days=-800)
    store = Wire(clock)
    clock.leap = timedelta(0)
    return store


def watch(node: HandNode, seconds: int) -> None:
    for _ in range(seconds):
        node.store.clock.turn(1)
        node.do(node.ledger.client.load([]))


def steady(store: Wire) -> HandNode:
    node = HandNode(store)
    watch(node, 20)
    return node


def told(node: Any) -> list[What]:
    return [event.what for event in node.events if event.what in (What.LEAPT, What.STEADY)]


def job_of(store: Wire, name: str = "billing") -> Job:
    (cell,) = store.load([job_cell(name)]).cells
    return decode_job(cell.value, cell.key)


# --- in a leap nothing is decided by its clock ------------------------------------------------------------------------


@pytest.mark.parametrize("leap", LEAPS)
def test_no_slot_is_granted_and_no_job_begins_in_a_leap(store: Wire, clock: HandClock, leap: timedelta) -> None:
    node = steady(store)
    clock.leap = leap
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match=r"so cronce starts no runs until it is right.*`cronce store clock`"):
            claim(node, NOON)
        clock.turn(1)
    assert store.load([NOON.cell, job_cell("billing")]).cells[0].version == 0
    assert store.load([job_cell("billing")]).cells[0].version == 0
    clock.leap = timedelta(0)
    watch(node, 1)
    assert isinstance(claim(node, NOON), Grant)
    assert told(node) == [What.LEAPT, What.STEADY]


def test_a_slot_of_a_known_job_is_neither_too_late_nor_early_in_a_leap(store: Wire, clock: HandClock) -> None:
    """The store refuses a first claim in a leap as late or early: that is believed as little as its clock."""
    node = steady(store)
    granted(node, NOON)
    for number, leap in enumerate(LEAPS):
        slot = Slot("billing", clock.wall() + number * SECOND)
        clock.turn(number)
        clock.leap = leap
        with pytest.raises(StoreUnavailable, match="cronce starts no runs until it is right"):
            claim(node, slot, start_within=SECOND)
        clock.leap = timedelta(0)
        watch(node, 1)
        assert store.load([slot.cell]).cells[0].version == 0


def test_a_slot_that_a_leap_of_some_seconds_granted_too_early_is_given_back(store: Wire, clock: HandClock) -> None:
    node = steady(store)
    granted(node, NOON, overlap="allow")
    early = Slot("billing", clock.wall() + 10 * SECOND)
    clock.leap = 20 * SECOND
    assert isinstance(claim(node, early, overlap="allow"), Expired)


def test_two_slots_at_once_are_granted_in_a_leap_as_little_as_one(store: Wire, clock: HandClock) -> None:
    """Those that were stamped by one decision were decided without the doubt, and both were granted."""
    node = steady(store)
    granted(node, NOON, overlap="allow")
    slots = [Slot("billing", clock.wall() + number * SECOND) for number in range(2)]
    clock.turn(2)
    clock.leap = 20 * SECOND
    watch(node, 1)
    assert node.ledger.know.doubt is not None
    with pytest.raises(StoreUnavailable, match="cronce starts no runs until it is right"):
        node.do(node.ledger.claim([Wanted(slot, terms(overlap="allow")) for slot in slots]))
    assert [cell.version for cell in store.load([slot.cell for slot in slots]).cells] == [0, 0]
    clock.leap = timedelta(0)
    watch(node, 1)
    answers = node.do(node.ledger.claim([Wanted(slot, terms(overlap="allow")) for slot in slots]))
    assert [type(answer) for answer in answers] == [Grant, Grant]


@pytest.mark.parametrize("leap", LEAPS)
def test_what_runs_is_renewed_and_ends_in_a_leap(store: Wire, clock: HandClock, leap: timedelta) -> None:
    node = steady(store)
    grant = granted(node, NOON)
    clock.leap = leap
    for _ in range(20):
        clock.turn(1)
        (renewed,) = node.do(node.ledger.renew([grant]))
        assert isinstance(renewed, Grant)
        grant = renewed
    assert grant.trust.holds(clock.boot())
    assert node.do(node.ledger.finish(grant, Outcome.SUCCEEDED)) == Finished(Outcome.SUCCEEDED)
    record = decode(store.load([NOON.cell]).cells[0].value)
    assert record.finished == clock.wall()  # by the clock that is believed


@pytest.mark.parametrize("leap", LEAPS)
def test_what_is_written_in_a_leap_is_dated_right(store: Wire, clock: HandClock, leap: timedelta) -> None:
    """The store adds a length of time to its own now: a retry and a rest would lie 400 days ahead, a living lease would
    have lapsed, and a message that was handled would be forgotten. A lease that lies ahead is only void (see below)."""
    node = steady(store)
    retried, kept = granted(node, NOON, attempts=2), granted(node, Slot("mail", NOON.at))
    lock = node.do(node.ledger.acquire("lock/a"))
    done = node.do(node.ledger.exchange_effects([], [Begin("once/a/1", "0" * 16, keep=LEASE)]))[1][0].answer
    assert isinstance(lock, Grant)
    assert isinstance(done, Grant)
    clock.leap = leap
    clock.turn(1)
    node.do(node.ledger.renew([kept]))
    node.do(node.ledger.finish(done, Outcome.SUCCEEDED))
    lasts = clock.wall() + LEASE + max(leap, timedelta(0))
    longer = HARMLESS_ERROR if leap < timedelta(0) else timedelta(0)  # what was done is rather known for too long
    assert [cell.until for cell in store.load([kept.key, "once/a/1"]).cells] == [lasts, lasts + longer]

    def put_off() -> list[str]:
        failed = node.do(node.ledger.finish(retried, Outcome.FAILED, backoff=SECOND))
        (released,) = node.do(node.ledger.release([lock], rest=3 * SECOND))
        return [type(answer).__name__ for answer in (failed, released)]

    if leap > timedelta(0):
        assert put_off() == ["Unsure", "Unsure"]
        clock.leap = timedelta(0)
        watch(node, 1)
    assert put_off() == ["Finished", "Released"]
    untils = [cell.until for cell in store.load([NOON.cell, "lock/a"]).cells]
    assert untils == [clock.wall() + SECOND, clock.wall() + 3 * SECOND]


def test_a_lease_that_was_renewed_in_a_leap_ahead_lapses_when_nobody_renews_it(store: Wire, clock: HandClock) -> None:
    """Its holder died in the leap: by the store's clock it would be held for 400 days."""
    holder, other = steady(store), steady(store)
    grant = granted(holder, NOON, on_lost="rerun")
    clock.leap = timedelta(days=400)
    for _ in range(2):
        clock.turn(1)
        (grant,) = holder.do(holder.ledger.renew([grant]))  # type: ignore[assignment]
    until = clock.store() + LEASE
    clock.leap = timedelta(0)
    watch(other, 1)
    assert other.do(other.ledger.overdue()) == []
    watch(other, 60)  # it looks once a minute
    assert [cell.until for cell in other.do(other.ledger.overdue())] == [until]
    waited = 0
    while isinstance(claim(other, NOON, on_lost="rerun"), Held):
        watch(other, 1)
        waited += 1
    assert waited == LEASE.total_seconds()
    assert not grant.trust.holds(clock.boot())
    assert store.load([NOON.cell]).cells[0].until == clock.wall() + LEASE


@pytest.mark.parametrize("leap", LEAPS)
def test_no_lease_lapses_in_a_leap_or_by_one(store: Wire, clock: HandClock, leap: timedelta) -> None:
    holder, other = steady(store), steady(store)
    grant = granted(holder, NOON, on_lost="rerun")
    clock.leap = leap
    for number in range(30):
        watch(other, 1)
        if number % 2:
            (renewed,) = holder.do(holder.ledger.renew([grant]))
            assert isinstance(renewed, Grant)
            grant = renewed
        try:
            answer = claim(other, NOON, on_lost="rerun")
            assert isinstance(answer, Held)
        except StoreUnavailable:
            pass
        if number == 15:
            clock.leap = timedelta(0)


@pytest.mark.parametrize("leap", LEAPS)
@pytest.mark.parametrize(
    "change",
    [
        lambda job, _now: raise_floor(job, job.floor + SECOND, None, "an edit"),
        lambda job, now: job._replace(purging=Purging(now, now)),
    ],
    ids=["floor", "purging"],
)
def test_no_floor_rises_and_nothing_is_announced_in_a_leap(
    store: Wire, clock: HandClock, leap: timedelta, change: Callable[..., Job]
) -> None:
    node = steady(store)
    granted(node, NOON)
    before = job_of(store)
    clock.leap = leap
    with pytest.raises(StoreUnavailable, match="cronce starts no runs until it is right"):
        node.do(node.ledger.jobs.edit("billing", lambda job, now: job and change(job, now)))
    assert job_of(store) == before


def test_a_person_can_pause_in_a_leap(store: Wire, clock: HandClock) -> None:
    node = steady(store)
    granted(node, NOON)
    clock.leap = timedelta(days=400)
    node.do(node.ledger.jobs.pause("billing", "ada"))
    assert job_of(store).paused is not None


def test_nothing_is_deleted_in_a_leap(store: Wire, clock: HandClock) -> None:
    node = steady(store)
    node.do(node.ledger.finish(granted(node, NOON), Outcome.SUCCEEDED))
    clock.leap = timedelta(days=400)
    watch(node, 1)
    with pytest.raises(StoreUnavailable, match="cronce starts no runs until it is right"):
        node.do(node.ledger.client.purge(Purge(store.load([NOON.cell]).cells)))
    assert store.load([NOON.cell]).cells[0].version > 0


# --- how it ends ------------------------------------------------------------------------------------------------------


def test_a_persons_word_ends_it_for_every_process(store: Wire, clock: HandClock) -> None:
    nodes = [steady(store), steady(store)]
    clock.leap = timedelta(hours=1)
    for node in nodes:
        watch(node, 400)
        assert node.ledger.know.doubt is not None
    said = Write(CLOCK, FREE, encode_act(Act("ada", store.load([]).now)), Mark.FREE)
    store.swap([said], store.load([]).epoch.seen)
    for node in [*nodes, HandNode(store)]:
        watch(node, 2)
        assert node.ledger.know.doubt is None
        assert node.ledger.know.now() == clock.store()
    clock.leap = timedelta(hours=3)
    watch(nodes[0], 1)
    assert nodes[0].ledger.know.doubt is not None  # that was another clock


def test_a_store_that_was_made_in_a_leap_is_used_once_a_person_says_so(clock: HandClock) -> None:
    clock.leap = timedelta(days=400)
    store = Wire(clock)
    clock.leap = timedelta(0)
    node = HandNode(store)
    watch(node, 400)
    assert node.ledger.know.doubt is not None
    said = Write(CLOCK, FREE, encode_act(Act("ada", clock.wall())), Mark.FREE)
    store.swap([said], store.load([]).epoch.seen)
    clock.turn(100_000)
    node = HandNode(store)
    watch(node, 2)
    assert node.ledger.know.doubt is None
    assert isinstance(claim(node, NOON), Grant)


def test_samples_of_before_a_leap_that_is_believed_are_not_left_for_others(store: Wire, clock: HandClock) -> None:
    node = steady(store)
    clock.back = -7200.0
    watch(node, 10)
    assert node.ledger.know.doubt is None
    left = node.ledger.know.remembered(SECOND, 100)
    assert {sample.now - timedelta(seconds=sample.ended) for sample in left} == {
        START + timedelta(hours=2) - timedelta(seconds=5000)
    }


# --- a guard's call ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leap", LEAPS)
def test_a_call_waits_until_the_leap_is_over_and_runs_its_slot(store: Wire, clock: HandClock, leap: timedelta) -> None:
    office, ran = Office(store), []
    office.call(declared(), lambda run: ran.append(run.slot.key))
    clock.turn(15 * 60)
    slot, began = Slot("billing", clock.wall()), clock.seconds
    clock.leap = leap
    steps = office.call_steps(declared(), lambda run: ran.append(run.slot.key))

    def meanwhile() -> None:
        if clock.seconds >= began + 8:
            clock.leap = timedelta(0)

    office.play(steps, meanwhile)
    assert ran == [NOON.key, slot.key]
    assert clock.seconds == pytest.approx(began + 9, abs=1.1)
    assert told(office) == [What.LEAPT, What.STEADY]


def test_a_call_in_a_leap_that_does_not_end_is_an_error_and_on_record(store: Wire, clock: HandClock) -> None:
    office = Office(store)
    office.call(declared(), lambda _run: None)
    clock.turn(15 * 60)
    slot, began = Slot("billing", clock.wall()), clock.seconds
    clock.leap = timedelta(days=400)
    with pytest.raises(StoreUnavailable, match=f"{slot.key} was not run: the store's clock jumped 400d ahead, so"):
        office.call(declared(), lambda _run: pytest.fail("it ran"))
    assert clock.seconds == pytest.approx(began + 600, abs=2)
    assert [key for key, _ in office.refused] == [slot.key]


def test_a_new_process_whose_clock_disagrees_runs_nothing_and_says_so_on_record(store: Wire, clock: HandClock) -> None:
    clock.leap = timedelta(days=400)
    office = Office(store)
    with pytest.raises(ClockOff, match="this machine's clock is 400d behind the store's"):
        office.call(declared(), lambda _run: pytest.fail("it ran"))
    assert office.refused == [(NOON.key, "its clock was 400d behind the store's")]


def test_a_host_whose_own_clock_leaps_with_the_stores_runs_the_slot_that_is_due(clock: HandClock) -> None:
    """An SQLite host two hours ahead for eight seconds, and a process that begins meanwhile: those before it have left
    what they saw of the clock since this boot."""
    store, ran, clock.kept = Wire(clock), [], False
    samples = tuple(Sample(clock.boot() - at, clock.boot() - at, clock.wall() - at * SECOND) for at in (30, 15))
    left = Write(machine_cell(boot_id()), FREE, encode_notice(Machine(boot_id(), samples)), Mark.FREE)
    store.swap([left], store.load([]).epoch.seen)
    began, clock.back = clock.seconds, -7200.0
    office = Office(store)
    steps = office.call_steps(declared(), lambda run: ran.append(run.slot.key))

    def meanwhile() -> None:
        if clock.seconds >= began + 8:
            clock.back = 0.0

    office.play(steps, meanwhile)
    assert ran == [NOON.key]
    assert clock.seconds == pytest.approx(began + 9, abs=1.1)
    assert job_of(store).floor < NOON.at


def test_a_process_that_asks_often_remembers_as_far_back_as_one_that_asks_seldom(store: Wire, clock: HandClock) -> None:
    """Else no lease ever lapsed for it."""
    node = HandNode(store)
    for _ in range(4000):
        clock.turn(0.01)
        node.do(node.ledger.client.load([]))
    know = node.ledger.know
    assert know.even(know.guess(), 3 * SECOND) > 30 * SECOND
