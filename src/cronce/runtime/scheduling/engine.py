"""The engine of a scheduler: one thread that talks to the store, and decides what this process tries to run.

THEORY OF OPERATION

Every scheduler computes every slot by itself, from the same schedules, by the store's clock. Nobody hands out work: a
slot is claimed, and the store grants it once. What is here is only about *when* to claim, so that it happens at once,
costs little, and goes to a process that has a worker free.

*The way of a slot.* The agenda yields it at its instant, and it stands in line (`waitlist`) until its time has come
and a worker is free. Then it is claimed, in a batch with others; what has ended since (`endings`) is said in the same
swap. Granted, it runs (`at_work`). Refused, it is forgotten: whoever has it looks after it.

*Looking.* About once a second: has anybody acted by hand, is somebody asked to stop, and which runs are open whose time
has come: due, waiting for their turn, to be retried, or lapsed. Those stand in line like slots, so that whatever
another process leaves behind is taken up. A look also learns what will lapse before the next one, and then comes in
time for it. A store that can notify makes a look come earlier.

*Gaps.* A process that was paused, cut off or newly started finds slots in the past (`missed`).

*Errors fail closed.* While the store does not answer nothing is claimed. What has ended is said again and again until
it is said, or until it can no longer be trusted.
"""

import gc
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import Final, TypeVar

from cronce import __version__
from cronce.errors import BadInput, BadRecord, StoreError
from cronce.events import Event, What
from cronce.model import (
    BOARD_JOBS,
    BOARD_RUNS,
    LOOKED_ON,
    SWITCH,
    Boot,
    Cell,
    Instant,
    Mark,
    Slot,
    drain_cells,
    job_cell,
    slot_of_cell,
)
from cronce.protocol.commands import Closed, Early, Finished, Held, Queued
from cronce.protocol.decide import closes_as_lost
from cronce.protocol.record import Act, Holder, State, decode, standing_act
from cronce.runtime.attempt import Attempt, End
from cronce.runtime.call import why_not
from cronce.runtime.commits import Settling
from cronce.runtime.current import Current
from cronce.runtime.flow import Flow
from cronce.runtime.keeper import Keeper
from cronce.runtime.ledger import Expired, Grant, Terms, Wanted
from cronce.runtime.log import LOGGER
from cronce.runtime.scheduling.at_work import AtWork
from cronce.runtime.scheduling.carrying import Carry, Carrying
from cronce.runtime.scheduling.endings import UNWELL, Endings, Said
from cronce.runtime.scheduling.missed import Gap, catch_up, newest_run
from cronce.runtime.scheduling.post import LOOK, LOOKED_ON_BEAT, Pace, Post
from cronce.runtime.scheduling.roster import HOLDER_TTL, Roster
from cronce.runtime.scheduling.waitlist import AT_ONCE, MOMENT, Candidate, Waitlist, job_of
from cronce.runtime.stored.allowed import Carried
from cronce.runtime.task import Busy, Paused, Superseded, Unsure
from cronce.runtime.tidy import settle_rerun, tidy_later
from cronce.schedule.agenda import Agenda
from cronce.schedule.slots import GRACE
from cronce.stores.base import Page, Position, Scan

T = TypeVar("T")
Submit = Callable[[Sequence[Attempt]], None]
"""Begin these; each is `done` once, from whatever thread."""

Refused = Callable[[Slot, str, Keeper], None]
"""Told of a slot that this process tried and another had."""

PAGES: Final = 5
"""Thousands of open runs that a look goes through."""

NEEDED: Final = 1000
"""How many jobs a look reads that will be due before the next but one."""

HEEDED: Final = 500
"""How many of the runs here a look asks for, whether they shall stop; the others learn it with their next renewal."""

AWAY: Final = 0.5
"""Seconds until a store that did not answer is asked again."""


def unheard(_slot: Slot, _why: str, _keeper: Keeper) -> None:
    """Nobody wants to know."""


