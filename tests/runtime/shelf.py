"""A store and a clock that a test turns by hand, and a wire that can be cut."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TypeVar

from cronce import Cronce
from cronce.clock import SystemClock
from cronce.errors import StoreReadOnly, StoreUnavailable
from cronce.events import Event
from cronce.model import Slot, Traits, Write
from cronce.protocol.lease import Sample
from cronce.protocol.notices import Holder
from cronce.protocol.store_clock import Believed
from cronce.protocol.terms import Terms
from cronce.runtime.flow import Flow, drive
from cronce.runtime.interrupt import shielded
from cronce.runtime.ledger import Grant, Ledger, Refused, Wanted
from cronce.runtime.scheduling.roster import Roster, Specs, digest_of
from cronce.stores.base import Loaded, Swapped
from cronce.stores.memory import MemoryStore

T = TypeVar("T")
START = datetime(2026, 3, 29, 12, 0, 0, tzinfo=UTC)
SLOT = Slot("billing", START)
DURABLE = Traits("test")
FORGETFUL = Traits("test", durable=False)
LEASE = timedelta(seconds=10)


class HandClock:
    """One clock for everybody: the test turns it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.back = 0.0  # how far the store's clock was stepped back, and the machines' with it
        self.leap = timedelta(0)  # of the store's clock alone
        self.kept = True  # the kernel says that the clock is synchronised

    def boot(self) -> float:
        return 5000.0 + self.seconds

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.seconds - self.back)

    def store(self) -> datetime:
        return self.wall() + self.leap

    def synchronised(self) -> bool:
        return self.kept

    def turn(self, seconds: float) -> None:
        self.seconds += seconds


class Ahead(SystemClock):
    """The machine's clock, and a test may put it forward."""

    seconds = 0.0

    def boot(self) -> float:
        return super().boot() + self.seconds

    def put_forward(self, cron: Cronce, seconds: float) -> None:
        """So long later, nothing was renewed in between; whoever watches over leases looks now."""
        with shielded():  # it may be the caller's lease that is over
            know = cron.at_work().node.ledger.know
            now = know.now()
            self.seconds += seconds
            know._believed = Believed(Sample(self.boot(), self.boot(), now))  # the store's clock did not go on
            cron.at_work()._watching.wake()


class Wire(MemoryStore):
    """The memory store behind a wire: calls are counted, and can be lost before or after they landed."""

    def __init__(self, clock: HandClock, traits: Traits = DURABLE, *, on_purpose: bool = True) -> None:
        super().__init__(clock.store, traits, on_purpose=on_purpose)
        self.clock = clock
        self.calls: list[str] = []
        self.lose: Callable[[str], str] = lambda _call: ""
        self.slow = 0.0
        self.hung: Callable[[], object] = lambda: None
        """What happens while the next write hangs, before it lands."""

    def _through(self, name: str, call: Callable[[], T]) -> T:
        self.calls.append(name)
        fate = self.lose(name)
        if fate == "before":
            raise StoreUnavailable("the call was lost")
        reply = call()
        if fate == "after":
            raise StoreUnavailable("the reply was lost")
        self.clock.turn(self.slow)
        return reply

    def load(self, keys: Sequence[str]) -> Loaded:
        return self._through("load", lambda: super(Wire, self).load(keys))

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        meanwhile, self.hung = self.hung, lambda: None
        meanwhile()
        return self._through("swap", lambda: super(Wire, self).swap(writes, seen))

    def lose_next(self, call: str, fate: str, times: int = 1) -> None:
        """The next calls of that name are lost, before or after they landed."""
        left = [times]

        def lose(name: str) -> str:
            if name != call or not left[0]:
                return ""
            left[0] -= 1
            return fate

        self.lose = lose


class ReadOnly(Wire):
    """Answers every question, and takes no write while it is told to."""

    refuses = False

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        if self.refuses:
            self.calls.append("swap")
            raise StoreReadOnly("this store is a replica")
        return super().swap(writes, seen)


class HandNode:
    """A process at a store: its ledger, and what it reported."""

    _nonces = count(1)

    def __init__(self, store: Wire, name: str = "web-1") -> None:
        self.store = store
        self.events: list[Event] = []
        self.ledger = Ledger(store.traits, store.clock, name, lambda: f"{next(self._nonces):016x}", self.events.append)

    def do(self, flow: Flow[T]) -> T:
        return drive(flow, self.store, self.store.clock)


def terms(**changes: object) -> Terms:
    return Terms(LEASE, outside=True)._replace(**changes)  # type: ignore[arg-type]


def claim(node: HandNode, slot: Slot = SLOT, **changes: object) -> Grant | Refused:
    return node.do(node.ledger.claim([Wanted(slot, terms(**changes))]))[0]


def granted(node: HandNode, slot: Slot = SLOT, **changes: object) -> Grant:
    grant = claim(node, slot, **changes)
    assert isinstance(grant, Grant), grant
    return grant


def beat(node: HandNode, specs: Specs) -> None:
    """A scheduler that carries these versions says that it is alive."""
    me = Holder(node.ledger.client.holder, digest_of(specs), "both", 1, {}, START, "")
    node.do(Roster(node.ledger.client, node.ledger.jobs).beat(me, specs, 0.0))
