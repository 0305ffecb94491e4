"""A command under a slot: what `cronce exec` does, for crontabs and for anything else that can start a program.

The claim, the lease and the record are those of every guarded call (`runtime.call`); the body is a process group
(`process`). Under rerun, where another may take the slot over, a watchdog ends the group before the lease lapses even
if we are stopped ourselves. Under skip nobody takes it over, so a run whose supervisor is merely paused goes on.
"""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final, Protocol

from cronce.clock import Clock
from cronce.errors import NotRecorded, StoreError, TrustEnded
from cronce.events import Event, What
from cronce.integrations.process import Child, Ended, NotStarted, Supervisor
from cronce.model import Origin, Slot, Traits, slot_of_cell, spell
from cronce.protocol.lease import margin
from cronce.protocol.record import Outcome
from cronce.runtime.call import Call, Ending, Work
from cronce.runtime.declare import Declaration, When
from cronce.runtime.desk import Desk
from cronce.runtime.keeper import NOT_RENEWED, Keeper, Over
from cronce.runtime.ledger import Grant
from cronce.runtime.notes import Notebook, leave_clock, recall_clock
from cronce.runtime.run import Run, Skipped
from cronce.runtime.steps import Body, Nap, sleep, take
from cronce.stores.base import Store

TIMED_OUT: Final = 124  # as timeout(1) says it
NOT_DONE: Final = 76  # EX_PROTOCOL's number: the slot is closed as failed, lost or unknown
LONGEST_BACKOFF: Final = timedelta(minutes=1)


class Signalled(BaseException):
    """A signal came while nothing was in hand."""


class Command(Work):
    """A process group under a lease. `code` is the exit code of the last that ended."""

    def __init__(self, words: Sequence[str], supervisor: Supervisor, traits: Traits, env: Mapping[str, str]) -> None:
        self._words, self._supervisor, self._traits, self._env = words, supervisor, traits, env
        self._child: Child | None = None
        self.code = 0

    def run(self, run: Run) -> Ended | NotStarted:
        slot = {"CRONCE_JOB": run.job, "CRONCE_SLOT": spell(run.at), "CRONCE_KEY": run.key}
        env = {**self._env, **slot, "CRONCE_FENCE": str(run.fence), "CRONCE_ATTEMPT": str(run.attempt)}
        self._child = child = self._supervisor.child(self._words, env)
        self.renewed(run.grant)
        if not run.trusted:  # it ended before there was a child to stop
            child.stop((run.over or NOT_RENEWED).why)
        return child.run()

    def renewed(self, grant: Grant) -> None:
        """Where another may take over, the group is to be gone half a margin before the lease lapses: that is time for
        a TERM, and for the KILL after it."""
        if self._child is not None and grant.record.on_lost == "rerun":
            self._child.move_deadline(grant.trust.end + self._half_margin(grant))

    def stop(self, _body: Body, run: Run, over: Over) -> None:
        if self._child is not None:
            grace = self._supervisor.grace
            self._child.stop(over.why, grace if over.cause == "timed out" else min(grace, self._half_margin(run.grant)))

    def _half_margin(self, grant: Grant) -> float:
        return margin(grant.lease, self._traits).total_seconds() / 2

    def ending(self, run: Run, result: Ended | NotStarted) -> Ending | None:
        if isinstance(result, NotStarted):
            self.code = 128 + result.signalled if result.signalled else NOT_DONE
            return None
        if result.stopped:
            return self._stopped(run.over or NOT_RENEWED, result)
        self.code = result.code
        if result.code == 0:
            return Ending(Outcome.SUCCEEDED, output=result.output)
        if result.signalled:
            reason = f"stopped by {_signal_name(result.signalled)}"
            return Ending(Outcome.FAILED, reason, cut_short=True, output=result.output)
        return Ending(Outcome.FAILED, _in_words(result.code), output=result.output, backoff=_backoff(run))

    def _stopped(self, over: Over, result: Ended) -> Ending:
        self.code = TIMED_OUT if over.cause == "timed out" else NOT_DONE
        return Ending(Outcome.FAILED, result.stopped, cut_short=over.cause == "lost", output=result.output)


