"""A few seconds in the life of schedulers on one store, and what is known of them afterwards.

Each job has its own policy and a few slots, which are numbered by their seconds from `zero` on; those of jobs that
nobody looked after lie in the past. Bodies wait for what they are to see, not for time to pass: which slots run, and
how each ends, is the same on a slow machine.
"""

import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from cronce import Cronce, Run
from cronce.clock import SystemClock
from cronce.events import Event, What
from cronce.model import Cell, Slot, job_cell, slot_of_cell
from cronce.protocol.record import Job, Record, Spec, State, decode, decode_job
from cronce.runtime.flow import drive
from cronce.runtime.queries import holders, read_all
from cronce.schedule import Schedule
from cronce.stores import open_store
from cronce.stores.base import Scan
from tests.house.wait import wait_until
from tests.runtime.scheduling.policies import doomed

SECOND = timedelta(seconds=1)
AGO = timedelta(seconds=150)
"""So old is the last slot of jobs that nobody looked after: more than a minute late is missed."""

PATIENCE = 60.0
"""Seconds, for what takes three on a machine that has nothing else to do."""

TELLING = (What.LATE, What.OVERRUN, What.MISSED)


def hold(true: Callable[[], object]) -> None:
    """Wait for it, as many do at the same time: none of them asks more often than it has to."""
    __tracebackhide__ = True
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


class Policy(NamedTuple):
    """A job: when, on what terms, and what it does."""

    when: Callable[[datetime], Schedule]
    policies: Mapping[str, Any]
    body: Callable[["Season", Run], None]
    old: bool
    """It has been known for long, and nobody looked after it."""


class Ran(NamedTuple):
    slot: Slot
    attempt: int
    began: float
    ended: float


