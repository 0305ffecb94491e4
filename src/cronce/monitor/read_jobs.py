"""Jobs: a part of their list, and all that there is to see of one."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from cronce.model import SWITCH, Cell, Epoch, Instant, Mark, check_name, job_cell, observed_cell, stored_cell
from cronce.monitor.job_index import JobIndex
from cronce.monitor.read_lists import COUNTED, Runs, RunsPage, by_key, counted_runs, first_of, newest_runs
from cronce.protocol.codec import all_readable, readable
from cronce.protocol.notices import Observed, Refusals, Stored, decode_observed, decode_refusals
from cronce.protocol.record import Act, standing_act
from cronce.runtime.flow import Flow
from cronce.runtime.queries import JobLine, JobSeen, RunSeen, is_carried, live, load, read_page, seen_job, seen_runs
from cronce.runtime.stored_jobs import line_of
from cronce.stores.base import Loaded, Page, Scan, page_of
from cronce.value import NamedTuple

NEWEST: Final = 200
"""So many runs of a job are read at once: those that are listed, timed and drawn are among them."""

TIMED: Final = 100
"""Of so many runs it is told how long they took."""

HOSTS: Final = 200
"""Of so many hosts it is told what they were refused."""


class JobsPage(NamedTuple):
    """A part of the list of jobs, how many there are in all, and the name after which the rest stands, or None."""

    now: Instant
    lines: tuple[JobLine, ...]
    total: int
    next: str | None


def job_lines(after: str = "", limit: int = 50, matching: str = "", *, index: JobIndex) -> Flow[JobsPage]:
    """Jobs by name, those whose name or schedule contains a text, each with its next slot and its newest run."""
    yield from index.keep_up()
    found = index.search(matching, after, limit)
    now, lines = yield from lines_of(found.names)
    return JobsPage(now, lines, found.total, found.next)


def lines_of(names: Sequence[str]) -> Flow[tuple[Instant, tuple[JobLine, ...]]]:
    """What a list says of these jobs; of one that is gone, nothing."""
    now, lines = yield from lines_alone(names)
    told: list[JobLine] = []
    for line in lines:
        told += [line._replace(last=(yield from last_run(line.seen.name)))]
    return now, tuple(told)


def last_run(name: str) -> Flow[RunSeen | None]:
    page = yield from read_page(Scan(f"run/{name}/", newest_first=True, limit=1))
    return next(iter(seen_runs(page.cells, page.now)), None)


def lines_alone(names: Sequence[str]) -> Flow[tuple[Instant, tuple[JobLine, ...]]]:
    """The same in one request, without a run: for who reads more of those than the newest."""
    loaded = yield from load(cells_of(names))
    return loaded.now, lines_in(names, loaded.cells, loaded.now)


def cells_of(names: Sequence[str]) -> list[str]:
    return [*map(job_cell, names), *map(stored_cell, names)]


def lines_in(names: Sequence[str], cells: Sequence[Cell], now: Instant) -> tuple[JobLine, ...]:
    """What stands in those cells."""
    read = zip(names, cells, cells[len(names) :], strict=False)
    lines = (_line(name, job, stored, now) for name, job, stored in read)
    return tuple(line for line in lines if line is not None)


def _line(name: str, job: Cell, stored: Cell, now: Instant) -> JobLine | None:
    seen = seen_job(job) if job.version else None
    line = JobLine(seen, seen.next(now), None) if seen else None
    return line_of(name, stored, line, now) if stored.version else line


# --- one job --------------------------------------------------------------------------------------------------------


class Took(NamedTuple):
    """How long a run took that has ended."""

    run: RunSeen
    span: timedelta


class HostRefused(NamedTuple):
    """What a host was refused of a job."""

    job: str
    host: str
    refusals: Refusals


class Pages(NamedTuple):
    """What a view was read from: its picture is drawn of the same."""

    newest: Page
    open: Page
    refused: Page


class JobView(NamedTuple):
    """All that there is to see of a job, as of the store's now."""

    now: Instant
    epoch: Epoch
    seen: JobSeen
    """Its floor, its spans and whether it is paused stand in `seen.job`; everything may be `halted` besides."""
    halted: Act | None
    stored: Stored | None
    next: Instant | None
    carried: bool
    """Whether a live scheduler would run what is due of it."""
    observed: Observed | None
    """Where it is only observed: what ran though a guard would have refused it."""
    runs: RunsPage
    open: Runs
    attention: Runs
    refused: tuple[HostRefused, ...]
    durations: tuple[Took, ...]
    """Of the newest runs, those that have ended, the newest first."""
    pages: Pages


def job_view(name: str, runs: int = 50, after: str | None = None) -> Flow[JobView | None]:
    """None: there is no such job."""
    cells = [job_cell(check_name(name)), stored_cell(name), SWITCH, observed_cell(name)]
    timed, present = yield from live(cells)
    loaded = timed.reply
    assert isinstance(loaded, Loaded)
    job, stored, switch, observed, *_ = loaded.cells
    line = _line(name, job, stored, loaded.now)
    if line is None:
        return None
    has_scheduler = yield from is_carried(name, present)
    newest = yield from read_page(Scan(f"run/{name}/", newest_first=True, limit=NEWEST))
    found = seen_runs(newest.cells, newest.now)
    page = (yield from newest_runs(name, after=after, limit=runs)) if after else first_of(found, newest, runs)
    still_open = yield from _marked(Mark.OPEN, name, newest)
    attention = yield from _marked(Mark.ATTENTION, name, newest)
    refused = yield from read_page(refusals(f"refusals/{name}/"))
    return JobView(
        loaded.now,
        loaded.epoch,
        line.seen,
        standing_act(switch),
        line.stored,
        line.next,
        has_scheduler,
        readable(observed, decode_observed),
        page,
        counted_runs(still_open),
        counted_runs(attention),
        hosts_refused(refused.cells),
        tuple(Took(run, span) for run in found[:TIMED] if run.record and (span := run.record.took()) is not None),
        Pages(newest, still_open, refused),
    )


def _marked(mark: Mark, name: str, newest: Page) -> Flow[Page]:
    """The runs of a job with that mark: out of its newest, if those are all."""
    scan = by_key(mark, name, COUNTED)
    if newest.next is None:
        return page_of(newest.cells, scan, newest.now, newest.epoch)
    return (yield from read_page(scan))


def refusals(prefix: str) -> Scan:
    return Scan(prefix, limit=HOSTS)


def hosts_refused(cells: Iterable[Cell]) -> tuple[HostRefused, ...]:
    found = []
    for cell, refused in all_readable(cells, decode_refusals):
        _, job, host = cell.key.split("/", 2) if cell.key.count("/") > 1 else ("", "", "")
        found.append(HostRefused(job, host, refused))
    return tuple(found)
