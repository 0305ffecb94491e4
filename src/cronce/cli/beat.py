"""cronce beat: a sign of life of a scheduler that is not ours."""

import argparse
import json

from cronce.cli.acting import acting
from cronce.cli.looking import add_store
from cronce.clock import SystemClock
from cronce.model import check_name
from cronce.runtime.beats import SignOfLife, forget
from cronce.runtime.jotter import jotted
from cronce.schedule import format_duration

EXAMPLES = """
Let the scheduler that is to be watched start it at every interval, beside its jobs. Who watches (`cronce watch`) raises
an alert when it was silent for two intervals, and when it beats more than twice within one: there are two of it.

examples:
  * * * * *  cronce beat web-1-cron                  a line of its own in the crontab
  */5 * * * *  cronce beat nightly --every 5m        by its own schedule
  cronce beat web-1-cron --remove                    it was taken down on purpose
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the scheduler's name, the same at each beat")
    parser.add_argument("--every", default="1m", metavar="SPAN", help="how often it beats (default: 1m)")
    parser.add_argument("--remove", action="store_true", help="expect no more of it")
    add_store(parser)
    parser.set_defaults(by=None)
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    """Quiet, as all that cron starts should be."""
    check_name(options.name)
    clock = SystemClock()
    beat = SignOfLife(options.name, options.every, clock.boot())
    with acting(options, make=not options.remove) as actor:
        carrier = actor.desk.ledger.carrier
        if options.remove:
            known = actor.desk.do(forget(carrier, options.name))
            print(json.dumps({"removed": known}) if options.json else _removed(options.name, known=known))
            return 0
        actor.desk.do(jotted(carrier, [beat], clock.boot))
    if options.json:
        print(json.dumps({"beat": options.name, "every": format_duration(beat.every), "by": beat.by}))
    return 0


def _removed(name: str, *, known: bool) -> str:
    return f"{name} is not expected any more" if known else f"nothing was expected of {name}"
