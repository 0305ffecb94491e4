"""What a call in a pod of a Kubernetes Job is for, and what it owes to the Job, on clocks turned by hand."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import cronce.runtime.call
from cronce.errors import BadInput, SlotFailed
from cronce.model import EPOCH, Instant, Slot
from cronce.protocol.record import Outcome, State
from cronce.runtime.attempt import Work
from cronce.runtime.call import Call
from cronce.runtime.declare import Declaration, declare
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.operations import Operator
from cronce.runtime.pod import PodCall, fired_at
from cronce.runtime.run import Run, Skipped
from tests.runtime.office import Office, dies, job
from tests.runtime.shelf import START, HandClock, Wire


def named_after(at: Instant) -> str:
    """What a CronJob's controller calls the Job of that minute."""
    return f"billing-{(at - EPOCH) // timedelta(minutes=1)}"


def in_pod(
    office: Office,
    job_name: str,
    declared: Declaration,
    body: Callable[[Run], Any] = lambda run: run.key,
    meanwhile: Callable[[], object] = lambda: None,
    **more: Any,
) -> Any:
    call = PodCall(job_name, Call(office.keeper, declared, Work(body), stand_by=True))
    return office.play(call.steps(**more), meanwhile)


def fails(_run: Run) -> None:
    raise RuntimeError("no paper")


# --- which slot -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job_name", "at"),
    [
        ("billing-29579760", datetime(2026, 3, 29, 12, tzinfo=UTC)),
        ("shop-1-29579760", datetime(2026, 3, 29, 12, tzinfo=UTC)),
        ("billing-26297280", datetime(2020, 1, 1, tzinfo=UTC)),
        ("billing-26297279", None),
        ("billing-20260329", None),  # a day, written by a person
        ("billing-1774756800", None),  # `date +%s`
        ("billing-2", None),
        ("billing-x7k2p", None),
        ("billing", None),
        ("29579760", None),
        ("-29579760", None),
        ("billing-29579760x", None),
        ("billing-٢٩٥٧٩٧٦٠", None),
    ],
)
def test_only_the_minute_that_a_cronjob_writes_is_one(job_name: str, at: Instant | None) -> None:
    assert fired_at(job_name) == at


def test_the_minute_is_the_slot_where_the_schedule_yields_it_however_late_the_pod(office: Office) -> None:
    office.hand.turn(14 * 60)
    assert in_pod(office, named_after(START), job()) == "billing@2026-03-29T12:00:00Z"


def test_a_pod_that_starts_when_the_next_slot_is_due_is_too_late_unless_the_job_says_otherwise(office: Office) -> None:
    office.hand.turn(15 * 60 + 1)
    skipped = in_pod(office, named_after(START), job())
    assert (skipped.outcome, skipped.reason) == (Outcome.SKIPPED, "it is closed: skipped, too late to start")
    office.hand.turn(15 * 60)
    later = START + timedelta(minutes=15)
    assert in_pod(office, named_after(later), job(start_within="1h")) == "billing@2026-03-29T12:15:00Z"


def test_a_minute_that_is_no_slot_means_the_latest_up_to_it(office: Office) -> None:
    """Whoever calls a weekly job from a daily CronJob wants it weekly, and not each day as a run of its own."""
    office.hand.turn(5 * 60)
    assert in_pod(office, named_after(START + timedelta(minutes=3)), job()) == "billing@2026-03-29T12:00:00Z"
    again = in_pod(office, named_after(START + timedelta(minutes=4)), job())
    assert again == Skipped("closed", "it is closed: succeeded", "billing@2026-03-29T12:00:00Z", "succeeded")


def test_of_a_time_that_clocks_show_twice_kubernetes_makes_two_jobs_and_one_runs(
    office: Office, clock: HandClock
) -> None:
    declared = job(schedule="30 1 * * *", tz="America/New_York")
    first = datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
    clock.turn((first - START).total_seconds())
    assert in_pod(office, named_after(first), declared) == "billing@2026-11-01T05:30:00Z"
    clock.turn(3600)
    second = in_pod(office, named_after(first + timedelta(hours=1)), declared)
    assert (second.slot, second.outcome) == ("billing@2026-11-01T05:30:00Z", "succeeded")


def test_a_zone_that_differs_from_the_cronjobs_still_makes_one_run_a_day(office: Office, clock: HandClock) -> None:
    declared = job(schedule="0 9 * * *")  # and the CronJob says Europe/Berlin
    clock.turn(19 * 3600)
    fired = datetime(2026, 3, 30, 7, tzinfo=UTC)
    assert in_pod(office, named_after(fired), declared) == "billing@2026-03-29T09:00:00Z"
    clock.turn(24 * 3600)
    assert in_pod(office, named_after(fired + timedelta(days=1)), declared) == "billing@2026-03-30T09:00:00Z"


def test_a_job_without_a_schedule_takes_the_minute_as_it_is(office: Office) -> None:
    assert in_pod(office, named_after(START), declare("billing")) == "billing@2026-03-29T12:00:00Z"


def test_a_slot_that_the_caller_names_is_the_slot(office: Office) -> None:
    named = Slot("billing", START - timedelta(minutes=15))
    answer = in_pod(office, named_after(START), job(start_within="1h"), when=named)
    assert answer == "billing@2026-03-29T11:45:00Z"


