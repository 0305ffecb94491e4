"""A command under a slot: what `cronce exec` does, for crontabs and for anything else that can start a program.

The claim, the lease and the record are those of every guarded call (`runtime.call`), the body that of every command
(`runtime.processes.command`); here it is the only one, and stands in our place (`process`).
"""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from cronce.clock import Clock
from cronce.errors import CronceError, LeaseLost, NotRecorded, StoreError
from cronce.events import Event, What
from cronce.integrations.process import Supervisor
from cronce.model import Origin, Slot, Write, slot_of_cell, spell
from cronce.policy import is_rerun
from cronce.protocol.commands import Held
from cronce.protocol.record import Outcome
from cronce.protocol.specs import is_floor_ahead
from cronce.protocol.store_clock import SET_CLOCK, closed_ahead, dated_ahead, is_ahead
from cronce.runtime.attempt import Ending
from cronce.runtime.call import Call, could_not_ask
from cronce.runtime.declare import Declaration, When
from cronce.runtime.desk import Desk
from cronce.runtime.journal import Journal
from cronce.runtime.keeper import NOT_RENEWED, Keeper
from cronce.runtime.ledger import Ledger
from cronce.runtime.machine import Notebook, clock_note, leave_clock, recall_clock
from cronce.runtime.pod import fired_at, is_bad, slot_meant
from cronce.runtime.processes.child import Ended, NotStarted
from cronce.runtime.processes.command import Command
from cronce.runtime.run import Run, Skipped
from cronce.runtime.steps import Nap, sleep, take
from cronce.stores.base import Store

TIMED_OUT: Final = 124  # as timeout(1) says it
LATER: Final = 75  # EX_TEMPFAIL: ask again
NOT_DONE: Final = 76  # EX_PROTOCOL's number: the slot is closed as failed, lost or unknown


class Signalled(BaseException):
    """A signal came while nothing was in hand."""


class _Command(Command):
    """Knows the exit code that `exec` owes for the last that ended."""

    code = 0

    def ending(self, run: Run, result: Ended | NotStarted) -> Ending | None:
        if isinstance(result, NotStarted):
            self.code = 128 + result.signalled if result.signalled else NOT_DONE
        elif result.stopped:
            self.code = TIMED_OUT if (run.over or NOT_RENEWED).cause == "timed out" else NOT_DONE
        else:
            self.code = result.code
        return super().ending(run, result)


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
        job_name: str = "",
        journal: Journal | None = None,
        say: Say,
        hear: Callable[[Event], object] = lambda _event: None,
    ) -> None:
        """`job_name`: of the Kubernetes Job that this is a pod of, if it is. `hear` is told what happens."""
        self._job, self._words, self._supervisor, self._env = job, words, supervisor, env
        self._stand_by = stand_by or is_rerun(job.on_lost)
        self._job_name, self._journal, self._say, self._hear = job_name, journal, say, hear
        self.ran = False
        self._left = False  # what was seen of the clock is written

    def run(self, store: Store, clock: Clock, when: When | None = None) -> int:
        desk = Desk(store, clock, lambda: store, self._heard)
        keeper = Keeper(desk, journal=self._journal)
        try:
            desk.do(recall_clock(desk.ledger, self._job.name))
        except StoreError as error:
            could_not_ask(keeper.unsaid.journal, self._job, clock, error, when)
            raise
        try:
            if when is None and self._job_name:
                slot, named = self._in_pod(desk)
                return self._code(keeper, slot, named=named)
            return self._code(keeper, when, named=when is not None)
        except (LeaseLost, NotRecorded) as error:
            self._say(str(error))
            return NOT_DONE
        except Signalled:
            return 128 + self._supervisor.interrupted
        finally:
            keeper.close()
            with suppress(StoreError):
                if not self._left:
                    desk.do(leave_clock(desk.ledger))

    def _in_pod(self, desk: Desk) -> tuple[Slot, bool]:
        """The slot, and whether somebody named it: then it is to run, and not only if the schedule lets it."""
        slot, at = desk.do(slot_meant(self._job_name, self._job, desk.ledger)), fired_at(self._job_name)
        if at is not None and at != slot.at:
            self._say(f"{self._job_name} is of {spell(at)}, which is no slot of the schedule; {slot.key} is meant")
        return slot, at is None

    def _code(self, keeper: Keeper, when: When | None, *, named: bool) -> int:
        """Try until nothing is left to try. The exit code is the command's, or the slot's where another ran it."""
        command = _Command(self._words, self._supervisor, keeper.desk.store.traits, self._env)
        refused: Callable[[Slot, str, Keeper], None] = Notebook().refused
        tried = False
        while True:
            call = Call(
                keeper,
                self._job,
                command,
                take_over=True,
                stand_by=self._stand_by,
                refused=refused,
                beside=partial(self._note_clock, keeper.desk.ledger),
            )
            result = take(call.steps(when), keeper.desk, self._sleep)
            if isinstance(result, Skipped):
                blocked = "" if tried else self._blocked(call, keeper.desk.ledger)
                if blocked:
                    self._say(f"{call.slot.key} was not run: {blocked}")
                    return NOT_DONE
                return command.code if tried else self._skipped(result, keeper.desk, named=named)
            self.ran = True
            if isinstance(result, Ended) and result.stopped:
                self._say(f"{call.slot.key} was stopped: {result.stopped}")
            if not command.code or not self._job.retries or self._supervisor.interrupted or self._job_name:
                return command.code  # in a pod the next attempt is the next pod's
            when, tried, refused = call.slot, True, _ignore

    def _blocked(self, call: Call, ledger: Ledger) -> str:
        """Why a slot is not run, and none of its job, though it was not run by anybody: that is never silent."""
        now, known = ledger.know.now(), ledger.know.job(self._job.name)
        if known is not None and known.job is not None and is_floor_ahead(known.job, now):
            why = closed_ahead(f"slots up to {spell(known.job.floor)}")
        elif isinstance(call.answer, Held) and call.answer.until is not None and is_ahead(call.answer.until, now):
            why = dated_ahead(f"the lease of {call.answer.by}")
        else:
            return ""
        return f"{why}. {SET_CLOCK}"

    def _note_clock(self, ledger: Ledger) -> list[Write]:
        """With the end of the run: it costs no request of its own."""
        self._left = True
        return clock_note(ledger)

    def _sleep(self, nap: Nap) -> None:
        if nap.in_hand:
            sleep(nap)
        elif not self._supervisor.wait(nap.seconds):
            raise Signalled

    def _skipped(self, skipped: Skipped, desk: Desk, *, named: bool) -> int:
        """Whoever names a slot wants it run, and is told when it is not and will not be. So is whoever has a store that
        is empty, and seems to have forgotten: most are new. A pod has a log for it, which nobody gets by mail; and it
        must not end well while the outcome is open, or its Job would count as complete."""
        epoch = desk.ledger.know.epoch
        if skipped.kind == "too old" and epoch.forgot:
            how = "found empty" if epoch.origin is Origin.FOUND else "set back"
            self._say(
                f"{skipped.slot} was not run: the store was {how} at {spell(epoch.born)}, and may have forgotten"
                " that this slot ran; later slots run. If the store is new, begin it with `cronce store init`"
            )
            return NOT_DONE
        going_on = skipped.kind == "held" or (skipped.outcome and Outcome(skipped.outcome).is_success)
        quiet = (going_on or not named) and not self._job_name
        self._say(f"{skipped.slot} was not run here: {skipped.reason}", quiet=quiet)
        if skipped.kind == "held" and self._job_name:
            return LATER
        return NOT_DONE if is_bad(skipped) or (named and not going_on) else 0

    def _heard(self, event: Event) -> None:
        """A slot that is closed as lost or unknown is for a person to see, and nobody else may say so."""
        self._hear(event)
        if event.what is What.LEAPT:
            self._say(event.detail)
        if event.in_doubt:
            self._say(f"{slot_of_cell(event.key).key} is closed as {event.detail}")


