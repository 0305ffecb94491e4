"""Options that ask for more runs than one: a burst after an outage, several at a time."""

from collections.abc import Iterator
from typing import Final

from cronce_audit.locks.guards import guards
from cronce_audit.model import Confidence, Facts, Found, Place, Rule, Severity, rule
from cronce_audit.python.apscheduler.jobs import jobs
from cronce_audit.python.apscheduler.options import Options, is_false, number
from cronce_audit.python.apscheduler.schedulers import Scheduler, schedulers
from cronce_audit.python.facts import Const, Name, Value

_LONG: Final = 60
"""Seconds of grace from which on a restart leaves more than one run to be made up for."""
_ALL: Final = "CoalescePolicy.all"
_JOINED: Final = "a run that takes longer than its interval is joined by the next"


@rule(
    "CR103",
    "missed-runs-come-in-a-burst",
    Severity.INFO,
    Confidence.HIGH,
    remedy="leave coalesce at True: one run makes up for all that were missed",
)
def _burst(facts: Facts) -> Iterator[Found]:
    for scheduler in facts.conclude(schedulers).all:
        if _runs_all(scheduler.defaults.get("coalesce")) and _is_in_force("coalesce", scheduler, facts):
            kept = any(store is not None and store.is_persistent for _, store in scheduler.stores)
            late = _may_be_late(scheduler.defaults.get("misfire_grace_time"), scheduler)
            yield _in_a_row(scheduler.place, "the job defaults say coalesce=False", is_kept=kept and late)
    for job in facts.conclude(jobs):
        if _runs_all(job.options.get("coalesce")) and job.trigger != "date":
            kept = job.store is not None and job.store.is_persistent
            late = _may_be_late(job.option("misfire_grace_time"), job.scheduler)
            yield _in_a_row(job.place, f"{job.function} is added with coalesce=False", is_kept=kept and late)


def _is_in_force(key: str, scheduler: Scheduler, facts: Facts) -> bool:
    """A default that all jobs which are seen set otherwise is none."""
    of_it = [job for job in facts.conclude(jobs) if job.scheduler == scheduler]
    return not of_it or any(job.options.get(key) is None for job in of_it)


def _runs_all(value: Value | None) -> bool:
    return is_false(value) or (isinstance(value, Name) and value.dotted.endswith(_ALL))


def _may_be_late(grace: Value | None, scheduler: Scheduler) -> bool:
    """Long enough for more than one run; version 4 has no limit unless one is given."""
    return grace == Const(None) or (number(grace) or 0) >= _LONG or (grace is None and scheduler.version == 4)


def _in_a_row(place: Place, said: str, *, is_kept: bool) -> Found:
    """It takes a store that remembers, and a long grace, for an outage to end in a burst."""
    if is_kept:
        message = f"{said}: after an outage all runs that were missed are made up for, one right after the other"
        return Found(place, message, severity=Severity.WARNING)
    return Found(place, f"{said}: runs that are late come right after each other, not one for all of them")


@rule(
    "CR104",
    "runs-of-one-job-may-overlap",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="leave max_instances at 1, or make the job safe to run beside itself",
)
def _overlap(facts: Facts) -> Iterator[Found]:
    guarded = facts.conclude(guards)
    for scheduler in facts.conclude(schedulers).all:
        several = _several(scheduler.defaults)
        if several and _is_in_force("max_instances", scheduler, facts):
            yield Found(scheduler.place, f"the job defaults say max_instances={several:g}: {_JOINED}")
    for job in facts.conclude(jobs):
        several = _several(job.options)
        if several and job.trigger != "date" and job.full_name not in guarded:
            yield Found(job.place, f"{job.function} is added with max_instances={several:g}: {_JOINED}")


def _several(options: Options) -> float:
    """0 where it is one at a time, or not said."""
    given = number(options.get("max_instances"))
    return given if given is not None and given > 1 else 0


RULES: tuple[Rule, ...] = (_burst, _overlap)
