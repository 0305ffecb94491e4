"""The jobs that a process carries, and its current runs: which run holds which turn, which are asked to stop, and what
is reported about them."""

from collections import Counter
from collections.abc import Callable, Mapping, Set
from datetime import timedelta
from itertools import islice
from typing import Final

from cronce.events import What
from cronce.model import Boot, Cell, Instant, Slot
from cronce.protocol.lease import LONGEST_LEASE
from cronce.protocol.terms import Terms
from cronce.runtime.attempt import Attempt
from cronce.runtime.declare import Declaration
from cronce.runtime.keeper import Keeper
from cronce.runtime.ledger import Grant
from cronce.runtime.log import LOGGER
from cronce.runtime.scheduling.roster import Code, Specs, digest_of
from cronce.runtime.scheduling.waitlist import Candidate
from cronce.runtime.stored_jobs import RunnableJob
from cronce.schedule import format_duration

Carry = Callable[[], Mapping[str, RunnableJob]]
"""What this process carries just now."""


class CarriedJobs:
    """The jobs of this process, the version of each, and the terms on which its slots are claimed."""

    def __init__(self) -> None:
        self._carried: Mapping[str, RunnableJob] = {}
        self._terms: dict[str, tuple[timedelta | None, Terms]] = {}
        self.specs: Specs = {}
        self.shortest_lease = LONGEST_LEASE
        self.code: Code = {}
        self.bundle = digest_of({})

    def __contains__(self, name: str) -> bool:
        return name in self._carried

    def __getitem__(self, name: str) -> RunnableJob:
        return self._carried[name]

    def job(self, name: str) -> Declaration:
        return self._carried[name].job

    def digest(self, name: str) -> str:
        return self.specs[name][0]

    def take_on(self, carried: Mapping[str, RunnableJob]) -> tuple[Set[str], Set[str]]:
        """From now on exactly these. Which of them are new, or other than before, and which are so no more."""
        before = self._carried
        same = {name for name, one in carried.items() if name in before and before[name].job == one.job}
        new = {name: one.job.spec for name, one in carried.items() if name not in same}
        self._carried = dict(carried)
        self.specs = {name: self.specs[name] for name in same} | new
        self.code = {name: one.job.code for name, one in carried.items() if one.job.code}
        self.bundle = digest_of(self.specs, self.code)
        self._terms.clear()
        leases = [one.job.lease for one in carried.values() if one.job.lease is not None]
        self.shortest_lease = min(leases, default=LONGEST_LEASE)
        return new.keys(), before.keys() - same

    def terms(self, slot: Slot) -> Terms:
        """Most slots of a job are claimed on the same."""
        job = self.job(slot.job)
        if slot.request or job.jitter is not None:
            return self._made(slot)
        gap, known = job.gap_after(slot.at), self._terms.get(slot.job)
        if known is None or known[0] != gap:
            known = self._terms[slot.job] = gap, self._made(slot)
        return known[1]

    def _made(self, slot: Slot) -> Terms:
        terms = self.job(slot.job).terms(slot, inferred=False)
        return terms._replace(outside=False, digest=self.digest(slot.job))


HEEDED: Final = 500
"""How many runs a look checks for a request to stop; the others learn of it with their next renewal."""

LATE: Final = timedelta(seconds=5)
"""A slot that starts later than this after it was due is reported."""

Tell = Callable[[What, str, str], None]
"""What happened, to which run, and more of it in words."""


class LocalRuns:
    """Used by one thread. Any thread may call `all`."""

    def __init__(self, keeper: Keeper, tell: Tell) -> None:
        self._keeper, self._tell = keeper, tell
        self._running: dict[str, Attempt] = {}
        self._told: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, cell: str) -> bool:
        return cell in self._running

    @property
    def all(self) -> list[Attempt]:
        return list(self._running.values())

    def turns(self) -> Counter[str]:
        """How many runs there are of each job."""
        return Counter([attempt.job.name for attempt in self._running.values()])

    def employ(self, candidate: Candidate, grant: Grant, carried: RunnableJob, now: Instant) -> Attempt:
        attempt = Attempt(self._keeper, carried.job, carried.work(), grant)
        self._running[grant.key] = attempt
        slot = candidate.slot  # a slot that waited for a turn, or was handed out, is as late as its instant shows
        late = now - (candidate.due if slot.request else slot.at + candidate.terms.delay)
        if late > LATE and grant.number == 1:
            self._tell(What.LATE, grant.key, f"by {format_duration(timedelta(seconds=late // timedelta(seconds=1)))}")
        return attempt

    def dismiss(self, attempt: Attempt) -> None:
        self._running.pop(attempt.lease.grant.key, None)

    def overdue(self, boot: Boot) -> int:
        """How many still run though they were asked to stop."""
        return sum(bool(attempt.lease.overdue(boot)) for attempt in self.all)

    # --- stopping ---

    def asked_for(self) -> list[str]:
        """The cells of runs that a look reads, to learn whether they are asked to stop."""
        return list(islice(self._running, HEEDED))

    def heed(self, cell: Cell) -> None:
        self._keeper.heed(self._running[cell.key].lease, cell)

    # --- telling ---

    def tell(self, now: Instant, boot: Boot) -> None:
        """Report once a run that goes on past the next slot of its job, or although it was asked to stop."""
        self._told = {one for one in self._told if one[0] in self._running}
        for key, attempt in self._running.items():
            if (gap := self._longer_than(attempt, now)) is not None and self._first(key, "overrun"):
                self._tell(What.OVERRUN, key, f"has run for longer than the {format_duration(gap)} until the next slot")
            if (why := attempt.lease.overdue(boot)) and self._first(key, "overdue"):
                LOGGER.warning(
                    "%s is overdue: it was told to stop (%s), but is still running. It is in a call that cannot"
                    " be interrupted, or it catches the exception that stops it. Its effects are refused, and it"
                    " keeps its turn and its worker until it ends; isolate=True runs it in a process that can be"
                    " killed",
                    attempt.lease.name,
                    why,
                )

    def _first(self, key: str, what: str) -> bool:
        first = (key, what) not in self._told
        self._told.add((key, what))
        return first

    def _longer_than(self, attempt: Attempt, now: Instant) -> timedelta | None:
        slot, started = attempt.run.slot, attempt.lease.grant.record.started
        gap = None if slot.request else attempt.job.gap_after(slot.at)
        return gap if gap is not None and started is not None and now - started > gap else None
