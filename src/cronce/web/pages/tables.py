"""Pages that are one table each: effects, locks, leaders, those who are watched but not run by us, what an
audit found, and help."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request

from cronce.model import Instant
from cronce.monitor.read_lists import LIST_SHOWN, beats, observed
from cronce.monitor.watch import state
from cronce.protocol.notices import Beats
from cronce.runtime.effects.review import EffectSeen, effects
from cronce.runtime.flow import Flow
from cronce.runtime.queries import held, load
from cronce.telling.documents import Leases
from cronce.telling.story import verdicts
from cronce.web.site import Shown, site_of

# --- effects: what is in doubt comes first, with what to say of it ----------------------------------------------------

ROWS_PER_PAGE: Final = 100


def effects_table(request: Request) -> Flow[Shown]:
    query = request.query_params
    what, after = query.get("what", "").strip() or None, query.get("after") or None
    everything = query.get("all") == "1"
    found = yield from effects(what, ROWS_PER_PAGE, everything=everything, after=after)
    return {
        "rows": [_effect_row(one) for one in found.effects],
        "next": found.next,
        "kept": {"what": what, "all": 1 if everything else None},
        "after": after,
    }


def _effect_row(one: EffectSeen) -> Shown:
    """Whose step it is, if it is no key of an idempotent function; and if it is in doubt, what to say of it in a
    terminal, and where one says it here."""
    of = one.name.partition("/")[0]
    commands = [line.strip() for line in verdicts(one.name)] if one.state == "in doubt" else []
    way = ("effects", *one.name.split("/"), "resolve")
    return {"seen": one, "slot": of if "@" in of else "", "commands": commands, "way": way}


# --- locks and leaders: who holds what, until when, and who did before ------------------------------------------------


def leases(request: Request, kind: Leases) -> Flow[Shown]:
    after = request.query_params.get("after", "")
    found = yield from held(kind.prefix, after, LIST_SHOWN)
    return {"now": found.now, "held": found.held, "next": found.next, "after": after, "kind": kind}


# --- what watchers have to tell ---------------------------------------------------------------------------------------


def others_table(_request: Request) -> Flow[Shown]:
    beaten = yield from beats()
    calls = yield from observed()
    now = (yield from load([])).now
    return {"now": now, "beats": [_beat_row(name, one, now) for name, one in beaten.items()], "observed": calls}


def _beat_row(name: str, beats: Beats, now: Instant) -> Shown:
    """With when it beat last, and who beat of late."""
    recent = sorted(beats.recent, reverse=True)
    last, by = recent[0].at if recent else None, list(dict.fromkeys(one.by for one in recent))
    return {"name": name, "beats": beats, "state": state(beats, now), "last": last, "by": by}


# --- what needs no store ----------------------------------------------------------------------------------------------

FINDING_SEVERITIES: Final = ("error", "warning", "info")
FINDING_FIELDS: Final = ("rule", "name", "confidence", "path", "line", "message", "remedy", "snippet")


def findings_table(request: Request) -> Flow[Shown]:
    yield from ()
    report = site_of(request).findings
    rows = [_finding_row(one) for one in report["findings"]] if report else []
    grouped = {severity: [row for row in rows if row["severity"] == severity] for severity in FINDING_SEVERITIES}
    return {"report": report, "grouped": grouped, "number": len(rows)}


def _finding_row(finding: Mapping[str, Any]) -> dict[str, str]:
    """A report is a file that anybody may have written: whatever is not there is empty."""
    severity = finding.get("severity")
    fields = {name: str(finding[name]) if finding.get(name) is not None else "" for name in FINDING_FIELDS}
    return {**fields, "severity": severity if severity in FINDING_SEVERITIES else "info"}


def help_table(_request: Request) -> Flow[Shown]:
    yield from ()
    return {}
