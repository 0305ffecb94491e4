"""Flows about jobs as a whole: registering and editing them, pausing, purging history."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from cronce.errors import BadRecord, StoreUnavailable
from cronce.events import Event, What
from cronce.model import SWITCH, Boot, Cell, Instant, Mark, Slot, Write, job_cell, slot_of_cell, spell
from cronce.protocol.codec import readable
from cronce.protocol.gates import first_floor
from cronce.protocol.lease import FACTS_AGE, LOCK_LEASE, tolerance
from cronce.protocol.record import (
    PAUSED,
    PURGED,
    Act,
    Job,
    Purging,
    decode,
    decode_job,
    encode_job,
)
from cronce.protocol.retention import PURGE_DELAY, Keep, default_keep, excess
from cronce.protocol.specs import after_forgetting, begun_with, declared, raise_floor
from cronce.protocol.store_clock import is_job_dated
from cronce.runtime.client import MAX_ROUNDS, NEWS, Client
from cronce.runtime.flow import Flow, Purge, drive
from cronce.stores.base import Loaded, Position, Scan, Store

if TYPE_CHECKING:
    from cronce.runtime.declare import Declaration
    from cronce.runtime.keeper import Keeper
    from cronce.runtime.ledger import Ledger

PURGED_AT_ONCE: Final = 1000
"""Cells that go in one call."""

SWEPT_AFTER: Final = timedelta(days=1)
LEFT_BEHIND: Final = (
    ("holder/", Mark.OPEN),
    ("lock/", Mark.OPEN),
    ("asked/", Mark.OPEN),
    ("once/", Mark.CLOSED),
    ("once/", Mark.FREE),
    ("scope/", Mark.OPEN),
    ("bundle/", Mark.FREE),
    ("machine/", Mark.FREE),
    ("refusals/", Mark.FREE),
    ("observed/", Mark.FREE),
    ("alert/", Mark.FREE),
)
"""Cells of processes, machines, locks, requests and effects, which are of no use after so long without news."""

Edit = Callable[[Job | None, Instant], Job | None]
"""What becomes of a job, at the store's now; None leaves it as it is."""


