"""pause, resume, trigger, rerun, cancel, resolve, backfill, drain and holders, from the command line, on an SQLite
file; those who run what was asked for go by the real ledger."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from cronce.cli import main
from cronce.clock import SystemClock
from cronce.model import Mark, Slot, Write, slot_of_cell, spell
from cronce.protocol.notices import Holder
from cronce.protocol.record import Job, Outcome, Record, Spec, decode, encode
from cronce.protocol.terms import Terms
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.node import Node
from cronce.runtime.queries import slot_named
from cronce.runtime.scheduling.roster import Roster, digest_of
from cronce.stores import open_store
from cronce.stores.base import Scan
from cronce.telling.words import iso
from tests.cli.person import default_store
from tests.house.wait import wait_until

CLOCK = SystemClock()
MINUTE = timedelta(minutes=1)
NOW = CLOCK.wall().replace(second=0, microsecond=0)
TEXT = json.dumps({"schedule": {"text": "* * * * *"}})
SPECS = {"billing": ("v1", TEXT)}
TERMS = Terms(timedelta(minutes=5), overlap="allow")
BACKFILL = ("backfill", "billing", "--from", spell(NOW - 4 * MINUTE), "--to", spell(NOW))


def ago(minutes: int, request: str = "") -> Slot:
    return Slot("billing", NOW - minutes * MINUTE, request)


@contextmanager
def at(url: str, name: str = "web-1:1:a") -> Iterator[Node]:
    with closing(open_store(url)) as store:
        yield Node(store, CLOCK, lambda: store, lambda _event: None, name)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with a job that runs every minute, and was registered an hour and a half ago."""
    url = f"sqlite:///{tmp_path}/cronce.db"
    job = Job(NOW - 90 * MINUTE, specs=(Spec("v1", NOW, TEXT),), firing="v1")
    with at(url) as node:
        node.do(node.ledger.jobs.edit("billing", lambda _job, _now: job))
    return url


def ran(url: str, slot: Slot, outcome: Outcome | None = Outcome.SUCCEEDED, reason: str = "") -> None:
    """The slot, claimed and (with an outcome) closed."""
    with at(url) as node:
        (grant,) = node.do(node.ledger.claim([Wanted(slot, TERMS)]))
        assert isinstance(grant, Grant), grant
        if outcome is not None:
            node.do(node.ledger.finish(grant, outcome, reason))


def record(url: str, key: str) -> Record:
    with closing(open_store(url)) as store:
        return decode(store.load([slot_named(key).cell]).cells[0].value)


def beat(node: Node, role: str = "both", **labels: str) -> None:
    me = Holder(node.holder, digest_of(SPECS), role, 4, labels, NOW, "1.0")
    node.do(Roster(node.ledger.client, node.ledger.jobs).beat(me, SPECS, 0.0, timedelta(hours=1)))


