"""A schedule from one instant to another: it has no slot before its start, and none after its end."""

from datetime import UTC, datetime
from typing import Final

from cronce.errors import BadSchedule
from cronce.model import spell
from cronce.schedule.at import At
from cronce.schedule.cron import Cron
from cronce.schedule.every import Every
from cronce.schedule.instant import RESOLUTION, parse_instant
from cronce.schedule.quote import shown
from cronce.value import Value

Rule = Cron | Every | At
"""A schedule without bounds of its own."""

_EVER: Final = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class Window(Value):
    """The instants of a rule from `start` to `end`, both included; either may be left open."""

    rule: Rule
    start: datetime | None
    end: datetime | None

    def __init__(self, rule: Rule, start: datetime | str | None = None, end: datetime | str | None = None) -> None:
        self._fill(rule, *[None if bound is None else parse_instant(bound) for bound in (start, end)])
        if self.start and self.end and self.end < self.start:
            raise BadSchedule(f"it would end before it starts: start is {spell(self.start)}, end is {spell(self.end)}")
        if (self.next(_EVER[0]) if self.end is None else self.previous(_EVER[1])) is None:
            raise BadSchedule(f"{shown(rule.text)} has no slot {self.bounds}, so this never fires")

    @property
    def bounds(self) -> str:
        """From when to when, in words."""
        bounds = (("from", self.start), ("to", self.end))
        return " ".join([f"{word} {spell(bound)}" for word, bound in bounds if bound])

    @property
    def text(self) -> str:
        """The schedule as text, for people."""
        return f"{self.rule.text} {self.bounds}"

    def next(self, after: datetime) -> datetime | None:
        """The first instant strictly after `after`; None when the end comes first."""
        if self.start is not None and after < self.start:
            after = self.start - RESOLUTION
        found = self.rule.next(after)
        return found if found is None or self.end is None or found <= self.end else None

    def previous(self, before: datetime) -> datetime | None:
        """The last instant strictly before `before`; None when the start comes later."""
        if self.end is not None and before > self.end:
            before = self.end + RESOLUTION
        found = self.rule.previous(before)
        return found if found is None or self.start is None or found >= self.start else None

    def count(self, after: datetime, until: datetime) -> int:
        """How many instants there are after `after`, up to and including `until`."""
        if self.start is not None and after < self.start:
            after = self.start - RESOLUTION
        return self.rule.count(after, until if self.end is None else min(until, self.end))
