"""The field story: a store is copied to a second server, both run, and six weeks of double e-mails go unnoticed. Here
somebody is told within a minute, and nothing runs twice. And: who dies is missed, once, whoever watches."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from cronce import Cronce
from cronce.model import FREE, LOOKED_ON, Cell, Instant, Mark, Write, alert_cell
from cronce.protocol.notices import Alert, decode_alert, decode_holder, encode_notice
from cronce.runtime.scheduling.roster import HOLDER_TTL
from cronce.stores import open_store
from cronce.stores.base import Scan, Store
from tests.house.wait import wait_for, wait_until
from tests.monitor.receiver import Heard, Receiver, receiving
from tests.servers.postgres import Postgres

pytestmark = [pytest.mark.xdist_group("field-story"), pytest.mark.timeout(240)]

FULL = bool(os.environ.get("CRONCE_TORTURE_RUNS"))  # `make proof`
TTL = HOLDER_TTL if FULL else timedelta(seconds=10)
"""After which a process that does not beat counts as dead."""

SOONER = """
import runpy
from datetime import timedelta
from functools import partialmethod
from cronce.runtime.scheduling import roster
roster.HOLDER_TTL = timedelta(seconds={seconds})  # before anybody else reads it
from cronce.monitor import destinations, monitor
from cronce.runtime.scheduling import engine
sooner = engine.SchedulerIntervals(beat=timedelta(seconds=1))
engine.Engine.__init__ = partialmethod(engine.Engine.__init__, pace=sooner)
monitor.WATCHER_LEASE = "5s"
# And no notice is repeated because somebody stood still on a busy machine.
destinations.Webhook.limit = 60.0
for name in ("RECEIVER_TIMEOUT", "POST_TIMEOUT", "CLAIM_SPARE"):
    assert hasattr(destinations, name)
    setattr(destinations, name, 60.0)
runpy.run_module("cronce", run_name="__main__")
"""
"""`python -m cronce`, but that who dies is missed sooner."""

APP = """
import os
from cronce import Cronce

cron = Cronce(os.environ["STORE"])

@cron.job(every="1s", name="mail", missed="all", overlap="allow")
def mail(run):
    ledger = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(ledger, f"{run.key}\\n".encode())
    os.close(ledger)
