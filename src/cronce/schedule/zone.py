"""A zone's wall clock, and the places where it jumps.

Every instant shows one time on the wall; the way back is no function. When the offset changes at instant T from
`before` to `after`, the wall times from T + min(before, after) up to T + max(before, after) are *disputed*:

    before < after   a gap     they never show      Berlin, 2026-03-29   T = 01:00Z   +1h → +2h   02:00 up to 03:00
    before > after   a fold    they show twice      Berlin, 2026-10-25   T = 01:00Z   +2h → +1h   02:00 up to 03:00

Python names the two readings of a wall time `fold` 0 and 1. In a gap and in a fold alike, fold 0 reads it with the
offset before the change and fold 1 with the one after; where they agree, nothing is disputed. So a wall time alone
shows that a change is near, and the change itself lies between its two readings: no list of changes is needed.

No zone ever changed its offset twice within three days (a test asks the whole database), and no change is longer than
one. So a wall time is disputed by one change at most.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, cast
from zlib import crc32

from cronce.errors import BadSchedule
from cronce.model import EPOCH
from cronce.policy import Fold
from cronce.schedule.instant import DAY, SECOND, shown, whole
from cronce.value import NamedTuple

MIDNIGHT = EPOCH.replace(tzinfo=None)
"""The epoch on a wall in UTC. Wall times are naive; sums with it are five times faster than `datetime.replace`."""


class OffsetChange(NamedTuple):
    """One change of offset: the clocks on the wall jump."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def low(self) -> datetime:
        """The first disputed wall time."""
        return self.at.replace(tzinfo=None) + min(self.before, self.after)

    @property
    def high(self) -> datetime:
        """The first wall time after the disputed ones."""
        return self.at.replace(tzinfo=None) + max(self.before, self.after)


def find_zone(name: str) -> tzinfo:
    """The zone of an IANA name; `UTC` needs no database."""
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo  # noqa: PLC0415 (most servers run on UTC, and need not pay for it)

    try:
        if not _is_portable(name):
            raise ValueError(name)
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadSchedule(_unknown(name)) from None


def reached(instant: datetime, zone: tzinfo, fold: Fold) -> datetime:
    """The last wall time that is over at `instant`, when one that shows twice is over at the showing `fold` names.

    It is what the wall shows, but for a fold. Berlin's second 02:10 has reached 02:59:59 when first showings count: the
    whole hour was over before it began anew. Its first 02:10 has only reached 01:59:59 when second ones count.
    """
    wall = MIDNIGHT + (instant - EPOCH) + offset_at(instant, zone)
    if fold == "both":
        return wall
    before, after = _readings(wall, zone)
    if before == after:
        return wall
    shift = _shift(wall, zone, before, after)
    if fold == "first":
        return shift.high - SECOND if instant >= shift.at else wall
    return wall if instant >= shift.at else shift.low - SECOND


def instant_of(wall: datetime, zone: tzinfo, fold: Fold) -> datetime | OffsetChange:
    """The instant at which `wall` shows (for the second time if `fold` is "second"), or the gap that swallows it."""
    before, after = _readings(wall, zone)
    if before < after:
        return _shift(wall, zone, before, after)
    return EPOCH + (wall - MIDNIGHT) - (after if fold == "second" else before)


def shifts(zone: tzinfo, since: datetime, until: datetime) -> Iterator[OffsetChange]:
    """The changes after `since`, up to `until`. It looks at each third day: no zone changed twice in them."""
    day = whole(since)
    before = offset_at(day, zone)
    while day < until:
        later = min(day + 3 * DAY, until)
        after = offset_at(later, zone)
        if before != after:
            yield OffsetChange(_moment(zone, day, later), before, after)
        day, before = later, after


RULES_FROM: Final = datetime(2026, 1, 1, tzinfo=UTC)
RULES_UNTIL: Final = datetime(2038, 1, 1, tzinfo=UTC)
"""The years whose changes decide whether two machines mean the same by a zone. Always the same: a version of a job has
to be the same in a year."""


