"""A store in a dictionary: the one to read first. For tests, the simulator and a single process that may forget."""

import threading
from collections.abc import Callable, Sequence
from typing import Final

from cronce.clock import SystemClock
from cronce.model import Cell, Instant, Mark, Traits, Write, to_us
from cronce.stores.base import By, Loaded, Page, Position, Swapped, first_life, settle

TRAITS: Final = Traits("memory", durable=False, survives_failover=False)


class MemoryStore:
    """Cells in a dictionary under a lock. `clock` is the store's own; `on_purpose`: that it begins empty is meant."""

    def __init__(
        self, clock: Callable[[], Instant] | None = None, traits: Traits = TRAITS, *, on_purpose: bool = True
    ) -> None:
        self.traits = traits
        self._clock = clock or SystemClock().wall
        self._lock = threading.Lock()
        self._cells: dict[str, Cell] = {}
        self._epoch = first_life(to_us(self._clock()), traits, on_purpose=on_purpose)
        self._last_write = self._epoch.born

    def load(self, keys: Sequence[str]) -> Loaded:
        with self._lock:
            return Loaded(self._clock(), self._epoch, [self._cells.get(key) or Cell(key) for key in keys])

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        with self._lock:
            now = self._clock()
            read = [self._cells[write.key] for write in writes if write.key in self._cells]
            swapped, changed = settle(writes, seen, read, self._epoch, last_write=self._last_write, now=now)
            self._cells.update(changed)
            self._epoch, self._last_write = swapped.epoch, now if changed else self._last_write
            return swapped

    def scan(
        self,
        prefix: str,
        *,
        by: By = "key",
        mark: Mark | None = None,
        upto: Instant | None = None,
        after: Position | None = None,
        limit: int = 1000,
        newest_first: bool = False,
    ) -> Page:
        with self._lock:
            found = [(_position(cell, by), cell) for cell in self._cells.values() if cell.key.startswith(prefix)]
            now, epoch = self._clock(), self._epoch
        found = [(place, cell) for place, cell in found if place is not None and (mark is None or cell.mark is mark)]
        if upto is not None:
            found = [(place, cell) for place, cell in found if place is not None and place[0] <= to_us(upto)]
        found.sort(key=lambda pair: pair[0] or (0, ""), reverse=newest_first)
        if after is not None:
            place = (after[1], after[0])
            found = [p for p in found if p[0] is not None and (p[0] < place if newest_first else p[0] > place)]
        page = found[:limit]
        last = page[-1][0] if len(found) > limit else None
        return Page(now, epoch, [cell for _, cell in page], (last[1], last[0]) if last else None)

    def purge(self, prefix: str, upto: Instant) -> int:
        with self._lock:
            gone = [
                cell.key
                for cell in self._cells.values()
                if cell.key.startswith(prefix) and cell.mark is Mark.CLOSED and cell.at is not None and cell.at <= upto
            ]
            for key in gone:
                del self._cells[key]
            return len(gone)

    def close(self) -> None:
        """Nothing to close."""


def _position(cell: Cell, by: By) -> tuple[int, str] | None:
    if by == "key":
        return (0, cell.key)
    instant = cell.at if by == "at" else cell.until
    return None if instant is None else (to_us(instant), cell.key)


def open_store(_url: str) -> MemoryStore:
    return MemoryStore()
