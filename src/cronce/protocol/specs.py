"""Which version of a job fires, while several deploys are alive. Pure.

Versions are ordered by when they were first seen. The newest that has a live holder fires the job: a restarted pod of
the old deploy does not switch it back, and a roll-back takes over when the last newer holder is gone.

*Another schedule* raises the floor to now when it begins to fire, so no schedule ever fires retroactively. Any other
edit leaves the floor where it is: a slot that was due before the edit is due after it.

*Alike* are versions that run the same slots by the same rules, and differ only in how a run goes (its timeout, for
example). Processes of alike versions claim side by side, like processes of one version whose code differs. When those
of the newer version are killed, no slot waits until their beats have lapsed.
"""

import json
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, Final

from cronce.model import Epoch, Instant, Traits
from cronce.protocol.lease import forgotten_floor
from cronce.protocol.record import EDITED, FORGOTTEN, PAST_KEPT, REGISTERED, Job, SpanRecord, Spec

MAX_FLOOR_AHEAD: Final = timedelta(minutes=1)
"""A correct clock never raises a floor further ahead of now than this."""

SPECS_KEPT: Final = 50
"""How many versions of a job are remembered. A version that returns after more than these counts as new."""

HOW_IT_RUNS: Final = frozenset({"on_lost", "retries", "backoff", "timeout", "lease", "start_within", "jitter"})
"""Settings that change how a run goes, but not which slots run, or which runs may overlap."""

ZONE: Final = "zone"
"""In a version: which clock changes of its zone its machine's time zone database has. Two machines with different
databases fire one schedule at different instants, so only one of them fires."""


def respec(job: Job | None, spec: tuple[str, str], live: Collection[str], now: Instant, code: str = "") -> Job:
    """The job after a live holder of `spec` (digest, text) has registered; `live` are the digests with a live holder.
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
    """A call came before the job was known, for an older slot than the call that made it known. The job then begins
    with that slot: which of the first calls arrives first is chance."""
    is_new = not (job.firing or job.spans or job.purging) and job.specs and called < job.specs[0].first
    return job._replace(floor=min(job.floor, floor)) if is_new else job


def read_spec(text: str) -> dict[str, Any]:
    """A version of a job as its deploy wrote it; empty if it is not in cronce's format."""
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return spec if isinstance(spec, dict) else {}


def edit_of(old: str, new: str) -> str:
    """What changed in the schedule between two versions, for people; empty if nothing did."""
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
    """Versions written before this field existed count as equal."""
    return ZONE not in one or ZONE not in other or one[ZONE] == other[ZONE]


def _text(job: Job, digest: str) -> str:
    return next((spec.text for spec in job.specs if spec.digest == digest), "")


def raise_floor(job: Job, floor: Instant, slots: int | None, reason: str) -> Job:
    """A floor never falls. The span that is passed over gets one record."""
    if floor <= job.floor:
        return job
    return job._replace(floor=floor, spans=_recorded(job.spans, SpanRecord(job.floor, floor, slots, reason)))


def is_floor_ahead(job: Job | None, now: Instant) -> bool:
    """A floor closes past slots. One that a clock raised after a jump ahead closes future slots."""
    return job is not None and job.floor > now + MAX_FLOOR_AHEAD


def brought_back(job: Job, now: Instant) -> Job:
    """A clock that jumped had raised the floor ahead of now: future slots run again; past slots stay closed."""
    if job.floor <= now:
        return job
    spans = tuple(span._replace(end=min(span.end, now)) for span in job.spans if span.start < now)
    return job._replace(floor=now, spans=spans, purging=None)


def _recorded(spans: tuple[SpanRecord, ...], new: SpanRecord) -> tuple[SpanRecord, ...]:
    """Adjacent spans with the same reason are joined; if there are too many, the oldest are joined. No span is ever
    dropped."""
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
    """Once the store forgot, nothing up to its birth is known: those slots are closed, and recorded as unknown."""
    floor = forgotten_floor(epoch, traits)
    return job if floor is None else raise_floor(job, floor, None, FORGOTTEN)
