"""How the processes of `cronce run` are: noted by each of them on a page of memory that all share, and judged.

Each notes, every second, when its scheduler last came round and when the store last answered. One that is stopped, or
whose interpreter hangs in C, notes nothing, and is told by that.

*Alive*: none of them hangs. One that died is being replaced, which is no reason to end the others; nor is a store that
does not answer. *Ready*: all run, are registered, hear from their store, and claim.
"""

import mmap
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Final

from cronce.model import Boot
from cronce.runtime.scheduling.scheduler import Scheduler, Vitals

STUCK: Final = 60.0
"""Seconds without coming round after which a scheduler hangs. A store that gives no answer takes up half of it."""

LATELY: Final = 15.0
"""Seconds for which an answer of the store is news. It is asked something every other second."""

PULSE: Final = 1.0
"""Seconds between two notes."""

_NOTE: Final = struct.Struct("=dd??6x")

_NOBODY: Final = Vitals(0.0, 0.0, joined=False, claims=False)


class Page:
    """What the members note, each in a place of its own."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._memory = mmap.mmap(-1, number * _NOTE.size)

    def note(self, place: int, vitals: Vitals) -> None:
        _NOTE.pack_into(self._memory, place * _NOTE.size, *vitals)

    def begin(self, place: int, now: Boot) -> None:
        """A member is started, and has so long to come round for the first time."""
        self.note(place, _NOBODY._replace(ticked=now))

    def clear(self, place: int) -> None:
        self.note(place, _NOBODY)

    def read(self) -> list[Vitals]:
        return [Vitals(*_NOTE.unpack_from(self._memory, place * _NOTE.size)) for place in range(self.number)]


def hangs(crew: Sequence[Vitals], now: Boot) -> str:
    """Why it is not alive; empty: it is."""
    stuck = [now - one.ticked for one in crew if one.ticked and now - one.ticked > STUCK]
    return f"{len(stuck)} of {len(crew)} hang, for {max(stuck):.0f} s" if stuck else ""


def not_ready(crew: Sequence[Vitals], now: Boot) -> str:
    """Why it is not ready; empty: it is."""
    return hangs(crew, now) or next(filter(None, (_obstacle(one, now) for one in crew)), "")


def _obstacle(one: Vitals, now: Boot) -> str:
    if not one.ticked:
        return "a process is gone, and about to be replaced"
    if not one.joined:
        return "not registered yet"
    if not one.claims:
        return "claims no more"
    return f"the store has not answered for {now - one.answered:.0f} s" if now - one.answered > LATELY else ""


def pulse(page: Page, place: int, scheduler: Scheduler, note: Callable[[], None] = lambda: None) -> None:
    """Note how the scheduler is, until it is gone; and what else there is to `note`, then a last time, too."""
    gone = threading.Event()

    def beat() -> None:
        while True:
            page.note(place, scheduler.vitals)
            note()
            if gone.wait(PULSE):
                return

    def end(_scheduler: Scheduler) -> None:
        gone.set()
        thread.join(PULSE)
        note()

    thread = threading.Thread(target=beat, name="cronce-pulse", daemon=True)
    thread.start()
    scheduler.when_gone(end)
