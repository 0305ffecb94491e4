"""Runs: the newest, the open ones, those that a person should look at, and those of a stretch of time.

Across jobs the order is that of `at`, which a run by hand has of when it was asked for. What is open has no such order
that every store keeps at hand, so of that a fixed number is read, whichever it is, and put in order here.
"""

from collections.abc import Iterable
from heapq import nlargest
from typing import Final

from cronce.errors import BadInput
from cronce.model import Cell, Instant, Mark, check_name
from cronce.monitor.reading.cursor import read_cursor, spell_cursor
from cronce.runtime.flow import Flow
from cronce.runtime.look import MARKS, WANTED, RunSeen, matches, read_page, seen_runs
from cronce.stores.base import By, Position, Scan, position
from cronce.value import NamedTuple

COUNTED: Final = 1000
"""So many of a kind are counted; what is more is said to be more."""

LOOKED: Final = 2000
"""So many runs are looked at for a list of those that are wanted; where that is too few, the list goes on."""

_RUNS: Final = "run/"
_OPEN: Final = Scan(_RUNS, mark=Mark.OPEN, newest_first=True, limit=COUNTED)


class Runs(NamedTuple):
    """Some runs, newest first, and how many there are; with `more` there are more than were counted."""

    runs: tuple[RunSeen, ...] = ()
    number: int = 0
    more: bool = False


class RunsPage(NamedTuple):
    """A part of a list of runs, newest first, and where it goes on, or None at its end."""

    now: Instant
    runs: tuple[RunSeen, ...]
    next: str | None


# --- by their mark ---------------------------------------------------------------------------------------------------


def marked_runs(mark: Mark, job: str = "", shown: int = 200, counted: int = COUNTED) -> Flow[Runs]:
    """The runs that are open, that a person should look at, or that are closed: of one job or of all."""
    scan = by_key(mark, job, counted) if mark is Mark.OPEN or job else final_runs(mark, counted)
    page = yield from read_page(scan)
    newest = _by_at(page.cells)[:shown]
    return Runs(tuple(seen_runs(newest, page.now)), len(page.cells), page.next is not None)


def by_key(mark: Mark, job: str, limit: int) -> Scan:
    """Of one job its newest; of all, whichever they are."""
    return Scan(f"{_RUNS}{job}/" if job else _RUNS, mark=mark, newest_first=True, limit=limit)


def final_runs(mark: Mark, limit: int, after: Position | None = None) -> Scan:
    """The newest across jobs that are closed, or that a person should look at."""
    return Scan(_RUNS, "at", mark, after=after, limit=limit, newest_first=True)


def _by_at(cells: Iterable[Cell]) -> list[Cell]:
    return sorted((cell for cell in cells if cell.at is not None), key=_place, reverse=True)


def _place(cell: Cell) -> Position:
    place = position(cell, "at")
    assert place is not None
    return place


# --- the newest -----------------------------------------------------------------------------------------------------


def newest_runs(
    job: str | None = None, wanted: str | None = None, after: str | None = None, limit: int = 50
) -> Flow[RunsPage]:
    """The newest runs of a job, or of all; only those in a state or with an outcome that is `wanted` (`WANTED`)."""
    if wanted is not None and wanted not in WANTED:
        raise BadInput(f"{wanted[:60]!r} is no state and no outcome; say one of {', '.join(WANTED)}")
    mark = MARKS.get(wanted or "")
    prefix = f"{_RUNS}{check_name(job)}/" if job is not None else _RUNS
    place = read_cursor(after, prefix) if after else None
    if job is not None:
        return (yield from _sifted(Scan(prefix, "key", mark, None, place, limit, newest_first=True), wanted, limit))
    if mark in (Mark.CLOSED, Mark.ATTENTION):
        return (yield from _sifted(final_runs(mark, limit, place), wanted, limit))
    if mark is Mark.OPEN:
        page = yield from read_page(_OPEN)
        found = [run.cell for run in seen_runs(page.cells, page.now) if matches(run, wanted or "")]
        return _cut(page.now, found, place, limit)
    return (yield from _across(place, limit, with_open=wanted is None))


def newest_of(runs: Iterable[RunSeen], limit: int) -> tuple[RunSeen, ...]:
    """The newest of some that have an instant, in their order."""
    return tuple(nlargest(limit, runs, key=lambda run: _place(run.cell)))


def _sifted(scan: Scan, wanted: str | None, limit: int) -> Flow[RunsPage]:
    """Those that are wanted along one scan, as far as it may be looked."""
    found: list[RunSeen] = []
    looked = 0
    while True:
        page = yield from read_page(scan)
        looked += len(page.cells)
        found += [run for run in seen_runs(page.cells, page.now) if wanted is None or matches(run, wanted)]
        if len(found) > limit:
            return RunsPage(page.now, tuple(found[:limit]), _cursor(found[limit - 1].cell, scan.by))
        if page.next is None or len(found) == limit or looked >= LOOKED:
            return RunsPage(page.now, tuple(found), spell_cursor(page.next) if page.next else None)
        scan = scan._replace(after=page.next, limit=min(2 * scan.limit, COUNTED, LOOKED - looked))


def _across(after: Position | None, limit: int, *, with_open: bool) -> Flow[RunsPage]:
    """What is open and what is final, side by side: one position in the order of `at` is one in each of them."""
    cells: list[Cell] = []
    more = False
    for mark in (Mark.CLOSED, Mark.ATTENTION):
        page = yield from read_page(final_runs(mark, limit, after))
        cells += page.cells
        more = more or page.next is not None
    if with_open:
        page = yield from read_page(_OPEN)
        cells += page.cells
    return _cut(page.now, cells, after, limit, more=more)


def _cut(now: Instant, cells: Iterable[Cell], after: Position | None, limit: int, *, more: bool = False) -> RunsPage:
    ordered = [cell for cell in _by_at(cells) if after is None or _place(cell) < after]
    part = ordered[:limit]
    goes_on = part and (more or len(ordered) > limit)
    return RunsPage(now, tuple(seen_runs(part, now)), _cursor(part[-1], "at") if goes_on else None)


def _cursor(cell: Cell, by: By) -> str:
    place = position(cell, by)
    assert place is not None
    return spell_cursor(place)
