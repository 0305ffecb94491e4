"""What a process asks of its store, and what it has learnt from the replies: the store's epoch, its clock beside ours,
and the facts of jobs. All flows of a process share one client.

Knowledge only grows: a reply that arrives late, or comes from a store that forgot, never makes it less.

Contact is when the store answered writes (`protocol.lease.heard`). Reading proves nothing: a store may be read-only. So
a process that waits for a lease to expire writes a cell without meaning about once a second, and begins before the
lease ends. When the lease ends, it knows whether the holder could have renewed.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import chain
from math import inf
from typing import Any, Final, TypeVar

from cronce.clock import Clock
from cronce.errors import BadRecord, StoreError, StoreUnavailable
from cronce.events import Event, What
from cronce.model import (
    BOARD_JOBS,
    BOARD_RUNS,
    CLOCK,
    EPOCH,
    FREE,
    Boot,
    Cell,
    Epoch,
    Fence,
    Instant,
    Mark,
    Origin,
    Traits,
    Write,
    spell,
)
from cronce.protocol.commands import (
    Answer,
    Asked,
    Closed,
    Finished,
    Granted,
    Held,
    Paused,
    Queued,
    Released,
    Settled,
    Stale,
    Superseded,
)
from cronce.protocol.lease import FACTS_AGE, LONGEST_LEASE, Contact, Sample, even_span, heard, hearing
from cronce.protocol.record import Act, Record, decode_job, standing_act
from cronce.protocol.store_clock import Believed, Doubt, Host, is_ahead, is_said, judged, recalled
from cronce.protocol.view import NO_TRAITS, KnownJob, View
from cronce.runtime.flow import Flow, Load, Purge, Request, Swap, Timed
from cronce.stores.base import Loaded, Page, Scan, Swapped

MAX_ROUNDS: Final = 12
"""Each round ends in an answer or in news; this many without an answer is a store that cannot be used."""


WAKE: Final = Write(BOARD_RUNS, FREE, "", Mark.FREE)
NEWS: Final = Write(BOARD_JOBS, FREE, "", Mark.FREE)
"""Written beside what others should look at: runs, and jobs."""

T = TypeVar("T")

UNANSWERED: Final = 3
"""Writes without an answer in a row, each of which may have taken as long as the store is patient."""


_SPACING: Final = 0.5
_SAMPLES_KEPT: Final = 1024
"""Half a second apart, this many reach back further than the longest lease."""

_SIGHTED: Final = 4096
"""Cells whose last change is remembered; when there are more it begins anew, and others only wait longer."""


# --- contact --------------------------------------------------------------------------------------------------------

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
                self._pieces[-1] = Contact(last.since, ended)

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
        if not views:
            return []
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


# --- what is known --------------------------------------------------------------------------------------------------


class Knowledge:
    def __init__(self, clock: Clock, traits: Traits = NO_TRAITS) -> None:
        self._clock, self.boot = clock, clock.boot
        self._traits = traits
        self._believed = Believed()
        self._judges_birth = True
        self._sightings: dict[str, tuple[int, Boot]] = {}
        self._lock = threading.Lock()
        self._samples: deque[Sample] = deque(maxlen=_SAMPLES_KEPT)
        self._latest: Sample | None = None
        self._jobs: dict[str, KnownJob] = {}
        self.contact = Contacts(clock)
        self.machine: Cell | None = None
        """What processes of this machine left here, as it was last read. What they saw of the store's clock is taken in
        then; None: not yet."""
        self.epoch = Epoch()
        self.own: set[Fence] = set()
        """The runs whose end this process has to record: it runs them, or has yet to record how they ended."""
        self.ended: dict[Fence, str] = {}
        """Those that have ended, and their cells."""
        self.halted: Act | None = None
        """Who stopped everything, as it was last read."""

    def learn(self, timed: Timed) -> Epoch | None:
        """Take in a reply. Returns the new epoch when this reply shows that the store began another life."""
        reply = timed.reply
        if isinstance(reply, int):
            return None
        with self._lock:
            sample = Sample(timed.began, timed.ended, reply.now)
            self._sample(sample)
            self._believed = judged(self._believed, sample, self._host(), self._traits, self._born(reply.epoch))
            self._sight(reply, timed.ended)
            return self._believe(reply.epoch)

    def _sight(self, reply: Loaded | Swapped | Page, ended: Boot) -> None:
        cells = [cell for _, cell in reply.verdicts] if isinstance(reply, Swapped) else reply.cells
        if self._traits.one_clock:  # the clock will do, but for what is dated far ahead
            latest = max([cell.until for cell in cells if cell.until], default=None)
            if latest is None or not is_ahead(latest, reply.now):
                return
            cells = [cell for cell in cells if cell.until and is_ahead(cell.until, reply.now)]
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
        """A store with a later birth than the one we knew has lost data, even if its record reads that it was made on
        purpose. This process was not asked when the store was deleted and made anew."""
        known = self.epoch
        if epoch.birth == known.birth:
            if epoch.tally > known.tally:
                self.epoch = Epoch(known.birth, epoch.tally, *known[2:])
            return None
        if epoch.birth < known.birth:
            return None
        first = known.birth == 0
        self.epoch = epoch if first or epoch.forgot else epoch._replace(origin=Origin.FOUND)
        return None if first else self.epoch

    def recall(self, samples: Sequence[Sample]) -> None:
        """Take in what another process of this machine, since the same boot, has seen of the store's clock before."""
        with self._lock:
            first = self._samples[0].began if self._samples else self._clock.boot()
            before = [sample for sample in samples if sample.ended <= first]
            is_new = len(self._samples) <= 1  # what it has read is held against that
            self._samples.extendleft(reversed(before))
            if before and is_new and self._latest is not None:
                known = recalled(before, self._traits)
                self._believed = judged(known, self._latest, self._host(), self._traits, self._born(self.epoch))

    def _born(self, epoch: Epoch) -> Instant:
        return epoch.born if self._judges_birth else EPOCH

    def _host(self) -> Host:
        return Host(self._clock.wall(), self._clock.synchronised, self._traits.own_clock)

    @property
    def doubt(self) -> Doubt | None:
        """Why the store's clock is not trusted just now."""
        return self._believed.doubt

    @property
    def is_new(self) -> bool:
        """Nothing is known of the store's clock that a reading could be held against."""
        return self._believed.last is None

    def believe(self) -> None:
        """A person has confirmed that the store's clock is right."""
        with self._lock:
            self._believed = Believed(self._latest, since=self._latest.began if self._latest else 0.0)
            self._judges_birth = False

    def remembered(self, spacing: timedelta, most: int) -> tuple[Sample, ...]:
        """The newest samples, so far apart at least, oldest first: for the next process to go on from."""
        kept: list[Sample] = []
        with self._lock:
            since = self._believed.since
            for sample in (sample for sample in self._samples if sample.began >= since):
                if not kept or sample.began - kept[-1].ended >= spacing.total_seconds():
                    kept.append(sample)
        return tuple(kept[-most:])

    def now(self) -> Instant:
        """The store's clock at this moment, estimated without asking the store."""
        return self._believed.now(self._clock.boot())

    def guess(self) -> Sample:
        """A sample of this moment, estimated without asking the store: good for dates, proof of nothing."""
        boot = self._clock.boot()
        return Sample(boot, boot, self._believed.now(boot))

    def corrected(self, timed: Timed) -> Timed:
        """The reply, with the now that is believed."""
        doubt, reply = self._believed.doubt, timed.reply
        if doubt is None or isinstance(reply, int):
            return timed
        return timed._replace(reply=reply._replace(now=reply.now - doubt.off))

    def as_stored(self, now: Instant) -> Instant:
        """What the store calls this moment, where that is not believed."""
        doubt = self._believed.doubt
        return now if doubt is None else now + doubt.off

    def even(self, newest: Sample, tolerance: timedelta) -> timedelta:
        """For how long, up to that very reading, the store's clock was seen to run evenly with ours; for a lease, of
        which the tolerance is a tenth, or longer."""
        with self._lock:
            samples = (sample for sample in reversed(self._samples) if sample.ended <= newest.began)
            return even_span(chain((newest,), samples), tolerance, 10 * tolerance)

    def watched(self, cell: Cell, newest: Sample, tolerance: timedelta) -> timedelta:
        """For how long, up to that reading, no process can have renewed a lease that seems to have expired. Where one
        clock dates all leases, it is enough that this clock ran evenly. Where there are several, this process must have
        seen the cell itself unchanged, by its own clock. A run of this process is never taken for dead."""
        if cell.fence in self.own:
            return timedelta(0)
        if self._traits.one_clock and not (cell.until and is_ahead(cell.until, newest.now)):
            return self.even(newest, tolerance)
        with self._lock:
            version, since = self._sightings.get(cell.key, (0, newest.began))
        return timedelta(seconds=max(newest.began - since, 0.0) if version == cell.version else 0.0)

    def let_go(self, fences: Iterable[Fence]) -> None:
        """Their end is on record, or is not this process's to record."""
        for fence in fences:
            self.own.discard(fence)
            self.ended.pop(fence, None)

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

    def jobs(self, names: Collection[str]) -> dict[str, KnownJob]:
        """What is known of these jobs, unless it is too old to rest a claim on, or from before the store forgot."""
        boot, birth, known = self._clock.boot(), self.epoch.birth, self._jobs
        found = zip(names, map(known.get, names), strict=True)
        return {name: job for name, job in found if job is not None and job.birth == birth and boot <= job.fresh}

    def job(self, name: str) -> KnownJob | None:
        return self.jobs([name]).get(name)

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
        """Another process changed something: no claim rests on what was read before. What was decoded is kept."""
        with self._lock:
            self._jobs = {name: known._replace(fresh=0.0) for name, known in self._jobs.items()}

    def forget_job(self, name: str) -> None:
        """Its facts were refused as too old: read them again."""
        with self._lock:
            self._jobs.pop(name, None)


