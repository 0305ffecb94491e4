"""What several verbs print as JSON, spelled once: these keys are a contract. What is missing is null."""

import json

from cronce.cli.words import iso
from cronce.protocol.record import Act, Past
from cronce.runtime.effects.seen import STATES, EffectSeen, Survey
from cronce.runtime.look import RunSeen


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
        "payload": json.loads(record.payload) if record and record.payload else None,
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
        "result": json.loads(record.result) if record and record.result else None,
    }


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
    return {
        "holder": past.holder,
        "fence": str(past.fence) if past.fence else None,
        "started": iso(past.started),
        "ended": iso(past.ended),
        "end": past.end,
    }
