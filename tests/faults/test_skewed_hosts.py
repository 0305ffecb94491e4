"""Three hosts whose clocks are ten seconds apart, each with a crontab of its own: one body for each slot."""

import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cronce.model import spell
from tests.faults.notes import Note
from tests.integrations.machines import preload

HERE = Path(__file__).parent
REAL = "CRONCE_SKEWED_SLOTS" in os.environ
"""`make proof` waits for 100 slots. Else the clocks of the hosts and of the store are moved on from call to call."""

SLOTS = int(os.environ.get("CRONCE_SKEWED_SLOTS", "3"))
EVERY = 4
"""Seconds. A command that a busy machine starts later than three quarters of this would be for the next slot."""
SKEWS = (-5, 0, 5)


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


def run_by_cron(first: datetime, command: list[str], library: Path) -> list[tuple[int, str]]:
    """Each host starts it when its own clock says so; how each ended."""
    hosts = [
        subprocess.Popen(
            [sys.executable, str(HERE / "crond.py"), first.isoformat(), str(EVERY), str(SLOTS), *command],
            env=host(seconds, library), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for seconds in SKEWS
    ]  # fmt: skip
    said = [crond.communicate(timeout=EVERY * SLOTS + 100)[0] for crond in hosts]
    return [(crond.returncode, text) for crond, text in zip(hosts, said, strict=True)]


def run_by_hand(first: datetime, command: list[str], library: Path) -> list[tuple[int, str]]:
    """The same calls in the same order, without the time between them. No clock is ever set back."""
    calls = sorted((EVERY * number - seconds, seconds) for seconds in SKEWS for number in range(SLOTS))
    ends, passed = [], 0.0
    for at, seconds in calls:
        passed = max(passed, (first - datetime.now(UTC)).total_seconds() + at)
        done = subprocess.run(
            command, env=host(seconds, library, passed), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False,
        )  # fmt: skip
        ends.append((done.returncode, done.stdout))
    return ends


@pytest.mark.timeout(EVERY * SLOTS + 120)
def test_hosts_with_clocks_ten_seconds_apart_run_each_slot_once(skew: Path, tmp_path: Path, note: Note) -> None:
    book = tmp_path / "book"
    soon = (datetime.now(UTC) + timedelta(seconds=9)).replace(microsecond=0)
    first = soon + timedelta(seconds=-soon.second % EVERY)
    command = [
        sys.executable, "-m", "cronce", "exec", "tick", "--schedule", f"*/{EVERY} * * * * *", "--overlap", "allow",
        "--store", f"sqlite:///{tmp_path}/cronce.db", "--", "sh", "-c", f'echo "$CRONCE_SLOT" >> {book}',
    ]  # fmt: skip
    ends = (run_by_cron if REAL else run_by_hand)(first, command, skew)
    assert {*ends} == {(0, "")}
    slots = [spell(first + number * timedelta(seconds=EVERY)) for number in range(SLOTS)]
    ran = Counter(book.read_text().split())
    note({"hosts": len(SKEWS), "slots": SLOTS, "runs": sum(ran[slot] for slot in slots)})
    assert ran == Counter({*slots, *ran})  # a command that was started late is for a slot after the last of them
