"""A systemd service and timer for a guarded command. Pure: a schedule and words in, the text of two units out.

The timer only says when to try; `cronce exec` says which slot is meant, and runs it once across machines. So a timer
that fires too often does no harm. One that stays silent does: a schedule becomes `OnCalendar=` lines that elapse at
exactly its instants, or it is refused, with the reason.

systemd joins date and weekday by *and*, several lines by *or*: cron's either-or of the two is two lines. Where clocks
change, systemd passes over what the gap swallows, and takes the first of two showings; what cron means by a wildcard,
real time, it does not know. So a schedule is refused where a change of its zone's clocks in the coming years makes a
difference, unless it can be said in UTC.

Of two showings the C library takes the one whose offset is that of the time it was asked for last. systemd goes from
day to day and from hour to hour, so that this is the offset before the change. Not so where it has looked at the end
of the month just before (`~`), or has come from another season straight to midnight of the first: then it may take the
second, an hour late. A time in a gap it takes for one of summer time. Where that is the time before the gap (Dublin and
Casablanca, where winter or Ramadan is the exception by law), systemd is led back, and leaves out the rest of the day,
or years. All those are refused, too.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Final, NamedTuple

from cronce.errors import BadInput
from cronce.model import spell
from cronce.schedule import Cron
from cronce.schedule.describe import ClockChange, changes
from cronce.schedule.expression import EVERY, LAST, MatchingDays, Pattern, Weekday, is_wildcard, parse_pattern
from cronce.schedule.instant import SECOND
from cronce.schedule.zone import OffsetChange, find_zone, offset_at, shifts

CLOCK_CHANGES_SEARCHED: Final = timedelta(days=3660)
"""So far ahead are changes of clocks looked at."""
MARGIN: Final = timedelta(seconds=5)
"""To record how a run ended, after its command has."""

_ONE_HOUR: Final = timedelta(hours=1)
_USER_NAME: Final = r"(?a)\w[\w.-]*"
_SYSTEMD_WEEKDAYS: Final = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_EVERY_DATE: Final = frozenset(range(1, 32))
_EVERY_WEEKDAY: Final = frozenset(range(7))


class Units(NamedTuple):
    """Two files, and how they are called."""

    name: str
    service: str
    timer: str


class _Dates(NamedTuple):
    """Days as systemd writes them: weekdays, and dates counted from the month's start (`-`) or from its end (`~`)."""

    weekdays: frozenset[int] = _EVERY_WEEKDAY
    dates: frozenset[int] = _EVERY_DATE
    from_end: bool = False


def units(name: str, cron: Cron, words: Sequence[str], grace: timedelta, *, since: datetime, user: str = "") -> Units:
    """`words` are the whole `cronce exec` line; `since` is from when on changes of clocks count."""
    lines = "\n".join(f"OnCalendar={line}" for line in calendar(cron, since))
    if user and not re.fullmatch(_USER_NAME, user):
        raise BadInput(f"--user must be the name of a user, of A–Z a–z 0–9 _ . and -, not {user[:60]!r}")
    whose = f"User={user}\n" if user else ""
    service = _SERVICE_UNIT.format(
        name=name, whose=whose, line=" ".join(map(_quoted, words)), stop=int((grace + MARGIN).total_seconds())
    )
    return Units(f"cronce-{name}", service, _TIMER.format(name=name, schedule=cron.text, zone=cron.tz, lines=lines))


_SERVICE_UNIT: Final = """\
[Unit]
Description=cronce: {name}, once for each slot
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
{whose}ExecStart={line}
# The command gets its TERM from cronce, and what is left in the end is killed; that takes the grace and a little more.
KillMode=mixed
TimeoutStopSec={stop}s
# 0: it succeeded, or another host runs it. 143: it was stopped on purpose, which its slot has on record.
# All else is a failure: 75 no store, nothing was run; 76 the slot is closed as failed, lost or unknown.
SuccessExitStatus=143
"""

_TIMER: Final = """\
[Unit]
Description=cronce: when to try {name}

[Timer]
# {schedule} in {zone}
{lines}
# No delay of its own on each host: who starts late means the same slot, but starts late.
AccuracySec=1s
RandomizedDelaySec=0
# Missed while this host was off: tried once when it is back. cronce then runs the latest slot if no host did and it is
# not too late for it (--start-within; else until the next slot); older ones stay missed.
Persistent=true

[Install]
WantedBy=timers.target
"""


def _quoted(word: str) -> str:
    """A word of ExecStart=: `%` and `$` are systemd's own, and so are backslashes and quotes."""
    if any(not letter.isprintable() for letter in word):
        raise BadInput(f"{word[:40]!r} has control characters in it, which a unit file cannot hold; put it in a script")
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return plain if word and word == plain and not set(word) & set(" ';") else f'"{plain}"'


# --- when -------------------------------------------------------------------------------------------------------------


def calendar(cron: Cron, since: datetime) -> list[str]:
    """The `OnCalendar=` lines whose instants are those of the schedule; refused where there are none such."""
    pattern = parse_pattern(cron.expression)
    days = _dates(pattern._days, cron)
    zone = _zone(cron, pattern, since, from_end=any(part.from_end for part in days))
    months = _listed(pattern._days.months, 12)
    time = ":".join(
        _listed(values, size) for values, size in ((pattern._hours, 24), (pattern._minutes, 60), (pattern._seconds, 60))
    )
    return [f"{_day(dates, months)} {time} {zone}" for dates in days]


