"""What goes wrong with Spring's scheduled methods."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from cronce.errors import BadInput
from cronce.schedule import Cron, shortest_gap
from cronce.schedule.instant import format_duration
from cronce_audit.java import quartz_rules
from cronce_audit.java.facts import Enabled, LockingClass, Scheduled, WaitingLock
from cronce_audit.java.fleet import several
from cronce_audit.java.jobs import ALL
from cronce_audit.model import Confidence, Facts, Found, Severity, rule


def unlocked(facts: Facts) -> Sequence[Scheduled]:
    """Methods that nothing keeps from running in each instance, as far as their code is seen."""
    switches = [one for one in facts.of(Enabled) if one.what == "scheduling"]
    locking = {one.name for one in facts.of(LockingClass)}
    if ALL in locking or any(one.is_conditional for one in switches):
        return []
    return [
        job for job in facts.of(Scheduled) if not job.lock and not job.is_guarded and not locking & set(job.leans_on)
    ]


def _is_told_louder(job: Scheduled, facts: Facts) -> bool:
    return job.cron is not None and (several(facts, job.place.path) is not None or _others_are_locked(facts))


def _others_are_locked(facts: Facts) -> bool:
    return any(job.lock for job in facts.of(Scheduled))


@rule(
    "CR801",
    "scheduled-in-every-instance",
    Severity.ERROR,
    Confidence.HIGH,
    remedy="let one instance win each slot: `@SchedulerLock` with lockAtLeastFor (ShedLock), or move the job into a "
    "program of its own that one CronJob, or `cronce exec`, starts",
)
def _in_every_instance(facts: Facts) -> Iterator[Found]:
    for job in facts.conclude(unlocked):
        evidence = several(facts, job.place.path)
        if job.cron is not None and evidence:
            message = f"`{job.name}` runs in every instance, and {evidence.how} ({evidence.place})"
            yield Found(job.place, message, evidence.confidence if job.cron else Confidence.MEDIUM)


@rule(
    "CR802",
    "scheduled-without-a-lock",
    Severity.INFO,
    Confidence.MEDIUM,
    remedy="keep this application at one instance, or put `@SchedulerLock` on the method before it is scaled",
)
def _without_lock(facts: Facts) -> Iterator[Found]:
    for job in facts.conclude(unlocked):
        if not _is_told_louder(job, facts):
            yield Found(job.place, f"`{job.name}` runs once only as long as there is one instance: no lock is seen")


@rule(
    "CR803",
    "lock-forgotten-on-one-job",
    Severity.WARNING,
    Confidence.MEDIUM,
    remedy="put `@SchedulerLock` on it as on the others; if it is meant to run in every instance, say so in a "
    "suppression",
)
def _forgotten(facts: Facts) -> Iterator[Found]:
    locked = [job for job in facts.of(Scheduled) if job.lock]
    for job in facts.conclude(unlocked) if locked else ():
        if job.cron is not None and not several(facts, job.place.path):
            yield Found(
                job.place,
                f"`{job.name}` has no `@SchedulerLock`, while {len(locked)} of the scheduled methods here have one "
                f"(`{locked[0].name}`): it runs in every instance",
            )


@rule(
    "CR804",
    "locks-not-switched-on",
    Severity.ERROR,
    Confidence.HIGH,
    remedy='put `@EnableSchedulerLock(defaultLockAtMostFor = "10m")` beside `@EnableScheduling`, with a LockProvider',
)
def _not_switched_on(facts: Facts) -> Iterator[Found]:
    switches = {one.what for one in facts.of(Enabled)}
    locked = [job.lock for job in facts.of(Scheduled) if job.lock and job.lock.is_spring]
    if locked and "scheduling" in switches and "locks" not in switches:
        yield Found(
            locked[0].place,
            f"`@SchedulerLock` does nothing here ({len(locked)} of them): scheduling is switched on, and no class has "
            "`@EnableSchedulerLock`",
        )


@rule(
    "CR805",
    "lock-let-go-too-soon",
    Severity.INFO,
    Confidence.MEDIUM,
    remedy="give `lockAtLeastFor` more than the clocks of the instances may differ by, and less than the interval: "
    '`lockAtLeastFor = "30s"`',
)
def _let_go_too_soon(facts: Facts) -> Iterator[Found]:
    if any(one.what == "locks" and one.has_least for one in facts.of(Enabled)):
        return
    for job in facts.of(Scheduled):
        if job.lock and job.lock.at_least is None and job.cron is not None:
            yield Found(
                job.lock.place,
                f"the lock of `{job.name}` ends with its body: an instance whose clock is behind by more than that "
                "takes it again, and runs the same slot",
            )


@rule(
    "CR806",
    "lock-held-into-the-next-slot",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="make `lockAtLeastFor` shorter than the interval between two runs",
)
def _held_into_next(facts: Facts) -> Iterator[Found]:
    for job in facts.of(Scheduled):
        held = _span(job.lock.at_least or "") if job.lock else None
        every = _interval(job, facts.year)
        if job.lock and held and every and held >= every:
            yield Found(
                job.lock.place,
                f"`{job.name}` is to run every {format_duration(every)}, and its lock is held for at least "
                f"{format_duration(held)}: the runs that fall into that time are lost",
            )


@rule(
    "CR807",
    "waits-for-the-lock-and-runs-again",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="do not wait: `tryLock(0, leaseTime, unit)`, and keep the lock until the clocks of all instances have "
    "passed the slot",
)
def _waits(facts: Facts) -> Iterator[Found]:
    for lock in facts.of(WaitingLock):
        span = None if lock.seconds is None else format_duration(timedelta(seconds=lock.seconds))
        how = f"up to {span}" if span else "until it is free"
        yield Found(
            lock.place,
            f"`{lock.name}` waits for its lock ({how}, `{lock.call}`): when the first instance is done by then, the "
            "next one gets the lock and runs the job again",
        )


_ISO: Final = re.compile(r"PT(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+)S)?")
_SHORT: Final = re.compile(r"(?P<number>\d+)(?P<unit>ms|s|m|h|d)")
_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def _span(told: str) -> timedelta | None:
    """`10m` or `PT10M`."""
    short, iso = _SHORT.fullmatch(told), _ISO.fullmatch(told)
    if short:
        return timedelta(seconds=int(short["number"]) * _UNITS[short["unit"]])
    if iso:
        return timedelta(hours=int(iso["h"] or 0), minutes=int(iso["m"] or 0), seconds=int(iso["s"] or 0))
    return None


def _interval(job: Scheduled, year: int) -> timedelta | None:
    """The shortest time between two of its next runs; of a fixed rate, that."""
    if job.rate is not None:
        return timedelta(milliseconds=job.rate)
    if not job.cron:
        return None
    try:
        return shortest_gap(Cron(job.cron.replace("?", "*")), datetime(year, 1, 1, tzinfo=UTC))
    except BadInput:
        return None


RULES: Final = (
    _in_every_instance,
    _without_lock,
    _forgotten,
    _not_switched_on,
    _let_go_too_soon,
    _held_into_next,
    _waits,
    *quartz_rules.RULES,
)
