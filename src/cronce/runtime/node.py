"""This process as a node at a store: its name, its clock, its ledger, and how its flows are run."""

import os
import re
import threading
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from cronce.clock import Clock
from cronce.events import Event, What
from cronce.model import Boot
from cronce.runtime.flow import Flow, drive
from cronce.runtime.ledger import Ledger
from cronce.schedule import format_duration
from cronce.stores.base import Store

if TYPE_CHECKING:
    from cronce.runtime.run import Around

T = TypeVar("T")


def host_name() -> str:
    """This machine's name, fit to be part of a key."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", os.uname().nodename)[:64] or "host"


def holder_name(clock: Clock) -> str:
    """Host, process, and when it came to the store: a name for people, it decides nothing."""
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

    A call that got no answer raises, and its caller hears of it. But a body that works, and whose lease cannot be
    renewed, has nobody to raise to. Renewing is tried again many times in an outage, by several threads, and each try
    is one failure of the same.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._since: Boot | None = None
        self.heard: Boot = float("-inf")
        """When it last answered."""

    def unanswered(self, began: Boot, why: str) -> None:
        """A call that began then got no answer. One that began before the last answer came tells nothing new: it is of
        an outage that is over, and if there is another the next call will tell. Nor is a clock in doubt an outage."""
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
