"""Ten thousand jobs that are not due: how long a start takes, and what it costs to stand there.

*Ready* is when `start` came back, if the canary, a job of each second, then ran in time for its next slot; else when
the canary ran. It counts from the first line that declares a job.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import psycopg

from bench import postgres, valkey
from bench.harness import Within
from bench.scheduler.book import read
from bench.scheduler.peers import alchemy, installed
from bench.scheduler.process import Child
from bench.scheduler.report import Line
from bench.scheduler.statements import LOGGING, Statements
from tests.house.wait import wait_until
from tests.servers.postgres import Postgres

IN_TIME = 0.1
RESTARTS = 3
SETTLED = 4.0
"""Seconds without a statement after which a start is over; an idle scheduler looks every ten."""


class Size(NamedTuple):
    jobs: int
    many: int
    idle: float
    """Seconds of standing there."""


def standing(size: Size) -> Iterator[Line]:
    with logged() as server:
        yield from of_ours(server, size.jobs, size.idle, limited=True)
        yield from of_ours(server, size.many, size.idle, limited=False)
        yield from of_apscheduler(server, size)
    yield from of_beat(size, "Celery beat", "celery", redbeat=False)
    yield from of_beat(size, "RedBeat", "redbeat", redbeat=True)


@contextmanager
def logged() -> Iterator[Postgres]:
    with postgres.server(**LOGGING) as server:
        yield server


def of_ours(server: Postgres, jobs: int, idle: float, *, limited: bool) -> Iterator[Line]:
    first: list[float] = []
    again: list[float] = []
    costs: list[Cost] = []
    for number in range(RESTARTS):
        url = f"{server.url}?schema=ours_{jobs}_{number}"
        for kind in (first, again):
            with TemporaryDirectory() as folder:
                book = Path(folder, "book")
                with Child("ours", url=url, book=str(book), jobs=jobs, canary=True) as child:
                    kind.append(ready(child.told(), book))
        known(server, f"ours_{jobs}_{number}", jobs + 1)
    with Child("ours", url=url, book="/dev/null", jobs=jobs) as child:
        child.told()
        costs.append(stood(child, Statements(server), idle))
    limits = (Within(2), Within(150), Within(2), Within(0.5)) if limited else (None,) * 4
    yield Line(f"first start, {jobs:,} jobs", first, limit=limits[0])
    yield Line(f"restart, {jobs:,} jobs", again, limit=limits[0])
    yield Line(f"resident memory, {jobs:,} jobs", [cost.memory for cost in costs], limit=limits[1], unit="MB")
    yield Line(f"idle CPU, {jobs:,} jobs", [cost.cpu for cost in costs], limit=limits[2], unit="% of a core")
    yield Line(f"idle store calls, {jobs:,} jobs", [cost.calls for cost in costs], limit=limits[3], unit="a second")


def known(server: Postgres, schema: str, jobs: int) -> None:
    """Every job is on record, as a start has to see to."""
    with psycopg.connect(server.url) as db:
        query = f"SELECT count(*) FROM {schema}.cronce_cells WHERE key LIKE 'job/%'"
        (found,) = db.execute(query.encode()).fetchone() or (0,)
    if found != jobs:
        raise AssertionError(f"{found} jobs are on record, and {jobs} were declared")


def of_apscheduler(server: Postgres, size: Size) -> Iterator[Line]:
    if not installed("apscheduler"):
        return
    for name, url in (("memory", None), ("PostgreSQL", alchemy(server.url))):
        found = []
        for _ in range(2):
            with TemporaryDirectory() as folder:
                book = Path(folder, "book")
                with Child("aps", url=url, book=str(book), jobs=size.jobs, canary=True) as child:
                    found.append(ready(child.told(), book))
                    cost = stood(child, Statements(server), size.idle)
        yield Line(f"first start, APScheduler, {name}", peer=found[:1])
        yield Line(f"restart, APScheduler, {name}", peer=found[1:])
        yield Line(f"resident memory, APScheduler, {name}", peer=[cost.memory], unit="MB")


def of_beat(size: Size, name: str, module: str, *, redbeat: bool) -> Iterator[Line]:
    if not installed(module):
        return
    found = []
    with valkey.server() as broker, TemporaryDirectory() as folder:
        for _ in range(2):
            file = str(Path(folder, "beat"))
            with Child("beat", url=broker.url, jobs=size.jobs, file=file, redbeat=redbeat) as child:
                facts = child.told()
                found.append(facts["started"] - facts["began"])
                memory = child.memory
    yield Line(f"first start, {name}", peer=found[:1])
    yield Line(f"restart, {name}", peer=found[1:])
    yield Line(f"resident memory, {name}", peer=[memory], unit="MB")


def ready(facts: dict[str, Any], book: Path) -> float:
    """Seconds from the first declaration."""
    wait_until(lambda: read(book))
    ran = read(book)[0].at
    in_time = ran - facts["started"] < 1 + IN_TIME and ran % 1 < IN_TIME
    ready_at: float = min(facts["started"], ran) if in_time else ran
    return ready_at - float(facts["began"])


class Cost(NamedTuple):
    memory: float
    cpu: float
    calls: float


def stood(child: Child, statements: Statements, idle: float) -> Cost:
    """What it costs to stand there for so many seconds, once the start is over: what is not due yet is put on record
    after `start` came back, so that is when nothing was sent for a while."""
    sent = -1
    while sent != (sent := statements.count()):
        time.sleep(min(SETTLED, idle))
    cpu, calls, began = child.cpu, statements.count(), time.monotonic()
    time.sleep(idle)
    passed = time.monotonic() - began
    return Cost(child.memory, (child.cpu - cpu) / passed * 100, (statements.count() - calls) / passed)
