"""Wrong versions of effects, each with one safeguard taken away. They are caught like the others (`mutants`)."""

from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from cronce.model import Cell, Fence, Instant, Mark, Write
from cronce.protocol import table
from cronce.protocol.commands import Claim, Command, Resolve
from cronce.protocol.notices import encode_notice
from cronce.protocol.record import Outcome, Record
from cronce.protocol.table import TABLE, Row
from cronce.protocol.view import View
from cronce.runtime.effects import once, steps
from cronce.runtime.ledger import Begin, Begun, Ledger
from cronce.runtime.loop import Question
from cronce.runtime.steps import BodyStep
from cronce.runtime.transactions import fencing, transaction
from cronce.runtime.transactions.connection import POSTGRESQL
from cronce.testing import actors, database
from cronce.testing.database import ModelDatabase
from cronce.testing.receivers import EffectGuard, Receivers
from cronce.testing.simulated_effects import RunEffects
from cronce.testing.world import Play

BEGIN_QUESTION = Ledger._begin_question


def _begun_with(**changes: Any) -> Any:
    """Steps are begun by another claim."""

    def begin_question(self: Ledger, begin: Begin) -> Question:
        question = BEGIN_QUESTION(self, begin)
        assert isinstance(question.command, Claim)
        question.command = question.command._replace(**changes)
        return question

    return patch.object(Ledger, "_begin_question", begin_question)


# --- by key ---


def begun_is_done_again() -> Any:
    return _begun_with(on_lost="rerun")


def done_before_it_is_begun() -> Any:
    right = once.once

    def wrong(effect: once.Effect, how: once.EffectPolicy, under: once.EffectLease) -> Any:
        under.hold = lambda *_: None  # type: ignore[method-assign]
        result = yield BodyStep(effect.work)
        return (yield from right(effect._replace(work=lambda: _returned(result)), how, under))

    return patch.object(steps, "once", wrong)


def _returned(result: Any) -> Play[Any]:
    yield from ()
    return result


def begun_after_its_lease() -> Any:
    return _begun_with(lands_by=None)


def forgotten_is_not_done() -> Any:
    """After the store forgot, a step of a slot from before is taken not to have been done."""
    right = TABLE[Row.BELOW][Claim]

    def claim(view: View, command: Claim) -> Any:
        return (table.grant if command.under else right)(view, command)

    wrong = {**TABLE, Row.BELOW: {**TABLE[Row.BELOW], Claim: claim}}
    return patch.object(table, "TABLE", wrong)


def every_failure_is_none() -> Any:
    """An exception is taken to mean that nothing happened."""
    return patch.object(once.EffectPolicy, "not_done", property(lambda _self: (Exception,)))


def a_key_for_each_run() -> Any:
    def target(self: RunEffects, number: int) -> steps.Target:
        right = steps.of_slot(self.key, number)
        return right._replace(name=f"{right.name}/{self.fence}")

    return patch.object(RunEffects, "_target", target)


def retry_what_another_does() -> Any:
    return patch.object(once, "whereabouts", lambda *_: "over")


# --- on a thing ---


def a_thing_for_each_slot() -> Any:
    """What is done to a thing belongs to the slot that did it."""
    right = steps.of_thing

    def target(self: RunEffects, number: int) -> steps.Target:
        if self.habit.way is not EffectGuard.THING:
            return steps.of_slot(self.key, number)
        what, thing = self._item(number).split("/")
        return right(f"{thing}:{self.key}", what)

    return patch.object(RunEffects, "_target", target)


def an_effect_is_known_by_its_thing_alone() -> Any:
    """Two effects on one thing are taken for one."""
    right = RunEffects._target

    def target(self: RunEffects, number: int) -> steps.Target:
        found = right(self, number)
        return found._replace(cell=found.cell.replace("once/letter/", "once/charge/"))

    return patch.object(RunEffects, "_target", target)


def the_next_slot_ignores_the_doubt() -> Any:
    """What another run left in doubt is done again."""
    right = once._settled

    def settled(ledger: Ledger, begins: Any, begun: Any, unsure: Any) -> Any:
        found = yield from right(ledger, begins, begun, unsure)
        places = [
            place for place, one in enumerate(found) if once._is_doubtful(one) and _of_another(begins[place], one)
        ]
        if not places:
            return found
        keys = [begins[place].key for place in places]
        yield from ledger.resolve_effects(keys, Resolve("retry", "by the next slot"))
        _, again = yield from ledger.exchange_effects((), [begins[place] for place in places])
        return once._put(found, places, again)

    return patch.object(once, "_settled", settled)


def _of_another(begin: Begin, begun: Begun) -> bool:
    maker = begun.record.under if begun.record else None
    return maker is not None and begin.under is not None and maker.run != begin.under.key


