"""The whole at a glance: what is wrong, who is there, what runs, what came of the latest. And a stretch of time: the
runs whose slots fall into it, what is open, and what was refused."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from cronce.errors import BadInput
from cronce.model import (
    BOARD_JOBS,
    EPOCH,
    GUESTS,
    MICROSECOND,
    SWITCH,
    Cell,
    Epoch,
    Instant,
    Mark,
    check_name,
    refusals_cell,
    spell,
    unspell,
)
from cronce.monitor import read_jobs, survey
from cronce.monitor.read_jobs import BoardVersion, HostRefused, JobIndex
from cronce.monitor.read_lists import (
    LIST_COUNTED,
    AlertsPage,
    RunList,
    alerts,
    counted_runs,
)
from cronce.protocol.codec import all_readable
from cronce.protocol.notices import ForeignJob, Refused, decode_guest
from cronce.protocol.record import Act, standing_act
from cronce.runtime.effects.review import EffectSeen
from cronce.runtime.flow import Flow
from cronce.runtime.queries import (
    READ_AHEAD,
    HolderSeen,
    JobLine,
    RunSeen,
    by_beats,
    filed,
    load,
    read_page,
    seen_runs,
    slot_named,
    sparing,
    told,
    with_hosts,
)
from cronce.runtime.run_lists import by_key, final_runs, latest_of, newest_of
from cronce.runtime.stored_jobs import lines_in
from cronce.stores.base import Page, Position, Scan
from cronce.telling.words import as_written
from cronce.value import NamedTuple

HOLDERS: Final = 200
"""So many schedulers are told of, the latest heard of first."""

GONE_SHOWN_FOR: Final = timedelta(hours=1)
"""For so long one that is gone is told of."""

OPEN_ON_OVERVIEW: Final = 200
"""So many that are open are told of."""

DOUBTS_COUNTED: Final = 200
"""Runs and effects in doubt are counted up to this."""

TOUCHED_READ: Final = 50
"""So many slots that open alerts name are read."""

UPCOMING: Final = 6
"""So many jobs that are due next are told of."""

STEPS_CHECKED: Final = 100
"""Steps that are begun, so many are checked for whether their run is still alive."""


class CountSeen(NamedTuple):
    """How many there are; with `more` there may be more than were counted."""

    number: int = 0
    more: bool = False


class Overview(NamedTuple):
    """The whole at a glance, as of the store's now."""

    now: Instant
    epoch: Epoch
    halted: Act | None
    alerts: AlertsPage
    holders: tuple[HolderSeen, ...]
    open: RunList
    attention: RunList
    in_doubt: CountSeen
    """How many effects are in doubt."""
    doubts: tuple[EffectSeen, ...]
    """Those."""
    newest: tuple[RunSeen, ...]
    closed: RunList
    refused: Page
    """What hosts were refused."""
    guests: tuple["ForeignSchedulerSeen", ...]
    """Who calls, besides our schedulers."""
    upcoming: tuple[JobLine, ...]
    """The jobs that are due next, the soonest first, without their runs."""
    touched: tuple[RunSeen, ...]
    """The runs that open alerts name: they are shown however many came after."""

    def survey(self) -> survey.Survey:
        """What a watcher would have seen of it, for what can be judged by one look."""
        return survey.Survey(
            self.now,
            self.epoch,
            holders=self.holders,
            open=self.open.runs,
            attention=self.attention.runs,
            more=self.attention.more,
            doubts=self.doubts,
        )


def overview(recent: int = 30, drawn: int = 0, index: JobIndex | None = None) -> Flow[Overview]:
    """With its `recent` runs and, by an `index`, the jobs that are due next. If it is `drawn`, so many of each kind are
    read and told, and no more counted: then `stretch_of` needs no other."""
    return (yield from sparing(_overview(recent, drawn, index), *READ_AHEAD))


