"""What a zone's changes of clocks do to a schedule: which of its wall times they dispute, and what becomes of those.

The wall times of an expression are its instants in UTC, where every wall time shows once: so the same expression
without its zone tells which of them fall into a gap or a fold.
"""

from datetime import UTC, datetime
from typing import Literal

from cronce.schedule.cron import Cron
from cronce.schedule.expression import is_wildcard
from cronce.schedule.instant import RESOLUTION, SECOND
from cronce.schedule.zone import Shift, find_zone, shifts
from cronce.value import NamedTuple

Effect = Literal["none", "moved", "skipped", "once", "twice"]
"""What becomes of the wall times that a change disputes: there are none; they run when the gap ends; they do not run;
they run at one of their two showings; they run at both."""


class Several(NamedTuple):
    """Times in order: how many, the first, the last."""

    number: int
    first: datetime
    last: datetime


class Change(NamedTuple):
    """One change of clocks, and what it does to a schedule."""

    shift: Shift
    wildcard: bool
    effect: Effect
    walls: Several | None
    """The disputed wall times of the schedule, naive."""
    slots: Several | None
    """The slots at which they run."""
    joins: bool = False
    """They run at an instant that is a slot of the schedule anyway."""

    @property
    def is_gap(self) -> bool:
        return self.shift.before < self.shift.after


def changes(cron: Cron, since: datetime, until: datetime) -> list[Change]:
    """The changes of its zone's clocks after `since`, up to `until`, each with what it does to the schedule."""
    return [_change(cron, shift) for shift in shifts(find_zone(cron.tz), since, until)]


def _change(cron: Cron, shift: Shift) -> Change:
    wall = Cron(cron.expression)
    disputed = _between(wall, shift.low.replace(tzinfo=UTC), shift.high.replace(tzinfo=UTC))
    wildcard = is_wildcard(cron.expression)
    if disputed is None:
        return Change(shift, wildcard, "none", None, None)
    walls = Several(disputed.number, disputed.first.replace(tzinfo=None), disputed.last.replace(tzinfo=None))
    if shift.before > shift.after:
        width = shift.before - shift.after
        slots = _between(cron, shift.at - width, shift.at + width)
        return Change(shift, wildcard, "twice" if wildcard or cron.fold == "both" else "once", walls, slots)
    if wildcard or cron.gap == "skip":
        return Change(shift, wildcard, "skipped", walls, None)
    end = shift.high.replace(tzinfo=UTC)
    return Change(shift, wildcard, "moved", walls, Several(1, shift.at, shift.at), joins=_fires(wall, end))


def _between(cron: Cron, start: datetime, end: datetime) -> Several | None:
    """The instants from `start` up to, not including, `end`."""
    first, last = cron.next(start - RESOLUTION), cron.previous(end)
    if first is None or last is None or first > last:
        return None
    return Several(cron.count(start - SECOND, end - SECOND), first, last)


def _fires(cron: Cron, instant: datetime) -> bool:
    return cron.next(instant - RESOLUTION) == instant
