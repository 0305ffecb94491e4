"""What is wrong with slots: those that did not run, ran late or failed."""

from datetime import timedelta

import pytest

from cronce.model import Cell, Slot
from cronce.monitor import survey, watch_runs
from cronce.monitor.alerts import AlertKind
from cronce.monitor.settings import Settings
from cronce.monitor.survey import WatchMemory
from cronce.protocol.commands import Queue, Skip
from cronce.protocol.record import TOO_LATE, Outcome, Record, State
from cronce.protocol.specs import raise_floor
from cronce.protocol.terms import Terms
from cronce.runtime.declare import declare
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.operations import backfill
from cronce.runtime.queries import RunSeen
from cronce.runtime.scheduling.candidates import Gap, catch_up
from cronce.runtime.stored_jobs import add, remove
from tests.monitor.shelf import HOUR, MINUTE, SECOND, Town, every
from tests.runtime.shelf import DURABLE, START

MICROSECOND = timedelta(microseconds=1)
WEB = "web-1:1:a"
JOB = every("10m")
PASSED_OVER = 'billing: 4 slots up to 2026-03-29T12:40:00Z were skipped by the job\'s policy, missed="skip".'


@pytest.fixture
def town() -> Town:
    """A scheduler that carries the job, and somebody who watches it."""
    town = Town()
    town.beat(WEB, JOB)
    assert town.kinds() == []
    return town


def at(minutes: float) -> Slot:
    return Slot(JOB.name, START + minutes * MINUTE)


def to(town: Town, minutes: float, extra: timedelta = timedelta(0)) -> list[str]:
    """The scheduler beats until then; what is wrong at that moment."""
    end = START + minutes * MINUTE + extra
    while town.now < end:
        town.pass_time(min(20 * SECOND, end - town.now))
        town.beat(WEB, since=START)
        town.look()
    return town.kinds()


# --- missed ---


def test_a_slot_that_nobody_runs_is_missed_after_a_minute_until_it_runs(town: Town) -> None:
    assert to(town, 11) == []
    assert to(town, 11, MICROSECOND) == ["missed/billing"]
    finding = town.the(AlertKind.MISSED)
    assert (finding.severity, finding.since) == ("critical", START + 11 * MINUTE)
    assert finding.text == "billing: 1 slot fell due and did not run, at 2026-03-29T12:10:00Z."
    assert finding.remedy == (
        "`cronce why billing@2026-03-29T12:10:00Z` shows why; `cronce rerun billing --from 2026-03-29T12:10:00Z"
        " --to 2026-03-29T12:10:01Z` runs the slots that did not run."
    )
    town.run(JOB, at(10).at)
    assert town.kinds() == ["late/billing"]


def test_it_stays_missed_for_an_hour_although_newer_ones_run(town: Town) -> None:
    for minute in range(20, 70, 10):
        to(town, minute)
        town.run(JOB, at(minute).at)
    to(town, 70)
    town.run(JOB, at(70).at)
    assert to(town, 71, -MICROSECOND) == ["missed/billing"]
    assert to(town, 71) == []  # an hour after 12:11, when it was missed


def test_of_a_job_that_runs_once_a_day_it_stays_missed_until_the_next_one_runs() -> None:
    town, daily = Town(), every("1d")
    town.pass_time(MINUTE)
    town.beat(WEB, daily)
    assert town.kinds() == []
    slot = START.replace(hour=0) + timedelta(days=1)
    town.pass_time(slot - town.now + 23 * HOUR)
    assert "missed/billing" in town.kinds()
    assert "missed/billing" in town.fresh()  # also to whoever comes later
    town.pass_time(HOUR)
    town.run(daily, slot + timedelta(days=1))
    assert "missed/billing" in town.kinds()  # the minute from which it is missed is less than an hour ago
    town.pass_time(MINUTE)
    assert "missed/billing" not in town.kinds()


def test_a_slot_that_may_start_late_is_missed_only_when_it_may_no_more() -> None:
    town, job = Town(), every("1h", start_within="10m", jitter="30s")
    town.beat(WEB, job)
    town.look()
    for minutes, found in ((61.5, []), (61.6, ["late/billing"]), (70.5, ["late/billing"]), (70.6, ["missed/billing"])):
        town.pass_time(START + minutes * MINUTE - town.now)
        town.beat(WEB)
        assert town.kinds() == found


