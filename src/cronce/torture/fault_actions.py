"""How each fault is made and undone: signals to processes, connections that fail, locks, orders to schedulers."""

import sqlite3
import threading
from collections.abc import Callable, Mapping
from typing import Final

from cronce.clock import Clock
from cronce.errors import CronceError
from cronce.testing.child_processes import ChildProcesses
from cronce.torture.plan import DEPLOYS, LIFE, NETWORK_FAULTS, SIGNALS, Fault, Kind
from cronce.torture.proxy import Link
from cronce.value import NamedTuple

Hook = Callable[[], None]

DROPS: Final = 3
"""Replies that are swallowed, one after the other."""

LATEST: Final = 0.3
"""Seconds that bytes are late at most, each way."""

CALM: Final = 0.2
"""Seconds after which what was on its way to the store has arrived."""

ENDS_WITHIN: Final = 20.0
"""Seconds in which a process that is asked to end must have ended, whatever else goes wrong."""

ENDINGS: Final[tuple[Kind, ...]] = ("roll", *DEPLOYS)


class InjectedFault(NamedTuple):
    """A fault as it happened: to whom ("": to all; or a colour), and from when to when on the boot clock."""

    kind: Kind
    who: str
    began: float
    ended: float


class SchedulerOrders(NamedTuple):
    """What schedulers can be told besides signals. Draining may find the store busy: then it returns False."""

    drain: Callable[[str], bool]
    """Those of a colour claim no more."""
    undrain: Callable[[str], bool]
    release: Callable[[str, Kind], None]
    """A process comes back with the version that was deployed, or the one before."""
    listens: Callable[[str], bool]
    """Whether a process is ready: one that is not is killed instead of asked to end."""


class FaultTools(NamedTuple):
    """What faults are made with."""

    crew: ChildProcesses
    links: Mapping[str, Link]
    """By the name of the process; empty where there is no proxy."""
    start: Callable[[str], None]
    """A process that was killed comes back."""
    hooks: Mapping[Kind, Hook]
    """What restarts or empties the store."""
    file: str | None = None
    """The store's, if it is a file that can be locked."""
    orders: SchedulerOrders | None = None
    """If the processes are schedulers."""


class FaultActions:
    def __init__(self, props: FaultTools, clock: Clock) -> None:
        self._props, self._clock = props, clock
        self._lock: sqlite3.Connection | None = None
        self._drained = False
        self._stopped: set[str] = set()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What can be done here."""
        network = NETWORK_FAULTS if self._props.links else ()
        lock: tuple[Kind, ...] = ("lock",) if self._props.file else ()
        life = (*LIFE, *DEPLOYS) if self._props.orders else ()
        return (*SIGNALS, *network, *lock, *self._props.hooks, *life)

    def begin(self, fault: Fault, who: str) -> bool:
        """Do it; whether it could be done."""
        match fault.kind:
            case "lock":
                return self._take_lock()
            case "drain":
                return self._drain(who)
            case "restart" | "empty":
                self._props.hooks[fault.kind]()
            case "drop" | "delay" | "cut" | "outage":
                self._disturb(fault, who)
            case _:
                self._signal(fault.kind, who)
        return True

    def can_end(self, deed: InjectedFault) -> bool:
        """Whether what it waits for has happened."""
        if deed.kind in ENDINGS:
            if self._clock.boot() > deed.began + ENDS_WITHIN:
                raise CronceError(f"{deed.who} was asked to end {ENDS_WITHIN:.0f} s ago, and still runs")
            return self._props.crew.has_ended(deed.who)
        return deed.kind != "drain" or self._undrain(deed.who)

    def end(self, deed: InjectedFault) -> None:
        match deed.kind:
            case "kill" | "roll" | "deploy" | "rollback":
                self._props.start(deed.who)
            case "pause":
                self._stopped.discard(deed.who)
                self._props.crew.go_on(deed.who)
            case "drop" | "delay" | "cut":
                self._mend(deed.kind, self._props.links[deed.who])
            case "outage":
                self.heal_all()
            case "lock":
                self.close()
            case _:
                pass

    # --- processes ---

    def _signal(self, kind: Kind, who: str) -> None:
        crew = self._props.crew
        match kind:
            case "kill":
                crew.kill(who)
            case "pause":
                crew.stop(who)
                self._stopped.add(who)
            case "blackout":
                self._stopped.clear()
                for name in crew.names:
                    crew.kill(name)
            case "roll" | "deploy" | "rollback":
                assert self._props.orders is not None
                if kind != "roll":
                    self._props.orders.release(who, kind)
                crew.ask_to_end(who)

    # --- schedulers ---

    @property
    def _blocked(self) -> bool:
        """Whether the file is locked, or may be by a process that is paused: waiting for that would not end."""
        return self._lock is not None or (self._props.file is not None and bool(self._stopped))

    def _drain(self, colour: str) -> bool:
        """One colour at a time."""
        assert self._props.orders is not None
        if self._drained or self._blocked:
            return False
        self._drained = self._props.orders.drain(colour)
        return self._drained

    def _undrain(self, colour: str) -> bool:
        assert self._props.orders is not None
        if self._blocked:
            return False
        self._drained = not self._props.orders.undrain(colour)
        return not self._drained

    # --- connections ---

    def _disturb(self, fault: Fault, who: str) -> None:
        match fault.kind:
            case "drop":
                self._props.links[who].drops = DROPS
            case "delay":
                self._props.links[who].delay = LATEST * fault.dice
            case "cut":
                self._props.links[who].cut()
            case _:
                self.cut_all()

    def _mend(self, kind: Kind, link: Link) -> None:
        match kind:
            case "drop":
                link.drops = 0
            case "delay":
                link.delay = 0.0
            case _:
                link.heal()

    def cut_all(self) -> None:
        for link in self._props.links.values():
            link.cut()

    def heal_all(self) -> None:
        for link in self._props.links.values():
            link.heal()

    def in_calm(self, work: Hook) -> None:
        """While nothing is on its way to the store."""
        self.cut_all()
        threading.Event().wait(CALM)
        try:
            work()
        finally:
            self.heal_all()

    # --- the file ---

    def _take_lock(self) -> bool:
        """Whether it was free: a process that was stopped in the middle of a commit has it, or an earlier fault."""
        assert self._props.file is not None
        if self._lock is not None:
            return False
        self._lock = sqlite3.connect(self._props.file, timeout=0.1, isolation_level=None)
        try:
            self._lock.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            self.close()
            return False
        return True

    def close(self) -> None:
        """Whatever happened, the file's lock is not kept."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
