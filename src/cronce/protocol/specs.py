"""Which version of a job fires, while several deploys are alive. Pure.

Versions are ordered by first sight. The newest that has a live holder fires the job: a restarted pod of the old deploy
does not flip it back, and a roll-back takes over when the last newer holder is gone. Each change of the firing version
raises the floor to now, so that no schedule ever fires retroactively.
"""

from collections.abc import Collection, Mapping

from cronce.model import Instant
from cronce.protocol.record import Job, Span, Spec


def respec(job: Job | None, spec: tuple[str, str], live: Collection[str], now: Instant) -> Job:
    """The job after a live holder of `spec` (digest, text) has looked; `live` are the digests with a live holder."""
    digest, text = spec
    if job is None:
        return Job(floor=now, specs=(Spec(digest, now, text),), firing=digest)
    specs = job.specs
    if all(known.digest != digest for known in specs):
        specs = (*specs, Spec(digest, now, text))
    firing = next(known.digest for known in reversed(specs) if known.digest == digest or known.digest in live)
    if firing == job.firing:
        return job._replace(specs=specs)
    return raise_floor(job._replace(specs=specs, firing=firing), now, None, "edited" if job.firing else "registered")


def raise_floor(job: Job, floor: Instant, slots: int | None, reason: str) -> Job:
    """A floor never falls. The span that is passed over leaves one record."""
    if floor <= job.floor:
        return job
    return job._replace(floor=floor, spans=(*job.spans, Span(job.floor, floor, slots, reason)))


def live_digests(holders: Mapping[str, Mapping[str, str]], job: str) -> set[str]:
    """Which versions of the job the live holders carry."""
    return {specs[job] for specs in holders.values() if job in specs}
