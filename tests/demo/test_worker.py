"""A process of the demo goes by what it is told, and ends when nobody tells it anything any more."""

import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cronce.demo.worker import DemoOrders, DemoPlan, DemoWorker, read_plan
from cronce.testing.ledger_file import LedgerTail

AT = datetime(2026, 3, 29, 8, 17, 5, tzinfo=UTC)
PLAN = DemoPlan((AT, AT + timedelta(seconds=1)), (AT,))


def test_a_plan_is_read_as_it_was_written() -> None:
    assert read_plan(PLAN.written()) == PLAN


def test_a_held_slot_waits_for_its_word_and_the_others_do_not() -> None:
    cues = DemoOrders(iter([PLAN.written(), "report@2026-03-29T08:17:05Z\n"]))
    cues.wait("report@2026-03-29T08:17:05Z")
    cues.wait("report@2026-03-29T08:17:06Z")


def test_nothing_waits_when_all_is_over() -> None:
    cues = DemoOrders(iter([PLAN.written()]))
    cues.wait("report@2026-03-29T08:17:05Z")
    assert cues.over.wait(timeout=60)


@pytest.mark.parametrize("kind", ["guarded", "unguarded"])
def test_slots_long_past_are_called_late_rather_than_never(kind: str, tmp_path: Path) -> None:
    """A machine that could not keep up with the seconds forgets none of them."""
    command = [sys.executable, "-m", "cronce.demo.worker", kind, "web-1", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(f"{DemoPlan(PLAN.slots, ()).written()}\n")
        process.stdin.flush()
        calls, said = LedgerTail(tmp_path / f"{kind}.calls"), []
        while "through" not in said:
            said += [line.what for line in calls.new()]
            assert process.poll() is None
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    lines = LedgerTail(tmp_path / f"{kind}.ledger").new()
    assert [(line.what, line.slot[-9:-1], line.attempt) for line in lines] == [
        ("start", "08:17:05", 1), ("done", "08:17:05", 1), ("start", "08:17:06", 1), ("done", "08:17:06", 1),
    ]  # fmt: skip
    assert all((line.fence == "-") is (kind == "unguarded") for line in lines)


def test_without_a_plan_there_is_nothing_to_do(tmp_path: Path) -> None:
    worker = DemoWorker("unguarded", "web-1", tmp_path)
    thread = threading.Thread(target=worker.work, args=(iter([]),), daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert [line.what for line in LedgerTail(tmp_path / "unguarded.calls").new()] == ["ready", "through"]
