"""Stores that each break one promise, by the test of the contract that must find it out."""

import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from cronce.model import FREE, Cell, Epoch, Fence, Refusal, Verdict, Write
from cronce.stores.base import BOARD, Loaded, Page, Scan, Swapped, is_news
from cronce.stores.memory import MemoryListener, MemoryStore
from cronce.testing import StoreContract

CAUGHT_BY: dict[str, type[MemoryStore]] = {}


def caught_by(test: str) -> Any:
    def add(mutant: type[MemoryStore]) -> type[MemoryStore]:
        CAUGHT_BY[test] = mutant
        return mutant

    return add


class Rewriting(MemoryStore):
    """Changes each write on its way in."""

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        return super().swap([self.change(write, self.load([write.key])) for write in writes], seen)

    def change(self, write: Write, loaded: Loaded) -> Write:
        return write


class Retelling(MemoryStore):
    """Changes each verdict on its way out."""

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        swapped = super().swap(writes, seen)
        return swapped._replace(verdicts=[self.retell(verdict) for verdict in swapped.verdicts])

    def retell(self, verdict: Verdict) -> Verdict:
        return verdict


@caught_by("test_free_never_takes_a_cell_that_is_merely_lapsed")
class TakesTheLapsed(Rewriting):
    def change(self, write: Write, loaded: Loaded) -> Write:
        (cell,) = loaded.cells
        lapsed = write.seen == FREE and cell.until is not None and cell.until <= loaded.now
        return write._replace(seen=cell.version) if lapsed else write


@caught_by("test_absent_does_not_take_what_is_marked_free")
class TakesTheFreeAsAbsent(Rewriting):
    def change(self, write: Write, loaded: Loaded) -> Write:
        return write._replace(seen=write.seen or FREE)


@caught_by("test_a_write_wins_only_on_the_version_it_saw")
class LooksAtNoVersion(Rewriting):
    def change(self, write: Write, loaded: Loaded) -> Write:
        return write._replace(seen=loaded.cells[0].version)


@caught_by("test_other_writes_keep_the_fence")
class GrantsAlways(Rewriting):
    def change(self, write: Write, loaded: Loaded) -> Write:
        return write._replace(grant=True)


@caught_by("test_without_a_time_to_live_until_stays")
class ForgetsUntil(Rewriting):
    def change(self, write: Write, loaded: Loaded) -> Write:
        return write._replace(ttl=write.ttl or timedelta(0))


@caught_by("test_a_write_is_refused_before_its_time")
class NeverEarly(Rewriting):
    def change(self, write: Write, loaded: Loaded) -> Write:
        return write._replace(not_before=None)


@caught_by("test_a_write_is_refused_after_its_time")
class NeverLate(Rewriting):
    def change(self, write: Write, loaded: Loaded) -> Write:
        return write._replace(not_after=None)


@caught_by("test_one_refused_member_keeps_the_others_from_landing")
class KnowsNoGroups(Rewriting):
    def change(self, write: Write, loaded: Loaded) -> Write:
        return write._replace(group=None)


@caught_by("test_an_empty_value_and_a_huge_one_are_kept")
class CutsLongValues(Rewriting):
    def change(self, write: Write, loaded: Loaded) -> Write:
        return write._replace(value=write.value[:65_535])


@caught_by("test_keys_that_only_look_alike_are_different_cells")
class IgnoresCase(Rewriting):
    def change(self, write: Write, loaded: Loaded) -> Write:
        return write._replace(key=write.key.lower())


@caught_by("test_of_two_that_expect_absence_the_second_is_told_who_was_first")
class HidesTheWinner(Retelling):
    def retell(self, verdict: Verdict) -> Verdict:
        return Verdict(verdict.refused, Cell(verdict.cell.key)) if verdict.refused else verdict


@caught_by("test_an_innocent_member_is_shown_its_own_cell")
class BlamesTheInnocent(Retelling):
    def retell(self, verdict: Verdict) -> Verdict:
        return verdict._replace(refused=verdict.refused and Refusal.VERSION)


@caught_by("test_each_grant_draws_a_higher_fence")
@caught_by("test_each_grant_of_a_cell_draws_a_higher_fence")
class CountsFencesPerCell(Retelling):
    def retell(self, verdict: Verdict) -> Verdict:
        fence = verdict.cell.fence and Fence(verdict.cell.fence.birth, 1)
        return verdict._replace(cell=verdict.cell._replace(fence=fence))


@caught_by("test_of_two_groups_that_want_one_turn_the_first_in_the_batch_has_it")
class JudgesAllGroupsByWhatWasThereBefore(MemoryStore):
    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        before = dict(self._cells)
        verdicts = []
        for group in sorted({write.group or 0 for write in writes}):
            after, self._cells = self._cells, dict(before)
            swapped = super().swap([write for write in writes if (write.group or 0) == group], seen)
            self._cells = {**after, **self._cells}
            verdicts += list(swapped.verdicts)
        return swapped._replace(verdicts=verdicts)


@caught_by("test_versions_come_from_one_tally_and_never_return")
@caught_by("test_a_cell_that_was_deleted_and_made_again_does_not_look_unchanged")
class CountsWhatIsThere(MemoryStore):
    def purge(self, cells: Sequence[Cell]) -> int:
        gone = super().purge(cells)
        self._epoch = self._epoch._replace(tally=max((cell.version for cell in self._cells.values()), default=0) - 1)
        return gone


