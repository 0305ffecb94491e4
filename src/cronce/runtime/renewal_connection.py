"""The connection on which leases are renewed, and the thread that renews them. One that hangs in a call is replaced: it
is not waited for, nor is its answer lost, if it comes after all."""

import threading
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final

from cronce.model import Boot
from cronce.runtime.node import Node
from cronce.stores.base import Store

if TYPE_CHECKING:
    from cronce.runtime.keeper import RepeatingThread

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
