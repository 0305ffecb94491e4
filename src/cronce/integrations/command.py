"""A command under a slot: what `cronce exec` does, for crontabs and for anything else that can start a program.

The claim, the lease and the record are those of every guarded call (`runtime.call`), and the child process is that of
every command (`runtime.processes.command`); here it is the only one, and gets our signals and our input.
"""

import math
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from functools import partial
from types import FrameType
from typing import Final, Protocol, Self
from zlib import crc32

from cronce.clock import Clock
from cronce.errors import BadRecord, CronceError, LeaseLost, NotRecorded, StoreError
from cronce.events import Event, What
from cronce.model import Origin, Slot, Write, run_again, slot_of_cell, spell
from cronce.policy import is_rerun
from cronce.protocol.commands import Held
from cronce.protocol.record import Outcome, decode
from cronce.protocol.specs import is_floor_ahead
from cronce.protocol.store_clock import SET_CLOCK, closed_ahead, dated_ahead, is_ahead
from cronce.runtime.attempt import Ending
from cronce.runtime.call import Call, could_not_ask
from cronce.runtime.declare import Declaration, When
from cronce.runtime.journal import Journal
from cronce.runtime.keeper import NOT_RENEWED, Keeper
from cronce.runtime.ledger import Ledger
from cronce.runtime.node import Node
from cronce.runtime.pod import fired_at, is_bad, slot_meant
from cronce.runtime.process_notes import UnwrittenRefusals, clock_note, leave_clock, recall_clock
from cronce.runtime.processes import child
from cronce.runtime.processes.child import (
    CHILD_STOP_SIGNALS,
    GRACE,
    BackgroundChild,
    Ended,
    NotStarted,
)
from cronce.runtime.processes.command import Command
from cronce.runtime.processes.process_group import hold_standard_streams
from cronce.runtime.run import Run, Skipped
from cronce.runtime.steps import WaitStep, sleep, take
from cronce.stores.base import Store

# --- in our place: our signals are the command's, and our input -------------------------------------------------------

# The process group, its watchdog and its end are those of every child (`runtime.processes.child`). Here is what only
# `cronce exec` does, and no scheduler may: it forwards signals, hands on its input, and reaps orphans where it is
# process 1.

FORWARDED: Final = CHILD_STOP_SIGNALS | {signal.SIGUSR1, signal.SIGUSR2}


def _bury_orphans(spare: int) -> None:
    """As process 1 of a container we get the orphans of other processes, and must reap them.

    The status of our own child is only read (WNOWAIT) and left to `Child`; if it is first in line, `Child` reaps it
    before this is called again.
    """
    if os.getpid() != 1:
        return
    with suppress(ChildProcessError):
        while gone := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if gone.si_pid == spare:
                return
            os.waitpid(gone.si_pid, 0)


class Foreground(BackgroundChild):
    """The command gets our signals and our input. Signals also wake the loop that waits for it, as does SIGCHLD. It
    lasts from `open` to `close`, for one command after the other.

    The command has a session of its own, so a terminal sends its Ctrl-C to us alone, and we forward it. That we are
    stopped from there (Ctrl-Z, output from the background) is ignored: the command would go on without its lease.

    A handler only takes a note; everything is done by the loop that waits here. Python's own signal handler writes to
    the pipe (`set_wakeup_fd`), so a signal that comes right before the wait ends it as well.
    """

    longest = math.inf
    stdin = ()
    """Our input is the command's."""

    def __init__(self, *, hastens: bool) -> None:
        super().__init__()
        self.hastens, self._child_pid = hastens, 0
        self._restore = ExitStack()

    def __enter__(self) -> None:
        self.came.clear()  # a signal from here on either keeps the command from starting or is forwarded

    def __exit__(self, *_: object) -> None: ...

    def open(self) -> None:
        super().__enter__()
        wakeup = signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        self._restore.callback(signal.set_wakeup_fd, wakeup)
        for number in FORWARDED:
            if signal.getsignal(number) != signal.SIG_IGN:
                self._handle(number, self._note)
        self._handle(signal.SIGCHLD, self._note)
        for number in (signal.SIGTSTP, signal.SIGTTOU):
            self._handle(number, signal.SIG_IGN)
        mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, {*FORWARDED, signal.SIGCHLD})  # as some launchers leave them
        self._restore.callback(signal.pthread_sigmask, signal.SIG_SETMASK, mask)

    def close(self) -> None:
        self._restore.close()
        super().__exit__()

    def _handle(self, number: signal.Signals, handler: Callable[[int, FrameType | None], None] | int) -> None:
        self._restore.callback(signal.signal, number, signal.signal(number, handler))

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number in FORWARDED:
            self.came.append(number)
        if number in CHILD_STOP_SIGNALS:
            self.interrupted = number

    def started(self, pid: int) -> None:
        self._child_pid = pid  # SIGCHLD tells of its end

    def ended(self) -> None:
        self._child_pid = 0
        _bury_orphans(0)

    def wait(self, interest: Mapping[int, int], seconds: float) -> set[int]:
        _bury_orphans(self._child_pid)
        return super().wait(interest, seconds)


