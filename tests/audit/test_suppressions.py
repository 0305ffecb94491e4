"""Comments that suppress: which lines, in which languages, and what they must say."""

from pathlib import Path

import pytest

from cronce_audit.model import Confidence, Finding, Place, Severity, Source
from cronce_audit.suppressions import Suppression, read_comments, without_suppression
from tests.audit.trees import findings_in, report_on


def read(path: str, text: str) -> list[Suppression]:
    return list(read_comments(Source(path, text)))


def finding(path: str, line: int) -> Finding:
    return Finding("CR101", "x", Severity.ERROR, Confidence.HIGH, Place(path, line), "x", "x", "x")


@pytest.mark.parametrize(
    ("path", "text", "covered"),
    [
        ("a.py", "x()  # cronce: ignore[CR101] why\ny()\n", 1),
        ("a.py", "# cronce: ignore[CR101] why\nx()\ny()\n", 2),
        ("a.py", "# cronce: ignore[CR101] why\n\n# and more\nx()\n", 4),
        ("a.yaml", "kind: CronJob  # cronce: ignore[CR101] why\n", 1),
        ("a.js", "cron.schedule()  // cronce: ignore[CR101] why\n", 1),
        ("A.java", "/* cronce: ignore[CR101] why */\n@Scheduled\n", 2),
        ("a.xml", "<!-- cronce: ignore[CR101] why -->\n<Task/>\n", 2),
        ("a.sql", "-- cronce: ignore[CR101] why\nSELECT 1;\n", 2),
        ("a.timer", "; cronce: ignore[CR101] why\nOnCalendar=daily\n", 2),
        ("crontab", "# cronce: ignore[CR101] why\n* * * * * sync\n", 2),
        ("templates/a.yaml", "{{- /* cronce: ignore[CR101] why */ -}}\nkind: CronJob\n", 2),
        ("templates/a.yaml", "{{/* cronce: ignore[CR101] why */}}\nkind: CronJob\n", 2),
        ("a.jsx", "{/* cronce: ignore[CR101] why */}\n{schedule()}\n", 2),
        ("run.sh", "# cronce: ignore[CR101] why\n--workers 4\n", 2),
    ],
)
def test_a_comment_is_about_its_line_or_the_next_that_is_no_comment(path: str, text: str, covered: int) -> None:
    [one] = read(path, text)
    assert (one.rules, one.reason, one.is_whole) == (("CR101",), "why", True)
    assert [line for line in range(1, 6) if one.covers(finding(path, line))] == [covered]


def test_a_comment_about_a_file_is_about_all_of_it_and_of_no_other() -> None:
    [one] = read("a.py", "x()\n# cronce: ignore-file[CR101, CR102] all of it\n")
    assert one.rules == ("CR101", "CR102")
    assert all(one.covers(finding("a.py", line)) for line in (1, 2, 99))
    assert not one.covers(finding("b.py", 1))


@pytest.mark.parametrize(
    "text",
    [
        '"""Write `# cronce: ignore[CR101] why`."""\n',
        'x = """\n# cronce: ignore[CR101] why\n"""\n',
        "x = 1  # a line about cronce: ignore it\n",
        "# noqa, cronce: ignore[CR101] why\n",
    ],
)
def test_a_text_that_only_speaks_of_it_suppresses_nothing(text: str) -> None:
    assert read("a.py", text) == []


def test_python_that_cannot_be_parsed_keeps_its_comments() -> None:
    assert len(read("a.py", "x = '''\n# cronce: ignore[CR101] why\n")) == 1


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("x()  # cronce: ignore[CR101] why", "x()"),
        ("x()  # noqa  # cronce: ignore[CR101] why", "x()  # noqa"),
        ("x = {  # cronce: ignore[CR101] why", "x = {"),
        ("cron.schedule()  // cronce: ignore[CR101] why", "cron.schedule()"),
        ("@Scheduled /* cronce: ignore[CR101] why */", "@Scheduled"),
        ("f( /* cronce: ignore[CR101] why */ 5);", "f(  5);"),
        ("<Task/> <!-- cronce: ignore[CR101] why -->", "<Task/>"),
        ("SELECT 1; -- cronce: ignore[CR101] why", "SELECT 1;"),
        ("OnCalendar=daily ; cronce: ignore[CR101] why", "OnCalendar=daily"),
        ("kind: CronJob {{- /* cronce: ignore[CR101] why */ -}}", "kind: CronJob"),
        ("<App/> {/* cronce: ignore[CR101] why */}", "<App/>"),
        ("x()  # a comment about cronce: ignore it", "x()  # a comment about cronce: ignore it"),
        ("x()", "x()"),
    ],
)
def test_a_line_is_known_without_its_comment(line: str, left: str) -> None:
    assert without_suppression(line) == left


