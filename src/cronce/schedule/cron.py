"""Cron expressions in a zone: the wall times that match, carried over to instants by a policy for gaps and folds.

A *fixed* expression (`30 2 * * *`: neither minute nor hour starts with `*`) means wall times. Each of them becomes the
instant at which it shows; in a fold its first showing, its second, or both; in a gap the instant at which the gap ends,
or none. The instants are a set: several wall times of one gap end in the one instant after it.

A *wildcard* expression (`*/5 * * * *`) means real time: each instant whose wall clock matches. That is exactly what a
fixed one means under gap="skip" and fold="both", and it is computed as that, whatever the policy is.

Going along the wall clock, the instants of fold="first" never go back, and neither do those of fold="second". So the
next instant belongs to the next wall time after those that are over (`reached`), and fold="both" is the union of the
two: the earlier of two nexts, the later of two previouses.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from cronce.model import EPOCH
from cronce.policy import Fold, Gap, check_choice
from cronce.schedule.expression import Pattern, is_wildcard, parse_pattern, tidy
from cronce.schedule.instant import RESOLUTION, SECOND, whole
from cronce.schedule.zone import OffsetChange, find_zone, instant_of, offset_at, reached
from cronce.value import Value

_DAWN, _DUSK = datetime(2, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)  # any zone's wall clock can show these
_STEADY = timedelta(days=3)  # no zone ever changed its offset twice in so short a time
_SHOWINGS: dict[Fold, tuple[Fold, ...]] = {"first": ("first",), "second": ("second",), "both": ("first", "second")}
_HOPS = 400  # `30 2 * 3 SUN#2` in New York is in a gap every year: give up rather than search to the year 9999


class Cron(Value):
    """A cron expression of 5 fields, or 6 with the second first, on the wall clock of a zone."""

    expression: str
    tz: str
    gap: Gap
    fold: Fold
    _table: "_Timetable"

    def __init__(self, expression: str, tz: str = "UTC", gap: Gap = "run", fold: Fold = "first") -> None:
        tidied = tidy(expression)
        self._fill(tidied.upper(), tz, gap, fold)  # one way to write it, one job specification
        object.__setattr__(self, "_table", _timetable(tidied, tz, gap, fold))

    def __reduce__(self) -> tuple[type["Cron"], tuple[str, str, str, str]]:
        return Cron, (self.expression, self.tz, self.gap, self.fold)

    @property
    def text(self) -> str:
        """The schedule as text; with `tz`, `gap` and `fold` it is the whole of it."""
        return self.expression

    def next(self, after: datetime) -> datetime | None:
        """The first instant strictly after `after`; None when the calendar ends first, with the year 9999."""
        try:
            return self._table.next(after)
        except OverflowError:
            return None

    def previous(self, before: datetime) -> datetime | None:
        """The last instant strictly before `before`; None when the calendar begins later, with the year 1."""
        try:
            return self._table.previous(before)
        except OverflowError:
            return None

    def count(self, after: datetime, until: datetime) -> int:
        """How many instants there are after `after`, up to and including `until`."""
        return self._table.count(max(whole(after), _DAWN), min(whole(until), _DUSK))


class _Timetable:
    """What equal `Cron`s share: the wall times, the zone, the policy, and the last answer."""

    __slots__ = ("_fold", "_gap", "_known", "_pattern", "_zone")

    def __init__(self, pattern: Pattern, zone: tzinfo, gap: Gap, fold: Fold) -> None:
        self._pattern, self._zone, self._gap, self._fold = pattern, zone, gap, fold
        # (a, b): the next instant is b from anywhere in a ≤ t < b. Thousands of jobs ask the same in one tick; and a
        # pair that is only ever replaced whole needs no lock.
        self._known = EPOCH, EPOCH

    def next(self, after: datetime) -> datetime | None:
        since, upcoming = self._known
        if since <= after < upcoming:
            return upcoming
        now = whole(after)
        found = min(self._beside(now, 0), default=None)
        if found is not None:
            self._known = now, found
        return found

    def previous(self, before: datetime) -> datetime | None:
        return max(self._beside(whole(before - RESOLUTION), -1), default=None)

    def count(self, after: datetime, until: datetime) -> int:
        """Halve the stretch until each part has one offset, or is the very second in which the offset changes."""
        if until <= after:
            return 0
        if self._is_steady(after, until):
            return self._pattern.count(*(reached(end, self._zone, self._fold) + SECOND for end in (after, until)))
        if until - after == SECOND:
            return int(self.next(after) == until)
        middle = after + (until - after) // SECOND // 2 * SECOND
        return self.count(after, middle) + self.count(middle, until)

    def _is_steady(self, after: datetime, until: datetime) -> bool:
        return self._zone is UTC or (
            until - after <= _STEADY and offset_at(after, self._zone) == offset_at(until, self._zone)
        )

    def _beside(self, instant: datetime, n: int) -> list[datetime]:
        """The first instant after `instant` (n = 0), or the last up to it (n = −1), for each showing that counts."""
        # Both showings differ only from within a fold. From elsewhere the same wall times are over for both, the dict
        # has one entry, and its value is the nearer showing: the first of what is ahead, the second of what is behind.
        showings = _SHOWINGS[self._fold] if n else _SHOWINGS[self._fold][::-1]
        over = {reached(instant, self._zone, fold): fold for fold in showings}
        found = [self._seek(wall + SECOND, n, fold) for wall, fold in over.items()]
        return [instant for instant in found if instant is not None]

    def _seek(self, start: datetime, n: int, fold: Fold) -> datetime | None:
        wall = self._pattern.seek(start, n)
        for _ in range(_HOPS):
            found = None if wall is None else instant_of(wall, self._zone, fold)
            if not isinstance(found, OffsetChange):
                return found
            if self._gap == "run":
                return found.at
            wall = self._pattern.seek(found.low if n else found.high, n)
        return None


@lru_cache(maxsize=4096)
def _timetable(expression: str, tz: str, gap: Gap, fold: Fold) -> _Timetable:
    pattern, zone = parse_pattern(expression), find_zone(tz)
    check_choice("gap", gap, Gap)
    check_choice("fold", fold, Fold)
    if is_wildcard(expression):
        gap, fold = "skip", "both"
    return _Timetable(pattern, zone, gap, "first" if zone is UTC else fold)
