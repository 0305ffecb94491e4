"""`Cronce`: what a user holds in hand. It makes guards and locks; the work is done by `call`, `lock` and `keeper`."""

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from datetime import datetime
from functools import partial, wraps
from inspect import Parameter, Signature, iscoroutinefunction, signature
from typing import Any, Concatenate, Final, Never, ParamSpec, Protocol, TypeVar, cast, overload

from cronce.clock import Clock, SystemClock
from cronce.errors import BadInput, LockHeld
from cronce.policy import Fold, Gap, Missed, OnLost, Overlap, refuse_foreign
from cronce.runtime.call import Call
from cronce.runtime.declare import Declaration, Duration, When, declare
from cronce.runtime.desk import Desk
from cronce.runtime.keeper import Keeper
from cronce.runtime.lock import Lock, limits
from cronce.runtime.log import log
from cronce.runtime.notes import Notebook
from cronce.runtime.run import Run, Skipped
from cronce.runtime.steps import take, take_async
from cronce.schedule import Schedule
from cronce.stores import mask
from cronce.stores.base import Store
from cronce.stores.default import choose, open_chosen

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Guard(Protocol[P, R_co]):
    """A guarded function. Call it as before: it finds its slot, claims it, runs the body or returns `Skipped`."""

    fn: Callable[..., Any]
    """The plain function, without the guard."""

    name: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def at(self, slot: When) -> Callable[P, R_co]:
        """The guard for a slot that the caller knows; the same as calling it with `slot=`."""
        ...


class Decorator(Protocol):
    """Keeps the signature, less a first parameter `run`; the result may be `Skipped`."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Run, P], Coroutine[Any, Any, R]]
    ) -> Guard[P, Coroutine[Any, Any, R | Skipped]]: ...
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]]) -> Guard[P, Coroutine[Any, Any, R | Skipped]]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Run, P], R]) -> Guard[P, R | Skipped]: ...
    @overload
    def __call__(self, fn: Callable[P, R]) -> Guard[P, R | Skipped]: ...


class SingleDecorator(Protocol):
    """Keeps the signature; the result may be `Skipped`."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R | Skipped]]: ...
    @overload
    def __call__(self, fn: Callable[P, R]) -> Callable[P, R | Skipped]: ...


class Cronce:
    """Guards for functions, and locks, on one store. Nothing is opened before something is asked of the store.

    One object serves any number of threads, and the children of a fork: each process is a holder of its own.
    """

    def __init__(self, url: str | None = None, *, store: Store | None = None, clock: Clock | None = None) -> None:
        self._url = url
        self._given = store
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._keeper: Keeper | None = None
        self._notebook = Notebook()
        self.jobs: dict[str, Declaration] = {}
        """The jobs that this process declares, by name."""
        _ALL.add(self)

    def __repr__(self) -> str:
        return f"<Cronce on {self._given!r}>" if self._given else f"<Cronce on {mask(choose(self._url).url)}>"

    # --- guards ---

    def job(
        self,
        schedule: str | Schedule | None = None,
        *,
        name: str | None = None,
        every: Duration | None = None,
        at: str | datetime | None = None,
        tz: str = "UTC",
        gap: Gap = "run",
        fold: Fold = "first",
        on_lost: OnLost = "skip",
        overlap: Overlap = "skip",
        turns: int = 1,
        missed: Missed = "latest",
        start_within: Duration | None = None,
        retries: int = 0,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        slot: Callable[..., When] | None = None,
        **foreign: Never,
    ) -> Decorator:
        """Guard a function: whoever calls it, on however many machines, each slot of the schedule runs once.

        `slot` is a function of the call's arguments that says which slot it is for; without one, a call means the
        latest instant of the schedule.
        """
        if callable(schedule):
            raise BadInput("write @cron.job('*/15 * * * *'), with the schedule in brackets")
        policies: dict[str, Any] = {
            "every": every, "at": at, "tz": tz, "gap": gap, "fold": fold, "on_lost": on_lost, "overlap": overlap,
            "turns": turns, "missed": missed, "start_within": start_within, "retries": retries, "timeout": timeout,
            "lease": lease, **foreign,
        }  # fmt: skip

        def guard(fn: Callable[..., Any]) -> Any:
            declared = declare(name or _name_of(fn), schedule, **policies)
            self._declare(declared)
            return _guarded(self, declared, fn, slot)

        return guard

    def _declare(self, job: Declaration) -> None:
        if self.jobs.setdefault(job.name, job) != job:
            raise BadInput(
                f"there is a job {job.name} already, with another schedule or policy; give one of them name=…"
            )

    # --- locks ---

    def lock(
        self,
        name: str,
        *,
        at_most: Duration | None = None,
        at_least: Duration = "0s",
        wait: Duration = "0s",
        **foreign: Never,
    ) -> Lock:
        """Mutual exclusion for a block: `with cron.lock("reindex"):`. Raises `LockHeld` when another has it."""
        refuse_foreign(foreign, ("at_most", "at_least", "wait"))
        return Lock(name, limits(at_most, at_least, wait), self._at_work)

    def single(
        self,
        name: str,
        *,
        at_most: Duration | None = None,
        at_least: Duration = "0s",
        wait: Duration = "0s",
        **foreign: Never,
    ) -> SingleDecorator:
        """Let a function run in one place at a time: while it does, other calls return `Skipped`."""
        if not isinstance(name, str):
            raise BadInput("write @cron.single('reindex'), with the name of the lock in brackets")
        lock = self.lock(name, at_most=at_most, at_least=at_least, wait=wait, **foreign)
        return cast(SingleDecorator, partial(_single, lock))

    # --- this process at the store ---

    def _at_work(self) -> Keeper:
        with self._lock:
            if self._keeper is None:
                self._keeper = Keeper(Desk(self._connect(first=True), self._clock, self._connect, log))
            return self._keeper

    def _connect(self, *, first: bool = False) -> Store:
        if self._given is not None:
            return self._given
        chosen = choose(self._url)
        if first and chosen.is_default:
            print(f"cronce: the store is {chosen.url}; set CRONCE_URL to choose another", file=sys.stderr)
        return open_chosen(chosen)

    def _forked(self) -> None:
        """In the child: the parent's threads are not here, its locks may be held for ever, its leases are not ours."""
        self._lock = threading.Lock()
        self._keeper = None
        self._notebook = Notebook()

    def close(self) -> None:
        """Give back the connections; the next call opens others. A lease that is held goes on until its block ends."""
        with self._lock:
            keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.close()
            if keeper.desk.store is not self._given:
                keeper.desk.store.close()

    def __enter__(self) -> "Cronce":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


