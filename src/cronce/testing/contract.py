"""What every store must keep, as tests. Subclass `StoreContract`, say how the store is opened, and pytest runs them:

    class TestMine(StoreContract):
        def url(self, place: Path) -> str:
            return f"mine://localhost/{place.name}"

`place` is a directory of the test's own: the same place must be the same store, another place another one. A promise
that the store does not make (its traits say so) is skipped, and the skip names the trait. Nothing here sets a clock or
waits a fixed time; the races use real threads and real processes.
"""

import multiprocessing
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from itertools import chain, pairwise
from multiprocessing.context import BaseContext
from multiprocessing.synchronize import Barrier
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final, NamedTuple

import pytest

from cronce.clock import SystemClock
from cronce.errors import StoreUnavailable
from cronce.model import (
    ABSENT,
    EPOCH,
    FREE,
    Cell,
    Epoch,
    Fence,
    Instant,
    Mark,
    Origin,
    Refusal,
    Verdict,
    Write,
    from_us,
    to_us,
)
from cronce.stores import open_store
from cronce.stores.base import BOARD, Listener, Position, Scan, Store, Swapped, listen
from cronce.stores.memory import MemoryStore

HOUR: Final = timedelta(hours=1)
CONTRACT_LEASE: Final = timedelta(seconds=30)
LATE_BY: Final = timedelta(seconds=10)
"""A store may note its last write so seldom."""
DAY: Final = EPOCH + timedelta(days=20_000)
"""Some day for slots, long past."""


# --- saying it shortly ----------------------------------------------------------------------------------------------


def claim(key: str, value: str = "claimed", **more: Any) -> Write:
    """Take a cell that no process holds."""
    return Write(key, FREE, value, Mark.OPEN, grant=True, ttl=CONTRACT_LEASE)._replace(**more)


def put(key: str, mark: Mark = Mark.CLOSED, **more: Any) -> Write:
    """Make a cell that is not there yet."""
    return Write(key, ABSENT, f"value of {key}", mark)._replace(**more)


def change(cell: Cell, value: str = "changed", **more: Any) -> Write:
    """Write a cell on the version that was read."""
    return Write(cell.key, cell.version, value, cell.mark, cell.at)._replace(**more)


def swap(store: Store, *writes: Write) -> Swapped:
    return store.swap(writes, store.load([]).epoch.seen)


def win(store: Store, *writes: Write) -> list[Cell]:
    """Swap, and all of it must win."""
    swapped = swap(store, *writes)
    assert refusals(swapped) == [None] * len(writes)
    return [verdict.cell for verdict in swapped.verdicts]


def cell_of(store: Store, key: str) -> Cell:
    (cell,) = load(store, key)
    return cell


def load(store: Store, *keys: str) -> list[Cell]:
    return list(store.load(keys).cells)


def verdicts(swapped: Swapped) -> list[Verdict]:
    return list(swapped.verdicts)


def refusals(swapped: Swapped) -> list[Refusal | None]:
    return [verdict.refused for verdict in swapped.verdicts]


def keys_of(cells: Sequence[Cell]) -> list[str]:
    return [cell.key for cell in cells]


def pages(store: Store, prefix: str, *, limit: int, **more: Any) -> list[list[str]]:
    """A whole scan, as the keys of its pages."""
    page = store.scan(Scan(prefix, limit=limit, **more))
    found = [keys_of(page.cells)]
    while page.next is not None:
        assert len(found) < 1000, "a scan that never ends"
        page = store.scan(Scan(prefix, after=page.next, limit=limit, **more))
        found.append(keys_of(page.cells))
    return found


class _StoreUnderTest:
    """How the store under test is opened, twice if need be."""

    def url(self, place: Path) -> str | None:  # noqa: ARG002
        """The store of a place. None if it has no URL: then `open` must be given, and no other process can reach it."""
        return None

    def open(self, place: Path) -> Store:
        """A new handle on the store of a place."""
        url = self.url(place)
        assert url is not None, "the contract needs a method url or a method open"
        return open_store(url)

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = self.open(tmp_path)
        yield store
        store.close()

    @pytest.fixture
    def other(self, tmp_path: Path) -> Iterator[Store]:
        """A second handle on the same store."""
        other = self.open(tmp_path)
        yield other
        other.close()


def require(store: Store, trait: str) -> None:
    if not getattr(store.traits, trait):
        pytest.skip(f"{store.traits.name} makes no such promise: its trait {trait} is False")


# --- one cell -------------------------------------------------------------------------------------------------------


