"""cronce status and show, on an SQLite file that real runs wrote; and runs in the order they ran."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cronce import Cronce
from cronce.cli import main
from cronce.clock import SystemClock
from cronce.model import (
    MONITOR,
    Mark,
    Write,
    alert_cell,
    guest_cell,
    holder_cell,
    job_cell,
    leader_cell,
    refusals_cell,
)
from cronce.monitor.monitor import Monitor
from cronce.protocol.notices import (
    Alert,
    ForeignJob,
    ForeignScheduler,
    Holder,
    Refusals,
    Refused,
    encode_notice,
)
from cronce.protocol.record import Job, Outcome, Record, State, encode, encode_job
from cronce.runtime.queries import slot_named
from cronce.runtime.scheduling.roster import HOLDER_TTL
from cronce.stores import open_store
from tests.cli.person import default_store
from tests.house.wait import wait_until

NOTHING_KNOWN = (
    "wrong  nothing known; no watcher runs, so missed slots are not checked: `cronce watch --once` looks now"
)
LOST = "report@2026-03-28T00:00:00Z"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/cronce.db"


@pytest.fixture
def cron(url: str) -> Cronce:
    """Three quarters of an hour that ran, one by one."""
    cron = Cronce(url)
    sync = cron.job("*/15 * * * *", name="sync", start_within="3650d")(lambda: None)
    for minute in ("00", "15", "30"):
        sync.at(f"2026-03-29T01:{minute}:00Z")()
    return cron


def lose(cron: Cronce) -> None:
    """A run whose process died."""
    slot, store = slot_named(LOST), cron.at_work().node.store
    lost = Record(State.CLOSED, 1, "n", "web-1:1:a", started=slot.at, outcome=Outcome.LOST, reason="its process died")
    store.swap([Write(slot.cell, 0, encode(lost), at=slot.at, mark=Mark.ATTENTION)], store.load([]).epoch.seen)


def said(capsys: pytest.CaptureFixture[str], url: str, *words: str, code: int = 0) -> str:
    capsys.readouterr()
    with default_store(url):
        assert main(words) == code
    out, err = capsys.readouterr()
    return err if code else out


def told(capsys: pytest.CaptureFixture[str], url: str, *words: str) -> Any:
    return json.loads(said(capsys, url, *words, "--json"))


def test_one_screen_has_what_is_wrong_alive_running_next_and_last(
    cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = said(capsys, url, "status").rstrip().split("\n\n")
    assert parts[0].startswith(f"{url}, 1 job, 0 duplicates prevented, 20")
    assert (parts[1], parts[3]) == (
        NOTHING_KNOWN,
        "running  nothing",
    )
    assert re.fullmatch(
        r"schedulers\n  called from \S+  sync \(\*/15 \* \* \* \*\)  ran (just now|\S+ ago), next in .+", parts[2]
    )
    assert re.fullmatch(r"next\n  sync  20\S+Z  in \S+.*", parts[4])
    assert re.fullmatch(r"last(\n  sync@2026-03-29T01:(30|15|00):00Z  succeeded  \S+ +\S+){3}", parts[5])
    assert len(parts) == 6


def test_a_run_whose_lease_has_expired_is_wrong_and_not_running(
    cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was listed as running, and nothing was wrong; and a pause said that it goes on."""
    slot, store = slot_named(LOST), cron.at_work().node.store
    run = Record(State.RUNNING, 1, "n", "web-1:1:a", started=slot.at)
    write = Write(slot.cell, 0, encode(run), at=slot.at, mark=Mark.OPEN, ttl=timedelta(0))
    store.swap([write], store.load([]).epoch.seen)
    parts = said(capsys, url, "status").rstrip().split("\n\n")
    assert parts[1].splitlines()[1] == f"  {LOST}  lapsed  `cronce why {LOST}`"
    assert parts[3] == "running  nothing"
    assert "goes on" not in said(capsys, url, "pause", "--all")