@contextmanager
def worker(
    url: str, outcome: Outcome = Outcome.SUCCEEDED, reason: str = "", begin: threading.Event | None = None
) -> Iterator[None]:
    """A live scheduler, which runs whatever is due (when it may begin) and ends it so."""
    stop = threading.Event()

    def work() -> None:
        with at(url, "web-2:2:b") as node:
            beat(node)
            up.set()
            while not stop.wait(0.01):
                if begin is not None and not begin.is_set():
                    continue
                wanted = [Wanted(slot_of_cell(cell.key), TERMS, known=True) for cell in node.do(node.ledger.overdue())]
                for grant in node.do(node.ledger.claim(wanted)) if wanted else []:
                    assert isinstance(grant, Grant), grant
                    node.do(node.ledger.finish(grant, outcome, reason))

    up = threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    assert up.wait(30)
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Say:
    """Says something to the command, as ada, and returns what it says."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._url, self._capsys = url, capsys

    def __call__(self, *words: str, code: int = 0, by: str = "ada") -> str:
        with default_store(self._url):
            assert main([*words, "--by", by]) == code
        out, err = self._capsys.readouterr()
        return out + err

    def json(self, *words: str, code: int = 0) -> dict[str, object]:
        document: dict[str, object] = json.loads(self(*words, "--json", code=code))
        return document

    def look(self, *words: str) -> str:
        with default_store(self._url):
            assert main(words) == 0
        return self._capsys.readouterr().out


@pytest.fixture
def say(url: str, capsys: pytest.CaptureFixture[str]) -> Say:
    return Say(url, capsys)


# --- pause and resume ---


def test_pausing_says_by_whom_and_what_goes_on(url: str, say: Say) -> None:
    ran(url, ago(1), None)
    told = say("pause", "billing", "--reason", "moving").splitlines()
    assert told[0].startswith("billing is paused by ada at 20")
    assert told[0].endswith("Z (moving)")
    assert told[1:] == [f"  {ago(1).key} goes on; `cronce cancel {ago(1).key}` stops it"]
    assert say("pause", "billing", by="bob").startswith("billing was already paused by ada at ")
    assert " paused by ada at " in say.look("jobs").splitlines()[1]
    assert "It is paused by ada at" in say.look("why", "billing")
    assert say("resume", "billing", by="bob").startswith("billing is resumed; it was paused by ada at ")
    assert say("resume", "billing") == "billing was not paused\n"
    assert re.search(r"billing was paused by ada at 20\S+Z \(moving\), resumed by bob at ", say.look("why", ago(2).key))


def test_everything_is_paused_and_resumed(say: Say) -> None:
    assert say("pause", "--all", "--reason", "fire").startswith("everything is paused by ada at ")
    assert say("pause", "--all").startswith("everything was already paused by ada at ")
    assert say.look("jobs").startswith("everything is paused by ada at ")
    assert "Everything is paused by ada at" in say.look("why", "billing")
    assert say("resume", "--all").startswith("everything is resumed; it was paused by ada at ")
    assert say("resume", "--all") == "everything was not paused\n"
    assert say.look("jobs").startswith("job ")


def test_pausing_for_programs(say: Say) -> None:
    first = say.json("pause", "billing", "--reason", "moving")
    (job,) = json.loads(json.dumps(first["jobs"]))
    assert (job["job"], job["changed"], job["paused"]["by"], job["paused"]["reason"]) == (
        "billing",
        True,
        "ada",
        "moving",
    )
    assert first["all"] is None
    (looked,) = json.loads(say.look("jobs", "--json"))["jobs"]
    assert (looked["paused"], looked["pause"]) == (True, job["paused"])
    assert json.loads(say.look("why", "billing", "--json"))["pause"] == job["paused"]
    assert say.json("resume", "billing") == {
        "jobs": [{"job": "billing", "was": job["paused"], "changed": True}],
        "all": None,
    }
    assert say.json("resume", "--all") == {"jobs": [], "all": {"was": None, "changed": False}}
    halted = json.loads(json.dumps(say.json("pause", "--all")["all"]))
    assert halted["changed"] is True
    assert json.loads(say.look("jobs", "--json"))["halted"] == halted["paused"]


def test_of_several_jobs_none_is_touched_if_one_is_unknown(say: Say) -> None:
    told = say("pause", "billing", "biling", code=1)
    assert told == "cronce pause: no job is called 'biling'; did you mean 'billing'?\n"
    assert "paused" not in say.look("jobs")


@pytest.mark.parametrize("words", [["pause"], ["resume"], ["pause", "billing", "--all"]])
def test_which_jobs_has_to_be_said(say: Say, words: list[str]) -> None:
    assert "name one or more jobs, or give --all" in say(*words, code=2)


# --- trigger and rerun ---


def test_a_trigger_prints_the_key_of_its_run(url: str, say: Say) -> None:
    key, told = say("trigger", "billing", "--payload", '{"month": "2026-03"}', "--id", "march").splitlines()
    assert key.endswith("#march")
    assert told == "cronce trigger: it will not start yet: no live scheduler runs billing; start `cronce run app:cron`"
    assert (record(url, key).by, record(url, key).payload) == ("ada", '{"month":"2026-03"}')
    with worker(url):
        wait_until(lambda: record(url, key).outcome is Outcome.SUCCEEDED)
        assert say("trigger", "billing").startswith("billing@")
    assert say("trigger", "billing", "--id", "march") == f"{key}\ncronce trigger: it was already requested\n"
    assert say.json("trigger", "billing", "--id", "march") == {"key": key, "new": False, "by": "ada", "run": None}
    assert "asked for by ada" in say.look("runs", "billing")
    assert '  asked for by ada, with {"month":"2026-03"}' in say.look("why", key).splitlines()


@pytest.mark.parametrize("payload", ["{", "NaN", "[" * 100_000, json.dumps("x" * 70_000)])
def test_a_payload_that_is_none_is_refused(say: Say, payload: str) -> None:
    assert "payload" in say("trigger", "billing", "--payload", payload, code=2)
    assert say.look("runs").startswith("No runs are recorded in sqlite:///")


def test_waiting_for_a_run_ends_with_its_outcome(url: str, say: Say) -> None:
    with worker(url):
        told = say("trigger", "billing", "--wait").splitlines()
        assert told[1:] == ["succeeded"]
        run = json.loads(json.dumps(say.json("rerun", told[0], "--wait")["run"]))
        assert (run["slot"], run["outcome"], run["by"]) == (f"{told[0]}:rerun-1", "succeeded", "ada")
    with worker(url, Outcome.FAILED, "boom"):
        assert say("trigger", "billing", "--wait", code=1).splitlines()[1:] == ["failed: boom"]


def test_nobody_is_waited_for_who_does_not_live_or_may_not_run_it(url: str, say: Say) -> None:
    why = "it has not started: "
    (_, told) = say("trigger", "billing", "--wait", code=1).splitlines()
    assert told == f"{why}no live scheduler runs billing; start `cronce run app:cron`"
    say("pause", "billing")
    (_, told) = say("trigger", "billing", "--wait", code=1).splitlines()
    assert told.startswith(f"{why}billing is paused by ada at ")
    say("pause", "--all")
    (_, told) = say("trigger", "billing", "--wait", code=1).splitlines()
    assert told.startswith(f"{why}everything is paused by ada at ")


def test_what_calls_from_outside_run_waits_for_the_next_call(url: str, say: Say) -> None:
    """Whoever has a crontab was told to start a scheduler."""
    with at(url) as node:
        node.do(node.ledger.jobs.edit("billing", lambda job, _now: (job or Job(NOW))._replace(firing="")))
    ran(url, ago(1))
    told = "the next call of billing runs it"
    assert say("rerun", ago(1).key).splitlines()[-1] == f"cronce rerun: {told}"
    assert say("trigger", "billing", "--id", "march").splitlines()[1:] == [f"cronce trigger: {told}"]
    assert say("trigger", "billing", "--wait", code=1).splitlines()[1:] == [f"it has not started: {told}"]
    assert say(*BACKFILL).splitlines()[1:] == [
        "3 have not started: the next call of billing runs them, at most 20 at a time"
    ]
    say("pause", "billing")
    assert "it will not start yet: billing is paused by ada at " in say("trigger", "billing", "--id", "march")


def test_whoever_waits_sees_how_far_it_has_come(
    url: str, say: Say, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key, *_ = say("trigger", "billing", "--id", "march").splitlines()
    slot = slot_named(key)
    with at(url) as node:
        (grant,) = node.do(node.ledger.claim([Wanted(slot, TERMS)]))
        assert isinstance(grant, Grant)
        half = encode(grant.record._replace(progress=(30, 100)))
        node.store.swap([Write(slot.cell, grant.cells[0].version, half, Mark.OPEN)], node.store.load([]).epoch.seen)

        def finish(_seconds: float) -> None:
            node.do(node.ledger.finish(grant, Outcome.SUCCEEDED))

        monkeypatch.setattr("cronce.cli.operations.time.sleep", finish)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        assert "30 of 100 done" in say.look("runs")
        assert "  30 of 100 done" in say.look("why", key).splitlines()
        assert json.loads(say.look("runs", "--json"))["runs"][0]["progress"] == [30, 100]
        assert "] 30/100" in say("trigger", "billing", "--id", "march", "--wait")


def test_a_rerun_prints_the_key_of_its_run(url: str, say: Say) -> None:
    ran(url, ago(1))
    nobody = "cronce rerun: it will not start yet: no live scheduler runs billing; start `cronce run app:cron`\n"
    had = f"cronce rerun: {ago(1).key} had succeeded; it runs again\n"
    assert say("rerun", ago(1).key) == f"{ago(1).key}#rerun-1\n{had}{nobody}"
    assert record(url, f"{ago(1).key}#rerun-1").key == ago(1).key
    assert say("rerun", ago(1).key) == f"{ago(1).key}#rerun-1\ncronce rerun: it was already requested\n{nobody}"
    assert "there is no record of " in say("rerun", ago(2).key, code=1)


def test_a_job_is_no_slot(say: Say) -> None:
    assert say("cancel", "billing", code=2) == (
        "cronce cancel: 'billing' is not a slot; a slot is written like billing@2026-03-29T01:00:00Z;"
        " `cronce runs JOB` lists the slots of a job\n"
    )
    wanted = (
        "give one slot, such as billing@2026-03-29T01:00:00Z (`cronce runs` lists them), or a job with --from WHEN and"
        " --to WHEN\n"
    )
    for words in (["billing"], ["billing", "--from", "2026-03-01"], [ago(2).key, "--to", "2026-03-01"]):
        assert say("rerun", *words, code=2) == f"cronce rerun: {wanted}"


def test_a_day_is_no_slot_and_its_slots_are_named_by_a_time_range(say: Say) -> None:
    """It asked for a time zone, and with one it was a slot at midnight."""
    assert say("rerun", "billing@2026-11-18", code=2) == (
        "cronce rerun: 'billing@2026-11-18' is a day, not a slot. Give one slot, such as billing@2026-11-18T01:00:00Z,"
        " or the day as a time range: `cronce rerun billing --from 2026-11-18 --to 2026-11-19`\n"
    )
    assert "--from 9999-12-31 --to" in say("rerun", "billing@9999-12-31", code=2)


def test_a_job_that_calls_run_says_when_a_backfill_starts_that_is_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said that they were requested, and nothing ran them."""
    url = f"sqlite:///{tmp_path}/called.db"
    with at(url) as node:
        job = Job(NOW - 90 * MINUTE, specs=(Spec("v1", NOW, TEXT),))
        node.do(node.ledger.jobs.edit("billing", lambda _job, _now: job))
    told = Say(url, capsys)(*BACKFILL, "--no-wait").splitlines()[-1]
    assert told == "the next call of billing runs them, at most 20 at a time"