def messages(root: Path, text: str) -> list[tuple[str, str]]:
    return [(one.rule, one.message) for one in report_on(root, {"a.py": text}).findings]


@pytest.mark.parametrize(
    ("comment", "says"),
    [
        ("ignore", "this comment names no rule, so it suppresses nothing"),
        ("ignore[] why", "this comment names no rule, so it suppresses nothing"),
        ("ignore[CR001]", "this comment gives no reason for CR001"),
        ("ignore[CR001,CR002]  ", "this comment gives no reason for CR001, CR002"),
        ("ignore[CR99] why", "there is no rule CR99; `cronce audit rules` lists them"),
        ("ignore[CR002,CR99] why", "there is no rule CR99; `cronce audit rules` lists them"),
        (
            "ignore[supression-of-nothing] why",
            "there is no rule supression-of-nothing; did you mean 'suppression-of-nothing'?",
        ),
    ],
)
def test_a_comment_that_says_too_little_is_an_error(comment: str, says: str, tmp_path: Path) -> None:
    assert messages(tmp_path, f"x = 1  # cronce: {comment}\n") == [("CR001", says)]


@pytest.mark.parametrize(
    ("comment", "shown"),
    [
        ("ignore", "ignore[CR101]"),
        ("ignore[CR404]", "ignore[CR404]"),
        ("ignore[cr404, CR501]", "ignore[CR404,CR501]"),
        ("ignore[CR404,CR99] why", "ignore[CR404]"),
        ("ignore[CR99] why", "ignore[CR101]"),
        ("ignore-file[CR404]", "ignore-file[CR404]"),
    ],
)
def test_the_fix_shows_the_rules_that_were_written(comment: str, shown: str, tmp_path: Path) -> None:
    findings = report_on(tmp_path, {"a.py": f"x = 1  # cronce: {comment}\n"}).findings
    [found] = [one for one in findings if one.rule == "CR001"]
    assert found.remedy.startswith(f"write `cronce: {shown} why this is all right here`")


def test_a_rule_may_be_named_in_a_comment_as_on_the_command_line(tmp_path: Path) -> None:
    text = "# cronce: ignore[suppression-without-rule-or-reason] broken on purpose\nx = 1  # cronce: ignore\n"
    assert messages(tmp_path, text) == []


def test_the_case_of_a_rule_does_not_matter(tmp_path: Path) -> None:
    text = "# cronce: ignore[cr001] the sample is broken on purpose\nx = 1  # cronce: ignore\n"
    assert messages(tmp_path, text) == []


def test_a_comment_that_suppresses_nothing_is_told_by_the_rule_it_names(tmp_path: Path) -> None:
    """CR001 is found on the second line, and suppressed there; CR002 is not found there."""
    text = "# cronce: ignore[CR001,CR002] the sample is broken on purpose\nx = 1  # cronce: ignore\n"
    assert messages(tmp_path, text) == [
        ("CR002", "CR002 finds nothing here, so this comment suppresses nothing"),
    ]


def test_a_comment_suppresses_on_its_line_only(tmp_path: Path) -> None:
    text = "x = 1  # cronce: ignore[CR404] why\ny = 1  # cronce: ignore\n# cronce: ignore-file[CR001] why\n"
    assert findings_in(tmp_path, {"a.py": text}, "CR001") == []
    text = text.replace("ignore-file", "ignore")
    assert findings_in(tmp_path, {"a.py": text}, "CR001") == ["CR001 a.py:2"]


def test_a_comment_about_a_rule_that_moved_holds_and_one_about_a_rule_that_is_gone_is_told(tmp_path: Path) -> None:
    lock = 'import redis\nclient = redis.Redis()\nclient.set("lock", "me", nx=True)  # cronce: ignore[CR303] why\n'
    assert findings_in(tmp_path, {"a.py": lock}) == []
    gone = {"a.py": lock, "b.py": "x = 1  # cronce: ignore[CR512] looked at\n"}
    [found] = report_on(tmp_path, gone).findings
    assert (found.rule, found.message) == ("CR002", "CR512 was removed: cronce no longer checks this")
