"""cronce explain: a schedule in plain words, its next slots, and what it does on the days when clocks change."""

import argparse
import json
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

from cronce.cli.next import add_schedule, fires, read_schedule, upcoming
from cronce.schedule import Cron, spec_of
from cronce.schedule.changes import Change, changes
from cronce.schedule.describe import describe, describe_change
from cronce.telling.words import iso

if TYPE_CHECKING:
    from cronce.schedule import Schedule

SLOTS: Final = 5
YEAR: Final = timedelta(days=366)
EXAMPLES = """
examples:
  cronce explain '*/15 9-17 * * 1-5' --tz Europe/Berlin
  cronce explain '30 1 * * *' --tz America/New_York --fold both
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_schedule(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    schedule, since = read_schedule(options)
    found = changes(schedule, since, since + YEAR) if isinstance(schedule, Cron) else []
    slots = list(islice(fires(schedule, since), SLOTS))
    if options.json:
        print(json.dumps(_document(schedule, slots, found), ensure_ascii=False))
    else:
        print(_page(schedule, slots, found, since))
    return 0


def _document(schedule: "Schedule", slots: list[datetime], found: list[Change]) -> dict[str, object]:
    return {
        "schedule": spec_of(schedule),
        "sentence": describe(schedule),
        "fires": [iso(slot) for slot in slots],
        "changes": [_change(change) for change in found],
    }


def _change(change: Change) -> dict[str, object]:
    walls, slots = change.walls, change.slots
    return {
        "at": iso(change.shift.at),
        "kind": "gap" if change.is_gap else "fold",
        "low": change.shift.low.isoformat(),
        "high": change.shift.high.isoformat(),
        "wildcard": change.wildcard,
        "effect": change.effect,
        "times": walls.number if walls else 0,
        "slots": slots.number if slots else 0,
        "first": iso(slots.first) if slots else None,
        "last": iso(slots.last) if slots else None,
        "sentence": describe_change(change),
    }


def _page(schedule: "Schedule", slots: list[datetime], found: list[Change], since: datetime) -> str:
    parts = [f"{describe(schedule)}{_zone(schedule)}", upcoming(schedule, slots, since)]
    if found:
        parts.append("\n".join(["when the clocks change:", *map(_day, found)]))
    elif isinstance(schedule, Cron):
        parts.append(f"the clocks of {schedule.tz} do not change in the coming year")
    else:
        parts.append("it is real time: no change of clocks concerns it")
    return "\n\n".join(parts)


def _zone(schedule: "Schedule") -> str:
    if not isinstance(schedule, Cron):
        return ""
    return f", by the clocks of {schedule.tz}" if schedule.tz != "UTC" else ", UTC"


def _day(change: Change) -> str:
    shift = change.shift
    before, after = shift.at + shift.before, shift.at + shift.after
    day = f"{before:%a %Y-%m-%d}, {before:%H:%M} becomes {after:%H:%M}"
    if before.date() != after.date():
        day += f" of {after:%a %Y-%m-%d}"
    return f"  {day} ({shift.at:%H:%M:%S}Z)\n    {describe_change(change)}"
