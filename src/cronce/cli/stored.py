"""cronce jobs add, edit and remove: the jobs that live in the store, described by the options of `Cronce.job`."""

import argparse
from collections.abc import Callable
from typing import Any, Final

from cronce.cli import Arguments, add_arguments
from cronce.cli.exec import JOB_POLICIES
from cronce.cli.session import BY_ARGUMENT, STORE_AND_JSON, acting, read_option
from cronce.cli.terminal import show
from cronce.errors import BadInput
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
    schedule = "'*/15 * * * *', 'every 15m' or 'at 2026-…'; or give --every"
    add_arguments(parser, {"NAME": "the job's name", "[SCHEDULE]": schedule})
    _add_definition(parser)


def run_add(options: argparse.Namespace) -> None:
    words, as_it_was = _given(options), "in the store already; nothing to change"
    # to add a job may be the first that is done to a store
    _changed(options, lambda operator: add(operator, options.name, words), "added", as_it_was, make=True)


def add_edit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} JOB [options] [-- COMMAND [argument ...]]"
    add_arguments(parser, {"name: JOB": "the job's name", "--schedule SCHEDULE": "another schedule"})
    _add_definition(parser)
    unset: Arguments = {"--unset OPTION": ([], "set this option back to its default, as in --unset timeout")}
    add_arguments(parser, unset, type=lambda word: word.replace("-", "_"), choices=DEFINITION_WORDS)


def run_edit(options: argparse.Namespace) -> None:
    changes = {**dict.fromkeys(options.unset), **_given(options)}
    if not changes:
        raise BadInput(f"nothing to change was given; try: cronce jobs edit {options.name} --schedule '0 * * * *'")
    _changed(options, lambda operator: edit(operator, options.name, changes), "changed", "as it was")


REMOVE_ARGUMENTS: Final = {"name: JOB": "the job's name", **BY_ARGUMENT, **STORE_AND_JSON}


def run_remove(options: argparse.Namespace) -> None:
    _changed(options, lambda operator: remove(operator, options.name), "removed", "")


# --- a definition -----------------------------------------------------------------------------------------------------


WHEN_AND_WHAT: Final = {
    "--every SPAN": "instead of a cron expression: 15m, 2h, 1d",
    "--at INSTANT": "once, at this instant",
    "--start INSTANT": "run no slot before this instant",
    "--end INSTANT": "run no slot after this instant",
    "--function MODULE:NAME": "an importable function that --allow of the processes covers",
}
OF_SCHEDULERS: Final = {
    "--missed {skip,latest,all}": "what to do with slots that fell due while no scheduler ran: skip, latest, all",
    "--turns N": "how many runs may be in progress at the same time (default: 1)",
}


def _add_definition(parser: argparse.ArgumentParser) -> None:
    """All but the schedule, which is an argument of one and an option of the other."""
    add_arguments(parser, WHEN_AND_WHAT)
    isolate = "run the function in a process of its own"
    parser.add_argument("--isolate", action=argparse.BooleanOptionalAction, help=isolate)
    payload = {"--payload JSON": "the payload of each run"}
    add_arguments(parser, {**payload, **JOB_POLICIES, **OF_SCHEDULERS, **BY_ARGUMENT, **STORE_AND_JSON})
    parser.set_defaults(**dict.fromkeys(DEFINITION_WORDS))  # what is not said is left to the job


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