def test_a_minute_to_come_is_refused(office: Office) -> None:
    with pytest.raises(BadInput, match="is due in 15m"):
        in_pod(office, named_after(START + timedelta(minutes=15)), job())


# --- Jobs made by hand ----------------------------------------------------------------------------------------------


def test_a_job_made_by_hand_is_a_run_of_its_own_once_for_its_name(store: Wire) -> None:
    slot, hand, later = Office(store), Office(store), Office(store)
    assert in_pod(slot, named_after(START), job()) == "billing@2026-03-29T12:00:00Z"
    store.clock.turn(7)
    assert in_pod(hand, "again", job()) == "billing@2026-03-29T12:00:07Z#again"
    store.clock.turn(60)
    assert in_pod(later, "again", job()).slot == "billing@2026-03-29T12:00:07Z#again"
    assert in_pod(later, "once-more", job()) == "billing@2026-03-29T12:01:07Z#once-more"
    assert hand.record(Slot("billing", START + timedelta(seconds=7), "again")).by == "job/again"


def test_the_retry_of_a_job_made_by_hand_is_an_attempt_of_the_same_run(store: Wire) -> None:
    with pytest.raises(RuntimeError, match="no paper"):
        in_pod(Office(store), "again", job(retries=1), fails)
    store.clock.turn(40)
    tried = in_pod(Office(store), "again", job(retries=1), lambda run: (run.key, run.attempt))
    assert tried == ("billing@2026-03-29T12:00:00Z#again", 2)


# --- what it owes to the Job ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED])
def test_who_comes_second_waits_for_the_outcome(store: Wire, outcome: Outcome) -> None:
    first, second = Office(store), Office(store)
    ledger, slot = first.node.ledger, Slot("billing", START)
    (grant,) = first.node.do(ledger.claim([Wanted(slot, job().terms(slot, inferred=False))]))
    assert isinstance(grant, Grant)

    def meanwhile() -> None:
        if len(second.naps) == 3:
            first.node.do(ledger.finish(grant, outcome))

    if outcome is Outcome.SUCCEEDED:
        assert in_pod(second, named_after(START), job(), fails, meanwhile).outcome == "succeeded"
    else:
        with pytest.raises(SlotFailed, match="it is closed: failed"):
            in_pod(second, named_after(START), job(), fails, meanwhile)
    assert second.naps == [1.0] * 3


def test_who_finds_the_slot_failed_lost_or_unknown_raises(store: Wire) -> None:
    with pytest.raises(RuntimeError, match="no paper"):
        in_pod(Office(store), named_after(START), job(), fails)
    with pytest.raises(SlotFailed, match="2026-03-29T12:00:00Z was not run here: it is closed: failed, Runtime"):
        in_pod(Office(store), named_after(START), job())


def test_a_slot_that_is_passed_over_is_no_failure(store: Wire) -> None:
    office = Office(store)
    office.node.do(office.node.ledger.jobs.pause("billing", "ops"))
    passed_over = in_pod(office, named_after(START), job())
    assert passed_over == Skipped("paused", "the job is paused", "billing@2026-03-29T12:00:00Z")


def test_a_job_made_by_hand_that_is_passed_over_is_one(store: Wire) -> None:
    """Whoever made it wants it run: its Job must not count as complete."""
    office = Office(store)
    in_pod(office, named_after(START), job())
    office.node.do(Operator(office.node.ledger, "somebody", ["billing"]).pause("billing"))
    with pytest.raises(SlotFailed, match="the job is paused"):
        in_pod(office, "again", job())


@pytest.mark.parametrize("on_lost", ["rerun", "skip"])
def test_of_a_pod_that_is_gone_the_next_waits_and_does_as_on_lost_says(store: Wire, on_lost: str) -> None:
    first, second = Office(store), Office(store)
    declared = job(on_lost=on_lost, lease="10s")

    def body(run: Run) -> str:
        dies(first)
        return run.key

    with pytest.raises(Exception, match="this process is dead"):
        in_pod(first, named_after(START), declared, body)
    slot = Slot("billing", START)
    assert second.record(slot).state is State.RUNNING
    look: Callable[[], object] = lambda: second.node.do(second.node.ledger.overdue("another"))  # noqa: E731
    if on_lost == "rerun":
        assert in_pod(second, named_after(START), declared, lambda run: run.attempt, meanwhile=look) == 2
    else:
        with pytest.raises(SlotFailed, match="it is closed: lost"):
            in_pod(second, named_after(START), declared, meanwhile=look)
    assert 10 <= sum(second.naps) < 30


def test_who_cannot_tell_whether_another_still_runs_does_not_end_well(store: Wire, monkeypatch: Any) -> None:
    """Its process is new, and has not watched the store's clock for as long as an earlier run's lease."""
    monkeypatch.setattr(cronce.runtime.call, "LONGEST_TAKEOVER_WAIT", timedelta(0))
    first, second = Office(store), Office(store)
    earlier = Slot("billing", START)
    (grant,) = first.node.do(
        first.node.ledger.claim([Wanted(earlier, job(lease="10s").terms(earlier, inferred=False))])
    )
    assert isinstance(grant, Grant)
    store.clock.turn(15 * 60)
    with pytest.raises(SlotFailed, match="may still be running: its lease expired"):
        in_pod(second, named_after(START + timedelta(minutes=15)), job(overlap="wait"))
