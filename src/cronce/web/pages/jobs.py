"""Jobs: found by a text or by how they stand, in the order of their names or of what is due next, part by part. And one
job: when it runs, what came of it, how long it took, and what was kept from running twice."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Final, Literal, get_args

from starlette.requests import Request

from cronce.errors import BadInput
from cronce.model import BOARD_JOBS, SWITCH, Instant, check_name
from cronce.monitor.read_jobs import BoardVersion, JobIndex, JobView, job_view, lines_alone
from cronce.monitor.read_lists import open_alerts
from cronce.monitor.survey import attempts, policy_span, timeout
from cronce.policy import OnLost
from cronce.protocol.record import standing_act
from cronce.protocol.specs import read_spec
from cronce.protocol.terms import lease_for
from cronce.runtime.flow import Flow
from cronce.runtime.queries import READ_AHEAD, JobLine, JobSeen, RunSeen, carried, latest_runs, present, sparing
from cronce.runtime.run_lists import newest_runs
from cronce.schedule import Cron, Schedule, parse_schedule, rule_of
from cronce.schedule.describe import ClockChange, changes, describe, describe_change
from cronce.schedule.slots import following
from cronce.schedule.zone import find_zone
from cronce.telling.words import as_written, wall
from cronce.value import NamedTuple
from cronce.web.actions import ACTIONS
from cronce.web.markup import duration_svg, throughput_svg
from cronce.web.pages.runs import rows_of
from cronce.web.site import NotFoundPage, PageFrame, Shown, path, root_of, site_of
from cronce.web.timeline import picture

JOBS_PER_PAGE: Final = 50
SPARKS: Final = 12
"""Of so many runs of a job the outcomes are shown."""

RUNNING_SEARCHED: Final = 200
"""So many runs are looked at for the jobs that run."""

FAILING_SEARCHED: Final = 60
"""So many that went wrong in one way, for the jobs that fail: the last run of each of those is read."""

Stand = Literal["failing", "running", "paused", "silent"]
Order = Literal["name", "next"]
WENT_WRONG: Final = ("failed", "lost", "unknown", "lapsed", "unreadable")


class JobsQuery(NamedTuple):
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


Standing = tuple[Collection[str], str]
"""The jobs that stand in some way, and where looking for them stopped, if it did."""


def jobs_page(request: Request) -> Flow[Shown]:
    query, index = request.query_params, site_of(request).index
    stand: Stand | None = _one_of(Stand, query.get("state"))
    order: Order = _one_of(Order, query.get("sort")) or "name"
    asked = JobsQuery(query.get("q", "").strip(), stand, order, query.get("after", ""))
    return (yield from sparing(_jobs_page(asked, index), *READ_AHEAD[:1]))


def _jobs_page(asked: JobsQuery, index: JobIndex) -> Flow[Shown]:
    there = yield from present([BOARD_JOBS, SWITCH])
    board, switch = there.beside.cells
    yield from index.keep_up(BoardVersion(board.version, there.ended))
    served = yield from carried(there.live)
    names, stopped = yield from _wanted(asked, index, there.beside.now, served)
    start = _start(asked, names)
    part = names[start : start + JOBS_PER_PAGE]
    now, lines = yield from lines_alone(part)
    latest = yield from latest_runs([line.seen for line in lines], SPARKS)
    return {
        "now": now,
        "frame": PageFrame((yield from open_alerts()), standing_act(switch)),
        "rows": [_row(line, served, latest[line.seen.name]) for line in lines],
        "asked": asked,
        "found": len(names),
        "stopped": stopped,
        "total": len(index),
        "next": part[-1] if start + JOBS_PER_PAGE < len(names) else None,
        "stands": get_args(Stand),
    }


def _one_of(choices: Any, given: str | None) -> Any:
    if given and given not in get_args(choices):
        raise BadInput(f"{given[:40]!r} is not one of {', '.join(get_args(choices))}")
    return given or None


def _start(asked: JobsQuery, names: Sequence[str]) -> int:
    """Where the list goes on. By name that is known also after a job that is gone by now."""
    if asked.order == "name":
        return bisect_right(names, asked.after)
    return names.index(asked.after) + 1 if asked.after in names else 0


def _row(line: JobLine, served: Collection[str], runs: Sequence[RunSeen]) -> Shown:
    return {
        "line": line,
        "schedule": "; ".join(map(as_written, line.seen.schedules)),
        "stands": list(stands_of(line, served)),
        "last": runs[0] if runs else None,
        "outcomes": [run.shown for run in reversed(runs)],
    }


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


def _wanted(
    asked: JobsQuery, index: JobIndex, now: Instant, served: Collection[str]
) -> Flow[tuple[Sequence[str], str]]:
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
            return index.paused, ""
        case "silent":
            return set(names) - set(served) - set(index.paused), ""
        case "running":
            found = yield from newest_runs(wanted="running", limit=RUNNING_SEARCHED)
            stopped = _stopped(RUNNING_SEARCHED, ["running"] if found.next else [])
            return {run.slot.job for run in found.runs if not run.lapsed}, stopped
        case "failing":
            return (yield from _failing())


def _failing() -> Flow[Standing]:
    """Those whose last run went wrong, of the jobs of which any did of late."""
    suspects: set[str] = set()
    more = []
    for word in ("failed", "lost", "unknown", "lapsed"):
        found = yield from newest_runs(wanted=word, limit=FAILING_SEARCHED)
        suspects |= {run.slot.job for run in found.runs}
        more += [word] if found.next else []
    _, lines = yield from lines_alone(sorted(suspects))
    latest = yield from latest_runs([line.seen for line in lines], 1)
    return {name for name, runs in latest.items() if runs and runs[0].shown in WENT_WRONG}, _stopped(
        FAILING_SEARCHED, more
    )


def _stopped(most: int, words: Sequence[str]) -> str:
    return f"Only the newest {most} runs that are {' or '.join(words)} were searched" if words else ""


NEXT_SLOTS_SHOWN: Final = 10
RUNS_ON_PAGE: Final = 25
CLOCK_CHANGES_SHOWN: Final = timedelta(days=400)
"""So far changes of clocks are told of."""


class ComingSlot(NamedTuple):
    """A slot to come, in its local time; or, without one, a clock change between two slots."""

    at: Instant
    wall: str = ""
    change: str = ""


class RunTally(NamedTuple):
    """Over the slots that are shown: how often their work was begun, and how often it was completed."""

    slots: int
    begun: int
    completed: int


def job_page(request: Request) -> Flow[Shown]:
    return (yield from sparing(_job_page(request)))


def _job_page(request: Request) -> Flow[Shown]:
    name, after = request.path_params["job"], request.query_params.get("after") or None
    try:
        view = yield from job_view(check_name(name), RUNS_ON_PAGE, after, with_doubts=True)
    except BadInput:
        if after is not None:
            raise
        view = None
    if view is None:
        raise NotFoundPage("there is no job with this name", name)
    root = root_of(request)
    return {
        **_told_of(view),
        **_drawn(view, root),
        "carried": view.carried,
        "silent": view.seen.is_scheduled and not view.carried,
        "observed": None if view.carried or view.refused else view.observed,
        "actions": [one for one in ACTIONS if one.of == "jobs" and _fits(one.name, view)],
        "doubtful": view.doubtful,
        "picture": None if after else (yield from picture(root, view)),
        "after": after,
        "frame": PageFrame(view.alerts, view.halted),
    }


def _told_of(view: JobView) -> Shown:
    seen, now, runs = view.seen, view.now, view.runs.runs
    return {
        "now": now,
        "view": view,
        "name": seen.name,
        "words": [(describe(rule), as_written(rule)) for rule in seen.schedules],
        "fires": fires(seen.schedule, now) if seen.schedule and view.next else [],
        "zone": zone_of(seen.schedule) if seen.schedule else "UTC",
        "rows": rows_of(runs, now),
        "open": rows_of((*view.attention.runs, *view.open.runs), now),
        "last": next((run for run in runs if run.record), None),
        "told": _told(view),
        "tally": tally(runs),
        "prevented": max(view.prevented.total, sum(one.refusals.times for one in view.refused)),
        "prevented_today": view.prevented.on(now),
        "versions": list(_versions(seen)),
        "spans": list(reversed(seen.job.spans)) if seen.job else [],
    }


def _drawn(view: JobView, root: str) -> Shown:
    lease, most = _limits(view.seen)
    ended = [run for run, _ in view.durations]
    throughput = throughput_svg(view.figures) if view.figures else ""
    return {
        "lease": lease,
        "throughput": throughput,
        "plot": duration_svg(ended, lease, most, lambda slot: path("runs", slot, root=root)),
    }


def _fits(action: str, view: JobView) -> bool:
    """A paused job can be resumed, another one paused. A run can be requested if a scheduler would run it."""
    paused = view.seen.job is not None and view.seen.job.paused is not None
    return {"pause": not paused, "resume": paused, "trigger": view.carried}.get(action, True)


def tally(runs: Iterable[RunSeen]) -> RunTally:
    counts = [attempts(run.record) for run in runs if run.record]
    return RunTally(len(counts), sum(begun for begun, _ in counts), sum(done for _, done in counts))


def _told(view: JobView) -> RunSeen | None:
    """The latest run that printed something, or said why it failed."""
    told = (run for run in view.runs.runs if run.record and (run.record.output or run.shown == "failed"))
    return next(told, None)


def _limits(seen: JobSeen) -> tuple[timedelta | None, timedelta | None]:
    on_lost = seen.policies.get("on_lost", "skip")
    default = lease_for(on_lost) if on_lost in get_args(OnLost) else None
    return policy_span(seen, "lease") or default, timeout(seen)


def _versions(seen: JobSeen) -> Iterator[Shown]:
    """The newest first. Of a job that is only called, each call's own counts."""
    if seen.job is None:
        return
    for spec in reversed(seen.job.specs):
        fires = spec.digest == seen.job.firing or not seen.job.firing
        schedule = _written(read_spec(spec.text))
        yield {"digest": spec.digest[:8], "first": spec.first, "schedule": schedule, "fires": fires}


