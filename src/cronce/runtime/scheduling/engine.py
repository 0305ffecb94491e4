"""The engine of a scheduler: one thread that talks to the store, and decides what this process tries to run.

THEORY OF OPERATION

Every scheduler computes every slot by itself, from the same schedules, by the store's clock. No process hands out work:
a slot is claimed, and the store grants it once. This module only decides *when* to claim, so that it happens at once,
costs little, and the slot goes to a process that has a worker free.

*The way of a slot.* The agenda yields it at its instant (`candidates`), and it waits in line (`waitlist`) until its
time has come and a worker is free. Then it is claimed, in a batch with others; the same swap records the runs that
ended since (`exchange`). If granted, it runs (`running`, `pool`). If refused, it is dropped: the process that holds it
is responsible for it.

*Looking.* About once a second: did a person pause, drain or change something, is a run asked to stop, and which runs
have other processes left open. A look also learns what will lapse before the next look, and the next one then comes in
time for it. A store that can notify makes a look come earlier. A process that is notified and runs nothing itself
looks every ten seconds, until a lease of another process comes near to its end. If a job has a shorter lease, it looks
often enough to see that lease in time.

*Gaps.* A process that was paused, cut off or newly started finds slots in the past (`candidates`).

*Errors fail closed.* While the store does not answer nothing is claimed. Ends are written to this machine's disk, and
reported again and again until they are recorded.
"""

import gc
import os
import threading
from collections.abc import Iterable, Set
from contextlib import nullcontext, suppress
from math import inf
from typing import Final

from cronce import __version__
from cronce.errors import StoreError
from cronce.events import Event, What
from cronce.model import BOARD_JOBS, BOARD_RUNS, LOOKED_ON, SWITCH, Boot, Cell, Instant, drain_cells, job_cell
from cronce.protocol.lease import hearing
from cronce.protocol.notices import Holder
from cronce.protocol.record import Act, standing_act
from cronce.runtime.attempt import Attempt
from cronce.runtime.client import PROBE_AHEAD
from cronce.runtime.keeper import Keeper
from cronce.runtime.process_notes import leave_clock, own_cell, recall_once, tzdata_version
from cronce.runtime.scheduling.candidates import NEAR_LAPSE, DueSlots, OpenRuns
from cronce.runtime.scheduling.exchange import Exchange, Refused, Submit, ignore_refusal
from cronce.runtime.scheduling.roster import HOLDER_TTL, Roster
from cronce.runtime.scheduling.running import CarriedJobs, Carry, LocalRuns
from cronce.runtime.scheduling.settings import LOOKED_ON_BEAT, SchedulerIntervals, SchedulerSettings
from cronce.runtime.scheduling.waitlist import SECOND_TRIES_AFTER
from cronce.stores.base import at_once

ASK_AGAIN: Final = 0.5
"""Seconds until a store that did not answer is asked again."""


READ_ON: Final = 0.1
"""Seconds until the next look, where the last one could not read all the jobs that are about to be due."""

BURST: Final = 50
"""From this many slots claimed at once on, more are expected to follow."""

LOOKS_WAIT: Final = 0.3
"""Seconds for which a beat or a look waits while many slots are claimed."""

SHARE: Final = 60.0
"""Seconds between two times that readings of the store's clock are left for other processes of this machine."""


