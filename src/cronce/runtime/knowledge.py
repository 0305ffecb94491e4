"""What a process has learnt from the store's replies: its epoch, its clock beside ours, and the facts of jobs.

Knowledge only grows: a reply that arrives late, or comes from a store that forgot, never makes it less.
"""

import threading
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from itertools import chain
from typing import Final

from cronce.clock import Clock
from cronce.errors import BadRecord
from cronce.model import EPOCH, Boot, Cell, Epoch, Instant, Origin
from cronce.protocol.lease import FACTS_AGE, Sample, even_span
from cronce.protocol.record import Act, Job, decode_job, standing_act
from cronce.runtime.flow import Timed
from cronce.stores.base import Loaded, Page, Swapped
from cronce.value import NamedTuple

_SPACING: Final = 0.5
_KEPT: Final = 1024
"""Half a second apart, this many reach back further than the longest lease."""

_SIGHTED: Final = 4096
"""Cells whose last change is remembered; when there are more it begins anew, and others only wait longer."""


class KnownJob(NamedTuple):
    """A job as it was read: when, on the store's clock, in which of its lives, and until when on ours it will do."""

    cell: Cell
    job: Job | None
    read: Instant
    birth: int
    fresh: Boot


class Knowledge:
    def __init__(self, clock: Clock, *, one_clock: bool = True) -> None:
        self._clock = clock
        self._one_clock = one_clock
        self._sightings: dict[str, tuple[int, Boot]] = {}
        self._lock = threading.Lock()
        self._samples: deque[Sample] = deque(maxlen=_KEPT)
        self._latest: Sample | None = None
        self._jobs: dict[str, KnownJob] = {}
        self.epoch = Epoch()
        self.halted: Act | None = None
        """Who stopped everything, as it was last read."""

    def learn(self, timed: Timed) -> Epoch | None:
        """Take in a reply. Returns the new epoch when this reply shows that the store began another life."""
        reply = timed.reply
        if isinstance(reply, int):
            return None
        with self._lock:
            self._sample(Sample(timed.began, timed.ended, reply.now))
            if not self._one_clock:
                self._sight(reply, timed.ended)
            return self._believe(reply.epoch)

    def _sight(self, reply: Loaded | Swapped | Page, ended: Boot) -> None:
        cells = [verdict.cell for verdict in reply.verdicts] if isinstance(reply, Swapped) else reply.cells
        if len(self._sightings) > _SIGHTED:
            self._sightings = {}
        for cell in cells:
            if self._sightings.get(cell.key, (0, 0.0))[0] != cell.version:
                self._sightings[cell.key] = (cell.version, ended)

    def _sample(self, sample: Sample) -> None:
        if not self._samples or sample.began - self._samples[-1].ended >= _SPACING:
            self._samples.append(sample)
        if self._latest is None or sample.ended >= self._latest.ended:
            self._latest = sample

    def _believe(self, epoch: Epoch) -> Epoch | None:
        """A later life than the one we knew began by forgetting, even if it says that it was made on purpose: whoever
        deleted the store and made it anew did not ask us."""
        if epoch.seen <= self.epoch.seen:
            return None
        if epoch.birth == self.epoch.birth:
            self.epoch = self.epoch._replace(tally=epoch.tally)
            return None
        first = self.epoch.birth == 0
        self.epoch = epoch if first or epoch.forgot else epoch._replace(origin=Origin.FOUND)
        return None if first else self.epoch

    def recall(self, samples: Sequence[Sample]) -> None:
        """Take in what another process of this machine, since the same boot, has seen of the store's clock before."""
        with self._lock:
            first = self._samples[0].began if self._samples else self._clock.boot()
            self._samples.extendleft(sample for sample in reversed(samples) if sample.ended <= first)

    def remembered(self, spacing: timedelta, most: int) -> tuple[Sample, ...]:
        """The newest samples, so far apart at least, oldest first: for the next process to go on from."""
        kept: list[Sample] = []
        with self._lock:
            for sample in self._samples:
                if not kept or sample.began - kept[-1].ended >= spacing.total_seconds():
                    kept.append(sample)
        return tuple(kept[-most:])

    def now(self) -> Instant:
        """The store's clock of this moment, as well as we can tell without asking."""
        return self.guess().now

    def guess(self) -> Sample:
        """A sample of this moment, as well as we can tell without asking: good for dates, proof of nothing."""
        boot, latest = self._clock.boot(), self._latest
        now = EPOCH if latest is None else latest.now + timedelta(seconds=max(boot - latest.ended, 0.0))
        return Sample(boot, boot, now)

    def even(self, newest: Sample, tolerance: timedelta) -> timedelta:
        """For how long, up to that very reading, the store's clock was seen to run evenly with ours."""
        with self._lock:
            samples = [sample for sample in reversed(self._samples) if sample.ended <= newest.began]
        return even_span(chain((newest,), samples), tolerance)

    def watched(self, cell: Cell, newest: Sample, tolerance: timedelta) -> timedelta:
        """For how long, up to that very reading, nobody can have renewed a lease that seems to have lapsed. Where one
        clock dates all leases, it is enough that it ran evenly; where there are several, the cell itself must have been
        seen unchanged, by our own clock."""
        if self._one_clock:
            return self.even(newest, tolerance)
        with self._lock:
            version, since = self._sightings.get(cell.key, (0, newest.began))
        return timedelta(seconds=max(newest.began - since, 0.0) if version == cell.version else 0.0)

    def learn_job(self, name: str, cell: Cell, reply: Loaded | Swapped) -> bool:
        """Whether the job could be read; one that a newer cronce wrote cannot."""
        known = self._jobs.get(name)
        try:
            if known is not None and known.cell == cell:
                job = known.job
            else:
                job = decode_job(cell.value, cell.key) if cell.version else None
        except BadRecord:
            return False
        fresh = self._clock.boot() + FACTS_AGE.total_seconds()
        with self._lock:
            self._jobs[name] = KnownJob(cell, job, reply.now, reply.epoch.birth, fresh)
        return True

    def job(self, name: str) -> KnownJob | None:
        """What is known of the job, unless it is too old to rest a claim on, or from before the store forgot."""
        known = self._jobs.get(name)
        if known is None or known.birth != self.epoch.birth or self._clock.boot() > known.fresh:
            return None
        return known

    def fresh_until(self, name: str) -> Boot:
        """Until when a claim may rest on what is known of the job."""
        known = self._jobs.get(name)
        return known.fresh if known is not None and known.birth == self.epoch.birth else 0.0

    def learn_switch(self, cell: Cell) -> None:
        """Whether everything is stopped; what cannot be read stops everything, too. Before everything goes on, the
        floors of all jobs were raised, so what was known of them is old."""
        before = self.halted
        self.halted = standing_act(cell)
        if before and not self.halted:
            self.forget_jobs()

    def forget_jobs(self) -> None:
        """Somebody changed something: no claim rests on what was read before. What was decoded is kept."""
        with self._lock:
            self._jobs = {name: known._replace(fresh=0.0) for name, known in self._jobs.items()}

    def forget_job(self, name: str) -> None:
        """Its facts were refused as too old: read them again."""
        with self._lock:
            self._jobs.pop(name, None)
