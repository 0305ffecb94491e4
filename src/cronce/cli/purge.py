"""cronce purge: delete runs that are over and are not kept."""

import argparse
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from cronce.cli.looking import add_store, looking
from cronce.cli.progress import bar
from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.protocol.retention import Keep, Kept, default_keep, read_keep
from cronce.runtime.desk import Desk
from cronce.runtime.look import job_names, refuse_unknown

if TYPE_CHECKING:
    from cronce.stores.base import Store

LOOK: Final = 0.5

EXAMPLES: Final = """
A slot whose run was deleted never runs again: the job's floor rises first, and the runs go a minute later, when no
claim can rest on what was known before. Processes at work do this by themselves about once an hour; this command is for
whoever does not want to wait, or wants to keep less. It may be interrupted, and then goes on the next time.

Without JOB it also deletes what processes, locks and keys (@cron.idempotent, workers of queues) have left, a day after
it was last of use. The store's clock is watched for half a minute before that.

examples:
  cronce purge --dry-run                                what would go
  cronce purge                                          by the default: 30 days, and at most 1,000 of each job
  cronce purge billing --keep 100                       the newest 100 of each outcome
  cronce purge --keep succeeded=50 --keep failed=90d    by outcome; what is not named is kept for 30 days
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", nargs="?", metavar="JOB", help="this job (default: all)")
    parser.add_argument(
        "--keep", action="append", default=[], metavar="[OUTCOME=]KEPT", help="how many of the newest, or for how long"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")
    add_store(parser)
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    keep = _keep(options.keep)
    with looking(options) as store:
        purger = Purger(store, keep or default_keep(store.traits))
        names = purger.jobs(options.job)
        found = {name: count for name in names if (count := purger.count(name))}
        gone = dict.fromkeys(found, 0) if options.dry_run else purger.purge(found)
        swept = 0 if options.dry_run or options.job else purger.sweep()
    if options.json:
        jobs = [{"job": name, "found": found[name], "purged": gone[name]} for name in found]
        print(json.dumps({"jobs": jobs, "swept": swept}))
    else:
        print(_told(found, gone, swept, dry_run=options.dry_run))
    return 0


def _keep(given: list[str]) -> Keep | None:
    if not given:
        return None
    by_outcome: dict[str, Kept] = {}
    for text in given:
        outcome, equals, kept = text.partition("=")
        if not equals and len(given) > 1:
            raise BadInput(f"--keep {text}: say of which outcome, as in --keep succeeded={text}")
        if not equals:
            return read_keep(text)
        by_outcome[outcome] = kept
    return read_keep(by_outcome)


class Purger:
    """One process that purges."""

    def __init__(self, store: "Store", keep: Keep) -> None:
        self._desk = Desk(store, SystemClock(), lambda: store, lambda _event: None)
        self._jobs = self._desk.ledger.jobs
        self._keep = keep

    def jobs(self, wanted: str | None) -> list[str]:
        names = self._desk.do(job_names())
        if wanted is None:
            return names
        refuse_unknown(wanted, names)
        return [wanted]

    def count(self, name: str) -> int:
        return len(self._desk.do(self._jobs.excess(name, self._keep)))

    def purge(self, found: Mapping[str, int]) -> dict[str, int]:
        """How many went of each job, by this process; others may purge the same."""
        gone = dict.fromkeys(found, 0)
        whole, left = sum(found.values()), set(found)
        while left:
            for name in sorted(left):
                gone[name] += self._desk.do(self._jobs.purge(name, self._keep))
            left = {name for name in left if self.count(name)}
            bar("purging", min(sum(gone.values()), whole) if left else whole, whole)
            time.sleep(LOOK if left else 0)
        return gone

    def sweep(self) -> int:
        """How many cells went that nobody needs any more, by this process."""
        gone = 0
        while self._desk.do(self._jobs.left_behind()):
            swept = self._desk.do(self._jobs.sweep())
            gone += swept
            time.sleep(0 if swept else LOOK)
        return gone


def _told(found: Mapping[str, int], gone: Mapping[str, int], swept: int, *, dry_run: bool) -> str:
    if dry_run:
        lines = [f"{name}: {count:,} would go" for name, count in found.items()]
    else:
        lines = [f"{name}: {count:,} purged" for name, count in gone.items()]
    if swept:
        lines.append(f"{swept:,} old keys, locks and processes swept")
    return "\n".join(lines) or "nothing to purge"
