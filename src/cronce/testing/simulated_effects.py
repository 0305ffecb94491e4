"""What bodies do to the outside world in a simulated one. The effects are made by the real code; only the other side is
made up, and time. Wherever it would hurt, a process may crash or be paused."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast

from cronce.errors import CronceError, InDoubt, StoreUnavailable
from cronce.model import Fence, once_cell
from cronce.protocol.record import effects_key
from cronce.runtime.effects.once import Effect, EffectPolicy, once
from cronce.runtime.effects.steps import Cursor, RunLease, Target, of_slot, of_thing
from cronce.runtime.keeper import Lease
from cronce.runtime.ledger import Begin, Grant, Ledger
from cronce.runtime.node import Node
from cronce.runtime.steps import BodyStep, Steps, StoreStep, WaitStep
from cronce.runtime.transactions import Committed, Database, Transaction
from cronce.runtime.transactions.fencing import FencingRow
from cronce.runtime.unfinished import Unfinished
from cronce.testing.database import CHARGE, Connection, Error, ModelDatabase
from cronce.testing.receivers import EffectGuard, NoReply, ReceivedEffect, ReceiverRefused, Receivers, ReceiverTrouble
from cronce.testing.world import Play, SimulatedProcess, Sleep, World

T = TypeVar("T")

TROUBLE: Final = (CronceError, NoReply, ReceiverRefused, ReceiverTrouble, Error)
"""What a body may raise."""


MAIL: Final = "mail"
MESSAGE_LEASE: Final = timedelta(seconds=6)
MESSAGE_TTL: Final = timedelta(seconds=8)
"""For how long it is known that a message was handled."""


DONE_TO_THINGS: Final = ("charge", "letter")
"""Two effects on one thing."""


class EffectPlan(NamedTuple):
    """What the bodies of a job do: how many effects, in which way."""

    way: EffectGuard
    number: int
    at_once: bool = False  # by once_each
    cursor: bool = False

    def items(self, key: str) -> list[str]:
        """What a run by this key makes: of things, what is done to each, whichever run comes by."""
        if self.way is EffectGuard.THING:
            return [f"{what}/thing:{number}" for number in range(self.number) for what in DONE_TO_THINGS]
        return [f"{key}/{number}" for number in range(self.number)]


class EffectProcess(Protocol):
    """A process, as far as its bodies need it."""

    world: World
    process: SimulatedProcess
    ledger: Ledger

    @property
    def clock(self) -> SimulatedProcess: ...

    def peril(self, probability: float = ...) -> Play[None]: ...

    def keep(self, grant: Grant) -> Lease: ...

    def let_go(self, grant: Grant) -> None: ...


@dataclass
class RunEffects:
    """The effects of one run."""

    doer: EffectProcess
    receivers: Receivers
    database: ModelDatabase
    habit: EffectPlan
    lease: Lease
    making: Callable[[str], None]  # reports to the referee which one is made now, or "" for none

    def __post_init__(self) -> None:
        assert self.lease.grant.slot is not None
        self.job = self.lease.grant.slot.job
        self.key = effects_key(self.lease.grant.record, self.lease.grant.slot)
        self.committed = self.joined = False
        self.unfinished, self.unentered = Unfinished(), list[object]()
        self._under = RunLease(self.lease, lambda: cast(Node, self.doer))

    @property
    def fence(self) -> Fence:
        return self.lease.grant.fence

    def check(self) -> None:
        self.lease.check()

    @property
    def doubts(self) -> bool:
        return any(isinstance(error, InDoubt) for error in self._under.unfinished.values())

    # --- one after the other ---

    def todo(self) -> list[Callable[[], Play[Any]]]:
        """What the body does, piece by piece."""
        how = EffectPolicy("retry" if self.habit.way is EffectGuard.KEY else "raise", (ReceiverRefused,))
        items = self.habit.items(self.key)
        deeds: list[Callable[[], Play[Any]]]
        match self.habit.way:
            case EffectGuard.KEY | EffectGuard.STEP if self.habit.at_once:
                deeds = [lambda: taken(self._under.once_each(range(len(items)), self._target, self._step, how))]
            case EffectGuard.KEY | EffectGuard.STEP | EffectGuard.THING:
                deeds = [partial(self._once, number, how) for number in range(len(items))]
            case EffectGuard.JOINED:
                deeds = [partial(self._transaction, item, item != items[-1]) for item in items]
            case _:
                deeds = [partial(self._send, item, item) for item in items]
        return [*deeds, self._move] if self.habit.cursor else deeds

    def _once(self, number: int, how: EffectPolicy) -> Play[Any]:
        return taken(self._under.once(self._target(number), lambda: self._step(number), how))

    def _target(self, number: int) -> Target:
        if self.habit.way is EffectGuard.THING:
            what, thing = self._item(number).split("/")
            return of_thing(thing, what)
        return of_slot(self.key, number)

    def _item(self, number: int) -> str:
        return self.habit.items(self.key)[number]

    def _step(self, number: int) -> Play[str]:
        item = self._item(number)
        self.making(item)
        try:
            return (yield from self._send(item, self._target(number).name))
        finally:
            self.making("")

    def _send(self, item: str, key: str) -> Play[str]:
        yield from self.doer.peril()
        yield Sleep(self.doer.world.random.choice([0.1, 0.2, 2.0]) * self.doer.world.random.random())
        answer: str = yield self.receivers.post(ReceivedEffect(self.habit.way, item, self.job, key, self.fence))
        yield from self.doer.peril()
        return answer

    def _move(self) -> Play[None]:
        """On from where the last slot was."""
        cursor = Cursor(self.job, self.lease, self._under)
        position = yield from taken(cursor._got(0))
        yield from self._in_peril(taken(cursor._put(position + 1)))

    def _in_peril(self, play: Play[None]) -> Play[None]:
        """Something may befall the process before each message, also behind the last check."""
        answer: Any = None
        with suppress(StopIteration):
            while True:
                wish = play.throw(answer) if isinstance(answer, Exception) else play.send(answer)
                yield from self.doer.peril(0.1)
                try:
                    answer = yield wish
                except StoreUnavailable as error:
                    answer = error

    # --- in the user's own database ---

    def ready(self) -> Play[bool]:
        """Before the body: no lower fence commits from now on. Whether there is nothing to do any more."""
        if self.habit.way is not EffectGuard.JOINED:
            return False
        yield from self.doer.peril()
        return (yield from self.database.raise_fence(self.key, self.fence))

    def sealed(self) -> Play[bool]:
        """After a body that failed: whether its work was committed all the same. If not, it never will be."""
        if self.habit.way is not EffectGuard.JOINED or self.committed:
            return self.committed
        return (yield from self.database.seal(self.key, self.fence))

    def _transaction(self, item: str, is_step: bool) -> Play[None]:
        conn = self.database.connect()
        step = item.rpartition("/")[2] if is_step else ""
        transaction = SimulatedTransaction(cast(Database, self.database), self, conn, step)
        try:
            yield from transaction._enter(asynchronous=False)
            try:
                yield from self.doer.peril()
                effect = ReceivedEffect(EffectGuard.JOINED, item, self.job, self.key, self.fence)
                yield from conn.say(CHARGE, item=effect)
                yield Sleep(self.doer.world.random.uniform(0.01, 0.2))
                yield from self.doer.peril()
            except Exception as error:
                yield from transaction._exit(error)
                raise
            yield from transaction._exit(None)
        finally:
            conn.close()


class SimulatedTransaction(Transaction[Connection]):
    """Its questions take their time in this world."""

    def _asked(self, ask: Callable[[str, Committed], Any]) -> Play[FencingRow]:
        found: FencingRow = yield from ask(self._run.key, self._committed)
        return found


# --- for each message of a queue ------------------------------------------------------------------------------------


class SimulatedKeyLease:
    """The lease of a key, renewed with the others of its process."""

    def __init__(self, doer: EffectProcess) -> None:
        self._doer = doer
        self._lease: Lease | None = None
        self.unfinished = Unfinished()

    @property
    def ledger(self) -> Ledger:
        return self._doer.ledger

    @property
    def trusted(self) -> bool:
        return self._lease is not None and self._lease.trusted

    @property
    def stopped(self) -> str:
        return self._lease.over.why if self._lease and self._lease.over else ""

    def check(self) -> None:
        """Nothing is held before it is begun."""

    def hold(self, grant: Grant, _body: BodyStep) -> None:
        self._lease = self._doer.keep(grant)

    def let_go(self, grant: Grant) -> Grant:
        self._doer.let_go(grant)
        return self._lease.grant if self._lease else grant


def handle(doer: EffectProcess, receivers: Receivers, message: str, began: Callable[[Fence], str]) -> Play[Any]:
    """How a consumer handles a message. `began` reports which one it is, of those that may happen with this key."""
    under = SimulatedKeyLease(doer)

    def work() -> Play[Any]:
        assert under._lease is not None
        fence = under._lease.grant.fence
        yield from doer.peril()
        yield Sleep(doer.world.random.uniform(0.01, 2.0))
        answer = yield receivers.post(ReceivedEffect(EffectGuard.MESSAGE, began(fence), message, message, fence))
        yield from doer.peril()
        return answer

    begin = Begin(once_cell(MAIL, message), doer.ledger.nonce(), MESSAGE_LEASE, keep=MESSAGE_TTL)
    return taken(once(Effect(message, begin, work), EffectPolicy("raise", (ReceiverRefused,)), under))


# --- taking the steps of the real code, in this world ---------------------------------------------------------------


def taken(steps: Steps[T]) -> Play[T]:
    """What `steps.take` does in a thread. At the end of a world they are closed from the outside in: else one that
    holds on to an error, and by that to itself, is left to the collector, which begins anywhere."""
    try:
        step = next(steps)
        while True:
            try:
                answer = yield from _step_taken(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()


def _step_taken(step: StoreStep | WaitStep | BodyStep) -> Play[Any]:
    match step:
        case StoreStep(flow):
            return (yield from flow)
        case WaitStep(seconds):
            yield Sleep(seconds)
        case BodyStep():
            return (yield from step.work())
