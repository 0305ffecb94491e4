"""The harness: starts the processes, kills one and pauses one in the middle of a run, and waits until all is settled.

Nothing here rests on timing. A signal is sent when the ledger shows that its victim is in the middle of a run, and
that run waits until the signal was sent (`worker.DemoPlan.held`). The process that wins the slot is the victim, and
the process of the same name that runs without the guard gets the same signal in the middle of the same second.
"""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

from cronce.clock import Clock
from cronce.demo.picture import DemoAccount, time_of
from cronce.demo.verdict import DemoRecord, DemoVerdict, judge
from cronce.demo.worker import DEMO_JOB, DEMO_LEASE, DemoPlan, Kind
from cronce.model import Mark, Slot
from cronce.runtime.flow import drive
from cronce.runtime.run_lists import runs
from cronce.stores import open_store, url_of
from cronce.stores.base import Scan
from cronce.testing.child_processes import ChildProcesses
from cronce.testing.ledger_file import LedgerLine, LedgerTail, What

T = TypeVar("T")

PROCESS_NAMES: Final = ("web-1", "web-2", "web-3")
DEMO_GRACE: Final = 10.0
"""Seconds that a process has to close what it opened, when all is over."""

DEMO_POLL: Final = 0.02
"""Seconds between two looks at the ledgers."""

DEMO_TIMEOUT: Final = 60.0
"""Seconds that a slow machine may take beyond the slots themselves; then the verdict is on what is there."""

PAUSED_AT_MOST: Final = 15.0
"""Seconds after which the paused process goes on even if no other took over."""

STOP_TRIES: Final = 20
"""How often a process is stopped again because it held the file's lock."""


