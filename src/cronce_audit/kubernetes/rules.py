"""Rules about CronJobs, about schedulers in a Deployment, StatefulSet or DaemonSet, and about texts for a shell where
no shell runs.

A written number of replicas is judged in `processes`, together with compose and the like. Here is what only Kubernetes
has: CronJobs, and rollouts.

Kubernetes reads schedules by robfig/cron's ParseStandard, which is not quite cron: five fields; `?` is `*`; weekdays
are 0 to 6, and 7 is refused; no L, W or #; `@every 90m` counts from the last run.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from cronce.errors import BadInput
from cronce.schedule import Cron, shortest_gap
from cronce.schedule.instant import format_duration
from cronce_audit.containers.rules import fires_twice, started_first
from cronce_audit.kubernetes.facts import (
    Workload,
    running,
    whole,
    workloads,
)
from cronce_audit.model import Check, Confidence, Facts, Found, Severity, rule
from cronce_audit.processes.commands import started
from cronce_audit.processes.rules import every_launch, is_claimed
from cronce_audit.processes.units import Unit

PREFIX: Final = re.compile(r"(CRON_TZ|TZ)=(\S+)\s+")

_EVERY: Final = re.compile(r"@every (?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


@lru_cache(1024)
def interval(text: str) -> timedelta | None:
    """The shortest time between two of its slots; None if that is not known."""
    every = _EVERY.fullmatch(text)
    if every and text != "@every ":
        hours, minutes, seconds = (int(one or 0) for one in every.groups())
        return timedelta(hours=hours, minutes=minutes, seconds=seconds) or None
    try:
        return shortest_gap(Cron(as_cron(text)), datetime(2026, 1, 1, tzinfo=UTC))
    except BadInput:
        return None


def as_cron(text: str) -> str:
    return PREFIX.sub("", text).replace("?", "*")


SLACK: Final = timedelta(hours=1)
"""Up to here a run that starts late and uses all of its time is not unusual."""
FREQUENT: Final = timedelta(minutes=5)
"""Up to here a run that takes as long as the interval is not unusual: a slow query, a full queue."""


@rule(
    "CR501 overlap-allowed",
    Severity.WARNING,
    "write `concurrencyPolicy: Forbid` (or `Replace`, if the newer run is worth more than the older)",
)
def _overlap(facts: Facts) -> Iterator[Found]:
    for job in running(facts):
        policy = job["concurrencyPolicy"]
        if job.is_guarded or (policy is None and job.partial):
            continue
        joined, severity = _joined(job)
        if joined and (policy is None or policy.text == "Allow"):
            said = "has `concurrencyPolicy: Allow`" if policy else "has no concurrencyPolicy, and the default is Allow"
            yield Found(
                policy.place if policy else job.place,
                f"{job.called} {said}: when a run {joined} the next one starts beside it",
                severity=severity,
            )


def _joined(job: Workload) -> tuple[str, Severity]:
    """When a run overlaps the next one ("" for never), and how bad that is. A deadline counts from the start, which may
    be late, but hardly by more than an hour."""
    schedule, deadline = job["schedule"], job["activeDeadlineSeconds"]
    gap = interval(schedule.text) if schedule and schedule.known else None
    if gap is None:
        return "takes longer than the time to the next slot,", Severity.INFO
    if deadline and deadline.number and deadline.number <= gap.total_seconds():
        left = gap - timedelta(seconds=deadline.number)
        late = f"starts more than {format_duration(left)} late, and takes the {deadline.number} s it may,"
        return late if left <= SLACK else "", Severity.INFO
    is_open = deadline is not None and deadline.number is None
    is_default = schedule is not None and schedule.place.path != job.place.path  # of a chart, for others to set
    severity = Severity.WARNING if gap <= FREQUENT and not is_open and not is_default else Severity.INFO
    return f"takes longer than {format_duration(gap)},", severity


_MISSING: Final = (
    (
        "CR503 no-starting-deadline",
        "startingDeadlineSeconds",
        "after an outage, or when it is no longer suspended, the newest missed slot starts at once, however late it is",
        "write `startingDeadlineSeconds`: how late a start is still useful, at most the interval",
    ),
    (
        "CR504 run-without-end",
        "activeDeadlineSeconds",
        "a run that hangs stays for ever, and with `concurrencyPolicy: Forbid` no later one starts",
        "write `activeDeadlineSeconds` in jobTemplate.spec: longer than a run ever takes, all retries included",
    ),
    (
        "CR505 retries-by-default",
        "backoffLimit",
        "the default is 6, and a run that fails half-way is started up to 7 times",
        "write `backoffLimit`: 0 if half a run must not be repeated, else as many as you want",
    ),
)
"""Fields that a CronJob should have: the rule, the field, what happens without it, and the fix."""


def _without(name: str, effect: str) -> Check:
    def check(facts: Facts) -> Iterator[Found]:
        for job in whole(facts):
            if job[name] is None:
                yield Found(job.place, f"{job.called} has no {name}: {effect}")

    return check


for _title, _field, _effect, _remedy in _MISSING:
    rule(_title, Severity.INFO, _remedy)(_without(_field, _effect))


_RECREATE: Final = "write `strategy: {type: Recreate}`: the old one ends before the new one starts"
_USE_AGREEING: Final = "use a scheduler that can run several times (`celery beat -S cronce`, RedBeat)"


_CLAIMING: Final = (
    "let each run be claimed once, in whichever process it starts: `protect(scheduler, Cronce(…))` of "
    "cronce.integrations.apscheduler"
)


class SchedulingWorkload(NamedTuple):
    """A workload that runs a scheduler."""

    workload: Workload
    what: str
    confidence: Confidence | None = None
    agreeing: str = _USE_AGREEING


def schedulers(facts: Facts) -> Sequence[SchedulingWorkload]:
    return [
        one for workload in facts.conclude(workloads) for one in (*_told(workload, facts), *_coded(workload, facts))
    ]


def _told(workload: Workload, facts: Facts) -> Iterator[SchedulingWorkload]:
    """Found by what its containers start, also by a script or an image of this tree."""
    names = [one.role for one in facts.conclude(started) if _is_by(one.by, workload)]
    fires = {found.name: None for found in names if found and found.sure and fires_twice(found, facts)}
    for name in fires:
        yield SchedulingWorkload(workload, f"`{name}`")
    for container in workload.containers if not fires else ():
        match container.words:
            case (first, name) if re.search(r"entrypoint|\.sh$", first) and name in _SCHEDULING_ROLES:
                yield SchedulingWorkload(workload, f"`{name}`", Confidence.LOW)


_SCHEDULING_ROLES: Final = frozenset({"scheduler", "beat", "celery-beat", "celerybeat", "cron", "clock"})
"""What an entrypoint that is not seen is told to be."""


def _coded(workload: Workload, facts: Facts) -> Iterator[SchedulingWorkload]:
    """Found by the Python code that it runs, unless several copies of it are reported anyway."""
    for launch in facts.conclude(every_launch):
        single = launch.start.kind == "scheduler" and not launch.total.is_several and not launch.doubts
        if single and launch.by and _is_by(launch.by.by, workload) and not is_claimed(launch, facts, far=True):
            sure = None if launch.confidence is Confidence.HIGH else launch.confidence
            yield SchedulingWorkload(workload, f"{launch.start.what} ({launch.start.place})", sure, _CLAIMING)
            return


def _is_by(unit: Unit | None, workload: Workload) -> bool:
    """Compares the place too: another folder may have a workload of the same name."""
    places = {one.place for one in (*workload.containers, workload["replicas"]) if one}
    return unit is not None and unit.name == workload.unit and unit.command.place in places


@rule(
    "CR507 substitution-without-a-shell",
    Severity.ERROR,
    "run it where a shell sees it: `command: [sh, -c, 'exec report --day $(date +%F)']`",
)
def _unexpanded(facts: Facts) -> Iterator[Found]:
    for container in (one for workload in facts.of(Workload) for one in workload.containers):
        for field in container.unexpanded:
            yield Found(
                field.place,
                f"`{field.text}` is passed on unchanged, as text: Kubernetes replaces `$(NAME)` of a variable it"
                " knows, and runs nothing",
            )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


@rule("CR521 two-schedulers-during-a-rollout", Severity.INFO, f"{_RECREATE}; or {_USE_AGREEING}")
def _rollout(facts: Facts) -> Iterator[Found]:
    yield from started_first(facts)
    for workload, what, sure, agreeing in facts.conclude(schedulers):
        strategy = workload["strategy"]
        how = "a rolling update" if strategy else "a rolling update, the default,"
        if workload.kind == "Deployment" and _surges(workload):
            yield Found(
                strategy.place if strategy else workload.place,
                f"{_capital(workload.called)} runs {what}, and {how} starts the "
                "new pod before the old one stops: until then both fire what is due",
                sure,
                Severity.WARNING if strategy else None,
                f"{_RECREATE}; or {agreeing}",
            )


def _surges(workload: Workload) -> bool:
    """25 % of one, rounded up, is one more. Several replicas are reported elsewhere."""
    replicas, strategy, surge = (workload[name] for name in ("replicas", "strategy", "maxSurge"))
    single = replicas is None or replicas.number == 1
    rolls = strategy is None or strategy.text == "RollingUpdate"
    return single and rolls and (surge is None or (surge.known and surge.text not in ("0", "0%")))
