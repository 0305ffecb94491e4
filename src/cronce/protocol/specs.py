"""Which version of a job fires, while several deploys are alive. Pure.

Versions are ordered by first sight. The newest that has a live holder fires the job: a restarted pod of the old deploy
does not flip it back, and a roll-back takes over when the last newer holder is gone.

*Another schedule* raises the floor to now when it begins to fire, so that no schedule ever fires retroactively. Any
other edit leaves the floor where it is: what fell due before it is due after it.

*Alike* are versions that run the same slots by the same rules, and differ only in how a run goes (its timeout, say).
Processes of alike versions claim side by side, as processes of one version do whose code differs: when those of the
newer one are killed, no slot waits until their beats have lapsed.
"""

import json
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, Final

from cronce.model import Epoch, Instant, Traits
from cronce.protocol.lease import forgotten_floor
from cronce.protocol.record import EDITED, FORGOTTEN, PAST_KEPT, REGISTERED, Job, SpanRecord, Spec

MAX_FLOOR_AHEAD: Final = timedelta(minutes=1)
"""No right clock has raised a floor so far ahead of now."""

SPECS_KEPT: Final = 50
"""Versions of a job that are remembered; one that comes back after more than these counts as new."""

HOW_IT_RUNS: Final = frozenset({"on_lost", "retries", "backoff", "timeout", "lease", "start_within", "jitter"})
"""What of a version says how a run goes, and nothing of which slots run, and beside which."""

ZONE: Final = "zone"
"""In a version: which changes of its zone's clock the time zone database of its machine has. Two machines with others
fire at other instants by one schedule; so only one of them fires."""


def respec(job: Job | None, spec: tuple[str, str], live: Collection[str], now: Instant, code: str = "") -> Job:
    """The job after a live holder of `spec` (digest, text) has looked; `live` are the digests with a live holder.
    `code` is where its code is from now on."""
    digest, text = spec
    if job is None:
        return Job(floor=now, specs=(Spec(digest, now, text),), firing=digest, code=code)
    specs = declared(job, spec, now).specs
    firing = next(known.digest for known in reversed(specs) if known.digest == digest or known.digest in live)
    new = job._replace(specs=specs, firing=firing, code=code or job.code)
    if firing == job.firing:
        return new
    if not job.firing:
        return raise_floor(new, now, None, REGISTERED)
    change = edit_of(_text(new, job.firing), _text(new, firing))
    return raise_floor(new, now, None, f"{EDITED}: {change}") if change else new


def declared(job: Job, spec: tuple[str, str], now: Instant) -> Job:
    """The job with this version among those that were seen."""
    digest, text = spec
    if any(known.digest == digest for known in job.specs):
        return job
    return job._replace(specs=(*job.specs, Spec(digest, now, text))[-SPECS_KEPT:])


def begun_with(job: Job, floor: Instant, called: Instant) -> Job:
    """A call that came before the job was known, for an older slot than the call that made it known: the job begins
    with that slot. Which of its first calls is heard first is chance."""
    is_new = not (job.firing or job.spans or job.purging) and job.specs and called < job.specs[0].first
    return job._replace(floor=min(job.floor, floor)) if is_new else job


def read_spec(text: str) -> dict[str, Any]:
    """A version of a job as its deploy wrote it; nothing if it is not written as ours are."""
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return spec if isinstance(spec, dict) else {}


def edit_of(old: str, new: str) -> str:
    """What of the schedule was edited between two versions, for people; nothing where it is the same."""
    was, now = _rule(old), _rule(new)
    names = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
    edits = [f"{_PUBLIC_NAMES.get(name, name)} {was.get(name, 'none')} → {now.get(name, 'none')}" for name in names]
    if not edits and not _same_zone(read_spec(old), read_spec(new)):
        edits = [f"what the time zone database says of {now.get('tz')}"]
    return ", ".join(edits)


def fires_alike(job: Job, digest: str) -> bool:
    """Whether this version runs the same slots as the one that fires, by the same rules."""
    if digest == job.firing:
        return True
    one, other = _text(job, digest), _text(job, job.firing)
    return bool(one) and _which_runs(one) == _which_runs(other) and _same_zone(read_spec(one), read_spec(other))


_PUBLIC_NAMES: Final = {"text": "schedule"}


def _rule(text: str) -> dict[str, Any]:
    rule = read_spec(text).get("schedule", text) or ""
    return rule if isinstance(rule, dict) else {"text": rule}


def _which_runs(text: str) -> object:
    spec = read_spec(text)
    return {name: value for name, value in spec.items() if name not in HOW_IT_RUNS and name != ZONE} or text


def _same_zone(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Versions from before they said so are taken to mean the same."""
    return ZONE not in one or ZONE not in other or one[ZONE] == other[ZONE]


def _text(job: Job, digest: str) -> str:
    return next((spec.text for spec in job.specs if spec.digest == digest), "")


def raise_floor(job: Job, floor: Instant, slots: int | None, reason: str) -> Job:
    """A floor never falls. The span that is passed over leaves one record."""
    if floor <= job.floor:
        return job
    return job._replace(floor=floor, spans=_recorded(job.spans, SpanRecord(job.floor, floor, slots, reason)))


def is_floor_ahead(job: Job | None, now: Instant) -> bool:
    """A floor closes what is passed; one that a clock which leapt has raised closes what is to come."""
    return job is not None and job.floor > now + MAX_FLOOR_AHEAD


def brought_back(job: Job, now: Instant) -> Job:
    """A clock that leapt has raised the floor ahead of now: slots to come run again; what is passed stays closed."""
    if job.floor <= now:
        return job
    spans = tuple(span._replace(end=min(span.end, now)) for span in job.spans if span.start < now)
    return job._replace(floor=now, spans=spans, purging=None)


def _recorded(spans: tuple[SpanRecord, ...], new: SpanRecord) -> tuple[SpanRecord, ...]:
    """Spans side by side for the same reason are one; of too many, the oldest become one. No span is ever dropped."""
    if spans and spans[-1].reason == new.reason and spans[-1].end == new.start:
        return (*spans[:-1], _joined(spans[-1], new))
    while len(spans) >= PAST_KEPT:
        spans = (_joined(spans[0], spans[1]), *spans[2:])
    return (*spans, new)


def _joined(first: SpanRecord, second: SpanRecord) -> SpanRecord:
    slots = None if first.slots is None or second.slots is None else first.slots + second.slots
    return SpanRecord(first.start, second.end, slots, _one_reason(first.reason, second.reason))


def _one_reason(first: str, second: str) -> str:
    if first == second:
        return first
    return EDITED if first.startswith(EDITED) and second.startswith(EDITED) else "several reasons"


def after_forgetting(job: Job, epoch: Epoch, traits: Traits) -> Job:
    """Once the store forgot, nothing up to its birth can be known: it is closed, and on record as unknown."""
    floor = forgotten_floor(epoch, traits)
    return job if floor is None else raise_floor(job, floor, None, FORGOTTEN)
