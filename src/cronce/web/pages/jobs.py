"""Jobs: found by a text or by how they stand, in the order of their names or of what is due next, part by part."""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, Literal, get_args

from starlette.requests import Request

from cronce.errors import BadInput
from cronce.model import Instant
from cronce.monitor.job_index import JobIndex
from cronce.monitor.read_jobs import last_run, lines_alone
from cronce.monitor.read_lists import newest_runs
from cronce.runtime.flow import Flow
from cronce.runtime.queries import JobLine, RunSeen, carried, load, read_page, seen_runs
from cronce.stores.base import Scan
from cronce.telling.words import as_written
from cronce.value import NamedTuple
from cronce.web.site import Shown, site_of

AT_ONCE: Final = 50
SPARKS: Final = 12
"""Of so many runs of a job the outcomes are shown."""

RUNNING: Final = 200
"""So many runs are looked at for the jobs that run."""

FAILING: Final = 60
"""So many that went wrong in one way, for the jobs that fail: the last run of each of those is read."""

Stand = Literal["failing", "running", "paused", "silent"]
Order = Literal["name", "next"]
WRONG: Final = ("failed", "lost", "unknown", "lapsed", "unreadable")


class Asked(NamedTuple):
    """Which jobs are asked for."""

    text: str = ""
    stand: Stand | None = None
    order: Order = "name"
    after: str = ""

    @property
    def kept(self) -> dict[str, str | None]:
        """As a link says it, but for where the list goes on."""
        order = None if self.order == "name" else self.order
        return {"q": self.text or None, "state": self.stand, "sort": order}


class Row(NamedTuple):
    line: JobLine
    schedule: str
    stands: tuple[str, ...]
    last: RunSeen | None
    outcomes: tuple[str, ...]
    """Of the last runs, the newest last."""


class Standing(NamedTuple):
    """The jobs that stand in some way, and where looking for them stopped, if it did."""

    names: Collection[str]
    stopped: str = ""


def jobs_page(request: Request) -> Flow[Shown]:
    query, index = request.query_params, site_of(request).index
    stand: Stand | None = _one_of(Stand, query.get("state"))
    order: Order = _one_of(Order, query.get("sort")) or "name"
    asked = Asked(query.get("q", "").strip(), stand, order, query.get("after", ""))
    yield from index.keep_up()
    now = (yield from load([])).now
    served = yield from carried()
    names, stopped = yield from _wanted(asked, index, now, served)
    start = _start(asked, names)
    part = names[start : start + AT_ONCE]
    now, lines = yield from lines_alone(part)
    rows: list[Row] = []
    for line in lines:
        rows += [(yield from _row(line, served))]
    return {
        "now": now,
        "rows": rows,
        "asked": asked,
        "found": len(names),
        "stopped": stopped,
        "total": len(index),
        "next": part[-1] if start + AT_ONCE < len(names) else None,
        "stands": get_args(Stand),
    }


def _one_of(choices: Any, given: str | None) -> Any:
    if given and given not in get_args(choices):
        raise BadInput(f"{given[:40]!r} is none of {', '.join(get_args(choices))}")
    return given or None


def _start(asked: Asked, names: Sequence[str]) -> int:
    """Where the list goes on. By name that is known also after a job that is gone by now."""
    if asked.order == "name":
        return bisect_right(names, asked.after)
    return names.index(asked.after) + 1 if asked.after in names else 0


def _row(line: JobLine, served: Collection[str]) -> Flow[Row]:
    page = yield from read_page(Scan(f"run/{line.seen.name}/", newest_first=True, limit=SPARKS))
    runs = seen_runs(page.cells, page.now)
    outcomes = tuple(run.shown for run in reversed(runs))
    schedules = "; ".join(map(as_written, line.seen.schedules))
    return Row(line, schedules, tuple(stands_of(line, served)), runs[0] if runs else None, outcomes)


def stands_of(line: JobLine, served: Collection[str]) -> Iterator[str]:
    """What is to be said of a job besides its last outcome."""
    seen = line.seen
    if seen.job is None:
        yield "unreadable"
    elif line.stored is not None and line.stored.definition is None:
        yield "removed"
    elif seen.job.paused:
        yield "paused"
    elif seen.is_scheduled and seen.name not in served:
        yield "silent"


# --- which ------------------------------------------------------------------------------------------------------------


def _wanted(asked: Asked, index: JobIndex, now: Instant, served: Collection[str]) -> Flow[tuple[Sequence[str], str]]:
    """Names, in order: all of them, since they are at hand; what is shown of them is read part by part. And where
    looking for them stopped."""
    stopped = ""
    names: Sequence[str] = index.search(asked.text, limit=len(index)).names
    if asked.stand is not None:
        standing, stopped = yield from _standing(asked.stand, names, index, served)
        names = [name for name in names if name in standing]
    if asked.order == "next":
        soon = [name for _, name in index.soonest(len(index), now)]
        wanted = set(names)
        names = [name for name in dict.fromkeys((*soon, *names)) if name in wanted]
    return names, stopped


def _standing(stand: Stand, names: Sequence[str], index: JobIndex, served: Collection[str]) -> Flow[Standing]:
    match stand:
        case "paused":
            return Standing(index.paused)
        case "silent":
            return Standing(set(names) - set(served) - set(index.paused))
        case "running":
            found = yield from newest_runs(wanted="running", limit=RUNNING)
            stopped = _stopped(RUNNING, ["running"] if found.next else [])
            return Standing({run.slot.job for run in found.runs if not run.lapsed}, stopped)
        case "failing":
            return (yield from _failing())


def _failing() -> Flow[Standing]:
    """Those whose last run went wrong, of the jobs of which any did of late."""
    suspects: set[str] = set()
    more = []
    for word in ("failed", "lost", "unknown", "lapsed"):
        found = yield from newest_runs(wanted=word, limit=FAILING)
        suspects |= {run.slot.job for run in found.runs}
        more += [word] if found.next else []
    wrong = set()
    for name in sorted(suspects):
        last = yield from last_run(name)
        wrong |= {name} if last is not None and last.shown in WRONG else set()
    return Standing(wrong, _stopped(FAILING, more))


def _stopped(most: int, words: Sequence[str]) -> str:
    return f"Up to {most} of the newest runs that are {' or '.join(words)} were looked at" if words else ""
