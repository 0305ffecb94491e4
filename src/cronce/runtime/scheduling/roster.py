"""The roster: which schedulers are alive, which versions of which jobs they carry, and which of them tries a slot
first.

A scheduler writes a beat every few seconds, in a cell of its own that lapses when the beats end. The jobs it carries
are the same for all processes of a deploy. So they are in a *bundle*, which is written once and named by its digest:
with ten thousand jobs a beat is still a hundred bytes.

*Order.* Every scheduler knows every slot. Each slot orders the live schedulers by a hash of both (rendezvous hashing):
the first claims it at its instant, the second a moment later, the others when they look next. So a slot costs about one
claim, work spreads evenly, and no message is needed when a scheduler starts or ends. The order decides nothing: if two
believe they are first, the store still grants the slot once.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import Final, TypeVar

from cronce.errors import BadRecord, StoreUnavailable
from cronce.model import FREE, Cell, Instant, Mark, Refusal, Slot, Write, bundle_cells, holder_cell
from cronce.protocol.codec import all_readable
from cronce.protocol.lease import tolerance
from cronce.protocol.notices import Bundle, Holder, decode_bundle, decode_holder, encode_notice
from cronce.protocol.record import Job
from cronce.protocol.specs import fires_alike, respec
from cronce.protocol.store_clock import is_ahead
from cronce.runtime.client import NEWS, Client
from cronce.runtime.flow import Flow
from cronce.runtime.jobs import Edit, Jobs
from cronce.runtime.log import LOGGER
from cronce.stores.base import Position, Scan
from cronce.value import NamedTuple

T = TypeVar("T")

HOLDER_TTL: Final = timedelta(seconds=30)
"""A process that has not beaten for this long no longer decides which version of a job fires."""

BUNDLE_TTL: Final = timedelta(days=30)
REPUBLISH: Final = 3600.0
"""Seconds after which a bundle is written again, so that it outlives the other processes that wrote it."""

JOINED_AFTER: Final = timedelta(seconds=3)
"""This long after its start, a scheduler has handled the missed slots it found; until then, they are open to others
too."""

JOBS_PER_CELL: Final = 1000
"""How many jobs are registered at once, and how many entries of a bundle are in one cell."""

NO_JOBS: Final = Bundle({}, {})
NO_CODE: Final[Mapping[str, str]] = NO_JOBS.code

Specs = Mapping[str, tuple[str, str]]
"""Job name → (digest, text) of the version that a process carries."""


Code = Mapping[str, str]
"""Job name → where its function is, as far as it has one."""


def digest_of(specs: Specs, code: Code = NO_CODE) -> str:
    """The name of a bundle."""
    lines = "\n".join(f"{job} {specs[job][0]} {code.get(job, '')}".rstrip() for job in sorted(specs))
    return blake2b(lines.encode(), digest_size=8).hexdigest()


class Roster:
    """One process's view. `live` are the schedulers that were alive at the last beat, this one the last of them."""

    def __init__(self, client: Client, jobs: Jobs, leaving: Callable[[], bool] = lambda: False) -> None:
        self._client = client
        self._jobs = jobs
        self._leaving = leaving
        self._bundles: dict[str, Bundle] = {}
        self._published = -REPUBLISH
        self._published_in: tuple[str, int] = ("", 0)
        self._registered: object = None
        self._unheard_of: set[tuple[str, str]] = set()
        self._fires: dict[str, bool] = {}
        self._regained: set[str] = set()
        self._before: dict[str, Instant] = {}
        self._order: dict[str, list[int]] = {}
        self.live: tuple[Holder, ...] = ()

    def beat(
        self, me: Holder, specs: Specs, boot: float, ttl: timedelta = HOLDER_TTL, code: Code = NO_CODE
    ) -> Flow[None]:
        """Write a beat with what this process carries; read which versions are alive, and register jobs."""
        client = self._client
        seen, mine = yield from self._holders(ttl)
        writes = [Write(mine.key, mine.version, encode_notice(me), Mark.OPEN, ttl=ttl)]
        if not self.live:
            writes.append(NEWS)
        life = (me.bundle, client.know.epoch.birth)
        publishes = boot - self._published >= REPUBLISH or life != self._published_in
        if publishes:
            writes += _bundle_writes(me.bundle, specs, code)
            self._bundles[me.bundle] = Bundle({job: digest for job, (digest, _) in specs.items()}, code)
        swapped, _ = yield from client.swap(writes, client.know.epoch.seen)
        if swapped.verdicts[0].refused is Refusal.EPOCH:
            raise StoreUnavailable("the store was reset: send a sign of life again")
        if publishes:
            self._published, self._published_in = boot, life
        yield from self._learn_bundles({one.holder.bundle for one in seen if one.live or not self.live})
        if not self.live:
            self._remember(one for one in seen if me.since - one.holder.since >= JOINED_AFTER)
        self.live = (*(one.holder for one in seen if one.live), me)
        carried = {one.bundle for one in self.live}
        self._bundles = {bundle: specs for bundle, specs in self._bundles.items() if bundle in carried}
        self._order.clear()
        yield from self._register(me.bundle, specs, code)

    def leave(self, me: Holder) -> Flow[None]:
        """This process claims no more: the others need not wait for its beat to lapse. Its record stays."""
        loaded, _ = yield from self._client.load([holder_cell(me.holder)])
        (cell,) = loaded.cells
        write = Write(cell.key, cell.version, encode_notice(me._replace(gone=True)), Mark.OPEN, ttl=timedelta(0))
        swapped, _ = yield from self._client.swap([write, NEWS], self._client.know.epoch.seen)
        if swapped.verdicts[0].refused is not None:
            raise StoreUnavailable("a late sign of life arrived in between: leave again")

    def _remember(self, seen: Iterable["SchedulerSeen"]) -> None:
        for one in seen:
            if one.last is None:
                continue
            for job in self._bundles.get(one.holder.bundle, NO_JOBS).specs:
                self._before[job] = max(one.last, self._before.get(job, one.last))

    def looked_after(self, job: str) -> Instant | None:
        """When an earlier scheduler last reported that it looks after the job, if that is remembered."""
        return self._before.get(job)

    # --- which scheduler tries first ---

    def place(self, slot: Slot) -> int:
        """How many go before this process, of those that do the same for this version of the job."""
        if len(self.live) == 1:
            return 0
        job, me = slot.job, self.live[-1]
        others = self._order.get(job)
        if others is None:
            digest = self._bundles[me.bundle].specs[job]
            beside = [one for one in self.live if self._beside(one, me, job, digest)]
            others = self._order[job] = [seed_of(one.holder) for one in beside]
        return rank(seed(slot.key), seed_of(me.holder), others) if others else 0

    def _beside(self, one: Holder, me: Holder, job: str, digest: str) -> bool:
        same = (one.role == "schedule") == (me.role == "schedule")
        return same and one.holder != me.holder and not one.draining and self._carries(one, job) == digest

    def _carries(self, one: Holder, job: str) -> str | None:
        return self._bundles.get(one.bundle, NO_JOBS).specs.get(job)

    # --- which schedulers are alive ---

    def _holders(self, ttl: timedelta) -> Flow[tuple[list["SchedulerSeen"], Cell]]:
        """The other schedulers that left a cell, and this process's own cell."""
        client = self._client
        seen: list[SchedulerSeen] = []
        mine = Cell(holder_cell(client.holder))
        after: Position | None = None
        while True:
            page = yield from client.scan(Scan("holder/", after=after))
            sample, steady = client.know.guess(), tolerance(ttl)
            even = client.know.even(sample, steady)
            for cell in page.cells:
                if cell.key == mine.key:
                    mine = cell
                else:
                    ahead = cell.until is not None and is_ahead(cell.until, page.now)
                    watched = client.know.watched(cell, sample, steady) if ahead else even
                    with suppress(BadRecord):  # written by a newer cronce: alive, but its beat cannot be read here
                        seen.append(_seen(cell, page.now, ttl, watched=watched >= ttl))
            after = page.next
            if after is None:
                return seen, mine

    def _learn_bundles(self, bundles: Set[str]) -> Flow[None]:
        for bundle in sorted(bundles - self._bundles.keys()):
            page = yield from self._client.scan(Scan(bundle_cells(bundle)))
            parts = [part for _, part in all_readable(page.cells, decode_bundle)]
            if parts:
                self._bundles[bundle] = joined(parts)

    # --- which version fires ---

    def _register(self, mine: str, specs: Specs, code: Code) -> Flow[None]:
        """Record every job as the live versions declare it. Again only if those changed, the store forgot, or a version
        fires that is not alive."""
        bundles = {one.bundle for one in self.live}
        state = (mine, bundles, self._client.know.epoch.birth)
        if state == self._registered and not self._is_overruled(specs):
            return
        others = [self._bundles[bundle] for bundle in sorted(bundles & self._bundles.keys())]
        for names in chunks(specs):
            if self._leaving():  # a hundred thousand take a minute
                return
            done = yield from self._jobs.edit_all({name: _respec(name, specs, code, others) for name in names})
            for name, job in done.items():
                if isinstance(job, BadRecord):
                    LOGGER.error("%s is not run by this process: %s", name, job)
                elif job is not None:
                    self._note_firing(name, fires=fires_alike(job, specs[name][0]))
                    self._jobs.compare_code(name, job, code.get(name, ""))
        self._registered = state

    def _note_firing(self, name: str, *, fires: bool) -> None:
        if fires and self._fires.get(name) is False:
            self._regained.add(name)
        self._fires[name] = fires

    def regained(self) -> Set[str]:
        """Jobs that another version fired until a moment ago, and that this process fires again. The other version's
        processes may have been dead for a while: claims of this process for slots that fell due meanwhile were
        refused."""
        regained, self._regained = self._regained, set()
        return regained

    def _is_overruled(self, specs: Specs) -> bool:
        """Whether a version fires that no live process carries, at this beat and at the last: a process registered it
        late, and is gone. (At one beat alone, it may belong to a process that has just started.)"""
        known, carried = self._client.know.jobs(specs), self._bundles.values()
        others = {(job, one.job.firing) for job, one in known.items() if one.job and one.job.firing != specs[job][0]}
        unheard_of = {(job, firing) for job, firing in others if all(one.specs.get(job) != firing for one in carried)}
        before, self._unheard_of = self._unheard_of, unheard_of
        return not before.isdisjoint(unheard_of)


