"""One command in a process group of its own, watched over: the half of a run that knows no store.

    we ──spawn──► the command and what it starts: one process group
     │                             ▲
     └──────────► the watchdog ────┘ kills it when we are gone, or when an instant passes that was not moved on

A run that lost its lease must not go on. While we live, we see to that: `Child.stop` asks the group to end (TERM) and
after a grace makes it (KILL). When we are killed or stopped we cannot, so a second process of ours does: `watchdog`, a
small Python of its own, started with the first command. It is outside our group, blocks every signal that can be
blocked and holds nothing but the read end of a pipe. The end of that pipe is how it learns of our death, whatever the
cause. An instant on the boot clock, which the lease's keeper moves on, is how it learns that we are stuck: stopped,
swapped out, or writing to a terminal that takes nothing.

What no process group can give, and this does not promise:

- A process that leaves the group (`setsid`, a daemon that detaches) is out of our reach.
- So is a program of another user's that we may not signal (`sudo` from an ordinary user).
- When the watchdog itself is killed (`pkill -9 -f cronce`) and the supervisor of a group is killed, too, the group goes
  on.
- When we are killed between the start of the command and our next line, which informs the watchdog, the command goes on
  alone: its number is not known before it runs. That is about half a millisecond, as the kernel lets the new program go
  first: of 500 killed at random within 60 ms of their starts, 5.

Starting costs matter under cron. `os.posix_spawn` is as fast as `subprocess` and spares its import (7 ms, a sixth of
all that `cronce exec` may take). It is also what a process with threads may do at any time, where a fork may not.
"""

import math
import os
import select
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cronce.clock import Clock
from cronce.runtime.processes.output import Stream, Tail
from cronce.runtime.processes.process_group import NOWHERE, FileAction, Watchdog, hold_standard_streams, spawn
from cronce.runtime.processes.watchdog import BOOT_CLOCK_POLL, GROUP_LOOK_EVERY, alive, ready, send, terminate
from cronce.value import NamedTuple

if TYPE_CHECKING:
    from cronce.runtime.app_loading import FunctionLocation
    from cronce.runtime.attempt import Work
    from cronce.runtime.keeper import Keeper
    from cronce.runtime.processes.isolated import StdinChannel

ChildOutput: TypeAlias = "Stream | StdinChannel"
"""What comes out of a child, and is read while it runs: its output, or its reports."""

CHILD_STOP_SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})

GRACE: Final = 10.0
"""Seconds from TERM to KILL."""


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


class BackgroundChild:
    """The surroundings of a child: it has no terminal input, and signals to us are not for it. The thread that waits
    for it, in the block, is woken by other threads, by the child's end, and now and then by a timeout, since an
    exception that is thrown into a thread is raised when the thread next runs Python."""

    longest = BOOT_CLOCK_POLL
    """Seconds to wait at most."""
    stdin: Sequence[FileAction] = NOWHERE[:1]
    """A terminal of ours is not for it."""
    interrupted = 0
    """The last stop signal that came, 0 if none."""
    hastens = False
    """Whether a child that is still there a grace after a TERM is killed."""

    def __init__(self) -> None:
        self.came: list[int] = []  # signals that are to be forwarded
        self._listen, self._waker, self._child = -1, -1, -1
        self._lock = threading.Lock()  # no thread may write to a file descriptor that was closed, and reused since

    def __enter__(self) -> None:
        self._listen, self._waker = os.pipe()
        os.set_blocking(self._listen, False)
        os.set_blocking(self._waker, False)

    def __exit__(self, *_: object) -> None:
        self._forget()
        with self._lock:
            pipe, self._listen, self._waker = (self._listen, self._waker), -1, -1
            for fd in pipe:
                os.close(fd)

    def started(self, pid: int) -> None:
        """Wake when this child ends. Where the system has no means for it, or forbids it, look every moment."""
        try:
            self._child = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self.longest = GROUP_LOOK_EVERY

    def ended(self) -> None:
        self._forget()

    def _forget(self) -> None:
        child, self._child = self._child, -1
        if child >= 0:
            os.close(child)

    def wake(self) -> None:
        """Wake the thread that waits; from any thread."""
        with self._lock, suppress(OSError):  # full: it is awake already; closed: no thread waits any more
            os.write(self._waker, b"\0")

    def wait(self, interest: Mapping[int, int], seconds: float) -> set[int]:
        own = {fd: select.POLLIN for fd in (self._listen, self._child) if fd >= 0}
        found = ready({**own, **interest}, min(seconds, self.longest))
        if self._listen in found:
            os.read(self._listen, 4_096)
        return found


