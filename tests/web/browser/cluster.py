"""A cluster as people run one: three schedulers and the page, each a process of its own, on one SQLite store."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self

from cronce import Cronce
from cronce.protocol.record import Job, Spec
from tests.house.wait import PATIENCE, wait_until
from tests.servers.process import free_port

APP: Final = '''
import time

from cronce import Cronce

cron = Cronce("sqlite:///cronce.db")


@cron.job(every="1s", start_within="10s")
def tick() -> None:
    """What there is always news of."""


@cron.job(at="SOON", on_lost="rerun", lease="6s")
def haul() -> None:
    """Never ends, and is taken over from whoever is killed. It has one slot: another would take its turn."""
    while True:
        time.sleep(0.05)


@cron.job("0 3 * * *", tz="Europe/Berlin", timeout="1h")
def report() -> None:
    """Runs in the night."""
'''

TOKEN: Final = "a-token-of-at-least-32-characters"


class Cluster:
    """Started on the way in, and killed on the way out."""

    def __init__(self, folder: Path, schedulers: int = 3, app: str = APP) -> None:
        self.folder, self._app = folder, app
        self.url = f"http://127.0.0.1:{free_port()}"
        self._number = schedulers
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        soon = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
        (self.folder / "app.py").write_text(self._app.replace("SOON", soon.isoformat()))
        (self.folder / "token").write_text(TOKEN)
        (self.folder / "token").chmod(0o600)
        self.cronce("store", "init", "sqlite:///cronce.db")
        if "def haul" in self._app:
            self._make_known("haul", soon)
        for _ in range(self._number):
            self.start("run", "app:cron", "--grace", "1s")
        address = self.url.removeprefix("http://")
        self.start("ui", "--store", "sqlite:///cronce.db", "--listen", address, "--token-file", "token")
        wait_until(self._answers)
        return self

    def _make_known(self, name: str, at: datetime) -> None:
        """A job that is new has no slots in the past: this one has, however late the schedulers are there."""
        with Cronce(f"sqlite:///{self.folder}/cronce.db") as cron:
            cron.job(at=at, on_lost="rerun", lease="6s", name=name)(lambda: None)
            digest, text = cron.jobs[name].spec
            node, floor = cron.at_work().node, at - timedelta(seconds=1)
            known = Job(floor, specs=(Spec(digest, floor, text),), firing=digest)
            node.do(node.ledger.jobs.edit(name, lambda _job, _now: known))

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def start(self, *words: str) -> None:
        log = (self.folder / f"{words[0]}.log").open("ab")
        with log:
            started = subprocess.Popen(self._words(words), cwd=self.folder, stdout=log, stderr=log)
        self._processes.append(started)

    def cronce(self, *words: str) -> tuple[int, int]:
        """Call a verb to its end: which process it was, and what it exits with."""
        with subprocess.Popen(self._words(words), cwd=self.folder, stdout=subprocess.DEVNULL) as called:
            return called.pid, called.wait()

    def _words(self, words: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "cronce", *words]

    def _answers(self) -> bool:
        try:
            return len(self.holders()) == self._number
        except OSError:
            return False

    # --- what it says of itself ---

    def ask(self, way: str) -> Any:
        with urllib.request.urlopen(f"{self.url}/api/v1/{way}", timeout=PATIENCE) as answer:
            return json.load(answer)

    def holders(self) -> dict[str, str]:
        """When each beat last."""
        return {one["holder"]: one["beat"] for one in self.ask("holders")["holders"]}

    def wait_for_beats(self, holder: str, number: int) -> None:
        """Until it was seen to beat so often."""
        beats: set[str] = set()

        def enough() -> bool:
            beats.add(self.holders()[holder])
            return len(beats) >= number

        wait_until(enough)

    def holder_of(self, job: str) -> str | None:
        """Who runs it just now."""
        runs = self.ask(f"jobs/{job}/runs?state=running")["runs"]
        return str(runs[0]["holder"]) if runs else None

    def latest(self, job: str, state: str) -> str | None:
        """The key of the newest slot of a job in that state."""
        runs = self.ask(f"jobs/{job}/runs?state={state}")["runs"]
        return str(runs[0]["slot"]) if runs else None


def pid_of(holder: str) -> int:
    return int(re.fullmatch(r".+:(\d+):[0-9a-f]+", holder)[1])  # type: ignore[index]


def kill(holder: str) -> None:
    os.kill(pid_of(holder), signal.SIGKILL)
