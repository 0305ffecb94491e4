"""The schedules: cron expressions in a zone, equal distances, listed instants, and bounds around them; and all of them
as text and back.

*Cron expressions* name wall times, carried over to instants by a policy for gaps and folds.

A *fixed* expression (`30 2 * * *`: neither minute nor hour starts with `*`) means wall times. Each of them becomes the
instant at which it shows; in a fold its first showing, its second, or both; in a gap the instant at which the gap ends,
or none. The instants are a set: several wall times of one gap end in the one instant after it.

A *wildcard* expression (`*/5 * * * *`) means real time: each instant whose wall clock matches. That is exactly what a
fixed one means under gap="skip" and fold="both", and it is computed as that, whatever the policy is.

Going along the wall clock, the instants of fold="first" never go back, and neither do those of fold="second". So the
next instant belongs to the next wall time after those that are over (`reached`), and fold="both" is the union of the
two: the earlier of two nexts, the later of two previouses.
"""

from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, assert_never

from cronce.errors import BadInput, BadSchedule
from cronce.model import EPOCH, spell
from cronce.policy import Fold, Gap, check_choice
from cronce.schedule.expression import Pattern, is_wildcard, parse_pattern, tidy
from cronce.schedule.instant import RESOLUTION, SECOND, format_duration, parse_duration, parse_instant, shown, whole
from cronce.schedule.zone import OffsetChange, find_zone, instant_of, offset_at, reached
from cronce.value import Value

MAX_INSTANTS = 1_000
"""A job's schedule is stored and read as a whole; what has more instants than this is data, not a schedule."""

_LONGEST_LIST = MAX_INSTANTS * 32  # an instant is written in at most 25 characters
_EVER: Final = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

# --- cron expressions -------------------------------------------------------------------------------------------------

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


# --- the others -------------------------------------------------------------------------------------------------------


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
        raise BadSchedule(f"every: {period / SECOND:g} seconds; slots are whole seconds, so write '1s', '2s' and so on")
    return period


class At(Value):
    """One or several explicit instants, sorted, each once."""

    instants: tuple[datetime, ...]

    def __init__(self, *instants: datetime | str) -> None:
        if not 1 <= len(instants) <= MAX_INSTANTS:
            raise BadSchedule(f"at: name 1 to {MAX_INSTANTS:,} instants, not {len(instants):,}")
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


Rule = Cron | Every | At
"""A schedule without bounds of its own."""


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


Schedule = Rule | Window
"""What yields instants: `next`, `previous`, `count`, and `text` to write it down."""


# --- as text --------------------------------------------------------------------------------------------------------


def parse_schedule(
    text: str,
    tz: str = "UTC",
    gap: Gap = "run",
    fold: Fold = "first",
    *,
    start: datetime | str | None = None,
    end: datetime | str | None = None,
) -> Schedule:
    """The schedule that `text` describes: a cron expression or its nickname, `every 15m`, or `at 2026-03-29T01:00:00Z`;
    from `start` to `end`, where they are given."""
    return bounded(_parse_rule(text, tz, gap, fold), start, end)


def bounded(schedule: Schedule, start: datetime | str | None, end: datetime | str | None) -> Schedule:
    """The schedule from `start` to `end`; as it is when neither is given."""
    if start is None and end is None:
        return schedule
    if isinstance(schedule, Window):
        raise BadSchedule(f"{shown(schedule.text)} has a start or an end already")
    return Window(schedule, start, end)


def rule_of(schedule: Schedule) -> Rule:
    """The schedule without its start and end."""
    return schedule.rule if isinstance(schedule, Window) else schedule


def _parse_rule(text: str, tz: str, gap: Gap, fold: Fold) -> Rule:
    tidied = tidy(text, longest=_LONGEST_LIST)
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
        case Window(rule, start, end):
            bounds = {"start": start, "end": end}
            return spec_of(rule) | {name: spell(bound) for name, bound in bounds.items() if bound}
        case _:
            assert_never(schedule)


def _refuse_policy(text: str, tz: str, gap: Gap, fold: Fold) -> None:
    """A zone here would be believed, and do nothing: `every 1d` does not begin at Berlin's midnight."""
    if (tz, gap, fold) != ("UTC", "run", "first"):
        raise BadSchedule(
            f"{shown(text)} counts real time, not local time: leave out tz, gap and fold, or use a cron expression"
        )
