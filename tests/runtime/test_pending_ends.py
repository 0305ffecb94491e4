"""What ended is said until it is said: by the call, by its process, by the next process of the machine."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from cronce.errors import NotRecorded, StoreUnavailable
from cronce.model import Slot
from cronce.protocol.commands import Busy, Finish
from cronce.protocol.record import Outcome, State
from cronce.runtime.attempt import Work
from cronce.runtime.call import Call
from cronce.runtime.declare import Declaration
from cronce.runtime.journal import Journal, PendingEnd, UnaskedCall
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.run import Run, Skipped
from cronce.runtime.why import Case, why
from tests.runtime.office import Office, job, watch
from tests.runtime.shelf import START, HandClock, ReadOnly

SLOT = Slot("billing", START)
LATER = Slot("billing", START + timedelta(minutes=15))


@pytest.fixture
def store(clock: HandClock) -> ReadOnly:
    return ReadOnly(clock)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "journal")


@pytest.fixture
def office(store: ReadOnly, folder: str) -> Office:
    return Office(store, journal=folder)


def written(folder: str) -> list[PendingEnd | UnaskedCall]:
    return Journal(folder).all()


def refusing(store: ReadOnly, ran: list[str]) -> Callable[[Run], None]:
    """A job function that ends when its store takes no more writes."""

    def body(run: Run) -> None:
        ran.append(run.key)
        store.refuses = True

    return body


def ran_unsaid(office: Office, store: ReadOnly, declared: Declaration) -> list[str]:
    """A run that ended, and whose call gave up saying so."""
    ran: list[str] = []
    with pytest.raises(NotRecorded, match="succeeded, but that could not be recorded: this store is a replica; cronce"):
        office.call(declared, refusing(store, ran))
    return ran


@pytest.mark.parametrize("on_lost", ["skip", "rerun"])
def test_a_read_only_store_is_told_as_soon_as_it_takes_writes(
    office: Office, store: ReadOnly, clock: HandClock, folder: str, on_lost: str
) -> None:
    """The error counted as one that does not pass, and the end was dropped at once: the slot was on record as lost, or
    its own process took it over and ran it again."""
    declared = job(on_lost=on_lost, lease="30s")
    assert ran_unsaid(office, store, declared) == [SLOT.key]
    for _ in range(60):
        clock.turn(0.5)
        assert office.keeper.renew() == pytest.approx(clock.boot() + 0.5)
    assert [(end.run, end.what) for end in written(folder) if isinstance(end, PendingEnd)] == [(SLOT.cell, "succeeded")]
    store.refuses = False
    assert office.node.do(office.node.ledger.gone([SLOT.cell])) == []  # to itself it is not gone
    clock.turn(0.5)
    assert office.keeper.renew() is None
    assert office.record(SLOT).outcome is Outcome.SUCCEEDED
    assert written(folder) == []


@pytest.mark.parametrize("on_lost", ["skip", "rerun"])
def test_a_call_says_it_twice_a_second_while_it_may_pass_and_its_lease_is_trusted(
    office: Office, store: ReadOnly, clock: HandClock, on_lost: str
) -> None:
    def body(_run: Run) -> None:
        store.lose = lambda _call: "before"

    with pytest.raises(NotRecorded, match="could not be recorded: the call was lost; cronce keeps trying to record it"):
        office.call(job(on_lost=on_lost, lease="30s"), body)
    assert clock.seconds == pytest.approx(24.2)
    assert max(office.naps) == 0.5
    store.lose = lambda _call: ""
    assert office.keeper.renew() is None
    assert office.record(SLOT).outcome is Outcome.SUCCEEDED


def test_the_next_call_says_it_first_and_has_its_turn(office: Office, store: ReadOnly, clock: HandClock) -> None:
    """Otherwise the next slot would be skipped, since the one before it still ran."""
    declared = job(on_lost="skip", lease="5m")
    assert ran_unsaid(office, store, declared) == [SLOT.key]
    store.refuses = False
    clock.turn(15 * 60 - clock.seconds)
    ran: list[str] = []
    office.call(declared, lambda run: ran.append(run.key))
    assert ran == [LATER.key]
    assert office.record(SLOT).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("on_lost", ["skip", "rerun"])
def test_what_a_process_could_not_say_the_next_on_its_machine_says(
    office: Office, store: ReadOnly, clock: HandClock, folder: str, on_lost: str
) -> None:
    """It was killed: nothing was written at its end, for there was none."""
    declared = job(on_lost=on_lost, lease="30s")
    assert ran_unsaid(office, store, declared) == [SLOT.key]
    store.refuses = False
    clock.turn(15 * 60)
    ran: list[str] = []
    heir = Office(store, journal=folder)
    watch(heir, 40)  # long enough to take over what lapsed
    heir.call(declared, lambda run: ran.append(run.key))
    assert ran == [LATER.key]
    record = heir.record(SLOT)
    assert (record.outcome, record.holder) == (Outcome.SUCCEEDED, office.node.holder)
    assert written(folder) == []


def test_it_is_on_disk_before_the_call_waits_for_the_store(office: Office, store: ReadOnly, folder: str) -> None:
    seen: list[int] = []

    def body(_run: Run) -> None:
        store.lose = lambda _call: "before"

    call = Call(office.keeper, job(on_lost="skip", lease="30s"), Work(body))
    with pytest.raises(NotRecorded):
        office.play(call.steps(), lambda: seen.append(len(written(folder))))
    assert set(seen) == {1}


def test_what_another_has_acted_on_is_told_and_dropped(
    office: Office, store: ReadOnly, clock: HandClock, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    declared, other = job(on_lost="rerun", lease="30s"), Office(store)
    assert ran_unsaid(office, store, declared) == [SLOT.key]
    store.refuses = False
    watch(other, 40)
    ran: list[str] = []
    other.call(declared, lambda run: ran.append(run.key))
    assert ran == [SLOT.key]
    assert office.keeper.renew() is None
    assert f"{SLOT.key} succeeded on {office.node.holder}, but it was closed or taken over before" in caplog.text
    assert written(folder) == []


def test_what_was_never_started_is_given_back_later(
    office: Office, store: ReadOnly, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = job(on_lost="skip", lease="30s")

    def enter(*_: object) -> None:
        store.refuses = True
        raise RuntimeError("no room")

    monkeypatch.setattr("cronce.runtime.steps._unshielded", enter)
    with pytest.raises(RuntimeError, match="no room"):
        office.call(declared, lambda _run: None)
    assert [end.what for end in written(folder) if isinstance(end, PendingEnd)] == ["given back, never started"]
    store.refuses = False
    assert office.keeper.renew() is None
    assert office.record(SLOT).state is State.DUE


# --- calls that found no store ---------------------------------------------------------------------------------------


def asks_in_vain(office: Office, store: ReadOnly, declared: Declaration) -> None:
    """A call that gets no answer; then the store is back."""
    store.lose = lambda _call: "before"
    with pytest.raises(StoreUnavailable):
        office.call(declared, lambda _run: None)
    store.lose = lambda _call: ""


def test_a_call_that_could_not_ask_is_on_record_with_the_next_contact(
    office: Office, store: ReadOnly, clock: HandClock, folder: str
) -> None:
    """There was no record of it, and `why` said that nobody has claimed it."""
    declared = job()
    office.call(declared, lambda _run: None)
    clock.turn(15 * 60)
    asks_in_vain(office, store, declared)
    clock.turn(60)
    office.node.do(office.keeper.pending_ends.report())
    assert len(written(folder)) == 1  # another may still call for it in time
    clock.turn(14 * 60 + 1)
    assert not isinstance(office.call(declared, lambda _run: None), Skipped)
    assert written(folder) == []
    assert (office.record(LATER).outcome, office.record(LATER).reason) == (Outcome.SKIPPED, "too late to start")
    found = office.node.do(why("billing", LATER, store.traits))
    assert found is not None
    (story,) = found.stories
    assert story.case is not Case.UNCLAIMED
    (refused,) = story.refused
    assert refused.refused.why.endswith(": could not ask the store: the call was lost")
    assert refused.refused.at == START + timedelta(minutes=15)


def test_what_others_have_on_record_is_not_closed_by_who_could_not_ask(
    office: Office, store: ReadOnly, clock: HandClock
) -> None:
    """One host ran the slot and failed, so that it is retried; another could not ask for it meanwhile."""
    declared = job(retries=3, backoff="1h")
    with pytest.raises(ZeroDivisionError):
        office.call(declared, lambda _run: 1 / 0)
    asks_in_vain(office, store, declared)
    clock.turn(16 * 60)
    office.node.do(office.keeper.pending_ends.report())
    assert office.record(SLOT).state is State.RETRYING


def test_under_missed_all_a_slot_that_nobody_could_ask_for_is_due_and_runs_with_the_next_call(
    office: Office, store: ReadOnly, clock: HandClock, folder: str
) -> None:
    declared = job(missed="all")
    office.call(declared, lambda _run: None)
    clock.turn(15 * 60)
    asks_in_vain(office, store, declared)
    clock.turn(15 * 60)
    office.node.do(office.keeper.pending_ends.report())
    assert (office.record(LATER).state, written(folder)) == (State.DUE, [])


def test_a_call_without_a_schedule_that_could_not_ask_stays_open_to_who_calls_again(
    office: Office, store: ReadOnly, clock: HandClock, folder: str
) -> None:
    """A message that is delivered again, say."""
    call = UnaskedCall(LATER.key, "could not ask the store: no answer", "web-1", LATER.at)
    Journal(folder).write([call])
    clock.turn(30 * 60)
    office.node.do(office.keeper.pending_ends.report())
    assert written(folder) == []
    assert store.load([LATER.cell]).cells[0].version == 0


# --- how long it ran, and whether it still does ---


def hang(store: ReadOnly, times: int) -> None:
    """So many writes hang for some seconds each, and come to nothing."""
    left = [times]

    def lose(call: str) -> str:
        if call != "swap" or not left[0]:
            return ""
        left[0] -= 1
        store.clock.turn(2.5)
        return "before"

    store.lose = lose


@pytest.mark.parametrize("passing", [True, False])
def test_how_long_it_took_is_measured_when_it_ends_and_not_when_that_is_said(
    office: Office, store: ReadOnly, clock: HandClock, folder: str, *, passing: bool
) -> None:
    """A job function of two seconds was on record as one of six to ten seconds, after an outage."""

    def body(_run: Run) -> None:
        clock.turn(2)
        if passing:
            hang(store, 4)
        else:
            store.refuses = True

    declared = job(lease="5m")
    if passing:
        office.call(declared, body)
    else:
        with pytest.raises(NotRecorded):
            office.call(declared, body)
        clock.turn(9)
        store.refuses = False
        (left,) = written(folder)
        assert isinstance(left, PendingEnd)
        assert isinstance(left.word, Finish)
        assert left.word.ended == START + timedelta(seconds=2)
        office.keeper.renew()
    assert clock.seconds > 10
    record = office.record(SLOT)
    assert (record.outcome, record.took()) == (Outcome.SUCCEEDED, timedelta(seconds=2))


def test_a_failure_that_is_tried_again_ended_when_it_did(office: Office, store: ReadOnly, clock: HandClock) -> None:
    def body(_run: Run) -> None:
        clock.turn(2)
        hang(store, 4)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        office.call(job(lease="5m", retries=1), body)
    assert clock.seconds > 10
    assert [past.ended for past in office.record(SLOT).past] == [START + timedelta(seconds=2)]


def test_an_end_that_an_earlier_version_wrote_down_is_read(office: Office, store: ReadOnly, folder: str) -> None:
    ran_unsaid(office, store, job(lease="5m"))
    (path,) = Path(folder).iterdir()
    fields = json.loads(path.read_text())
    assert fields["word"].pop("ended") is not None
    path.write_text(json.dumps(fields) + "\n")
    (end,) = written(folder)
    assert isinstance(end, PendingEnd)
    assert isinstance(end.word, Finish)
    assert (end.word.outcome, end.word.ended) == (Outcome.SUCCEEDED, None)


def test_the_next_slot_waits_for_an_end_that_this_process_has_yet_to_say(
    office: Office, store: ReadOnly, clock: HandClock
) -> None:
    """After an outage another thread of the same process closed the next slot, since this one \"still ran\"."""
    declared, other = job(lease="5m"), Office(store)
    answers: list[object] = []

    def claim(by: Office) -> object:
        return by.node.do(by.node.ledger.claim([Wanted(LATER, declared.terms(LATER, inferred=False))]))[0]

    def body(_run: Run) -> None:
        for _ in range(15):
            clock.turn(60)
            office.keeper.renew()
        store.lose_next("swap", "before", 3)

    office.play(office.call_steps(declared, body), lambda: answers.append(claim(office)))
    assert [(answer.run if isinstance(answer, Busy) else answer) for answer in answers] == [SLOT.cell]
    assert office.record(SLOT).took() == timedelta(minutes=15)
    assert isinstance(claim(other), Grant)


