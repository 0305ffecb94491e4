"""cronce add, edit and remove, from the command line, and what cronce jobs says of it."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cronce import Cronce
from cronce.cli import main
from cronce.clock import SystemClock
from cronce.runtime.flow import drive
from cronce.runtime.ledger import Ledger
from cronce.runtime.stored_jobs import definitions, parsed
from cronce.stores import open_store


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/cronce.db"


class Line:
    """A command line: what was said, and with which code it ended."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._url, self._capsys = url, capsys

    def __call__(self, *words: str, code: int = 0) -> str:
        at = words.index("--") if "--" in words else len(words)
        assert main([*words[:at], "--store", self._url, *words[at:]]) == code
        out, err = self._capsys.readouterr()
        return err if code else out

    def told(self, *words: str) -> Any:
        return json.loads(self(words[0], "--json", *words[1:]))


@pytest.fixture
def line(url: str, capsys: pytest.CaptureFixture[str]) -> Line:
    return Line(url, capsys)


def test_a_job_is_added_changed_and_removed(line: Line) -> None:
    add = ["add", "sync", "--every", "2h", "--timeout", "10m", "--by", "ada", "--", "./sync.sh", "--every", "--all"]
    assert line(*add) == "sync is added, revision 1\n"
    assert line(*add) == "sync is in the store already; nothing to change\n"
    (job,) = line.told("jobs")["jobs"]
    assert job["stored"].pop("at").startswith("20")
    definition = {"every": "2h", "timeout": "10m", "command": ["./sync.sh", "--every", "--all"]}
    assert job["stored"] == {"revision": 1, "by": "ada", "definition": definition}
    assert (job["schedules"], job["last"], job["policies"]["timeout"]) == ([{"text": "every 2h"}], None, "10m")
    edit = ["edit", "sync", "--schedule", "@daily", "--tz", "Europe/Berlin", "--unset", "timeout", "--by", "bob"]
    assert line(*edit) == "sync is changed, revision 2\n"
    assert line(*edit) == "sync is as it was\n"
    line("edit", "sync", "--by", "bob", "--", "./other.sh", "--schedule")
    assert line.told("jobs")["jobs"][0]["stored"]["definition"]["command"] == ["./other.sh", "--schedule"]
    header, row = line("jobs").splitlines()
    assert header.split()[-1] == "stored"
    assert row.startswith("sync  0 0 * * * Europe/Berlin  ")
    assert row.endswith(" by bob")
    assert line.told("remove", "sync") == {"job": "sync", "changed": True, "revision": 4}
    assert "removed from the store by " in line("remove", "sync", code=1)
    assert line("jobs").startswith("no job is known yet in sqlite:///")


def test_a_job_that_ran_and_was_removed_is_listed_as_removed(line: Line, url: str) -> None:
    line("add", "sync", "--every", "2h", "--", "./sync.sh")
    with closing(open_store(url)) as store:
        (one,) = drive(definitions(), store, SystemClock())
        job = parsed(one.name, one.definition).job._replace(revision=one.revision)
        ledger = Ledger(store.traits, SystemClock(), "web-1")
        drive(ledger.jobs.declare(job.name, job.spec, SystemClock().wall()), store, SystemClock())
    line("remove", "sync", "--by", "ada")
    _header, row = line("jobs").splitlines()
    assert row.split() == ["sync", "every", "2h", "removed", "by", "ada"]
    (document,) = line.told("jobs")["jobs"]
    assert (document["next"], document["stored"]["definition"]) == (None, None)


def test_a_job_that_no_process_has_carried_yet_is_known_to_all_who_look_and_act(line: Line) -> None:
    line("add", "sync", "--every", "2h", "--", "./sync.sh")
    assert ", no scheduler runs it" in line("jobs")
    line("runs", "sync")
    told = line("why", "sync").splitlines()
    assert told[0] == "sync runs every 2 hours, counted from 00:00 UTC (every 2h)."
    assert told[2].startswith("No live scheduler has this job")
    assert " was due before sync was registered, and such slots do not run." in "".join(told)
    key = line("trigger", "sync").strip()
    assert line("why", key).startswith(f"{key} is due, and no process has claimed it; no live scheduler has this job.")
    assert line("pause", "sync", "--by", "ada").startswith("sync is paused by ada")
    listed = line("jobs").splitlines()[1]
    assert listed.startswith("sync  every 2h  paused by ada")
    assert key.partition("@")[2] in listed
    assert line("resume", "sync").startswith("sync is resumed")


