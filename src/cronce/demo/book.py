"""The ledger files: lines that the processes of the demo append as they go. They know nothing of cronce, so that what
is counted in them is what happened, not what a store says."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, get_args

from cronce.value import NamedTuple

What = Literal["start", "done", "ready", "refused", "stopped", "through"]
"""A body that started or was done; a process that is ready, was refused a slot, was told to stop, has been through
all slots."""

NOTHING: Final = "-"
"""Stands where there is no slot or no fence. It sorts before every fence."""


class Line(NamedTuple):
    what: What
    who: str
    slot: str = NOTHING
    fence: str = NOTHING
    attempt: int = 1
    wall: str = NOTHING
    """When, by the clock of whoever wrote it: for people, nothing is decided by it."""

    @property
    def run(self) -> tuple[str, str, str]:
        """Which run of a body this line is about."""
        return self.slot, self.who, self.fence


class Book:
    """One file to append to, for any number of processes: each line is one write, so that none is torn."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, line: Line) -> None:
        os.write(self._file, f"{' '.join(map(str, line))}\n".encode())


class Tail:
    """A file that others append to, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def new(self) -> list[Line]:
        """The whole lines since the last look."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read)
            whole, newline, _rest = file.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        return parse(whole.decode().splitlines())


def parse(lines: Iterable[str]) -> list[Line]:
    return [_line(text) for text in lines]


def _line(text: str) -> Line:
    word, who, slot, fence, attempt, wall = text.split(" ")
    what: What = next(known for known in get_args(What) if known == word)
    return Line(what, who, slot, fence, int(attempt), wall)
