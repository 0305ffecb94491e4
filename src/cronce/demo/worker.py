"""One process of the demo: a trigger like crond, with the guard or without it.

    python -m cronce.demo.worker guarded web-2 FOLDER

It calls the job at each second of the plan, by its own clock, and rather late than never, as crond does after a
hiccup. So each call says which second it means, and however slow the machine is, no slot is forgotten.

The plan comes on standard input (`DemoOrders`). Its end is the end: when the stage is gone, so is this process.
"""

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Final, Literal

from cronce import Cronce, LeaseLost, Run, Skipped
from cronce.clock import SystemClock
from cronce.errors import StoreUnavailable
from cronce.model import Instant, Slot, spell, unspell
from cronce.stores import url_of
from cronce.testing.ledger_file import NO_VALUE, LedgerFile, LedgerLine, What
from cronce.value import NamedTuple

Kind = Literal["guarded", "unguarded"]
Call = Callable[[Instant], What | None]
"""Call the job for a second: why it did not run through here, or None if it did."""

DEMO_JOB: Final = "report"
DEMO_LEASE: Final = timedelta(seconds=2)
WORK: Final = 0.3
"""Seconds that the body takes."""


class DemoPlan(NamedTuple):
    """The seconds to call at, and those of them in whose middle something happens: there the body waits for a word, so
    that whatever it is surely hits it."""

    slots: tuple[Instant, ...]
    held: tuple[Instant, ...]

    def written(self) -> str:
        return json.dumps([[spell(at) for at in row] for row in self])


def read_plan(text: str) -> DemoPlan:
    return DemoPlan(*(tuple(map(unspell, row)) for row in json.loads(text)))


class DemoOrders:
    """What the stage says: first the plan, then which of the held slots may go on."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self.over = threading.Event()
        self.plan = read_plan(next(self._lines, "[[], []]"))
        self._words = {Slot(DEMO_JOB, at).key: threading.Event() for at in self.plan.held}
        self._ear = threading.Thread(target=self._listen, daemon=True)
        self._ear.start()

    def _listen(self) -> None:
        for line in self._lines:
            self._words[line.strip()].set()
        self.over.set()

    def wait(self, slot: str) -> None:
        """Until a held slot may go on; in short naps, since a body can be stopped only between them."""
        while slot in self._words and not self._words[slot].wait(0.05) and not self.over.is_set():
            pass

    def close(self) -> None:
        self._ear.join()


class DemoWorker:
    def __init__(self, kind: Kind, name: str, folder: Path) -> None:
        self._kind, self._name = kind, name
        self._clock = SystemClock()
        self._ledger = LedgerFile(folder / f"{kind}.ledger")
        self._calls = LedgerFile(folder / f"{kind}.calls")
        self._call = self._guarded(url_of(folder / "cronce.db")) if kind == "guarded" else self._plain

    def work(self, told: Iterable[str]) -> None:
        self._calls.write(LedgerLine("ready", self._name))
        self._cues = cues = DemoOrders(told)
        for at in cues.plan.slots:
            if self._over_by(at):
                break
            if answer := self._fire(at):
                self._calls.write(LedgerLine(answer, self._name, Slot(DEMO_JOB, at).key))
        self._calls.write(LedgerLine("through", self._name))
        self._linger(cues.plan.slots[-1:])
        cues.close()

    def _linger(self, last: Iterable[Instant]) -> None:
        """A call of the job also looks after older slots, so the last slots are taken over, too."""
        while not self._cues.over.wait(0.25):
            for at in last if self._kind == "guarded" else ():
                self._fire(at)

    def _over_by(self, at: Instant) -> bool:
        """Wait until then; whether the demo ended before."""
        while (left := (at - self._clock.wall()).total_seconds()) > 0:
            if self._cues.over.wait(left):
                return True
        return self._cues.over.is_set()

    def _fire(self, at: Instant) -> What | None:
        while not self._cues.over.is_set():
            try:
                return self._call(at)
            except StoreUnavailable:  # then nothing was run, or it is not on record: the next call finds out
                self._cues.over.wait(0.1)
        return None

    # --- the job ---

    def _guarded(self, url: str) -> Call:
        cron = Cronce(url)

        @cron.job(every="1s", name=DEMO_JOB, on_lost="rerun", overlap="allow", missed="all", lease=DEMO_LEASE)
        def report(run: Run) -> None:
            self._body(run.key, str(run.fence), run.attempt, run.check)

        def call(at: Instant) -> What | None:
            try:
                return "refused" if isinstance(report.at(at)(), Skipped) else None
            except LeaseLost:
                return "stopped"

        return call

    def _plain(self, at: Instant) -> None:
        self._body(Slot(DEMO_JOB, at).key, NO_VALUE, 1, lambda: None)

    def _body(self, slot: str, fence: str, attempt: int, check: Callable[[], None]) -> None:
        """What must happen once. `check` raises when the run is no longer ours."""
        self._write("start", slot, fence, attempt)
        self._cues.wait(slot)
        self._cues.over.wait(WORK)
        check()
        self._write("done", slot, fence, attempt)

    def _write(self, what: What, slot: str, fence: str, attempt: int) -> None:
        wall = self._clock.wall().isoformat(timespec="milliseconds")
        self._ledger.write(LedgerLine(what, self._name, slot, fence, attempt, wall))


def main(kind: Kind, name: str, folder: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal; the stage ends us
    DemoWorker(kind, name, Path(folder)).work(sys.stdin)


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