class CellContract(_StoreUnderTest):
    """A cell is changed only by a write that names the version it saw."""

    def test_an_absent_cell_has_version_zero_and_nothing_in_it(self, store: Store) -> None:
        assert load(store, "run/a") == [Cell("run/a", 0, "", None, Mark.FREE, None, None)]

    def test_cells_come_in_the_order_asked_for(self, store: Store) -> None:
        win(store, put("a"), put("b"))
        assert keys_of(load(store, "b", "none", "a", "b")) == ["b", "none", "a", "b"]
        assert [cell.version > 0 for cell in load(store, "b", "none", "a", "b")] == [True, False, True, True]

    def test_a_cell_comes_back_as_it_was_written(self, store: Store, other: Store) -> None:
        at = DAY + timedelta(microseconds=123_457)
        (written,) = win(store, put("a", Mark.ATTENTION, value='{"né": "☃ 𝄞 \' \\" \\\\ %s ?"}', at=at))
        assert written == Cell("a", written.version, '{"né": "☃ 𝄞 \' \\" \\\\ %s ?"}', at, Mark.ATTENTION, None, None)
        assert cell_of(store, "a") == cell_of(other, "a") == written

    def test_values_of_one_batch_are_not_mixed_up(self, store: Store, other: Store) -> None:
        """Also where a character is several bytes, and a value none."""
        values = ["né", "", "☃" * 300, "plain", "𝄞", ""]
        cells = win(store, *(put(f"run/{place}", value=value) for place, value in enumerate(values)))
        assert [cell.value for cell in load(other, *keys_of(cells))] == values
        swapped = swap(store, *(change(cell, cell.value * 2) for cell in cells), put("run/0", value="late ☃"))
        assert refusals(swapped) == [*[None] * 6, Refusal.VERSION]
        assert [cell.value for cell in load(other, *keys_of(cells))] == [value * 2 for value in values]

    def test_an_empty_value_and_a_huge_one_are_kept(self, store: Store, other: Store) -> None:
        require(store, "history")
        huge = "ü" * (1 << 19)
        win(store, put("empty", value=""), put("huge", value=huge))
        assert cell_of(other, "empty").value == ""
        assert cell_of(other, "huge").value == huge
        assert len(huge.encode()) == 1 << 20

    def test_the_last_write_is_seen_through_every_handle(self, store: Store, other: Store) -> None:
        require(store, "linearizable")
        (cell,) = win(store, put("a", value="0"))
        for turn in range(1, 20):
            writer, reader = (store, other) if turn % 2 else (other, store)
            (cell,) = win(writer, change(cell, str(turn)))
            assert cell_of(reader, "a").value == str(turn)

    def test_of_two_that_expect_absence_the_second_is_told_who_was_first(self, store: Store, other: Store) -> None:
        (cell,) = win(store, put("a", value="first"))
        assert verdicts(swap(other, put("a", value="second"))) == [Verdict(Refusal.VERSION, cell)]
        assert cell_of(store, "a") == cell

    def test_a_write_wins_only_on_the_version_it_saw(self, store: Store, other: Store) -> None:
        (old,) = win(store, put("a"))
        (new,) = win(other, change(old, "new"))
        assert new.version > old.version
        assert verdicts(swap(store, change(old, "late"))) == [Verdict(Refusal.VERSION, new)]

    def test_a_version_of_an_absent_cell_is_refused(self, store: Store) -> None:
        assert verdicts(swap(store, put("a", seen=7))) == [Verdict(Refusal.VERSION, Cell("a"))]

    def test_free_takes_what_is_absent_or_marked_free(self, store: Store) -> None:
        win(store, put("free", Mark.FREE))
        assert [cell.value for cell in win(store, claim("absent"), claim("free"))] == ["claimed", "claimed"]

    def test_absent_does_not_take_what_is_marked_free(self, store: Store) -> None:
        (free,) = win(store, put("free", Mark.FREE))
        assert verdicts(swap(store, put("free"))) == [Verdict(Refusal.VERSION, free)]

    @pytest.mark.parametrize("mark", [Mark.OPEN, Mark.CLOSED, Mark.ATTENTION])
    def test_free_never_takes_a_cell_that_is_merely_lapsed(self, store: Store, mark: Mark) -> None:
        (cell,) = win(store, put("a", mark, ttl=timedelta(0)))
        assert cell.until is not None
        assert store.load([]).now >= cell.until
        assert verdicts(swap(store, claim("a"))) == [Verdict(Refusal.VERSION, cell)]

    def test_a_loser_changes_nothing(self, store: Store) -> None:
        win(store, claim("a"))
        before = store.load(["a"])
        swap(store, claim("a"))
        after = store.load(["a"])
        assert (after.epoch, after.cells) == (before.epoch, before.cells)

    def test_keys_that_only_look_alike_are_different_cells(self, store: Store) -> None:
        alike = ["a", "A", "á", "a\u0301", "a ", " a", "a/", "a%", "a_", "ａ"]
        win(store, *(put(key, value=f"<{key}>") for key in alike))
        assert [cell.value for cell in load(store, *alike)] == [f"<{key}>" for key in alike]

    def test_versions_come_from_one_tally_and_never_return(self, store: Store, other: Store) -> None:
        require(store, "tally")
        (first,) = win(store, put("a", at=DAY))
        versions = [first.version, win(other, put("b"))[0].version]
        assert store.purge([first]) == 1
        versions += [win(other, put("a"))[0].version, win(store, put("c"))[0].version]
        assert versions == sorted(set(versions))
        assert store.load(["a", "c"]).epoch.tally == versions[-1]

    def test_a_cell_that_was_deleted_and_made_again_does_not_look_unchanged(self, store: Store, other: Store) -> None:
        versions: list[int] = []
        for _ in range(3):
            (made,) = win(store, put("a", at=DAY))
            (changed,) = win(other, change(made))
            versions += [made.version, changed.version]
            assert other.purge([changed]) == 1
        assert versions == sorted(set(versions))

    def test_what_was_written_outlives_the_process_that_wrote_it(self, store: Store, tmp_path: Path) -> None:
        require(store, "durable")
        (cell,) = win(store, claim("a"))
        epoch = store.load(["a"]).epoch
        store.close()
        again = self.open(tmp_path)
        assert (cell_of(again, "a"), again.load(["a"]).epoch) == (cell, epoch)
        again.close()


class FenceContract(_StoreUnderTest):
    """A grant draws the next number; every other write keeps the one the cell has."""

    def test_each_grant_of_a_cell_draws_a_higher_fence(self, store: Store, other: Store) -> None:
        (first,) = win(store, claim("a"))
        (second,) = win(other, change(first, grant=True))
        (third,) = win(store, change(second, grant=True))
        fences = [cell.fence for cell in (first, second, third) if cell.fence]
        assert fences == sorted(set(fences))
        assert [str(fence) for fence in fences] == sorted({str(fence) for fence in fences})
        assert len(fences) == 3

    def test_each_grant_draws_a_higher_fence(self, store: Store, other: Store) -> None:
        require(store, "tally")
        first, second = *win(store, claim("a")), *win(other, claim("b"))
        (third,) = win(store, change(first, grant=True))
        fences = [cell.fence for cell in (first, second, third) if cell.fence]
        assert fences == sorted(set(fences))
        assert [str(fence) for fence in fences] == sorted({str(fence) for fence in fences})
        assert len(fences) == 3

    def test_a_fence_is_drawn_from_the_tally_of_this_life(self, store: Store) -> None:
        require(store, "tally")
        (cell,) = win(store, claim("a"))
        assert cell.fence == Fence(store.load([]).epoch.birth, cell.version)

    def test_other_writes_keep_the_fence(self, store: Store) -> None:
        (claimed,) = win(store, claim("a"))
        (renewed,) = win(store, change(claimed, ttl=CONTRACT_LEASE))
        (closed,) = win(store, change(renewed, mark=Mark.CLOSED))
        assert claimed.fence == renewed.fence == closed.fence == cell_of(store, "a").fence

    def test_a_cell_that_was_never_granted_has_no_fence(self, store: Store) -> None:
        (cell,) = win(store, put("a"))
        assert cell.fence is None
        assert win(store, change(cell))[0].fence is None


