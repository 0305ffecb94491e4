"""How many requests to the store it takes: of each walk exactly these, and no more."""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from bench.fleet import Fleet, fill
from cronce import Cronce
from cronce.cli import main
from cronce.runtime import flow
from cronce.runtime.queries import _WHOLE
from cronce.stores import open_store
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


# --- who looks: a flow makes a request for all jobs, not for each ---------------------------------------------------

FLEET = Fleet(jobs=60, runs=40, open=2, attention=2, effects=300, doubtful=3, refused=60)
"""More runs than are read at once."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = f"sqlite:///{tmp_path_factory.mktemp('fleet')}/cronce.db"
    with closing(open_store(made)) as store:
        fill(store, FLEET)
    return made


def looked(*words: str) -> list[str]:
    _WHOLE.clear()
    with counting() as requests:
        assert main([*words]) == 0
    return requests


def test_cronce_jobs(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It was one request for each job: 66."""
    assert looked("jobs", "--store", url, "--json") == ["Scan", "Scan", "Scan", "Scan", "Load", "Scan"]
    listed = json.loads(capsys.readouterr().out)["jobs"]
    assert [job["last"] is not None for job in listed] == [True] * FLEET.jobs


def test_cronce_why_of_a_job(url: str) -> None:
    """It was 23, and two for each slot more. The last one counts the duplicates that were prevented."""
    clock, ahead, job = ["Load"], ["Scan", "Scan"], ["Load", "Scan"]
    slots, effects, prevented = ["Scan", "Scan", "Load"], ["Scan", "Scan", "Scan"], ["Scan"]
    assert looked("why", FLEET.name(5), "--store", url) == [*clock, *ahead, *job, *slots, *effects, *prevented]


def test_cronce_why_of_a_slot(url: str) -> None:
    with closing(open_store(url)) as store:
        slot = list(FLEET.slots(5, store.load([]).now))[7]
    clock, ahead, job, refused, effects = ["Load"], ["Scan", "Scan"], ["Load", "Scan"], ["Scan"], ["Scan"] * 3
    assert looked("why", slot.key, "--store", url) == [*clock, *ahead, *job, *refused, *effects]
