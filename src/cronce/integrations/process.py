"""One command in a process group of its own, watched over: the half of `cronce exec` that knows no store.

    we ──spawn──► the command and what it starts: one process group
     │                             ▲
     └──fork───► the watchdog ─────┘ kills it when we are gone, or when an instant passes that nobody moved on

A run that lost its lease must not go on. While we live, we see to that: `Child.stop` asks the group to end (TERM) and
after a grace makes it (KILL). When we are killed or stopped we cannot, so a second process of ours does. It shows in
`ps` under our own command line, has a session of its own, blocks every signal that can be blocked and holds nothing
but the read end of a pipe. The end of that pipe is how it learns of our death, whatever the cause. An instant on the
boot clock, which the lease's keeper moves on, is how it learns that we are stuck: stopped, swapped out, or writing to
a terminal that takes nothing.

What no process group can give, and this does not promise:

- A process that leaves the group (`setsid`, a daemon that detaches) is out of our reach.
- So is a program of another user's that we may not signal (`sudo` from an ordinary user).
- When the watchdog itself is killed (`pkill -9 -f cronce`), nobody ends a group whose supervisor is killed, too.
- When we are killed between the start of the command and our next line, which tells the watchdog, the command goes on
  alone: its number is not known before it runs. That is some ten microseconds.

Starting costs matter under cron. `os.posix_spawn` is as fast as `subprocess` and spares its import (7 ms, a sixth of
all that `cronce exec` may take); the watchdog takes 1 ms to fork and stand while the process is still small.
"""

import errno
import math
import os
import select
import signal
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Final, Self

from cronce.clock import Clock
from cronce.errors import CannotStart
from cronce.integrations.output import Stream, Tail
from cronce.integrations.watchdog import PROBE, Watchdog, alive, ready, send, terminate
from cronce.value import NamedTuple

STOPPING: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
FORWARDED: Final = STOPPING | {signal.SIGUSR1, signal.SIGUSR2}

# Python ignores the first two and we ignore the third: a command must not inherit that. What our own caller ignores
# stays ignored, for us and for the command: that is what `nohup` means.
_DEFAULTED: Final = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU)


class Ended(NamedTuple):
    """The command ran, and its run is over."""

    code: int
    """Its exit status; 128 + n when signal n ended it."""
    stopped: str
    """Why it was stopped by us or our watchdog; empty if it was not."""
    signalled: int
    """The last stop signal (TERM, INT, HUP, QUIT) that was forwarded to it, 0 if none."""
    output: str
    """The end of what it printed, stdout and stderr together."""


class NotStarted(NamedTuple):
    """A stop or a stop signal came first: nothing ran, so the slot can be given back as if never started."""

    stopped: str
    signalled: int


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


class _Bell:
    """What wakes the supervisor: signals, and other threads.

    A handler only notes; everything is done by the loop that waits here. Python's own signal handler writes to the pipe
    (`set_wakeup_fd`), so a signal that comes right before the wait ends it as well.
    """

    def __init__(self) -> None:
        self.interrupted = 0
        self.came: list[int] = []
        self._listen, self._rope = -1, -1
        self._restore: list[Callable[[], object]] = []

    def install(self) -> None:
        self._listen, self._rope = os.pipe()
        os.set_blocking(self._listen, False)
        os.set_blocking(self._rope, False)
        wakeup = signal.set_wakeup_fd(self._rope, warn_on_full_buffer=False)
        self._restore.append(lambda: signal.set_wakeup_fd(wakeup))
        for number in FORWARDED:
            if signal.getsignal(number) != signal.SIG_IGN:
                self._handle(number, self._note)
        self._handle(signal.SIGCHLD, self._note)
        self._handle(signal.SIGTTOU, signal.SIG_IGN)  # we speak, and take the terminal back, from the background
        mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, {*FORWARDED, signal.SIGCHLD})  # as some launchers leave them
        self._restore.append(lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask))

    def remove(self) -> None:
        while self._restore:
            self._restore.pop()()
        pipe, self._listen, self._rope = (self._listen, self._rope), -1, -1
        for fd in pipe:
            os.close(fd)

    def ring(self) -> None:
        """Wake whoever waits; from any thread."""
        with suppress(OSError):  # full: it is awake already; closed: nobody waits any more
            os.write(self._rope, b"\0")

    def wait(self, interest: Mapping[int, int], seconds: float) -> set[int]:
        found = ready({self._listen: select.POLLIN, **interest}, seconds)
        if self._listen in found:
            os.read(self._listen, 4_096)
        return found

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


# --- starting -------------------------------------------------------------------------------------------------------