# --- nobody is there to run it ---


def test_a_job_that_no_live_scheduler_carries_is_said_to_be_run_by_nobody(url: str, say: Say) -> None:
    def looks() -> list[object]:
        (job,) = json.loads(say.look("jobs", "--json"))["jobs"]
        why = say.look("why", "billing")
        return [
            ", no scheduler runs it" in say.look("jobs"),
            not job["carried"],
            "No live scheduler has this job, so it will not run; `cronce status holders` lists the processes that are"
            " alive." in why,
            "and no process has claimed it: no live scheduler has this job." in say.look("why", ago(0).key),
        ]

    ran(url, ago(1))
    assert looks() == [True] * 4
    with at(url) as node:
        beat(node, "schedule")
        assert looks() == [True] * 4
        beat(node)
        assert looks() == [False] * 4
        say("drain", "web-1:1:a")
        assert looks() == [True] * 4


def test_what_is_asked_for_of_a_paused_job_waits_until_it_is_resumed(url: str, say: Say) -> None:
    say("pause", "billing")
    key, told = say("trigger", "billing").splitlines()
    assert told.startswith("cronce trigger: it will not start yet: billing is paused by ada at ")
    assert say.look("why", key).splitlines()[0] == (
        f"{key} is due, and no process has claimed it; it waits until billing is resumed."
    )
    say("pause", "--all")
    assert "; it waits until everything is resumed." in say.look("why", key)


