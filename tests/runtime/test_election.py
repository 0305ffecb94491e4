"""Leadership: one leads at a time, for a term; it knows in time when it does not, and the next is there soon."""

import asyncio
import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from cronce import Cronce, Fence, LeaseLost, LockHeld
from cronce.cli import main
from cronce.errors import BadInput, BadPolicy, NotElected, StoreUnavailable
from cronce.events import What
from cronce.model import Mark, Traits, Write, leader_cell
from cronce.protocol.codec import RECORD_VERSION
from cronce.protocol.record import Record, decode
from cronce.runtime.election import Leader, LeaderBlock, Term, candidacy
from cronce.runtime.keeper import NOT_RENEWED, RepeatingThread
from tests.house.wait import wait_until
from tests.runtime.office import Office
from tests.runtime.shelf import FORGETFUL, Ahead, HandClock, Wire
from tests.runtime.test_guard import in_child

STEP = 0.125
"""Seconds. Sums of it are exact, so that what happens at an instant happens at that very one."""

# --- on clocks that are turned by hand ------------------------------------------------------------------------------


class NotedBeat(RepeatingThread):
    """Looks when it is time, and the candidate lives."""

    due = 0.0

    def wake(self, by: float = 0.0) -> None:
        self.due = by


class Candidate:
    """A process that stands for the group, and what its callbacks were told, by the clock."""

    def __init__(self, store: Wire, lease: str, renew: str | None) -> None:
        self.office, self.clock = Office(store), store.clock
        self.told: list[tuple[str, float, Fence]] = []
        stands = candidacy("indexer", lease, renew)._replace(
            on_elected=self._on("elected"), on_deposed=self._on("over")
        )
        self.leader = Leader(stands, lambda: self.office.keeper, store.clock, self._beat)

    def _on(self, what: str) -> Callable[[Term], object]:
        return lambda term: self.told.append((what, self.clock.seconds, term.fence))

    def _beat(self, *words: object) -> NotedBeat:
        self.beat = NotedBeat(*words)  # type: ignore[arg-type]
        return self.beat

    def live(self) -> None:
        """Whatever its threads have to do at this moment."""
        keeper = self.office.keeper
        keeper.watch()
        keeper.renew()
        if self.beat.due <= self.clock.boot():
            self.beat.due = float("inf")
            again = self.leader.look()
            self.beat.due = min(self.beat.due, float("inf") if again is None else again)

    @property
    def history(self) -> list[str]:
        return [what for what, _, _ in self.told]


class Town:
    """Some candidates, and the claim that no two of them ever say at the same moment that they lead."""

    def __init__(self, store: Wire) -> None:
        self.store, self.clock = store, store.clock
        self.all: list[Candidate] = []

    def candidates(self, number: int, lease: str = "30s", renew: str | None = None) -> list[Candidate]:
        new = [Candidate(self.store, lease, renew) for _ in range(number)]
        self.all += new
        for one in new:
            one.leader.start()
        self.go(STEP)
        return new

    def go(self, seconds: float, *, asleep: Candidate | None = None) -> None:
        """Time passes. One who sleeps does nothing, and may still be asked."""
        for _ in range(round(seconds / STEP)):
            self.clock.turn(STEP)
            for one in self.all:
                if one is not asleep:
                    one.live()
            assert len(self.leaders()) <= 1

    def until(self, true: Callable[[], object], *, asleep: Candidate | None = None) -> float:
        """How long it takes."""
        began = self.clock.seconds
        while not true():
            self.go(STEP, asleep=asleep)
            assert self.clock.seconds < began + 120
        return self.clock.seconds - began

    def leaders(self) -> list[Candidate]:
        return [one for one in self.all if one.leader.is_leader]

    def dies(self, one: Candidate) -> None:
        self.all.remove(one)

    def record(self) -> Record:
        (cell,) = self.store.load([leader_cell("indexer")]).cells
        return decode(cell.value, cell.key)

    def lapses(self) -> datetime | None:
        """When the lease of whoever leads does, unless it is renewed."""
        (cell,) = self.store.load([leader_cell("indexer")]).cells
        return cell.until


@pytest.fixture
def town(store: Wire) -> Town:
    return Town(store)


