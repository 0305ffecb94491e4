"""What is recorded in the background, and never delays a job function: calls that are only observed, and signs of life.

A thread writes, all that came meanwhile in one go; it is there only while there is something to write. No job function
waits for it. What the store does not take yet waits here, and beyond so much of it is dropped. All that a person sees
of it is a warning now and then. At the end of the process, what is still to be written has a few seconds.
"""

import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from cronce.clock import Clock
from cronce.errors import BadInput, StoreError, StoreUnavailable
from cronce.events import Event
from cronce.model import Boot, Cell, Instant, Mark, Write, beat_cell, check_name
from cronce.protocol.codec import readable
from cronce.protocol.notices import Beats, LastBeat, decode_beats, encode_notice
from cronce.runtime.client import Client
from cronce.runtime.declare import SHORTEST_LEASE, Duration
from cronce.runtime.flow import Flow, Purge
from cronce.runtime.keeper import Keeper, RepeatingThread
from cronce.runtime.log import LOGGER
from cronce.runtime.node import host_name
from cronce.schedule import format_duration, parse_duration
from cronce.value import NamedTuple

if TYPE_CHECKING:
    from cronce.runtime.observe import ObservedCall

SIGN_OF_LIFE_TIMEOUT: Final = 1.0
"""Seconds that a scheduler waits for the store, at most, when it reports that it is alive."""

WRITER_CLOSE_WAIT: Final = 3.0
"""Seconds for which the end of a process, or `close`, waits for what is still to be written."""

MAX_PENDING_WRITES: Final = 200
"""So many wait to be written at most."""

STORE_RETRY: Final = 5.0
"""Seconds until a store that did not answer is asked again, unless there is something new to write."""

WARN_EVERY: Final = 60.0
"""Seconds between two warnings about the same."""


class NoteWrite(NamedTuple):
    """What a cell is to hold from now on, and what to report once it does."""

    write: Write | None
    events: Sequence[Event] = ()


class Note(ABC):
    """Something to be written down in a cell. `at` is when it happened, by the store's clock: known once the store was
    asked, and from then on the same, so that what landed though no answer came is recognized."""

    def __init__(self, cell: str, boot: Boot) -> None:
        self.cell, self.boot = cell, boot
        self.at: Instant | None = None
        self.tried = threading.Event()
        """It was written, dropped or put off: there is nothing to wait for."""

    def date(self, now: Instant, boot: Boot) -> Instant:
        """When it happened, where the store's clock shows `now` at this moment of ours."""
        self.at = self.at or now - timedelta(seconds=max(boot - self.boot, 0.0))
        return self.at

    @abstractmethod
    def add(self, cell: Cell, beside: Sequence["Note"], holder: str) -> NoteWrite:
        """What becomes of the cell with this and those `beside` it in it, all of one kind and dated."""


def write_notes(client: Client, notes: Sequence[Note], boot: Callable[[], Boot]) -> Flow[Sequence[Event]]:
    """Write the notes for one cell. Returns the events to report."""

    def made(cell: Cell, now: Instant) -> tuple[Sequence[Event], Write | None]:
        for note in notes:
            note.date(now, boot())
        new = notes[0].add(cell, notes, client.holder)
        return new.events, new.write

    return (yield from client.rewrite(notes[0].cell, made))


