"""Which slots are due, and which slot a call from outside is for. Time is an argument everywhere."""

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Literal

from cronce.errors import BadSchedule
from cronce.model import spell
from cronce.policy import Missed, check_choice
from cronce.schedule.instant import RESOLUTION, SECOND, shown, whole
from cronce.schedule.schedules import Schedule, rule_of
from cronce.value import Value

MISSED_GRACE = timedelta(minutes=1)
"""Up to here a slot is late, not missed."""

CAP = 1_000
"""How many slots of a backlog are handed out at most."""

GAPS_COMPARED = 100
"""How many gaps of a schedule are looked at for the shortest: a week of a day's hours, three months of days."""

Reason = Literal["missed", "superseded", "capped"]
"""Why slots were skipped: too long ago, a newer one is due, or more than the cap."""


class Span(Value):
    """Slots that a policy skips, as one record: all of the schedule's from `first` to `last`."""

    first: datetime
    last: datetime
    count: int
    reason: Reason


class Due(Value):
    """The slots to claim, oldest first, and the older ones that are skipped instead."""

    slots: tuple[datetime, ...] = ()
    skipped: Span | None = None


def due(
    schedule: Schedule,
    since: datetime,
    now: datetime,
    missed: Missed,
    *,
    grace: timedelta = MISSED_GRACE,
    cap: int = CAP,
) -> Due:
    """The slots after `since`, up to and including `now`, that the policy lets run.

    - "latest": the newest one.
    - "all": each one; when they are more than `cap`, the newest `cap`.
    - "skip": each one that is not missed, that is, at most `grace` old; again at most `cap`.

    What is not let run is the `skipped` span, always the oldest part. Its count is exact however long no scheduler ran.
    """
    after, most, reason = _limits(missed, since, now - grace - RESOLUTION, cap)
    first = schedule.next(since)
    if first is None or first > now:
        return Due()
    slots = _newest(schedule, after, now, most)
    skipped = schedule.count(since, now) - len(slots)
    last = schedule.previous(slots[0] if slots else now + RESOLUTION)
    return Due(slots, Span(first, last, skipped, reason) if skipped and last else None)


def slot_of(schedule: Schedule, fired: datetime) -> datetime:
    """The slot that a trigger from outside means when it fires at `fired`, by the clock of the host that fired.

    It is the latest instant that is past, or the next one if that is at most min(1 s, a quarter of the gap) away: hosts
    that fire at 13:59:59.9 and at 14:00:00.1 mean the same 14:00. The quarter is for schedules as dense as `every 1s`:
    from 0.75 s on it is the next second's slot, never the one after.
    """
    past, upcoming = schedule.previous(fired + RESOLUTION), schedule.next(fired)
    if upcoming is not None and upcoming - fired <= _early(past, upcoming):
        return upcoming
    if past is None:
        raise BadSchedule(f"{shown(schedule.text)} has no slot yet at {spell(whole(fired))}; {_first(upcoming)}")
    return past


def start_by(schedule: Schedule, slot: datetime, within: timedelta | None = None) -> datetime | None:
    """When `slot` is too late to start: `within` after it, by default when the next slot is due; None is never. After
    the last slot before its end a schedule would go on, and that is the time: a job that ended does not start late."""
    return rule_of(schedule).next(slot) if within is None else slot + within


def following(schedule: Schedule, after: datetime, most: int) -> list[datetime]:
    """The slots that come first after `after`, so many at most."""
    slots: list[datetime] = []
    while len(slots) < most and (slot := schedule.next(slots[-1] if slots else after)) is not None:
        slots.append(slot)
    return slots


def shortest_gap(schedule: Schedule, after: datetime) -> timedelta | None:
    """The shortest time between two neighbours of the slots that come first after `after`."""
    neighbours = pairwise(following(schedule, after, GAPS_COMPARED + 1))
    return min((later - slot for slot, later in neighbours), default=None)


def _limits(missed: Missed, since: datetime, stale: datetime, cap: int) -> tuple[datetime, int, Reason]:
    """Slots up to which instant are skipped, how many may run, and why the rest may not."""
    check_choice("missed", missed, Missed)
    match missed:
        case "latest":
            return since, 1, "superseded"
        case "all":
            return since, cap, "capped"
        case "skip":
            return max(since, stale), cap, "missed"


def _newest(schedule: Schedule, after: datetime, until: datetime, most: int) -> tuple[datetime, ...]:
    """At most `most` slots after `after` up to `until`, the newest ones, oldest first."""
    slots: list[datetime] = []
    slot = schedule.previous(until + RESOLUTION)
    while slot is not None and slot > after and len(slots) < most:
        slots.append(slot)
        slot = schedule.previous(slot)
    return tuple(reversed(slots))


def _early(past: datetime | None, upcoming: datetime) -> timedelta:
    """How early a trigger may be for `upcoming`. Before the very first instant there is no gap to take a quarter of."""
    return SECOND if past is None else min(SECOND, (upcoming - past) / 4)


def _first(upcoming: datetime | None) -> str:
    return f"its first is {spell(upcoming)}" if upcoming else "it has none at all"
