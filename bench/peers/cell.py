"""One cell: three hosts of a peer, a server of their own, a scenario; and what the ledger says of each slot."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from bench.peers.ledger import Line, Order, read
from bench.peers.peers import PEERS, ROOT, python_of
from bench.peers.scenarios import DST, SCENARIOS
from cronce.stores.redis import init
from tests.faults.leaping import Leaping, leaping
from tests.house.needs import tool
from tests.servers.mariadb import MariaDb
from tests.servers.postgres import Postgres
from tests.servers.process import Server
from tests.servers.valkey import DURABLE, Valkey

HOSTS: Final = ("a", "b", "c")
BEFORE: Final = 2
"""Slots before the fault."""

START: Final = 90.0
"""Seconds in which all hosts must be up and one of them must have run something."""

SETTLE: Final = 12.0
"""Seconds after the last slot in which it may still be run."""

ONE_MORE: Final = 1.5
"""Seconds that a run has to show up that should not."""

RESPAWN: Final = 1.0
"""Seconds after which a process that ended by itself is started again."""

STOP: Final = 10.0
"""Seconds that a host may take to stop."""

TICK: Final = 0.05
SLACK: Final = 0.6
"""Seconds that this process may be kept waiting for a core. If it was longer, the hosts may have been, too."""


class Counted(NamedTuple):
    """What became of the slots."""

    expected: int
    duplicated: int = 0
    """Slots that were completed more than once."""
    missed: int = 0
    """Slots that were never completed."""
    rerun: str = ""
    """Who began the interrupted run again: another host, the same, nobody; empty if none was interrupted."""
    rerun_after: float | None = None
    """Seconds from the fault to that."""
    starved: float = 0.0
    """The longest that the harness waited for a core."""
    seconds: float = 0.0
    """From when all hosts were up."""
    respawned: int = 0
    """Processes that ended by themselves, and were started again, as any supervisor does."""
    trouble: str = ""
    """Why it could not be played."""

    @property
    def clean(self) -> bool:
        return not (self.duplicated or self.missed or self.trouble)


class Trouble(Exception):
    """The cell could not be played."""


class Cell(ExitStack):
    """The hosts and the store of one cell, while it is played."""

    def __init__(self, peer: str, scenario: str, store: str) -> None:
        super().__init__()
        self.peer, self.scenario, self.store = PEERS[peer], SCENARIOS[scenario], store
        self.hosts = HOSTS
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory(prefix="cronce-peers-")))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._wanted: set[str] = set()
        self._changing = threading.Lock()
        self._over = threading.Event()
        self._respawned = 0
        self._struck: Line | None = None
        self._struck_at = 0.0
        self.first = 0
        self.url = self.broker = ""
        self._open()

    def _open(self) -> None:
        """The servers. One clock leaps: that of the store, or of the broker where there is no store."""
        if self.store == "postgresql":
            self._server(Postgres())
        elif self.store == "mariadb":
            self._server(MariaDb())
        elif self.store == "valkey":
            self._server(Valkey(*DURABLE))
        self.url = f"sqlite:///{self.folder}/cronce.db" if self.store == "sqlite" else self.url
        if self.peer.broker:
            broker = Valkey(*DURABLE)
            if self.store:
                self.enter_context(broker)
            else:
                self._server(broker)
            self.broker = broker.url
        if self.peer.ours and self.store == "valkey":
            init(self.url)
        self.url += "?timeout=2" if self.peer.ours and self.store in ("postgresql", "valkey", "mariadb") else ""

    def _server(self, server: Server) -> None:
        self.server = server
        self.clock: Leaping = leaping(server)
        self.enter_context(server)
        self.url = server.url

    @property
    def valkey(self) -> Valkey:
        assert isinstance(self.server, Valkey)
        return self.server

    # --- what scenarios do ---

    def strike(self) -> str:
        """The host in which a run of the next slot has just begun."""
        at = self.first + BEFORE * self.scenario.period
        self._wait(lambda: self._began(at), 3 * self.scenario.period + 5, "no run began before the fault")
        self._struck = self._began(at)[0]
        self._struck_at = time.monotonic()
        return self._struck.host

    def _began(self, at: int) -> list[Line]:
        return [line for line in self.lines if line.what == "begin" and line.slot >= at]

    def start(self, host: str) -> None:
        skew = self.scenario.skews[self.hosts.index(host)]
        order = Order(host, self.url, self.broker, str(self.folder), self.scenario.period, self.scenario.works)
        env = {
            **os.environ, "PEER_ORDER": json.dumps(order), "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1",
            "XDG_STATE_HOME": str(self.folder / "state"), "TZ": "UTC", "PYTHONWARNINGS": "ignore",
        }  # fmt: skip
        if skew:
            env |= {"LD_PRELOAD": _skewing(), "SKEW_SECONDS": str(skew)}
        with (self.folder / f"log-{host}").open("ab") as log:
            self._processes[host] = subprocess.Popen(
                self._command(), cwd=self.folder, env=env, stdout=log, stderr=log, start_new_session=True
            )
        self.callback(_end, self._processes[host])
        self._wanted.add(host)

    def _command(self, *words: str) -> list[str]:
        return [python_of(self.peer.environment), "-m", f"bench.peers.adapters.{self.peer.adapter}", *words]

    def send(self, host: str, number: signal.Signals) -> None:
        """To all processes of the host."""
        if number is signal.SIGKILL:
            self._unwanted(host)
        os.killpg(self._processes[host].pid, number)
        if number is signal.SIGKILL:
            self._processes[host].wait()

    def stop(self, host: str) -> None:
        """As a deploy does: it is asked, and killed if it takes too long."""
        self._unwanted(host)
        process = self._processes[host]
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP)
        _end(process)

    def _unwanted(self, host: str) -> None:
        with self._changing:
            self._wanted.discard(host)

    def _supervise(self) -> None:
        while not self._over.wait(RESPAWN):
            for host in self.hosts:
                with self._changing:
                    if host in self._wanted and self._processes[host].poll() is not None:
                        _end(self._processes[host])
                        self.start(host)
                        self._respawned += 1

    def wait_until_up(self, host: str) -> None:
        ups = sum(line.what == "up" and line.host == host for line in self.lines)
        self._wait(lambda: sum(line.what == "up" and line.host == host for line in self.lines) > ups, START, "")

    # --- the play ---

    @property
    def lines(self) -> list[Line]:
        return read(self.folder)

    def play(self) -> Counted:
        if self.peer.setup:
            self._set_up()
        for host in self.hosts:
            self.start(host)
        self._wait(lambda: self._is_running() or self._ended(), START, "not all hosts started and ran")
        if self._ended():
            raise Trouble(f"a host ended: {self._said()}")
        supervisor = threading.Thread(target=self._supervise)
        supervisor.start()
        self.callback(supervisor.join)
        self.callback(self._over.set)
        scene = self.scenario
        self.first = (int(time.time() + max(scene.skews) + 0.5) // scene.period + 1) * scene.period
        self.began = time.monotonic()
        scene.fault(self)
        self._sleep_until(self.first + (scene.slots - 1) * scene.period - min(scene.skews))
        self._settle()
        return self._counted()

    def _set_up(self) -> None:
        order = Order("setup", self.url, self.broker, str(self.folder), self.scenario.period, self.scenario.works)
        env = {**os.environ, "PEER_ORDER": json.dumps(order), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            self._command("setup"), cwd=self.folder, env=env, capture_output=True, check=False, timeout=START
        )
        if done.returncode:
            raise Trouble(f"its setup failed: {_last(done.stderr.decode())}")

    def _is_running(self) -> bool:
        lines = self.lines
        return {line.host for line in lines if line.what == "up"} == set(self.hosts) and any(
            line.what == "end" for line in lines
        )

    def _ended(self) -> bool:
        return any(process.poll() is not None for process in self._processes.values())

    def _wait(self, true: Callable[[], object], seconds: float, trouble: str) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                if trouble:
                    raise Trouble(f"{trouble}: {self._said()}")
                return
            time.sleep(TICK)

    def _said(self) -> str:
        logs = sorted(self.folder.glob("log-*"))
        return next((said for log in logs if (said := _last(log.read_text(errors="replace")))), "no word")

    def _sleep_until(self, wall: float) -> None:
        time.sleep(max(wall - time.time(), 0.0))

    def _settle(self) -> None:
        self._wait(self._is_complete, SETTLE, "")
        time.sleep(ONE_MORE)

    @property
    def _slots(self) -> list[int]:
        return [self.first + number * self.scenario.period for number in range(self.scenario.slots)]

    def _is_complete(self) -> bool:
        ended = {line.slot for line in self.lines if line.what == "end"}
        return ended.issuperset(self._slots)

    def _counted(self) -> Counted:
        lines, slots = self.lines, self._slots
        ended = Counter(line.slot for line in lines if line.what == "end")
        return Counted(
            len(slots),
            sum(ended[slot] > 1 for slot in slots),
            sum(ended[slot] == 0 for slot in slots),
            *self._rerun(lines),
            seconds=round(time.monotonic() - self.began, 1),
            respawned=self._respawned,
        )

    def _rerun(self, lines: list[Line]) -> tuple[str, float | None]:
        """Who began the run again that the fault interrupted."""
        struck = self._struck
        if struck is None or Line("end", struck.slot, struck.host, 0.0)[:3] in {
            line[:3] for line in lines if line.when < self._struck_at + self.scenario.works + 1
        }:
            return "", None
        again = [
            line for line in lines if (line.what, line.slot) == ("begin", struck.slot) and line.when > self._struck_at
        ]
        if not again:
            return "nobody", None
        return ("the same host" if again[0].host == struck.host else "another host"), round(
            again[0].when - self._struck_at, 1
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _told(trouble: Exception) -> str:
    return f"{type(trouble).__name__}: {trouble}".replace(str(ROOT), ".").replace(tempfile.gettempdir(), "")[:400]


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


@cache
def _skewing() -> str:
    place = Path(tempfile.gettempdir(), f"cronce-peers-skew-{os.getpid()}.so")
    source = ROOT / "tests" / "faults" / "skew.c"
    subprocess.run([tool("gcc", "apt-get install gcc"), "-shared", "-fPIC", "-o", place, source, "-ldl"], check=True)
    return str(place)


class Starved:
    """How long this process waits for a core, at most, while the block runs."""

    def __enter__(self) -> "Starved":
        self.longest, self._over = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        last = time.monotonic()
        while not self._over.wait(TICK):
            now = time.monotonic()
            self.longest, last = max(self.longest, now - last - TICK), now

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()


def play(peer: str, scenario: str, store: str) -> Counted:
    if scenario == DST:
        return dst(peer)
    with Starved() as starved:
        try:
            with Cell(peer, scenario, store) as cell:
                counted = cell.play()
        except (Trouble, RuntimeError, AssertionError, subprocess.SubprocessError, OSError) as trouble:
            counted = Counted(SCENARIOS[scenario].slots, trouble=_told(trouble))
    return counted._replace(starved=round(starved.longest, 2))


def dst(name: str) -> Counted:
    """The instants at which the tool's trigger fires on the two days; once on each is expected."""
    peer = PEERS[name]
    done = subprocess.run(
        [python_of(peer.environment), "-W", "ignore", "-m", "bench.peers.dst", peer.trigger],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    if done.returncode:
        return Counted(2, trouble=_last(done.stderr.decode()))
    days = json.loads(done.stdout)
    return Counted(len(days), sum(fires > 1 for fires in days), sum(fires == 0 for fires in days))


if __name__ == "__main__":
    print(play(*sys.argv[1:4]))
