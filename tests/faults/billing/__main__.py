"""python -m tests.faults.billing: the play at full size, its verdict as a table or as JSON."""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import get_args

from cronce.cli.terminal import bar, screen, table
from tests.faults.billing.harness import Billing, Settings
from tests.faults.billing.servers import Store, places
from tests.faults.billing.verdict import Verdict
from tests.faults.billing.worker import VARIANTS


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.billing", description=__doc__)
    add = parser.add_argument
    add("--variant", choices=list(VARIANTS), default="key", help="how charges are kept from being made twice")
    add("--store", choices=get_args(Store), default="postgres", help="cronce's (the lock is in Valkey in any case)")
    add("--invoices", type=int, default=500)
    add("--kills", type=int, default=50, help="how often a process is killed, and started again")
    add("--pauses", type=int, default=6, help="how often one is stopped for longer than its lease")
    add("--drops", type=int, default=12, help="how often one loses three replies of the store")
    add("--lease", type=int, default=2, metavar="SECONDS", help="and what the lock lives")
    add("--seed", type=int, default=0)
    add("--seeds", type=int, default=1, metavar="N", help="so many plays, from --seed on")
    add("--json", action="store_true", help="one JSON document instead of the table")
    return parser.parse_args()


def play(options: argparse.Namespace, seed: int) -> Verdict:
    with tempfile.TemporaryDirectory() as folder, places(options.variant, options.store, Path(folder)) as (store, shop):
        settings = Settings(
            options.variant, store, shop, options.invoices, options.kills, options.pauses, options.drops,
            options.lease, seed,
        )  # fmt: skip
        return Billing(settings, Path(folder), lambda done: bar(f"seed {seed}", done, options.invoices)).run()


def main() -> int:
    options = arguments()
    verdicts = [play(options, seed) for seed in range(options.seed, options.seed + options.seeds)]
    once = all(verdict.once_each for verdict in verdicts)
    if options.json:
        print(json.dumps({"once_each": once, "plays": [verdict._asdict() for verdict in verdicts]}))
        return 0 if once else 1
    words = [name.replace("_", " ") for name in Verdict._fields]
    print(table(words, [[str(field) for field in verdict] for verdict in verdicts], screen()))
    duplicates = median(verdict.duplicates for verdict in verdicts)
    print("every invoice was charged once" if once else f"charged more than once: {duplicates:g} (the median)")
    return 0 if once else 1


if __name__ == "__main__":
    sys.exit(main())
