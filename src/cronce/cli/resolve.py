"""cronce resolve: a person's word on a slot that failed, was lost or is unknown, or on an effect that is in doubt."""

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from cronce.cli.acting import Actor, acting, add_act, read_json
from cronce.errors import BadInput, CronceError
from cronce.model import Slot, effect_cells
from cronce.protocol.commands import Queued
from cronce.protocol.record import Outcome, effects_key
from cronce.runtime.effects.seen import EffectSeen, doubts, effect_named, names_effect
from cronce.runtime.hand.effects import Unwatched, resolve_effect
from cronce.runtime.look import slot_named
from cronce.runtime.notes import recall_clock
from cronce.telling.documents import effect_document
from cronce.telling.doubts import tell_doubts
from cronce.telling.words import safe

if TYPE_CHECKING:
    from cronce.runtime.hand.acts import Verdict

WATCH: Final = 0.5
"""Seconds between two looks at the store's clock."""

EXAMPLES = """
A slot. done: somebody made sure of its work, and it counts as succeeded. retry: the slot itself is due again, with all
its attempts.

An effect that is in doubt (`cronce effects`). done: it happened, and whoever repeats it gets the result. retry: it did
not, and may be begun again. A slot that it stopped goes on with `cronce rerun`.

examples:
  cronce resolve billing@2026-03-29T01:00:00Z done --reason 'all 42 invoices are there'
  cronce resolve billing@2026-03-29T01:00:00Z retry
  cronce resolve billing@2026-03-29T01:00:00Z/charge:7 done --result '{"id": "ch_1"}'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "such as billing@2026-03-29T01:00:00Z, or with /charge:7 for a step of it"
    parser.add_argument("what", metavar="SLOT|EFFECT", help=what)
    parser.add_argument("verdict", choices=("done", "retry"), help="it is done, or shall be tried again")
    parser.add_argument("--result", metavar="JSON", help="what came of an effect that is done (default null)")
    add_act(parser)
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    return _resolve_effect(options) if names_effect(options.what) else _resolve_slot(options)


# --- a slot -----------------------------------------------------------------------------------------------------------


def _resolve_slot(options: argparse.Namespace) -> int:
    slot = slot_named(options.what)
    if options.result is not None:
        raise BadInput("only an effect has a result, such as a step: billing@2026-03-29T01:00:00Z/charge:7")
    with acting(options) as actor:
        reply = actor.desk.do(actor.hand.resolve(slot, options.verdict, options.reason))
        _warn(actor, slot, options.verdict)
    outcome = None if isinstance(reply, Queued) else reply.outcome
    if options.json:
        print(json.dumps({"slot": slot.key, "due": outcome is None, "outcome": outcome}))
    else:
        print(f"{slot.key} counts as {outcome}" if outcome else f"{slot.key} is due again")
    return 0


def _warn(actor: Actor, slot: Slot, verdict: "Verdict") -> None:
    """What is in doubt of its effects stays so."""
    (run,) = actor.desk.do(actor.hand.look([slot]))
    survey = actor.desk.do(doubts(effect_cells(effects_key(run and run.record, slot))))
    if survey.doubtful:
        then = ", and will stop it again unless you say more" if verdict == "retry" else ""
        print(f"cronce resolve: some of its effects are in doubt{then}:", file=sys.stderr)
        print("\n".join(f"  {line}" for line in tell_doubts(survey)), file=sys.stderr)


# --- an effect --------------------------------------------------------------------------------------------------------


def _resolve_effect(options: argparse.Namespace) -> int:
    result = None if options.result is None else read_json("--result", options.result)
    with acting(options) as actor:
        seen = _resolved(actor, options, result)
        stopped = _stopped(actor, effect_named(options.what).slot)
    if options.json:
        print(json.dumps({**effect_document(seen), "rerun": stopped}))
        return 0
    said = "counts as done" if options.verdict == "done" else "may be begun again"
    then = f"; `cronce rerun {stopped}` goes on with its slot" if stopped else ""
    print(safe(f"{seen.name} {said}{then}"))
    return 0


def _resolved(actor: Actor, options: argparse.Namespace, result: Any) -> EffectSeen:
    """While it is not sure that whoever was at it is gone, watch the store's clock: for as long as a lease, if that
    clock runs evenly."""
    actor.desk.do(recall_clock(actor.hand.ledger))
    patience = None
    while True:
        answer = actor.desk.do(resolve_effect(actor.hand, options.what, options.verdict, options.reason, result))
        if not isinstance(answer, Unwatched):
            return answer
        now = actor.desk.clock.boot()
        if patience is None:
            print(safe(f"cronce resolve: {answer}"), file=sys.stderr, flush=True)
            patience = now + 2 * answer.lease.total_seconds()
        if now > patience:
            raise CronceError(f"{answer}, and it did not run evenly; `cronce doctor` checks the clocks")
        time.sleep(WATCH)


def _stopped(actor: Actor, slot: Slot | None) -> str | None:
    """The slot of a step, if that is closed and did not succeed: it goes on when it is run again."""
    (run,) = actor.desk.do(actor.hand.look([slot])) if slot else (None,)
    ended = run.record.outcome if run and run.record else None
    return slot.key if slot and ended in (Outcome.FAILED, Outcome.LOST, Outcome.UNKNOWN) else None