class Child:
    """One command, from before its start to after its end.

    `stop` and `move_deadline` may be called from any thread at any time: before the start (a stopped command is never
    started) and after the end (nothing happens), so that the keeper of a lease need not know how far the command got.
    """

    def __init__(
        self,
        supervisor: "Supervisor",
        place: BackgroundChild,
        command: Sequence[str],
        env: Mapping[str, str],
        line: "StdinChannel | None" = None,
    ) -> None:
        assert supervisor.watchdog is not None
        self._watchdog, self._clock, self._grace = supervisor.watchdog, supervisor.clock, supervisor.grace
        self._place, self._command, self._env, self._line = place, command, env, line
        self._orders: list[tuple[str, float]] = []  # why to stop, and until when at most
        self._deadline = math.inf
        self._tail = Tail()
        self._sources: list[ChildOutput] = []
        self._group = 0  # its process id and its group's
        self._code: int | None = None
        self._stopped = ""
        self._signalled = 0
        self._kill_at = math.inf

    def stop(self, why: str, grace: float | None = None) -> None:
        """TERM for the whole group, and KILL if it is not gone after the grace. The first reason is the one reported;
        a later stop can only bring the KILL nearer."""
        self._orders.append((why, self._clock.boot() + (self._grace if grace is None else grace)))
        self._place.wake()

    def move_deadline(self, boot: float) -> None:
        """When this instant of the boot clock passes, the watchdog kills the group, even if we are stopped."""
        self._deadline = boot
        if self._group:
            self._watchdog.move(self._group, boot)

    def run(self) -> Ended | NotStarted:
        """Start it and see it through; in one thread, once. May raise `CannotStart`."""
        with self._place:
            if self._orders or self._place.interrupted:
                return NotStarted(self._orders[0][0] if self._orders else "", self._place.interrupted)
            return self._run()

    def _run(self) -> Ended:
        self._start()
        try:
            return Ended(self._see_through(), self._stopped, self._signalled, self._tail.text())
        except BaseException as error:  # the waiting thread was interrupted: the group must not outlive the wait
            self._abandon(f"interrupted by {type(error).__name__}")
            raise
        finally:
            for source in self._sources:
                source.close()

    def _start(self) -> None:
        self._sources = sources = self._opened()
        try:
            self._group = spawn(self._command, self._env, self._streams(*sources))
            self._watchdog.guard(self._group, self._deadline)
            self._watchdog.move(self._group, self._deadline)  # another thread may have moved it between the two
        finally:
            for source in sources:
                os.close(source.inlet)
                if not self._group:
                    source.close()
        self._place.started(self._group)

    def _opened(self) -> list[ChildOutput]:
        stdout = Stream(1, self._tail)
        outputs = [stdout, Stream(2, self._tail, stdout)]
        if self._line is None:
            return [*outputs]
        self._line.open()
        return [*outputs, self._line]

    def _streams(
        self, stdout: ChildOutput, stderr: ChildOutput, stdin: "ChildOutput | None" = None
    ) -> list[FileAction]:
        outputs = [(os.POSIX_SPAWN_DUP2, stdout.inlet, 1), (os.POSIX_SPAWN_DUP2, stderr.inlet, 2)]
        return [*([(os.POSIX_SPAWN_DUP2, stdin.inlet, 0)] if stdin else self._place.stdin), *outputs]

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

    def _abandon(self, why: str) -> None:
        try:
            self.stop(why)
            self._see_through()
        except BaseException:
            send(self._group, signal.SIGKILL)
            raise

    # --- looking ---

    def _look(self) -> None:
        if self._code is None:
            seen = os.waitid(os.P_PID, self._group, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if seen:
                self._on_end(seen)

    def _on_end(self, seen: os.waitid_result) -> None:
        """The command ended. What it left in its group is its own affair, unless it was being stopped.

        A group's number is free to be given to strangers once its leader is reaped and no other member lives. So the
        watchdog is informed before the reaping. When a stop is under way that is not possible: whether others still
        live in the group is only seen after its leader is reaped, and they are to be guarded as long. Then the window
        is from the last one's end to our next probe, and to the watchdog's if we are stopped just then: numbers are
        given out in turn, so 20 ms or one second are far too short for this one's turn to come again.
        """
        by_signal = seen.si_code != os.CLD_EXITED
        if by_signal and seen.si_status == signal.SIGKILL and self._clock.boot() >= self._deadline:
            self._stopped = self._stopped or "its deadline passed, and the watchdog killed it"
        if self._kill_at == math.inf:
            self._watchdog.done(self._group)
        os.waitpid(self._group, 0)
        self._code = 128 + seen.si_status if by_signal else seen.si_status
        self._place.ended()

    def _lingers(self) -> bool:
        """Whether a member of a group that is being stopped is left. As process 1 we are their parent now, and a group
        of zombies would look alive."""
        if self._kill_at == math.inf:
            return False
        with suppress(ChildProcessError):
            while os.waitpid(-self._group, os.WNOHANG)[0]:
                pass
        return alive(self._group)

    def _next_look(self) -> float:
        probe = math.inf if self._code is None else self._clock.boot() + GROUP_LOOK_EVERY
        return min(self._kill_at, probe)

    # --- acting ---

    def _obey(self) -> None:
        while self._orders:
            self._begin_to_stop(*self._orders.pop(0))
        if self._clock.boot() >= self._kill_at:
            self._kill_at = math.inf
            send(self._group, signal.SIGKILL)
        while self._place.came:
            self._forward(self._place.came.pop(0))

    def _begin_to_stop(self, why: str, kill_at: float) -> None:
        if not self._stopped:
            self._stopped = why
            terminate(self._group)
        self._kill_at = min(self._kill_at, kill_at)

    def _forward(self, number: int) -> None:
        send(self._group, number)
        if number in CHILD_STOP_SIGNALS:
            send(self._group, signal.SIGCONT)
            self._signalled = number
        if number == signal.SIGTERM and self._place.hastens:
            self._kill_at = min(self._kill_at, self._clock.boot() + self._grace)

    def _turn(self, until: float) -> None:
        """Wait for something to happen, and move output on."""
        interest = {fd: event for source in self._sources for fd, event in source.interest().items()}
        found = self._place.wait(interest, until - self._clock.boot())
        moving = [source for source in self._sources if not found.isdisjoint(source.interest())]
        reading = [source for source in moving if not source.pending]
        writing = [source for source in moving if source.pending]
        for source in reading:
            source.read()
        for source in writing[:1]:  # one a turn: both may lead to the same pipe, where the first takes the last room
            source.write()

    def _flush(self) -> None:
        """Hand on the last output. A reader that takes its time is waited for as the command itself would have waited,
        but not for ever: up to a stop or a signal, and after a stop only for the grace."""
        self._place.came.clear()
        for source in self._sources:
            source.finish()
        patience = self._grace if self._stopped or self._orders else math.inf
        until = self._clock.boot() + patience
        self._orders.clear()
        while any(source.pending for source in self._sources):
            if self._orders or self._place.came or self._clock.boot() >= until:
                return
            self._turn(until)


class Supervisor:
    """Children, any number at once, and one watchdog for all of them, from the first on."""

    watchdog: Watchdog | None = None

    def __init__(self, clock: Clock, grace: float = GRACE) -> None:
        self.clock = clock
        self.grace = grace
        self._lock = threading.Lock()

    def child(self, command: Sequence[str], env: Mapping[str, str], line: "StdinChannel | None" = None) -> Child:
        """A command to run, which is not started yet; its watchdog is. If that was killed, another is started: this
        process may live for months, and when memory is short the kernel may kill a small process."""
        with self._lock:
            if self.watchdog is not None and self.watchdog.gone:
                self.watchdog.close()
                self.watchdog = None
            if self.watchdog is None:
                hold_standard_streams()
                self.watchdog = Watchdog.spawn(self.grace)
            return Child(self, self._surroundings(), command, env, line)

    def _surroundings(self) -> BackgroundChild:
        """Those of the next child."""
        return BackgroundChild()

    def close(self) -> None:
        """When all children have ended."""
        with self._lock:
            watchdog, self.watchdog = self.watchdog, None
        if watchdog is not None:
            watchdog.close()

    def forked(self) -> None:
        """In a forked child: whom the watchdog guards are its parent's."""
        self._lock = threading.Lock()
        watchdog, self.watchdog = self.watchdog, None
        if watchdog is not None:
            watchdog.let_go()


class BodyRunners(Supervisor):
    """Runs the job functions of a process that have processes of their own: commands, and functions that are
    isolated."""

    def __init__(self, at_work: "Callable[[], Keeper]", clock: Clock, url: Callable[[], str | None]) -> None:
        super().__init__(clock)
        self._at_work, self._url = at_work, url

    def command(self, words: Sequence[str]) -> "Work":
        """One run of a command."""
        from cronce.runtime.processes.command import Command  # noqa: PLC0415  most have none

        return Command(words, self, self._at_work().node.store.traits)

    def isolated(
        self, place: "FunctionLocation", args: tuple[Any, ...], named: Mapping[str, Any], is_async: bool
    ) -> "Work":
        """One call of a function in a process of its own."""
        from cronce.runtime.processes.isolated import IsolatedCall  # noqa: PLC0415

        traits = self._at_work().node.store.traits
        return IsolatedCall(place, self, traits, self._url(), args=args, named=named, is_async=is_async)
