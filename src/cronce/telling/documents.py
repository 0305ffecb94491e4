"""What several verbs print as JSON, spelled once: these keys are a contract. What is missing is null."""

from collections.abc import Container, Mapping
from typing import Final

from cronce.protocol.commands import Asked, Closed
from cronce.protocol.notices import Alert, Beats, Handled, Observed, Refusals, Refused, Stored
from cronce.protocol.record import RELEASED, Act, Job, Past, SpanRecord
from cronce.protocol.specs import read_spec
from cronce.runtime.effects.review import STATES, EffectSeen, EffectsSurvey
from cronce.runtime.operations import StandingOrder
from cronce.runtime.queries import HeldSeen, HolderSeen, JobLine, RunSeen
from cronce.runtime.why import Story, Why
from cronce.schedule import format_duration, spec_of
from cronce.telling.story import headline
from cronce.telling.words import due_again, fate, iso, read_json
from cronce.value import NamedTuple


def run_document(one: RunSeen) -> dict[str, object]:
    """A run as JSON has it. What is missing is null."""
    record = one.record
    ran = record if record and not due_again(record) else None
    return {
        "job": one.slot.job,
        "slot": one.slot.key,
        "state": record.state if record else "unreadable",
        "outcome": record.outcome if record else None,
        "holder": ran.holder or None if ran else None,
        "fence": str(one.cell.fence) if one.cell.fence else None,
        "grant": record.grant if record else None,
        "started": iso(ran.started) if ran else None,
        "finished": iso(record.finished) if record else None,
        "reason": record.reason or None if record else one.trouble,
        "lapsed": one.lapsed,
        "host_gone": one.gone is not None,
        "fate": fate(one) or None,
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
    """The value of a JSON text; another text as it is."""
    try:
        found: object = read_json(text)
    except ValueError:
        return text
    return found


def survey_document(survey: EffectsSurvey) -> dict[str, object]:
    """How many effects there are in each state, and some that are in doubt."""
    return {
        "counts": {state: survey.counts.get(state, 0) for state in STATES},
        "capped": [state for state in STATES if state in survey.capped],
        "in_doubt": [effect_document(one) for one in survey.doubtful],
    }


def act_document(act: Act | None) -> dict[str, object] | None:
    """What a person did by hand."""
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
        **_standing(seen.job),
        "last": run_document(line.last) if line.last else None,
        "stored": _stored_document(line.stored) if line.stored else None,
    }


def _standing(job: Job | None) -> dict[str, object]:
    """Whether a job is paused, and up to where its slots are closed; null where it cannot be read."""
    if job is None:
        return {"paused": None, "pause": None, "floor": None}
    return {"paused": job.paused is not None, "pause": act_document(job.paused), "floor": iso(job.floor)}


def span_document(span: SpanRecord) -> dict[str, object]:
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
        "tzdata": holder.tzdata,
        "beat": iso(one.beat),
        "draining": not one.claims,
        "drained": act_document(one.drained),
    }


class Leases(NamedTuple):
    """How a kind of lease is spoken of, on the page and the command line."""

    way: str
    prefix: str
    """Of its cells."""
    noun: str
    holder: str
    number: str
    """What its fence is called."""
    words: Mapping[str, str] = {}
    """What its states and ends are called, where that is not what they are called of locks."""

    def says(self, word: str) -> str:
        return self.words.get(word, word)


LOCK_LEASES: Final = Leases("locks", "lock/", "lock", "holder", "fence")
LEADERS: Final = Leases(
    "leaders", "leader/", "group", "leader", "term", {"held": "led", "free": "vacant", RELEASED: "resigned"}
)


def held_document(one: HeldSeen, kind: Leases) -> dict[str, object]:
    """A lock or a leadership."""
    record = one.record
    held = record is not None and one.state in ("held", "lapsed")
    return {
        "name": one.name,
        "state": kind.says(one.state),
        "holder": record.holder if record and held else None,
        "since": iso(record.started) if record and held else None,
        "until": iso(one.cell.until) if one.state != "free" else None,
        "fence": str(one.cell.fence) if held else None,
        "history": [
            {**_term(past), "end": kind.says(past.end)} for past in reversed(record.past)
        ] if record else [],
    }  # fmt: skip


