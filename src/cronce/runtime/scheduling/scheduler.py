"""A scheduler: the engine on its thread, the pool, the listener for news, and how a process starts and ends with them.

*The end.* A scheduler that is to stop claims no more and lets its runs end. All of it fits in the grace, so that a
supervisor that kills after a grace of the same length (Kubernetes, systemd, Docker) has nothing left to kill. The last
part of the grace is for job functions that were asked to stop, and for reporting their ends to the store. A run that
cannot be stopped is named and left behind: its effects are refused, and its slot and its turn stay taken until it, or
the process, has ended.
"""

import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Final, Literal

from cronce.clock import SystemClock
from cronce.errors import CronceError, StoreError
from cronce.model import Boot, Traits
from cronce.runtime.attempt import Attempt
from cronce.runtime.keeper import Keeper, LeaseEnd
from cronce.runtime.log import LOGGER
from cronce.runtime.scheduling.engine import Engine, uncollected
from cronce.runtime.scheduling.exchange import Refused, ignore_refusal
from cronce.runtime.scheduling.pool import WorkerPool
from cronce.runtime.scheduling.running import Carry
from cronce.runtime.scheduling.settings import SchedulerSettings
from cronce.stores.base import Listener, listen
from cronce.value import NamedTuple

AWAKE: Final = 1.0
"""Seconds that the main thread sleeps at most: a signal that the kernel gave to another thread does not wake it, and
Python runs handlers nowhere else."""

LEAVING: Final = 3.0
LEAVE_RETRY: Final = 0.2
"""For how many seconds an ending process tries to report that, and how long it waits between two tries."""

STOP_SECONDS: Final = 5.0
"""Seconds, at the end of the grace, that job functions have to end once they were asked to stop."""

MIN_GRACE: Final = 1.0
"""Seconds that they have even if the grace is shorter. A store that does not answer is waited for that long, too."""

SAME: Final = 0.1
"""Seconds within which the same signal twice is one: `timeout` sends it to a process, and then to the group."""

UNCOLLECTED: Final = 0.5
"""Seconds of a burst for which no garbage is collected."""

SAYING: Final = 0.3
"""Seconds before the end at which a command that does not exit is killed, so that its end can still be recorded."""

Order = Literal["drain", "stop now", "gone"]
"""Orders to a scheduler in the foreground: two that it must follow, and the notice that it is gone."""


Gone = Callable[["Scheduler"], None]


class SchedulerHealth(NamedTuple):
    """How a scheduler is."""

    ticked: Boot
    """When it last came round."""
    answered: Boot
    """When the store last answered this process."""
    joined: bool
    """It is registered, with its jobs."""
    claims: bool
    no_worker: bool = False
    """Each of its workers is taken by a run that was asked to stop, and still runs."""
    doubts: bool = False
    """It does not believe the store's clock."""


