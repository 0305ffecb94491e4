"""A store in a dictionary: the one to read first. For tests, the simulator, and a single process that may lose it."""

import threading
from collections.abc import Callable, Sequence
from typing import Final

from cronce.clock import SystemClock
from cronce.errors import StoreUnavailable
from cronce.model import Cell, Instant, Traits, Write, to_us
from cronce.stores.base import Loaded, Page, Scan, Swapped, first_life, is_news, judge, page_of

TRAITS: Final = Traits("memory", durable=False, survives_failover=False, notifies=True, shared=False, in_memory=True)


class MemoryStore:
    """Cells in a dictionary under a lock. `clock` is the store's own. `on_purpose`: empty, it has lost nothing."""

    def __init__(
        self, clock: Callable[[], Instant] | None = None, traits: Traits = TRAITS, *, on_purpose: bool = True
    ) -> None:
        self.traits = traits
        self._clock = clock or SystemClock().wall
        self._lock = threading.Lock()
        self._told = threading.Condition(self._lock)
        self._news = 0
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
            swapped, changed = judge(writes, seen, read, self._epoch, last_write=self._last_write, now=now)
            self._cells.update(changed)
            self._epoch, self._last_write = swapped.epoch, now if changed else self._last_write
            if is_news(changed):
                self._news += 1
                self._told.notify_all()
            return swapped

    def scan(self, scan: Scan) -> Page:
        with self._lock:
            cells = [cell for key, cell in self._cells.items() if key.startswith(scan.prefix)]
            now, epoch = self._clock(), self._epoch
        return page_of(cells, scan, now, epoch)

    def purge(self, cells: Sequence[Cell]) -> int:
        with self._lock:
            gone = {cell.key for cell in cells if cell.key in self._cells and self._same(cell)}
            for key in gone:
                del self._cells[key]
            return len(gone)

    def _same(self, cell: Cell) -> bool:
        return self._cells[cell.key].version == cell.version

    def size(self) -> int:
        return len(self._cells)

    @property
    def news(self) -> int:
        """How often something was written on the board."""
        return self._news

    def listen(self) -> "MemoryListener":
        return MemoryListener(self._told, lambda: self._news)

    def close(self) -> None:
        """Nothing to close."""


class MemoryListener:
    """Waits for `news` to rise. `told` is notified when it does."""

    def __init__(self, told: threading.Condition, news: Callable[[], int]) -> None:
        self._told = told
        self._news = news
        self._heard = news()
        self._woken = self._closed = False

    def wait(self, seconds: float) -> bool:
        with self._told:
            if self._closed:
                raise StoreUnavailable("this listener was closed; listen again")
            self._told.wait_for(lambda: self._woken or self._news() != self._heard, seconds)
            heard, self._heard, self._woken = self._heard, self._news(), False
            return heard != self._heard

    def wake(self) -> None:
        with self._told:
            self._woken = True
            self._told.notify_all()

    def close(self) -> None:
        with self._told:
            self._closed = self._woken = True
            self._told.notify_all()


def open_store(_url: str) -> MemoryStore:
    return MemoryStore()
