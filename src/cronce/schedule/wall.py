"""The wall times that match a cron expression: a sorted sequence that is counted, never written out.

In one month the matching times are days × hours × minutes × seconds, in that order, so the n-th of them is n written in
mixed radix, and the rank of a wall time is the same sum read backwards. Forwards, backwards and "how many" are then one
thing: take the rank, add to it, and look up what stands there.

    0,30 9-11 * * MON    July 2026: Mondays 6, 13, 20, 27 × hours 9, 10, 11 × minutes 0, 30 × second 0 = 24 times
                         weights 6, 2, 1, 1:   Monday 13, 10:30 has rank 1·6 + 1·2 + 1·1 + 0 = 9
"""

from bisect import bisect_left
from collections.abc import Iterable
from datetime import MAXYEAR, MINYEAR, date, datetime
from functools import lru_cache
from itertools import product
from typing import Literal

Weekday = tuple[int, int]
"""A weekday (0 = Sunday) and which one of the month: EVERY, 1 to 5, or LAST."""
EVERY, LAST = 0, -1

End = Literal["L", "LW"]
"""Where a month ends: its last day, or its last day from Monday to Friday."""

_FIRST_MONTH, _LAST_MONTH = MINYEAR * 12, MAXYEAR * 12 + 11
_LENGTHS = {2: (28, 29), 4: (30,), 6: (30,), 9: (30,), 11: (30,)}


class Days:
    """The days that match, month by month. Debian's rule: a day must match `both` fields when one of them starts with
    `*`, else either."""

    __slots__ = ("_known", "both", "dates", "months", "weekdays")

    def __init__(
        self, dates: Iterable[int | End], months: Iterable[int], weekdays: Iterable[Weekday], *, both: bool
    ) -> None:
        self.dates, self.months, self.weekdays = frozenset(dates), frozenset(months), frozenset(weekdays)
        self.both = both
        # Months differ by the weekday they begin with and by their length: 7 × 4 kinds, each worked out once.
        self._known: dict[tuple[int, int], tuple[int, ...]] = {}

    def of(self, month: int) -> tuple[int, ...]:
        """The matching days of a month, counted from year 0: 12 × year + month − 1."""
        if month % 12 + 1 not in self.months:
            return ()
        kind = _kind(month)
        if kind not in self._known:
            self._known[kind] = self._of_kind(*kind)
        return self._known[kind]

    def ever(self) -> bool:
        """Whether any day matches. Each month begins with each weekday at some time, February 29 days long too."""
        return any(
            self._of_kind(first, length)
            for month, first in product(self.months, range(7))
            for length in _LENGTHS.get(month, (31,))
        )

    def _of_kind(self, first: int, length: int) -> tuple[int, ...]:
        """The matching days of a month of `length` days whose first is the weekday `first`."""
        by_date = {date if isinstance(date, int) else _end(date, first, length) for date in self.dates}
        by_weekday = {day for weekday in self.weekdays for day in _days(weekday, first, length)}
        matching = by_date & by_weekday if self.both else by_date | by_weekday
        return tuple(sorted(day for day in matching if day <= length))


class Pattern:
    """All matching wall times, as naive datetimes of whole seconds."""

    __slots__ = ("_days", "_hours", "_minutes", "_per_day", "_per_hour", "_per_minute", "_seconds")

    def __init__(self, days: Days, hours: Iterable[int], minutes: Iterable[int], seconds: Iterable[int]) -> None:
        self._days = days
        self._hours, self._minutes, self._seconds = (tuple(sorted(values)) for values in (hours, minutes, seconds))
        self._per_minute = len(self._seconds)
        self._per_hour = len(self._minutes) * self._per_minute
        self._per_day = len(self._hours) * self._per_hour

    def seek(self, wall: datetime, n: int) -> datetime | None:
        """The n-th match counted from `wall`: 0 is the first at or after it, −1 the last before it."""
        month = _month(wall)
        days = self._days.of(month)
        n += self._rank(days, wall)
        while n < 0 and month > _FIRST_MONTH:
            month -= 1
            days = self._days.of(month)
            n += len(days) * self._per_day
        while n >= (size := len(days) * self._per_day) and month < _LAST_MONTH:
            n -= size
            month += 1
            days = self._days.of(month)
        return self._at(month, days, n) if 0 <= n < size else None

    def count(self, start: datetime, end: datetime) -> int:
        """How many matches there are from `start` up to, not including, `end`."""
        first, last = _month(start), _month(end)
        between = sum(len(self._days.of(month)) for month in range(first, last)) * self._per_day
        return between + self._rank(self._days.of(last), end) - self._rank(self._days.of(first), start)

    def _rank(self, days: tuple[int, ...], wall: datetime) -> int:
        """How many matches of a month come before `wall`: those of its earlier days, then hours, minutes, seconds."""
        index = bisect_left(days, wall.day)
        rank = index * self._per_day
        if index == len(days) or days[index] != wall.day:
            return rank
        index = bisect_left(self._hours, wall.hour)
        rank += index * self._per_hour
        if index == len(self._hours) or self._hours[index] != wall.hour:
            return rank
        index = bisect_left(self._minutes, wall.minute)
        rank += index * self._per_minute
        if index == len(self._minutes) or self._minutes[index] != wall.minute:
            return rank
        return rank + bisect_left(self._seconds, wall.second)

    def _at(self, month: int, days: tuple[int, ...], n: int) -> datetime:
        """The n-th match of a month."""
        day, n = divmod(n, self._per_day)
        hour, n = divmod(n, self._per_hour)
        minute, second = divmod(n, self._per_minute)
        time = self._hours[hour], self._minutes[minute], self._seconds[second]
        return datetime(month // 12, month % 12 + 1, days[day], *time)  # noqa: DTZ001 (a wall time has no zone)


def _month(wall: datetime) -> int:
    return wall.year * 12 + wall.month - 1


@lru_cache(maxsize=1024)
def _kind(month: int) -> tuple[int, int]:
    """The weekday of its first day (0 = Monday, as in Python) and its length."""
    year, number = month // 12, month % 12 + 1
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = _LENGTHS.get(number, (31,))
    return date(year, number, 1).weekday(), lengths[-1] if is_leap else lengths[0]


def _end(end: End, first: int, length: int) -> int:
    last = (first + length - 1) % 7  # Saturday (5) is one day past the last weekday, Sunday (6) two
    return length if end == "L" else length - max(0, last - 4)


def _days(weekday: Weekday, first: int, length: int) -> range:
    """The days of the month that are this weekday. Cron counts from Sunday, Python from Monday: one less."""
    number, nth = weekday
    days = range(1 + (number - 1 - first) % 7, length + 1, 7)
    return days if nth == EVERY else days[-1:] if nth == LAST else days[nth - 1 : nth]