def test_what_a_process_knows_of_the_ends_of_others_it_knows_while_they_are_to_be_said(
    office: Office, store: ReadOnly, folder: str
) -> None:
    """It took the runs of others for its own until it ended, if it once said their ends and got no answer."""
    assert ran_unsaid(office, store, job(on_lost="rerun", lease="30s")) == [SLOT.key]
    heir = Office(store, journal=folder)
    know, (end,) = heir.node.ledger.know, written(folder)
    assert isinstance(end, PendingEnd)
    heir.node.do(heir.keeper.pending_ends.report())  # the store refuses
    assert (know.own, know.ended) == ({end.word.fence}, {end.word.fence: SLOT.cell})
    store.refuses = False
    assert office.keeper.renew() is None  # it says so itself
    heir.node.do(heir.keeper.pending_ends.report())
    assert (know.own, know.ended) == (set(), {})


def test_one_that_the_store_does_not_answer_is_still_to_be_said(office: Office, store: ReadOnly, folder: str) -> None:
    assert ran_unsaid(office, store, job(on_lost="rerun", lease="30s")) == [SLOT.key]
    heir = Office(store, journal=folder)
    for _ in range(2):
        heir.node.do(heir.keeper.pending_ends.report())
        assert len(heir.node.ledger.know.own) == 1
    store.refuses = False
    heir.node.do(heir.keeper.pending_ends.report())
    assert (heir.node.ledger.know.own, written(folder)) == (set(), [])
