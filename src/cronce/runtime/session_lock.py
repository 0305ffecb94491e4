"""Session locks: mutual exclusion by PostgreSQL's advisory locks, without a table and without a lease.

The server keeps such a lock for as long as its session lives, and frees it in the moment the process dies. There is no
time after which another process may have it, hence no `at_most`, and no order of grants, hence no fence. All locks of a
process are on one connection. One thread watches it while something is held, and stops every holder when it is lost.

An advisory lock is granted to a session that has it already, so what this process holds is known here, and refused. A
block that was stopped, and has not ended yet, keeps its name taken in this process, and a session that went silent
keeps its connection: hanging up would only free the lock sooner for the others.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from cronce.clock import Clock
from cronce.errors import BadInput, BadPolicy, LeaseLost, LockHeld, StoreUnavailable
from cronce.model import Boot, Fence
from cronce.runtime.keeper import LeaseEnd, Ownership, RepeatingThread
from cronce.runtime.lock import LOCK_POLL, Gate, HeldBlock, Holding, LockLimits, LockTaken
from cronce.runtime.node import holder_name
from cronce.runtime.steps import Steps, StoreStep
from cronce.stores import mask, scheme_of
from cronce.stores.postgres.session import AdvisorySession, key_of

SESSION_CHECK_EVERY: Final = 2.0
"""Seconds between two checks that the session is still there; that the server closed it is seen at once."""

FRESH: Final = 10.0
"""Seconds for which a lock is believed after its session was last seen: less than the server waits for a client that
went silent."""

T = TypeVar("T")


class SessionOwnership(Ownership):
    """A lock that is held in a session."""

    def __init__(
        self, name: str, key: int, session: AdvisorySession, keeper: "SessionKeeper", told: Callable[[LeaseEnd], None]
    ) -> None:
        super().__init__(told)
        self.name, self.key, self.session, self.keeper = name, key, session, keeper

    @property
    def trusted(self) -> bool:
        return self.mine and not self.over and not self.session.lost and self.keeper.is_fresh(self.session)

    def check(self) -> None:
        """Raise `LeaseLost` unless the lock is still ours. Asks the server, if the last look was long ago."""
        if not self.mine:
            raise LeaseLost(f"the lock {self.name} was granted to the process that forked this one", name=self.name)
        if not self.trusted:
            self.keeper.prove(self.session)
        if why := self.over.why if self.over else self.session.lost:
            raise LeaseLost(f"the lock {self.name} was lost: {why}", name=self.name, why=why)


class SessionHolding(Holding):
    """A session lock that is held: what `with cron.lock(..., session=True) as lock` gives."""

    _lease: SessionOwnership  # type: ignore[assignment]

    @property
    def key(self) -> int:
        """The number that the server knows the lock by."""
        return self._lease.key

    @property
    def fence(self) -> Fence:
        raise BadInput("a session lock has no fence: the server does not count its grants. Leave out session=…")


class SessionKeeper:
    """The session of a process, and what is held in it; opened when the first lock is asked for."""

    def __init__(self, url: str, clock: Clock) -> None:
        if scheme_of(url) not in ("postgresql", "postgres"):
            raise BadInput(
                f"session=… needs a store named by its postgresql:// URL, and this one is {mask(url)};"
                " leave it out: every store has locks of its own"
            )
        self._url = url
        self.clock = clock
        self.holder = holder_name(clock)
        self._session: AdvisorySession | None = None
        self._locks: dict[int, SessionOwnership] = {}
        self._asking = threading.Lock()
        self._watching = RepeatingThread("cronce-session", self.watch, clock)

    # --- as a node, and as a keeper ---

    @property
    def node(self) -> "SessionKeeper":
        return self

    def do(self, work: Callable[[], T]) -> T:
        return work()

    def keep(self, _owned: SessionOwnership) -> None:
        self._watching.wake()

    def drop(self, _owned: SessionOwnership) -> None:
        """Its gate is shut, so that no news reaches it any more; it goes with its release."""

    # --- from the threads that hold something ---

    def acquire(self, name: str, key: int | None, told: Callable[[LeaseEnd], None]) -> SessionOwnership | str:
        """The lock, or who has it."""
        with self._asking:
            session = self._connected()
            number = key_of(name, session.schema) if key is None else key
            if number in self._locks:
                return self.holder
            try:
                if not session.try_lock(number):
                    return session.who_has(number)
            except StoreUnavailable:
                self._tell()
                raise
            owned = self._locks[number] = SessionOwnership(name, number, session, self, told)
            return owned

    def release(self, owned: SessionOwnership) -> None:
        with self._asking:
            try:
                if not owned.session.lost and not owned.session.unlock(owned.key):
                    owned.end(LeaseEnd("lost", "the server says that it was not held"))
            except StoreUnavailable as error:
                owned.end(LeaseEnd("lost", str(error)))  # it is not known whether it was held to the end
            finally:
                del self._locks[owned.key]
                self._tell()
                self._hang_up_if_lost(owned.session)

    def prove(self, session: AdvisorySession) -> None:
        """Check that the session is still there; if not, every holder is stopped."""
        with suppress(StoreUnavailable), self._asking:
            session.beat()
        self._tell()

    def is_fresh(self, session: AdvisorySession) -> bool:
        return self.clock.boot() < session.proven + FRESH

    def close(self) -> None:
        with self._asking:
            if self._session is not None and not self._locks:
                self._session.close()

    def forked(self) -> None:
        ours = {self._session} if self._session else set()
        for session in ours | {owned.session for owned in self._held()}:
            session.forked()

    # --- on the thread that watches ---

    def watch(self) -> Boot | None:
        """Wait for a moment, check that the session is there, stop the holders concerned. Returns when to look
        again."""
        session = self._session
        if session is not None and not session.lost:
            if session.stirs(LOCK_POLL) or self.clock.boot() >= session.proven + SESSION_CHECK_EVERY:
                self.prove(session)
        else:
            threading.Event().wait(LOCK_POLL)
        boot = self.clock.boot()
        for owned in self._held():
            if owned.over is not None:
                owned.remind(boot)
        return boot if self._locks else None

    # --- on either ---

    def _held(self) -> list[SessionOwnership]:
        return list(self._locks.values())

    def _tell(self) -> None:
        for owned in self._held():
            if owned.session.lost:
                owned.end(LeaseEnd("lost", owned.session.lost))

    def _connected(self) -> AdvisorySession:
        if self._session is None or self._session.lost:
            if self._session is not None:
                self._hang_up_if_lost(self._session)
            self._session = AdvisorySession(self._url, self.holder)
        return self._session

    def _hang_up_if_lost(self, session: AdvisorySession) -> None:
        if session.lost and all(owned.session is not session for owned in self._held()):
            session.close()


class SessionLock(HeldBlock):
    """A lock in the session of this process: its steps, for threads and tasks."""

    def __init__(self, name: str, session: bool | int, limits: LockLimits, keeper: Callable[[], SessionKeeper]) -> None:
        super().__init__(name, limits.wait, keeper)
        _refuse_limits(limits)
        self._key = None if session is True else _checked(session)

    def _holding(self, owned: SessionOwnership) -> SessionHolding:
        return SessionHolding(owned)

    def _try(self, node: SessionKeeper, gate: Gate) -> Steps[SessionOwnership | LockTaken]:
        answer = yield StoreStep(partial(node.acquire, self.name, self._key, lambda _over: gate.stop()))
        return (
            answer if isinstance(answer, SessionOwnership) else LockTaken(LockHeld(self.name, answer, None), LOCK_POLL)
        )

    def _release(self, owned: SessionOwnership, node: SessionKeeper) -> Steps[None]:
        yield StoreStep(partial(node.release, owned))


def _refuse_limits(limits: LockLimits) -> None:
    if limits.at_most is not None or limits.at_least:
        raise BadPolicy(
            "a session lock has no at_most and no at_least: it is held until its block or its session ends. Leave out"
            " session=… for a lock that has them"
        )


def _checked(key: int) -> int:
    if not isinstance(key, int) or not -(1 << 63) <= key < 1 << 63:
        raise BadPolicy(
            f"session={key!r:.60}: write session=True, or a number of your own that PostgreSQL's bigint holds"
        )
    return key
