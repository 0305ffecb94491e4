"""Claiming on durable SQLite, against the least that SQLite itself needs for the same promise.

*Bare* is two transactions in plain `sqlite3`, on a table with the same columns and the same indexes, in WAL mode with
synchronous=FULL: one inserts a row with the values of a claim, one updates it with those of its finish.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.harness import AtLeast, Benchmark, Sides, Slice
from cronce.clock import SystemClock
from cronce.model import Slot, to_us
from cronce.policy import Overlap
from cronce.protocol.record import Job, Outcome
from cronce.protocol.terms import Terms
from cronce.runtime.flow import drive
from cronce.runtime.ledger import Grant, Ledger, Wanted
from cronce.stores.sqlite import SqliteStore
from cronce.stores.sqlite.statements import TABLES

OPS = 20
BATCH = 1000
START = datetime(2020, 1, 1, tzinfo=UTC)
LEASE = timedelta(minutes=5)


class Bench:
    """One process at one SQLite file, whose job is known."""

    def __init__(self, path: Path) -> None:
        self.clock = SystemClock()
        self.store = SqliteStore(path)
        self.ledger = Ledger(self.store.traits, self.clock, "bench:1")
        self.slots = (Slot("billing", START + number * timedelta(seconds=1)) for number in count())
        self.know_job()

    def know_job(self) -> None:
        first = Job(START - timedelta(seconds=1))
        drive(self.ledger.jobs.edit("billing", lambda job, _now: job or first), self.store, self.clock)

    def claim(self, slots: int, overlap: Overlap) -> list[Grant]:
        terms = Terms(LEASE, overlap=overlap)
        grants = drive(
            self.ledger.claim([Wanted(next(self.slots), terms) for _ in range(slots)]), self.store, self.clock
        )
        return [grant for grant in grants if isinstance(grant, Grant)]

    def one_by_one(self, overlap: Overlap) -> None:
        for _ in range(OPS):
            (grant,) = self.claim(1, overlap)
            drive(self.ledger.finish(grant, Outcome.SUCCEEDED), self.store, self.clock)

    def batch(self) -> None:
        assert len(self.claim(BATCH, "allow")) == BATCH

    def singles(self) -> None:
        for _ in range(OPS):
            assert len(self.claim(1, "allow")) == 1


class Bare:
    """The same rows, by hand."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")
        for statement in TABLES:
            self.db.execute(statement)
        self.numbers = count(1)

    def pair(self) -> None:
        for _ in range(OPS):
            number = next(self.numbers)
            slot = Slot("billing", START + number * timedelta(seconds=1))
            self._transaction(INSERT, (slot.cell, number, 1, to_us(slot.at), to_us(slot.at), 1, number, CLAIMED))
            self._transaction(UPDATE, (number + 1, 3, to_us(slot.at), FINISHED, slot.cell))

    def _transaction(self, statement: str, values: tuple[Any, ...]) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute(statement, values)
        self.db.execute("COMMIT")


INSERT = """
    INSERT INTO cronce_cells (key, version, mark, at, until, fence_birth, fence_number, value)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
UPDATE = "UPDATE cronce_cells SET version = ?, mark = ?, until = ?, value = ? WHERE key = ?"
CLAIMED = (
    '{"v":1,"state":"running","grant":1,"nonce":"0123456789abcdef","holder":"bench:1","lease":300000000,'
    '"started":1577836800000000}'
)
FINISHED = (
    '{"v":1,"state":"closed","grant":1,"nonce":"0123456789abcdef","holder":"bench:1","lease":300000000,'
    '"started":1577836800000000,"finished":1577836800000000,"outcome":"succeeded"}'
)


def against_bare(overlap: Overlap) -> Callable[[], Any]:
    @contextmanager
    def sides() -> Iterator[Sides]:
        with TemporaryDirectory() as folder:
            ours, bare = Bench(Path(folder, "ours.db")), Bare(Path(folder, "bare.db"))
            yield Sides(
                ours=Slice(lambda: ours.one_by_one(overlap), OPS, before=ours.know_job), bare=Slice(bare.pair, OPS)
            )

    return sides


@contextmanager
def batches() -> Iterator[Sides]:
    with TemporaryDirectory() as folder:
        many, single = Bench(Path(folder, "many.db")), Bench(Path(folder, "single.db"))
        yield Sides(
            ours=Slice(many.batch, BATCH, before=many.know_job), bare=Slice(single.singles, OPS, before=single.know_job)
        )


BENCHMARKS = [
    Benchmark(
        "single", against_bare("allow"), AtLeast(0.6), note="an INSERT and an UPDATE, a transaction each, durable"
    ),
    Benchmark(
        "group", against_bare("skip"), AtLeast(0.5), note="the same two transactions, of one row; ours are run + turn"
    ),
    Benchmark("batch", batches, AtLeast(6), note=f"claims one by one; ours are {BATCH:,} in one transaction"),
]
