"""One execution of a job function under its lease, from the grant to its end. Reporting the end to the store is the
caller's task: a call reports it at once, a scheduler together with its other writes."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final

from cronce.errors import DatabaseUnavailable, LeaseLost, SlotFailed, TimedOut
from cronce.events import Event, What
from cronce.model import Boot, Instant
from cronce.protocol.commands import Finish
from cronce.protocol.record import COMMITTED, REASON_KEPT, Outcome
from cronce.protocol.table import ended_as
from cronce.runtime.declare import Declaration
from cronce.runtime.keeper import STUBBORN, Keeper, Lease, LeaseEnd, whose
from cronce.runtime.ledger import Grant
from cronce.runtime.log import LOGGER, job_traceback
from cronce.runtime.run import Around, AsCurrentRun, Run
from cronce.runtime.steps import BodyStep, Steps, StoreStep
from cronce.schedule import format_duration
from cronce.stores import discreet
from cronce.value import NamedTuple

EXIT: Final = "the job function raised GeneratorExit"

PROMPT_END: Final = 1.0
"""Seconds: an end that is reported later than this carries the time when it happened."""


class Ending(NamedTuple):
    """How a job function ended, for the record."""

    outcome: Outcome
    reason: str = ""
    cut_short: bool = False
    output: str = ""
    final: bool = False


SUCCEEDED: Final = Ending(Outcome.SUCCEEDED)


class Work:
    """What a call runs: a function, or in a subclass something else (`processes.command`)."""

    is_async = False
    """Whether `run` gives an awaitable, to be awaited on the event loop."""
    can_be_killed = False
    """Whether it runs in a process of its own."""

    def __init__(self, body: Callable[[Run], Any], *, is_async: bool = False) -> None:
        self.run, self.is_async = body, is_async

    def ending(self, _run: Run, _result: Any) -> Ending | None:
        """How a job function that returned has ended; None: it never began, and the slot is given back."""
        return SUCCEEDED

    def renewed(self, _grant: Grant) -> None:
        """Its lease goes on."""

    def stop(self, body: BodyStep, _run: Run, _over: LeaseEnd) -> None:
        """Its lease ended while it ran; called from another thread."""
        body.stop()

    def answer(self, result: Any) -> Any:
        """What a caller gets as the result of its call."""
        return result


class End(NamedTuple):
    """How an attempt ended. Without an `ending` nothing ran, and the slot is to be given back."""

    ending: Ending | None
    result: Any = None
    error: BaseException | None = None
    over: LeaseEnd | None = None
    """Why the job function was stopped from outside, if it was."""
    open: bool = False
    """No end is reported, and its lease lapses."""

    @property
    def word(self) -> str:
        """For people."""
        return self.ending.outcome if self.ending else "not known yet" if self.open else "given back"

    def outcome(self, name: str) -> Any:
        """Returns the job function's result, or raises the exception for how it ended."""
        if self.over is not None and self.over.cause == "timed out":
            raise TimedOut(f"{name} {self.over.why}") from self.error
        if self.over is not None and self.error is not None:
            why = self.over.why
            raise LeaseLost(f"{name} was stopped: {why}", name=name, why=why) from self.error
        if self.error is not None:
            raise self.error
        return self.result


