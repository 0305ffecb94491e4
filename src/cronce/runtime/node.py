"""This process as a node at a store: its name, its clock, its ledger, how its flows are run, and the connection on
which its leases are renewed."""

import os
import re
import threading
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING, Final, TypeVar

from cronce.clock import Clock
from cronce.events import Event, What
from cronce.model import Boot
from cronce.runtime.flow import Flow, drive
from cronce.runtime.ledger import Ledger
from cronce.schedule import format_duration
from cronce.stores.base import Store

if TYPE_CHECKING:
    from cronce.runtime.keeper import RepeatingThread
    from cronce.runtime.run import Around

T = TypeVar("T")


def host_name() -> str:
    """This machine's name, fit to be part of a key."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", os.uname().nodename)[:64] or "host"


def holder_name(clock: Clock) -> str:
    """Host, process, and when it first used the store. The name is for people; nothing is decided by it."""
    return f"{host_name()}:{os.getpid()}:{int(clock.boot() * 1_000_000):x}"


class Node:
    """One per process: a forked child makes its own. `connect` opens a connection for another thread to have alone."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        connect: Callable[[], Store],
        report: Callable[[Event], None],
        holder: str = "",
        *,
        around: "Around" = nullcontext,
    ) -> None:
        self.store = store
        self.clock = clock
        self.connect = connect if store.traits.shared else lambda: store
        self.holder = holder or holder_name(clock)
        self.around = around
        self.ledger = Ledger(store.traits, clock, self.holder, report=report)

    def do(self, flow: Flow[T]) -> T:
        return drive(flow, self.store, self.clock)


class Outage:
    """Whether the store answers this process: one line for each outage, however often it is asked meanwhile.

    A call that got no answer raises in its caller. But when the lease of a running job function cannot be renewed,
    there is no caller to raise in. Renewing is tried again many times in an outage, by several threads, and each try is
    one failure of the same.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._since: Boot | None = None
        self.heard: Boot = -inf
        """When it last answered."""

    def unanswered(self, began: Boot, why: str) -> None:
        """A call that began then got no answer. One that began before the last answer came shows nothing new: it
        belongs to an outage that is over, and if there is another the next call will show it. Nor is a clock in doubt
        an outage."""
        if self._node.ledger.know.doubt is not None:
            return
        with self._lock:
            news = self._since is None and began > self.heard
            if news:
                self._since = began
        if news:
            self._tell(What.SILENT, f"{why}; runs of this process continue while their leases can be trusted")

    @property
    def lasts(self) -> bool:
        return self._since is not None

    def answered(self, boot: Boot | None = None) -> None:
        """Now, or at that moment."""
        boot = self._node.clock.boot() if boot is None else boot
        if self._since is None:
            self.heard = boot
            return
        with self._lock:
            since, self._since = self._since, None
            self.heard = boot
        if since is not None:
            self._tell(What.ANSWERS, f"after {format_duration(timedelta(seconds=round(boot - since, 1)))}")

    def _tell(self, what: What, detail: str) -> None:
        node = self._node
        node.ledger.client.report(Event(what, "the store", node.holder, node.ledger.know.now(), detail=detail))


# --- the connection on which leases are renewed, and the thread that renews them -------------------------------------

# One that hangs in a call is replaced: it is not waited for, nor is its answer lost, if it comes after all.

MOST_STUCK: Final = 4
"""Connections in which renewals hang at most, besides the newest: a store that is slow has others to serve."""

FULL: Final = 1.0
"""Seconds until it is seen again whether one of so many has come back."""


class StoreConnection:
    """To the store; it is made when it is first needed."""

    def __init__(self, node: Node) -> None:
        self._node, self._connecting = node, threading.Lock()
        self._store: Store | None = None

    def store(self) -> Store:
        with self._connecting:
            if self._store is None:
                self._store = self._node.connect()
            return self._store

    def close(self) -> None:
        """Waits for a thread that connects just now."""
        with self._connecting:
            store, self._store = self._store, None
        if store is not None and store is not self._node.store:
            store.close()


class RenewalConnection:
    """For any number of threads."""

    def __init__(self, node: Node, make_thread: "Callable[[], RepeatingThread]") -> None:
        self._node, self._make_thread = node, make_thread
        self._lock = threading.Lock()
        self.current, self.thread = StoreConnection(node), make_thread()
        self.stuck: list[StoreConnection] = []
        self.hangs_at: Boot = inf
        """When the call that is under way has taken too long."""

    def returned(self, connection: StoreConnection) -> bool:
        """A call came back: whether it did so on what is still the newest connection. Others are closed."""
        with self._lock:
            if connection is self.current:
                self.hangs_at = inf
                return True
            self.stuck.remove(connection)
        connection.close()
        return False

    def replace_if_stuck(self, boot: Boot) -> None:
        with self._lock:
            connection, thread = self.current, self.thread
            if boot < self.hangs_at:
                return
            if len(self.stuck) == MOST_STUCK:
                self.hangs_at = boot + FULL
                return
            self.hangs_at = inf
            self.stuck.append(connection)
            self.current, self.thread = StoreConnection(self._node), self._make_thread()
        try:
            self.thread.wake()
            thread.retire()
        except RuntimeError:  # there can be no more threads here: then this one is waited for
            with self._lock:
                self.stuck.remove(connection)
                self.current, self.thread = connection, thread
