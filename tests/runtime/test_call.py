"""One call of a guarded job, on clocks that are turned by hand: exactly who runs, what is on record, what is raised."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from cronce.errors import BadInput, ClockOff, LeaseLost, StoreUnavailable, TimedOut
from cronce.events import What
from cronce.model import Mark, Slot, Write
from cronce.policy import OnLost
from cronce.protocol.commands import Queue
from cronce.protocol.record import Outcome, State
from cronce.runtime.attempt import Work
from cronce.runtime.call import Call
from cronce.runtime.declare import Declaration, When, declare
from cronce.runtime.operations import Operator
from cronce.runtime.run import Run, Skipped
from cronce.runtime.steps import BodyStep, StoreStep
from tests.runtime.office import Office, dies, job, watch
from tests.runtime.shelf import START, HandClock, Wire

NOON = Slot("billing", START)
QUARTER = timedelta(minutes=15)


class Boom(Exception):
    """What a body raises."""


class Bodies:
    """Counts the runs of each slot, and does what a test wants done in them."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.act: Any = lambda _run: None

    def __call__(self, run: Run) -> Any:
        self.ran.append(run.key)
        return self.act(run)


@pytest.fixture
def bodies() -> Bodies:
    return Bodies()


# --- which slot -----------------------------------------------------------------------------------------------------


def test_the_first_call_runs_and_the_second_is_told_that_it_is_closed(office: Office, bodies: Bodies) -> None:
    bodies.act = lambda _run: 7
    assert office.call(job(), bodies) == 7
    second = office.call(job(), bodies)
    assert second == Skipped("closed", "it is closed: succeeded", NOON.key, "succeeded")
    assert not second
    assert bodies.ran == [NOON.key]
    assert office.refused == [(NOON.key, "it is closed: succeeded")]


def test_a_newcomers_first_call_runs_the_latest_slot(office: Office, clock: HandClock, bodies: Bodies) -> None:
    clock.turn(7 * 60)
    office.call(job(), bodies)
    assert bodies.ran == [NOON.key]


@pytest.mark.parametrize("first", [-5.0, 0.0, 5.0])
def test_hosts_five_seconds_apart_run_a_slot_once(store: Wire, clock: HandClock, bodies: Bodies, first: float) -> None:
    """Each fires when its own clock says noon; whoever is early waits for the store's noon."""
    hosts = {off: Office(store, off) for off in (-5.0, 0.0, 5.0)}
    clock.turn(-first)
    hosts[first].call(job(), bodies)
    for off, host in hosts.items():
        clock.seconds = max(clock.seconds, -off)
        host.call(job(), bodies)
    assert bodies.ran == [NOON.key]


def test_an_early_host_waits_for_the_stores_clock(store: Wire, clock: HandClock, bodies: Bodies) -> None:
    early = Office(store, 5.0)
    clock.turn(-5)
    early.call(job(), bodies)
    assert clock.seconds == pytest.approx(0, abs=0.01)
    assert bodies.ran == [NOON.key]


@pytest.mark.parametrize(("off", "words"), [(180.0, "3m ahead of"), (-180.0, "3m behind")])
def test_a_host_minutes_off_is_an_error_that_says_so(store: Wire, bodies: Bodies, off: float, words: str) -> None:
    with pytest.raises(ClockOff, match=rf"this machine's clock is {words} the store's.*nothing was run.*NTP"):
        Office(store, off).call(job(), bodies)
    assert bodies.ran == []


def test_a_host_minutes_off_may_run_a_slot_that_its_caller_names(store: Wire, bodies: Bodies) -> None:
    Office(store, 180.0).call(job(), bodies, when=START)
    assert bodies.ran == [NOON.key]


