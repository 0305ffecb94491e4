"""Recording ends and claiming new slots: one swap for both, and the store's answer to each. In a burst, claims go
first.

An end is reported again until it is on record, or another process has acted on the run.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from math import ceil
from typing import Final

from cronce.errors import BodyFailed, DatabaseUnavailable, LeaseLost, SlotFailed, StoreError
from cronce.model import Boot, Instant, Slot
from cronce.policy import may_wait
from cronce.protocol.commands import (
    Busy,
    Closed,
    Early,
    Finish,
    Finished,
    Held,
    Paused,
    Queue,
    Queued,
    Release,
    Stale,
    Superseded,
    Unsure,
)
from cronce.runtime.attempt import SUCCEEDED, Attempt, finish_of, too_late
from cronce.runtime.call import why_not
from cronce.runtime.jobs import tidy_later
from cronce.runtime.journal import PendingEnd
from cronce.runtime.keeper import Keeper
from cronce.runtime.ledger import Expired, Grant
from cronce.runtime.log import LOGGER, job_exc_info
from cronce.runtime.prevented import is_prevented
from cronce.runtime.run import AsCurrentRun
from cronce.runtime.scheduling.running import CarriedJobs, LocalRuns
from cronce.runtime.scheduling.settings import SCHEDULER_POLL, SchedulerSettings
from cronce.runtime.scheduling.waitlist import CLAIMS_PER_SWAP, SECOND_TRIES_AFTER, Candidate, Waitlist

ENDS_WAIT: Final = 0.15
"""Seconds for which ends may wait while slots are claimed. Five thousand slots a second end 750 runs in that time: with
two swaps of 500 ends, of 40 ms each, and the swap before them, the last is recorded within 0.3 s."""

CLAIMED_TOGETHER: Final = 0.003
"""Seconds for which slots may wait for more workers to be free, so that many are claimed in one swap."""

ENOUGH_FREE: Final = 2 / 3
"""The part of the workers that is waited for: the others run while the store is asked. With a half, a thousand slots
start a little sooner, but it takes nine swaps and not eight until all have ended."""

ENDS_PER_SWAP: Final = 500
"""How many ends go in one swap."""

UNWELL: Final = timedelta(seconds=10)
"""Until what could not be begun is tried again, here or elsewhere."""


def word_of(attempt: Attempt) -> Finish | Release:
    """The end that is reported to the store."""
    end = attempt.end
    if end.ending is not None:
        return finish_of(attempt, end.ending)
    stopped = isinstance(end.error, LeaseLost)  # before it could begin
    unwell = isinstance(end.error, Exception) and not stopped
    return Release(attempt.lease.grant.fence, UNWELL if unwell else timedelta(0))


def log_failure(attempt: Attempt) -> None:
    """Log a line for each failure. The traceback is included only if the error was raised in this process; other
    processes log their own."""
    end, ending = attempt.end, attempt.end.ending
    if ending is None and isinstance(end.error, DatabaseUnavailable):
        LOGGER.warning("%s was released, and will be tried again: %s", attempt.lease.name, end.error)
    if ending is None or not ending.outcome.is_failure:
        return
    of = f", attempt {attempt.run.attempt} of {attempt.job.retries + 1}" if attempt.job.retries else ""
    own = None if end.over or isinstance(end.error, BodyFailed | SlotFailed) else end.error
    reason = ending.reason or "no reason given"
    with AsCurrentRun(attempt.run):  # the log line names the run
        LOGGER.error("%s failed%s: %s", attempt.lease.name, of, reason, exc_info=own and job_exc_info(own))


class Endings:
    """Attempts that have ended, until that is on record. Used by one thread, except `add`, which any thread may
    call."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._new: deque[Attempt] = deque()
        self._unrecorded: list[Attempt] = []
        self._recorded_at: Boot = 0.0  # when no end was left to record
        self.given_up = 0
        """How many runs ended here whose ends are not recorded, and never will be."""

    def __len__(self) -> int:
        return len(self._new) + len(self._unrecorded)

    @property
    def new(self) -> int:
        """How many have ended that were not looked at yet. For any thread."""
        return len(self._new)

    @property
    def just_over(self) -> set[int]:
        """The ids of attempts that have ended, and were not looked at yet. For any thread."""
        return {id(attempt) for attempt in tuple(self._new)}

    def add(self, attempt: Attempt) -> None:
        """One that has ended. If the store is known to be unreachable, that is written to disk at once: the process may
        crash before it can report it."""
        if self._keeper.outage.lasts:
            self.write_down([attempt])
        self._new.append(attempt)

    def pop_new(self) -> Iterable[Attempt]:
        """The ends since the last call; the caller is responsible for them from then on."""
        while self._new:
            yield self._new.popleft()

    def keep(self, over: Sequence[Attempt]) -> None:
        """To be reported, or reported again."""
        self._unrecorded += over

    def write_down(self, ends: Iterable[Attempt] | None = None) -> None:
        """On disk, so that it is not lost with the process: these, which the store did not take; or all."""
        ends = self._unrecorded if ends is None else ends
        self._keeper.pending_ends.write_down(self._pending(attempt) for attempt in ends if not attempt.end.open)

    def hand_over(self) -> None:
        """There are no more steps of the engine: the keeper records the ends from now on."""
        ends, self._unrecorded = [*self._unrecorded, *self.pop_new()], []
        for attempt in ends:
            if not attempt.end.open:
                self._keeper.record_later(self._pending(attempt))

    def _pending(self, attempt: Attempt) -> PendingEnd:
        return self._keeper.pending_ends.end_of(attempt.lease.grant, word_of(attempt))

    def take(self, boot: Boot, starting: Collection[str], *, claims_first: bool) -> list[Attempt]:
        """The ends to record now. While slots are claimed, claims go first, for a moment: only the ends of jobs that
        are `starting` are recorded with them, since a slot is never tried before the end of an earlier one of its job
        is recorded."""
        most = 0 if claims_first and boot < self._recorded_at + ENDS_WAIT else ENDS_PER_SWAP
        now, self._unrecorded = self._unrecorded[:most], self._unrecorded[most:]
        if starting and self._unrecorded:
            now += [attempt for attempt in self._unrecorded if attempt.job.name in starting]
            self._unrecorded = [attempt for attempt in self._unrecorded if attempt.job.name not in starting]
        if not self._unrecorded:
            self._recorded_at = boot if most else self._recorded_at
        return now

    def answered(self, over: Sequence[Attempt], answers: Sequence[object]) -> None:
        """Handle the store's answers. Ends that the store may not have received are kept, and written to disk."""
        fences = [attempt.lease.grant.fence for attempt in over]
        if {type(answer) for answer in answers} == {Finished}:
            self._keeper.pending_ends.recorded(fences)
            return
        pairs = list(zip(over, answers, strict=True))
        self._keeper.pending_ends.recorded(
            [fence for fence, answer in zip(fences, answers, strict=True) if not isinstance(answer, Unsure)]
        )
        unconfirmed = [attempt for attempt, answer in pairs if isinstance(answer, Unsure)]
        self.keep(unconfirmed)
        for attempt, answer in pairs:
            if isinstance(answer, Stale) and attempt.end.ending is not None:
                self.given_up += 1
                words = too_late(attempt.lease, attempt.end.ending, answer.by, self._keeper.node.holder)
                LOGGER.error("%s", words)
        self.write_down(unconfirmed)


