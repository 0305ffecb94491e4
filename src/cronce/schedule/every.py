"""Instants at equal distances: multiples of a span since 1970-01-01T00:00:00Z, the same on every machine."""

from datetime import datetime, timedelta

from cronce.errors import BadInput, BadSchedule
from cronce.model import EPOCH
from cronce.schedule.duration import format_duration, parse_duration
from cronce.schedule.instant import SECOND
from cronce.value import Value


class Every(Value):
    """Every `span` on the epoch grid: `Every("15m")` fires at :00, :15, :30 and :45 of each UTC hour."""

    span: timedelta

    def __init__(self, span: timedelta | str) -> None:
        self._fill(_period(span))

    @property
    def text(self) -> str:
        """The schedule as text."""
        return f"every {format_duration(self.span)}"

    def next(self, after: datetime) -> datetime | None:
        """The first instant strictly after `after`; None when the calendar ends first, with the year 9999."""
        return self._at((after - EPOCH) // self.span + 1)

    def previous(self, before: datetime) -> datetime | None:
        """The last instant strictly before `before`; None when the calendar begins later, with the year 1."""
        return self._at(-((EPOCH - before) // self.span) - 1)  # −(−t // span) rounds up

    def count(self, after: datetime, until: datetime) -> int:
        """How many instants there are after `after`, up to and including `until`."""
        return max(0, (until - EPOCH) // self.span - (after - EPOCH) // self.span)

    def _at(self, ordinal: int) -> datetime | None:
        try:
            return EPOCH + ordinal * self.span
        except OverflowError:
            return None


def _period(span: timedelta | str) -> timedelta:
    try:
        period = parse_duration(span)
    except BadInput as error:
        raise BadSchedule(f"every: {error}") from None
    if period < SECOND or period % SECOND:
        raise BadSchedule(f"every: {period / SECOND:g} seconds; slots are whole seconds, so write '1s' or more of them")
    return period
