"""Processes of one application, and what they wrote."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from cronce.clock import SystemClock
from cronce.protocol.record import Record, decode
from cronce.runtime.flow import drive
from cronce.runtime.queries import HolderSeen, holders
from cronce.runtime.run_lists import runs
from cronce.stores import open_store
from cronce.stores.base import Store
from tests.house.wait import wait_until

ROOT = Path(__file__).parents[4]
APP = "tests.runtime.scheduling.life.app:cron"


class Line(NamedTuple):
    what: str
    job: str
    slot: str
    attempt: int
    pid: int
    boot: float
    wall: float

    @property
    def at(self) -> float:
        """The slot's instant."""
        return datetime.fromisoformat(self.slot).timestamp()

    @property
    def late(self) -> float:
        """Seconds after the slot's instant, by this machine's clock, which is every server's here."""
        return self.wall - self.at


class Town:
    """A directory with a book and a file that lets bodies go on; and a store."""

    def __init__(
        self,
        folder: Path,
        url: str = "",
        *,
        body: str = "quick",
        kind: str = "function",
        jobs: int = 1,
        **policies: Any,
    ) -> None:
        self.folder, self.url = folder, url or f"sqlite:///{folder}/cronce.db"
        self.book, self.release = folder / "book", folder / "release"
        self.env = {
            **os.environ,
            "CRONCE_URL": self.url,
            "LIFE_BOOK": str(self.book),
            "LIFE_RELEASE": str(self.release),
            "LIFE_BODY": body,
            "LIFE_KIND": kind,
            "LIFE_JOBS": str(jobs),
            "LIFE_POLICIES": json.dumps(policies),
            "PYTHONPATH": str(ROOT),
        }
        self.all: list[subprocess.Popen[str]] = []

    def run(self, *options: str, before: tuple[str, ...] = (), **more: Any) -> subprocess.Popen[str]:
        """A `cronce run`."""
        return self.start(*before, sys.executable, "-m", "cronce", "run", APP, *options, **more)

    def script(self, code: str) -> subprocess.Popen[str]:
        file = self.folder / f"script{len(self.all)}.py"
        file.write_text(code)
        return self.start(sys.executable, str(file))

    def start(self, *words: str, env: Mapping[str, str] = MappingProxyType({}), **more: Any) -> subprocess.Popen[str]:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} | more
        process = subprocess.Popen(words, cwd=ROOT, env={**self.env, **env}, text=True, **streams)
        self.all.append(process)
        return process

    # --- what is seen ---

    def lines(self, what: str = "") -> list[Line]:
        text = self.book.read_text() if self.book.exists() else ""
        rows = [line.split() for line in text.rpartition("\n")[0].splitlines()]  # the last may be half-written
        lines = [Line(a, b, c, int(d), int(e), float(f), float(g)) for a, b, c, d, e, f, g in rows]
        return [line for line in lines if not what or line.what == what]

    def wait_for(self, what: str, number: int = 1, pid: int = 0) -> list[Line]:
        found: list[Line] = []

        def there() -> bool:
            found[:] = [line for line in self.lines(what) if not pid or line.pid == pid]
            return len(found) >= number

        wait_until(there)
        return found

    def starts(self) -> Counter[tuple[str, str]]:
        """How often each slot of each job was started."""
        return Counter((line.job, line.slot) for line in self.lines("start"))

    def gaps(self) -> list[tuple[str, float]]:
        """Where, between the first and the last slot of a job that were started, others were not."""
        slots = sorted({(line.job, line.at) for line in self.lines("start")})
        return [earlier for earlier, later in pairwise(slots) if earlier[0] == later[0] and later[1] - earlier[1] != 1]

    @cached_property
    def _store(self) -> Store:
        return open_store(self.url)

    def record(self, line: Line) -> Record:
        (cell,) = self._store.load([f"run/{line.job}/{line.slot}"]).cells
        return decode(cell.value, cell.key)

    def holders(self) -> dict[int, HolderSeen]:
        """The processes that say they are alive."""
        _, live = drive(holders(), self._store, SystemClock())
        return {int(one.holder.holder.split(":")[1]): one for one in live}

    def draining(self) -> list[bool]:
        """Of each of them, whether it claims no more."""
        return [one.holder.draining for one in self.holders().values()]

    def states(self, state: Literal["due", "running"]) -> int:
        """How many runs are in that state."""
        return len(drive(runs(None, state, 1000), self._store, SystemClock()))

    def wait_until_there(self, number: int) -> None:
        wait_until(lambda: len(self.holders()) == number)

    # --- how it ends ---

    def cli(self, *words: str) -> str:
        command = [sys.executable, "-m", "cronce", *words]
        done = subprocess.run(command, cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def close(self) -> None:
        """Whatever runs here and what it started is gone after this."""
        self.release.touch()
        if "_store" in self.__dict__:
            self._store.close()
        for process in self.all:
            for pid in (*descendants(process.pid), process.pid):
                if process.poll() is None or pid != process.pid:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        continue
            process.communicate(timeout=60)


def ended(process: subprocess.Popen[str], seconds: float = 60) -> tuple[int, str]:
    out, _ = process.communicate(timeout=seconds)
    return process.returncode, out


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def descendants(pid: int) -> list[int]:
    found = children(pid)
    return [*found, *(one for child in found for one in descendants(child))]
