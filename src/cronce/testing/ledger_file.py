"""Ledger files: lines that the processes of a play (`cronce demo`, `cronce torture`) append as they go. They know
nothing of cronce, so that what is counted in them is what happened, not what a store says."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, get_args

from cronce.value import NamedTuple

What = Literal["start", "step", "done", "accepted", "stale", "ready", "ran", "refused", "stopped", "through"]
"""A body that started, went on or was done; its end, that the store accepted or refused as stale; a process that is
ready, whose call of a slot ran it, was refused or was told to stop, or that has been through all slots."""

NO_VALUE: Final = "-"
"""Stands where there is no slot or no fence. It sorts before every fence."""


class LedgerLine(NamedTuple):
    what: What
    who: str
    slot: str = NO_VALUE
    fence: str = NO_VALUE
    attempt: int = 1
    when: str = NO_VALUE
    """By which clock is a matter of the play. The demo writes the time of day, for people; the torture writes the
    machine's boot clock, which all its processes share."""

    @property
    def run(self) -> tuple[str, str, str]:
        """Which run of a body this line is about."""
        return self.slot, self.who, self.fence


class LedgerFile:
    """One file to append to, for any number of processes: each line is one write, so that none is torn."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, line: LedgerLine) -> None:
        os.write(self._file, f"{' '.join(map(str, line))}\n".encode())


class LedgerTail:
    """A file that others append to, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def new(self) -> list[LedgerLine]:
        """The whole lines since the last look."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read)
            whole, newline, _rest = file.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        return parse(whole.decode().splitlines())


def by_slot(slots: Iterable[str], lines: Iterable[LedgerLine]) -> tuple[dict[str, list[LedgerLine]], int]:
    """What was written about each slot, and how many job functions started for none that anybody asked for."""
    found: dict[str, list[LedgerLine]] = {slot: [] for slot in slots}
    astray = 0
    for line in lines:
        if line.slot in found:
            found[line.slot].append(line)
        else:
            astray += line.what == "start"
    return found, astray


def parse(lines: Iterable[str]) -> list[LedgerLine]:
    return [_line(text) for text in lines]


def _line(text: str) -> LedgerLine:
    word, who, slot, fence, attempt, when = text.split(" ")
    what: What = next(known for known in get_args(What) if known == word)
    return LedgerLine(what, who, slot, fence, int(attempt), when)
