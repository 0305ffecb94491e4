"""One call of a guarded job: find its slot, claim it, run the job function under the lease, record how it ended.

Everything that an outside trigger starts is here, as steps (`steps`), for functions and for commands alike.

*Older slots first.* Before its own slot, a call looks for slots of its job that no process looks after any more: their
holder is gone, or they failed and have attempts left. If it needs no arguments, it runs them, or records that they are
lost, as their on_lost requires. With arguments, which belong to its own slot, it only handles those whose holder is
gone. So a crontab, or any trigger, is enough to take over.

A process that calls often looks only every few seconds, and after a failure of its own that is to be retried.

*A refusal is an answer.* A caller that lost the slot gets `Skipped`, with the reason; or the exception of an older slot
or a rerun, if the call ran that and it failed. Where the store does not answer that is raised, and nothing runs.

*What cannot be recorded.* If the store is unreachable when a job function ends, the end is written again and again
until the lease can no longer be trusted. Then the call raises, since by the record the run still goes on, and the end
is written in the background (`pending_ends`).
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from cronce.clock import Clock
from cronce.errors import (
    BadInput,
    BadRecord,
    CannotStart,
    ClockOff,
    LeaseLost,
    NotRecorded,
    StoreError,
    StoreUnavailable,
)
from cronce.model import Boot, Cell, Instant, Slot, Write, slot_of_cell, spell
from cronce.policy import wants_all
from cronce.protocol.codec import all_readable
from cronce.protocol.commands import (
    Busy,
    Closed,
    Early,
    Finish,
    Finished,
    Held,
    Paused,
    Queued,
    Release,
    Stale,
    Superseded,
    Unsure,
)
from cronce.protocol.lease import LONGEST_LEASE, hearing, tolerance
from cronce.protocol.record import Outcome, decode
from cronce.protocol.terms import Terms
from cronce.runtime.attempt import Attempt, End, Ending, Work, finish_of, too_late
from cronce.runtime.declare import CLOCK_OFF, Declaration, When
from cronce.runtime.flow import Flow
from cronce.runtime.jobs import tidy_later
from cronce.runtime.journal import Journal, UnaskedCall
from cronce.runtime.keeper import RENEWAL_RETRY, Keeper, Lease, refuse_patched_threads, whose
from cronce.runtime.ledger import Expired, Grant, Refused, Wanted
from cronce.runtime.node import holder_name
from cronce.runtime.prevented import is_prevented
from cronce.runtime.process_notes import UNASKED, UNSTARTED, leave_clock, recall_clock
from cronce.runtime.run import Skipped
from cronce.runtime.steps import Steps, StoreStep, WaitStep
from cronce.schedule import format_duration
from cronce.stores import discreet

if TYPE_CHECKING:
    from cronce.runtime.standby import Standby

SLOT_POLL: Final = 1.0
"""Seconds between two looks at a slot that another has, at most."""

OLDER: Final = 20
"""How many older slots a call looks after at most, before its own."""

RUNS_CHECKED: Final = 1000
"""How many runs a call checks for a holder that is gone, if it cannot run them itself."""

LONGEST_TAKEOVER_WAIT: Final = 2 * LONGEST_LEASE
"""How long a call waits at most until it may act on a lapsed run."""

TOO_SLOW: Final = 5
"""How often a grant may come too late to be used."""


class Call:
    """`take_over`: the work needs nothing that belongs to this one slot, so it may run older ones. `stand_by`: if
    another process has the slot, wait until it is closed, and take it over if its holder dies. `beside`: what is
    written with the end of the run. `fired`: when the trigger fired, if that is not now. `only_noted`: the job function
    runs elsewhere, whatever the answer is. `ahead`: gives the lease of a slot that was claimed ahead, which its keeper
    no longer renews from then on. `running`: a context that is entered while a slot runs, its own or an older one.
    `standby`: called if another process runs the slot, and this one may take it over."""

    def __init__(
        self,
        keeper: Keeper,
        job: Declaration,
        work: Work,
        *,
        take_over: bool = False,
        stand_by: bool = False,
        refused: Callable[[Slot, str, Keeper], None] = lambda _slot, _why, _keeper: None,
        beside: Callable[[], Sequence[Write]] = tuple,
        fired: Instant | None = None,
        only_noted: bool = False,
        ahead: Callable[[Slot], Lease | None] = lambda _slot: None,
        running: Callable[[], AbstractContextManager[None]] = nullcontext,
        standby: "Standby | None" = None,
    ) -> None:
        self.node, self.keeper, self.job, self._work = keeper.node, keeper, job, work
        self._take_over, self._stand_by, self._refused, self._beside = take_over, stand_by, refused, beside
        self._fired, self._only_noted, self._ahead, self._running = fired, only_noted, ahead, running
        self._standby = standby if take_over else None
        self.answer: Grant | Refused | None = None
        """The store's answer for its slot."""
        self._older_failed: Exception | None = None

    def steps(self, when: When | None = None) -> Steps[Any]:
        """The whole call: the result of the job function, or why it was skipped. What the function raises is raised."""
        refuse_patched_threads()
        began = self.node.clock.boot()
        self.slot = self._slot(when, began)
        try:
            self.answer = answer = yield from self._asked(when, began)
            result = answer if isinstance(answer, Grant) else why_not(self.slot, answer)
        except StoreError as error:
            if not self._only_noted:
                could_not_ask(self.keeper.pending_ends.journal, self.job, self.node.clock, error, self.slot)
            raise
        if isinstance(result, Grant):
            return (yield from self._run(result))
        if is_prevented(answer) and not self._only_noted:
            self.keeper.prevented.add(self.slot.job, self.node.ledger.know.now())
        self._refused(self.slot, result.reason, self.keeper)
        if isinstance(answer, Held) and self._standby is not None:
            self._standby.add(self, self.job.terms(self.slot, inferred=when is None), answer)
        if self._older_failed is not None:
            raise self._older_failed
        return result

    def _asked(self, when: When | None, began: Boot) -> Steps[Grant | Refused]:
        """The store's answer to the call, after older slots were handled."""
        yield StoreStep(self._learn())
        if self.node.ledger.know.doubt is not None:
            if when is None and self.node.ledger.know.is_new:
                self._check_clock()
            yield from self._wait_for_clock()
            self.slot = self._slot(when, began)
        slot = self.slot
        self._check_clock() if when is None else self._check_due(slot)
        ago = timedelta(seconds=self.node.clock.boot() - began) + (CLOCK_OFF if when is None else timedelta(0))
        called = self.node.ledger.know.now() - ago  # by a clock that may be off, where the slot was inferred from that
        yield StoreStep(self.node.ledger.jobs.declare(self.job.name, self.job.spec, slot.at, self.job.code, called))
        if self.keeper.pending_ends.waits:
            with suppress(StoreError):
                yield StoreStep(self.keeper.pending_ends.report())
        if self.node.ledger.looks_again(self.job.name):
            yield from self._look_after_older(slot)
        if self._standby is not None:
            self._standby.drop(slot.cell)  # this call takes it over, and its caller has the result
        terms = self.job.terms(slot, inferred=when is None)
        return (yield from self._claim(slot, terms.only_noted() if self._only_noted else terms))

    def _slot(self, when: When | None, began: Boot) -> Slot:
        """The one that is named, or was due when the call began, by this host's clock as it is now."""
        if when is not None:
            return self.job.slot_named(when)
        clock = self.node.clock
        return self.job.slot_at(self._fired or clock.wall() - timedelta(seconds=clock.boot() - began))

    def _learn(self) -> Flow[object]:
        """The job and the store's clock; at first contact also what other processes of this machine saw of that
        clock."""
        ledger, name = self.node.ledger, self.job.name
        return ledger.jobs.learn(name) if ledger.know.machine else recall_clock(ledger, name)

    def _wait_for_clock(self) -> Steps[None]:
        """Until the store's clock is believed."""
        know, clock = self.node.ledger.know, self.node.clock
        give_up = clock.boot() + LONGEST_TAKEOVER_WAIT.total_seconds()
        while know.doubt is not None:
            if clock.boot() >= give_up:
                self._refused(self.slot, know.doubt.words, self.keeper)
                raise StoreUnavailable(f"{self.slot.key} was not run: {know.doubt.words}")
            yield WaitStep(SLOT_POLL)
            yield StoreStep(self.node.ledger.client.load([]))

    @property
    def is_async(self) -> bool:
        return self._work.is_async

    def _check_clock(self) -> None:
        """The slot was inferred from this host's clock; one that is minutes off means another slot."""
        off = self.node.clock.wall() - self.node.ledger.know.now()
        if abs(off) > CLOCK_OFF:
            way = "ahead of" if off > timedelta(0) else "behind"
            self._refused(self.slot, f"its clock was {format_duration(abs(off))} {way} the store's", self.keeper)
            raise ClockOff(
                f"this machine's clock is {format_duration(abs(off))} {way} the store's, so cronce does not know"
                f" which slot of {self.job.name} is due; nothing was run. Set the clock (is NTP running?), or name"
                " the slot"
            )

    def _check_due(self, slot: Slot) -> None:
        """A caller that is a little early waits. One that names a day to come made a slip, and would wait for it."""
        early = slot.at - self.node.ledger.know.now()
        if early > CLOCK_OFF:
            raise BadInput(
                f"{slot.key} is due in {format_duration(timedelta(seconds=early // timedelta(seconds=1)))}; a slot"
                " does not run before its time"
            )

    # --- claiming ---

    def _claim(self, slot: Slot, terms: Terms) -> Steps[Grant | Refused]:
        ahead = self._ahead(slot)
        if ahead is not None and ahead.trusted:
            return ahead.grant
        if ahead is not None:  # the store was unreachable while it waited
            yield StoreStep(self.node.ledger.release([ahead.grant]))
        known, too_slow, give_up = ahead is not None, 0, self.node.clock.boot() + LONGEST_TAKEOVER_WAIT.total_seconds()
        while True:
            (answer,) = yield StoreStep(self.node.ledger.claim([Wanted(slot, terms, known)]))
            pause = self._pause(answer, patient=self.node.clock.boot() < give_up)
            too_slow += isinstance(answer, Expired)
            if pause is None:
                return answer  # type: ignore[no-any-return]
            if too_slow == TOO_SLOW:
                lease = format_duration(terms.lease)
                raise StoreUnavailable(f"{slot.key} was not run: the store answers too slowly for a lease of {lease}")
            yield WaitStep(pause)
            if isinstance(answer, Busy | Held) and self._has_lapsed(answer.until):
                yield from self._look_after_older(slot)
            known = not isinstance(answer, Early)

    def _pause(self, answer: Grant | Refused, *, patient: bool) -> float | None:
        """How long to wait before asking again; None: this is the answer."""
        match answer:
            case Early(until):
                return self._until(until)
            case Busy(_, until) if not patient and self._has_lapsed(until):
                return None
            case Busy(_, until) | Held(_, until) if patient and self._has_lapsed(until):
                return SLOT_POLL
            case Queued() | Busy():
                return SLOT_POLL / 4
            case Held(_, until) if self._stand_by:
                return max(self._until(until), SLOT_POLL / 10)
            case Expired():
                return SLOT_POLL / 4
            case _:
                return None

    def _has_lapsed(self, until: Instant | None) -> bool:
        """Its holder may be gone; this process may act on that only after it has watched for long enough."""
        return until is not None and until <= self.node.ledger.know.now()

    def _until(self, until: Instant | None) -> float:
        left = (until - self.node.ledger.know.now()).total_seconds() if until else SLOT_POLL
        return min(max(left, 0.001), SLOT_POLL)

    def _look_after_older(self, own: Slot) -> Steps[None]:
        """A cell that cannot be read is passed over: it must not keep the job from running."""
        cells = yield StoreStep(self.node.ledger.overdue(self.job.name, OLDER if self._take_over else RUNS_CHECKED))
        older, dead = [cell for cell in cells if cell.key != own.cell], [cell for cell in cells if _runs(cell)]
        if dead:
            yield from self._watch()
            yield from self._hear(dead)
        if self.job.database is not None:
            yield StoreStep(self.job.database.settle_gone(self.node.ledger, [cell.key for cell in dead]))
        elif not self._take_over:
            yield StoreStep(self.node.ledger.settle(cell for cell in dead if cell.key != own.cell))
        if not self._take_over:
            return
        for cell in older:
            with suppress(BadInput):
                slot = slot_of_cell(cell.key)
                wanted = Wanted(slot, self.job.terms(slot, inferred=False), known=True)
                (answer,) = yield StoreStep(self.node.ledger.claim([wanted]))
                if isinstance(answer, Grant):
                    yield from self.run_older(answer)

    def _watch(self) -> Steps[None]:
        """A holder seems to be gone, and only a process that watched the store's clock for a whole lease may act on
        that. A process of one call continues from what earlier processes on this machine have seen."""
        with suppress(StoreError):
            yield StoreStep(recall_clock(self.node.ledger))  # other processes may have left more since first contact
            yield StoreStep(leave_clock(self.node.ledger))

    def _hear(self, dead: list[Cell]) -> Steps[None]:
        """A process that was not there when they could speak hears them first, if it may act on it then."""
        know, client = self.node.ledger.know, self.node.ledger.client
        leases = [record.lease for _, record in all_readable(dead, decode)]
        unheard = [lease for lease in leases if know.contact.heard(know.guess(), lease) < hearing(lease)]
        lapsed = [lease for lease in unheard if know.even(know.guess(), tolerance(lease)) >= lease]
        until = know.now() + max(map(hearing, lapsed), default=timedelta(0))
        while lapsed and know.now() <= until + timedelta(seconds=SLOT_POLL / 2):
            yield StoreStep(client.probe())
            yield WaitStep(SLOT_POLL / 2)

    def run_older(self, grant: Grant) -> Steps[None]:
        """How an older slot ends is on record; the caller asked for another, and learns of this one if that does not
        run."""
        try:
            yield from self._run(grant)
        except StoreError:
            raise
        except Exception as error:
            self._older_failed = self._older_failed or error

    # --- running ---

    def _run(self, grant: Grant) -> Steps[Any]:
        job = self.job._replace(timeout=None) if self._only_noted else self.job
        attempt = Attempt(self.keeper, job, self._work, grant)
        attempt.lease.listens = not self._only_noted
        with self._running():
            yield from attempt.steps()
            end = attempt.end
            if attempt.lease.mine:
                yield from self._record(attempt, end)
            return end.outcome(attempt.lease.name)

    def _record(self, attempt: Attempt, end: End) -> Steps[None]:
        """Record the end. If that fails, the caller still sees the exception of the job function itself."""
        if end.open:
            return
        ending, fence = end.ending, attempt.lease.grant.fence
        once = ending is None or not isinstance(end.error, Exception | None)
        try:
            word = Release(fence) if ending is None else finish_of(attempt, ending)
            answer = yield from self._said(attempt.lease, word, once=once)
            if ending is not None:
                self._check_recorded(attempt.lease, ending, answer)
                tidy_later(self.keeper, self.job, attempt.run.slot)
        except (StoreError, LeaseLost) as trouble:
            if end.error is None:
                raise
            if end.over is None:
                end.error.add_note(f"and how it ended could not be recorded: {trouble}")

    def _check_recorded(self, lease: Lease, ending: Ending, answer: object) -> None:
        match answer:
            case Finished(_, retrying):
                if retrying:
                    self.node.ledger.look_again(self.job.name)
            case Stale(by):
                words = too_late(lease, ending, by, self.node.holder)
                raise LeaseLost(words, name=lease.name, fence=lease.grant.fence, why=whose(by, self.node.holder))
            case Unsure(why):
                words = f"{lease.name} {ending.outcome}, but that could not be recorded: {why}"
                raise NotRecorded(f"{words}; cronce keeps trying to record it")

    def _said(self, lease: Lease, word: Finish | Release, *, once: bool) -> Steps[object]:
        """The store's answer to the end. Without one, the end is written to disk, and reported again while the call can
        wait, then by the keeper."""
        pending, outage = self.keeper.pending_ends, self.keeper.outage
        end, pause, answer = pending.end_of(lease.grant, word), 0.1, None
        if outage.lasts:
            pending.write_down([end])
        try:
            while True:
                began = self.node.clock.boot()
                said = self.node.ledger.exchange([(lease.grant, end.word, False)], [], self._beside())
                (answer,), _ = yield StoreStep(said)
                if not isinstance(answer, Unsure):
                    outage.answered()
                    return answer
                if answer.error is not None:
                    outage.unanswered(began, answer.why)
                pending.write_down([end])
                if once or not lease.trusted or not answer.passing:
                    return answer
                yield WaitStep(pause, in_hand=True)
                pause = min(2 * pause, RENEWAL_RETRY)
        finally:
            if answer is None or isinstance(answer, Unsure):
                self.keeper.record_later(end)
            else:
                pending.recorded([word.fence])


