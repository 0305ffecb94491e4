"""One job: when it runs, what came of it, how long it took, and what was kept from running twice."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any, Final, get_args

from starlette.requests import Request

from cronce.errors import BadInput
from cronce.model import Instant, check_name
from cronce.monitor.read_jobs import JobView, job_view
from cronce.monitor.survey import attempts, policy_span, timeout
from cronce.policy import OnLost
from cronce.protocol.specs import read_spec
from cronce.protocol.terms import lease_for
from cronce.runtime.effects.review import doubts, of_job
from cronce.runtime.flow import Flow
from cronce.runtime.queries import JobSeen, RunSeen
from cronce.schedule import Cron, Schedule, parse_schedule, rule_of
from cronce.schedule.changes import Change, changes
from cronce.schedule.describe import describe, describe_change
from cronce.schedule.slots import following
from cronce.schedule.zone import find_zone
from cronce.telling.words import as_written, wall
from cronce.value import NamedTuple
from cronce.web.actions import ACTIONS
from cronce.web.pages.runs import rows_of
from cronce.web.plot import duration_svg
from cronce.web.site import Frame, Shown, missing, open_alerts, path, root_of, site_of
from cronce.web.timeline.page import picture

FIRES: Final = 10
AT_ONCE: Final = 25
AHEAD: Final = timedelta(days=400)
"""So far changes of clocks are told of."""


class Fire(NamedTuple):
    """A slot to come, on the wall of its zone; or, without one, a change of clocks between two."""

    at: Instant
    wall: str = ""
    change: str = ""


class Version(NamedTuple):
    digest: str
    first: Instant
    schedule: str
    fires: bool


class Tally(NamedTuple):
    """Over the slots that are shown: how often their work was begun, and how often it was completed."""

    slots: int
    begun: int
    completed: int


def job_page(request: Request) -> Flow[Shown]:
    name, after = request.path_params["job"], request.query_params.get("after") or None
    try:
        view = yield from job_view(check_name(name), AT_ONCE, after)
    except BadInput:
        if after is not None:
            raise
        view = None
    if view is None:
        raise (yield from missing("no job is called so", name, name, site_of(request).index))
    root = root_of(request)
    return {
        **_told_of(view),
        **_drawn(view, root),
        "carried": view.carried,
        "silent": view.seen.is_scheduled and not view.carried,
        "observed": None if view.carried or view.refused else view.observed,
        "actions": [one for one in ACTIONS if one.of == "jobs" and _fits(one.name, view)],
        "doubtful": (yield from doubts(of_job(name))),
        "picture": None if after else (yield from picture(root, view)),
        "after": after,
        "frame": Frame((yield from open_alerts()), view.halted),
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
        "refused": sum(one.refusals.times for one in view.refused),
        "versions": list(_versions(seen)),
        "spans": list(reversed(seen.job.spans)) if seen.job else [],
    }


def _drawn(view: JobView, root: str) -> Shown:
    lease, most = _limits(view.seen)
    ended = [took.run for took in view.durations]
    return {"lease": lease, "plot": duration_svg(ended, lease, most, lambda slot: path("runs", slot, root=root))}


def _fits(action: str, view: JobView) -> bool:
    """A job that is paused can be resumed, and one that is not can be paused. What nobody would run is not asked
    for."""
    paused = view.seen.job is not None and view.seen.job.paused is not None
    return {"pause": not paused, "resume": paused, "trigger": view.carried}.get(action, True)


def tally(runs: Iterable[RunSeen]) -> Tally:
    counts = [attempts(run.record) for run in runs if run.record]
    return Tally(len(counts), sum(begun for begun, _ in counts), sum(done for _, done in counts))


def _told(view: JobView) -> RunSeen | None:
    """The latest run that printed something, or said why it failed."""
    told = (run for run in view.runs.runs if run.record and (run.record.output or run.shown == "failed"))
    return next(told, None)


def _limits(seen: JobSeen) -> tuple[timedelta | None, timedelta | None]:
    on_lost = seen.policies.get("on_lost", "skip")
    default = lease_for(on_lost) if on_lost in get_args(OnLost) else None
    return policy_span(seen, "lease") or default, timeout(seen)


def _versions(seen: JobSeen) -> Iterator[Version]:
    """The newest first. Of a job that is only called, each call's own counts."""
    if seen.job is None:
        return
    for spec in reversed(seen.job.specs):
        given = read_spec(spec.text)
        yield Version(
            spec.digest[:8], spec.first, _written(given), spec.digest == seen.job.firing or not seen.job.firing
        )


def _written(spec: dict[str, Any]) -> str:
    try:
        return as_written(parse_schedule(**spec["schedule"]))
    except (KeyError, TypeError, BadInput):
        return ""


# --- when it runs next ------------------------------------------------------------------------------------------------


def fires(schedule: Schedule, now: Instant) -> list[Fire]:
    """Its next slots, and the changes of clocks among them."""
    rule, zone = rule_of(schedule), find_zone(zone_of(schedule))
    slots = following(schedule, now, FIRES)
    found = [Fire(slot, wall(slot.astimezone(zone))) for slot in slots]
    if isinstance(rule, Cron) and slots:
        found += [_changed(change) for change in changes(rule, now, min(slots[-1], now + AHEAD))]
    return sorted(found)


def zone_of(schedule: Schedule) -> str:
    """By whose clocks it goes."""
    rule = rule_of(schedule)
    return rule.tz if isinstance(rule, Cron) else "UTC"


def _changed(change: Change) -> Fire:
    shift = change.shift
    before, after = shift.at + shift.before, shift.at + shift.after
    return Fire(
        shift.at, change=f"{before:%a %Y-%m-%d}, {before:%H:%M} becomes {after:%H:%M}: {describe_change(change)}"
    )