class BackgroundWriter:
    """One per process; a forked child has none of its parent's."""

    def __init__(self, at_work: Callable[[], Keeper], clock: Clock) -> None:
        self._at_work, self._clock = at_work, clock
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._pending: list[Note] = []
        self._dropped = 0
        self._answers = True
        self._warned: dict[str, Boot] = {}
        self._not_before: Boot = 0.0
        self._asks_again: Boot = 0.0
        self._beat = RepeatingThread("cronce-background", self.write, clock)
        self._waiting_shadows: list[tuple[ObservedCall, Sequence[ObservedCall]]] = []
        """Those that wait for their turn, each with those whose bodies had ended when it was called."""
        self._shadows: list[ObservedCall] = []
        _at_the_end_of_a_child(self.close)

    # --- from the threads that work ---

    def add(self, note: Note) -> None:
        with self._lock:
            self._not_before = 0.0
            room = len(self._pending) < MAX_PENDING_WRITES
            if room:
                self._pending.append(note)
            else:
                self._dropped += 1
        try:
            if room:
                self._beat.wake()
                return
        except RuntimeError as error:  # there can be no more threads here
            self.failed(error)
        note.tried.set()

    def wait(self, note: Note) -> None:
        """For a moment; not again for a store that did not answer in time."""
        patience = SIGN_OF_LIFE_TIMEOUT if self._answers and os.getpid() == self._process else 0.0
        self._answers = note.tried.wait(patience) and self._answers

    def start_shadow(self, shadow: "ObservedCall") -> None:
        """Beside a body that begins now. Of those of one job one at a time asks, in the order of their calls; a store
        that failed is not asked for a while, and what is called meanwhile is on no record."""
        with self._lock:
            boot = self._clock.boot()
            spared = not self._answers and boot < self._asks_again
            full = len(self._waiting_shadows) >= MAX_PENDING_WRITES
            self._dropped += full
            if not spared:
                self._asks_again = boot + STORE_RETRY
            if not (spared or full):
                before = [*self._shadows, *(one for one, _ in self._waiting_shadows)]
                earlier = [one for one in before if one.name == shadow.name and one.over.is_set()]
                self._waiting_shadows.append((shadow, earlier))
        self._start_next()

    def _start_next(self) -> None:
        with self._lock:
            self._shadows = [shadow for shadow in self._shadows if not shadow.done.is_set()]
            asking = {shadow.name for shadow in self._shadows if not shadow.decided.is_set()}
            free = next((waiting for waiting in self._waiting_shadows if waiting[0].name not in asking), None)
            if free is None:
                return
            self._waiting_shadows.remove(free)
            shadow = free[0]
            self._shadows.append(shadow)
        try:
            threading.Thread(target=self._run_shadow, args=free, name="cronce-observed", daemon=True).start()
        except RuntimeError as error:  # there can be no more threads here
            self.failed(error)
            shadow.done.set()
            self.decide(shadow)

    def _run_shadow(self, shadow: "ObservedCall", earlier: Iterable["ObservedCall"]) -> None:
        try:
            for one in earlier:
                one.done.wait(WRITER_CLOSE_WAIT)
            shadow.ask()
        finally:
            shadow.done.set()
            self.decide(shadow)

    def decide(self, shadow: "ObservedCall") -> None:
        """The store's answer is known, so the next call may ask."""
        shadow.decided.set()
        self._start_next()

    def answered(self) -> None:
        self._answers = True

    def failed(self, error: Exception) -> None:
        """Something could not be written down, or not be asked."""
        self._answers = self._answers and not isinstance(error, StoreError)
        with self._lock:
            dropped = self._dropped
        lost = f"; {dropped} were dropped so far" if dropped else ""
        self.warn("the store", f"observed calls and signs of life cannot be recorded: {error}{lost}")

    def warn(self, about: str, text: str) -> None:
        """Log a warning, now and then."""
        boot = self._clock.boot()
        with self._lock:
            due = boot >= self._warned.get(about, boot)
            if due:
                self._warned[about] = boot + WARN_EVERY
        if due:
            LOGGER.warning("%s", text)

    def close(self) -> None:
        """Give what is still to be written a while, and drop the rest."""
        give_up = self._clock.boot() + WRITER_CLOSE_WAIT
        with self._lock:
            shadows = [*self._shadows, *(shadow for shadow, _ in self._waiting_shadows)]
        for shadow in shadows:
            shadow.settled.wait(max(give_up - self._clock.boot(), 0.0))
        with self._lock:
            under_way = self._pending[-1:]
        for note in under_way:
            note.tried.wait(max(give_up - self._clock.boot(), 0.0))
        with self._lock:
            failed, self._not_before = self._pending[-1:], 0.0
            for note in failed:
                note.tried.clear()
        for note in failed:  # one more try
            with suppress(RuntimeError):  # there can be no more threads here
                self._beat.wake()
                note.tried.wait(max(give_up - self._clock.boot(), 0.0))
        with self._lock:
            self._pending, self._waiting_shadows = [], []

    # --- on the thread that writes ---

    def write(self) -> Boot | None:
        """Write all that waits; when to try again what could not be."""
        with self._lock:
            if self._clock.boot() < self._not_before:
                return self._not_before
            notes = list(self._pending)
        try:
            for cell in dict.fromkeys(note.cell for note in notes):
                self._write([note for note in notes if note.cell == cell])
        except StoreUnavailable as error:
            self.failed(error)
            for note in notes:
                note.tried.set()
            with self._lock:
                if len(self._pending) <= len(notes):  # else there is news, and news is tried at once
                    self._not_before = self._clock.boot() + STORE_RETRY
                return self._not_before
        except Exception as error:  # a store that needs a person, or a bug: to try again would not help
            self.failed(error)
            self._over(notes)
        return None

    def _write(self, notes: Sequence[Note]) -> None:
        node = self._at_work().node
        events = node.do(write_notes(node.ledger.client, notes, node.clock.boot))
        self.answered()
        for event in events:
            node.ledger.client.report(event)
        self._over(notes)

    def _over(self, notes: Iterable[Note]) -> None:
        gone = set(notes)
        with self._lock:
            self._pending = [note for note in self._pending if note not in gone]
        for note in gone:
            note.tried.set()


