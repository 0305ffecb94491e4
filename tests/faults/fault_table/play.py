"""One play: processes on a store, a fault in the middle, and what became of each slot."""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from cronce.errors import StoreError
from cronce.model import Mark, Slot, job_cell
from cronce.protocol.record import Job, decode, decode_job
from cronce.stores import open_store
from cronce.stores.base import Scan, Store
from cronce.stores.redis import init
from tests.faults.fault_table.app import JOB, SECOND
from tests.faults.leaping import leaping
from tests.house.wait import wait_until
from tests.servers.postgres import Postgres
from tests.servers.valkey import DURABLE, Valkey

PROCESSES: Final = 3
BEFORE: Final = 4
"""Slots before the fault."""

LASTS: Final = 8.0
"""Seconds: longer than a lease."""

AFTER: Final = 6
"""Slots after it."""

UP: Final = 6
"""Seconds until the first slot, on a machine that has other things to do."""

SETTLED: Final = 90.0
"""Seconds after the last slot in which all must be closed."""


class Counted(NamedTuple):
    """What became of the slots."""

    slots: int
    ran: int
    """With a job function that came to its end."""
    extra: int
    """Ends beyond one for each slot."""
    missed: int
    """Neither run nor on record."""
    lost: int
    on_record: int
    """Not run, and on record with the reason."""


# --- stores, and what can be done to them -----------------------------------------------------------------------------

Fault = Callable[["Place"], None]


class Place:
    """A store of its own, with its server where it has one."""

    def __init__(self, store: str, stack: ExitStack) -> None:
        self.store, self.folder = store, Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.url = f"sqlite:///{self.folder}/cronce.db"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.running = 0
        """The process in which a job function has just begun."""
        if store == "postgresql":
            self.postgres = Postgres()
            self.clock = leaping(self.postgres)
            stack.enter_context(self.postgres)
            self.url = f"{self.postgres.url}?timeout=2"
        elif store == "valkey":
            self.valkey = Valkey(*DURABLE)
            self.clock = leaping(self.valkey)
            stack.enter_context(self.valkey)
            init(self.valkey.url)
            self.url = f"{self.valkey.url}?timeout=2"

    @property
    def server(self) -> Postgres | Valkey:
        return self.postgres if self.store == "postgresql" else self.valkey


def calm(_place: Place) -> None:
    time.sleep(LASTS)


def stopped(place: Place) -> None:
    """The server is alive and silent: connections stay open, no answer comes."""
    place.server.pause()
    time.sleep(LASTS)
    place.server.resume()


def refused(place: Place) -> None:
    """The server is gone, and its port refuses; it comes back with what it had."""
    place.server.kill()
    time.sleep(LASTS)
    place.server.start()


def read_only(place: Place) -> None:
    """The store answers, and takes no write."""
    with _writes_refused(place):
        time.sleep(LASTS)


@contextmanager
def _writes_refused(place: Place) -> Iterator[None]:
    if place.store == "valkey":
        place.valkey.cli("CONFIG", "SET", "min-replicas-to-write", 1)
        yield
        place.valkey.cli("CONFIG", "SET", "min-replicas-to-write", 0)
        return
    with place.postgres.admin() as admin:
        admin.execute("SET default_transaction_read_only = off")
        admin.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        admin.execute("SELECT pg_reload_conf()")
        yield
        admin.execute("ALTER SYSTEM RESET default_transaction_read_only")
        admin.execute("SELECT pg_reload_conf()")


def locked(place: Place) -> None:
    """Somebody else has the table, or the file, for himself."""
    if place.store == "sqlite":
        with closing(sqlite3.connect(f"{place.folder}/cronce.db", isolation_level=None, timeout=60)) as file:
            file.execute("BEGIN EXCLUSIVE")
            time.sleep(LASTS)
            file.execute("ROLLBACK")
        return
    with place.postgres.admin() as admin, admin.transaction():
        admin.execute("LOCK TABLE cronce_cells IN ACCESS EXCLUSIVE MODE")
        time.sleep(LASTS)


def killed(place: Place) -> None:
    """A process dies in the middle of a job function."""
    os.kill(place.running, signal.SIGKILL)
    time.sleep(LASTS)


def restarted(place: Place) -> None:
    """The server is killed, and is back at once with what it had."""
    place.server.kill()
    place.server.start()
    time.sleep(LASTS)


def leapt(seconds: float) -> Fault:
    """The clock of the server is wrong by so much, for a while."""

    def fault(place: Place) -> None:
        with place.clock.by(seconds, LASTS):
            pass

    return fault


def index_lost(place: Place) -> None:
    """The key by which runs are listed is gone, the cells are there."""
    place.valkey.cli("DEL", "{cronce:cronce}:index")
    time.sleep(LASTS)


HOUR: Final = 3600.0
YEAR: Final = 400 * 86400.0
SERVERS: Final = ("postgresql", "valkey")

