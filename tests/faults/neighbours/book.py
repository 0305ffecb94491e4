"""The book that every body writes into, and nobody of ours reads before the end: one line for each run."""

import os
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

VARIABLE = "NEIGHBOURS_BOOK"


def note(word: str = "ran") -> None:
    """One line, in one write, so that no two of them mix."""
    line = f"{word} {time.time()} {os.getpid()}\n".encode()
    book = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(book, line)
    finally:
        os.close(book)


class Line(NamedTuple):
    word: str
    at: float
    pid: int


def read(book: Path) -> list[Line]:
    if not book.exists():
        return []
    parts = (line.split() for line in book.read_text().splitlines())
    return [Line(word, float(at), int(pid)) for word, at, pid in parts]


class Counted(NamedTuple):
    """Slots that were due, the runs they got, the most that one of them got, and those that got none."""

    slots: int
    runs: int
    most: int
    missed: int


def count(lines: Iterable[Line], first: int, slots: int, period: int) -> Counted:
    """A run counts for the slot that had come when it was noted, or that comes within a quarter of the gap: a clock may
    be ahead, and a machine may be busy."""
    due = range(first // period, first // period + slots)
    runs = Counter(int(line.at + period / 4) // period for line in lines if line.word == "ran")
    each = [runs[slot] for slot in due]
    return Counted(slots, sum(each), max(each), each.count(0))


if __name__ == "__main__":
    note()