@pytest.mark.parametrize(
    ("when", "key"),
    [
        (START, "billing@2026-03-29T12:00:00Z"),
        (NOON, "billing@2026-03-29T12:00:00Z"),
        ("2026-03-29T11:30:00Z", "billing@2026-03-29T11:30:00Z"),
        ("2026-03-29T13:00:00+02:00", "billing@2026-03-29T11:00:00Z"),
        (date(2026, 3, 29), "billing@2026-03-28T23:00:00Z"),
        ("2026-03-29", "billing@2026-03-28T23:00:00Z"),
    ],
)
def test_a_caller_may_name_the_slot(office: Office, bodies: Bodies, when: When, key: str) -> None:
    """A day is its midnight where the job lives."""
    berlin = job(schedule="0 0 * * *", tz="Europe/Berlin", start_within="1d")
    office.call(berlin, bodies, when=when)
    assert bodies.ran == [key]


@pytest.mark.parametrize("when", [Slot("other", START), "noon", datetime(2026, 3, 29), "2026-02-30"])  # noqa: DTZ001
def test_a_slot_that_cannot_be_meant_is_refused(office: Office, bodies: Bodies, when: When) -> None:
    with pytest.raises(BadInput):
        office.call(job(), bodies, when=when)
    assert bodies.ran == []


def test_a_job_without_a_schedule_has_to_be_told_its_slot(office: Office, bodies: Bodies) -> None:
    loose = declare("billing")
    with pytest.raises(BadInput, match=r"has no schedule, so each call has to name its slot: billing\(slot=…\)"):
        office.call(loose, bodies)
    office.call(loose, bodies, when=START)
    assert bodies.ran == [NOON.key]


# --- too late, paused, in the way -----------------------------------------------------------------------------------


def test_a_slot_named_too_late_is_skipped_and_stays_so(office: Office, clock: HandClock, bodies: Bodies) -> None:
    clock.turn(QUARTER.total_seconds() + 1)
    late = office.call(job(), bodies, when=START)
    assert late == Skipped("closed", "it is closed: skipped, too late to start", NOON.key, "skipped")
    assert bodies.ran == []


def test_a_host_that_is_behind_still_runs_its_dense_slots(store: Wire, clock: HandClock, bodies: Bodies) -> None:
    """By the store's clock each of its slots is five slots ago."""
    behind = Office(store, -5.0)
    for _ in range(4):
        behind.call(job(schedule="every 1s"), bodies)
        clock.turn(1)
    assert len(set(bodies.ran)) == len(bodies.ran) == 4


def test_a_paused_job_is_skipped(office: Office, bodies: Bodies) -> None:
    office.node.do(office.node.ledger.jobs.pause("billing"))
    assert office.call(job(), bodies) == Skipped("paused", "the job is paused", NOON.key)
    assert bodies.ran == []


def test_a_slot_below_the_floor_is_too_old(office: Office, clock: HandClock, bodies: Bodies) -> None:
    office.call(job(), bodies)
    old = office.call(job(), bodies, when=START - QUARTER)
    assert (old.kind, bodies.ran) == ("too old", [NOON.key])


@pytest.mark.parametrize(("within", "ended_as"), [("1h", "succeeded"), (None, "skipped")])
def test_the_first_calls_of_a_job_may_overtake_each_other(
    store: Wire, clock: HandClock, bodies: Bodies, within: str | None, ended_as: str
) -> None:
    """The one for the older slot came before the job was known, and was told that it is too old, without a record."""
    slow, quick = Office(store), Office(store)
    declared = job(start_within=within, overlap="allow")

    def overtaken(call: str) -> str:
        store.lose = lambda _call: ""
        clock.turn(17 * 60)
        quick.call(declared, bodies)
        return ""

    store.lose = overtaken
    slow.call(declared, bodies)
    assert slow.record(NOON).outcome == ended_as
    assert slow.record(Slot("billing", START + QUARTER)).outcome == "succeeded"


def test_so_they_may_where_a_clock_is_behind(store: Wire, clock: HandClock, bodies: Bodies) -> None:
    behind, quick, declared = Office(store, -20.0), Office(store), job(start_within="1h", overlap="allow")
    clock.turn(15 * 60 + 1)
    quick.call(declared, bodies)
    behind.call(declared, bodies)
    assert bodies.ran == [Slot("billing", START + QUARTER).key, NOON.key]


