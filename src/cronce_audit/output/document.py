"""As JSON. These keys are a contract."""

from collections import Counter
from collections.abc import Sequence

from cronce_audit.checklist import Answered
from cronce_audit.checklist.answers import VERDICTS, Evidence
from cronce_audit.model import Finding, Rule
from cronce_audit.outcome import Outcome, SetAside


def document(outcome: Outcome) -> dict[str, object]:
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