# --- for a while ---


def unknown_expires() -> Any:
    def expired(cell: Cell, record: Record, now: Instant) -> bool:
        return record.keep is not None and cell.until is not None and now >= cell.until

    return patch.object(table, "is_expired", expired)


def kept_from_the_beginning() -> Any:
    """The time for which it is known that it was done counts from when it was begun."""
    closing = table._closing

    def wrong(view: View, record: Record, outcome: Outcome, reason: str) -> Any:
        change = closing(view, record, outcome, reason)
        if record.keep is None or record.started is None:
            return change
        left = max(record.started + record.keep - view.now, timedelta(0))
        return change._replace(ttl=left)

    return patch.object(table, "_closing", wrong)


# --- the cursor, and receivers that know fences ---


def a_cursor_for_everybody() -> Any:
    moved = steps._moved

    def wrong(carrier: Any, key: str, to: Any, until: Instant | None = None) -> Any:
        def make(cell: Cell, _now: Instant) -> tuple[bool, Write | None]:
            return True, Write(key, cell.version, encode_notice(to), Mark.OPEN)

        if until is None:
            return (yield from moved(carrier, key, to, until))
        return (yield from carrier.rewrite(key, make))

    return patch.object(steps, "_moved", wrong)


class _Lowest(dict[str, Fence]):
    def get(self, _key: str, default: Any = None) -> Any:
        return default


def no_fence_at_the_receiver() -> Any:
    init = Receivers.__init__

    def wrong(self: Receivers, *rest: Any) -> None:
        init(self, *rest)
        self.highest = _Lowest()

    return patch.object(Receivers, "__init__", wrong)


# --- by joined transaction ---


def the_fence_is_read_and_not_locked() -> Any:
    return patch.object(database, "POSTGRESQL", POSTGRESQL._replace(for_update=""))


def no_check_before_the_commit() -> Any:
    return patch.object(fencing, "verdict", lambda *_: None)


def no_raise_before_the_body() -> Any:
    """The fence is raised with the check, at the end of the transaction."""
    right = fencing.close_joint

    def late(driver: Any, key: str, fence: Fence, committed: fencing.Committed) -> Any:
        yield from driver.ask(driver.dialect.higher, slot=key, fence=str(fence))
        yield from right(driver, key, fence, committed)

    def done_before(self: ModelDatabase, key: str, _fence: Fence) -> Play[bool]:
        return (yield from self.look(key)).done

    both = ExitStack()
    both.enter_context(patch.object(transaction, "close_joint", late))
    both.enter_context(patch.object(transaction, "verdict", lambda *_: None))
    both.enter_context(patch.object(ModelDatabase, "raise_fence", done_before))
    return both


def no_seal() -> Any:
    def sealed(_self: Any, *_rest: Any) -> Play[Any]:
        yield from ()
        return {}

    return patch.object(actors.SimulatedNode, "_sealed", sealed)


def failed_without_asking() -> Any:
    """A run whose commit got no answer is taken to have failed."""

    def sealed(self: RunEffects) -> Play[bool]:
        yield from ()
        return self.committed

    return patch.object(RunEffects, "sealed", sealed)


def closed_without_asking() -> Any:
    """A process that finds a run whose holder is gone closes it, though it may be committed."""

    def lose(view: View, _command: Command) -> Any:
        return table._close(view, view.stands, Outcome.LOST, "its holder did not renew its lease")

    return patch.object(table, "lose", lose)


EFFECT_MUTANTS = {
    "a step begun by a run that is over is done again": begun_is_done_again,
    "done before it is begun": done_before_it_is_begun,
    "a step begun after its run's lease": begun_after_its_lease,
    "a step that the store forgot is done again": forgotten_is_not_done,
    "an exception means that nothing happened": every_failure_is_none,
    "a key for each run": a_key_for_each_run,
    "what another still does is done again": retry_what_another_does,
    "a thing for each slot": a_thing_for_each_slot,
    "an effect is known by its thing alone": an_effect_is_known_by_its_thing_alone,
    "the next slot ignores the doubt": the_next_slot_ignores_the_doubt,
    "unknown expires": unknown_expires,
    "known from when it was begun": kept_from_the_beginning,
    "one cursor for all jobs": a_cursor_for_everybody,
    "no fence at the receiver": no_fence_at_the_receiver,
    "a fence that is read and not locked": the_fence_is_read_and_not_locked,
    "no check before the commit": no_check_before_the_commit,
    "no raise before the body": no_raise_before_the_body,
    "no seal": no_seal,
    "a failed run is not asked for its commit": failed_without_asking,
    "a lapsed run is not asked for its commit": closed_without_asking,
}
