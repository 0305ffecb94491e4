"""Runs that complete by a transaction in the user's own database (`joined`), as the rest of the process sees them.

Such a run may be committed and never have said so. So before its body begins the fence is raised there, which says
whether an earlier run of the slot was committed; and before a run whose holder is gone is closed as lost, it is sealed:
either it was committed, and the slot succeeded, or it never will be.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from cronce.errors import BadRecord, DatabaseUnavailable
from cronce.model import Cell, slot_of_cell
from cronce.protocol.record import decode, effects_key
from cronce.runtime.flow import Flow, drive
from cronce.runtime.ledger import Grant, Ledger
from cronce.runtime.log import LOGGER

if TYPE_CHECKING:
    from cronce.runtime.joined import Database
    from cronce.runtime.keeper import Keeper
    from cronce.stores.base import Store


def committed_before(database: "Database", grant: Grant) -> Flow[bool]:
    """Raise the fence: whether an earlier run of the slot has committed. A flow that asks no store, but takes time."""
    assert grant.slot is not None
    yield from ()
    return database.raise_fence(effects_key(grant.record, grant.slot), grant.fence)


def settle_gone(ledger: Ledger, database: "Database", keys: Sequence[str]) -> Flow[None]:
    """Of these runs, close those whose holder is gone: as succeeded if they were committed, else by their on_lost."""
    gone = yield from ledger.gone(keys)
    committed = {cell.key: cell.fence for cell in _sealed(database, gone) if cell.fence is not None}
    yield from ledger.settle(gone, committed)


def settle_soon(keeper: "Keeper", database: "Database", key: str) -> None:
    """The same on the keeper's thread: a database may let one wait."""

    def chore(store: "Store") -> None:
        try:
            drive(settle_gone(keeper.desk.ledger, database, [key]), store, keeper.desk.clock)
        except DatabaseUnavailable as error:
            LOGGER.warning("%s: its holder is gone, and it stays open: %s", slot_of_cell(key).key, error)

    keeper.later(f"settle {key}", chore, soon=True)


def _sealed(database: "Database", gone: Iterable[Cell]) -> Iterable[Cell]:
    for cell in gone:
        try:
            key = effects_key(decode(cell.value, cell.key), slot_of_cell(cell.key))
        except BadRecord:
            continue
        if cell.fence is not None and database.seal(key, cell.fence):
            yield cell
