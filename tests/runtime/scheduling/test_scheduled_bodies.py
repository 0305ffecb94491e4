"""Bodies of every kind in a scheduler: cancel and timeout reach each of them as far as Python can; what cannot be
stopped is fenced and reported."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cronce import Cronce, Run
from cronce.clock import SystemClock
from cronce.errors import LeaseLost
from cronce.protocol.record import Outcome, Record, State
from cronce.runtime.hand.acts import Hand
from cronce.runtime.look import slot_named
from tests.house.wait import wait_until
from tests.integrations.execs import gone
from tests.runtime.scheduling.policies import bodies

CANCELLED = "asked to stop: cancelled by ann: enough"
REASONS = {
    "thread-cancel": f"stopped: {CANCELLED}",
    "loop-cancel": f"stopped: {CANCELLED}",
    "child-cancel": CANCELLED,
    "command-cancel": CANCELLED,
    **{f"{kind}-timeout": "timed out after 1m" for kind in bodies.KINDS},
}


class Ahead(SystemClock):
    """The machine's clock, and a test may put it forward."""

    seconds = 0.0

    def boot(self) -> float:
        return super().boot() + self.seconds


def record_of(cron: Cronce, key: str) -> Record:
    desk = cron.at_work().desk
    (seen,) = desk.do(Hand(desk.ledger, "ann").look([slot_named(key)]))
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


@pytest.mark.parametrize(
    ("policies", "asked", "why"),
    [
        ({}, ", after it was asked to stop: cancelled by ann: enough", CANCELLED),
        ({"timeout": "1s"}, "", "timed out after 1s"),
    ],
    ids=["cancel", "timeout"],
)
def test_what_cannot_be_stopped_is_fenced_and_reported(
    tmp_path: Path, policies: dict[str, Any], asked: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    begun, release, refused = threading.Event(), threading.Event(), list[str]()

    def stuck(run: Run) -> None:
        begun.set()
        try:
            release.wait()  # in C, where nothing that is thrown arrives
        finally:
            try:
                run.check()
            except LeaseLost as error:
                refused.append(f"{error}")

    url = f"sqlite:///{tmp_path}/cronce.db"
    with ExitStack() as stack:
        one, two = (stack.enter_context(Cronce(url)) for _ in range(2))
        stack.callback(release.set)
        for cron in (one, two):
            cron.job(name="stuck", lease="3s", **policies)(stuck)
            assert cron.start().wait_ready(60)
        key = one.trigger("stuck")
        assert begun.wait(60)
        if not policies:
            one.cancel(key, "enough", by="ann")
        wait_until(lambda: record_of(one, key).state is State.CLOSED)  # by the other: it is no longer renewed
        record = record_of(one, key)
        assert (record.outcome, record.reason) == (Outcome.LOST, f"its holder {record.holder} was gone{asked}")
        assert refused == []
        release.set()
        wait_until(lambda: any(message.startswith(f"{key} failed, but ") for message in caplog.messages))
        assert record_of(one, key) == record
    assert refused == [f"{key} is no longer ours: {why}"]
    assert [message for message in caplog.messages if "fenced" in message] == [
        f"{key} failed, but it was closed while this process was out of touch: only fenced effects were refused"
    ]
