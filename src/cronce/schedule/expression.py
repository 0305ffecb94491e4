"""The text of a cron expression → the wall times it matches. An error points at the item that is wrong.

The wall times are a sorted sequence that is counted, never written out. In one month the matching times are days ×
hours × minutes × seconds, in that order, so the n-th of them is n written in mixed radix, and the rank of a wall time
is the same sum read backwards. Forwards, backwards and "how many" are then one thing: take the rank, add to it, and
look up the time at the new rank.

    0,30 9-11 * * MON    July 2026: Mondays 6, 13, 20, 27 × hours 9, 10, 11 × minutes 0, 30 × second 0 = 24 times
                         weights 6, 2, 1, 1:   Monday 13, 10:30 has rank 1·6 + 1·2 + 1·1 + 0 = 9
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from datetime import MAXYEAR, MINYEAR, date, datetime
from functools import lru_cache
from itertools import product
from typing import Literal, TypeVar

from cronce.errors import BadSchedule
from cronce.schedule.instant import shown
from cronce.value import NamedTuple

Weekday = tuple[int, int]
"""A weekday (0 = Sunday) and which one of the month: EVERY, 1 to 5, or LAST."""
EVERY, LAST = 0, -1

End = Literal["L", "LW"]
"""Where a month ends: its last day, or its last day from Monday to Friday."""

_FIRST_MONTH, _LAST_MONTH = MINYEAR * 12, MAXYEAR * 12 + 11
_MONTH_LENGTHS = {2: (28, 29), 4: (30,), 6: (30,), 9: (30,), 11: (30,)}


class MatchingDays:
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
            for length in _MONTH_LENGTHS.get(month, (31,))
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

    def __init__(
        self, days: MatchingDays, hours: Iterable[int], minutes: Iterable[int], seconds: Iterable[int]
    ) -> None:
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
    lengths = _MONTH_LENGTHS.get(number, (31,))
    return date(year, number, 1).weekday(), lengths[-1] if is_leap else lengths[0]


def _end(end: End, first: int, length: int) -> int:
    last = (first + length - 1) % 7  # Saturday (5) is one day past the last weekday, Sunday (6) two
    return length if end == "L" else length - max(0, last - 4)


def _days(weekday: Weekday, first: int, length: int) -> range:
    """The days of the month that are this weekday. Cron counts from Sunday, Python from Monday: one less."""
    number, nth = weekday
    days = range(1 + (number - 1 - first) % 7, length + 1, 7)
    return days if nth == EVERY else days[-1:] if nth == LAST else days[nth - 1 : nth]


# --- the text ---------------------------------------------------------------------------------------------------------

T = TypeVar("T")

FIVE = "minute hour day-of-month month day-of-week"

MAX_EXPRESSION = 1_000  # all values of all six fields, written out one by one, take about half of it

NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class CronField(NamedTuple):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    """`names[0]` is `low`, and so on."""
    unit: str = ""
    """How a span of such steps is written: 90 minutes are `90m`."""


_MONTH_CODES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAY_CODES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

CRON_FIELDS = (
    CronField("second", 0, 59, unit="s"),
    CronField("minute", 0, 59, unit="m"),
    CronField("hour", 0, 23, unit="h"),
    CronField("day-of-month", 1, 31, unit="d"),
    CronField("month", 1, 12, names=_MONTH_CODES),
    CronField("day-of-week", 0, 7, names=_WEEKDAY_CODES),
)

_RANGE = r"(?a)(?:\*|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>\w+))?"
_NTH_WEEKDAY = r"(?a)(?P<day>\w+?)(?:#(?P<nth>[0-9]+)|L)"


class _ItemError(ValueError):
    """What is wrong with an item. Only the caller that split the expression knows the item's position."""


class _Word(NamedTuple):
    """The text of one field, and its position in the expression."""

    field: CronField
    text: str
    start: int
    expression: str

    def error(self, reason: str, start: int, length: int) -> BadSchedule:
        return BadSchedule(_pointed(self.expression, start, length, f"{self.field.name}: {reason}"))


def tidy(text: str, longest: int = MAX_EXPRESSION) -> str:
    """`text` with single spaces, and a nickname written out; refused when it is no line of plain text at all."""
    if not isinstance(text, str):
        raise BadSchedule(f"a schedule must be text, not {shown(text)}")
    if len(text) > longest:
        raise BadSchedule(f"a schedule may have at most {longest:,} characters, not {shown(text)}")
    if odd := re.search(r"[^\t -~]", text):
        raise BadSchedule(f"a schedule must be one line of plain ASCII; character {odd.start() + 1} is {odd[0]!r}")
    words = " ".join(text.split())
    if not words:
        raise BadSchedule(f"this schedule is empty; write {FIVE}, or '@daily', or 'every 15m'")
    return NICKNAMES.get(words.lower(), words)


