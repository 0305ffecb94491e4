"""Bodies of every kind in a scheduler: cancel and timeout reach each of them as far as Python can; what cannot be
stopped keeps its turn, is fenced and reported."""

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from cronce import Cronce, Run
from cronce.clock import SystemClock
from cronce.errors import LeaseLost
from cronce.model import Slot
from cronce.protocol.record import Outcome, Record, State
from cronce.runtime.operations import Operator
from cronce.runtime.queries import slot_named
from tests.house.wait import wait_until
from tests.integrations.execs import gone
from tests.runtime.scheduling.policies import bodies
from tests.runtime.shelf import Ahead

CANCELLED = "asked to stop: cancelled by ann: enough"
REASONS = {
    "thread-cancel": f"stopped: {CANCELLED}",
    "loop-cancel": f"stopped: {CANCELLED}",
    "child-cancel": CANCELLED,
    "command-cancel": CANCELLED,
    **{f"{kind}-timeout": "timed out after 1m" for kind in bodies.KINDS},
}


def record_of(cron: Cronce, key: str) -> Record:
    node = cron.at_work().node
    (seen,) = node.do(Operator(node.ledger, "ann").look([slot_named(key)]))
    assert seen is not None
    assert seen.record is not None
    return seen.record


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Record]]]:
    """All of them at the same time, each triggered once; half of them are cancelled as soon as they have begun."""
    folder, clock = tmp_path_factory.mktemp("bodies"), Ahead()
    with pytest.MonkeyPatch.context() as patch, Cronce(f"sqlite:///{folder}/cronce.db", clock=clock) as cron:
        patch.setenv(bodies.FOLDER, str(folder))
        for kind in bodies.KINDS:
            bodies.declare(cron, kind)
            bodies.declare(cron, kind, timeout="1m")
        assert cron.start(workers=20).wait_ready(60)
        keys = {name: cron.trigger(name) for name in REASONS}
        for name in keys:
            wait_until((folder / f"{name}.begun").exists)
        cancelled = [key for name, key in keys.items() if name.endswith("cancel")]
        for key in cancelled:
            cron.cancel(key, "enough", by="ann")
        wait_until(lambda: all(record_of(cron, key).state is State.CLOSED for key in cancelled))
        clock.seconds = 60.0  # not before: who is asked to stop has some seconds for it
        wait_until(lambda: all(record_of(cron, key).state is State.CLOSED for key in keys.values()))
        yield folder, {name: record_of(cron, key) for name, key in keys.items()}


@pytest.mark.parametrize("name", REASONS)
def test_it_is_stopped_cleans_up_and_is_on_record(records: tuple[Path, dict[str, Record]], name: str) -> None:
    folder, found = records
    record = found[name]
    assert (record.outcome, record.reason, record.grant) == (Outcome.FAILED, REASONS[name], 1)
    pids = {(folder / f"{name}.{what}").read_text() for what in ("begun", "ended")}
    assert len(pids) == 1
    if name.startswith(("child", "command")):
        wait_until(lambda: gone(int(pids.pop())))


STUCK = {"cancel": CANCELLED, "timeout": "timed out after 1s"}
"""Why a body that cannot be stopped was to stop."""


def test_what_cannot_be_stopped_keeps_its_turn_without_trust_and_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One that is cancelled, and one that falls due each second and takes too long. Once their leases were no longer
    renewed: their own process closed them as lost, and began the next beside them, six at once."""
    begun, release, refused = list[str](), threading.Event(), dict[str, str]()

    def stuck(run: Run) -> None:
        begun.append(run.key)
        try:
            release.wait()  # in C, where nothing that is thrown arrives
        finally:
            try:
                run.check()
            except LeaseLost as error:
                refused[run.job] = f"{error}"

    url = f"sqlite:///{tmp_path}/cronce.db"
    with ExitStack() as stack:
        one, two = (stack.enter_context(Cronce(url)) for _ in range(2))
        stack.callback(release.set)
        for cron in (one, two):
            cron.job(name="cancel", lease="3s")(stuck)
            cron.job(name="timeout", every="1s", lease="3s", timeout="1s")(stuck)
            assert cron.start().wait_ready(60)
        cancelled = one.trigger("cancel")
        wait_until(lambda: len(begun) == 2)
        keys = {key.partition("@")[0]: key for key in begun}
        assert keys["cancel"] == cancelled
        one.cancel(cancelled, "enough", by="ann")
        wait_until(lambda: all(record_of(one, key).overdue == STUCK[name] for name, key in keys.items()))
        told = SystemClock().boot()
        wait_until(lambda: SystemClock().boot() > told + 2 * 3.0)  # two leases
        first = slot_named(keys["timeout"])
        later = Slot("timeout", first.at + timedelta(seconds=5))
        assert [record_of(one, key).state for key in keys.values()] == [State.RUNNING, State.RUNNING]
        assert record_of(one, later.key).reason == f"{first.key} had not ended"
        assert (sorted(begun), refused) == (sorted(keys.values()), {})
        for cron in (one, two):
            cron.pause("timeout", by="ann")
        release.set()
        wait_until(lambda: all(record_of(one, key).outcome is Outcome.FAILED for key in keys.values()))
        reasons = {name: record_of(one, key).reason for name, key in keys.items()}
    went_on = r"(?:stopped: )?{}, but kept running for \d+s: isolate=True runs it in a process that can be killed"
    assert all(re.fullmatch(went_on.format(re.escape(STUCK[name])), reason) for name, reason in reasons.items())
    assert refused == {name: f"{key} lost its lease: {STUCK[name]}" for name, key in keys.items()}
    assert sum("is overdue: it was told to stop" in message for message in caplog.messages) == 2


def test_a_worker_whose_run_does_not_stop_does_not_count(tmp_path: Path) -> None:
    """With all of them taken nothing more would run, and yet the process called itself ready."""
    clock, begun, release = Ahead(), threading.Event(), threading.Event()
    with Cronce(f"sqlite:///{tmp_path}/cronce.db", clock=clock) as cron:

        @cron.job(name="stuck", timeout="1m")
        def _stuck() -> None:
            begun.set()
            release.wait()

        scheduler = cron.start(workers=1)
        assert scheduler.wait_ready(60)
        cron.trigger("stuck")
        assert begun.wait(60)
        clock.put_forward(cron, 61)
        wait_until(lambda: scheduler.engine.running[0].lease.over)
        no_worker = [scheduler.vitals.no_worker]
        clock.put_forward(cron, 3)
        assert [*no_worker, scheduler.vitals.no_worker] == [False, True]
        release.set()
        wait_until(lambda: not scheduler.vitals.no_worker)
