"""Lists of runs: the newest of all jobs or of one, part by part. For the page, its API, the command line and `look`.

Across jobs, runs are in the order of `at`: the slot, or when a run was requested by hand. Not every store keeps open
runs, or the runs of one job, in an order of their own. So a fixed number of them is read, and sorted here.
"""

import re
from collections.abc import Iterable
from heapq import nlargest
from typing import Final, Literal

from cronce.errors import BadInput
from cronce.model import Cell, Instant, Mark, to_us
from cronce.runtime.flow import Flow
from cronce.runtime.queries import (
    LATEST_RUNS,
    MARK_OF_STATE,
    STATES_WANTED,
    RunSeen,
    filed,
    ran_at,
    read_page,
    seen_runs,
    with_hosts,
)
from cronce.stores.base import Page, Position, Scan
from cronce.value import NamedTuple

Order = Literal["ran", "slot"]

RUNS_SEARCHED: Final = 2000
"""Runs that are searched at most for one part of a list; the next part goes on from there."""

OF_A_JOB: Final = 1000
"""Runs of a job that are sorted, those of its newest slots: as many as are kept by default."""

RUNS_AT_ONCE: Final = 1000
"""At most this many cells are read at once."""

RUN_CELLS: Final = "run/"


class RunsPage(NamedTuple):
    """A part of a list of runs, newest first, and where it goes on, or None at its end."""

    now: Instant
    runs: tuple[RunSeen, ...]
    next: str | None


def by_key(mark: Mark, job: str, limit: int) -> Scan:
    """Of one job its newest; of all, whichever they are."""
    return Scan(f"{RUN_CELLS}{job}/" if job else RUN_CELLS, mark=mark, newest_first=True, limit=limit)


def final_runs(mark: Mark | None, limit: int, after: Position | None = None) -> Scan:
    """The newest across jobs: all of them, those that are closed, or those that a person should look at."""
    return Scan(RUN_CELLS, "at", mark, after=after, limit=limit, newest_first=True)


# --- the newest -----------------------------------------------------------------------------------------------------


def newest_runs(
    job: str | None = None,
    wanted: str | None = None,
    after: str | None = None,
    limit: int = 50,
    *,
    by: Order = "ran",
    searched: int | None = RUNS_SEARCHED,
) -> Flow[RunsPage]:
    """The newest runs of a job, or of all; only those with a state or outcome that is `wanted` (`STATES_WANTED`). Those
    of a job in the order they ran, or in that of their slots."""
    if wanted is not None and wanted not in STATES_WANTED:
        raise BadInput(f"{wanted[:60]!r} is not a state or an outcome; use one of {', '.join(STATES_WANTED)}")
    mark = MARK_OF_STATE.get(wanted or "")
    prefix = f"{RUN_CELLS}{job}/" if job is not None else RUN_CELLS
    place = read_cursor(after, prefix) if after else None
    order = _filed if job is None else _slot
    if job is None and mark is Mark.OPEN:
        runs, page = yield from sifted(by_key(Mark.OPEN, "", RUNS_AT_ONCE), wanted, RUNS_SEARCHED, searched)
        runs = sorted((run for run in runs if run.cell.at is not None), key=_filed, reverse=True)
        page = page._replace(next=None)
    elif job is not None and by == "ran" and (place is None or place.us):
        page, runs = yield from latest_of(job, mark)
        runs, order = [run for run in runs if wanted is None or matches(run, wanted)], _ran
    else:
        shown = {cell.key for cell in (yield from by_hand_lately(job))} if job is not None and by == "ran" else ()
        scan = Scan(
            prefix, "at" if job is None else "key", mark, None, place, min(limit, RUNS_AT_ONCE), newest_first=True
        )
        runs, page = yield from sifted(scan, wanted, limit, searched)
        runs, place = [run for run in runs if run.cell.key not in shown], None
    left = [run for run in runs if place is None or order(run) < place]
    goes_on = order(left[limit - 1]) if len(left) > limit else page.next
    return RunsPage(page.now, tuple(left[:limit]), spell_cursor(goes_on) if goes_on else None)