def is_wildcard(expression: str) -> bool:
    """Debian's rule: an expression whose minute or hour starts with `*` follows real time, not the wall clock."""
    minute, hour = expression.split()[-5:-3]
    return minute.startswith("*") or hour.startswith("*")


def parse_pattern(expression: str) -> Pattern:
    """The wall times that a tidy expression matches; one that matches none is refused."""
    second, minute, hour, day, month, weekday = _words(expression)
    times = [_values(word, _numbers) for word in (second, minute, hour)]
    days = MatchingDays(
        dates=_values(day, _dates),
        months=_values(month, _numbers),
        weekdays=_values(weekday, _weekdays),
        both=day.text.startswith("*") or weekday.text.startswith("*"),
    )
    if not days.ever():
        raise day.error("none of its months has such a day, so this never fires", day.start, len(day.text))
    return Pattern(days, *reversed(times))


def _words(expression: str) -> list[_Word]:
    """The six fields; of five, the seconds are an unwritten 0."""
    found = list(re.finditer("[^ ]+", expression))
    if len(found) not in (5, 6) or not expression.startswith(tuple("0123456789*")):
        _refuse_foreign(expression, len(found))
    fields = zip(CRON_FIELDS[-len(found) :], found, strict=True)
    unwritten = [_Word(CRON_FIELDS[0], "0", 0, expression)] if len(found) == 5 else []
    return [*unwritten, *(_Word(field, text[0], text.start(), expression) for field, text in fields)]


def _refuse_foreign(expression: str, fields: int) -> None:
    """Refuse what is no cron expression at all. Five words that start oddly may still be one with a slip in it."""
    remedy = _misspelt(expression.lower()) or _remedy(expression.lower(), _FOREIGN_SCHEDULES)
    if remedy is None and fields not in (5, 6):
        expected = f"5 are expected ({FIVE}), or 6 with the second first; there is no year"
        torn = "; put it in quotes, or the shell splits it" if fields == 1 or fields > 7 else ""
        remedy = f"{fields} field{'s' if fields > 1 else ''}, where {expected}{torn}"
    if remedy is not None:
        raise BadSchedule(_pointed(expression, 0, len(expression), remedy))


def _misspelt(expression: str) -> str | None:
    """`evry 5m` and `@dayly`: what was meant, where one letter or two are wrong."""
    from difflib import get_close_matches  # noqa: PLC0415  only who misspells pays for it

    first, _, rest = expression.partition(" ")
    known = _NICKNAMES if first.startswith("@") else ("every",) if rest[:1].isdigit() and " " not in rest else ()
    close = get_close_matches(first, known, n=1, cutoff=0.8) if first not in known else ()
    return f"did you mean '{f'{close[0]} {rest}'.rstrip()}'?" if close else None


def _values(word: _Word, read: Callable[[CronField, str], Iterable[T]]) -> set[T]:
    """The values of all items of a list, as `read` reads them; where one is wrong, point at it."""
    values: set[T] = set()
    start = word.start
    for item in word.text.upper().split(","):
        try:
            values.update(read(word.field, item))
        except _ItemError as error:
            raise word.error(_remedy(item, _FOREIGN_ITEMS) or str(error), start, len(item)) from None
        start += len(item) + 1
    return values


def _dates(field: CronField, item: str) -> Iterable[int | End]:
    """`L` and `LW` stay as they are: which date they mean is up to the month."""
    match item:
        case "L" | "LW":
            return (item,)
        case _:
            return _numbers(field, item)


def _weekdays(field: CronField, item: str) -> Iterable[Weekday]:
    """`MON` is every Monday, `MON#2` the second of the month, `MONL` the last; Sunday is 0 and 7."""
    match = re.fullmatch(_NTH_WEEKDAY, item)
    if match is None:
        return [(day % 7, EVERY) for day in _numbers(field, item)]
    nth = int(match["nth"]) if match["nth"] else LAST
    if nth not in (LAST, 1, 2, 3, 4, 5):
        raise _ItemError(f"#{nth} is not in #1–#5; a month has at most five of each weekday")
    return [(_number(field, match["day"]) % 7, nth)]


