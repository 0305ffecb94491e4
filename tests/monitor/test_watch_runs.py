"""What is wrong with runs: those that take too long, come no further, or were left by whoever had them."""

from datetime import timedelta
from typing import Any

import pytest

from cronce.model import Cell, Epoch, Fence, Slot, spell
from cronce.monitor.alerts import AlertKind
from cronce.monitor.settings import Settings
from cronce.monitor.survey import Survey, attempts, took
from cronce.monitor.watch_runs import overrun, unsaid
from cronce.protocol.commands import Finish
from cronce.protocol.notices import Alert
from cronce.protocol.record import COMMITTED, LAPSED, NEVER_STARTED, RELEASED, Outcome, Past, Record, State
from cronce.protocol.terms import Terms
from cronce.runtime.declare import Declaration
from cronce.runtime.journal import Entry, PendingEnd, UnaskedCall
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.queries import RunSeen
from tests.monitor.shelf import HOUR, MINUTE, SECOND, Town, every
from tests.runtime.shelf import START

MICROSECOND = timedelta(microseconds=1)
WEB = "web-1:1:a"
JOB = every("3m")
LIMITED = every("3m", timeout="100s")


def after(*took: float, job: Declaration = JOB) -> Town:
    """A scheduler whose last runs took so many seconds, each begun at its slot; an hour later the next is due."""
    town = Town()
    town.beat(WEB, job)
    for number, seconds in enumerate(took, 1):
        slot = START + 3 * number * MINUTE
        town.pass_time(slot - town.now)
        town.run(job, slot, took=timedelta(seconds=seconds), lease=5 * MINUTE)
        town.look()
    town.pass_time(START + HOUR - town.now)
    town.beat(WEB)
    return town


def found(town: Town, kind: AlertKind) -> list[Alert]:
    """While its scheduler lives: of a run whose host is gone, that is told."""
    town.beat(WEB)
    return [one for one in town.look() if one.kind is kind]


def begin(town: Town, job: Declaration = JOB, slot: int = 60) -> Grant:
    return town.run(job, START + slot * MINUTE, None, lease=5 * MINUTE)


# --- overrun ---


def test_a_run_overruns_that_takes_three_times_as_long_as_the_longest_before() -> None:
    town = after(10, 20, 30, 25, 5)
    begin(town)
    town.pass_time(90 * SECOND)
    assert found(town, AlertKind.OVERRUN) == []
    town.pass_time(MICROSECOND)
    (finding,) = found(town, AlertKind.OVERRUN)
    text = f"billing@2026-03-29T13:00:00Z has been running for 1m 30s on {WEB}, and the longest of the last 5 took 30s."
    assert (finding.text, finding.severity) == (text, "warning")
    assert finding.since == START + HOUR + 90 * SECOND


def test_it_is_over_when_the_run_is() -> None:
    town = after(10, 20, 30, 25, 5)
    grant = begin(town)
    town.pass_time(2 * MINUTE)
    assert len(found(town, AlertKind.OVERRUN)) == 1
    town.node().do(town.node().ledger.finish(grant, Outcome.SUCCEEDED))
    assert found(town, AlertKind.OVERRUN) == []


def test_a_run_of_up_to_a_minute_never_overruns() -> None:
    town = after(1, 1, 1, 1, 1)
    begin(town)
    town.pass_time(MINUTE)
    assert found(town, AlertKind.OVERRUN) == []
    town.pass_time(MICROSECOND)
    assert len(found(town, AlertKind.OVERRUN)) == 1


@pytest.mark.parametrize(("span", "overruns"), [(MINUTE, 0), (MINUTE + MICROSECOND, 1)])
def test_nor_if_it_is_known_how_long_the_others_took(span: timedelta, overruns: int) -> None:
    record = Record(State.RUNNING, grant=1, holder=WEB, started=START)
    run = RunSeen(Slot("billing", START), Cell("run/billing/x"), record)
    seen = Survey(START + span, Epoch(), open=[run], took={"billing": [SECOND] * 5})
    assert len(list(overrun(seen))) == overruns


