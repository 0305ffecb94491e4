"""As annotations of GitHub Actions: `::error file=app.py,line=3,col=1,title=CR101 …::what, and what to do`.

GitHub shows ten of each kind and step, so what is worst comes first.
"""

from collections.abc import Iterator
from typing import Final

from cronce_audit.model import Finding, Severity, Unparsed
from cronce_audit.outcome import Outcome

_KINDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def annotations(outcome: Outcome) -> Iterator[str]:
    worst_first = sorted(outcome.findings, key=lambda one: (-one.severity, -one.confidence, one.order))
    yield from map(_finding, worst_first)
    yield from map(_unparsed, outcome.unparsed)


def _finding(finding: Finding) -> str:
    place = finding.place
    properties = {
        "file": place.path,
        "line": str(max(place.line, 1)),
        "col": str(place.column),
        "title": f"{finding.rule} {finding.name}",
    }
    return _annotation(_KINDS[finding.severity], properties, f"{finding.message}\nFix: {finding.remedy}")


def _unparsed(one: Unparsed) -> str:
    properties = {"file": one.place.path, "line": str(max(one.place.line, 1)), "title": "not audited"}
    return _annotation("warning", properties, one.why)


def _annotation(kind: str, properties: dict[str, str], message: str) -> str:
    said = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{kind} {said}::{_escaped(message)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
