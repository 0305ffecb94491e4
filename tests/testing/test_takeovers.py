"""What the referee makes of a takeover: by facts alone, without a world around it."""

from datetime import timedelta

import pytest

from cronce.model import Cell, Fence, Mark, Slot, Traits, Write
from cronce.protocol.lease import PIECE
from cronce.protocol.record import LAPSED, Past, Record, State, encode
from cronce.runtime.flow import Timed
from cronce.runtime.ledger import Ledger
from cronce.stores.base import Loaded
from cronce.testing.takeovers import ABLE, TAKEN_OVER_WITHIN, Takeovers
from cronce.testing.world import WORLD_START, SimulatedOutage, SimulatedProcess, World

FENCE = Fence(1, 7)
SLOT = Slot("billing", WORLD_START)
LEASE = timedelta(seconds=8)
RUNS = Record(State.RUNNING, grant=1, holder="m0:1", lease=LEASE, on_lost="rerun")
TAKEN = RUNS._replace(grant=2, past=(Past(FENCE, "m0:1", WORLD_START, LAPSED, WORLD_START),))


class Broken(Exception):
    """A promise was."""


def broken(promise: str, facts: str) -> None:
    raise Broken(promise)


class Holder:
    """A process, as far as the referee asks."""

    def __init__(self, world: World, able: float = 0.0, *, wants: bool = True) -> None:
        self.process = SimulatedProcess("m0:1", world.machine("m0"), world)
        self.ledger = Ledger(world.store.traits, self.process, "m0:1")
        self.able, self._wants = able, wants

    def wants(self, _key: str, _fence: Fence) -> bool:
        return self._wants

    def able_since(self, *_who: str) -> float:
        return self.able

    def hung_until(self, *_who: str) -> float:
        return self.able


@pytest.fixture
def world() -> World:
    world = World(0, Traits("model"))
    world.real = 100.0
    return world


@pytest.mark.parametrize(("able", "heard"), [(98.9, False), (99.1, True), (120.0, True)])
def test_nobody_takes_over_from_who_could_speak_for_a_second(world: World, able: float, heard: bool) -> None:
    takeovers = Takeovers(world, broken)
    takeovers.holders[FENCE] = Holder(world, able)
    was = Cell(SLOT.cell, 3, encode(RUNS), SLOT.at, Mark.OPEN, FENCE, WORLD_START)
    if heard:
        takeovers.saw(was, TAKEN)
        return
    with pytest.raises(Broken, match="a living holder is heard first"):
        takeovers.saw(was, TAKEN)


def test_nor_from_who_can_speak_again_after_an_outage_for_everybody(world: World) -> None:
    takeovers = Takeovers(world, broken)
    takeovers.holders[FENCE] = Holder(world, 99.2)
    world.go_away(SimulatedOutage(90.0, 99.2))
    was = Cell(SLOT.cell, 3, encode(RUNS), SLOT.at, Mark.OPEN, FENCE, WORLD_START)
    with pytest.raises(Broken, match="a living holder is heard first"):
        takeovers.saw(was, TAKEN)


@pytest.mark.parametrize(("decided", "is_late"), [(timedelta(0), False), (timedelta(seconds=60), True)])
def test_nor_from_anybody_right_after_it_unless_the_call_is_late(
    world: World, decided: timedelta, is_late: bool
) -> None:
    takeovers = Takeovers(world, broken)
    takeovers.holders[FENCE] = Holder(world, wants=False)
    world.go_away(SimulatedOutage(90.0, 99.9))
    was = Cell(SLOT.cell, 3, encode(RUNS), SLOT.at, Mark.OPEN, FENCE, WORLD_START)
    taken = TAKEN._replace(started=world.right_now() - decided)
    if is_late:
        takeovers.saw(was, taken)
        return
    with pytest.raises(Broken, match="after an outage holders are heard"):
        takeovers.saw(was, taken)


