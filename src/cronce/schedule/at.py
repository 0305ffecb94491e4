"""Instants that somebody listed."""

from bisect import bisect_left, bisect_right
from datetime import datetime

from cronce.errors import BadSchedule
from cronce.model import spell
from cronce.schedule.instant import parse_instant
from cronce.value import Value

MOST = 1_000
"""A job's schedule is stored and read as a whole; what has more instants than this is data, not a schedule."""


class At(Value):
    """One or several explicit instants, sorted, each once."""

    instants: tuple[datetime, ...]

    def __init__(self, *instants: datetime | str) -> None:
        if not 1 <= len(instants) <= MOST:
            raise BadSchedule(f"at: name 1 to {MOST:,} instants, not {len(instants):,}")
        self._fill(tuple(sorted({parse_instant(instant) for instant in instants})))

    @property
    def text(self) -> str:
        """The schedule as text."""
        return f"at {' '.join(map(spell, self.instants))}"

    def next(self, after: datetime) -> datetime | None:
        """The first instant strictly after `after`; None when all are past."""
        index = bisect_right(self.instants, after)
        return self.instants[index] if index < len(self.instants) else None

    def previous(self, before: datetime) -> datetime | None:
        """The last instant strictly before `before`; None when all are to come."""
        index = bisect_left(self.instants, before)
        return self.instants[index - 1] if index else None

    def count(self, after: datetime, until: datetime) -> int:
        """How many instants there are after `after`, up to and including `until`."""
        return max(0, bisect_right(self.instants, until) - bisect_right(self.instants, after))