class SchedulerSeen(NamedTuple):
    """A scheduler that left a cell: whether it is alive, and when it last beat, if that is known."""

    holder: Holder
    live: bool
    last: Instant | None


def _seen(cell: Cell, now: Instant, ttl: timedelta, *, watched: bool) -> SchedulerSeen:
    """A scheduler whose beat looks old by a clock that was not watched for long enough still counts as live. One whose
    beat was dated far ahead, by a clock that jumped, counts as live until its cell was seen unchanged for as long."""
    holder, until = decode_holder(cell.value, cell.key), cell.until or now
    if is_ahead(until, now):
        return SchedulerSeen(holder, live=not (holder.gone or watched), last=None)
    if holder.gone:
        return SchedulerSeen(holder, live=False, last=until)
    return SchedulerSeen(holder, live=not watched or now < until, last=until - ttl)


def chunks(many: Iterable[T], size: int | None = None) -> Iterator[list[T]]:
    left = iter(many)
    while chunk := list(islice(left, size or JOBS_PER_CELL)):
        yield chunk


def joined(parts: Iterable[Bundle]) -> Bundle:
    """The parts of a bundle as one."""
    whole = Bundle({}, {})
    for part in parts:
        whole = Bundle({**whole.specs, **part.specs}, {**whole.code, **part.code})
    return whole