def test_how_late_is_too_late_may_be_said(town: Town) -> None:
    town.settings = Settings(late=5 * SECOND)
    assert to(town, 10, 5 * SECOND) == []
    assert to(town, 10, 6 * SECOND) == ["missed/billing"]


def test_a_slot_that_was_skipped_since_it_was_too_late_is_missed_until_the_next_one_runs(town: Town) -> None:
    to(town, 10)
    town.node().do(town.node().ledger.put({at(10): Skip(TOO_LATE)}))
    assert town.kinds() == ["missed/billing"]
    assert town.fresh() == ["missed/billing"]
    assert to(town, 19) == ["missed/billing"]
    to(town, 20)
    town.run(JOB, at(20).at)
    assert town.fresh() == []
    for minute in range(30, 80, 10):
        to(town, minute)
        town.run(JOB, at(minute).at)
    assert town.kinds() == []


def test_that_it_was_too_late_is_told_for_as_long_as_no_newer_one_ran() -> None:
    town, job = Town(), every("6h")
    town.beat(WEB, job)
    slot = Slot(job.name, START + 6 * HOUR)
    town.pass_time(6 * HOUR)
    town.node().do(town.node().ledger.put({slot: Skip(TOO_LATE)}))
    assert "missed/billing" in town.kinds()
    town.pass_time(5 * HOUR)
    assert "missed/billing" in town.kinds()


def test_a_slot_that_is_skipped_for_another_is_not_missed(town: Town) -> None:
    to(town, 10)
    skip = Skip("the run of 12:00 had not ended")
    town.node().do(town.node().ledger.put({at(10): skip}))
    assert to(town, 19) == []


def test_what_a_policy_passed_over_is_worth_knowing_for_an_hour(town: Town) -> None:
    town.pass_time(45 * MINUTE)
    gap = Gap(every("10m", missed="skip"), JOB.spec[0], START)
    town.node().do(catch_up(town.node().ledger, [gap], town.now))
    town.beat(WEB, since=START)
    finding = town.the(AlertKind.MISSED)
    assert finding.severity == "info"
    assert finding.text == PASSED_OVER
    assert "`cronce why billing@2026-03-29T12:40:00Z`" in finding.remedy
    assert "--from 2026-03-29T12:10:00Z --to 2026-03-29T12:40:01Z" in finding.remedy
    for minute in range(50, 100, 10):
        to(town, minute)
        town.run(JOB, at(minute).at)
    assert to(town, 100, -MICROSECOND) == ["missed/billing"]
    to(town, 100)
    town.run(JOB, at(100).at)
    assert town.kinds() == []


def test_what_was_missed_and_is_then_passed_over_is_told_of_once(town: Town) -> None:
    assert to(town, 45) == ["missed/billing"]
    assert town.the(AlertKind.MISSED).text.startswith("billing: 4 slots fell due and did not run")
    gap = Gap(every("10m", missed="skip"), JOB.spec[0], START)
    town.node().do(catch_up(town.node().ledger, [gap], town.now))
    finding = town.the(AlertKind.MISSED)
    assert (finding.severity, finding.text) == ("info", PASSED_OVER)


def passed_over(town: Town, count: int, reason: str, end: float) -> None:
    """So many slots up to that minute."""
    jobs = town.node().ledger.jobs
    edit = lambda job, _now: job and raise_floor(job, at(end).at, count, reason)  # noqa: E731
    town.node().do(jobs.edit("billing", edit))


@pytest.mark.parametrize(("most", "start"), [(3, "12:10"), (2, "12:30")])
def test_one_slot_was_passed_over_and_a_backfill_finds_it(
    town: Town, monkeypatch: pytest.MonkeyPatch, most: int, start: str
) -> None:
    """If the floor is so far below that a backfill would refuse so many, it is of that slot alone."""
    monkeypatch.setattr(watch_runs, "MOST", most)
    town.pass_time(45 * MINUTE)
    town.run(JOB, at(40).at)
    passed_over(town, 1, "superseded", 30)
    town.beat(WEB, since=START)
    finding = town.the(AlertKind.MISSED)
    assert (
        finding.text == 'billing: 1 slot up to 2026-03-29T12:30:00Z was skipped by the job\'s policy, missed="latest".'
    )
    assert f"--from 2026-03-29T{start}:00Z --to 2026-03-29T12:30:01Z`" in finding.remedy


