"""Looking at a store: which jobs, runs and locks it knows, on stores that the real ledger wrote."""

import json
from datetime import timedelta

import pytest

from cronce.model import lock_cell
from cronce.runtime import queries
from cronce.runtime.declare import declare
from cronce.runtime.ledger import Grant
from cronce.runtime.queries import LATEST_RUNS, held, job_names, latest_runs
from cronce.runtime.run_lists import runs
from cronce.runtime.stored_jobs import listed
from cronce.schedule import Cron, Every, spec_of
from tests.runtime.ran import keys, ran, slot
from tests.runtime.shelf import LEASE, START, HandClock, HandNode, Wire, beat

# --- jobs ---


def test_a_job_has_the_schedule_that_fires_it_its_next_slot_and_its_last_run(node: HandNode, clock: HandClock) -> None:
    old, new = Cron("0 9 * * *"), Cron("0 10 * * *", tz="Europe/Berlin")
    for version, schedule in (("v1", old), ("v2", new)):
        text = json.dumps({"schedule": spec_of(schedule), "overlap": "wait"})
        beat(node, {"mail": (version, text)})
    ran(node, slot("billing", 0))
    now, (billing, mail) = node.do(listed())
    assert now == clock.wall()
    assert (mail.seen.schedules, mail.seen.former) == ((new,), (old,))
    assert mail.seen.policies == {"overlap": "wait"}
    assert (mail.next, mail.last) == (new.next(START), None)
    assert (billing.seen.schedule, billing.next) == (None, None)
    assert billing.last is not None
    assert billing.last.shown == "succeeded"


def test_a_job_that_no_version_fires_has_all_schedules_it_was_called_with(node: HandNode) -> None:
    one, two = Every("10m"), Every("15m")
    for version, schedule in (("v1", one), ("v2", two), ("v3", one)):
        policies = {"retries": int(version[1])}
        text = json.dumps({"schedule": spec_of(schedule), **policies})
        node.do(node.ledger.jobs.declare("mail", (version, text), START))
    _, (mail,) = node.do(listed())
    assert mail.seen.schedules == (one, two)
    assert mail.seen.policies == {"retries": 3}
    assert mail.next == START + timedelta(minutes=10)


@pytest.mark.parametrize(
    "text", ["", "every 5m", "[]", "3", '{"schedule": null}', '{"schedule": {"text": "nonsense"}}']
)
def test_a_version_without_a_schedule_of_ours_has_none(node: HandNode, text: str) -> None:
    beat(node, {"mail": ("v1", text)})
    _, (mail,) = node.do(listed())
    assert mail.seen.schedules == ()


def test_a_job_of_a_newer_cronce_is_listed_and_unreadable(node: HandNode, store: Wire) -> None:
    ran(node, slot("mail", 0))
    store._cells["job/mail"] = store._cells["job/mail"]._replace(value='{"v":99}')
    _, (mail,) = node.do(listed())
    assert (mail.seen.name, mail.seen.job) == ("mail", None)
    assert mail.seen.trouble.endswith("upgrade cronce")
    assert node.do(job_names()) == ["mail"]


def test_looking_writes_nothing(node: HandNode, store: Wire) -> None:
    ran(node, slot("mail", 0))
    store.calls.clear()
    for flow in (listed(), runs(None, None, 10), held("lock/")):
        node.do(flow)
    assert "swap" not in store.calls


# --- locks ---


def test_a_lock_is_held_lapsed_resting_or_free_and_remembers_who_had_it(node: HandNode, clock: HandClock) -> None:
    grants = {}
    for name in ("free", "held", "resting"):
        grant = node.do(node.ledger.acquire(lock_cell(name)))
        assert isinstance(grant, Grant)
        grants[name] = grant
    node.do(node.ledger.acquire(lock_cell("lapsed"), LEASE))
    clock.turn(LEASE.total_seconds())
    node.do(node.ledger.release([grants["free"]]))
    node.do(node.ledger.release([grants["resting"]], rest=timedelta(minutes=1)))
    found = {lock.name: lock for lock in node.do(held("lock/")).held}
    assert {name: lock.state for name, lock in found.items()} == {
        "free": "free",
        "held": "held",
        "lapsed": "lapsed",
        "resting": "resting",
    }
    record = found["free"].record
    assert record is not None
    (past,) = record.past
    assert (past.holder, past.started, past.ended, past.end) == ("web-1", START, START + LEASE, "released")
    assert found["resting"].cell.until == START + LEASE + timedelta(minutes=1)


# --- the latest runs of many jobs ---


def test_the_latest_runs_are_found_wherever_they_stand(
    node: HandNode, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among the latest of all; by a schedule that the job has, or had; by hand; and of a job without one."""
    monkeypatch.setattr(queries, "LATEST_RUNS", LATEST_RUNS._replace(limit=2))
    for name, schedule in (("steady", "1s"), ("called", None), ("changed", "5s"), ("changed", "1h"), ("young", "1s")):
        version, text = declare(name, every=schedule).spec if schedule else ("v", "{}")
        node.do(node.ledger.jobs.declare(name, (version, text), START))
    clock.turn(20)
    for name, seconds in (("changed", (5, 10, 15)), ("called", (1, 2, 5)), ("steady", (1, 2, 3, 4))):
        for second in seconds:
            ran(node, slot(name, second))
    clock.turn(10)
    ran(node, slot("steady", 1, "again"))
    ran(node, slot("young", 29))
    _, lines = node.do(listed())
    found = node.do(latest_runs([line.seen for line in lines], 3))
    assert {name: keys(runs) for name, runs in found.items()} == {
        "called": ["called@12:00:05Z", "called@12:00:02Z", "called@12:00:01Z"],
        "changed": ["changed@12:00:15Z", "changed@12:00:10Z", "changed@12:00:05Z"],
        "steady": ["steady@12:00:01Z#again", "steady@12:00:04Z", "steady@12:00:03Z"],
        "young": ["young@12:00:29Z"],
    }
    assert [keys([line.last]) for line in lines if line.last] == [[keys(runs)[0]] for runs in found.values()]


def test_a_run_that_was_asked_for_is_the_last_of_a_job_that_seldom_runs(
    node: HandNode, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key is off the schedule: where others had run often since, the run before it was shown."""
    monkeypatch.setattr(queries, "LATEST_RUNS", LATEST_RUNS._replace(limit=2))
    for name, every in (("seldom", "10s"), ("steady", "1s")):
        node.do(node.ledger.jobs.declare(name, declare(name, every=every).spec, START))
    clock.turn(15)
    for key in (slot("seldom", 10), slot("seldom", 15, "t-0badcafe")):
        ran(node, key)
    clock.turn(20)
    for second in (28, 29):
        ran(node, slot("steady", second))
    _, lines = node.do(listed())
    assert [keys([line.last]) for line in lines if line.last] == [["seldom@12:00:15Z#t-0badcafe"], ["steady@12:00:29Z"]]
