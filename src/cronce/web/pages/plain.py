"""Pages that need no store: what an audit found, and help."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from cronce.runtime.effects.seen import load
from cronce.runtime.flow import Flow
from cronce.web.frame import Shown, show
from cronce.web.site import site_of

SEVERITIES: Final = ("error", "warning", "info")
FIELDS: Final = ("rule", "name", "confidence", "path", "line", "message", "remedy", "snippet")

WORDS: Final = {
    "job": "a named piece of work with a schedule and policies; its name stays the same across deploys",
    "slot": "one scheduled instant of one job, such as billing@2026-03-29T01:00:00Z: what happens once",
    "run": "one execution of a slot; a slot may have several runs, and only one closes it",
    "holder": "one process that may claim slots: its host, its process, its start",
    "claim": "a request for a slot and, when it is granted, the right to run it",
    "lease": "that right, until an instant on the store's clock, renewed while the run works",
    "lapsed": "its lease passed, and nobody has acted on that yet",
    "taken over": "its lease lapsed, and another process was granted the slot",
    "lost": "its lease lapsed and it was closed; nobody runs it again behind your back",
    "unknown": "nobody can tell whether it ran; a person looks, and says",
    "fence": "the number of a grant; receivers refuse a lower one, so a paused holder cannot do harm when it wakes",
    "effect": "a change in the outside world, made once per slot, by its key",
    "in doubt": "an effect was begun, and nobody can tell whether it happened",
    "turn": "the right of a job to run at all: how overlap is limited",
    "floor": "at or below it a slot without a record is closed: no edit or pause ever reopens the past",
    "lock, leader": "a lease without a slot; a leader is a lock that is kept, with a term",
    "refused": "a claim that lost: the run that would have been a duplicate",
}
"""The words of the trade, in one line each."""


async def findings(request: Request) -> Response:
    report = site_of(request).findings
    return await show(request, "findings.html", _findings(report))


def _findings(report: Mapping[str, Any] | None) -> Flow[Shown]:
    now = (yield from load([])).now
    rows = [_row(one) for one in report["findings"]] if report else []
    grouped = {severity: [row for row in rows if row["severity"] == severity] for severity in SEVERITIES}
    return {"now": now, "report": report, "grouped": grouped, "number": len(rows)}


def _row(finding: Mapping[str, Any]) -> dict[str, str]:
    """A report is a file that anybody may have written: whatever is not there is empty."""
    severity = finding.get("severity")
    fields = {name: str(finding[name]) if finding.get(name) is not None else "" for name in FIELDS}
    return {**fields, "severity": severity if severity in SEVERITIES else "info"}


async def help_page(request: Request) -> Response:
    return await show(request, "help.html", _help())


def _help() -> Flow[Shown]:
    return {"now": (yield from load([])).now, "words": WORDS}