# --- commands one after the other -----------------------------------------------------------------------------------


class CommandSupervisor(child.Supervisor):
    """Signals and the watchdog, for any number of commands one after the other.

    Enter it in the main thread. Threads that call a `Child` must have ended when it is left. `hastens`: TERM is
    followed by KILL a while later, as in Kubernetes; so a command that still runs after the grace is killed, while
    there is time to record how it ended.
    """

    def __init__(self, clock: Clock, grace: float = GRACE, *, hastens: bool = False) -> None:
        super().__init__(clock, grace)
        self.place = Foreground(hastens=hastens)

    def __enter__(self) -> Self:
        hold_standard_streams()
        self.place.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.place.close()
        self.close()

    @property
    def interrupted(self) -> int:
        """The last stop signal (TERM, INT, HUP, QUIT) that came, whether or not a command ran; 0 if none."""
        return self.place.interrupted

    def _surroundings(self) -> Foreground:
        return self.place

    def wait(self, seconds: float) -> bool:
        """Sleep, also through suspend; False, at once, when a stop signal came."""
        until = self.clock.boot() + seconds
        while not self.interrupted and (left := until - self.clock.boot()) > 0:
            self.place.wait({}, left)
        return not self.interrupted


# --- a command under a slot -------------------------------------------------------------------------------------------

TIMED_OUT: Final = 124  # as timeout(1) says it
LATER: Final = 75  # EX_TEMPFAIL: ask again
NOT_DONE: Final = 76  # EX_PROTOCOL's number: the slot is closed as failed, lost or unknown


_BECAME: Final = {
    Outcome.SUCCEEDED: "succeeded already",
    Outcome.FAILED: "failed already",
    Outcome.LOST: "was lost",
    Outcome.UNKNOWN: "may or may not have run",
    Outcome.SKIPPED: "was skipped already",
    Outcome.TOO_OLD: "is too old",
}


class Signalled(BaseException):
    """A signal came while no slot was claimed."""


class _Command(Command):
    """Knows the exit code of `exec` for the last run that ended."""

    code = 0
    ended_runs: tuple[tuple[Slot, Ending | None], ...] = ()
    """Also those of older slots and reruns. None: it was not started."""

    def ending(self, run: Run, result: Ended | NotStarted) -> Ending | None:
        self._supervisor.close()  # the watchdog: after a short command it need not finish starting
        if isinstance(result, NotStarted):
            self.code = 128 + result.signalled if result.signalled else NOT_DONE
        elif result.stopped:
            self.code = TIMED_OUT if (run.over or NOT_RENEWED).cause == "timed out" else NOT_DONE
        else:
            self.code = result.code
        ending = super().ending(run, result)
        self.ended_runs += ((run.slot, ending),)
        return ending

    def stands_for(self, own: Slot) -> bool:
        """Whether its code is that of a call whose own slot does not run: something failed, or it was a rerun of it."""
        return self.code != 0 or any(own in run_again(slot) for slot, _ in self.ended_runs)


class Announce(Protocol):
    """Prints a message; a quiet one only with --verbose. Losers are quiet, because cron mails what is printed."""

    def __call__(self, text: str, *, quiet: bool = False) -> None: ...


def code_of(words: Sequence[str]) -> str:
    """Which command it is, the same on every machine; its arguments may be secret."""
    return f"command:{words[0].rpartition('/')[2]}-{crc32(chr(0).join(words).encode(errors='surrogateescape')):08x}"


