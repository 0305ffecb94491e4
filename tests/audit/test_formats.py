"""Findings as programs read them: JSON, SARIF by its schema, annotations of GitHub."""

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from cronce import __version__
from cronce_audit.formats import annotations, document, sarif
from cronce_audit.model import Confidence, Place, Rule, Severity, Unparsed, rules
from cronce_audit.outcome import SetAside
from tests.audit.findings import finding, outcome

SCHEMA = json.loads((Path(__file__).parent / "schemas/sarif-2.1.0-rtm.5.json").read_text())
RULES: dict[str, Rule] = {number: rule for number, rule in rules().items() if number in ("CR001", "CR002")}


ASIDE = (
    SetAside(finding(30), "comment", "looked at"),
    SetAside(finding(31), "config", "the project says so"),
    SetAside(finding(32), "baseline", "it was there before"),
)
UNREAD = (Unparsed(Place("b.py", 3), "python: no"),)


def test_the_document_has_the_keys_of_the_contract() -> None:
    told: Any = document(outcome(finding(3), aside=ASIDE[:1], unparsed=UNREAD))
    assert list(told) == ["findings", "unparsed", "suppressed", "gone", "files"]
    [one] = told["findings"]
    print_ = one.pop("fingerprint")
    assert len(print_) == 20
    assert one == {
        "rule": "CR001",
        "name": "suppression-without-rule-or-reason",
        "severity": "error",
        "confidence": "high",
        "path": "a b/app.py",
        "line": 3,
        "column": 5,
        "message": "what is wrong in 3",
        "remedy": "what to do",
        "snippet": "x = 1",
    }
    assert told["unparsed"] == [{"path": "b.py", "line": 3, "message": "python: no"}]
    assert told["suppressed"] == [
        {"rule": "CR001", "path": "a b/app.py", "line": 30, "by": "comment", "reason": "looked at"}
    ]
    assert told["files"] == 7


def valid(told: Any) -> Any:
    """It follows the schema, and is one run."""
    jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(told)
    [run] = told["runs"]
    return run


def test_the_schema_can_say_no() -> None:
    told: Any = sarif(outcome(finding(3)), RULES, None, suppressed=False)
    told["runs"][0]["results"][0]["level"] = "terrible"
    with pytest.raises(jsonschema.ValidationError):
        valid(told)


def test_sarif_declares_every_rule_with_its_page_also_without_results() -> None:
    run = valid(sarif(outcome(), RULES, None, suppressed=False))
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("cronce", __version__)
    assert run["results"] == []
    first, second = driver["rules"]
    assert (first["id"], first["name"]) == ("CR001", "SuppressionWithoutRuleOrReason")
    assert first["help"]["markdown"].startswith("# CR001 suppression-without-rule-or-reason")
    for help_ in first["help"].values():
        assert "\n`app.py`\n\n```python\n# cronce: ignore\n" in help_
        assert "finds=" not in help_
    assert first["fullDescription"]["text"] == (
        "A comment that silences the auditor must say which rule it silences and why."
    )
    assert first["helpUri"] == "urn:cronce:rule:CR001"
    assert [one["defaultConfiguration"]["level"] for one in (first, second)] == ["error", "note"]
    assert second["properties"] == {
        "precision": "high",
        "problem.severity": "recommendation",
        "tags": ["reliability", "scheduling"],
    }


@pytest.mark.parametrize("pages", ["https://example.org/rules", "https://example.org/rules/"])
def test_help_is_where_the_pages_are_published(pages: str) -> None:
    run = valid(sarif(outcome(), RULES, pages, suppressed=False))
    assert run["tool"]["driver"]["rules"][1]["helpUri"] == "https://example.org/rules/CR002.md"


def test_a_result_has_its_place_from_the_root_its_level_and_its_print() -> None:
    info = finding(9, Severity.INFO, rule="CR002", confidence=Confidence.MEDIUM)
    seen = outcome(finding(3), info, unparsed=UNREAD)
    run = valid(sarif(seen, RULES, None, suppressed=False))
    first, second = run["results"]
    assert first == {
        "ruleId": "CR001",
        "ruleIndex": 0,
        "level": "error",
        "message": {"text": "what is wrong in 3\n\nFix: what to do"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "a%20b/app.py", "uriBaseId": "%SRCROOT%"},
                    "region": {"startLine": 3, "startColumn": 5, "snippet": {"text": "x = 1"}},
                }
            }
        ],
        "partialFingerprints": {"cronceFinding/v1": seen.prints[finding(3)]},
        "properties": {"confidence": "high"},
    }
    assert (second["ruleIndex"], second["level"], second["properties"]) == (1, "note", {"confidence": "medium"})
    [invocation] = run["invocations"]
    assert invocation["toolExecutionNotifications"][0]["message"]["text"] == "python: no"


def test_what_is_suppressed_is_told_only_if_asked_for_with_who_says_so() -> None:
    seen = outcome(finding(3), aside=ASIDE)
    assert len(valid(sarif(seen, RULES, None, suppressed=False))["results"]) == 1
    results = valid(sarif(seen, RULES, None, suppressed=True))["results"]
    told = [one.get("suppressions") for one in results]
    assert told == [
        None,
        [{"kind": "inSource", "status": "accepted", "justification": "looked at"}],
        [{"kind": "external", "status": "accepted", "justification": "the project says so"}],
        [{"kind": "external", "status": "accepted", "justification": "it was there before"}],
    ]


def test_a_place_in_no_line_is_valid_too() -> None:
    valid(sarif(outcome(finding(0, snippet="")), RULES, None, suppressed=False))


def test_annotations_come_worst_first_because_github_shows_ten() -> None:
    seen = outcome(
        finding(1, Severity.INFO),
        finding(2, Severity.WARNING, confidence=Confidence.MEDIUM),
        finding(3, Severity.WARNING),
        finding(4),
        unparsed=UNREAD,
    )
    kinds = [line.split("line=")[0] + line.split("line=")[1][0] for line in annotations(seen)]
    assert kinds == [
        "::error file=a b/app.py,4",
        "::warning file=a b/app.py,3",
        "::warning file=a b/app.py,2",
        "::notice file=a b/app.py,1",
        "::warning file=b.py,3",
    ]


def test_nothing_that_is_told_can_break_out_of_an_annotation() -> None:
    odd = finding(3, message="100%\r\n::error::no", place=Place("a,b:c%.py", 3, 1))
    [line] = annotations(outcome(odd))
    assert line == (
        "::error file=a%2Cb%3Ac%25.py,line=3,col=1,title=CR001 suppression-without-rule-or-reason"
        "::100%25%0D%0A::error::no%0AFix: what to do"
    )