def test_a_run_whose_holder_is_gone_does_not_overrun() -> None:
    town = after(10, 10, 10, 10, 10)
    town.run(JOB, START + HOUR, None, lease=10 * SECOND)
    town.pass_time(5 * MINUTE)
    assert found(town, AlertKind.OVERRUN) == []
    assert len(found(town, AlertKind.STUCK)) == 1


def test_with_four_runs_before_it_nobody_knows_how_long_one_takes() -> None:
    town = after(10, 10, 10, 10)
    begin(town)
    town.pass_time(4 * MINUTE)
    assert found(town, AlertKind.OVERRUN) == []


def test_a_run_that_goes_on_after_its_timeout_overruns() -> None:
    town = after(job=LIMITED)
    begin(town, LIMITED)
    town.pass_time(100 * SECOND)
    assert found(town, AlertKind.OVERRUN) == []
    town.pass_time(MICROSECOND)
    (finding,) = found(town, AlertKind.OVERRUN)
    assert finding.text.endswith("longer than its timeout of 1m 40s.")


def test_a_run_that_was_told_to_stop_and_has_not_is_critical_whatever_it_usually_takes() -> None:
    town = after(job=LIMITED)
    grant = begin(town, LIMITED)
    town.pass_time(10 * SECOND)
    node = town.node()
    node.do(node.ledger.renew([grant], overdue={grant.fence: "asked to stop: cancelled by ann"}))
    (finding,) = found(town, AlertKind.OVERRUN)
    assert finding.severity == "critical"
    assert finding.text == (
        f"billing@2026-03-29T13:00:00Z is overdue, still running on {WEB}: it was told to stop (asked to stop:"
        " cancelled by ann). Its effects are refused, and it keeps its turn and its worker."
    )
    assert "isolate=True" in finding.remedy
    node.do(node.ledger.finish(grant, Outcome.FAILED))
    assert found(town, AlertKind.OVERRUN) == []


def test_what_ended_here_and_is_not_on_record_is_told_after_ten_seconds() -> None:
    finish = Finish(Fence(1, 1), Outcome.SUCCEEDED)
    journal: list[Entry] = [
        PendingEnd("run/billing/2026-03-29T12:00:00Z", finish, WEB, START + 5 * SECOND),
        UnaskedCall("billing@2026-03-29T12:00:00Z", "no answer", WEB, START),
    ]
    assert list(unsaid(journal, START + 14.9 * SECOND)) == []
    (finding,) = unsaid(journal, START + 15 * SECOND)
    assert (finding.kind, finding.subject, finding.severity) == (AlertKind.UNSAID, "billing", "warning")
    assert finding.text == (
        f"billing@2026-03-29T12:00:00Z: succeeded at 2026-03-29T12:00:05Z on {WEB}, which could not be recorded yet."
    )


def test_a_job_whose_runs_come_near_its_timeout_is_told_of() -> None:
    town = after(10, 10, 10, 81, 81, job=LIMITED)
    (finding,) = found(town, AlertKind.OVERRUN)
    text = "billing is close to its timeout of 1m 40s: 95 % of the last 5 runs took up to 1m 21s."
    assert (finding.text, finding.severity) == (text, "warning")
    town.run(LIMITED, START + HOUR)
    town.pass_time(MINUTE)
    assert found(town, AlertKind.OVERRUN) == []


def test_a_job_that_overruns_is_not_told_that_it_comes_near() -> None:
    town = after(10, 10, 10, 81, 81, job=LIMITED)
    begin(town, LIMITED)
    town.pass_time(101 * SECOND)
    (finding,) = found(town, AlertKind.OVERRUN)
    assert finding.text.endswith("longer than its timeout of 1m 40s.")


@pytest.mark.parametrize("took", [(10, 10, 10, 80, 80), (81, 81, 81, 81)])
def test_four_fifths_of_the_timeout_are_not_near_and_four_runs_are_not_enough(took: tuple[float, ...]) -> None:
    assert found(after(*took, job=LIMITED), AlertKind.OVERRUN) == []


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({}, 7 * SECOND),
        ({"reason": "resolved: done, by ada"}, None),  # nobody knows how long that took
        ({"outcome": Outcome.FAILED}, None),
        ({"started": None}, None),
    ],
)
def test_a_run_took_so_long_if_it_succeeded_by_itself(changes: dict[str, Any], seconds: timedelta | None) -> None:
    record = Record(State.CLOSED, outcome=Outcome.SUCCEEDED, started=START, finished=START + 7 * SECOND)
    run = RunSeen(Slot("billing", START), Cell("run/billing/x"), record._replace(**changes))
    assert took(run) == seconds


