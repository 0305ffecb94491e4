"""The process that ends our groups when we cannot: the essay is at the top of `child`."""

import gc
import math
import os
import select
import signal
import struct
import sys
import threading
from contextlib import suppress
from typing import Any, Final, Self

from cronce.clock import Clock, SystemClock
from cronce.runtime.processes.group import LOOK, PROBE, alive, ready, send, terminate
from cronce.runtime.processes.start import NOWHERE, python

# What we tell it: a word, the group it is about, and for GUARD and MOVE the deadline. A record is far below PIPE_BUF,
# so writes from two threads never mix.
_RECORD: Final = struct.Struct("=cqd")
_GUARD: Final = b"g"
_MOVE: Final = b"m"
_DONE: Final = b"d"

Guarded = dict[int, float]
"""The groups that it guards, and the deadline of each on the boot clock."""


class Watchdog:
    """Our side of the process that outlives us.

    Every word names its group, so that a late `move` for a command that has ended moves nobody's deadline. A word that
    cannot be sent (somebody killed the watchdog) is not an error of the run that goes on without it.
    """

    def __init__(self, pid: int, pipe: int) -> None:
        os.set_blocking(pipe, False)  # a watchdog that somebody stopped must not block the keeper of a lease
        self.pid = pid
        self._pipe = pipe
        self._lock = threading.Lock()  # nobody may write to a number that was closed, and given away since

    @classmethod
    def fork(cls, clock: Clock, grace: float) -> Self:
        """The quick way: while this process has one thread and no store is open."""
        theirs, ours = os.pipe()
        told, ready = os.pipe()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                os.close(ours)  # or it would never see the end of what it holds itself
                _be_watchdog(theirs, ready, clock, grace)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(theirs)
        os.close(ready)
        os.read(told, 1)  # until it has left our group, or whoever kills that would kill the watchdog too
        os.close(told)
        return cls(pid, ours)

    @classmethod
    def spawn(cls, grace: float) -> Self:
        """For a process with threads, which had better not fork: an interpreter of its own, that nobody waits for."""
        theirs, ours = os.pipe()
        words = python(f"{__name__}:main", str(grace))
        streams = [(os.POSIX_SPAWN_DUP2, theirs, 0), NOWHERE[1], NOWHERE[2]]
        try:
            blocked = signal.valid_signals()
            pid = os.posix_spawn(words[0], words, os.environ, file_actions=streams, setpgroup=0, setsigmask=blocked)
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return cls(pid, ours)

    def guard(self, group: int, deadline: float = math.inf) -> None:
        """From now on this group ends with us, or when this instant of the boot clock passes."""
        self._tell(_GUARD, group, deadline)

    def move(self, group: int, deadline: float) -> None:
        """A new deadline for the guarded group; from any thread."""
        self._tell(_MOVE, group, deadline)

    def done(self, group: int) -> None:
        """Nothing to guard any more."""
        self._tell(_DONE, group, math.inf)

    @property
    def gone(self) -> bool:
        """Whether somebody killed it: then nobody reads what we write."""
        return bool(ready({self._pipe: 0}, 0))

    def close(self) -> None:
        """The end, as if we had died: what is still guarded is ended, which may take the grace."""
        with self._lock:
            self.let_go()
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGCONT)  # somebody may have stopped it, and it has to see the end of the pipe
        with suppress(ChildProcessError):  # a caller that ignores SIGCHLD has it reaped by the kernel
            os.waitpid(self.pid, 0)

    def let_go(self) -> None:
        """Hang up and wait for nothing: a forked child must not hold what says that its parent lives."""
        pipe, self._pipe = self._pipe, -1
        os.close(pipe)

    def _tell(self, word: bytes, group: int, deadline: float) -> None:
        with self._lock, suppress(OSError):
            os.write(self._pipe, _RECORD.pack(word, group, deadline))


def main() -> None:
    """The whole life of one that was spawned."""
    _watch(0, SystemClock(), float(sys.argv[1]))


def _be_watchdog(pipe: int, ready: int, clock: Clock, grace: float) -> None:
    """The forked process's whole life. No way leads back into the caller's code, whose cleanup is not ours to run."""
    try:
        gc.disable()  # nor finalizers of its objects
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(pipe, 0)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.closerange(3, ready)
        os.closerange(ready + 1, 4_096)
        os.close(ready)
        _watch(0, clock, grace)
    finally:
        os._exit(0)


def _watch(pipe: int, clock: Clock, grace: float) -> None:
    guarded: Guarded = {}
    while True:
        if ready({pipe: select.POLLIN}, _next_look(guarded, clock)):  # all that was said, then judge
            if not (record := os.read(pipe, _RECORD.size)):
                break
            _heed(_RECORD.unpack(record), guarded)
        else:
            _judge(guarded, clock.boot())
    _end({group: min(clock.boot() + grace, deadline) for group, deadline in guarded.items()}, clock)


def _next_look(guarded: Guarded, clock: Clock) -> float:
    return min(min(guarded.values()) - clock.boot(), LOOK) if guarded else math.inf


def _heed(record: tuple[Any, ...], guarded: Guarded) -> None:
    word, group, deadline = record
    if word == _GUARD or (word == _MOVE and group in guarded):
        guarded[group] = deadline
    elif word == _DONE:
        guarded.pop(group, None)


def _judge(guarded: Guarded, boot: float) -> None:
    for group, deadline in list(guarded.items()):
        if boot >= deadline:
            send(group, signal.SIGKILL)
            del guarded[group]
        elif not alive(group):  # a zombie counts, so this group is gone for ever and its number may be given away
            del guarded[group]


def _end(kill_at: Guarded, clock: Clock) -> None:
    for group in kill_at:
        terminate(group)
    while kill_at:
        _judge(kill_at, clock.boot())
        ready({}, PROBE if kill_at else 0)
