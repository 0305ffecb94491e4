"""Locks: mutual exclusion by a lease with no slot, for as long as the block runs and never longer than `at_most`.

Not reentrant: a holder that asks for the same lock again is refused like any other, with its own name as the holder.
A block that goes on after its lock ended is stopped as a job's body is (`interrupt`), and leaving it is an error.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol

from cronce.errors import BadInput, BadPolicy, CronceError, LeaseLost, LockHeld, StoreUnavailable
from cronce.model import Fence, Instant, check_name, lock_cell
from cronce.protocol.commands import Early, Held
from cronce.protocol.lease import LOCK_LEASE
from cronce.runtime.declare import SHORTEST_LEASE, Duration
from cronce.runtime.interrupt import Interrupt, TaskGate, ThreadGate, here
from cronce.runtime.keeper import Keeper, Lease, Ownership
from cronce.runtime.ledger import Grant
from cronce.runtime.node import Node
from cronce.runtime.steps import Steps, StoreStep, WaitStep, take, take_async
from cronce.schedule import parse_duration
from cronce.value import NamedTuple

LOCK_POLL: Final = 0.25
"""Seconds between two tries of a block that waits, at most."""

Gate = ThreadGate | TaskGate


class LockLimits(NamedTuple):
    """`at_most` is a hard limit on holding, never renewed past; `at_least` keeps the lock after release, and after its
    holder's death; `wait` is how long to try."""

    at_most: timedelta | None
    at_least: timedelta
    wait: timedelta

    @property
    def lease(self) -> timedelta:
        return LOCK_LEASE if self.at_most is None else min(LOCK_LEASE, self.at_most)

    @property
    def final(self) -> bool:
        """Whether its first lease is its last: no renewal goes past the limit."""
        return self.at_most is not None and self.at_most <= LOCK_LEASE


def limits(at_most: Duration | None, at_least: Duration, wait: Duration) -> LockLimits:
    checked = LockLimits(
        None if at_most is None else parse_duration(at_most), parse_duration(at_least), parse_duration(wait)
    )
    if checked.at_most is not None and checked.at_most < SHORTEST_LEASE:
        raise BadPolicy("at_most must be 1s or more; leave it out to hold the lock for as long as the block runs")
    if checked.at_most is not None and checked.at_least > checked.at_most:
        raise BadPolicy(f"at_least ({at_least}) is more than at_most ({at_most}): a lock is not kept beyond its limit")
    return checked


class Holding:
    """A lock that is held: what `with cron.lock(...) as lock` gives."""

    def __init__(self, lease: Any) -> None:
        self._lease: Lease = lease

    @property
    def fence(self) -> Fence:
        """Higher each time the lock is granted: a receiver that remembers the highest refuses a holder that lost it."""
        return self._lease.grant.fence

    @property
    def trusted(self) -> bool:
        """Whether the lock is surely still ours."""
        return self._lease.trusted

    def check(self) -> None:
        """Raise `LeaseLost` unless the lock is surely still ours."""
        self._lease.check()


class LockTaken(NamedTuple):
    """Another has it: the error if the block does not wait, else how many seconds to wait before the next try."""

    error: CronceError
    pause: float


def refusal(answer: object, held: Callable[[str, Instant | None], CronceError], what: str) -> CronceError:
    """Why the store did not grant a lock or a leadership: `held` by whom, and until when at least."""
    match answer:
        case Held(by, until):
            return held(by, until)
        case Early(until):
            return held("", until)
        case _:
            return StoreUnavailable(f"the store answers too slowly {what}; it was released again")


def seconds_left(answer: object, node: Node) -> float:
    """Until it may be free; its holder may give it back at any time before. 0 where that is not known."""
    until = answer.until if isinstance(answer, Held | Early) else None
    return (until - node.ledger.know.now()).total_seconds() if until else 0.0


class KeepsOwnership(Protocol):
    """Renews what is held, or watches over it: a keeper."""

    @property
    def node(self) -> Any: ...

    def keep(self, lease: Any) -> None: ...

    def drop(self, lease: Any) -> None: ...