def _runs(cell: Cell) -> bool:
    """Whether a slot that is looked after too late was running: the only kind that can be settled and not run."""
    try:
        slot_of_cell(cell.key)
        return decode(cell.value, cell.key).is_running
    except (BadRecord, BadInput):
        return False


def could_not_ask(
    journal: Journal, job: Declaration, clock: Clock, error: StoreError | CannotStart, when: When | None
) -> None:
    """A call came to nothing, since the store could not be asked, or the command not be started: the next call that
    reaches the store puts that on record."""
    with suppress(BadInput):
        slot = job.slot_at(clock.wall()) if when is None else job.slot_named(when)
        start_by = job.terms(slot, inferred=when is None).start_by(slot.at)
        wanted = job.schedule is not None and wants_all(job.missed)
        why = f"{UNASKED if isinstance(error, StoreError) else UNSTARTED}{discreet(str(error))}"
        journal.write([UnaskedCall(slot.key, why, holder_name(clock), clock.wall(), start_by, wanted)])


def why_not(slot: Slot, answer: Refused) -> Skipped:
    """A refusal, in words."""
    match answer:
        case Held(by, until):
            return Skipped("held", f"{by} runs it" + (f", until {spell(until)} at least" if until else ""), slot.key)
        case Busy(run):
            words = "its lease expired, but this process has not watched the store's clock long enough to take over"
            return Skipped("held", f"{slot_of_cell(run).key} may still be running: {words}", slot.key)
        case Closed(Outcome.TOO_OLD, reason):
            return Skipped("too old", f"it is too old: {reason}", slot.key)
        case Closed(outcome, reason):
            return Skipped("closed", f"it is closed: {outcome}" + (f", {reason}" if reason else ""), slot.key, outcome)
        case Paused():
            return Skipped("paused", "the job is paused", slot.key)
        case Superseded(firing):
            return Skipped("superseded", f"version {firing} of the job runs it", slot.key)
        case Unsure(why):
            raise StoreUnavailable(f"{slot.key} was not run: {why}")
        case _:
            raise AssertionError(f"{answer} is not a known reason to skip {slot.key}")
