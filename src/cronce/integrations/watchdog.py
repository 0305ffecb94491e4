"""Process groups, and the process that ends one when we cannot: the essay is at the top of `process`."""

import gc
import math
import os
import select
import signal
import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Self

from cronce.clock import Clock

_LOOK: Final = 1.0  # poll's timeout stands still in suspend, the boot clock does not: look again at least this often
PROBE: Final = 0.02  # how often to look whether the rest of a group is gone: nobody tells us

# --- process groups -------------------------------------------------------------------------------------------------


def send(group: int, *numbers: int) -> None:
    """Signals to a whole group. None left in it, or none that we may signal: both leave nothing to do."""
    with suppress(ProcessLookupError, PermissionError):
        for number in numbers:
            os.killpg(group, number)


def terminate(group: int) -> None:
    send(group, signal.SIGTERM, signal.SIGCONT)  # a stopped process heeds TERM only once it is continued


def alive(group: int) -> bool:
    """Whether the group has a member, be it a zombie: where process 1 reaps nobody, a stop takes its whole grace."""
    try:
        os.killpg(group, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return True


def ready(interest: Mapping[int, int], seconds: float) -> set[int]:
    """Which of these descriptors are ready; after at most `seconds`, and no later than the next look at the clock."""
    poller = select.poll()
    for fd, events in interest.items():
        poller.register(fd, events)
    limit = None if seconds == math.inf else max(0, math.ceil(min(seconds, _LOOK) * 1_000))
    return {fd for fd, _ in poller.poll(limit)}


# --- the watchdog ---------------------------------------------------------------------------------------------------

# What we tell it: a word, the group it is about, and for GUARD and MOVE the deadline. A record is far below PIPE_BUF,
# so writes from two threads never mix.
_RECORD: Final = struct.Struct("=cqd")
_GUARD: Final = b"g"
_MOVE: Final = b"m"
_DONE: Final = b"d"


class Watchdog:
    """Our side of the process that outlives us; see the top of this module.

    Every word names its group, so that a late `move` for a command that has ended moves nobody's deadline. A word that
    cannot be sent (somebody killed the watchdog) is not an error of the run that goes on without it.
    """

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self._pipe = pipe

    @classmethod
    def start(cls, clock: Clock, grace: float) -> Self:
        """Fork it: while this process has one thread and no store is open."""
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
        os.set_blocking(ours, False)  # a watchdog that somebody stopped must not block the keeper of a lease
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

    def close(self) -> None:
        """The end, as if we had died: what is still guarded is ended, which may take the grace."""
        pipe, self._pipe = self._pipe, -1
        os.close(pipe)
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGCONT)  # somebody may have stopped it, and it has to see the end of the pipe
        with suppress(ChildProcessError):  # a caller that ignores SIGCHLD has it reaped by the kernel
            os.waitpid(self.pid, 0)

    def _tell(self, word: bytes, group: int, deadline: float) -> None:
        with suppress(OSError):
            os.write(self._pipe, _RECORD.pack(word, group, deadline))


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
    group, deadline = 0, math.inf
    while True:
        if ready({pipe: select.POLLIN}, _next_look(group, deadline, clock)):  # all that was said, then judge
            if not (record := os.read(pipe, _RECORD.size)):
                break
            group, deadline = _heed(_RECORD.unpack(record), group, deadline)
        elif clock.boot() >= deadline:
            send(group, signal.SIGKILL)
            group, deadline = 0, math.inf
        elif not alive(group):  # a zombie counts, so this group is gone for ever and its number may be given away
            group, deadline = 0, math.inf
    if group:
        _end(group, min(clock.boot() + grace, deadline), clock)


def _next_look(group: int, deadline: float, clock: Clock) -> float:
    return min(deadline - clock.boot(), _LOOK) if group else math.inf


def _heed(record: tuple[Any, ...], group: int, deadline: float) -> tuple[int, float]:
    word, about, new_deadline = record
    if word == _GUARD:
        return about, new_deadline
    if about != group:
        return group, deadline
    return (group, new_deadline) if word == _MOVE else (0, math.inf)


def _end(group: int, kill_at: float, clock: Clock) -> None:
    terminate(group)
    while alive(group) and (left := kill_at - clock.boot()) > 0:
        ready({}, min(left, PROBE))
    send(group, signal.SIGKILL)