class Scheduler:
    """Runs in the background until it is stopped. `with` stops it at the end."""

    def __init__(
        self,
        keeper: Keeper,
        carry: Carry,
        settings: SchedulerSettings,
        *,
        grace: float,
        ended: Gone = lambda _scheduler: None,
        refused: Refused = ignore_refusal,
    ) -> None:
        self._keeper, self._grace, self._when_gone = keeper, grace, [ended]
        self._turn = threading.Condition()
        self._awake = self._stepping = False
        self._stopping = self._hurried = False
        self._ending = threading.Lock()
        self._ready = threading.Event()
        self._gone = threading.Event()
        self.recorded = True
        """Once it is stopped: whether all that still ran then is on record."""
        self._ticked = keeper.node.clock.boot()
        self._pool = WorkerPool(keeper.node, self._done)
        self.engine = Engine(keeper, carry, settings, self.submit, refused=refused)
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="cronce-scheduler", daemon=True)
        self._listener: Listener | None = None
        self._listening = threading.Thread(target=self._listen, name="cronce-listener", daemon=True)

    # --- for the owner of the scheduler ---

    @property
    def holder(self) -> str:
        return self._keeper.node.holder

    @property
    def traits(self) -> Traits:
        return self._keeper.node.store.traits

    @property
    def vitals(self) -> SchedulerHealth:
        engine = self.engine
        doubts = self._keeper.node.ledger.know.doubt is not None
        return SchedulerHealth(
            self._ticked, self._keeper.outage.heard, engine.joined, engine.claims, engine.no_worker, doubts
        )

    @property
    def idle(self) -> bool:
        """Nothing runs here or is about to, and all ends are recorded."""
        return not self._stepping and self.engine.idle

    def start(self) -> "Scheduler":
        self._keeper.lingers = True
        self._thread.start()
        self._listening.start()
        return self

    def wait_ready(self, seconds: float | None = None) -> bool:
        """Wait until it is registered, and would fire; False if that takes too long."""
        return self._ready.wait(seconds)

    def drain(self) -> None:
        """Claim no more; current runs go on."""
        self.engine.leaving = True
        self.engine.beat_soon()
        self._wake()

    def stop(self, grace: float | None = None) -> bool:
        """Claim no more, let runs end within so many seconds, and stop those that do not. Returns whether all ends are
        on record. A job function cannot wait for its own end: for it, the stop happens later, and the result is not
        known yet."""
        if os.getpid() != self._process:  # a forked child has a copy, and no scheduler
            return self.recorded
        if self._pool.is_here or threading.current_thread() is self._thread:
            threading.Thread(target=self._stop, args=[grace], name="cronce-stop", daemon=True).start()
            return False
        self._stop(grace)
        return self.recorded

    def _stop(self, grace: float | None) -> None:
        """Whatever fails on the way, the scheduler ends, and reports that it is gone."""
        with self._ending:
            if self._gone.is_set():
                return
            grace = self._grace if grace is None else grace
            self._keeper.close_by = self._keeper.node.clock.boot() + max(grace, MIN_GRACE)
            parts: list[Callable[[], object]] = [partial(self._wind_down, grace), self._halt, self._hang_up]
            for part in parts + [partial(tell, self) for tell in self._when_gone]:
                try:
                    part()
                except Exception:
                    LOGGER.exception("the scheduler hit an unexpected error while stopping, and goes on")
                    self.recorded = False

    def _wind_down(self, grace: float) -> None:
        last = min(STOP_SECONDS, max(grace / 5, MIN_GRACE))
        given_up = self.engine.endings.given_up
        self.drain()
        if not self._await_idle(max(grace - last, 0.0), patient=True):
            self._await_idle(last)
        self.recorded = self.idle and self.engine.endings.given_up == given_up
        self._report_left()

    def _halt(self) -> None:
        self._stopping = True
        self._wake()
        self._thread.join(self._left)
        self.engine.endings.hand_over()
        self._pool.close()

    def _hang_up(self) -> None:
        self._gone.set()
        if self._listener is not None:
            self._listener.wake()
        self._listening.join(self._left)

    @property
    def _left(self) -> float:
        """Seconds for which a thread that hangs in a call to the store is waited for."""
        return max(min(MIN_GRACE, self._keeper.close_by - self._keeper.node.clock.boot()), SAME)

    def when_gone(self, tell: Gone) -> None:
        """Called once it is stopped, by whomever."""
        with self._ending:
            self._when_gone.append(tell)
            if self._gone.is_set():
                tell(self)

    def __enter__(self) -> "Scheduler":
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def hurry(self) -> None:
        """There is no more grace for what runs."""
        self._hurried = True
        self._wake()

    def _await_idle(self, seconds: float, *, patient: bool = False) -> bool:
        """Wait until nothing runs and all ends are recorded; without patience, stop the job functions. Repeatedly: a
        run that was granted a moment ago may have been asked to stop too early."""
        clock = self._keeper.node.clock
        until = clock.boot() + seconds
        while not self.idle and (left := until - clock.boot()) > 0 and not (patient and self._hurried):
            if not patient:
                self._stop_bodies(max(left - SAYING, 0.0))
                if left < min(MIN_GRACE, seconds / 2) and self._is_silent and not self.engine.running:
                    break  # unrecorded ends are in the journal; closing the connection takes the rest
            with self._turn:
                if not self.idle:
                    self._turn.wait(min(left, 0.1))
        return self.idle

    @property
    def _is_silent(self) -> bool:
        """Whether the store does not answer, or has not for a while."""
        return self._keeper.outage.lasts or self._keeper.node.clock.boot() - self._ticked > MIN_GRACE

    def _stop_bodies(self, grace: float) -> None:
        """Another process makes the next attempt, if there is one."""
        for attempt in self.engine.running:
            self._keeper.end(attempt.lease, LeaseEnd("drained", "the scheduler was stopped", grace))

    def _report_left(self) -> None:
        for attempt in self.engine.running:
            LOGGER.error(
                "%s is still running and cannot be stopped; its effects are refused, and it keeps its turn until"
                " this process ends. isolate=True runs it in a process that can be killed",
                attempt.lease.name,
            )

    # --- on its threads ---

    def _run(self) -> None:
        """In a burst of claims the garbage collector goes through what is alive now and then, not after each step."""
        clock = self._keeper.node.clock
        while not self._stopping:
            with uncollected:
                again, until = self._come_round(), clock.boot() + UNCOLLECTED
                while self.engine.in_burst and not self._stopping and clock.boot() < until:
                    self._sleep(min(again, until))
                    again = self._come_round()
            self._sleep(again)
        self._leave()

    def _come_round(self) -> Boot:
        """One step; returns when the next is."""
        with self._turn:
            self._awake = False
        self._stepping = True  # before it asks whether it may claim: a thread that forbids claims waits for this
        again = self._stepped()
        self._stepping = False
        self._ticked = self._keeper.node.clock.boot()
        if self.engine.joined:
            self._ready.set()
        with self._turn:
            self._turn.notify_all()
        return again

    def _sleep(self, until: Boot) -> None:
        """Unless it was woken since the step began."""
        with self._turn:
            if not self._awake and not self._stopping:
                self._turn.wait(max(until - self._keeper.node.clock.boot(), 0.0))

    def _leave(self) -> None:
        """Retried if it fails: a broken connection is noticed only when it is used. As long as this process counts as
        alive, so does its version of the jobs, and other versions must not fire."""
        clock = self._keeper.node.clock
        until = clock.boot() + LEAVING
        while clock.boot() < until:
            with suppress(StoreError):
                self.engine.leave()
                return
            self._gone.wait(LEAVE_RETRY)

    def _stepped(self) -> float:
        try:
            return self.engine.step()
        except BaseException:  # without this thread nothing runs any more in a process that looks alive
            LOGGER.exception("the scheduler hit an unexpected error, and goes on")
            return self._keeper.node.clock.boot() + 1.0

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """A slot that is granted too late never starts, and lapses."""
        if not self._stopping:
            self._pool.submit(attempts)
            return
        for attempt in attempts:
            attempt.let_go()

    def _done(self, attempt: Attempt) -> None:
        self.engine.endings.add(attempt)
        if self._stopping and not self._thread.is_alive():
            self.engine.endings.hand_over()
        if not self.engine.lacks_workers:
            self._wake()

    def _wake(self) -> None:
        """If it is to wake already, what there is to do is seen by the step that comes."""
        if self._awake:
            return
        with self._turn:
            self._awake = True
            self._turn.notify_all()

    def _listen(self) -> None:
        """Only for speed: the engine looks in any case."""
        while not self._gone.is_set():
            try:
                self._listen_once()
            except CronceError:
                self._gone.wait(1.0)

    def _listen_once(self) -> None:
        listener = self._listener = listen(self._keeper.node.store)
        if listener is None:
            self._gone.wait()
            return
        try:
            self._note_listening(notified=True)  # what was news before it listened, it has not heard
            while not self._gone.is_set():
                if listener.wait(1.0):
                    self._note_listening(notified=True)
        finally:
            self._note_listening(notified=False)
            listener.close()

    def _note_listening(self, *, notified: bool) -> None:
        self.engine.is_notified = notified
        self.engine.look_soon()
        self._wake()


