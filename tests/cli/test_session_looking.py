"""cronce jobs, runs, locks and why, from the command line, on an SQLite file that the real ledger wrote."""

import json
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from cronce import cli
from cronce.cli import main
from cronce.cli.session import OTHER_STORE_HINT
from cronce.clock import SystemClock
from cronce.model import ABSENT, Mark, Slot, Write, job_cell, lock_cell, spell
from cronce.protocol.commands import Queue
from cronce.protocol.record import Job, Outcome, Record, Spec, State, encode
from cronce.protocol.terms import Terms
from cronce.runtime.flow import drive
from cronce.runtime.ledger import Grant, Ledger, Wanted
from cronce.schedule import Every, parse_schedule, spec_of
from cronce.stores import open_store
from cronce.stores.default import choose
from tests.house.wait import wait_until

CLOCK = SystemClock()
NOW = CLOCK.wall().replace(microsecond=0)
SLOT = Slot("billing", NOW - timedelta(seconds=10))
TERMS = Terms(timedelta(minutes=5), overlap="allow", outside=True)
LOOKS = (["jobs"], ["runs"], ["locks"], ["leaders"], ["why", "billing"])


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with a job, a run that succeeded, one by hand that runs, and two locks."""
    url = f"sqlite:///{tmp_path}/cronce.db"
    store = open_store(url)
    ledger = Ledger(store.traits, CLOCK, "web-1")
    text = json.dumps({"schedule": spec_of(Every("1d")), "retries": 2})
    declared = Job(SLOT.at - timedelta(days=2), specs=(Spec("v1", NOW, text),))
    drive(ledger.jobs.edit("billing", lambda _job, _now: declared), store, CLOCK)
    again = SLOT._replace(request="again")
    drive(ledger.put({again: Queue(by="ada@laptop", payload='{"month":3}')}), store, CLOCK)
    (first,) = drive(ledger.claim([Wanted(SLOT, TERMS)]), store, CLOCK)
    assert isinstance(first, Grant)
    drive(ledger.finish(first, Outcome.SUCCEEDED, output="all sent"), store, CLOCK)
    later = CLOCK.wall() + timedelta(milliseconds=2)  # the store's clock tells milliseconds
    wait_until(lambda: CLOCK.wall() > later)
    drive(ledger.claim([Wanted(again, TERMS)]), store, CLOCK)
    drive(ledger.acquire(lock_cell("reindex")), store, CLOCK)
    rebuild = drive(ledger.acquire(lock_cell("rebuild")), store, CLOCK)
    assert isinstance(rebuild, Grant)
    drive(ledger.release([rebuild]), store, CLOCK)
    store.close()
    return url


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(arguments) == code
    out, err = capsys.readouterr()
    return err if code else out


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, list[dict[str, object]]]:
    document: dict[str, list[dict[str, object]]] = json.loads(said(capsys, *arguments, "--json"))
    return document


def test_jobs(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    ((header, row),) = [said(capsys, "jobs", "--store", url).splitlines()]
    assert header.split("  ")[0] == "job"
    assert row.startswith("billing  every 1d  ")
    assert "no scheduler runs it" not in row  # it is called from outside, and needs no scheduler
    (job,) = told(capsys, "jobs", "--store", url)["jobs"]
    upcoming = Every("1d").next(NOW)
    assert upcoming is not None
    assert job == {
        "job": "billing",
        "schedules": [{"text": "every 1d"}],
        "policies": {"retries": 2},
        "next": spell(upcoming),
        "carried": False,
        "paused": False,
        "pause": None,
        "floor": spell(SLOT.at - timedelta(days=2)),
        "last": next(one for one in told(capsys, "runs", "--store", url)["runs"] if "#again" in str(one["slot"])),
        "stored": None,
    }


def test_jobs_that_are_paused_called_with_two_schedules_or_unreadable_say_so(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_store(url)
    ledger = Ledger(store.traits, CLOCK, "web-1")
    drive(ledger.jobs.pause("billing", "ada", "moving"), store, CLOCK)
    specs = tuple(Spec(f"v{hours}", NOW, json.dumps({"schedule": {"text": f"every {hours}h"}})) for hours in (1, 2))
    drive(ledger.jobs.edit("mail", lambda _job, now: Job(now, specs=specs)), store, CLOCK)
    store.swap([Write(job_cell("new"), ABSENT, '{"v":99}', Mark.OPEN)], store.load([]).epoch.seen)
    store.close()
    _header, billing, mail, new = said(capsys, "jobs", "--store", url).splitlines()
    assert billing.split()[:6] == ["billing", "every", "1d", "paused", "by", "ada"]
    assert "(2 seen)" in mail
    assert new == "new      the cell 'job/new' has format 99, this cronce reads up to 6: upgrade cronce"
    documents = told(capsys, "jobs", "--store", url)["jobs"]
    assert [document["paused"] for document in documents] == [True, False, None]


def test_runs(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    header, again, first = said(capsys, "runs", "--by", "slot", "--store", url).splitlines()
    assert header.split() == ["slot", "state", "holder", "started", "took", "reason"]
    assert again.split()[:3] == [f"{SLOT.key}#again", "running", "web-1"]
    assert first.split()[:3] == [SLOT.key, "succeeded", "web-1"]
    running, succeeded = told(capsys, "runs", "--by", "slot", "--store", url)["runs"]
    keys = ["job", "slot", "state", "outcome", "holder", "fence", "grant", "started", "finished", "reason", "lapsed",
            "host_gone", "fate", "by", "payload", "progress"]  # fmt: skip
    assert list(succeeded) == keys
    assert (running["state"], running["finished"], running["lapsed"]) == ("running", None, False)
    assert (running["by"], running["payload"], running["progress"]) == ("ada@laptop", {"month": 3}, None)
    assert (succeeded["by"], succeeded["payload"], succeeded["progress"]) == (None, None, None)
    assert (succeeded["job"], succeeded["slot"], succeeded["grant"]) == ("billing", SLOT.key, 1)
    assert (succeeded["state"], succeeded["outcome"], succeeded["reason"]) == ("closed", "succeeded", None)
    assert said(capsys, "runs", "billing", "--state", "succeeded", "--store", url).count(SLOT.key) == 1
    assert (
        said(capsys, "runs", "--state", "lost", "--store", url)
        == f"No lost runs are recorded in {url}; {OTHER_STORE_HINT}\n"
    )
    assert len(told(capsys, "runs", "-n", "1", "--store", url)["runs"]) == 1


def test_a_slot_that_is_due_again_shows_nothing_of_the_process_that_died(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After `resolve … retry` the dead holder stood there as if it had the slot."""
    url = f"sqlite:///{tmp_path}/cronce.db"
    lost = Record(State.CLOSED, 1, "n", "web-1:1:a", started=SLOT.at, outcome=Outcome.LOST, finished=SLOT.at)
    with closing(open_store(url)) as store:
        store.swap([Write(SLOT.cell, ABSENT, encode(lost), Mark.ATTENTION, SLOT.at)], store.load([]).epoch.seen)
    said(capsys, "resolve", SLOT.key, "retry", "--force", "--store", url)
    _, row = said(capsys, "runs", "--store", url).splitlines()
    assert row == f"{SLOT.key}  due"
    (run,) = told(capsys, "runs", "--store", url)["runs"]
    assert (run["state"], run["holder"], run["started"]) == ("due", None, None)
    assert f"\n  {SLOT.key}  due\n" in said(capsys, "status", "--store", url)


