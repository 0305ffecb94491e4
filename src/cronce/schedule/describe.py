"""A schedule in plain English, and what a zone's changes of clocks do to it: which of its wall times they dispute, and
what becomes of those. Pure.

The words follow from the values that a schedule fires by, not from how they were written: `0,15,30,45 * * * *` reads
as `*/15 * * * *` does, and `*/40 * * * *` admits that it is :00 and :40.

The wall times of an expression are its instants in UTC, where every wall time shows once: so the same expression
without its zone shows which of them fall into a gap or a fold.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from typing import Final, Literal, assert_never

from cronce.schedule.expression import EVERY, LAST, End, MatchingDays, Weekday, is_wildcard, parse_pattern
from cronce.schedule.instant import RESOLUTION, SECOND
from cronce.schedule.schedules import At, Cron, Every, Schedule, Window
from cronce.schedule.zone import OffsetChange, find_zone, shifts
from cronce.value import NamedTuple

Effect = Literal["none", "moved", "skipped", "once", "twice"]
"""What becomes of the wall times that a change disputes: there are none; they run when the gap ends; they do not run;
they run at one of their two showings; they run at both."""


class TimesInOrder(NamedTuple):
    """Times in order: how many, the first, the last."""

    number: int
    first: datetime
    last: datetime


class ClockChange(NamedTuple):
    """One change of clocks, and what it does to a schedule."""

    shift: OffsetChange
    wildcard: bool
    effect: Effect
    walls: TimesInOrder | None
    """The disputed wall times of the schedule, naive."""
    slots: TimesInOrder | None
    """The slots at which they run."""
    joins: bool = False
    """They run at an instant that is a slot of the schedule anyway."""

    @property
    def is_gap(self) -> bool:
        return self.shift.before < self.shift.after


def changes(cron: Cron, since: datetime, until: datetime) -> list[ClockChange]:
    """The changes of its zone's clocks after `since`, up to `until`, each with what it does to the schedule."""
    return [_change(cron, shift) for shift in shifts(find_zone(cron.tz), since, until)]


def _change(cron: Cron, shift: OffsetChange) -> ClockChange:
    wall = Cron(cron.expression)
    disputed = _between(wall, shift.low.replace(tzinfo=UTC), shift.high.replace(tzinfo=UTC))
    wildcard = is_wildcard(cron.expression)
    if disputed is None:
        return ClockChange(shift, wildcard, "none", None, None)
    walls = TimesInOrder(disputed.number, disputed.first.replace(tzinfo=None), disputed.last.replace(tzinfo=None))
    if shift.before > shift.after:
        width = shift.before - shift.after
        slots = _between(cron, shift.at - width, shift.at + width)
        return ClockChange(shift, wildcard, "twice" if wildcard or cron.fold == "both" else "once", walls, slots)
    if wildcard or cron.gap == "skip":
        return ClockChange(shift, wildcard, "skipped", walls, None)
    end = shift.high.replace(tzinfo=UTC)
    return ClockChange(shift, wildcard, "moved", walls, TimesInOrder(1, shift.at, shift.at), joins=_fires(wall, end))


def _between(cron: Cron, start: datetime, end: datetime) -> TimesInOrder | None:
    """The instants from `start` up to, not including, `end`."""
    first, last = cron.next(start - RESOLUTION), cron.previous(end)
    if first is None or last is None or first > last:
        return None
    return TimesInOrder(cron.count(start - SECOND, end - SECOND), first, last)


def _fires(cron: Cron, instant: datetime) -> bool:
    return cron.next(instant - RESOLUTION) == instant


TIMES_LISTED: Final = 4
"""Up to this many times of a day are listed even where a rule would describe them: `0 */6 * * *` is four times."""
SOME: Final = 12
"""At most this many are listed where no rule describes them."""

_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60
_WEEKDAY_NAMES: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTH_NAMES: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_NTH: Final = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", LAST: "last"}


