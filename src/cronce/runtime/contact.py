"""Contact: what a process knows of when the store answered its writes (`protocol.lease.heard`).

Reading proves nothing: a store may be read-only. So whoever waits for a lease to pass writes a cell that means nothing,
about once a second, from a while before: by then it knows whether the holder could have renewed.
"""

import threading
from collections import deque
from datetime import timedelta
from math import inf
from typing import Final

from cronce.clock import Clock
from cronce.model import FREE, Boot, Cell, Instant, Mark, Write
from cronce.protocol.lease import Contact, Sample, heard, hearing
from cronce.protocol.record import Record
from cronce.protocol.store_clock import is_ahead
from cronce.protocol.view import View

PROBE_WRITE: Final = Write("probe", FREE, "", Mark.FREE)

MAX_ANSWER_TIME: Final = 1.0
"""Seconds. What takes longer to be answered is no contact."""

PROBE_EVERY: Final = 0.4
"""Seconds between two probes at least."""

PROBE_AHEAD: Final = timedelta(seconds=2.5)
"""So long before holders are to be heard, who looks once a second begins to probe. No holder that renews in time lets a
lease come so near to its end, unless it is of a few seconds."""

_CONTACTS_KEPT: Final = 256
"""Pieces of contact. Over the longest lease there can hardly be more that count."""


class Contacts:
    """For any number of threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._pieces: deque[Contact] = deque(maxlen=_CONTACTS_KEPT)
        self._broken = True
        self._spoke: Boot = -inf  # when the latest of the calls began that were answered in time

    def answered(self, began: Boot, ended: Boot) -> None:
        """A write has won, in a call that began and ended then."""
        if ended - began > MAX_ANSWER_TIME:
            self.broke(began)
            return
        with self._lock:
            last = self._pieces[-1] if self._pieces and not self._broken else None
            self._broken, self._spoke = False, max(self._spoke, began)
            if last is None or not last.reaches(began):
                self._pieces.append(Contact(ended, ended))
            elif ended > last.upto:
                self._pieces[-1] = last._replace(upto=ended)

    def sends(self) -> Boot:
        """When a call begins."""
        return self._clock.boot()

    def broke(self, began: Boot) -> None:
        """A write that began then was not answered, or late. If another that began later was, the store is there: after
        an outage the calls that hung in it end one by one, and must not end contact each time."""
        with self._lock:
            self._broken = self._broken or began >= self._spoke

    def heard(self, newest: Sample, ago: timedelta) -> timedelta:
        """For how long, up to that reading, a holder that renewed so long before it could be heard."""
        return heard(self.pieces, newest.began - ago.total_seconds(), newest.began)

    @property
    def pieces(self) -> tuple[Contact, ...]:
        with self._lock:
            return tuple(self._pieces)

    def probes(self, views: list[View]) -> list[Write]:
        """What is written besides, where one of these runs nears the end of its lease."""
        with self._lock:
            fresh = self._pieces and not self._broken and self._clock.boot() - self._pieces[-1].upto < PROBE_EVERY
        if fresh or not any(view.slot and view.record and is_near(view.run, view.record, view.now) for view in views):
            return []
        return [PROBE_WRITE]


def patience(lease: timedelta) -> float:
    """Seconds after which a renewal without an answer is asked again, on a new connection. Half of a hearing: where
    the store was away, and connections have died of it, each holder is heard in time."""
    return hearing(lease).total_seconds() / 2


def is_near(cell: Cell, record: Record, now: Instant) -> bool:
    """Whether the lease of a run is so near to its end that its holder should be heard. One that was dated by a clock
    which leapt may end at any time."""
    if not record.is_running or cell.until is None:
        return False
    return cell.until - now <= hearing(record.lease) + PROBE_AHEAD or is_ahead(cell.until, now)
