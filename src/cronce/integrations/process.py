"""One command after the other in our place: our signals are its signals, our terminal is its terminal.

The process group, its watchdog and its end are those of every child (`runtime.processes.child`). What is here is what
`cronce exec` owes to whoever started it, and no scheduler may do: it forwards signals, gives the terminal away and
takes it back, and buries orphans where it is process 1.
"""

import math
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Final, Self

from cronce.clock import Clock
from cronce.runtime.processes import child
from cronce.runtime.processes.child import GRACE, Bell, Ended, Line, NotStarted, Source
from cronce.runtime.processes.group import send
from cronce.runtime.processes.start import FileAction, hold_standard_streams
from cronce.runtime.processes.watchdog import Watchdog

STOPPING: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
FORWARDED: Final = STOPPING | {signal.SIGUSR1, signal.SIGUSR2}


def _bury_orphans(spare: int) -> None:
    """As process 1 of a container we are left the children of others; unreaped they would pile up.

    The status of our own child is looked at (WNOWAIT) and left to `Child`; if it is the one in front, `Child` reaps it
    before it comes here again.
    """
    if os.getpid() != 1:
        return
    with suppress(ChildProcessError):
        while gone := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if gone.si_pid == spare:
                return
            os.waitpid(gone.si_pid, 0)


# --- signals --------------------------------------------------------------------------------------------------------


class Signals(Bell):
    """A bell that signals ring, too; that of a child which ends among them.

    A handler only notes; everything is done by the loop that waits here. Python's own signal handler writes to the pipe
    (`set_wakeup_fd`), so a signal that comes right before the wait ends it as well.
    """

    longest = math.inf

    def __init__(self) -> None:
        super().__init__()
        self.interrupted = 0
        self.came: list[int] = []
        self._restore: list[Callable[[], object]] = []

    def open(self) -> None:
        super().open()
        wakeup = signal.set_wakeup_fd(self._rope, warn_on_full_buffer=False)
        self._restore.append(lambda: signal.set_wakeup_fd(wakeup))
        for number in FORWARDED:
            if signal.getsignal(number) != signal.SIG_IGN:
                self._handle(number, self._note)
        self._handle(signal.SIGCHLD, self._note)
        self._handle(signal.SIGTTOU, signal.SIG_IGN)  # we speak, and take the terminal back, from the background
        mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, {*FORWARDED, signal.SIGCHLD})  # as some launchers leave them
        self._restore.append(lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask))

    def close(self) -> None:
        while self._restore:
            self._restore.pop()()
        super().close()

    def watch(self, _pid: int) -> None:
        """SIGCHLD does."""

    def _handle(self, number: signal.Signals, handler: Callable[[int, FrameType | None], None] | int) -> None:
        before = signal.signal(number, handler)
        self._restore.append(lambda: signal.signal(number, before))

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number in FORWARDED:
            self.came.append(number)
        if number in STOPPING:
            self.interrupted = number


# --- the terminal ---------------------------------------------------------------------------------------------------


class _Terminal:
    """Our terminal, lent to the command's group: only the foreground group may read it, and gets its Ctrl-C.

    So one Ctrl-C reaches the command once: from the terminal while it is lent, through us while it is not.
    """

    def __init__(self) -> None:
        self.lent = False

    def lend(self, group: int) -> bool:
        """Whether it is the group's now. Only what is ours can be lent: in the background it is the shell's."""
        with suppress(OSError):  # stdin is no terminal, or not that of our session
            if os.tcgetpgrp(0) == os.getpgrp():
                os.tcsetpgrp(0, group)
                self.lent = True
            return os.tcgetpgrp(0) == group
        return False

    def take_back(self) -> None:
        if self.lent:
            self.lent = False
            with suppress(OSError):  # it hung up
                os.tcsetpgrp(0, os.getpgrp())


# --- the command ----------------------------------------------------------------------------------------------------


