"""Ledger files: lines that the processes of `cronce demo` and `cronce torture` append as they go. The files are
independent of cronce: they count what happened, not what a store has recorded."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, get_args

from cronce.value import NamedTuple

What = Literal["start", "step", "done", "accepted", "stale", "ready", "ran", "refused", "stopped", "through"]
"""A job function started, went on or was done. The store accepted its end, or refused it as stale. A process is ready;
its call of a slot ran it, was refused or was asked to stop; or it has been through all slots."""

NO_VALUE: Final = "-"
"""Written where there is no slot or no fence. It sorts before every fence."""


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
    """The lines about each slot, and how many job functions started for slots that were never requested."""
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
