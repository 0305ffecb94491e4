"""Starting a program: which file it is, and with what."""

import errno
import os
import signal
import stat
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

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