class ClockContract(_StoreUnderTest):
    """Time is the store's: `until`, not_before and not_after are judged by its clock, in the same round trip."""

    def test_now_never_falls_and_does_not_stand_still(self, store: Store, other: Store) -> None:
        seen, clock = [store.load([]).now], SystemClock()
        deadline = clock.boot() + NEWS_WITHIN
        while seen[-1] == seen[0] and clock.boot() < deadline:
            seen += [other.load([]).now, store.scan(Scan("")).now, swap(store, claim("a")).now]
        assert seen[-1] > seen[0]
        slack = store.traits.skew + store.traits.step
        assert all(later >= earlier - slack for earlier, later in pairwise(seen))

    def test_now_is_an_aware_utc_instant(self, store: Store) -> None:
        assert store.load([]).now.utcoffset() == timedelta(0)

    def test_until_is_the_stores_now_and_the_time_to_live(self, store: Store, other: Store) -> None:
        swapped = swap(store, claim("a", ttl=timedelta(seconds=90, microseconds=7)), put("b", ttl=timedelta(0)))
        untils = [swapped.now + timedelta(seconds=90, microseconds=7), swapped.now]
        assert [verdict.cell.until for verdict in swapped.verdicts] == untils
        assert [cell.until for cell in load(other, "a", "b")] == untils

    def test_without_a_time_to_live_until_stays(self, store: Store) -> None:
        (never,) = win(store, put("never"))
        (claimed,) = win(store, claim("claimed"))
        assert never.until is None
        assert win(store, change(claimed), change(never))[0].until == claimed.until
        assert cell_of(store, "never").until is None

    def test_a_write_is_refused_before_its_time(self, store: Store) -> None:
        now = store.load([]).now
        assert verdicts(swap(store, claim("a", not_before=now + HOUR))) == [Verdict(Refusal.EARLY, Cell("a"))]
        assert refusals(swap(store, claim("a", not_before=now))) == [None]

    def test_a_write_is_refused_after_its_time(self, store: Store) -> None:
        now = store.load([]).now
        assert verdicts(swap(store, claim("a", not_after=now - HOUR))) == [Verdict(Refusal.LATE, Cell("a"))]
        assert refusals(swap(store, claim("a", not_after=now + HOUR))) == [None]

    def test_a_write_that_is_early_or_late_leaves_the_cell_and_shows_it(self, store: Store) -> None:
        (free,) = win(store, put("a", Mark.FREE))
        now = store.load([]).now
        swapped = swap(store, claim("a", not_before=now + HOUR), claim("a", not_after=now - HOUR))
        assert verdicts(swapped) == [Verdict(Refusal.EARLY, free), Verdict(Refusal.LATE, free)]
        assert cell_of(store, "a") == free

    def test_of_many_new_cells_only_the_one_that_is_early_or_late_is_refused(self, store: Store) -> None:
        now = store.load([]).now
        fine = [claim(f"new-{number}", not_before=now - HOUR, not_after=now + HOUR) for number in range(12)]
        early = [*fine[:5], fine[5]._replace(not_before=now + HOUR)]
        late = [*fine[6:11], fine[11]._replace(not_after=now - HOUR)]
        assert refusals(swap(store, *early)) == [None] * 5 + [Refusal.EARLY]
        assert refusals(swap(store, *late)) == [None] * 5 + [Refusal.LATE]
        assert load(store, "new-5", "new-11") == [Cell("new-5"), Cell("new-11")]

    def test_a_loser_that_is_early_too_is_told_who_beat_it(self, store: Store) -> None:
        (cell,) = win(store, claim("a"))
        late = claim("a", not_before=store.load([]).now + HOUR)
        assert verdicts(swap(store, late)) == [Verdict(Refusal.VERSION, cell)]


# --- batches and groups ---------------------------------------------------------------------------------------------


class BatchContract(_StoreUnderTest):
    """Many writes in one call, each judged for itself, in the order given."""

    def test_an_empty_batch_is_answered(self, store: Store) -> None:
        swapped = swap(store)
        assert (load(store), verdicts(swapped)) == ([], [])
        assert swapped.epoch == store.load([]).epoch

    def test_verdicts_come_in_the_order_of_the_writes(self, store: Store) -> None:
        win(store, put("b"))
        swapped = swap(store, claim("c"), claim("b"), claim("a"))
        assert refusals(swapped) == [None, Refusal.VERSION, None]
        assert keys_of([verdict.cell for verdict in swapped.verdicts]) == ["c", "b", "a"]

    def test_a_thousand_slots_are_claimed_in_one_call(self, store: Store, other: Store) -> None:
        require(store, "history")
        keys = [f"run/job-{number % 7}/{number:04}" for number in range(1000)]
        win(store, *(claim(key) for key in keys[::2]))
        swapped = swap(other, *(claim(key, at=DAY) for key in keys))
        assert refusals(swapped) == [Refusal.VERSION, None] * 500
        assert [verdict.cell for verdict in swapped.verdicts] == load(store, *keys)

    def test_a_key_twice_in_a_batch_is_taken_once(self, store: Store) -> None:
        first, second = swap(store, claim("a", "first"), claim("a", "second")).verdicts
        assert (first.refused, second.refused) == (None, Refusal.VERSION)
        assert first.cell == second.cell == cell_of(store, "a")

    def test_a_later_write_sees_what_an_earlier_one_of_the_batch_did(self, store: Store) -> None:
        swapped = swap(store, put("a", Mark.FREE), claim("a"), claim("a", "too late"))
        assert refusals(swapped) == [None, None, Refusal.VERSION]
        assert swapped.verdicts[0].cell.version < swapped.verdicts[1].cell.version == cell_of(store, "a").version

    def test_it_agrees_with_the_memory_store_on_random_batches(self, store: Store) -> None:
        dice, model = random.Random(7), MemoryStore()
        for _ in range(60):
            batch = list(_random_batch(dice, grouped=store.traits.groups))
            assert _outcome(swap(store, *_seen(store, batch))) == _outcome(swap(model, *_seen(model, batch)))
        for by in ("key", "at"):
            assert pages(store, "", limit=3, by=by) == pages(model, "", limit=3, by=by)

    def test_it_agrees_with_the_memory_store_on_large_batches_that_are_won_but_for_a_few(self, store: Store) -> None:
        """As claims and ends are: pairs of a run and a turn, all with different keys."""
        dice, model = random.Random(11), MemoryStore()
        for _ in range(40):
            mistakes = dice.choice([0, 0, 0, 1, 4])
            batch = list(_pairs(dice, mistakes, grouped=store.traits.groups))
            assert _outcome(swap(store, *_seen(store, batch))) == _outcome(swap(model, *_seen(model, batch)))
        assert pages(store, "", limit=9) == pages(model, "", limit=9)

    def test_what_was_answered_is_what_is_stored(self, store: Store, other: Store) -> None:
        dice = random.Random(3)
        for _ in range(40):
            now = store.load([]).now
            batch = [
                write._replace(
                    ttl=dice.choice([None, HOUR, timedelta(0)]),
                    not_before=dice.choice([None, now, now + HOUR]),
                    not_after=dice.choice([None, now + HOUR, now - HOUR]),
                )
                for write in _random_batch(dice, grouped=store.traits.groups)
            ]
            latest = {cell.key: cell for _, cell in swap(store, *_seen(store, batch)).verdicts}
            assert load(other, *latest) == list(latest.values())