FAULTS: Final[Mapping[str, tuple[Fault, tuple[str, ...]]]] = {
    "calm": (calm, ("sqlite", "postgresql", "valkey")),
    "killed": (killed, ("sqlite", "postgresql", "valkey")),
    "stopped": (stopped, SERVERS),
    "refused": (refused, SERVERS),
    "restarted": (restarted, SERVERS),
    "read-only": (read_only, SERVERS),
    "locked": (locked, ("sqlite", "postgresql")),
    "an hour ahead": (leapt(HOUR), SERVERS),
    "an hour back": (leapt(-HOUR), SERVERS),
    "400 days ahead": (leapt(YEAR), SERVERS),
    "400 days back": (leapt(-YEAR), SERVERS),
    "index lost": (index_lost, ("valkey",)),
}
"""What is done, and to which stores it can be."""


# --- the play ---------------------------------------------------------------------------------------------------------


def play(fault: str, way: str, store: str) -> Counted:
    with ExitStack() as stack:
        place = Place(store, stack)
        first = datetime.now(UTC).replace(microsecond=0) + UP * SECOND
        last = first + (BEFORE + int(LASTS) + AFTER) * SECOND
        for _ in range(PROCESSES):
            _start(place, stack, way, first, last)
        wait_until(lambda: _named(place)["up"].total() == PROCESSES)
        time.sleep(max((first + BEFORE * SECOND).timestamp() - time.time() - 0.2, 0.0))
        place.running = _next_to_begin(place)
        FAULTS[fault][0](place)
        return _counted(place, first, last)


def _start(place: Place, stack: ExitStack, way: str, first: datetime, last: datetime) -> None:
    words = [way, place.url, f"{place.folder}/book", first.isoformat(), last.isoformat()]
    with (place.folder / f"log{len(place.processes)}").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.fault_table.app", *words], stdout=log, stderr=log,
            env={**os.environ, "XDG_STATE_HOME": f"{place.folder}/state"}, start_new_session=True,
        )  # fmt: skip
    place.processes.append(process)
    stack.callback(_end, process)


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _lines(place: Place) -> list[tuple[str, ...]]:
    book = place.folder / "book"
    return [tuple(line.split()) for line in book.read_text().splitlines()] if book.exists() else []


def _named(place: Place) -> dict[str, Counter[str]]:
    """How often each slot is named with each word."""
    lines = _lines(place)
    return {word: Counter(at for what, at, _pid in lines if what == word) for word in ("up", "begin", "end")}


def _next_to_begin(place: Place) -> int:
    """The process in which the next job function begins, once it has."""
    begun = _named(place)["begin"].total()
    wait_until(lambda: _named(place)["begin"].total() > begun)
    return int([pid for what, _at, pid in _lines(place) if what == "begin"][begun])


def _counted(place: Place, first: datetime, last: datetime) -> Counted:
    slots = [first + number * SECOND for number in range((last - first) // SECOND + 1)]
    time.sleep(max(last.timestamp() - time.time(), 0.0))
    with closing(open_store(place.url)) as store:
        deadline = time.monotonic() + SETTLED
        while time.monotonic() < deadline and not _is_settled(store, slots, _named(place)["end"]):
            time.sleep(0.2)
        time.sleep(1.0)  # whoever would run one more does so now
        ended, records, job = _named(place)["end"], _records(store), _job(store)
    closed = {at: records[at] for at in slots if records.get(at)}
    idle = [at for at in slots if not ended[at.isoformat()]]
    noted = [at for at in idle if at in closed or _is_passed_over(job, at)]
    return Counted(
        len(slots),
        len(slots) - len(idle),
        sum(max(ended[at.isoformat()] - 1, 0) for at in slots),
        len(idle) - len(noted),
        sum(outcome == "lost" for outcome in closed.values()),
        len(noted),
    )


def _is_settled(store: Store, slots: list[datetime], ended: Counter[str]) -> bool:
    try:
        if store.scan(Scan("run/", mark=Mark.OPEN, limit=1)).cells:
            return False
        records, job = _records(store), _job(store)
    except StoreError:
        return False
    return all(at in records or _is_passed_over(job, at) for at in slots) and all(
        ended[at.isoformat()] or records.get(at) != "succeeded" for at in slots
    )


def _records(store: Store) -> dict[datetime, str]:
    """How each slot is closed that is on record; empty while it is not."""
    keys = [cell for cell in store.scan(Scan(f"run/{JOB}/", limit=1000)).cells if "#" not in cell.key]
    return {cell.at: str(decode(cell.value, cell.key).outcome or "") for cell in keys if cell.at is not None}


def _job(store: Store) -> Job:
    (cell,) = store.load([job_cell(JOB)]).cells
    return decode_job(cell.value, cell.key)


def _is_passed_over(job: Job, at: datetime) -> bool:
    """It is on record with others, in one record for all of them."""
    return any(span.start <= Slot(JOB, at).at <= span.end for span in job.spans)