def test_what_should_have_run_is_critical_and_says_what_the_policy_passed_over_besides(town: Town) -> None:
    assert to(town, 25) == ["missed/billing"]
    passed_over(town, 1, "missed", 10)
    finding = town.the(AlertKind.MISSED)
    assert finding.severity == "critical"
    assert finding.text == (
        "billing: 1 slot fell due and did not run, at 2026-03-29T12:20:00Z;"
        ' 1 slot up to 2026-03-29T12:10:00Z was skipped by the job\'s policy, missed="skip".'
    )
    assert "--from 2026-03-29T12:20:00Z --to 2026-03-29T12:20:01Z`" in finding.remedy


def test_more_than_are_run_at_once_should_have_run(town: Town) -> None:
    town.pass_time(45 * MINUTE)
    passed_over(town, 4000, "capped", 40)
    finding = town.the(AlertKind.MISSED)
    text = "billing: 4,000 slots up to 2026-03-29T12:40:00Z were skipped: more fell due than cronce catches up on."
    assert (finding.severity, finding.text) == ("critical", text)


def test_a_slot_that_was_too_late_is_made_up_for_by_its_backfill_once_that_succeeded(town: Town) -> None:
    to(town, 10)
    town.node().do(town.node().ledger.put({at(10): Skip(TOO_LATE)}))
    assert town.the(AlertKind.MISSED).severity == "critical"
    (asked,) = town.node().do(backfill(town.hand, "billing", at(10).at, at(10).at + SECOND))
    assert town.kinds() == ["missed/billing"]
    node = town.node()
    (grant,) = node.do(node.ledger.claim([Wanted(asked, Terms(MINUTE, digest=JOB.spec[0]))]))
    assert isinstance(grant, Grant)
    assert town.kinds() == ["missed/billing"]
    node.do(node.ledger.finish(grant, Outcome.SUCCEEDED))
    assert [town.kinds(), town.fresh()] == [[], []]


@pytest.mark.parametrize(("missed", "count", "reason"), [("skip", 3, "skip"), ("latest", 2, "latest")])
def test_what_was_passed_over_long_ago_is_told_when_schedulers_come_back(missed: str, count: int, reason: str) -> None:
    """All were down for days, whoever watches among them."""
    town, job = Town(), every("1d", missed=missed)
    town.beat(WEB, job)
    town.pass_time(timedelta(days=3))
    town.beat(WEB, since=town.now)
    slots = town.node().do(catch_up(town.node().ledger, [Gap(job, job.spec[0], START)], town.now))
    for slot in slots:
        town.run(job, slot.at)
    finding = next(one for one in town.look() if one.kind is AlertKind.MISSED)
    assert finding.text.startswith(f"billing: {count} slots up to ")
    assert f'missed="{reason}"' in finding.text
    since = town.now
    town.pass_time(HOUR - MICROSECOND)
    town.beat(WEB, since=since)
    assert "missed/billing" in town.fresh()
    town.pass_time(MICROSECOND)
    assert "missed/billing" not in town.fresh()


def test_what_was_passed_over_before_a_restart_that_missed_nothing_is_old(town: Town) -> None:
    town.pass_time(45 * MINUTE)
    gap = Gap(every("10m", missed="skip"), JOB.spec[0], START)
    town.node().do(catch_up(town.node().ledger, [gap], town.now))
    for minute in range(50, 160, 10):
        town.pass_time(at(minute).at - town.now)
        town.run(JOB, at(minute).at)
    town.beat(WEB, since=town.now)
    assert town.fresh() == []


def test_a_job_that_is_paused_misses_nothing(town: Town) -> None:
    assert to(town, 12) == ["missed/billing"]
    town.node().do(town.hand.pause("billing"))
    assert town.kinds() == []
    assert to(town, 35) == []
    assert town.survey().unclaimed == []
    town.node().do(town.hand.resume("billing"))
    assert to(town, 39) == []
    assert to(town, 42) == ["missed/billing"]
    town.node().do(town.hand.pause_all())
    assert to(town, 52) == []


def test_what_fell_due_while_everything_was_paused_is_not_missed_afterwards(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "SLICE", 1)  # the job is not read each time
    town.beat(WEB, JOB, *(every("1h", f"a-{number}") for number in range(5)))
    town.node().do(town.hand.pause_all())
    assert to(town, 12) == []
    town.node().do(town.hand.resume_all())
    assert town.kinds() == []


