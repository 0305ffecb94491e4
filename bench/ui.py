"""`python -m bench.ui [URL…]`: the pages over 10,000 jobs and 1,000,000 recorded runs, on PostgreSQL and on Valkey.

The store is filled by its own `swap` (`bench.fleet`), and every page asked for through the whole application, as a
browser would, without a socket. What is judged is the server's time, which is the machine's as well: the limit is far
above what it takes, and holds where the machine is somebody else's. What is told besides does not depend on it: how
often a page asks the store, and for how many cells. Memory is this process's own, before and after many requests.

Given URLs, it measures the stores there, and fills those that are empty.
"""

import asyncio
import gc
import itertools
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

import httpx

from bench.fleet import Fleet, fill
from bench.postgres import server as postgres
from cronce.model import Cell, Instant, spell
from cronce.stores import mask, open_store
from cronce.stores.base import Loaded, Page, Scan, Store, size
from cronce.web.app import application
from tests.servers.valkey import Valkey

LIMIT: Final = 0.3
GROWTH: Final = 5.0
REQUESTS: Final = 50
MANY: Final = 1000
"""Requests after which memory is looked at again."""


class Counting:
    """A store that counts what it is asked, and how many cells it gave."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.calls = self.cells = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def load(self, keys: Sequence[str]) -> Loaded:
        reply = self.store.load(keys)
        self._count(reply.cells)
        return reply

    def scan(self, scan: Scan) -> Page:
        reply = self.store.scan(scan)
        self._count(reply.cells)
        return reply

    def _count(self, cells: Sequence[Cell]) -> None:
        self.calls += 1
        self.cells += len(cells)


@dataclass(frozen=True, slots=True)
class Figures:
    """What a page costs: seconds, how many of them this process worked, and of one request how often the store is asked
    and for how many cells."""

    name: str
    seconds: Sequence[float]
    cpu: float
    calls: int
    cells: int
    bytes: int

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def p95(self) -> float:
        return quantiles(self.seconds, n=20, method="inclusive")[-1]

    @property
    def ok(self) -> bool:
        return self.p95 <= LIMIT


def pages(fleet: Fleet, now: Instant) -> dict[str, Callable[[int], str]]:
    """What is asked for, the n-th time; not twice the same where there are many."""

    def job(number: int) -> str:
        return fleet.name(number * 197 % fleet.jobs)

    def slot(number: int) -> str:
        return next(fleet.slots(number * 197 % fleet.jobs, now)).key

    def day(number: int) -> str:
        end = now - timedelta(hours=number)
        return f"/timeline?from={spell(end - timedelta(hours=1))}&to={spell(end)}"

    return {
        "overview": lambda _: "/",
        "jobs": lambda number: f"/jobs?after={job(number)}",
        "jobs, search": lambda number: f"/jobs?q=port-0{number % 10}",
        "job": lambda number: f"/jobs/{job(number)}",
        "run": lambda number: f"/runs/{slot(number).replace('@', '%40')}",
        "runs": lambda _: "/runs",
        "runs, failed": lambda _: "/runs?state=failed",
        "timeline, now": lambda _: "/timeline?span=1h",
        "timeline, an hour": day,
        "timeline, a job": lambda number: f"/timeline?span=1w&job={job(number)}",
    }


async def measure(url: str, fleet: Fleet) -> tuple[list[Figures], float]:
    """The figures of each page, and by how many megabytes the process grew over many requests."""
    app = application(url, private=False)
    site = app.state.site
    node = await site.opened()
    counting = node.store = Counting(node.store)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
        asked = pages(fleet, counting.load([]).now)
        figures = [await _page(client, counting, name, path) for name, path in asked.items()]
        before = _megabytes()
        for number, path in zip(range(MANY), itertools.cycle(asked.values()), strict=False):
            (await client.get(path(number))).raise_for_status()
        growth = _megabytes() - before
    site.close()
    return figures, growth


async def _page(client: httpx.AsyncClient, store: Counting, name: str, path: Callable[[int], str]) -> Figures:
    seconds, worked = [], []
    for number in range(REQUESTS + 3):
        store.calls = store.cells = 0
        began, cpu = time.perf_counter(), time.process_time()
        answer = await client.get(path(number))
        seconds.append(time.perf_counter() - began)
        worked.append(time.process_time() - cpu)
        assert answer.status_code == 200, (path(number), answer.status_code, answer.text[:500])
    return Figures(name, seconds[3:], median(worked[3:]), store.calls, store.cells, len(answer.content))


def _megabytes() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


@contextmanager
def servers() -> Iterator[list[str]]:
    with postgres() as database, Valkey() as valkey:
        yield [database.url, valkey.url]


def filled(url: str, fleet: Fleet) -> None:
    store = open_store(url)
    try:
        if not size(store):
            began = time.perf_counter()
            cells = fill(store, fleet)
            print(f"{mask(url)}: {cells:,} cells written in {time.perf_counter() - began:.0f} s")
    finally:
        store.close()


def report(url: str, figures: Sequence[Figures], growth: float) -> bool:
    print(f"\n{mask(url)}\n{'page':<20}{'median':>10}{'p95':>10}{'cpu':>10}{'calls':>8}{'cells':>8}{'KB':>7}")
    for one in figures:
        times = "".join(f"{seconds * 1000:>7.0f} ms" for seconds in (one.median, one.p95, one.cpu))
        print(
            f"{one.name:<20}{times}{one.calls:>8}{one.cells:>8}{one.bytes / 1000:>7.0f}{'' if one.ok else '  missed'}"
        )
    print(f"memory after {MANY:,} requests: {growth:+.1f} MB (limit {GROWTH:g}); limit of p95: {LIMIT * 1000:g} ms")
    return growth <= GROWTH and all(one.ok for one in figures)


def main(urls: Sequence[str]) -> int:
    fleet = Fleet()
    if not urls:
        with servers() as started:
            return main(started)
    good = True
    for url in urls:
        filled(url, fleet)
        good = report(url, *asyncio.run(measure(url, fleet))) and good
    return int(not good)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
