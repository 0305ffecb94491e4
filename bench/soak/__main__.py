"""python -m bench.soak: schedulers that stay up while all around them fails; figures at the start and the end."""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.soak.app import KEEP, STEADY
from cronce.errors import CronceError, StoreUnavailable
from cronce.model import ABSENT, Cell, Mark, Slot, Write
from cronce.protocol.record import Outcome, Record, State, encode
from cronce.stores import open_store
from cronce.stores.base import Scan, Store
from cronce.stores.redis import init
from cronce.torture.fault_actions import Hook
from cronce.torture.harness import Torture, TortureSettings
from tests.house.wait import wait_until
from tests.servers.etcd import Etcd
from tests.servers.mariadb import MariaDb
from tests.servers.postgres import Postgres
from tests.servers.process import Server
from tests.servers.valkey import DURABLE, Valkey

ROOT: Final = Path(__file__).parents[2]
OLD: Final = "f314f31"
"""The commit whose wheel runs beside ours."""

FILE: Final = ROOT / "docs" / "soak.json"
PAGE: Final = ROOT / "docs" / "explain" / "soak.md"
HEAD: Final = """# A soak

Written by `make soak MINUTES=60` (here: {minutes} minutes on {date}, at commit {commit}, with a load of {load}). On
each store two schedulers run {jobs} jobs every second. Meanwhile `cronce torture` plays half-minute rounds of random
faults on one store after the other, with a hard restart of the server in each, and `cronce store purge --keep {keep}`
deletes runs of one of the jobs. Nothing younger than an hour is deleted, so {aged} older runs of it were there at the
start.

- **slots** of those jobs, counted in a file that they append to; *extra* and *missed* must be 0.
- **switches**: both schedulers began as the wheel of commit `{old}` and were upgraded one after the other while they
  worked. Then one of them went back to the older release before a round, and came back before the next. The older
  release cannot read the records of the newer: it says *upgrade cronce*, and leaves those jobs to the other. So after
  an upgrade, roll back only while a newer process is left.
- A server that crashes by itself is started again after the round. Crashes: {crashes}.
- **old runs**: of those {aged}, how many are left.
- **memory** (MB), **threads** and **files** of the scheduler that stayed up: {warm:.0f} seconds after its start, at
  half time and at the end. Memory grows with the first faults (code that is loaded, buffers that the allocator keeps);
  after half time it must be flat.
"""

ROUND: Final = 30
"""Slots of a round of torture, one a second."""

WARM: Final = 45.0
"""Seconds after which a process has all that it needs: what it uses then is the start."""

SAMPLE: Final = 10.0
"""Seconds between two looks at what they use."""

MARGIN: Final = 3
"""Slots at both ends that are not counted: the schedulers were on their way."""

GROWTH: Final = 1.1
"""How much more memory a process may use at the end than at half time."""

AGED: Final = 2000
"""Runs that are old enough to be purged."""

HANDLES: Final = 3
"""Threads and files that come and go."""

SERVERS: Final[dict[str, Callable[[], Server] | None]] = {
    "sqlite": None,
    "postgresql": Postgres,
    "valkey": lambda: Valkey(*DURABLE),
    "mariadb": MariaDb,
    "etcd": Etcd,
}


PURGED: Final = "steady-0"

LOOKS: Final = {"start": 0.0, "half": 0.5, "end": 1.0}


class Usage(NamedTuple):
    memory: float
    """MB."""
    threads: int
    files: int


def usage(pid: int) -> Usage:
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Usage(round(int(status["VmRSS"].split()[0]) / 1024, 1), int(status["Threads"]), files)