class Exec:
    """One `cronce exec`, from a store that is open to an exit code."""

    def __init__(
        self,
        job: Declaration,
        words: Sequence[str],
        supervisor: CommandSupervisor,
        *,
        env: Mapping[str, str] = os.environ,
        stand_by: bool = False,
        job_name: str = "",
        journal: Journal | None = None,
        say: Announce,
        hear: Callable[[Event], object] = lambda _event: None,
    ) -> None:
        """`job_name`: of the Kubernetes Job whose pod this is, if any. `hear` is called with each event."""
        self._job, self._words, self._supervisor, self._env = job, words, supervisor, env
        self._stand_by = stand_by or is_rerun(job.on_lost)
        self._job_name, self._journal, self._say, self._hear = job_name, journal, say, hear
        self._here = code_of(words)
        self.ran = False
        self._call: Call | None = None  # the one whose end is still to be said
        self._left = False  # the note about the clock is written

    def run(self, store: Store, clock: Clock, when: When | None = None) -> int:
        node = Node(store, clock, lambda: store, self._heard)
        keeper = Keeper(node, journal=self._journal)
        try:
            node.do(recall_clock(node.ledger, self._job.name))
        except StoreError as error:
            could_not_ask(keeper.pending_ends.journal, self._job, clock, error, when)
            raise
        try:
            if when is None and self._job_name:
                slot, named = self._in_pod(node)
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
                    node.do(leave_clock(node.ledger))

    def _in_pod(self, node: Node) -> tuple[Slot, bool]:
        """The slot, and whether a person named it: then it is to run even if the schedule has no such slot."""
        slot, at = node.do(slot_meant(self._job_name, self._job, node.ledger)), fired_at(self._job_name)
        if at is not None and at != slot.at:
            self._say(
                f"{self._job_name} was started for {spell(at)}, which is not a slot of the schedule; it runs as"
                f" {slot.key}"
            )
        return slot, at is None

    def _code(self, keeper: Keeper, when: When | None, *, named: bool) -> int:
        """Run all attempts. The exit code is the command's, or the slot's where another process ran it."""
        command = _Command(self._words, self._supervisor, keeper.node.store.traits, self._env)
        notes, tried, told = UnwrittenRefusals(), False, 0

        def refused(slot: Slot, why: str, keeper: Keeper) -> None:
            """A call that ran a rerun, or an attempt before this one, did run."""
            if not command.ended_runs:
                other = self._other_command(keeper.node.ledger)
                notes.refused(slot, f"{why}{f', with {other}' if other else ''}", keeper)

        while True:
            call = Call(
                keeper,
                self._job,
                command,
                take_over=True,
                stand_by=self._stand_by,
                refused=refused,
                beside=partial(self._note_clock, keeper.node.ledger),
                running=partial(self._recording_command, keeper.node),
            )
            self._call = None if tried else call
            result = take(call.steps(when), keeper.node, self._sleep)
            self._tell_older(command.ended_runs[told:], call.slot)
            told = len(command.ended_runs)
            if isinstance(result, Skipped):
                blocked = "" if tried else self._blocked(call, keeper.node.ledger)
                if blocked:
                    self._say(f"{call.slot.key} was not run: {blocked}")
                    return NOT_DONE
                if tried or command.stands_for(call.slot):
                    return command.code
                return self._skipped(result, call.slot, keeper.node, named=named)
            self.ran = True
            if isinstance(result, Ended) and result.stopped:
                self._say(f"{call.slot.key} was stopped: {result.stopped}")
            if not command.code or not self._job.retries or self._supervisor.interrupted or self._job_name:
                return command.code  # in a pod the next attempt is the next pod's
            when, tried = call.slot, True

    def _tell_older(self, ended: Sequence[tuple[Slot, Ending | None]], own: Slot) -> None:
        """What ran before its own slot, or instead of it. That it failed is always printed."""
        for slot, ending in ended:
            if slot != own and ending is not None:
                why = f": {ending.reason}" if ending.reason else ""
                self._say(f"{slot.key} {ending.outcome}{why}", quiet=ending.outcome.is_success)

    def _blocked(self, call: Call, ledger: Ledger) -> str:
        """Why no slot of the job runs, though no process runs it: that is always printed."""
        now, known = ledger.know.now(), ledger.know.job(self._job.name)
        if known is not None and known.job is not None and is_floor_ahead(known.job, now):
            why = closed_ahead(f"slots up to {spell(known.job.floor)}")
        elif isinstance(call.answer, Held) and call.answer.until is not None and is_ahead(call.answer.until, now):
            why = dated_ahead(f"the lease of {call.answer.by}")
        else:
            return ""
        return f"{why}. {SET_CLOCK}"

    @contextmanager
    def _recording_command(self, node: Node) -> Iterator[None]:
        """While a slot runs, the job's record has which command does. It costs a request only where that is new."""
        known = node.ledger.know.job(self._job.name)
        if known is None or known.job is None or known.job.code != self._here:
            with suppress(StoreError):
                node.do(node.ledger.jobs.edit(self._job.name, lambda job, _now: job and job._replace(code=self._here)))
        yield

    def _other_command(self, ledger: Ledger) -> str:
        """Which command the job ran last, and which is here, if these are two."""
        known = ledger.know.job(self._job.name)
        code = known.job.code if known is not None and known.job is not None else ""
        return f"another command: {code}, here {self._here}" if code and code != self._here else ""

    def _note_clock(self, ledger: Ledger) -> list[Write]:
        """Written with the end of the run, which costs no extra request."""
        self._left = True
        return clock_note(ledger)

    def _sleep(self, nap: WaitStep) -> None:
        if nap.in_hand:
            sleep(nap)
        elif not self._supervisor.wait(nap.seconds):
            raise Signalled

    def _skipped(self, skipped: Skipped, slot: Slot, node: Node, *, named: bool) -> int:
        """That a slot failed, was lost or is unknown is always printed. A person who names a slot wants it run, so it
        is printed when it is not and will not be. So it is where an empty store may have lost data: most are new. In a
        pod it is always printed, to its log; and a pod must not succeed while the outcome is open, or its Job would
        count as complete."""
        epoch = node.ledger.know.epoch
        if skipped.kind == "too old" and epoch.forgot:
            how = "found empty" if epoch.origin is Origin.FOUND else "set back"
            self._say(
                f"{skipped.slot} was not run: the store was {how} at {spell(epoch.born)}, and may have lost"
                " the record that this slot ran. Later slots run. To run this one:"
                f" `cronce rerun {slot.job} --from {spell(slot.at)} --to {spell(slot.at + timedelta(seconds=1))}`"
            )
            return NOT_DONE
        going_on = skipped.kind == "held" or (skipped.outcome and Outcome(skipped.outcome).is_success)
        bad = is_bad(skipped)
        quiet = not bad and (going_on or not named) and not self._job_name
        other = self._other_command(node.ledger)
        if quiet and other and skipped.kind in ("held", "closed"):
            self._say(
                f"{skipped.slot} is of {other}. If these are two jobs, each slot runs only one of them; give one"
                " another NAME"
            )
        told = self._closed(skipped, Outcome(skipped.outcome), slot, node, bad=bad) if skipped.outcome else ""
        self._say(told or f"{skipped.slot} was not run here: {skipped.reason}", quiet=bool(quiet))
        if skipped.kind == "held" and self._job_name:
            return LATER
        return NOT_DONE if bad or (named and not going_on) else 0

    def _closed(self, skipped: Skipped, outcome: Outcome, slot: Slot, node: Node, *, bad: bool) -> str:
        """What became of the slot before; and if that is bad, where it was, and how to go on."""
        key, why = slot.key, skipped.reason.removeprefix(f"it is closed: {outcome}").removeprefix(", ")
        facts = ", ".join(filter(None, [why, *(self._where(slot, node) if bad else [])]))
        again = f"rerun {key}" if node.store.traits.history else f"resolve {key} retry"
        further = f" Run it again: `cronce {again}`. Why: `cronce why {key}`" if bad else ""
        became = f"{key} {_BECAME[outcome]}{f' ({facts})' if facts else ''}"
        return f"{became}. It was not run{' again' if outcome.ran else ''}.{further}"

    def _where(self, slot: Slot, node: Node) -> list[str]:
        """The host on which it ran, if that is on record and the store answers."""
        with suppress(StoreError, BadRecord):
            loaded, _ = node.do(node.ledger.client.load([slot.cell]))
            (cell,) = loaded.cells
            host = decode(cell.value, cell.key).holder.partition(":")[0] if cell.version else ""
            return [f"on {host}"] if host else []
        return []

    def _heard(self, event: Event) -> None:
        """A slot that was closed as lost or unknown needs a person, and no other process may have reported it. Of the
        slot that was called for, more is said at the end."""
        self._hear(event)
        if event.what is What.LEAPT:
            self._say(event.detail)
        if event.in_doubt and not (self._call and event.key == self._call.slot.cell):
            self._say(f"{slot_of_cell(event.key).key} is closed as {event.detail}")


