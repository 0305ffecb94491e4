"""Candidates that are killed, stopped, starved and cut off from their store: no two ever say that they lead at the same
moment, by a ledger that they write themselves, and there is always a next one. How soon it is there is shown on a clock
that is turned by hand (`tests/runtime/test_election.py`)."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from cronce.clock import SystemClock
from cronce.runtime.flow import drive
from cronce.runtime.queries import held
from cronce.stores import open_store
from cronce.stores.redis import init
from tests.house.wait import PATIENCE, wait_until
from tests.servers.etcd import Etcd
from tests.servers.mariadb import MariaDb
from tests.servers.postgres import Postgres
from tests.servers.process import Server
from tests.servers.valkey import DURABLE, Valkey

ROOT = Path(__file__).parents[2]
FULL = bool(os.environ.get("CRONCE_TORTURE_RUNS"))  # `make proof`
LEASE = 6.0
"""Seconds. Whoever does not come to run for half of that is deposed, and rightly so. (The clock of etcd is only known
to 1.75 s.)"""

PRESSURE = 30.0 if FULL else 5.0
"""Seconds that all cores are busy: more than the 4.8 that a lease of six is trusted for."""

BOOT = SystemClock().boot
SERVERS: dict[str, Callable[[], Server]] = {
    "valkey": lambda: Valkey(*DURABLE),
    **({"postgres": Postgres, "mariadb": MariaDb, "etcd": Etcd} if FULL else {}),
}


class Reign(NamedTuple):
    """From the first to the last time that a process said it led in a term: from after it had asked for the first time
    to before it asked for the last. It may stand still in between."""

    first: float
    last: float
    pid: int
    fence: str


@dataclass
class Town:
    """Processes that stand for one group, and what they wrote."""

    url: str
    book: Path
    all: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, number: int, *, busy: int = 0) -> None:
        for _ in range(number):
            words = [self.url, str(self.book), f"{LEASE:g}s", str(busy)]
            one = subprocess.Popen([sys.executable, "-m", "tests.faults.candidate", *words], cwd=ROOT)
            self.all[one.pid] = one
        wait_until(lambda: [word for *_, word in self._lines()].count("stands") == len(self.all))

    def _lines(self) -> list[tuple[float, float, int, str]]:
        lines = self.book.read_text().splitlines() if self.book.exists() else []
        split = (line.split() for line in lines)
        return sorted((float(before), float(after), int(pid), fence) for before, after, pid, fence in split)

    def reigns(self) -> list[Reign]:
        found: dict[tuple[int, str], Reign] = {}
        for before, after, pid, fence in self._lines():
            if fence not in ("-", "stands"):
                first = found.get((pid, fence), Reign(after, before, pid, fence)).first
                found[pid, fence] = Reign(first, before, pid, fence)
        return list(found.values())

    def said(self, pid: int, since: float) -> list[str]:
        """What a process says from then on."""
        return [fence for before, _, who, fence in self._lines() if who == pid and before > since]

    def leads(self, *, but: int = 0) -> int:
        """Who leads now, and is not the one who did."""
        wait_until(lambda: (now := self.reigns()) and now[-1].pid != but and now[-1].last > BOOT() - 0.1)
        return self.reigns()[-1].pid

    def judge(self) -> list[int]:
        """No two at once, each later term with a higher fence; who led, in order."""
        reigns = sorted(self.reigns())
        for one, next_one in pairwise(reigns):
            assert one.last < next_one.first
            assert one.fence < next_one.fence
        return [reign.pid for reign in reigns]


@contextmanager
def town(url: str, book: Path) -> Iterator[Town]:
    town = Town(url, book)
    try:
        yield town
    finally:
        for one in town.all.values():
            one.kill()
            one.wait()


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with SERVERS[request.param]() as server:
        if isinstance(server, Valkey):
            init(server.url)
        yield server


def test_one_leads_at_a_time_whatever_happens_to_the_others(server: Server, tmp_path: Path) -> None:
    url = f"{server.url}{'&' if '?' in server.url else '?'}timeout=1"
    with town(url, tmp_path / "book") as three:
        three.start(3)
        first = three.leads()

        os.kill(first, signal.SIGKILL)
        second = three.leads(but=first)

        os.kill(second, signal.SIGSTOP)
        third = three.leads(but=second)
        woken = BOOT()
        os.kill(second, signal.SIGCONT)
        wait_until(lambda: three.said(second, woken))
        assert three.said(second, woken)[0] == "-"

        server.pause()
        paused = BOOT()
        wait_until(lambda: BOOT() > paused + LEASE * 1.25)
        server.resume()
        assert paused < three.reigns()[-1].last < paused + LEASE
        fourth = three.leads()

        three.all[fourth].terminate()
        last = three.leads(but=fourth)
        assert three.all[fourth].wait(PATIENCE) == 0
        assert three.judge() == [first, second, third, fourth, last]
    assert ends(url) == ["lapsed", "lapsed", "lapsed", "released"]


def ends(url: str) -> list[str]:
    """How the terms ended that are over, by the store."""
    store = open_store(url)
    (group,) = drive(held("leader/"), store, SystemClock()).held
    store.close()
    return [past.end for past in group.record.past] if group.record else []


def test_busy_cores_depose_nobody(tmp_path: Path) -> None:
    """Twice as many that spin as there are cores, and two threads that spin in each candidate."""
    with town(f"sqlite:///{tmp_path}/store.db", tmp_path / "book") as two:
        two.start(2, busy=2)
        first = two.leads()
        with spinning(2 * (os.cpu_count() or 1)):
            until = BOOT() + PRESSURE
            wait_until(lambda: BOOT() > until)
            assert two.leads() == first
        assert two.judge() == [first]


@contextmanager
def spinning(number: int) -> Iterator[None]:
    code = "while True: pass"
    all_of_them = [subprocess.Popen([sys.executable, "-S", "-c", code]) for _ in range(number)]
    try:
        yield
    finally:
        for one in all_of_them:
            one.kill()
            one.wait()
