"""cronce pause: grant no slot of a job, or of any, until it is resumed."""

import argparse
import json

from cronce.cli.acting import Actor, acting, add_act
from cronce.errors import BadInput
from cronce.runtime.hand.acts import Stands
from cronce.runtime.look import runs
from cronce.telling.documents import paused_document
from cronce.telling.words import by_whom, safe

SHOWN = 5
EXAMPLES = """
What runs goes on: `cronce cancel SLOT` stops it. What falls due meanwhile does not run when the job is resumed.

examples:
  cronce pause order-sync --reason 'the shop is being moved'
  cronce pause --all                                            the kill switch
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_jobs(parser)
    add_act(parser)
    parser.epilog = EXAMPLES


def add_jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", nargs="*", metavar="JOB", help="these jobs")
    parser.add_argument("--all", action="store_true", help="everything, whatever its name")


def jobs_meant(options: argparse.Namespace) -> list[str]:
    """The jobs that are named, or none for all of them."""
    if bool(options.job) == options.all:
        raise BadInput("name the jobs that are meant, or say --all")
    named: list[str] = options.job
    return named


def run(options: argparse.Namespace) -> int:
    names = jobs_meant(options)
    with acting(options) as actor:
        for name in names:  # all of them, before anything is done to one
            actor.desk.do(actor.hand.job(name))
        done = {name: actor.desk.do(actor.hand.pause(name, options.reason)) for name in names}
        everything = actor.desk.do(actor.hand.pause_all(options.reason)) if options.all else None
        if options.json:
            told = [{"job": name, **paused_document(one)} for name, one in done.items()]
            print(json.dumps({"jobs": told, "all": paused_document(everything) if everything else None}))
        else:
            acts = {None: everything} if everything else done
            print("\n".join(safe(line) for name, one in acts.items() for line in _told(name, one, actor)))
    return 0


def _told(name: str | None, stands: Stands, actor: Actor) -> list[str]:
    """That it is paused, and what runs of it all the same."""
    whom = name or "everything"
    if not stands.new:
        return [f"{whom} was paused before, {by_whom(stands.act)}"]
    running = [one.slot.key for one in actor.desk.do(runs(name, "running", SHOWN))]
    return [
        f"{whom} is paused {by_whom(stands.act)}",
        *(f"  {key} goes on; `cronce cancel {key}` stops it" for key in running),
    ]
