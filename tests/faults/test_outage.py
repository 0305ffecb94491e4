"""A store that is away, silent or dead, for a while and for longer than a lease: bodies finish or stop in time, nothing
runs twice, nobody hangs, one line says so, and all goes on by itself."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import product

import pytest

from cronce import Cronce, LeaseLost, Run, Skipped
from cronce.clock import SystemClock
from cronce.errors import StoreUnavailable
from cronce.model import Slot
from cronce.policy import OnLost
from cronce.protocol.record import Outcome, Record, decode
from cronce.stores import open_store
from cronce.stores.redis import init
from tests.house.standstill import Standstill
from tests.house.wait import wait_until
from tests.servers.etcd import Etcd
from tests.servers.mariadb import MariaDb
from tests.servers.patience import in_time
from tests.servers.postgres import Postgres
from tests.servers.process import Server
from tests.servers.valkey import DURABLE, Valkey

FULL = bool(os.environ.get("CRONCE_TORTURE_RUNS"))  # `make proof`
AWAY = 10.0 if FULL else 1.2
"""Seconds that the store is away for a while: much less than a lease under skip."""

LEASE = 3.0
"""Seconds. Longer than that, the store is away for good as far as a lease is concerned."""

LONG = 3 * LEASE if FULL else 1.2 * LEASE

TIMEOUT = 1.0
"""Seconds that a call waits for the store."""

HANG = 3 * TIMEOUT + 0.5
"""Seconds. Whoever asks for something asks the store twice, or connects and asks."""

BOOT = SystemClock().boot
SERVERS: dict[str, Callable[[], Server]] = {
    "valkey": lambda: Valkey(*DURABLE),
    "postgres": Postgres,
    **({"mariadb": MariaDb, "etcd": Etcd} if FULL else {}),
}
BRIEFLY = [*product(SERVERS, ("stopped", "killed"))] if FULL else [("valkey", "killed"), ("postgres", "stopped")]
FOR_LONG = (
    [*product(SERVERS, ("stopped", "killed"), ("skip", "rerun"))]
    if FULL
    else [("postgres", "killed", "skip"), ("valkey", "stopped", "rerun")]
)
"""On which server, in which way, and what a run that lapsed means."""


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with SERVERS[request.param]() as server:
        if isinstance(server, Valkey):
            init(server.url)
        yield server


@pytest.fixture
def url(server: Server) -> str:
    return f"{server.url}{'&' if '?' in server.url else '?'}timeout={TIMEOUT:g}"


@contextmanager
def away(server: Server, how: str) -> Iterator[float]:
    """The store is away in the block: stopped, or killed and started again on the same data. Since when it is."""
    leave, come_back = (server.kill, server.start) if how == "killed" else (server.pause, server.resume)
    leave()
    try:
        yield BOOT()
    finally:
        come_back()


class Job:
    """A guarded job at two apps, as at two machines. Its body works until it is told to go on."""

    def __init__(self, url: str, name: str, on_lost: OnLost, lease: float) -> None:
        self.name, self.starts = name, list[tuple[str, str]]()
        self.started, self.go_on = threading.Event(), threading.Event()
        self.stopped_at = 0.0
        self.apps = [Cronce(url), Cronce(url)]
        span = timedelta(seconds=lease)
        self.guards = [
            app.job(every="1s", name=name, on_lost=on_lost, overlap="allow", missed="all", lease=span)(self.body)
            for app in self.apps
        ]

    def body(self, run: Run) -> None:
        self.starts.append((run.key, str(run.fence)))
        self.started.set()
        try:
            while not self.go_on.wait(0.01):
                pass
        except BaseException:
            self.stopped_at = BOOT()
            raise

    def call(self, slot: datetime, machine: int = 0) -> object:
        return self.guards[machine].at(slot)()

    def close(self) -> None:
        for app in self.apps:
            app.close()


class Call(threading.Thread):
    """A call from a trigger of its own, and what it came to."""

    def __init__(self, job: Job, slot: datetime) -> None:
        super().__init__(daemon=True)
        self._job, self._slot = job, slot
        self.came_to: object = "nothing"
        self.start()
        assert job.started.wait(60)

    def run(self) -> None:
        try:
            self.came_to = self._job.call(self._slot)
        except Exception as error:
            self.came_to = error

    def result(self) -> object:
        self.join(60)
        assert not self.is_alive()
        return self.came_to


@pytest.fixture
def slots(url: str) -> list[datetime]:
    """The last seconds that are due, by the store's clock."""
    store = open_store(url)
    now = store.load([]).now.replace(microsecond=0)
    store.close()
    return [now - timedelta(seconds=seconds) for seconds in (3, 2, 1)]