class DemoSide:
    """Three processes, with the guard or without it, and what they have written so far."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self.account = DemoAccount()
        self.processes = ChildProcesses("cronce.demo.worker", lambda name: folder / f"{kind}.{name}.log")
        self._kind, self._folder = kind, folder
        self._tails = [LedgerTail(folder / f"{kind}.{file}") for file in ("ledger", "calls")]
        self._said: set[tuple[str, str]] = set()

    def start(self) -> None:
        for name in PROCESS_NAMES:
            self.processes.start(name, self._kind, name, str(self._folder))

    def look(self) -> list[LedgerLine]:
        """What is new."""
        new = [line for tail in self._tails for line in tail.new()]
        self.account.add(new)
        self._said |= {(line.what, line.who) for line in new}
        self.processes.check()
        return new

    def all_said(self, what: What) -> bool:
        return all((what, name) in self._said for name in self.processes.names)

    def ledger(self) -> list[LedgerLine]:
        """The whole ledger, from its beginning."""
        return LedgerTail(self._folder / f"{self._kind}.ledger").new()


class DemoHarness:
    """One performance of so many slots. `show` is called whenever there is something new to see."""

    def __init__(self, folder: Path, slots: int, clock: Clock, show: Callable[["DemoHarness"], None]) -> None:
        self.guarded, self.unguarded = DemoSide("guarded", folder), DemoSide("unguarded", folder)
        self.slots: Sequence[Slot] = ()
        self.notes: list[str] = []
        self._shown = 0
        self._count, self._clock, self._show = slots, clock, show
        self._path = folder / "cronce.db"
        self._store = open_store(url_of(self._path))
        self._limit = clock.boot() + DEMO_TIMEOUT

    @property
    def sides(self) -> tuple[DemoSide, DemoSide]:
        return self.guarded, self.unguarded

    def play(self) -> tuple[DemoVerdict, DemoVerdict]:
        """From the first second to the verdicts: with the guard, and without it."""
        try:
            self._begin()
            self._kill(self.slots[self._count // 4])
            self._pause(self.slots[self._count // 2])
            self._settle()
            for side in self.sides:
                side.processes.end(DEMO_GRACE)
            return self._judge()
        finally:
            for side in self.sides:
                side.processes.clear()
            self._store.close()

    # --- the acts ---

    def _begin(self) -> None:
        """Everybody is there before the first second is chosen."""
        for side in self.sides:
            side.start()
        self._until(lambda: all(side.all_said("ready") for side in self.sides))
        first = self._clock.wall().replace(microsecond=0) + timedelta(seconds=2)
        self.slots = [Slot(DEMO_JOB, first + timedelta(seconds=number)) for number in range(self._count)]
        self._limit = self._clock.boot() + self._count + DEMO_TIMEOUT
        held = self.slots[self._count // 4].at, self.slots[self._count // 2].at
        self._tell(DemoPlan(tuple(slot.at for slot in self.slots), held).written())

    def _kill(self, slot: Slot) -> None:
        who = self._until(lambda: self._in_the_middle(slot))
        if who is None:
            return
        for side in self.sides:
            side.processes.kill(who)
            side.account.killed[who] = slot.key
        self._note(f"{who} is killed in the middle of {time_of(slot.key)}")
        self._tell(slot.key)

    def _pause(self, slot: Slot) -> None:
        """For longer than the lease, and until another has taken over."""
        who = self._until(lambda: self._in_the_middle(slot))
        if who is None:
            return
        self._stop(who)
        for side in self.sides:
            side.account.paused[who] = slot.key
        self._note(f"{who} is paused in the middle of {time_of(slot.key)}, for longer than its lease")
        self._tell(slot.key)
        since = self._clock.boot()
        lapsed, longest = since + DEMO_LEASE.total_seconds(), since + PAUSED_AT_MOST
        self._until(lambda: self._clock.boot() >= lapsed and self._taken_over(slot, who), longest)
        for side in self.sides:
            side.processes.go_on(who)

    def _settle(self) -> None:
        """Every process has been through all slots, and no slot is open any more."""
        self._until(lambda: all(side.all_said("through") for side in self.sides) and not self._still_open())

    def _judge(self) -> tuple[DemoVerdict, DemoVerdict]:
        keys = [slot.key for slot in self.slots]
        found = drive(runs(DEMO_JOB, None, 10 * len(keys)), self._store, self._clock)
        records = {run.slot.key: DemoRecord(run.record.grant, run.record.outcome) for run in found if run.record}
        return judge(keys, self.guarded.ledger(), records), judge(keys, self.unguarded.ledger())

    # --- looking ---

    def _until(self, condition: Callable[[], T], limit: float | None = None) -> T | None:
        """What the condition says when it is true; None when time is up."""
        while self._clock.boot() < min(limit or self._limit, self._limit):
            self._look()
            if found := condition():
                return found
            threading.Event().wait(DEMO_POLL)
        return None

    def _look(self) -> None:
        guarded, unguarded = self.guarded.look(), self.unguarded.look()
        for line in guarded:
            self._tell_of(line)
        for line in unguarded:
            if line.what == "done" and self.unguarded.account.paused.get(line.who) == line.slot:
                self._note(f"without the guard, {line.who} goes on with {time_of(line.slot)} as if nothing happened")
        if guarded or unguarded or len(self.notes) > self._shown:
            self._shown = len(self.notes)
            self._show(self)

    def _tell_of(self, line: LedgerLine) -> None:
        match line.what:
            case "start" if before := self.guarded.account.before(line):
                self._note(f"{line.who} takes over {time_of(line.slot)} from {before.who}, whose lease has lapsed")
            case "stopped":
                woken = "wakes up, " * (self.guarded.account.paused.get(line.who) == line.slot)
                self._note(f"{line.who} {woken}is told that {time_of(line.slot)} is no longer its own, and stops")

    def _in_the_middle(self, slot: Slot) -> str | None:
        """Who runs the slot under the guard, once the process of that name runs it without the guard too."""
        starts = self.guarded.account.starts(slot.key)
        who = max(starts, key=lambda line: line.fence).who if starts else ""
        both = all(side.account.runs(slot.key, who) for side in self.sides)
        return who if both else None

    def _taken_over(self, slot: Slot, who: str) -> bool:
        return any(line.who != who for line in self.guarded.account.starts(slot.key))

    def _still_open(self) -> bool:
        return bool(self._store.scan(Scan(f"run/{DEMO_JOB}/", mark=Mark.OPEN, limit=1)).cells)

    # --- acting ---

    def _tell(self, text: str) -> None:
        for side in self.sides:
            for name in side.processes.names:
                side.processes.tell(name, text)

    def _note(self, text: str) -> None:
        self.notes.append(text)

    def _stop(self, who: str) -> None:
        """A process that is stopped while it commits keeps the file's lock, and then no other can take over before it
        goes on: SQLite has one lock for all. So it is stopped again, until it holds no lock."""
        guarded = self.guarded.processes
        self.unguarded.processes.stop(who)
        guarded.stop(who)
        for _ in range(STOP_TRIES):
            if not self._locked():
                return
            guarded.go_on(who)
            threading.Event().wait(DEMO_POLL)
            guarded.stop(who)

    def _locked(self) -> bool:
        with closing(sqlite3.connect(self._path, timeout=0.5, isolation_level=None)) as db:
            try:
                db.execute("BEGIN IMMEDIATE")
                db.execute("ROLLBACK")
            except sqlite3.OperationalError:
                return True
            return False
