"""A survey: what a watcher reads of the store each few seconds. A flow that only reads, and never all of it.

Facts, no words and no judgement: those are the folds' (`watch`). What cannot be read, since it is damaged or of a newer
cronce, is left out; what a store does not keep is not there.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import timedelta
from typing import Final, Literal, TypeVar

from cronce.model import BOARD_JOBS, SWITCH, Cell, Epoch, Instant, Mark, Slot, bundle_cells
from cronce.monitor.durations import read_histories
from cronce.monitor.known import SLICE, Known, read_runs, watched_rule
from cronce.protocol.decide import NOTHING_RAN
from cronce.protocol.notices import Beats, Observed, decode_beats, decode_observed
from cronce.protocol.readable import Decode, all_readable
from cronce.protocol.record import Act, Holder, Outcome, Record, decode_bundle, standing_act
from cronce.runtime.effects.seen import EffectSeen, Listed, load, look_at
from cronce.runtime.flow import Flow
from cronce.runtime.hand.acts import BACKFILL
from cronce.runtime.holders import HolderSeen, everybody
from cronce.runtime.look import HeldSeen, JobSeen, RunSeen, leaders, read_all, read_page, seen_run
from cronce.runtime.scheduling.roster import HOLDER_TTL, chunks
from cronce.stores.base import Scan
from cronce.value import NamedTuple

T = TypeVar("T")

NAMES: Final = 10 * SLICE
"""Beats, and names under which calls are observed: so many are watched."""

OPEN: Final = 5 * SLICE
"""Runs that are open, so many are looked at."""

LATELY: Final = timedelta(days=1)
"""For so long after a scheduler ended it matters what it carried."""

RESTART: Final = timedelta(seconds=60)
"""Whoever said goodbye may be back within so long."""


class Survey(NamedTuple):
    """What a watcher saw, at the store's now."""

    now: Instant
    epoch: Epoch
    halted: Act | None = None
    """Who stopped everything, if somebody did."""
    jobs: Mapping[str, JobSeen] = {}
    holders: Sequence[HolderSeen] = ()
    """Whoever left a cell: live if `until` is to come."""
    bundles: Mapping[str, Mapping[str, str]] = {}
    """Which version of which job, by what those holders name that live or did so lately."""
    unclaimed: Sequence[Slot] = ()
    """Slots that are due and may run, and that have no record."""
    looked: Sequence[RunSeen] = ()
    """Runs of slots that fell due, as far as they were looked at this time."""
    began: Mapping[str, RunSeen] = {}
    """The newest slot of each job that is on record, without what it printed."""
    ended: Mapping[str, RunSeen] = {}
    """The newest one that ran and is closed."""
    open: Sequence[RunSeen] = ()
    attention: Sequence[RunSeen] = ()
    """Runs that are lost or unknown; with `more` there are more than these."""
    more: bool = False
    doubts: Sequence[EffectSeen] = ()
    """Effects that are in doubt, a thousand of each sort at most."""
    leaders: Sequence[HeldSeen] = ()
    beats: Mapping[str, Beats] = {}
    observed: Mapping[str, Observed] = {}
    took: Mapping[str, Sequence[timedelta]] = {}
    """How long the last runs took that succeeded, of some jobs."""
    backfilled: Set[Slot] = frozenset()
    """Of slots that were too late to start, those that were made up for by hand."""

    @property
    def live(self) -> list[HolderSeen]:
        return [one for one in self.holders if one.until > self.now]


class Memory(NamedTuple):
    """What is remembered from one judgement to the next. Each gives the memory to go on with."""

    first: Instant | None = None
    """Since when it is watched."""
    birth: int | None = None
    reborn: Instant | None = None
    """When the store was found to be in another life."""
    since: Mapping[str, Instant] = {}
    """Since when each finding stands."""
    progress: Mapping[str, tuple[tuple[int, int], Instant]] = {}
    """How far each run was, and since when."""
    missed: Mapping[str, Sequence[tuple[Instant, Instant]]] = {}
    """Of each job the slots that were missed, each with when that was noted."""
    lapses: Mapping[str, Sequence[tuple[Instant, str]]] = {}
    """Of each job when a lease lapsed, and whose."""


Life = Literal["alive", "late", "dead"]


def beat_state(holder: Holder, until: Instant, now: Instant) -> Life:
    """How a process is, by its last beat. Late: two beats are overdue. Others take it for dead only when it lapses."""
    if holder.gone or until <= now:
        return "dead"
    return "late" if now - (until - HOLDER_TTL) > 2 * holder.every else "alive"


def attempts(record: Record) -> tuple[int, int]:
    """How often a slot was begun, and how often its work was completed: 0 or 1."""
    idle = sum(past.end in NOTHING_RAN for past in record.past)
    return max(record.grant - idle, 0), int(record.outcome is Outcome.SUCCEEDED)


# --- the flow -------------------------------------------------------------------------------------------------------


def survey(known: Known) -> Flow[Survey]:
    """What there is to see now. All jobs are read at once if nothing is known yet, or if somebody changed them or
    resumes all of them; else some of them."""
    first = yield from load([SWITCH, BOARD_JOBS])
    switch, board = first.cells
    if known.epoch.birth != first.epoch.birth:  # another life: nothing that was known of the last one holds
        known.begin(first.epoch)
    stopped = standing_act(switch)
    halted = stopped is not None
    whole = (board.version, halted) != (known.board, known.halted)
    yield from _learn_jobs(known, first.now, whole=whole)
    known.board, known.halted = board.version, halted
    _, everyone = yield from everybody()
    bundles = yield from _bundles(known, everyone, first.now)
    looked = yield from _look_at_slots(known, first.now)
    still_open = yield from _open()
    attention, more = yield from _attention()
    yield from _note_recent(known)
    yield from read_histories(known, still_open, first.now)
    return Survey(
        now=first.now,
        epoch=first.epoch,
        halted=stopped,
        jobs=known.jobs,
        holders=everyone,
        bundles=bundles,
        unclaimed=known.unclaimed(),
        looked=looked,
        backfilled=(yield from _backfilled(known, first.now)),
        began=known.began,
        ended=known.ended,
        open=still_open,
        attention=attention,
        more=more,
        doubts=(yield from effects_in_doubt(SLICE)).effects,
        leaders=(yield from leaders()),
        beats=(yield from named("beat/", decode_beats, NAMES)),
        observed=(yield from named("observed/", decode_observed, NAMES)),
        took={job: took for job, (_, took) in known.took.items()},
    )


