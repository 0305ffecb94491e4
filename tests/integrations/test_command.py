"""What stands between the keeper and the process of a command, where real time is too coarse to hit it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import cronce.runtime.call
from cronce.clock import SystemClock
from cronce.integrations.command import CommandSupervisor, Exec
from cronce.model import slot
from cronce.protocol.record import State, decode
from cronce.runtime.declare import declare
from cronce.runtime.flow import drive
from cronce.runtime.keeper import NOT_RENEWED, Lease
from cronce.runtime.ledger import Grant, Ledger, Wanted
from cronce.stores.sqlite import SqliteStore
from tests.house.wait import wait_until

SLOT = slot("sync", SystemClock().wall().replace(microsecond=0))


def silent(text: str, *, quiet: bool = False) -> None:
    """Nobody listens."""


def test_a_lease_that_ends_before_there_is_a_child_starts_none_and_gives_the_slot_back(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """On a starved machine the keeper may say so before the command was even prepared."""
    ran = tmp_path / "ran"
    store = SqliteStore(tmp_path / "cronce.db")
    before = CommandSupervisor.child

    def late(self: CommandSupervisor, *words: Any) -> Any:
        for lease in leases:
            lease.end(NOT_RENEWED)
        return before(self, *words)

    leases: list[Lease] = []
    made = Lease.__init__

    def noted(self: Lease, *args: Any, **named: Any) -> None:
        made(self, *args, **named)
        leases.append(self)

    monkeypatch.setattr(Lease, "__init__", noted)
    monkeypatch.setattr(CommandSupervisor, "child", late)
    with CommandSupervisor(SystemClock()) as supervisor:
        code = Exec(declare("sync"), ["touch", str(ran)], supervisor, say=silent).run(store, SystemClock(), SLOT)
    assert code == 76
    assert not ran.exists()
    (cell,) = store.load([SLOT.cell]).cells
    assert decode(cell.value).state is State.DUE
    store.close()


def test_in_a_pod_who_cannot_tell_whether_another_still_runs_asks_to_be_asked_again(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """With 0 its Job would be complete; with the code of a slot that failed it would be started no more."""
    monkeypatch.setattr(cronce.runtime.call, "LONGEST_TAKEOVER_WAIT", timedelta(0))
    store, clock, said = SqliteStore(tmp_path / "cronce.db"), SystemClock(), list[str]()
    job = declare("sync", overlap="wait", lease="1s")
    dead, begun = Ledger(store.traits, clock, "gone:1"), clock.boot()
    (grant,) = drive(dead.claim([Wanted(SLOT, job.terms(SLOT, inferred=False))]), store, clock)
    assert isinstance(grant, Grant)
    wait_until(lambda: clock.boot() > begun + 1.1)

    def say(text: str, *, quiet: bool = False) -> None:
        said.append(f"{text} {quiet}")

    with CommandSupervisor(clock) as supervisor:
        command = Exec(job, ["touch", str(tmp_path / "ran")], supervisor, job_name="by-hand", say=say)
        assert command.run(store, clock) == 75
    assert not (tmp_path / "ran").exists()
    assert [line.partition(" may still be running")[2] for line in said] == [
        ": its lease expired, but this process has not watched the store's clock long enough to take over False"
    ]
    store.close()


def test_that_the_slot_was_lost_is_said_once_with_what_to_do(tmp_path: Path) -> None:
    """It took two lines with the same reason, and said "lost already" of what it had just closed."""
    store, clock, said = SqliteStore(tmp_path / "cronce.db"), SystemClock(), list[str]()
    job = declare("sync", lease="1s")
    dead, begun = Ledger(store.traits, clock, "gone:1"), clock.boot()
    (grant,) = drive(dead.claim([Wanted(SLOT, job.terms(SLOT, inferred=False))]), store, clock)
    assert isinstance(grant, Grant)
    watching = Ledger(store.traits, clock, "other:1")
    drive(watching.client.load([SLOT.cell]), store, clock)
    wait_until(lambda: clock.boot() > begun + 1.1)
    with CommandSupervisor(clock) as supervisor:
        command = Exec(
            job, ["touch", str(tmp_path / "ran")], supervisor, stand_by=True, say=lambda text, **_: said.append(text)
        )
        assert command.run(store, clock, SLOT) == 76
    (line,) = said
    assert line.startswith(f"{SLOT.key} was lost (its holder gone:1 did not renew its lease, on gone). It was not run")
    store.close()