class Standing(ExitStack):
    """The two schedulers of a store."""

    def __init__(self, store: str, old: str, folder: Path) -> None:
        super().__init__()
        self.store, self.folder = store, folder
        self._pythons = {"new": sys.executable, "old": old}
        make = SERVERS[store]
        self.server = self.enter_context(make()) if make else None
        self.url = self.server.url if self.server else f"sqlite:///{folder}/cronce.db"
        if store == "valkey":
            init(self.url)
        self.ledger = folder / "ledger"
        self.rounds: list[tuple[int, str]] = []
        self.faults: Counter[str] = Counter()
        self.switches = self.crashes = 0
        self.codes: list[int] = []
        self._purges: list[subprocess.Popen[bytes]] = []
        self._versions = {"a": "old", "b": "old"}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        for name, version in self._versions.items():
            self._start(name, version)
        wait_until(lambda: len(self._lines()) >= 2 + 2 * STEADY)
        self.first = int(time.time()) + MARGIN
        self.samples: list[tuple[float, Usage]] = []

    def upgrade(self) -> None:
        """From the older release to this one, while it works: for a while both are there."""
        for name in ("b", "a"):
            time.sleep(MARGIN)
            self.switch(name)
        self._age()
        self.began = time.monotonic()

    def _age(self) -> None:
        """Runs of some hours ago."""
        with closing(open_store(self.url)) as store:
            loaded = store.load([])
            self.purged_before = loaded.now - timedelta(hours=2)
            ended = Record(
                State.CLOSED, 1, "0" * 16, "web-1:1:1a", outcome=Outcome.SUCCEEDED, finished=self.purged_before
            )
            slots = [Slot(PURGED, self.purged_before - timedelta(seconds=number)) for number in range(1, AGED + 1)]
            for first in range(0, AGED, 100):
                writes = [
                    Write(slot.cell, ABSENT, encode(ended), Mark.CLOSED, slot.at) for slot in slots[first : first + 100]
                ]
                wait_until(partial(_took, store, writes, loaded.epoch.seen))

    def sample(self) -> None:
        """What the scheduler uses that stays up, once it has begun in earnest."""
        if time.monotonic() > self.began + WARM:
            self.samples.append((time.monotonic(), usage(self.pid)))

    @property
    def pid(self) -> int:
        return self._processes["a"].pid

    def _start(self, name: str, version: str) -> None:
        with (self.folder / f"log-{name}").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [self._pythons[version], "-W", "ignore", str(ROOT / "bench" / "soak" / "app.py"), self.url,
                 str(self.ledger), f"{name}-{version}"],
                stdout=log, stderr=log, cwd=self.folder, env={**os.environ, "XDG_STATE_HOME": str(self.folder)},
            )  # fmt: skip
        self.callback(_end, self._processes[name])

    def switch(self, name: str = "b") -> None:
        """A scheduler stops, as a deploy stops it, and comes back as the other release."""
        process, before = self._processes[name], len(self._lines())
        process.terminate()
        self.codes.append(process.wait(40))
        self._versions[name] = "old" if self._versions[name] == "new" else "new"
        self._start(name, self._versions[name])
        wait_until(lambda: any(line[0] == "up" for line in self._lines()[before:]))
        self.switches += 1

    def supervise(self) -> None:
        """A server that crashed is started again, as any supervisor does: etcd 3.5.1, which the tests have, crashes now
        and then when a client is killed."""
        if self.server is not None and not self.server.processes():
            self.server.kill()
            self.server.start()
            self.crashes += 1

    def purge(self) -> None:
        """By hand, while all goes on: by itself it happens about once an hour. It takes a minute."""
        words = [sys.executable, "-m", "cronce", "purge", PURGED, "--keep", str(KEEP), "--store", self.url]
        with (self.folder / "log-purge").open("ab") as log:
            purging = subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder)
        self.callback(_end, purging)
        self._purges.append(purging)

    def torture(self, seed: int, *, scheduler: bool) -> None:
        settings = TortureSettings(self.url, ROUND, 4, seed, restart=self._restart(), scheduler=scheduler)
        try:
            with tempfile.TemporaryDirectory() as folder:
                result = Torture(settings, Path(folder)).run()
        except CronceError as error:  # the store did not answer the harness: no verdict, the schedulers go on
            self.rounds.append((seed, f"not judged: {error}"))
            return
        self.faults += Counter({str(kind): count for kind, count in result.faults.items()})
        self.rounds.append((seed, "kept" if result.passed else f"broken: {[*result.verdicts]}"))

    def _restart(self) -> Hook | None:
        server = self.server
        if server is None:
            return None

        def restart() -> None:
            server.kill()
            server.start()

        return restart

    def _lines(self) -> list[list[str]]:
        return [line.split() for line in self.ledger.read_text().splitlines()] if self.ledger.exists() else []

    def report(self) -> dict[str, Any]:
        """Count, now that both have had time to run what was late."""
        last = int(time.time()) - MARGIN
        time.sleep(10)
        figures = [figure for _, figure in self.samples] or [usage(self.pid)]
        purges = [purging.wait(120) for purging in self._purges]
        for process in self._processes.values():
            process.terminate()
        self.codes += [process.wait(40) for process in self._processes.values()]
        runs = Counter((job, int(at)) for job, at, _ in self._lines() if job != "up")
        due = [(f"steady-{number}", at) for number in range(STEADY) for at in range(self.first, last + 1)]
        by = Counter(name for job, _, name in self._lines() if job != "up")
        return {
            "store": self.store, "slots": len(due), "extra": sum(max(runs[slot] - 1, 0) for slot in due),
            "missed": sum(runs[slot] == 0 for slot in due), "runs_by": dict(sorted(by.items())),
            "aged": self._left(), "rounds": sum(told == "kept" for _, told in self.rounds),
            "faults": dict(sorted(self.faults.items())),
            "broken": [told for _, told in self.rounds if told.startswith("broken")],
            "not_judged": [told for _, told in self.rounds if told.startswith("not judged")], "switches": self.switches,
            "crashes": self.crashes,
            **{name: figures[int(part * (len(figures) - 1))]._asdict() for name, part in LOOKS.items()},
            "samples": len(figures),
            "exit_codes": sorted(set(self.codes)), "purges": purges.count(0),
        }  # fmt: skip

    def _left(self) -> int:
        """Old runs that the store still has of the job that is purged; -1 if it does not answer."""
        try:
            with closing(open_store(self.url)) as store:
                return len(
                    [cell for cell in store.scan(Scan(f"run/{PURGED}/", limit=1000)).cells if self._is_old(cell)]
                )
        except CronceError:
            return -1

    def _is_old(self, cell: Cell) -> bool:
        return cell.at is not None and cell.at < self.purged_before


