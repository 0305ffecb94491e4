"""One command after the other in our place: our signals are its signals, our terminal is its terminal.

The process group, its watchdog and its end are those of every child (`runtime.processes.child`). What is here is what
`cronce exec` owes to whoever started it, and no scheduler may do: it forwards signals, gives the terminal away and
takes it back, and buries orphans where it is process 1.
"""

import math
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from types import FrameType
from typing import Final, Self

from cronce.clock import Clock
from cronce.runtime.processes import child
from cronce.runtime.processes.child import GRACE, STOPPING, Background, Child, Line
from cronce.runtime.processes.process_group import Watchdog, hold_standard_streams, send

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


# --- the foreground -------------------------------------------------------------------------------------------------


class Foreground(Background):
    """Where we stood: our signals and our terminal are the command's. Signals wake whoever sees it through, too; that
    of a child which ends among them. There from `open` to `close`, for one command after the other.

    The terminal is lent to the command's group: only the foreground group may read it, and gets its Ctrl-C. So one
    Ctrl-C reaches the command once: from the terminal while it is lent, through us while it is not.

    A handler only notes; everything is done by the loop that waits here. Python's own signal handler writes to the pipe
    (`set_wakeup_fd`), so a signal that comes right before the wait ends it as well.
    """

    longest = math.inf
    stdin = ()
    """Whoever types to us types to it."""

    def __init__(self, *, hastens: bool) -> None:
        super().__init__()
        self.hastens, self._lent, self._child_pid = hastens, False, 0
        self._restore = ExitStack()

    def __enter__(self) -> None:
        self.came.clear()  # a signal from here on either keeps the command from starting or is forwarded

    def __exit__(self, *_: object) -> None:
        self._take_back()

    def open(self) -> None:
        super().__enter__()
        wakeup = signal.set_wakeup_fd(self._rope, warn_on_full_buffer=False)
        self._restore.callback(signal.set_wakeup_fd, wakeup)
        for number in FORWARDED:
            if signal.getsignal(number) != signal.SIG_IGN:
                self._handle(number, self._note)
        self._handle(signal.SIGCHLD, self._note)
        self._handle(signal.SIGTTOU, signal.SIG_IGN)  # we speak, and take the terminal back, from the background
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
        if number in STOPPING:
            self.interrupted = number

    def started(self, pid: int) -> None:
        self._child_pid = pid  # SIGCHLD tells of its end
        # With output to a pager the terminal is the pager's, until the command turns out to want it (`paused`).
        if os.isatty(1) and self._lend(pid):
            send(pid, signal.SIGCONT)  # it may have wanted to read before it was allowed to

    def paused(self, number: int) -> None:
        """Job control: Ctrl-Z pauses us too, or nobody could type any more; a group that wants the terminal gets it."""
        if number == signal.SIGTSTP and self._lent:
            self._take_back()
            os.kill(os.getpid(), signal.SIGTSTP)  # until the shell's `fg` or `bg`; no pause where there is no shell
            self._lend(self._child_pid)
            send(self._child_pid, signal.SIGCONT)
        elif number in (signal.SIGTTIN, signal.SIGTTOU) and self._lend(self._child_pid):
            send(self._child_pid, signal.SIGCONT)

    def ended(self, seen: os.waitid_result) -> None:
        self._child_pid = 0
        by_key = seen.si_code != os.CLD_EXITED and seen.si_status in (signal.SIGINT, signal.SIGQUIT)
        if self._lent and by_key:
            send(os.getpgrp(), seen.si_status)  # Ctrl-C is meant for us too; the terminal told only who it was lent to
        self._take_back()
        _bury_orphans(0)

    def _lend(self, group: int) -> bool:
        """Whether the terminal is the group's now. Only what is ours can be lent: in the background it is the
        shell's."""
        with suppress(OSError):  # stdin is no terminal, or not that of our session
            if os.tcgetpgrp(0) == os.getpgrp():
                os.tcsetpgrp(0, group)
                self._lent = True
            return os.tcgetpgrp(0) == group
        return False

    def _take_back(self) -> None:
        if self._lent:
            self._lent = False
            with suppress(OSError):  # it hung up
                os.tcsetpgrp(0, os.getpgrp())

    def wait(self, interest: Mapping[int, int], seconds: float) -> set[int]:
        _bury_orphans(self._child_pid)
        return super().wait(interest, seconds)


# --- commands one after the other -----------------------------------------------------------------------------------


class Supervisor(child.Supervisor):
    """Signals and the watchdog, for any number of commands one after the other.

    Enter it in the main thread, before there are other threads or open stores: it forks. Threads that call a `Child`
    must have ended when it is left. `hastens`: whoever sends us TERM kills us a while later, as Kubernetes does; so a
    command that is still there after the grace is killed, while how it ended can be put on record.
    """

    def __init__(self, clock: Clock, grace: float = GRACE, *, hastens: bool = False) -> None:
        super().__init__(clock, grace)
        self.place = Foreground(hastens=hastens)

    def __enter__(self) -> Self:
        hold_standard_streams()
        self.watchdog = Watchdog.fork(self.clock, self.grace)
        self.place.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.place.close()
        self.close()

    @property
    def interrupted(self) -> int:
        """The last stop signal (TERM, INT, HUP, QUIT) that came, whether or not a command ran; 0 if none."""
        return self.place.interrupted

    def child(self, command: Sequence[str], env: Mapping[str, str], line: Line | None = None) -> Child:
        """A command to run; nothing is started yet."""
        return Child(self, self.place, command, env, line)

    def wait(self, seconds: float) -> bool:
        """Sleep, also through suspend; False, at once, when a stop signal came."""
        until = self.clock.boot() + seconds
        while not self.interrupted and (left := until - self.clock.boot()) > 0:
            self.place.wait({}, left)
        return not self.interrupted
