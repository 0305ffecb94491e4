"""A world under virtual time: machines with clocks of their own, a network that loses and delays, a store that forgets.

Everything that production code sees of the world is here: the clock it asks, the replies it gets and does not get. The
code itself is the real one. One seed is one history: the same seed always plays the same, to the last call.

A *thread* of the world is a generator that yields `Sleep` or a request of a flow. A process that is paused, suspended
or killed simply is not resumed; what it had sent is on its way all the same.
"""

import random
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, Literal, NamedTuple, TypeVar

from cronce.errors import StoreUnavailable
from cronce.model import Cell, Epoch, Instant, Mark, Origin, Traits, Write, to_us
from cronce.runtime.flow import Purge, Reply, Request, Swap, Timed, perform
from cronce.stores.base import Swapped, next_life
from cronce.stores.memory import MemoryStore

WORLD_START: Final = datetime(2026, 3, 29, 0, 0, 0, tzinfo=UTC)
WORLD_TIMEOUT: Final = 5.0
"""How long a caller waits for the store."""

TRIP: Final = 0.02
"""Seconds that a call takes there, and its reply back, at most, if nothing happens to them."""


T = TypeVar("T")

Dump = tuple[dict[str, Cell], Epoch, Instant]
"""A model store as it was: its cells, its epoch, its last write."""


class Sleep(NamedTuple):
    seconds: float


Answer = Callable[[Any], None]


class ArrivedReply(NamedTuple):
    """A reply of the store that has come, and waits for its process to read it."""

    reply: Reply
    began: float


class OutsideMessage(NamedTuple):
    """A message to a receiver other than the store. When it arrives it is delivered, with a way to answer: by a value,
    or by an exception to be raised. Without an answer `silence` is raised."""

    deliver: Callable[[Answer], None]
    silence: Exception
    patience: float = WORLD_TIMEOUT
    risk: float = 1.0  # that something happens to it, compared to a call of the store


Wish = Sleep | Request | OutsideMessage
Play = Generator[Wish, Any, T]
"""What a thread does, or a part of it."""

Thread = Play[None]


How = Literal["silent", "refusing", "read-only"]


class SimulatedOutage(NamedTuple):
    """From when to when the store is away: it is silent, refuses calls, or refuses to write."""

    since: float = 0.0
    until: float = 0.0
    how: How = "silent"

    def over_by(self, real: float) -> "SimulatedOutage":
        return self._replace(until=min(self.until, real))

    def refuses(self, real: float, request: Request) -> bool:
        return real < self.until and (self.how != "read-only" or isinstance(request, Swap | Purge))


NO_OUTAGE: Final = SimulatedOutage()


@dataclass(eq=False)
class SimulatedMachine:
    """A host: its boot clock drifts, its wall clock is off, and it can be suspended."""

    name: str
    rate: float
    boot_offset: float
    wall_offset: timedelta
    outage: SimulatedOutage = NO_OUTAGE  # of the way from here to the store
    suspended: float = 0.0  # seconds spent in suspend: only a clock that stops there notices


@dataclass(eq=False)
class SimulatedProcess:
    """A process on a machine. It gets no time while paused; when dead, never again."""

    name: str
    machine: SimulatedMachine
    world: "World"
    alive: bool = True
    paused_until: float = 0.0
    dead_lines: int = 0  # of its connections, so many have died without a word: a call hangs in each

    @property
    def gone(self) -> bool:
        """Nothing more happens in it: what is left of its threads is only tidied up."""
        return not self.alive or self.world.over

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self.world.real + seconds)

    @property
    def reaches_since(self) -> float:
        """Since when it can reach the store."""
        return max(self.paused_until, self.world.outage.until, self.machine.outage.until)

    def boot(self) -> float:
        return self.machine.boot_offset + self.world.real * self.machine.rate

    def wall(self) -> datetime:
        return WORLD_START + timedelta(seconds=self.world.real + self.world.wall_offset) + self.machine.wall_offset

    def synchronised(self) -> bool:
        return True


