"""Runs that are open and whose time has come: due, waiting for their turn, to be retried, or lapsed. They stand in line
like slots, so that whatever another process leaves behind is taken up."""

from datetime import timedelta
from math import inf
from typing import Final

from cronce.errors import BadInput, BadRecord
from cronce.model import Cell, Instant, Mark, slot_of_cell
from cronce.protocol.decide import closes_as_lost
from cronce.protocol.record import State, decode
from cronce.runtime.commits import Settling
from cronce.runtime.desk import Desk
from cronce.runtime.scheduling.at_work import AtWork
from cronce.runtime.scheduling.carrying import Carrying
from cronce.runtime.scheduling.lineup import Lineup
from cronce.runtime.scheduling.waitlist import job_of
from cronce.stores.base import Page, Position, Scan

PAGES: Final = 5
"""Thousands of open runs that a look goes through."""


class LeftBehind:
    """One thread's."""

    def __init__(self, desk: Desk, carrying: Carrying, lineup: Lineup, at_work: AtWork) -> None:
        self._desk, self._carrying, self._lineup, self._at_work = desk, carrying, lineup, at_work
        self._settling = Settling(desk)
        self._after: Position | None = None  # how far the last look went through many

    def take_up(self, within: timedelta) -> float:
        """Those whose time has come; in how many seconds that of the next comes, if it does within so long. Those whose
        time came last are looked at first: what just lapsed must not stand behind what others left thousands of. Of so
        many, each look goes through some."""
        carrier = self._desk.ledger.carrier
        scan = Scan("run/", "until", Mark.OPEN, carrier.know.now() + within)
        page = self._desk.do(carrier.scan(scan._replace(newest_first=True)))
        comes = self._take_up_page(page)
        for _ in range(PAGES if page.next is not None else 0):
            page = self._desk.do(carrier.scan(scan._replace(after=self._after)))
            comes = min(comes, self._take_up_page(page))
            self._after = page.next
            if self._after is None:
                break
        return comes

    def _take_up_page(self, page: Page) -> float:
        comes = inf
        ours = [cell for cell in page.cells if job_of(cell.key) in self._carrying]
        for cell in sorted(ours, key=lambda cell: cell.key.rpartition("/")[2]):  # the older slot first
            if cell.key in self._at_work or cell.key in self._lineup.line or cell.until is None:
                continue
            if cell.until <= page.now:
                self._take_up(cell, cell.until, page.now)
            else:
                comes = min(comes, (cell.until - page.now).total_seconds())
        return comes

    def _take_up(self, cell: Cell, since: Instant, now: Instant) -> None:
        try:
            slot, record = slot_of_cell(cell.key), decode(cell.value, cell.key)
        except (BadInput, BadRecord):
            return  # of a newer cronce, or nobody's: whoever can read it sees to it
        database = self._carrying.job(slot.job).database
        if database is not None and record.state is State.RUNNING and closes_as_lost(record):
            self._settling.soon(database, cell.key)
            return
        terms = self._carrying.terms(slot)
        if record.state is State.WAITING and terms.overlap == "skip":
            terms = terms._replace(overlap="wait")
        self._lineup.add(slot, terms, since, now, known=True)
