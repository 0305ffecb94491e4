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
from typing import Final

from cronce.clock import Clock
from cronce.errors import StoreError, TrustEnded
from cronce.integrations.process import Child, Ended, NotStarted, Supervisor
from cronce.model import Cell, Slot, spell
from cronce.protocol.lease import margin
from cronce.protocol.record import Outcome
from cronce.runtime.call import Call, Ending
from cronce.runtime.declare import Declaration, When
from cronce.runtime.desk import Desk
from cronce.runtime.keeper import TOOK_TOO_LONG, Keeper
from cronce.runtime.ledger import Grant
from cronce.runtime.notes import Notebook, leave_clock, recall_clock
from cronce.runtime.run import Run, Skipped
from cronce.runtime.steps import Nap, sleep, take
from cronce.stores.base import Store

TIMED_OUT: Final = 124  # as timeout(1) says it
NOT_DONE: Final = 76  # EX_PROTOCOL's number: the slot is closed as failed, lost or unknown
LONGEST_BACKOFF: Final = timedelta(minutes=1)


class Signalled(BaseException):
    """A signal came while nothing was in hand."""


class Command:
    """One `cronce exec`, from a store that is open to an exit code. `say` is called with what a person may want to
    know; losers have nothing to say unless asked."""

    def __init__(
        self,
        job: Declaration,
        words: Sequence[str],
        supervisor: Supervisor,
        *,
        env: Mapping[str, str] = os.environ,
        stand_by: bool = False,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._job, self._words, self._env = job, words, env
        self._supervisor = supervisor
        self._stand_by = stand_by or job.on_lost == "rerun"
        self._say = say
        self._child: Child | None = None
        self._asked = False
        self._attempt = 1
        self._grace = 0.0

    def run(self, store: Store, clock: Clock, when: When | None = None) -> int:
        self._traits = store.traits
        desk = Desk(store, clock, lambda: store, lambda _event: None)
        keeper, notebook = Keeper(desk), Notebook()
        clock_cell = desk.do(recall_clock(desk.ledger))
        try:
            return self._code(keeper, notebook, when)
        except Signalled:
            return 128 + self._supervisor.interrupted
        finally:
            keeper.close()
            self._leave(desk, clock_cell)

    def _leave(self, desk: Desk, cell: Cell) -> None:
        with suppress(StoreError):
            desk.do(leave_clock(desk.ledger, cell))

    def _code(self, keeper: Keeper, notebook: Notebook, when: When | None) -> int:
        """Try until nothing is left to try. The exit code is the command's, or the slot's where another ran it."""
        code = None
        while True:
            call = Call(
                keeper,
                self._job,
                self._work,
                older=self._work,
                judge=self._judge,
                stand_by=self._stand_by,
                refused=notebook.refused if code is None else _ignore,
                stop=self._stop,
                renewed=self._renewed,
            )
            try:
                result = take(call.steps(when), keeper.desk, self._sleep)
            except TrustEnded as error:
                self._say(str(error))
                return NOT_DONE
            if isinstance(result, Skipped):
                return self._skipped(result) if code is None else code
            code = self._ended(result)
            if not code or not self._job.retries or self._supervisor.interrupted:
                return code
            when = call.slot

    def _sleep(self, nap: Nap) -> None:
        if nap.in_hand:
            sleep(nap)
        elif not self._supervisor.wait(nap.seconds):
            raise Signalled

    # --- the body ---

    def _work(self, run: Run) -> Ended | NotStarted:
        slot = {"CRONCE_JOB": run.job, "CRONCE_SLOT": spell(run.at), "CRONCE_KEY": run.key}
        env = {**self._env, **slot, "CRONCE_FENCE": str(run.fence), "CRONCE_ATTEMPT": str(run.attempt)}
        self._child = child = self._supervisor.child(self._words, env)
        self._attempt = run.attempt
        self._renewed(run.grant)
        if not run.trusted:  # it ended before there was a child to stop
            child.stop("it could not be renewed in time")
        return child.run()

    def _renewed(self, grant: Grant) -> None:
        """The group is to be gone half a margin before the lease lapses: time for a TERM, and for the KILL after it."""
        self._asked = bool(grant.ask)
        self._grace = margin(grant.lease, self._traits).total_seconds() / 2
        if self._child is not None and self._job.on_lost == "rerun":
            self._child.move_deadline(grant.trust.end + self._grace)

    def _stop(self, why: str) -> None:
        timed_out = why.startswith(TOOK_TOO_LONG)
        if self._child is not None:
            self._child.stop(why, None if timed_out else min(self._grace, self._supervisor.grace))

    def _judge(self, result: Ended | NotStarted) -> Ending | None:
        if isinstance(result, NotStarted):
            return None
        backoff = min(timedelta(seconds=2 ** min(self._attempt - 1, 10)), LONGEST_BACKOFF)
        cut_short = False
        if result.stopped:
            reason, cut_short = result.stopped, not self._asked and not result.stopped.startswith(TOOK_TOO_LONG)
        elif result.code == 0:
            return Ending(Outcome.SUCCEEDED, output=result.output)
        elif result.signalled:
            reason, cut_short = f"stopped by {signal.Signals(result.signalled).name}", True
        else:
            reason = _in_words(result.code)
        return Ending(Outcome.FAILED, reason, cut_short, result.output, timedelta(0) if cut_short else backoff)

    # --- exit codes ---

    def _ended(self, result: Ended | NotStarted) -> int:
        if isinstance(result, NotStarted):
            return 128 + result.signalled if result.signalled else NOT_DONE
        if result.stopped:
            self._say(f"{self._job.name} was stopped: {result.stopped}")
            return TIMED_OUT if result.stopped.startswith(TOOK_TOO_LONG) else NOT_DONE
        return result.code

    def _skipped(self, skipped: Skipped) -> int:
        self._say(f"{skipped.slot} was not run here: {skipped.reason}")
        return NOT_DONE if skipped.outcome in (Outcome.FAILED, Outcome.LOST, Outcome.UNKNOWN) else 0


def _ignore(_slot: Slot, _why: str, _keeper: Keeper) -> None:
    """Out of attempts: that is no refusal worth noting."""


def _in_words(code: int) -> str:
    if code > 128 and code - 128 in signal.valid_signals():
        return f"ended by {signal.Signals(code - 128).name}"
    return f"exit code {code}"
