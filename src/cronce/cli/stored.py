"""cronce jobs add, edit and remove: the jobs that live in the store, described by the options of `Cronce.job`."""

import argparse
from collections.abc import Callable
from typing import Any, Final, get_args

from cronce.cli import add_options
from cronce.cli.exec import add_job_policies
from cronce.cli.session import acting, add_act, read_option
from cronce.cli.terminal import show
from cronce.errors import BadInput
from cronce.policy import Missed
from cronce.protocol.notices import Stored
from cronce.runtime.flow import Flow
from cronce.runtime.operations import Operator
from cronce.runtime.stored_jobs import add, edit, remove

DEFINITION_WORDS: Final = (
    "schedule", "every", "at", "start", "end", "tz", "gap", "fold", "missed", "on_lost", "overlap", "turns",
    "start_within", "jitter", "retries", "backoff", "timeout", "lease", "keep", "function", "isolate", "payload",
)  # fmt: skip

ADD_EPILOG: Final = """
Processes whose --allow covers the job run it from now on; they notice it within two seconds. Adding the same job again
changes nothing; `cronce jobs edit` changes a job, `cronce jobs remove` removes it.

examples:
  cronce jobs add mail '*/15 * * * *' --function myapp.tasks:mail --on-lost rerun
  cronce jobs add sync --every 2h --timeout 10m -- ./scripts/sync.sh --all
"""
EDIT_EPILOG: Final = """
Options that are left out do not change. A new schedule does not run slots of the past. A new kind of schedule, function
or command replaces the old one. --unset sets an option back to its default.

examples:
  cronce jobs edit mail --schedule '0 * * * *' --tz Europe/Berlin
  cronce jobs edit sync --unset timeout -- ./scripts/sync.sh --some
"""
REMOVE_EPILOG: Final = """
The job's slots no longer run. A run in progress is not stopped (`cronce cancel` does that). Its history stays, and so
does the record of who removed it and when. To stop it for a while, use `cronce pause`.
"""


def add_add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} NAME 'SCHEDULE' [options] (--function MODULE:NAME | -- COMMAND [argument ...])"
    parser.add_argument("name", metavar="NAME", help="the job's name")
    schedule = "'*/15 * * * *', 'every 15m' or 'at 2026-…'; or give --every"
    parser.add_argument("schedule", nargs="?", metavar="SCHEDULE", help=schedule)
    _add_definition(parser)


def run_add(options: argparse.Namespace) -> None:
    words, as_it_was = _given(options), "in the store already; nothing to change"
    # to add a job may be the first that is done to a store
    _changed(options, lambda operator: add(operator, options.name, words), "added", as_it_was, make=True)


def add_edit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} JOB [options] [-- COMMAND [argument ...]]"
    parser.add_argument("name", metavar="JOB", help="the job's name")
    parser.add_argument("--schedule", metavar="SCHEDULE", help="another schedule")
    _add_definition(parser)
    parser.add_argument(
        "--unset",
        action="append",
        default=[],
        type=lambda word: word.replace("-", "_"),
        choices=DEFINITION_WORDS,
        metavar="OPTION",
        help="set this option back to its default, as in --unset timeout",
    )


def run_edit(options: argparse.Namespace) -> None:
    changes = {**dict.fromkeys(options.unset), **_given(options)}
    if not changes:
        raise BadInput(f"nothing to change was given; try: cronce jobs edit {options.name} --schedule '0 * * * *'")
    _changed(options, lambda operator: edit(operator, options.name, changes), "changed", "as it was")


def add_remove_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="JOB", help="the job's name")
    add_act(parser, reason=False)


def run_remove(options: argparse.Namespace) -> None:
    _changed(options, lambda operator: remove(operator, options.name), "removed", "")


# --- a definition -----------------------------------------------------------------------------------------------------


def _add_definition(parser: argparse.ArgumentParser) -> None:
    """All but the schedule, which is an argument of one and an option of the other."""
    add = parser.add_argument
    when = {
        "--every SPAN": "instead of a cron expression: 15m, 2h, 1d",
        "--at INSTANT": "once, at this instant",
        "--start INSTANT": "run no slot before this instant",
        "--end INSTANT": "run no slot after this instant",
        "--function MODULE:NAME": "an importable function that --allow of the processes covers",
    }
    add_options(parser, when)
    add("--isolate", action=argparse.BooleanOptionalAction, help="run the function in a process of its own")
    add("--payload", metavar="JSON", help="the payload of each run")
    add_job_policies(parser)
    missed = "what to do with slots that fell due while no scheduler ran: skip, latest, all"
    add("--missed", choices=get_args(Missed), help=missed)
    add("--turns", type=int, metavar="N", help="how many runs may be in progress at the same time (default: 1)")
    parser.set_defaults(**dict.fromkeys(DEFINITION_WORDS))  # what is not said is left to the job
    add_act(parser, reason=False)


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """What was said of the job."""
    words = {word: value for word in DEFINITION_WORDS if (value := getattr(options, word)) is not None}
    if "payload" in words:
        words["payload"] = read_option("--payload", words["payload"])
    return {**words, "command": list(options.command)} if options.command else words


def _changed(
    options: argparse.Namespace,
    change: Callable[[Operator], Flow[Stored | None]],
    done: str,
    as_it_was: str,
    *,
    make: bool = False,
) -> None:
    """Change what the store has of the job, and say what came of it."""
    with acting(options, make=make) as actor:
        stored = actor.node.do(change(actor.operator))
    document = {"job": options.name, "changed": bool(stored), "revision": stored and stored.revision}
    show(options, document, f"{options.name} is {f'{done}, revision {stored.revision}' if stored else as_it_was}")
