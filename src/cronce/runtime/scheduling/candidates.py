"""What a scheduler will try, and how it knows: slots of its agenda as they fall due, missed slots, and runs that other
processes left open. Each waits in the `waitlist` at this process's place among the live ones.

*Missed* are slots that fell due while no scheduler looked after the job. The policy decides which of them run; the rest
is passed over, on record. Some of them may have run: the previous scheduler may have died later than this one can tell.
So slots with a record are left out, both of those that will run and of those that are passed over.

*Open runs* are due, waiting for their turn, to be retried, or lapsed. They wait in line like slots, so that every run
another process leaves behind is picked up.
"""

from collections import deque
from collections.abc import Iterable, Sequence, Set
from datetime import timedelta
from math import inf
from typing import Final

from cronce.errors import BadInput, BadRecord
from cronce.events import Event, What
from cronce.model import Boot, Cell, Instant, Mark, Slot, job_cell, slot_of_cell, spell, to_us
from cronce.policy import wants_all
from cronce.protocol.codec import all_readable
from cronce.protocol.lease import LONGEST_LEASE, hearing
from cronce.protocol.record import Job, decode
from cronce.protocol.specs import fires_alike, raise_floor
from cronce.protocol.terms import Terms
from cronce.runtime.client import PROBE_AHEAD, is_near
from cronce.runtime.declare import Declaration
from cronce.runtime.flow import Flow
from cronce.runtime.jobs import Edit
from cronce.runtime.ledger import Ledger
from cronce.runtime.node import Node
from cronce.runtime.scheduling.roster import Roster, chunks
from cronce.runtime.scheduling.running import CarriedJobs, LocalRuns
from cronce.runtime.scheduling.settings import SCHEDULER_POLL
from cronce.runtime.scheduling.waitlist import CLAIMS_PER_SWAP, Candidate, Waitlist, job_of
from cronce.runtime.transactions.database import Settling
from cronce.schedule import due
from cronce.schedule.agenda import Agenda
from cronce.schedule.slots import CAP, MISSED_GRACE, Due, Span
from cronce.stores.base import Page, Position, Scan
from cronce.value import NamedTuple


class Gap(NamedTuple):
    """A job that no scheduler looked after since then; `digest` is the version that looks now."""

    job: Declaration
    digest: str
    since: Instant


def catch_up(ledger: Ledger, gaps: Sequence[Gap], now: Instant) -> Flow[list[Slot]]:
    """The slots to try, of all jobs, oldest first; what the policies pass over is on record then."""
    found = [(gap, _due(gap, now)) for gap in gaps]
    wanted = [Slot(gap.job.name, at) for gap, one in found for at in one.slots]
    passed = [(gap, one.skipped, _ends(gap, one.skipped)) for gap, one in found if one.skipped]
    cells = yield from _load(ledger, [*wanted, *(slot for *_, slots in passed for slot in slots)])
    spans = []
    for gap, span, slots in passed:
        absent = sum(not cells[slot.cell].version for slot in slots)
        if absent:  # of more than were looked at, those in the middle count as absent
            spans.append((gap, span, span.count - (len(slots) - absent)))
    yield from _pass_over(ledger, spans, now)
    return sorted((slot for slot in wanted if not cells[slot.cell].version), key=lambda slot: slot.at)


def newest_run(ledger: Ledger, job: str) -> Flow[Instant | None]:
    """The newest slot of a job that is on record."""
    page = yield from ledger.client.scan(Scan(f"run/{job}/", newest_first=True, limit=1))
    return slot_of_cell(page.cells[0].key).at if page.cells else None


def _due(gap: Gap, now: Instant) -> Due:
    assert gap.job.schedule is not None
    return due(gap.job.schedule, gap.since, now, gap.job.missed)


