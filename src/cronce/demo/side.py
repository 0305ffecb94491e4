"""One side of the demo: three processes, with the guard or without it, and what they wrote so far."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from cronce.demo.book import Line, Tail, What
from cronce.demo.picture import Account
from cronce.demo.worker import Kind
from cronce.errors import CronceError

NAMES: Final = ("web-1", "web-2", "web-3")
GRACE: Final = 10.0
"""Seconds that a process has to close what it opened, when all is over."""


class Side:
    def __init__(self, kind: Kind, folder: Path) -> None:
        self.account = Account()
        self._kind, self._folder = kind, folder
        self._workers: dict[str, subprocess.Popen[str]] = {}
        self._tails = [Tail(folder / f"{kind}.{file}") for file in ("ledger", "calls")]
        self._said: set[tuple[str, str]] = set()

    # --- what they do ---

    def look(self) -> list[Line]:
        """What is new. A process that ended, and was not killed, is an error: there would be nothing to show."""
        new = [line for tail in self._tails for line in tail.new()]
        self.account.add(new)
        self._said |= {(line.what, line.who) for line in new}
        for name, worker in self._living():
            if worker.poll() is not None:
                last = self._log(name).read_text().strip().splitlines()[-1:] or ["it said nothing"]
                raise CronceError(f"{name} ({self._kind}) ended by itself, with {worker.returncode}: {last[0]}")
        return new

    def all_said(self, what: What) -> bool:
        return all((what, name) in self._said for name, _ in self._living())

    def ledger(self) -> list[Line]:
        """The whole ledger, from its beginning."""
        return Tail(self._folder / f"{self._kind}.ledger").new()

    # --- what is done to them ---

    def start(self) -> None:
        for name in NAMES:
            command = [sys.executable, "-m", "cronce.demo.worker", self._kind, name, str(self._folder)]
            with self._log(name).open("w") as log:
                self._workers[name] = subprocess.Popen(  # noqa: S603  our own interpreter
                    command, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True
                )

    def tell(self, text: str) -> None:
        for _, worker in self._living():
            assert worker.stdin is not None
            with suppress(BrokenPipeError):  # it ended, and the next look says so
                worker.stdin.write(f"{text}\n")
                worker.stdin.flush()

    def kill(self, name: str, slot: str) -> None:
        self._workers[name].kill()
        self._workers[name].wait()
        self.account.killed[name] = slot

    def stop(self, name: str) -> None:
        """Until the kernel says that it is stopped: the signal alone only asks."""
        self._workers[name].send_signal(signal.SIGSTOP)
        os.waitpid(self._workers[name].pid, os.WUNTRACED)

    def go_on(self, name: str) -> None:
        self._workers[name].send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Let them close what they opened."""
        self._hang_up()
        for _, worker in self._living():
            with suppress(subprocess.TimeoutExpired):
                worker.wait(GRACE)

    def clear(self) -> None:
        """Whatever happened, nobody is left: who is stopped cannot refuse this either."""
        for worker in self._workers.values():
            worker.kill()
        self._hang_up()
        for worker in self._workers.values():
            worker.wait()

    def _hang_up(self) -> None:
        for worker in self._workers.values():
            if worker.stdin is not None:
                worker.stdin.close()

    def _living(self) -> list[tuple[str, subprocess.Popen[str]]]:
        return [(name, worker) for name, worker in self._workers.items() if name not in self.account.killed]

    def _log(self, name: str) -> Path:
        return self._folder / f"{self._kind}.{name}.log"