def test_a_run_that_goes_on_keeps_the_next_slot_from_running(store: Wire, clock: HandClock, bodies: Bodies) -> None:
    here, there = Office(store), Office(store)
    answers = []

    def long_run(_run: Run) -> None:
        bodies.act = lambda _run: None
        clock.turn(QUARTER.total_seconds())
        here.keeper.renew()
        answers.append(there.call(job(), bodies))

    bodies.act = long_run
    here.call(job(lease="5m", timeout=None), bodies)
    assert bodies.ran == [NOON.key]
    assert answers[0].outcome == "skipped"
    assert "billing@2026-03-29T12:00:00Z had not ended" in answers[0].reason


def test_overlap_wait_waits_for_its_turn(store: Wire, clock: HandClock, bodies: Bodies) -> None:
    here, there = Office(store), Office(store)
    patient = job(schedule="every 1m", overlap="wait", lease="5m")
    first = Call(here.keeper, patient, Work(bodies)).steps()
    step = next(first)
    while not isinstance(step, BodyStep):
        assert isinstance(step, StoreStep)
        step = first.send(here.node.do(step.flow))
    clock.turn(60)

    def first_ends() -> None:
        if there.naps == [0.25]:
            finish = first.send(None)
            assert isinstance(finish, StoreStep)
            answer = here.node.do(finish.flow)
            with pytest.raises(StopIteration):
                first.send(answer)

    there.play(Call(there.keeper, patient, Work(bodies)).steps(), first_ends)
    assert bodies.ran == ["billing@2026-03-29T12:01:00Z"]
    assert there.naps == [0.25]


# --- the body's end -------------------------------------------------------------------------------------------------


def test_a_bodys_exception_is_the_callers_and_on_record(office: Office, bodies: Bodies) -> None:
    def fails(_run: Run) -> None:
        raise ValueError("no such customer")

    bodies.act = fails
    with pytest.raises(ValueError, match="no such customer"):
        office.call(job(), bodies)
    record = office.record(NOON)
    assert (record.outcome, record.reason) == (Outcome.FAILED, "ValueError: no such customer")
    again = office.call(job(), bodies)
    assert (again.kind, again.outcome) == ("closed", "failed")
    assert bodies.ran == [NOON.key]


def test_a_failed_slot_is_run_again_from_outside_while_its_attempts_last(office: Office, bodies: Bodies) -> None:
    attempts = []

    def fails(run: Run) -> None:
        attempts.append(run.attempt)
        raise Boom

    bodies.act = fails
    for _ in range(2):
        with pytest.raises(Boom):
            office.call(job(retries=1), bodies)
    assert office.call(job(retries=1), bodies).outcome == "failed"
    assert attempts == [1, 2]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("on_lost", ["skip", "rerun"])
def test_a_body_that_is_cut_short_fails_under_skip_and_is_tried_again_under_rerun(
    office: Office, bodies: Bodies, error: type[BaseException], on_lost: str
) -> None:
    def cut(_run: Run) -> None:
        bodies.act = lambda _run: "done"
        raise error

    bodies.act = cut
    with pytest.raises(error):
        office.call(job(on_lost=on_lost), bodies)
    assert office.record(NOON).state is (State.CLOSED if on_lost == "skip" else State.RETRYING)
    second = office.call(job(on_lost=on_lost), bodies)
    assert second == "done" if on_lost == "rerun" else second.outcome == "failed"


def test_a_call_that_ends_before_its_body_began_gives_the_slot_back(office: Office, bodies: Bodies) -> None:
    """As a task does that is cancelled right after its claim was granted."""
    steps = Call(office.keeper, job(), Work(bodies)).steps()
    step = next(steps)
    while not isinstance(step, BodyStep):
        assert isinstance(step, StoreStep)
        step = steps.send(office.node.do(step.flow))
    release = steps.throw(KeyboardInterrupt())
    assert isinstance(release, StoreStep)
    answer = office.node.do(release.flow)
    with pytest.raises(KeyboardInterrupt):
        steps.send(answer)
    assert office.record(NOON).state is State.DUE
    office.call(job(), bodies)
    assert bodies.ran == [NOON.key]


