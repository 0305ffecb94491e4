"""What is done to the processes and to the store, as the plan says: begun when its time has come, and ended."""

import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from cronce.clock import Clock
from cronce.testing.book import Line
from cronce.testing.crew import Crew
from cronce.torture.plan import NETWORK, SIGNALS, Fault, Kind
from cronce.torture.proxy import Link
from cronce.value import NamedTuple

Hook = Callable[[], None]

EVERYBODY: Final = ""

MIDDLE: Final = 1.5
"""Seconds that a fault waits for somebody to be in the middle of a body."""

DROPS: Final = 3
"""Replies that are swallowed, one after the other."""

LATEST: Final = 0.3
"""Seconds that bytes are late at most, each way."""

CALM: Final = 0.2
"""Seconds after which what was on its way to the store has arrived."""


class Deed(NamedTuple):
    """A fault as it happened: to whom ("": to all), and from when to when on the boot clock."""

    kind: Kind
    who: str
    began: float
    ended: float


class Props(NamedTuple):
    """What faults are made with."""

    crew: Crew
    links: Mapping[str, Link]
    """By the name of the process; empty where there is no proxy."""
    start: Callable[[str], None]
    """A process that was killed comes back."""
    hooks: Mapping[Kind, Hook]
    """What restarts or empties the store."""
    file: str | None = None
    """The store's, if it is a file that can be locked."""


class Faults:
    def __init__(self, names: Iterable[str], props: Props, clock: Clock) -> None:
        self._names, self._props, self._clock = tuple(names), props, clock
        self.deeds: list[Deed] = []
        self._waiting: list[Fault] = []
        self._active: list[tuple[float, Deed]] = []
        self._bodies: dict[str, set[tuple[str, str]]] = {name: set() for name in self._names}
        self._zero = 0.0
        self._lock: sqlite3.Connection | None = None

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What can be done here."""
        network = NETWORK if self._props.links else ()
        lock: tuple[Kind, ...] = ("lock",) if self._props.file else ()
        return (*SIGNALS, *network, *lock, *self._props.hooks)

    @property
    def left(self) -> bool:
        return bool(self._waiting or self._active)

    def begin(self, faults: Iterable[Fault], zero: float) -> None:
        """Their times count from `zero` on the boot clock."""
        self._waiting, self._zero = list(faults), zero

    def look(self, new: Iterable[Line]) -> None:
        """Do what is due."""
        for line in new:
            self._follow(line)
        boot = self._clock.boot()
        for until, deed in [*self._active]:
            if until <= boot:
                self._end(until, deed)
        for fault in [*self._waiting]:
            if self._zero + fault.at <= boot:
                self._try(fault, boot)

    def end_all(self) -> None:
        self._waiting = []
        for until, deed in [*self._active]:
            self._end(until, deed)

    # --- who ---

    def _follow(self, line: Line) -> None:
        bodies = self._bodies[line.who]
        if line.what == "start":
            bodies.add((line.slot, line.fence))
        elif line.what in ("done", "stopped"):
            bodies.discard((line.slot, line.fence))

    def _try(self, fault: Fault, boot: float) -> None:
        """Begin it, unless everybody it could hit is hit by another, or nobody is yet in the middle of a body."""
        if fault.kind in self._props.hooks or fault.kind in ("outage", "lock"):
            who: str | None = EVERYBODY
        else:
            who = self._victim(fault, late=boot > self._zero + fault.at + MIDDLE)
        if who is not None:
            self._waiting.remove(fault)
            if self._begin(fault, who):
                self._active.append((boot + fault.lasts, Deed(fault.kind, who, boot, boot)))

    def _victim(self, fault: Fault, *, late: bool) -> str | None:
        hit = {deed.who for _, deed in self._active}
        free = [name for name in self._names if name not in hit]
        chosen = [name for name in free if self._bodies[name]] or (free if late else [])
        return chosen[int(fault.dice * len(chosen))] if chosen else None

    # --- how ---

    def _begin(self, fault: Fault, who: str) -> bool:
        match fault.kind:
            case "kill":
                self._props.crew.kill(who)
                self._bodies[who].clear()
            case "pause":
                self._props.crew.stop(who)
            case "drop":
                self._props.links[who].drops = DROPS
            case "delay":
                self._props.links[who].delay = LATEST * fault.dice
            case "cut":
                self._props.links[who].cut()
            case "outage":
                self.cut_all()
            case "lock":
                return self._take_lock()
            case "restart" | "empty":
                self._props.hooks[fault.kind]()
        return True

    def _end(self, until: float, deed: Deed) -> None:
        self._active.remove((until, deed))
        self.deeds.append(deed._replace(ended=self._clock.boot()))
        match deed.kind:
            case "kill":
                self._props.start(deed.who)
            case "pause":
                self._props.crew.go_on(deed.who)
            case "drop":
                self._props.links[deed.who].drops = 0
            case "delay":
                self._props.links[deed.who].delay = 0.0
            case "cut":
                self._props.links[deed.who].heal()
            case "outage":
                self.heal_all()
            case "lock":
                self.close()
            case "restart" | "empty":
                pass

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