class HeldBlock(ABC):
    """`with` or `async with`, whatever is held for it: entering, leaving, and being stopped.

    One object may be used by many threads and tasks; each is a claimant of its own.
    """

    noun = "the lock"
    """What it is called in an error."""

    def __init__(self, name: str, wait: timedelta, keeper: Callable[[], KeepsOwnership]) -> None:
        self.name = check_name(name)
        self._wait = wait
        self._keeper = keeper
        self._holdings: dict[object, list[tuple[Ownership, Gate, KeepsOwnership]]] = {}

    @abstractmethod
    def _try(self, node: Any, gate: Gate) -> Steps[Any]:
        """Ask once: what is held, or `LockTaken`. `gate` is to be stopped when it ends."""

    @abstractmethod
    def _release(self, lease: Any, node: Any) -> Steps[None]: ...

    def _undo(self, lease: Any, node: Any) -> Steps[None]:
        """Release one under which nothing ran."""
        yield from self._release(lease, node)

    def _holding(self, lease: Any) -> Holding:
        return Holding(lease)

    def __enter__(self) -> Holding:
        gate, who, keeper = ThreadGate(), threading.get_ident(), self._keeper()
        try:
            return take(self._enter(who, gate, keeper), keeper.node)
        except Interrupt as error:  # it was stopped before its block began, so `with` calls no __exit__
            if any(gate is held for _, held, _ in self._holdings.get(who, ())):
                self.__exit__(Interrupt, error, None)
            raise

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _at: TracebackType | None
    ) -> None:
        stack, ours = here(), False
        stack.shield()
        try:
            lease, gate, keeper = self._leave(threading.get_ident())
            ours = gate.stopped and isinstance(error, Interrupt)
            if lease.mine:
                keeper.drop(lease)
                take(self._release(lease, keeper.node), keeper.node)
                self._judge(lease, error, ours=ours)
        finally:
            stack.unshield(on_its_way=isinstance(error, Interrupt) and not ours)

    async def __aenter__(self) -> Holding:
        import asyncio  # noqa: PLC0415  45 ms, and not every caller needs it

        task = asyncio.current_task()
        assert task is not None
        keeper = self._keeper()
        return await take_async(self._enter(task, TaskGate(task), keeper), keeper.node)

    async def __aexit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _at: TracebackType | None
    ) -> None:
        import asyncio  # noqa: PLC0415

        task = asyncio.current_task()
        assert task is not None
        lease, gate, keeper = self._leave(task)
        ours = gate.stopped and isinstance(error, asyncio.CancelledError)
        if ours:
            task.uncancel()
        if lease.mine:
            keeper.drop(lease)
            await take_async(self._release(lease, keeper.node), keeper.node)
            self._judge(lease, error, ours=ours)

    def _enter(self, who: object, gate: Gate, keeper: KeepsOwnership) -> Steps[Holding]:
        lease = yield from self._acquire(keeper.node, gate)
        self._holdings.setdefault(who, []).append((lease, gate, keeper))
        keeper.keep(lease)
        gate.enter()
        return self._holding(lease)

    def _leave(self, who: object) -> tuple[Ownership, Gate, KeepsOwnership]:
        held = self._holdings.get(who)
        if not held:
            raise BadInput(f"{self.noun} {self.name} must be released by the thread or task that took it")
        lease, gate, keeper = held.pop()
        if not held:
            del self._holdings[who]
        gate.leave()
        return lease, gate, keeper

    def _judge(self, lease: Ownership, error: BaseException | None, *, ours: bool) -> None:
        """A lock that ended before its block did is an error, unless the block has one of its own."""
        if lease.over is not None and (error is None or ours):
            why = lease.over.why
            words = f"{self.noun} {self.name} ended before its block did: {why}"
            raise LeaseLost(words, name=self.name, why=why) from error

    # --- one logic, for threads and tasks ---

    def _acquire(self, node: Any, gate: Gate) -> Steps[Any]:
        give_up = node.clock.boot() + self._wait.total_seconds()
        while True:
            answer = yield from self._try(node, gate)
            if not isinstance(answer, LockTaken):
                yield from self._arrive(answer, node)
                return answer
            left = give_up - node.clock.boot()
            if left <= 0:
                raise answer.error
            yield WaitStep(min(left, answer.pause))

    def _arrive(self, lease: Any, node: Any) -> Steps[None]:
        """A task that was cancelled while it asked learns so here, and has to give back what it got."""
        try:
            yield WaitStep(0.0)
        except BaseException:
            yield from self._undo(lease, node)
            raise


class Lock(HeldBlock):
    """A lease of the store's, with no slot: its steps, for threads and tasks."""

    def __init__(self, name: str, limits: LockLimits, keeper: Callable[[], Keeper]) -> None:
        super().__init__(name, limits.wait, keeper)
        self._limits = limits

    def _try(self, node: Node, gate: Gate) -> Steps[Lease | LockTaken]:
        answer = yield StoreStep(node.ledger.acquire(lock_cell(self.name), self._limits.lease, self._limits.at_least))
        if isinstance(answer, Grant):
            return self._lease(answer, node, gate)
        error = refusal(answer, partial(LockHeld, self.name, final=self._limits.final), f"for the lock {self.name}")
        left = seconds_left(answer, node)
        return LockTaken(error, min(max(left, 0.01), LOCK_POLL))

    def _undo(self, lease: Lease, node: Node) -> Steps[None]:
        yield StoreStep(node.ledger.release([lease.grant]))

    def _lease(self, grant: Grant, node: Node, gate: Gate) -> Lease:
        started = grant.record.started
        assert started is not None
        at_most = self._limits.at_most
        return Lease(
            grant, node.clock, lambda _over: gate.stop(), at_most=None if at_most is None else started + at_most
        )

    def _release(self, lease: Lease, node: Node) -> Steps[None]:
        started = lease.grant.record.started
        assert started is not None
        rest = max(started + self._limits.at_least - node.ledger.know.now(), timedelta(0))
        yield StoreStep(node.ledger.release([lease.grant], rest))