def test_the_end_is_said_again_until_the_store_has_heard_it(office: Office, store: Wire, bodies: Bodies) -> None:
    bodies.act = lambda _run: store.lose_next("swap", "before", 3)
    office.call(job(), bodies)
    assert office.record(NOON).outcome is Outcome.SUCCEEDED


def test_a_finish_whose_reply_is_lost_is_recorded_once(office: Office, store: Wire, bodies: Bodies) -> None:
    bodies.act = lambda _run: store.lose_next("swap", "after", 1)
    office.call(job(), bodies)
    assert office.record(NOON).outcome is Outcome.SUCCEEDED
    assert office.naps == []


def test_an_end_that_cannot_be_recorded_is_an_error(office: Office, store: Wire, bodies: Bodies) -> None:
    def gone(_run: Run) -> None:
        store.lose = lambda _call: "before"

    bodies.act = gone
    with pytest.raises(
        StoreUnavailable, match=r"billing@2026-03-29T12:00:00Z succeeded, but that could not be recorded"
    ):
        office.call(job(lease="30s"), bodies)
    assert sum(office.naps) < 30
    store.lose = lambda _call: ""
    assert office.record(NOON).state is State.RUNNING


def test_a_store_that_does_not_answer_means_that_nothing_runs(office: Office, store: Wire, bodies: Bodies) -> None:
    store.lose = lambda _call: "before"
    with pytest.raises(StoreUnavailable):
        office.call(job(), bodies)
    assert bodies.ran == []


def test_a_store_that_answers_too_slowly_means_that_nothing_runs(office: Office, store: Wire, bodies: Bodies) -> None:
    office.call(job(), bodies, when=START - QUARTER)
    bodies.ran.clear()
    store.slow = 25
    with pytest.raises(StoreUnavailable, match=r"Z was not run: the store answers too slowly for a lease of 30s"):
        office.call(job(lease="30s"), bodies, when=START)
    assert bodies.ran == []
    assert office.record(NOON).state is State.DUE


def test_a_claim_whose_reply_is_lost_runs_once(office: Office, store: Wire, bodies: Bodies) -> None:
    office.node.do(office.node.ledger.jobs.declare("billing", job().spec, START - QUARTER))
    store.lose_next("swap", "after")
    office.call(job(), bodies)
    assert bodies.ran == [NOON.key]


# --- trust ----------------------------------------------------------------------------------------------------------


def test_a_body_whose_trust_ends_is_stopped_before_its_lease_lapses(
    office: Office, clock: HandClock, bodies: Bodies
) -> None:
    def long_run(run: Run) -> None:
        clock.turn(24.5)
        assert not run.trusted
        office.keeper.watch()
        pytest.fail("it went on")

    bodies.act = long_run
    with pytest.raises(LeaseLost, match=r"12:00:00Z was stopped: it could not be renewed in time"):
        office.call(job(lease="30s"), bodies)
    record = office.record(NOON)
    assert (record.outcome, record.reason) == (Outcome.FAILED, "stopped: it could not be renewed in time")


def test_a_body_that_catches_every_exception_is_stopped_all_the_same(
    office: Office, clock: HandClock, bodies: Bodies
) -> None:
    def stubborn(_run: Run) -> None:
        clock.turn(60)
        try:
            office.keeper.watch()
        except Exception:
            pytest.fail("it could catch it")

    bodies.act = stubborn
    with pytest.raises(LeaseLost):
        office.call(job(lease="30s"), bodies)


def test_a_check_in_the_body_says_why_it_must_stop(office: Office, clock: HandClock, bodies: Bodies) -> None:
    def careful(run: Run) -> None:
        run.check()
        clock.turn(60)
        run.check()

    bodies.act = careful
    with pytest.raises(LeaseLost, match=r"12:00:00Z lost its lease: it could not be renewed in time"):
        office.call(job(lease="30s"), bodies)