def _at_the_end_of_a_child(close: Callable[[], None]) -> None:
    """A process of `multiprocessing` ends without what the interpreter does at its end."""
    made = sys.modules.get("multiprocessing.process")
    if made is not None and made.parent_process() is not None:
        from multiprocessing.util import Finalize  # noqa: PLC0415

        Finalize(None, close, exitpriority=0)


# --- signs of life of a scheduler that is not ours --------------------------------------------------------------------

# Five beats of one scheduler take four intervals, or three if it was restarted in between; of two schedulers they take
# two, however they are shifted against each other. But nothing is judged here.


BEATS_KEPT: Final = 20
"""How many beats are kept: those of two intervals, unless there are ten schedulers where one should be."""

BEAT_INTERVALS: Final = 2
"""For how many intervals a beat counts. After that its scheduler is silent."""


class SignOfLife(Note):
    """One beat."""

    def __init__(self, name: str, every: Duration, boot: Boot) -> None:
        super().__init__(beat_cell(check_name(name)), boot)
        self.every = read_every(every)
        self.by = f"{host_name()}:{os.getpid()}"

    def add(self, cell: Cell, beside: Sequence[Note], _holder: str) -> NoteWrite:
        known = readable(cell, decode_beats) or Beats(timedelta(0), (), 0)
        beats = [LastBeat(one.at, one.by) for one in beside if isinstance(one, SignOfLife) and one.at is not None]
        fresh = [beat for beat in beats if beat not in known.recent]  # the others landed, and no answer came
        if not fresh:
            return NoteWrite(None)
        recent = sorted((*known.recent, *fresh))[-BEATS_KEPT:]
        value = encode_notice(Beats(self.every, tuple(recent), known.times + len(fresh)))
        return NoteWrite(Write(cell.key, cell.version, value, Mark.OPEN, ttl=BEAT_INTERVALS * self.every))


def read_every(every: Duration) -> timedelta:
    length = parse_duration(every)
    if length < SHORTEST_LEASE:
        raise BadInput(
            f"every is the time between two signs of life: {format_duration(SHORTEST_LEASE)} or more, such as '1m'"
        )
    return length


def forget_beats(client: Client, name: str) -> Flow[bool]:
    """Forget a scheduler's signs of life: whether there were any."""
    loaded, _ = yield from client.load([beat_cell(check_name(name))])
    known = [cell for cell in loaded.cells if cell.version]
    return bool(known) and (yield from client.purge(Purge(known))) > 0
