"""What a scheduler will try to run, and when: slots wait in line until they are due and a worker is free.

This process's place among the live ones decides when it tries a slot (`roster`): the first at its instant, the second a
moment later. The others only *watch* it: if no process has it when they look next, they try too.

Slots that wait for a turn of their job are kept apart, in one line for each job: a backlog of thousands must not hide
slots that could start at once.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from heapq import heapify, heappop, heappush
from itertools import count, islice
from typing import Final

from cronce.model import Cell, Instant, Slot
from cronce.protocol.terms import Terms
from cronce.value import NamedTuple

SECOND_TRIES_AFTER: Final = timedelta(milliseconds=60)
"""When the second in the order tries: late enough for the first to have tried, and before people notice a delay."""

CLAIMS_PER_SWAP: Final = 250
"""Claims in one swap: more would make the first of them wait for the last."""

TURN_RETRY: Final = timedelta(seconds=1)
"""How long this process does not ask for a turn of a job after it found all turns taken."""

WATCHED_PER_CALL: Final = 1000
"""How many slots of other processes are checked in one call."""


class Candidate(NamedTuple):
    """A slot to be tried from `due` on. `known`: it is on record. `cell` is its key, spelled once. `nonce` goes with
    each try: if a try got no answer but landed, the next one finds that this process holds the slot; nothing has
    run."""

    slot: Slot
    cell: str
    terms: Terms
    due: Instant
    known: bool = False
    nonce: str = ""


Queue = dict[str, Candidate]
"""By the key of its cell, the first come first."""


class Waitlist:
    """Used by one thread. Each slot is in it once; time is an argument."""

    def __init__(self) -> None:
        self._later: list[tuple[Instant, int, Candidate]] = []
        self._ready: Queue = {}
        self._for_turns: dict[str, Queue] = {}
        self._watched: Queue = {}
        self._busy: dict[str, Instant] = {}
        self._held: set[str] = set()
        self._numbers = count()

    def __contains__(self, cell: str) -> bool:
        return cell in self._ready or cell in self._for_turns.get(job_of(cell), ())

    def __len__(self) -> int:
        """How many wait for a worker."""
        return len(self._ready) + sum(map(len, self._for_turns.values()))

    @property
    def is_empty(self) -> bool:
        """Nothing is to be tried now, nor to be looked at whether another has it."""
        return not (self._ready or self._watched or any(self._for_turns.values()))

    # --- waiting in line ---

    def add(self, candidate: Candidate, place: int, now: Instant) -> None:
        """Try it when this process's place allows. A slot that is on record, and that no process took in all the time
        since, is open to all."""
        if place > 1 and not candidate.known:
            self._watched[candidate.cell] = candidate
            return
        at = candidate.due + place * SECOND_TRIES_AFTER
        if at <= now:
            self._queue_of(candidate).setdefault(candidate.cell, candidate)
        else:
            self.put_off(candidate, at)

    def put_off(self, candidate: Candidate, until: Instant) -> None:
        heappush(self._later, (until, next(self._numbers), candidate))

    def put_back(self, candidates: Iterable[Candidate]) -> None:
        """Their claims got no answer: they are first again."""
        first: dict[int, tuple[Queue, Queue]] = {}
        for candidate in candidates:
            queue = self._queue_of(candidate)
            first.setdefault(id(queue), (queue, {}))[1][candidate.cell] = candidate
        for queue, before in first.values():
            behind = dict(queue)
            queue.clear()
            queue.update(before | behind)

    def ripen(self, now: Instant) -> None:
        """Slots that were put off until now are ready."""
        while self._later and self._later[0][0] <= now:
            _, _, candidate = heappop(self._later)
            self._queue_of(candidate).setdefault(candidate.cell, candidate)

    def drop(self, jobs: Collection[str]) -> None:
        """Slots of these jobs are not tried any more."""
        if jobs:
            self._later = [one for one in self._later if one[2].slot.job not in jobs]
            heapify(self._later)
            self._ready = {cell: one for cell, one in self._ready.items() if one.slot.job not in jobs}
            self._watched = {cell: one for cell, one in self._watched.items() if one.slot.job not in jobs}
            self._for_turns = {job: queue for job, queue in self._for_turns.items() if job not in jobs}

    def next_at(self) -> Instant | None:
        return self._later[0][0] if self._later else None

    def _queue_of(self, candidate: Candidate) -> Queue:
        if not candidate.terms.waits:
            return self._ready
        return self._for_turns.setdefault(candidate.slot.job, {})

    # --- taking ---

    def take(self, most: int, now: Instant, taken: Callable[[], Mapping[str, int]]) -> list[Candidate]:
        """The first slots, as many as there are workers. A slot that would wait for a turn of its job, and cannot get
        one yet, is not claimed: `taken` counts the turns of each job that runs of this process hold. A slot that is too
        late to start needs no worker: it is only recorded."""
        late = list(islice(self._too_late(now), CLAIMS_PER_SWAP))
        most = min(most, CLAIMS_PER_SWAP - len(late))
        turns = list(islice(self._with_a_turn(now, taken()), max(most, 0))) if self._for_turns else []
        chosen = [*late, *turns]
        for candidate in chosen:
            queue = self._queue_of(candidate)
            del queue[candidate.cell]
            if not queue and queue is not self._ready:
                del self._for_turns[candidate.slot.job]
        free = list(islice(self._ready, max(most - len(turns), 0)))
        return chosen + [self._ready.pop(cell) for cell in free]

    def _too_late(self, now: Instant) -> Iterator[Candidate]:
        """The late slots at the head of each line: slots were added in the order of time."""
        for queue in (self._ready, *self._for_turns.values()):
            for candidate in queue.values():
                if not _is_late(candidate, now):
                    break
                yield candidate

    def _with_a_turn(self, now: Instant, taken: Mapping[str, int]) -> Iterator[Candidate]:
        """As many slots of each job as there may be turns for. If none is free, the first slot without a record is
        claimed all the same: so it is recorded, and other processes see that it waits."""
        for job, queue in self._for_turns.items():
            if self._busy.get(job, now) > now:
                continue
            ready = (one for one in queue.values() if not _is_late(one, now))
            free = next(iter(queue.values())).terms.turns - taken.get(job, 0)
            if len(queue) > free:
                self._held.add(job)
            if free > 0:
                yield from islice(ready, free)
            else:
                yield from islice((one for one in ready if not one.known), 1)

    def found_busy(self, job: str, now: Instant) -> None:
        """All turns of the job are taken, somewhere."""
        self._busy[job] = now + TURN_RETRY

    def waits_for(self, job: str) -> bool:
        """Whether slots of the job wait for a turn of it, as far as this process has seen."""
        return job in self._busy or job in self._held

    def freed(self) -> None:
        """Some turn was given back, somewhere."""
        self._busy.clear()
        self._held.clear()

    # --- watching ---

    def watched(self, upto: Instant) -> list[str]:
        """Slots of other processes that were due by then: one of those should have claimed them."""
        return list(islice((cell for cell, one in self._watched.items() if one.due <= upto), WATCHED_PER_CALL))

    def seen(self, cell: Cell) -> None:
        """A slot that was watched: if no process has it, it is ready."""
        candidate = self._watched.pop(cell.key, None)
        if candidate is not None and not cell.version:
            self._queue_of(candidate).setdefault(cell.key, candidate)


def job_of(cell: str) -> str:
    """The job in the key of a run's cell, whatever else the key contains."""
    return cell.removeprefix("run/").partition("/")[0]


def _is_late(candidate: Candidate, now: Instant) -> bool:
    start_by = candidate.terms.start_by(candidate.slot.at)
    return start_by is not None and not candidate.known and now > start_by