@pytest.mark.parametrize("on_lost", ["skip", "rerun"])
def test_a_body_that_asks_before_it_is_told_was_stopped_and_did_not_fail_by_itself(
    on_lost: str, office: Office, clock: HandClock
) -> None:
    """Trust ends by the clock. A body that checks it may know before the keeper has looked."""

    def body(run: Run) -> None:
        clock.turn(29)
        run.check()

    with pytest.raises(LeaseLost, match=r"12:00:00Z lost its lease: it could not be renewed in time"):
        office.call(job(on_lost=on_lost, lease="30s"), body)
    record = office.record(NOON)
    assert record.state is (State.CLOSED if on_lost == "skip" else State.RETRYING)
    assert (record.reason or record.past[-1].end).endswith("lost its lease: it could not be renewed in time")


def test_a_lock_that_a_body_lost_is_a_failure_of_its_own(office: Office) -> None:
    def body(_run: Run) -> None:
        raise LeaseLost("the lock is no longer ours")

    with pytest.raises(LeaseLost):
        office.call(job(on_lost="rerun"), body)
    assert office.record(NOON).outcome is Outcome.FAILED


def test_a_timeout_stops_the_body_and_counts_as_a_failure(office: Office, clock: HandClock, bodies: Bodies) -> None:
    def long_run(_run: Run) -> None:
        clock.turn(61)
        office.keeper.watch()

    bodies.act = long_run
    with pytest.raises(TimedOut, match=r"12:00:00Z timed out after 1m"):
        office.call(job(timeout="1m", retries=1), bodies)
    record = office.record(NOON)
    assert (record.state, record.failures) == (State.RETRYING, 1)


def test_who_is_asked_to_stop_is_stopped_and_not_run_again(office: Office, clock: HandClock, bodies: Bodies) -> None:
    def long_run(_run: Run) -> None:
        office.node.do(office.node.ledger.ask(NOON, "replaced by hand"))
        clock.turn(6)
        office.keeper.renew()

    bodies.act = long_run
    with pytest.raises(LeaseLost, match="asked to stop: replaced by hand"):
        office.call(job(lease="30s", on_lost="rerun"), bodies)
    record = office.record(NOON)
    assert (record.outcome, record.reason) == (Outcome.FAILED, "stopped: asked to stop: replaced by hand")


def test_that_a_run_was_asked_to_stop_too_late_stays_on_record(
    office: Office, clock: HandClock, bodies: Bodies
) -> None:
    """It succeeded without a trace of the request."""
    bodies.act = lambda _run: office.node.do(office.node.ledger.ask(NOON, "cancelled by ada: wrong month"))
    office.call(job(), bodies)
    record = office.record(NOON)
    why = "it was asked to stop, but ended by itself: cancelled by ada: wrong month"
    assert (record.outcome, record.reason) == (Outcome.SUCCEEDED, why)


def test_a_body_that_was_out_of_reach_and_taken_over_is_told_so(store: Wire, clock: HandClock, bodies: Bodies) -> None:
    here, there = Office(store), Office(store)
    rerun = job(lease="30s", on_lost="rerun")
    for _ in range(100):
        there.node.do(there.node.ledger.overdue())
        clock.turn(0.5)

    def frozen(_run: Run) -> str:
        bodies.act = lambda run: run.attempt
        for _ in range(61):
            clock.turn(0.5)
            there.node.do(there.node.ledger.overdue())
        assert there.call(rerun, bodies) == 2
        return "late"

    bodies.act = frozen
    with pytest.raises(
        LeaseLost,
        match=r"12:00:00Z succeeded, but web-[0-9]+ has it now; its effects with a fence were refused, others were not",
    ):
        here.call(rerun, bodies)
    assert bodies.ran == [NOON.key, NOON.key]
    assert here.record(NOON).grant == 2


# --- older slots ----------------------------------------------------------------------------------------------------