# --- cancel and resolve ---


def test_cancelling_says_what_became_of_it(url: str, say: Say) -> None:
    ran(url, ago(1), None)
    ran(url, ago(2))
    due, *_ = say("trigger", "billing").splitlines()
    assert say("cancel", ago(1).key, ago(2).key, due, "--reason", "wrong").splitlines() == [
        f"{ago(1).key} is running; its holder is asked to stop it",
        f"{ago(2).key} is closed: succeeded; nothing was cancelled",
        f"{due} is closed: skipped, cancelled by ada: wrong",
    ]
    assert say.json("cancel", ago(1).key, due) == {
        "slots": [
            {"slot": ago(1).key, "asked": True, "outcome": None, "reason": None},
            {"slot": due, "asked": False, "outcome": "skipped", "reason": "cancelled by ada: wrong"},
        ]
    }
    assert "there is no record of " in say("cancel", ago(3).key, code=1)


def test_resolving_says_what_it_counts_as(url: str, say: Say) -> None:
    ran(url, ago(1), Outcome.FAILED, "boom")
    assert say("resolve", ago(1).key, "retry") == f"{ago(1).key} is due again\n"
    assert say.json("resolve", ago(1).key, "retry") == {
        "slot": ago(1).key, "due": True, "outcome": None, "reruns": [],
    }  # fmt: skip
    ran(url, ago(1), Outcome.FAILED, "boom")
    assert say("resolve", ago(1).key, "done", "--reason", "I looked") == f"{ago(1).key} counts as succeeded\n"
    assert say.json("resolve", ago(1).key, "done")["outcome"] == "succeeded"
    assert "; already resolved by ada: I looked at 20" in say("resolve", ago(1).key, "done")
    assert "resolved: by ada: I looked" in say.look("why", ago(1).key)
    ran(url, ago(2))
    assert "was succeeded; only" in say("resolve", ago(2).key, "retry", code=1)


