"""Three processes race for the same thirty slots on one SQLite file; one of them is killed in the middle of a run.

    python examples/race.py

Each body appends a line to a plain file. At the end the lines are counted: every slot once, and the one whose process
was killed a second time, by another process, under a higher fence.
"""

import os
import signal
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from threading import Event

from cronce.clock import SystemClock
from cronce.model import Cell, Mark, Slot, slot_of_cell
from cronce.protocol.record import Job, Outcome, decode
from cronce.runtime.flow import drive
from cronce.runtime.ledger import Grant, Ledger, Terms, Wanted
from cronce.stores import open_store
from cronce.stores.base import Scan

START = datetime(2026, 3, 29, tzinfo=UTC)
SLOTS = [Slot("report", START + number * timedelta(minutes=15)) for number in range(30)]
TERMS = Terms(lease=timedelta(seconds=1), on_lost="rerun", overlap="allow")


def racer(url: str, book: Path, name: str, dies_at: int, ready: Barrier) -> None:
    """Claim every slot, run those that are granted, and look after those whose holder is gone."""
    ready.wait()
    store, clock = open_store(url), SystemClock()
    ledger = Ledger(store.traits, clock, name)
    before = START - timedelta(seconds=1)
    drive(ledger.jobs.edit("report", lambda job, _now: job or Job(floor=before)), store, clock)
    wanted = [Wanted(slot, TERMS) for slot in SLOTS]
    while wanted or store.scan(Scan("run/", mark=Mark.OPEN, limit=1)).cells:
        one, wanted = wanted[:1], wanted[1:]
        overdue = drive(ledger.overdue(), store, clock)
        for grant in drive(ledger.claim(one + [again(cell) for cell in overdue]), store, clock):
            if isinstance(grant, Grant) and grant.slot is not None:
                run(book, name, grant, die=SLOTS.index(grant.slot) >= dies_at)
                drive(ledger.finish(grant, Outcome.SUCCEEDED), store, clock)


def again(cell: Cell) -> Wanted:
    return Wanted(slot_of_cell(cell.key), TERMS, known=True)


def run(book: Path, name: str, grant: Grant, *, die: bool) -> None:
    """The body: what must happen once."""
    assert grant.slot is not None
    with book.open("a") as file:
        file.write(f"{grant.slot.key} {name} {grant.fence}\n")
    Event().wait(0.01)
    if die:
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        url, book = f"sqlite:///{folder}/cronce.db", Path(folder, "book")
        spawn = get_context("spawn")
        ready = spawn.Barrier(3)
        racers = [
            spawn.Process(target=racer, args=(url, book, name, 10 if name == "racer-2" else 999, ready))
            for name in ("racer-1", "racer-2", "racer-3")
        ]
        for process in racers:
            process.start()
        for process in racers:
            process.join()
        return verdict(url, book, [process.exitcode for process in racers])


def verdict(url: str, book: Path, exits: list[int | None]) -> int:
    lines = [line.split() for line in book.read_text().splitlines()]
    runs = Counter(slot for slot, _, _ in lines)
    records = {slot_of_cell(cell.key).key: decode(cell.value) for cell in open_store(url).scan(Scan("run/")).cells}
    for slot, record in records.items():
        who = ", killed in the middle of it, and taken over by ".join(name for key, name, _ in lines if key == slot)
        print(f"{slot}  {record.outcome}, run by {who}")
    killed = exits.count(-signal.SIGKILL)
    taken_over = sum(record.grant - 1 for record in records.values())
    extra = sum(runs.values()) - len(SLOTS) - taken_over
    missed = sum(slot.key not in runs for slot in SLOTS)
    once = sum(runs[slot.key] == 1 for slot in SLOTS)
    print(
        f"\n{len(SLOTS)} slots, 3 processes, {killed} killed: {once} ran once, {taken_over} was taken over under rerun"
    )
    print(f"extra {extra}, missed {missed}")
    return 1 if extra or missed else 0


if __name__ == "__main__":
    sys.exit(main())