def abandon(office: Office, declaration: Any, bodies: Bodies) -> None:
    """A holder that dies in its body: nothing is said about its end."""
    steps = Call(office.keeper, declaration, Work(bodies)).steps()
    step = next(steps)
    while not isinstance(step, BodyStep):
        assert isinstance(step, StoreStep)
        step = steps.send(office.node.do(step.flow))
    step.work()
    for lease in office.keeper._kept():
        office.keeper.drop(lease)


def test_the_next_call_takes_over_an_older_slot_before_its_own(store: Wire, bodies: Bodies) -> None:
    dead, alive = Office(store), Office(store)
    abandon(dead, job(on_lost="rerun"), bodies)
    watch(alive, 900)
    alive.call(job(on_lost="rerun"), bodies, take_over=True)
    assert bodies.ran == [NOON.key, NOON.key, "billing@2026-03-29T12:15:00Z"]
    assert alive.record(NOON).outcome is Outcome.SUCCEEDED


def test_under_skip_the_next_call_closes_an_older_slot_as_lost(store: Wire, bodies: Bodies) -> None:
    dead, alive = Office(store), Office(store)
    abandon(dead, job(), bodies)
    watch(alive, 900)
    alive.call(job(), bodies, take_over=True)
    assert bodies.ran == [NOON.key, "billing@2026-03-29T12:15:00Z"]
    assert alive.record(NOON).outcome is Outcome.LOST


def test_a_call_with_arguments_does_not_run_another_slot_with_them(store: Wire, bodies: Bodies) -> None:
    dead, alive = Office(store), Office(store)
    abandon(dead, job(on_lost="rerun"), bodies)
    watch(alive, 900)
    alive.call(job(on_lost="rerun"), bodies)
    assert bodies.ran == [NOON.key, "billing@2026-03-29T12:15:00Z"]
    assert alive.record(NOON).state is State.DUE


def test_an_older_slot_that_fails_again_does_not_keep_the_own_one_from_running(office: Office, bodies: Bodies) -> None:
    def fails(_run: Run) -> None:
        raise Boom

    bodies.act = fails
    with pytest.raises(Boom):
        office.call(job(retries=2), bodies)
    office.hand.turn(QUARTER.total_seconds())
    with pytest.raises(Boom):
        office.call(job(retries=2), bodies, take_over=True)
    assert bodies.ran == [NOON.key, NOON.key, "billing@2026-03-29T12:15:00Z"]
    assert office.record(NOON).failures == 2


def test_a_call_whose_own_slot_does_not_run_raises_what_its_rerun_raised(office: Office, bodies: Bodies) -> None:
    """It returned that the slot had failed already, and no word of the rerun."""

    def fails(run: Run) -> None:
        raise Boom(run.key)

    bodies.act = fails
    with pytest.raises(Boom):
        office.call(job(), bodies)
    again = office.node.do(Operator(office.node.ledger, "ada").rerun(NOON)).slot
    office.hand.turn(20)
    with pytest.raises(Boom):
        office.call(job(), bodies, take_over=True)
    assert office.record(again).outcome is Outcome.FAILED
    assert bodies.ran == [NOON.key, NOON.key]
    started = [event.seconds for event in office.events if event.what is What.STARTED]
    assert started[1] == pytest.approx(20, abs=1)  # since it was asked for


# --- standing by ----------------------------------------------------------------------------------------------------


def test_who_stands_by_takes_over_when_the_holder_goes_away(store: Wire, clock: HandClock, bodies: Bodies) -> None:
    dead, alive = Office(store), Office(store)
    rerun = job(on_lost="rerun", lease="30s")
    abandon(dead, rerun, bodies)
    alive.call(rerun, bodies, stand_by=True)
    assert bodies.ran == [NOON.key, NOON.key]
    assert alive.record(NOON).grant == 2
    assert 30 <= clock.seconds <= 32.5  # it has to have watched the store's clock for a whole lease


