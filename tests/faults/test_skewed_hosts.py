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
SLOTS = int(os.environ.get("CRONCE_SKEWED_SLOTS", "3"))  # `make proof` takes 100
EVERY = 4
"""Seconds. A command that a busy machine starts later than three quarters of this would be for the next slot."""
SKEWS = (-5, 0, 5)


@pytest.fixture(scope="module")
def skew(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return preload(tmp_path_factory.mktemp("skew"))


def host(seconds: int, library: Path) -> dict[str, str]:
    return {**os.environ, "LD_PRELOAD": str(library), "SKEW_SECONDS": str(seconds)}


CLOCKS = """
import sqlite3
from cronce.clock import SystemClock
now = sqlite3.connect(":memory:").execute("SELECT strftime('%Y-%m-%dT%H:%M:%S+00:00', 'now')").fetchone()[0]
print(SystemClock().wall().isoformat(), now)
"""


def test_the_library_makes_the_hosts_clock_wrong_and_not_the_stores(skew: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLOCKS], env=host(3600, skew), capture_output=True, text=True, check=True
    )
    wall, store = map(datetime.fromisoformat, done.stdout.split())
    assert timedelta(minutes=59) < wall - store < timedelta(minutes=61)


@pytest.mark.timeout(EVERY * SLOTS + 120)
def test_hosts_with_clocks_ten_seconds_apart_run_each_slot_once(skew: Path, tmp_path: Path, note: Note) -> None:
    book = tmp_path / "book"
    soon = (datetime.now(UTC) + timedelta(seconds=9)).replace(microsecond=0)
    first = soon + timedelta(seconds=-soon.second % EVERY)
    command = [
        sys.executable, "-m", "cronce", "exec", "tick", "--schedule", f"*/{EVERY} * * * * *", "--overlap", "allow",
        "--store", f"sqlite:///{tmp_path}/cronce.db", "--", "sh", "-c", f'echo "$CRONCE_SLOT" >> {book}',
    ]  # fmt: skip
    hosts = [
        subprocess.Popen(
            [sys.executable, str(HERE / "crond.py"), first.isoformat(), str(EVERY), str(SLOTS), *command],
            env=host(seconds, skew), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for seconds in SKEWS
    ]  # fmt: skip
    said = [crond.communicate(timeout=EVERY * SLOTS + 100)[0] for crond in hosts]
    assert [(crond.returncode, text) for crond, text in zip(hosts, said, strict=True)] == [(0, "")] * 3
    slots = [spell(first + number * timedelta(seconds=EVERY)) for number in range(SLOTS)]
    ran = Counter(book.read_text().split())
    note({"hosts": len(SKEWS), "slots": SLOTS, "runs": sum(ran[slot] for slot in slots)})
    assert ran == Counter({*slots, *ran})  # a command that was started late is for a slot after the last of them