def test_resolving_a_slot_names_the_rerun_of_it_that_will_run_all_the_same(url: str, say: Say) -> None:
    ran(url, ago(1), Outcome.FAILED, "boom")
    say("rerun", ago(1).key)
    told = say("resolve", ago(1).key, "done")
    assert f"`cronce cancel {ago(1).key}#rerun-1` stops it" in told


# --- backfill ---


def test_a_backfill_runs_what_never_succeeded_and_says_how_it_ended(url: str, say: Say) -> None:
    ran(url, ago(4))
    ran(url, ago(3), None)
    head = "billing: 4 slots; 1 succeeded, 1 open, 0 failed in an earlier backfill; 2 to run\n"
    listed = "".join(f"  {ago(minutes).key}\n" for minutes in (2, 1))
    assert say(*BACKFILL, "--dry-run") == f"{head}{listed}nothing was requested: this was a dry run\n"
    with worker(url):
        assert say(*BACKFILL) == f"{head}2 succeeded\n"
        done = head.replace("1 succeeded", "3 succeeded").replace("2 to run", "0 to run")
        assert say(*BACKFILL) == f"{done}nothing to do\n"
    assert [record(url, ago(minutes, "backfill").key).by for minutes in (2, 1)] == ["ada", "ada"]


def test_what_was_backfilled_in_vain_can_be_run_again(url: str, say: Say) -> None:
    with worker(url, Outcome.FAILED, "boom"):
        told = say(*BACKFILL, code=1).splitlines()
        failed = [ago(minutes, "backfill").key for minutes in (4, 3, 2, 1)]
        assert told[1] == "4 failed"
        assert sorted(told[2:]) == sorted(f"  {key} failed; `cronce rerun {key}` runs it again" for key in failed)
        again = say(*BACKFILL, code=1).splitlines()
        assert (again[1:], "4 failed in an earlier backfill; 0 to run" in again[0]) == (sorted(told[2:]), True)


