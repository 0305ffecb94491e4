"""What is kept of effects: they outlive the runs of their slot, since whoever runs it again must know what was done."""

from datetime import timedelta
from typing import Final

from cronce.errors import BadRecord
from cronce.model import Cell, Instant, Mark, slot_of_cell, spell
from cronce.protocol.record import State, decode
from cronce.runtime.flow import Flow, Purge
from cronce.runtime.jobs import PURGED_AT_ONCE
from cronce.runtime.ledger import Ledger
from cronce.stores.base import Scan

KEPT: Final = timedelta(days=30)
"""For how long an effect is known at least, counted from the instant of its slot."""


def needless_before(ledger: Ledger, job: str) -> Flow[Instant]:
    """Effects of slots before that instant are not needed: none of them has a run on record, nor will one have."""
    page = yield from ledger.carrier.scan(Scan(f"run/{job}/", limit=1))
    known = yield from ledger.jobs.edit(job, lambda _job, _now: None)
    now = ledger.know.now()
    oldest = [slot_of_cell(cell.key).at for cell in page.cells]
    closed = [known.floor + timedelta(seconds=1)] if known else []  # what is at the floor is closed, too
    return min([now - KEPT, *closed, *oldest])


def purge_effects(ledger: Ledger, job: str, before: Instant) -> Flow[int]:
    """Delete what is not needed; what is in doubt stays. How many went. The order of the keys is that of the slots, so
    that most times the first of them is needed, and so are all."""
    prefix, old = f"effect/{job}/", f"effect/{job}/{spell(before)}"
    first = yield from ledger.carrier.scan(Scan(prefix, limit=1))
    if not any(cell.key < old for cell in first.cells):
        return 0
    page = yield from ledger.carrier.scan(Scan(prefix, limit=PURGED_AT_ONCE))
    needless = [cell for cell in page.cells if cell.key < old and _is_sure(cell)]
    return (yield from ledger.carrier.purge(Purge(needless))) if needless else 0


def _is_sure(cell: Cell) -> bool:
    try:
        return cell.mark is not Mark.ATTENTION and decode(cell.value, cell.key).state is not State.RUNNING
    except BadRecord:
        return False
