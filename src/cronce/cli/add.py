"""cronce add: keep a job in the store."""

import argparse
from typing import Final

from cronce.cli import definition
from cronce.runtime.stored.definitions import add

EXAMPLES: Final = """
The processes that were started with an --allow that covers it run the job from now on: they notice within two seconds.
To add the same again changes nothing; `cronce edit` changes a job, `cronce remove` ends it.

examples:
  cronce add mail '*/15 * * * *' --function myapp.tasks:mail --on-lost rerun
  cronce add sync --every 2h --timeout 10m -- ./scripts/sync.sh --all
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "cronce add NAME 'SCHEDULE' [options] (--function MODULE:NAME | -- COMMAND [argument ...])"
    parser.add_argument("name", metavar="NAME", help="the job's name")
    parser.add_argument(
        "schedule", nargs="?", metavar="SCHEDULE", help="'*/15 * * * *', 'every 15m' or 'at 2026-…'; or say --every"
    )
    definition.add_arguments(parser)
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    words = definition.given(options)
    as_it_was = "there already, as it should be"
    # to add a job may be the first that is done to a store
    return definition.changed(options, lambda hand: add(hand, options.name, words), "added", as_it_was, make=True)
