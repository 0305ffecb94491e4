"""Torture of the user's own jobs: their slots and policies, a counter instead of their functions, live schedulers."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cronce import Cronce
from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.model import Slot, unspell
from cronce.stores.memory import MemoryStore
from cronce.testing.ledger_file import LedgerTail
from cronce.torture.own_jobs import refuse_live, tasks_of
from cronce.torture.store_contents import StoreContents
from cronce.torture.worker import TortureTask, TortureWorker, WorkerOrder, read_order

NOW = datetime(2026, 11, 3, 12, tzinfo=UTC)
APP = """
import os
from cronce import Cronce, Run

def note(text):
    os.environ["RAN"] = os.environ.get("RAN", "") + text + " "

cron = Cronce("memory://")

@cron.job("30 1 * * *", tz="America/New_York", on_lost="rerun", missed="all", overlap="allow")
def report():
    note("report")

@cron.job(every="15m", overlap="wait", turns=2)
def sync(run: Run):
    note(f"{run.at:%H:%M}")

@cron.job(at="2099-01-01T00:00:00Z")
def far():
    ...

@cron.job(every="1h")
async def asynchronous():
    ...
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return f"{name}:cron"


def test_the_last_slots_of_each_schedule_are_played_under_its_own_policies(app: str) -> None:
    report, sync, asynchronous = tasks_of(app, "7-mark", 2.5, 3, NOW)
    assert report[:7] == ("torture-7-mark-report", "rerun", "allow", 2.5, "all", 1, "report")
    assert report.slots == ("2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z", "2026-11-03T06:30:00Z")  # once in the fold
    assert sync[1:7] == ("skip", "wait", 2.5, "latest", 2, "sync")
    assert sync.slots == ("2026-11-03T11:15:00Z", "2026-11-03T11:30:00Z", "2026-11-03T11:45:00Z")
    assert (report.exclusive, sync.exclusive, asynchronous.exclusive) == (False, False, True)


def test_an_app_without_a_past_has_nothing_to_torture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "without_past.py").write_text("from cronce import Cronce\ncron = Cronce('memory://')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BadInput, match="has no job with a slot in the past"):
        tasks_of("without_past:cron", "7-mark", 2.5, 3, NOW)


def played(app: str, store: MemoryStore, folder: Path, *, really: bool) -> TortureWorker:
    """One process that is called for each slot of two of the jobs, twice."""
    tasks = tasks_of(app, "7-mark", 30.0, 3, NOW)[:2]
    order = WorkerOrder("w1", "memory://", str(folder), tasks, 3, 0.0, 7, slow=0.0, app=app if really else "")
    worker = TortureWorker(read_order(json.dumps(order)))
    worker.cron = Cronce(store=store)
    StoreContents(store, SystemClock(), tasks, "label").begin(NOW)
    for task in tasks:
        guard = worker.guarded(task)
        for at in 2 * task.slots:
            guard.at(Slot(task.job, unspell(at)))()
    return worker


@pytest.mark.parametrize("really", [False, True])
def test_a_counter_stands_in_for_the_functions_unless_they_shall_really_run(
    app: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, really: bool
) -> None:
    monkeypatch.setenv("RAN", "")
    store = MemoryStore()
    worker = played(app, store, tmp_path, really=really)
    lines = LedgerTail(tmp_path / "ledger").new()
    verdicts = StoreContents(store, SystemClock(), worker.order.tasks, "label").verdicts([NOW], lines)
    assert [(one.slots, one.runs, one.extra, one.missed) for one in verdicts] == [(3, 3, 0, 0), (3, 3, 0, 0)]
    assert os.environ["RAN"] == ("report report report 11:15 11:30 11:45 " if really else "")


def test_what_is_no_plain_function_cannot_really_run(app: str, tmp_path: Path) -> None:
    order = WorkerOrder("w1", "memory://", str(tmp_path), tasks_of(app, "7-mark", 2.5, 3, NOW), 3, 0.0, 7, app=app)
    with pytest.raises(BadInput, match="asynchronous is not a plain function"):
        TortureWorker(order)


def test_a_store_with_live_schedulers_is_refused() -> None:
    store, clock = MemoryStore(), SystemClock()
    refuse_live(store, clock)
    cron = Cronce(store=store)
    cron.job(every="1h", name="hourly")(lambda: None)
    with cron.start() as scheduler:
        scheduler.wait_ready()
        with pytest.raises(BadInput, match=r"^1 schedulers are alive on this store"):
            refuse_live(store, clock)
    refuse_live(store, clock)


def test_a_task_survives_the_way_to_its_process() -> None:
    task = TortureTask("t", "skip", "wait", 2.5, "latest", 2, "own", {"text": "@daily"}, ("2026-11-01T00:00:00Z",))
    order = WorkerOrder(
        "w1", "memory://", "", (task, TortureTask("u", "rerun", "allow", 2.5)), 3, 0.0, 7, app="app:cron"
    )
    assert read_order(order.written()) == order
    assert task.instants([NOW]) == [datetime(2026, 11, 1, tzinfo=UTC)]
    assert TortureTask("u", "rerun", "allow", 2.5).instants([NOW, NOW + timedelta(seconds=1)])[1] == NOW + timedelta(
        seconds=1
    )