class Jobs:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._compared: set[tuple[str, str]] = set()
        self.without_effects: Boot = 0.0
        """Until when the store is not asked again whether it holds any effects, since it held none."""

    def edit(self, name: str, edit: Edit) -> Flow[Job | None]:
        """Load the job, change it, swap it in; again when another was faster."""
        done = yield from self.edit_all({name: edit})
        if isinstance(job := done[name], BadRecord):
            raise job
        return job

    def edit_all(self, edits: Mapping[str, Edit]) -> Flow[dict[str, Job | BadRecord | None]]:
        """Many jobs, in one call to load and one to swap; again for those where another was faster. One that cannot be
        read, since a newer cronce wrote it, keeps none of the others from being edited."""
        done: dict[str, Job | BadRecord | None] = {}
        for _ in range(MAX_ROUNDS):
            yield from self._edit_once({name: edits[name] for name in sorted(edits.keys() - done.keys())}, done)
            if len(done) == len(edits):
                return done
        raise StoreUnavailable(f"could not write jobs: other processes wrote first {MAX_ROUNDS} times in a row")

    def _edit_once(self, edits: Mapping[str, Edit], done: dict[str, Job | BadRecord | None]) -> Flow[None]:
        know = self._client.know
        loaded, _ = yield from self._client.load([*map(job_cell, edits), SWITCH])
        *cells, switch = loaded.cells
        know.learn_switch(switch)
        writes: dict[str, Write] = {}
        news: list[Write] = []
        was: dict[str, Job | None] = {}
        made: dict[str, Job] = {}
        for (name, edit), cell in zip(edits.items(), cells, strict=True):
            try:
                was[name], new = self._edited(cell, edit, loaded)
            except BadRecord as error:
                done[name] = error
                continue
            if new is None or new == was[name]:
                know.learn_job(name, cell, loaded)
                done[name] = new
            else:
                made[name], limit = new, know.as_stored(loaded.now) + FACTS_AGE
                news = [NEWS] if news or _is_news(was[name], new) else []
                writes[name] = Write(cell.key, cell.version, encode_job(new), Mark.OPEN, not_after=limit)
        if not writes:
            return
        if any(is_job_dated(was[name], new) for name, new in made.items()):
            self._client.check_clock()
        swapped, _ = yield from self._client.swap([*writes.values(), *news], loaded.epoch.seen)
        for name, verdict in zip(writes, swapped.verdicts, strict=False):
            if verdict.refused is None:
                know.learn_job(name, verdict.cell, swapped)
                done[name] = job = decode_job(verdict.cell.value)
                self._tell(was[name], job, verdict.cell.key, swapped.now)

    def _tell(self, job: Job | None, new: Job | None, key: str, now: Instant) -> None:
        if new is not None and (job is None or job.firing != new.firing):
            what = What.REGISTERED if job is None else What.EDITED
            self._client.report(Event(what, key, self._client.holder, now, detail=new.firing))

    def _edited(self, cell: Cell, edit: Edit, loaded: Loaded) -> tuple[Job | None, Job | None]:
        """What the job is, and what it becomes. An edit after the store forgot puts that on record."""
        traits = self._client.traits
        job = decode_job(cell.value, cell.key) if cell.version else None
        known = job and after_forgetting(job, loaded.epoch, traits)
        new = edit(known, loaded.now) or known
        return job, new and after_forgetting(new, loaded.epoch, traits)

    def read(self, name: str) -> Flow[Job | None]:
        """The job as it is, and whether everything is stopped."""
        return self.edit(name, lambda _job, _now: None)

    def learn(self, name: str) -> Flow[None]:
        """Read the job, unless what is known of it is fresh; the store's clock comes with it."""
        if self._client.know.job(name) is None:
            yield from self.read(name)

    def compare_code(self, name: str, job: Job, code: str) -> None:
        """Another place in the code under the same name is most likely another job: the two share slots. It is logged
        once."""
        if code and job.code and job.code != code and (name, job.code) not in self._compared:
            from cronce.runtime.log import LOGGER  # noqa: PLC0415  slow to import, and few have two

            self._compared.add((name, job.code))
            LOGGER.warning(
                "%s is %s here and %s elsewhere: if these are two jobs, each slot runs only one of them. Give one"
                " of them another name, or each application its own namespace",
                name,
                code,
                job.code,
            )

    def declare(
        self, name: str, spec: tuple[str, str], slot: Instant, code: str = "", called: Instant | None = None
    ) -> Flow[Job]:
        """Record what a call from outside declares of its job, unless it is on record: no version fires by that, and no
        floor rises. A job that was unknown begins just below the slot of the call, and never later than now: a caller
        that is wrong about the time must not close the slots of the others. `called`: when the call came."""
        known, now = self._client.know.job(name), self._client.know.now()
        job, made = known.job if known else None, partial(_declared, spec, slot, code, called=called or now)
        if job is None or made(job, now) != job:
            job = yield from self.edit(name, made)
            assert job is not None
        self.compare_code(name, job, code)
        return job

    def pause(self, name: str, by: str = "", reason: str = "") -> Flow[tuple[Act, bool]]:
        """Who has it paused, and whether that is new: of several at once it is for one."""
        new = False

        def paused(job: Job | None, now: Instant) -> Job | None:
            nonlocal new  # as of the last time that it is asked: then it was not too slow
            known = job or Job(floor=now)
            new = known.paused is None
            return known._replace(paused=Act(by, now, reason)) if new else None

        job = yield from self.edit(name, paused)
        assert job is not None
        assert job.paused is not None
        return job.paused, new

    def resume(self, name: str, by: str = "") -> Flow[Act | None]:
        """Slots that fell due while paused do not fire now. Returns who had paused it; of several callers at once, one
        gets it."""
        was: Act | None = None

        def resumed(job: Job | None, now: Instant) -> Job | None:
            nonlocal was
            was = job and job.paused
            if job is None or was is None:
                return None
            return raise_floor(job._replace(paused=None), now, None, paused_and_resumed(was, by))

        yield from self.edit(name, resumed)
        return was

    # --- what is kept ---

    def purge(self, name: str, keep: Keep) -> Flow[int]:
        """Announce the deletion of runs that are not kept, or carry out one announced long enough ago: some of it, so
        that claims come in between. How many went.

        The floor rises first. The cells go a minute later, when no claim can rest on the old floor any more.
        """
        known = self._client.know.job(name)  # as fresh as a claim needs it; what is written is compared with the newest
        job = known.job if known else (yield from self.read(name))
        now = self._client.know.now()
        if job is None or (job.purging is not None and now < job.purging.ready):
            return 0
        found, gone = list[Cell](), 0
        if job.purging is not None:
            found = yield from self.excess(name, keep, job.purging.upto, PURGED_AT_ONCE)
            gone = yield from self._client.purge(Purge(found))
            self._client.report(Event(What.PURGED, job_cell(name), self._client.holder, now, detail=str(gone)))
        if len(found) < PURGED_AT_ONCE:
            yield from self._announce(name, job.purging, (yield from self.excess(name, keep, now, PURGED_AT_ONCE)))
        return gone

    def _announce(self, name: str, done: Purging | None, found: Sequence[Cell]) -> Flow[None]:
        """What is announced next, after what is done; unless another was faster."""
        upto = max((cell.at for cell in found if cell.at), default=None)

        def announce(job: Job | None, now: Instant) -> Job | None:
            if job is None or job.purging != done:
                return None
            if upto is None:
                return job._replace(purging=None)
            return raise_floor(job, upto, None, PURGED)._replace(purging=Purging(upto, now + PURGE_DELAY))

        if upto is not None or done is not None:
            yield from self.edit(name, announce)

    def excess(self, name: str, keep: Keep, upto: Instant | None = None, limit: int | None = None) -> Flow[list[Cell]]:
        """Runs that are not kept, the newest first. Within a job, keys are in order of time."""
        found: list[Cell] = []
        seen: Counter[str] = Counter()
        after: Position | None = None
        while limit is None or len(found) < limit:
            page = yield from self._client.scan(Scan(f"run/{name}/", after=after, newest_first=True))
            surplus = excess(page.cells, keep, page.now, seen)
            found += [cell for cell in surplus if upto is None or (cell.at is not None and cell.at <= upto)]
            after = page.next
            if after is None:
                break
        return found[:limit]

    def sweep(self) -> Flow[int]:
        """Delete what is left of processes, machines and locks that have not been heard of for long; how many went.
        By a clock that was not seen to run evenly for a while, a living lock could look as old."""
        know, gone = self._client.know, 0
        if know.even(know.guess(), tolerance(LOCK_LEASE)) < LOCK_LEASE:
            return 0
        for prefix, mark in LEFT_BEHIND:
            cells = yield from self._left_behind(prefix, mark)
            if cells:
                gone += yield from self._client.purge(Purge(cells))
        return gone

    def left_behind(self) -> Flow[int]:
        """How many a sweep would delete. A process that asks again and again has watched the clock for it."""
        found = 0
        yield from self._client.load([SWITCH])  # what is old is so by the store's clock
        for prefix, mark in LEFT_BEHIND:
            found += len((yield from self._left_behind(prefix, mark)))
        return found

    def _left_behind(self, prefix: str, mark: Mark) -> Flow[Sequence[Cell]]:
        upto = self._client.know.now() - SWEPT_AFTER
        page = yield from self._client.scan(Scan(prefix, "until", mark, upto, limit=PURGED_AT_ONCE))
        return page.cells


