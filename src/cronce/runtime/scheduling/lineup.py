"""What a scheduler will try, and from where it knows of it: slots of its agenda as they fall due, and slots that were
missed. Each stands in line (`waitlist`) at the place that this process has among the live ones."""

from collections import deque
from collections.abc import Iterator, Sequence, Set
from datetime import timedelta
from itertools import islice
from typing import Final

from cronce.model import Boot, Instant, Slot
from cronce.runtime.desk import Desk
from cronce.runtime.ledger import Terms
from cronce.runtime.scheduling.carrying import Carrying
from cronce.runtime.scheduling.missed import Gap, catch_up, newest_run
from cronce.runtime.scheduling.roster import Roster
from cronce.runtime.scheduling.waitlist import AT_ONCE, Candidate, Waitlist
from cronce.schedule.agenda import Agenda
from cronce.schedule.slots import GRACE

NEEDED: Final = 1000
"""How many jobs a look reads that will be due before the next but one."""


class Lineup:
    """One thread's. `fires`: whether this process claims just now, and finds what is due."""

    def __init__(self, desk: Desk, carrying: Carrying, roster: Roster) -> None:
        self._desk, self._ledger, self._know = desk, desk.ledger, desk.ledger.know
        self._carrying, self._roster = carrying, roster
        self._agenda = Agenda()
        self._due: deque[tuple[str, Instant]] = deque()
        self.line = Waitlist()

    @property
    def behind(self) -> bool:
        """Whether something is due that does not stand in line yet."""
        return bool(self._due)

    def ahead(self, *, fires: bool) -> list[Instant]:
        """When there is something to do."""
        upcoming = self._agenda.next_at() if fires else None
        return [at for at in (self.line.next_at(), upcoming) if at is not None]

    def needed(self, boot: Boot, soon: timedelta) -> Iterator[str]:
        """Jobs that this process is about to claim a slot of, and whose facts will be too old for that by then."""
        for name, at in islice(self._agenda.upcoming(self._know.now() + soon), NEEDED):
            old = self._know.fresh_until(name) < boot + soon.total_seconds()
            if old and self._roster.place(Slot(name, at)) <= 1:
                yield name

    # --- jobs that come and go ---

    def drop(self, names: Set[str]) -> None:
        for name in names:
            self._agenda.remove(name)
        self.line.drop(names)

    def settle_in(self, names: Set[str]) -> None:
        """What is new is put on the agenda, from where the schedulers before left off."""
        now = self._know.now()
        gaps: list[Gap] = []
        for name in sorted(names):
            job = self._carrying.job(name)
            if job.schedule is None:
                continue
            self._agenda.add(name, job.schedule, now)
            known = self._know.job(name)
            floor = known.job.floor if known and known.job else now
            latest = job.schedule.previous(now + timedelta(seconds=1))
            if latest is not None and latest > floor:
                gaps.append(Gap(job, self._carrying.digest(name), self._since(name, floor, latest)))
        self._try_missed(gaps, now)

    def _since(self, name: str, floor: Instant, latest: Instant) -> Instant:
        """From where on nobody may have looked. The latest slot is looked at in any case, and under missed="all" each
        that has no record: whoever died may have had some of them in line."""
        if self._carrying.job(name).missed == "all":
            return floor
        before = self._roster.looked_after(name) or self._desk.do(newest_run(self._ledger, name)) or floor
        return max(floor, min(before - GRACE, latest - timedelta(seconds=1)))

    # --- standing in line ---

    def fill(self, *, fires: bool) -> bool:
        """Have what is due now stand in line. Whether the store was asked something."""
        now = self._know.now()
        gaps = self._pop_due(now) if fires else []
        self._try_missed(gaps, now)
        for gap in gaps:
            self._agenda.skip_to(gap.job.name, now)
        for _ in range(min(len(self._due), AT_ONCE)):  # of many, the first need not wait for the last to stand in line
            name, at = self._due.popleft()
            if name in self._carrying:
                slot = Slot(name, at)
                terms = self._carrying.terms(slot)
                self.add(slot, terms, at + terms.delay, now)
        self.line.ripen(now)
        return bool(gaps)

    def _pop_due(self, now: Instant) -> list[Gap]:
        """What was missed, which is found again until it was seen to; the rest is due."""
        popped = self._agenda.pop_due(now)
        self._due.extend(popped.slots)
        for name, since in popped.behind:
            self._agenda.skip_to(name, since)
        return [Gap(self._carrying.job(name), self._carrying.digest(name), since) for name, since in popped.behind]

    def _try_missed(self, gaps: Sequence[Gap], now: Instant) -> None:
        for slot in self._desk.do(catch_up(self._ledger, gaps, now)) if gaps else ():
            terms = self._carrying.terms(slot)
            if terms.overlap == "skip" and self._carrying.job(slot.job).missed == "all":
                terms = terms._replace(overlap="wait")  # each of a backlog is wanted
            self.add(slot, terms, slot.at + terms.delay, now)

    def add(self, slot: Slot, terms: Terms, due: Instant, now: Instant, *, known: bool = False) -> None:
        place = self._roster.place(slot)
        self.line.add(Candidate(slot, slot.cell, terms, due, known, self._ledger.nonce()), place, now)
