"""People in a simulated world: they decide what is in doubt, and want slots to be run once more."""

from contextlib import suppress

from cronce.errors import StoreUnavailable
from cronce.model import Mark, slot_of_cell
from cronce.protocol.commands import Queue, Resolve
from cronce.protocol.record import decode, effects_key
from cronce.runtime.operations import Operator
from cronce.stores.base import Scan
from cronce.testing.actors import SimulatedNode
from cronce.testing.receivers import EffectGuard
from cronce.testing.simulated_effects import DONE_TO_THINGS
from cronce.testing.world import Play, Thread

REPEATABLE = (EffectGuard.KEY, EffectGuard.STEP, EffectGuard.THING, EffectGuard.JOINED)
"""What goes by a key may be run again; the rest would just be repeated."""

SAFE_AFTER_FORGETTING = (EffectGuard.KEY, EffectGuard.STEP, EffectGuard.JOINED)
"""Also when the store has forgotten what was done: the other side has not; or a step of before is in doubt."""


def by_hand(node: SimulatedNode) -> Thread:
    """A person checks what is in doubt, then requests another run of a slot: of one that is running, if there is
    one."""
    with suppress(StoreUnavailable):
        yield from _resolve(node)
        yield from _run_again(node)


def _resolve(node: SimulatedNode) -> Play[None]:
    page = yield from node.ledger.client.scan(Scan("effect/", mark=Mark.ATTENTION, limit=5))
    for cell in page.cells:
        job, at, number = cell.key.removeprefix("effect/").split("/")
        verdict = node.referee.receivers.look_up(f"{job}@{at}/{number}")
        node.world.fault("resolved", f"{cell.key} {verdict}")
        yield from node.ledger.resolve_effects([cell.key], Resolve(verdict, "by ann"))
    for what in DONE_TO_THINGS if node.of_things else ():
        page = yield from node.ledger.client.scan(Scan(f"once/{what}/", mark=Mark.ATTENTION, limit=5))
        for cell in page.cells:
            verdict = node.referee.receivers.look_up(cell.key.removeprefix("once/"), EffectGuard.THING)
            node.world.fault("resolved", f"{cell.key} {verdict}")
            yield from node.ledger.resolve_effects([cell.key], Resolve(verdict, "by ann"))


def _run_again(node: SimulatedNode) -> Play[None]:
    page = yield from node.ledger.client.scan(Scan("run/", limit=50, newest_first=True))
    ways = SAFE_AFTER_FORGETTING if node.referee.forgot else REPEATABLE
    cells = [cell for cell in page.cells if node.plan_of(cell).habit.way in ways]
    if not cells:
        return
    cell = node.world.random.choice([cell for cell in cells if cell.mark is Mark.OPEN] or cells)
    slot = slot_of_cell(cell.key)
    key = effects_key(decode(cell.value), slot)
    node.world.fault("by hand", key)
    asked = slot._replace(request=f"t-{node.nonce()}")
    yield from Operator(node.ledger, "ann").ask_for(asked, Queue(by="ann", key=key))
