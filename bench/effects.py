"""Effects on PostgreSQL: what a durable step costs next to the least that makes its two facts durable.

*Bare* is two transactions of one row, over psycopg in autocommit, on a table with the same columns and indexes as ours:
an INSERT, the step is begun; an UPDATE, it is done. Ours makes the same two commits through `run.once`.

The round trips of `once_each` are counted at the store, not timed.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import Final

from bench import postgres
from bench.harness import AtLeast, Benchmark, Meter, Sides, Slice, Within
from bench.seam import START, closed, record
from cronce import Cronce, Run
from cronce.model import Cell, Fence, Mark, Slot, Write
from cronce.protocol.record import encode
from cronce.protocol.terms import Terms
from cronce.runtime.declare import declare
from cronce.runtime.keeper import Lease
from cronce.runtime.ledger import Grant, Wanted
from cronce.stores.base import Loaded, Swapped
from cronce.stores.memory import MemoryStore

OPS: Final = 50
MANY: Final = 1000


@contextmanager
def running(cron: Cronce) -> Iterator[Run]:
    """A run that is kept while it is measured, as a body has it."""
    keeper = cron.at_work()
    node = keeper.node
    wanted = Wanted(Slot("billing", START), Terms(timedelta(minutes=5), outside=True))
    (grant,) = node.do(node.ledger.claim([wanted]))
    assert isinstance(grant, Grant), grant
    lease = Lease(grant, node.clock, lambda _over: None)
    keeper.keep(lease)
    try:
        yield Run(lease, keeper, declare("billing"))
    finally:
        keeper.drop(lease)


@contextmanager
def steps() -> Iterator[Sides]:
    with postgres.opened() as (store, bare), Cronce(store=store) as cron, running(cron) as run:
        numbers = count(1)

        def ours() -> None:
            for _ in range(OPS):
                run.once(next(numbers), int, per="slot")

        def raw() -> None:
            for _ in range(OPS):
                number = next(numbers)
                begun = Cell(f"effect/billing/{number}", number, encode(record()), START, Mark.OPEN, Fence(1, number))
                bare.pair(begun, begun._replace(version=-number, value=encode(closed(record())), mark=Mark.CLOSED))

        yield Sides(Slice(ours, OPS), Slice(raw, OPS))


# --- round trips ------------------------------------------------------------------------------------------------------


class Counted(MemoryStore):
    """Counts the calls that would be round trips."""

    def __init__(self, cron: Cronce) -> None:
        super().__init__(cron._clock.wall)
        self.calls = 0

    def load(self, keys: Sequence[str]) -> Loaded:
        self.calls += 1
        return super().load(keys)

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        self.calls += 1
        return super().swap(writes, seen)


@contextmanager
def many() -> Iterator[Sides]:
    store = Counted(Cronce("memory:"))
    numbers = count()
    with Cronce(store=store) as cron, running(cron) as run:
        METER.store = store

        def ours() -> None:
            items = [next(numbers) for _ in range(MANY)]
            run.once_each(items, key=str, fn=int, unsure="retry", per="slot")

        yield Sides(Slice(ours, MANY // 100))


class _Calls:
    store: Counted | None = None

    def read(self) -> float:
        return float(self.store.calls) if self.store else 0.0


METER: Final = _Calls()

BENCHMARKS = [
    Benchmark("once", steps, AtLeast(0.6), note="INSERT, then UPDATE, of one row, a commit each, same table, psycopg"),
    Benchmark(
        "once_each", many, Within(2), note=f"per hundred of {MANY:,} steps that may be repeated",
        meter=Meter("round trips", METER.read, unit="calls"),
    ),
]  # fmt: skip

if __name__ == "__main__":
    from bench.__main__ import main

    sys.exit(main(["effects"]))
