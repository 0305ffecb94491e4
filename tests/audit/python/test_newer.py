"""Python of 3.12 to 3.14 is read by an older one."""

import ast
from pathlib import Path

import pytest

from cronce_audit.python.read import in_older_words
from tests.audit.trees import report_on

NEWER = {
    "a type alias": "type Rows = list[int]",
    "type parameters of a function": "def first[T](rows: list[T]) -> T: ...",
    "type parameters of a class": "class Box[T, *Ts, **P]: ...",
    "type parameters over lines": "def f[\n    T,\n](x: T) -> T: ...",
    "a quote in an f-string": 'x = f"{d["a"]} and {d["b"]}"',
    "an f-string in an f-string": 'x = f"{f"{1 + 1}"}"',
    "an f-string over lines": 'x = f"""{\n    d["a"]\n}"""',
    "a backslash in an f-string": """x = f"{chr(10).join(['a', "\\n"])}\"""",
    "exceptions without brackets": "try:\n    pass\nexcept ValueError, TypeError:\n    pass",
    "a t-string": 'x = t"{1}"',
}
JOB = """
from apscheduler.schedulers.background import BackgroundScheduler

scheduler = BackgroundScheduler(timezone="UTC")
scheduler.add_job(print, "cron", day_of_week="1-5", id="x")
"""


@pytest.mark.parametrize("what", NEWER)
def test_what_only_a_newer_python_reads_is_no_reason_not_to_read_the_rest(tmp_path: Path, what: str) -> None:
    """Before, such files were told as not read, and `--strict` failed."""
    report = report_on(tmp_path, {"jobs.py": NEWER[what] + JOB})
    assert report.unparsed == []
    lines = NEWER[what].count("\n")
    assert [(one.rule, one.place.line) for one in report.findings if one.rule == "CR109"] == [("CR109", 5 + lines)]


@pytest.mark.parametrize("what", NEWER)
def test_every_line_stays_where_it_is(what: str) -> None:
    text = f"{NEWER[what]}\n\nafter = 1\n"
    older = in_older_words(text)
    assert older.count("\n") == text.count("\n")
    assert ast.parse(older).body[-1].lineno == text.count("\n")


def test_what_is_no_python_is_still_told(tmp_path: Path) -> None:
    report = report_on(tmp_path, {"jobs.py": "print 'celery'\n"})
    assert [str(one.place) for one in report.unparsed] == ["jobs.py:1"]
