"""What a schedule means, by brute force: look at the wall clock of every minute, or second, and keep what matches.

It shares no idea with the product: it asks for no offset and knows no `fold`. It only watches a clock on the wall, sees
which times it showed once, twice or never, and applies the policy to what it saw.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from cronce.policy import Fold, Gap

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
Name = int | str | tuple[int, int | str]
"""What a field may call a value: 5, "L", or for a weekday (1, 2), its second Monday, and (1, "L"), its last."""

MARGIN = timedelta(hours=26)  # more than any clock was ever put forward or back


@dataclass(frozen=True)
class Field:
    """A field as text, and what that text is known to mean: it was made together with it."""

    text: str
    values: frozenset[Name]

    @property
    def is_star(self) -> bool:
        return self.text.startswith("*")


@dataclass(frozen=True)
class Rule:
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field
    second: Field | None = None

    @property
    def text(self) -> str:
        fields = (self.second, self.minute, self.hour, self.day, self.month, self.weekday)
        return " ".join(field.text for field in fields if field is not None)

    @property
    def is_wildcard(self) -> bool:
        return self.minute.is_star or self.hour.is_star

    def matches(self, wall: datetime) -> bool:
        return (
            wall.minute in self.minute.values
            and wall.hour in self.hour.values
            and wall.second in (self.second.values if self.second else {0})
            and wall.month in self.month.values
            and self.matches_day(wall.date())
        )

    def matches_day(self, day: date) -> bool:
        by_date = bool(names_of_date(day) & self.day.values)
        by_weekday = bool(names_of_weekday(day) & self.weekday.values)
        return by_date and by_weekday if self.day.is_star or self.weekday.is_star else by_date or by_weekday


@lru_cache(maxsize=4096)
def names_of_date(day: date) -> set[Name]:
    """All that a day-of-month field may call this day."""
    rest = [day + n * DAY for n in range(1, 32) if (day + n * DAY).month == day.month]
    is_last = not rest
    is_last_weekday = day.isoweekday() <= 5 and all(later.isoweekday() > 5 for later in rest)
    return {day.day, "L" if is_last else "", "LW" if is_last_weekday else ""}


@lru_cache(maxsize=4096)
def names_of_weekday(day: date) -> set[Name]:
    """All that a day-of-week field may call this day."""
    number = day.isoweekday()
    same = [day + 7 * n * DAY for n in range(-5, 6) if (day + 7 * n * DAY).month == day.month]
    return {
        name
        for alias in (number, number % 7)
        for name in (alias, (alias, same.index(day) + 1), (alias, "L" if day == same[-1] else ""))
    }


@lru_cache(maxsize=64)
def watch(zone: str, start: datetime, end: datetime, step: timedelta) -> list[tuple[datetime, datetime]]:
    """Each instant from `start` to `end`, and what a clock on the wall showed."""
    tz = ZoneInfo(zone)
    count = (end - start) // step
    return [(at, at.astimezone(tz).replace(tzinfo=None, fold=0)) for at in (start + n * step for n in range(count + 1))]


def expected(
    rule: Rule,
    zone: str,
    gap: Gap,
    fold: Fold,
    start: datetime,
    end: datetime,
    step: timedelta = MINUTE,
    margin: timedelta = MARGIN,
) -> list[datetime]:
    """The instants of `rule` after `start`, up to and including `end`."""
    seen = watch(zone, start - margin, end + margin, step)
    shown: dict[datetime, list[datetime]] = {}
    for at, wall in seen:
        if rule.matches(wall):
            shown.setdefault(wall, []).append(at)
    if rule.is_wildcard:
        found = {at for showings in shown.values() for at in showings}
    else:
        found = {at for showings in shown.values() for at in counted(showings, fold)}
        found |= {at for at, walls in jumped(seen, step) if gap == "run" and any(map(rule.matches, walls))}
    return sorted(at for at in found if start < at <= end)


def counted(showings: list[datetime], fold: Fold) -> list[datetime]:
    return {"first": showings[:1], "second": showings[-1:], "both": showings}[fold]


def jumped(seen: list[tuple[datetime, datetime]], step: timedelta) -> Iterable[tuple[datetime, list[datetime]]]:
    """Where the clock was put forward: the first instant after, and the wall times it never showed."""
    for (_, earlier), (at, later) in pairwise(seen):
        if later - earlier > step:
            yield at, [earlier + n * step for n in range(1, (later - earlier) // step)]


def utc(text: str) -> datetime:
    """An instant from ISO text with an offset."""
    at = datetime.fromisoformat(text)
    assert at.tzinfo is not None, text
    return at.astimezone(UTC)