def test_commands_to_paste_name_the_store_that_was_named(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They asked the default store instead."""
    store = f"--store {url}"
    assert f"`cronce jobs {store}` lists those of this store" in said(capsys, "runs", "x", "--store", url, code=1)
    key = f"{SLOT.key}#again"
    paused = said(capsys, "pause", "billing", "--store", url)
    assert f"  {key} goes on; `cronce cancel {store} {key}` stops it" in paused
    assert said(capsys, "jobs", "--store", f"{url}?timeout=5").count("--store") == 0
    shown = said(capsys, "status", "--store", f"{url}?timeout=5")
    assert f"`cronce resume --store '{url}?timeout=5' billing`" in shown
    assert main(["pause", "--all", "--store", "postgresql://ada:secret@127.0.0.1:1/x"]) == 75
    assert "secret" not in capsys.readouterr().err


def test_a_command_to_paste_has_no_url_whose_password_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pasted with `***` in it, the server refused the password."""
    monkeypatch.setattr(cli._called, "store", "postgresql://ada:secret@db/x")
    assert cli.pasteable("If it is new, run `cronce store init`.") == (
        "If it is new, run `cronce store init`. Run it with the same --store"
    )
    assert cli.pasteable("nothing to do.") == "nothing to do."
    page = "wrong\n  a@x  lost  `cronce why a@x`\nlast\n  a@x  succeeded  3s"
    assert cli.pasteable(f"{page}\n") == f"{page}\nRun these commands with the same --store.\n"


def test_what_a_job_printed_is_not_taken_for_a_command_to_paste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli._called, "store", "sqlite:///x.db")
    assert cli.pasteable("  | cronce status\n| see cronce status") == "  | cronce status\n| see cronce status"
    assert cli.pasteable("run `cronce status`") == "run `cronce status --store sqlite:///x.db`"


