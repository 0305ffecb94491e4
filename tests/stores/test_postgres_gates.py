"""What PostgreSQL is asked to do, counted: round trips, bytes of log, transaction ids, syncs, locks."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any

import psycopg
import pytest

from cronce.clock import SystemClock
from cronce.model import Mark, Slot, Write
from cronce.policy import Overlap
from cronce.protocol.record import Job, Outcome
from cronce.protocol.terms import Terms
from cronce.runtime.flow import drive
from cronce.runtime.ledger import Grant, Ledger, Wanted
from cronce.stores import open_store
from cronce.stores.base import Store, Swapped
from cronce.stores.postgres import PostgresStore
from cronce.testing.contract import claim, refusals, swap, win
from tests.servers.postgres import Postgres
from tests.stores.forks import Child

START = datetime(2020, 1, 1, tzinfo=UTC)
LEASE = timedelta(minutes=5)

pytestmark = pytest.mark.xdist_group("postgres gates")  # one server, of whose log every byte is counted


@pytest.fixture(scope="module")
def quiet() -> Iterator[Postgres]:
    """A server that does nothing by itself; for standbys it would note every 15 s which transactions run."""
    settings = {"checkpoint_timeout": "1h", "max_wal_size": "4GB", "bgwriter_lru_maxpages": "0"}
    settings |= {"wal_level": "minimal", "max_wal_senders": "0"}
    with Postgres(autovacuum="off", **settings) as server:
        yield server


@pytest.fixture
def url(quiet: Postgres) -> str:
    return f"{quiet.url}?schema=gate{next(_NUMBERS)}"


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = open_store(url)
    assert isinstance(store, PostgresStore)
    yield store
    store.close()


_NUMBERS = count()


# --- round trips ----------------------------------------------------------------------------------------------------


class Wire:
    """A TCP proxy before a PostgreSQL that counts how often a client asks and waits: messages Sync and Query."""

    def __init__(self, port: int) -> None:
        self.asked = 0
        self._server = port
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._door.shutdown(socket.SHUT_RDWR)  # else the thread that accepts goes on for ever
        self._door.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                for side in (client, server):
                    side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for job, *sides in ((self._up, client, server), (self._down, server, client)):
                    threading.Thread(target=job, args=sides, daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        """What the client says, message by message; the first one has no type."""
        with suppress(OSError), client, server, client.makefile("rb") as said:
            kind = b""
            while len(head := said.read(4)) == 4:
                self.asked += kind in (b"S", b"Q")
                server.sendall(kind + head + said.read(struct.unpack("!I", head)[0] - 4))
                kind = said.read(1)

    def _down(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                client.sendall(data)


@pytest.fixture
def wire(quiet: Postgres) -> Iterator[Wire]:
    wire = Wire(quiet.port)
    yield wire
    wire.close()


class Process:
    """What a process does with a ledger."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.clock = SystemClock()
        self.ledger = Ledger(store.traits, self.clock, "gate:1")
        self.slots = (Slot("billing", START + number * timedelta(seconds=1)) for number in count())

    def register(self) -> None:
        first = Job(START - timedelta(seconds=1))
        drive(self.ledger.jobs.edit("billing", lambda job, _now: job or first), self.store, self.clock)

    def claim(self, slots: int = 1, overlap: Overlap = "skip") -> list[Grant]:
        wanted = [Wanted(next(self.slots), Terms(LEASE, overlap=overlap)) for _ in range(slots)]
        granted = drive(self.ledger.claim(wanted), self.store, self.clock)
        return [grant for grant in granted if isinstance(grant, Grant)]

    def finish(self, grant: Grant) -> None:
        drive(self.ledger.finish(grant, Outcome.SUCCEEDED), self.store, self.clock)


@pytest.fixture
def wired(wire: Wire, quiet: Postgres, url: str) -> Iterator[Callable[[], Process]]:
    """Processes whose words are counted, from when their store is open."""
    stores: list[Store] = []

    def process() -> Process:
        plain = "&sslmode=disable&gssencmode=disable"
        stores.append(open_store(url.replace(str(quiet.port), str(wire.port)) + plain))
        return Process(stores[-1])

    yield process
    for store in stores:
        store.close()