def test_one_of_three_leads_and_goes_on_leading(town: Town) -> None:
    first, *others = town.candidates(3)
    town.go(300)
    assert town.leaders() == [first]
    assert (first.history, [one.history for one in others]) == (["elected"], [[], []])
    assert first.leader.term is not None
    assert others[0].leader.term is None


@pytest.fixture
def no_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who stands asks as seldom as it ever does: once a second."""
    monkeypatch.setattr("cronce.runtime.election.urandom", bytes)


@pytest.mark.usefixtures("no_chance")
@pytest.mark.parametrize(("asked_ago", "followed_after"), [(0.0, 1.0), (0.125, 0.875), (0.5, 0.5), (0.875, 0.125)])
def test_who_resigns_is_followed_within_a_second_by_another_term(
    town: Town, asked_ago: float, followed_after: float
) -> None:
    """When the other asks next."""
    first, second = town.candidates(2)
    town.go(10 + asked_ago)
    term = first.leader.term
    first.leader.stop()
    assert not first.leader.is_leader
    assert town.until(lambda: second.leader.is_leader) == followed_after
    assert term is not None
    assert second.leader.term is not None
    assert second.leader.term.fence > term.fence
    with pytest.raises(LeaseLost, match="leader/indexer lost its lease: it resigned"):
        term.check()
    assert first.history == ["elected", "over"]
    assert [past.end for past in town.record().past] == ["released"]


def test_nobody_else_leads_before_on_deposed_of_who_resigns_has_returned(town: Town) -> None:
    first, second = town.candidates(2, "3s")
    leader, led = first.leader, list[bool]()

    def takes_its_time(_term: Term) -> None:
        for _ in range(100):  # for three times its lease
            town.clock.turn(STEP)
            first.office.keeper.watch()
            first.office.keeper.renew()
            second.live()
            led.append(second.leader.is_leader)

    leader._terms = leader._terms._replace(on_deposed=takes_its_time)
    first.leader.stop()
    town.until(lambda: second.leader.is_leader)
    assert led == [False] * 100
    assert [past.end for past in town.record().past] == ["released"]


def test_who_stops_while_it_is_elected_gives_it_back_and_nobody_is_called(town: Town, store: Wire) -> None:
    (first,) = town.candidates(1)
    first.leader.stop()
    town.go(1)
    second = Candidate(store, "30s", None)
    town.all.append(second)

    def stop(call: str) -> str:
        if call == "swap":
            second.leader.stop()
        return ""

    store.lose = stop
    second.leader.start()
    town.go(1)
    assert second.history == []
    assert [past.end for past in town.record().past] == ["released", "released"]


def test_callbacks_come_in_pairs_a_term_that_ends_before_the_first_calls_neither(town: Town, store: Wire) -> None:
    first = Candidate(store, "30s", None)
    town.all.append(first)
    first.office.keeper.keep = lambda *leases: leases[0].end(NOT_RENEWED)  # type: ignore[method-assign]
    first.leader.start()
    town.go(1)
    assert town.record().grant == 1
    assert first.history == []


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ('{"v":99,"state":"running"}', f"has format 99, this cronce reads up to {RECORD_VERSION}: upgrade cronce"),
        ("garbage", "holds something cronce did not write: 'garbage'"),
    ],
)
def test_who_cannot_read_who_leads_says_so_once_and_does_not_lead_until_it_can(
    town: Town, store: Wire, caplog: pytest.LogCaptureFixture, value: str, why: str
) -> None:
    key = leader_cell("indexer")

    def write(value: str) -> None:
        (cell,) = store.load([key]).cells
        store.swap([Write(key, cell.version, value, Mark.FREE)], store.load([]).epoch.seen)

    (first,) = town.candidates(1)
    first.leader.stop()
    town.go(1)
    readable = store.load([key]).cells[0].value
    write(value)
    (second,) = town.candidates(1)
    for times in (1, 2):
        town.go(30)
        assert town.leaders() == []
        assert str(second.leader.refused) == f"the cell 'leader/indexer' {why}"
        said = f"this process does not lead indexer: the cell 'leader/indexer' {why}"
        assert caplog.record_tuples == [("cronce", logging.WARNING, said)] * times
        write(readable)
        town.until(lambda: second.leader.is_leader)
        second.leader.stop()
        town.go(1)
        write(value)
        second.leader.start()
    assert second.history == ["elected", "over"] * 2
    assert [event.what for event in second.office.events if event.what in (What.SILENT, What.ANSWERS)] == []


@pytest.mark.parametrize("renewed_ago", [0.0, 0.125, 0.5, 0.75])
@pytest.mark.parametrize("lease", [3.0, 15.0, 30.0])
def test_a_leader_that_died_is_followed_at_the_moment_its_lease_lapses(
    town: Town, lease: float, renewed_ago: float
) -> None:
    first, *others = town.candidates(3, f"{lease:g}s")
    town.go(100)
    before = town.lapses()
    town.until(lambda: town.lapses() != before)  # it was renewed just now
    town.go(renewed_ago)
    lapses = town.lapses()
    town.dies(first)
    assert town.until(town.leaders) == lease - renewed_ago
    assert town.clock.wall() == lapses
    assert [past.end for past in town.record().past] == ["lapsed"]
    town.go(100)
    assert sorted(one.history for one in others) == [[], ["elected"]]


def test_who_slept_past_its_lease_knows_before_it_asks_anybody(town: Town, store: Wire) -> None:
    first, second = town.candidates(2)
    term = first.leader.term
    assert term is not None
    town.until(lambda: second.leader.is_leader, asleep=first)
    store.calls.clear()
    assert (first.leader.is_leader, first.leader.term, term.trusted) == (False, None, False)
    assert store.calls == []
    assert first.history == ["elected"]
    first.live()
    assert first.history == ["elected", "over"]
    town.go(60)
    assert town.leaders() == [second]


def test_a_leader_that_lost_its_term_cannot_extend_that_of_another(town: Town) -> None:
    """Renewing by a plain EXPIRE did: two leaders, then three."""
    first, second = town.candidates(2)
    town.until(lambda: second.leader.is_leader, asleep=first)
    (before,) = town.store.load([leader_cell("indexer")]).cells
    town.clock.turn(STEP)
    first.office.keeper.renew()
    (after,) = town.store.load([leader_cell("indexer")]).cells
    assert (after.until, after.version, after.fence) == (before.until, before.version, before.fence)
    assert not first.leader.is_leader
    assert second.leader.is_leader


def test_a_term_that_is_over_stays_so_when_nobody_took_it(town: Town) -> None:
    (first,) = town.candidates(1)
    term = first.leader.term
    town.go(29, asleep=first)  # trust has ended, the lease has not
    first.office.keeper.renew()
    assert not first.leader.is_leader
    town.until(lambda: first.leader.is_leader)
    assert term is not None
    assert not term.trusted
    assert first.history == ["elected", "over", "elected"]
    assert [past.end for past in town.record().past] == ["lapsed"]
    assert first.told[2][2] > first.told[0][2]


@pytest.mark.parametrize(("lease", "renew"), [("15s", "3s"), ("2s", "1s")])
def test_when_the_store_is_silent_the_leader_steps_down_before_its_lease_lapses(
    town: Town, store: Wire, lease: str, renew: str
) -> None:
    (first,) = town.candidates(1, lease, renew)
    town.go(60)
    renewed = town.record()
    (cell,) = store.load([leader_cell("indexer")]).cells
    assert cell.until is not None
    store.lose = lambda _call: "before"
    town.until(lambda: "over" in first.history)
    fifth = timedelta(seconds=float(lease[:-1])) / 5
    assert timedelta(0) < cell.until - town.clock.wall() <= fifth
    deposed = [event for event in first.office.events if event.what is What.DEPOSED]
    assert [(event.key, event.detail) for event in deposed] == [("leader/indexer", "it could not be renewed in time")]
    store.lose = lambda _call: ""
    town.until(lambda: first.leader.is_leader)
    assert town.record().grant == renewed.grant + 1


def test_when_the_store_is_silent_for_a_while_the_leader_leads_on(town: Town, store: Wire) -> None:
    first, _ = town.candidates(2)
    for _ in range(5):
        store.lose = lambda _call: "after"
        town.go(12)
        store.lose = lambda _call: ""
        town.go(10)
    assert first.history == ["elected"]
    assert first.leader.is_leader


@pytest.mark.parametrize("back", [-3600.0, 3600.0])
def test_a_step_of_the_stores_clock_deposes_nobody(town: Town, back: float) -> None:
    town.clock.turn(7200)
    first, second = town.candidates(2)
    town.go(60)
    town.clock.back = back
    town.go(60)
    assert (first.history, second.history) == (["elected"], [])
    town.dies(first)
    town.until(lambda: second.leader.is_leader)


@pytest.mark.parametrize("lease", ["3s", "30s"])
def test_after_a_store_forgot_nobody_leads_for_30_seconds(clock: HandClock, lease: str) -> None:
    """Also where leases are shorter: those of the life before may not have been."""
    town = Town(Wire(clock, FORGETFUL))
    first, second = town.candidates(2, lease)
    town.go(10)
    born = clock.seconds
    emptied = Wire(clock, FORGETFUL, on_purpose=False)
    for one in town.all:
        one.office.node.store = emptied
        one.office.keeper._connection.current._store = emptied
    town.until(lambda: first.history == ["elected", "over"])
    assert clock.seconds <= born + timedelta(seconds=float(lease[:-1])).total_seconds() * 4 / 5
    town.until(town.leaders)
    assert 30 <= clock.seconds - born <= 31.1
    assert len(first.told) + len(second.told) == 3


@pytest.mark.parametrize(("lease", "renew", "swaps"), [("30s", None, 75), ("15s", "3s", 200), ("15s", "1s", 600)])
def test_a_leader_renews_as_often_as_it_was_told_and_two_may_always_fail(
    town: Town, store: Wire, lease: str, renew: str | None, swaps: int
) -> None:
    """Every 8 s of 30: the default of a third of the lease, but no more than a third of the trust in it."""
    town.candidates(1, lease, renew)
    store.calls.clear()
    town.go(600)
    assert store.calls == ["swap"] * len(store.calls)
    assert len(store.calls) == pytest.approx(swaps, rel=0.05)


def test_a_follower_asks_about_once_a_second_and_no_more(town: Town, store: Wire) -> None:
    first, second = town.candidates(2)
    store.calls.clear()
    for _ in range(6000):
        town.clock.turn(STEP)
        second.live()
        if town.clock.seconds % 5 < STEP:
            first.live()
    assert first.leader.is_leader
    assert 600 <= len([call for call in store.calls if call == "swap"]) <= 1000


class Bell:
    """Stands for a thread that may be stopped."""

    rang = 0

    def stop(self) -> None:
        self.rang += 1


def test_a_block_that_was_told_and_goes_on_is_told_again(town: Town) -> None:
    (first,) = town.candidates(1)
    leader, bell = first.leader, Bell()
    seat = leader.block_under_term(bell)  # type: ignore[arg-type]
    assert isinstance(seat, LeaderBlock)
    leader.keep(seat)
    town.go(30, asleep=first)
    first.live()
    assert bell.rang == 1
    town.go(6)
    assert bell.rang == 2
    leader.drop(seat)
    town.go(60)
    assert bell.rang == 2


def test_a_block_that_sits_down_when_the_term_has_just_ended_is_told(town: Town) -> None:
    (first,) = town.candidates(1)
    leader, bell = first.leader, Bell()
    seat = leader.block_under_term(bell)  # type: ignore[arg-type]
    assert isinstance(seat, LeaderBlock)
    town.go(30, asleep=first)
    first.live()
    leader.keep(seat)
    assert bell.rang == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lease": "31s"}, "a leader's lease must be 1s to 30s, not 31s"),
        ({"lease": "999ms"}, "must be 1s to 30s, not 999ms"),
        ({"lease": "15s", "renew": "8s"}, "at most half of the lease, so that one renewal may fail; not 8s of 15s"),
        ({"renew": "0s"}, "more than zero"),
        ({"ttl": 30}, "there is no option 'ttl'; here it is lease"),
        ({"on_electd": print}, "did you mean on_elected"),
    ],
)
def test_terms_that_cannot_be_meant_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(BadPolicy, match=words):
        Cronce("sqlite:///nowhere.db").leader("indexer", **options)  # type: ignore[arg-type]


def test_a_name_that_cannot_be_part_of_a_key_is_refused() -> None:
    with pytest.raises(BadInput):
        Cronce("sqlite:///nowhere.db").leader("a/b")


def test_a_lease_too_short_for_the_stores_clock_is_refused_when_it_is_started(clock: HandClock) -> None:
    store = Wire(clock, Traits("vague", skew=timedelta(seconds=2)))
    with pytest.raises(BadPolicy, match="a lease of 2s is too short for vague"):
        Candidate(store, "2s", None).leader.start()


# --- as users write it, on a real file ------------------------------------------------------------------------------


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/cronce.db"


@pytest.fixture
def cron(url: str) -> Iterator[Cronce]:
    with Cronce(url) as cron:
        yield cron


@pytest.fixture
def other(url: str) -> Iterator[Cronce]:
    with Cronce(url) as cron:
        yield cron


def led(cron: Cronce) -> Leader:
    """Somebody who leads."""
    leader = cron.leader("indexer")
    leader.start()
    wait_until(lambda: leader.is_leader)
    return leader


def test_a_job_asks_whether_it_runs_on_the_leader_and_skips(cron: Cronce, other: Cronce) -> None:
    sent = []

    def report(leader: Leader) -> None:
        if leader.is_leader:
            sent.append(leader)

    first, second = led(cron), other.leader("indexer")
    second.start()
    for leader in (first, second):
        report(leader)
    assert sent == [first]
    first.stop()
    wait_until(lambda: second.is_leader)
    for leader in (first, second):
        report(leader)
    assert sent == [first, second]


def test_starting_and_stopping_again_changes_nothing(cron: Cronce) -> None:
    leader = led(cron)
    leader.start()
    leader.stop()
    assert not leader.is_leader
    leader.stop()
    leader.start()
    wait_until(lambda: leader.is_leader)
    wait_until(lambda: [one.name for one in threading.enumerate()].count("cronce-leader-indexer") == 1)


def test_closing_resigns_and_leaves_no_thread(cron: Cronce, other: Cronce) -> None:
    before = {*threading.enumerate()}
    leader = led(cron)
    cron.close()
    assert not leader.is_leader
    with other.leader("indexer").elected():
        pass
    wait_until(lambda: not [one for one in {*threading.enumerate()} - before if one.name.startswith("cronce-")])


def test_a_leader_that_was_started_and_forgotten_leads_on_until_it_is_closed(url: str, other: Cronce) -> None:
    elected: list[Term] = []
    with Cronce(url) as cron:
        cron.leader("indexer", on_elected=elected.append).start()
        wait_until(lambda: elected)
        gc.collect()
        assert len(cron._leaders) == 1
    with other.leader("indexer").elected():
        pass
    wait_until(lambda: gc.collect() >= 0 and not len(cron._leaders))  # its thread may still be on its way out


def test_callbacks_have_a_thread_of_their_own_and_what_they_raise_ends_nothing(
    cron: Cronce, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    def on_elected(term: Term) -> None:
        assert term.trusted
        told.append(threading.current_thread().name)
        raise ValueError("boom")

    def on_deposed(term: Term) -> None:
        assert not leader.is_leader
        told.append(str(term.trusted))  # what is under way may end under its term
        sys.exit("boom too")

    leader = cron.leader("indexer", on_elected=on_elected, on_deposed=on_deposed)

    def raised() -> list[object]:
        words = "a callback of leader/indexer raised"
        return [line.exc_info[0] for line in caplog.records if line.getMessage() == words and line.exc_info]

    for before in ([], [ValueError, SystemExit]):
        leader.start()
        wait_until(lambda before=before: raised() == [*before, ValueError])  # type: ignore[misc]
        leader.stop()
    assert told == ["cronce-leader-indexer", "True"] * 2
    assert raised() == [ValueError, SystemExit] * 2


def test_an_on_elected_that_goes_on_is_stopped_before_on_deposed_and_before_the_next(
    cron: Cronce, other: Cronce
) -> None:
    told: list[str] = []
    working = threading.Event()

    def on_elected(_term: Term) -> None:
        try:
            working.set()
            while True:
                pass
        finally:
            told.append("stopped")

    leader = cron.leader("indexer", on_elected=on_elected, on_deposed=lambda _term: told.append("deposed"))
    second = other.leader("indexer", on_elected=lambda _term: told.append("next"))
    leader.start()
    assert working.wait(60)
    second.start()
    leader.stop()
    wait_until(lambda: second.is_leader)
    wait_until(lambda: len(told) == 3)
    assert told == ["stopped", "deposed", "next"]


def test_an_on_elected_that_goes_on_is_stopped_when_its_term_is_lost(url: str) -> None:
    told: list[str] = []
    clock = Ahead()

    def on_elected(_term: Term) -> None:
        try:
            silence(cron)
            clock.put_forward(cron, 30)
            while True:
                pass
        finally:
            told.append("stopped")

    def on_deposed(term: Term) -> None:
        told.append(f"deposed, trusted: {term.trusted}")
        leader.stop()

    with Cronce(url, clock=clock) as cron:
        leader = cron.leader("indexer", lease="30s", on_elected=on_elected, on_deposed=on_deposed)
        leader.start()
        wait_until(lambda: told == ["stopped", "deposed, trusted: False"])


def test_after_a_failover_one_can_start_at_once_wait_or_skip(cron: Cronce, other: Cronce) -> None:
    done: list[str] = []
    first, second = led(cron), other.leader("indexer", on_elected=lambda _term: done.append("started at once"))
    second.start()

    def skip() -> None:
        with second.elected():
            done.append("skipped")

    def wait() -> None:
        with second.elected(wait="1m"):
            done.append("waited")

    with pytest.raises(NotElected):
        skip()
    waiting = threading.Thread(target=wait)
    waiting.start()
    assert done == []
    first.stop()
    waiting.join(60)
    wait_until(lambda: sorted(done) == ["started at once", "waited"])


def test_a_callback_may_resign(cron: Cronce, other: Cronce) -> None:
    told: list[str] = []

    def on_elected(_term: Term) -> None:
        leader.stop()
        told.append("went on")

    leader = cron.leader("indexer", on_elected=on_elected, on_deposed=lambda _term: told.append("deposed"))
    leader.start()
    wait_until(lambda: told == ["went on", "deposed"])
    with other.leader("indexer").elected(wait="1m"):
        pass


# --- blocks ---


def test_a_block_stands_for_election_and_resigns_behind_it(cron: Cronce, other: Cronce) -> None:
    leader, second = cron.leader("indexer"), other.leader("indexer")
    with leader.elected() as term:
        assert leader.term is term
        with pytest.raises(
            NotElected,
            match=r"\S+ leads indexer until [-0-9]+ [:0-9]+ UTC unless it is"
            r" renewed",
        ) as held:
            second.elected().__enter__()
        assert isinstance(held.value, LockHeld)
    assert not leader.is_leader
    with second.elected() as later:
        assert later.fence > term.fence


def test_all_blocks_of_a_process_share_its_term(cron: Cronce) -> None:
    leader = led(cron)
    with leader.elected() as outer, leader.elected() as inner:
        assert outer is inner is leader.term
        leader.stop()  # the background wants it no more, the blocks do
        assert leader.term is outer
    assert not leader.is_leader


def test_a_block_waits_until_it_is_elected(cron: Cronce, other: Cronce) -> None:
    first, second = led(cron), other.leader("indexer")
    threading.Timer(0.2, first.stop).start()
    with second.elected(wait="1m"):
        assert not first.is_leader
        assert second.is_leader


def test_a_block_whose_term_ends_is_stopped_and_is_an_error(url: str) -> None:
    with Cronce(url, clock=(clock := Ahead())) as cron:
        leader = cron.leader("indexer", lease="30s")

        def endless() -> None:
            with leader.elected():
                silence(cron)
                clock.put_forward(cron, 30)
                while True:
                    pass

        with pytest.raises(LeaseLost, match="the leadership of indexer ended before its block did: it could not be"):
            endless()
        assert not leader.is_leader


def test_an_async_block_whose_term_ends_is_cancelled_and_is_an_error(url: str) -> None:
    async def work(cron: Cronce) -> str:
        with pytest.raises(LeaseLost, match="the leadership of indexer ended before its block did"):
            await endless(cron)
        return "still here"

    async def endless(cron: Cronce) -> None:
        async with cron.leader("indexer", lease="30s").elected() as term:
            assert term.trusted
            silence(cron)
            clock.put_forward(cron, 30)
            await asyncio.Event().wait()

    with Cronce(url, clock=(clock := Ahead())) as cron:
        assert asyncio.run(work(cron)) == "still here"


def silence(cron: Cronce) -> None:
    """The keeper's connection fails from here on."""

    class Silent:
        def swap(self, *_words: object) -> None:
            raise StoreUnavailable("silent")

        load = swap

        def close(self) -> None:
            pass

    cron.at_work()._connection.current._store = Silent()  # type: ignore[assignment]