def test_a_lapsed_run_is_shown_as_lapsed_and_is_running_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/cronce.db"
    store = open_store(url)
    ledger = Ledger(store.traits, CLOCK, "web-1")
    drive(ledger.claim([Wanted(SLOT, TERMS)]), store, CLOCK)
    loaded = store.load([SLOT.cell])
    (cell,) = loaded.cells
    lapsed = Write(cell.key, cell.version, cell.value, cell.mark, cell.at, ttl=timedelta(seconds=-1))
    assert store.swap([lapsed], loaded.epoch.seen).verdicts[0].refused is None
    store.close()
    assert said(capsys, "runs", "--store", url).splitlines()[1].split()[1] == "lapsed"
    (run,) = told(capsys, "runs", "--store", url)["runs"]
    assert (run["state"], run["lapsed"]) == ("running", True)


def test_locks(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    header, rebuild, reindex = said(capsys, "locks", "--store", url).splitlines()
    assert header.split() == ["lock", "state", "holder", "since", "until"]
    assert rebuild.split() == ["rebuild", "free"]
    assert reindex.split()[:3] == ["reindex", "held", "web-1"]
    one = said(capsys, "locks", "rebuild", "--store", url).splitlines()
    assert one[3].split("  ")[0] == "held before by"
    assert (one[4].split()[0], one[4].split()[-1]) == ("web-1", "released")
    free, held = told(capsys, "locks", "--store", url)["locks"]
    assert list(free) == ["name", "state", "holder", "since", "until", "fence", "history"]
    assert [free[key] for key in ("name", "state", "holder", "since", "until", "fence")] == [
        "rebuild",
        "free",
        None,
        None,
        None,
        None,
    ]
    (past,) = json.loads(json.dumps(free["history"]))
    assert list(past) == ["holder", "fence", "started", "ended", "end"]
    assert (past["holder"], past["end"]) == ("web-1", "released")
    assert (held["state"], held["holder"], held["history"]) == ("held", "web-1", [])
    assert "no lock 'other' is on record" in said(capsys, "locks", "other", "--store", url, code=1)


def test_why_a_slot(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "why", SLOT.key, "--store", url).splitlines()
    assert lines[0].startswith(f"{SLOT.key} succeeded: web-1 ran it from ")
    assert lines[-2:] == ["  the end of its output:", "    | all sent"]
    assert said(capsys, "why", f"billing@{SLOT.at.isoformat()}", "--store", url).splitlines() == lines
    document = json.loads(said(capsys, "why", SLOT.key, "--store", url, "--json"))
    assert list(document) == ["job", "next", "carried", "paused", "pause", "floor", "refusals", "effects", "slots"]
    (slot,) = document["slots"]
    assert list(slot) == ["slot", "case", "sentence", "run", "past", "refused", "effects", "output"]
    assert (slot["case"], slot["output"], slot["sentence"]) == ("succeeded", "all sent", lines[0])


def test_why_a_job(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    head, due, again = said(capsys, "why", "billing", "--store", url).split("\n\n")
    assert head.startswith("billing runs every day, counted from 00:00 UTC (every 1d).\nIts next slot is ")
    stories = "\n".join((due, again))
    assert f"{SLOT.key}#again is running: web-1" in stories
    assert "fell due" in stories


def test_why_a_slot_that_is_none_is_no_success(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "billing@2030-01-01T00:00:01Z", "--store", url]) == 1
    assert "is not a slot" in capsys.readouterr().out
    assert main(["why", "billing@2030-01-01T00:00:00Z", "--store", url]) == 0
    assert "is not due yet" in capsys.readouterr().out


def test_why_a_day_is_its_one_slot_or_says_which_there_are(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As `rerun --from` takes a day: it begins where the job lives."""
    store = open_store(url)
    ledger = Ledger(store.traits, CLOCK, "web-1")
    rules = {
        "daily": parse_schedule("0 8 * * *", tz="Asia/Tokyo"),
        "often": parse_schedule("*/15 9 * * *"),
        "firsts": parse_schedule("0 0 1 * *"),
    }
    for name, rule in rules.items():
        job = Job(NOW, specs=(Spec("v1", NOW, json.dumps({"schedule": spec_of(rule)})),))
        drive(ledger.jobs.edit(name, partial(lambda job, _job, _now: job, job)), store, CLOCK)
    store.close()
    assert said(capsys, "why", "daily@2030-01-02", "--store", url).startswith(
        "daily@2030-01-01T23:00:00Z is not due yet"
    )
    assert said(capsys, "why", "often@2030-01-02", "--store", url, code=2) == (
        "cronce why: often has several slots on 2030-01-02; name one, such as:\n"
        f"  cronce why --store {url} often@2030-01-02T09:00:00Z\n"
        f"  cronce why --store {url} often@2030-01-02T09:15:00Z\n"
        f"  cronce why --store {url} often@2030-01-02T09:30:00Z\n"
    )
    assert said(capsys, "why", "firsts@2030-01-02", "--store", url, code=2) == (
        "cronce why: firsts has no slot on 2030-01-02; the next slot:\n"
        f"  cronce why --store {url} firsts@2030-02-01T00:00:00Z\n"
    )
    assert "firsts has no slot on 9999-12-31" in said(capsys, "why", "firsts@9999-12-31", "--store", url, code=2)
    for odd in ("firsts@2030-02-30", "firsts@2030-1-002"):
        assert "is not a slot" in said(capsys, "why", odd, "--store", url, code=2)
    assert "did you mean 'daily'" in said(capsys, "why", "dally@2030-01-02", "--store", url, code=1)


@pytest.mark.parametrize(
    ("verb", "what"), [("why", "biling"), ("why", "biling@2026-01-01T00:00:00Z"), ("runs", "biling")]
)
def test_a_job_that_is_not_there_is_told_from_the_one_that_was_meant(
    url: str, verb: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    err = said(capsys, verb, what, "--store", url, code=1)
    assert err == f"cronce {verb}: no job is called 'biling'; did you mean 'billing'?\n"


def test_a_job_that_is_like_no_other(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("why", "show", "runs"):
        err = said(capsys, verb, "xyz", "--store", url, code=1)
        listed = f"`cronce jobs --store {url}` lists those of this store: {url}; {OTHER_STORE_HINT}\n"
        assert err == f"cronce {verb}: no job is called 'xyz'; {listed}"
    empty = f"sqlite:///{tmp_path}/empty.db"
    open_store(empty).close()
    assert said(capsys, "why", "xyz", "--store", empty, code=1).endswith(
        f"'xyz'; there are no jobs yet in this store: {empty}; {OTHER_STORE_HINT}\n"
    )
    assert said(capsys, "jobs", "--store", empty) == f"no job is known yet in {empty}; {OTHER_STORE_HINT}\n"
    assert said(capsys, "locks", "--store", empty) == f"no lock is on record in {empty}; {OTHER_STORE_HINT}\n"
    assert said(capsys, "holders", "--store", empty) == f"no scheduler is alive in {empty}; {OTHER_STORE_HINT}\n"


@pytest.mark.parametrize("what", ["a b", "billing@yesterday", "billing@2026-02-30", "@2026-01-01T00:00:00Z"])
def test_what_can_be_neither_a_job_nor_a_slot_is_refused(
    url: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "why", what, "--store", url, code=2)


def test_n_is_within_reason(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "-n must be from 1 to 10,000" in said(capsys, "runs", "-n", "0", "--store", url, code=2)


# --- looking makes nothing ---


@pytest.mark.parametrize("look", LOOKS)
def test_without_a_default_store_it_says_that_nothing_has_run_yet_and_where_it_would_be(
    look: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = {"HOME": "/home/ada", "XDG_STATE_HOME": f"{tmp_path}/state"}
    monkeypatch.setattr("cronce.cli.session.choose", partial(choose, environ=environ, root=tmp_path))
    err = said(capsys, *look, code=1)
    place = tmp_path / "state/cronce/cronce.db"
    assert (
        err
        == f"cronce {look[0]}: nothing has run yet on this machine; it would be kept in {place}; {OTHER_STORE_HINT}\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("look", LOOKS)
def test_a_file_that_is_not_there_or_empty_is_not_made_a_store(
    look: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cronce.db"
    for _ in range(2):
        err = said(capsys, *look, "--store", f"sqlite:///{path}", code=1)
        assert err == f"cronce {look[0]}: nothing has run yet: there is no file {path}; {OTHER_STORE_HINT}\n"
        path.touch()
    assert [file.stat().st_size for file in tmp_path.iterdir()] == [0]


def test_a_store_in_a_directory_that_does_not_exist_is_said_to_be_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`status` said that nothing had run yet, and `doctor` that `store init` creates it, which failed."""
    url, folder = f"sqlite:///{tmp_path}/nodir/x.db", tmp_path / "nodir"
    nowhere = f"there is no store at {folder}/x.db: the directory {folder} does not exist"
    assert said(capsys, "status", "--store", url, code=1) == f"cronce status: {nowhere}; {OTHER_STORE_HINT}\n"
    assert main(["doctor", "--store", url]) == 1
    assert nowhere in capsys.readouterr().out.replace("\n", " ")


def test_only_the_commands_in_a_message_get_the_store_and_not_its_beginning(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`cronce jobs --store URL edit: no job …`"""
    err = said(capsys, "jobs", "edit", "xyz", "--retries", "1", "--store", url, code=1)
    assert err.startswith(f"cronce jobs edit: no job is called 'xyz'; `cronce jobs --store {url}` lists those")


def test_a_server_that_is_not_there_is_answered_with_what_to_do_next(capsys: pytest.CaptureFixture[str]) -> None:
    """`doctor` said what to do, and nothing named it."""
    url = "redis://127.0.0.1:1/0"
    err = said(capsys, "status", "--store", url, code=75)
    assert err.endswith(f"; `cronce doctor --store {url}` checks the store and says what to do\n")


def test_the_store_may_stand_in_the_environment(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CRONCE_URL", url)
    assert said(capsys, "jobs").splitlines()[1].startswith("billing")


def test_a_store_that_cannot_be_opened_is_named_without_its_password(capsys: pytest.CaptureFixture[str]) -> None:
    err = said(capsys, "jobs", "--store", "carrier://me:secret@pigeon", code=2)
    assert "carrier://me:***@pigeon" in err