def find_command(name: str, env: Mapping[str, str]) -> str:
    """The file that a shell would run for `name`, or `CannotStart`: worth asking before a slot is claimed for it."""
    folders = [""] if "/" in name else [f"{folder or '.'}/" for folder in os.get_exec_path(env)]
    found = [path for folder in folders if _is_file(path := f"{folder}{name}")]
    for path in found:
        if os.access(path, os.X_OK):
            return path
    if found:
        raise CannotStart(126, f"{found[0]} may not be executed; chmod +x would allow it")
    if "/" in name:
        raise CannotStart(127, f"there is no file {name} to run{'' if name[0] == '/' else '; write its full path'}")
    searched = ":".join(os.get_exec_path(env))
    raise CannotStart(127, f"there is no command {name!r} in {searched}; write its full path, or set PATH")


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116  pathlib takes longer to import than we to run
    except (OSError, ValueError):
        return False


def _spawn(command: Sequence[str], env: Mapping[str, str], stdout: int, stderr: int) -> int:
    program = find_command(command[0], env)
    outputs = [(os.POSIX_SPAWN_DUP2, stdout, 1), (os.POSIX_SPAWN_DUP2, stderr, 2)]

    def start(path: str, *words: str) -> int:
        return os.posix_spawn(path, words, env, file_actions=outputs, setpgroup=0, setsigmask=(), setsigdef=_DEFAULTED)

    try:
        try:
            return start(program, *command)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            return start("/bin/sh", "sh", program, *command[1:])  # a script without #!: as execvp and every shell do
    except OSError as error:
        missing = "its interpreter is missing" if error.errno == errno.ENOENT else error.strerror
        raise CannotStart(126, f"{program} cannot be started: {missing}") from error


def _hold_standard_streams() -> None:
    """Where our caller closed 0, 1 or 2, our pipes would get these numbers, and output would be written into them."""
    fd = 0
    while fd <= 2:
        fd = os.open(os.devnull, os.O_RDWR)
    os.close(fd)


# --- the command ----------------------------------------------------------------------------------------------------


