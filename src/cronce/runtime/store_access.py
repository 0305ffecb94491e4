"""A process and its store: which store that is, and what the process holds there. Nothing is opened before something is
asked of it."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from cronce.clock import Clock
from cronce.errors import BadInput, tell
from cronce.runtime.desk import Desk
from cronce.runtime.journal import Journal
from cronce.runtime.keeper import Keeper
from cronce.runtime.log import Listeners
from cronce.stores import mask
from cronce.stores.base import Store
from cronce.stores.default import Chosen, choose, journal_directory, open_chosen, pinned

if TYPE_CHECKING:
    from cronce.runtime.session_lock import SessionKeeper

ReadUrl = Callable[[], str | None]
"""Says which store is meant, when it is asked for; None: the default."""


class StoreAccess:
    """For any number of threads. `given` is the store, where that is an object of this process."""

    def __init__(self, read_url: ReadUrl, given: Store | None, clock: Clock) -> None:
        self._read_url, self._given, self._clock = read_url, given, clock
        self._listeners = Listeners()
        self._opening = threading.Lock()
        self._chosen: Chosen | None = None
        self._session: SessionKeeper | None = None
        self.keeper: Keeper | None = None
        """What this process holds at the store, if anything was asked of it yet."""

    # --- which store ---

    def use(self, url: str) -> None:
        """Another store than it was made with, before anything was asked of that."""
        self._use(lambda: url)

    def _use(self, read_url: ReadUrl) -> None:
        if self.keeper is not None or self._session is not None:
            raise BadInput(f"{self.place} is in use already; name the other store before anything is started")
        self._read_url, self._chosen, self._given = read_url, None, None

    @property
    def place(self) -> str:
        """Its store, for people."""
        return f"{self._given!r}" if self._given else mask(self._url)

    @property
    def _url(self) -> str:
        """Of the store as it would be chosen now; empty for an object."""
        return "" if self._given else (self._chosen or choose(self._read_url())).url

    def _named(self) -> str | None:
        """The URL by which another process reaches the same store; None for an object."""
        return None if self._given else self._choose().url

    def _choose(self) -> Chosen:
        if self._chosen is None:  # once: whoever changes the directory or the environment later means no other store
            self._chosen = pinned(choose(self._read_url()))
        return self._chosen

    def _connect(self, *, first: bool = False) -> Store:
        if self._given is not None:
            return self._given
        chosen = self._choose()
        if first and chosen.is_default:
            tell(f"cronce: the store is {chosen.url}; set CRONCE_URL to choose another")
        return open_chosen(chosen)

    # --- what is held there ---

    def at_work(self) -> Keeper:
        """What this process holds at the store, which is opened by the first who asks: for integrations."""
        with self._opening:
            if self.keeper is None:
                store, heard = self._connect(first=True), self._listeners
                desk = Desk(store, self._clock, self._connect, heard.report, around=heard.around)
                desk.ledger.client.timed, desk.ledger.client.wants = heard.timed, heard.wants
                self.keeper = Keeper(desk, journal=self._journal())
            return self.keeper

    def _journal(self) -> Journal:
        """What could not be told to the store is written down here."""
        return Journal("" if self._given else journal_directory(self._choose().url))

    def _in_session(self) -> "SessionKeeper":
        """What it holds in a session of PostgreSQL."""
        from cronce.runtime.session_lock import SessionKeeper  # noqa: PLC0415  it needs psycopg

        with self._opening:
            if self._session is None:
                self._session = SessionKeeper(self._named() or "an object", self._clock)
            return self._session

    def _forked(self) -> None:
        """In the child: the lock may be held for ever, and nothing of what the parent holds is the child's."""
        self._opening = threading.Lock()
        self.keeper = None
        if self._session is not None:
            self._session.forked()
        self._session = None

    def _leave(self) -> Keeper | None:
        """Hold nothing more, unless something runs or is held; what was held, to be closed. Who closes does not
        wait for a thread that is just opening the store, which takes long at a silent server."""
        if not self._opening.acquire(blocking=False):
            return None
        try:
            keeper = self.keeper
            if self._session is not None:
                self._session.close()
            if keeper is None or keeper.busy:
                return None
            self.keeper = None
            return keeper
        finally:
            self._opening.release()
