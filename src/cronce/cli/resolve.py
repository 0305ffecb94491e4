"""cronce resolve: a person's word on a slot that failed, was lost or is unknown."""

import argparse
import json

from cronce.cli.acting import acting, add_act
from cronce.protocol.commands import Queued
from cronce.runtime.look import slot_named

EXAMPLES = """
done: somebody made sure of its work, and it counts as succeeded. retry: the slot itself is due again, with all its
attempts.

examples:
  cronce resolve billing@2026-03-29T01:00:00Z done --reason 'all 42 invoices are there'
  cronce resolve billing@2026-03-29T01:00:00Z retry
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("slot", metavar="SLOT", help="a slot such as billing@2026-03-29T01:00:00Z")
    parser.add_argument("verdict", choices=("done", "retry"), help="it is done, or shall be tried again")
    add_act(parser)
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    slot = slot_named(options.slot)
    with acting(options) as actor:
        reply = actor.desk.do(actor.hand.resolve(slot, options.verdict, options.reason))
    outcome = None if isinstance(reply, Queued) else reply.outcome
    if options.json:
        print(json.dumps({"slot": slot.key, "due": outcome is None, "outcome": outcome}))
    else:
        print(f"{slot.key} counts as {outcome}" if outcome else f"{slot.key} is due again")
    return 0