def _bundle_writes(bundle: str, specs: Specs, code: Code) -> list[Write]:
    return [
        Write(
            f"{bundle_cells(bundle)}{number:03}",
            FREE,
            encode_notice(
                Bundle({name: specs[name][0] for name in names}, {name: code[name] for name in names if name in code})
            ),
            Mark.FREE,
            ttl=BUNDLE_TTL,
        )
        for number, names in enumerate(chunks(sorted(specs)))
    ]


def _respec(name: str, specs: Specs, code: Code, carried: Collection[Bundle]) -> Edit:
    """Where its code is stays as it is while a process is alive that has it there."""
    live = {one.specs[name] for one in carried if name in one.specs}
    places = {one.code.get(name, "") for one in carried}

    def edit(job: Job | None, now: Instant) -> Job:
        stays = job is not None and job.code in places
        return respec(job, specs[name], live, now, "" if stays else code.get(name, ""))

    return edit


# --- which scheduler tries first ------------------------------------------------------------------------------------

_MASK: Final = (1 << 64) - 1
_ODD: Final = 0x9E3779B97F4A7C15


@lru_cache(maxsize=1000)
def seed_of(holder: str) -> int:
    """A holder's seed, which is asked for with every slot."""
    return seed(holder)


def seed(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def rank(key: int, me: int, others: Iterable[int]) -> int:
    """How many of the other schedulers go before this one, all given by their seeds."""
    mine = _weight(key, me)
    return sum(_weight(key, other) > mine for other in others)


def _weight(key: int, holder: int) -> int:
    mixed = ((key ^ holder) * _ODD) & _MASK
    return ((mixed ^ (mixed >> 29)) * _ODD) & _MASK
