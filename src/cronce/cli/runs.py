"""cronce runs: the runs that the store knows, newest first."""

import argparse
import json

from cronce.cli.looking import add_store, looking, nothing, tone
from cronce.cli.table import Text, Toned, screen, table
from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.protocol.record import RESOLVED, Record
from cronce.runtime.flow import drive
from cronce.runtime.look import WANTED, RunSeen, job_names, refuse_unknown, runs
from cronce.telling.documents import run_document
from cronce.telling.words import moment, short

MOST = 10_000
EXAMPLES = """
examples:
  cronce runs
  cronce runs order-sync -n 50
  cronce runs --state lost --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", nargs="?", metavar="JOB", help="of this job only")
    parser.add_argument("--state", choices=WANTED, metavar="STATE", help=f"only these: {', '.join(WANTED)}")
    parser.add_argument("-n", type=int, default=20, metavar="N", help="how many (default 20)")
    add_store(parser)
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    if not 1 <= options.n <= MOST:
        raise BadInput(f"-n is 1 to {MOST:,}, and this is {options.n}")
    clock = SystemClock()
    with looking(options) as store:
        if options.job is not None:
            refuse_unknown(options.job, drive(job_names(), store, clock))
        found = drive(runs(options.job, options.state, options.n), store, clock)
    if options.json:
        print(json.dumps({"runs": [run_document(one) for one in found]}))
    else:
        headers = ["slot", "state", "holder", "started", "took", "reason"]
        rows = [_row(one) for one in found]
        print(table(headers, rows, screen()) if rows else nothing("no such run is on record", options))
    return 0


def _row(one: RunSeen) -> list[Text]:
    record = one.record
    state = Toned(one.shown, tone(one.shown))
    if record is None:
        return [one.slot.key, state, "", "", "", one.trouble]
    took = "" if record.reason.startswith(RESOLVED) else _took(record)  # by hand, at a time that says nothing of it
    started = moment(record.started, one.slot.at) if record.started else ""
    return [one.slot.key, state, record.holder, started, took, _remark(record)]


def _took(record: Record) -> str:
    return short(record.finished - record.started) if record.started and record.finished else ""


def _remark(record: Record) -> str:
    """Why it ended so; else how far it has come, and who asked for it."""
    done = f"{record.progress[0]:,} of {record.progress[1]:,} done" if record.progress else ""
    return record.reason or ", ".join(filter(None, [done, f"asked for by {record.by}" if record.by else ""]))
