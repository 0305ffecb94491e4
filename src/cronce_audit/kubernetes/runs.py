"""Rules about the runs of a CronJob: may they overlap, how late may they start, how long may they take, how often."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from cronce.schedule.instant import format_duration
from cronce_audit.kubernetes.facts import CronJob
from cronce_audit.kubernetes.schedules import interval
from cronce_audit.kubernetes.seen import running, whole
from cronce_audit.model import Confidence, Facts, Found, Rule, Severity, rule

SHORT: Final = timedelta(hours=1)
"""Up to here a run that takes as long as the interval is nothing unusual: one slow query, one full queue."""
SOONEST: Final = 10
"""Seconds between two looks of the controller, up to Kubernetes 1.20."""


@rule(
    "CR501",
    "overlap-allowed",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="write `concurrencyPolicy: Forbid` (or `Replace`, if the newer run is worth more than the older)",
)
def _overlap(facts: Facts) -> Iterator[Found]:
    for job in running(facts):
        policy = job["concurrencyPolicy"]
        if job.is_guarded or (policy is None and (job.partial or job.misplaces("concurrencyPolicy"))):
            continue
        joined, severity = _joined(job)
        if joined and (policy is None or policy.text == "Allow"):
            said = "has `concurrencyPolicy: Allow`" if policy else "has no concurrencyPolicy, and the default is Allow"
            yield Found(
                policy.place if policy else job.place,
                f"{job.called} {said}: a run that {joined} is joined by the next",
                severity=severity,
            )


def _joined(job: CronJob) -> tuple[str, Severity]:
    """Which run meets the next one, "" for none, and how bad that is. A deadline counts from the start, which may be
    late, but hardly by more than an hour."""
    schedule, deadline = job["schedule"], job["activeDeadlineSeconds"]
    gap = interval(schedule.text) if schedule and schedule.known else None
    if gap is None:
        return "takes longer than until the next", Severity.INFO
    if deadline and deadline.number and deadline.number <= gap.total_seconds():
        left = gap - timedelta(seconds=deadline.number)
        late = f"starts more than {format_duration(left)} late, and takes the {deadline.number} s it may,"
        return late if left <= SHORT else "", Severity.INFO
    is_open = deadline is not None and deadline.number is None
    severity = Severity.WARNING if gap < SHORT and not is_open else Severity.INFO
    return f"takes longer than {format_duration(gap)}", severity


@rule(
    "CR502",
    "starting-deadline-too-short",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="give it as long as a late start is still of use, and a minute at least",
)
def _too_short(facts: Facts) -> Iterator[Found]:
    for job in running(facts):
        deadline = job["startingDeadlineSeconds"]
        if deadline and deadline.number == 0:
            yield Found(
                deadline.place,
                f"{job.called} has `startingDeadlineSeconds: 0`: each slot is over before it can be started, so it "
                "never runs",
                severity=Severity.ERROR,
            )
        elif deadline and deadline.number and 0 < deadline.number < SOONEST:
            yield Found(
                deadline.place,
                f"{job.called} must start within {deadline.number} s: a controller that is busy or changes its leader "
                f"is later than that, and the slot is lost (before Kubernetes 1.21 it looked every {SOONEST} s only)",
            )


@rule(
    "CR503",
    "no-starting-deadline",
    Severity.INFO,
    Confidence.HIGH,
    remedy="write `startingDeadlineSeconds`: as long as a late start is still of use, the interval at most",
)
def _no_deadline(facts: Facts) -> Iterator[Found]:
    for job in _without("startingDeadlineSeconds", facts):
        yield Found(
            job.place,
            f"{job.called} has no startingDeadlineSeconds: after an outage, or when it is no longer suspended, the "
            "newest missed slot starts at once, however late it is",
        )


@rule(
    "CR504",
    "run-without-end",
    Severity.INFO,
    Confidence.HIGH,
    remedy="write `activeDeadlineSeconds` in jobTemplate.spec: longer than a run ever takes, all retries included",
)
def _endless(facts: Facts) -> Iterator[Found]:
    for job in _without("activeDeadlineSeconds", facts):
        policy = job["concurrencyPolicy"]
        forbids = policy is not None and policy.text == "Forbid"
        effect = "no later one starts (Forbid), and nobody is told" if forbids else "it stays for ever"
        yield Found(job.place, f"a run of {job.called} may take any time: when one hangs, {effect}")


@rule(
    "CR505",
    "retries-by-default",
    Severity.INFO,
    Confidence.HIGH,
    remedy="write `backoffLimit`: 0 if half a run must not be repeated, else as many as you mean",
)
def _retries(facts: Facts) -> Iterator[Found]:
    for job in _without("backoffLimit", facts):
        yield Found(
            job.place,
            f"{job.called} has no backoffLimit, and the default is 6: a run that fails half-way is made up to 7 times",
        )


@rule(
    "CR512",
    "failures-leave-no-trace",
    Severity.INFO,
    Confidence.HIGH,
    remedy="keep at least one: `failedJobsHistoryLimit: 1`, the default",
)
def _history(facts: Facts) -> Iterator[Found]:
    for job in running(facts):
        kept = job["failedJobsHistoryLimit"]
        if kept and kept.number == 0:
            message = f"{job.called} keeps no failed Job: its pods and their logs are gone when you look"
            yield Found(kept.place, message)


@rule(
    "CR513",
    "several-pods-per-run",
    Severity.WARNING,
    Confidence.MEDIUM,
    remedy="leave both at 1; or `completionMode: Indexed`, and let each pod take its share by JOB_COMPLETION_INDEX",
)
def _parallel(facts: Facts) -> Iterator[Found]:
    for job in running(facts):
        if job.is_guarded or job["completionMode"]:
            continue
        said = [(name, job[name]) for name in ("parallelism", "completions")]
        for name, field in [(name, field) for name, field in said if field and (field.number or 0) > 1][:1]:
            yield Found(
                field.place,
                f"{job.called} has `{name}: {field.text}`: each slot starts {field.text} pods with the same command, "
                "and nothing tells them apart",
            )


def _without(name: str, facts: Facts) -> Iterator[CronJob]:
    """The whole CronJobs that do not have a field, here or in a place where it is not one."""
    for job in whole(facts):
        if job[name] is None and not job.misplaces(name):
            yield job


RULES: Final[tuple[Rule, ...]] = (_overlap, _too_short, _no_deadline, _endless, _retries, _history, _parallel)
