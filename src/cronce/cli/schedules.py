"""cronce explain and explain next: when a schedule fires, what it says in plain words, and what it does on days when
clocks change."""

import argparse
import re
from datetime import datetime, timedelta
from typing import Final

from cronce.cli import JSON_ARGUMENT, Arguments, refuse_outside
from cronce.cli.terminal import screen, show, table
from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.model import spell
from cronce.schedule import Cron, Schedule, parse_instant, parse_schedule, spec_of
from cronce.schedule.describe import ClockChange, changes, describe, describe_change
from cronce.schedule.slots import following
from cronce.schedule.zone import find_zone
from cronce.telling.words import away, iso, wall

MAX_FIRINGS = 10_000
NEXT_EPILOG = """
examples:
  cronce explain next '0 9 * * MON-FRI' --tz Europe/Berlin
  cronce explain next 'every 90m' -n 3 --json
  cronce explain next '30 2 * * *' --tz America/New_York --from 2026-03-07T00:00:00Z --gap skip
"""

DEFAULT_SLOTS: Final = 5
YEAR: Final = timedelta(days=366)
EXPLAIN_EPILOG = """
examples:
  cronce explain '*/15 9-17 * * 1-5' --tz Europe/Berlin
  cronce explain '30 1 * * *' --tz America/New_York --fold both
"""

A_SCHEDULE: Final[Arguments] = {
    "schedule: EXPR": "'*/15 9-17 * * MON-FRI', '@daily', 'every 15m' or 'at …Z'",
    "--tz ZONE": ("UTC", "the time zone of a cron expression (default UTC)"),
    "--gap {run,skip}": (
        "run",
        "a fixed time that is skipped when clocks go forward: run right after it (default), or skip",
    ),
    "--fold {first,second,both}": (
        "first",
        "a fixed time that occurs twice when clocks go back: when to run (default first)",
    ),
    "since: --from ISO": "slots after this instant (default: now)",
}
"""What every verb about a schedule takes."""

EXPLAIN_ARGUMENTS: Final[Arguments] = {**A_SCHEDULE, **JSON_ARGUMENT}
NEXT_ARGUMENTS: Final[Arguments] = {**A_SCHEDULE, "-n N": (5, "how many slots (default 5)"), **JSON_ARGUMENT}


def run_next(options: argparse.Namespace) -> None:
    refuse_outside("-n", options.n, MAX_FIRINGS)
    schedule, since = _read_schedule(options)
    slots = following(schedule, since, options.n)
    show(options, {"fires": [iso(slot) for slot in slots]}, _upcoming(schedule, slots, since))


def run_explain(options: argparse.Namespace) -> None:
    schedule, since = _read_schedule(options)
    found = changes(schedule, since, since + YEAR) if isinstance(schedule, Cron) else []
    slots = following(schedule, since, DEFAULT_SLOTS)
    show(options, _document(schedule, slots, found), _page(schedule, slots, found, since), escape=False)


def _document(schedule: Schedule, slots: list[datetime], found: list[ClockChange]) -> dict[str, object]:
    return {
        "schedule": spec_of(schedule),
        "sentence": describe(schedule),
        "fires": [iso(slot) for slot in slots],
        "changes": [_change(change) for change in found],
    }


def _change(change: ClockChange) -> dict[str, object]:
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


def _page(schedule: Schedule, slots: list[datetime], found: list[ClockChange], since: datetime) -> str:
    parts = [f"{describe(schedule)}{_zone(schedule)}", _upcoming(schedule, slots, since)]
    if found:
        parts.append("\n".join(["when the clocks change:", *map(_day, found)]))
    elif isinstance(schedule, Cron):
        parts.append(f"the clocks in {schedule.tz} do not change in the coming year")
    else:
        parts.append("clock changes do not affect this schedule")
    return "\n\n".join(parts)


def _zone(schedule: Schedule) -> str:
    if not isinstance(schedule, Cron):
        return ""
    return f", local time in {schedule.tz}" if schedule.tz != "UTC" else ", UTC"


def _day(change: ClockChange) -> str:
    shift = change.shift
    before, after = shift.at + shift.before, shift.at + shift.after
    day = f"{before:%a %Y-%m-%d}, {before:%H:%M} becomes {after:%H:%M}"
    if before.date() != after.date():
        day += f" of {after:%a %Y-%m-%d}"
    return f"  {day} ({shift.at:%H:%M:%S}Z)\n    {describe_change(change)}"


# --- what both do -----------------------------------------------------------------------------------------------------


def _read_schedule(options: argparse.Namespace) -> tuple[Schedule, datetime]:
    """The schedule that was asked about, and after which instant."""
    if re.fullmatch(r"CR\d{3}", options.schedule, re.IGNORECASE):
        rule = options.schedule.upper()
        raise BadInput(f"{rule} is a rule of the auditor: `cronce audit explain {rule}`")
    schedule = parse_schedule(options.schedule, options.tz, options.gap, options.fold)
    return schedule, SystemClock().wall() if options.since is None else parse_instant(options.since)


def _upcoming(schedule: Schedule, slots: list[datetime], since: datetime) -> str:
    """Each slot in UTC, on the clocks of its zone, and how far away it is."""
    if not slots:
        last = schedule.previous(since)
        return f"no slot after {spell(since)}" + (f"; the last was {spell(last)}" if last else "")
    name = schedule.tz if isinstance(schedule, Cron) else "UTC"
    zone = find_zone(name)
    rows = [[spell(slot), wall(slot.astimezone(zone)), away(slot, since)] for slot in slots]
    return table(["slot", name, "away"], rows, screen())