class Attempt:
    """Its lease is renewed from when its steps begin; a scheduler whose attempts wait for a thread renews it before."""

    end: End
    """How it ended, once it has."""
    awaited = False
    """Slots of its job may wait for its turn."""
    _ended: Boot | None = None

    def __init__(self, keeper: Keeper, job: Declaration, work: Work, grant: Grant) -> None:
        self.job, self._keeper, self._work = job, keeper, work
        node = keeper.node
        self.lease = Lease(grant, node.clock, self._stop, timeout=job.timeout, renewed=work.renewed)
        self.run = Run(self.lease, keeper, job)
        self._body = BodyStep(partial(_awaited if work.is_async else _told_apart, work.run, self.run, node.around))

    def _stop(self, over: LeaseEnd) -> None:
        self._work.stop(self._body, self.run, over)

    @property
    def is_async(self) -> bool:
        return self._work.is_async

    def steps(self) -> Steps[None]:
        """Ends with its `end`. Never raises the job function's exception: that is part of it."""
        node, fence = self._keeper.node, self.lease.grant.fence
        boot, wants, know = node.clock.boot, node.ledger.client.wants, node.ledger.know
        began = boot()
        try:
            self._keeper.begin(self.lease)
            know.own.add(fence)
            self.lease.check()  # it may have waited for a thread
            database = self.job.database
            if database is not None and (yield StoreStep(database.committed_before(self.lease.grant))):
                end = End(Ending(Outcome.SUCCEEDED, COMMITTED))
            else:
                if wants(What.STARTED):
                    self._tell_start()
                began = boot()
                result = yield self._body
                end = self._returned(result)
        except GeneratorExit:  # the caller gave up these steps, and nothing can be recorded
            self.let_go()
            raise
        except BaseException as error:
            end = self._raised(error)
        self.end = end
        if not self.lease.mine:  # a child that the job function forked gets here too, and must not report
            return
        self._ended = boot()
        try:
            self.end = self._in_view_of_effects(end if self.job.database is None else (yield from self._sealed(end)))
        finally:
            know.ended[fence] = self.lease.grant.key
            self._keeper.drop(self.lease, unrecorded=True)
        if self.end.open:
            self.let_go()
        if self._body.started and wants(What.ENDED):
            self._tell(What.ENDED, self.end.word, self._ended - began)

    def let_go(self) -> None:
        """No end will be reported: the lease lapses, for this process as for others."""
        self._keeper.drop(self.lease)
        self._keeper.node.ledger.know.let_go([self.lease.grant.fence])

    def _tell_start(self) -> None:
        """How late it is counts from its instant; of a run by hand, from when it was asked for."""
        due = self.lease.grant.cells[0].at or self.run.slot.at
        now = self._keeper.node.ledger.know.now()
        self._tell(What.STARTED, f"attempt {self.run.attempt}", (now - due).total_seconds())

    def _tell(self, what: What, detail: str, seconds: float) -> None:
        client, grant = self._keeper.node.ledger.client, self.lease.grant
        client.report(Event(what, grant.key, client.holder, client.know.now(), grant.fence, detail, seconds))

    def _sealed(self, end: End) -> Steps[End]:
        """Before a run is recorded as failed, its database is asked: the commit may have happened though its reply was
        lost. If that is not known, no end is reported, and the process that finds the run lapsed asks again. A run that
        has begun no transaction is not committed: there is nothing to ask, and a connection of its own that has written
        may keep the database locked."""
        failed = end.ending is not None and (end.ending.outcome.is_failure or bool(self.run.undone))
        if self.job.database is None or not failed or self.run.committed or not self.run.joined:
            return end
        try:
            self.run.committed = yield StoreStep(self.job.database.sealed(self.lease.grant))
        except DatabaseUnavailable as trouble:
            LOGGER.error(
                "%s failed, and it is not known yet whether its transaction was committed: %s", self.lease.name, trouble
            )
            return end._replace(ending=None, open=True)
        return end

    def broken(self, error: BaseException) -> None:
        """Its steps were not taken to the end, because of this."""
        self._keeper.drop(self.lease)
        end = self._raised(RuntimeError(EXIT) if isinstance(error, GeneratorExit) else error)
        self.end = self._in_view_of_effects(end)

    def backoff(self, ending: Ending) -> timedelta:
        """How long to wait before the next attempt, if there is one. A run that was cut short is retried at once."""
        if not ending.outcome.is_failure or ending.cut_short or not self.job.retries:
            return timedelta(0)
        return self.job.backoff_after(self.run.slot, self.lease.grant.record.failures + 1)

    @property
    def ended_before(self) -> Instant | None:
        """When its job function ended, if that was a while ago; most ends are reported at once, many in one write."""
        node = self._keeper.node
        ago = 0.0 if self._ended is None else node.clock.boot() - self._ended
        return node.ledger.know.now() - timedelta(seconds=ago) if ago > PROMPT_END else None

    def _returned(self, result: Any) -> End:
        self.run.close()
        if forgotten := self.run.forgotten:
            return End(Ending(Outcome.FAILED, describe(forgotten)), error=forgotten)
        self._warn_if_unused()
        ending, over = self._work.ending(self.run, result), self._over()
        if over is not None and over.cause == "timed out" and self._body.stopped:
            return End(Ending(Outcome.FAILED, over.why), over=over)  # it went on all the same, and then returned
        return End(ending, result)

    def _warn_if_unused(self) -> None:
        """Once: what such a run writes is written again by a repeat. It may have had nothing to
        write, so it is no error."""
        database = self.job.database
        if database is not None and not self.run.transactions and not database.told_unused:
            database.told_unused = True
            LOGGER.warning(
                "%s: the job declares transaction=, but this run did not use run.transaction. What it wrote was"
                " not committed together with its completion; if the run is repeated, it is written again",
                self.lease.name,
            )

    def _raised(self, error: BaseException) -> End:
        self.run.close()
        if not self._body.started:
            return End(None, error=error)
        over = self._over() if self._body.stopped else None
        return End(self._ending(over, error)._replace(output=job_traceback(error)), error=error, over=over)

    def _over(self) -> LeaseEnd | None:
        """Why it was stopped; and that it went on for a while all the same, if it did."""
        over = self.lease.over
        if over is None or self._work.can_be_killed:
            return over
        late = self._keeper.node.clock.boot() - self.lease.told_at
        if late < STUBBORN:
            return over
        went_on = format_duration(timedelta(seconds=round(late)))
        return over._replace(
            why=f"{over.why}, but kept running for {went_on}: isolate=True runs it in a process that can be killed"
        )

    def _in_view_of_effects(self, end: End) -> End:
        ending = end.ending
        if ending is None or not (self.run.unfinished or self.run.committed):
            return end
        doubts, undone = self.run.doubts, self.run.undone
        outcome, reason = ended_as(ending.outcome, ending.reason, doubts, undone, committed=self.run.committed)
        if (outcome, reason) == (ending.outcome, ending.reason):
            return end
        if outcome.is_success:
            LOGGER.warning(
                "%s failed after its transaction was committed, and counts as succeeded: %s",
                self.lease.name,
                ending.reason,
            )
        closed = end._replace(ending=Ending(outcome, reason, output=ending.output))
        if ending.outcome.is_success and end.error is None:  # the function has caught what went wrong
            error = SlotFailed(f"{self.lease.name} ended as {outcome}, though its job function returned: {reason}")
            error.__cause__ = next(iter(self.run.unfinished.values()), None)
            return closed._replace(error=error)
        return closed

    def _ending(self, over: LeaseEnd | None, error: BaseException) -> Ending:
        """A job function that was stopped from outside did not fail by itself, unless it took too long. A job function
        that asks whether it may go on can learn that its trust has ended before it is asked to stop."""
        if over is None:
            asked = isinstance(error, LeaseLost) and not self.lease.trusted
            return Ending(Outcome.FAILED, describe(error), cut_short=asked or not isinstance(error, Exception))
        if over.cause == "timed out":
            return Ending(Outcome.FAILED, over.why)
        cut_short = over.cause in ("lost", "drained")
        return Ending(Outcome.FAILED, f"stopped: {over.why}", cut_short=cut_short, final=over.cause == "asked")