# --- no progress ---


def test_a_run_that_comes_no_further_is_told_of_until_it_does() -> None:
    town = after()
    grant = begin(town)

    def say(done: int) -> None:
        nonlocal grant
        (renewed,) = town.node().do(town.node().ledger.renew([grant], progress={grant.fence: (done, 10)}))
        assert isinstance(renewed, Grant)
        grant = renewed

    say(3)
    assert found(town, AlertKind.NO_PROGRESS) == []
    for _ in range(5):
        town.pass_time(3 * MINUTE - MICROSECOND)
        say(3)
        assert found(town, AlertKind.NO_PROGRESS) == []
    town.pass_time(5 * MICROSECOND)
    (finding,) = found(town, AlertKind.NO_PROGRESS)
    assert finding.text == f"billing@2026-03-29T13:00:00Z has made no progress for 15m: 3 of 10 done, on {WEB}."
    assert finding.since == START + HOUR
    say(4)
    assert found(town, AlertKind.NO_PROGRESS) == []
    assert len(town.memory.progress) == 1
    town.node().do(town.node().ledger.finish(grant, Outcome.SUCCEEDED))
    town.look()
    assert town.memory.progress == {}


def test_a_run_that_says_nothing_of_its_progress_is_left_alone() -> None:
    town = after()
    town.settings = Settings(no_progress=SECOND)
    begin(town)
    town.pass_time(MINUTE)
    assert found(town, AlertKind.NO_PROGRESS) == []


# --- stuck, lapsing ---


@pytest.mark.parametrize(("lease", "patience"), [(10 * SECOND, MINUTE), (2 * MINUTE, 2 * MINUTE)])
def test_a_lease_that_nobody_acts_on_is_stuck_until_somebody_does(lease: timedelta, patience: timedelta) -> None:
    town = after()
    town.run(JOB, START + HOUR, None, lease=lease)
    town.pass_time(lease + patience)
    assert found(town, AlertKind.STUCK) == []
    town.pass_time(MICROSECOND)
    (finding,) = found(town, AlertKind.STUCK)
    assert (finding.subject, finding.severity, finding.since) == ("billing", "critical", START + HOUR + lease)
    key = f"billing@{spell(START + HOUR)}"
    assert f": its lease expired at {spell(finding.since)}, and no process has acted on it." in finding.text
    assert f"then it is closed as lost. To run it again: `cronce rerun {key}`." in finding.remedy
    town.watch_clock(lease + MINUTE)
    node = town.node()
    node.do(node.ledger.settle(node.do(node.ledger.overdue())))
    assert found(town, AlertKind.STUCK) == []


def test_a_stuck_rerun_that_was_asked_to_stop_will_be_closed() -> None:
    town = after()
    town.run(JOB, START + HOUR, None, on_lost="rerun", lease=MINUTE)
    town.node().do(town.node().ledger.ask(Slot("billing", START + HOUR), "enough"))
    town.pass_time(HOUR)
    (finding,) = found(town, AlertKind.STUCK)
    assert "then it is closed as lost" in finding.remedy


def test_leases_that_lapse_again_and_again_are_told_of_for_an_hour() -> None:
    town = after()
    town.node("web-2:1:a")
    town.run(JOB, START + HOUR, None, on_lost="rerun")
    for by, outcome in (("web-2:1:a", None), (WEB, None), ("web-2:1:a", Outcome.SUCCEEDED)):
        assert found(town, AlertKind.LAPSING) == []
        town.watch_clock(12 * SECOND)
        town.run(JOB, START + HOUR, outcome, by=by, on_lost="rerun")
    (finding,) = found(town, AlertKind.LAPSING)
    assert finding.text == f"3 leases of billing expired within the last hour; they were held by {WEB}, web-2:1:a."
    town.pass_time(finding.since + HOUR - town.now - MICROSECOND)
    assert len(found(town, AlertKind.LAPSING)) == 1
    town.pass_time(MICROSECOND)
    assert found(town, AlertKind.LAPSING) == []