def test_slots_before_the_job_was_there_are_not_missed() -> None:
    town = Town()
    town.pass_time(5 * MINUTE)
    town.beat(WEB, JOB)
    assert town.kinds() == []


def test_no_backfill_is_advised_where_the_store_would_refuse_it() -> None:
    """It was, on stores that keep only the last slots of a job."""
    town = Town(DURABLE._replace(history=False))
    town.run(JOB, START, outside=True, digest="", overlap="skip")
    town.name(JOB)
    assert to(town, 11, MICROSECOND) == ["missed/billing"]
    assert town.the(AlertKind.MISSED).remedy == (
        "`cronce why billing@2026-03-29T12:10:00Z` shows why; this store keeps no history, so no backfill is possible:"
        " if you need it, start its command by hand. If what calls it was switched off on purpose (a CronJob that was"
        " suspended or deleted), `cronce pause billing` ends this alert."
    )


def test_a_job_that_is_called_from_outside_may_have_been_switched_off_on_purpose() -> None:
    town = Town()
    town.run(JOB, START, outside=True, digest="")
    town.name(JOB)
    assert to(town, 11, MICROSECOND) == ["missed/billing"]
    assert town.the(AlertKind.MISSED).remedy == (
        "`cronce why billing@2026-03-29T12:10:00Z` shows why; `cronce rerun billing --from 2026-03-29T12:10:00Z --to"
        " 2026-03-29T12:10:01Z` runs the slots that did not run. If what calls it was switched off on purpose"
        " (a CronJob that was suspended or deleted), `cronce pause billing` ends this alert."
    )
    town.node().do(town.hand.pause(JOB.name))
    assert town.kinds() == []


def test_a_job_that_is_called_from_outside_misses_the_slots_of_its_one_schedule() -> None:
    town = Town()
    town.run(JOB, START, outside=True, digest="")
    town.name(JOB)
    town.pass_time(11 * MINUTE + MICROSECOND)
    assert town.kinds() == ["missed/billing"]
    town.name(every("1h"))  # the crontab was edited: nobody knows which of the lines are there
    town.pass_time(30 * MINUTE)
    town.memory = town.memory._replace(missed={})
    assert town.kinds() == []


# --- late ---


def test_a_slot_that_starts_late_is_told_of_until_the_next_one_is_in_time(town: Town) -> None:
    to(town, 11)
    town.run(JOB, at(10).at)
    assert town.kinds() == []  # just in time
    to(town, 21, MICROSECOND)
    town.run(JOB, at(20).at, by="web-2:1:a")
    finding = town.the(AlertKind.LATE)
    assert finding.text == "billing@2026-03-29T12:20:00Z started 1m late, on web-2:1:a."
    assert (finding.severity, finding.since) == ("warning", START + 21 * MINUTE + MICROSECOND)
    to(town, 30)
    town.run(JOB, at(30).at)
    assert town.kinds() == []


def test_the_first_call_of_a_job_is_not_late_for_the_slot_that_it_means() -> None:
    town = Town()
    town.pass_time(5 * MINUTE)
    town.run(JOB, START, outside=True, digest="")
    town.name(JOB)
    assert town.kinds() == []
    town.pass_time(7 * MINUTE)
    town.run(JOB, at(10).at, outside=True, digest="")
    assert town.kinds() == ["late/billing"]


def test_that_it_started_late_is_told_for_an_hour() -> None:
    town, job = Town(), every("1d", start="2026-03-29T12:00:00Z")
    town.pass_time(MINUTE)
    town.beat(WEB, job)
    town.look()
    slot = START.replace(hour=0) + timedelta(days=1)
    town.pass_time(slot - town.now + 2 * MINUTE)
    town.run(job, slot)
    town.pass_time(HOUR - MICROSECOND)
    assert "late/billing" in town.kinds()
    town.pass_time(MICROSECOND)
    assert "late/billing" not in town.kinds()


@pytest.mark.parametrize("waiting", [True, False])
def test_a_slot_that_waits_is_late(town: Town, waiting: bool) -> None:
    to(town, 10)
    town.node().do(town.node().ledger.put({at(10): Queue(waiting)}))
    assert to(town, 11) == []
    assert to(town, 11, MICROSECOND) == ["late/billing"]
    assert f"and is still {'waiting' if waiting else 'due'}" in town.the(AlertKind.LATE).text
    to(town, 12)
    town.run(JOB, at(10).at)
    assert "started 2m late" in town.the(AlertKind.LATE).text