def _written(spec: dict[str, Any]) -> str:
    try:
        return as_written(parse_schedule(**spec["schedule"]))
    except (KeyError, TypeError, BadInput):
        return ""


# --- when it runs next ------------------------------------------------------------------------------------------------


def fires(schedule: Schedule, now: Instant) -> list[ComingSlot]:
    """Its next slots, and the changes of clocks among them."""
    rule, zone = rule_of(schedule), find_zone(zone_of(schedule))
    slots = following(schedule, now, NEXT_SLOTS_SHOWN)
    found = [ComingSlot(slot, wall(slot.astimezone(zone))) for slot in slots]
    if isinstance(rule, Cron) and slots:
        found += [_changed(change) for change in changes(rule, now, min(slots[-1], now + CLOCK_CHANGES_SHOWN))]
    return sorted(found)


def zone_of(schedule: Schedule) -> str:
    """By whose clocks it goes."""
    rule = rule_of(schedule)
    return rule.tz if isinstance(rule, Cron) else "UTC"


def _changed(change: ClockChange) -> ComingSlot:
    shift = change.shift
    before, after = shift.at + shift.before, shift.at + shift.after
    return ComingSlot(
        shift.at, change=f"{before:%a %Y-%m-%d}, {before:%H:%M} becomes {after:%H:%M}: {describe_change(change)}"
    )