class Child(child.Child):
    """A command that stands in the foreground, where we stood."""

    def __init__(
        self, supervisor: "Supervisor", command: Sequence[str], env: Mapping[str, str], line: Line | None = None
    ) -> None:
        super().__init__(supervisor, command, env, line)
        self._bell: Signals = supervisor.bell
        self._hastens = supervisor.hastens
        self._terminal = _Terminal()

    def run(self) -> Ended | NotStarted:
        """Start it and see it through; in the main thread, once. May raise `CannotStart`."""
        self._bell.came.clear()  # first: a signal from here on is either seen by the next line or forwarded
        if self._bell.interrupted or self._orders:
            return NotStarted(self._orders[0][0] if self._orders else "", self._bell.interrupted)
        try:
            return self._run()
        finally:
            self._terminal.take_back()

    def _start(self) -> None:
        super()._start()
        # With output to a pager the terminal is the pager's, until the command turns out to want it (`_on_pause`).
        if os.isatty(1) and self._terminal.lend(self._group):
            send(self._group, signal.SIGCONT)  # it may have wanted to read before it was allowed to

    def _streams(self, stdout: Source, stderr: Source, stdin: Source | None = None) -> list[FileAction]:
        """Whoever types to us types to it."""
        return super()._streams(stdout, stderr, stdin)[0 if stdin else 1 :]

    def _look(self) -> None:
        super()._look()
        _bury_orphans(self._group if self._code is None else 0)

    def _on_end(self, seen: os.waitid_result) -> None:
        super()._on_end(seen)
        by_key = seen.si_code != os.CLD_EXITED and seen.si_status in (signal.SIGINT, signal.SIGQUIT)
        if self._terminal.lent and by_key:
            send(os.getpgrp(), seen.si_status)  # Ctrl-C is meant for us too; the terminal told only who it was lent to
        self._terminal.take_back()

    def _on_pause(self, number: int) -> None:
        """Job control: Ctrl-Z pauses us too, or nobody could type any more; a group that wants the terminal gets it."""
        if number == signal.SIGTSTP and self._terminal.lent:
            self._terminal.take_back()
            os.kill(os.getpid(), signal.SIGTSTP)  # until the shell's `fg` or `bg`; no pause where there is no shell
            self._terminal.lend(self._group)
            send(self._group, signal.SIGCONT)
        elif number in (signal.SIGTTIN, signal.SIGTTOU) and self._terminal.lend(self._group):
            send(self._group, signal.SIGCONT)

    def _obey(self) -> None:
        super()._obey()
        while self._bell.came:
            self._forward(self._bell.came.pop(0))

    def _forward(self, number: int) -> None:
        send(self._group, number)
        if number in STOPPING:
            send(self._group, signal.SIGCONT)
            self._signalled = number
        if number == signal.SIGTERM and self._hastens:
            self._kill_at = min(self._kill_at, self._clock.boot() + self._grace)

    def _flush(self) -> None:
        self._bell.came.clear()
        super()._flush()

    def _hurried(self) -> bool:
        return super()._hurried() or bool(self._bell.came)


class Supervisor(child.Supervisor):
    """Signals and the watchdog, for any number of commands one after the other.

    Enter it in the main thread, before there are other threads or open stores: it forks. Threads that call a `Child`
    must have ended when it is left. `hastens`: whoever sends us TERM kills us a while later, as Kubernetes does; so a
    command that is still there after the grace is killed, while how it ended can be put on record.
    """

    def __init__(self, clock: Clock, grace: float = GRACE, *, hastens: bool = False) -> None:
        super().__init__(clock, grace)
        self.bell, self.hastens = Signals(), hastens

    def __enter__(self) -> Self:
        hold_standard_streams()
        self.watchdog = Watchdog.fork(self.clock, self.grace)
        self.bell.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.bell.close()
        self.close()

    @property
    def interrupted(self) -> int:
        """The last stop signal (TERM, INT, HUP, QUIT) that came, whether or not a command ran; 0 if none."""
        return self.bell.interrupted

    def child(self, command: Sequence[str], env: Mapping[str, str], line: Line | None = None) -> Child:
        """A command to run; nothing is started yet."""
        return Child(self, command, env, line)

    def wait(self, seconds: float) -> bool:
        """Sleep, also through suspend; False, at once, when a stop signal came."""
        until = self.clock.boot() + seconds
        while not self.interrupted and (left := until - self.clock.boot()) > 0:
            self.bell.wait({}, left)
            _bury_orphans(0)
        return not self.interrupted
