"""What a clock that leapt has dated ahead of the store's now: floors, which close every slot up to them, and leases.
And how that is repaired: a person confirms that the clock is right."""

from datetime import timedelta
from typing import Final

from cronce.errors import ClockOff
from cronce.model import CLOCK, FREE, Cell, Instant, Mark, Write, spell
from cronce.protocol.codec import all_readable, readable
from cronce.protocol.record import Act, decode, decode_job, encode_act
from cronce.protocol.specs import brought_back, is_floor_ahead
from cronce.protocol.store_clock import Doubt, is_ahead
from cronce.runtime.client import NEWS
from cronce.runtime.declare import CLOCK_OFF
from cronce.runtime.flow import Flow, Purge
from cronce.runtime.ledger import Ledger
from cronce.runtime.process_notes import recall_clock
from cronce.runtime.queries import load, read_all, read_page
from cronce.runtime.scheduling.roster import chunks
from cronce.schedule import format_duration
from cronce.stores.base import Scan
from cronce.value import NamedTuple

HELD: Final = ("run/", "lock/", "leader/", "once/")
"""Where leases are."""

MAX_LEASES_READ: Final = 1000
"""Leases of each kind that are looked at: those that lie furthest ahead."""


class FutureDated(NamedTuple):
    """Jobs whose floor lies ahead, leases, and signs of life of schedulers."""

    jobs: tuple[str, ...]
    leases: tuple[Cell, ...]
    holders: tuple[Cell, ...]

    def __bool__(self) -> bool:
        return any((self.jobs, self.leases, self.holders))


def find_ahead() -> Flow[FutureDated]:
    """A flow that only reads."""
    page = yield from read_all(Scan("job/"))
    known = all_readable(page.cells, decode_job)
    jobs = [cell.key.removeprefix("job/") for cell, job in known if is_floor_ahead(job, page.now)]
    leases: list[Cell] = []
    for prefix in HELD:
        found = yield from _far(prefix)
        leases += [cell for cell in found if (record := readable(cell, decode)) is not None and record.is_running]
    return FutureDated(tuple(jobs), tuple(leases), tuple((yield from _far("holder/"))))


def _far(prefix: str) -> Flow[list[Cell]]:
    page = yield from read_page(Scan(prefix, "until", Mark.OPEN, newest_first=True, limit=MAX_LEASES_READ))
    return [cell for cell in page.cells if cell.until is not None and is_ahead(cell.until, page.now)]


def clock_doubt(ledger: Ledger) -> Flow[Doubt | None]:
    """Whether this process believes the store's clock: by what this machine has seen of it before."""
    yield from ledger.client.load([]) if ledger.know.machine else recall_clock(ledger)
    return ledger.know.doubt


def set_clock(ledger: Ledger, by: str, wall: Instant) -> Flow[tuple[Instant, FutureDated]]:
    """A person confirms that the store's clock is right. Every process believes the clock from now on, and what is
    dated ahead of it is brought back. Floors come back to now, and no further: below it slots may have run, and been
    deleted."""
    loaded = yield from load([])
    off = wall - loaded.now
    if abs(off) > CLOCK_OFF:
        raise ClockOff(
            f"the store's clock says {spell(loaded.now)}, and this machine's {spell(wall)}: one of them is wrong, by"
            f" {format_duration(timedelta(seconds=round(abs(off).total_seconds())))}. Correct it first"
        )
    said = Write(CLOCK, FREE, encode_act(Act(by, loaded.now)), Mark.FREE)
    yield from ledger.client.swap([said, NEWS], loaded.epoch.seen)
    yield from ledger.client.load([])
    ledger.know.believe()
    ahead = yield from find_ahead()
    for names in chunks(ahead.jobs):
        yield from ledger.jobs.edit_all(dict.fromkeys(names, lambda job, now: job and brought_back(job, now)))
    yield from ledger.begin_anew(ahead.leases)
    if ahead.holders:  # schedulers that are alive write theirs again
        yield from ledger.client.purge(Purge(ahead.holders))
    return loaded.now, ahead