def test_what_a_rerun_took_the_place_of_keeps_how_it_ended(
    cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rerun that failed was said to have succeeded; and of the slot, why it failed and how long it ran was gone."""
    fails = [True, True, False]

    @cron.job("*/15 * * * *", name="mail", start_within="3650d")
    def mail() -> None:
        if fails.pop(0):
            raise ValueError("boom")

    key = "mail@2026-03-29T01:00:00Z"
    with pytest.raises(ValueError, match="boom"):
        mail.at(key.partition("@")[2])()
    cron.rerun(key, by="ada")
    with pytest.raises(ValueError, match="boom"):  # in the same process, at once
        mail.at(key.partition("@")[2])()
    cron.rerun(key, by="ada")
    mail.at(key.partition("@")[2])()
    rows = {row.split()[0]: row for row in said(capsys, url, "runs", "mail").splitlines()}
    span = r"\S+ +\d\S*m?s"
    assert re.search(
        rf"#rerun-1  failed +\S+ +{span} +ValueError: boom; superseded by {key}#rerun-2$", rows[f"{key}#rerun-1"]
    )
    assert re.search(rf"{key} +succeeded .*s +failed: ValueError: boom; resolved: by {key}#rerun-2$", rows[key])
    assert re.search(r"\n  \S+  failed: ValueError: boom\n", said(capsys, url, "why", key))


def test_what_is_wrong_comes_with_the_command_that_goes_on(
    cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lose(cron)
    cron.pause_all("a move", by="ada")
    with cron.lock("reindex"):
        shown = said(capsys, url, "status")
    wrong, held = shown.split("\n\n")[1], shown.split("\n\n")[-1]
    assert re.fullmatch(
        rf"wrong\n  everything is paused +by ada at \S+ \(a move\) +`cronce resume --all`\n"
        rf"  {LOST} +lost +`cronce why {LOST}`",
        wrong,
    )
    assert re.fullmatch(r"locks\n  reindex  held  \S+\n", held)


def test_a_job_that_is_paused_is_wrong_and_what_was_asked_for_waits_for_it(
    cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said that nothing was wrong and that no job had a schedule, and the rerun was called due."""
    cron.pause("sync", "a move", by="ada")
    cron.rerun("sync@2026-03-29T01:00:00Z", by="ada")
    parts = {part.split()[0]: part for part in said(capsys, url, "status").rstrip().split("\n\n")}
    assert re.fullmatch(r"wrong\n  sync is paused  by ada at \S+ \(a move\)  `cronce resume sync`", parts["wrong"])
    assert re.fullmatch(r"waiting\n  sync@2026-03-29T01:00:00Z#\S+  paused  +asked for by ada", parts["waiting"])
    assert parts["next"] == "next  each job is paused or has no schedule"


def test_calls_that_were_refused_are_told_of_where_nothing_ran(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It said that there was no call within the hour."""
    store = open_store(url)
    refused = Refusals(1, (Refused("a@2026-03-29T01:00:00Z", store.load([]).now, "it is too old"),))
    job = Job(floor=refused.recent[0].at)
    writes = [
        Write(refusals_cell("a", "web-1"), 0, encode_notice(refused), Mark.FREE),
        Write(job_cell("a"), 0, encode_job(job), Mark.OPEN),
    ]
    store.swap(writes, store.load([]).epoch.seen)
    store.close()
    line = r"schedulers  no scheduler; calls did not run, the last (just now|\S+ ago): `cronce why a`"
    assert re.search(rf"^{line}$", said(capsys, url, "status"), flags=re.M)


def test_another_scheduler_decides_what_comes_next_and_nothing_that_is_past_does(
    cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said "no job has a schedule", and "next 1.9s ago"."""
    store = cron.at_work().node.store
    now = store.load([]).now
    for name, ahead in (("web-1:1:a", -2), ("web-2:1:a", 90)):
        jobs = (ForeignJob("tick", "interval[1:00:00]", now + timedelta(seconds=ahead)),)
        guest = encode_notice(ForeignScheduler(name, "APScheduler", jobs))
        write = Write(guest_cell(name), 0, guest, Mark.FREE, ttl=HOLDER_TTL)
        store.swap([write], store.load([]).epoch.seen)
    cron.pause("sync")
    parts = {part.split()[0]: part for part in said(capsys, url, "status").split("\n\n")}
    past, coming = (line for line in parts["schedulers"].splitlines() if "APScheduler" in line)
    assert past.split() == ["web-1:1:a", "APScheduler:", "tick", "(interval[1:00:00])"]
    assert re.fullmatch(r"  web-2:1:a +APScheduler: tick \(interval\[1:00:00\]\) +next in 1m (29|30)s", coming)
    assert parts["next"] == "next  APScheduler decides"


def test_a_job_whose_last_run_failed_is_wrong_until_it_ran_well(
    cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise RuntimeError("no paper")

    with Cronce(url) as other, pytest.raises(RuntimeError):
        other.job("*/15 * * * *", name="sync", start_within="3650d")(fail).at("2026-03-29T01:45:00Z")()
    key = "sync@2026-03-29T01:45:00Z"
    assert said(capsys, url, "status").split("\n\n")[1] == f"wrong\n  {key}  failed  `cronce why {key}`"
    with Cronce(url) as other:
        other.job("*/15 * * * *", name="sync", start_within="3650d")(lambda: None).at("2026-03-29T02:00:00Z")()
    assert said(capsys, url, "status").split("\n\n")[1] == NOTHING_KNOWN


@pytest.mark.parametrize("outcome", Outcome)
def test_a_call_within_the_hour_is_told_whatever_came_of_it(
    outcome: Outcome, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a call that ended unknown it said "no scheduler, and no call within the hour"."""
    slot, store, now = slot_named(LOST), Cronce(url).at_work().node.store, SystemClock().wall()
    record = Record(State.CLOSED, 1, "n", "web-1:1:a", started=now, finished=now, outcome=outcome)
    mark = Mark.ATTENTION if outcome in (Outcome.LOST, Outcome.UNKNOWN) else Mark.CLOSED
    store.swap([Write(slot.cell, 0, encode(record), at=slot.at, mark=mark)], store.load([]).epoch.seen)
    assert [(one["name"], one["kind"]) for one in told(capsys, url, "status")["guests"]] == [("web-1", "a process")]
    assert "no call within the hour" not in said(capsys, url, "status")


def test_what_runs_is_told_from_what_waits_whatever_became_of_its_host(
    cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    slot, store, now = slot_named("sync@2026-03-29T02:00:00Z"), cron.at_work().node.store, SystemClock().wall()
    runs = Record(State.RUNNING, 1, "n", "web-1:1:a", started=now)
    gone = Holder("web-1:1:a", "b", "both", 1, {}, now, "1.0", gone=True)
    writes = [
        Write(slot.cell, 0, encode(runs), at=slot.at, mark=Mark.OPEN, ttl=timedelta(minutes=5)),
        Write(holder_cell("web-1:1:a"), 0, encode_notice(gone), mark=Mark.OPEN, ttl=timedelta(minutes=5)),
    ]
    store.swap(writes, store.load([]).epoch.seen)
    cron.rerun("sync@2026-03-29T01:00:00Z", by="ada")
    parts = {part.split()[0]: part for part in said(capsys, url, "status").split("\n\n")}
    assert re.search(rf"{slot.key} +host gone +\S+ +web-1:1:a +\S+", parts["running"])
    assert re.search(r"sync@2026-03-29T01:00:00Z#\S+ +due +asked for by ada", parts["waiting"])


def here(url: str, name: str, beat: float, *, gone: bool = False) -> None:
    """A scheduler that was heard of so many seconds ago, with two runs."""
    store, now = open_store(url), SystemClock().wall()
    left = timedelta(0) if gone else HOLDER_TTL
    holder = Holder(name, "b", "both", 10, {}, now - timedelta(hours=1), "1.0", running=2, gone=gone)
    write = Write(holder_cell(name), 0, encode_notice(holder), mark=Mark.OPEN, ttl=left - timedelta(seconds=beat))
    store.swap([write], store.load([]).epoch.seen)
    store.close()


def test_a_scheduler_is_alive_late_stopped_or_dead_and_only_the_living_are_busy(
    cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that was stopped with TERM was called dead, with 2 of 10 workers busy, under "alive"."""
    here(url, "web-1:1:a", 1)
    here(url, "web-2:1:a", 25)
    here(url, "web-3:1:a", 60, gone=True)
    here(url, "web-4:1:a", 60)
    parts = {part.split()[0]: part.splitlines()[1:] for part in said(capsys, url, "status").split("\n\n")}
    assert {line.split()[0]: re.split("  +", line)[2:] for line in parts["schedulers"][:4]} == {
        "web-1:1:a": ["both, 2 of 10 workers busy", "alive"],
        "web-2:1:a": ["both, 2 of 10 workers busy", "late"],
        "web-3:1:a": ["both", "stopped"],
        "web-4:1:a": ["both", "dead"],
    }


def test_holders_are_late_where_status_says_so(cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    here(url, "web-1:1:a", 1)
    here(url, "web-2:1:a", 25)
    _, alive, late = said(capsys, url, "status", "holders").splitlines()
    assert (alive.split()[-1], late.split()[-1]) == ("alive", "late")


# --- alerts, as a watcher recorded them ---


def recorded(url: str, *, watched: float | None, leads: bool = False) -> None:
    """An alert, and a watcher that looked so many seconds ago."""
    store, now = open_store(url), SystemClock().wall()
    text = "sync did not run at 2026-03-29T01:45:00Z."
    alert = Alert("missed", "sync", "critical", text, now, remedy="Look at `cronce why sync`.")
    writes = [Write(alert_cell("missed", "sync"), 0, encode_notice(alert), Mark.OPEN)]
    if watched is not None:
        at = now - timedelta(seconds=watched)
        lease = timedelta(seconds=15)
        record = Record(State.RUNNING, 1, "n", "web-1:1:a", lease, started=at)
        left = lease if leads else lease - timedelta(seconds=watched)
        writes += [Write(leader_cell(MONITOR), 0, encode(record), mark=Mark.OPEN, ttl=left)]
    store.swap(writes, store.load([]).epoch.seen)
    store.close()


ALERT = """\
wrong
  critical  missed/sync
    sync did not run at 2026-03-29T01:45:00Z.
    Look at `cronce why sync`."""


def test_an_alert_says_how_old_it_is_if_no_watcher_runs(
    cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the last watcher had recorded a day ago was shown as it were now."""
    recorded(url, watched=120)
    shown = said(capsys, url, "status").split("\n\n")[1]
    assert re.fullmatch(re.escape(ALERT) + r"\n  as of 20\S+Z; no watcher runs: `cronce watch --once` looks now", shown)


def test_an_alert_of_a_store_without_a_watcher_says_so(
    cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(url, watched=None)
    shown = said(capsys, url, "status").split("\n\n")[1]
    assert shown == f"{ALERT}\n  no watcher runs: `cronce watch --once` looks now"


def test_all_alerts_of_a_cause_are_named(cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of two stuck jobs of one host it named one."""
    store, now = cron.at_work().node.store, SystemClock().wall()
    for job in ("nightly", "weekly"):
        alert = Alert("late", job, "critical", f"{job} is late.", now, cause="host vm")
        write = Write(alert_cell("late", job), 0, encode_notice(alert), Mark.OPEN)
        store.swap([write], store.load([]).epoch.seen)
    wrong = said(capsys, url, "status").split("\n\n")[1].splitlines()
    assert wrong[1:3] == ["  critical  late/nightly, late/weekly", "    nightly is late."]


def test_that_nothing_is_wrong_says_how_old_it_is(cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Monitor(cron, log=False):
        wait_until(lambda: said(capsys, url, "status").split("\n\n")[1] == "wrong  nothing")
    assert re.fullmatch(
        r"wrong  as of 20\S+Z; no alert was open; no watcher runs: `cronce watch --once` looks now",
        said(capsys, url, "status").split("\n\n")[1],
    )


def test_an_alert_is_of_now_while_a_watcher_runs(cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(url, watched=3, leads=True)
    assert said(capsys, url, "status").split("\n\n")[1] == ALERT


def test_a_list_is_cut_to_five_lines(cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for minute in range(10, 14):
        cron.job("* * * * *", name="tick", start_within="3650d")(lambda: None).at(f"2026-03-29T01:{minute}:00Z")()
    last = said(capsys, url, "status").split("\n\n")[-1].splitlines()
    assert (len(last), last[0], last[-1]) == (7, "last", "  … and 2 more")


def test_a_store_that_is_not_there_is_not_made(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nothing has run yet" in said(capsys, url, "status", code=1)
    assert list(tmp_path.iterdir()) == []


# --- one job ----------------------------------------------------------------------------------------------------------


def test_show_tells_of_one_job(cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    facts, runs = said(capsys, url, "show", "sync").split("\n\n")
    names = [line.split("  ")[0] for line in facts.splitlines()]
    assert names == ["job", "schedule", "next slot", "policies", "run by", "took"]
    assert "*/15 * * * *: every 15 minutes" in facts
    assert "calls from outside: cron, `cronce exec`, another scheduler" in facts
    assert [line.split()[0] for line in runs.splitlines()] == [
        "slot", "sync@2026-03-29T01:30:00Z", "sync@2026-03-29T01:15:00Z", "sync@2026-03-29T01:00:00Z",
    ]  # fmt: skip
    document = told(capsys, url, "show", "sync")
    (job,) = told(capsys, url, "jobs")["jobs"]
    assert {**job, "halted": None, "runs": told(capsys, url, "runs", "sync")["runs"]} == document
    assert "did you mean 'sync'?" in said(capsys, url, "show", "snyc", code=1)


def test_show_of_a_slot_is_why(cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    key = "sync@2026-03-29T01:15:00Z"
    assert told(capsys, url, "show", key) == told(capsys, url, "why", key)


def test_a_failed_slot_stays_wrong_while_its_rerun_waits(
    cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was dropped at once, before the rerun ran; a watcher listed it all the while."""
    fails = cron.job("*/15 * * * *", name="fails", start_within="3650d")(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fails.at("2026-03-29T01:00:00Z")()
    line = "  fails@2026-03-29T01:00:00Z  failed  `cronce why fails@2026-03-29T01:00:00Z`"
    assert line in said(capsys, url, "status").splitlines()
    cron.rerun("fails@2026-03-29T01:00:00Z", by="ada")
    assert line in said(capsys, url, "status").splitlines()


def test_more_jobs_than_were_read_are_not_counted(cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of twelve it said: and 1 more."""
    for number in range(11):
        job = cron.job("*/15 * * * *", name=f"job-{number:02}", start_within="3650d")(lambda: None)
        job.at("2026-03-29T01:00:00Z")()
    (following,) = [part for part in said(capsys, url, "status").split("\n\n") if part.startswith("next")]
    assert (len(following.splitlines()), following.splitlines()[-1]) == (7, "  … and more")


# --- in the order they ran --------------------------------------------------------------------------------------------


def test_reruns_and_backfills_stand_where_they_ran(cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They stood by their slots: a backfill of last month was to be looked for below all that ran since."""
    slots = [f"sync@2026-03-29T01:{minute}:00Z" for minute in ("30", "15", "00")]
    key = cron.rerun(slots[2], by="ada")
    with cron.start(workers=1):
        pass
    ran = [key, *slots]
    assert [run["slot"] for run in told(capsys, url, "runs", "sync")["runs"]] == ran
    assert [run["slot"] for run in told(capsys, url, "history")["runs"]] == ran
    assert [run["slot"] for run in told(capsys, url, "runs", "sync", "-n", "1")["runs"]] == ran[:1]
    by_slot = [*slots[:2], key, slots[2]]
    assert [run["slot"] for run in told(capsys, url, "runs", "sync", "--by", "slot")["runs"]] == by_slot
    assert [run["slot"] for run in told(capsys, url, "runs", "--by", "slot", "-n", "3")["runs"]] == by_slot[:3]


def test_the_last_run_may_be_one_by_hand_of_an_older_slot(
    cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    key = cron.rerun("sync@2026-03-29T01:00:00Z", by="ada")
    (job,) = told(capsys, url, "jobs")["jobs"]
    assert (job["last"]["slot"], job["last"]["state"]) == (key, "due")
    assert key.partition("@")[2] in said(capsys, url, "jobs")