def test_a_task_that_is_cancelled_while_it_waits_stands_no_more(cron: Cronce, other: Cronce) -> None:
    first, second = led(cron), other.leader("indexer")

    async def stand() -> None:
        async with second.elected(wait="1m"):
            pass

    async def work() -> None:
        task = asyncio.ensure_future(stand())
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(work())
    first.stop()
    assert second._wanted == 0
    with first.elected():
        pass


def test_a_store_that_does_not_answer_gives_no_leader(cron: Cronce) -> None:
    leader = cron.leader("indexer")
    keeper = cron.at_work()
    keeper.node.store.close()
    keeper.node.store = Wire(HandClock())
    keeper.node.store.lose = lambda _call: "before"
    with pytest.raises(StoreUnavailable), leader.elected():
        pass


# --- forks ---


def test_a_forked_child_does_not_lead_and_may_stand_for_itself(cron: Cronce, url: str) -> None:
    leader = led(cron)
    term = leader.term
    assert term is not None
    said = in_child(lambda: (leader.is_leader, leader.term, term.trusted))
    assert said == "(False, None, False)"
    assert in_child(lambda: leader.elected().__enter__()).startswith("NotElected(")

    def stands() -> bool:
        leader.start()
        wait_until(lambda: leader.is_leader)
        leader.stop()
        return True

    with leader.elected():
        child = os.fork()
        if child == 0:
            os._exit(0 if not leader.is_leader else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert leader.is_leader
    leader.stop()
    assert in_child(stands) == "True"


def test_a_child_that_leaves_a_block_does_not_resign(cron: Cronce) -> None:
    leader = cron.leader("indexer")
    with leader.elected():
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
            assert in_child(lambda: leader.elected().__enter__()).startswith("NotElected(")
            assert leader.is_leader
    if child == 0:
        os._exit(0)


# --- looking ---


def test_leaders_are_shown_with_their_terms_and_who_led_before(
    cron: Cronce, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = cron.leader("indexer")
    with first.elected() as earlier:
        pass
    with first.elected() as term:
        assert main(["leaders", "indexer", "--store", url]) == 0
    header, row, _, before, past = capsys.readouterr().out.splitlines()
    assert header.split() == ["group", "state", "leader", "term", "since", "until"]
    holder = row.split()[2]
    assert row.split()[:4] == ["indexer", "led", holder, str(term.fence)]
    assert before.split() == ["led", "before", "by", "term", "from", "to", "end"]
    assert (past.split()[:2], past.split()[-1]) == ([holder, str(earlier.fence)], "resigned")
    assert main(["leaders", "--store", url]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["indexer", "vacant"]
    assert main(["leaders", "other", "--store", url]) == 1
    assert "no group 'other' is on record" in capsys.readouterr().err


def test_who_only_reads_that_another_leads_does_not_say_that_the_store_answers_again(town: Town) -> None:
    """While SQLite's file was locked the scheduler beside it said in turn that the store answers, and that it does
    not; and an end was not written down at once."""
    _first, second = town.candidates(2)
    town.go(10)
    outage = second.office.keeper.outage
    outage.unanswered(town.clock.boot(), "no write was taken")
    town.go(10)
    assert outage.lasts


def test_who_found_no_store_says_when_it_answers_again(town: Town, store: Wire) -> None:
    _first, second = town.candidates(2)
    town.go(10)
    store.lose = lambda _call: "before"
    outage = second.office.keeper.outage
    town.until(lambda: outage.lasts)
    store.lose = lambda _call: ""
    town.until(lambda: not outage.lasts)