class _Uncollected:
    """Turns the garbage collector off for a moment. A batch makes thousands of values without cycles; searching them
    all, and ten thousand jobs besides, took a third of the time. If a process has several engines, the last one to
    leave turns it on again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside, self._collects = 0, False
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        """A child has none of the engines: none of them would turn the collector on again."""
        if self._inside and self._collects:
            gc.enable()
        self._lock, self._inside = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._collects = gc.isenabled()
            self._inside += 1  # before and after the collector is off: a fork may come in between
            gc.disable()

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            if self._inside == 1 and self._collects:
                gc.enable()
            self._inside -= 1


uncollected: Final = _Uncollected()


class Engine:
    """Not for two threads at once, but for `endings.add`, which any may call."""

    def __init__(
        self,
        keeper: Keeper,
        carry: Carry,
        settings: SchedulerSettings,
        submit: Submit,
        pace: SchedulerIntervals = SchedulerIntervals(),  # noqa: B008
        *,
        refused: Refused = ignore_refusal,
    ) -> None:
        self._keeper, self._node, self._ledger = keeper, keeper.node, keeper.node.ledger
        self._know = self._ledger.know
        self._carry, self._settings, self._pace = carry, settings, pace
        self._roster = Roster(self._ledger.client, self._ledger.jobs, lambda: self.leaving)
        self._me = Holder(
            self._node.holder, "", settings.role, settings.workers, settings.labels, self._know.now(), __version__
        )
        self._jobs = CarriedJobs()
        self._new: Set[str] = set()  # of what it carries, what is not on the agenda yet
        self._runs = LocalRuns(keeper, self._tell)
        self._due_slots = DueSlots(self._node, self._jobs, self._roster)
        self._open_runs = OpenRuns(self._node, self._jobs, self._due_slots, self._runs)
        work = (self._jobs, self._due_slots.line, self._runs)
        self._exchange = Exchange(keeper, settings, *work, submit=submit, refused=refused, news=self.look_soon)
        self.endings: Final = self._exchange.endings
        self._looked_on = False  # a person is watching a page or a command
        self._born = 0  # in which life of the store it is registered
        self._left = False  # what it saw of the store's clock, since this machine's cell was last read
        self._changed = True  # what this process carries may be another than it was
        self._boards: tuple[int, int] | None = None
        self._beat_at = self._look_at = self._again_at = self._share_at = 0.0
        self._news_at: Boot = inf  # since when there is news that no look has seen
        self._resting = False  # at the last look there was nothing to do for a while
        self.is_notified = False
        """The store notifies it when there is news."""
        self.joined = False
        """It is registered, and would fire."""
        self.ordered: Act | None = None
        """The person's order for this process to claim no more."""
        self.leaving: bool = False
        """It claims no more, since it is about to end."""

    # --- one step ---

    def step(self) -> Boot:
        """Do what is due; returns when the next step is."""
        boot = self._node.clock.boot()
        if boot < self._again_at:
            return self._again_at
        try:
            with uncollected:
                wrote = self._step(boot)
            if wrote:
                self._keeper.outage.answered()
        except StoreError as error:
            self._keeper.outage.unanswered(boot, str(error))
            self._exchange.write_down()
            self._again_at = self._node.clock.boot() + ASK_AGAIN
            return self._again_at
        return max(self._next(), self._again_at)

    def _in_doubt(self) -> bool:
        """Whether the store's clock is not trusted: then nothing falls due, and this process sends no beat."""
        if self._know.doubt is not None:
            self._node.do(self._ledger.client.load([]))
        self._node.do(recall_once(self._ledger))
        return self._know.doubt is not None

    def _step(self, boot: Boot) -> bool:
        """Whether the store took a write. That it answers a read is no sign that it takes writes again."""
        if self._in_doubt():
            self._exchange.make(claims=False)  # ends are recorded all the same
            self._again_at = boot + ASK_AGAIN
            return False
        due = boot - self._looks_wait
        looks = due >= self._next_look
        comes_along = looks and self._resting and self._beat_at < boot + self._idle  # what one reads serves both
        beats = due >= self._beat_at or comes_along or self._know.epoch.birth != self._born
        with at_once(self._node.store) if beats or looks else nullcontext():
            if beats:
                self._beat(boot)
            if looks:
                self._look(boot)
        self._due_slots.fill(fires=self._fires)
        if not self._due_slots.line.is_empty:
            self._look_at = min(self._look_at, boot + self._pace.look.total_seconds())
        exchanged = self._exchange.make(claims=self.claims)
        return beats or exchanged

    def _next(self) -> Boot:
        """When there is something to do, if nothing happens before."""
        boot, now = self._node.clock.boot(), self._know.now()
        if self._exchange.claims_at is not None:
            return self._exchange.claims_at if self.lacks_workers else boot
        if self._exchange.pending or self._due_slots.behind:
            return boot
        times = [boot + max((at - now).total_seconds(), 0.0) for at in self._due_slots.ahead(fires=self._fires)]
        others = min(self._beat_at, self._next_look) + self._looks_wait
        return min([others, *times, *([boot + ASK_AGAIN] if len(self.endings) else [])])

    @property
    def _next_look(self) -> Boot:
        return min(self._look_at, self._news_at)

    @property
    def _looks_wait(self) -> float:
        """Seconds for which beats and looks wait."""
        return LOOKS_WAIT if self.in_burst else 0.0

    @property
    def claims(self) -> bool:
        return not self.leaving and self.ordered is None

    @property
    def _fires(self) -> bool:
        return self.claims and self._settings.schedules

    @property
    def idle(self) -> bool:
        """Nothing runs here, and all ends are recorded. Can be true only between two steps: within one, work may be in
        progress."""
        return not (len(self._runs) or len(self.endings))

    @property
    def running(self) -> list[Attempt]:
        over = self.endings.just_over
        return [attempt for attempt in self._runs.all if id(attempt) not in over]

    @property
    def in_burst(self) -> bool:
        """The last step claimed so many slots that more may follow at once; or more are due, or wait for workers."""
        return self._exchange.took >= BURST or self._due_slots.behind or self._exchange.claims_at is not None

    @property
    def lacks_workers(self) -> bool:
        """Slots wait for a moment until more workers are free: an end need not wake this engine yet."""
        return self._exchange.lacks_workers

    @property
    def no_worker(self) -> bool:
        """Whether no worker is left: a job function that was asked to stop and still runs occupies its worker."""
        return self._settings.works and self._runs.overdue(self._node.clock.boot()) >= self._settings.workers

    @property
    def live(self) -> int:
        """How many schedulers were alive at the last beat, this one among them."""
        return len(self._roster.live)

    # --- from outside ---

    def look_soon(self) -> None:
        """There is news. Any thread may call this."""
        self._news_at = min(self._news_at, self._node.clock.boot())

    def beat_soon(self) -> None:
        """The jobs that this process carries, or whether it claims, have changed."""
        self._beat_at = 0.0

    def carry_anew(self) -> None:
        """The jobs to carry may have changed."""
        self._changed = True
        self.beat_soon()

    def leave(self) -> None:
        """Other processes need not wait for this one any more."""
        if self.joined:
            self._node.do(self._roster.leave(self._me))

    # --- being there ---

    def _beat(self, boot: Boot) -> None:
        if not self.joined:
            self._me = self._me._replace(since=self._know.now())
        if self._boards is None:  # before it reads what there is to carry: what is added since is news
            board = [BOARD_RUNS, BOARD_JOBS]
            runs, jobs = self._node.do(self._ledger.client.load(board))[0].cells
            self._boards = (runs.version, jobs.version)
        if self._changed:
            new, gone = self._jobs.take_on(self._carry())
            self._new = (self._new - gone) | new
            self._due_slots.drop(gone)
            self._changed = False
        every = min(self._pace.beat, LOOKED_ON_BEAT) if self._looked_on else self._pace.beat
        self._me = self._me._replace(
            bundle=self._jobs.bundle,
            draining=not self.claims,
            every=every,
            skew=self._node.clock.wall() - self._know.now(),
            running=len(self._runs),
            tzdata=tzdata_version(),
        )
        ttl = max(HOLDER_TTL, 3 * self._pace.beat)
        self._node.do(self._roster.beat(self._me, self._jobs.specs, boot, ttl, self._jobs.code))
        if boot >= self._share_at:
            self._node.do(leave_clock(self._ledger))
            self._left, self._share_at = True, boot + SHARE
        if self._settings.schedules and not self.leaving:
            self._new |= self._roster.regained() & self._jobs.specs.keys()
            self._due_slots.settle_in(self._new)  # again at the next beat, if the store fails here
        self._new = set()
        self.joined = True
        self._beat_at, self._born = boot + every.total_seconds(), self._know.epoch.birth

    # --- looking ---

    def _look(self, boot: Boot) -> None:
        self._look_at, self._news_at = boot + self._pace.look.total_seconds(), inf
        line = self._due_slots.line
        orders = drain_cells(self._node.holder, self._settings.labels)
        watched = line.watched(self._know.now() - 2 * SECOND_TRIES_AFTER)
        asked_for = self._runs.asked_for()
        soon = 2 * (self._pace.idle if self.is_notified else self._pace.look)
        needed = {job_cell(name): name for name in (self._due_slots.needed(boot, soon) if self._fires else ())}
        fixed = [BOARD_RUNS, BOARD_JOBS, SWITCH, LOOKED_ON, *orders, *([own_cell()] if self._left else [])]
        loaded, _ = self._node.do(self._ledger.client.load([*fixed, *asked_for, *watched, *needed]))
        cells = {cell.key: cell for cell in loaded.cells}
        self._know.machine, self._left = cells.get(own_cell(), self._know.machine), False
        self._know.learn_switch(cells[SWITCH])
        self._look_on(cells[LOOKED_ON], loaded.now)
        self._read_boards(cells[BOARD_RUNS].version, cells[BOARD_JOBS].version)
        for key, name in needed.items():
            self._know.learn_job(name, cells[key], loaded)
        self._obey([cells[key] for key in orders])
        for key in asked_for:
            self._runs.heed(cells[key])
        for key in watched:
            line.seen(cells[key])
        self._runs.tell(self._know.now(), boot)
        with suppress(StoreError):
            self._node.do(self._keeper.pending_ends.report())
        may_rest, look = self.is_notified and not len(self._runs), self._pace.look.total_seconds()
        ahead = self._idle if may_rest else look
        comes = self._open_runs.take_up(ahead) if self._settings.works and self.claims else inf
        rest = min(self._idle, comes - NEAR_LAPSE.total_seconds())
        self._resting = may_rest and line.is_empty and rest > look and not self._due_slots.reads_more
        if self._resting:
            self._look_at = boot + rest
        self._look_at = min(self._look_at, boot + max(comes + 0.005, 0.05))
        if self._due_slots.reads_more:
            self._look_at = min(self._look_at, boot + READ_ON)

    @property
    def _idle(self) -> float:
        """Seconds between two looks while there is nothing to do: a lease that another process is granted in between is
        seen before it comes near to its end."""
        lease = self._jobs.shortest_lease
        early = lease - hearing(lease) - PROBE_AHEAD
        return max(min(self._pace.idle, early), self._pace.look).total_seconds()

    def _look_on(self, cell: Cell, now: Instant) -> None:
        """A person who watches a page should see at once that a process is gone."""
        before, self._looked_on = self._looked_on, cell.until is not None and now < cell.until
        if self._looked_on and not before:
            self.beat_soon()

    def _read_boards(self, runs: int, jobs: int) -> None:
        before, self._boards = self._boards, (runs, jobs)
        if before is not None and before[0] != runs:
            self._due_slots.line.freed()
        if before is not None and before[1] != jobs:
            self._know.forget_jobs()
            self._due_slots.read_anew()
            self.carry_anew()

    def _obey(self, cells: Iterable[Cell]) -> None:
        before = self.ordered
        self.ordered = next(filter(None, map(standing_act, cells)), None)
        if (before is None) != (self.ordered is None):
            what = What.RESUMED if self.ordered is None else What.DRAINED
            self._tell(what, f"holder/{self._node.holder}", f"by {(self.ordered or before or Act('')).by}")
            self.beat_soon()

    def _tell(self, what: What, key: str, detail: str) -> None:
        self._ledger.client.report(Event(what, key, self._node.holder, self._know.now(), detail=detail))