class Told(logging.Handler):
    """Events, as they are told to whoever reads the log."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        if event is not None:
            self.events.append(event)


@contextmanager
def telling() -> Iterator[list[Event]]:
    told, logger = Told(), logging.getLogger("cronce")
    before = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(told)
    try:
        yield told.events
    finally:
        logger.removeHandler(told)
        logger.setLevel(before)


class Season:
    """Two schedulers of this process, and one in a process of its own that dies."""

    def __init__(self, url: str, folder: Path, jobs: Mapping[str, Policy], events: list[Event]) -> None:
        self.url, self.jobs, self._events = url, jobs, events
        self.zero = self.doomed_at = datetime.min.replace(tzinfo=UTC)
        self.begun: list[Slot] = []
        self.ran: list[Ran] = []
        self.seen: dict[str, list[State]] = {}
        self.records: dict[Slot, Record] = {}
        self._book = folder / "book"
        self._store = open_store(url)
        self._clock = SystemClock()
        self._crons: list[Cronce] = []
        self._child: subprocess.Popen[bytes] | None = None

    # --- what happens ---

    def begin_doomed(self) -> None:
        """The slots of the process that will die are due already: it takes them up as soon as it comes."""
        self.doomed_at = self.now().replace(microsecond=0)
        with Cronce(self.url) as cron:
            doomed.declare(cron, self.doomed_at, lambda _run: None)
            for name in doomed.DOOMED:
                self._make_old(cron, name, self.doomed_at - SECOND)
        words = ["-m", doomed.__name__, self.url, self.doomed_at.isoformat(), str(self._book)]
        self._child = subprocess.Popen([sys.executable, *words])

    def drain_doomed(self) -> None:
        """Once it holds what it shall die with."""
        wait_until(lambda: {line.split()[0] for line in self.book()} >= doomed.DOOMED.keys())
        with Cronce(self.url) as cron:
            assert cron.drain(label="colour=blue", by="ann")
        wait_until(lambda: [one.holder.draining for one in drive(holders(), self._store, self._clock)[1]] == [True])

    def declare(self, zero: datetime) -> None:
        self.zero = zero
        for _ in range(2):
            cron = Cronce(self.url)
            for name, job in self.jobs.items():
                cron.job(job.when(zero), name=name, **job.policies)(partial(self._live, job.body))
            if self._child is not None:
                doomed.declare(cron, self.doomed_at, partial(self._live, lambda _season, _run: None))
            self._crons.append(cron)
        for name, job in self.jobs.items():
            first = job.when(zero).next(zero - timedelta(days=1))
            if job.old and first is not None:
                self._make_old(self._crons[0], name, first - SECOND)

    def begin(self) -> None:
        for cron in self._crons:
            cron.start(workers=40, labels={"colour": "green"})
            time.sleep(0.002)  # their names differ by the millisecond

    def in_time(self) -> bool:
        """Whether the schedulers are there at zero."""
        for cron in self._crons:
            assert cron.scheduler is not None
            assert cron.scheduler.wait_ready(60)
        return self.now() < self.zero

    def kill_doomed(self) -> None:
        """After others ran what it would have run, had it not been drained."""
        hold(lambda: self.on_record("drained", 0, 1, 2))
        assert self._child is not None
        assert self._child.poll() is None
        self._child.kill()
        self._child.wait()

    def end(self) -> None:
        """Wait until all is closed, and keep what the store has. What never is shows in the test that asks for it."""
        lasts = {name: self._last(job) for name, job in self.jobs.items()}
        if self._child is not None:
            lasts |= dict.fromkeys(doomed.DOOMED, self.doomed_at)
        with suppress(AssertionError):
            hold(lambda: all(self._closed(Slot(name, at)) for name, at in lasts.items()))
        for cron in self._crons:
            assert cron.scheduler is not None
            cron.scheduler.stop(2.0)
        self.records = {slot_of_cell(cell.key): decode(cell.value) for cell in self._scan("run/")}

    def close(self) -> None:
        for cron in self._crons:
            cron.close()
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        self._store.close()

    def _live(self, body: Callable[["Season", Run], None], run: Run) -> None:
        self.begun.append(run.slot)
        began = self._clock.boot()
        try:
            body(self, run)
        finally:
            self.ran.append(Ran(run.slot, run.attempt, began, self._clock.boot()))

    def _make_old(self, cron: Cronce, name: str, floor: datetime) -> None:
        digest, text = cron.jobs[name].spec
        node = cron.at_work().node
        old = Job(floor, specs=(Spec(digest, floor, text),), firing=digest)
        node.do(node.ledger.jobs.edit(name, lambda _job, _now: old))

    def _last(self, job: Policy) -> datetime:
        last = job.when(self.zero).previous(self.zero + timedelta(days=1))
        assert last is not None
        return last

    # --- what is seen, while it lasts and afterwards ---

    @property
    def cron(self) -> Cronce:
        return self._crons[0]

    @property
    def holders(self) -> set[str]:
        return {cron.at_work().node.holder for cron in self._crons}

    def wait_till(self, number: float) -> None:
        """So many seconds after zero, by the store's clock."""
        wait_until(lambda: self.now() >= self.zero + number * SECOND)

    def now(self) -> datetime:
        return self._store.load([]).now

    def book(self) -> list[str]:
        return self._book.read_text().splitlines() if self._book.exists() else []

    def slot(self, name: str, number: int) -> Slot:
        return Slot(name, self.zero + number * SECOND)

    def key(self, name: str, number: int) -> str:
        return self.slot(name, number).key

    def number(self, slot: Slot) -> int:
        return (slot.at - self.zero) // SECOND

    def on_record(self, name: str, *numbers: int) -> bool:
        cells = self._store.load([self.slot(name, number).cell for number in numbers]).cells
        return all(cell.version for cell in cells)

    def states(self, name: str, *numbers: int) -> list[State]:
        cells = self._store.load([self.slot(name, number).cell for number in numbers]).cells
        return [decode(cell.value).state for cell in cells]

    def job(self, name: str) -> Job:
        (cell,) = self._store.load([job_cell(name)]).cells
        return decode_job(cell.value)

    def runs(self, name: str) -> list[int]:
        """Which slots of a job ran, each as often as it did."""
        return sorted(self.number(ran.slot) for ran in list(self.ran) if ran.slot.job == name)

    def attempts(self, name: str) -> list[Ran]:
        return sorted((ran for ran in self.ran if ran.slot.job == name), key=lambda ran: ran.attempt)

    def at_once(self, name: str) -> int:
        """How many runs of a job went on at one time, at most."""
        spans = [(ran.began, ran.ended) for ran in self.ran if ran.slot.job == name]
        return max(sum(began <= at < ended for began, ended in spans) for at, _ in spans)

    def outcomes(self, name: str) -> dict[int, tuple[str, str]]:
        """How each slot of a job is on record."""
        found = {self.number(slot): record for slot, record in self.records.items() if slot.job == name}
        return {number: (f"{record.outcome}", record.reason) for number, record in sorted(found.items())}

    def events(self, name: str, *kinds: What) -> list[tuple[str, str]]:
        """What was told of a job and its slots."""
        mine = [event for event in list(self._events) if event.holder in self.holders and event.what in kinds]
        slots = sorted((event for event in mine if event.key.startswith(f"run/{name}/")), key=lambda event: event.key)
        found = [(f"{event.what}", f"{self.number(slot_of_cell(event.key))}") for event in slots]
        return found + [(f"{one.what}", one.detail) for one in mine if one.key == job_cell(name)]

    def _closed(self, slot: Slot) -> bool:
        (cell,) = self._store.load([slot.cell]).cells
        return decode(cell.value).state is State.CLOSED if cell.version else slot.at <= self.job(slot.job).floor

    def _scan(self, prefix: str) -> list[Cell]:
        return list(drive(read_all(Scan(prefix)), self._store, self._clock).cells)
