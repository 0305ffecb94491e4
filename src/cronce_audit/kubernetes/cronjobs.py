"""Schedules as Kubernetes reads them: robfig/cron's ParseStandard, which is not quite cron.

Five fields; `?` is `*`; weekdays are 0 to 6, and 7 is refused; no L, W or #; `@every 90m` counts from the last run.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from cronce.errors import BadInput
from cronce.schedule import Cron, shortest_gap
from cronce.schedule.instant import format_duration
from cronce_audit.kubernetes.facts import CronJob, running, whole
from cronce_audit.model import Check, Facts, Found, Severity, rule

PREFIX: Final = re.compile(r"(CRON_TZ|TZ)=(\S+)\s+")

_EVERY: Final = re.compile(r"@every (?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


@lru_cache(1024)
def interval(text: str) -> timedelta | None:
    """The shortest time between two of its slots; None where that cannot be told."""
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


SHORT: Final = timedelta(hours=1)
"""Up to here a late run that takes as long as it may is nothing unusual."""
OFTEN: Final = timedelta(minutes=5)
"""Up to here a run that takes as long as the interval is nothing unusual: one slow query, one full queue."""


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


def _joined(job: CronJob) -> tuple[str, Severity]:
    """Which run meets the next one, "" for none, and how bad that is. A deadline counts from the start, which may be
    late, but hardly by more than an hour."""
    schedule, deadline = job["schedule"], job["activeDeadlineSeconds"]
    gap = interval(schedule.text) if schedule and schedule.known else None
    if gap is None:
        return "takes longer than the time to the next slot,", Severity.INFO
    if deadline and deadline.number and deadline.number <= gap.total_seconds():
        left = gap - timedelta(seconds=deadline.number)
        late = f"starts more than {format_duration(left)} late, and takes the {deadline.number} s it may,"
        return late if left <= SHORT else "", Severity.INFO
    is_open = deadline is not None and deadline.number is None
    severity = Severity.WARNING if gap <= OFTEN and not is_open else Severity.INFO
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
"""Fields that a CronJob is to have: the rule, the field, what happens without it, and the remedy."""


def _without(name: str, effect: str) -> Check:
    def check(facts: Facts) -> Iterator[Found]:
        for job in whole(facts):
            if job[name] is None:
                yield Found(job.place, f"{job.called} has no {name}: {effect}")

    return check


for _title, _field, _effect, _remedy in _MISSING:
    rule(_title, Severity.INFO, _remedy)(_without(_field, _effect))
