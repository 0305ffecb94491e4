"""Eight processes instead of one: what their number adds to the store's work for the same slots.

The heartbeat is what as many processes send with as many jobs when none of them is due; it is taken off.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench import postgres
from bench.harness import AtMost
from bench.scheduler.book import exactly_once, read, tally
from bench.scheduler.jobs import names
from bench.scheduler.process import Child, sleep_until
from bench.scheduler.report import Line
from bench.scheduler.statements import LOGGING, Statements
from tests.servers.postgres import Postgres

MANY = 8


class Size(NamedTuple):
    jobs: int
    slots: int
    cycles: int


def crowd(size: Size) -> Iterator[Line]:
    with postgres.server(**LOGGING) as server:
        bench = Crowd(server, size)
        sides = [(bench.calls(MANY), bench.calls(1)) for _ in range(size.cycles)]
    many, one = ([calls / size.slots for calls in side] for side in zip(*sides, strict=True))
    yield Line(
        f"store calls for a slot of {size.jobs} jobs, {MANY} processes / 1", many, one, AtMost(1.5), unit="calls"
    )


class Crowd:
    def __init__(self, server: Postgres, size: Size) -> None:
        self._server, self._size, self._schemas = server, size, count()

    def calls(self, processes: int) -> int:
        """Those that are due to the slots."""
        beat = self._sent(processes, every=None)
        return self._sent(processes, every="1s") - beat

    def _sent(self, processes: int, every: str | None) -> int:
        url = f"{self._server.url}?schema=crowd_{next(self._schemas)}"
        slots, jobs = self._size.slots, self._size.jobs
        with TemporaryDirectory() as folder, ExitStack() as stack:
            book = Path(folder, "book")
            arguments = {"url": url, "book": str(book), "jobs": jobs, "every": every, "workers": 20}
            for child in [stack.enter_context(Child("ours", **arguments)) for _ in range(processes)]:
                child.told()
            first = int(time.time()) + 3
            sleep_until(first - 0.5)
            statements = Statements(self._server)
            sleep_until(first + slots - 0.5)
            sent = statements.count()
            entries = read(book)
        if every:
            exactly_once([tally(entries, names(jobs), slot, slot + 1) for slot in range(first, first + slots)])
        return sent