class Engine:
    """Not for two threads at once, but for `done`, which any may call."""

    def __init__(
        self,
        keeper: Keeper,
        carry: Carry,
        post: Post,
        submit: Submit,
        pace: Pace = Pace(),  # noqa: B008
        *,
        refused: Refused = unheard,
    ) -> None:
        self._keeper, self._desk, self._post, self._submit, self._carry = keeper, keeper.desk, post, submit, carry
        self._pace, self._refused = pace, refused
        self._looked_on = False  # somebody looks on
        self._ledger, self._know = keeper.desk.ledger, keeper.desk.ledger.know
        self._roster = Roster(self._ledger.carrier, self._ledger.jobs)
        self._me = Holder(self._desk.holder, "", post.role, post.workers, post.labels, self._know.now(), __version__)
        self._carrying = Carrying()
        self._new: Set[str] = set()
        self._born = 0  # in which life of the store it is registered
        self._changed = True  # what this process carries may be another than it was
        self._agenda = Agenda()
        self._due: deque[tuple[str, Instant]] = deque()
        self._line = Waitlist()
        self._at_work = AtWork(keeper, self._tell)
        self._settling = Settling(keeper.desk)
        self._endings = Endings(self._desk.holder)
        self._boards: tuple[int, int] | None = None
        self._left = False  # the last time, not all was said of what had ended
        self._took = False  # the last time, there was something in line that could be claimed
        self._beat_at = self._look_at = self._again_at = 0.0
        self._calls = 0
        self._after: Position | None = None  # how far the last look went through many open runs
        self._warned: set[tuple[str, str]] = set()
        self.joined = False
        """It is registered, and would fire."""
        self.ordered: Act | None = None
        """Who told this process by hand to claim no more."""
        self.leaving = False
        """It claims no more, since it is about to end."""

    # --- one step ---

    def step(self) -> Boot:
        """Do what is to be done; when is the next?"""
        boot = self._desk.clock.boot()
        if boot < self._again_at:
            return self._again_at
        try:
            with uncollected:
                asked = self._step(boot)
            if asked:
                self._keeper.outage.answered()
        except StoreError as error:
            self._keeper.outage.unanswered(boot, str(error))
            self._again_at = self._desk.clock.boot() + AWAY
            return self._again_at
        return self._next()

    def _step(self, boot: Boot) -> bool:
        """Whether the store was asked anything, and answered."""
        before = self._calls
        if boot >= self._beat_at or self._know.epoch.birth != self._born:
            self._beat(boot)
        if boot >= self._look_at:
            self._look(boot)
        self._fill()
        self._exchange()
        return self._calls > before

    def _next(self) -> Boot:
        """When there is something to do, if nothing happens before."""
        boot, now = self._desk.clock.boot(), self._know.now()
        if self._endings.new or self._left or self._due or (self._took and len(self._line) and self._free > 0):
            return boot
        upcoming = self._agenda.next_at() if self.claims and self._post.schedules else None
        ahead = [at for at in (self._line.next_at(), upcoming) if at is not None]
        times = [boot + max((at - now).total_seconds(), 0.0) for at in ahead]
        return min([self._beat_at, self._look_at, *times, *([boot + AWAY] if len(self._endings) else [])])

    @property
    def claims(self) -> bool:
        return not self.leaving and self.ordered is None

    @property
    def idle(self) -> bool:
        """Nothing runs here, and all that ended is said. True between two steps, if at all: within one, something may
        be on its way."""
        return not (len(self._at_work) or len(self._endings))

    @property
    def running(self) -> list[Attempt]:
        return self._at_work.all

    @property
    def live(self) -> int:
        """How many schedulers were alive at the last beat, this one among them."""
        return len(self._roster.live)

    @property
    def given_up(self) -> int:
        """How many runs ended here whose end is not on record, and never will be."""
        return self._endings.given_up

    @property
    def _free(self) -> int:
        return self._post.workers - len(self._at_work) if self._post.works else AT_ONCE

    # --- from outside ---

    def look_soon(self) -> None:
        """There is news."""
        self._look_at = 0.0

    def beat_soon(self) -> None:
        """What this process carries, or whether it claims, has changed."""
        self._beat_at = 0.0

    def carry_anew(self) -> None:
        """What there is to carry may be other than it was."""
        self._changed = True
        self.beat_soon()

    def done(self, attempt: Attempt, end: End) -> None:
        """An attempt is over. From any thread."""
        self._endings.add(attempt, end)

    def leave(self) -> None:
        """The others need not wait for this process any more."""
        if self.joined:
            self._do(self._roster.leave(self._me))

    # --- being there ---

    def _beat(self, boot: Boot) -> None:
        if not self.joined:
            self._do(self._ledger.carrier.load([]))
            self._me = self._me._replace(since=self._know.now())
        if self._changed:
            self._take_on(self._carry())
            self._changed = False
        every = min(self._pace.beat, LOOKED_ON_BEAT) if self._looked_on else self._pace.beat
        self._me = self._me._replace(
            bundle=self._carrying.bundle,
            draining=not self.claims,
            every=every,
            skew=self._desk.clock.wall() - self._know.now(),
            running=len(self._at_work),
        )
        self._do(self._roster.beat(self._me, self._carrying.specs, boot, max(HOLDER_TTL, 3 * self._pace.beat)))
        self._settle_in()
        self.joined = True
        self._beat_at, self._born = boot + every.total_seconds(), self._know.epoch.birth

    def _take_on(self, carried: Mapping[str, Carried]) -> None:
        self._new, gone = self._carrying.take_on(carried)
        for name in gone:
            self._agenda.remove(name)
        self._line.drop(gone)

    def _settle_in(self) -> None:
        """What is new is put on the agenda, from where the schedulers before left off."""
        new = [job for name in sorted(self._new) if (job := self._carrying.job(name)).schedule]
        if not self._post.schedules or not new:
            return
        now = self._know.now()
        gaps: list[Gap] = []
        for job in new:
            assert job.schedule is not None
            self._agenda.add(job.name, job.schedule, now)
            known = self._know.job(job.name)
            floor = known.job.floor if known and known.job else now
            latest = job.schedule.previous(now + timedelta(seconds=1))
            if latest is not None and latest > floor:
                gaps.append(Gap(job, self._carrying.digest(job.name), self._since(job.name, floor, latest)))
        self._try_missed(gaps, now)
        self._new = set()

    def _since(self, name: str, floor: Instant, latest: Instant) -> Instant:
        """From where on nobody may have looked. The latest slot is looked at in any case, and under missed="all" each
        that has no record: whoever died may have had some of them in line."""
        if self._carrying.job(name).missed == "all":
            return floor
        before = self._roster.looked_after(name) or self._do(newest_run(self._ledger, name)) or floor
        return max(floor, min(before - GRACE, latest - timedelta(seconds=1)))

    def _try_missed(self, gaps: Sequence[Gap], now: Instant) -> None:
        for slot in self._do(catch_up(self._ledger, gaps, now)) if gaps else ():
            terms = self._carrying.terms(slot)
            if terms.overlap == "skip" and self._carrying.job(slot.job).missed == "all":
                terms = terms._replace(overlap="wait")  # each of a backlog is wanted
            self._try(slot, terms, slot.at + terms.delay, now)

    # --- looking ---

    def _look(self, boot: Boot) -> None:
        self._look_at = boot + self._pace.look.total_seconds()
        orders = drain_cells(self._desk.holder, self._post.labels)
        watched = self._line.watched(self._know.now() - 2 * MOMENT)
        asked_for = self._at_work.asked_for()
        needed = {job_cell(name): name for name in self._needed(boot)}
        fixed = [BOARD_RUNS, BOARD_JOBS, SWITCH, LOOKED_ON, *orders]
        loaded, _ = self._do(self._ledger.carrier.load([*fixed, *asked_for, *watched, *needed]))
        cells = {cell.key: cell for cell in loaded.cells}
        self._know.learn_switch(cells[SWITCH])
        self._look_on(cells[LOOKED_ON], loaded.now)
        self._read_boards(cells[BOARD_RUNS].version, cells[BOARD_JOBS].version)
        for key, name in needed.items():
            self._know.learn_job(name, cells[key], loaded)
        self._obey([cells[key] for key in orders])
        for key in asked_for:
            self._at_work.heed(cells[key])
        for key in watched:
            self._line.seen(cells[key])
        self._at_work.tell(self._know.now(), boot)
        if self._post.works and self.claims:
            self._take_up_open(boot)

    def _look_on(self, cell: Cell, now: Instant) -> None:
        """Whoever looks at a page wants to see at once that a process is gone."""
        before, self._looked_on = self._looked_on, cell.until is not None and now < cell.until
        if self._looked_on and not before:
            self.beat_soon()

    def _needed(self, boot: Boot) -> Iterator[str]:
        """Jobs that this process is about to claim a slot of, and whose facts will be too old for that by then."""
        soon = 2 * self._pace.look
        if self.claims and self._post.schedules:
            for name, at in islice(self._agenda.upcoming(self._know.now() + soon), NEEDED):
                old = self._know.fresh_until(name) < boot + soon.total_seconds()
                if old and self._roster.place(self._me, Slot(name, at)) <= 1:
                    yield name

    def _read_boards(self, runs: int, jobs: int) -> None:
        before, self._boards = self._boards, (runs, jobs)
        if before is not None and before[0] != runs:
            self._line.freed()
        if before is not None and before[1] != jobs:
            self._know.forget_jobs()
            self.carry_anew()

    def _obey(self, cells: Iterable[Cell]) -> None:
        before = self.ordered
        self.ordered = next(filter(None, map(standing_act, cells)), None)
        if (before is None) != (self.ordered is None):
            what = What.RESUMED if self.ordered is None else What.DRAINED
            self._tell(what, f"holder/{self._desk.holder}", f"by {(self.ordered or before or Act('')).by}")
            self.beat_soon()

    def _take_up_open(self, boot: Boot) -> None:
        """Runs that are open and whose time has come, or comes before the next look. Those whose time came last are
        looked at first: what just lapsed must not stand behind what others left thousands of. Of so many, each look
        goes through some."""
        scan = Scan("run/", "until", Mark.OPEN, self._know.now() + self._pace.look)
        page = self._do(self._ledger.carrier.scan(scan._replace(newest_first=True)))
        self._take_up_page(page, boot)
        for _ in range(PAGES if page.next is not None else 0):
            page = self._do(self._ledger.carrier.scan(scan._replace(after=self._after)))
            self._take_up_page(page, boot)
            self._after = page.next
            if self._after is None:
                return

    def _take_up_page(self, page: Page, boot: Boot) -> None:
        ours = [cell for cell in page.cells if job_of(cell.key) in self._carrying]
        for cell in sorted(ours, key=lambda cell: cell.key.rpartition("/")[2]):  # the older slot first
            if cell.key in self._at_work or cell.key in self._line or cell.until is None:
                continue
            if cell.until <= page.now:
                self._take_up(cell, page.now)
            else:
                comes = boot + (cell.until - page.now).total_seconds() + 0.005
                self._look_at = min(self._look_at, max(comes, boot + 0.05))

    def _take_up(self, cell: Cell, now: Instant) -> None:
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
        self._try(slot, terms, cell.until or now, now, known=True)

    # --- what to try, and when ---

    def _fill(self) -> None:
        now = self._know.now()
        if self.claims and self._post.schedules:
            popped = self._agenda.pop_due(now)
            self._due.extend(popped.slots)
            for name, _ in popped.behind:
                self._agenda.skip_to(name, now)
            gaps = [Gap(self._carrying.job(name), self._carrying.digest(name), since) for name, since in popped.behind]
            self._try_missed(gaps, now)
        for _ in range(min(len(self._due), AT_ONCE)):  # of many, the first need not wait for the last to stand in line
            name, at = self._due.popleft()
            if name in self._carrying:
                slot = Slot(name, at)
                terms = self._carrying.terms(slot)
                self._try(slot, terms, at + terms.delay, now)
        self._line.ripen(now)

    def _try(self, slot: Slot, terms: Terms, due: Instant, now: Instant, *, known: bool = False) -> None:
        place = self._roster.place(self._me, slot)
        self._line.add(Candidate(slot, slot.cell, terms, due, known, self._ledger.nonce()), place, now)

    # --- saying what ended, and claiming what is next ---

    def _exchange(self) -> None:
        self._dismiss_ended()
        chosen = self._line.take(self._free, self._know.now(), self._at_work.turns) if self.claims else []
        self._took = bool(chosen)
        over = self._endings.take(self._desk.clock.boot(), {one.slot.job for one in chosen})
        self._left = len(self._endings) > 0
        if not over and not chosen:
            return
        try:
            answers, grants = self._exchanged(over, chosen)
        except BaseException:
            self._endings.keep(over)
            self._line.put_back(chosen)
            raise
        for said, answer in zip(over, answers, strict=True):
            self._heard(said, answer)
        started = [self._answered(one, answer) for one, answer in zip(chosen, grants, strict=True)]
        self._submit([attempt for attempt in started if attempt is not None])
        unsure = [one.error for one in (*answers, *grants) if isinstance(one, Unsure) and one.error]
        if unsure and len(unsure) == len(over) + len(chosen):
            raise unsure[0]

    def _dismiss_ended(self) -> None:
        """Their workers, and as far as this process is concerned their turns, are free again."""
        for said in self._endings.pop_new():
            job = said.attempt.job
            awaited = job.overlap in ("wait", "replace") or self._line.waits_for(job.name)
            self._at_work.dismiss(said.attempt)
            if said.end.open:
                continue
            with Current(said.attempt.run):  # its line says which run it is about
                said.tell()
            self._endings.keep([said._replace(awaited=awaited)])
            if awaited:
                self._line.freed()

    def _exchanged(self, over: list[Said], chosen: list[Candidate]) -> tuple[Sequence[object], Sequence[object]]:
        wanted = [Wanted(one.slot, one.terms, one.known, one.nonce) for one in chosen]
        if self._post.works:
            return self._do(self._ledger.exchange([said.word for said in over], wanted))
        return (), self._do(self._ledger.enqueue(wanted))

    def _heard(self, said: Said, answer: object) -> None:
        """What the store said to how a run ended. If it is to be tried again, or others waited for it, look at once."""
        self._endings.heard(said, answer)
        if isinstance(answer, Finished):
            tidy_later(self._keeper, said.attempt.job, said.attempt.run.slot)
            settle_rerun(self._keeper, said.attempt.run.slot, answer.outcome)
        if said.awaited or (isinstance(answer, Finished) and answer.retrying):
            self.look_soon()

    def _answered(self, candidate: Candidate, answer: object) -> Attempt | None:
        """What the store said to a claim."""
        now = self._know.now()
        match answer:
            case Grant():
                return self._employed(candidate, answer)
            case Unsure() if answer.unreadable:
                self._warn(candidate.slot.job, f"is not run by this process: {answer.why}")
                self._line.put_off(candidate, now + UNWELL)
            case Expired() | Unsure():
                self._line.put_back([candidate])
            case Early(until):
                self._line.put_off(candidate, until or now + MOMENT)
            case Queued(True) | Busy():
                self._line.found_busy(candidate.slot.job, now)
                if isinstance(answer, Busy) and not candidate.known:  # it is on record nowhere, so no look finds it
                    self._line.put_off(candidate, now + LOOK)
            case Paused() if now - candidate.due < 2 * LOOK:  # by facts up to a look old: it may be resumed
                self._line.put_off(candidate, now + LOOK)
            case Superseded():
                self._superseded(candidate, now)
            case Held() | Closed():
                self._beaten(candidate, answer)
        return None  # held or closed: whoever has it sees to it; what waits is found by looking

    def _superseded(self, candidate: Candidate, now: Instant) -> None:
        """By facts that may be old: it may be ours in a moment."""
        if now - candidate.due < 4 * LOOK:
            self._know.forget_job(candidate.slot.job)
            self._line.put_off(candidate, now + LOOK)
        else:
            self._warn(candidate.slot.job, "is fired by another version of it, which another process carries")

    def _beaten(self, candidate: Candidate, answer: Held | Closed) -> None:
        """Of a slot that was left behind it was known that others would try."""
        if not candidate.known:
            self._refused(candidate.slot, why_not(candidate.slot, answer).reason, self._keeper)

    def _employed(self, candidate: Candidate, grant: Grant) -> Attempt | None:
        """What cannot be begun is given back: one trouble must not take the others with it."""
        try:
            return self._at_work.employ(candidate, grant, self._carrying[candidate.slot.job], self._know.now())
        except Exception:
            LOGGER.exception("%s could not be begun, and is given back", candidate.slot.key)
        with suppress(StoreError):
            self._do(self._ledger.release([grant], UNWELL))
        return None

    def _warn(self, job: str, why: str) -> None:
        """Once: it is the same with every slot."""
        if (job, why) not in self._warned:
            self._warned.add((job, why))
            LOGGER.warning("%s %s", job, why)

    def _tell(self, what: What, key: str, detail: str) -> None:
        self._ledger.carrier.report(Event(what, key, self._desk.holder, self._know.now(), detail=detail))

    def _do(self, flow: Flow[T]) -> T:
        self._calls += 1
        return self._desk.do(flow)


class _Uncollected:
    """Without the garbage collector, for a moment: a batch makes thousands of values, none of them in a circle, and to
    look through them all, and ten thousand jobs beside them, took a third of the time. Several engines of a process may
    be at it at once: the last one out puts it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside, self._collects = 0, False

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._collects = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._collects:
                gc.enable()


uncollected: Final = _Uncollected()