def test_who_stands_by_ends_with_the_slot(store: Wire, bodies: Bodies) -> None:
    here, there = Office(store), Office(store)
    rerun = job(on_lost="rerun", lease="30s")
    answers = []

    def meanwhile(_run: Run) -> None:
        steps = Call(there.keeper, rerun, Work(bodies), stand_by=True).steps()
        answers.append(steps)
        step = next(steps)
        while isinstance(step, StoreStep):
            step = steps.send(there.node.do(step.flow))

    bodies.act = meanwhile
    here.call(rerun, bodies)
    answer = there.play(_rest(answers[0]))
    assert answer.outcome == "succeeded"
    assert bodies.ran == [NOON.key]


def _rest(steps: Any) -> Any:
    """Steps that stopped at a nap, to go on with."""
    step = steps.send(None)
    while True:
        answer = yield step
        try:
            step = steps.send(answer)
        except StopIteration as stop:
            return stop.value


def test_declaring_puts_the_schedule_on_record_once(office: Office, store: Wire, bodies: Bodies) -> None:
    office.call(job(), bodies)
    store.calls.clear()
    office.call(job(), bodies, when=START + QUARTER - QUARTER)
    assert store.calls == ["scan", "swap"] or store.calls == ["swap"]
    office.call(job(schedule="0 * * * *"), bodies)
    known = office.node.ledger.know.job("billing")
    assert known
    assert known.job
    assert len(known.job.specs) == 2
    assert known.job.firing == ""


def test_the_day_of_utc_is_utc() -> None:
    assert declare("a", "@daily").slot_named(date(2026, 3, 29)) == Slot("a", datetime(2026, 3, 29, tzinfo=UTC))


# --- found by trying to break it --------------------------------------------------------------------------------------


def test_a_host_with_a_wrong_clock_does_not_close_the_slots_of_the_others(store: Wire, bodies: Bodies) -> None:
    """It is the first to call a new job, a month ahead; the job's floor must not be there."""
    with pytest.raises(ClockOff):
        Office(store, 30 * 86400.0).call(job(), bodies)
    Office(store).call(job(), bodies)
    assert bodies.ran == [NOON.key]


def test_a_slot_that_is_to_come_is_refused_at_once_and_closes_nothing(office: Office, bodies: Bodies) -> None:
    with pytest.raises(BadInput, match=r"is due in 15m; a slot does not run before its time"):
        office.call(job(), bodies, when=START + QUARTER)
    office.call(job(), bodies)
    assert bodies.ran == [NOON.key]


@pytest.mark.parametrize("value", ['{"v":99,"state":"running"}', "garbage"])
@pytest.mark.parametrize("key", ["run/billing/2026-03-29T11:45:00Z", "run/billing/nonsense"])
@pytest.mark.parametrize("take_over", [True, False])
def test_an_older_slot_that_nobody_can_read_does_not_keep_the_job_from_running(
    office: Office, store: Wire, bodies: Bodies, value: str, key: str, take_over: bool
) -> None:
    """As after a roll-back from a newer version."""
    store.swap([Write(key, 0, value, Mark.OPEN, at=START - QUARTER, ttl=timedelta(0))], store.load([]).epoch.seen)
    office.call(job(), bodies, take_over=take_over)
    assert bodies.ran == [NOON.key]


def test_a_dead_run_is_found_among_many_that_wait_for_a_retry(store: Wire, bodies: Bodies) -> None:
    """Calls with arguments cannot retry another slot, and must not be blinded by those."""
    dead, alive = Office(store), Office(store)

    def fails(_run: Run) -> None:
        raise Boom

    bodies.act = fails
    for _ in range(25):
        with pytest.raises(Boom):
            alive.call(job(schedule="every 1m", retries=1, overlap="allow"), bodies)
        alive.hand.turn(60)
    bodies.act = lambda _run: None
    abandon(dead, job(schedule="every 1m", lease="1m", overlap="allow"), bodies)
    lost = Slot("billing", START + timedelta(minutes=25))
    watch(alive, 90)
    alive.call(job(schedule="every 1m", overlap="allow"), bodies)
    assert alive.record(lost).outcome is Outcome.LOST


