"""cronce logs from the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cronce.cli import main

Said = pytest.CaptureFixture[str]

OVERLAP = """\
2026-11-01 14:00:00,123 INFO job_id=ORDER_SYNC START run=1
2026-11-01 14:00:05,456 INFO job_id=ORDER_SYNC START run=2
2026-11-01 14:00:40,000 INFO job_id=ORDER_SYNC END run=1
2026-11-01 14:00:41,000 INFO job_id=ORDER_SYNC END run=2
2026-11-01 14:15:00,000 INFO job_id=ORDER_SYNC START run=3
2026-11-01 14:50:00,000 INFO idle
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "app.log"
    path.write_text(OVERLAP)
    return path


def test_what_is_found_is_told_with_its_reason_then_the_jobs_then_a_summary(log: Path, capsys: Said) -> None:
    assert main(["logs", "app.log", "--expected", "20m"]) == 1
    assert (
        capsys.readouterr().out
        == """\
certain   overlapping    ORDER_SYNC  2026-11-01T14:00:05.456Z  app.log  (app.log:2)
                         started 5s333ms after that of app.log (app.log:1), which went on for 35s
certain   never-ended    ORDER_SYNC  2026-11-01T14:15:00Z  app.log  (app.log:5)
                         no end within 20m; the log goes on for 35m after the start

job         told by  starts  ends  no end  certain  possible
ORDER_SYNC  words    3       2     1       2        —

certain: 1 overlapping, 1 never-ended; 3 starts in 6 lines of 1 file
"""
    )


def test_the_document_for_programs(log: Path, capsys: Said) -> None:
    assert main(["logs", "app.log", "--expected", "20m", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["starts", "findings", "counts", "jobs", "logs"]
    first, second = document["findings"]
    assert document["starts"] == 3
    assert first == {
        "kind": "overlapping", "sure": "certain", "job": "ORDER_SYNC",
        "says": "started 5s333ms after that of app.log (app.log:1), which went on for 35s",
        "at": "2026-11-01T14:00:05.456000Z", "slot": None, "run": "2", "host": "app.log", "pid": None,
        "file": "app.log", "line": 2,
        "first": {"at": "2026-11-01T14:00:00.123000Z", "slot": None, "run": "1", "host": "app.log", "pid": None,
                  "file": "app.log", "line": 1},
    }  # fmt: skip
    assert (second["kind"], second["first"]) == ("never-ended", None)
    nothing = {"twice-started": 0, "overlapping": 0, "never-ended": 0, "overdue": 0}
    assert document["counts"] == {"certain": {**nothing, "overlapping": 1, "never-ended": 1}, "possible": nothing}
    assert document["jobs"] == [
        {"form": "words", "job": "ORDER_SYNC", "starts": 3, "ends": 2, "open": 1, "certain": 2, "possible": 0}
    ]
    assert document["logs"] == [{"file": "app.log", "lines": 6, "until": "2026-11-01T14:50:00Z"}]


def test_nothing_found_is_0_and_a_run_at_the_logs_end_is_still_at_work(log: Path, capsys: Said) -> None:
    log.write_text("".join(OVERLAP.splitlines(keepends=True)[4:]))
    assert main(["logs", "app.log", "--expected", "1h"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nothing found in 1 starts in 2 lines of 1 file"


def test_what_is_only_possible_is_1_too_unless_only_what_is_certain_is_asked_for(log: Path, capsys: Said) -> None:
    log.write_text("2026-11-01 14:00:00 host=a job=x START\n2026-11-01 14:00:01 host=b job=x START\n")
    assert main(["logs", "app.log"]) == 1
    assert capsys.readouterr().out.startswith("possible  twice-started  x  2026-11-01T14:00:01Z  b  (app.log:2)\n")
    assert main(["logs", "app.log", "--certain"]) == 0


def test_no_start_at_all_is_3_and_says_what_was_looked_for(log: Path, capsys: Said) -> None:
    log.write_text("2026-11-01 14:00:00 all is well\n")
    assert main(["logs", "app.log"]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("cronce logs: no start of a job was recognised. Looked for, each with a time stamp: ")
    assert main(["logs", "app.log", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["findings"] == []


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["gone.log"], "gone.log cannot be read (No such file or directory)"),
        (["app.log", "--start", "("], "--start '(' is not a regular expression: "),
        (["app.log", "--end", "x"], "--end alone finds no start; give --start, too"),
        (["app.log", "--expected", "soon"], "'soon' is not a duration"),
        (["app.log", "--tz", "Berlin"], "'Berlin' is not a time zone: did you mean 'Europe/Berlin'?"),
        (["app.log", "--limit", "0"], "--limit must be 1 or more, not 0"),
    ],
)
def test_a_call_that_makes_no_sense_is_2(log: Path, capsys: Said, words: list[str], error: str) -> None:
    assert main(["logs", *words]) == 2
    assert capsys.readouterr().err.startswith(f"cronce logs: {error}")


def test_findings_beyond_the_limit_are_counted(log: Path, capsys: Said) -> None:
    log.write_text("".join(f"2026-11-01 14:00:00 host=h{n} job=x START\n" for n in range(5)))
    assert main(["logs", "app.log", "--limit", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "… and 3 more; --limit shows them"
    assert lines[-1] == "possible: 4 twice-started; 5 starts in 5 lines of 1 file"


def test_stdin_words_of_ones_own_and_a_zone(log: Path) -> None:
    text = "".join(f"2026-07-01 14:00:0{n} begin of nightly by h{n}\n" for n in range(2))
    done = subprocess.run(
        [sys.executable, "-m", "cronce", "logs", "-", "--start", r"begin of (?P<job>\S+)", "--tz", "Europe/Berlin",
         "--json"],
        input=text, capture_output=True, text=True, check=False,
    )  # fmt: skip
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert [(one["job"], one["at"], one["file"]) for one in document["findings"]] == [
        ("nightly", "2026-07-01T12:00:01Z", "stdin")
    ]


def test_clocks_that_are_named_are_certain_where_unnamed_ones_may_have_shown_an_hour_twice(
    log: Path, capsys: Said
) -> None:
    log.write_text("".join(f"2026-10-25T02:17:01 h CRON[{pid}]: (root) CMD (hourly)\n" for pid in (7, 8)))
    assert main(["logs", "app.log", "--certain"]) == 0
    assert main(["logs", "app.log", "--certain", "--tz", "UTC"]) == 1
    assert main(["logs", "app.log", "--certain", "--tz", "Europe/Berlin"]) == 0
    assert main(["logs", "app.log", "--certain", "--tz", "America/New_York"]) == 1


def test_text_from_a_log_moves_no_cursor(log: Path, capsys: Said) -> None:
    log.write_text("".join(f'2026-11-01 14:00:0{n} host=h{n} job="\x1b[2Jgone" START\n' for n in range(2)))
    assert main(["logs", "app.log"]) == 1
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "\\x1b[2Jgone" in said
