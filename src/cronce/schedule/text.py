"""Schedules as text and back: what a user writes in a line, and what a job's record keeps."""

from datetime import datetime
from typing import assert_never

from cronce.errors import BadSchedule
from cronce.model import spell
from cronce.policy import Fold, Gap
from cronce.schedule.at import MOST, At
from cronce.schedule.cron import Cron
from cronce.schedule.every import Every
from cronce.schedule.expression import tidy
from cronce.schedule.quote import shown
from cronce.schedule.window import Rule, Window

Schedule = Rule | Window
"""What yields instants: `next`, `previous`, `count`, and `text` to write it down."""

_LONGEST = MOST * 32  # an instant is written in at most 25 characters


def parse_schedule(
    text: str,
    tz: str = "UTC",
    gap: Gap = "run",
    fold: Fold = "first",
    *,
    start: datetime | str | None = None,
    end: datetime | str | None = None,
) -> Schedule:
    """The schedule that `text` says: a cron expression or its nickname, `every 15m`, or `at 2026-03-29T01:00:00Z`; from
    `start` to `end`, where they are given."""
    return bounded(_parse_rule(text, tz, gap, fold), start, end)


def bounded(schedule: Schedule, start: datetime | str | None, end: datetime | str | None) -> Schedule:
    """The schedule from `start` to `end`; as it is when neither is given."""
    if start is None and end is None:
        return schedule
    if isinstance(schedule, Window):
        raise BadSchedule(f"{shown(schedule.text)} has a start or an end already")
    return Window(schedule, start, end)


def rule_of(schedule: Schedule) -> Rule:
    """The schedule without its start and end."""
    return schedule.rule if isinstance(schedule, Window) else schedule


def _parse_rule(text: str, tz: str, gap: Gap, fold: Fold) -> Rule:
    tidied = tidy(text, longest=_LONGEST)
    word, _, rest = tidied.partition(" ")
    match word.lower():
        case "every":
            _refuse_policy(tidied, tz, gap, fold)
            return Every(rest)
        case "at":
            _refuse_policy(tidied, tz, gap, fold)
            return At(*rest.replace(",", " ").split())
        case _:
            return Cron(tidied, tz, gap, fold)


def spec_of(schedule: Schedule) -> dict[str, str]:
    """The arguments from which `parse_schedule` makes an equal schedule; plain text, fit for JSON."""
    match schedule:
        case Cron():
            return {"text": schedule.text, "tz": schedule.tz, "gap": schedule.gap, "fold": schedule.fold}
        case Every() | At():
            return {"text": schedule.text}
        case Window(rule, start, end):
            bounds = {"start": start, "end": end}
            return spec_of(rule) | {name: spell(bound) for name, bound in bounds.items() if bound}
        case _:
            assert_never(schedule)


def _refuse_policy(text: str, tz: str, gap: Gap, fold: Fold) -> None:
    """A zone here would be believed, and do nothing: `every 1d` does not begin at Berlin's midnight."""
    if (tz, gap, fold) != ("UTC", "run", "first"):
        raise BadSchedule(
            f"{shown(text)} is real time, without a wall clock: leave out tz, gap and fold, or write cron"
        )
