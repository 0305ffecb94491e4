"""Your app, started several times at once, as a deploy would, and its runs counted: what `assert len(runs) == 1`
checks, for a whole fleet.

Each process is a real one. It writes into a file of its own when a job function starts. The count comes from that
file, not from the store.
"""

import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Final

from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.model import Instant, Slot
from cronce.runtime.app_loading import load
from cronce.runtime.attempt import Work
from cronce.runtime.flow import drive
from cronce.runtime.stored_jobs import listed
from cronce.stores import open_store
from cronce.stores.base import Scan
from cronce.testing.child_processes import ChildProcesses
from cronce.testing.ledger_file import LedgerFile, LedgerLine, LedgerTail
from cronce.value import NamedTuple

REHEARSAL_TIMEOUT: Final = 30.0
"""Seconds that the processes have to come up, and to end."""


class Rehearsal(NamedTuple):
    """What happened. A run of a slot beyond its first is *extra* unless a retry or a takeover asked for it; a slot that
    fell due while all processes were there, and neither ran nor is on record, is *missed*."""

    runs: Counter[str]
    by_process: Counter[str]
    extra: Sequence[str]
    missed: Sequence[str]

    def check(self) -> None:
        """Raise unless something ran, and each slot once."""
        if not self.runs:
            raise AssertionError("nothing ran: no slot fell due in that time; rehearse for longer, or more often")
        if self.extra or self.missed:
            raise AssertionError(f"ran more than once: {list(self.extra)}; never ran: {list(self.missed)}")


def rehearse(app: str, *, processes: int = 2, seconds: float = 5.0, url: str = "") -> Rehearsal:
    """Start `MODULE:OBJECT` in so many processes for so long, on a store of its own unless a URL names one, and count.

    The module is found as `cronce run` finds it: in the current directory, or wherever Python looks.
    """
    if processes < 1 or not seconds > 0:
        raise BadInput(f"processes and seconds must be more than zero, not {processes} and {seconds}")
    with tempfile.TemporaryDirectory() as name:
        return _rehearsed(app, processes, seconds, url or f"sqlite:///{name}/store.db", Path(name))


def _rehearsed(app: str, processes: int, seconds: float, url: str, place: Path) -> Rehearsal:
    crew, tail = ChildProcesses(__name__, lambda name: place / f"{name}.log"), LedgerTail(place / "book")
    lines: list[LedgerLine] = []
    try:
        for number in range(1, processes + 1):
            crew.start(f"process-{number}", app, url, str(place / "book"), f"process-{number}")
        _poll(crew, REHEARSAL_TIMEOUT, lambda: _ready(tail, lines) == processes)
        began = _now(url)
        _poll(crew, seconds, lambda: False)
        ended = _now(url)
        _poll(crew, REHEARSAL_TIMEOUT, lambda: not _not_on_record(url, began, ended))  # some may be late
    finally:
        crew.end(REHEARSAL_TIMEOUT)
    lines += tail.new()
    return _counted(lines, _not_on_record(url, began, ended))


def _ready(tail: LedgerTail, lines: list[LedgerLine]) -> int:
    lines += tail.new()
    return sum(line.what == "ready" for line in lines)


def _poll(crew: ChildProcesses, seconds: float, done: Callable[[], bool]) -> None:
    clock = SystemClock()
    until = clock.boot() + seconds
    while not done() and clock.boot() < until:
        crew.check()
        threading.Event().wait(0.05)


def _now(url: str) -> Instant:
    with closing(open_store(url)) as store:
        return store.load([]).now


def _counted(lines: Sequence[LedgerLine], not_on_record: Sequence[str]) -> Rehearsal:
    starts = [line for line in lines if line.what == "start"]
    attempts = Counter((line.slot, line.attempt) for line in starts)
    ran = Counter(line.slot for line in starts)
    missed = [key for key in not_on_record if key not in ran]
    extra = sorted({slot for (slot, _), times in attempts.items() if times > 1})
    return Rehearsal(ran, Counter(line.who for line in starts), extra, missed)


def _not_on_record(url: str, began: Instant, ended: Instant) -> list[str]:
    """The slots of that time that are not."""
    keys: list[str] = []
    with closing(open_store(url)) as store:
        _, found = drive(listed(), store, SystemClock())
        for line in found:
            at = line.seen.schedule.next(began) if line.seen.schedule else None
            while at is not None and line.seen.schedule and at < ended:
                slot = Slot(line.seen.name, at)
                if not store.scan(Scan(slot.cell, limit=1)).cells:
                    keys.append(slot.key)
                at = line.seen.schedule.next(at)
    return keys


# --- in each process ---


def _play(app: str, url: str, book: str, name: str) -> None:
    cron, written = load(app), LedgerFile(Path(book))
    cron.use(url)
    for job, work in list(cron.works.items()):
        cron.works[job] = partial(_noted, work, written, name)
    with cron.start() as scheduler:
        scheduler.wait_ready()
        written.write(LedgerLine("ready", name))
        sys.stdin.read()


def _noted(make: Callable[[], Work], book: LedgerFile, name: str) -> Work:
    work = copy(make())  # one of them may serve all slots
    original = work.run

    def run(run: Any) -> Any:
        book.write(LedgerLine("start", name, run.key, str(run.fence), run.attempt))
        return original(run)

    work.run = run
    return work


if __name__ == "__main__":
    _play(*sys.argv[1:])
