"""A process that claims slots from one SQLite file until all are closed. Run as a script; it expects to be killed.

What it does is written to a plain file of lines, appended and synced by the bodies themselves: a ledger that knows
nothing of cronce, and cannot be talked into anything by it. Each has the moment at which the body made sure that it may
run: the line itself may come any time later.
"""

import os
import random
import signal
import socket
import sys
import threading
from typing import cast

from cronce.clock import SystemClock
from cronce.errors import StoreUnavailable
from cronce.model import Mark, Slot, slot_of_cell
from cronce.policy import OnLost, Overlap
from cronce.protocol.commands import Busy, Unsure
from cronce.protocol.record import Job, Outcome
from cronce.protocol.terms import Terms
from cronce.runtime.flow import drive
from cronce.runtime.ledger import Expired, Grant, Ledger, Wanted
from cronce.stores import open_store
from cronce.stores.base import Scan
from tests.faults.slots import DEATH, JOB, LEASE, SLOTS, instant


class Claimant:
    def __init__(self, url: str, book: str, on_lost: OnLost, overlap: Overlap) -> None:
        self.victim = f"{book}.victim"
        self.store = open_store(url)
        self.clock = SystemClock()
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self.ledger = Ledger(self.store.traits, self.clock, self.name)
        self.terms = Terms(LEASE, on_lost=on_lost, overlap=overlap)
        self.nothing_to_do = threading.Event()
        self.book = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, *words: object) -> None:
        os.write(self.book, (" ".join(map(str, words)) + "\n").encode())
        os.fsync(self.book)

    def run(self, grant: Grant) -> None:
        assert grant.slot is not None
        self.maybe_die()
        boot = self.clock.boot()
        if not grant.trust.holds(boot):
            return
        self.write("start", grant.slot.key, grant.fence, boot)
        self.maybe_die(surely=self.is_first())
        self.write("end", grant.slot.key, grant.fence, boot)
        self.maybe_die()
        drive(self.ledger.finish(grant, Outcome.SUCCEEDED), self.store, self.clock)
        self.maybe_die()

    def is_first(self) -> bool:
        """To be in a body, of all processes: that somebody dies in the middle of one is not left to chance."""
        try:
            os.close(os.open(self.victim, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def maybe_die(self, *, surely: bool = False) -> None:
        """As a machine that loses power: at the worst of moments, and without a word."""
        if surely or random.random() < DEATH:
            os.kill(os.getpid(), signal.SIGKILL)

    def claim(self, wanted: list[Wanted]) -> list[Slot]:
        """Those that are to be asked for again: a turn may be a dead run's, which nobody may act on yet."""
        answers = drive(self.ledger.claim(wanted), self.store, self.clock)
        for grant in answers:
            if isinstance(grant, Grant):
                self.run(grant)
        return [
            want.slot
            for want, answer in zip(wanted, answers, strict=True)
            if isinstance(answer, Busy | Unsure | Expired) and not want.known
        ]

    def work(self) -> None:
        drive(self.ledger.jobs.edit(JOB, lambda job, _now: job or Job(instant(-1))), self.store, self.clock)
        fresh = [Slot(JOB, instant(number)) for number in range(SLOTS)]
        random.shuffle(fresh)
        while fresh or self.store.scan(Scan("run/", mark=Mark.OPEN, limit=1)).cells:
            batch, fresh = fresh[:4], fresh[4:]
            overdue = drive(self.ledger.overdue(limit=8), self.store, self.clock)
            wanted = [Wanted(slot, self.terms) for slot in batch]
            wanted += [Wanted(slot_of_cell(cell.key), self.terms, known=True) for cell in overdue]
            again = self.claim(wanted)
            fresh += again
            if len(again) == len(wanted):
                self.nothing_to_do.wait(0.02)


def main() -> None:
    url, book, on_lost, overlap, seed = sys.argv[1:]
    random.seed(seed)
    claimant = Claimant(url, book, cast(OnLost, on_lost), cast(Overlap, overlap))
    while True:
        try:
            claimant.work()
            return
        except StoreUnavailable:
            continue


if __name__ == "__main__":
    main()