def runs(job: str | None, wanted: str | None, limit: int, by: Order = "ran") -> Flow[list[RunSeen]]:
    """So many of the newest at once, in the order they ran, or in that of their slots.

    Across jobs a run is filed by when it was due or asked for, which is never before its slot. So by slot one reads on
    until no later part can have a newer one."""
    found: list[RunSeen] = []
    after, enough = None, False
    while not enough:
        page = yield from newest_runs(job, wanted, after, limit * (1 + (by == "slot")), by=by, searched=None)
        found += page.runs
        after = page.next
        last = read_cursor(after, RUN_CELLS).us if after else 0
        enough = not after or sum(by == "ran" or to_us(run.slot.at) > last for run in found) >= limit
    if by == "slot":
        found.sort(key=lambda run: (run.slot.at, run.cell.key), reverse=True)
    else:
        found = sorted(found[:limit], key=lambda run: ran_at(run)[0], reverse=True)
    return (yield from with_hosts(found[:limit]))


def latest_of(job: str, mark: Mark | None = None) -> Flow[tuple[Page, list[RunSeen]]]:
    """The runs of a job in the order they ran, the latest first. Where it has more than are put in order, those by hand
    are among them that are among the latest of all jobs, and the rest is the page's next, by slot."""
    page = yield from read_page(Scan(f"{RUN_CELLS}{job}/", mark=mark, newest_first=True, limit=OF_A_JOB))
    cells = {cell.key: cell for cell in page.cells}
    if page.next is not None:
        by_hand = yield from by_hand_lately(job)
        cells |= {cell.key: cell for cell in by_hand if mark in (None, cell.mark)}
    page = page._replace(cells=list(cells.values()))
    return page, sorted(seen_runs(page.cells, page.now), key=ran_at, reverse=True)


def _ran(run: RunSeen) -> Position:
    at, key = ran_at(run)
    return Position(to_us(at), key)


def _filed(run: RunSeen) -> Position:
    at, key = filed(run.cell)
    return Position(to_us(at), key)


def _slot(run: RunSeen) -> Position:
    return Position(0, run.cell.key)


def newest_of(runs: Iterable[RunSeen], limit: int) -> tuple[RunSeen, ...]:
    """The newest of some that have an instant, in the order they ran."""
    return tuple(sorted(nlargest(limit, runs, key=_filed), key=ran_at, reverse=True))


def by_hand_lately(job: str) -> Flow[list[Cell]]:
    """Those among the latest runs of all jobs that were asked for by hand: their slots may be old ones, and their keys
    sort among the old ones."""
    page = yield from read_page(LATEST_RUNS)
    return [cell for cell in page.cells if "#" in cell.key and cell.key.startswith(f"run/{job}/")]


def sifted(scan: Scan, wanted: str | None, limit: int, most: int | None = None) -> Flow[tuple[list[RunSeen], Page]]:
    """Those along a scan that are wanted, at least so many if there are, and its last page; at `most` so many are
    looked at."""
    found: list[RunSeen] = []
    looked = 0
    while True:
        page = yield from read_page(scan)
        looked += len(page.cells)
        found += [run for run in seen_runs(page.cells, page.now) if wanted is None or matches(run, wanted)]
        if page.next is None or len(found) >= limit or (most is not None and looked >= most):
            return found, page
        next_limit = min(2 * scan.limit, RUNS_AT_ONCE, most - looked if most is not None else RUNS_AT_ONCE)
        scan = scan._replace(after=page.next, limit=next_limit)


def matches(run: RunSeen, wanted: str) -> bool:
    if run.record is None:  # its mark shows only that it is closed
        return wanted == "closed" and run.cell.mark is not Mark.OPEN
    return wanted in (run.record.state, run.record.outcome, run.shown)


# --- where a list goes on: a position in a scan as a text, fit for a link --------------------------------------------


_NUMBER: Final = re.compile("[0-9]{1,17}", re.ASCII)
"""Microseconds."""

_LONGEST_TEXT: Final = 1000


def spell_cursor(position: Position) -> str:
    return f"{position.us}@{position.key}"


def read_cursor(text: str, prefix: str) -> Position:
    """The position that a text names, of a list of cells whose keys begin so; it comes from outside."""
    us, _, key = text.partition("@")
    written = _NUMBER.fullmatch(us) and key.startswith(prefix) and len(key) <= _LONGEST_TEXT and key.isprintable()
    if not written:
        raise not_a_place(text)
    return Position(int(us), key)


def not_a_place(text: str) -> BadInput:
    return BadInput(f"{text[:60]!r} is not a place in this list; use the `next` of the answer before")