def record(url: str, slot: Slot) -> Record:
    store = open_store(url)
    (cell,) = store.load([slot.cell]).cells
    store.close()
    return decode(cell.value, cell.key)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says of the store, as far as a person looks: warnings."""
    return [
        line.getMessage() for line in caplog.records if line.levelname != "INFO" and "the store" in line.getMessage()
    ]


def pass_by(boot: float) -> None:
    while BOOT() < boot:
        threading.Event().wait(min(max(boot - BOOT(), 0.0), 0.1))


def no_answer(job: Job, slot: datetime) -> None:
    with pytest.raises(StoreUnavailable):
        job.call(slot, machine=1)


@pytest.mark.parametrize(("server", "how"), BRIEFLY, indirect=["server"])
def test_away_for_less_than_a_lease_bodies_finish(
    server: Server, url: str, how: str, slots: list[datetime], caplog: pytest.LogCaptureFixture
) -> None:
    job = Job(url, f"brief-{how}", "skip", 300.0)
    call = Call(job, slots[0])
    with away(server, how) as since:
        job.go_on.set()  # the body is done, and that cannot be recorded
        wait_until(lambda: told(caplog))
        assert in_time(HANG, lambda: no_answer(job, slots[0]))
        pass_by(since + AWAY)
    assert call.result() is None
    assert record(url, Slot(job.name, slots[0])).outcome is Outcome.SUCCEEDED
    assert isinstance(job.call(slots[0], machine=1), Skipped)
    assert [job.call(slots[1], machine=1), job.call(slots[2])] == [None, None]
    assert [slot for slot, _ in job.starts] == [Slot(job.name, slot).key for slot in slots]
    assert len(told(caplog)) == 1
    assert told(caplog)[0].startswith("the store does not answer: ")
    job.close()


@pytest.mark.parametrize(("server", "how", "on_lost"), FOR_LONG, indirect=["server"])
def test_away_for_longer_than_a_lease_bodies_stop_in_time(
    server: Server, url: str, how: str, on_lost: OnLost, slots: list[datetime], caplog: pytest.LogCaptureFixture
) -> None:
    job = Job(url, f"long-{how}-{on_lost}", on_lost, LEASE)
    call = Call(job, slots[1])
    with Standstill() as still, away(server, how) as since:
        assert isinstance(call.result(), LeaseLost)
        assert since < job.stopped_at < since + LEASE + still.seconds  # no renewal can have been later
        assert BOOT() - job.stopped_at < HANG + still.seconds
        pass_by(since + LONG)
    job.go_on.set()
    wait_until(lambda: job.call(slots[2], machine=1) is not None and record(url, Slot(job.name, slots[1])).outcome)
    outcome = record(url, Slot(job.name, slots[1])).outcome
    fences = [fence for slot, fence in job.starts if slot == Slot(job.name, slots[1]).key]
    if on_lost == "skip":  # that it failed may have been on its way, and landed when the store was back
        assert outcome in (Outcome.LOST, Outcome.FAILED)
        assert len(fences) == 1
    else:
        assert (outcome, len(fences)) == (Outcome.SUCCEEDED, 2)
        assert fences[0] < fences[1]
    assert len([slot for slot, _ in job.starts if slot == Slot(job.name, slots[2]).key]) == 1
    assert len(told(caplog)) == 1
    job.close()


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_a_scheduler_whose_store_is_silent_ends_within_its_grace(server: Server) -> None:
    """From SIGTERM to the end it took 38 to 46 s where the grace promised 30: whoever closes waited for a thread that
    connected, for chores, and for ends that nobody could hear."""
    app, began, go_on = Cronce(server.url), threading.Event(), threading.Event()

    @app.job(every="1s", name="silent")
    def silent() -> None:
        began.set()
        go_on.wait(60)

    app.start(grace="2s")
    assert began.wait(60)
    with away(server, "stopped"), Standstill() as still:
        go_on.set()
        since = BOOT()
        app.close()
        assert BOOT() - since < 3 + still.seconds