def test_of_a_job_that_is_paused_nothing_is_late(town: Town) -> None:
    to(town, 10)
    town.node().do(town.node().ledger.put({at(10): Queue(False)}))
    assert to(town, 12) == ["late/billing"]
    town.node().do(town.hand.pause("billing"))
    assert town.kinds() == []
    town.node().do(town.hand.resume("billing"))
    assert town.kinds() == ["late/billing"]
    town.node().do(town.hand.pause_all())
    assert town.kinds() == []


def test_the_newest_slot_is_the_one_that_is_late() -> None:
    town, job = Town(), every("10m", start_within="5m")
    town.beat(WEB, job)
    town.look()
    town.pass_time(12 * MINUTE)
    town.run(job, at(10).at)
    town.beat(WEB)
    assert "T12:10:00Z started 2m late" in town.the(AlertKind.LATE).text
    for _ in range(29):
        town.pass_time(20 * SECOND)
        town.beat(WEB)
        town.look()
    assert "T12:20:00Z was due 1m 40s ago, and no process has claimed it yet" in town.the(AlertKind.LATE).text
    town.node().do(town.hand.pause_all())
    assert town.kinds() == []


def test_a_slot_that_was_given_back_unstarted_did_not_start_then(town: Town) -> None:
    to(town, 10)
    grant = town.run(JOB, at(10).at, None)
    town.node().do(town.node().ledger.release([grant]))
    assert to(town, 12) == ["late/billing"]


def test_a_retry_is_not_late(town: Town) -> None:
    to(town, 10)
    town.run(JOB, at(10).at, Outcome.FAILED, attempts=2)
    assert to(town, 15) == []
    town.run(JOB, at(10).at)
    assert town.kinds() == []


# --- failed ---


def test_a_job_whose_last_run_failed_has_failed_until_one_succeeds(town: Town) -> None:
    to(town, 10)
    town.run(JOB, at(10).at, Outcome.FAILED)
    finding = town.the(AlertKind.FAILED)
    assert finding.text == f"billing@2026-03-29T12:10:00Z failed on {WEB}: boom."
    key = "billing@2026-03-29T12:10:00Z"
    assert finding.remedy.endswith(
        f" To run it again: `cronce rerun {key}`. If the work is done: `cronce resolve {key} done`."
    )
    to(town, 20)
    grant = town.run(JOB, at(20).at, None)
    assert town.kinds() == ["failed/billing"]  # the next one is at work
    assert town.fresh() == ["failed/billing"]
    town.node().do(town.node().ledger.finish(grant, Outcome.SUCCEEDED))
    assert town.kinds() == []
    assert town.fresh() == []


def test_an_alert_counts_the_attempt_that_was_the_last(town: Town) -> None:
    """It said "after 2 attempts" of three."""
    to(town, 10)
    for _ in range(3):
        town.run(JOB, at(10).at, Outcome.FAILED, attempts=3)
    assert town.the(AlertKind.FAILED).text == f"billing@2026-03-29T12:10:00Z failed on {WEB} after 3 attempts: boom."


@pytest.mark.parametrize(
    ("reason", "output", "last"),
    [
        ("exit code 3", "one\ntwo\n\npsql: no route\n  to host\n", " Its last output: two / psql: no route / to host"),
        (
            "ValueError: 7",
            (
                'Traceback (most recent call last):\n  File "shop.py", line 3, in charge\n    int("x")\n    ~~~^^^^^\n'
                "ValueError: 7\n"
            ),
            ' Its last output: File "shop.py", line 3, in charge / int("x")',
        ),
        ("exit code 3", "\x1b[2J\n", " Its last output: \\x1b[2J"),
    ],
    ids=["command", "traceback", "odd"],
)
def test_the_alert_of_a_failure_has_the_end_of_what_it_said(reason: str, output: str, last: str) -> None:
    slot = Slot("billing", START)
    record = Record(State.CLOSED, holder=WEB, outcome=Outcome.FAILED, reason=reason, output=output, finished=START)
    (alert,) = watch_runs.failed(RunSeen(slot, Cell(slot.cell), record), history=True)
    assert alert.text == f"{slot.key} failed on {WEB}: {reason}.{last}"