class ObservedExec:
    """One `cronce exec --observe`, from a store that is not open yet to an exit code.

    The command runs as the crontab's own line would run it, whatever the store says or does, and its exit code is ours.
    The slot is claimed beside it (`runtime.observe`), and where it would have been refused that is noted.
    """

    def __init__(
        self, job: Declaration, supervisor: CommandSupervisor, clock: Clock, store: Callable[[], Store], say: Announce
    ):
        self._job, self._supervisor, self._clock, self._store, self._say = job, supervisor, clock, store, say
        self._lock = threading.Lock()
        self._keeper: Keeper | None = None

    def run(self, words: Sequence[str], env: Mapping[str, str], when: When | None = None) -> int:
        from cronce.runtime.background import BackgroundWriter  # noqa: PLC0415  only who observes pays for these two
        from cronce.runtime.observe import ObservedCall, by_code  # noqa: PLC0415

        background = BackgroundWriter(self._at_work, self._clock)
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
                self._keeper.node.store.close()
        return code

    def _at_work(self) -> Keeper:
        with self._lock:
            if self._keeper is None:
                store = self._store()
                self._keeper = Keeper(Node(store, self._clock, lambda: store, self._heard))
            return self._keeper

    def _heard(self, event: Event) -> None:
        if event.what is What.DOUBLED:
            self._say(event.detail, quiet=True)