def _declared(
    spec: tuple[str, str], slot: Instant, code: str, job: Job | None, now: Instant, *, called: Instant
) -> Job:
    floor = first_floor(now, slot)
    known = declared(begun_with(job, floor, called) if job else Job(floor=floor), spec, now)
    return known._replace(code=known.code or code)


def paused_and_resumed(paused: Act, by: str) -> str:
    """Why slots were passed over meanwhile: who paused, when and why, and who resumed, which was when they end."""
    when = f" at {spell(paused.at)}" if paused.at else ""
    why = f" ({paused.reason})" if paused.reason else ""
    return f"{PAUSED} by {paused.by}{when}{why}, resumed by {by}" if paused.by and by else PAUSED


def _is_news(job: Job | None, new: Job) -> bool:
    """What other processes should not rest on the old facts for; a floor that rises can wait until they age."""
    return job is None or job.firing != new.firing or job.paused != new.paused


# --- what a process deletes by the way --------------------------------------------------------------------------------

# About once an hour, by a process that ran a slot of the job, on the keeper's thread. Nothing waits for it.

NO_EFFECTS: Final = 60.0
"""Seconds until a store that held no effects is asked again whether it holds any."""

TIDY_MOST: Final = 10
"""How many thousand runs are deleted at most in one purge; a job of every second makes four in an hour."""