# --- which event follows from an answer -----------------------------------------------------------------------------

Events = Mapping[type, Callable[[Any], tuple[What, str]]]

ANSWERED: Final[Events] = {
    Granted: lambda a: (What.TAKEN_OVER, f"from {a.taken_over}") if a.taken_over else (What.GRANTED, ""),
    Finished: lambda a: (What.RETRYING if a.retrying else What.CLOSED, a.outcome),
    Released: lambda _: (What.RELEASED, ""),
    Stale: lambda a: (What.STALE, a.by),
    Held: lambda a: (What.REFUSED, f"held by {a.by}"),
    Closed: lambda a: (What.REFUSED, f"{a.outcome}: {a.reason}"),
    Paused: lambda _: (What.REFUSED, "paused"),
    Superseded: lambda a: (What.REFUSED, f"superseded by version {a.firing}"),
}
"""Facts, whichever process wrote them: a grant or an end whose reply was lost was written too. A claim that lost is
logged at a low level; the monitor counts them."""

WROTE: Final[Events] = {
    **ANSWERED,
    Closed: lambda a: (What.CLOSED, f"{a.outcome}: {a.reason}"),
    Queued: lambda a: (What.QUEUED, "waiting for its turn" if a.waiting else ""),
    Asked: lambda _: (What.ASKED, ""),
    Settled: lambda _: (What.RELEASED, "its holder did not renew its lease"),
}
"""What is a fact because we wrote it."""


