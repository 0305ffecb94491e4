"""What stands between the keeper and the process of a command, where real time is too coarse to hit it."""

from pathlib import Path
from typing import Any

from cronce.clock import SystemClock
from cronce.integrations.command import Exec
from cronce.integrations.process import Supervisor
from cronce.model import slot
from cronce.protocol.record import State, decode
from cronce.runtime.declare import declare
from cronce.runtime.keeper import NOT_RENEWED, Lease
from cronce.stores.sqlite import SqliteStore

SLOT = slot("sync", SystemClock().wall().replace(microsecond=0))


def silent(text: str, *, quiet: bool = False) -> None:
    """Nobody listens."""


def test_a_lease_that_ends_before_there_is_a_child_starts_none_and_gives_the_slot_back(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """On a starved machine the keeper may say so before the command was even prepared."""
    ran = tmp_path / "ran"
    store = SqliteStore(tmp_path / "cronce.db")
    before = Supervisor.child

    def late(self: Supervisor, *words: Any) -> Any:
        for lease in leases:
            lease.end(NOT_RENEWED)
        return before(self, *words)

    leases: list[Lease] = []
    made = Lease.__init__

    def noted(self: Lease, *args: Any, **named: Any) -> None:
        made(self, *args, **named)
        leases.append(self)

    monkeypatch.setattr(Lease, "__init__", noted)
    monkeypatch.setattr(Supervisor, "child", late)
    with Supervisor(SystemClock()) as supervisor:
        code = Exec(declare("sync"), ["touch", str(ran)], supervisor, say=silent).run(store, SystemClock(), SLOT)
    assert code == 76
    assert not ran.exists()
    (cell,) = store.load([SLOT.cell]).cells
    assert decode(cell.value).state is State.DUE
    store.close()
