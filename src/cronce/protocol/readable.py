"""Cells that may not be readable: damaged, or written by a newer cronce. Whoever only looks leaves them out. Where
something rests on what a cell says, that is no answer: there each says what such a cell means."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from cronce.errors import BadRecord
from cronce.model import Cell

T = TypeVar("T")
Decode = Callable[[str, str], T]


def readable(cell: Cell, decode: Decode[T]) -> T | None:
    """What the cell says; None if it cannot be read, or nothing stands there."""
    try:
        return decode(cell.value, cell.key)
    except BadRecord:
        return None


def all_readable(cells: Iterable[Cell], decode: Decode[T]) -> Iterator[tuple[Cell, T]]:
    """Those that can be read, each with what it says."""
    for cell in cells:
        said = readable(cell, decode)
        if said is not None:
            yield cell, said
