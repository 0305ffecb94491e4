"""One process of a torture: a trigger like crond that calls guarded jobs by its own, wrong, clock.

    python -m cronce.torture.worker

What to do comes on standard input, so that no password is in the list of processes: an order, then when to begin.
The end of the input is the end. It expects to be killed and stopped at any moment; started again under the same name it
goes on with the slot after the last that it had an answer for.

It calls each slot once, as cron would, without naming it: which slot is meant the guard finds out. A call that got no
answer is made again, by name, until the guard answers, so that after an outage nothing is missed.
"""

import json
import logging
import math
import os
import random
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cronce import Cronce, LeaseLost, Run, Skipped
from cronce.clock import SystemClock
from cronce.errors import BadInput, StoreUnavailable, StoreUnusable
from cronce.events import Event
from cronce.events import What as Happened
from cronce.model import Instant, Slot, slot_of_cell, unspell
from cronce.policy import Missed, OnLost, Overlap
from cronce.runtime.guard import Guard
from cronce.schedule import Schedule, parse_schedule
from cronce.testing.child_processes import REFUSED_EXIT
from cronce.testing.ledger_file import NO_VALUE, LedgerFile, LedgerLine, LedgerTail, What
from cronce.value import NamedTuple

SLOT_EVERY: Final = timedelta(seconds=1)
CALL_RETRY: Final = 0.1
"""Seconds until a call is made again that got no answer."""

LINGER: Final = 0.4
"""Seconds between two looks at what is still open, when all slots were called."""

BODY_STEP: Final = 0.08
SHORT_BODY: Final = (0.05, 0.7)
"""Seconds that a body takes."""

LONG_BODY_LEASES: Final = (1.2, 1.6)
"""Leases that a long one takes: it has to be renewed, and if that fails it must stop in time."""

LONG_ONES: Final = 0.12
"""How many bodies are long."""

EVER: Final = timedelta(days=36_500)

BUG_EXIT: Final = 70
"""Exit code of a process that met something it was not written for."""


class TortureTask(NamedTuple):
    """A job that is tortured."""

    job: str
    on_lost: OnLost
    overlap: Overlap
    lease: float
    missed: Missed = "all"
    turns: int = 1
    own: str = ""
    """What its user calls it; empty: it is one of ours, which is due every second."""
    schedule: dict[str, str] | None = None
    """The user's, as `parse_schedule` takes it."""
    slots: tuple[str, ...] = ()
    """The user's slots that are called, one a second."""

    @property
    def title(self) -> str:
        return self.own or self.on_lost

    @property
    def exclusive(self) -> bool:
        return self.overlap != "allow" and self.turns == 1

    def instants(self, seconds: Sequence[Instant]) -> Sequence[Instant]:
        """The slots that are called in these seconds."""
        return [unspell(slot) for slot in self.slots] if self.own else seconds


class WorkerOrder(NamedTuple):
    """What a process is told."""

    name: str
    url: str
    folder: str
    tasks: tuple[TortureTask, ...]
    slots: int
    skew: float
    """Seconds that its clock is wrong by."""
    seed: int
    slow: float = 1.0
    """How many times as long its bodies take."""
    workers: int = 0
    """How many of them a scheduler runs at once."""
    label: str = ""
    version: int = 0
    app: str = ""
    """Where the user's functions are, if they shall really run."""

    def written(self) -> str:
        return json.dumps(self)


def read_order(text: str) -> WorkerOrder:
    order = WorkerOrder(*json.loads(text))
    return order._replace(tasks=tuple(TortureTask(*task[:-1], slots=tuple(task[-1])) for task in order.tasks))


def functions_of(order: WorkerOrder) -> dict[str, Callable[[Run], object]]:
    """The user's own, by the names of their tasks; none unless they shall really run."""
    if not order.app:
        return {}
    from cronce.runtime.app_loading import load  # noqa: PLC0415
    from cronce.torture.own_jobs import function_of  # noqa: PLC0415  it is built on this module

    cron = load(order.app)
    return {task.job: function_of(cron, task.own).run for task in order.tasks}


