"""What is told, what is set aside, and what is a failure."""

import pytest

from cronce_audit.config import AuditSettings
from cronce_audit.engine import Report
from cronce_audit.model import Confidence, Facts, Finding, Place, Severity
from cronce_audit.outcome import Entry, fingerprints, weigh
from cronce_audit.suppressions import Suppression
from tests.audit.findings import finding, outcome


def report(*findings: Finding, suppressed: tuple[Finding, ...] = ()) -> Report:
    by = Suppression(("CR001",), "looked at", Place("a b/app.py", 1), None)
    return Report(findings, [(one, by) for one in suppressed], [], 1, Facts([], 2026))


def test_config_and_baseline_set_aside_and_the_rest_is_told() -> None:
    old, new, unsure = finding(3, snippet="old"), finding(4), finding(5, confidence=Confidence.LOW)
    ignored, commented = finding(6, rule="CR002"), finding(7, snippet="c")
    known = fingerprints([old])[old]
    entries = [Entry("a b/app.py", "CR001", known), Entry("gone.py", "CR001", "22"), Entry("far.py", "CR001", "33")]
    settings = AuditSettings(ignore={"CR002": "later"}, min_confidence=Confidence.MEDIUM)
    told = weigh(
        report(old, new, unsure, ignored, suppressed=(commented,)),
        settings,
        entries,
        lambda entry: entry.path != "far.py",
    )
    assert told.findings == [new]
    assert [(one.finding, one.how, one.reason) for one in told.set_aside] == [
        (old, "baseline", "it was there before"),
        (ignored, "config", "later"),
        (commented, "comment", "looked at"),
    ]
    assert told.gone == [Entry("gone.py", "CR001", "22")]
    assert [entry.fingerprint for entry in told.entries()] == [told.prints[new], known]


@pytest.mark.parametrize(
    ("worst", "threshold", "fails"),
    [
        (Severity.WARNING, Severity.WARNING, True),
        (Severity.WARNING, Severity.ERROR, False),
        (Severity.INFO, Severity.WARNING, False),
        (Severity.INFO, Severity.INFO, True),
        (Severity.ERROR, None, False),
    ],
)
def test_a_failure_is_at_or_above_the_threshold(worst: Severity, threshold: Severity | None, fails: bool) -> None:
    assert outcome(finding(1, worst)).fails(threshold) is fails
    assert not outcome().fails(Severity.INFO)
