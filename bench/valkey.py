"""Claiming on Valkey at the seam, against what people take Redis for, and against the least that Redis needs.

*Bare*, for one slot after the other, is redis-py's `Lock` with a timeout: `acquire(blocking=False)`, then `release()`,
through one client with hiredis and without retries. A lock forgets; ours is a record that stays, and can be found.

*Bare*, for a batch, is one `EVALSHA` of a script that calls `HSETNX` for each of the same keys and values: no versions,
no clock, no groups, nothing that could find a cell again but its key.
"""

import atexit
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import cache
from typing import Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from bench import seam
from bench.harness import Unavailable
from cronce.model import ABSENT, Cell, Mark, Slot, Write
from cronce.protocol.record import encode
from cronce.stores import open_store
from cronce.stores.base import Store
from tests.servers.valkey import Valkey

LOOP: Final = "for i = 1, #ARGV, 2 do redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1]) end"


class Bare:
    """What a bare client does."""

    def __init__(self, port: int) -> None:
        self.client = redis.Redis(port=port, retry=Retry(NoBackoff(), 0), socket_timeout=5, socket_connect_timeout=5)
        self.loop = self.client.script_load(LOOP)
        self.cells: list[str] = []

    def pair(self, claimed: Cell, finished: Cell) -> None:  # noqa: ARG002  a lock keeps no record of how it went
        lock = self.client.lock(claimed.key, timeout=seam.LEASE.total_seconds())
        assert lock.acquire(blocking=False)
        lock.release()

    def prepare(self, cells: Sequence[Cell]) -> None:
        self.cells = [text for cell in cells for text in (cell.key, cell.value)]

    def batch(self) -> None:
        self.client.evalsha(self.loop, 1, "bare", *self.cells)


@contextmanager
def server() -> Iterator[Valkey]:
    try:
        valkey = Valkey()
    except BaseException as missing:  # pytest's way to skip
        raise Unavailable(f"needs Valkey: {missing}") from missing
    try:
        yield valkey.start()
    finally:
        valkey.close()


@contextmanager
def opened() -> Iterator[tuple[Store, seam.Bare]]:
    with server() as valkey:
        store, bare = open_store(valkey.url), Bare(valkey.port)
        yield store, bare
        bare.client.close()
        store.close()


# --- a million runs -------------------------------------------------------------------------------------------------


@cache
def filled() -> Store:
    """One for all scans, until the end: to write a million runs takes longer than to look for them. A thousand are
    open, half of them lapsed; 200 want attention; the rest is closed."""
    until_the_end = ExitStack()
    atexit.register(until_the_end.close)
    valkey = until_the_end.enter_context(server())
    store = open_store(valkey.url)
    until_the_end.callback(store.close)
    seen = store.load([]).epoch.seen
    for start in range(0, seam.RUNS, seam.JOBS):
        store.swap([_run(number) for number in range(start, start + seam.JOBS)], seen)
    memory = valkey.cli("INFO", "memory")["used_memory_dataset"]
    print(f"{memory / seam.RUNS:.0f} bytes of memory for each of {seam.RUNS:,} runs", file=sys.stderr)
    return store


CLOSED: Final = encode(seam.closed(seam.record()))


def _run(number: int) -> Write:
    slot = Slot(f"job-{number % seam.JOBS}", seam.START + number // seam.JOBS * timedelta(minutes=1))
    mark = Mark.OPEN if number % 1000 == 7 else Mark.ATTENTION if number % 5000 == 13 else Mark.CLOSED
    ttl = timedelta(days=number % 2000) if mark is Mark.OPEN else timedelta(minutes=5)
    return Write(slot.cell, ABSENT, CLOSED, mark, slot.at, grant=True, ttl=ttl)


BENCHMARKS = [
    *seam.benchmarks(
        opened,
        pair=(1.0, 0.95),
        batch=(0.35, 0.4),
        losing=(1.4, 1.6),
        cpu=(3, 5),
        bare_pair="redis-py's Lock with a timeout: acquire and release, by one client with hiredis",
        bare_batch="one EVALSHA of a script that calls HSETNX for each of the same keys and values, by redis-py",
    ),
    *seam.scans(filled, lapsed=seam.START + timedelta(days=36500)),
]

if __name__ == "__main__":
    from bench.__main__ import main

    sys.exit(main(["valkey"]))