class ModelStore(MemoryStore):
    """The memory store on the world's clock, which can be emptied, and set back to what it was."""

    def __init__(self, world: "World", traits: Traits) -> None:
        self._world = world
        super().__init__(world.store_now, traits)
        self.watch: Callable[[Sequence[Write], Swapped, dict[str, Cell]], None] = lambda *_: None
        self.purged: Callable[[Sequence[str]], None] = lambda _keys: None
        self.forgot: Callable[[], None] = lambda: None

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        before = {write.key: self._cells.get(write.key) or Cell(write.key) for write in writes}
        swapped = super().swap(writes, seen)
        self.watch(writes, swapped, before)
        return swapped

    def purge(self, cells: Sequence[Cell]) -> int:
        before = set(self._cells)
        gone = super().purge(cells)
        self.purged(sorted(before - set(self._cells)))
        return gone

    def cells(self, prefix: str) -> list[Cell]:
        return [cell for key, cell in sorted(self._cells.items()) if key.startswith(prefix)]

    def open_runs(self) -> list[Cell]:
        return [cell for key, cell in self._cells.items() if cell.mark is Mark.OPEN and key.startswith("run/")]

    def dump(self) -> Dump:
        return dict(self._cells), self._epoch, self._last_write

    def empty(self) -> None:
        """A cache was flushed, or came back without its disk: it is born again, and knows nothing."""
        self._cells = {}
        self._epoch = Epoch(max(to_us(self._clock()), self._epoch.birth + 1), origin=Origin.FOUND)
        self._last_write = self._epoch.born
        self.forgot()

    def restore(self, dump: Dump) -> None:
        """An old dump, or a replica that lagged: the server's identity has changed, so a new life begins. (If there is
        no identity, the next writer that knows more detects it; until then no process can see it, and nothing is
        promised.)"""
        self._cells, self._epoch, self._last_write = dict(dump[0]), dump[1], dump[2]
        self._epoch = next_life(to_us(self._clock()), self._epoch.seen, self._epoch, self._last_write)
        self.forgot()