def asked(wire: Wire, work: Callable[[], Any]) -> int:
    before = wire.asked
    work()
    return wire.asked - before


@pytest.mark.parametrize("overlap", ["allow", "skip"])
def test_a_warm_process_claims_in_one_round_trip_and_finishes_in_one(
    wire: Wire, wired: Callable[[], Process], overlap: Overlap
) -> None:
    process = wired()
    process.register()
    grants: list[Grant] = []
    assert asked(wire, lambda: grants.extend(process.claim(overlap=overlap))) == 1
    assert asked(wire, lambda: process.finish(grants[0])) == 1
    assert asked(wire, lambda: process.finish(*process.claim(overlap=overlap))) == 2


def test_a_warm_process_claims_a_thousand_slots_in_one_round_trip(wire: Wire, wired: Callable[[], Process]) -> None:
    process = wired()
    process.register()
    grants: list[Grant] = []
    assert asked(wire, lambda: grants.extend(process.claim(1000, "allow"))) == 1
    assert len(grants) == 1000


def test_a_fresh_process_reads_once_before_it_claims(wire: Wire, wired: Callable[[], Process]) -> None:
    wired().register()
    assert asked(wire, wired().claim) == 2
    fresh = wired()
    next(fresh.slots)
    assert asked(wire, lambda: fresh.finish(*fresh.claim(overlap="allow"))) == 3


OPENING = 1
"""A connection is greeted once: is this the store, the primary, of a version we know?"""


def test_a_connection_costs_one_question(wire: Wire, wired: Callable[[], Process]) -> None:
    wired()
    assert asked(wire, wired) == OPENING


# --- losers write nothing -------------------------------------------------------------------------------------------


def written(db: "psycopg.Connection[Any]") -> tuple[Any, ...]:
    """How far the log is, and which transaction id comes next."""
    found = db.execute("SELECT pg_current_wal_insert_lsn(), pg_snapshot_xmax(pg_current_snapshot())").fetchone()
    assert found is not None
    return tuple(found)


LOSING: dict[str, Callable[[Store], Swapped]] = {
    "single": lambda store: swap(store, claim("run/0")),
    "group": lambda store: swap(store, claim("run/0", group=1), claim("turn/0", group=1)),
    "group for its turn": lambda store: swap(store, claim("run/new", group=1), claim("turn/0", group=1)),
    "early": lambda store: swap(store, claim("later", not_before=datetime(2100, 1, 1, tzinfo=UTC))),
    "batch": lambda store: swap(store, *(claim(f"run/{number}") for number in range(100))),
    "groups": lambda store: swap(
        store, *(claim(f"{kind}/{number}", group=number) for number in range(100) for kind in ("run", "turn"))
    ),
    "groups for their turns": lambda store: swap(
        store, *(claim(f"{kind}/{number}", group=number) for number in range(100) for kind in ("new", "turn"))
    ),
    "groups of two sizes": lambda store: swap(
        store,
        *(claim(f"{kind}/{number}", seen=0, group=number) for number in range(50) for kind in ("new", "turn")),
        *(claim(f"run/{number}", seen=0) for number in range(50)),
    ),
    "a key twice": lambda store: swap(store, claim("run/0"), claim("run/0")),
    "another life": lambda store: store.swap([claim("new")], (1, 1)),
    "nothing": swap,
}


@pytest.mark.parametrize("losing", LOSING)
def test_a_settled_loser_writes_no_byte_and_takes_no_transaction_id(
    store: PostgresStore, quiet: Postgres, losing: str
) -> None:
    win(store, *(claim(f"{kind}/{number}") for number in range(100) for kind in ("run", "turn")))
    with psycopg.connect(quiet.url, autocommit=True) as db:
        LOSING[losing](store)
        before = written(db)
        for _ in range(40):  # a sequence is logged once for 32 numbers
            assert None not in refusals(LOSING[losing](store))
        assert written(db) == before
        win(store, claim("run/another"))
        assert written(db) > before


# --- syncs, locks, transactions -------------------------------------------------------------------------------------


