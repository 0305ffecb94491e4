"""Your jobs on a clock that a test turns by hand: `advance("1d")` runs what would have run in a day, at once.

The scheduler is the real one, on a store in memory; only the clock, and the threads, are not. So what a test sees is
what happens: slots, retries and their backoff, overlap, what is missed while the app is down, clock changes and all.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cronce.errors import BadInput
from cronce.model import Instant, Slot, job_cell, slot_of_cell
from cronce.protocol.record import Job, Record, decode, decode_job
from cronce.runtime.app import Cronce
from cronce.runtime.attempt import Attempt
from cronce.runtime.keeper import Keeper, RepeatingThread
from cronce.runtime.log import log
from cronce.runtime.node import Node
from cronce.runtime.scheduling.engine import Engine
from cronce.runtime.scheduling.settings import SchedulerIntervals, SchedulerSettings, check_settings
from cronce.runtime.steps import take, take_async
from cronce.schedule import parse_duration, parse_instant
from cronce.stores.base import Scan
from cronce.stores.memory import MemoryStore
from cronce.value import NamedTuple

MOST_STEPS: Final = 1_000_000
"""Steps of one `advance`: a job of every second for a week has fewer."""

QUIET_INTERVALS: Final = SchedulerIntervals(look=timedelta(hours=1), beat=timedelta(hours=1))
"""No process acts unseen while a test holds the clock, so none needs to look."""


class ManualClock:
    """A clock that moves only when it is set. In whole microseconds, so that an instant is met exactly."""

    def __init__(self, start: Instant) -> None:
        self._start, self._us = start, 0

    def boot(self) -> float:
        return self._us / 1e6

    def wall(self) -> datetime:
        return self._start + timedelta(microseconds=self._us)

    def synchronised(self) -> bool:
        return True

    def turn_to(self, boot: float) -> None:
        """Always a little on, however floats round."""
        self._us = max(self._us + 1, round(boot * 1e6))


class Ran(NamedTuple):
    """A body that ran: for which slot, when, in which process, and what came of it."""

    job: str
    slot: Slot
    at: Instant
    process: int
    result: Any
    error: BaseException | None

    @property
    def ok(self) -> bool:
        return self.error is None


class _IdleThread(RepeatingThread):
    """No time passes while a body runs, so no lease need be renewed."""

    def wake(self, by: float = 0.0) -> None:
        pass


class _Process:
    """One of the processes: its engine, whose bodies run at once, in this thread."""

    def __init__(self, manual: "Manual", number: int, post: SchedulerSettings) -> None:
        node = Node(manual.store, manual.clock, lambda: manual.store, log, f"test:{number}:0")
        self._manual, self._number, self.keeper = manual, number, Keeper(node, _IdleThread)
        self.engine = Engine(self.keeper, manual.cron._carry((), self.keeper), post, self.submit, QUIET_INTERVALS)

    def submit(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            self._take(attempt)
            self._manual.note(attempt, self._number)
            self.engine.endings.add(attempt)

    def _take(self, attempt: Attempt) -> None:
        if not attempt.is_async:
            return take(attempt.steps(), self.keeper.node)
        import asyncio  # noqa: PLC0415

        return asyncio.run(take_async(attempt.steps(), self.keeper.node))


class Manual:
    """An app, started in so many processes, on a clock that stands still until `advance`."""

    def __init__(self, cron: Cronce, start: Instant, processes: int, post: SchedulerSettings) -> None:
        self.cron, self.clock = cron, ManualClock(start)
        self.store = MemoryStore(self.clock.wall)
        self.ran: list[Ran] = []
        """Every body that ran since the beginning."""
        self._post = post
        self._heard = 0
        self._processes = [_Process(self, number, post) for number in range(1, processes + 1)]

    @property
    def now(self) -> datetime:
        return self.clock.wall()

    def advance(self, span: timedelta | str) -> list[Ran]:
        """Let so much time pass; what ran meanwhile, in the order of time."""
        before, target = len(self.ran), self.clock.boot() + parse_duration(span).total_seconds()
        for _ in range(MOST_STEPS):
            upcoming = self._step()
            if upcoming > target:
                break
            self.clock.turn_to(upcoming)
        else:
            raise BadInput(f"{span} is too long to advance: more than {MOST_STEPS:,} events happen; take smaller steps")
        if target > self.clock.boot():
            self.clock.turn_to(target)
        return self.ran[before:]

    def skip(self, span: timedelta | str) -> None:
        """Let so much time pass while no process of the app runs, then start them again."""
        self.clock.turn_to(self.clock.boot() + parse_duration(span).total_seconds())
        self._processes = [_Process(self, number, self._post) for number in range(1, len(self._processes) + 1)]
        self._step()

    def records(self) -> dict[str, Record]:
        """Every slot that is on record, by its key: also those that were skipped."""
        cells = self.store.scan(Scan("run/", limit=1_000_000)).cells
        return {slot_of_cell(cell.key).key: decode(cell.value, cell.key) for cell in cells}

    def job(self, name: str) -> Job:
        """What is on record of a job as a whole: whether it is paused, and which slots were passed over, and why."""
        (cell,) = self.store.load([job_cell(name)]).cells
        if not cell.version:
            raise BadInput(f"no job is called {name!r:.60}")
        return decode_job(cell.value, cell.key)

    def note(self, attempt: Attempt, process: int) -> None:
        slot, end = attempt.run.slot, attempt.end
        self.ran.append(Ran(slot.job, slot, self.now, process, end.result, end.error))

    def _step(self) -> float:
        """Everything that is to be done now; when is the next?"""
        while True:
            if self.store.news != self._heard:
                self._heard = self.store.news
                for process in self._processes:
                    process.engine.look_soon()
            upcoming = min(process.engine.step() for process in self._processes)
            if upcoming > self.clock.boot() and self.store.news == self._heard:
                return upcoming


@contextmanager
def manual(
    cron: Cronce, start: datetime | str = datetime(2026, 1, 1, tzinfo=UTC), *, processes: int = 1, workers: int = 10
) -> Iterator[Manual]:
    """The jobs of `cron` on a store in memory, and on a clock that begins at `start`. Within the block, calls of its
    guards and locks use that store and that clock, too."""
    if processes < 1:
        raise BadInput(f"processes must be 1 or more, not {processes}")
    time = Manual(cron, parse_instant(start), processes, check_settings("both", workers, {}))
    with cron._standing_in(time.store, time.clock, time._processes[0].keeper):
        time._step()
        yield time
