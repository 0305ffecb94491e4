"""What can be wrong, and how bad it is: the words of the monitor."""

from enum import StrEnum
from typing import Final, Literal

from cronce.model import Instant
from cronce.protocol.notices import Alert
from cronce.value import NamedTuple

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
    STUCK = "stuck"  # a lease lapsed long ago and nobody acted on it
    LAPSING = "lapsing"  # leases of a job lapse again and again
    LOST = "lost"  # runs whose holder died, and that nobody may run again
    UNKNOWN = "unknown"  # runs of which nobody knows whether they happened
    IN_DOUBT = "in-doubt"  # effects of which nobody knows
    SKEW = "skew"  # a machine's clock is off
    AMNESIA = "amnesia"  # the store forgot, or was set back
    COPIED = "copied"  # this is a copy of a store, or was restored elsewhere
    UNREACHABLE = "unreachable"  # the store does not answer this process
    UNUSABLE = "unusable"  # the store needs a person
    SUPERSEDED = "superseded"  # an old version of a job is still alive somewhere
    FLAPPING = "flapping"  # a leadership changes hands again and again
    BEAT_SILENT = "beat-silent"  # another scheduler's sign of life is overdue
    BEAT_DOUBLE = "beat-double"  # it comes too often: there are two of it
    DOUBLED = "doubled"  # calls were only observed, and some of them were duplicates


class Finding(NamedTuple):
    """One thing that is wrong: with what (a job, a holder, a group, a name, or "" for the store), since when, and what
    to say of it to a person, in one sentence with the facts and one with what to do."""

    kind: Kind
    subject: str
    severity: Severity
    text: str
    since: Instant
    remedy: str = ""

    @property
    def id(self) -> str:
        return f"{self.kind}/{self.subject}"


SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "warning", "info")


def rank(severity: str) -> int:
    """The worst is the first; one of a newer cronce is the last."""
    known: tuple[str, ...] = SEVERITIES
    return known.index(severity) if severity in known else len(known)


_PLACES: Final = {str(kind): place for place, kind in enumerate(Kind)}


def worst_first(one: Finding | Alert) -> tuple[int, int, Instant, str]:
    """In which order they are told: by severity, then as the kinds stand above, what explains others before these."""
    return rank(one.severity), _PLACES.get(one.kind, len(_PLACES)), one.since, one.subject