class GroupContract(_StoreUnderTest):
    """Writes of one group land together or not at all."""

    @pytest.fixture
    def grouping(self, store: Store) -> Store:
        """The store, if it has groups."""
        require(store, "groups")
        return store

    def test_a_group_lands_together(self, grouping: Store, other: Store) -> None:
        win(grouping, claim("turn", group=1), claim("run", group=1))
        assert [cell.value for cell in load(other, "turn", "run")] == ["claimed", "claimed"]

    def test_one_refused_member_keeps_the_others_from_landing(self, grouping: Store) -> None:
        (taken,) = win(grouping, claim("turn"))
        before = grouping.load([]).epoch
        swapped = swap(grouping, claim("run", group=1), claim("turn", group=1), claim("note", group=1))
        assert verdicts(swapped) == [
            Verdict(Refusal.GROUP, Cell("run")),
            Verdict(Refusal.VERSION, taken),
            Verdict(Refusal.GROUP, Cell("note")),
        ]
        assert load(grouping, "run", "note") == [Cell("run"), Cell("note")]
        assert grouping.load([]).epoch == before

    def test_a_group_is_refused_when_one_member_is_early(self, grouping: Store) -> None:
        tomorrow = grouping.load([]).now + 24 * HOUR
        swapped = swap(grouping, claim("turn", group=1), claim("run", group=1, not_before=tomorrow))
        assert refusals(swapped) == [Refusal.GROUP, Refusal.EARLY]
        assert cell_of(grouping, "turn") == Cell("turn")

    @pytest.mark.parametrize("why", [Refusal.EARLY, Refusal.LATE])
    def test_of_many_new_groups_only_the_one_that_is_early_or_late_is_refused(
        self, grouping: Store, why: Refusal
    ) -> None:
        now = grouping.load([]).now
        pairs = [[claim(f"run-{number}", group=number), claim(f"turn-{number}", group=number)] for number in range(5)]
        times: dict[str, Any] = {"not_before": now + HOUR} if why is Refusal.EARLY else {"not_after": now - HOUR}
        pairs[3][0] = pairs[3][0]._replace(**times)
        won: list[Refusal | None] = [None, None]
        assert refusals(swap(grouping, *chain(*pairs))) == [*won * 3, why, Refusal.GROUP, *won]
        assert load(grouping, "run-3", "turn-3") == [Cell("run-3"), Cell("turn-3")]

    def test_an_innocent_member_is_shown_its_own_cell(self, grouping: Store) -> None:
        free, _ = win(grouping, put("turn", Mark.FREE), put("run"))
        swapped = swap(grouping, claim("turn", group=1), claim("run", group=1))
        assert swapped.verdicts[0] == Verdict(Refusal.GROUP, free)

    def test_of_two_groups_that_want_one_turn_the_first_in_the_batch_has_it(self, grouping: Store) -> None:
        win(grouping, put("turn", Mark.FREE))
        batch = [claim("turn", "1", group=1), claim("run/1", group=1), claim("turn", "2", group=2)]
        swapped = swap(grouping, *batch, claim("run/2", group=2))
        assert refusals(swapped) == [None, None, Refusal.VERSION, Refusal.GROUP]
        assert swapped.verdicts[2].cell == swapped.verdicts[0].cell == cell_of(grouping, "turn")
        assert cell_of(grouping, "run/2") == Cell("run/2")

    def test_a_group_that_was_refused_does_not_stand_in_the_way_of_the_next(self, grouping: Store) -> None:
        win(grouping, put("closed"))
        batch = [claim("turn", group=1), claim("closed", group=1), claim("turn", "mine", group=2)]
        assert refusals(swap(grouping, *batch)) == [Refusal.GROUP, Refusal.VERSION, None]
        assert cell_of(grouping, "turn").value == "mine"

    def test_writes_without_a_group_stand_alone_beside_one(self, grouping: Store) -> None:
        win(grouping, put("closed"))
        batch = [claim("a"), claim("b", group=1), claim("closed", group=1), claim("c")]
        assert refusals(swap(grouping, *batch)) == [None, Refusal.GROUP, Refusal.VERSION, None]

    def test_a_thousand_groups_in_one_call(self, grouping: Store) -> None:
        batch = [claim(f"{kind}/{number:04}", group=number) for number in range(1000) for kind in ("run", "turn")]
        assert refusals(swap(grouping, *batch)) == [None] * 2000


# --- finding and deleting -------------------------------------------------------------------------------------------

ODD: Final = ["run/a", "run/a%", "run/a/1", "run/a_", "run/ab", "run/b", "run0", "run\U0010ffff", "ruo"]
ORDERED: Final = ["", "A", "Z", "a", "a!", "a/", "a0", "é", "ｱ", "\ufffd", "𝄞", "\U0010ffff"]
"""In the order of their bytes in UTF-8; by UTF-16 or by any language it would be another."""


