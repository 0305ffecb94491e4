"""One call of a guarded job: find its slot, claim it, run the body under the lease, say how it ended.

Everything a trigger from outside sets off is here, as steps (`steps`), for functions and for commands alike.

*Older slots first.* Before its own slot, a call looks for slots of its job that nobody looks after any more: their
holder is gone, or they failed and have attempts left. If it needs no arguments, it runs them, or puts on record that
they are lost, as their on_lost says. With arguments, which belong to its own slot, it only sees to those whose holder
is gone. So a crontab, or any trigger, is enough to take over.

*A refusal is an answer.* Who lost the slot gets `Skipped`, with the reason. Only a store that does not answer is an
exception, and then the body does not run.

*What cannot be recorded.* A body that ended while the store is away is said to have ended again and again until trust
ends; then it is an error, for by the record the run is still going on.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from cronce.errors import BadInput, BadRecord, ClockOff, NotRecorded, StoreError, StoreUnavailable, TimedOut, TrustEnded
from cronce.model import Cell, Instant, Slot, slot_of_cell, spell
from cronce.protocol.commands import Closed, Early, Finished, Held, Queued, Stale
from cronce.protocol.record import Outcome, State, decode
from cronce.protocol.retention import default_keep
from cronce.runtime.declare import CLOCK_OFF, Declaration, When
from cronce.runtime.flow import drive
from cronce.runtime.jobs import PURGED_AT_ONCE
from cronce.runtime.keeper import Keeper, Lease, Over, whose
from cronce.runtime.ledger import Expired, Grant, Refused, Terms, Wanted
from cronce.runtime.run import Run, Skipped
from cronce.runtime.steps import Body, Do, Nap, Steps
from cronce.runtime.task import Busy, Paused, Superseded, Unsure
from cronce.schedule import format_duration
from cronce.stores.base import Store
from cronce.value import NamedTuple

LOOK: Final = 1.0
"""Seconds between two looks at a slot that another has, at most."""

OLDER: Final = 20
"""How many older slots a call looks after at most, before its own."""

MANY: Final = 1000
"""How many a call looks through that cannot run them, for those whose holder is gone."""

TOO_SLOW: Final = 5
"""How often a grant may come too late to be used."""

TIDY_MOST: Final = 10
"""How many thousand runs go at most when somebody sees to what is kept; a job of every second makes four in an hour."""

REASON_KEPT: Final = 500
"""Characters of an exception that a record keeps."""


class Ending(NamedTuple):
    """How a body ended, for the record."""

    outcome: Outcome
    reason: str = ""
    cut_short: bool = False
    output: str = ""
    backoff: timedelta = timedelta(0)


class Work:
    """What a call is for: a function, unless a kind of work says otherwise (`integrations.command`)."""

    def __init__(self, body: Callable[[Run], Any]) -> None:
        self.run = body

    def ending(self, _run: Run, _result: Any) -> Ending | None:
        """How a body ended that returned; None: it never began, and the slot is given back."""
        return Ending(Outcome.SUCCEEDED)

    def renewed(self, _grant: Grant) -> None:
        """Its lease goes on."""

    def stop(self, body: Body, _run: Run, _over: Over) -> None:
        """Its lease ended while it ran; called from another thread."""
        body.stop()


class Call:
    """`take_over`: the work needs nothing that belongs to this one slot, so older ones may be run by it. `stand_by`:
    when another has the slot, wait until it is closed, and take it over if its holder goes away."""

    def __init__(
        self,
        keeper: Keeper,
        job: Declaration,
        work: Work,
        *,
        take_over: bool = False,
        stand_by: bool = False,
        refused: Callable[[Slot, str, Keeper], None] = lambda _slot, _why, _keeper: None,
    ) -> None:
        self.desk, self.keeper, self.job, self._work = keeper.desk, keeper, job, work
        self._take_over, self._stand_by, self._refused = take_over, stand_by, refused

    def steps(self, when: When | None = None) -> Steps[Any]:
        """The whole call: the body's result, or why it was skipped; the body's exception is the caller's."""
        fired = self.desk.clock.wall()
        self.slot = slot = self.job.slot_at(fired) if when is None else self.job.slot_named(when)
        yield Do(self.desk.ledger.jobs.learn(self.job.name))
        self._check_clock() if when is None else self._check_due(slot)
        yield Do(self.desk.ledger.jobs.declare(self.job.name, self.job.spec, slot.at))
        yield from self._look_after_older(slot)
        answer = yield from self._claim(slot, self.job.terms(slot, inferred=when is None))
        if isinstance(answer, Grant):
            return (yield from self._run(answer))
        skipped = why_not(slot, answer)
        self._refused(slot, skipped.reason, self.keeper)
        return skipped

    def _check_clock(self) -> None:
        """The slot was inferred from this host's clock; one that is minutes off means another slot."""
        off = self.desk.clock.wall() - self.desk.ledger.know.now()
        if abs(off) > CLOCK_OFF:
            way = "ahead of" if off > timedelta(0) else "behind"
            raise ClockOff(
                f"this machine's clock is {format_duration(abs(off))} {way} the store's, so it does not know which slot"
                f" of {self.job.name} is due; nothing was run. Set the clock (is NTP running?), or name the slot"
            )

    def _check_due(self, slot: Slot) -> None:
        """A caller that is a little early waits. One that names a day to come made a slip, and would wait for it."""
        early = slot.at - self.desk.ledger.know.now()
        if early > CLOCK_OFF:
            raise BadInput(
                f"{slot.key} is not due before {format_duration(timedelta(seconds=early // timedelta(seconds=1)))} from"
                " now, and no slot runs before its instant"
            )

    # --- claiming ---

    def _claim(self, slot: Slot, terms: Terms, *, known: bool = False) -> Steps[Grant | Refused]:
        too_slow = 0
        while True:
            (answer,) = yield Do(self.desk.ledger.claim([Wanted(slot, terms, known)]))
            pause = self._pause(answer)
            too_slow += isinstance(answer, Expired)
            if pause is None:
                return answer  # type: ignore[no-any-return]
            if too_slow == TOO_SLOW:
                lease = format_duration(terms.lease)
                raise StoreUnavailable(f"{slot.key} was not run: the store answers too slowly for a lease of {lease}")
            yield Nap(pause)
            known = not isinstance(answer, Early)

    def _pause(self, answer: Grant | Refused) -> float | None:
        """For how long to wait before asking again; None: this is the answer."""
        match answer:
            case Early(until):
                return self._until(until)
            case Queued() | Busy():
                return LOOK / 4
            case Held(_, until) if self._stand_by:
                return max(self._until(until), LOOK / 10)
            case Expired():
                return LOOK / 4
            case _:
                return None

    def _until(self, until: Instant | None) -> float:
        left = (until - self.desk.ledger.know.now()).total_seconds() if until else LOOK
        return min(max(left, 0.001), LOOK)

    def _look_after_older(self, own: Slot) -> Steps[None]:
        """What nobody can make sense of is passed over: it must not keep the job from running."""
        cells = yield Do(self.desk.ledger.overdue(self.job.name, OLDER if self._take_over else MANY))
        older = [cell for cell in cells if cell.key != own.cell]
        if not self._take_over:
            dead = [cell for cell in older if _runs(cell)]
            yield Do(self.desk.ledger.settle(dead))
            return
        for cell in older:
            with suppress(BadInput):
                slot = slot_of_cell(cell.key)
                wanted = Wanted(slot, self.job.terms(slot, inferred=False), known=True)
                (answer,) = yield Do(self.desk.ledger.claim([wanted]))
                if isinstance(answer, Grant):
                    yield from self._run_older(answer)

    def _run_older(self, grant: Grant) -> Steps[None]:
        """How an older slot ends is on record; the caller asked for another."""
        try:
            yield from self._run(grant)
        except StoreError:
            raise
        except Exception:  # noqa: S110
            pass

    # --- running ---

    def _run(self, grant: Grant) -> Steps[Any]:
        work = self._work
        body = Body(lambda: work.run(run))
        lease = Lease(
            grant,
            self.desk.clock,
            lambda over: work.stop(body, run, over),
            timeout=self.job.timeout,
            renewed=work.renewed,
        )
        run = Run(lease)
        try:
            self.keeper.keep(lease)
            result = yield body
            ending = work.ending(run, result)
            if lease.over is not None and lease.over.cause == "timed out" and body.stopped:
                raise TimedOut(lease.over.why)  # it went on all the same, and then returned
        except GeneratorExit:  # nobody takes these steps any more, and nothing can be said
            self.keeper.drop(lease)
            raise
        except BaseException as error:
            yield from self._failed(lease, body, error)
            raise
        if lease.mine:
            self.keeper.drop(lease)
            yield from self._finish(lease, ending) if ending else self._give_back(lease)
            self._tidy(lease)
        return result

    def _tidy(self, lease: Lease) -> None:
        """See to what is kept of the job, soon and on the keeper's thread; nobody waits, and nothing hangs on it."""
        slot = lease.grant.slot
        if slot is not None and self.job.tidies(slot):
            self.keeper.later(f"tidy {self.job.name}", self._tidied)

    def _tidied(self, store: Store) -> None:
        jobs, clock = self.desk.ledger.jobs, self.desk.clock
        keep = (self.job.keep or default_keep(store.traits))._replace(least=self.job.still_open)
        for _ in range(TIDY_MOST):
            if drive(jobs.purge(self.job.name, keep), store, clock) < PURGED_AT_ONCE:
                break
        drive(jobs.sweep(), store, clock)

    def _failed(self, lease: Lease, body: Body, error: BaseException) -> Steps[None]:
        """Put the end on record, and raise what the caller shall see if it is not the body's own exception."""
        if not lease.mine:  # a child that the body forked comes this way too, and has nothing to say
            return
        self.keeper.drop(lease)
        if not body.started:
            yield from self._give_back(lease)
            return
        over = lease.over if body.stopped else None
        ending = self._ending(lease, over, error)
        try:
            yield from self._finish(lease, ending, once=not isinstance(error, Exception))
            self._tidy(lease)
        except (StoreError, TrustEnded) as trouble:
            if over is None:
                error.add_note(f"and how it ended could not be recorded: {trouble}")
        if over is not None and over.cause == "timed out":
            raise TimedOut(f"{lease.name} {over.why}") from error
        if over is not None:
            raise TrustEnded(f"{lease.name} was stopped: {over.why}") from error

    def _ending(self, lease: Lease, over: Over | None, error: BaseException) -> Ending:
        """What stopped the body from outside is no failure of its own, except that it took too long. A body that asks
        whether it may go on can know that its trust has ended before it was told."""
        if over is None:
            asked = isinstance(error, TrustEnded) and not lease.trusted
            return Ending(Outcome.FAILED, describe(error), cut_short=asked or not isinstance(error, Exception))
        if over.cause == "timed out":
            return Ending(Outcome.FAILED, over.why)
        return Ending(Outcome.FAILED, f"stopped: {over.why}", cut_short=over.cause == "lost")

    def _give_back(self, lease: Lease) -> Steps[None]:
        yield Do(self.desk.ledger.release([lease.grant]))

    def _finish(self, lease: Lease, ending: Ending, *, once: bool = False) -> Steps[None]:
        pause = 0.1
        while True:
            began = self.desk.clock.boot()
            answer = yield Do(
                self.desk.ledger.finish(
                    lease.grant,
                    ending.outcome,
                    ending.reason,
                    ending.backoff,
                    cut_short=ending.cut_short,
                    output=ending.output,
                )
            )
            if not isinstance(answer, Unsure):
                self.keeper.outage.answered()
            elif answer.error is not None:
                self.keeper.outage.unanswered(began, answer.why)
            match answer:
                case Finished():
                    return
                case Stale(by):
                    now = whose(by, self.desk.holder)
                    raise TrustEnded(f"{lease.name} {ending.outcome}, but {now}: only fenced effects were refused")
                case Unsure(why, error) if once or not lease.trusted or _for_good(error):
                    raise NotRecorded(f"{lease.name} {ending.outcome}, but that could not be recorded: {why}")
            yield Nap(pause, in_hand=True)
            pause = min(2 * pause, 5.0)