def _numbers(field: CronField, item: str) -> range:
    """`*`, `5`, `5-20`, each perhaps with a step; `5/20` steps from 5 to the end of the field."""
    match = re.fullmatch(_RANGE, item)
    if match is None:
        raise _ItemError(f"{item!r} is not like 5, 1-5 or */15, or a list of these")
    first, last, step = match.groups()
    start = _number(field, first) if first else field.low
    stop = _number(field, last) if last else start if first and not step else field.high
    if stop < start:
        raise _ItemError(_backwards(field, first, last))
    return range(start, stop + 1, _step(field, step) if step else 1)


def _number(field: CronField, word: str) -> int:
    if word in field.names:
        return field.low + field.names.index(word)
    if not word.isdigit():
        known = f"a number or one of {' '.join(field.names)}" if field.names else "a number"
        raise _ItemError(f"{word} is not {known}")
    if not field.low <= int(word) <= field.high:
        year = " (there is no year field)" if len(word) == 4 else ""
        raise _ItemError(f"{word} is not in {field.low}–{field.high}{year}")
    return int(word)


def _step(field: CronField, step: str) -> int:
    """A step may be as long as its field (`0 */24 * * *`); a longer one cannot do what it seems to mean."""
    size = field.high - field.low + 1
    if not step.isdigit() or int(step) == 0:
        raise _ItemError(f"a step of {step} does not advance; use 1 or more")
    if int(step) > size:
        instead = f"; for a longer period write 'every {step}{field.unit}'" if field.unit else ""
        raise _ItemError(f"a step of {step} is longer than the field, which has {size} values{instead}")
    return int(step)


def _backwards(field: CronField, first: str, last: str) -> str:
    """`22-2` is two ranges: up to the end of the field, and on from its start."""
    low, *_, high = field.names or (str(field.low), str(field.high))
    return f"{first}-{last} runs backwards; write {first}-{high},{low}-{last}"


def _pointed(text: str, start: int, length: int, reason: str) -> str:
    """`text` on a line of its own, and under the part that is wrong a caret with the reason."""
    return f"cannot read this schedule\n  {text}\n  {' ' * start}{'^' * max(1, length)} {reason}"


# --- what people bring from other schedulers ------------------------------------------------------------------------

_NICKNAMES = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")

# Whole schedules, in small letters. No pattern may try two ways through the same text: it may be hostile.
_FOREIGN_SCHEDULES = (
    (r"@reboot", "machines boot at different times, so they share no slot; call it at start-up"),
    (r"@every +(.+)", r"write 'every \1'"),
    (r"@.*", f"the known names are {' '.join(_NICKNAMES)}"),
    (r"rate\( *([0-9]+) +([smhdw])[a-z]* *\)", r"write 'every \1\2'"),
    (r"cron\(.*", f"write the fields alone, without cron(…): {FIVE}; there is no year, and Sunday is 0 or 7"),
    (r"(?:cron_)?tz *=.*", "give the zone beside the expression, as in tz='Europe/Berlin'"),
    (r"(yearly|annually|monthly|weekly|daily|hourly)", r"write '@\1'"),
    (r"every +([0-9][^ ]*)", r"this is not cron; write Every('\1')"),
    (r"every *([0-9][^ ]*)|([0-9]+[wdhms][0-9a-z]*)", r"write 'every \1\2'"),
    (r"at +([^ ]+)", r"this is not cron; write At('\1')"),
    (r"(?:[a-z.,]+ +)?[^ -]+-[^ -]+-[^ -]+ +[^ :]+:[^ ]*", f"this is systemd's; write {FIVE}"),
    (r"([0-9]{4}-[0-9]{2}-[0-9]{2}t[^ ]*)", "for a single instant write 'at 2026-03-29T01:00:00Z'"),
)

# Single items of a field, in capitals. They are looked up only for items that are wrong in their field.
_FOREIGN_ITEMS = (
    (r"", "an empty item; remove the comma"),
    (r"\?", "'?' is Quartz's; write *"),
    (r"H(?:\(.*\))?(?:/.*)?", "'H' is a number that Jenkins chooses; write a number"),
    (r".*~.*", "'~' is a random number, and each machine would choose its own; write a number"),
    (r"(\w+)\.\.(\w+)", r"write \1-\2"),
    (r"[0-9]+W", "the weekday nearest to a date is not supported; LW is the last weekday of the month"),
    (r"L-[0-9]+", "days before the last are not supported; L is the last day of the month"),
    (r"LW?(?:/.*)?", "L and LW are for day-of-month, alone; the last Friday is FRIL"),
)


def _remedy(text: str, table: tuple[tuple[str, str], ...]) -> str | None:
    """Our spelling of a foreign one; None where the text looks like nothing in the table."""
    matches = ((re.fullmatch(pattern, text), remedy) for pattern, remedy in table)
    return next((match.expand(remedy) for match, remedy in matches if match), None)
