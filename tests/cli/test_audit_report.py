"""cronce audit: what people see of a finding."""

import pytest

from cronce.cli.audit_report import shown, verdict
from cronce.cli.terminal import Screen
from cronce_audit.model import Confidence, Finding, Place, Severity
from cronce_audit.outcome import AuditOutcome


def finding(snippet: str, column: int, severity: Severity = Severity.ERROR, path: str = "app.py") -> Finding:
    place = Place(path, 12, column)
    return Finding("CR101", "a-name", severity, Confidence.MEDIUM, place, "It is so.", "Do that.", snippet, 4)


def people(*findings: Finding, on: Screen, under: str = "") -> list[str]:
    return list(shown(AuditOutcome(findings, [], [], [], 1, {}), on, under, suppressed=False))


def test_a_finding_shows_its_line_with_a_mark_the_reason_and_the_fix() -> None:
    assert people(finding("go(add_job)", 8), on=Screen()) == [
        "app.py:12:8 error CR101 a-name, medium confidence",
        "    12 │ go(add_job)",
        "       │    ^",
        "       It is so.",
        "       Fix: Do that.",
        "",
    ]


@pytest.mark.parametrize(
    ("path", "under", "head"),
    [
        ("etc/localtime", "/", "this machine error"),
        ("proc/12/cmdline", "/", "this machine error"),
        ("etc/crontab", "/", "/etc/crontab:12:1 error"),
        ("etc/localtime", "", "etc/localtime:12:1 error"),
    ],
)
def test_a_clock_and_a_process_are_no_files(path: str, under: str, head: str) -> None:
    assert people(finding("x", 1, path=path), on=Screen(), under=under)[0].startswith(head)


def test_on_a_terminal_it_is_cut_to_the_width_around_the_mark_and_coloured() -> None:
    _, line, mark, *_ = people(finding("a" * 50 + "(" + "b" * 50, 55), on=Screen(width=39))
    assert (line, mark) == ("    12 │ …" + "a" * 14 + "(" + "b" * 13 + "…", "       │ " + " " * 15 + "^")
    painted = people(finding("x", 1), on=Screen(width=80, colours=True))
    assert painted[0] == "\x1b[1mapp.py:12:1\x1b[0m \x1b[31merror CR101 a-name\x1b[0m\x1b[2m, medium confidence\x1b[0m"


def test_nothing_in_a_line_or_a_path_reaches_the_terminal_as_a_command() -> None:
    evil = finding("x\x1b]0;owned\x07\ty", 1, path="a\x1b[2J.py")
    text = "\n".join(people(evil, on=Screen(width=80)))
    assert "\x1b" not in text
    assert "\x07" not in text


def test_files_with_the_worst_come_first() -> None:
    told = people(finding("x", 1, Severity.INFO, "a.py"), finding("x", 1, Severity.ERROR, "b.py"), on=Screen())
    assert [line.split(":")[0] for line in told if "CR101" in line] == ["b.py", "a.py"]


def test_the_verdict_counts_by_severity_and_says_what_explains_the_worst() -> None:
    found = [finding("x", 1, severity) for severity in (Severity.INFO, Severity.INFO, Severity.WARNING)]
    assert list(verdict(AuditOutcome(found, [], [], [], 1200, {}), Screen(), "1,200 files read")) == [
        "1 warning, 2 info; 1,200 files read",
        "`cronce audit explain CR101` has the details",
    ]


def info(rule: str, line: int, path: str = "app.py") -> Finding:
    return Finding(rule, f"of-{rule}", Severity.INFO, Confidence.HIGH, Place(path, line), "So.", "Do.", "x")


def heads(*findings: Finding, every: bool = False) -> list[str]:
    told = shown(AuditOutcome(findings, [], [], [], 1, {}), Screen(), "", suppressed=False, every=every)
    return [line.strip() for line in told if " CR" in line]


def test_errors_stand_before_infos_also_of_another_file() -> None:
    told = heads(info("CR503", 3, "a.py"), finding("x", 1, Severity.WARNING, "a.py"), finding("x", 1, path="b.py"))
    assert [line.split()[1] for line in told] == ["error", "warning", "info"]


def test_there_is_one_info_for_each_object_and_the_others_are_named() -> None:
    found = [info("CR503", 3), info("CR504", 3), info("CR505", 3), info("CR503", 9), info("CR110", 20)]
    assert heads(*found) == [
        "app.py:3:1 info CR503 of-CR503",
        "Also here: CR504 of-CR504, CR505 of-CR505; the same at line 9 (--all shows them)",
        "app.py:20:1 info CR110 of-CR110",
    ]
    assert len(heads(*found, every=True)) == 5