def tidy_later(keeper: "Keeper", job: "Declaration", done: Slot) -> None:
    if job.tidies(done):
        keeper.later(f"tidy {job.name}", lambda store: _tidied(keeper, job, store))
        sweep_later(keeper)


def sweep_later(keeper: "Keeper") -> None:
    """What processes, machines and locks leave belongs to no job: of many jobs that are tidied at once, one sweeps."""
    keeper.later("sweep", lambda store: drive(keeper.node.ledger.jobs.sweep(), store, keeper.node.clock))


def _tidied(keeper: "Keeper", job: "Declaration", store: Store) -> None:
    jobs, clock = keeper.node.ledger.jobs, keeper.node.clock
    keep = (job.keep or default_keep(store.traits))._replace(least=job.still_open)
    for _ in range(TIDY_MOST):
        if drive(jobs.purge(job.name, keep), store, clock) < PURGED_AT_ONCE:
            break
    ledger = keeper.node.ledger
    if job.database is None and not drive(_has_effects(ledger, job.name, clock.boot()), store, clock):
        return
    before = drive(needless_before(ledger, job.name), store, clock)
    drive(purge_effects(ledger, job.name, before), store, clock)
    if job.database is not None:
        job.database.purge(job.name, before)


def _has_effects(ledger: "Ledger", job: str, boot: Boot) -> Flow[bool]:
    """Whether the job has made any. Where no job has, that is found out once for all that are tidied in a minute."""
    if boot < ledger.jobs.without_effects:
        return False
    if not (yield from ledger.client.scan(Scan("effect/", limit=1))).cells:
        ledger.jobs.without_effects = boot + NO_EFFECTS
        return False
    return bool((yield from ledger.client.scan(Scan(f"effect/{job}/", limit=1))).cells)


# --- effects: they outlive the runs of their slot, since a later run must know what was done --------------------------


SLOT_EFFECTS_KEPT: Final = timedelta(days=30)
"""For how long an effect is known at least, counted from the instant of its slot."""


def needless_before(ledger: "Ledger", job: str) -> Flow[Instant]:
    """Effects of slots before that instant are not needed: none of them has a run on record, nor will one have."""
    page = yield from ledger.client.scan(Scan(f"run/{job}/", limit=1))
    known = yield from ledger.jobs.read(job)
    now = ledger.know.now()
    oldest = [slot_of_cell(cell.key).at for cell in page.cells]
    closed = [known.floor + timedelta(seconds=1)] if known else []  # what is at the floor is closed, too
    return min([now - SLOT_EFFECTS_KEPT, *closed, *oldest])


def purge_effects(ledger: "Ledger", job: str, before: Instant) -> Flow[int]:
    """Delete what is not needed; what is in doubt stays. How many went. The order of the keys is that of the slots, so
    that most times the first of them is needed, and so are all."""
    prefix, old = f"effect/{job}/", f"effect/{job}/{spell(before)}"
    first = yield from ledger.client.scan(Scan(prefix, limit=1))
    if not any(cell.key < old for cell in first.cells):
        return 0
    page = yield from ledger.client.scan(Scan(prefix, limit=PURGED_AT_ONCE))
    needless = [cell for cell in page.cells if cell.key < old and _is_sure(cell)]
    return (yield from ledger.client.purge(Purge(needless))) if needless else 0


def _is_sure(cell: Cell) -> bool:
    record = readable(cell, decode)
    return record is not None and cell.mark is not Mark.ATTENTION and not record.is_running