class Say(Protocol):
    """Tells a person something; what is quiet only to who asked for it. Losers are quiet: cron mails all the rest."""

    def __call__(self, text: str, *, quiet: bool = False) -> None: ...


class Exec:
    """One `cronce exec`, from a store that is open to an exit code."""

    def __init__(
        self,
        job: Declaration,
        words: Sequence[str],
        supervisor: Supervisor,
        *,
        env: Mapping[str, str] = os.environ,
        stand_by: bool = False,
        say: Say,
    ) -> None:
        self._job, self._words, self._supervisor, self._env = job, words, supervisor, env
        self._stand_by = stand_by or job.on_lost == "rerun"
        self._say = say
        self.ran = False

    def run(self, store: Store, clock: Clock, when: When | None = None) -> int:
        desk = Desk(store, clock, lambda: store, self._heard)
        keeper = Keeper(desk)
        clock_cell = desk.do(recall_clock(desk.ledger))
        try:
            return self._code(keeper, when)
        except (TrustEnded, NotRecorded) as error:
            self._say(str(error))
            return NOT_DONE
        except Signalled:
            return 128 + self._supervisor.interrupted
        finally:
            keeper.close()
            with suppress(StoreError):
                desk.do(leave_clock(desk.ledger, clock_cell))

    def _code(self, keeper: Keeper, when: When | None) -> int:
        """Try until nothing is left to try. The exit code is the command's, or the slot's where another ran it."""
        command = Command(self._words, self._supervisor, keeper.desk.store.traits, self._env)
        refused: Callable[[Slot, str, Keeper], None] = Notebook().refused
        tried = False
        while True:
            call = Call(keeper, self._job, command, take_over=True, stand_by=self._stand_by, refused=refused)
            result = take(call.steps(when), keeper.desk, self._sleep)
            if isinstance(result, Skipped):
                return command.code if tried else self._skipped(result, keeper.desk, named=when is not None)
            self.ran = True
            if isinstance(result, Ended) and result.stopped:
                self._say(f"{call.slot.key} was stopped: {result.stopped}")
            if not command.code or not self._job.retries or self._supervisor.interrupted:
                return command.code
            when, tried, refused = call.slot, True, _ignore

    def _sleep(self, nap: Nap) -> None:
        if nap.in_hand:
            sleep(nap)
        elif not self._supervisor.wait(nap.seconds):
            raise Signalled

    def _skipped(self, skipped: Skipped, desk: Desk, *, named: bool) -> int:
        """Whoever names a slot wants it run, and is told when it is not and will not be. So is whoever has a store that
        is empty, and seems to have forgotten: most are new."""
        epoch = desk.ledger.know.epoch
        if skipped.kind == "too old" and epoch.origin is Origin.FOUND:
            self._say(
                f"{skipped.slot} was not run: the store was found empty at {spell(epoch.born)}, and may have forgotten"
                " that this slot ran; later slots run. If the store is new, begin it with `cronce store init`"
            )
            return NOT_DONE if named else 0
        going_on = skipped.kind == "held" or skipped.outcome == Outcome.SUCCEEDED
        self._say(f"{skipped.slot} was not run here: {skipped.reason}", quiet=going_on or not named)
        bad = skipped.outcome in (Outcome.FAILED, Outcome.LOST, Outcome.UNKNOWN)
        return NOT_DONE if bad or (named and not going_on) else 0

    def _heard(self, event: Event) -> None:
        """A slot that is closed as lost or unknown is for a person to see, and nobody else may say so."""
        if event.what is What.CLOSED and event.detail.startswith((Outcome.LOST, Outcome.UNKNOWN)):
            self._say(f"{slot_of_cell(event.key).key} is closed as {event.detail}")


def _ignore(_slot: Slot, _why: str, _keeper: Keeper) -> None:
    """Out of attempts: that is no refusal worth noting."""


def _backoff(run: Run) -> timedelta:
    """A second after the first failure, twice as long after each further one."""
    return min(timedelta(seconds=2 ** min(run.attempt - 1, 10)), LONGEST_BACKOFF)


def _in_words(code: int) -> str:
    name = _signal_name(code - 128) if code > 128 else ""
    return f"ended by {name}" if name else f"exit code {code}"


def _signal_name(number: int) -> str:
    """Empty for what is no signal, or one without a name: a command may exit with any number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