def is_wanted(answer: Answer, wants: Callable[[What], bool]) -> bool:
    """Grants and successes come by the thousand: whether anybody wants to hear of this one."""
    if isinstance(answer, Granted):
        return bool(answer.taken_over) or wants(What.GRANTED)
    return not (isinstance(answer, Finished) and answer.outcome.is_success) or wants(What.CLOSED)


def event_of(answer: Answer, view: View, holder: str, *, wrote: bool) -> Event | None:
    found = (WROTE if wrote else ANSWERED).get(type(answer))
    if found is None:
        return None
    what, detail = found(answer)
    if isinstance(answer, Finished) and answer.outcome.is_bad and view.record is not None and view.record.reason:
        detail = f"{detail}: {view.record.reason}"
    return Event(what, view.run.key, holder, view.now, view.run.fence, detail)


class Client:
    """`know` is what it has learnt from replies; `report` is called with each event."""

    def __init__(self, knowledge: Knowledge, traits: Traits, holder: str, report: Callable[[Event], None]) -> None:
        self.know = knowledge
        self.traits = traits
        self.holder = holder
        self.report = report
        self._doubted = False
        self.timed: Callable[[str, float], None] = lambda _request, _seconds: None
        self.wants: Callable[[What], bool] = lambda _what: True
        """Whether anybody wants to hear of such an event, where there are thousands."""

    def _heard(self, request: Request, timed: Timed) -> Timed:
        """Take in a reply; returns it with the now that is believed."""
        self.timed(type(request).__name__, timed.ended - timed.began)
        is_new = not self.know.epoch.birth
        reborn = self.know.learn(timed)
        if is_new and self.know.epoch.forgot:
            self._tell_why_nothing_runs(self.know.epoch)
        if reborn is not None:
            self.report(Event(What.FORGOT, "meta", self.holder, reborn.born, detail=reborn.origin))
        if self.know.doubt is None and not self._doubted:
            return timed
        self.tell_doubt()
        return self.know.corrected(timed)

    def tell_answer(self, answer: Answer, view: View, *, wrote: bool) -> None:
        """Report the event of an answer that was reached with this view, if it is one that anybody wants to hear of;
        `wrote`: by a write of ours."""
        event = event_of(answer, view, self.holder, wrote=wrote) if is_wanted(answer, self.wants) else None
        if event is not None:
            self.report(event)

    def tell_doubt(self) -> None:
        """When the store's clock is first not believed, and when it is again."""
        doubt = self.know.doubt
        if (doubt is None) == self._doubted:
            self._doubted = doubt is not None
            what, why = (What.STEADY, "") if doubt is None else (What.LEAPT, doubt.words)
            self.report(Event(what, "the store's", self.holder, self.know.now(), detail=why))

    def _tell_why_nothing_runs(self, epoch: Epoch) -> None:
        """At first, where that is so."""
        if self.know.now() - epoch.born < LONGEST_LEASE:
            found = "empty" if epoch.origin is Origin.FOUND else "set back"
            why = (
                f"it was found {found} at {spell(epoch.born)}: it is new, or has lost data. Jobs wait one lease, in"
                " case a"
                " run it no longer knows of is still alive. A new store does not wait if `cronce store init` makes it"
            )
            self.report(Event(What.DOUBTED, "meta", self.holder, self.know.now(), detail=why))

    def load(self, keys: Sequence[str]) -> Flow[tuple[Loaded, Timed]]:
        """Cells as they are now. A store that knows less than this process has lost data: once it is informed, it
        begins a new life, and is read again. (A durable store may answer a read with an older tally than it has; its
        swaps compare the latest.)"""
        for _ in range(MAX_ROUNDS):
            known = self.know.epoch
            request = Load([*keys, CLOCK] if self.know.doubt else keys)
            timed = self._heard(request, (yield request))
            loaded = timed.reply
            assert isinstance(loaded, Loaded)
            if request.keys is not keys:
                loaded = self._confirmed(loaded)
            epoch = loaded.epoch
            if epoch.seen >= known.seen or (self.traits.durable and epoch.birth == known.birth):
                return loaded, timed._replace(reply=loaded)
            yield from self.swap([], known.seen)
        raise StoreUnavailable("the store answers with older data than before and reports no loss")

    def _confirmed(self, loaded: Loaded) -> Loaded:
        """What was read while the store's clock was in doubt, besides the last cell: there a person may have confirmed
        that it is right."""
        *cells, said = loaded.cells
        act, doubt = standing_act(said), self.know.doubt
        if doubt is not None and act is not None and is_said(doubt, act.at, self.know.as_stored(loaded.now)):
            self.know.believe()
        return loaded._replace(cells=cells)

    def check_clock(self) -> None:
        """Before something is written or deleted that rests on the time."""
        if self.know.doubt is not None:
            raise StoreUnavailable(self.know.doubt.words)

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Flow[tuple[Swapped, Timed]]:
        began, request = self.know.boot(), Swap(writes, seen)
        try:
            timed = self._heard(request, (yield request))
        except StoreError:
            self.know.contact.broke(began)
            raise
        swapped = timed.reply
        assert isinstance(swapped, Swapped)
        for refused, _ in swapped.verdicts:
            if refused is None:
                self.know.contact.answered(timed.began, timed.ended)
                break
        return swapped, timed

    def probe(self) -> Flow[None]:
        """Find out whether the store answers who writes."""
        yield from self.swap([PROBE_WRITE], self.know.epoch.seen)

    def scan(self, request: Scan) -> Flow[Page]:
        timed = self._heard(request, (yield request))
        assert isinstance(timed.reply, Page)
        return timed.reply

    def purge(self, request: Purge) -> Flow[int]:
        self.check_clock()
        timed = self._heard(request, (yield request))
        assert isinstance(timed.reply, int)
        return timed.reply

    def rewrite(
        self, key: str, make: Callable[[Cell, Instant], tuple[T, Write | None]], beside: Write | None = None
    ) -> Flow[T]:
        """Read a cell, and write what `make` returns for it at the store's now, or leave the cell as it is. Returns the
        result that `make` gives. It tries again if another write came first, or if no answer came: then its own write
        may have landed."""
        lost: tuple[T, Write] | None = None
        unanswered = 0
        for _ in range(MAX_ROUNDS):
            loaded, _timed = yield from self.load([key])
            (cell,) = loaded.cells
            if lost is not None and cell.value == lost[1].value:
                return lost[0]
            made, write = make(cell, loaded.now)
            if write is None:
                return made
            try:
                writes = [write] if beside is None else [write, beside]
                swapped, _timed = yield from self.swap(writes, loaded.epoch.seen)
            except StoreUnavailable:
                lost, unanswered = (made, write), unanswered + 1
                if unanswered == UNANSWERED:
                    raise
                continue
            if swapped.verdicts[0].refused is None:
                return made
            lost = None
        raise StoreUnavailable(
            f"could not write {key}: other writers came first, or the store did not answer, {MAX_ROUNDS} times in a row"
        )