def test_every_policy_is_an_option(line: Line) -> None:
    said = (
        "--tz Europe/Berlin --gap skip --fold both --start 2026-01-01T00:00:00Z --end 2027-01-01T00:00:00Z"
        " --on-lost rerun --overlap wait --turns 2 --missed all --start-within 1h --jitter 1m --retries 3 --backoff 5s"
        " --timeout 10m --lease 1m --keep 30d --isolate"
    )
    line("add", "mail", "0 3 * * *", "--function", "tasks:mail", "--payload", '{"month": [3]}', *said.split())
    (job,) = line.told("jobs")["jobs"]
    assert job["stored"]["definition"] == {
        "schedule": "0 3 * * *", "function": "tasks:mail", "payload": {"month": [3]}, "tz": "Europe/Berlin",
        "gap": "skip", "fold": "both", "start": "2026-01-01T00:00:00Z", "end": "2027-01-01T00:00:00Z",
        "on_lost": "rerun", "overlap": "wait", "turns": 2, "missed": "all", "start_within": "1h", "jitter": "1m",
        "retries": 3, "backoff": "5s", "timeout": "10m", "lease": "1m", "keep": "30d", "isolate": True,
    }  # fmt: skip
    line("edit", "mail", "--no-isolate", "--unset", "start-within", "--at", "2026-12-24T18:00:00Z")
    definition = line.told("jobs")["jobs"][0]["stored"]["definition"]
    assert definition["isolate"] is False
    assert definition.keys().isdisjoint({"start_within", "schedule", "tz", "gap", "fold"})


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["add", "mail", "@hourly"], "give what to run"),
        (["add", "mail", "--function", "tasks:mail"], "give when to run it"),
        (["add", "mail", "@hourly", "--function", "tasks:mail", "--", "./mail.sh"], "give what to run"),
        (["add", "mail", "* * *", "--", "./mail.sh"], "field"),
        (["add", "mail", "@hourly", "--payload", "{", "--", "./mail.sh"], "--payload must be JSON"),
        (["add", "mail", "@hourly", "--payload", "NaN", "--", "./mail.sh"], "NaN is no JSON"),
        (["add", "mail", "@hourly", "--by", "", "--", "./mail.sh"], "who acts"),
        (["edit", "mail"], "nothing to change was given"),
    ],
)
def test_what_makes_no_sense_is_refused(line: Line, words: list[str], why: str) -> None:
    assert why in line(*words, code=2)


def test_a_store_that_ends_with_the_process_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["add", "mail", "@hourly", "--store", "memory://", "--", "true"]) == 2
    assert "memory:// exists only in this process" in capsys.readouterr().err


def test_to_change_what_is_not_there_makes_no_store(line: Line, tmp_path: Path) -> None:
    for verb in (["edit", "mail", "--every", "1h"], ["remove", "mail"]):
        assert "there is no file" in line(*verb, code=1)
    assert list(tmp_path.iterdir()) == []


def test_programs_do_the_same(url: str, line: Line) -> None:
    with Cronce(url) as cron:
        assert cron.add("mail", "@hourly", function="tasks:mail", by="ada") is True
        assert cron.add("mail", "0 * * * *", function="tasks:mail") is False
        assert cron.edit("mail", retries=3) is True
        assert cron.edit("mail", retries=3) is False
        (job,) = line.told("jobs")["jobs"]
        assert (job["stored"]["revision"], job["stored"]["definition"]["retries"]) == (2, 3)
        cron.remove("mail")
    assert line("jobs").startswith("no job is known yet in sqlite:///")


def test_of_many_who_add_at_once_one_wins(url: str, line: Line) -> None:
    line("add", "other", "@hourly", "--", "true")
    words = [sys.executable, "-m", "cronce", "add", "mail", "@hourly", "--store", url, "--"]
    started = [subprocess.Popen([*words, f"./{number}.sh"], stderr=subprocess.PIPE) for number in range(6)]
    errors = [process.communicate(timeout=60)[1] for process in started]
    (winner,) = [number for number, process in enumerate(started) if process.returncode == 0]
    assert sorted(process.returncode for process in started) == [0, 2, 2, 2, 2, 2]
    assert sum(b"another definition" in error for error in errors) == 5
    mail, _other = line.told("jobs")["jobs"]
    assert (mail["stored"]["revision"], mail["stored"]["definition"]["command"]) == (1, [f"./{winner}.sh"])
