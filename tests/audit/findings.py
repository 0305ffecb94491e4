"""Findings and outcomes, made for a test."""

from cronce_audit.model import Confidence, Finding, Place, Severity, Unparsed
from cronce_audit.outcome import AuditOutcome, SetAside, fingerprints


def finding(line: int, severity: Severity = Severity.ERROR, **other: object) -> Finding:
    usual = Finding(
        "CR001",
        "suppression-without-rule-or-reason",
        severity,
        Confidence.HIGH,
        Place("a b/app.py", line, 5),
        f"what is wrong in {line}",
        "what to do",
        "x = 1",
        4,
    )
    return usual._replace(**other)  # type: ignore[arg-type]


def outcome(*findings: Finding, aside: tuple[SetAside, ...] = (), unparsed: tuple[Unparsed, ...] = ()) -> AuditOutcome:
    prints = fingerprints([*findings, *(one.finding for one in aside)])
    return AuditOutcome(findings, aside, [], unparsed, 7, prints)
