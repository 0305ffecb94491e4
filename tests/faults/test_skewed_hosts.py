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
FULL = "CRONCE_SKEWED_SLOTS" in os.environ  # `make proof` takes 100, in real time
SLOTS = int(os.environ.get("CRONCE_SKEWED_SLOTS", "2"))
EVERY = 4 if FULL else 30
"""Seconds. A command that a busy machine starts later than three quarters of this would be for the next slot."""
SKEWS = (5, 0, -5)
"""Seconds. Whoever is ahead waits until the store says that its slot is due."""

UP = timedelta(seconds=2)
"""Until the hosts are up, where the next slot comes as soon as that."""


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
    """Three, with a crontab each. The clocks of all of them and of the store are moved on, as if time had passed."""

    def __init__(self, library: Path, command: list[str]) -> None:
        self._library, self._command = library, command
        self._passed = 0.0

    def wait_till(self, time: datetime) -> None:
        """By the store's clock, which is never set back."""
        self._passed = max(self._passed, (time - datetime.now(UTC)).total_seconds())

    def call(self) -> None:
        """By hand, at a host whose clock is right."""
        subprocess.run(self._command, env=host(0, self._library, self._passed), check=True)

    def start(self, first: datetime, slots: int, skews: Sequence[int]) -> list[tuple[int, str]]:
        """Each starts the command when its own clock says so; how each ended."""
        words = [first.isoformat(), str(EVERY), str(slots), *self._command]
        hosts = [
            subprocess.Popen(
                [sys.executable, str(HERE / "crond.py"), *words], env=host(skew, self._library, self._passed),
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
            for skew in skews
        ]  # fmt: skip
        said = [crond.communicate(timeout=EVERY * slots + 100)[0] for crond in hosts]
        return [(crond.returncode, text) for crond, text in zip(hosts, said, strict=True)]


@pytest.mark.timeout(EVERY * SLOTS + 120)
def test_hosts_with_clocks_ten_seconds_apart_run_each_slot_once(skew: Path, tmp_path: Path, note: Note) -> None:
    book = tmp_path / "book"
    command = [
        sys.executable, "-m", "cronce", "exec", "tick", "--schedule", f"*/{EVERY} * * * * *", "--overlap", "allow",
        "--store", f"sqlite:///{tmp_path}/cronce.db", "--", "sh", "-c", f'echo "$CRONCE_SLOT" >> {book}',
    ]  # fmt: skip
    hosts, now = Hosts(skew, command), datetime.now(UTC).replace(microsecond=0)
    zero = now + timedelta(seconds=EVERY - now.second % EVERY)
    hosts.wait_till(zero)
    hosts.call()  # a job that is not known begins with its first call, however late that is
    book.unlink()
    slots = [zero + number * timedelta(seconds=EVERY) for number in range(3, SLOTS + 3)]
    ahead, _, behind = (timedelta(seconds=seconds) for seconds in SKEWS)
    if FULL:
        hosts.wait_till(slots[0] - ahead - UP)
        ends = hosts.start(slots[0], SLOTS, SKEWS)
    else:
        ends = []
        for slot in slots:
            hosts.wait_till(slot - ahead)
            ends += hosts.start(slot, 1, SKEWS[:2])
            hosts.wait_till(slot - behind)  # when the others are through: nobody waits for that
            ends += hosts.start(slot, 1, SKEWS[2:])
    assert {*ends} == {(0, "")}
    ran = Counter(book.read_text().split())
    note({"hosts": len(SKEWS), "slots": SLOTS, "runs": sum(ran[spell(slot)] for slot in slots)})
    assert min(ran) == spell(slots[0])
    assert ran == Counter({*map(spell, slots), *ran})  # one that was started late is for a slot after the last of them
