"""Standing by: a guard that was refused a slot takes it over if the process that runs it dies, without another call.

While such a run goes on, its cell is claimed again from time to time: shortly before its lease would be over, and then
often until it is closed, renewed or ours. What is granted runs in a thread of its own, which the interpreter waits for
at its end; a coroutine runs on the event loop that the guard was called on.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from cronce.clock import Clock
from cronce.errors import StoreError
from cronce.model import Boot, Instant
from cronce.protocol.commands import Busy, Early, Held, Paused, Queued, Superseded, Unsure
from cronce.protocol.lease import hearing
from cronce.protocol.terms import Terms
from cronce.runtime.call import Call
from cronce.runtime.client import PROBE_AHEAD
from cronce.runtime.keeper import Look, RepeatingThread
from cronce.runtime.ledger import Expired, Grant, Wanted
from cronce.runtime.log import LOGGER
from cronce.runtime.node import Node
from cronce.runtime.process_notes import leave_clock, recall_clock
from cronce.runtime.steps import Steps, take, take_async

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

MAX_STANDBY_RUNS: Final = 1000
"""How many runs a process waits for on standby."""

CLAIM_EVERY_NEAR_END: Final = 0.7
CLAIM_EVERY_AFTER_END: Final = 0.3
"""Seconds between two claims while a lease nears its end, and after that."""

ASKED_AGAIN: Final = 1.0
"""Seconds for which a refused call may be repeated: the repeat then takes over, and its caller has the result."""

PAUSED_RETRY: Final = 10.0
"""Seconds between two claims of a slot whose job is paused, or fired by another version."""


class WaitingCall:
    """A refused call."""

    def __init__(self, call: Call, terms: Terms, boot: Boot, loop: "AbstractEventLoop | None") -> None:
        self.call, self.terms, self.loop = call, terms, loop
        self.at = boot

    def put_off(self, until: Instant | None, boot: Boot) -> None:
        """Until shortly before the lease is over; then claim often."""
        left = ((until - self.call.node.ledger.know.now()) if until else timedelta(0)).total_seconds()
        early = left - (hearing(self.terms.lease) + PROBE_AHEAD).total_seconds()
        near = min(left + 0.01, CLAIM_EVERY_NEAR_END) if left > 0 else CLAIM_EVERY_AFTER_END
        self.at = boot + max(early, near)


class Standby:
    """One for each process. For any number of threads."""

    def __init__(self, clock: Clock, beat: Callable[[str, Look, Clock], RepeatingThread] = RepeatingThread) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._waiting: dict[str, WaitingCall] = {}
        self._recalled = False
        self._beat = beat("cronce-standby", self.look, clock)

    def add(self, call: Call, terms: Terms, held: Held) -> None:
        """Another runs the slot of this call."""
        waiting = WaitingCall(call, terms, self._clock.boot(), _loop() if call.is_async else None)
        waiting.put_off(held.until, self._clock.boot())
        waiting.at = max(waiting.at, self._clock.boot() + ASKED_AGAIN)
        with self._lock:
            if len(self._waiting) < MAX_STANDBY_RUNS:
                self._waiting[call.slot.cell] = waiting
        self._beat.wake(waiting.at)

    def drop(self, cell: str) -> None:
        """It is called again: that call takes it over, if anybody here does."""
        with self._lock:
            self._waiting.pop(cell, None)

    def close(self) -> None:
        """Drop all calls that wait."""
        with self._lock:
            self._waiting.clear()
        self._beat.wake()

    def look(self) -> Boot | None:
        """Claim what it is time for; when is the next?"""
        boot = self._clock.boot()
        with self._lock:
            due = [waiting for waiting in self._waiting.values() if waiting.at <= boot]
        for waiting in due:
            try:
                goes_on = self._claim(waiting)
            except StoreError:
                goes_on = True
                waiting.at = self._clock.boot() + CLAIM_EVERY_NEAR_END
            if not goes_on:
                with self._lock:
                    if self._waiting.get(waiting.call.slot.cell) is waiting:
                        del self._waiting[waiting.call.slot.cell]
        with self._lock:
            return min((waiting.at for waiting in self._waiting.values()), default=None)

    def _claim(self, waiting: WaitingCall) -> bool:
        """Whether to go on waiting."""
        node = waiting.call.node
        if not self._recalled:
            node.do(recall_clock(node.ledger))
            node.do(leave_clock(node.ledger))
            self._recalled = True
        (answer,) = node.do(node.ledger.claim([Wanted(waiting.call.slot, waiting.terms, known=True)]))
        match answer:
            case Grant():
                _run(waiting, answer)
                return False
            case Held(_, until):
                waiting.put_off(until, self._clock.boot())
            case Busy() | Early() | Queued() | Unsure() | Expired():
                waiting.at = self._clock.boot() + CLAIM_EVERY_NEAR_END
            case Paused() | Superseded():
                waiting.at = self._clock.boot() + PAUSED_RETRY
            case _:
                return False
        return True


def _loop() -> "AbstractEventLoop":
    import asyncio  # noqa: PLC0415  45 ms, and a caller on an event loop has imported it

    return asyncio.get_running_loop()


def _run(waiting: WaitingCall, grant: Grant) -> None:
    call, loop = waiting.call, waiting.loop
    steps = call.run_older(grant)
    if loop is not None:
        with suppress(RuntimeError):  # it is closed: each call may have had its own
            loop.call_soon_threadsafe(_run_async, steps, call.node)
            return
    try:
        threading.Thread(target=_run_here, args=(steps, call), name="cronce-takeover").start()
    except RuntimeError:  # this process ends
        with suppress(StoreError):
            call.node.do(call.node.ledger.release([grant]))


def _run_here(steps: Steps[None], call: Call) -> None:
    """It has no caller, so an end that could not be recorded is logged."""
    try:
        if call.is_async:
            import asyncio  # noqa: PLC0415

            asyncio.run(take_async(steps, call.node))
        else:
            take(steps, call.node)
    except StoreError as error:
        LOGGER.error("%s", error)


_TASKS_UNDER_WAY: Final[set[Any]] = set()
"""Those that are under way: an event loop holds on to none."""


def _run_async(steps: Steps[None], node: Node) -> None:
    import asyncio  # noqa: PLC0415

    task = asyncio.ensure_future(take_async(steps, node))
    _TASKS_UNDER_WAY.add(task)
    task.add_done_callback(_TASKS_UNDER_WAY.discard)
