"""Jobs: a part of their list, and all that there is to see of one."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Final

from cronce.model import SWITCH, Cell, Epoch, Instant, Mark, check_name, job_cell, stored_cell
from cronce.monitor.reading.index import JobIndex
from cronce.monitor.reading.runs import Runs, RunsPage, marked_runs, newest_runs
from cronce.protocol.readable import all_readable
from cronce.protocol.record import RESOLVED, Act, Refusals, Stored, decode_refusals, standing_act
from cronce.runtime.effects.seen import load
from cronce.runtime.flow import Flow
from cronce.runtime.look import JobLine, JobSeen, RunSeen, read_page, seen_job, seen_runs
from cronce.runtime.stored.definitions import line_of
from cronce.stores.base import Scan
from cronce.value import NamedTuple

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


def next_up(limit: int = 10, *, index: JobIndex) -> Flow[JobsPage]:
    """The jobs that are due next, the soonest first, without their runs."""
    now = yield from index.keep_up()
    names = [name for _, name in index.soonest(limit, now)]
    now, lines = yield from lines_alone(list(dict.fromkeys(names)))
    due = sorted((line.next, line.seen.name, line) for line in lines if line.next is not None)
    return JobsPage(now, tuple(line for _, _, line in due), len(index), None)


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
    loaded = yield from load([*map(job_cell, names), *map(stored_cell, names)])
    cells = zip(names, loaded.cells, loaded.cells[len(names) :], strict=False)
    lines = (_line(name, job, stored, loaded.now) for name, job, stored in cells)
    return loaded.now, tuple(line for line in lines if line is not None)


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


class JobView(NamedTuple):
    """All that there is to see of a job, as of the store's now."""

    now: Instant
    epoch: Epoch
    seen: JobSeen
    """Its floor, its spans and whether it is paused stand in `seen.job`; everything may be `halted` besides."""
    halted: Act | None
    stored: Stored | None
    next: Instant | None
    runs: RunsPage
    open: Runs
    attention: Runs
    refused: tuple[HostRefused, ...]
    durations: tuple[Took, ...]
    """Of the newest runs, those that have ended, the newest first."""


def job_view(name: str, runs: int = 50, after: str | None = None) -> Flow[JobView | None]:
    """None: there is no such job."""
    loaded = yield from load([job_cell(check_name(name)), stored_cell(name), SWITCH])
    job, stored, switch = loaded.cells
    line = _line(name, job, stored, loaded.now)
    if line is None:
        return None
    page = yield from newest_runs(name, after=after, limit=runs)
    newest = yield from newest_runs(name, limit=TIMED)
    still_open = yield from marked_runs(Mark.OPEN, name)
    attention = yield from marked_runs(Mark.ATTENTION, name)
    refused = yield from refused_to(f"refusals/{name}/")
    durations = tuple(_took(newest.runs))
    return JobView(
        loaded.now,
        loaded.epoch,
        line.seen,
        standing_act(switch),
        line.stored,
        line.next,
        page,
        still_open,
        attention,
        refused[0],
        durations,
    )


def _took(runs: Iterable[RunSeen]) -> Iterator[Took]:
    for run in runs:
        record = run.record
        if record is None or record.started is None or record.finished is None:
            continue
        if not record.reason.startswith(RESOLVED):  # that it was over, somebody said who had not seen it
            yield Took(run, record.finished - record.started)


def refused_to(prefix: str) -> Flow[tuple[tuple[HostRefused, ...], bool]]:
    """What hosts were refused, of one job or of all; and whether there is more."""
    page = yield from read_page(refusals(prefix))
    return hosts_refused(page.cells), page.next is not None


def refusals(prefix: str) -> Scan:
    return Scan(prefix, limit=HOSTS)


def hosts_refused(cells: Iterable[Cell]) -> tuple[HostRefused, ...]:
    found = []
    for cell, refused in all_readable(cells, decode_refusals):
        _, job, host = cell.key.split("/", 2) if cell.key.count("/") > 1 else ("", "", "")
        found.append(HostRefused(job, host, refused))
    return tuple(found)
