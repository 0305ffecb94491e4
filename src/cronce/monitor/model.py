"""What can be wrong, and how bad it is: the words of the monitor."""

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from itertools import groupby
from typing import Final, Literal

from cronce.model import Instant
from cronce.protocol.notices import Alert

Severity = Literal["critical", "warning", "info"]
"""Critical: something ran twice, did not run, or may have. Warning: it will, if nobody looks. Info: worth knowing."""


class Kind(StrEnum):
    """What is wrong. The name is part of an alert's key, so it is never changed."""

    SILENT = "silent"  # a job is scheduled, and no live scheduler carries it
    GONE = "gone"  # a scheduler stopped beating and did not say goodbye
    CROWDED = "crowded"  # there are more schedulers than expected
    MISSED = "missed"  # a slot is long due, and there is no run of it
    LATE = "late"  # a slot started late, or has not started yet
    FAILED = "failed"  # the latest slot of a job failed
    OVERRUN = "overrun"  # a run takes longer than ever, than its lease allows or than its timeout
    NO_PROGRESS = "no-progress"  # a run said how far it is, and has not come further
    UNSAID = "unsaid"  # a run ended on this machine, and that could not be recorded yet
    STUCK = "stuck"  # a lease lapsed long ago and nobody acted on it
    LAPSING = "lapsing"  # leases of a job lapse again and again
    LOST = "lost"  # runs whose holder died, and that nobody may run again
    UNKNOWN = "unknown"  # runs of which nobody knows whether they happened
    IN_DOUBT = "in-doubt"  # effects of which nobody knows
    SKEW = "skew"  # a machine's clock is off
    CLOCK = "clock"  # the store's clock jumped, and is not believed
    AHEAD = "ahead"  # it was far ahead once, and closed slots that are to come
    AMNESIA = "amnesia"  # the store forgot, or was set back
    COPIED = "copied"  # this is a copy of a store, or was restored elsewhere
    UNREACHABLE = "unreachable"  # the store does not answer this process
    UNUSABLE = "unusable"  # the store needs a person
    SUPERSEDED = "superseded"  # an old version of a job is still alive somewhere
    FLAPPING = "flapping"  # a leadership changes hands again and again
    BEAT_SILENT = "beat-silent"  # another scheduler's sign of life is overdue
    BEAT_DOUBLE = "beat-double"  # it comes too often: there are two of it
    DOUBLED = "doubled"  # calls were only observed, and some of them were duplicates
    SHARED_NAME = "shared-name"  # live schedulers have different functions under one name
    TZDATA = "tzdata"  # machines have different versions of the time zone database


SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "warning", "info")


def rank(severity: str) -> int:
    """The worst is the first; one of a newer cronce is the last."""
    known: tuple[str, ...] = SEVERITIES
    return known.index(severity) if severity in known else len(known)


_PLACES: Final = {str(kind): place for place, kind in enumerate(Kind)}


def worst_first(one: Alert) -> tuple[int, int, Instant, str]:
    """In which order they are told: by severity, then as the kinds stand above, what explains others before these."""
    return rank(one.severity), _PLACES.get(one.kind, len(_PLACES)), one.since, one.subject


# --- findings that are many, or say the same -------------------------------------------------------------------------

EACH: Final = 10
"""Of a kind, so many stand by themselves."""

MORE: Final = "*"
"""What the rest of them is about: no job is called that."""


def gathered(found: Iterable[Alert], standing: Collection[str] = ()) -> list[Alert]:
    """What is told of findings that are many, or say the same: ten thousand jobs that fail together are ten alerts and
    one more, and not ten thousand messages.

    The worst first. Those that stand go on by themselves. While the rest of a kind stands nobody moves out of it,
    so that as they recover, one by one, nothing is told until they all have."""
    ordered = sorted(_news(list(found), standing), key=lambda one: (one.kind, worst_first(one)))
    told: list[Alert] = []
    for kind, group in groupby(ordered, key=lambda one: one.kind):
        same = list(group)
        alone = [one for one in same if one.id in standing]
        others = [one for one in same if one.id not in standing]
        room = 0 if f"{kind}/{MORE}" in standing else max(EACH - len(alone), 0)
        told += [*alone, *others[:room], *_rest(kind, others[room:])]
    return sorted(told, key=worst_first)


def _news(found: list[Alert], standing: Collection[str]) -> Iterator[Alert]:
    """Where no scheduler is alive no slot runs: that is said once, and not of each job."""
    nobody = any(one.kind == Kind.SILENT and not one.subject for one in found)
    for one in found:
        follows = nobody and one.kind in (Kind.MISSED, Kind.LATE)
        if not follows or one.id in standing or f"{one.kind}/{MORE}" in standing:
            yield one


def _rest(kind: str, rest: list[Alert]) -> Iterator[Alert]:
    if rest:
        first = rest[0]
        text = f"{kind}: and {len(rest):,} more, such as {first.subject}: {first.text}"
        yield Alert(kind, MORE, first.severity, text, min(one.since for one in rest), remedy=first.remedy)