def _ends(gap: Gap, span: Span) -> list[Slot]:
    """The oldest and the newest slots of a span, all if they are few: slots that ran are at its ends. The oldest ran if
    the previous scheduler died later than this one can tell, the newest if another scheduler runs them now."""
    schedule, most = gap.job.schedule, min(span.count, CAP)
    assert schedule is not None
    newest, oldest = [span.last], [span.first]
    while len(newest) < most and (at := schedule.previous(newest[-1])) is not None:
        newest.append(at)
    while span.count > CAP and len(oldest) < most and (at := schedule.next(oldest[-1])) is not None:
        oldest.append(at)
    return [Slot(gap.job.name, at) for at in sorted({*newest, *oldest})]


def _load(ledger: Ledger, slots: Iterable[Slot]) -> Flow[dict[str, Cell]]:
    cells: dict[str, Cell] = {}
    for keys in chunks(slot.cell for slot in slots):
        loaded, _ = yield from ledger.client.load(keys)
        cells |= {cell.key: cell for cell in loaded.cells}
    return cells


def _pass_over(ledger: Ledger, spans: Sequence[tuple[Gap, Span, int]], now: Instant) -> Flow[None]:
    """The process that records it reports it; others that find the same at the same time do not."""
    told: set[str] = set()
    edits = {gap.job.name: _raised(gap, span, count, told) for gap, span, count in spans}
    for names in chunks(edits):
        yield from ledger.jobs.edit_all({name: edits[name] for name in names})
    for gap, span, count in spans:
        if gap.job.name in told:
            slots = "1 slot" if count == 1 else f"{count} slots"
            detail = f"{slots} up to {spell(span.last)}: {span.reason}"
            ledger.client.report(Event(What.MISSED, job_cell(gap.job.name), ledger.client.holder, now, detail=detail))


def _raised(gap: Gap, span: Span, count: int, told: set[str]) -> Edit:
    """Only a version that fires the job may raise its floor."""

    def edit(job: Job | None, _now: Instant) -> Job | None:
        told.discard(gap.job.name)  # another was faster, and it is asked again
        if job is None or not fires_alike(job, gap.digest) or job.floor >= span.last:
            return None
        told.add(gap.job.name)
        assert gap.job.schedule is not None
        left = gap.job.schedule.count(job.floor, span.last)  # less, where a part is on record: its reply was lost
        return raise_floor(job, span.last, min(count, left), span.reason)

    return edit


JOBS_READ_AHEAD: Final = 1000
"""How many jobs a look reads that will be due before the next look but one. If there are more, it comes sooner."""