@lru_cache(maxsize=100)
def rules_of(name: str) -> str:
    """A few letters that differ where this machine's database has other changes of the zone's clock than another's:
    those compute other instants from the same schedule. UTC has none."""
    if name == "UTC":
        return ""
    zone = find_zone(name)
    found = shifts(zone, RULES_FROM, RULES_UNTIL)
    lines = [f"{offset_at(RULES_FROM, zone)}", *(f"{one.at:%Y-%m-%dT%H:%M:%S} {one.after}" for one in found)]
    return f"{crc32(chr(10).join(lines).encode()):08x}"


def offset_at(instant: datetime, zone: tzinfo) -> timedelta:
    """Local time minus UTC at `instant`."""
    return cast(timedelta, instant.astimezone(zone).utcoffset())


def _readings(wall: datetime, zone: tzinfo) -> tuple[timedelta, timedelta]:
    """The offset before and the one after the change that disputes `wall`; the same twice where none does."""
    # Whatever disputes a wall time lies between its yesterday and its tomorrow. Nearly always nothing does, and
    # looking there first is four times faster than making a datetime of fold 1.
    yesterday, tomorrow = zone.utcoffset(wall - DAY), zone.utcoffset(wall + DAY)
    if yesterday == tomorrow:
        return cast(timedelta, yesterday), cast(timedelta, tomorrow)
    return cast(timedelta, zone.utcoffset(wall)), cast(timedelta, zone.utcoffset(wall.replace(fold=1)))


def _shift(wall: datetime, zone: tzinfo, before: timedelta, after: timedelta) -> OffsetChange:
    """The change that disputes `wall`: it lies between its two readings."""
    earlier, later = sorted(EPOCH + (wall - MIDNIGHT) - offset for offset in (before, after))
    return OffsetChange(_moment(zone, earlier, later), before, after)


def _moment(zone: tzinfo, earlier: datetime, later: datetime) -> datetime:
    """The first instant of the later offset, by halving."""
    offset = offset_at(later, zone)
    while later - earlier > SECOND:
        middle = earlier + (later - earlier) // SECOND // 2 * SECOND
        earlier, later = (earlier, middle) if offset_at(middle, zone) == offset else (middle, later)
    return whole(later)


def _is_portable(name: str) -> bool:
    """Whether `name` means the same on every host: `localtime` is each host's own, `right/…` counts leap seconds."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_+/-]{1,64}", name):
        return False
    return name not in ("localtime", "posixrules") and not name.startswith(("right/", "posix/"))


def _unknown(name: str) -> str:
    close = _closest(name) if isinstance(name, str) and len(name) <= 64 else None
    remedy = f"did you mean {close!r}?" if close else "write an IANA name such as 'Europe/Berlin'"
    if not _names():
        remedy = "this machine has no time zone database; install the tzdata package"
    return f"{shown(name)} is not a time zone: {remedy}"


def _closest(name: str) -> str | None:
    """The zone that was meant: `berlin`, `europe/berlin` and `Europe/Berln` are Europe/Berlin."""
    from difflib import get_close_matches  # noqa: PLC0415 (only who misspells a zone pays for it)

    names = {zone.casefold(): zone for zone in sorted(_names())}
    cities = {folded.rpartition("/")[2]: zone for folded, zone in names.items()}
    folded = name.strip().replace(" ", "_").casefold()
    if folded in names or folded in cities:
        return names.get(folded) or cities[folded]
    # A short name is an abbreviation or an offset, and suggesting EST for CEST would be no help.
    near = get_close_matches(folded, names, n=1, cutoff=0.8) if len(folded) > 5 else []
    return names[near[0]] if near else None


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    from zoneinfo import available_timezones  # noqa: PLC0415 (as above)

    return frozenset(filter(_is_portable, available_timezones()))