@pytest.mark.parametrize("new", [RUNS, RUNS._replace(state=State.RETRYING)])
def test_what_its_holder_says_itself_is_no_takeover(world: World, new: Record) -> None:
    takeovers = Takeovers(world, broken)
    takeovers.holders[FENCE] = Holder(world)
    takeovers.saw(Cell(SLOT.cell, 3, encode(RUNS), SLOT.at, Mark.OPEN, FENCE, WORLD_START), new)


def left_by_the_dead(world: World) -> Takeovers:
    """A run whose lease has passed, of a holder that is gone."""
    takeovers = Takeovers(world, broken)
    seen = world.store.load([]).epoch.seen
    world.store.swap([Write(SLOT.cell, 0, encode(RUNS), Mark.OPEN, at=SLOT.at, grant=True, ttl=LEASE)], seen)
    (cell,) = world.store.open_runs()
    assert cell.fence is not None
    takeovers.holders[cell.fence] = Holder(world, wants=False)
    takeovers.look([watcher(world)], 60.0)  # its lease is live
    world.real += 9.0
    return takeovers


def watcher(world: World) -> Holder:
    other = Holder(world)
    other.ledger.know.even = lambda *_: LEASE  # type: ignore[method-assign]
    return other


def test_a_dead_holder_is_taken_over_within_the_hearing_and_some_seconds(world: World) -> None:
    takeovers, other = left_by_the_dead(world), watcher(world)
    takeovers.look([other], 2.0 + TAKEN_OVER_WITHIN)
    with pytest.raises(Broken, match="the dead are taken over soon"):
        takeovers.look([other], 0.1)


def test_who_was_out_of_contact_has_as_long_again_to_find_it(world: World) -> None:
    """It hung in a call, or did not reach the store."""
    takeovers, other = left_by_the_dead(world), watcher(world)
    takeovers.look([other], 2.0 + TAKEN_OVER_WITHIN)
    other.able = world.real
    world.real += ABLE + PIECE + TAKEN_OVER_WITHIN - 0.1
    takeovers.look([other], 60.0)
    world.real += 0.2
    with pytest.raises(Broken, match="the dead are taken over soon"):
        takeovers.look([other], 0.1)


def test_who_doubts_the_clock_takes_nobody_over(world: World) -> None:
    """It has begun in the leap, and knows no other clock: to it this one runs evenly."""
    takeovers, other = left_by_the_dead(world), watcher(world)
    boot = other.process.boot()
    epoch = world.store.load([]).epoch
    other.ledger.know.learn(Timed(Loaded(world.store_now() + timedelta(hours=1), epoch, []), boot, boot))
    assert other.ledger.know.doubt is not None
    takeovers.look([other], 60.0)
    other.ledger.know.believe()
    takeovers.look([other], 2.0 + TAKEN_OVER_WITHIN)
    with pytest.raises(Broken, match="the dead are taken over soon"):
        takeovers.look([other], 0.1)


@pytest.mark.parametrize(("nudge", "is_even"), [(0.7, True), (0.78, False)])
def test_who_may_get_no_reading_that_proves_the_clock_even_is_not_late(
    world: World, nudge: float, is_even: bool
) -> None:
    """Of a lease of 8 s the tolerance is 0.8 s. The readings so far bound the clock to 5 ms on each side, and the next
    may bound it to only 20 ms: then a nudge of 0.78 s is more than that."""
    world.store_rate = 1.0
    takeovers, other = left_by_the_dead(world), Holder(world)
    other.process.machine.rate = 1.0
    for number in range(20):
        world.store_offset += nudge if number == 12 else 0.0
        boot, epoch = other.process.boot(), world.store.load([]).epoch
        other.ledger.know.learn(Timed(Loaded(world.store_now(), epoch, []), boot - 0.005, boot + 0.005))
        world.real += 0.6
    if not is_even:
        takeovers.look([other], 60.0)
        return
    with pytest.raises(Broken, match="the dead are taken over soon"):
        takeovers.look([other], 60.0)
