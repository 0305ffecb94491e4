"""What a process leaves for people and for the processes after it. None of it decides who runs, so a failure to write
it is nobody's error."""

import threading
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from cronce.clock import boot_id
from cronce.model import Cell, Mark, Slot, Write, machine_cell, refusals_cell
from cronce.protocol.lease import LONGEST_LEASE
from cronce.protocol.readable import readable
from cronce.protocol.record import (
    Machine,
    Refusals,
    Refused,
    decode_machine,
    decode_refusals,
    encode_machine,
    encode_refusals,
)
from cronce.runtime.desk import host_name
from cronce.runtime.flow import Flow, drive
from cronce.runtime.keeper import Keeper
from cronce.runtime.ledger import Ledger
from cronce.stores.base import Store

RECENT: Final = 20
"""How many refusals of a job a machine remembers."""

JOBS_AT_ONCE: Final = 100
"""Of more jobs than that at once, the refusals of some stay unwritten: writing them must not be a load of its own."""

REMEMBERED: Final = timedelta(days=30)
"""For how long what a machine left behind is of use to anybody."""

SPACING: Final = timedelta(seconds=15)
SAMPLES: Final = 1 + 2 * int(LONGEST_LEASE / SPACING)
"""So far apart, this many samples of the store's clock reach back over twice the longest lease."""


class Notebook:
    """What this process was refused, until it is written down, a few seconds later and in one go."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: dict[str, list[Refused]] = {}

    def refused(self, slot: Slot, why: str, keeper: Keeper) -> None:
        now = keeper.desk.ledger.know.now()
        with self._lock:
            if slot.job not in self._refused and len(self._refused) >= JOBS_AT_ONCE:
                return
            self._refused.setdefault(slot.job, []).append(Refused(slot.key, now, f"{keeper.desk.holder}: {why}"))
        keeper.later("refusals", lambda store: self.write(store, keeper))

    def write(self, store: Store, keeper: Keeper) -> None:
        with self._lock:
            refused, self._refused = self._refused, {}
        drive(note_refusals(keeper.desk.ledger, refused), store, keeper.desk.clock)


def note_refusals(ledger: Ledger, refused: dict[str, list[Refused]]) -> Flow[None]:
    keys = [refusals_cell(job, host_name()) for job in refused]
    loaded, _ = yield from ledger.carrier.load(keys)
    writes = [_noted(cell, new) for cell, new in zip(loaded.cells, refused.values(), strict=True)]
    yield from ledger.carrier.swap(writes, loaded.epoch.seen)


def _noted(cell: Cell, new: Iterable[Refused]) -> Write:
    known = readable(cell, decode_refusals) or Refusals(0, ())
    recent = (*known.recent, *new)
    value = encode_refusals(Refusals(known.times + len(recent) - len(known.recent), recent[-RECENT:]))
    return Write(cell.key, cell.version, value, Mark.FREE, ttl=REMEMBERED)


def recall_clock(ledger: Ledger) -> Flow[Cell]:
    """Go on from what other processes of this machine have seen of the store's clock, since it was booted."""
    loaded, _ = yield from ledger.carrier.load([machine_cell(boot_id() or host_name())])
    (cell,) = loaded.cells
    machine = readable(cell, decode_machine)
    if machine is not None and machine.boot_id and machine.boot_id == boot_id():
        ledger.know.recall(machine.samples)
    return cell


def leave_clock(ledger: Ledger, cell: Cell) -> Flow[None]:
    """Leave what was seen of the store's clock for the next process; `cell` is as it was recalled."""
    samples = ledger.know.remembered(SPACING, SAMPLES)
    value = encode_machine(Machine(boot_id(), samples))
    if value != cell.value:
        write = Write(cell.key, cell.version, value, Mark.FREE, ttl=REMEMBERED)
        yield from ledger.carrier.swap([write], ledger.know.epoch.seen)
