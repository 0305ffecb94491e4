"""Bodies of every kind in a scheduler: cancel and timeout reach each of them as far as Python can; what cannot be
stopped is fenced and reported."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cronce import Cronce, Run
from cronce.errors import LeaseLost
from cronce.protocol.record import Outcome, Record, State
from cronce.runtime.operations.actions import Operator
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
    desk = cron.at_work().desk
    (seen,) = desk.do(Operator(desk.ledger, "ann").look([slot_named(key)]))
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


STUCK = {
    "cancel": (", after it was asked to stop: cancelled by ann: enough", CANCELLED),
    "timeout": ("", "timed out after 1s"),
}
"""What else is on record of a body that could not be stopped, and why it was to stop."""


def test_what_cannot_be_stopped_is_fenced_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One that is cancelled and one that takes too long, at once: it is their leases that take time."""
    begun, release, refused = set[str](), threading.Event(), dict[str, str]()

    def stuck(run: Run) -> None:
        begun.add(run.job)
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
            cron.job(name="timeout", lease="3s", timeout="1s")(stuck)
            assert cron.start().wait_ready(60)
        keys = {name: one.trigger(name) for name in STUCK}
        wait_until(lambda: begun == STUCK.keys())
        one.cancel(keys["cancel"], "enough", by="ann")
        # by the other: they are no longer renewed
        wait_until(lambda: all(record_of(one, key).state is State.CLOSED for key in keys.values()))
        records = {name: record_of(one, key) for name, key in keys.items()}
        for name, (asked, _) in STUCK.items():
            was_gone = f"its holder {records[name].holder} did not renew its lease{asked}"
            assert (records[name].outcome, records[name].reason) == (Outcome.LOST, was_gone)
        assert refused == {}
        release.set()
        wait_until(lambda: all(f"{key} failed, but " in caplog.text for key in keys.values()))
        assert {name: record_of(one, key) for name, key in keys.items()} == records
    assert refused == {name: f"{key} is no longer ours: {STUCK[name][1]}" for name, key in keys.items()}
    assert sorted(message for message in caplog.messages if "fenced effects" in message) == sorted(
        f"{key} failed, but it was closed while this process was out of touch: only fenced effects were refused"
        for key in keys.values()
    )
