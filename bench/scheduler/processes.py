"""One job that is due every second, and more and more schedulers: what they ask of the store, and how late it starts.

Nobody starts thousands of processes on one machine. What they would ask for is arithmetic: a part that belongs to the
job, and one for each process (`bench.figures` has it from the two ends of this line).
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench import postgres
from bench.scheduler.book import read, tally
from bench.scheduler.jobs import names
from bench.scheduler.process import Child, sleep_until
from bench.scheduler.report import Line
from bench.scheduler.statements import LOGGING, Statements
from tests.servers.postgres import Postgres


class Size(NamedTuple):
    processes: tuple[int, ...]
    slots: int


def processes(size: Size) -> Iterator[Line]:
    with postgres.server(**LOGGING, max_connections="400") as server:
        for number in size.processes:
            calls, late = _measured(server, number, size.slots)
            yield Line(f"store calls a second, {number} processes", [calls], unit="calls")
            yield Line(f"slot to body, {number} processes", [late])


def _measured(server: Postgres, number: int, slots: int) -> tuple[float, float]:
    url = f"{server.url}?schema=processes_{number}"
    with TemporaryDirectory() as folder, ExitStack() as stack:
        book = Path(folder, "book")
        children = [
            stack.enter_context(Child("ours", url=url, book=str(book), jobs=1, every="1s", workers=2))
            for _ in range(number)
        ]
        for child in children:
            child.told()
        first = int(time.time()) + 3
        sleep_until(first - 0.5)
        statements = Statements(server)
        sleep_until(first + slots - 0.5)
        calls = statements.count() / slots
        tallies = [tally(read(book), names(1), slot, slot + 1) for slot in range(first, first + slots)]
    if any(cycle.extra for cycle in tallies):
        raise AssertionError(f"a slot ran twice: {tallies}")
    started = [cycle.delays[0] for cycle in tallies if cycle.delays]  # on a busy machine some start in the next second
    return calls, median(started) if started else float(slots)
