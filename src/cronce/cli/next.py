"""cronce next: when a schedule fires next."""

import argparse
import json
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, get_args

from cronce.cli.table import screen, table
from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.model import spell
from cronce.policy import Fold, Gap
from cronce.schedule import Cron, parse_instant, parse_schedule
from cronce.schedule.zone import find_zone
from cronce.telling.words import away, iso, wall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cronce.schedule import Schedule

MOST = 10_000
EXAMPLES = """
examples:
  cronce next '0 9 * * MON-FRI' --tz Europe/Berlin
  cronce next 'every 90m' -n 3 --json
  cronce next '30 2 * * *' --tz America/New_York --from 2026-03-07T00:00:00Z --gap skip
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_schedule(parser)
    parser.add_argument("-n", type=int, default=5, metavar="N", help="how many slots (default 5)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.epilog = EXAMPLES


def add_schedule(parser: argparse.ArgumentParser) -> None:
    """What every verb about a schedule takes."""
    parser.add_argument("schedule", metavar="EXPR", help="'*/15 9-17 * * MON-FRI', '@daily', 'every 15m' or 'at …Z'")
    parser.add_argument(
        "--tz", default="UTC", metavar="ZONE", help="whose clocks a cron expression goes by (default UTC)"
    )
    parser.add_argument(
        "--gap",
        choices=get_args(Gap),
        default="run",
        help="a fixed time that clocks jump over: right after it (default), or not at all",
    )
    parser.add_argument(
        "--fold",
        choices=get_args(Fold),
        default="first",
        help="a fixed time that clocks show twice: when it runs (default first)",
    )
    parser.add_argument("--from", dest="since", metavar="ISO", help="slots after this instant (default: now)")


def read_schedule(options: argparse.Namespace) -> tuple["Schedule", datetime]:
    """The schedule that was asked about, and after which instant."""
    schedule = parse_schedule(options.schedule, options.tz, options.gap, options.fold)
    return schedule, SystemClock().wall() if options.since is None else parse_instant(options.since)


def run(options: argparse.Namespace) -> int:
    if not 1 <= options.n <= MOST:
        raise BadInput(f"-n is 1 to {MOST:,}, and this is {options.n}")
    schedule, since = read_schedule(options)
    slots = list(islice(fires(schedule, since), options.n))
    if options.json:
        print(json.dumps({"fires": [iso(slot) for slot in slots]}))
    else:
        print(upcoming(schedule, slots, since))
    return 0


def fires(schedule: "Schedule", since: datetime) -> "Iterator[datetime]":
    slot = schedule.next(since)
    while slot is not None:
        yield slot
        slot = schedule.next(slot)


def upcoming(schedule: "Schedule", slots: list[datetime], since: datetime) -> str:
    """Each slot in UTC, on the clocks of its zone, and how far away it is."""
    if not slots:
        last = schedule.previous(since)
        return f"no slot after {spell(since)}" + (f"; the last was {spell(last)}" if last else "")
    name = schedule.tz if isinstance(schedule, Cron) else "UTC"
    zone = find_zone(name)
    rows = [[spell(slot), wall(slot.astimezone(zone)), away(slot, since)] for slot in slots]
    return table(["slot", name, "away"], rows, screen())