def _ignore(_slot: Slot, _why: str, _keeper: Keeper) -> None:
    """Out of attempts: that is no refusal worth noting."""


class ObservedExec:
    """One `cronce exec --observe`, from a store that nobody has opened yet to an exit code.

    The command runs as the crontab's own line would run it, whatever the store says or does, and its exit code is ours.
    The slot is claimed beside it (`runtime.observe_jobs`), and where it would have been refused that is noted.
    """

    def __init__(self, job: Declaration, supervisor: Supervisor, clock: Clock, store: Callable[[], Store], say: Say):
        self._job, self._supervisor, self._clock, self._store, self._say = job, supervisor, clock, store, say
        self._lock = threading.Lock()
        self._keeper: Keeper | None = None

    def run(self, words: Sequence[str], env: Mapping[str, str], when: When | None = None) -> int:
        from cronce.runtime.background import Background  # noqa: PLC0415  only who observes pays for these two
        from cronce.runtime.observe import ObservedCall, by_code  # noqa: PLC0415

        background = Background(self._at_work, self._clock)
        observed = ObservedCall(self._job, when, background, self._at_work, self._clock, ended=by_code)
        with observed as returned:
            ended = self._supervisor.child(words, env).run()
            code = 128 + ended.signalled if isinstance(ended, NotStarted) else ended.code
            returned(code)
        background.close()
        if (
            observed.done.is_set() and self._keeper is not None
        ):  # else it hangs in the store, and ends with this process
            with suppress(CronceError):
                self._keeper.close()
                self._keeper.desk.store.close()
        return code

    def _at_work(self) -> Keeper:
        with self._lock:
            if self._keeper is None:
                store = self._store()
                self._keeper = Keeper(Desk(store, self._clock, lambda: store, self._heard))
            return self._keeper

    def _heard(self, event: Event) -> None:
        if event.what is What.DOUBLED:
            self._say(event.detail, quiet=True)
