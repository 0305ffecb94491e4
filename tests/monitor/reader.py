"""Drives what the page reads over a store, and counts what is asked of it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from bench.fleet import Fleet
from cronce.model import (
    BOARD_JOBS,
    Instant,
    Mark,
    Slot,
    Write,
    job_cell,
)
from cronce.protocol.record import Job, Outcome, Record, Spec, State, encode, encode_job
from cronce.runtime import run_lists
from cronce.runtime.declare import declare
from cronce.runtime.flow import Flow, Timed, perform
from cronce.stores.base import Store
from cronce.stores.memory import MemoryStore

NOW: Final = datetime(2026, 3, 29, 12, 30, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
MINUTE: Final = timedelta(minutes=1)
FLEET: Final = Fleet(jobs=30, runs=10, open=12, attention=8, effects=200, refused=30)

T = TypeVar("T")


class Reader:
    """Drives flows over a store, and counts what they ask. `boot` is this machine's clock; a request takes `lasts`."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = store or MemoryStore(clock=lambda: NOW)
        self.boot, self.lasts = 1000.0, 0.0
        self.calls = self.cells = 0

    def __call__(self, flow: Flow[T]) -> T:
        self.calls = self.cells = 0
        try:
            request = next(flow)
            while True:
                reply: Any = perform(self.store, request)
                self.calls, self.cells = self.calls + 1, self.cells + len(reply.cells)
                self.boot += self.lasts
                request = flow.send(Timed(reply, self.boot, self.boot))
        except StopIteration as stop:
            result: T = stop.value
            return result

    def put(self, key: str, value: str = "", mark: Mark = Mark.FREE, at: Instant | None = None, **how: Any) -> None:
        loaded = self.store.load([key])
        write = Write(key, loaded.cells[0].version, value, mark, at, **how)
        (verdict,) = self.store.swap([write], loaded.epoch.seen).verdicts
        assert verdict.refused is None

    def run(self, slot: Slot, mark: Mark = Mark.CLOSED, outcome: Outcome = Outcome.SUCCEEDED) -> None:
        record = Record(State.CLOSED, 1, "n", "web-1:1:a", started=slot.at, finished=slot.at + HOUR, outcome=outcome)
        if mark is Mark.OPEN:
            record = Record(State.RUNNING, 1, "n", "web-1:1:a", started=slot.at)
        self.put(slot.cell, encode(record), mark, slot.at, grant=True, ttl=HOUR)

    def job(self, name: str, schedule: str = "0 * * * *", **job: Any) -> None:
        digest, text = declare(name, schedule=schedule).spec
        self.put(job_cell(name), encode_job(Job(NOW - HOUR, specs=(Spec(digest, NOW, text),), firing=digest, **job)))

    def news(self) -> None:
        self.put(BOARD_JOBS)


def every(read: Reader, **asked: Any) -> Iterator[str]:
    """All runs of a list, part by part."""
    after = None
    while True:
        page = read(run_lists.newest_runs(after=after, limit=7, **asked))
        yield from (run.cell.key for run in page.runs)
        after = page.next
        if after is None:
            return
