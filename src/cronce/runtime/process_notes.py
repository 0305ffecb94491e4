"""What a process leaves for people and for the processes after it. None of it decides what runs, so a failure to
write it is no error."""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

from cronce.clock import boot_id
from cronce.errors import StoreUnavailable
from cronce.model import (
    FREE,
    LOOKED_ON,
    SWITCH,
    Cell,
    Mark,
    Slot,
    Write,
    guest_cell,
    job_cell,
    machine_cell,
    refusals_cell,
)
from cronce.protocol.codec import readable
from cronce.protocol.lease import LONGEST_LEASE
from cronce.protocol.notices import (
    ForeignJob,
    ForeignScheduler,
    Machine,
    Refusals,
    Refused,
    decode_machine,
    decode_refusals,
    encode_notice,
)
from cronce.runtime.client import MAX_ROUNDS, WAKE
from cronce.runtime.flow import Flow, drive
from cronce.runtime.ledger import Ledger
from cronce.runtime.node import host_name
from cronce.runtime.prevented import PreventedBatch, counted
from cronce.stores.base import Store

if TYPE_CHECKING:
    from cronce.runtime.keeper import Keeper

REFUSALS_KEPT: Final = 20
"""How many refusals of a job a machine remembers."""

JOBS_AT_ONCE: Final = 100
"""Of more jobs than that at once, the refusals of some stay unwritten: writing them must not be a load of its own."""

UNASKED: Final = "could not ask the store: "
UNSTARTED: Final = "could not start its command: "
"""The beginnings of the reasons for a call that failed before the store was reached."""

NOTES_TTL: Final = timedelta(days=30)
"""For how long what a machine left behind is of use to anybody."""

SPACING: Final = timedelta(seconds=15)
SAMPLES_KEPT: Final = 1 + 2 * int(LONGEST_LEASE / SPACING)
"""So far apart, this many samples of the store's clock reach back over twice the longest lease."""


WATCHED_FOR: Final = timedelta(seconds=10)
"""For how long a record counts that a page is watching."""