class World:
    """Virtual time, and everything that happens in it."""

    def __init__(self, seed: int, traits: Traits) -> None:
        self.random = random.Random(seed)
        self.real = 0.0
        self.faults: Counter[str] = Counter()
        self.calls = 0
        self.trace: list[str] = []
        self.tracing = False
        self.calm = False
        self.over = False
        self.last_slot = datetime.max.replace(tzinfo=UTC)
        self.outage = NO_OUTAGE  # for everybody
        self.store_rate = 1.0 + self.random.uniform(-0.015, 0.015)
        self.store_offset = 0.0
        self.store_leap = timedelta(0)  # it is wrong by so much, for a while
        self.wall_offset = 0.0  # of all machines
        self.machines: list[SimulatedMachine] = []
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._threads: list[Thread] = []
        self.store = ModelStore(self, traits)

    # --- time ---

    def store_now(self) -> Instant:
        return self.right_now() + self.store_leap

    def right_now(self) -> Instant:
        """The store's time, if its clock were right."""
        return WORLD_START + timedelta(seconds=self.real * self.store_rate + self.store_offset)

    def at(self, real: float, action: Callable[[], None]) -> None:
        heappush(self._heap, (real if real > self.real else self.real, next(self._order), action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        heappush(self._heap, (self.real + seconds, next(self._order), action))

    def run(self, until: float) -> None:
        """Play everything up to that time."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.real, _, action = heappop(heap)
            action()
        self.real = until

    def end(self) -> None:
        """Nothing more happens. What is left of the threads ends one after the other, each from its outermost frame:
        were that left to the collector, an inner one might be closed while it closes."""
        self.over = True
        self._heap.clear()
        for thread in self._threads:
            thread.close()
        self._threads.clear()

    def chance(self, probability: float) -> bool:
        return not self.calm and self.random.random() < probability

    def fault(self, kind: str, what: str = "") -> None:
        self.faults[kind] += 1
        self.say("FAULT {} {}", kind, what)

    def go_away(self, outage: SimulatedOutage) -> None:
        """The store is away for everybody. If it is away already, it stays so as it is, and for as long at least."""
        before = self.outage
        goes_on = self.real < before.until
        self.outage = before._replace(until=max(before.until, outage.until)) if goes_on else outage

    def say(self, text: str, *told: object) -> None:
        """For the trace, if there is one."""
        if self.tracing:
            text = text.format(*told) if told else text
            self.trace.append(f"{self.real:9.3f} [{self.store_now():%H:%M:%S.%f}] {text}")

    # --- machines ---

    def machine(self, name: str) -> SimulatedMachine:
        machine = SimulatedMachine(
            name,
            rate=1.0 + self.random.uniform(-0.015, 0.015),
            boot_offset=self.random.uniform(100, 100_000),
            wall_offset=timedelta(seconds=self.random.uniform(-0.4, 0.4)),
        )
        self.machines.append(machine)
        return machine

    # --- threads ---

    def start(self, process: SimulatedProcess, thread: Thread) -> None:
        self._threads.append(thread)
        self.after(0.0, partial(self._resume, process, thread, None))

    def _resume(self, process: SimulatedProcess, thread: Thread, value: Any, error: Exception | None = None) -> None:
        if not process.alive:
            return
        if process.paused_until > self.real:
            self.at(process.paused_until, partial(self._resume, process, thread, value, error))
            return
        if type(value) is ArrivedReply:  # a reply is dated when the process gets to read it
            value = Timed(value.reply, value.began, process.boot())
        try:
            wish = thread.throw(error) if error is not None else thread.send(value)
        except StopIteration:
            return
        if isinstance(wish, Sleep):
            self.after(wish.seconds / process.machine.rate, partial(self._resume, process, thread, None))
        else:
            self._call(process, thread, wish)

    # --- the network ---

    def _call(self, process: SimulatedProcess, thread: Thread, wish: Request | OutsideMessage) -> None:
        """A call on its way: it may fail, arrive late, or lose its reply; the caller waits no longer than it is
        patient."""
        began = process.boot()
        waits = True

        def answer(value: Any) -> None:
            nonlocal waits
            if not waits:
                return
            waits = False
            if isinstance(value, Exception):
                self._resume(process, thread, None, value)
            else:
                self._resume(process, thread, value if isinstance(wish, OutsideMessage) else ArrivedReply(value, began))

        def answers(value: Any) -> None:
            if back is not None:
                self.after(back, partial(answer, value))

        there, back = self._delays(wish)
        if process.dead_lines and not isinstance(wish, OutsideMessage):
            process.dead_lines -= 1
            there = None
        if isinstance(wish, OutsideMessage):
            deliver, silence, patience = wish.deliver, wish.silence, wish.patience
        else:
            self.calls += 1
            deliver, silence, patience = (
                partial(self._ask_store, process, wish),
                StoreUnavailable("no answer"),
                WORLD_TIMEOUT,
            )
        if there is not None:
            self.after(there, partial(deliver, answers))
        self.after(patience, partial(answer, silence))

    def _delays(self, wish: Request | OutsideMessage) -> tuple[float | None, float | None]:
        """Seconds there and back; None is never."""
        there, back = self.random.uniform(0.0005, TRIP), self.random.uniform(0.0005, TRIP)
        risk = wish.risk if isinstance(wish, OutsideMessage) else 1.0
        if self.chance(0.01 * risk):
            self.fault("failed call")
            return None, None
        if self.chance(0.015 * risk):
            self.fault("lost reply", type(wish).__name__)
            return there, None
        if self.chance(0.01 * risk):
            self.fault("late call")  # overtaken by later ones; the caller has long given up
            return self.random.uniform(WORLD_TIMEOUT, self.random.choice([2, 5, 30]) * WORLD_TIMEOUT), None
        if self.chance(0.02 * risk):
            self.fault("slow reply")
            return there, self.random.uniform(0.5, WORLD_TIMEOUT - 0.1)
        if isinstance(wish, OutsideMessage) and self.chance(0.02 * risk):
            self.fault("slow message")
            return self.random.uniform(0.5, WORLD_TIMEOUT - 0.1), back
        return there, back

    def _ask_store(self, process: SimulatedProcess, request: Request, answer: Answer) -> None:
        for outage in (self.outage, process.machine.outage):
            if outage.refuses(self.real, request):
                if outage.how != "silent":
                    answer(StoreUnavailable(f"the store is {outage.how}"))
                return
        reply = perform(self.store, request)
        if self.tracing and isinstance(request, Swap | Purge):
            self.say(_brief(request, reply))
        answer(reply)


def _brief(request: Request, reply: Reply) -> str:
    """A call that wrote, on one line, for the trace of a failing seed."""
    if not isinstance(request, Swap) or not isinstance(reply, Swapped):
        return f"{request} -> {reply}"
    return " | ".join(
        f"{write.key} v{write.seen} {write.mark.name} {write.value} -> {verdict.refused or verdict.cell.version}"
        for write, verdict in zip(request.writes, reply.verdicts, strict=True)
    )
