"""`Cronce`: what a user holds in hand. It makes guards and locks; the work is done by `call`, `lock` and `keeper`."""

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Never, cast

from cronce.clock import Clock, SystemClock
from cronce.errors import BadInput
from cronce.policy import Fold, Gap, Missed, OnLost, Overlap, refuse_foreign
from cronce.protocol.retention import Kept
from cronce.runtime.call import Call, Work
from cronce.runtime.declare import Declaration, Duration, When, declare
from cronce.runtime.desk import Desk
from cronce.runtime.guard import Decorator, SingleDecorator, guarded, name_of, single
from cronce.runtime.keeper import Keeper
from cronce.runtime.lock import Block, Lock, limits
from cronce.runtime.log import log
from cronce.runtime.notes import Notebook
from cronce.schedule import Schedule
from cronce.stores import mask
from cronce.stores.base import Store
from cronce.stores.default import Chosen, choose, open_chosen, pinned

if TYPE_CHECKING:
    from cronce.runtime.session_lock import SessionKeeper


class Cronce:
    """Guards for functions, and locks, on one store. Nothing is opened before something is asked of the store.

    One object serves any number of threads, and the children of a fork: each process is a holder of its own.
    """

    def __init__(self, url: str | None = None, *, store: Store | None = None, clock: Clock | None = None) -> None:
        self._url = url
        self._chosen: Chosen | None = None
        self._given = store
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._keeper: Keeper | None = None
        self._session: SessionKeeper | None = None
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
        keep: Kept | Mapping[str, Kept] | None = None,
        slot: Callable[..., When] | None = None,
        **foreign: Never,
    ) -> Decorator:
        """Guard a function: whoever calls it, on however many machines, each slot of the schedule runs once.

        `slot` is a function of the call's arguments that says which slot it is for; without one, a call means the
        latest instant of the schedule.
        """
        if callable(schedule):
            raise BadInput("write @cron.job('*/15 * * * *'), with the schedule in brackets")
        define = partial(
            declare, schedule=schedule, every=every, at=at, tz=tz, gap=gap, fold=fold, on_lost=on_lost, overlap=overlap,
            turns=turns, missed=missed, start_within=start_within, retries=retries, timeout=timeout, lease=lease,
            keep=keep, **foreign,
        )  # fmt: skip

        def guard(fn: Callable[..., Any]) -> Any:
            job = define(name=name or name_of(fn))
            self._declare(job)
            return guarded(job.name, fn, slot, partial(self._call, job))

        return guard

    def _call(self, job: Declaration, work: Work, take_over: bool) -> Call:
        return Call(self._at_work(), job, work, take_over=take_over, refused=self._notebook.refused)

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
        session: bool | int = False,
        **foreign: Never,
    ) -> Block:
        """Mutual exclusion for a block: `with cron.lock("reindex"):`. Raises `LockHeld` when another has it.

        `session=True` takes one of PostgreSQL's advisory locks instead, by a number made of the name; `session=1001` by
        that number.
        """
        refuse_foreign(foreign, ("at_most", "at_least", "wait", "session"))
        checked = limits(at_most, at_least, wait)
        if session is False:
            return Lock(name, checked, self._at_work)
        from cronce.runtime.session_lock import SessionLock  # noqa: PLC0415  it needs psycopg

        return SessionLock(name, session, checked, self._in_session)

    def single(
        self,
        name: str,
        *,
        at_most: Duration | None = None,
        at_least: Duration = "0s",
        wait: Duration = "0s",
        session: bool | int = False,
        **foreign: Never,
    ) -> SingleDecorator:
        """Let a function run in one place at a time: while it does, other calls return `Skipped`."""
        if not isinstance(name, str):
            raise BadInput("write @cron.single('reindex'), with the name of the lock in brackets")
        lock = self.lock(name, at_most=at_most, at_least=at_least, wait=wait, session=session, **foreign)
        return cast(SingleDecorator, partial(single, lock))

    # --- this process at the store ---

    def _at_work(self) -> Keeper:
        with self._lock:
            if self._keeper is None:
                self._keeper = Keeper(Desk(self._connect(first=True), self._clock, self._connect, log))
            return self._keeper

    def _in_session(self) -> "SessionKeeper":
        from cronce.runtime.session_lock import SessionKeeper  # noqa: PLC0415

        with self._lock:
            if self._session is None:
                self._session = SessionKeeper(self._named().url if self._given is None else "an object", self._clock)
            return self._session

    def _connect(self, *, first: bool = False) -> Store:
        if self._given is not None:
            return self._given
        chosen = self._named()
        if first and chosen.is_default:
            print(f"cronce: the store is {chosen.url}; set CRONCE_URL to choose another", file=sys.stderr)
        return open_chosen(chosen)

    def _named(self) -> Chosen:
        if self._chosen is None:  # once: whoever changes the directory or the environment later means no other store
            self._chosen = pinned(choose(self._url))
        return self._chosen

    def _forked(self) -> None:
        """In the child: the parent's threads are not here, its locks may be held for ever, its leases are not ours."""
        self._lock = threading.Lock()
        self._keeper = None
        if self._session is not None:
            self._session.forked()
        self._session = None
        self._notebook = Notebook()

    def close(self) -> None:
        """Give back the connections, unless something runs or is held; the next call opens others."""
        with self._lock:
            keeper, session = self._keeper, self._session
            if session is not None:
                session.close()
            if keeper is None or keeper.busy:
                return
            self._keeper = None
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
