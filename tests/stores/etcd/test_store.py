"""The etcd store, beyond the contract: round trips, guesses, what lies in etcd, URLs, errors, the doctor."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from cronce.clock import SystemClock
from cronce.model import FREE, Boot, Cell, Mark, Refusal, Write
from cronce.stores import open_store
from cronce.stores.base import Scan, Store
from cronce.stores.etcd import TRAITS, WRITES_PER_REQUEST, EtcdStore
from cronce.stores.etcd.api import EtcdAnswer, read_url
from cronce.stores.etcd.layout import CellAtRevision, EtcdCells
from cronce.testing.contract import DAY, HOUR, cell_of, change, claim, put, refusals, swap, win
from tests.house.wait import wait_until
from tests.servers.etcd import Etcd
from tests.stores.etcd.opening import Count, revision
from tests.stores.forks import ask

# --- round trips, counted by the server -----------------------------------------------------------------------------


def group(number: int) -> list[Write]:
    return [claim("turn/job/0", group=1), claim(f"run/job/{number}", at=DAY, group=1)]


def test_a_claim_is_one_round_trip_and_claim_and_finish_two(etcd: Etcd, store: Store) -> None:
    seen, count = store.load([]).epoch.seen, Count(etcd)
    for number in range(3):
        turn, run = (verdict.cell for verdict in store.swap(group(number), seen).verdicts)
        assert count() == 1
        finish = [change(turn, mark=Mark.FREE, group=1), change(run, mark=Mark.CLOSED, group=1)]
        assert refusals(store.swap(finish, seen)) == [None, None]
        assert count() == 1


def test_a_fresh_process_claims_with_two_round_trips_after_opening(etcd: Etcd, store: Store, url: str) -> None:
    turn, _ = (verdict.cell for verdict in swap(store, *group(1)).verdicts)
    win(store, change(turn, mark=Mark.FREE))
    count = Count(etcd)
    with closing(open_store(url)) as fresh:
        assert count() == 2  # its members, and its life
        seen = fresh.load(["turn/job/0", "run/job/2"]).epoch.seen
        assert refusals(fresh.swap(group(2), seen)) == [None, None]
        assert count() == 2


def test_a_loser_needs_one_round_trip_and_writes_nothing(etcd: Etcd, store: Store, other: Store) -> None:
    seen = store.load([]).epoch.seen
    (won,) = win(other, claim("run/a"))
    before, count = revision(etcd), Count(etcd)
    swapped = store.swap([claim("run/a")], seen)
    assert (count(), revision(etcd)) == (1, before)
    assert [verdict.cell for verdict in swapped.verdicts] == [won]
    assert refusals(store.swap([claim("run/a")], seen)) == [Refusal.VERSION]
    assert (count(), revision(etcd)) == (2, before)  # the second is the question for the revision


def test_a_batch_is_as_many_round_trips_as_transactions_that_hold_it(etcd: Etcd, store: Store) -> None:
    seen, count = store.load([]).epoch.seen, Count(etcd)
    store.swap([claim(f"run/a/{number:04}", at=DAY) for number in range(WRITES_PER_REQUEST)], seen)
    assert count() == 1
    store.swap([claim(f"run/b/{number:04}", at=DAY) for number in range(1000)], seen)
    assert count() == 10


def test_after_a_purge_the_others_need_one_more_round_trip_once(etcd: Etcd, store: Store, other: Store) -> None:
    seen, cells = store.load([]).epoch.seen, win(other, put("a"), put("b"))
    count = Count(etcd)
    assert (other.purge(cells), count()) == (2, 2)
    assert (refusals(other.swap([claim("run/0")], seen)), count()) == ([None], 1)
    for number, trips in ((1, 2), (2, 1)):
        assert (refusals(store.swap([claim(f"run/{number}")], seen)), count()) == ([None], trips)


# --- guesses --------------------------------------------------------------------------------------------------------


def test_a_wrong_guess_is_put_right_and_keeps_what_the_cell_has(etcd: Etcd, store: Store, other: Store) -> None:
    """The turn was used by another process since: it is free again, with another version, fence and until."""
    (turn,) = win(store, claim("turn", at=DAY))
    (turn,) = win(store, change(turn, mark=Mark.FREE))
    (theirs,) = win(other, Write("turn", FREE, "theirs", Mark.OPEN, grant=True, ttl=HOUR))
    (theirs,) = win(other, change(theirs, mark=Mark.FREE))
    seen, count = store.load([]).epoch.seen, Count(etcd)
    (verdict,) = store.swap([Write("turn", FREE, "mine", Mark.OPEN)], seen).verdicts
    assert count() == 2
    assert verdict.refused is None
    assert verdict.cell[2:] == ("mine", DAY, Mark.OPEN, theirs.fence, theirs.until)
    assert cell_of(other, "turn") == verdict.cell


def test_of_a_mixed_batch_each_group_lands_or_not_by_itself(etcd: Etcd, store: Store, other: Store) -> None:
    seen = store.load([]).epoch.seen
    taken = win(other, *(claim(f"run/{number}") for number in range(0, 20, 2)))
    count = Count(etcd)
    swapped = store.swap([claim(f"run/{number}", "mine") for number in range(20)], seen)
    assert count() == 2
    assert refusals(swapped) == [Refusal.VERSION, None] * 10
    assert [verdict.cell for verdict in swapped.verdicts[::2]] == taken
    assert [cell_of(other, f"run/{number}").value for number in range(4)] == ["claimed", "mine"] * 2


def test_runs_that_are_over_take_no_memory(store: Store) -> None:
    """A scheduler that stays up closes thousands of them, and tidying reads them again to delete them."""
    seen = store.load([]).epoch.seen
    before = _remembered()
    for number in range(3):
        turn, run = (verdict.cell for verdict in store.swap(group(number), seen).verdicts)
        finish = [change(turn, mark=Mark.FREE, group=1), change(run, mark=Mark.CLOSED, group=1)]
        assert refusals(store.swap(finish, seen)) == [None, None]
    win(store, put("run/doubtful", Mark.ATTENTION, at=DAY))
    assert _remembered() - before == 1  # the turn, which the next run takes without reading it
    over = store.scan(Scan("run/", by="at")).cells
    assert (len(over), store.purge(over)) == (4, 4)
    assert _remembered() - before == 1


def _remembered() -> int:
    gc.collect()
    return sum(type(each) is CellAtRevision for each in gc.get_objects())


def test_a_guess_from_an_earlier_life_is_refused(store: Store, other: Store) -> None:
    before = store.load([]).epoch
    assert other.load([]).epoch == before
    after = store.swap([], (before.birth, before.tally + 5)).epoch
    swapped = other.swap([claim("a")], before.seen)
    assert (refusals(swapped), swapped.epoch) == ([Refusal.EPOCH], after)
    assert cell_of(store, "a") == Cell("a")


class Slow(EtcdStore):
    """Others act just before, or just after, it reads cells."""

    before: Callable[[], object] | None = None
    after: Callable[[], object] | None = None

    def _read(self, keys: Sequence[str], deadline: Boot) -> EtcdCells:
        before, self.before = self.before, None
        if before is not None:
            before()
        shelf = super()._read(keys, deadline)
        after, self.after = self.after, None
        if after is not None:
            after()
        return shelf


@pytest.fixture
def slow(url: str) -> Iterator[Slow]:
    with closing(Slow(read_url(url))) as store:
        yield store


def test_a_cell_that_changes_between_reading_and_writing_is_read_again(slow: Slow, other: Store) -> None:
    (cell,) = win(other, claim("a"))
    seen = slow.load([]).epoch.seen
    slow.after = lambda: win(other, claim("b"), change(cell, "theirs"))
    swapped = slow.swap([change(cell, "mine"), claim("b"), claim("c")], seen)
    assert refusals(swapped) == [Refusal.VERSION, Refusal.VERSION, None]
    assert [verdict.cell for verdict in swapped.verdicts] == list(other.load(["a", "b", "c"]).cells)
    assert cell_of(other, "a").value == "theirs"


def test_a_cell_that_changes_between_reading_and_purging_stays(slow: Slow, other: Store) -> None:
    cells = win(other, put("a"), put("b"))
    slow.after = lambda: win(other, change(cells[0], "new"))
    assert slow.purge(cells) == 1
    assert [cell.key for cell in other.scan(Scan("")).cells] == ["a"]


class HeldBack(EtcdStore):
    """Others act when what it writes is on its way."""

    meanwhile: Callable[[], object] | None = None

    def _commit(self, *plan: Any) -> EtcdAnswer:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super()._commit(*plan)


def test_a_claim_that_lands_after_its_slot_was_purged_is_refused(url: str, other: Store) -> None:
    with closing(HeldBack(read_url(url))) as held:
        loaded = held.load([])
        late = loaded.now + timedelta(seconds=0.2)

        def meanwhile() -> None:
            assert other.purge(win(other, put("run/a", Mark.CLOSED))) == 1
            wait_until(lambda: held.api.clock.now() > late)

        held.meanwhile = meanwhile
        assert refusals(held.swap([claim("run/a", not_after=late)], loaded.epoch.seen)) == [Refusal.LATE]
    assert cell_of(other, "run/a") == Cell("run/a")


def test_a_lease_that_is_renewed_while_a_scan_looks_for_lapsed_ones_is_not_found(slow: Slow, other: Store) -> None:
    cells = win(other, put("a", Mark.OPEN, ttl=timedelta(0)), put("b", Mark.OPEN, ttl=timedelta(0)))
    slow.before = lambda: win(other, change(cells[0], ttl=HOUR))
    page = slow.scan(Scan("", by="until", mark=Mark.OPEN, upto=cells[1].until))
    assert list(page.cells) == [cells[1]]


def test_who_knows_the_time_too_badly_asks_before_it_writes(etcd: Etcd, slow: Slow) -> None:
    """As after a long sleep, or slow replies."""
    seen = slow.load([]).epoch.seen
    known = slow.api.clock._bounds
    assert known is not None
    slow.api.clock._bounds = known._replace(low=known.low - 20, high=known.high + 20)
    count, wall = Count(etcd), SystemClock().wall()
    assert wall - slow.swap([claim("a")], seen).now < TRAITS.step
    assert count() == 2


def test_a_slot_that_just_came_due_is_not_early(store: Store) -> None:
    """What is known of the clock may be behind; before a write is refused for it, the clock is asked."""
    clock = SystemClock()
    store.load([])
    due = clock.wall().replace(microsecond=0) + timedelta(seconds=1)
    while clock.wall() < due:
        time.sleep(0.005)
    assert refusals(swap(store, claim("run/a", not_before=due))) == [None]


def test_more_than_fits_into_one_request_is_sent_in_several(store: Store, other: Store) -> None:
    win(store, *(put(f"big/{number}", value=str(number) * 600_000) for number in range(5)))
    assert [len(cell.value) for cell in other.load([f"big/{number}" for number in range(5)]).cells] == [600_000] * 5


# --- promises -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [0.02, 0.5, 0.8])
def test_a_process_that_has_just_begun_is_behind_by_no_more_than_the_step(url: str, phase: float) -> None:
    """The server is on this machine, so its clock is ours."""
    clock = SystemClock()
    while not phase <= clock.wall().microsecond / 1e6 < phase + 0.02:
        time.sleep(0.002)
    with closing(open_store(url)) as store:
        before = clock.wall()
        swapped = swap(store, claim("a"))
        after = clock.wall()
    assert before - TRAITS.step < swapped.now <= after


def test_a_single_member_does_not_survive_its_machine(store: Store) -> None:
    assert store.traits == TRAITS._replace(survives_failover=False)


def test_a_child_and_its_parent_use_connections_of_their_own(store: Store) -> None:
    win(store, claim("before"))

    def in_child() -> list[str | None]:
        return [verdict.refused for key in ("a", "b", "before") for verdict in swap(store, claim(key)).verdicts]

    assert ask(in_child) == [None, None, "version"]
    assert refusals(swap(store, claim("a"), claim("c"))) == [Refusal.VERSION, None]
