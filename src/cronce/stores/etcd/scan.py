"""Scanning in etcd: by its order of keys, by an index that holds the order asked for, or by sorting what is few."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from cronce.model import Cell, Mark, to_us
from cronce.stores.base import Position, Scan, position
from cronce.stores.etcd.api import Json, data64, span
from cronce.stores.etcd.layout import (
    ATTENTION,
    BY_AT,
    BY_AT_BACKWARDS,
    OPEN,
    Index,
    Kv,
    Life,
    Shelf,
    after_all,
    cell_key,
    read_cell,
)

PAGE: Final = 1000

FEW: Final = {Mark.OPEN: OPEN, Mark.ATTENTION: ATTENTION}
"""Marks that few cells have: each has an index of its own, that is sorted here if the order asked for is another."""

Look = Callable[[Sequence[Json]], tuple[Life, Sequence[Sequence[Kv]]]]
Read = Callable[[Sequence[str]], Shelf]
Pages = Iterator[tuple[Life, Iterable[Cell]]]


def pages(scan: Scan, prefix: bytes, look: Look, read: Read) -> Pages:
    """The cells of a scan in order, in portions, each with the life that it was read in; at least one portion."""
    search = Search(scan, prefix, look, read)
    index = FEW.get(scan.mark) if scan.mark else None
    if scan.by == "at" and index is None:
        index = BY_AT_BACKWARDS if scan.newest_first else BY_AT
    if index is not None and index.by == scan.by:
        return search.along(index)
    if scan.by == "key" and index is None:
        return search.by_key()
    return search.sorted(index)


class Search:
    """One scan under way."""

    def __init__(self, scan: Scan, prefix: bytes, look: Look, read: Read) -> None:
        self.scan = scan
        self.prefix = prefix
        self.look = look
        self.read = read

    def by_key(self) -> Pages:
        first, end = self._cells()
        if self.scan.after is not None and self.scan.newest_first:
            end = min(end, self.prefix + cell_key(self.scan.after.key))
        elif self.scan.after is not None:
            first = max(first, self.prefix + cell_key(self.scan.after.key) + b"\0")
        for life, kvs in self._walk(first, end, backwards=self.scan.newest_first):
            yield life, self._matching(self._cell(kv) for kv in kvs)

    def along(self, index: Index) -> Pages:
        """By an index in the order asked for."""
        first, end = _bounds(index, self.scan)
        backwards = self.scan.newest_first and not index.mirrored
        for life, kvs in self._walk(self.prefix + first, self.prefix + end, backwards=backwards):
            yield self._found(life, index, kvs)

    def sorted(self, index: Index | None) -> Pages:
        """All cells of an index, or below the prefix, put in order here."""
        cells: list[Cell] = []
        for life, found in self._all(index):
            last = life
            cells += found
        places = {place: cell for cell in cells if (place := position(cell, self.scan.by)) and self._wanted(place)}
        yield last, [places[place] for place in sorted(places, reverse=self.scan.newest_first)]

    def _all(self, index: Index | None) -> Pages:
        if index is None:
            for life, kvs in self._walk(*self._cells()):
                yield life, self._matching(self._cell(kv) for kv in kvs)
            return
        area = self.prefix + index.area
        for life, kvs in self._walk(area, after_all(area)):
            yield self._found(life, index, kvs)

    def _wanted(self, place: Position) -> bool:
        scan = self.scan
        if scan.by != "key" and scan.upto is not None and place.us > to_us(scan.upto):
            return False
        return scan.after is None or (place < scan.after if scan.newest_first else place > scan.after)

    def _found(self, life: Life, index: Index, kvs: Sequence[Kv]) -> tuple[Life, Iterable[Cell]]:
        """The cells behind some entries; one that has moved on since stands elsewhere now."""
        skip = len(self.prefix)
        stand = {key: us for us, key in (index.place(data64(kv["key"])[skip:]) for kv in kvs)}
        keys = [key for key in stand if key.startswith(self.scan.prefix)]
        if not keys:
            return life, []
        shelf = self.read(keys)
        cells = (kept.cell for key in keys if (kept := shelf.cells.get(key)))
        return shelf.life, self._matching(cell for cell in cells if index.us(cell) == stand[cell.key])

    def _matching(self, cells: Iterable[Cell]) -> list[Cell]:
        return [cell for cell in cells if self.scan.mark in (None, cell.mark)]

    def _walk(self, first: bytes, end: bytes, *, backwards: bool = False) -> Iterator[tuple[Life, Sequence[Kv]]]:
        limit = min(self.scan.limit + 1, PAGE)
        while True:
            life, (kvs,) = self.look([span(first, end, limit, backwards=backwards)])
            yield life, kvs
            if len(kvs) < limit:
                return
            last = data64(kvs[-1]["key"])
            first, end = (first, last) if backwards else (last + b"\0", end)

    def _cells(self) -> tuple[bytes, bytes]:
        first = self.prefix + cell_key(self.scan.prefix)
        return first, after_all(first)

    def _cell(self, kv: Kv) -> Cell:
        return read_cell(kv, len(self.prefix + cell_key(""))).cell


def _bounds(index: Index, scan: Scan) -> tuple[bytes, bytes]:
    """Where a scan along an index begins and ends; cells without such an instant stand at its end, and outside."""
    past = None if scan.after is None else index.entry(*scan.after)
    top = index.entry(None) if scan.upto is None else index.entry(to_us(scan.upto) + 1)
    if index.mirrored:
        return max(top, b"" if past is None else past + b"\0"), after_all(index.area)
    if scan.newest_first:
        return index.area, top if past is None else min(top, past)
    return index.area if past is None else past + b"\0", top