class UnwrittenRefusals:
    """What this process was refused, until it is written down, a few seconds later and in one go."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: dict[str, list[Refused]] = {}

    def refused(self, slot: Slot, why: str, keeper: "Keeper") -> None:
        now = keeper.node.ledger.know.now()
        with self._lock:
            if slot.job not in self._refused and len(self._refused) >= JOBS_AT_ONCE:
                return
            self._refused.setdefault(slot.job, []).append(Refused(slot.key, now, f"{keeper.node.holder}: {why}"))
        keeper.later("refusals", lambda store: self.write(store, keeper))

    def write(self, store: Store, keeper: "Keeper") -> None:
        """With them goes what was counted (`prevented`): that is kept until it is written."""
        ledger, counts = keeper.node.ledger, keeper.prevented
        with counts.writing:
            while (unwritten := counts.take(ledger.nonce())) or self._refused:
                with self._lock:
                    refused, self._refused = self._refused, {}
                drive(note_refusals(ledger, refused, unwritten), store, keeper.node.clock)
                counts.written()


def note_refusals(
    ledger: Ledger, refused: Mapping[str, Sequence[Refused]], unwritten: PreventedBatch | None = None
) -> Flow[None]:
    """All at once; and again for those where another process was faster, or no answer came."""
    left: dict[str, Callable[[Cell], Write | None]] = {}
    for job, new in refused.items():
        left[refusals_cell(job, host_name())] = partial(_noted, new)
    if unwritten is not None:
        for job, days in unwritten.counts.items():
            left[unwritten.cell(job)] = partial(counted, unwritten.id, days)
    cells = (yield from ledger.client.load([*left]))[0].cells
    for _ in range(MAX_ROUNDS):
        writes = [write for cell in cells if (write := left[cell.key](cell))]
        if not writes:
            return
        try:
            swapped, _ = yield from ledger.client.swap(writes, ledger.know.epoch.seen)
            cells = [verdict.cell for verdict in swapped.verdicts if verdict.refused]
        except StoreUnavailable:  # it may have landed
            cells = (yield from ledger.client.load([*left]))[0].cells
    raise StoreUnavailable(f"could not record refusals: other processes wrote first {MAX_ROUNDS} times in a row")


def _noted(new: Iterable[Refused], cell: Cell) -> Write | None:
    """What a machine was refused of a job, and these, unless they are noted already."""
    known = readable(cell, decode_refusals) or Refusals(0, ())
    recent = (*known.recent, *(one for one in new if one not in known.recent))
    if len(recent) == len(known.recent):
        return None
    value = encode_notice(Refusals(known.times + len(recent) - len(known.recent), recent[-REFUSALS_KEPT:]))
    return Write(cell.key, cell.version, value, Mark.FREE, ttl=NOTES_TTL)


def own_cell() -> str:
    """Of this machine, since it was booted."""
    return machine_cell(boot_id() or host_name())


def recall_clock(ledger: Ledger, job: str = "") -> Flow[None]:
    """Go on from what other processes of this machine have seen of the store's clock, since it was booted. The job that
    the process is about to claim a slot of is read with it."""
    about = [job_cell(job), SWITCH] if job else []
    loaded, _ = yield from ledger.client.load([own_cell(), *about])
    cell, *about_job = loaded.cells
    if about_job:
        ledger.know.learn_switch(about_job[1])
        ledger.know.learn_job(job, about_job[0], loaded)
    ledger.know.machine, machine = cell, readable(cell, decode_machine)
    if machine is not None and machine.boot_id and machine.boot_id == boot_id():
        ledger.know.recall(machine.samples)
        ledger.client.tell_doubt()


def recall_once(ledger: Ledger) -> Flow[None]:
    """The same, unless this process has done so before."""
    if ledger.know.machine is None:
        yield from recall_clock(ledger)


def clock_note(ledger: Ledger) -> list[Write]:
    """What was seen of the store's clock, for the next process, over what it was last read as. Not every store has room
    for it."""
    cell = ledger.know.machine
    if cell is None or not ledger.client.traits.history:
        return []
    tzdata, known = tzdata_version(), None
    if not tzdata and '"tzdata"' in cell.value:  # of a process before this one, which needed it
        known = readable(cell, decode_machine)
    said = (known.host, known.tzdata) if known else (host_name() if tzdata else "", tzdata)
    value = encode_notice(Machine(boot_id(), ledger.know.remembered(SPACING, SAMPLES_KEPT), *said))
    return [] if value == cell.value else [Write(cell.key, cell.version, value, Mark.FREE, ttl=NOTES_TTL)]


def leave_clock(ledger: Ledger) -> Flow[None]:
    """If another process of this machine is faster, that is as good."""
    note = clock_note(ledger)
    if note:
        yield from ledger.client.swap(note, ledger.know.epoch.seen)


def looked_on(ledger: Ledger, *, says: bool) -> Flow[int]:
    """How many writes the store has seen. With `says`, also record that a page is watching. Another page may have
    recorded it just now: that is as good. A page that is watching has also watched the store's clock, and so knows
    which leases have expired."""
    loaded, _ = yield from ledger.client.load([LOOKED_ON])
    if says:
        until = loaded.cells[0].until
        begins = [WAKE] if until is None or until <= loaded.now else []  # schedulers at rest are to look, too
        writes = [Write(LOOKED_ON, FREE, "", Mark.FREE, ttl=WATCHED_FOR), *begins]
        yield from ledger.client.swap(writes, loaded.epoch.seen)
    return loaded.epoch.tally


# --- time zones ---


def tzdata_version() -> str:
    """The version of the time zone database that this process reads, such as 2026a; "" if it reads none, or it is
    unknown."""
    zoneinfo = sys.modules.get("zoneinfo")  # who needs a zone has imported it
    return _version_in(zoneinfo.TZPATH) if zoneinfo else ""


@lru_cache(maxsize=10)
def _version_in(places: Sequence[str]) -> str:
    """As Python looks for zones: in the system's database, then in the package."""
    for place in places:
        for name, prefix in (("tzdata.zi", "# version "), ("+VERSION", "")):
            with suppress(OSError), open(f"{place}/{name}", encoding="ascii", errors="replace") as file:  # noqa: PTH123
                return file.readline().strip().removeprefix(prefix)[:20]
        if os.path.isdir(f"{place}/Europe"):  # noqa: PTH112  zones of unknown age
            return ""
    with suppress(ImportError):
        return str(import_module("tzdata").IANA_VERSION)
    return ""


# --- schedulers that are not ours, in processes that we guard. They record now and then that they are alive, and what
# they have to fire.

SIGN_EVERY: Final = 20.0
"""Seconds between two signs of such a scheduler."""

SIGN_TTL: Final = timedelta(seconds=60)
"""Without a sign for this long, it counts as gone."""

MAX_JOBS_TOLD: Final = 50
"""At most this many of its jobs are listed with when they are due: the next ones."""


def announce_scheduler(ledger: Ledger, kind: str, jobs: Sequence[ForeignJob]) -> Flow[None]:
    """A scheduler of that kind is in this process, with these jobs, the next first."""
    if not ledger.client.traits.history:  # no room for it
        return
    scheduler = ForeignScheduler(ledger.client.holder, kind, tuple(jobs[:MAX_JOBS_TOLD]))
    write = Write(guest_cell(scheduler.holder), FREE, encode_notice(scheduler), Mark.FREE, ttl=SIGN_TTL)
    yield from ledger.client.swap([write], ledger.know.epoch.seen)
