"""Output for programs: JSON, annotations of GitHub Actions, SARIF 2.1.0.

The keys of the JSON are a contract. GitHub shows ten annotations of each kind per step, so the worst come first. SARIF
declares all rules with their pages as help, so that a clean run shows what was checked. Suppressed findings are left
out unless asked for: GitHub shows them as open.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from cronce import __version__
from cronce_audit.checklist import Answered
from cronce_audit.evidence import VERDICTS, Evidence
from cronce_audit.model import Finding, Rule, Severity, Unparsed
from cronce_audit.outcome import AuditOutcome, SetAside
from cronce_audit.page import page, published, summary


def document(outcome: AuditOutcome) -> dict[str, object]:
    return {
        "findings": [_finding(finding, outcome.prints[finding]) for finding in outcome.findings],
        "unparsed": [{"path": one.place.path, "line": one.place.line, "message": one.why} for one in outcome.unparsed],
        "suppressed": [_set_aside(one) for one in outcome.set_aside],
        "gone": [entry._asdict() for entry in outcome.gone],
        "files": outcome.files,
    }


def _finding(finding: Finding, fingerprint: str) -> dict[str, object]:
    return {
        "rule": finding.rule,
        "name": finding.name,
        "severity": finding.severity.word,
        "confidence": finding.confidence.word,
        "path": finding.place.path,
        "line": finding.place.line,
        "column": finding.place.column,
        "message": finding.message,
        "remedy": finding.remedy,
        "snippet": finding.snippet,
        "fingerprint": fingerprint,
    }


def _set_aside(one: SetAside) -> dict[str, object]:
    place = one.finding.place
    return {"rule": one.finding.rule, "path": place.path, "line": place.line, "by": one.how, "reason": one.reason}


def rule_document(rule: Rule) -> dict[str, object]:
    return {
        "rule": rule.id,
        "name": rule.name,
        "severity": rule.severity.word,
        "confidence": rule.confidence.word,
        "remedy": rule.remedy,
    }


def checklist_document(answered: Sequence[Answered]) -> dict[str, object]:
    counts = Counter(one.answer.verdict for one in answered)
    return {"points": [_point(one) for one in answered], "counts": {verdict: counts[verdict] for verdict in VERDICTS}}


def _point(one: Answered) -> dict[str, object]:
    return {
        "checklist": one.checklist,
        "number": one.number,
        "point": one.text,
        "answer": one.answer.verdict,
        "evidence": [_evidence(each) for each in one.answer.evidence],
        "shows": one.answer.shows or None,
    }


def _evidence(one: Evidence) -> dict[str, object]:
    place = one.place
    return {"path": place.path if place else None, "line": place.line if place else None, "text": one.text}


_ANNOTATIONS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def annotations(outcome: AuditOutcome) -> Iterator[str]:
    worst_first = sorted(outcome.findings, key=lambda one: (-one.severity, -one.confidence, one.order))
    yield from map(_annotated, worst_first)
    yield from map(_unparsed, outcome.unparsed)


def _annotated(finding: Finding) -> str:
    place = finding.place
    properties = {
        "file": place.path,
        "line": str(max(place.line, 1)),
        "col": str(place.column),
        "title": f"{finding.rule} {finding.name}",
    }
    return _annotation(_ANNOTATIONS[finding.severity], properties, f"{finding.message}\nFix: {finding.remedy}")


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


SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_SUPPRESSED_BY: Final = {"comment": "inSource", "config": "external", "baseline": "external"}

Object = dict[str, object]


def sarif(outcome: AuditOutcome, rules: Mapping[str, Rule], pages: str | None, *, suppressed: bool) -> Object:
    """`pages` is the URL of the rules' pages; without it a rule's address is a URN."""
    aside = {one.finding: one for one in outcome.set_aside} if suppressed else {}
    told = sorted([*outcome.findings, *aside], key=lambda finding: finding.order)
    places = {named: place for place, named in enumerate(rules)}
    driver: Object = {
        "name": "cronce",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(rule, pages) for rule in rules.values()],
    }
    run: Object = {
        "tool": {"driver": driver},
        "invocations": [_invocation(outcome.unparsed)],
        "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "The root of what was audited."}}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, places[one.rule], outcome.prints[one], aside.get(one)) for one in told],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def help_uri(rule: Rule, pages: str | None) -> str:
    return f"{pages.rstrip('/')}/{rule.id}.md" if pages else f"urn:cronce:rule:{rule.id}"


def _rule(rule: Rule, pages: str | None) -> Object:
    text = published(page(rule))
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.name.replace("-", " ").capitalize()},
        "fullDescription": {"text": summary(text)},
        "help": {"text": text, "markdown": text},
        "helpUri": help_uri(rule, pages),
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {
            "precision": rule.confidence.word,
            "problem.severity": "recommendation" if rule.severity is Severity.INFO else rule.severity.word,
            "tags": ["reliability", "scheduling"],
        },
    }


def _result(finding: Finding, index: int, fingerprint: str, aside: SetAside | None) -> Object:
    result: Object = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.message}\n\nFix: {finding.remedy}"},
        "locations": [_location(finding.place.path, finding.place.line, finding.place.column, finding.snippet)],
        "partialFingerprints": {"cronceFinding/v1": fingerprint},
        "properties": {"confidence": finding.confidence.word},
    }
    if aside:
        result["suppressions"] = [
            {"kind": _SUPPRESSED_BY[aside.how], "status": "accepted", "justification": aside.reason}
        ]
    return result


def _location(path: str, line: int, column: int = 1, snippet: str = "") -> Object:
    region: Object = {"startLine": max(line, 1), "startColumn": column}
    if snippet:
        region["snippet"] = {"text": snippet}
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(path, errors="surrogateescape"), "uriBaseId": "%SRCROOT%"},
            "region": region,
        }
    }


def _invocation(unparsed: Sequence[Unparsed]) -> Object:
    return {"executionSuccessful": True, "toolExecutionNotifications": list(map(_notification, unparsed))}


def _notification(one: Unparsed) -> Object:
    return {"level": "warning", "message": {"text": one.why}, "locations": [_location(*one.place[:2])]}
