"""cronce edit: change a job that lives in the store."""

import argparse
from typing import Final

from cronce.cli import definition
from cronce.errors import BadInput
from cronce.runtime.stored.definitions import edit

EXAMPLES: Final = """
What is not said stays. A new schedule never fires for the past. Whatever kind of schedule or body is said replaces the
one that was there. --unset goes back to a default.

examples:
  cronce edit mail --schedule '0 * * * *' --tz Europe/Berlin
  cronce edit sync --unset timeout -- ./scripts/sync.sh --some
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "cronce edit NAME [options] [-- COMMAND [argument ...]]"
    parser.add_argument("name", metavar="NAME", help="the job's name")
    parser.add_argument("--schedule", metavar="SCHEDULE", help="another schedule")
    definition.add_arguments(parser)
    parser.add_argument(
        "--unset",
        action="append",
        default=[],
        type=lambda word: word.replace("-", "_"),
        choices=definition.WORDS,
        metavar="OPTION",
        help="leave this to its default, as in --unset timeout",
    )
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    changes = {**dict.fromkeys(options.unset), **definition.given(options)}
    if not changes:
        raise BadInput(f"what shall change? As in: cronce edit {options.name} --schedule '0 * * * *'")
    return definition.changed(options, lambda hand: edit(hand, options.name, changes), "changed", "as it was")