def test_an_older_slot_that_never_started_is_not_started_too_late(office: Office, bodies: Bodies) -> None:
    strict = job(start_within="1m")
    office.node.do(office.node.ledger.jobs.declare("billing", strict.spec, START))
    office.node.do(office.node.ledger.put({NOON: Queue()}))
    office.hand.turn(QUARTER.total_seconds())
    office.call(strict, bodies, take_over=True)
    assert bodies.ran == ["billing@2026-03-29T12:15:00Z"]
    assert office.record(NOON).reason == "too late to start"


# --- progress ---


def test_how_far_a_body_is_stands_in_the_store_about_a_second_later(office: Office, clock: HandClock) -> None:
    """However often it says so, and without waiting for the lease to be renewed; each attempt begins anew."""
    seen: list[object] = []

    def body(run: Run) -> None:
        for done in range(31):
            run.progress(done, 200)
        office.keeper.renew()
        seen.append(office.record(NOON).progress)
        clock.turn(1.0)
        office.keeper.renew()
        seen.append(office.record(NOON).progress)

    office.call(job(on_lost="rerun"), body)
    assert seen == [None, (30, 200)]
    assert office.record(NOON).progress == (30, 200)


@pytest.mark.parametrize(("done", "total"), [(3, 2), (-1, 2), (0.5, 1), (True, 1), (1, "2")])
def test_progress_that_cannot_be_is_refused(office: Office, done: Any, total: Any) -> None:
    with pytest.raises(BadInput, match="progress is a number of a total"):
        office.call(job(), lambda run: run.progress(done, total))


# --- processes of one call, as a crontab starts them ------------------------------------------------------------------


def _dies(store: Wire, declared: Declaration) -> None:
    """A process that is killed while it runs the slot of noon."""
    dead = Office(store)

    def body(_run: Run) -> None:
        dies(dead)
        dead.hand.turn(60)

    with pytest.raises(StoreUnavailable):
        dead.call(declared, body, when=NOON)
    dead.hand.turn(-60)


@pytest.mark.parametrize(
    ("on_lost", "ran", "outcome"), [("skip", [1], Outcome.LOST), ("rerun", [0, 1], Outcome.SUCCEEDED)]
)
def test_a_new_process_waits_until_it_may_act_on_what_has_lapsed_and_misses_no_slot(
    store: Wire, on_lost: OnLost, ran: list[int], outcome: Outcome
) -> None:
    declared = job(on_lost=on_lost, lease="30s")
    _dies(store, declared)
    store.clock.turn(15 * 60)
    fresh, seen = Office(store), list[int]()
    fresh.call(declared, lambda run: seen.append((run.at - START) // QUARTER), take_over=True)
    assert (seen, fresh.record(NOON).outcome) == (ran, outcome)
    assert fresh.record(Slot("billing", START + QUARTER)).outcome is Outcome.SUCCEEDED
    assert 30 <= sum(fresh.naps) < 32


def test_one_process_after_the_other_watches_the_clock_for_the_next(store: Wire) -> None:
    """Each of them waits for nobody; the third one knows enough of the clock. It was not there while the dead could
    have spoken, so it hears them first, for a quarter of the lease."""
    declared = job(on_lost="skip", lease="30s")
    _dies(store, declared)
    store.clock.turn(31)
    for _ in range(2):
        passer_by = Office(store)
        steps, answer = Call(passer_by.keeper, declared, Work(lambda _run: None)).steps(NOON), None
        for _ in range(5):  # it learns of the job, looks, recalls the clock and leaves it, and is killed
            step = steps.send(answer)
            assert isinstance(step, StoreStep)
            answer = passer_by.node.do(step.flow)
        store.clock.turn(20)
    last = Office(store)
    assert isinstance(last.call(declared, lambda _run: None, when=NOON), Skipped)
    assert (last.record(NOON).outcome, last.naps) == (Outcome.LOST, [0.5] * 17)
