"""Process groups: starting a program as one; and our side of the watchdog, a process that ends our groups when we
cannot: the essay is at the top of `child`."""

import errno
import math
import os
import signal
import stat
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Self

from cronce.errors import CannotStart
from cronce.runtime.processes import watchdog

FileAction = tuple[Any, ...]
"""What becomes of one descriptor in the new process, as `os.posix_spawn` wants it."""

NOWHERE: Final[tuple[FileAction, ...]] = tuple((os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3))

# Python ignores the first two and `exec` ignores the others: a command must not inherit that. What our own caller
# ignores stays ignored, for us and for the command: that is what `nohup` means.
_DEFAULTED: Final = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTSTP, signal.SIGTTOU)


def find_command(name: str, env: Mapping[str, str]) -> str:
    """The file that a shell would run for `name`, or `CannotStart`: worth asking before a slot is claimed for it."""
    folders = [""] if "/" in name else [f"{folder or '.'}/" for folder in os.get_exec_path(env)]
    found = [path for folder in folders if _is_file(path := f"{folder}{name}")]
    for path in found:
        if os.access(path, os.X_OK):
            return path
    if found:
        raise CannotStart(126, f"{found[0]} is not executable; run chmod +x on it")
    if " " in name:
        raise CannotStart(127, f"there is no command {name!r}: this is one word; drop the quotes, or use sh -c")
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
    """Start it as the leader of a new process group, in a session of its own: a terminal of ours neither stops it nor
    signals it. Its number."""
    program = find_command(command[0], env)

    def start(path: str, *words: str) -> int:
        return os.posix_spawn(path, words, env, file_actions=streams, setsid=True, setsigmask=(), setsigdef=_DEFAULTED)

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

    module, _, function = entry.partition(":")
    places = [place for place in sys.path if isinstance(place, str)]
    code = f"import sys; sys.path[:] = {places!r}; from {module} import {function}; {function}()"
    return [_interpreter(), *_args_from_interpreter_flags(), "-c", code, *words]


def _interpreter() -> str:
    if not sys.executable:
        raise CannotStart(127, "this program does not know which Python runs it (sys.executable is empty)")
    return sys.executable


def hold_standard_streams() -> None:
    """Where our caller closed 0, 1 or 2, our pipes would get these numbers, and output would be written into them."""
    fd = 0
    while fd <= 2:
        fd = os.open(os.devnull, os.O_RDWR)
    os.close(fd)


# --- the watchdog ---------------------------------------------------------------------------------------------------


class Watchdog:
    """Our side of the process that outlives us.

    Every word names its group, so that a late `move` for a command that has ended moves no other deadline. A word that
    cannot be sent (the watchdog was killed) is not an error of the run that goes on without it.

    It is not waited for when it starts: what it is told meanwhile is in the pipe, and so is our end.
    """

    def __init__(self, pid: int, pipe: int) -> None:
        os.set_blocking(pipe, False)  # a watchdog that was stopped must not block the keeper of a lease
        self.pid = pid
        self._pipe = pipe
        self._guarded: set[int] = set()
        self._lock = threading.Lock()  # no thread may write to a file descriptor that was closed, and reused since

    @classmethod
    def spawn(cls, grace: float) -> Self:
        """In a session of its own, so that what ends our process group or our terminal does not reach it."""
        folder = os.path.dirname(watchdog.__file__)  # noqa: PTH120  pathlib is slow to import
        code = f"import sys; sys.path.insert(0, {folder!r}); from watchdog import main; main()"
        words = [_interpreter(), "-S", "-P", "-c", code, str(grace)]
        theirs, ours = os.pipe()
        streams = [(os.POSIX_SPAWN_DUP2, theirs, 0), NOWHERE[1], NOWHERE[2]]
        try:
            blocked = signal.valid_signals()
            pid = os.posix_spawn(words[0], words, os.environ, file_actions=streams, setsid=True, setsigmask=blocked)
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return cls(pid, ours)

    def guard(self, group: int, deadline: float = math.inf) -> None:
        """From now on this group ends with us, or when this instant of the boot clock passes."""
        self._guarded.add(group)
        self._tell(watchdog.GUARD, group, deadline)

    def move(self, group: int, deadline: float) -> None:
        """A new deadline for the guarded group; from any thread."""
        self._tell(watchdog.MOVE, group, deadline)

    def done(self, group: int) -> None:
        """Nothing to guard any more."""
        self._guarded.discard(group)
        self._tell(watchdog.UNGUARD, group, math.inf)

    @property
    def gone(self) -> bool:
        """Whether it was killed: then what we write is not read."""
        return bool(watchdog.ready({self._pipe: 0}, 0))

    def close(self) -> None:
        """The end, as if we had died: what is still guarded is ended, which may take the grace. With nothing to guard
        it is killed, for after a short command it may still be starting."""
        with self._lock:
            is_idle = not self._guarded and not self.gone
            self.let_go()
        with suppress(ProcessLookupError, PermissionError):
            # it may have been stopped, and has to see the end of the pipe
            os.kill(self.pid, signal.SIGKILL if is_idle else signal.SIGCONT)
        with suppress(ChildProcessError):  # a caller that ignores SIGCHLD has it reaped by the kernel
            os.waitpid(self.pid, 0)

    def let_go(self) -> None:
        """Close the pipe and wait for nothing: a forked child must not hold the pipe that shows that its parent
        lives."""
        pipe, self._pipe = self._pipe, -1
        os.close(pipe)

    def _tell(self, word: bytes, group: int, deadline: float) -> None:
        with self._lock, suppress(OSError):
            os.write(self._pipe, watchdog.RECORD.pack(word, group, deadline))
