"""How many duplicates were prevented: claims that were refused because another process runs the slot, or has done it.

Each process counts by job and day, and writes its counts with its other notes, at most once in a few seconds. A job has
a few cells for all processes, which no retention shrinks. A write that got no answer may have landed: its id is in the
cell, so that nothing is counted twice.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from cronce.model import Cell, Instant, Mark, Write, prevented_cell
from cronce.protocol.codec import all_readable, readable
from cronce.protocol.commands import Closed, Held
from cronce.protocol.notices import Prevented, day_of, decode_prevented, encode_notice
from cronce.runtime.client import Client
from cronce.runtime.flow import Flow
from cronce.stores.base import Scan
from cronce.value import NamedTuple

DAYS_KEPT: Final = 100
"""How many days have a count of their own; earlier days are only in the sum."""

WRITE_IDS_KEPT: Final = 50
"""How many ids of writes are in a cell: more than the processes that write at once."""

PARTS: Final = 8
"""Cells of a job."""

CELLS_PER_PAGE: Final = 1000

Counts = dict[str, Counter[str]]
"""By job and day."""


class PreventedBatch(NamedTuple):
    """Counts that are written together, and again under the same id until the write has landed."""

    id: str
    counts: Counts

    def cell(self, job: str) -> str:
        return prevented_cell(job, int(self.id[:8] or "0", 16) % PARTS)


class PreventedCounts:
    """The counts of this process, until they are written. For any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._new: Counts = {}
        self._unwritten: PreventedBatch | None = None
        self.writing = threading.Lock()

    def add(self, job: str, now: Instant) -> None:
        with self._lock:
            self._new.setdefault(job, Counter())[day_of(now)] += 1

    def take(self, write_id: str) -> PreventedBatch | None:
        """The next batch: the one that was not written the last time, or else all counts."""
        with self._lock:
            if self._unwritten is None and self._new:
                self._unwritten, self._new = PreventedBatch(write_id, self._new), {}
            return self._unwritten

    def written(self) -> None:
        with self._lock:
            self._unwritten = None


def is_prevented(answer: object) -> bool:
    """Whether the refused process would have run a slot that another process runs, or has done. A slot that failed or
    was lost is not done: refusing another run of it prevents no duplicate."""
    return isinstance(answer, Held) or (isinstance(answer, Closed) and answer.outcome.is_success)


def counted(write_id: str, days: Mapping[str, int], cell: Cell) -> Write | None:
    """The cell of a job with these counted; None: they are already."""
    known = readable(cell, decode_prevented) or Prevented(0, {})
    if write_id in known.writes:
        return None
    by_day = Counter(known.days) + Counter(days)
    kept = {day: by_day[day] for day in sorted(by_day)[-DAYS_KEPT:]}
    new = Prevented(known.total + sum(days.values()), kept, (*known.writes, write_id)[-WRITE_IDS_KEPT:])
    return Write(cell.key, cell.version, encode_notice(new), Mark.OPEN)


# --- reading --------------------------------------------------------------------------------------------------------


def prevented_of_all(client: Client) -> Flow[dict[str, Prevented]]:
    """For all jobs, a thousand cells in each request."""
    scan, cells = Scan("duplicates/", limit=CELLS_PER_PAGE), list[Cell]()
    while True:
        page = yield from client.scan(scan)
        cells += page.cells
        if page.next is None:
            return prevented_in(cells)
        scan = scan._replace(after=page.next)


def prevented_in(cells: Iterable[Cell]) -> dict[str, Prevented]:
    """By job. Of one, `total` is the count in all and `on(now)` that of today (UTC)."""
    found: dict[str, Prevented] = {}
    for cell, one in all_readable([cell for cell in cells if cell.version], decode_prevented):
        job = cell.key.split("/")[1]
        known = found.get(job, Prevented(0, {}))
        found[job] = Prevented(known.total + one.total, Counter(known.days) + Counter(one.days))
    return found