def _told_apart(body: Callable[[Run], Any], run: Run, around: Around) -> Any:
    """An exception that closes generators would close these steps, if a job function raised it."""
    try:
        with AsCurrentRun(run), around(run):
            return body(run)
    except GeneratorExit as error:
        raise RuntimeError(EXIT) from error


async def _awaited(body: Callable[[Run], Any], run: Run, around: Around) -> Any:
    with AsCurrentRun(run), around(run):
        return await body(run)


LONG_TEXT: Final = 10_000
"""Only the beginning of a longer text is searched for secrets: that takes a tenth of a second a megabyte. The word
that it ends in is left out, since half a secret may not look like one."""


def describe(error: BaseException) -> str:
    """The text of an exception in a record: every database can store it, and every person may read it."""
    try:
        text = str(error)
        text = text if len(text) <= LONG_TEXT else text[:LONG_TEXT].rpartition(" ")[0]
        text = discreet(text).replace("\0", "\ufffd").encode(errors="replace").decode()
    except BaseException:  # the text of some exceptions cannot be made
        text = ""
    return f"{type(error).__name__}: {text}"[:REASON_KEPT] if text else type(error).__name__


def finish_of(attempt: Attempt, ending: Ending) -> Finish:
    """The end that is reported to the store."""
    if ending is SUCCEEDED:  # as most do, and there is nothing more to it
        return Finish(attempt.lease.grant.fence, Outcome.SUCCEEDED, ended=attempt.ended_before)
    return Finish(
        attempt.lease.grant.fence,
        ending.outcome,
        ending.reason,
        attempt.backoff(ending),
        ending.cut_short,
        discreet(ending.output),
        ending.final,
        ended=attempt.ended_before,
    )


def too_late(lease: Lease, ending: Ending, by: str, me: str) -> str:
    """The message for when a run's end no longer counts."""
    return f"{lease.name} {ending.outcome}, but {whose(by, me)}; its effects with a fence were refused, others were not"
