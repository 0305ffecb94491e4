"""What the referee sees of takeovers: the living are heard first, and the dead do not keep others waiting."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import lru_cache
from typing import Final, Protocol

from cronce.model import Cell, Fence, slot_of_cell
from cronce.protocol.lease import PIECE, Sample, heard, hearing, tolerance
from cronce.protocol.record import LAPSED, Outcome, Record
from cronce.protocol.record import decode as decode_record
from cronce.runtime.ledger import Ledger
from cronce.testing.world import TRIP, SimulatedProcess, World

ABLE: Final = 1.0
"""Seconds. A process that could write for this long has written all it had to write."""

OUTAGE_NOTICED: Final = 2.5
"""Seconds that the store must be away for others to notice."""

RENEWAL: Final = "renewal"
LOOK_THREAD: Final = "look"
"""Threads that speak up for what a process holds, and look after what others left."""

TAKEN_OVER_WITHIN: Final = 3.0
"""Seconds of contact, besides the hearing, in which runs of dead holders are taken over."""

AT_NEXT_LOOK: Final = 3.0
"""Seconds of contact in which they are, once enough was heard: it is looked every second, and a look takes a while."""

decode = lru_cache(1000)(decode_record)


class HolderSeenByReferee(Protocol):
    """A process that was granted something, and may act on what others left."""

    process: SimulatedProcess
    ledger: Ledger

    def wants(self, key: str, fence: Fence) -> bool:
        """Whether it has a write to make for that grant, or will have."""
        ...

    def able_since(self, who: str) -> float:
        """Since when it reaches the store, and that thread of it is not stuck in a call."""
        ...

    def hung_until(self, who: str) -> float:
        """When that thread of it last came back from a call in which it was stuck."""
        ...


class Takeovers:
    def __init__(self, world: World, broken: Callable[[str, str], None], *, asks_database: bool = False) -> None:
        self._world, self._broken, self._asks_database = world, broken, asks_database
        self._waited: defaultdict[tuple[str, Fence, str], float] = defaultdict(float)
        """Seconds, by grant and by process that could have acted on it."""
        self._ripe: defaultdict[tuple[str, Fence, str], float] = defaultdict(float)
        """Seconds of them in which enough was heard."""
        self.holders: dict[Fence, HolderSeenByReferee] = {}

    def saw(self, old: Cell, record: Record) -> None:
        """A write changed a run that was going on. No process may act on the silence of a holder that
        could write for a second; nor, if the store was unreachable for all processes until now, of a holder that can
        write again."""
        assert old.fence is not None
        lapsed = any(past.fence == old.fence and past.end == LAPSED for past in record.past[-1:])
        if not (lapsed or record.outcome is Outcome.LOST):
            return
        self._check_hearing(old.key, record)
        holder = self.holders.get(old.fence)
        if holder is None or not holder.wants(old.key, old.fence):
            return
        outage, since = self._world.outage, holder.able_since(RENEWAL)
        able, away = self._world.real - since, outage.until == since and outage.until - outage.since >= OUTAGE_NOTICED
        if able >= (0.0 if away else ABLE):
            self._broken("a living holder is heard first", f"{old.key} of {holder.process.name}, for {able:.1f} s able")

    def _check_hearing(self, key: str, record: Record) -> None:
        """Right after an outage for all processes, none can know which holders are dead. (A call from before may be
        late.)"""
        outage, real = self._world.outage, self._world.real
        began = self._world.right_now() - timedelta(seconds=real - outage.since)
        decided = record.finished or record.started
        late = decided is not None and decided < began
        if outage.until - outage.since >= OUTAGE_NOTICED and outage.until <= real < outage.until + PIECE and not late:
            self._broken("after an outage holders are heard", f"{key}, {real - outage.until:.2f} s after it")

    def look(self, holders: Iterable[HolderSeenByReferee], seconds: float) -> None:
        """Whose holder is gone is taken over, or closed as lost, within the hearing and some seconds of contact. Where
        the user's database is asked first, it may be away."""
        now, base = self._world.store_now(), self._world.store.dump()[1].base
        for cell in () if self._asks_database else self._world.store.open_runs():
            if cell.until is None or now < cell.until or cell.version <= base or cell.fence is None:
                continue
            if now < slot_of_cell(cell.key).at:
                continue  # the clock was set back since: no slot is granted before its instant
            record, holder = decode(cell.value), self.holders.get(cell.fence)
            if record.is_running and (holder is None or not holder.wants(cell.key, cell.fence)):
                for other in holders:
                    self._wait(cell, record, other, seconds)

    def _wait(self, cell: Cell, record: Record, other: HolderSeenByReferee, seconds: float) -> None:
        """A process that doubts the store's clock takes nothing over, however evenly the clock has run since: a process
        that started during a jump has seen no other clock. A process that hung in a call, or did not reach the store,
        was out of contact. What it had heard counts, but it also needs a piece of contact just now (`lease.heard`): it
        gets that and some seconds more, each time."""
        know, process, key, fence = other.ledger.know, other.process, cell.key, cell.fence
        if fence is None or fence in know.own or know.doubt is not None:
            return
        if self._world.real - other.able_since(LOOK_THREAD) < ABLE:
            return
        if know.even(self._loosest_reading(process), tolerance(record.lease)) < record.lease:
            return
        self._check_sum(cell, record, other, seconds)
        self._waited[key, fence, process.name] += seconds
        is_late = self._waited[key, fence, process.name] > hearing(record.lease).total_seconds() + TAKEN_OVER_WITHIN
        if is_late and self._had_time(other.able_since(LOOK_THREAD)):
            self._broken("the dead are taken over soon", f"{key} of {record.holder}, but not by {process.name}")

    def _loosest_reading(self, process: SimulatedProcess) -> Sample:
        """The least that a look at this moment can prove of the clock. A reading bounds the store's clock only to
        within its request and its reply, so it adds up to 2 × TRIP to what a nudge and drift have used of the
        tolerance. Whatever this one shows as even, any reading of a look does. A guess bounds the clock to a point, and
        leaves out what it drifted since the last reply: by a guess a clock ran evenly that no reading of the process
        proved even. (Lease 6 s, tolerance 0.6 s: a nudge of 0.47 s, drift of 1.8 % over 6 s and two trips of up to
        0.02 s are 0.62 s, until the nudge is a lease ago.)"""
        boot, trip = process.boot(), TRIP * process.machine.rate
        return Sample(boot - trip, boot + trip, self._world.store_now())

    def _had_time(self, since: float) -> bool:
        """For a piece of contact, and some seconds more."""
        return self._world.real - since > ABLE + PIECE + TAKEN_OVER_WITHIN

    def _check_sum(self, cell: Cell, record: Record, other: HolderSeenByReferee, seconds: float) -> None:
        """The heard time adds up over the pieces of contact: once it is enough, a process that looks acts."""
        know, name = other.ledger.know, other.process.name
        assert cell.fence is not None
        assert cell.until is not None
        boot, ago = know.guess().began, max(know.now() - cell.until, timedelta(0)) + record.lease
        if heard(know.contact.pieces, boot - ago.total_seconds(), boot) < hearing(record.lease):
            return
        self._ripe[cell.key, cell.fence, name] += seconds
        is_late = self._ripe[cell.key, cell.fence, name] > AT_NEXT_LOOK
        if is_late and self._had_time(other.hung_until(LOOK_THREAD)):
            self._broken("what was heard adds up", f"{cell.key} of {record.holder} was not taken over by {name}")
