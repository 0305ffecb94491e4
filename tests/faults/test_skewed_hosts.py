"""Three hosts whose clocks are ten seconds apart, each with a crontab of its own: one body for each slot."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cronce.model import spell
from tests.faults.notes import Note
from tests.integrations.machines import preload

HERE = Path(__file__).parent
SLOTS = int(os.environ.get("CRONCE_SKEWED_SLOTS", "2"))  # `make proof` takes 100
EVERY = 4
"""Seconds. A command that a busy machine starts later than three quarters of this would be for the next slot."""
SKEWS = (5, 0, -5)
"""Seconds. Whoever is ahead waits until the store says that its slot is due."""

UP = 2.0
"""Seconds until the hosts are up. The clocks of all of them and of the store are moved on, so that the first slot comes
right after that, by the clock that is ahead."""


@pytest.fixture(scope="module")
def skew(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return preload(tmp_path_factory.mktemp("skew"))


def host(seconds: float, library: Path, passed: float = 0.0) -> dict[str, str]:
    """As if so much time had passed, at a host whose clock is wrong by so many seconds."""
    moved = {"SKEW_SECONDS": f"{passed + seconds:.3f}", "STORE_SECONDS": f"{passed:.3f}"}
    return {**os.environ, "LD_PRELOAD": str(library), **moved}


CLOCKS = """
import sqlite3
from cronce.clock import SystemClock
now = sqlite3.connect(":memory:").execute("SELECT strftime('%Y-%m-%dT%H:%M:%S+00:00', 'now')").fetchone()[0]
print(SystemClock().wall().isoformat(), now)
"""


def clocks(env: dict[str, str]) -> list[timedelta]:
    """How far ahead the host's clock and the store's are."""
    done = subprocess.run([sys.executable, "-c", CLOCKS], env=env, capture_output=True, text=True, check=True)
    return [datetime.fromisoformat(told) - datetime.now(UTC) for told in done.stdout.split()]


def test_the_library_makes_the_hosts_clock_wrong_and_not_the_stores(skew: Path) -> None:
    minute = timedelta(minutes=1)
    wall, store = clocks(host(3600, skew))
    assert 59 * minute < wall < 61 * minute
    assert -minute < store < minute
    wall, store = clocks(host(3600, skew, passed=7200))
    assert 179 * minute < wall < 181 * minute
    assert 119 * minute < store < 121 * minute


class Hosts:
    """Three, with a crontab each."""

    def __init__(self, library: Path, first: datetime) -> None:
        self._library, self._first = library, first
        self._passed = self._until(-UP - max(SKEWS))

    def _until(self, after: float) -> float:
        """How much time has to pass until so many seconds after the first slot."""
        return (self._first - datetime.now(UTC)).total_seconds() + after

    def in_time(self, command: list[str], skews: Sequence[int]) -> list[tuple[int, str]]:
        """Each starts the command when its own clock says so; how each ended."""
        words = [self._first.isoformat(), str(EVERY), str(SLOTS), *command]
        hosts = [
            subprocess.Popen(
                [sys.executable, str(HERE / "crond.py"), *words], env=host(skew, self._library, self._passed),
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
            for skew in skews
        ]  # fmt: skip
        said = [crond.communicate(timeout=EVERY * SLOTS + 100)[0] for crond in hosts]
        return [(crond.returncode, text) for crond, text in zip(hosts, said, strict=True)]

    def afterwards(self, command: list[str], skew: int) -> list[tuple[int, str]]:
        """One starts the command so late that all others are through: nobody waits for that. No clock is set back, and
        by its own it is in time, however long the others took."""
        ends = []
        for number in range(SLOTS):
            self._passed = max(self._passed, self._until(EVERY * number - skew))
            mine = {"SKEW_SECONDS": "0", "SKEW_BEGIN": f"{self._first.timestamp() + EVERY * number:.0f}"}
            env = {**host(0, self._library, self._passed), **mine}
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            ends.append((done.returncode, done.stdout + done.stderr))
        return ends


@pytest.mark.timeout(EVERY * SLOTS + 120)
def test_hosts_with_clocks_ten_seconds_apart_run_each_slot_once(skew: Path, tmp_path: Path, note: Note) -> None:
    book = tmp_path / "book"
    command = [
        sys.executable, "-m", "cronce", "exec", "tick", "--schedule", f"*/{EVERY} * * * * *", "--overlap", "allow",
        "--store", f"sqlite:///{tmp_path}/cronce.db", "--", "sh", "-c", f'echo "$CRONCE_SLOT" >> {book}',
    ]  # fmt: skip
    subprocess.run(command, check=True)  # a job that is not known begins with its first call, however late that is
    book.unlink()
    soon = (datetime.now(UTC) + timedelta(seconds=max(SKEWS) + UP + 1)).replace(microsecond=0)
    first = soon + timedelta(seconds=-soon.second % EVERY)
    hosts = Hosts(skew, first)
    if "CRONCE_SKEWED_SLOTS" in os.environ:
        ends = hosts.in_time(command, SKEWS)
    else:
        ends = [*hosts.in_time(command, SKEWS[:2]), *hosts.afterwards(command, SKEWS[2])]
    assert {*ends} == {(0, "")}
    slots = [spell(first + number * timedelta(seconds=EVERY)) for number in range(SLOTS)]
    ran = Counter(book.read_text().split())
    note({"hosts": len(SKEWS), "slots": SLOTS, "runs": sum(ran[slot] for slot in slots)})
    assert min(ran) == slots[0]
    assert ran == Counter({*slots, *ran})  # a command that was started late is for a slot after the last of them
