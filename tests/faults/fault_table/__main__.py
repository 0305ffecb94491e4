"""python -m tests.faults.fault_table: each fault, each way to use cronce, each store: what became of the slots."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.faults.fault_table.app import WAYS
from tests.faults.fault_table.play import FAULTS, Counted, play

Row = tuple[str, str, str]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.fault_table", description=__doc__)
    add = parser.add_argument
    add("faults", nargs="*", metavar="FAULT", help=f"which ones (default: all): {', '.join(FAULTS)}")
    add("--ways", nargs="*", default=[*WAYS], choices=WAYS, help="which ways to use cronce (default: all)")
    add("--stores", nargs="*", default=["sqlite", "postgresql", "valkey"], help="which stores (default: all)")
    add("--at-once", type=int, default=3, help="plays at the same time: they mostly wait (default: 3)")
    add("--json", action="store_true", help="one JSON document instead of the table")
    return parser.parse_args()


def rows(faults: Sequence[str], ways: Sequence[str], stores: Sequence[str]) -> list[Row]:
    return [(fault, way, store) for fault in faults for way in ways for store in FAULTS[fault][1] if store in stores]


def told(row: Row) -> Counted:
    counted = play(*row)
    print(f"{', '.join(row)}: {counted}", file=sys.stderr, flush=True)
    return counted


def is_kept(counted: Counted) -> bool:
    return counted.extra == 0 and counted.missed == 0


def table(found: Mapping[Row, Counted]) -> str:
    """As Markdown."""
    columns = [name.replace("_", " ") for name in Counted._fields]
    head = [f"| fault | way | store | {' | '.join(columns)} |", f"|---|---|---|{'---:|' * len(columns)}"]
    return "\n".join([*head, *(f"| {' | '.join(map(str, (*row, *one)))} |" for row, one in found.items())])


def main() -> int:
    options = arguments()
    wanted = rows(options.faults or [*FAULTS], options.ways, options.stores)
    with ThreadPoolExecutor(options.at_once) as pool:
        found = dict(zip(wanted, pool.map(told, wanted), strict=True))
    columns = ("fault", "way", "store")
    figures = [{**dict(zip(columns, row, strict=True)), **one._asdict()} for row, one in found.items()]
    print(json.dumps({"plays": figures}) if options.json else table(found))
    return int(not all(map(is_kept, found.values())))


if __name__ == "__main__":
    sys.exit(main())