@pytest.mark.parametrize(
    ("why", "severity"),
    [
        ("stopped: the scheduler was stopped", "warning"),
        ("the scheduler was stopped", "warning"),  # of a command
        ("stopped: it could not be renewed in time", "critical"),
        ("boom", "critical"),
    ],
)
def test_what_a_restart_cut_short_is_a_warning(town: Town, why: str, severity: str) -> None:
    to(town, 10)
    grant = town.run(JOB, at(10).at, None)
    town.node().do(town.node().ledger.finish(grant, Outcome.FAILED, why))
    assert town.the(AlertKind.FAILED).severity == severity


def test_a_slot_that_is_skipped_does_not_make_up_for_one_that_failed(town: Town) -> None:
    to(town, 10)
    town.run(JOB, at(10).at, Outcome.FAILED)
    to(town, 20)
    skip = Skip("the run of 12:10 had not ended")
    town.node().do(town.node().ledger.put({at(20): skip}))
    assert town.kinds() == ["failed/billing"]


def test_who_comes_later_goes_by_the_newest_slot(town: Town) -> None:
    to(town, 12)
    town.run(JOB, at(10).at)
    assert town.fresh() == ["late/billing"]
    to(town, 20)
    town.run(JOB, at(20).at, None)
    assert town.fresh() == []


def test_what_failed_before_an_edit_is_found_by_whoever_comes_after_it(town: Town) -> None:
    to(town, 10)
    town.run(JOB, at(10).at, Outcome.FAILED)
    town.pass_time(MINUTE)
    town.beat(WEB, every("5m"))
    assert town.fresh() == ["failed/billing"]


def test_what_failed_and_was_resolved_has_not_failed(town: Town) -> None:
    to(town, 10)
    town.run(JOB, at(10).at, Outcome.FAILED)
    assert town.kinds() == ["failed/billing"]
    town.node().do(town.hand.resolve(at(10), "done"))
    assert to(town, 11) == []


def test_among_many_a_run_that_fails_after_long_is_seen_within_a_minute(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "ALL_SLOTS_UP_TO", 0)
    to(town, 10)
    grant = town.run(JOB, at(10).at, None, lease=5 * MINUTE)
    assert to(town, 14, 40 * SECOND) == []
    town.node().do(town.node().ledger.finish(grant, Outcome.FAILED, "boom"))
    assert town.kinds() == []
    assert to(town, 15, 20 * SECOND) == ["failed/billing"]


def test_what_was_purged_after_it_failed_is_not_missed(town: Town) -> None:
    to(town, 10)
    town.run(JOB, at(10).at, Outcome.FAILED)
    assert town.kinds() == ["failed/billing"]
    town.store.purge(town.store.load([at(10).cell]).cells)
    assert to(town, 12) == ["failed/billing"]


def test_a_job_without_a_schedule_fails_too() -> None:
    town, job = Town(), declare("import")
    town.run(job, START, Outcome.FAILED, outside=True, digest="")
    assert town.kinds() == ["failed/import"]
    town.pass_time(SECOND)
    town.run(job, START + SECOND, outside=True, digest="")
    assert town.kinds() == []


def test_the_failure_of_a_job_that_was_removed_is_over(town: Town) -> None:
    town.node().do(add(town.hand, "mail", {"every": "10m", "command": ["./mail.sh"]}))
    mail = every("10m", "mail")._replace(revision=1)
    town.beat(WEB, JOB, mail)
    to(town, 10)
    town.run(JOB, at(10).at)
    town.run(mail, at(10).at, Outcome.FAILED)
    assert town.kinds() == ["failed/mail"]
    town.node().do(remove(town.hand, "mail"))
    town.beat(WEB, JOB)
    assert [town.kinds(), town.kinds(), town.fresh()] == [[], [], []]
    assert [run.slot.job for run in town.survey().looked] == []  # and nobody looks at it any more


def test_nothing_is_said_of_a_job_that_nobody_knows(town: Town) -> None:
    to(town, 10)
    town.run(JOB, at(10).at, Outcome.FAILED)
    seen = town.survey()
    assert [one.kind for one in watch_runs.fold(seen, WatchMemory(), town.settings)] == [AlertKind.FAILED]
    assert list(watch_runs.fold(seen._replace(jobs={}), WatchMemory(), town.settings)) == []


def test_a_run_of_a_job_without_a_schedule_is_never_late() -> None:
    town, job = Town(), declare("import")
    town.run(job, START - HOUR, outside=True, digest="")
    town.pass_time(SECOND)
    town.run(job, START + SECOND - 5 * MINUTE, outside=True, digest="")
    assert town.kinds() == []
