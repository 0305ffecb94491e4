"""The keeper: renewals in one batch, trust that ends in time, threads only while something is held."""

import threading
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pytest

from cronce import Cronce
from cronce.clock import Clock, SystemClock
from cronce.errors import LeaseLost, StoreUnavailable
from cronce.events import What
from cronce.model import Boot, Slot, lock_cell
from cronce.protocol.commands import Finish
from cronce.protocol.lease import LOCK_LEASE
from cronce.protocol.record import Outcome, State
from cronce.protocol.terms import Terms
from cronce.runtime.client import patience
from cronce.runtime.keeper import NOT_RENEWED, Keeper, Lease, LeaseEnd, RepeatingThread
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.node import Node
from cronce.stores.memory import TRAITS, MemoryStore
from tests.house.wait import wait_until
from tests.runtime.office import Office
from tests.runtime.shelf import START, Ahead, HandClock, Wire

ROOT = Path(__file__).parents[2]
LEASE = timedelta(seconds=30)  # trust ends 6 s before it, and a renewal is due every 8 s


def held(
    office: Office,
    job: str = "billing",
    told: Callable[[LeaseEnd], None] = lambda _over: None,
    *,
    attempts: int = 1,
    lease: timedelta = LEASE,
    **more: object,
) -> Lease:
    terms = Terms(lease, "rerun", "allow", attempts=attempts, outside=True)
    (grant,) = office.node.do(office.node.ledger.claim([Wanted(Slot(job, START), terms)]))
    assert isinstance(grant, Grant)
    kept = Lease(grant, office.node.clock, told, **more)  # type: ignore[arg-type]
    office.keeper.keep(kept)
    office.keeper.begin(kept)
    return kept


def test_all_leases_are_renewed_in_one_call(office: Office, store: Wire, clock: HandClock) -> None:
    leases = [held(office, f"job-{number}") for number in range(50)]
    clock.turn(8)
    store.calls.clear()
    office.keeper.renew()
    assert store.calls == ["swap"]
    clock.turn(20)
    assert all(lease.trusted for lease in leases)


def test_nothing_is_renewed_before_it_is_due(office: Office, store: Wire, clock: HandClock) -> None:
    held(office)
    clock.turn(7.9)
    store.calls.clear()
    assert office.keeper.renew() == pytest.approx(clock.boot() + 0.1, abs=0.01)
    assert store.calls == []


def test_two_renewals_may_fail(office: Office, store: Wire, clock: HandClock) -> None:
    lease = held(office)
    for _ in range(2):
        clock.turn(8)
        store.lose_next("swap", "before", 99)
        office.keeper.renew()
    store.lose = lambda _call: ""
    clock.turn(2.7)
    office.keeper.renew()
    clock.turn(20)
    assert lease.trusted


def test_a_call_whose_lease_cannot_be_kept_gives_its_slot_back() -> None:
    """No thread could be had for the keeper: the slot was held, and not run, for as long as the process lived."""
    with Cronce(store=MemoryStore()) as cron:
        job = cron.job(every="1h", name="job", lease="30s")(lambda: 1)
        right = threading.Thread.start

        def start(thread: threading.Thread) -> None:
            if thread.name == "cronce-watch":
                raise RuntimeError("can't start new thread")
            right(thread)

        with patch.object(threading.Thread, "start", start), pytest.raises(RuntimeError):
            job()
        assert cron.at_work().held == []
        assert job() == 1