def _overview(recent: int, drawn: int, index: JobIndex | None) -> Flow[Overview]:
    page = yield from read_page(_LATEST_HOLDERS)
    raised = yield from alerts()
    names = [] if index is None else index.due(UPCOMING, page.now)
    lines_at = read_jobs.cells_of(names)
    touched = _touched(raised)
    present, loaded, ended = yield from told(page.cells, [SWITCH, BOARD_JOBS, *lines_at, *touched])
    switch, board, *cells = loaded.cells
    lines = lines_in(names, {cell.key: cell for cell in cells}, loaded.now)
    found = [cell for cell in cells[len(lines_at) :] if cell.version]
    if index is not None:
        yield from index.keep_up(BoardVersion(board.version, ended))
        if (due := index.due(UPCOMING, loaded.now)) != names:
            _, lines = yield from read_jobs.lines_alone(due)
    still_open = counted_runs(
        (yield from read_page(by_key(Mark.OPEN, "", drawn or LIST_COUNTED))), drawn or OPEN_ON_OVERVIEW
    )
    still_open = still_open._replace(runs=tuple(by_beats(still_open.runs, present, loaded.now)))
    lost = yield from read_page(final_runs(Mark.ATTENTION, DOUBTS_COUNTED))
    steps = yield from read_page(survey.steps_in_doubt(DOUBTS_COUNTED))
    *keys, present_guests, refused = yield from _keys_and_refusals(loaded.now)
    attention = counted_runs(lost, drawn or max(recent, 50))
    closed = counted_runs((yield from read_page(final_runs(Mark.CLOSED, drawn or recent))), drawn or recent)
    begun = yield from read_page(Scan("effect/", mark=Mark.OPEN, limit=STEPS_CHECKED))
    pages = (steps, *keys, begun)
    doubtful = yield from survey.effects_in_doubt(pages)
    seen = (*still_open.runs, *attention.runs, *closed.runs)
    return Overview(
        loaded.now,
        loaded.epoch,
        standing_act(switch),
        raised,
        _remembered(present, page.now),
        still_open,
        attention,
        CountSeen(len(doubtful), any(page.next is not None for page in pages)),
        doubtful,
        newest_of(seen, recent),
        closed,
        refused,
        tuple(
            _with_schedules(one, index, loaded.now)
            for one in guests_of(present_guests.cells, seen, present, loaded.now)
        ),
        tuple(sorted((line for line in lines if line.next), key=lambda line: (line.next, line.seen.name))),
        tuple(by_beats(seen_runs(found, loaded.now), present, loaded.now)),
    )


def _touched(raised: AlertsPage) -> list[str]:
    """The cells of slots that alerts name."""
    keys: dict[str, None] = {}
    for text in (slot for alert in raised.alerts for slot in alert.slots):
        with suppress(BadInput):
            keys[slot_named(text).cell] = None
    return list(keys)[:TOUCHED_READ]


def _keys_and_refusals(now: Instant) -> Flow[list[Page]]:
    """Keys that are in doubt, guests, and what hosts were refused: these cells are neighbours in the order of keys, and
    read in one request, unless there are many."""
    yield from read_page(Scan("", after=Position(0, "once"), limit=2 * read_jobs.HOSTS))
    pages = []
    for scan in (
        *survey.keys_in_doubt(DOUBTS_COUNTED, now),
        Scan(GUESTS, limit=HOLDERS),
        read_jobs.refusals("refusals/"),
    ):
        pages += [(yield from read_page(scan))]
    return pages


# --- guests -----------------------------------------------------------------------------------------------------------


UNNAMED_KINDS: Final = ("calls", "a process")
"""The kinds of those that do not say of which they are: a process for each call, or one for all."""


class ForeignSchedulerSeen(NamedTuple):
    """Who calls, and is no scheduler of ours: a process that says of which kind it is and what it has to fire; or a
    host from which calls came within the last hour, each a process of its own, as a crontab makes them."""

    name: str
    kind: str
    jobs: tuple[ForeignJob, ...] = ()
    last: Instant | None = None
    """When it last ran something."""


def guests_of(
    cells: Iterable[Cell], runs: Iterable[RunSeen], holders: Iterable[HolderSeen], now: Instant
) -> Iterator[ForeignSchedulerSeen]:
    cells = [cell for cell in cells if cell.until and cell.until > now]
    said = [guest for _, guest in all_readable(cells, decode_guest)]
    ran: dict[str, list[RunSeen]] = {}
    for run in runs:
        if run.record and run.record.started and now - run.record.started < GONE_SHOWN_FOR:
            ran.setdefault(run.record.holder, []).append(run)
    for guest in sorted(said, key=lambda guest: (guest.kind, guest.holder)):
        yield ForeignSchedulerSeen(guest.holder, guest.kind, guest.jobs, _last(ran.pop(guest.holder, ())))
    ours = {one.holder.holder for one in holders}
    by_host: dict[str, list[str]] = {}
    for holder in ran:
        if holder not in ours:
            by_host.setdefault(holder.partition(":")[0], []).append(holder)
    for host, found in sorted(by_host.items()):
        calls = [run for holder in found for run in ran[holder]]
        names = dict.fromkeys(run.slot.job for run in calls)
        jobs = tuple(ForeignJob(name, "", None) for name in sorted(names))
        yield ForeignSchedulerSeen(host, UNNAMED_KINDS[len(found) == 1], jobs, _last(calls))


def _with_schedules(one: ForeignSchedulerSeen, index: JobIndex | None, now: Instant) -> ForeignSchedulerSeen:
    """The same; of jobs whose schedule the guest has not named, the one that its calls brought. The next come first."""
    if index is None or all(job.schedule for job in one.jobs):
        return one
    jobs = []
    for job in one.jobs:
        rules = () if job.schedule else index.schedules(job.name)
        slot = min((slot for rule in rules if (slot := rule.next(now)) is not None), default=job.next)
        jobs.append(job._replace(schedule=job.schedule or "; ".join(map(as_written, rules)), next=slot))
    return one._replace(jobs=tuple(sorted(jobs, key=lambda job: (job.next is None, job.next or now, job.name))))


