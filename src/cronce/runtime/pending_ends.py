"""Ends of runs that the store has not taken yet. Each is written to this machine's disk (`journal`), and reported again
until it is on record, or another process has acted on the run. Until then this process never treats that run as gone.

Ends and calls that earlier processes of this machine left in the journal are reported with them.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress

from cronce.errors import BadInput
from cronce.model import Fence, Slot, slot_of_cell
from cronce.protocol.commands import Finish, Queue, Release, Skip, Stale, Unsure
from cronce.protocol.notices import Refused
from cronce.protocol.record import TOO_LATE
from cronce.runtime.flow import Flow
from cronce.runtime.journal import Entry, Journal, PendingEnd, UnaskedCall
from cronce.runtime.ledger import Grant
from cronce.runtime.log import LOGGER
from cronce.runtime.node import Node
from cronce.runtime.process_notes import note_refusals


class PendingEnds:
    """For any number of threads."""

    def __init__(
        self, node: Node, journal: Journal, settled: Callable[[Collection[Fence]], None] = lambda _fences: None
    ) -> None:
        self._node, self.journal, self._settled = node, journal, settled
        self._lock = threading.Lock()
        self._ends: dict[Fence, PendingEnd] = {}  # the ends that are reported in the background
        self._others: set[Fence] = set()  # the ends that other processes had left at the last look

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def fences(self) -> set[Fence]:
        """The fences of the ends that are reported in the background."""
        with self._lock:
            return set(self._ends)

    @property
    def waits(self) -> bool:
        """Whether ends are left to report, of this process or of earlier ones."""
        return bool(self._ends or self._others or self.journal.left())

    def end_of(self, grant: Grant, word: Finish | Release) -> PendingEnd:
        if isinstance(word, Finish) and word.ended is None:
            word = word._replace(ended=self._node.ledger.know.now())
        return PendingEnd(grant.key, word, self._node.holder, self._node.clock.wall())

    def write_down(self, ends: Iterable[PendingEnd]) -> None:
        """Write it to disk, once; the caller continues to report it."""
        self.journal.write(list(ends))

    def add(self, end: PendingEnd) -> None:
        """From now on it is reported in the background, until the process ends."""
        self.write_down([end])
        with self._lock:
            self._ends[end.word.fence] = end

    def recorded(self, fences: Collection[Fence]) -> None:
        """They are recorded, or never will be."""
        with self._lock:
            for fence in fences if self._ends else ():
                self._ends.pop(fence, None)
        self.journal.recorded(fences)
        self._node.ledger.know.let_go(fences)
        self._settled(fences)

    def report(self) -> Flow[None]:
        """Report all ends in the background, and those that earlier processes left. Ends without an answer stay."""
        with self._lock:
            mine = list(self._ends.values())
        left = self.journal.left()
        others = [entry for entries in left.values() for entry in entries if isinstance(entry, PendingEnd)]
        before, self._others = self._others, {end.word.fence for end in others}
        self._node.ledger.know.let_go(before - self._others)  # another process has reported it
        ends = mine + others
        stay = set[Entry]()
        if ends:
            stay |= yield from self._report(ends)
        calls = [entry for entries in left.values() for entry in entries if isinstance(entry, UnaskedCall)]
        if calls:
            stay |= yield from self._close(calls)
            yield from note_refusals(self._node.ledger, _by_job([call for call in calls if call not in stay]))
        self.journal.remove(name for name, entries in left.items() if not stay.intersection(entries))

    def _report(self, ends: Sequence[PendingEnd]) -> Flow[set[Entry]]:
        """Returns the ends that got no answer."""
        ledger = self._node.ledger
        ledger.know.own.update(end.word.fence for end in ends)
        ledger.know.ended.update((end.word.fence, end.run) for end in ends)
        answers = yield from ledger.record_ends([(end.run, end.word) for end in ends])
        unsure = set[Entry]()
        for end, answer in zip(ends, answers, strict=True):
            if isinstance(answer, Unsure):
                unsure.add(end)
                continue
            name = slot_of_cell(end.run).key
            if isinstance(answer, Stale):
                why = "it was closed or taken over before that could be recorded"
                LOGGER.error("%s %s on %s, but %s", name, end.what, end.holder, why)
            else:
                LOGGER.info("%s %s on %s; this is recorded now", name, end.what, end.holder)
            self.recorded([end.word.fence])
        return unsure

    def _close(self, calls: Sequence[UnaskedCall]) -> Flow[set[Entry]]:
        """Slots whose calls could not reach the store, and that have no record. If they are too late to start now, that
        is recorded; if each is wanted, they are recorded as due. Those that may still be in time stay in the journal;
        the others, such as messages, stay open to the next call."""
        from cronce.runtime.queries import slot_named  # noqa: PLC0415  slow to import, and hardly ever needed

        now, commands = self._node.ledger.know.now(), dict[Slot, Queue | Skip]()
        for call in calls:
            with suppress(BadInput):
                slot = slot_named(call.slot)
                if call.wanted:
                    commands[slot] = Queue(first=slot.at)
                elif call.start_by is not None and call.start_by < now:
                    commands[slot] = Skip(TOO_LATE, first=slot.at, untouched=True)
        answers = yield from self._node.ledger.put(commands)
        unsure = {slot.key for slot, answer in zip(commands, answers, strict=True) if isinstance(answer, Unsure)}
        return {call for call in calls if call.slot in unsure or (call.start_by is not None and call.start_by >= now)}


def _by_job(calls: Sequence[UnaskedCall]) -> dict[str, list[Refused]]:
    """Calls that did not reach the store are noted together with those that were refused."""
    by_job: dict[str, list[Refused]] = {}
    for call in calls:
        new = Refused(call.slot, call.at, f"{call.holder}: {call.why}")
        by_job.setdefault(call.slot.partition("@")[0], []).append(new)
    return by_job
