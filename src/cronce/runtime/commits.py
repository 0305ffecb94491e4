"""Runs that complete by a transaction in the user's own database (`transactions`), as the rest of a process sees them.

Such a run may be committed and never have said so. So before its body begins the fence is raised there, which says
whether an earlier run of the slot was committed; and before a run whose holder is gone is closed as lost, it is sealed:
either it was committed, and the slot succeeded, or it never will be.
"""

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from cronce.errors import BadRecord, CronceError
from cronce.model import Cell, slot_of_cell
from cronce.protocol.record import decode, effects_key
from cronce.runtime.flow import Flow
from cronce.runtime.ledger import Grant, Ledger
from cronce.runtime.log import LOGGER

if TYPE_CHECKING:
    from cronce.runtime.node import Node
    from cronce.runtime.transactions import Database


def committed_before(database: "Database", grant: Grant) -> Flow[bool]:
    """Raise the fence: whether an earlier run of the slot has committed. A flow that asks no store, but takes time."""
    assert grant.slot is not None
    yield from ()
    return database.raise_fence(effects_key(grant.record, grant.slot), grant.fence)


def sealed(database: "Database", grant: Grant) -> Flow[bool]:
    """Whether a run that ended was committed; if not, it never will be."""
    assert grant.slot is not None
    yield from ()
    return database.seal(effects_key(grant.record, grant.slot), grant.fence)


def settle_gone(ledger: Ledger, database: "Database", keys: Sequence[str]) -> Flow[None]:
    """Of these runs, close those whose holder is gone: as succeeded if they were committed, else by their on_lost."""
    gone = yield from ledger.gone(keys)
    committed = {cell.key: cell.fence for cell in _sealed(database, gone) if cell.fence is not None}
    yield from ledger.settle(gone, committed)


class Settling:
    """The same beside what a scheduler does: a database may let one wait, and must not keep others waiting. So each has
    a thread of its own while there is something to ask it."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._lock = threading.Lock()
        self._waiting: dict[Database, set[str]] = {}

    def soon(self, database: "Database", key: str) -> None:
        with self._lock:
            busy = database in self._waiting
            self._waiting.setdefault(database, set()).add(key)
        if not busy:
            threading.Thread(target=self.settle, args=(database,), name="cronce-settle", daemon=True).start()

    def settle(self, database: "Database") -> None:
        """Everything that is to be asked this database."""
        while True:
            with self._lock:
                keys, self._waiting[database] = sorted(self._waiting[database]), set()
                if not keys:
                    del self._waiting[database]
                    return
            try:
                self._node.do(settle_gone(self._node.ledger, database, keys))
            except CronceError as error:
                LOGGER.warning("%s stays open, although its holder is gone: %s", slot_of_cell(keys[0]).key, error)


def _sealed(database: "Database", gone: Iterable[Cell]) -> Iterable[Cell]:
    for cell in gone:
        try:
            key = effects_key(decode(cell.value, cell.key), slot_of_cell(cell.key))
        except BadRecord:
            continue
        if cell.fence is not None and database.seal(key, cell.fence):
            yield cell