def _runs(cell: Cell) -> bool:
    """Whether a slot that is looked after too late was running: the only kind that can be settled and not run."""
    try:
        slot_of_cell(cell.key)
        return decode(cell.value, cell.key).state is State.RUNNING
    except (BadRecord, BadInput):
        return False


def _for_good(error: StoreError | None) -> bool:
    """Whether asking again is in vain until a person has acted."""
    return error is not None and not isinstance(error, StoreUnavailable)


def describe(error: BaseException) -> str:
    """What a record keeps of an exception: text that every database can show."""
    text = str(error).replace("\0", "\ufffd").encode(errors="replace").decode()
    return f"{type(error).__name__}: {text}"[:REASON_KEPT] if text else type(error).__name__


def why_not(slot: Slot, answer: Refused) -> Skipped:
    """A refusal, in words."""
    match answer:
        case Held(by, until):
            return Skipped("held", f"{by} runs it" + (f", until {spell(until)} at least" if until else ""), slot.key)
        case Closed(Outcome.TOO_OLD, reason):
            return Skipped("too old", f"it is too old: {reason}", slot.key)
        case Closed(outcome, reason):
            return Skipped("closed", f"it is closed: {outcome}" + (f", {reason}" if reason else ""), slot.key, outcome)
        case Paused():
            return Skipped("paused", "the job is paused", slot.key)
        case Superseded(firing):
            return Skipped("superseded", f"version {firing} of the job fires it", slot.key)
        case Unsure(why):
            raise StoreUnavailable(f"{slot.key} was not run: {why}")
        case _:
            raise AssertionError(f"{answer} is no reason not to run {slot.key}")