def test_a_backfill_for_programs(url: str, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [ago(minutes, "backfill").key for minutes in (4, 3, 2, 1)]
    counts = {"wanted": 4, "succeeded": 0, "open": 0, "ended": 0}
    told: dict[str, object] = {"job": "billing", "slots": counts, "asked": [], "runs": None, "obstacle": None}
    assert say.json(*BACKFILL, "--dry-run") == told
    assert say.json(*BACKFILL, "--no-wait") == {**told, "asked": keys}
    counts = {"wanted": 0, "succeeded": 0, "open": 4, "ended": 0}
    nobody = "no live scheduler runs billing; start `cronce run app:cron`"
    assert say.json(*BACKFILL, code=1) == {**told, "slots": counts, "runs": [], "obstacle": nobody}
    begin = threading.Event()

    def wait(seconds: float) -> None:
        begin.set()  # whoever waits has seen that all of them are open
        threading.Event().wait(seconds)

    monkeypatch.setattr("cronce.cli.operations.time.sleep", wait)
    with worker(url, begin=begin):
        runs = json.loads(json.dumps(say.json(*BACKFILL)["runs"]))
    assert sorted((run["slot"], run["outcome"]) for run in runs) == [(key, "succeeded") for key in keys]


def test_a_backfill_that_nobody_runs_says_so_and_can_be_called_off(url: str, say: Say) -> None:
    told = say(*BACKFILL, code=1).splitlines()
    assert told[1:] == ["4 have not started: no live scheduler runs billing; start `cronce run app:cron`"]
    told = say(*BACKFILL, "--cancel").splitlines()
    assert ("4 open" in told[0], told[1:]) == (True, ["4 runs cancelled"])
    assert [record(url, ago(minutes, "backfill").key).reason for minutes in (4, 3, 2, 1)] == ["cancelled by ada"] * 4


def test_how_many_are_meant_has_to_be_said(say: Say) -> None:
    assert "more than 3 slots" in say(*BACKFILL, "--most", "3", code=2)
    assert "--most must be from 1 to 1,000,000, not 0" in say(*BACKFILL, "--most", "0", code=2)
    assert say(*BACKFILL, "--most", "4", "--dry-run").startswith("billing: 4 slots")


def test_a_backfill_that_is_not_waited_for_says_what_it_requested(say: Say) -> None:
    """It said the same as a dry run."""
    assert say(*BACKFILL, "--no-wait").splitlines()[1:] == [
        "4 runs requested; `cronce runs billing` lists them",
        "they will not start yet: no live scheduler runs billing; start `cronce run app:cron`",
    ]


def test_no_limit_is_so_high_that_the_answer_takes_for_ever(say: Say) -> None:
    """All slots were listed before the range was looked at."""
    most = "--most", "1000000"
    assert "1,000,000, not 999999999999" in say(*BACKFILL, "--most", "999999999999", "--dry-run", code=2)
    centuries = "rerun", "billing", "--from", "0001-01-02", "--to", "9998-01-01", "--dry-run", *most
    assert "is not due yet; a backfill runs slots that are due" in say(*centuries, code=2)


def test_an_interrupt_leaves_the_rest_to_be_run(url: str) -> None:
    with at(url) as node:
        beat(node)
        command = [sys.executable, "-m", "cronce", *BACKFILL, "--store", url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            wait_until(lambda: len(node.store.scan(Scan("run/", mark=Mark.OPEN)).cells) == 4)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 130, (out, err)
        assert out.startswith("billing: 4 slots")
        assert "the runs stay requested: the same command waits for them again, --cancel drops them" in err
        assert len(node.store.scan(Scan("run/", mark=Mark.OPEN)).cells) == 4


# --- drain and holders ---


def test_draining_names_those_whom_it_concerns(url: str, say: Say) -> None:
    assert say.look("holders").startswith("no scheduler is alive in sqlite:///")
    for name, colour in (("web-1:1:a", "blue"), ("web-2:2:b", "green")):
        with at(url, name) as node:
            beat(node, colour=colour)
    told = say("pause", "--label", "colour=blue", "--reason", "green takes over").splitlines()
    assert told[0].startswith("colour=blue takes no new work: paused by ada at ")
    assert told[1:] == ["  web-1:1:a"]
    again = "colour=blue takes no new work: it was already paused by ada at "
    assert say("pause", "--label", "colour=blue").startswith(again)
    header, blue, green = say.look("holders").splitlines()
    assert header.split() == ["holder", "role", "workers", "labels", "since", "version", "last", "beat", "state"]
    assert blue.split()[:4] == ["web-1:1:a", "both", "4", "colour=blue"]
    assert " takes no new work: paused by ada at " in blue
    assert green.endswith("alive")
    assert say("resume", "--label", "colour=blue").startswith("colour=blue takes new work again; it was paused by ada")
    assert say("resume", "--label", "colour=blue") == "colour=blue was not paused\n  web-1:1:a\n"
    assert say("pause", "--label", "colour=red").splitlines()[1:] == ["  no live scheduler"]
    unknown = "no live scheduler is called 'web-9'; live: web-1:1:a, web-2:2:b"
    assert unknown in say("pause", "--scheduler", "web-9", code=1)
    for words in ([], ["billing", "--all"], ["billing", "--scheduler", "web-9"], ["--all", "--label", "colour=red"]):
        assert "name one or more jobs, or give --all; or name a scheduler" in say("pause", *words, code=2)


def test_draining_for_programs(url: str, say: Say) -> None:
    with at(url) as node:
        beat(node, "work", colour="blue")
        until = node.store.scan(Scan("holder/")).cells[0].until
    assert until is not None
    first = json.loads(json.dumps(say.json("drain", "web-1:1:a")))
    assert (first["changed"], first["holders"], first["drained"]["by"]) == (True, ["web-1:1:a"], "ada")
    (holder,) = json.loads(say.look("holders", "--json"))["holders"]
    assert holder == {
        "holder": "web-1:1:a",
        "role": "work",
        "workers": 4,
        "labels": {"colour": "blue"},
        "since": iso(NOW),
        "version": "1.0",
        "tzdata": "",
        "beat": iso(until - timedelta(seconds=30)),
        "draining": True,
        "drained": first["drained"],
    }
    assert say.json("drain", "web-1:1:a", "--off") == {"drained": None, "changed": True, "holders": ["web-1:1:a"]}
    assert say.json("drain", "web-1:1:a", "--off") == {"drained": None, "changed": False, "holders": ["web-1:1:a"]}


@pytest.mark.parametrize("by", ["", "a\x1b[31mb"])
def test_a_name_that_cannot_be_one_is_refused(say: Say, by: str) -> None:
    assert "who acts must have" in say("pause", "billing", code=2, by=by)
    assert "paused" not in say.look("jobs")