def _learn_jobs(known: Known, now: Instant, *, whole: bool) -> Flow[None]:
    stored, gone = yield from known.stored_cells.read(whole=whole)
    known.learn_stored(stored, gone, now)
    jobs, gone = yield from known.job_cells.read(whole=whole)
    known.learn_jobs(jobs, gone, now)


def _bundles(known: Known, everyone: Iterable[HolderSeen], now: Instant) -> Flow[Mapping[str, Mapping[str, str]]]:
    """Of those that lived lately. What a bundle says never changes, so it is read once."""
    wanted = {one.holder.bundle for one in everyone if now - one.until < LATELY}
    known.bundles = {bundle: specs for bundle, specs in known.bundles.items() if bundle in wanted}
    for bundle in sorted(wanted - known.bundles.keys()):
        _, cells = yield from read_all(Scan(bundle_cells(bundle)))
        parts = [part for _, part in all_readable(cells, decode_bundle)]
        if parts:
            known.bundles[bundle] = {job: digest for part in parts for job, digest in part.specs.items()}
    return known.bundles


def _look_at_slots(known: Known, now: Instant) -> Flow[list[RunSeen]]:
    """The slots that fell due, and of a job that is new to us also the one before, if its latest is not over yet."""
    known.fall_due(now)
    looked = yield from _look(known, known.looked_at(now), now)
    return [*looked, *(yield from _look(known, known.watch_previous(now), now))]


def _look(known: Known, slots: Sequence[Slot], now: Instant) -> Flow[list[RunSeen]]:
    by_cell = {slot.cell: slot for slot in slots}
    runs = []
    for keys in chunks(by_cell):
        loaded = yield from load(keys)
        for cell in loaded.cells:
            run = seen_run(cell, now) if cell.version else None
            known.saw(by_cell[cell.key], run, now)
            runs += [run] if run is not None and run.record is not None else []
    return runs


def _backfilled(known: Known, now: Instant) -> Flow[Set[Slot]]:
    by_cell = {slot._replace(request=BACKFILL).cell: slot for slot in known.too_late(now)}
    done = set()
    for keys in chunks(by_cell):
        loaded = yield from load(keys)
        for cell in loaded.cells:
            record = seen_run(cell, now).record if cell.version else None
            done |= {by_cell[cell.key]} if record and record.outcome is Outcome.SUCCEEDED else set()
    return done


def _open() -> Flow[list[RunSeen]]:
    """Those whose lease passed longest ago come first."""
    return (yield from read_runs(Scan("run/", "until", Mark.OPEN), OPEN))[0]


def _attention() -> Flow[tuple[list[RunSeen], bool]]:
    """Of more than fit, the newest besides: runs by hand are filed by no instant, so that one order does not do."""
    found, more = yield from read_runs(Scan("run/", mark=Mark.ATTENTION), SLICE)
    if more:
        newest, _ = yield from read_runs(Scan("run/", "at", Mark.ATTENTION, newest_first=True), SLICE)
        found = list({run.slot: run for run in (*found, *newest)}.values())
    return found, more


def _note_recent(known: Known) -> Flow[None]:
    """Of jobs without a schedule that could be watched, the last runs."""
    if any(watched_rule(seen) is None for seen in known.jobs.values()):
        recent, _ = yield from read_runs(Scan("run/", "at", newest_first=True), SLICE)
        for run in recent:
            seen = known.jobs.get(run.slot.job)
            if seen is not None and watched_rule(seen) is None:
                known.note(run)


def effects_in_doubt(most: int, begun: int = 0) -> Flow[Listed]:
    """Those that wait for a person, and keys whose lease has passed: of each sort so many. So many steps that stand as
    begun are looked at besides, whether somebody still is at them. (Whoever is told of runs needs none of those: such a
    step is over with its run, and that is lost then.)"""
    page = yield from read_page(Scan("effect/", mark=Mark.ATTENTION, limit=most))
    found = yield from look_at(page.cells, page.now)
    more = page.next is not None
    for scan in (
        Scan("once/", mark=Mark.ATTENTION, limit=most),
        Scan("once/", "until", Mark.OPEN, page.now, limit=most),
        *([Scan("effect/", mark=Mark.OPEN, limit=begun)] if begun else []),
    ):
        page = yield from read_page(scan)
        found += yield from look_at(page.cells, page.now)
        more = more or page.next is not None
    return Listed(tuple(one for one in found if one.state == "in doubt"), more)


def named(prefix: str, decode: Decode[T], most: int) -> Flow[dict[str, T]]:
    """What stands under each name; the first of them by name, if there are more than that."""
    scan, cells = Scan(prefix, limit=min(most, SLICE)), list[Cell]()
    for _ in range(most // scan.limit):
        page = yield from read_page(scan)
        cells += page.cells
        if page.next is None:
            break
        scan = scan._replace(after=page.next)
    return {cell.key.removeprefix(prefix): said for cell, said in all_readable(cells, decode)}
