"""observed, and exec --observe, from the command line: as crontabs start them, and as people read what came of it."""

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cronce import Cronce
from cronce.cli import main
from cronce.model import Mark, Write, observed_cell
from cronce.protocol.record import Outcome, decode
from cronce.stores import open_store
from tests.house.wait import wait_until

NEVER = "0 0 29 2 *"
SLOT = "2024-02-29T00:00:00Z"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/cronce.db"


def observe(url: str, times: int, name: str = "newsletter") -> None:
    with Cronce(url) as cron:
        send = cron.observe(name, window="1h")(lambda: None)
        for _ in range(times):
            send()


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["observed", *words]) == code
    return capsys.readouterr().out


# --- observed -------------------------------------------------------------------------------------------------------


def test_a_person_sees_how_many_calls_were_too_many_what_they_cost_and_who_made_the_last(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    observe(url, 4)
    observe(url, 1, "report")
    lines = told(capsys, "--cost", "0.12", "--store", url, code=1).splitlines()
    assert lines[0].split() == ["name", "calls", "duplicates", "cost", "last", "duplicate"]
    first, second = (line.split() for line in lines[1:])
    assert first[:4] == ["newsletter", "4", "3", "0.36"]
    assert second == ["report", "1", "0", "0.00"]
    assert f"by {os.uname().nodename}:{os.getpid()}:" in lines[1]
    assert f"after a call by {os.uname().nodename}:{os.getpid()}:" in lines[1]


def test_its_json_is_a_contract(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    observe(url, 3)
    document = json.loads(told(capsys, "newsletter", "--json", "--store", url, code=1))
    (one,) = document["observed"]
    assert list(one) == ["name", "window", "calls", "duplicates", "recent", "cost"]
    assert (one["name"], one["window"], one["calls"], one["duplicates"], one["cost"]) == (
        "newsletter", "1h", 3, 2, None
    )  # fmt: skip
    assert [list(it) for it in one["recent"]] == [["slot", "at", "by", "why"]] * 2
    priced = json.loads(told(capsys, "--json", "--cost", "10000", "--store", url, code=1))
    assert priced["observed"][0]["cost"] == 20_000


def test_it_is_a_check_of_what_is_recent(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    observe(url, 1)
    told(capsys, "--store", url, code=0)
    observe(url, 1)
    told(capsys, "--store", url, code=1)
    told(capsys, "--since", "1h", "--store", url, code=1)
    told(capsys, "--since", "1ms", "--store", url, code=0)


def test_what_nobody_can_read_is_not_clean(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(open_store(url)) as store:
        store.swap([Write(observed_cell("odd"), 0, "{}", Mark.FREE)], store.load([]).epoch.seen)
    assert "unreadable" in told(capsys, "--cost", "1", "--store", url, code=1)
    assert json.loads(told(capsys, "--json", "--store", url, code=1)) == {
        "observed": [{"name": "odd", "unreadable": True}]
    }


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["newsletter"], 1, "there is no record of newsletter"),
        (["--cost", "cheap"], 2, "--cost must be the cost of one call, such as 0.12, not 'cheap'"),
        (["--cost=-1"], 2, "--cost must be the cost of one call"),
        (["--since", "soon"], 2, "'soon' is not a duration"),
        (["a b"], 2, "cannot be a name"),
    ],
)
def test_what_makes_no_sense_is_told(
    words: list[str], code: int, message: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    observe(url, 1, "other")
    assert main(["observed", *words, "--store", url]) == code
    assert message in capsys.readouterr().err


def test_whoever_watches_hears_of_it(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for code, findings in enumerate(([], ["newsletter"])):
        observe(url, 1)
        assert main(["watch", "--once", "--json", "--store", url]) == code
        found = json.loads(capsys.readouterr().out)["alerts"]
        assert [one["subject"] for one in found if one["kind"] == "doubled"] == findings


def test_where_nothing_was_observed_it_says_of_which_store(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(open_store(url)):
        pass
    assert told(capsys, "--store", url).startswith(
        f"nothing was observed in {url}; to use another store, set CRONCE_URL"
    )


# --- exec --observe -------------------------------------------------------------------------------------------------


def exec_words(url: str, *words: str, command: str) -> list[str]:
    given = ["--schedule", NEVER, "--start-within", "36500d", "--observe", "--store", url, *words]
    return [sys.executable, "-m", "cronce", "exec", "sync", *given, "--", "sh", "-c", command]


def run(url: str, *words: str, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(exec_words(url, *words, command=command), capture_output=True, text=True, check=False)


def seen(url: str, capsys: pytest.CaptureFixture[str], code: int) -> dict[str, Any]:
    (one,) = json.loads(told(capsys, "sync", "--json", "--store", url, code=code))["observed"]
    assert isinstance(one, dict)
    return one


def test_a_command_runs_as_before_and_who_would_have_been_refused_is_on_record(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "echo ran; echo oops >&2; exit 3"
    first, second, third = run(url, command=command), run(url, command=command), run(url, "-v", command="echo ran")
    assert [(one.returncode, one.stdout) for one in (first, second, third)] == [
        (3, "ran\n"),
        (3, "ran\n"),
        (0, "ran\n"),
    ]
    assert (first.stderr, second.stderr) == ("oops\n", "oops\n")
    assert "though it is closed: failed, exit code 3, by " in third.stderr
    assert "extra runs so far: 2 of 3 calls" in third.stderr
    one = seen(url, capsys, code=1)
    assert (one["calls"], one["duplicates"], one["window"]) == (3, 2, None)
    assert {it["slot"] for it in one["recent"]} == {f"sync@{SLOT}"}


def test_without_a_store_a_command_runs_and_a_line_says_why_it_is_not_noted() -> None:
    done = run("redis://127.0.0.1:1/0", command="echo ran; exit 3")
    assert (done.returncode, done.stdout) == (3, "ran\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("observed calls and signs of life cannot be recorded: redis at 127.0.0.1:1 cannot be")


def test_a_command_that_cannot_be_started_is_told_as_ever(url: str) -> None:
    words = exec_words(url, command="true")
    done = subprocess.run([*words[: words.index("--")], "--", "./nowhere"], capture_output=True, text=True, check=False)
    assert (done.returncode, "./nowhere" in done.stderr) == (127, True)


def test_a_signal_reaches_the_command_and_how_it_ended_is_on_record(url: str, tmp_path: Path) -> None:
    command = f"trap 'exit 9' TERM; echo > {tmp_path}/up; while :; do sleep 0.02; done"
    with subprocess.Popen(exec_words(url, command=command)) as process:
        wait_until((tmp_path / "up").exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 9
    with closing(open_store(url)) as store:
        (cell,) = store.load([f"run/sync/{SLOT}"]).cells
    record = decode(cell.value)
    assert (record.outcome, record.reason) == (Outcome.FAILED, "exit code 9")
