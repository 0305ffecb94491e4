"""Schedules as text and back: what a user writes in a line, and what a job's record keeps."""

from typing import assert_never

from cronce.errors import BadSchedule
from cronce.policy import Fold, Gap
from cronce.schedule.at import MOST, At
from cronce.schedule.cron import Cron
from cronce.schedule.every import Every
from cronce.schedule.expression import tidy
from cronce.schedule.quote import shown

Schedule = Cron | Every | At
"""A rule that yields instants: `next`, `previous`, `count`, and `text` to write it down."""

_LONGEST = MOST * 32  # an instant is written in at most 25 characters


def parse_schedule(text: str, tz: str = "UTC", gap: Gap = "run", fold: Fold = "first") -> Schedule:
    """The schedule that `text` says: a cron expression or its nickname, `every 15m`, or `at 2026-03-29T01:00:00Z`."""
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
        case _:
            assert_never(schedule)


def _refuse_policy(text: str, tz: str, gap: Gap, fold: Fold) -> None:
    """A zone here would be believed, and do nothing: `every 1d` does not begin at Berlin's midnight."""
    if (tz, gap, fold) != ("UTC", "run", "first"):
        raise BadSchedule(
            f"{shown(text)} is real time, without a wall clock: leave out tz, gap and fold, or write cron"
        )
