"""A function that is done once for each key, whether a consumer of a queue, a handler of requests or a job calls it. A
job's run remembers it like any other effect: a slot does not succeed with one that is not done.

While the function runs, its key is a lease, renewed like a lock's, and another call raises `InProgress`. If the lease
expires, the effect is in doubt, like a step whose run crashed. What was done is known for a while, counted from when it
was done; what is in doubt is known for good.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final
from zlib import crc32

from cronce.errors import BadInput, InDoubt, LeaseLost
from cronce.model import check_key, check_name, once_cell
from cronce.protocol.lease import LOCK_LEASE
from cronce.runtime.declare import SHORTEST_LEASE, Duration
from cronce.runtime.effects.once import Effect, EffectPolicy, once
from cronce.runtime.effects.steps import thing_named
from cronce.runtime.guard import finished, stepping
from cronce.runtime.jobs import sweep_later
from cronce.runtime.keeper import Keeper, Lease
from cronce.runtime.ledger import Begin, Grant, Ledger
from cronce.runtime.node import Node
from cronce.runtime.run import current_run
from cronce.runtime.steps import BodyStep, Steps
from cronce.runtime.unfinished import Unfinished
from cronce.schedule import format_duration, parse_duration

SWEPT: Final = 1000
"""After one key in so many, old keys are deleted."""

BEGUN_TIMEOUT: Final = 10.0
"""Seconds for which a store that does not answer is asked whether the key was begun."""


class KeyLease:
    """The lease of a key, kept while its function runs."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._patient_until = keeper.node.clock.boot() + BEGUN_TIMEOUT
        self._lease: Lease | None = None
        self._body: BodyStep | None = None
        run = current_run()
        self.unfinished = Unfinished() if run is None else run.unfinished

    @property
    def ledger(self) -> Ledger:
        return self._keeper.node.ledger

    @property
    def trusted(self) -> bool:
        if self._lease is None:
            return self._keeper.node.clock.boot() < self._patient_until
        return self._lease.trusted

    @property
    def stopped(self) -> str:
        ended = self._body is not None and self._body.stopped and self._lease is not None and self._lease.over
        return ended.why if ended else ""

    def check(self) -> None:
        """Nothing is held before it is begun."""

    def hold(self, grant: Grant, body: BodyStep) -> None:
        self._body = body
        self._lease = lease = Lease(grant, self._keeper.node.clock, lambda _over: body.stop())
        self._keeper.keep(lease)

    def let_go(self, grant: Grant) -> Grant:
        if self._lease is None:
            return grant
        self._keeper.drop(self._lease)
        return self._lease.grant


def read_lease(lease: Duration) -> timedelta:
    length = parse_duration(lease)
    if not SHORTEST_LEASE <= length <= LOCK_LEASE:
        raise BadInput(
            "lease is how long a key counts as in progress after its process died:"
            f" {format_duration(SHORTEST_LEASE)} to {format_duration(LOCK_LEASE)};"
            " it is renewed while the function runs"
        )
    return length


def read_ttl(ttl: Duration) -> timedelta:
    length = parse_duration(ttl)
    if length <= timedelta(0):
        raise BadInput("ttl is how long a key is remembered as done: more than zero, such as '1d'")
    return length


class Keyed:
    """What is done once for each key."""

    def __init__(
        self,
        name: str,
        key: Callable[..., object],
        ttl: timedelta,
        how: EffectPolicy,
        keeper: Callable[[], Keeper],
        *,
        lease: timedelta = LOCK_LEASE,
    ) -> None:
        if not callable(key):
            raise BadInput("key is a function of the call's arguments, such as key=lambda order: ('order', order.id)")
        self._name, self._key, self._ttl, self._how, self._keeper = check_name(name), key, ttl, how, keeper
        self._lease = lease

    def guard(self, fn: Callable[..., Any]) -> Any:
        done = finished(fn, "it")

        def steps_of(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Steps[Any], Node]:
            keeper = self._keeper()
            return self._steps(done, args, named, keeper), keeper.node

        return stepping(fn, steps_of)

    def _steps(
        self, fn: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any], keeper: Keeper
    ) -> Steps[Any]:
        under = KeyLease(keeper)
        try:
            key = _named(self._key(*args, **named))
        except Exception as error:
            under.unfinished.refuse(error)
            raise
        begin = Begin(once_cell(self._name, key), keeper.node.ledger.nonce(), self._lease, keep=self._ttl)
        effect = Effect(f"{self._name}/{key}", begin, partial(fn, *args, **named))
        result = yield from under.unfinished.noted(effect.name, self._once(effect, under))
        if crc32(key.encode()) % SWEPT == 0:
            sweep_later(keeper)
        return result

    def _once(self, effect: Effect, under: KeyLease) -> Steps[Any]:
        try:
            return (yield from once(effect, self._how, under))
        except GeneratorExit:
            raise
        except BaseException as error:
            if under.stopped and not isinstance(error, Exception):
                raise self._stopped(effect.name, under.stopped) from error
            raise

    def _stopped(self, name: str, why: str) -> Exception:
        if self._how.unsure == "raise":
            return InDoubt(name, f"it was stopped: {why}")
        return LeaseLost(f"{name} was stopped: {why}", name=name, why=why)


def _named(key: object) -> str:
    """A pair is a kind of thing and its id, as in `run.on("invoice", 7)`: an id that is missing is refused. In a text
    it would be a thing called "invoice:None", which the next message without an id has, too."""
    if not isinstance(key, tuple):
        return check_key(key)
    if len(key) != 2:
        raise BadInput(
            f"{key!r:.60} cannot be the key of an effect: a pair must be a kind and an id, such as ('invoice', 7)"
        )
    return thing_named(*key)