class DueSlots:
    """Used by one thread. `fires`: whether this process claims now, and looks for due slots."""

    def __init__(self, node: Node, jobs: CarriedJobs, roster: Roster) -> None:
        self._node, self._ledger, self._know = node, node.ledger, node.ledger.know
        self._jobs, self._roster = jobs, roster
        self._agenda = Agenda()
        self._due: deque[tuple[str, Instant]] = deque()
        self._to_read: list[str] = []  # jobs whose facts are read before their slots
        self._reads_at: Boot = 0.0  # when to look again for such jobs
        self.line = Waitlist()

    @property
    def behind(self) -> bool:
        """Whether a slot is due that is not in line yet."""
        return bool(self._due)

    def ahead(self, *, fires: bool) -> list[Instant]:
        """When there is something to do."""
        upcoming = self._agenda.next_at() if fires else None
        return [at for at in (self.line.next_at(), upcoming) if at is not None]

    def needed(self, boot: Boot, soon: timedelta) -> list[str]:
        """Jobs whose slots this process is about to claim, and whose facts will be too old by then; the first of them,
        if there are many. All jobs are gone through twice within `soon`, not at each look."""
        if not self._to_read and boot >= self._reads_at:
            upcoming, until = self._agenda.upcoming(self._know.now() + soon), boot + soon.total_seconds()
            old = (Slot(name, at) for name, at in upcoming if self._know.fresh_until(name) < until)
            self._to_read = [slot.job for slot in old if self._roster.place(slot) <= 1]
            self._reads_at = boot + soon.total_seconds() / 2
        first, self._to_read = self._to_read[:JOBS_READ_AHEAD], self._to_read[JOBS_READ_AHEAD:]
        return first

    @property
    def reads_more(self) -> bool:
        """Whether the last look could not read all the jobs that are about to be due."""
        return bool(self._to_read)

    def read_anew(self) -> None:
        """What was known of jobs was forgotten."""
        self._reads_at = 0.0

    # --- jobs that come and go ---

    def drop(self, names: Set[str]) -> None:
        for name in names:
            self._agenda.remove(name)
        self.line.drop(names)

    def settle_in(self, names: Set[str]) -> None:
        """Put new jobs on the agenda, from where the earlier schedulers left off."""
        now = self._know.now()
        gaps: list[Gap] = []
        for name in sorted(names):
            job = self._jobs.job(name)
            if job.schedule is None:
                continue
            self._agenda.add(name, job.schedule, now)
            known = self._know.job(name)
            floor = known.job.floor if known and known.job else now
            latest = job.schedule.previous(now + timedelta(seconds=1))
            if latest is not None and latest > floor:
                gaps.append(Gap(job, self._jobs.digest(name), self._since(name, floor, latest)))
        self._try_missed(gaps, now)

    def _since(self, name: str, floor: Instant, latest: Instant) -> Instant:
        """From where on the job may have had no scheduler. The latest slot is always checked, and under missed="all"
        every slot without a record: a scheduler that died may have had some of them in line."""
        if wants_all(self._jobs.job(name).missed):
            return floor
        before = self._roster.looked_after(name) or self._node.do(newest_run(self._ledger, name)) or floor
        return max(floor, min(before - MISSED_GRACE, latest - timedelta(seconds=1)))

    # --- waiting in line ---

    def fill(self, *, fires: bool) -> None:
        """Put the slots that are due now in line."""
        now = self._know.now()
        gaps = self._pop_due(now) if fires else []
        self._try_missed(gaps, now)
        for gap in gaps:
            self._agenda.skip_to(gap.job.name, now)
        for _ in range(
            min(len(self._due), CLAIMS_PER_SWAP)
        ):  # if there are many, the first need not wait until the last is in line
            name, at = self._due.popleft()
            if name in self._jobs:
                self._stand(Slot(name, at), now)
        self.line.ripen(now)

    def _pop_due(self, now: Instant) -> list[Gap]:
        """Missed slots, which are found again until they were handled; the rest is due."""
        popped = self._agenda.pop_due(now)
        self._due.extend(popped.slots)
        for name, since in popped.behind:
            self._agenda.skip_to(name, since)
        return [Gap(self._jobs.job(name), self._jobs.digest(name), since) for name, since in popped.behind]

    def _try_missed(self, gaps: Sequence[Gap], now: Instant) -> None:
        for slot in self._node.do(catch_up(self._ledger, gaps, now)) if gaps else ():
            self._stand(slot, now)

    def _stand(self, slot: Slot, now: Instant) -> None:
        terms = self._jobs.terms(slot)
        self.add(slot, terms, slot.at + terms.delay if terms.delay else slot.at, now)

    def add(self, slot: Slot, terms: Terms, due: Instant, now: Instant, *, known: bool = False) -> None:
        place = self._roster.place(slot)
        self.line.add(Candidate(slot, slot.cell, terms, due, known, self._ledger.nonce()), place, now)


PAGES: Final = 5
"""How many thousands of open runs a look goes through."""

NEAR_LAPSE: Final = hearing(LONGEST_LEASE) + PROBE_AHEAD
"""So long before a lease ends its holder should be heard, at most."""

NEAREST: Final = 100
"""How many runs a look checks whose leases are nearest to their ends."""


