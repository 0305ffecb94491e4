"""Process groups: starting a program as one, signalling it, waiting for what happens to it; and the watchdog, a process
that ends our groups when we cannot: the essay is at the top of `child`."""

import errno
import gc
import math
import os
import select
import signal
import stat
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Self

from cronce.clock import Clock, SystemClock
from cronce.errors import CannotStart

FileAction = tuple[Any, ...]
"""What becomes of one descriptor in the new process, as `os.posix_spawn` wants it."""

NOWHERE: Final[tuple[FileAction, ...]] = tuple((os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3))

# Python ignores the first two and `exec` ignores the third: a command must not inherit that. What our own caller
# ignores stays ignored, for us and for the command: that is what `nohup` means.
_DEFAULTED: Final = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU)


def find_command(name: str, env: Mapping[str, str]) -> str:
    """The file that a shell would run for `name`, or `CannotStart`: worth asking before a slot is claimed for it."""
    folders = [""] if "/" in name else [f"{folder or '.'}/" for folder in os.get_exec_path(env)]
    found = [path for folder in folders if _is_file(path := f"{folder}{name}")]
    for path in found:
        if os.access(path, os.X_OK):
            return path
    if found:
        raise CannotStart(126, f"{found[0]} is not executable; run chmod +x on it")
    if "/" in name:
        raise CannotStart(127, f"there is no file {name} to run{'' if name[0] == '/' else '; write its full path'}")
    searched = ":".join(os.get_exec_path(env))
    raise CannotStart(127, f"there is no command {name!r} in {searched}; write its full path, or set PATH")


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116  pathlib takes longer to import than we to run
    except (OSError, ValueError):
        return False


def spawn(command: Sequence[str], env: Mapping[str, str], streams: Sequence[FileAction]) -> int:
    """Start it as the leader of a new process group; its number."""
    program = find_command(command[0], env)

    def start(path: str, *words: str) -> int:
        return os.posix_spawn(path, words, env, file_actions=streams, setpgroup=0, setsigmask=(), setsigdef=_DEFAULTED)

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


def python(entry: str, *words: str) -> list[str]:
    """A command that calls `module:function` in a Python like this one: the same flags, and modules from the same
    places, wherever our caller had them added."""
    from subprocess import _args_from_interpreter_flags  # type: ignore[attr-defined]  # noqa: PLC0415

    if not sys.executable:
        raise CannotStart(127, "this program does not know which Python runs it (sys.executable is empty)")
    module, _, function = entry.partition(":")
    places = [place for place in sys.path if isinstance(place, str)]
    code = f"import sys; sys.path[:] = {places!r}; from {module} import {function}; {function}()"
    return [sys.executable, *_args_from_interpreter_flags(), "-c", code, *words]


def hold_standard_streams() -> None:
    """Where our caller closed 0, 1 or 2, our pipes would get these numbers, and output would be written into them."""
    fd = 0
    while fd <= 2:
        fd = os.open(os.devnull, os.O_RDWR)
    os.close(fd)


# --- a group that runs ----------------------------------------------------------------------------------------------

BOOT_CLOCK_POLL: Final = (
    1.0  # poll's timeout does not advance in suspend, the boot clock does: look again at least this often
)
GROUP_LOOK_EVERY: Final = 0.02  # how often to look whether the rest of a group is gone: the system does not report it


def send(group: int, *numbers: int) -> None:
    """Signals to a whole group. None left in it, or none that we may signal: both leave nothing to do."""
    with suppress(ProcessLookupError, PermissionError):
        for number in numbers:
            os.killpg(group, number)


def terminate(group: int) -> None:
    send(group, signal.SIGTERM, signal.SIGCONT)  # a stopped process heeds TERM only once it is continued


def alive(group: int) -> bool:
    """Whether the group has a member, even a zombie: where process 1 does not reap, a stop takes its whole grace."""
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
    limit = None if seconds == math.inf else max(0, math.ceil(min(seconds, BOOT_CLOCK_POLL) * 1_000))
    return {fd for fd, _ in poller.poll(limit)}


# --- the watchdog ---------------------------------------------------------------------------------------------------

# What we send it: a word, the group it is about, and for _GUARD and _MOVE the deadline. A record is far below PIPE_BUF,
# so writes from two threads never mix.
_RECORD: Final = struct.Struct("=cqd")
_GUARD: Final = b"g"
_MOVE: Final = b"m"
_DONE: Final = b"d"

Guarded = dict[int, float]
"""The groups that it guards, and the deadline of each on the boot clock."""


class Watchdog:
    """Our side of the process that outlives us.

    Every word names its group, so that a late `move` for a command that has ended moves no other deadline. A word that
    cannot be sent (the watchdog was killed) is not an error of the run that goes on without it.
    """

    def __init__(self, pid: int, pipe: int) -> None:
        os.set_blocking(pipe, False)  # a watchdog that was stopped must not block the keeper of a lease
        self.pid = pid
        self._pipe = pipe
        self._lock = threading.Lock()  # no thread may write to a file descriptor that was closed, and reused since

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
        os.read(told, 1)  # until it has left our group: otherwise a signal that kills the group kills the watchdog too
        os.close(told)
        return cls(pid, ours)

    @classmethod
    def spawn(cls, grace: float) -> Self:
        """For a process with threads, which should not fork: an interpreter of its own, which is not waited for."""
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
        """Whether it was killed: then what we write is not read."""
        return bool(ready({self._pipe: 0}, 0))

    def close(self) -> None:
        """The end, as if we had died: what is still guarded is ended, which may take the grace."""
        with self._lock:
            self.let_go()
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGCONT)  # it may have been stopped, and it has to see the end of the pipe
        with suppress(ChildProcessError):  # a caller that ignores SIGCHLD has it reaped by the kernel
            os.waitpid(self.pid, 0)

    def let_go(self) -> None:
        """Close the pipe and wait for nothing: a forked child must not hold the pipe that shows that its parent
        lives."""
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
        if ready({pipe: select.POLLIN}, _next_look(guarded, clock)):  # read all that was sent, then judge
            if not (record := os.read(pipe, _RECORD.size)):
                break
            _heed(_RECORD.unpack(record), guarded)
        else:
            _judge(guarded, clock.boot())
    _end({group: min(clock.boot() + grace, deadline) for group, deadline in guarded.items()}, clock)


def _next_look(guarded: Guarded, clock: Clock) -> float:
    return min(min(guarded.values()) - clock.boot(), BOOT_CLOCK_POLL) if guarded else math.inf


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
        ready({}, GROUP_LOOK_EVERY if kill_at else 0)