def test_a_lease_that_lapsed_is_counted_once() -> None:
    town = after()
    town.node("web-2:1:a")
    town.run(JOB, START + HOUR, None, on_lost="rerun")
    town.watch_clock(12 * SECOND)
    town.run(JOB, START + HOUR, None, by="web-2:1:a", on_lost="rerun")
    for _ in range(5):
        town.look()
    assert [len(known) for known in town.memory.lapses.values()] == [1]


def test_a_run_that_was_closed_as_lost_lapsed_and_one_that_failed_did_not() -> None:
    town = after()
    for _ in range(3):
        town.run(JOB, START + HOUR, Outcome.FAILED, attempts=9)
        town.pass_time(SECOND)
    assert found(town, AlertKind.LAPSING) == []
    for minute in (51, 54, 57):
        town.run(JOB, START + minute * MINUTE, Outcome.LOST)
    assert found(town, AlertKind.LAPSING) == []  # one process died, with three runs
    for minute in (45, 48):
        town.pass_time(SECOND)
        town.run(JOB, START + minute * MINUTE, Outcome.LOST)
    (finding,) = found(town, AlertKind.LAPSING)
    assert finding.text.startswith("3 leases of billing")


# --- lost, unknown ---


@pytest.mark.parametrize(("outcome", "kind"), [(Outcome.LOST, AlertKind.LOST), (Outcome.UNKNOWN, AlertKind.UNKNOWN)])
def test_runs_in_doubt_are_told_of_until_a_person_has_said_something(outcome: Outcome, kind: AlertKind) -> None:
    town = after()
    for minute in (54, 57, 60):
        town.run(JOB, START + minute * MINUTE, outcome)
    town.run(every("3m", "mail"), START + HOUR, outcome, outside=True, digest="")
    by_job = {one.subject: one for one in found(town, kind)}
    assert sorted(by_job) == ["billing", "mail"]
    assert by_job["billing"].text.startswith(f"billing@2026-03-29T13:00:00Z is {outcome}: ")
    assert by_job["billing"].text.endswith("; 3 runs of billing in all.")
    assert " in all" not in by_job["mail"].text
    assert "`cronce resolve billing@2026-03-29T13:00:00Z done`" in by_job["billing"].remedy
    assert f"`cronce runs billing --state {outcome}`" in by_job["billing"].remedy
    for minute in (54, 57, 60):
        town.node().do(town.hand.resolve(Slot("billing", START + minute * MINUTE), "done"))
    assert [one.subject for one in found(town, kind)] == ["mail"]


def test_a_run_by_hand_may_be_lost_too() -> None:
    town = after()
    asked = town.node().do(town.hand.trigger("billing"))
    wanted = Wanted(asked.slot, Terms(MINUTE, overlap="allow"), known=True)
    (grant,) = town.node().do(town.node().ledger.claim([wanted]))
    assert isinstance(grant, Grant)
    town.node().do(town.node().ledger.finish(grant, Outcome.LOST))
    assert [one.text.split(" ")[0] for one in found(town, AlertKind.LOST)] == [asked.slot.key]


# --- attempts and completions ---


def test_attempts_are_those_under_which_something_ran() -> None:
    def past(*ends: str) -> tuple[Past, ...]:
        return tuple(Past(None, WEB, START, end) for end in ends)

    assert attempts(Record(State.DUE)) == (0, 0)
    assert attempts(Record(State.RUNNING, grant=1)) == (1, 0)
    assert attempts(Record(State.CLOSED, grant=1, outcome=Outcome.SUCCEEDED, reason=COMMITTED)) == (1, 1)
    assert attempts(Record(State.CLOSED, grant=3, outcome=Outcome.FAILED, past=past(LAPSED, "failed"))) == (3, 0)
    assert attempts(Record(State.RUNNING, grant=4, past=past(RELEASED, NEVER_STARTED, LAPSED))) == (2, 0)
    assert attempts(Record(State.DUE, grant=1, past=past(RELEASED))) == (0, 0)
    assert attempts(Record(State.CLOSED, outcome=Outcome.SKIPPED)) == (0, 0)