def is_good(told: dict[str, Any]) -> bool:
    start, half, end = (Usage(**told[look]) for look in LOOKS)
    flat = end.memory <= half.memory * GROWTH and all(
        more <= less + HANDLES for more, less in zip(end[1:], start[1:], strict=True)
    )
    return flat and not any(told[key] for key in ("extra", "missed", "broken", "aged")) and told["exit_codes"] == [0]


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait()


def old_release(commit: str) -> str:
    """The interpreter of an environment with the wheel of an older commit."""
    place = ROOT / ".venv" / "soak" / commit
    if not (place / "installed").exists():
        with tempfile.TemporaryDirectory() as folder:
            archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
            subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)
            venv.create(place, with_pip=True, clear=True)
            pip = [str(place / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
            subprocess.run([*pip, f"{folder}[postgres,redis,mysql,etcd]"], check=True)
        (place / "installed").touch()
    return str(place / "bin" / "python")


def _took(store: Store, writes: Sequence[Write], seen: tuple[int, int]) -> bool:
    """Whether the store took them, or has them since it was asked before; on a busy machine it may need another try."""
    try:
        store.swap(writes, seen)
    except StoreUnavailable:
        return False
    return True


def soak(minutes: float, stores: Sequence[str]) -> list[dict[str, Any]]:
    old, dice = old_release(OLD), random.Random()
    with ExitStack() as stack:
        standing = []
        for store in stores:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cronce-soak-")))
            standing.append(stack.enter_context(Standing(store, old, folder)))
        for one in standing:
            one.upgrade()
        end, number = time.monotonic() + minutes * 60, 0
        over = threading.Event()
        sampling = threading.Thread(target=_sample, args=(standing, over))
        sampling.start()
        stack.callback(sampling.join)
        stack.callback(over.set)
        while time.monotonic() < end or number < len(standing):
            one = standing[number % len(standing)]
            one.switch()
            one.purge()
            one.torture(dice.randrange(1_000_000), scheduler=number // len(standing) % 2 == 1)
            one.supervise()
            print(f"round {number + 1}, {one.store}: {one.rounds[-1][1]}", file=sys.stderr, flush=True)
            number += 1
        over.set()
        return [each.report() for each in standing]


def _sample(standing: Sequence[Standing], over: threading.Event) -> None:
    while not over.wait(SAMPLE):
        for one in standing:
            one.sample()


def page(document: dict[str, Any]) -> Iterator[str]:
    """For the docs."""
    crashes = ", ".join(f"{told['crashes']} of {told['store']}" for told in document["stores"] if told.get("crashes"))
    yield HEAD.format(jobs=STEADY, warm=WARM, aged=AGED, crashes=crashes or "none", **document)
    yield "\n| store | slots | extra | missed | rounds | faults | switches | old runs | memory | threads | files |\n"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
    for told in document["stores"]:
        looks = (Usage(**told[look]) for look in LOOKS)
        used = (" → ".join(map(str, figures)) for figures in zip(*looks, strict=True))
        counts = (told[key] for key in ("slots", "extra", "missed", "rounds"))
        cells = (told["store"], *counts, sum(told["faults"].values()), told["switches"], told["aged"], *used)
        yield f"| {' | '.join(map(str, cells))} |\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--stores", nargs="+", default=[*SERVERS], choices=SERVERS)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended
    began = time.monotonic()
    told = soak(options.minutes, options.stores)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    document = {
        "date": datetime.now(UTC).date().isoformat(), "commit": commit.stdout.strip(), "old": OLD, "keep": KEEP,
        "minutes": round((time.monotonic() - began) / 60, 1), "load": round(os.getloadavg()[1]), "stores": told,
    }  # fmt: skip
    FILE.write_text(json.dumps(document, indent=1) + "\n")
    PAGE.write_text("".join(page(document)), encoding="utf-8")
    print("".join(page(document)))
    return int(not all(map(is_good, told)))


if __name__ == "__main__":
    sys.exit(main())