# --- what came of an act by hand ------------------------------------------------------------------------------------


def paused_document(stands: StandingOrder) -> dict[str, object]:
    return {"paused": act_document(stands.act), "changed": stands.new}


def resumed_document(act: Act | None) -> dict[str, object]:
    return {"was": act_document(act), "changed": act is not None}


def cancelled_document(reply: Asked | Closed) -> dict[str, object]:
    if isinstance(reply, Asked):
        return {"asked": True, "outcome": None, "reason": None}
    return {"asked": False, "outcome": reply.outcome, "reason": reply.reason or None}


# --- what is known of a slot, or of those of a job that matter -------------------------------------------------------


def why_document(found: Why) -> dict[str, object]:
    job = found.job
    return {
        "job": job.name,
        "next": iso(job.next(found.now)),
        "carried": found.carried,
        **_standing(job.job),
        "refusals": dict(found.refusals),
        "effects": survey_document(found.effects) if found.effects else None,
        "slots": [story_document(story, found) for story in found.stories],
    }


def story_document(story: Story, found: Why) -> dict[str, object]:
    record = story.run.record if story.run else None
    return {
        "slot": story.slot.key,
        "case": story.case,
        "sentence": headline(story, found),
        "run": run_document(story.run) if story.run else None,
        "past": [past_document(past) for past in record.past] if record else [],
        "refused": [{"host": host, "at": iso(one.at), "why": one.why} for host, one in story.refused],
        "effects": survey_document(story.effects),
        "output": record.output if record else "",
    }


# --- what watchers left: alerts, signs of life, observed calls, refusals ---------------------------------------------


def alert_document(alert: Alert) -> dict[str, object]:
    handled = handled_document(alert.handled)
    return {**raised_document(alert), "cleared": iso(alert.cleared), "times": alert.times, "handled": handled}


def handled_document(handled: Handled | None) -> dict[str, object] | None:
    """Who works on it, or until when it is snoozed."""
    if handled is None:
        return None
    return {"by": handled.by, "at": iso(handled.at), "reason": handled.reason or None, "until": iso(handled.until)}


def raised_document(alert: Alert) -> dict[str, object]:
    """What is wrong, without what became of it."""
    return {
        "id": alert.id,
        "kind": alert.kind,
        "subject": alert.subject,
        "severity": alert.severity,
        "text": alert.text,
        "remedy": alert.remedy,
        "since": iso(alert.since),
        "cause": alert.cause or alert.id,
        "slots": list(alert.slots),
        "effects": list(alert.effects),
    }


def beats_document(name: str, beats: Beats) -> dict[str, object]:
    return {
        "name": name,
        "every": format_duration(beats.every),
        "times": beats.times,
        "recent": [{"at": iso(one.at), "by": one.by} for one in beats.recent],
    }


def observed_document(name: str, observed: Observed) -> dict[str, object]:
    return {
        "name": name,
        "window": None if observed.window is None else format_duration(observed.window),
        "calls": observed.times,
        "duplicates": observed.doubled,
        "recent": [{"slot": one.slot, "at": iso(one.at), "by": one.by, "why": one.why} for one in observed.recent],
    }


def refused_document(job: str, host: str, refused: Refused) -> dict[str, object]:
    """One claim that lost."""
    return {"job": job, "host": host, "slot": refused.slot, "at": iso(refused.at), "why": refused.why}


def refusals_document(job: str, host: str, refusals: Refusals) -> dict[str, object]:
    """What a host was refused of a job: how often, and the last of them."""
    recent = [refused_document(job, host, one) for one in refusals.recent]
    return {"host": host, "times": refusals.times, "recent": recent}