class SkewedClock:
    """This machine's clocks, with a time of day that is wrong."""

    def __init__(self, skew: float) -> None:
        self._clock, self._skew = SystemClock(), timedelta(seconds=skew)

    def boot(self) -> float:
        return self._clock.boot()

    def wall(self) -> datetime:
        return self._clock.wall() + self._skew

    def synchronised(self) -> bool:
        return self._clock.synchronised()


class EndAnswers(logging.Handler):
    """Hears from cronce's log how the ends of runs were answered."""

    def __init__(self, heard: Callable[[Event], None]) -> None:
        super().__init__()
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        if isinstance(event, Event):
            self._heard(event)


class TortureWorker:
    def __init__(self, order: WorkerOrder) -> None:
        self.order = order
        self.over = threading.Event()
        self.clock = SkewedClock(order.skew)
        self.cron = Cronce(order.url, clock=self.clock)
        self._ledger = LedgerFile(Path(order.folder) / "ledger")
        self._calls = LedgerFile(Path(order.folder) / "calls")
        self._dice = random.Random(order.seed)  # noqa: S311  seeded on purpose
        self.first: Instant | None = None
        self._fences: dict[str, str] = {}
        self._functions = functions_of(order)
        self._answered = {(line.who, line.slot) for line in LedgerTail(Path(order.folder) / "calls").new()}

    def ready(self, told: Iterator[str]) -> None:
        """Say so, and wait for when to begin."""
        logger = logging.getLogger("cronce")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(EndAnswers(self.heard))
        self.say("ready")
        first = next(told, "").strip()
        self.first = unspell(first) if first else None

    def work(self, told: Iterator[str]) -> None:
        self.ready(told)
        for task in self.order.tasks if self.first else ():
            threading.Thread(target=self._safely, args=(task, self.first)).start()
        for _ in told:
            pass
        self.over.set()

    def _safely(self, task: TortureTask, first: Instant) -> None:
        """What is not foreseen ends the process, loudly: a thread that died in silence would look like a slow one."""
        try:
            self._trigger(task, first)
        except (BadInput, StoreUnusable) as refusal:
            print(refusal, file=sys.stderr, flush=True)
            os._exit(REFUSED_EXIT)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(BUG_EXIT)

    # --- the trigger ---

    def _trigger(self, task: TortureTask, first: Instant) -> None:
        job = self.guarded(task)
        seconds = [first + number * SLOT_EVERY for number in range(self.order.slots)]
        slots = [Slot(task.job, at) for at in task.instants(seconds)]
        begin = self._begin_at(slots)
        for due, slot in zip(seconds[begin:], slots[begin:], strict=False):
            if self._over_by(due):
                return
            self._fire(job, slot)
        self.say("through", task.job)
        while not self.over.wait(
            LINGER
        ):  # a call looks after older slots too: the last find somebody to take them over
            self._fire(job, slots[-1])

    def _begin_at(self, slots: list[Slot]) -> int:
        """After the last slot that this process, in an earlier life, had an answer for."""
        answered = [place for place, slot in enumerate(slots, 1) if (self.order.name, slot.key) in self._answered]
        return max(answered, default=0)

    def _over_by(self, at: Instant) -> bool:
        """Wait until then, by a clock that is wrong; whether all ended before."""
        while (left := (at - self.clock.wall()).total_seconds()) > 0:
            if self.over.wait(left):
                return True
        return self.over.is_set()

    def _fire(self, job: Guard[[], Skipped | None], slot: Slot) -> None:
        on_time = self.clock.wall() < slot.at + SLOT_EVERY / 2  # later, a call without a name would mean a later slot
        call: Callable[[], object] = job if on_time else job.at(slot)
        while not self.over.is_set():
            try:
                answer = call()
            except LeaseLost:
                self.say("stopped", slot.key)
                return
            except StoreUnavailable:  # nothing was run, or it is not on record: the next call finds out
                self.over.wait(CALL_RETRY)
            else:
                self.say("refused" if isinstance(answer, Skipped) else "ran", slot.key)
                return
            call = job.at(slot)

    # --- the job ---

    def guarded(self, task: TortureTask, timeout: timedelta | None = None) -> Guard[[], Skipped | None]:
        """Its schedule ends with the last slot: a process that was paused before a call would else mean a later one."""
        end = self.first and self.first + (self.order.slots - 1) * SLOT_EVERY
        if task.schedule is not None:
            return self._guarded_own(task, parse_schedule(**task.schedule))  # type: ignore[arg-type]
        define = self.cron.job(
            every=SLOT_EVERY, start=self.first, end=end, name=task.job, on_lost=task.on_lost, overlap=task.overlap,
            missed=task.missed, lease=timedelta(seconds=task.lease), timeout=timeout,
        )  # fmt: skip
        return define(self.bodied)

    def _guarded_own(self, task: TortureTask, schedule: Schedule) -> Guard[[], Skipped | None]:
        """The slots are of the past, and none of them is too late."""
        define = self.cron.job(
            schedule, name=task.job, on_lost=task.on_lost, overlap=task.overlap, missed=task.missed,
            lease=timedelta(seconds=task.lease), start_within=EVER, turns=task.turns,
        )  # fmt: skip
        return define(self.bodied)

    def bodied(self, run: Run) -> None:
        try:
            self.body(run)
        except BaseException:
            self.write("stopped", run)
            raise

    def body(self, run: Run) -> None:
        self._fences[run.slot.cell] = str(run.fence)
        self.act("start", run)
        function = self._functions.get(run.slot.job)
        if function is not None:
            function(run)
        for _ in range(self._steps(run.grant.lease)):
            self.over.wait(BODY_STEP)
            self.act("step", run)
        self.act("done", run)

    def _steps(self, lease: timedelta) -> int:
        long = self._dice.random() < LONG_ONES
        seconds = (
            lease.total_seconds() * self._dice.uniform(*LONG_BODY_LEASES) if long else self._dice.uniform(*SHORT_BODY)
        )
        return math.ceil(seconds * self.order.slow / BODY_STEP)

    def act(self, what: What, run: Run) -> None:
        """The clock is read first: what is written then says when acting was allowed, however late it is written."""
        boot = self.clock.boot()
        run.check()
        self.write(what, run, boot)

    # --- what is written ---

    def write(self, what: What, run: Run, boot: float | None = None) -> None:
        when = self.clock.boot() if boot is None else boot
        self._ledger.write(LedgerLine(what, self.order.name, run.key, str(run.fence), run.attempt, f"{when:.6f}"))

    def say(self, what: What, about: str = NO_VALUE) -> None:
        self._calls.write(LedgerLine(what, self.order.name, about, when=f"{self.clock.boot():.6f}"))

    def heard(self, event: Event) -> None:
        """How the end of a run was answered. The fence is the one it ran under, not the one that the store says."""
        fence = self._fences.get(event.key)
        ended = event.what is Happened.CLOSED and event.detail == "succeeded"
        if fence is not None and (ended or event.what is Happened.STALE):
            what: What = "accepted" if ended else "stale"
            when = f"{self.clock.boot():.6f}"
            self._ledger.write(LedgerLine(what, self.order.name, slot_of_cell(event.key).key, fence, when=when))


def main(kind: type[TortureWorker] = TortureWorker) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal; the harness ends us
    told = iter(sys.stdin.readline, "")
    kind(read_order(next(told))).work(told)
    os._exit(0)  # calls that are still in progress are about closed slots


if __name__ == "__main__":
    main()