def syncs(store: PostgresStore) -> int:
    """How often its session had the log written to disk."""
    store.ask("SELECT pg_stat_force_next_flush()", [])
    ((found,),) = store.ask(
        "SELECT sum(fsyncs)::integer FROM pg_stat_get_backend_io(pg_backend_pid()) WHERE object = 'wal'", []
    )
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize("writes", [1, 2, 1000])
def test_a_batch_is_one_sync(store: PostgresStore, writes: int) -> None:
    store.ask("SELECT pg_switch_wal()", [])  # where a file of the log ends in the middle of a batch, that is one more
    win(store, claim("first"))
    before = syncs(store)
    win(store, *(claim(f"{kind}/{n}", group=n) for n in range(writes) for kind in ("run", "turn")))
    assert syncs(store) - before == 1


def test_no_transaction_is_open_while_a_body_runs(store: PostgresStore, quiet: Postgres) -> None:
    process = Process(store)
    process.register()
    grants = process.claim(10, "allow")
    with psycopg.connect(quiet.url, autocommit=True) as db:
        held = db.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        ).fetchone()
        locks = db.execute("SELECT count(*) FROM pg_locks WHERE pid <> pg_backend_pid()").fetchone()
    assert (held, locks, len(grants)) == ((0,), (0,), 10)


@pytest.mark.parametrize("size", [2, 300])
@pytest.mark.parametrize("there", [False, True], ids=["new", "there"])
@pytest.mark.parametrize("group", [None, 1], ids=["single", "group"])
def test_batches_in_opposite_orders_never_wait_for_each_other(
    url: str, size: int, there: bool, group: int | None
) -> None:
    """Whoever took its locks in the order given would meet the other halfway."""
    stores, meet = [open_store(url), open_store(url)], threading.Barrier(2)
    rounds = 20 if size == 2 else 5

    def batch(number: int, turn: int) -> list[Write]:
        keys = [f"{turn}/{place:03}" for place in range(size)]
        return [claim(key, str(number), group=group) for key in (keys if number else keys[::-1])]

    def race(number: int) -> list[int]:
        won = []
        for turn in range(rounds):
            meet.wait(timeout=60)
            verdicts = swap(stores[number], *batch(number, turn)).verdicts
            won.append(sum(verdict.refused is None for verdict in verdicts))
        return won

    if there:
        for turn in range(rounds):
            win(stores[0], *(write._replace(mark=Mark.FREE, grant=False) for write in batch(0, turn)))
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(race, range(2))
    assert [sum(won) for won in zip(first, second, strict=True)] == [size] * rounds
    for store in stores:
        store.close()


SLOTS = 10_000


def test_four_processes_win_ten_thousand_slots_exactly_once_and_never_deadlock(quiet: Postgres, url: str) -> None:
    """Each goes through the slots in an order and in batches of its own; half of them in groups with a turn."""
    open_store(url).close()

    def compete(child: Child, number: int) -> list[int]:
        store = open_store(url)
        child.say("ready")
        child.wait()
        slots = [slot * (1, 3, 7, 9)[number] % SLOTS for slot in range(SLOTS)]
        won = _claimed(store, slots, (250, 331, 450, 125)[number], grouped=number % 2 == 1)
        store.close()
        return won

    racers = [Child(partial(compete, number=number)) for number in range(4)]
    assert [racer.hear() for racer in racers] == ["ready"] * 4
    for racer in racers:
        racer.go()
    won = [slot for racer in racers for slot in racer.end()[0]]
    assert (len(won), set(won)) == (SLOTS, set(range(SLOTS)))
    with psycopg.connect(quiet.url, autocommit=True) as db:
        assert db.execute("SELECT sum(deadlocks) FROM pg_stat_database").fetchone() == (0,)


def _claimed(store: Store, slots: Sequence[int], size: int, *, grouped: bool) -> list[int]:
    seen, won = store.load([]).epoch.seen, []
    kinds = ("run", "turn") if grouped else ("run",)
    for batch in batched(slots, size):
        writes = [claim(f"{kind}/{slot}", group=slot if grouped else None) for slot in batch for kind in kinds]
        runs = store.swap(writes, seen).verdicts[:: len(kinds)]
        won += [slot for slot, verdict in zip(batch, runs, strict=True) if verdict.refused is None]
    return won


def batched(slots: Sequence[int], size: int) -> list[Sequence[int]]:
    return [slots[start : start + size] for start in range(0, len(slots), size)]
