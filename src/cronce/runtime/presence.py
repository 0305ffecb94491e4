"""A process at its store: which store that is, and what the process holds there. Nothing is opened before something is
asked of it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cronce.clock import Clock
from cronce.errors import BadInput
from cronce.runtime.aside import tell
from cronce.runtime.desk import Desk
from cronce.runtime.keeper import Keeper
from cronce.runtime.listeners import Listeners
from cronce.stores import mask
from cronce.stores.base import Store
from cronce.stores.default import Chosen, choose, open_chosen, pinned

if TYPE_CHECKING:
    from cronce.runtime.session_lock import SessionKeeper

ReadUrl = Callable[[], str | None]
"""Says which store is meant, when it is asked for; None: the default."""


class Presence:
    """For any number of threads. `given` is the store, where that is an object of this process."""

    def __init__(self, read_url: ReadUrl, given: Store | None, clock: Clock, listeners: Listeners) -> None:
        self._read_url, self.given = read_url, given
        self.clock = clock
        self._listeners = listeners
        self._lock = threading.Lock()
        self._chosen: Chosen | None = None
        self._session: SessionKeeper | None = None
        self.keeper: Keeper | None = None
        """What it holds, if anything was asked of the store yet."""

    # --- which store ---

    def use(self, read_url: ReadUrl) -> None:
        """Another store than before, of which nothing was asked."""
        if self.keeper is not None or self._session is not None:
            raise BadInput(f"{self.place} is in use already; name the other store before anything is started")
        self._read_url, self._chosen, self.given = read_url, None, None

    @property
    def place(self) -> str:
        """The store, for people."""
        return f"{self.given!r}" if self.given else mask(self.url)

    @property
    def url(self) -> str:
        """Of the store as it would be chosen now; empty for an object."""
        return "" if self.given else (self._chosen or choose(self._read_url())).url

    def named(self) -> str | None:
        """The URL by which another process reaches the same store; None for an object."""
        return None if self.given else self._choose().url

    def _choose(self) -> Chosen:
        if self._chosen is None:  # once: whoever changes the directory or the environment later means no other store
            self._chosen = pinned(choose(self._read_url()))
        return self._chosen

    def _connect(self, *, first: bool = False) -> Store:
        if self.given is not None:
            return self.given
        chosen = self._choose()
        if first and chosen.is_default:
            tell(f"cronce: the store is {chosen.url}; set CRONCE_URL to choose another")
        return open_chosen(chosen)

    # --- being there ---

    def at_work(self) -> Keeper:
        """What it holds. The store is opened by the first who asks."""
        with self._lock:
            if self.keeper is None:
                store, heard = self._connect(first=True), self._listeners
                desk = Desk(store, self.clock, self._connect, heard.report, around=heard.around)
                desk.ledger.carrier.timed = heard.timed
                self.keeper = Keeper(desk)
            return self.keeper

    def in_session(self) -> "SessionKeeper":
        """What it holds in a session of PostgreSQL."""
        from cronce.runtime.session_lock import SessionKeeper  # noqa: PLC0415  it needs psycopg

        with self._lock:
            if self._session is None:
                self._session = SessionKeeper(self.named() or "an object", self.clock)
            return self._session

    @contextmanager
    def standing_in(self, store: Store, clock: Clock, keeper: Keeper) -> Iterator[None]:
        """For a while these are its store, its clock and what it holds: those of a test."""
        before = self.given, self.clock, self.keeper
        self.given, self.clock, self.keeper = store, clock, keeper
        try:
            yield
        finally:
            self.given, self.clock, self.keeper = before

    def forked(self) -> None:
        """In the child: the lock may be held for ever, and nothing of what the parent holds is the child's."""
        self._lock = threading.Lock()
        self.keeper = None
        if self._session is not None:
            self._session.forked()
        self._session = None

    def leave(self) -> Keeper | None:
        """Hold nothing more, unless something runs or is held; what was held, to be closed."""
        with self._lock:
            keeper = self.keeper
            if self._session is not None:
                self._session.close()
            if keeper is None or keeper.busy:
                return None
            self.keeper = None
            return keeper
