"""cronce cancel: stop a run, or close what waits to be run."""

import argparse
import json

from cronce.cli.acting import acting, add_act
from cronce.protocol.commands import Asked, Closed
from cronce.runtime.look import slot_named
from cronce.telling.documents import cancelled_document
from cronce.telling.words import safe

EXAMPLES = """
A run is asked to stop: its holder learns so within seconds, stops it as far as it can be stopped, and does not try it
again. What is due, waiting or retrying is closed as skipped. What is closed stays as it is.

examples:
  cronce cancel billing@2026-03-29T01:00:00Z --reason 'wrong month'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("slot", nargs="+", metavar="SLOT", help="a slot such as billing@2026-03-29T01:00:00Z")
    add_act(parser)
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    slots = [slot_named(text) for text in options.slot]
    with acting(options) as actor:
        done = {slot.key: actor.desk.do(actor.hand.cancel(slot, options.reason)) for slot in slots}
    if options.json:
        print(json.dumps({"slots": [{"slot": key, **cancelled_document(reply)} for key, reply in done.items()]}))
    else:
        print("\n".join(safe(f"{key} {_told(reply)}") for key, reply in done.items()))
    return 0


def _told(reply: Asked | Closed) -> str:
    if isinstance(reply, Asked):
        return "runs; its holder is asked to stop"
    return f"is closed: {reply.outcome}{f', {reply.reason}' if reply.reason else ''}"
