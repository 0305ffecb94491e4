"""A scheduler that is stopped in the middle of a write to SQLite holds the file's lock: no other can claim, nor record
an end, until it goes on or is killed. Then each slot that may still start runs once; the others are on record."""

import signal
import subprocess
import sys
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest

from cronce.model import slot_of_cell
from cronce.policy import Missed
from cronce.protocol.record import TOO_LATE, Outcome, decode
from cronce.stores import open_store
from cronce.stores.base import Scan
from tests.house.wait import wait_until
from tests.runtime.scheduling.life.town import Town

Fate = Literal["goes on", "is killed"]
STOPPED = timedelta(seconds=4)
JOBS = 6


def is_stopped(process: "subprocess.Popen[str]") -> bool:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def newest(town: Town) -> datetime:
    return datetime.fromisoformat(max(line.slot for line in town.lines("start")))


def records(town: Town) -> dict[tuple[str, datetime], tuple[Outcome | None, str]]:
    """How each slot is on record."""
    store = open_store(town.url)
    cells = store.scan(Scan("run/", limit=10_000)).cells
    store.close()
    found = [(slot_of_cell(cell.key), decode(cell.value, cell.key)) for cell in cells]
    return {(slot.job, slot.at): (record.outcome, record.reason) for slot, record in found}


@pytest.mark.parametrize(("fate", "missed"), [("goes on", "latest"), ("is killed", "all")])
def test_after_a_stopped_writer_each_slot_runs_once_or_is_on_record(fate: Fate, missed: Missed, tmp_path: Path) -> None:
    """The lease ends while it is stopped: what it was about to claim is claimed anew, by itself or by the other."""
    stop, log = tmp_path / "stop", tmp_path / "log"
    policies = {"missed": missed, "overlap": "allow", "on_lost": "rerun", "lease": "3s"}
    town = Town(tmp_path, f"sqlite:///{tmp_path}/cronce.db?timeout=1", jobs=JOBS, **policies)
    try:
        command = [sys.executable, "-m", "cronce", "run", "tests.faults.stopping_app:cron"]
        writer = town.start(*command, env={"LIFE_STOP": str(stop)})
        with log.open("w") as stdout:
            other = town.run(stdout=stdout)
        town.wait_until_there(2)
        town.wait_for("end", 2 * JOBS)
        stop.touch()
        wait_until(lambda: is_stopped(writer))
        since = newest(town)
        wait_until(lambda: "cronce.db was locked by another process for 1 s" in log.read_text())
        wait_until(lambda: datetime.now(since.tzinfo) > since + STOPPED)
        assert newest(town) - since <= timedelta(seconds=1)
        writer.send_signal(signal.SIGCONT if fate == "goes on" else signal.SIGKILL)
        wait_until(lambda: newest(town) > since + 2 * STOPPED)
        for process in (writer, other):
            process.terminate()
            process.wait(60)
        check(town, missed)
    finally:
        town.close()


def check(town: Town, missed: Missed) -> None:
    starts, on_record = Counter[tuple[str, datetime]](), records(town)
    for line in town.lines("start"):
        starts[line.job, datetime.fromisoformat(line.slot)] += 1
    assert set(starts.values()) == {1}
    assert {on_record[slot] for slot in starts} == {(Outcome.SUCCEEDED, "")}
    first, last = min(at for _, at in starts), max(at for _, at in starts)
    seconds = range(round((last - first).total_seconds()))
    due = {(f"job{number}", first + timedelta(seconds=second)) for number in range(JOBS) for second in seconds}
    passed_over = due - starts.keys()
    assert {on_record[slot] for slot in passed_over} == ({(Outcome.SKIPPED, TOO_LATE)} if missed == "latest" else set())
