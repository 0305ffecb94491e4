"""What several verbs print as JSON, spelled once: these keys are a contract. What is missing is null."""

import json
from collections.abc import Callable, Container
from math import isfinite

from cronce.protocol.commands import Asked, Closed
from cronce.protocol.record import RELEASED, Act, Past, Span, Stored
from cronce.runtime.effects.seen import STATES, EffectSeen, Survey
from cronce.runtime.hand.acts import Stands
from cronce.runtime.holders import HolderSeen
from cronce.runtime.look import HeldSeen, JobLine, RunSeen, read_spec
from cronce.runtime.scheduling.roster import HOLDER_TTL
from cronce.schedule import spec_of
from cronce.telling.words import iso


def run_document(one: RunSeen) -> dict[str, object]:
    """A run as JSON has it. What is missing is null."""
    record = one.record
    return {
        "job": one.slot.job,
        "slot": one.slot.key,
        "state": record.state if record else "unreadable",
        "outcome": record.outcome if record else None,
        "holder": record.holder or None if record else None,
        "fence": str(one.cell.fence) if one.cell.fence else None,
        "grant": record.grant if record else None,
        "started": iso(record.started) if record else None,
        "finished": iso(record.finished) if record else None,
        "reason": record.reason or None if record else one.trouble,
        "lapsed": one.lapsed,
        "by": record.by or None if record else None,
        "payload": _read(record.payload) if record and record.payload else None,
        "progress": list(record.progress) if record and record.progress else None,
    }


def effect_document(one: EffectSeen) -> dict[str, object]:
    record = one.record
    return {
        "effect": one.name,
        "state": one.state,
        "started": iso(record.started) if record else None,
        "finished": iso(record.finished) if record else None,
        "holder": record.holder or None if record else None,
        "reason": one.why or None,
        "result": _read(record.result) if record and record.result else None,
    }


def _read(text: str) -> object:
    """What a text says as JSON; one that is none is told as it stands."""
    try:
        found: object = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return text
    return found


def _finite(word: str) -> float:
    """JSON has no other numbers."""
    number = float(word)
    if not isfinite(number):
        raise ValueError(f"{word} is no JSON")
    return number


def survey_document(survey: Survey) -> dict[str, object]:
    """How many effects there are in each state, and some that are in doubt."""
    return {
        "counts": {state: survey.counts.get(state, 0) for state in STATES},
        "capped": [state for state in STATES if state in survey.capped],
        "in_doubt": [effect_document(one) for one in survey.doubtful],
    }


def act_document(act: Act | None) -> dict[str, object] | None:
    """What somebody did by hand."""
    return {"by": act.by or None, "at": iso(act.at), "reason": act.reason or None} if act else None


def past_document(past: Past) -> dict[str, object]:
    """An earlier grant of a slot."""
    return {**_term(past), "retried": iso(past.retried)}


def _term(past: Past) -> dict[str, object]:
    return {
        "holder": past.holder,
        "fence": str(past.fence) if past.fence else None,
        "started": iso(past.started),
        "ended": iso(past.ended),
        "end": past.end,
    }


# --- jobs -----------------------------------------------------------------------------------------------------------


def job_document(line: JobLine, carried: Container[str]) -> dict[str, object]:
    seen = line.seen
    return {
        "job": seen.name,
        "schedules": [spec_of(rule) for rule in seen.schedules],
        "policies": dict(seen.policies),
        "next": iso(line.next),
        "carried": line.seen.name in carried,
        "paused": seen.job.paused is not None if seen.job else None,
        "pause": act_document(seen.job.paused) if seen.job else None,
        "floor": iso(seen.job.floor) if seen.job else None,
        "last": run_document(line.last) if line.last else None,
        "stored": _stored_document(line.stored) if line.stored else None,
    }


def span_document(span: Span) -> dict[str, object]:
    """Slots that were passed over, and why: also who paused the job, and who resumed it."""
    return {"start": iso(span.start), "end": iso(span.end), "slots": span.slots, "reason": span.reason}


def _stored_document(stored: Stored) -> dict[str, object]:
    definition = None if stored.definition is None else read_spec(stored.definition)
    return {"revision": stored.revision, "by": stored.by, "at": iso(stored.at), "definition": definition}


# --- who is there, and who holds what -------------------------------------------------------------------------------


def holder_document(one: HolderSeen) -> dict[str, object]:
    holder = one.holder
    return {
        "holder": holder.holder,
        "role": holder.role,
        "workers": holder.workers,
        "labels": dict(holder.labels),
        "since": iso(holder.since),
        "version": holder.cronce,
        "beat": iso(one.until - HOLDER_TTL),
        "draining": not one.claims,
        "drained": act_document(one.drained),
    }


def leader_says(word: str) -> str:
    """What the states and ends of a lease are called where it is a leadership."""
    return {"held": "led", "free": "vacant", RELEASED: "resigned"}.get(word, word)


def held_document(one: HeldSeen, says: Callable[[str], str] = str) -> dict[str, object]:
    """A lock or a leadership; `says` is what its states and ends are called."""
    record = one.record
    held = record is not None and one.state in ("held", "lapsed")
    return {
        "name": one.name,
        "state": says(one.state),
        "holder": record.holder if record and held else None,
        "since": iso(record.started) if record and held else None,
        "until": iso(one.cell.until) if one.state != "free" else None,
        "fence": str(one.cell.fence) if held else None,
        "history": [
            {**_term(past), "end": says(past.end)} for past in reversed(record.past)
        ] if record else [],
    }  # fmt: skip


# --- what came of an act by hand ------------------------------------------------------------------------------------


def paused_document(stands: Stands) -> dict[str, object]:
    return {"paused": act_document(stands.act), "changed": stands.new}


def resumed_document(act: Act | None) -> dict[str, object]:
    return {"was": act_document(act), "changed": act is not None}


def cancelled_document(reply: Asked | Closed) -> dict[str, object]:
    if isinstance(reply, Asked):
        return {"asked": True, "outcome": None, "reason": None}
    return {"asked": False, "outcome": reply.outcome, "reason": reply.reason or None}