class Child:
    """One command, from before its start to after its end.

    `stop` and `move_deadline` may be called from any thread at any time: before the start (a stopped command is never
    started) and after the end (nothing happens), so that the keeper of a lease need not know how far the command got.
    """

    def __init__(self, supervisor: "Supervisor", command: Sequence[str], env: Mapping[str, str]) -> None:
        self._bell, self._watchdog = supervisor.bell, supervisor.watchdog
        self._clock, self._grace = supervisor.clock, supervisor.grace
        self._command, self._env = command, env
        self._orders: list[tuple[str, float]] = []  # why to stop, and until when at most
        self._deadline = math.inf
        self._terminal = _Terminal()
        self._tail = Tail()
        self._streams: list[Stream] = []
        self._group = 0  # its process id and its group's
        self._code: int | None = None
        self._stopped = ""
        self._signalled = 0
        self._kill_at = math.inf

    def stop(self, why: str, grace: float | None = None) -> None:
        """TERM for the whole group, and KILL if it is not gone after the grace. The first reason is the one reported;
        a later stop can only bring the KILL nearer."""
        self._orders.append((why, self._clock.boot() + (self._grace if grace is None else grace)))
        self._bell.ring()

    def move_deadline(self, boot: float) -> None:
        """When this instant of the boot clock passes, the watchdog kills the group, even if we are stopped."""
        self._deadline = boot
        if self._group:
            self._watchdog.move(self._group, boot)

    def run(self) -> Ended | NotStarted:
        """Start it and see it through; in the main thread, once. May raise `CannotStart`."""
        self._bell.came.clear()  # first: a signal from here on is either seen by the next line or forwarded
        if self._bell.interrupted or self._orders:
            return NotStarted(self._orders[0][0] if self._orders else "", self._bell.interrupted)
        self._start()
        try:
            return Ended(self._see_through(), self._stopped, self._signalled, self._tail.text())
        finally:
            self._terminal.take_back()
            for stream in self._streams:
                stream.close()

    def _start(self) -> None:
        self._streams = streams = [Stream(1, self._tail), Stream(2, self._tail)]
        try:
            self._group = _spawn(self._command, self._env, *(stream.inlet for stream in streams))
            self._watchdog.guard(self._group, self._deadline)
            self._watchdog.move(self._group, self._deadline)  # another thread may have moved it between the two
        finally:
            for stream in streams:
                os.close(stream.inlet)
                if not self._group:
                    stream.close()
        # With output to a pager the terminal is the pager's, until the command turns out to want it (`_on_pause`).
        if os.isatty(1) and self._terminal.lend(self._group):
            send(self._group, signal.SIGCONT)  # it may have wanted to read before it was allowed to

    def _see_through(self) -> int:
        while True:
            self._look()
            if self._code is not None and not self._lingers():
                break
            self._obey()
            self._turn(self._next_look())
        self._watchdog.done(self._group)  # it knows, unless the group lingered
        self._flush()
        return self._code

    # --- looking ---

    def _look(self) -> None:
        if self._code is None:
            seen = os.waitid(os.P_PID, self._group, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
            if seen and seen.si_code == os.CLD_STOPPED:
                os.waitid(os.P_PID, self._group, os.WSTOPPED | os.WNOHANG)
                self._on_pause(seen.si_status)
            elif seen:
                self._on_end(seen)
        _bury_orphans(self._group if self._code is None else 0)

    def _on_end(self, seen: os.waitid_result) -> None:
        """The command ended. What it left in its group is its own affair, unless it was being stopped.

        A group's number is free to be given to strangers once its leader is reaped and no other member lives. So the
        watchdog is told before the reaping. When a stop is under way that is not possible: whether others still live
        in the group is only seen after its leader is reaped, and they are to be guarded as long. Then the window is
        from the last one's end to our next probe, and to the watchdog's if we are stopped just then: numbers are
        given out in turn, so 20 ms or one second are far too short for this one's turn to come again.
        """
        by_signal = seen.si_code != os.CLD_EXITED
        if by_signal and seen.si_status == signal.SIGKILL and self._clock.boot() >= self._deadline:
            self._stopped = self._stopped or "its deadline passed, and the watchdog killed it"
        if self._kill_at == math.inf:
            self._watchdog.done(self._group)
        os.waitpid(self._group, 0)
        self._code = 128 + seen.si_status if by_signal else seen.si_status
        if self._terminal.lent and by_signal and seen.si_status in (signal.SIGINT, signal.SIGQUIT):
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

    def _lingers(self) -> bool:
        return self._kill_at < math.inf and alive(self._group)

    def _next_look(self) -> float:
        probe = math.inf if self._code is None else self._clock.boot() + PROBE
        return min(self._kill_at, probe)

    # --- acting ---

    def _obey(self) -> None:
        while self._orders:
            self._begin_to_stop(*self._orders.pop(0))
        if self._clock.boot() >= self._kill_at:
            self._kill_at = math.inf
            send(self._group, signal.SIGKILL)
        while self._bell.came:
            self._forward(self._bell.came.pop(0))

    def _begin_to_stop(self, why: str, kill_at: float) -> None:
        if not self._stopped:
            self._stopped = why
            terminate(self._group)
        self._kill_at = min(self._kill_at, kill_at)

    def _forward(self, number: int) -> None:
        send(self._group, number)
        if number in STOPPING:
            send(self._group, signal.SIGCONT)
            self._signalled = number

    def _turn(self, until: float) -> None:
        """Wait for something to happen, and move output on."""
        interest = {fd: event for stream in self._streams for fd, event in stream.interest().items()}
        found = self._bell.wait(interest, until - self._clock.boot())
        moving = [stream for stream in self._streams if not found.isdisjoint(stream.interest())]
        reading = [stream for stream in moving if not stream.pending]
        writing = [stream for stream in moving if stream.pending]
        for stream in reading:
            stream.read()
        for stream in writing[:1]:  # one a turn: both may lead to the same pipe, where the first takes the last room
            stream.write()

    def _flush(self) -> None:
        """Hand on the last output. A reader that takes its time is waited for as the command itself would have waited,
        but not for ever: up to a stop or a signal, and after a stop only for the grace."""
        for stream in self._streams:
            stream.finish()
        patience = self._grace if self._stopped or self._orders else math.inf
        until = self._clock.boot() + patience
        self._orders.clear()
        self._bell.came.clear()
        while any(stream.pending for stream in self._streams):
            if self._orders or self._bell.came or self._clock.boot() >= until:
                return
            self._turn(until)


class Supervisor:
    """Signals and the watchdog, for any number of commands one after the other.

    Enter it in the main thread, before there are other threads or open stores: it forks. Threads that call a `Child`
    must have ended when it is left.
    """

    def __init__(self, clock: Clock, grace: float = 10.0) -> None:
        self.clock = clock
        self.grace = grace
        self.bell = _Bell()

    def __enter__(self) -> Self:
        _hold_standard_streams()
        self.watchdog = Watchdog.start(self.clock, self.grace)
        self.bell.install()
        return self

    def __exit__(self, *_: object) -> None:
        self.bell.remove()
        self.watchdog.close()

    @property
    def interrupted(self) -> int:
        """The last stop signal (TERM, INT, HUP, QUIT) that came, whether or not a command ran; 0 if none."""
        return self.bell.interrupted

    def child(self, command: Sequence[str], env: Mapping[str, str]) -> Child:
        """A command to run; nothing is started yet."""
        return Child(self, command, env)

    def wait(self, seconds: float) -> bool:
        """Sleep, also through suspend; False, at once, when a stop signal came."""
        until = self.clock.boot() + seconds
        while not self.interrupted and (left := until - self.clock.boot()) > 0:
            self.bell.wait({}, left)
            _bury_orphans(0)
        return not self.interrupted