Submit = Callable[[Sequence[Attempt]], None]
"""Begin these; each is `done` once, from whatever thread."""

Refused = Callable[[Slot, str, Keeper], None]
"""Called with a slot that this process tried to claim and another process had."""


def ignore_refusal(_slot: Slot, _why: str, _keeper: Keeper) -> None:
    """Ignore the refusal."""


class Exchange:
    """Used by one thread. Moves slots from `line` to `runs`, and from there to `endings`. `news` is called when a look
    is useful."""

    def __init__(
        self,
        keeper: Keeper,
        settings: SchedulerSettings,
        jobs: CarriedJobs,
        line: Waitlist,
        runs: LocalRuns,
        *,
        submit: Submit,
        refused: Refused,
        news: Callable[[], None],
    ) -> None:
        self._keeper, self._node, self._ledger = keeper, keeper.node, keeper.node.ledger
        self._settings, self._jobs, self._line, self._runs = settings, jobs, line, runs
        self._submit, self._refused, self._news = submit, refused, news
        self._left = False  # at the last exchange, not all ends were recorded
        self._begun_at: Boot = 0.0  # when the last slots were handed to workers
        self._lacking = 0  # how many more workers should be free before slots are claimed
        self.claims_at: Boot | None = None
        """While slots wait and few workers are free: when they are claimed, even if no more are free by then."""
        self.took = 0
        """How many slots the last step claimed."""
        self._warned: set[tuple[str, str]] = set()
        self.endings = Endings(keeper)

    @property
    def pending(self) -> bool:
        """Whether there is something to record, or something in line that may be claimed."""
        return self.endings.new > 0 or self._left or (self.took > 0 and len(self._line) > 0 and self._free > 0)

    @property
    def lacks_workers(self) -> bool:
        """Slots wait until more workers are free, and not as many runs have ended since. For any thread."""
        return self.claims_at is not None and self.endings.new < self._lacking

    @property
    def _free(self) -> int:
        return self._settings.workers - len(self._runs) if self._settings.works else CLAIMS_PER_SWAP

    def write_down(self) -> None:
        """The store did not answer: what has ended is written down here."""
        self._dismiss_ended()
        self.endings.write_down()

    def make(self, *, claims: bool) -> bool:
        """Returns whether there was anything to report or claim."""
        self._dismiss_ended()
        boot = self._node.clock.boot()
        self.claims_at = self._claims_at(boot) if claims else None
        claims = claims and self.claims_at is None
        chosen = self._line.take(self._free, self._ledger.know.now(), self._runs.turns) if claims else []
        self.took = len(chosen)
        claims_first = bool(chosen) or self.claims_at is not None
        over = self.endings.take(boot, {one.slot.job for one in chosen}, claims_first=claims_first)
        self._left = len(self.endings) > 0
        if not over and not chosen:
            return False
        try:
            answers, grants = self._exchanged(over, chosen)
        except BaseException:
            self.endings.keep(over)
            self._line.put_back(chosen)
            raise
        try:
            self.endings.answered(over, answers)
            for attempt, answer in zip(over, answers, strict=True):
                self._end_answered(attempt, answer)
        finally:  # granted slots start, whatever else fails
            now = self._ledger.know.now()
            answered = [self._claim_answered(one, answer, now) for one, answer in zip(chosen, grants, strict=True)]
            attempts = [attempt for attempt in answered if attempt is not None]
            with suppress(RuntimeError):  # no thread can be started: then each slot is given back as it begins
                self._keeper.keep(*[attempt.lease for attempt in attempts if not attempt.is_async])
            self._submit(attempts)
            if attempts:
                self._begun_at = self._node.clock.boot()
        unsure = [one.error for one in (*answers, *grants) if isinstance(one, Unsure) and one.error]
        if unsure and len(unsure) == len(over) + len(chosen):
            raise unsure[0]
        return True

    def _claims_at(self, boot: Boot) -> Boot | None:
        enough = min(len(self._line), ceil(min(self._settings.workers, CLAIMS_PER_SWAP) * ENOUGH_FREE))
        self._lacking = enough - self._free
        if self._lacking <= 0:
            return None
        until = self._begun_at + CLAIMED_TOGETHER
        return until if boot < until else None

    def _dismiss_ended(self) -> None:
        """Their workers, and as far as this process is concerned their turns, are free again."""
        over: list[Attempt] = []
        for attempt in self.endings.pop_new():
            job = attempt.job
            attempt.awaited = may_wait(job.overlap) or self._line.waits_for(job.name)
            self._runs.dismiss(attempt)
            if attempt.end.open:
                continue
            over.append(attempt)
        self.endings.keep(over)
        for attempt in over:
            if attempt.end.ending is not SUCCEEDED:
                log_failure(attempt)

    def _exchanged(self, over: list[Attempt], chosen: list[Candidate]) -> tuple[Sequence[object], Sequence[object]]:
        if not self._settings.works:
            return (), self._node.do(self._ledger.put({one.slot: Queue(digest=one.terms.digest) for one in chosen}))
        ended = [(one.lease.grant, word_of(one), one.awaited or one.end.ending is None) for one in over]
        return self._node.do(self._ledger.exchange(ended, chosen))

    # --- what the store answered ---

    def _end_answered(self, attempt: Attempt, answer: object) -> None:
        """The store's answer to an end. If the slot is to be retried, or others waited for it, look at once."""
        retrying = False
        if isinstance(answer, Finished):
            retrying = answer.retrying
            tidy_later(self._keeper, attempt.job, attempt.run.slot)
        if attempt.awaited or retrying:
            self._news()

    def _claim_answered(self, candidate: Candidate, answer: object, now: Instant) -> Attempt | None:
        """To a claim."""
        match answer:
            case Grant():
                return self._employed(candidate, answer, now)
            case Unsure() if answer.unreadable:
                self._warn(candidate.slot.job, f"is not run by this process: {answer.why}")
                self._line.put_off(candidate, now + UNWELL)
            case Expired() | Unsure():
                self._line.put_back([candidate])
            case Early(until):
                self._line.put_off(candidate, until or now + SECOND_TRIES_AFTER)
            case Queued(True) | Busy():
                self._line.found_busy(candidate.slot.job, now)
                if isinstance(answer, Busy) and not candidate.known:  # it is on record nowhere, so no look finds it
                    self._line.put_off(candidate, now + SCHEDULER_POLL)
            case Paused() if now - candidate.due < 2 * SCHEDULER_POLL:  # by facts up to a look old: it may be resumed
                self._line.put_off(candidate, now + SCHEDULER_POLL)
            case Superseded():
                self._superseded(candidate, now)
            case Held() | Closed():
                self._beaten(candidate, answer)
        return None  # held or closed: its holder is responsible; waiting runs are found by looking

    def _superseded(self, candidate: Candidate, now: Instant) -> None:
        """Refused by facts that may be old: this process may get it in a moment."""
        if now - candidate.due < 4 * SCHEDULER_POLL:
            self._ledger.know.forget_job(candidate.slot.job)
            self._line.put_off(candidate, now + SCHEDULER_POLL)
        else:
            self._warn(candidate.slot.job, "is run by another version of the job, in another process")

    def _beaten(self, candidate: Candidate, answer: Held | Closed) -> None:
        """A run that was left behind is open to all processes, so losing it is expected."""
        if not candidate.known:
            if is_prevented(answer):
                self._keeper.prevented.add(candidate.slot.job, self._ledger.know.now())
            self._refused(candidate.slot, why_not(candidate.slot, answer).reason, self._keeper)

    def _employed(self, candidate: Candidate, grant: Grant, now: Instant) -> Attempt | None:
        """A slot that cannot start is given back: one failure must not affect the others."""
        try:
            return self._runs.employ(candidate, grant, self._jobs[candidate.slot.job], now)
        except Exception:
            LOGGER.exception("%s could not be started; it was released for another process", candidate.slot.key)
        with suppress(StoreError):
            self._node.do(self._ledger.release([grant], UNWELL))
        return None

    def _warn(self, job: str, why: str) -> None:
        """Once: it is the same with every slot."""
        if (job, why) not in self._warned:
            self._warned.add((job, why))
            LOGGER.warning("%s %s", job, why)