def test_an_end_is_recorded_though_no_thread_can_be_had_that_watches_whether_it_hangs(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that was about to record it died of that, and the end waited for the next run."""
    lease = held(office)
    office.keeper.drop(lease, unrecorded=True)
    end = office.keeper.pending_ends.end_of(lease.grant, Finish(lease.grant.fence, Outcome.SUCCEEDED))
    office.keeper.record_later(end)

    def refuse(_by: float) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(office.keeper._watching, "wake", refuse)
    assert office.keeper.renew() is None
    assert len(office.keeper.pending_ends) == 0


def test_without_trust_a_silent_store_is_asked_twice_a_second(office: Office, store: Wire, clock: HandClock) -> None:
    """It was asked fifty times a second, for as long as it was away."""
    held(office)
    clock.turn(29)
    store.lose_next("swap", "before", 99)
    assert office.keeper.renew() == pytest.approx(clock.boot() + 0.5)


def test_trust_ends_before_the_lease_and_its_holder_is_told_once(office: Office, store: Wire, clock: HandClock) -> None:
    told: list[LeaseEnd] = []
    lease = held(office, told=told.append)
    store.lose = lambda _call: "before"
    clock.turn(23.99)
    office.keeper.renew()
    office.keeper.watch()
    assert [lease.trusted, told] == [True, []]
    clock.turn(0.02)
    assert [lease.trusted, told] == [False, []]  # by the clock, before anybody has looked
    office.keeper.watch()
    office.keeper.watch()
    assert told == [NOT_RENEWED]
    with pytest.raises(LeaseLost, match="billing@2026-03-29T12:00:00Z lost its lease: it could not be renewed in"):
        lease.check()


def test_who_does_not_let_go_is_told_again_and_more_rarely_each_time(office: Office, clock: HandClock) -> None:
    """An exception that was thrown into a body may be lost; one that is busy cleaning up must not be hit by another."""
    told: list[float] = []
    lease = held(office, told=lambda _over: told.append(round(clock.seconds)))
    clock.turn(24)
    for _ in range(60):
        office.keeper.watch()
        clock.turn(1)
    assert told == [24, 29, 39, 59]
    office.keeper.drop(lease)
    clock.turn(100)
    assert office.keeper.watch() is None
    assert len(told) == 4


def test_a_renewal_that_comes_too_late_does_not_bring_trust_back(office: Office, clock: HandClock) -> None:
    lease = held(office)
    clock.turn(25)
    office.keeper.renew()
    assert not lease.trusted


def test_a_machine_that_was_suspended_trusts_nothing_when_it_wakes(office: Office, clock: HandClock) -> None:
    """The boot clock goes on in suspend; the first look after it, by whomever, says so."""
    told: list[LeaseEnd] = []
    lease = held(office, told=told.append)
    clock.turn(3600)
    assert not lease.trusted
    office.keeper.renew()
    assert not lease.trusted
    office.keeper.watch()
    assert told == [NOT_RENEWED]


def test_a_starved_keeper_delays_the_news_and_never_the_truth(office: Office, clock: HandClock) -> None:
    lease = held(office)
    clock.turn(24.01)  # no thread of ours ran in between
    with pytest.raises(LeaseLost):
        lease.check()


def test_who_was_taken_over_is_told_by_whom(store: Wire, clock: HandClock) -> None:
    here, there = Office(store), Office(store)
    told: list[LeaseEnd] = []
    held(here, told=told.append)
    for _ in range(31):
        there.node.do(there.node.ledger.client.probe())
        clock.turn(1)
    terms = Terms(LEASE, "rerun", "allow")
    (grant,) = there.node.do(there.node.ledger.claim([Wanted(Slot("billing", START), terms, known=True)]))
    assert isinstance(grant, Grant)
    here.keeper.renew()
    assert told == [LeaseEnd("lost", f"{there.node.holder} has it now")]
    here.keeper.renew()
    stale = [(event.key, event.detail) for event in here.events if event.what is What.STALE]
    assert stale == [(Slot("billing", START).cell, there.node.holder)]


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED])
@pytest.mark.parametrize("again", [False, True])
def test_a_renewal_that_hung_until_its_own_run_had_ended_is_no_stale_holder(
    store: Wire, clock: HandClock, outcome: Outcome, *, again: bool
) -> None:
    """It was told as stale by its own holder, once for each renewal that hung in an outage: where the run had succeeded
    that was passed over, where it had failed, or was tried again by another, it was not."""
    here, there = Office(store), Office(store)
    lease = held(here, attempts=3 if again else 1)
    store.hung = lambda: ends(here, there, lease, outcome)
    clock.turn(8)
    here.keeper.renew()
    assert [event for event in here.events if event.what is What.STALE] == []
    retried = again and outcome is Outcome.FAILED
    assert here.record(Slot("billing", START)).holder == (there if retried else here).node.holder


def ends(here: Office, there: Office, lease: Lease, outcome: Outcome) -> None:
    """The run ends, which is on record at once; if it is to be tried again, another process does."""
    here.keeper.drop(lease, unrecorded=True)
    here.node.do(here.node.ledger.finish(lease.grant, outcome))
    there.node.do(there.node.ledger.claim([Wanted(Slot("billing", START), Terms(LEASE, "rerun", "allow"), known=True)]))


def test_a_short_lease_that_is_long_over_makes_no_other_impatient(
    office: Office, store: Wire, clock: HandClock
) -> None:
    """Once a process had held a lease of a few seconds, each renewal of it that took a second counted as hanging."""
    office.keeper.drop(held(office, lease=timedelta(seconds=4)))
    held(office, "report")
    clock.turn(8)
    seen: list[Boot] = []
    store.hung = lambda: seen.append(office.keeper._connection.hangs_at - clock.boot())
    office.keeper.renew()
    assert seen == [pytest.approx(patience(LEASE))]


def test_who_closes_does_not_wait_for_a_thread_that_connects_to_a_silent_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server was stopped by SIGSTOP: 38 to 46 s from SIGTERM to the end, where the grace promised 30."""
    monkeypatch.setattr("cronce.runtime.keeper.KEEPER_CLOSE_WAIT", 0.05)
    store, connects, answers = MemoryStore(traits=TRAITS._replace(shared=True)), threading.Event(), threading.Event()

    def connect() -> MemoryStore:
        connects.set()
        answers.wait(100)
        return store

    keeper = Keeper(Node(store, SystemClock(), connect, lambda _event: None))
    keeper.later("chore", lambda _store: None, soon=True)
    assert connects.wait(60)
    closing = threading.Thread(target=keeper.close, daemon=True)
    closing.start()
    closing.join(60)
    assert not closing.is_alive()
    answers.set()


def test_who_is_asked_to_stop_is_told_with_the_next_renewal(office: Office, clock: HandClock) -> None:
    told: list[LeaseEnd] = []
    held(office, told=told.append)
    office.node.do(office.node.ledger.ask(Slot("billing", START), "a newer one came"))
    clock.turn(8)
    office.keeper.renew()
    assert told == [LeaseEnd("asked", "asked to stop: a newer one came")]


def test_a_run_of_a_call_learns_within_seconds_that_it_is_asked_to_stop(
    office: Office, store: Wire, clock: HandClock
) -> None:
    """It learned that with its next renewal, with a lease of five minutes after 79 s. One that is shorter than that
    asks nothing."""
    told: list[LeaseEnd] = []
    lease = held(office, told=told.append, lease=timedelta(minutes=5))
    lease.listens = True
    office.keeper.keep(lease)
    store.calls.clear()
    clock.turn(4.9)
    assert office.keeper.renew() == pytest.approx(clock.boot() + 0.1, abs=0.01)
    assert (told, store.calls) == ([], [])
    clock.turn(0.2)
    assert office.keeper.renew() == pytest.approx(clock.boot() + 5.0, abs=0.01)
    assert (told, store.calls) == ([], ["load"])
    office.node.do(office.node.ledger.ask(Slot("billing", START), "a newer one came"))
    clock.turn(5.1)
    office.keeper.renew()
    assert told == [LeaseEnd("asked", "asked to stop: a newer one came")]


def test_a_lease_that_was_dropped_gets_no_news(office: Office, store: Wire, clock: HandClock) -> None:
    told: list[LeaseEnd] = []
    lease = held(office, told=told.append)
    office.keeper.drop(lease)
    clock.turn(60)
    store.calls.clear()
    assert office.keeper.watch() is None
    assert office.keeper.renew() is None
    assert (told, store.calls) == ([], [])


def test_a_timeout_ends_it_though_it_could_be_renewed(office: Office, clock: HandClock) -> None:
    told: list[LeaseEnd] = []
    held(office, told=told.append, timeout=timedelta(seconds=40))
    for seconds in (5, 5, 5, 5, 5, 5, 5, 4.875):
        clock.turn(seconds)
        office.keeper.renew()
        office.keeper.watch()
    assert told == []
    clock.turn(0.125)
    office.keeper.watch()
    assert told == [LeaseEnd("timed out", "timed out after 40s")]


@pytest.mark.parametrize("at_most", [timedelta(seconds=70), timedelta(seconds=31), LOCK_LEASE])
def test_a_lock_is_never_renewed_past_its_limit(
    office: Office, store: Wire, clock: HandClock, at_most: timedelta
) -> None:
    told: list[LeaseEnd] = []
    grant = office.node.do(office.node.ledger.acquire(lock_cell("reindex")))
    assert isinstance(grant, Grant)
    lease = Lease(grant, office.node.clock, told.append, at_most=START + at_most)
    office.keeper.keep(lease)
    while lease.trusted:
        clock.turn(1)
        store.calls.clear()
        at_limit = lease.at_limit
        office.keeper.renew()
        assert not (at_limit and store.calls)
        office.keeper.watch()
        (cell,) = store.load([lock_cell("reindex")]).cells
        assert cell.until is not None
        assert cell.until <= START + at_most
    assert told == [LeaseEnd("lost", "it reached its at_most")]
    assert at_most.total_seconds() - 7 <= clock.seconds <= at_most.total_seconds()


def test_a_slow_reply_lets_no_lock_be_renewed_past_its_limit(office: Office, store: Wire, clock: HandClock) -> None:
    """The store's time was taken to be what a reply said that had been on its way for ten seconds: the lock was held
    for ten seconds longer."""
    grant = office.node.do(office.node.ledger.acquire(lock_cell("reindex")))
    assert isinstance(grant, Grant)
    office.keeper.keep(Lease(grant, office.node.clock, lambda _over: None, at_most=START + timedelta(seconds=40)))
    clock.turn(8)
    store.slow = 10
    office.keeper.renew()
    store.slow = 0
    clock.turn(5)
    office.keeper.renew()
    (cell,) = store.load([lock_cell("reindex")]).cells
    assert cell.until == START + timedelta(seconds=40)


def test_the_watch_is_back_for_whichever_ends_first(office: Office, clock: HandClock) -> None:
    began = clock.boot()
    held(office, "trusted", timeout=timedelta(seconds=25))
    assert office.keeper.watch() == began + 24
    held(office, "timed", timeout=timedelta(seconds=20))
    assert office.keeper.watch() == began + 20


def test_what_can_wait_is_written_in_one_go_after_a_while(office: Office, store: Wire, clock: HandClock) -> None:
    done: list[object] = []
    for _ in range(3):
        office.keeper.later("chore", done.append)
    assert office.keeper.do_chores() == clock.boot() + 5
    assert done == []
    clock.turn(5)
    assert office.keeper.do_chores() is None
    assert done == [store]
    office.keeper.later("chore", done.append)
    office.keeper.close()
    assert done == [store, store]


class Connection:
    """One of its own to the store; whether it is open."""

    def __init__(self, store: Wire) -> None:
        self._store, self.is_open = store, True

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def close(self) -> None:
        self.is_open = False


def with_connections(store: Wire) -> tuple[Office, list[Connection]]:
    office, made = Office(store), list[Connection]()

    def connect() -> Connection:
        made.append(Connection(store))
        return made[-1]

    office.node.connect = connect  # type: ignore[assignment]
    return office, made


def test_an_end_that_is_recorded_after_the_keeper_was_closed_leaves_no_connection_open(
    store: Wire, clock: HandClock
) -> None:
    """It was recorded on a new connection, which was open until it was collected."""
    office, made = with_connections(store)
    lease = held(office)
    office.keeper.drop(lease, unrecorded=True)
    end = office.keeper.pending_ends.end_of(lease.grant, Finish(lease.grant.fence, Outcome.SUCCEEDED))
    office.keeper.record_later(end)
    store.lose_next("swap", "before", 99)
    office.keeper.close()
    assert len(office.keeper.pending_ends) == 1
    store.lose = lambda _call: ""
    clock.turn(1)
    assert office.keeper.renew() is None
    assert len(office.keeper.pending_ends) == 0
    assert [one.is_open for one in made] == [False, False]


def test_a_chore_that_comes_after_the_keeper_was_closed_leaves_no_connection_open(store: Wire) -> None:
    office, made = with_connections(store)
    office.keeper.close()
    office.keeper.later("a chore", lambda store: store.load([]), soon=True)
    assert office.keeper.do_chores() is None
    assert [one.is_open for one in made] == [False]


def test_a_chore_that_finds_no_store_is_dropped(office: Office, clock: HandClock) -> None:
    def fails(_store: object) -> None:
        raise StoreUnavailable("no answer")

    office.keeper.later("chore", fails)
    clock.turn(5)
    assert office.keeper.do_chores() is None


# --- real threads -----------------------------------------------------------------------------------------------------


class Hanging(MemoryStore):
    """A store whose renewals hang until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.hang = False
        self.hung, self.let_go = threading.Event(), threading.Event()

    def swap(self, writes, seen):  # type: ignore[no-untyped-def]
        if self.hang:
            self.hung.set()
            self.let_go.wait(100)
            raise StoreUnavailable("no answer")
        return super().swap(writes, seen)


class Dead(Hanging):
    """A connection to another store, in which the first renewal hangs, and is answered in the end."""

    def __init__(self, store: MemoryStore, closed: list[str]) -> None:
        super().__init__()
        self._behind, self._closed = store, closed

    def swap(self, writes, seen):  # type: ignore[no-untyped-def]
        swapped = self._behind.swap(writes, seen)
        self.hung.set()
        self.let_go.wait(100)
        return swapped

    def load(self, keys):  # type: ignore[no-untyped-def]
        return self._behind.load(keys)

    def close(self) -> None:
        self._closed.append("dead")


def real(store: MemoryStore, clock: Clock | None = None) -> tuple[Node, Keeper]:
    node = Node(store, clock or SystemClock(), lambda: store, lambda _event: None)
    return node, Keeper(node)


def claimed(node: Node, lease: timedelta) -> Grant:
    (grant,) = node.do(
        node.ledger.claim([Wanted(Slot("billing", START), Terms(lease, "rerun", "allow", outside=True))])
    )
    assert isinstance(grant, Grant)
    return grant


def test_a_store_that_hangs_does_not_keep_the_holder_from_being_told_in_time() -> None:
    store, clock = Hanging(), Ahead()
    node, keeper = real(store, clock)
    grant = claimed(node, timedelta(seconds=60))
    store.hang = True
    told = threading.Event()
    keeper.keep(Lease(grant, node.clock, lambda _why: told.set()))
    clock.seconds = 30
    keeper._connection.thread.wake()
    assert store.hung.wait(30)
    assert not told.is_set()
    clock.seconds = 60
    keeper._watching.wake()
    assert told.wait(30)  # while the store still hangs, which it does for longer
    store.let_go.set()


def test_a_renewal_that_hangs_is_asked_again_on_a_new_connection_and_its_answer_takes_nothing_back() -> None:
    """The connection has died without a word. It was waited for as long as the store is patient: a whole lease."""
    store, clock, closed = MemoryStore(traits=TRAITS._replace(shared=True)), Ahead(), list[str]()
    dead = Dead(store, closed)
    connections = iter([dead, store, store])
    node = Node(store, clock, lambda: next(connections), lambda _event: None)
    keeper, told = Keeper(node), list[Boot]()
    lease = Lease(claimed(node, timedelta(seconds=60)), clock, lambda _why: None)
    lease.renewed = lambda grant: told.append(grant.trust.end)
    keeper.keep(lease)
    clock.seconds = 20
    keeper._connection.thread.wake()
    assert dead.hung.wait(60)
    clock.seconds = 24.1  # half of a hearing
    keeper._watching.wake()
    wait_until(lambda: told != [])
    trusted = lease.grant.trust.end
    assert trusted > clock.boot() + 40
    dead.let_go.set()  # what was sent then is answered now
    wait_until(lambda: closed == ["dead"])
    assert lease.grant.trust.end == trusted
    assert told == [trusted]  # a process of its own would take an older one for its deadline, and be killed by it
    assert keeper._connection.stuck == []
    keeper.drop(lease)


def test_what_has_ended_keeps_its_lease_until_that_is_on_record(office: Office, store: Wire, clock: HandClock) -> None:
    """Who says so may hang in its call for a whole lease."""
    lease = held(office)
    office.keeper.drop(lease, unrecorded=True)
    clock.turn(8)
    store.calls.clear()
    assert office.keeper.renew() == pytest.approx(clock.boot() + 8)
    assert len(store.calls) == 1
    clock.turn(8)
    office.keeper.pending_ends.recorded([lease.grant.fence])
    assert office.keeper.renew() is None
    assert len(store.calls) == 1


def test_what_cannot_be_put_on_record_keeps_its_lease_for_a_minute(office: Office, clock: HandClock) -> None:
    lease = held(office)
    office.keeper.drop(lease, unrecorded=True)
    while (again := office.keeper.renew()) is not None:
        clock.turn(again - clock.boot())
    assert clock.boot() - lease.end_by == pytest.approx(4)  # a minute, and then when the next would have been


def test_threads_are_there_only_while_something_is_held() -> None:
    node, keeper = real(MemoryStore())
    lease = Lease(claimed(node, timedelta(seconds=30)), node.clock, lambda _why: None)
    before = set(threading.enumerate())
    keeper.keep(lease)
    ours = set(threading.enumerate()) - before
    assert {thread.name for thread in ours} == {"cronce-keeper", "cronce-watch"}
    keeper.drop(lease)
    for thread in ours:
        thread.join(60)
        assert not thread.is_alive()
    again = Lease(lease.grant, node.clock, lambda _why: None)
    keeper.keep(again)
    assert {thread.name for thread in set(threading.enumerate()) - before} == {"cronce-keeper", "cronce-watch"}
    keeper.drop(again)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_of_a_bug_is_loud_and_the_next_one_goes_on() -> None:
    looks: list[int] = []
    again = threading.Event()

    def look() -> None:
        looks.append(1)
        if len(looks) == 1:
            raise ZeroDivisionError
        again.set()

    beat = RepeatingThread("beat", look, SystemClock())
    died = threading.Event()
    before, threading.excepthook = threading.excepthook, lambda _args: died.set()
    try:
        beat.wake()
        assert died.wait(60)
    finally:
        threading.excepthook = before
    beat.wake()
    assert again.wait(60)


def test_a_lease_is_kept_for_longer_than_its_length(store: Wire, clock: HandClock) -> None:
    """The threads are real, the time is not: on a busy machine, too, there is a renewal every 8 s."""
    node = Node(store, clock, lambda: store, lambda _event: None)
    keeper = Keeper(node)
    told, renewed = threading.Event(), threading.Semaphore(0)
    lease = Lease(claimed(node, LEASE), clock, lambda _why: told.set())
    lease.renewed = lambda _grant: renewed.release()
    keeper.keep(lease)
    for _ in range(5):
        clock.turn(8)
        keeper._connection.thread.wake()
        assert renewed.acquire(timeout=60)
    assert lease.trusted
    assert not told.is_set()
    keeper.drop(lease)


def test_a_thread_that_sleeps_is_woken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronce.runtime.keeper.LOOK", 600.0)
    clock, looked, enough = SystemClock(), threading.Semaphore(0), threading.Event()

    def look() -> Boot | None:
        looked.release()
        return None if enough.is_set() else clock.boot() + 600

    beat = RepeatingThread("test", look, clock)
    beat.wake()
    assert looked.acquire(timeout=60)
    wait_until(lambda: beat._until)
    enough.set()
    beat.wake()
    assert looked.acquire(timeout=60)


def test_where_no_thread_could_be_had_the_next_to_wake_it_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = threading.Event()

    def look() -> None:
        looked.set()

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    beat = RepeatingThread("test", look, SystemClock())
    with monkeypatch.context() as poor:
        poor.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            beat.wake()
    beat.wake()
    assert looked.wait(60)


# --- a body that was told to stop, and goes on --------------------------------------------------------------------


def test_who_does_not_stop_keeps_its_slot_without_trust_and_is_on_record_as_overdue(
    store: Wire, clock: HandClock
) -> None:
    """It was no longer renewed: its own process found it lapsed, closed it as lost, and began the next beside it."""
    here, there = Office(store), Office(store)
    lease = held(here, timeout=timedelta(seconds=5))
    for second in range(100):
        clock.turn(1)
        here.keeper.watch()
        here.keeper.renew()
        assert there.node.do(there.node.ledger.gone([lease.grant.key])) == []
        assert lease.trusted == (second < 4)
    record = here.record(Slot("billing", START))
    assert (record.state, record.overdue) == (State.RUNNING, "timed out after 5s")
    here.keeper.drop(lease)
    assert here.keeper.renew() is None


def test_it_is_overdue_three_seconds_after_it_was_told(office: Office, clock: HandClock) -> None:
    held(office, timeout=timedelta(seconds=5))
    overdue = {}
    for second in range(1, 12):
        clock.turn(1)
        office.keeper.watch()
        office.keeper.renew()
        overdue[second] = office.record(Slot("billing", START)).overdue
    assert [second for second, why in overdue.items() if why] == [8, 9, 10, 11]


def test_what_another_has_is_not_renewed_by_who_does_not_stop(store: Wire, clock: HandClock) -> None:
    here, there = Office(store), Office(store)
    lease = held(here)
    for _ in range(31):
        there.node.do(there.node.ledger.client.probe())
        clock.turn(1)
    wanted = Wanted(Slot("billing", START), Terms(LEASE, "rerun", "allow"), known=True)
    (grant,) = there.node.do(there.node.ledger.claim([wanted]))
    assert isinstance(grant, Grant)
    here.keeper.watch()
    here.keeper.renew()
    assert (lease.over, lease.stale) == (NOT_RENEWED, True)
    store.calls.clear()
    clock.turn(60)
    assert here.keeper.renew() is None
    assert store.calls == []


def test_a_lock_that_ended_is_not_held_on_to(office: Office, store: Wire, clock: HandClock) -> None:
    """Whoever waits for it was promised that it is free when its lease is over."""
    grant = office.node.do(office.node.ledger.acquire(lock_cell("reindex"), LOCK_LEASE))
    assert isinstance(grant, Grant)
    office.keeper.keep(Lease(grant, office.node.clock, lambda _over: None))
    clock.turn(25)
    office.keeper.watch()
    store.calls.clear()
    assert office.keeper.renew() is None
    assert store.calls == []


def test_in_an_outage_renewing_is_tried_twice_a_second_also_after_trust_has_ended(
    office: Office, store: Wire, clock: HandClock
) -> None:
    """It was a third of the trust that was left: of a lease of five minutes, most of a minute."""
    lease, tried = held(office), list[float]()
    clock.turn(8)
    store.lose = lambda _call: "before"
    while clock.seconds < 40:
        store.calls.clear()
        again = office.keeper.renew()
        office.keeper.watch()
        tried += [clock.seconds] if store.calls else []
        assert again is not None
        clock.turn(max(again - clock.boot(), 0.001))
    assert max(after - before for before, after in pairwise(tried)) == pytest.approx(0.5)
    store.lose = lambda _call: ""
    assert office.keeper.renew() == pytest.approx(clock.boot() + 8)
    assert (lease.trusted, lease.stale) == (False, False)
    assert office.record(Slot("billing", START)).overdue == NOT_RENEWED.why
