"""The child processes of `cronce demo` and `cronce torture`, and what is done to them: start, kill, stop, send a line.

Each reads its standard input, and ends when that is closed: when the parent is gone, so are they.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from cronce.errors import BadInput, CronceError

REFUSED_EXIT: Final = 2
"""The exit code of a process that was refused its task; the last line of its output has the reason."""


class ChildProcesses:
    """Processes by name, each a run of one Python module. `log` returns where a process writes its output."""

    def __init__(self, module: str, log: Callable[[str], Path]) -> None:
        self._module, self._log = module, log
        self._living: dict[str, subprocess.Popen[str]] = {}
        self._dead: list[subprocess.Popen[str]] = []
        self._leaving: set[str] = set()

    @property
    def names(self) -> Iterable[str]:
        """Those that were started and not killed."""
        return tuple(self._living)

    def start(self, name: str, *arguments: str) -> None:
        with self._log(name).open("a") as log:
            self._living[name] = subprocess.Popen(  # noqa: S603  our own interpreter
                [sys.executable, "-m", self._module, *arguments],
                stdin=subprocess.PIPE, stdout=log, stderr=log, text=True,
            )  # fmt: skip

    def check(self) -> None:
        """A process that ended, and was not killed, is an error: there would be nothing to show."""
        for name, process in self._living.items():
            if process.poll() is not None and not (name in self._leaving and process.returncode == 0):
                last = self._log(name).read_text().strip().splitlines()[-1:] or ["it printed nothing"]
                if process.returncode == REFUSED_EXIT:
                    raise BadInput(f"{name} was refused: {last[0]}")
                raise CronceError(f"{name} ended by itself, with {process.returncode}: {last[0]}")

    def tell(self, name: str, text: str) -> None:
        stdin = self._living[name].stdin
        assert stdin is not None
        with suppress(BrokenPipeError):  # it ended, and the next check reports that
            stdin.write(f"{text}\n")
            stdin.flush()

    def kill(self, name: str) -> None:
        process = self._living.pop(name)
        process.kill()
        process.wait()
        self._dead.append(process)
        self._leaving.discard(name)

    def ask_to_end(self, name: str) -> None:
        """By SIGTERM: it ends by itself, with 0."""
        self._living[name].send_signal(signal.SIGTERM)
        self._leaving.add(name)

    def has_ended(self, name: str) -> bool:
        """Whether one that was asked to has; then another may be started under its name."""
        if self._living[name].poll() is None:
            return False
        self.check()
        self._leaving.discard(name)
        self._dead.append(self._living.pop(name))
        return True

    def stop(self, name: str) -> None:
        """Wait until the kernel reports it as stopped: sending the signal only requests that."""
        self._living[name].send_signal(signal.SIGSTOP)
        os.waitpid(self._living[name].pid, os.WUNTRACED)

    def go_on(self, name: str) -> None:
        self._living[name].send_signal(signal.SIGCONT)

    def end(self, grace: float) -> None:
        """Let them close what they opened, for so many seconds."""
        self._hang_up()
        for process in self._living.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(grace)

    def clear(self) -> None:
        """Whatever happened, no process is left: a stopped process cannot ignore this signal either."""
        for process in self._living.values():
            process.kill()
        self._hang_up()
        for process in self._living.values():
            process.wait()

    def _hang_up(self) -> None:
        for process in (*self._living.values(), *self._dead):
            if process.stdin is not None:
                with suppress(BrokenPipeError):
                    process.stdin.close()
