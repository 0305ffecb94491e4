"""As SARIF 2.1.0, which code hosts and editors read.

All rules are declared, those without results as well, with their pages as help: whoever looks at a clean run sees what
was looked for. What is suppressed is left out unless it is asked for: GitHub shows such results as open.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from cronce import __version__
from cronce_audit.model import Finding, Rule, Severity, Unparsed
from cronce_audit.outcome import Outcome, SetAside
from cronce_audit.page import page, published, summary

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_KINDS: Final = {"comment": "inSource", "config": "external", "baseline": "external"}

Object = dict[str, object]


def sarif(outcome: Outcome, rules: Mapping[str, Rule], pages: str | None, *, suppressed: bool) -> Object:
    """`pages` is where the rules' pages are published; without it, their address is a name."""
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
        result["suppressions"] = [{"kind": _KINDS[aside.how], "status": "accepted", "justification": aside.reason}]
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
