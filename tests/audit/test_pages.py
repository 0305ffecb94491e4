"""Every rule has a page, and every sample on it is found, or not found, as the page says."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from cronce_audit.engine import Report
from cronce_audit.model import Rule, Severity, rules
from cronce_audit.page import page
from tests.audit.samples import Sample, samples
from tests.audit.trees import report_on, report_on_machine

RULES = list(rules().values())
PAGES = {path.name.removesuffix(".md") for path in files("cronce_audit").joinpath("pages").iterdir()}


def _samples(section: str) -> Iterator[object]:
    for rule in RULES:
        if rule.id not in PAGES:
            continue  # said by the test below
        for number, sample in enumerate(samples(page(rule), section), start=1):
            yield pytest.param(rule, sample, id=f"{rule.id}-{number}-{sample.title}".rstrip("-"))


def _report(rule: Rule, root: Path, sample: Sample) -> Report:
    """The samples of CR9… are machines."""
    return (report_on_machine if rule.id.startswith("CR9") else report_on)(root, sample.files)


def test_a_rules_page_has_its_title_and_both_kinds_of_samples() -> None:
    pages = {rule: page(rule) for rule in RULES}
    assert [rule.id for rule, text in pages.items() if not text.startswith(f"# {rule.id} {rule.name}\n")] == []
    kinds = ("Bad", "Good")
    assert [(rule.id, kind) for rule in RULES for kind in kinds if not list(samples(pages[rule], kind))] == []


@pytest.mark.parametrize(("rule", "sample"), list(_samples("Bad")))
def test_what_a_page_calls_bad_is_found_where_it_says(rule: Rule, sample: Sample, tmp_path: Path) -> None:
    report = _report(rule, tmp_path, sample)
    assert not report.unparsed
    assert sample.finds
    found = [finding.place for finding in report.findings if finding.rule == rule.id]
    assert [(place.path, place.line) for place in found] == sample.finds


@pytest.mark.parametrize(("rule", "sample"), list(_samples("Good")))
def test_what_a_page_calls_good_is_silent(rule: Rule, sample: Sample, tmp_path: Path) -> None:
    report = _report(rule, tmp_path, sample)
    assert not report.unparsed
    assert not sample.finds
    loud = [one for one in report.findings if one.rule == rule.id or one.severity >= Severity.WARNING]
    assert loud == []


def test_there_is_no_page_without_a_rule() -> None:
    assert sorted(PAGES) == [rule.id for rule in RULES]


@pytest.mark.parametrize("number", ["CR301", "CR601", "CR604"])
def test_a_weakness_that_no_file_shows_to_do_harm_is_information(number: str) -> None:
    """A lock that can be lost, a stop that is not heard: neither shows that a job runs twice, or is missed."""
    assert rules()[number].severity is Severity.INFO
