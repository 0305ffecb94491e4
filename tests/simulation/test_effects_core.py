"""What the simulator once found in the core of effects, by hand: one history each, without dice."""

from collections.abc import Generator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from cronce.errors import StoreUnavailable
from cronce.model import Mark, Slot, effect_cells
from cronce.protocol.commands import Closed, Finish, Finished, Queue, Unsure
from cronce.protocol.record import Outcome, State, decode
from cronce.protocol.terms import Terms
from cronce.runtime.flow import Flow, Load, Request, Swap, Timed, drive, perform
from cronce.runtime.ledger import Begin, Grant, Ledger, Wanted
from cronce.testing.chaos import DURABLE, FORGETFUL
from cronce.testing.world import WORLD_START, SimulatedProcess, World

LEASE = timedelta(seconds=8)
FIRST, SECOND = Slot("a", WORLD_START + timedelta(seconds=60)), Slot("a", WORLD_START + timedelta(seconds=65))


class Here:
    """A process in a world where nothing goes wrong, unless a test says so."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.process = SimulatedProcess(name, world.machine(name), world)
        self.ledger = Ledger(world.store.traits, self.process, name, self._nonce)

    def _nonce(self) -> str:
        return f"{self.world.random.getrandbits(64):016x}"

    def do(self, flow: Generator[Request, Timed, Any]) -> Any:
        return drive(flow, self.world.store, self.process)

    def claim(self, slot: Slot, terms: Terms) -> Any:
        (answer,) = self.do(self.ledger.claim([Wanted(slot, terms)]))
        return answer

    def look_on(self, until: float) -> None:
        """See the store's clock run evenly, and that the store takes writes, up to then."""
        while self.world.real < until:
            self.world.real += 0.5
            self.do(self.ledger.jobs.learn("a"))
            self.do(self.ledger.client.probe())


def world_at(seconds: float, *, forgets: bool = False) -> World:
    world = World(1, FORGETFUL if forgets else DURABLE)
    world.store_rate, world.real = 1.0, seconds
    return world


def begun(here: Here, grant: Grant, key: str) -> Any:
    begin = Begin(f"{effect_cells(FIRST.key)}{key}", here.ledger.nonce(), under=grant)
    _, (one,) = here.do(here.ledger.exchange_effects((), [begin]))
    return one.answer


def test_a_step_of_a_slot_from_before_the_store_forgot_is_in_doubt() -> None:
    world = world_at(61, forgets=True)
    here = Here(world, "m")
    grant = here.claim(FIRST, Terms(LEASE, outside=True))
    step = begun(here, grant, "mail")
    assert here.do(here.ledger.exchange_effects([(step, Finish(step.fence, Outcome.SUCCEEDED))]))[0] == [
        Finished(Outcome.SUCCEEDED)
    ]
    world.store.empty()
    answer = begun(here, grant, "mail")
    assert isinstance(answer, Closed)
    assert answer.outcome is Outcome.UNKNOWN
    (cell,) = world.store.cells("effect/")
    assert cell.mark is Mark.ATTENTION


@pytest.mark.parametrize("joined", [True, False])
def test_a_run_that_may_be_committed_is_not_closed_by_whoever_asks_it_to_stop(joined: bool) -> None:
    """Its lease ends between when its turn was found taken and when it is asked."""
    world = world_at(61)
    terms = Terms(LEASE, overlap="replace", outside=True, joined=joined)
    gone, other = Here(world, "gone"), Here(world, "other")
    assert isinstance(gone.claim(FIRST, terms), Grant)
    lapses = world.real + LEASE.total_seconds()
    other.look_on(lapses - 0.5)
    asking = other.ledger.claim([Wanted(SECOND, terms)])
    request = next(asking)
    with suppress(StopIteration):
        while True:
            if isinstance(request, Load) and FIRST.cell in request.keys:
                world.real = lapses + 1.0
            began = other.process.boot()
            request = asking.send(Timed(perform(world.store, request), began, other.process.boot()))
    (run,) = [decode(cell.value) for cell in world.store.cells(FIRST.cell)]
    assert (run.state, run.outcome) == ((State.RUNNING, None) if joined else (State.CLOSED, Outcome.LOST))


def test_what_was_asked_for_and_not_answered_before_the_store_forgot_is_not_asked_for_again() -> None:
    """It may have been put on record, and run: whoever asked is told, and asks again if that is wanted."""
    world = world_at(61, forgets=True)
    here = Here(world, "m")
    here.do(here.ledger.jobs.learn("a"))
    asked = here.ledger.put({FIRST._replace(request="again"): Queue(by="ann")})
    request = next(asked)
    while not isinstance(request, Swap):
        request = asked.send(Timed(perform(world.store, request), 0.0, 0.0))
    perform(world.store, request)
    world.store.empty()
    (answer,) = here.do(_without_an_answer(asked))
    assert isinstance(answer, Unsure)
    assert world.store.cells("run/") == []


def _without_an_answer(flow: Flow[Any]) -> Flow[Any]:
    """The rest of a flow whose last request got none."""
    request = flow.throw(StoreUnavailable("the reply was lost"))
    try:
        while True:
            request = flow.send((yield request))
    except StopIteration as end:
        return end.value