_ALL: Final[weakref.WeakSet[Cronce]] = weakref.WeakSet()


def _for_all(action: Callable[[Cronce], None]) -> None:
    for cronce in list(_ALL):
        action(cronce)


os.register_at_fork(after_in_child=partial(_for_all, Cronce._forked))
atexit.register(_for_all, Cronce.close)


# --- functions and their guards -------------------------------------------------------------------------------------


def _name_of(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__qualname__", type(fn).__qualname__).replace(".<locals>", "")


def _guarded(cronce: Cronce, job: Declaration, fn: Callable[..., Any], slot: Callable[..., When] | None) -> Any:
    """A real function, so that it can be a method, be pickled by name, and be seen to be a coroutine function."""
    given_run, plain = _giving_run(fn)
    takes_slot = "slot" in plain.parameters
    alone = all(p.default is not Parameter.empty or p.kind in _ANY for p in plain.parameters.values())

    def body(args: tuple[Any, ...], named: dict[str, Any]) -> Callable[[Run], Any]:
        return lambda run: given_run(run, args, named)

    def steps(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Desk]:
        when = named.pop("slot", None) if not takes_slot else None
        plain.bind(*args, **named)  # a call that cannot be made is refused before it takes a slot
        if when is None and slot is not None:
            when = slot(*args, **named)
        keeper = cronce._at_work()
        older = body((), {}) if alone and not args and not named else None
        call = Call(keeper, job, body(args, named), older=older, refused=cronce._notebook.refused)
        return call.steps(when), keeper.desk

    if iscoroutinefunction(fn):

        async def guarded_async(*args: Any, **named: Any) -> Any:
            return await take_async(*steps(args, named))

        guarded: Any = guarded_async
    else:

        def guarded_sync(*args: Any, **named: Any) -> Any:
            return take(*steps(args, named))

        guarded = guarded_sync
    guarded = wraps(fn)(guarded)
    guarded.__signature__ = plain
    guarded.fn, guarded.name = fn, job.name
    guarded.at = lambda when: partial(guarded, slot=when)
    return guarded


_ANY: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _giving_run(fn: Callable[..., Any]) -> tuple[Callable[[Run, tuple[Any, ...], dict[str, Any]], Any], Signature]:
    """How to call it with its run, and its signature as callers see it: they do not give a parameter named `run`."""
    full = signature(fn)
    names = list(full.parameters)
    if "run" not in names:
        return lambda _run, args, named: fn(*args, **named), full
    place = names.index("run")
    by_place = full.parameters["run"].kind is not Parameter.KEYWORD_ONLY

    def given(run: Run, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if by_place and len(args) >= place:
            return fn(*args[:place], run, *args[place:], **named)
        return fn(*args, **named, run=run)

    return given, full.replace(parameters=[one for name, one in full.parameters.items() if name != "run"])


def _single(lock: Lock, fn: Callable[..., Any]) -> Any:
    if iscoroutinefunction(fn):

        @wraps(fn)
        async def single_async(*args: Any, **named: Any) -> Any:
            async with AsyncExitStack() as stack:
                try:
                    await stack.enter_async_context(lock)
                except LockHeld as held:
                    return Skipped("held", str(held))
                return await fn(*args, **named)

        return single_async

    @wraps(fn)
    def single(*args: Any, **named: Any) -> Any:
        with ExitStack() as stack:
            try:
                stack.enter_context(lock)
            except LockHeld as held:
                return Skipped("held", str(held))
            return fn(*args, **named)

    return single
