"""What is done to the processes and to the store, as the plan says: begun when its time has come, and ended."""

from collections.abc import Iterable
from typing import Final

from cronce.clock import Clock
from cronce.testing.ledger_file import LedgerLine
from cronce.torture.fault_actions import ENDINGS, FaultActions, FaultTools, Hook, InjectedFault
from cronce.torture.plan import DEPLOYS, Fault, Kind

EVERYBODY: Final = ""
COLOURS: Final = ("blue", "green")

MIDDLE: Final = 1.5
"""Seconds that a fault waits for a process to be in the middle of a run."""

DEATHS: Final[tuple[Kind, ...]] = ("kill", "pause", *ENDINGS)
"""What no longer matters to a process once it is killed with all others."""


class Faults:
    def __init__(self, names: Iterable[str], props: FaultTools, clock: Clock) -> None:
        self._names, self._props, self._clock = tuple(names), props, clock
        self._means = FaultActions(props, clock)
        self.deeds: list[InjectedFault] = []
        self._waiting: list[Fault] = []
        self._rolling: list[tuple[Kind, str]] = []
        self._active: list[tuple[float, InjectedFault]] = []
        self._bodies: dict[str, set[tuple[str, str]]] = {name: set() for name in self._names}
        self._zero = 0.0

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What can be done here."""
        return self._means.kinds

    @property
    def left(self) -> bool:
        return bool(self._waiting or self._active or self._rolling)

    def begin(self, faults: Iterable[Fault], zero: float) -> None:
        """Their times count from `zero` on the boot clock."""
        self._waiting, self._zero = list(faults), zero

    def look(self, new: Iterable[LedgerLine]) -> None:
        """Do what is due."""
        for line in new:
            self._follow(line)
        boot = self._clock.boot()
        for until, deed in [*self._active]:
            if until <= boot and self._means.can_end(deed):
                self._end(until, deed)
        for fault in [*self._waiting]:
            if self._zero + fault.at <= boot:
                self._try(fault, boot)
        self._roll_on(boot)

    def end_all(self) -> None:
        """If something is left when the time is over: who was asked to end is not waited for."""
        self._waiting, self._rolling = [], []
        for until, deed in [*self._active]:
            if deed.kind in ENDINGS:
                self._props.crew.kill(deed.who)
            self._end(until, deed)

    def in_calm(self, work: Hook) -> None:
        """While nothing is on its way to the store."""
        self._means.in_calm(work)

    def close(self) -> None:
        """Whatever happened, the file's lock is not kept."""
        self._means.close()

    # --- who ---

    def _follow(self, line: LedgerLine) -> None:
        bodies = self._bodies[line.who]
        if line.what == "start":
            bodies.add((line.slot, line.fence))
        elif line.what in ("done", "stopped"):
            bodies.discard((line.slot, line.fence))

    def _whom(self, fault: Fault, boot: float) -> str | None:
        """None: all that it could hit are hit by another fault, or none is in the middle of a run yet."""
        if fault.kind in self._props.hooks or fault.kind in ("outage", "lock", "blackout"):
            return EVERYBODY
        if fault.kind == "drain":
            return COLOURS[int(fault.dice * len(COLOURS))]
        free = self._listening() if fault.kind == "roll" else self._unhit()
        late = boot > self._zero + fault.at + MIDDLE
        chosen = [name for name in free if self._bodies[name]] or (free if late else [])
        return chosen[int(fault.dice * len(chosen))] if chosen else None

    def _unhit(self) -> list[str]:
        if any(deed.kind == "blackout" for _, deed in self._active):
            return []
        hit = {deed.who for _, deed in self._active}
        return [name for name in self._names if name not in hit]

    def _listening(self) -> list[str]:
        assert self._props.orders is not None
        return [*filter(self._props.orders.listens, self._unhit())]

    # --- when ---

    def _try(self, fault: Fault, boot: float) -> None:
        if fault.kind in DEPLOYS:
            self._waiting.remove(fault)
            self._rolling = [(fault.kind, name) for name in self._names]
            return
        who = self._whom(fault, boot)
        if who is not None:
            self._waiting.remove(fault)
            self._begin(fault, who, boot)

    def _roll_on(self, boot: float) -> None:
        """Of a deploy, the next process: one at a time."""
        if not self._rolling or any(deed.kind in DEPLOYS for _, deed in self._active):
            return
        listening = self._listening()
        for kind, name in [one for one in self._rolling if one[1] in listening][:1]:
            self._rolling.remove((kind, name))
            self._begin(Fault(kind, 0.0), name, boot)

    def _begin(self, fault: Fault, who: str, boot: float) -> None:
        if fault.kind == "blackout":
            self._forget_deaths()
        if self._means.begin(fault, who):
            self._active.append((boot + fault.lasts, InjectedFault(fault.kind, who, boot, boot)))
        for name in self._names if fault.kind == "blackout" else [who] if fault.kind in ("kill", *ENDINGS) else []:
            self._bodies[name].clear()

    def _forget_deaths(self) -> None:
        for until, deed in [*self._active]:
            if deed.kind in DEATHS:
                self._active.remove((until, deed))
                self.deeds.append(deed._replace(ended=self._clock.boot()))

    def _end(self, until: float, deed: InjectedFault) -> None:
        self._active.remove((until, deed))
        self.deeds.append(deed._replace(ended=self._clock.boot()))
        self._means.end(deed)
        for name in self._names if deed.kind == "blackout" else ():
            self._props.start(name)
