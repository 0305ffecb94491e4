"""How many requests to the store it takes: of each walk exactly these, and no more."""

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from cronce import Cronce
from cronce.runtime import flow
from cronce.stores.base import Store
from tests.runtime.scheduling.manual_cluster import ManualCluster

TRACED = """
import sys
from cronce.cli import main
from tests.runtime.test_requests import counting

with counting() as requests:
    code = main(sys.argv[1:])
print(*requests)
sys.exit(code)
"""


@contextmanager
def counting() -> Iterator[list[str]]:
    """The kinds of the requests that this thread makes, in order: those of a thread that another test left behind are
    not counted."""
    requests: list[str] = []
    right, here = flow.perform, threading.get_ident()

    def perform(store: Store, request: flow.Request) -> flow.Reply:
        if threading.get_ident() == here:
            requests.append(type(request).__name__)
        return right(store, request)

    with patch.object(flow, "perform", perform):
        yield requests


def test_a_warm_guarded_call_claims_and_ends(tmp_path: Path) -> None:
    with Cronce(f"sqlite:///{tmp_path}/cronce.db") as cron:

        @cron.job("* * * * *", start_within="1d")
        def billing() -> None: ...

        now = cron.at_work().node.clock.wall().replace(second=0, microsecond=0)
        billing.at(now - timedelta(minutes=2))()
        with counting() as requests:
            billing.at(now - timedelta(minutes=1))()
    assert requests == ["Swap", "Swap"]


@pytest.mark.parametrize("schedule", ["every 1s", "every 1h"])
def test_exec_of_a_known_job_reads_looks_claims_and_ends(tmp_path: Path, schedule: str) -> None:
    """The look is for slots of the job that nobody looks after: crontabs have nobody else who would."""
    exec_ = ("exec", "billing", "--schedule", schedule, "--store", f"sqlite:///{tmp_path}/cronce.db")
    made = []
    for at in ("2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"):
        words = (*exec_, "--slot", at, "--start-within", "3650d", "--", "true")
        command = [sys.executable, "-c", TRACED, *words]
        done = subprocess.run(command, check=False, cwd=Path(__file__).parents[2], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        made.append(done.stdout.split())
    assert made[1] == ["Load", "Scan", "Swap", "Swap"]


def test_slots_that_fall_due_together_are_claimed_by_one_swap_and_end_by_another() -> None:
    cron = Cronce("sqlite:///:memory:")
    for number in range(250):
        cron.job(every="6s", name=f"job-{number}")(lambda: None)
    with ManualCluster(cron) as cluster:
        cluster.join("web-1:1:a", workers=250)
        cluster.turn_to(5_900)
        with counting() as requests:
            cluster.turn_to(6_500)
        assert len(cluster.begun) == 250
        assert Counter(requests)["Swap"] == 2