@caught_by("test_what_was_answered_is_what_is_stored")
class StoresLessThanItAnswers(MemoryStore):
    """The answer is right; what is stored has lost its `until`, where the write brought none."""

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        swapped = super().swap(writes, seen)
        for write, (refused, cell) in zip(writes, swapped.verdicts, strict=True):
            if refused is None and write.ttl is None and cell.key in self._cells:
                self._cells[cell.key] = self._cells[cell.key]._replace(until=None)
        return swapped


@caught_by("test_a_cell_that_was_written_since_stays")
class PurgesByKey(MemoryStore):
    def _same(self, cell: Cell) -> bool:
        return True


@caught_by("test_cells_whose_keys_look_alike_stay")
class PurgesByWildcard(MemoryStore):
    def purge(self, cells: Sequence[Cell]) -> int:
        alike = [cell for cell in self._cells.values() if any(cell.key.startswith(gone.key) for gone in cells)]
        return super().purge(alike)


@caught_by("test_a_prefix_knows_no_wildcards")
class ScansByWildcard(MemoryStore):
    def scan(self, scan: Scan) -> Page:
        return super().scan(scan._replace(prefix=scan.prefix.rstrip("%_")))


@caught_by("test_pages_lose_nothing_and_repeat_nothing")
class LosesTiesBetweenPages(MemoryStore):
    def scan(self, scan: Scan) -> Page:
        page = super().scan(scan)
        return page._replace(next=page.next._replace(key="~") if page.next and scan.by == "at" else page.next)


@caught_by("test_a_writer_of_an_earlier_life_is_refused")
class WelcomesThePast(MemoryStore):
    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        return super().swap(writes, max(seen, (self._epoch.birth, 0)))


@caught_by("test_a_writer_is_refused_though_another_has_begun_the_next_life_and_written_in_it")
class ForgivesWhoKnewTheFirstLife(MemoryStore):
    """As one does that compares a writer's birth with what it has heard of the store itself, and not with the store."""

    def __init__(self) -> None:
        super().__init__()
        self._first = self._epoch.birth

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        return super().swap(writes, self._epoch.seen if seen[0] == self._first and seen[1] else seen)


@caught_by("test_a_writer_that_saw_more_than_the_store_knows_begins_a_new_life")
class NeverForgets(MemoryStore):
    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        return super().swap(writes, min(seen, self._epoch.seen))


@caught_by("test_the_last_write_the_store_knew_of_is_on_record")
class TakesALoserForAWrite(MemoryStore):
    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        swapped = super().swap(writes, seen)
        self._last_write = self._clock() + timedelta(seconds=1)
        return swapped


@caught_by("test_now_never_falls_and_does_not_stand_still")
class StandsStill(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        now = self._clock()
        self._clock = lambda: now


@caught_by("test_of_many_threads_one_wins_each_cell")
class LocksNothing(MemoryStore):
    """Reads, lets the others run, then writes."""

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        cells, epoch = dict(self._cells), self._epoch
        time.sleep(0)
        self._cells, self._epoch = cells, Epoch(*epoch)
        return super().swap(writes, seen)


@caught_by("test_the_last_write_is_seen_through_every_handle")
class KeepsACopyPerHandle(MemoryStore):
    pass


@caught_by("test_a_write_on_the_board_is_heard_once")
class TellsOnlyOfTheFirstWrite(MemoryStore):
    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        before = self._news
        swapped = super().swap(writes, seen)
        self._news = before + writes[0].key.startswith(BOARD) if writes else before
        return swapped


@caught_by("test_other_writes_wake_nobody")
class TellsOfEveryWrite(MemoryStore):
    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        self._news += bool(writes)
        return super().swap(writes, seen)


@caught_by("test_what_is_refused_wakes_nobody")
class TellsBeforeItJudges(MemoryStore):
    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        self._news += is_news(write.key for write in writes)
        return super().swap(writes, seen)


@caught_by("test_what_is_purged_wakes_nobody")
class TellsOfWhatIsGone(MemoryStore):
    def purge(self, cells: Sequence[Cell]) -> int:
        self._news += is_news(cell.key for cell in cells)
        return super().purge(cells)


@caught_by("test_everybody_who_listens_hears_it")
class TellsOneOnly(MemoryStore):
    def listen(self) -> MemoryListener:
        self.listener = getattr(self, "listener", None) or super().listen()
        return self.listener


@caught_by("test_another_store_has_news_of_its_own")
class HasOneBoardForAll(MemoryStore):
    told: int = 0

    @property
    def _news(self) -> int:
        return HasOneBoardForAll.told

    @_news.setter
    def _news(self, count: int) -> None:
        HasOneBoardForAll.told = max(count, HasOneBoardForAll.told)


class MutantContract(StoreContract):
    """The contract, held against one of them."""

    def __init__(self, mutant: type[MemoryStore]) -> None:
        self.mutant = mutant
        self.places: dict[Path, MemoryStore] = {}

    def open(self, place: Path) -> MemoryStore:
        if self.mutant is KeepsACopyPerHandle:
            return self.mutant()
        return self.places.setdefault(place, self.mutant())