"""

WITHIN = 60.0
"""Seconds in which somebody has to be told."""


class Ledger(NamedTuple):
    """What the bodies did, by their own account, over all servers."""

    path: Path

    def sent(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    def grows(self, by: int = 2) -> None:
        """It goes on: so many more."""
        before = len(self.sent())
        wait_until(lambda: len(self.sent()) >= before + by)

    def nothing_twice(self) -> None:
        assert [key for key, times in Counter(self.sent()).items() if times != 1] == []

    def nothing_missed(self) -> None:
        """What was late is made up for."""
        wait_until(self._is_whole)

    def _is_whole(self) -> bool:
        sent = set(self.sent())
        first, last = (datetime.fromisoformat(key.partition("@")[2]) for key in (min(sent), max(sent)))
        return len(sent) == (last - first) // timedelta(seconds=1) + 1


class Server:
    """A machine: a directory, with the application in it."""

    def __init__(self, directory: Path, store: str, ledger: Ledger, hook: str) -> None:
        directory.mkdir()
        (directory / "app.py").write_text(APP)
        (directory / "sooner.py").write_text(SOONER.format(seconds=TTL.total_seconds()))
        self.directory, self.store = directory, store
        self._env = {**os.environ, "STORE": store, "LEDGER": str(ledger.path), "CRONCE_ALERT": hook}
        self._started: list[subprocess.Popen[str]] = []

    def start(self) -> "Process":
        process = subprocess.Popen(
            [sys.executable, *(("-m", "cronce") if FULL else ("sooner.py",)), "run", "app:cron"],
            cwd=self.directory, env=self._env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._started.append(process)
        return Process(process)

    def cronce(self, *words: str) -> None:
        subprocess.run([sys.executable, "-m", "cronce", *words], cwd=self.directory, check=True, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


class Process:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.pid = process, process.pid
        self.holder = ""

    def up(self) -> "Process":
        """Once it says that it runs, and by what name."""
        assert self.process.stdout is not None
        banner = self.process.stdout.readline()
        found = re.search(r" as (\S+)$", banner)
        assert found, banner + self.process.communicate()[1]
        self.holder = found[1]
        return self

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


# --- who dies is missed: it takes a while, in which the other tests run ---


class Cluster:
    """Three processes that watch and two that are killed, and whoever tells of the first of those in mid-notice."""

    def __init__(self, server: Server, hook: Receiver, ledger: Ledger) -> None:
        self.server, self.hook, self.ledger = server, hook, ledger
        self.living = self._start(3)
        self.dead = self._start(2)  # the youngest: else those that came later would count as their successors
        self.senders: list[int] = []
        hook.answer = self._answer
        with closing(open_store(server.store)) as store:
            wait_until(lambda: len(store.scan(Scan("holder/")).cells) == 5)
            looked_on = Write(LOOKED_ON, FREE, "", Mark.FREE, ttl=timedelta(seconds=20))  # they beat each second
            store.swap([looked_on], store.load([]).epoch.seen)
            wait_until(lambda: _all_beat_together(store))  # so that none of them counts as another's successor
        self.dead[0].process.kill()

    def _start(self, number: int) -> list[Process]:
        return [process.up() for process in [self.server.start() for _ in range(number)]]

    def _answer(self, heard: Heard) -> int:
        if heard.alert["subject"] == self.dead[0].holder and not self.senders:
            self.senders.append(_owner(heard.peer, self.hook.port, [one.pid for one in self.living]))
            os.kill(self.senders[0], signal.SIGKILL)  # it never hears the answer
            self._let_claim_lapse(self.dead[0])
        return 200

    def _let_claim_lapse(self, process: Process) -> None:
        """The claim to tell of it at the webhook, now: nobody has to wait until it does so by itself."""

        def make(cell: Cell, now: Instant) -> tuple[None, Write]:
            alert = decode_alert(cell.value, cell.key)
            told = {to: one if to == "log" else one._replace(until=now) for to, one in alert.deliveries.items()}
            return None, Write(cell.key, cell.version, encode_notice(alert._replace(deliveries=told)), cell.mark)

        with Cronce(self.server.store) as cron:
            node = cron.at_work().node
            node.do(node.ledger.client.rewrite(alert_cell("gone", process.holder), make))

    def _alert(self, process: Process) -> Alert | None:
        with closing(open_store(self.server.store)) as store:
            (cell,) = store.load([alert_cell("gone", process.holder)]).cells
        return decode_alert(cell.value, cell.key) if cell.version else None

    def is_raised(self, process: Process) -> bool:
        alert = self._alert(process)
        return alert is not None and alert.times > 0

    def is_told(self, process: Process) -> bool:
        """Whoever told it has written that down: else nobody tells more until its claim lapses, in two minutes."""
        alert = self._alert(process)
        return alert is not None and all(one.sent for to, one in alert.deliveries.items() if to != "log")

    def told(self, process: Process) -> list[str]:
        """What the receiver was told of it."""
        return [one.alert["state"] for one in [*self.hook.heard] if one.alert["subject"] == process.holder]


def _all_beat_together(store: Store) -> bool:
    """Each has beaten since the last of them was started."""
    cells = store.scan(Scan("holder/")).cells
    youngest = max(decode_holder(cell.value, cell.key).since for cell in cells)
    return all(cell.until is not None and cell.until - TTL > youngest for cell in cells)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("cluster")
    ledger, store = Ledger(directory / "ledger"), f"sqlite:///{directory}/cronce.db"
    with receiving() as hook, Server(directory / "server", store, ledger, hook.url) as server:
        yield Cluster(server, hook, ledger)


def _owner(here: int, there: int, pids: Sequence[int]) -> int:
    """Which of these processes has the connection between these ports: others may use either port elsewhere, or have
    used it for this until just now."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ends = [f":{here:04X}", f":{there:04X}"]
    sockets = {f"socket:[{row[9]}]" for row in rows if [row[1][-5:], row[2][-5:]] == ends}
    return next(pid for pid in pids if not sockets.isdisjoint(_files(pid)))


