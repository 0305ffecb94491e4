"""What watchers left, as JSON: alerts, signs of life, observed calls, refusals. These keys are a contract."""

from cronce.protocol.notices import Alert, Beats, Observed
from cronce.protocol.record import Refusals, Refused
from cronce.schedule import format_duration
from cronce.telling.words import iso


def alert_document(alert: Alert) -> dict[str, object]:
    return {**raised_document(alert), "cleared": iso(alert.cleared), "times": alert.times}


def raised_document(alert: Alert) -> dict[str, object]:
    """What is wrong, without what became of it."""
    return {
        "id": f"{alert.kind}/{alert.subject}",
        "kind": alert.kind,
        "subject": alert.subject,
        "severity": alert.severity,
        "text": alert.text,
        "remedy": alert.remedy,
        "since": iso(alert.since),
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