class Signals:
    """How often a process received a signal to end."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._times, self._last = 0, (0, -inf)

    def another(self, number: int) -> int:
        """One has come; how many there were."""
        last, at = self._last
        now = self._clock.boot()
        if number != last or now - at > SAME:
            self._times, self._last = self._times + 1, (number, now)
        return self._times


class Orders:
    """Orders to a scheduler in the foreground. Of the signals TERM and INT the first drains, the second stops now.

    It is a SimpleQueue: a handler may put into it even where it interrupts the very thread that reads from it.
    """

    def __init__(self) -> None:
        self._heard: SimpleQueue[Order] = SimpleQueue()
        self._given: set[Order] = set()
        self._signals = Signals()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Orders":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._came)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def give(self, order: Order) -> None:
        """Each counts once. From any thread."""
        if order not in self._given:
            self._given.add(order)
            self._heard.put(order)

    def next(self) -> Order:
        while True:
            with suppress(Empty):
                return self._heard.get(timeout=AWAKE)

    def _came(self, number: int, _frame: FrameType | None) -> None:
        self.give("drain" if self._signals.another(number) == 1 else "stop now")


def see_through(scheduler: Scheduler, orders: Orders) -> bool:
    """Do as ordered until the scheduler is gone, by whomever it was stopped; whether all that ran is on record."""
    scheduler.when_gone(lambda _scheduler: orders.give("gone"))
    while (order := orders.next()) != "gone":
        LOGGER.info(
            "takes no new work; a second signal stops the jobs that run"
            if order == "drain"
            else ("stops the jobs that run")
        )
        if order == "stop now":
            scheduler.hurry()
        threading.Thread(target=scheduler.stop, name="cronce-stop", daemon=True).start()
    return scheduler.recorded
