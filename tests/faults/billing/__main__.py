"""python -m tests.faults.billing: every way to charge once, on every store, under kills and pauses, as one table; or,
with --variant, one play of a month's billing."""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

from cronce.cli.terminal import bar, screen
from cronce.cli.terminal import table as columns
from tests.faults.billing.harness import Billing, Settings
from tests.faults.billing.matrix import STORES, Kept, Size, combinations, figures, play, table
from tests.faults.billing.servers import Store, places
from tests.faults.billing.verdict import Verdict
from tests.faults.billing.worker import NIGHTS, VARIANTS

MONTH = Size(500, 50, 6, 12)
"""What one play of a variant is by default."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.billing", description=__doc__)
    add = parser.add_argument
    one, many = MONTH, Size()
    add("--invoices", type=int, help=f"in each play (default: {many.things}, of a variant {one.things})")
    add("--kills", type=int, help=f"how often a process is killed, and started again ({many.kills}, {one.kills})")
    add("--pauses", type=int, help=f"how often one is stopped past its lease ({many.pauses}, {one.pauses})")
    add("--drops", type=int, help=f"how often one loses three replies of the store ({many.drops}, {one.drops})")
    add("--lease", type=int, default=2, metavar="SECONDS", help="and what the lock lives")
    add("--seed", type=int, default=0)
    add("--json", action="store_true", help="one JSON document instead of the table")
    add("--store", choices=STORES, help="cronce's (default: all; of a variant postgres)")
    all_of_them = parser.add_argument_group("the table")
    all_of_them.add_argument("--ways", nargs="*", help="only these, such as once or 'billing: by key'")
    all_of_them.add_argument("--at-once", type=int, default=4, help="plays at the same time (default: 4)")
    all_of_them.add_argument("--kept", type=Path, metavar="FILE", help="what was played, to go on from")
    a_month = parser.add_argument_group("one month")
    a_month.add_argument("--variant", choices=[one for one in VARIANTS if one not in NIGHTS])
    a_month.add_argument("--seeds", type=int, default=1, metavar="N", help="so many plays, from --seed on")
    return parser.parse_args()


def sized(options: argparse.Namespace, default: Size) -> Size:
    said = {"things": options.invoices, "kills": options.kills, "pauses": options.pauses, "drops": options.drops}
    return default._replace(lease=options.lease, **{name: value for name, value in said.items() if value is not None})


def months(options: argparse.Namespace) -> int:
    verdicts = [month(options, seed) for seed in range(options.seed, options.seed + options.seeds)]
    once = all(verdict.once_each for verdict in verdicts)
    if options.json:
        print(json.dumps({"once_each": once, "plays": [verdict._asdict() for verdict in verdicts]}))
        return 0 if once else 1
    words = [name.replace("_", " ") for name in Verdict._fields]
    print(columns(words, [[str(field) for field in verdict] for verdict in verdicts], screen()))
    duplicates = median(verdict.duplicates for verdict in verdicts)
    print("every invoice was charged once" if once else f"charged more than once: {duplicates:g} (the median)")
    return 0 if once else 1


def month(options: argparse.Namespace, seed: int) -> Verdict:
    store: Store = options.store or "postgres"
    size = sized(options, MONTH)
    with tempfile.TemporaryDirectory() as folder, places(options.variant, store, Path(folder)) as (url, shop):
        settings = Settings(options.variant, url, shop, *size, seed)
        return Billing(settings, Path(folder), lambda done: bar(f"seed {seed}", done, size.things)).run()


def nights(options: argparse.Namespace) -> int:
    size, stores = sized(options, Size()), [options.store] if options.store else STORES
    wanted = {
        one: variant
        for one, variant in combinations(stores).items()
        if options.ways in (None, []) or one.way in options.ways
    }
    kept = Kept(options.kept, size)
    broken = play(wanted, size, options.seed, kept, options.at_once)
    verdicts = {one: kept.verdicts[one] for one in wanted if one in kept.verdicts}
    once = not broken and all(one.is_shown(verdict) for one, verdict in verdicts.items())
    plays = figures(verdicts)
    print(json.dumps({"once_each": once, "plays": plays}) if options.json else table(plays))
    for one, why in broken.items():
        print(f"{one}: {why}", file=sys.stderr)
    return 0 if once else 1


def main() -> int:
    options = arguments()
    return months(options) if options.variant else nights(options)


if __name__ == "__main__":
    sys.exit(main())
