"""A process at a store: its name, its clock, its ledger, and a way to do things."""

import os
import re
from collections.abc import Callable
from typing import TypeVar

from cronce.clock import Clock
from cronce.events import Event
from cronce.runtime.current import Around, around_nothing
from cronce.runtime.flow import Flow, drive
from cronce.runtime.ledger import Ledger
from cronce.stores.base import Store

T = TypeVar("T")


def host_name() -> str:
    """This machine's name, fit to be part of a key."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", os.uname().nodename)[:64] or "host"


def holder_name(clock: Clock) -> str:
    """Host, process, and when it came to the store: a name for people, it decides nothing."""
    return f"{host_name()}:{os.getpid()}:{int(clock.boot() * 1_000_000):x}"


class Desk:
    """One per process: a forked child makes its own. `connect` opens a connection for another thread to have alone."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        connect: Callable[[], Store],
        report: Callable[[Event], None],
        holder: str = "",
        *,
        around: Around = around_nothing,
    ) -> None:
        self.store = store
        self.clock = clock
        self.connect = connect if store.traits.shared else lambda: store
        self.holder = holder or holder_name(clock)
        self.around = around
        self.ledger = Ledger(store.traits, clock, self.holder, report=report)

    def do(self, flow: Flow[T]) -> T:
        return drive(flow, self.store, self.clock)