class OpenRuns:
    """Used by one thread."""

    def __init__(self, node: Node, jobs: CarriedJobs, due_slots: DueSlots, runs: LocalRuns) -> None:
        self._node, self._jobs, self._due_slots, self._runs = node, jobs, due_slots, runs
        self._settling = Settling(node)
        self._after: Position | None = None  # how far the last look went through many

    def take_up(self, idle: float) -> float:
        """Take up what is due now. Returns in how many seconds the next run is due, if the next look may be `idle`
        seconds away."""
        client, one_clock = self._node.ledger.client, self._node.store.traits.one_clock
        now = client.know.now()
        ahead = timedelta(seconds=idle) + NEAR_LAPSE if one_clock else LONGEST_LEASE
        scan = Scan("run/", "until", Mark.OPEN, now + ahead)
        page = self._node.do(client.scan(scan))
        if page.next is None:
            comes = self._take_up_page(page)
            later = [cell for cell in page.cells if cell.until is not None and cell.until > now]
        else:
            comes = self._take_up_many(now)
            near = scan._replace(upto=now + NEAR_LAPSE, after=Position(to_us(now), ""), limit=NEAREST)
            later = list(self._node.do(client.scan(near)).cells)
        self._hear(later[:NEAREST], now)
        now = client.know.now()
        for cell in self._node.do(self._node.ledger.ahead()):
            if job_of(cell.key) in self._jobs and cell.key not in self._runs and cell.key not in self._due_slots.line:
                self._take_up(cell, now, now)
        if comes < inf and not one_clock:  # a lease has lapsed once it was seen unchanged for its whole length
            return min(comes, SCHEDULER_POLL.total_seconds())
        return comes

    def _take_up_many(self, now: Instant) -> float:
        """Those that became due last are checked first: a run that just lapsed must not wait behind thousands that
        others left. Each look checks some of these."""
        client = self._node.ledger.client
        scan = Scan("run/", "until", Mark.OPEN, now + SCHEDULER_POLL)
        page = self._node.do(client.scan(scan._replace(newest_first=True)))
        comes = self._take_up_page(page)
        for _ in range(PAGES if page.next is not None else 0):
            page = self._node.do(client.scan(scan._replace(after=self._after)))
            comes = min(comes, self._take_up_page(page))
            self._after = page.next
            if self._after is None:
                break
        return min(comes, SCHEDULER_POLL.total_seconds())

    def _hear(self, cells: Sequence[Cell], now: Instant) -> None:
        """Write something, if a lease of another is so near to its end that its holder should be heard by then."""
        others = [cell for cell in cells if job_of(cell.key) in self._jobs and cell.key not in self._runs]
        if any(is_near(cell, record, now) for cell, record in all_readable(others, decode)):
            self._node.do(self._node.ledger.client.probe())

    def _take_up_page(self, page: Page) -> float:
        comes = inf
        ours = [cell for cell in page.cells if job_of(cell.key) in self._jobs]
        for cell in sorted(ours, key=lambda cell: cell.key.rpartition("/")[2]):  # the older slot first
            if cell.key in self._runs or cell.key in self._due_slots.line or cell.until is None:
                continue
            left = (cell.until - page.now).total_seconds()
            if left <= 0:
                self._take_up(cell, cell.until, page.now)
                left = SCHEDULER_POLL.total_seconds()  # until then it may not be had: its holder has to be heard
            comes = min(comes, left)
        return comes

    def _take_up(self, cell: Cell, since: Instant, now: Instant) -> None:
        try:
            slot, record = slot_of_cell(cell.key), decode(cell.value, cell.key)
        except (BadInput, BadRecord):
            return  # written by a newer cronce, or no run: a process that can read it handles it
        database = self._jobs.job(slot.job).database
        if database is not None and record.is_running and record.closes_as_lost:
            self._settling.soon(database, cell.key)
            return
        terms = self._jobs.terms(slot)
        self._due_slots.add(slot, terms.each_wanted() if record.is_waiting else terms, since, now, known=True)
