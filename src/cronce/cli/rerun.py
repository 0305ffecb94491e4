"""cronce rerun: run a closed slot once more."""

import argparse

from cronce.cli.acting import acting, add_act, add_wait, asked
from cronce.runtime.look import slot_named

EXAMPLES = """
Prints the key of the new run. Its effects go by the slot's key, so that what was done before is not done again; with
--fresh they are all done anew. While a rerun of the slot is open, asking again is asking once.

examples:
  cronce rerun billing@2026-03-29T01:00:00Z
  cronce rerun billing@2026-03-29T01:00:00Z --fresh --wait
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("slot", metavar="SLOT", help="a slot such as billing@2026-03-29T01:00:00Z")
    parser.add_argument("--fresh", action="store_true", help="do its effects again, by a key of their own")
    add_wait(parser)
    add_act(parser, reason=False)
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    slot = slot_named(options.slot)
    with acting(options) as actor:
        return asked(actor, actor.desk.do(actor.hand.rerun(slot, fresh=options.fresh)), options)