def describe(schedule: Schedule) -> str:
    """When it fires, in a sentence without a full stop; for cron by the clocks of its zone, which is not named."""
    match schedule:
        case Cron():
            return _cron(schedule)
        case Every():
            return _every(schedule.span)
        case At():
            return _at(schedule.instants)
        case Window(rule, start, end):
            bounds = (("from", start), ("to", end))
            return ", ".join([describe(rule), *[f"{word} {_moment(bound)} UTC" for word, bound in bounds if bound]])
        case _:
            assert_never(schedule)


# --- every, at ------------------------------------------------------------------------------------------------------


def _every(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    start = "00:00 UTC" if _DAY % seconds == 0 else "1970-01-01 00:00 UTC"
    return f"every {_span(seconds)}, counted from {start}"


def _at(instants: Sequence[datetime]) -> str:
    shown = list(map(_moment, instants))
    if len(shown) == 1:
        return f"once, at {shown[0]} UTC"
    if len(shown) > TIMES_LISTED:
        return f"at {len(shown):,} instants, from {shown[0]} to {shown[-1]} UTC"
    return f"at {_listed(shown)} UTC"


def _moment(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S}"


# --- cron -----------------------------------------------------------------------------------------------------------


class _Times(NamedTuple):
    """The times of a day in words. `whole`: they go round the clock, and need no "every day"."""

    text: str
    whole: bool = False
    windows: bool = False


def _cron(cron: Cron) -> str:
    pattern = parse_pattern(cron.expression)  # no second reading of the text: the words are about what it fires by
    times = _times(pattern._hours, pattern._minutes, pattern._seconds)
    days = _days(pattern._days)
    if not days.startswith("on ") and not days.startswith(_WEEKDAY_NAMES) and not times.whole:
        days = f"every day {days}".rstrip()
    if not days:
        return times.text
    comma = "," if times.windows or days.startswith(_WEEKDAY_NAMES) else ""
    return f"{times.text}{comma} {days}"


# --- the times of a day ---

_Clock = Callable[[int], str]


def _times(hours: Sequence[int], minutes: Sequence[int], seconds: Sequence[int]) -> _Times:
    """Listed if few; as a rule if there is one for the day; else hour by hour."""
    clock = _to_the_second if any(seconds) else _to_the_minute
    times = [hour * _HOUR + minute * _MINUTE + second for hour, minute, second in product(hours, minutes, seconds)]
    step = _step(times)
    if step and len(times) > TIMES_LISTED:
        return _rule(times, step, clock)
    if len(times) <= SOME:
        return _Times(f"at {_listed(map(clock, times))}")
    return _Times(f"{_within_hour(minutes, seconds)} of {_of_hours(hours)}", whole=len(hours) == 24, windows=True)


def _rule(times: Sequence[int], step: int, clock: _Clock) -> _Times:
    """Times at equal distances. Those that go on so across midnight need no beginning and no end."""
    first, last = times[0], times[-1]
    if len(times) * step != _DAY or step > _HOUR:
        return _Times(f"every {_span(step)} from {clock(first)} through {clock(last)}", windows=True)
    if step == _HOUR:
        past = f"at {_past_hour(first)}" if first else "on the hour"
        return _Times(f"every hour, {past}", whole=True)
    if step == _MINUTE and first:
        return _Times(f"every minute, at second {first}", whole=True)
    return _Times(f"every {_span(step)}" + (f", beginning at {_past_hour(first)}" if first else ""), whole=True)


def _within_hour(minutes: Sequence[int], seconds: Sequence[int]) -> str:
    within = [minute * _MINUTE + second for minute, second in product(minutes, seconds)]
    step = _step(within)
    if step and len(within) > TIMES_LISTED:
        whole = len(within) * step == _HOUR and within[0] == 0
        return f"every {_span(step)}" + (
            "" if whole else f" from {_past_hour(within[0])} through {_past_hour(within[-1])}"
        )
    if len(within) <= SOME:
        return f"at {_listed(map(_past_hour, within))}"
    of_minutes = "every minute" if len(minutes) == 60 else f"the minutes {_listed(_ranges(minutes))}"
    return f"{_within_minute(seconds)} of {of_minutes}" if any(seconds) else f"at {of_minutes}"


def _within_minute(seconds: Sequence[int]) -> str:
    if len(seconds) == 60:
        return "every second"
    return f"at the second{'s' if len(seconds) > 1 else ''} {_listed(_ranges(seconds))}"


def _of_hours(hours: Sequence[int]) -> str:
    step = _step(hours)
    if len(hours) == 24:
        return "every hour"
    if step and len(hours) > 2:
        return f"every {'' if step == 1 else _ordinal(step) + ' '}hour from {hours[0]:02} through {hours[-1]:02}"
    return f"the hour{'s' if len(hours) > 1 else ''} {_listed(_ranges(hours))}"


def _step(values: Sequence[int]) -> int:
    """The distance between neighbours, if it is the same for all; else 0."""
    steps = {later - earlier for earlier, later in pairwise(values)}
    return steps.pop() if len(steps) == 1 else 0


def _to_the_minute(second: int) -> str:
    return f"{second // _HOUR:02}:{second // _MINUTE % 60:02}"


def _to_the_second(second: int) -> str:
    return f"{_to_the_minute(second)}:{second % 60:02}"


def _past_hour(second: int) -> str:
    return f":{second // _MINUTE:02}" + (f":{second % 60:02}" if second % 60 else "")


def _span(seconds: int) -> str:
    """`15 minutes`, `hour`, `1 hour 30 minutes`."""
    parts = []
    for unit, size in (("day", _DAY), ("hour", _HOUR), ("minute", _MINUTE), ("second", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append((count, unit))
    if len(parts) == 1 and parts[0][0] == 1:
        return parts[0][1]
    return " ".join(f"{count} {unit}{'s' if count > 1 else ''}" for count, unit in parts)


# --- the days ---


def _days(days: MatchingDays) -> str:
    """Debian's rule: where a field of days begins with `*`, both must match; else either is enough."""
    months = _months(days.months)
    every_date = days.dates >= set(range(1, 32))
    every_weekday = {number for number, nth in days.weekdays if nth == EVERY} == set(range(7))
    if (every_date and every_weekday) or (not days.both and (every_date or every_weekday)):
        return _during(months)
    if every_date:
        return _on_weekdays(days.weekdays, months)
    dates = f"on {_dates(days.dates, _of(months))}"
    if every_weekday:
        return dates
    if days.both:
        return f"{dates}, if it is {_a_weekday(days.weekdays)}"
    return f"{dates}, and also {_on_weekdays(days.weekdays, months)}"


def _dates(dates: Collection[int | End], of: str) -> str:
    numbers = sorted(date for date in dates if isinstance(date, int))
    ends = ["the last day"] if "L" in dates else []
    ends += ["the last weekday (Monday to Friday)"] if "LW" in dates else []
    step = _step(numbers)
    if step > 1 and len(numbers) > TIMES_LISTED and not ends:
        return f"every {_ordinal(step)} day {of} from the {_ordinal(numbers[0])}"
    return f"{_listed([*_ranges(numbers, lambda day: f'the {_ordinal(day)}'), *ends])} {of}"


def _on_weekdays(weekdays: Collection[Weekday], months: str) -> str:
    every = {number for number, nth in weekdays if nth == EVERY}
    nths = _nths(weekdays)
    parts = [f"{_plain_weekdays(every)} {_during(months)}".rstrip()] if every else []
    parts += [f"on {_listed(nths)} {_of(months)}"] if nths else []
    return " and ".join(parts)


def _plain_weekdays(numbers: set[int]) -> str:
    """Three or more weekdays in a row, also across the end of the week, are `first to last`."""
    starts = [number for number in numbers if (number - 1) % 7 not in numbers]
    if len(starts) == 1 and len(numbers) > 2:
        return f"{_WEEKDAY_NAMES[starts[0]]} to {_WEEKDAY_NAMES[(starts[0] + len(numbers) - 1) % 7]}"
    return f"on {_listed(f'{_WEEKDAY_NAMES[number]}s' for number in _monday_first(numbers))}"


def _a_weekday(weekdays: Collection[Weekday]) -> str:
    every = {number for number, nth in weekdays if nth == EVERY}
    return _listed([*(f"a {_WEEKDAY_NAMES[number]}" for number in _monday_first(every)), *_nths(weekdays)], "or")


def _nths(weekdays: Collection[Weekday]) -> list[str]:
    """`the first Monday`, in the order of the month."""
    chosen = [(word, number) for nth, word in _NTH.items() for number in range(7) if (number, nth) in weekdays]
    return [f"the {word} {_WEEKDAY_NAMES[number]}" for word, number in chosen]


def _monday_first(numbers: Iterable[int]) -> list[int]:
    return sorted(numbers, key=lambda number: (number - 1) % 7)


def _months(months: Iterable[int]) -> str:
    """The months in words; nothing for all of them."""
    numbers = sorted(months)
    return "" if len(numbers) == 12 else _listed(_ranges(numbers, lambda month: _MONTH_NAMES[month - 1]))


def _during(months: str) -> str:
    return months and (f"from {months}" if _is_stretch(months) else f"in {months}")


def _of(months: str) -> str:
    return f"of {months or 'the month'}" if not _is_stretch(months) else f"of each month from {months}"


def _is_stretch(months: str) -> bool:
    """Whether it is one stretch of the year: `March to May`."""
    return " to " in months and " and " not in months


# --- lists and numbers ---


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    """The numbers, divided wherever one is left out."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def _ranges(numbers: Sequence[int], name: Callable[[int], str] = "{:02}".format) -> list[str]:
    """The numbers by name; three or more in a row are `first to last`."""
    parts: list[str] = []
    for run in _runs(numbers):
        parts += [f"{name(run[0])} to {name(run[-1])}"] if len(run) > 2 else map(name, run)
    return parts


def _listed(items: Iterable[str], word: str = "and") -> str:
    *others, last = items
    return f"{', '.join(others)} {word} {last}" if others else last


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


# --- when clocks change ---------------------------------------------------------------------------------------------


def describe_change(change: ClockChange) -> str:
    """What a change of clocks does to a schedule, in a sentence without a full stop."""
    if change.walls is None:
        return f"no slot falls into the {'gap' if change.is_gap else 'repeated time'}: nothing changes"
    one = change.walls.number == 1
    times = _disputed(change.walls)
    shows = "shows" if one else "show"
    lacks = f"{times} {'does' if one else 'do'} not show"
    runs = f"{times} {shows} twice, and {'runs' if one else 'run'}"
    match change.effect:
        case "skipped" if change.wildcard:
            return f"{lacks}: a wildcard follows real time, and has nothing to catch up on"
        case "skipped":
            return f"{lacks}, and {'does' if one else 'do'} not run that day"
        case "moved":
            together = "runs" if one else "run once, together,"
            return f"{lacks}, and {together} at {change.shift.high:%H:%M} {_slots(change)}"
        case "once":
            first = change.slots is not None and change.slots.first < change.shift.at
            return f"{runs} once, the {'first' if first else 'second'} time {_slots(change)}"
        case _:
            return f"{runs} both times {_slots(change)}" + (": a wildcard follows real time" if change.wildcard else "")


def _disputed(walls: TimesInOrder) -> str:
    form = "%H:%M:%S" if walls.first.second or walls.last.second else "%H:%M"
    if walls.number <= 2:
        return _listed(f"{wall:{form}}" for wall in (walls.first, walls.last)[: walls.number])
    return f"{walls.number:,} times from {walls.first:{form}} to {walls.last:{form}}"


def _slots(change: ClockChange) -> str:
    assert change.slots is not None
    number, *ends = change.slots
    shown = [f"{slot:%H:%M:%S}Z" for slot in ends]
    if change.joins:
        return f"({shown[0]}, a slot anyway)"
    return f"({_listed(shown[:number])})" if number <= 2 else f"({shown[0]} to {shown[1]}, {number:,} slots)"