def _day(days: _Dates, months: str) -> str:
    weekdays = (
        ""
        if days.weekdays == _EVERY_WEEKDAY
        else ",".join(_SYSTEMD_WEEKDAYS[day] for day in sorted(days.weekdays)) + " "
    )
    return f"{weekdays}*-{months}{'~' if days.from_end else '-'}{_listed(days.dates, 31)}"


def _listed(values: Iterable[int], size: int) -> str:
    numbers = sorted(values)
    return "*" if len(numbers) == size else ",".join(f"{number:02}" for number in numbers)


def _dates(days: MatchingDays, cron: Cron) -> list[_Dates]:
    """The days as a union; where cron joins the two fields by *and*, each part of one with each part of the other."""
    by_date, by_weekday = list(_by_date(days)), list(_by_weekday(days.weekdays))
    if not days.both:
        return [part for part in (*by_date, *by_weekday) if part.dates]
    return [both for one in by_date for other in by_weekday if (both := _and(one, other, cron)).dates and both.weekdays]


def _and(one: _Dates, other: _Dates, cron: Cron) -> _Dates:
    if one.from_end != other.from_end and _EVERY_DATE not in (one.dates, other.dates):
        raise BadInput(
            f"{cron.text!r}: systemd cannot count days from the start and from the end of the month in one line; leave"
            " out one of the two, or use a crontab"
        )
    narrow = other if one.dates == _EVERY_DATE else one
    dates = one.dates & other.dates if one.from_end == other.from_end else narrow.dates
    return _Dates(one.weekdays & other.weekdays, dates, narrow.from_end)


def _by_date(days: MatchingDays) -> Iterator[_Dates]:
    yield _Dates(dates=frozenset(date for date in days.dates if isinstance(date, int)))
    if "L" in days.dates:
        yield _Dates(dates=frozenset({1}), from_end=True)
    if "LW" in days.dates:  # the last day, or the Friday before it when that is a Saturday or a Sunday
        yield _Dates(frozenset(range(1, 6)), frozenset({1}), from_end=True)
        yield _Dates(frozenset({5}), frozenset({2, 3}), from_end=True)


def _by_weekday(weekdays: Iterable[Weekday]) -> Iterator[_Dates]:
    every = frozenset(number for number, nth in weekdays if nth == EVERY)
    if every:
        yield _Dates(every)
    for number, nth in sorted(weekdays):
        if nth == LAST:
            yield _Dates(frozenset({number}), frozenset(range(1, 8)), from_end=True)
        elif nth != EVERY:  # the second Monday is the one from the 8th to the 14th
            yield _Dates(frozenset({number}), frozenset(range(7 * nth - 6, 7 * nth + 1)) & _EVERY_DATE)


# --- by whose clocks --------------------------------------------------------------------------------------------------


def _zone(cron: Cron, pattern: Pattern, since: datetime, *, from_end: bool) -> str:
    """The zone that systemd is told: the schedule's own, or UTC where the whole hours of both are the same."""
    for change in changes(cron, since, since + CLOCK_CHANGES_SEARCHED):
        if why := _trouble(change, cron, from_end=from_end):
            if _says_the_same_in_utc(cron, pattern, since):
                return "UTC"
            raise BadInput(f"{cron.text!r} in {cron.tz}: when its clocks change at {spell(change.shift.at)}, {why}")
    return cron.tz


def _trouble(change: ClockChange, cron: Cron, *, from_end: bool) -> str:
    """What systemd would do otherwise where clocks change; nothing if it does the same."""
    match change.effect:
        case "moved" if not change.joins:
            return (
                "systemd skips a time in the gap, and cronce would run it right after the gap; add --gap skip if"
                " you want it skipped, or choose another hour, --tz UTC, or a crontab"
            )
        case "moved" | "skipped" if _leads_back(change.shift, find_zone(cron.tz)):
            return (
                "systemd may skip more than the times in the gap: the rest of that day or later days; choose"
                " another hour, --tz UTC, or a crontab"
            )
        case "once" if cron.fold == "first":
            if not from_end and not _begins_a_month(change.shift):
                return ""
            return (
                "a time occurs twice, and it is not certain which one systemd takes when days are counted from"
                " the end of the month, or a month begins; choose another hour, --tz UTC, or a crontab"
            )
        case "once" | "twice":
            return (
                "a time occurs twice; systemd takes only the first, and this schedule does not; choose another"
                " hour, --fold first, --tz UTC, or a crontab"
            )
        case _:
            return ""


def _leads_back(gap: OffsetChange, zone: tzinfo) -> bool:
    """Whether the C library may take a time in the gap for an earlier one: unless summer time begins with it."""
    return bool((gap.at - SECOND).astimezone(zone).dst()) or not gap.at.astimezone(zone).dst()


def _begins_a_month(shift: OffsetChange) -> bool:
    """Whether the midnight that begins a month shows twice."""
    first = shift.high.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return shift.low <= first < shift.high


def _says_the_same_in_utc(cron: Cron, pattern: Pattern, since: datetime) -> bool:
    days = pattern._days
    every_day = (
        days.dates == _EVERY_DATE and {number for number, nth in days.weekdays if nth == EVERY} == _EVERY_WEEKDAY
    )
    if not every_day or len(days.months) < 12 or len(pattern._hours) < 24 or not is_wildcard(cron.expression):
        return False
    zone = find_zone(cron.tz)
    offsets = {offset_at(since, zone), *(shift.after for shift in shifts(zone, since, since + CLOCK_CHANGES_SEARCHED))}
    return all(offset % _ONE_HOUR == timedelta(0) for offset in offsets)
