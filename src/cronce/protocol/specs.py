"""Which version of a job fires, while several deploys are alive. Pure.

Versions are ordered by first sight. The newest that has a live holder fires the job: a restarted pod of the old deploy
does not flip it back, and a roll-back takes over when the last newer holder is gone. Each change of the firing version
raises the floor to now, so that no schedule ever fires retroactively.
"""

from collections.abc import Collection
from datetime import timedelta
from typing import Final

from cronce.model import Epoch, Instant, Traits
from cronce.protocol.lease import forgotten_floor
from cronce.protocol.record import EDITED, FORGOTTEN, PAST_KEPT, REGISTERED, Job, Span, Spec

AHEAD: Final = timedelta(minutes=1)
"""No right clock has raised a floor so far ahead of now."""

SPECS_KEPT: Final = 50
"""Versions of a job that are remembered; one that comes back after more than these counts as new."""


def respec(job: Job | None, spec: tuple[str, str], live: Collection[str], now: Instant) -> Job:
    """The job after a live holder of `spec` (digest, text) has looked; `live` are the digests with a live holder."""
    digest, text = spec
    if job is None:
        return Job(floor=now, specs=(Spec(digest, now, text),), firing=digest)
    specs = declared(job, spec, now).specs
    firing = next(known.digest for known in reversed(specs) if known.digest == digest or known.digest in live)
    if firing == job.firing:
        return job._replace(specs=specs)
    return raise_floor(job._replace(specs=specs, firing=firing), now, None, EDITED if job.firing else REGISTERED)


def declared(job: Job, spec: tuple[str, str], now: Instant) -> Job:
    """The job with this version among those that were seen."""
    digest, text = spec
    if any(known.digest == digest for known in job.specs):
        return job
    return job._replace(specs=(*job.specs, Spec(digest, now, text))[-SPECS_KEPT:])


def raise_floor(job: Job, floor: Instant, slots: int | None, reason: str) -> Job:
    """A floor never falls. The span that is passed over leaves one record."""
    if floor <= job.floor:
        return job
    return job._replace(floor=floor, spans=_recorded(job.spans, Span(job.floor, floor, slots, reason)))


def is_floor_ahead(job: Job | None, now: Instant) -> bool:
    """A floor closes what is passed; one that a clock which leapt has raised closes what is to come."""
    return job is not None and job.floor > now + AHEAD


def brought_back(job: Job, now: Instant) -> Job:
    """A clock that leapt has raised the floor ahead of now: slots to come run again; what is passed stays closed."""
    if job.floor <= now:
        return job
    spans = tuple(span._replace(end=min(span.end, now)) for span in job.spans if span.start < now)
    return job._replace(floor=now, spans=spans, purging=None)


def _recorded(spans: tuple[Span, ...], new: Span) -> tuple[Span, ...]:
    """Spans side by side for the same reason are one; of too many, the oldest become one. No span is ever dropped."""
    if spans and spans[-1].reason == new.reason and spans[-1].end == new.start:
        return (*spans[:-1], _joined(spans[-1], new))
    while len(spans) >= PAST_KEPT:
        spans = (_joined(spans[0], spans[1]), *spans[2:])
    return (*spans, new)


def _joined(first: Span, second: Span) -> Span:
    slots = None if first.slots is None or second.slots is None else first.slots + second.slots
    return Span(first.start, second.end, slots, first.reason if first.reason == second.reason else "several reasons")


def after_forgetting(job: Job, epoch: Epoch, traits: Traits) -> Job:
    """Once the store forgot, nothing up to its birth can be known: it is closed, and on record as unknown."""
    floor = forgotten_floor(epoch, traits)
    return job if floor is None else raise_floor(job, floor, None, FORGOTTEN)