def _last(runs: Iterable[RunSeen]) -> Instant | None:
    return max((run.record.started for run in runs if run.record and run.record.started), default=None)


# --- who is there ---------------------------------------------------------------------------------------------------

_LATEST_HOLDERS: Final = Scan("holder/", "until", Mark.OPEN, newest_first=True, limit=HOLDERS)


def holders() -> Flow[tuple[Instant, tuple[HolderSeen, ...]]]:
    """The live first, by name; then those that are gone, the latest first."""
    page = yield from read_page(_LATEST_HOLDERS)
    seen = (yield from told(page.cells)).holders if page.cells else []
    return page.now, _remembered(seen, page.now)


def _remembered(seen: Sequence[HolderSeen], now: Instant) -> tuple[HolderSeen, ...]:
    dead = [one for one in seen if one.life(now) == "dead" and one.until >= now - GONE_SHOWN_FOR]
    live = sorted((one for one in seen if one.life(now) != "dead"), key=lambda one: one.holder.holder)
    return (*live, *dead)


# --- a stretch of time ------------------------------------------------------------------------------------------------

FIRST_SLICE, NEXT_SLICES = 200, 1000
"""Runs that are read at once: few at first, since those of a short stretch are among them."""

OPEN_THEN: Final = 300
"""So many that are open are told of."""

REFUSALS_LOADED: Final = 250
"""Where hosts were refused much, so many cells of it are read: those of the newest jobs."""


class LostClaim(NamedTuple):
    """A claim that a host lost: a run that would have been."""

    job: str
    host: str
    refused: Refused


class TimeSpan(NamedTuple):
    """A stretch of time, from its start up to its end, which is not part of it."""

    now: Instant
    start: Instant
    end: Instant
    runs: tuple[RunSeen, ...]
    """Newest first: those whose slots fall into it, and those from before that are still open. Earlier grants of a run
    stand in its record."""
    ghosts: tuple[LostClaim, ...]
    """What was refused in that time, as far as hosts remember; the earliest first."""
    whole_from: Instant
    """From there on all runs are told of: later than the start where there are too many."""
    more_open: bool
    """Whether more are open than are told of."""
    more_ghosts: bool
    """Whether more may have been refused than is told of: of too many jobs."""


class _RunsSince(NamedTuple):
    """Runs, and from when on those are all."""

    runs: Sequence[RunSeen]
    whole_from: Instant


def stretch(
    start: Instant,
    end: Instant,
    job: str | None = None,
    limit: int = 2000,
    holders: Sequence[HolderSeen] | None = None,
) -> Flow[TimeSpan]:
    """By slot; a run by hand falls where it was requested. `holders` are those that were read already."""
    if job is None:
        parts = []
        for mark in (Mark.CLOSED, Mark.ATTENTION):
            scan = final_runs(mark, min(FIRST_SLICE, limit + 1))._replace(upto=end - MICROSECOND)
            parts += [(yield from _back_to(start, scan, limit))]
    else:
        parts = [(yield from _of_job(start, end, job, limit))]
    still_open = yield from read_page(by_key(Mark.OPEN, job or "", min(OPEN_THEN, limit)))
    now = still_open.now
    kept = seen_runs((cell for cell in still_open.cells if cell.at and cell.at < end), now)
    chosen = _chosen(parts, [*kept, *(parts[1].runs if job is None else ())], limit)
    runs = (yield from with_hosts(chosen.runs)) if holders is None else by_beats(chosen.runs, holders, now)
    refused = yield from read_page(read_jobs.refusals(f"refusals/{job}/" if job else "refusals/"))
    cells, more = refused.cells, refused.next is not None
    if job is None and more:
        known = yield from read_page(_LATEST_HOLDERS)
        cells, more = yield from _refused_of(refused, runs, [cell.key.removeprefix("holder/") for cell in known.cells])
    ghosts = _told(start, end, cells)
    return TimeSpan(now, start, end, tuple(runs), ghosts, chosen.whole_from, still_open.next is not None, more)


def stretch_of(seen: Overview, start: Instant, end: Instant, limit: int) -> Flow[TimeSpan]:
    """The same of all jobs up to now, out of an overview that was read to be drawn: only where much was refused, that
    is read, of a few."""
    parts = [_part(runs, start, end) for runs in (seen.closed, seen.attention)]
    touched = [run for run in seen.touched if start <= _filed_at(run) < end]
    still_open = [run for run in seen.open.runs if _filed_at(run) < end]
    # however many came after: those are what one looks for
    chosen = _chosen(parts, [*touched, *parts[1].runs, *still_open], limit)
    runs = tuple(chosen.runs)
    refused, more = yield from _refused_of(seen.refused, runs, [one.holder.holder for one in seen.holders])
    return TimeSpan(seen.now, start, end, runs, _told(start, end, refused), chosen.whole_from, seen.open.more, more)


