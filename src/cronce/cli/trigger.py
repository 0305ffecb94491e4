"""cronce trigger: run a job now, with a key of its own."""

import argparse

from cronce.cli.acting import acting, add_act, add_wait, asked, read_payload

EXAMPLES = """
Prints the key of the run, which schedulers begin within two seconds. It waits for its turn, and is never too late.

examples:
  cronce trigger billing --payload '{"month": "2026-03"}' --wait
  cronce trigger billing --id march        asking again for the same id is asking once
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="which job")
    parser.add_argument("--payload", metavar="JSON", help="what the run is given: JSON of up to 64 KB")
    parser.add_argument("--id", default="", metavar="ID", help="a name for the run: one run, however often it is said")
    add_wait(parser)
    add_act(parser, reason=False)
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    payload = None if options.payload is None else read_payload(options.payload)
    with acting(options) as actor:
        return asked(actor, actor.desk.do(actor.hand.trigger(options.job, payload, options.id)), options)
