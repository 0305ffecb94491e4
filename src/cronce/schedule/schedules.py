"""The other schedules: at equal distances, at listed instants, within bounds; and all of them as text and back."""

from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta
from typing import Final, assert_never

from cronce.errors import BadInput, BadSchedule
from cronce.model import EPOCH, spell
from cronce.policy import Fold, Gap
from cronce.schedule.cron import Cron
from cronce.schedule.expression import tidy
from cronce.schedule.instant import RESOLUTION, SECOND, format_duration, parse_duration, parse_instant, shown
from cronce.value import Value

MAX_INSTANTS = 1_000
"""A job's schedule is stored and read as a whole; what has more instants than this is data, not a schedule."""

_LONGEST_LIST = MAX_INSTANTS * 32  # an instant is written in at most 25 characters
_EVER: Final = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


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