def _part(found: RunList, start: Instant, end: Instant) -> _RunsSince:
    """What falls into it of the newest."""
    within = [run for run in found.runs if start <= _filed_at(run) < end]
    return _RunsSince(
        within, max(start, _filed_at(found.runs[-1]) + MICROSECOND) if found.more and found.runs else start
    )


def _chosen(parts: Sequence[_RunsSince], kept: Iterable[RunSeen], limit: int) -> _RunsSince:
    """The newest of them and those that are kept, such as all that are open; newest first."""
    found = _newest(run for part in parts for run in part.runs)
    whole = [part.whole_from for part in parts]
    if len(found) > limit:
        whole.append(_filed_at(found[limit - 1]) + MICROSECOND)
    return _RunsSince(_newest((*found[:limit], *kept)), max(whole))


def _of_job(start: Instant, end: Instant, job: str, limit: int) -> Flow[_RunsSince]:
    """Out of its latest; those before them are found by their slots, from the end on."""
    page, latest = yield from latest_of(check_name(job))
    runs = [run for run in latest if start <= _filed_at(run) < end]
    prefix = f"run/{job}/"
    behind = Position(0, prefix + spell(end.replace(microsecond=0) + timedelta(seconds=bool(end.microsecond))))
    while page.next is not None and _slot_at(page.next.key) >= start and len(runs) <= limit:
        page = yield from read_page(Scan(prefix, after=min(page.next, behind), limit=NEXT_SLICES, newest_first=True))
        runs += [run for run in seen_runs(page.cells, page.now) if start <= _filed_at(run) < end]
    return _RunsSince(runs, max(start, _slot_at(page.next.key) + MICROSECOND) if page.next else start)


def _back_to(start: Instant, scan: Scan, limit: int) -> Flow[_RunsSince]:
    runs: list[RunSeen] = []
    while True:
        page = yield from read_page(scan)
        seen = seen_runs(page.cells, page.now)
        within = [run for run in seen if _filed_at(run) >= start]
        runs += within
        ends = page.next is None or len(within) < len(seen)
        if ends or len(runs) > limit:
            return _RunsSince(runs, start if ends else _filed_at(runs[-1]) + MICROSECOND)
        scan = scan._replace(after=page.next, limit=min(NEXT_SLICES, limit + 1 - len(runs)))


def _newest(runs: Iterable[RunSeen]) -> list[RunSeen]:
    """In their order, each once: what is open may have been found by its slot, too."""
    return sorted({run.cell.key: run for run in runs}.values(), key=lambda run: filed(run.cell), reverse=True)


def _slot_at(key: str) -> Instant:
    """By its key; one that is no slot's is older than any."""
    try:
        return unspell(key.rpartition("/")[2].partition("#")[0])
    except BadInput:
        return EPOCH


def _filed_at(run: RunSeen) -> Instant:
    return run.cell.at or EPOCH


# --- what was refused -----------------------------------------------------------------------------------------------


def _refused_of(page: Page, runs: Sequence[RunSeen], holders: Iterable[str]) -> Flow[tuple[Sequence[Cell], bool]]:
    """All that hosts were refused of all jobs, if that is little; else of the jobs that are shown, and of hosts that
    are known by now: in one request. And whether there may be more."""
    if page.next is None:
        return page.cells, False
    holders = [*holders, *(run.record.holder for run in runs if run.record)]
    hosts = dict.fromkeys(holder.partition(":")[0] for holder in holders)
    hosts |= dict.fromkeys(one.host for one in read_jobs.hosts_refused(page.cells))
    keys = [refusals_cell(name, host) for name in _jobs_of(runs) for host in hosts if host]
    loaded = yield from load(keys[:REFUSALS_LOADED])
    return [cell for cell in loaded.cells if cell.version], len(keys) > REFUSALS_LOADED


def _jobs_of(runs: Iterable[RunSeen]) -> list[str]:
    return list(dict.fromkeys(run.slot.job for run in runs))


def _told(start: Instant, end: Instant, cells: Iterable[Cell]) -> tuple[LostClaim, ...]:
    return tuple(sorted(_within(start, end, read_jobs.hosts_refused(cells)), key=lambda ghost: ghost.refused.at))


def _within(start: Instant, end: Instant, told: Iterable[HostRefused]) -> Iterator[LostClaim]:
    for one in told:
        for refused in one.refusals.recent:
            if start <= refused.at < end:
                yield LostClaim(one.job, one.host, refused)
