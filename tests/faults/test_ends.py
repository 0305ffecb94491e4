"""How a run ended is on record once, however long the store takes no writes, and whether or not its process lives."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from cronce import Cronce
from cronce.clock import SystemClock
from cronce.errors import StoreError
from cronce.model import Slot
from cronce.policy import OnLost
from cronce.protocol.record import Outcome, Record, State, decode
from cronce.runtime.journal import Journal
from cronce.runtime.queries import slot_named
from cronce.stores import open_store
from cronce.stores.default import journal_directory
from cronce.stores.redis import init
from tests.faults import ender
from tests.house.wait import wait_until
from tests.servers.postgres import Postgres
from tests.servers.valkey import DURABLE, Valkey

FULL = bool(os.environ.get("CRONCE_TORTURE_RUNS"))  # `make proof`
LEASE = 3.0
BOOT = SystemClock().boot


@contextmanager
def read_only_postgres(server: Postgres) -> Iterator[None]:
    _read_only(server, "on")
    try:
        yield
    finally:
        _read_only(server, "off")


def _read_only(server: Postgres, to: str) -> None:
    """For every session from now on: a new one hears of it first, and the old ones are ended."""
    setting = "default_transaction_read_only"
    with server.admin() as admin:
        admin.execute(f"SET {setting} = off")
        admin.execute(f"ALTER SYSTEM SET {setting} = {to}")
        admin.execute("SELECT pg_reload_conf()")
        wait_until(lambda: _shown(server, setting) == to)
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


def _shown(server: Postgres, setting: str) -> str:
    with server.admin() as admin:
        row = admin.execute(f"SHOW {setting}").fetchone()
        assert row is not None
        return str(row[0])


@contextmanager
def lonely_valkey(server: Valkey) -> Iterator[None]:
    """It is to have a replica, and takes no writes without."""
    server.cli("CONFIG", "SET", "min-replicas-to-write", 1)
    try:
        yield
    finally:
        server.cli("CONFIG", "SET", "min-replicas-to-write", 0)


@contextmanager
def locked_sqlite(file: Path) -> Iterator[None]:
    with closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as hog:
        hog.execute("BEGIN IMMEDIATE")
        yield


class Place:
    """A store, and how to keep it from taking writes."""

    def __init__(self, url: str, no_writes: Callable[[], AbstractContextManager[None]]) -> None:
        self.url, self.no_writes = url, no_writes

    def record(self, slot: Slot) -> Record | None:
        store = open_store(self.url)
        (cell,) = store.load([slot.cell]).cells
        store.close()
        return decode(cell.value, cell.key) if cell.version else None

    def slot(self, seconds: float) -> datetime:
        """So many seconds from now."""
        store = open_store(self.url)
        now = store.load([]).now.replace(microsecond=0)
        store.close()
        return now + timedelta(seconds=seconds)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    match request.param:
        case "postgres":
            with Postgres() as server:
                yield Place(f"{server.url}?timeout=1", lambda: read_only_postgres(server))
        case "valkey":
            with Valkey(*DURABLE) as server:
                init(server.url)
                yield Place(f"{server.url}?timeout=1", lambda: lonely_valkey(server))
        case _:
            file = tmp_path / "cronce.db"
            yield Place(f"sqlite:///{file}?timeout=1", lambda: locked_sqlite(file))


class Process:
    """An `ender`."""

    def __init__(self, place: Place, on_lost: OnLost, folder: Path, when: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        command = [sys.executable, "-m", ender.__name__, place.url, on_lost, str(folder), when]
        self.process = subprocess.Popen(command)

    @property
    def lines(self) -> list[str]:
        book = self.folder / "book"
        return book.read_text().splitlines() if book.exists() else []

    def slot(self) -> Slot:
        """That it runs."""
        wait_until(lambda: self.lines)
        return slot_named(self.lines[0].removeprefix("start "))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def run(place: Place, tmp_path: Path) -> Iterator[Callable[[OnLost, str], Process]]:
    begun: list[Process] = []

    def begin(on_lost: OnLost, when: str) -> Process:
        begun.append(Process(place, on_lost, tmp_path / "folder", when))
        return begun[-1]

    yield begin
    for one in begun:
        one.kill()


def entries(place: Place) -> int:
    return len(Journal(journal_directory(place.url)).all())


@pytest.mark.parametrize(
    ("place", "on_lost", "by"),
    [("postgres", "rerun", "scheduler"), ("valkey", "rerun", "")]
    + [("postgres", "skip", ""), ("sqlite", "skip", "scheduler")] * FULL,
    indirect=["place"],
)
def test_a_store_that_takes_no_writes_for_longer_than_a_lease_hears_it_all_the_same(
    place: Place, on_lost: OnLost, by: str, run: Callable[[OnLost, str], Process]
) -> None:
    """On a read-only server the end was dropped at once: the same process took over from itself and ran it again, or it
    was on record as lost."""
    process = run(on_lost, by or place.slot(-3).isoformat())
    slot = process.slot()
    with place.no_writes():
        since = BOOT()
        (process.folder / "release").touch()
        wait_until(lambda: f"end {slot.key}" in process.lines and entries(place) == 1)
        wait_until(lambda: BOOT() > since + LEASE + 0.5)
    wait_until(lambda: entries(place) == 0)
    record = place.record(slot)
    assert record is not None
    assert (record.outcome, record.grant) == (Outcome.SUCCEEDED, 1)
    assert [line for line in process.lines if "@" in line] == [f"start {slot.key}", f"end {slot.key}"]


@pytest.mark.parametrize(
    ("place", "on_lost", "by"),
    [("postgres", "rerun", ""), ("sqlite", "skip", "scheduler")] + [("valkey", "skip", "scheduler")] * FULL,
    indirect=["place"],
)
def test_what_ended_before_its_process_was_killed_the_next_one_says(
    place: Place, on_lost: OnLost, by: str, run: Callable[[OnLost, str], Process]
) -> None:
    process = run(on_lost, by or place.slot(-3).isoformat())
    slot = process.slot()
    with place.no_writes():
        (process.folder / "release").touch()
        wait_until(lambda: f"end {slot.key}" in process.lines and entries(place) == 1)
        process.kill()
    record = place.record(slot)
    assert record is not None
    assert record.state is State.RUNNING
    run(on_lost, "scheduler again" if by else place.slot(-1).isoformat())
    wait_until(lambda: entries(place) == 0)
    record = place.record(slot)
    assert record is not None
    assert (record.outcome, record.grant) == (Outcome.SUCCEEDED, 1)
    assert process.lines.count(f"start {slot.key}") == 1


@pytest.mark.parametrize("opened", [True, False], ids=["a connection that broke", "none could be made"])
def test_calls_that_found_no_store_are_on_record_when_it_is_back(opened: bool) -> None:
    """They left no record, and `why` said that nobody has claimed the slot. Each is wanted here, and runs late."""
    ran: list[str] = []
    with Valkey(*DURABLE) as server:
        init(server.url)
        place = Place(f"{server.url}?timeout=1", lambda: lonely_valkey(server))
        slots = [place.slot(-seconds) for seconds in (9, 8, 7)]
        crons = [Cronce(place.url), Cronce(place.url)]
        first, second = (
            cron.job(every="1s", name="ender", missed="all", overlap="allow")(lambda run: ran.append(run.key))
            for cron in crons
        )
        first.at(slots[0])()
        server.kill()
        with pytest.raises(StoreError):
            (first if opened else second).at(slots[1])()
        assert entries(place) == 1
        server.start()
        second.at(slots[2])()
        assert entries(place) == 0
        assert ran == [Slot("ender", at).key for at in slots]
        told = subprocess.run(
            [sys.executable, "-m", "cronce", "why", Slot("ender", slots[1]).key, "--store", place.url],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        for cron in crons:
            cron.close()
    assert "could not ask the store: " in told
