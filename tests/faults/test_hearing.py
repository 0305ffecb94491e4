"""A store that is away for longer than a lease: nobody could renew, so silence in that time is not death. Who ran a job
function to its end, and says so as soon as it can, is heard before another takes over. Who died is taken over."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest

from cronce import Cronce, Run
from cronce.clock import SystemClock
from cronce.errors import NotRecorded
from cronce.model import Slot
from cronce.protocol.commands import Finished, Stale
from cronce.protocol.record import Outcome, Record, decode
from cronce.protocol.terms import Terms
from cronce.runtime.flow import Flow, drive
from cronce.runtime.ledger import Grant, Ledger, Wanted
from cronce.stores import open_store
from cronce.stores.redis import init
from cronce.torture.proxy import Proxy
from cronce.torture.route import HostPort
from tests.house.wait import wait_until
from tests.servers.mariadb import MariaDb
from tests.servers.postgres import Postgres
from tests.servers.process import Server
from tests.servers.valkey import DURABLE, Valkey

FULL = bool(os.environ.get("CRONCE_TORTURE_RUNS"))  # `make proof`
LEASE = 5.0 if FULL else 3.0
AWAY = 8.0 if FULL else 3.6
HEARING = max(LEASE / 4, 1.0)
"""Seconds."""

RETRY = 0.4
"""Seconds. A holder says what it has to say at least twice a second."""

LIVING = 4
"""How many have ended meanwhile, and say so at different moments."""

BOOT = SystemClock().boot
T = TypeVar("T")


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    server.pause()
    try:
        yield
    finally:
        server.resume()


@contextmanager
def refusing(server: Server) -> Iterator[None]:
    """Nobody listens at its port."""
    server.kill()
    try:
        yield
    finally:
        server.start()


@contextmanager
def read_only(server: Server) -> Iterator[None]:
    """It answers whoever reads, and refuses whoever writes."""
    if isinstance(server, Valkey):
        server.cli("CONFIG", "SET", "min-replicas-to-write", 1)
    else:
        _set_read_only(server, "on")
    try:
        yield
    finally:
        if isinstance(server, Valkey):
            server.cli("CONFIG", "SET", "min-replicas-to-write", 0)
        else:
            _set_read_only(server, "off")


def _set_read_only(server: Server, value: str) -> None:
    assert isinstance(server, Postgres)
    with server.admin() as admin:
        admin.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        admin.execute("SELECT pg_reload_conf()")


@contextmanager
def locked(server: Server) -> Iterator[None]:
    """Somebody migrates its table, and holds it meanwhile."""
    assert isinstance(server, Postgres)
    with server.admin() as admin, admin.transaction():
        admin.execute("LOCK TABLE cronce_cells IN ACCESS EXCLUSIVE MODE")
        yield


WAYS = {"stopped": stopped, "refusing": refusing, "read-only": read_only, "locked": locked}
SERVERS: dict[str, Callable[[], Server]] = {
    "postgres": Postgres,
    "valkey": lambda: Valkey(*DURABLE),
    **({"mariadb": MariaDb} if FULL else {}),
}
CASES = (
    [
        *(("postgres", way) for way in WAYS),
        *(("valkey", way) for way in ("stopped", "refusing", "read-only")),
        *(("mariadb", way) for way in ("stopped", "refusing")),
    ]
    if FULL
    else [("postgres", "read-only"), ("valkey", "stopped")]
)


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with SERVERS[request.param]() as server:
        if isinstance(server, Valkey):
            init(server.url)
        yield server


class Holder:
    """A process of another machine that has a slot, and keeps it until it dies or ends."""

    def __init__(self, url: str, slot: Slot) -> None:
        self.slot = slot
        self.answer: Finished | Stale | None = None
        self.ended, self.dead = threading.Event(), threading.Event()
        self._store, self._clock = open_store(url), SystemClock()
        self._ledger = Ledger(self._store.traits, self._clock, f"holder of {slot.job}")
        terms = Terms(timedelta(seconds=LEASE), "rerun", "allow", outside=True)
        (granted,) = self._do(self._ledger.claim([Wanted(slot, terms)]))
        assert isinstance(granted, Grant)
        self.grant = granted
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def _do(self, flow: Flow[T]) -> T:
        return drive(flow, self._store, self._clock)

    def _keep(self) -> None:
        while not self.dead.wait(RETRY):
            if self.ended.is_set():
                answer = self._do(self._ledger.finish(self.grant, Outcome.SUCCEEDED))
                if isinstance(answer, Finished | Stale):
                    self.answer = answer
                    return
            else:
                (kept,) = self._do(self._ledger.renew([self.grant]))
                self.grant = kept if isinstance(kept, Grant) else self.grant

    def close(self) -> None:
        self.dead.set()
        self._thread.join(60)
        self._store.close()


class Guarded(threading.Thread):
    """A guard of a fourth machine, in the middle of its slot: its job function returns when it is let go."""

    def __init__(self, url: str, slot: Slot, lease: float = LEASE) -> None:
        super().__init__(daemon=True)
        self.slot, self.app = slot, Cronce(url)
        self.started, self.go_on = threading.Event(), threading.Event()
        policies = {"name": slot.job, "on_lost": "rerun", "overlap": "allow", "lease": timedelta(seconds=lease)}
        self._guard = self.app.job(every="30d", **policies)(self._body)  # type: ignore[arg-type]
        self.start()
        assert self.started.wait(60)

    def _body(self) -> None:
        self.started.set()
        self.go_on.wait(60)

    def run(self) -> None:
        with suppress(NotRecorded):  # then it is said again, after the call
            self._guard.at(self.slot)()

    def close(self) -> None:
        self.go_on.set()
        self.join(60)
        self.app.close()


class Takeover:
    """A scheduler on a third machine, which carries the same jobs, and has watched the store for a lease."""

    def __init__(self, url: str, names: list[str], lease: float = LEASE) -> None:
        self.runs, self.at = list[str](), dict[str, float]()
        self.app = Cronce(url)
        for name in names:
            policies = {"name": name, "on_lost": "rerun", "overlap": "allow", "lease": timedelta(seconds=lease)}
            self.app.job(every="30d", **policies)(self._body)  # type: ignore[arg-type]
        self.app.start()

    def _body(self, run: Run) -> None:
        self.runs.append(run.key)
        self.at[run.key] = BOOT()


def record(url: str, slot: Slot) -> Record:
    store = open_store(url)
    try:
        (cell,) = store.load([slot.cell]).cells
    finally:
        store.close()
    return decode(cell.value, cell.key)


def pass_by(boot: float) -> None:
    while BOOT() < boot:
        threading.Event().wait(min(max(boot - BOOT(), 0.0), 0.1))


@pytest.mark.parametrize(("server", "way"), CASES, indirect=["server"])
def test_after_an_outage_the_living_are_heard_and_the_dead_are_taken_over(server: Server, way: str) -> None:
    url = f"{server.url}{'&' if '?' in server.url else '?'}timeout=1"
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=1)
    slots = [Slot(f"{name}-{way}", at) for name in ("died", "works", *(f"ended-{number}" for number in range(LIVING)))]
    died, works, *ended = [Holder(url, slot) for slot in slots]
    guarded = Guarded(url, Slot(f"guarded-{way}", at))
    holders: list[Holder | Guarded] = [died, works, *ended, guarded]
    slots.append(guarded.slot)
    began = BOOT()
    others = Takeover(url, [slot.job for slot in slots])
    try:
        pass_by(began + LEASE + 1)
        with WAYS[way](server):
            away = BOOT()
            died.dead.set()
            guarded.go_on.set()
            pass_by(away + AWAY / 2)
            for one in ended:
                one.ended.set()
                pass_by(BOOT() + RETRY / LIVING)
            pass_by(away + AWAY)
        back = BOOT()
        wait_until(lambda: died.slot.key in others.at and all(one.answer for one in ended))
        wait_until(lambda: record(url, guarded.slot).outcome)
        assert others.at[died.slot.key] - back < HEARING + 3.0
        works.ended.set()
        wait_until(lambda: works.answer)
        assert others.runs == [died.slot.key]
        assert record(url, guarded.slot).outcome is Outcome.SUCCEEDED
        assert [record(url, slot).grant for slot in slots] == [2, *[1] * (2 + LIVING)]
        assert {one.answer for one in (works, *ended)} == {Finished(Outcome.SUCCEEDED)}
    finally:
        others.app.close()
        for holder in holders:
            holder.close()


@pytest.mark.parametrize("server", ["postgres", "valkey"] if FULL else ["valkey"], indirect=True)
def test_connections_that_die_without_a_word_cost_no_holder_its_lease(server: Server) -> None:
    """A firewall forgets them: who is in a call waits for as long as the store is patient, which is a whole lease. One
    that runs, and one that has just ended, were taken over, and ran twice."""
    lease, at = 5.0, datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=1)
    slots = [Slot(name, at) for name in ("goes-on", "ends")]
    with closing(Proxy(HostPort("127.0.0.1", server.port))) as proxy:
        link = proxy.link()
        behind = server.url.replace(str(server.port), str(link.port))
        goes_on, ends = guarded = [Guarded(behind, slot, lease) for slot in slots]
        others = Takeover(server.url, [slot.job for slot in slots], lease)
        try:
            pass_by(BOOT() + lease + 1)
            link.deaths += 1
            died = BOOT()
            ends.go_on.set()
            pass_by(died + lease + 2)
            goes_on.go_on.set()
            wait_until(lambda: all(record(server.url, slot).outcome for slot in slots))
            assert others.runs == []
            found = [record(server.url, slot) for slot in slots]
            assert [(one.outcome, one.grant) for one in found] == [(Outcome.SUCCEEDED, 1)] * 2
        finally:
            others.app.close()
            for one in guarded:
                one.close()