def _files(pid: int) -> Iterator[str]:
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since
            yield str(file.readlink())


# --- a store that was copied ---


def copied(second: Server, hook: Receiver, ledger: Ledger) -> None:
    """The second runs on a copy of the first's store: it is told of, and it runs nothing. The first goes on."""
    began = time.monotonic()
    process = second.start()
    wait_for([("copied", "raised")], hook.told)
    assert time.monotonic() - began < WITHIN
    assert process.process.wait(WITHIN) == 78
    ledger.grows()
    assert f"cronce store adopt {second.store.partition('?')[0]}" in hook.heard[0].alert["text"]
    ledger.nothing_twice()
    ledger.nothing_missed()
    assert len(hook.heard) == 1


@pytest.mark.usefixtures("cluster")
def test_an_sqlite_store_that_is_copied_to_a_second_server(tmp_path: Path, ledger: Ledger) -> None:
    with (
        receiving() as hook,
        Server(tmp_path / "first", f"sqlite:///{tmp_path}/first/cronce.db", ledger, hook.url) as first,
        Server(tmp_path / "second", f"sqlite:///{tmp_path}/second/cronce.db", ledger, hook.url) as second,
    ):
        runs = first.start().up()
        ledger.grows()
        for name in ("cronce.db", "cronce.db-wal"):
            shutil.copy(first.directory / name, second.directory / name)
        copied(second, hook, ledger)
        runs.stop()
        second.cronce("store", "adopt", second.store)
        runs = second.start().up()
        ledger.grows(1)
        runs.stop()
        ledger.nothing_twice()
        assert [told for told in hook.told() if told[0] == "copied"] == [("copied", "raised")]


@pytest.mark.usefixtures("cluster")
def test_a_postgresql_store_that_is_restored_on_a_second_server(
    tmp_path: Path, ledger: Ledger, postgres: Postgres
) -> None:
    with postgres.admin() as admin:
        admin.execute("DROP DATABASE IF EXISTS field")
        admin.execute("CREATE DATABASE field")
    url = postgres.url.removesuffix("postgres") + "field"
    with (
        receiving() as hook,
        Postgres() as elsewhere,
        Server(tmp_path / "first", url, ledger, hook.url) as first,
        Server(tmp_path / "second", elsewhere.url, ledger, hook.url) as second,
    ):
        runs = first.start().up()
        ledger.grows()
        dump = subprocess.run([str(postgres.programs / "pg_dump"), url], capture_output=True, check=True).stdout
        restore = [str(elsewhere.programs / "psql"), "-q", "-v", "ON_ERROR_STOP=1", elsewhere.url]
        subprocess.run(restore, input=dump, capture_output=True, check=True)
        copied(second, hook, ledger)
        runs.stop()


def test_who_dies_is_missed_once_and_also_if_whoever_tells_it_dies(cluster: Cluster) -> None:
    first, second = cluster.dead
    wait_for(["raised", "raised"], lambda: cluster.told(first))
    assert len(cluster.senders) == 1
    wait_for(True, lambda: cluster.is_told(first))  # perhaps by the second, which is about to die
    second.process.kill()
    wait_for(True, lambda: cluster.is_raised(second))  # the same host: the same incident, of which they were told
    ids = {one.alert["id"] for one in cluster.hook.heard if one.alert["subject"] == first.holder}
    assert len(ids) == 1
    for newcomer in [cluster.server.start() for _ in range(3)]:  # one for each that was killed
        newcomer.up()
    wait_for(["raised", "raised", "cleared"], lambda: cluster.told(first))
    assert cluster.told(second) == []
    cluster.ledger.grows()
    cluster.ledger.nothing_twice()