class ScanContract(_StoreUnderTest):
    """Cells by key, at or until, page by page."""

    def fill(self, store: Store) -> None:
        """Twelve runs, two of each instant, until going the other way; some marked otherwise, some with neither."""
        runs = [
            put(
                f"run/{number:02}",
                [Mark.OPEN, Mark.CLOSED, Mark.ATTENTION][number % 3],
                at=DAY + number // 2 * HOUR,
                ttl=(30 - number // 2) * HOUR,
            )
            for number in range(12)
        ]
        win(store, *runs, put("run/none", Mark.OPEN), put("other/1", Mark.OPEN, at=DAY, ttl=HOUR))

    def test_an_empty_store_has_an_empty_page(self, store: Store) -> None:
        page = store.scan(Scan("run/"))
        assert (list(page.cells), page.next, page.epoch) == ([], None, store.load([]).epoch)

    def test_a_scan_shows_whole_cells(self, store: Store, other: Store) -> None:
        cells = win(store, claim("run/a", at=DAY), put("run/b"))
        assert list(other.scan(Scan("run/")).cells) == cells

    def test_keys_are_ordered_by_their_bytes(self, store: Store) -> None:
        win(store, *(put(f"k{key}") for key in reversed(ORDERED)))
        assert pages(store, "k", limit=5) == [[f"k{key}" for key in part] for part in _parts(ORDERED, 5)]

    def test_a_prefix_knows_no_wildcards(self, store: Store) -> None:
        win(store, *(put(key) for key in ODD))
        for prefix in ("", "run", "run/", "run/a", "run/a%", "run/a_", "run\U0010ffff", "x"):
            assert keys_of(store.scan(Scan(prefix)).cells) == [key for key in sorted(ODD) if key.startswith(prefix)]

    @pytest.mark.parametrize("by", ["key", "at", "until"])
    @pytest.mark.parametrize("newest_first", [False, True])
    def test_pages_lose_nothing_and_repeat_nothing(self, store: Store, by: Any, newest_first: bool) -> None:
        self.fill(store)
        for mark in (None, *Mark):
            expected = _expected(store, by, mark, newest_first=newest_first)
            for limit in (1, 3, 5, 100):
                found = pages(store, "run/", limit=limit, by=by, mark=mark, newest_first=newest_first)
                assert found == (_parts(expected, limit) or [[]]), (mark, limit)

    @pytest.mark.parametrize("newest_first", [False, True])
    def test_upto_ends_a_scan_at_an_instant_that_it_includes(self, store: Store, newest_first: bool) -> None:
        self.fill(store)
        found = pages(store, "run/", limit=2, by="at", upto=DAY + 2 * HOUR, newest_first=newest_first)
        expected = [f"run/{number:02}" for number in range(6)]
        assert list(chain(*found)) == (expected[::-1] if newest_first else expected)

    def test_lapsed_cells_are_found_by_until(self, store: Store) -> None:
        (lapsed, _, _) = win(store, put("a", Mark.OPEN, ttl=timedelta(0)), claim("b"), put("c", Mark.OPEN))
        assert list(store.scan(Scan("", by="until", mark=Mark.OPEN, upto=store.load([]).now)).cells) == [lapsed]

    def test_a_page_begins_past_its_position_even_if_that_cell_is_gone(self, store: Store) -> None:
        self.fill(store)
        first = store.scan(Scan("run/", by="at", limit=4))
        assert store.purge(first.cells) == 4
        rest = store.scan(Scan("run/", by="at", after=first.next))
        assert keys_of(rest.cells) == [key for key in _expected(store, "at", None) if key > "run/03"]

    def test_a_position_is_plain_data(self, store: Store) -> None:
        self.fill(store)
        position: Position | None = store.scan(Scan("run/", by="at", limit=3)).next
        assert position == Position(to_us(DAY + HOUR), "run/02")
        assert store.scan(Scan("run/", limit=3)).next == Position(0, "run/02")


class PurgeContract(_StoreUnderTest):
    """A cell is deleted only as it was read."""

    def test_only_the_cells_named_go(self, store: Store, other: Store) -> None:
        cells = win(store, *(put(f"run/{mark.name}", mark, at=DAY) for mark in Mark), put("run/timeless"))
        gone = [cell for cell in cells if cell.mark in (Mark.CLOSED, Mark.ATTENTION)]
        assert other.purge(gone) == 3
        assert keys_of(store.scan(Scan("")).cells) == ["run/FREE", "run/OPEN"]
        assert keys_of(store.scan(Scan("", by="at")).cells) == ["run/FREE", "run/OPEN"]
        assert cell_of(store, "run/CLOSED") == Cell("run/CLOSED")

    def test_a_cell_that_was_written_since_stays(self, store: Store, other: Store) -> None:
        (old,) = win(store, put("a", at=DAY))
        (new,) = win(other, change(old, "new"))
        assert store.purge([old]) == 0
        assert cell_of(store, "a") == new

    def test_a_cell_that_is_gone_or_was_never_there_is_not_counted(self, store: Store) -> None:
        (cell,) = win(store, put("a", at=DAY))
        assert store.purge([cell, Cell("never"), Cell("nor this", 7)]) == 1
        assert store.purge([cell]) == store.purge([]) == 0

    def test_a_cell_made_anew_is_another_one(self, store: Store) -> None:
        (old,) = win(store, put("a", at=DAY))
        store.purge([old])
        (new,) = win(store, put("a", at=DAY))
        assert store.purge([old]) == 0
        assert cell_of(store, "a") == new

    def test_cells_whose_keys_look_alike_stay(self, store: Store) -> None:
        cells = {cell.key: cell for cell in win(store, *(put(key, at=DAY) for key in ODD))}
        for number, key in enumerate(sorted(ODD), start=1):
            assert store.purge([cells[key]]) == 1
            assert keys_of(store.scan(Scan("")).cells) == sorted(ODD)[number:]

    def test_a_thousand_cells_go_in_one_call(self, store: Store) -> None:
        require(store, "history")
        cells = win(store, *(put(f"run/{number:04}", at=DAY) for number in range(1000)), put("run/x", Mark.OPEN))
        assert store.purge(cells[:-1]) == 1000
        assert keys_of(store.scan(Scan("")).cells) == ["run/x"]
        assert keys_of(store.scan(Scan("", by="at")).cells) == []

    def test_a_purge_is_no_write_that_a_writer_could_miss(self, store: Store) -> None:
        cells = win(store, put("a", at=DAY))
        before = store.load([]).epoch
        store.purge(cells)
        assert store.load([]).epoch == before


# --- the lives of a store -------------------------------------------------------------------------------------------


class EpochContract(_StoreUnderTest):
    """A swap names what its writer has seen; so a store that forgot is found out."""

    def test_every_answer_carries_the_epoch(self, store: Store, other: Store) -> None:
        swapped = swap(store, claim("a"))
        assert swapped.epoch == store.load([]).epoch == other.scan(Scan("")).epoch == swap(other).epoch
        assert swapped.epoch.tally == (swapped.verdicts[0].cell.version if store.traits.tally else 0)

    def test_a_life_begins_at_its_birth_by_the_stores_clock(self, store: Store) -> None:
        loaded = store.load([])
        assert (loaded.epoch.base, loaded.epoch.since) == (0, None)
        assert abs(loaded.now - from_us(loaded.epoch.birth)) < HOUR

    @pytest.mark.parametrize("seen", [(0, 0), (-1, 0), (-1, 1000)])
    def test_a_writer_of_an_earlier_life_is_refused(self, store: Store, seen: tuple[int, int]) -> None:
        win(store, claim("a"))
        before = store.load([]).epoch
        birth = before.birth + seen[0] if seen[0] else 0
        swapped = store.swap([claim("b"), put("a")], (birth, seen[1]))
        assert verdicts(swapped) == [Verdict(Refusal.EPOCH, Cell("b")), Verdict(Refusal.EPOCH, Cell("a"))]
        assert swapped.epoch == store.load([]).epoch == before
        assert cell_of(store, "b") == Cell("b")

    def reborn(self, other: Store, place: Path) -> None:  # noqa: ARG002
        """Make the store of a place begin another life, unknown to the processes that have it open. A store without a
        tally detects this by the deletion of all its cells: give the contract the way to do that."""
        require(other, "tally")
        before = other.load([]).epoch
        other.swap([], (before.birth + 1, before.tally + 1000))

    def test_a_writer_is_refused_though_another_has_begun_the_next_life_and_written_in_it(
        self, store: Store, other: Store, tmp_path: Path
    ) -> None:
        """Whatever this process remembers of the cell or of the store, it is judged by what the store is now."""
        win(store, claim("lock/a"))
        before = store.load([]).epoch
        self.reborn(other, tmp_path)
        assert other.load([]).epoch.birth > before.birth
        win(other, change(cell_of(other, "lock/a"), mark=Mark.FREE))
        assert refusals(store.swap([claim("lock/a")], before.seen)) == [Refusal.EPOCH]
        assert refusals(swap(store, claim("lock/a"))) == [None]

    def test_a_writer_that_has_not_seen_the_latest_write_is_welcome(self, store: Store, other: Store) -> None:
        seen = store.load([]).epoch.seen
        win(other, claim("a"))
        assert refusals(store.swap([claim("b")], seen)) == [None]

    def test_a_writer_that_saw_more_than_the_store_knows_begins_a_new_life(self, store: Store, other: Store) -> None:
        require(store, "tally")
        last = swap(store, claim("a"))
        before = last.epoch
        swapped = store.swap([claim("b")], (before.birth, before.tally + 5))
        since = swapped.epoch.since
        expected = Epoch(swapped.epoch.birth, before.tally + 5, before.tally + 5, Origin.RESTORED, since)
        assert swapped.epoch == other.load([]).epoch == expected
        assert swapped.epoch.birth > before.birth
        assert verdicts(swapped) == [Verdict(Refusal.EPOCH, Cell("b"))]

    def test_a_new_life_is_later_than_any_that_its_writer_knew(self, store: Store) -> None:
        require(store, "tally")
        win(store, claim("a"))
        before = store.load([]).epoch
        birth = before.birth + 3_600_000_000
        assert refusals(store.swap([claim("b")], (birth, 3))) == [Refusal.EPOCH]
        after = store.load([]).epoch
        assert after.birth > birth
        assert after.base == after.tally >= 3
        assert after.origin is Origin.RESTORED

    def test_an_empty_batch_finds_out_a_store_that_forgot(self, store: Store) -> None:
        require(store, "tally")
        before = store.load([]).epoch
        assert store.swap([], (before.birth, before.tally + 1)).epoch.origin is Origin.RESTORED

    def test_in_a_new_life_cells_remain_and_versions_go_on(self, store: Store, other: Store) -> None:
        require(store, "tally")
        (old,) = win(store, claim("a"))
        before = store.load([]).epoch
        store.swap([], (before.birth, before.tally + 5))
        assert refusals(other.swap([claim("b")], before.seen)) == [Refusal.EPOCH]
        assert cell_of(other, "a") == old
        (new,) = win(other, claim("b"))
        assert new.version > before.tally + 5 == store.load([]).epoch.base
        assert old.fence is not None
        assert new.fence is not None
        assert new.fence > old.fence

    def test_the_last_write_the_store_knew_of_is_on_record(self, store: Store) -> None:
        """Or a moment before it: what came since is taken for unknown."""
        require(store, "tally")
        last = swap(store, put("a"))
        while store.load([]).now == last.now:
            pass
        swap(store, put("a"))  # a loser is no write
        epoch = store.swap([], (last.epoch.birth, last.epoch.tally + 1)).epoch
        assert epoch.since is not None
        assert last.now - LATE_BY <= epoch.since <= last.now


# --- news -----------------------------------------------------------------------------------------------------------


def news(key: str = "board/runs", **more: Any) -> Write:
    """Write on the board, whatever it contains."""
    return Write(key, FREE, "", Mark.FREE)._replace(**more)


def note(key: str, **more: Any) -> Write:
    """Write a cell that no process holds, and leave it so; its value looks like a key."""
    return Write(key, FREE, "board/runs", Mark.FREE)._replace(**more)


LARGE_BATCH: Final = [note(f"run/{number:04}") for number in range(1100)]
ON_THE_BOARD: Final[dict[str, list[Write]]] = {
    "alone": [news()],
    "with its group": [note("run/a", group=1), news(group=1)],
    "two at once": [news("board/jobs"), news()],
    "with one group of several": [*LARGE_BATCH[:3], note("turn/a", group=1), news(group=1), note("turn/b", group=2)],
    "beside one that is refused": [note("taken"), news()],
    "beside a group that is refused": [*LARGE_BATCH[:4], note("taken", group=1), note("run/a", group=1), news(group=2)],
    "beside a key that comes twice": [note("run/a"), news(), note("run/a")],
    "last of many": [*LARGE_BATCH, news()],
}
WRITES_ELSEWHERE: Final[dict[str, list[Write]]] = {
    "alone": [note("run/a")],
    "with its group": [note("run/a", group=1), note("turn/a", group=1)],
    "almost on it": [note(key) for key in ("board", "boar", "Board/runs", "a/board/runs", "board0/a", "board!/a", "b")],
    "many": [note(f"run/board/{number}") for number in range(20)],
    "a key that comes twice": [note("run/a"), note("run/a")],
}
REFUSED_WRITES: Final[dict[str, list[Write]]] = {
    "alone": [news(seen=7)],
    "too early": [news(not_before=DAY + timedelta(days=100_000))],
    "with its group": [note("taken", group=1), news(group=1)],
    "with one group of several": [*LARGE_BATCH[:4], note("taken", group=1), news(group=1)],
    "beside a key that comes twice": [note("run/a"), note("run/a"), note("taken", group=1), news(group=1)],
}
NEWS_WITHIN: Final = 30.0
"""Seconds in which news comes, or a clock goes on, however busy the machine is."""
NO_NEWS_SECONDS: Final = 0.05
"""Seconds in which it would have come."""


class NewsContract(_StoreUnderTest):
    """A write that wins on the board wakes the listeners, and no other write does."""

    @pytest.fixture
    def listener(self, store: Store) -> Iterator[Listener]:
        require(store, "notifies")
        with closing(listening(store)) as listener:
            yield listener

    @pytest.mark.parametrize("writes", ON_THE_BOARD.values(), ids=ON_THE_BOARD)
    def test_a_write_on_the_board_is_heard_once(
        self, listener: Listener, other: Store, writes: Sequence[Write]
    ) -> None:
        """Whether it creates its cell or finds it there, and even if it comes before a listener waits."""
        win(other, put("taken"))
        for _ in range(2):
            assert written_on_board(other, writes)
            assert listener.wait(NEWS_WITHIN)
        assert not listener.wait(NO_NEWS_SECONDS)

    @pytest.mark.parametrize("writes", WRITES_ELSEWHERE.values(), ids=WRITES_ELSEWHERE)
    def test_other_writes_wake_nobody(self, listener: Listener, other: Store, writes: Sequence[Write]) -> None:
        require_groups(other, writes)
        win(other, *writes)
        assert not listener.wait(NO_NEWS_SECONDS)

    @pytest.mark.parametrize("writes", REFUSED_WRITES.values(), ids=REFUSED_WRITES)
    def test_what_is_refused_wakes_nobody(self, listener: Listener, other: Store, writes: Sequence[Write]) -> None:
        win(other, put("taken"))
        assert not written_on_board(other, writes)
        assert not listener.wait(NO_NEWS_SECONDS)

    def test_what_is_purged_wakes_nobody(self, store: Store, other: Store) -> None:
        require(store, "notifies")
        cells = win(other, news(), news("board/jobs"))
        with closing(listening(store)) as listener:
            assert other.purge(cells) == 2
            assert not listener.wait(NO_NEWS_SECONDS)
            win(other, news())
            assert listener.wait(NEWS_WITHIN)

    def test_a_wait_that_is_going_on_ends_at_once(self, listener: Listener, other: Store) -> None:
        with ThreadPoolExecutor(1) as pool:
            for _ in range(5):
                waiting = pool.submit(listener.wait, NEWS_WITHIN)
                win(other, news())
                assert waiting.result()

    def test_ones_own_writes_are_heard(self, listener: Listener, store: Store) -> None:
        win(store, news())
        assert listener.wait(NEWS_WITHIN)

    def test_everybody_who_listens_hears_it(self, listener: Listener, store: Store, other: Store) -> None:
        with closing(listening(store)) as second, closing(listening(other)) as third:
            win(other, news())
            assert [each.wait(NEWS_WITHIN) for each in (listener, second, third)] == [True, True, True]
        with closing(listening(store)) as late:
            assert not late.wait(NO_NEWS_SECONDS)

    def test_another_store_has_news_of_its_own(self, listener: Listener, tmp_path: Path) -> None:
        place = tmp_path / "another"
        place.mkdir()
        with closing(self.open(place)) as another, closing(listening(another)) as there:
            win(another, news())
            assert (there.wait(NEWS_WITHIN), listener.wait(NO_NEWS_SECONDS)) == (True, False)

    def test_to_be_woken_is_no_news(self, listener: Listener, other: Store) -> None:
        """Also if it comes before the wait; then news is heard as ever."""
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(listener.wait, NEWS_WITHIN)
            listener.wake()
            assert waiting.result() is False
        listener.wake()
        assert not listener.wait(NEWS_WITHIN)
        win(other, news())
        assert listener.wait(NEWS_WITHIN)

    def test_a_listener_is_closed_under_whoever_waits(self, listener: Listener) -> None:
        began = SystemClock().boot()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(_wait_out, listener)
            listener.close()
            assert not waiting.result()
        assert SystemClock().boot() - began < NEWS_WITHIN
        with pytest.raises(StoreUnavailable):
            listener.wait(0)
        listener.wake()
        listener.close()

    def test_a_wait_of_no_time_tells_what_is_there(self, listener: Listener, other: Store) -> None:
        assert not listener.wait(0)
        win(other, news())
        deadline = SystemClock().boot() + NEWS_WITHIN
        while not listener.wait(0):
            assert SystemClock().boot() < deadline


def listening(store: Store) -> Listener:
    listener = listen(store)
    assert listener is not None, "a store whose trait notifies is True must have a method listen"
    return listener


def require_groups(store: Store, writes: Sequence[Write]) -> None:
    if any(write.group is not None for write in writes):
        require(store, "groups")


def written_on_board(store: Store, writes: Sequence[Write]) -> list[str]:
    """What was won of it."""
    require_groups(store, writes)
    return [cell.key for refused, cell in swap(store, *writes).verdicts if not refused and cell.key.startswith(BOARD)]


def _wait_out(listener: Listener) -> bool:
    try:
        return listener.wait(NEWS_WITHIN)
    except StoreUnavailable:  # closed before it began
        return False


# --- races ----------------------------------------------------------------------------------------------------------


class ContractAttempt(NamedTuple):
    """The store's answer to one racer about one cell."""

    by: str
    won: bool
    cell: Cell


class RaceContract(_StoreUnderTest):
    """If several ask at the same time, one wins, and all others are shown the winner's cell."""

    THREADS: int = 8
    PROCESSES: int = 6
    CELLS: int = 200

    def test_of_many_threads_one_wins_each_cell(self, store: Store, other: Store) -> None:
        keys, start = [f"run/{number:03}" for number in range(self.CELLS)], threading.Barrier(self.THREADS)

        def race(number: int) -> list[ContractAttempt]:
            start.wait(timeout=60)
            return contend((store, other)[number % 2], keys, f"thread {number}", batch=number % 4 * 8 + 1)

        with ThreadPoolExecutor(self.THREADS) as pool:
            check_race(keys, list(pool.map(race, range(self.THREADS))), store)

    def test_of_many_processes_one_wins_each_cell(self, store: Store, tmp_path: Path) -> None:
        url = self.url(tmp_path)
        if url is None:
            pytest.skip(f"{store.traits.name} has no URL by which another process could reach it")
        keys = [f"run/{number:03}" for number in range(self.CELLS)]
        check_race(keys, in_processes(self.PROCESSES, _race, (url, keys)), store)

    def test_of_many_threads_one_holds_a_turn_at_a_time(self, store: Store, other: Store) -> None:
        """Between taking a turn and giving it back, no other thread touches it."""
        require(store, "groups")

        def hold(number: int) -> int:
            return sum(_hold_turn((store, other)[number % 2], f"{number}/{turn}") for turn in range(10))

        with ThreadPoolExecutor(self.THREADS) as pool:
            held = sum(pool.map(hold, range(self.THREADS)))
        assert held == len(store.scan(Scan("held/")).cells) > 0
        assert cell_of(store, "turn").mark is Mark.FREE


def contend(store: Store, keys: Sequence[str], name: str, *, batch: int = 1) -> list[ContractAttempt]:
    """Claim every cell, so many in one call."""
    seen, attempts = store.load([]).epoch.seen, []
    for start in range(0, len(keys), batch):
        swapped = store.swap([claim(key, name) for key in keys[start : start + batch]], seen)
        attempts += [ContractAttempt(name, refused is None, cell) for refused, cell in swapped.verdicts]
    return attempts


def check_race(keys: Sequence[str], racers: Sequence[Sequence[ContractAttempt]], store: Store) -> None:
    attempts = [attempt for racer in racers for attempt in racer]
    won = sorted((attempt.cell.key, attempt.by) for attempt in attempts if attempt.won)
    final = load(store, *keys)
    assert won == [(cell.key, cell.value) for cell in final]
    assert [keys_of([attempt.cell for attempt in racer]) for racer in racers] == [list(keys)] * len(racers)
    assert {attempt.cell for attempt in attempts} == set(final)
    if store.traits.tally:
        assert len({cell.version for cell in final}) == len({cell.fence for cell in final}) == len(keys)
        assert store.load(keys).epoch.tally == max(cell.version for cell in final)


def in_processes(count: int, target: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
    """Run `target(number, *args)` in so many fresh processes, which all begin at once."""
    context = _processes()
    with context.Pool(count, _meet, (context.Barrier(count),)) as pool:
        results = pool.starmap(_together, [(target, number, *args) for number in range(count)], chunksize=1)
        pool.close()
        pool.join()
    return results


def _processes() -> BaseContext:
    """Forked from one process that has imported this module. Its socket is in the temporary directory, so where that
    has a long path they are spawned."""
    if "forkserver" not in multiprocessing.get_all_start_methods() or len(os.fsencode(gettempdir())) > 60:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


_barrier: Barrier | None = None


def _meet(barrier: Barrier) -> None:
    global _barrier  # noqa: PLW0603  a barrier reaches a worker only while it is being made
    _barrier = barrier


def _together(target: Callable[..., Any], *args: Any) -> Any:
    assert _barrier is not None
    _barrier.wait(timeout=60)
    return target(*args)


def _race(number: int, url: str, keys: Sequence[str]) -> list[ContractAttempt]:
    store = open_store(url)
    try:
        return contend(store, keys, f"process {number}", batch=number % 3 * 7 + 1)
    finally:
        store.close()


def _hold_turn(store: Store, name: str) -> bool:
    taken, _ = swap(store, claim("turn", name, group=1), put(f"held/{name}", Mark.OPEN, group=1)).verdicts
    if taken.refused is None:
        win(store, change(taken.cell, mark=Mark.FREE))
    return taken.refused is None


# --- small matters --------------------------------------------------------------------------------------------------


def _parts(items: Sequence[str], size: int) -> list[list[str]]:
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def _expected(store: Store, by: str, mark: Mark | None, *, newest_first: bool = False) -> list[str]:
    """The keys below run/ as a scan should find them, worked out the long way."""
    cells = [cell for cell in store.scan(Scan("run/", limit=10_000)).cells if mark in (None, cell.mark)]

    def place(cell: Cell) -> tuple[Instant | None, str]:
        return ({"key": EPOCH, "at": cell.at, "until": cell.until}[by], cell.key)

    found = [(instant, key) for instant, key in map(place, cells) if instant is not None]
    return [key for _, key in sorted(found, reverse=newest_first)]


FAR_AHEAD: Final = EPOCH + timedelta(days=80_000)
AS_IT_IS: Final = -2
"""In a random batch: the version that the cell has, whatever it is."""


def _random_batch(dice: random.Random, *, grouped: bool) -> Iterator[Write]:
    """Writes on ten cells: some right, some wrong, some in groups. Members of a group name different cells."""
    for group in range(dice.randrange(6)):
        for key in dice.sample("abcdefghij", dice.choice([1, 1, 2, 3]) if grouped else 1):
            at = dice.choice([None, DAY, DAY + dice.randrange(5) * HOUR])
            seen = dice.choice([ABSENT, FREE, FREE, AS_IT_IS, AS_IT_IS, AS_IT_IS])
            write = Write(key, seen, str(dice.random()), dice.choice(list(Mark)), at, grant=dice.random() < 0.5)
            yield write._replace(group=group if grouped else None)


def _pairs(dice: random.Random, mistakes: int, *, grouped: bool) -> Iterator[Write]:
    """Ten pairs, each seen as it is and in time but for so many."""
    wrong = dice.sample(range(20), mistakes)
    for group, number in enumerate(dice.sample(range(30), 10)):
        for place, key in enumerate((f"run/{number}", f"turn/{number}")):
            seen, mark = dice.choice([AS_IT_IS, AS_IT_IS, FREE]), dice.choice([Mark.FREE, Mark.FREE, Mark.OPEN])
            at, ttl = dice.choice([None, DAY]), dice.choice([None, HOUR])
            write = Write(key, seen, str(dice.random()), mark, at, place == 0, ttl, group=group if grouped else None)
            if 2 * group + place in wrong:
                write = dice.choice(
                    [
                        write._replace(seen=dice.choice([ABSENT, 1])),
                        write._replace(not_before=FAR_AHEAD),
                        write._replace(not_after=DAY),
                    ]
                )
            yield write


def _seen(store: Store, batch: Sequence[Write]) -> list[Write]:
    return [
        write._replace(seen=cell_of(store, write.key).version) if write.seen == AS_IT_IS else write for write in batch
    ]


def _outcome(swapped: Swapped) -> list[Any]:
    """A swap's answer without what may differ between two stores: their clocks and their numbers."""
    return [
        (refused, cell.key, cell.value, cell.at, cell.mark, cell.version > 0, cell.fence is None)
        for refused, cell in swapped.verdicts
    ]


class StoreContract(
    CellContract,
    FenceContract,
    ClockContract,
    BatchContract,
    GroupContract,
    ScanContract,
    PurgeContract,
    EpochContract,
    NewsContract,
    RaceContract,
):
    """All of it. A class of this kind that passes may call its store a store."""
