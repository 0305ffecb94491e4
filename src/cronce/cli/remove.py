"""cronce remove: take a job out of the store."""

import argparse
from typing import Final

from cronce.cli import definition
from cronce.cli.acting import add_act
from cronce.runtime.stored.definitions import remove

TEXT: Final = """
No slot of it fires any more; a run that goes on is not stopped (`cronce cancel` does that). Its history stays, and so
does the record of who removed it and when. For a while only, `cronce pause` is enough.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the job's name")
    add_act(parser, reason=False)
    parser.epilog = TEXT


def run(options: argparse.Namespace) -> int:
    return definition.changed(options, lambda hand: remove(hand, options.name), "removed", "")
