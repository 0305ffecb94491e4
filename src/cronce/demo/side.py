"""One side of the demo: three processes, with the guard or without it, and what they wrote so far."""

from pathlib import Path
from typing import Final

from cronce.demo.picture import DemoAccount
from cronce.demo.worker import Kind
from cronce.testing.child_processes import ChildProcesses
from cronce.testing.ledger_file import LedgerLine, LedgerTail, What

PROCESS_NAMES: Final = ("web-1", "web-2", "web-3")
DEMO_GRACE: Final = 10.0
"""Seconds that a process has to close what it opened, when all is over."""


class DemoSide:
    def __init__(self, kind: Kind, folder: Path) -> None:
        self.account = DemoAccount()
        self._kind, self._folder = kind, folder
        self._crew = ChildProcesses("cronce.demo.worker", lambda name: folder / f"{kind}.{name}.log")
        self._tails = [LedgerTail(folder / f"{kind}.{file}") for file in ("ledger", "calls")]
        self._said: set[tuple[str, str]] = set()

    # --- what they do ---

    def look(self) -> list[LedgerLine]:
        """What is new."""
        new = [line for tail in self._tails for line in tail.new()]
        self.account.add(new)
        self._said |= {(line.what, line.who) for line in new}
        self._crew.check()
        return new

    def all_said(self, what: What) -> bool:
        return all((what, name) in self._said for name in self._crew.names)

    def ledger(self) -> list[LedgerLine]:
        """The whole ledger, from its beginning."""
        return LedgerTail(self._folder / f"{self._kind}.ledger").new()

    # --- what is done to them ---

    def start(self) -> None:
        for name in PROCESS_NAMES:
            self._crew.start(name, self._kind, name, str(self._folder))

    def tell(self, text: str) -> None:
        for name in self._crew.names:
            self._crew.tell(name, text)

    def kill(self, name: str, slot: str) -> None:
        self._crew.kill(name)
        self.account.killed[name] = slot

    def stop(self, name: str) -> None:
        self._crew.stop(name)

    def go_on(self, name: str) -> None:
        self._crew.go_on(name)

    def end(self) -> None:
        self._crew.end(DEMO_GRACE)

    def clear(self) -> None:
        self._crew.clear()
