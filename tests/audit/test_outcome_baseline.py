"""Baselines: what is known is known again wherever it has moved to, and nothing else is."""

import json
import re
from pathlib import Path

import pytest

from cronce.errors import BadInput
from cronce_audit import outcome as baseline
from cronce_audit.model import Confidence, Finding, Place, Severity
from cronce_audit.outcome import Entry, fingerprints


def finding(line: int, snippet: str, path: str = "app.py", rule: str = "CR101") -> Finding:
    return Finding(rule, "x", Severity.ERROR, Confidence.HIGH, Place(path, line), f"found at {line}", "mend", snippet)


def test_a_finding_keeps_its_print_when_lines_and_spaces_around_it_change() -> None:
    before, after = finding(3, "add_job(sync,  1)"), finding(40, "add_job(sync, 1)")
    assert fingerprints([before])[before] == fingerprints([after])[after]


def test_a_finding_keeps_its_print_when_a_comment_that_suppresses_is_added() -> None:
    before, after = finding(3, "add_job(sync)"), finding(3, "add_job(sync)  # cronce: ignore[CR105] only UTC here")
    assert fingerprints([before])[before] == fingerprints([after])[after]


def test_a_finding_about_the_comment_itself_has_the_print_of_the_comment() -> None:
    one, other = (finding(3, f"x()  # cronce: ignore{of}", rule="CR001") for of in ("", "[CR99] why"))
    assert fingerprints([one])[one] != fingerprints([other])[other]


@pytest.mark.parametrize(
    "other",
    [
        finding(3, "add_job(other)"),
        finding(3, "add_job(sync)", path="b.py"),
        finding(3, "add_job(sync)", rule="CR102"),
    ],
)
def test_another_rule_path_or_line_has_another_print(other: Finding) -> None:
    one = finding(3, "add_job(sync)")
    assert fingerprints([one])[one] != fingerprints([other])[other]


def test_equal_lines_are_counted_from_the_top() -> None:
    first, second, third = (finding(line, "add_job(sync)") for line in (3, 9, 12))
    two, three = fingerprints([second, first]), fingerprints([third, first, second])
    assert len(set(three.values())) == 3
    assert [two[first], two[second]] == [three[first], three[second]]


ENTRIES = [Entry("b.py", "CR101", "22"), Entry("a.py", "CR102", "11"), Entry("a.py", "CR101", "33")]


def test_a_baseline_is_in_order_one_line_each_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    assert baseline.write(path, ENTRIES) == 3
    text = path.read_text()
    assert baseline.read(path) == sorted(ENTRIES)
    assert json.loads(text)["version"] == 1
    assert text.splitlines()[3] == '    {"path": "a.py", "rule": "CR101", "fingerprint": "33"},'
    baseline.write(path, reversed(ENTRIES))
    assert path.read_text() == text


def test_an_empty_baseline_is_one(tmp_path: Path) -> None:
    assert baseline.write(tmp_path / "base.json", []) == 0
    assert baseline.read(tmp_path / "base.json") == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "it is not JSON"),
        ("[]", "it is not a list of findings"),
        ("{}", "it is not a list of findings"),
        ('{"version": 1, "findings": 3}', "it is not a list of findings"),
        ('{"version": 1, "findings": [3]}', "it is not a list of findings"),
        ('{"version": 1, "findings": [{"path": "a", "rule": 3, "fingerprint": "x"}]}', "it is not a list of findings"),
        ('{"version": 2, "findings": []}', "of another version"),
    ],
)
def test_a_damaged_baseline_is_refused(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "base.json").write_text(text)
    with pytest.raises(BadInput, match=f"{re.escape(str(tmp_path))}.*{says}.*--write-baseline"):
        baseline.read(tmp_path / "base.json")


def test_a_baseline_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"there is no baseline .*--write-baseline"):
        baseline.read(tmp_path / "nowhere.json")
    with pytest.raises(BadInput, match="Is a directory"):
        baseline.read(tmp_path)
    with pytest.raises(BadInput, match="cannot be written: Is a directory"):
        baseline.write(tmp_path, [])
    (tmp_path / "base.json").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(BadInput, match="not JSON"):
        baseline.read(tmp_path / "base.json")
