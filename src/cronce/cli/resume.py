"""cronce resume: grant slots again."""

import argparse
import json

from cronce.cli.acting import acting, add_act
from cronce.cli.pause import add_jobs, jobs_meant
from cronce.protocol.record import Act
from cronce.telling.documents import resumed_document
from cronce.telling.words import by_whom, safe

EXAMPLES = """
What fell due while it was paused does not run now; `cronce backfill` runs it after all. Under --all, jobs that were
paused one by one stay so.

examples:
  cronce resume order-sync
  cronce resume --all
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_jobs(parser)
    add_act(parser, reason=False)
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    names = jobs_meant(options)
    with acting(options) as actor:
        for name in names:  # all of them, before anything is done to one
            actor.desk.do(actor.hand.job(name))
        done = {name: actor.desk.do(actor.hand.resume(name)) for name in names}
        everything = actor.desk.do(actor.hand.resume_all()) if options.all else None
    if options.json:
        told = [{"job": name, **resumed_document(act)} for name, act in done.items()]
        print(json.dumps({"jobs": told, "all": resumed_document(everything) if options.all else None}))
    else:
        acts = {"everything": everything} if options.all else done
        print("\n".join(safe(_told(name, act)) for name, act in acts.items()))
    return 0


def _told(name: str, act: Act | None) -> str:
    return f"{name} is resumed; it was paused {by_whom(act)}" if act else f"{name} was not paused"
