"""Triggers that say the same in every process."""

from datetime import datetime, timedelta
from typing import Any

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.combining import BaseCombiningTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from cronce.errors import BadInput
from cronce.model import EPOCH, Instant
from cronce.policy import Fold, Gap
from cronce.runtime.declare import SOME_DAY
from cronce.runtime.log import LOGGER
from cronce.schedule import Every, Schedule, parse_schedule
from cronce.schedule.instant import RESOLUTION, SECOND, whole

LOOKED_AT = 5
"""How many run times of a trigger tell how close they are."""


class CronceTrigger(BaseTrigger):  # type: ignore[misc]
    """A schedule of cronce as a trigger, with its rules for when clocks change: `CronceTrigger("30 1 * * *", tz=…)`."""

    def __init__(self, schedule: str, tz: str = "UTC", gap: Gap = "run", fold: Fold = "first") -> None:
        self.__setstate__((schedule, tz, gap, fold))

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        return self._schedule.next(previous_fire_time or now - RESOLUTION)

    def __getstate__(self) -> tuple[str, str, Gap, Fold]:
        return self._words

    def __setstate__(self, words: tuple[str, str, Gap, Fold]) -> None:
        self._words = words
        self._schedule: Schedule = parse_schedule(*words)

    def __str__(self) -> str:
        return f"cronce[{self._schedule.text}]"


def agreed(trigger: Any) -> Any:
    """The trigger, made to give the same run times in every process; refused if it cannot."""
    if isinstance(trigger, BaseCombiningTrigger):
        if any(isinstance(one, IntervalTrigger) for one in trigger.triggers):
            raise BadInput(
                f"{trigger}: an interval that is combined with other triggers counts from whatever fired last, which is"
                " something else in each process; make it a job of its own, or write it as a cron trigger"
            )
        for one in trigger.triggers:
            agreed(one)
    if isinstance(trigger, IntervalTrigger):
        _on_grid(trigger)
    return unjittered(trigger)


def unjittered(trigger: Any) -> Any:
    """The trigger without its lottery."""
    for one in getattr(trigger, "triggers", ()):
        unjittered(one)
    if getattr(trigger, "jitter", None):
        LOGGER.warning(
            "%s: its jitter of %ss is left out, as each process would draw another and run at a time of its own",
            trigger,
            trigger.jitter,
        )
        trigger.jitter = None
    return trigger


def _on_grid(trigger: Any) -> None:
    """A start on a whole second was given, and is the same everywhere. Any other was read off a clock."""
    span: timedelta = trigger.interval
    if span % SECOND:
        raise BadInput(f"{trigger}: slots are whole seconds, so an interval is one of whole seconds too")
    if trigger.start_date.microsecond:
        first = Every(span).next(trigger.start_date - span)
        assert first is not None
        trigger.start_date = first.astimezone(trigger.timezone)


def is_read_off(trigger: DateTrigger) -> bool:
    """Whether a date is a reading of this machine's clock, as "now" and "in five minutes" are."""
    return bool(trigger.run_date.microsecond)


def rounded_up(trigger: Any) -> None:
    """Let a date that was read off a clock wait for the next whole second. Of two in one second the later would be
    taken for a repeat of the first; like this the first has not fired by then, and is replaced."""
    if isinstance(trigger, DateTrigger) and is_read_off(trigger):
        trigger.run_date = whole(trigger.run_date + SECOND).astimezone(trigger.run_date.tzinfo)


def slot_instant(trigger: Any, run_time: datetime) -> Instant:
    """Which instant a run time is for. One between two instants of a grid is for the first of them: somebody said "now"
    for a start, or the job was made before its scheduler was protected."""
    if not isinstance(trigger, IntervalTrigger):
        return whole(run_time)
    start = trigger.start_date
    origin = EPOCH if start.microsecond else whole(start)
    return whole(origin + (run_time - origin) // trigger.interval * trigger.interval)


def shortest_gap(trigger: Any) -> timedelta | None:
    """How close its run times are, as seen from one day for all processes; None if there is only one."""
    if isinstance(trigger, DateTrigger):
        return None
    if isinstance(trigger, IntervalTrigger):
        return timedelta(seconds=trigger.interval_length)
    gaps: list[timedelta] = []
    before = trigger.get_next_fire_time(None, SOME_DAY)
    while before is not None and len(gaps) < LOOKED_AT:
        after = trigger.get_next_fire_time(before, before)
        gaps += [whole(after) - whole(before)] if after else []
        before = after
    return min(gaps, default=None)
