"""What is scheduled in a tree, in any language, and whether all machines see a lock around it."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cronce.audit.checklist.answers import Answer, Evidence, Seen, cannot_tell, met, not_met, not_relevant
from cronce.audit.common import Command
from cronce.audit.crontab.commands import shown
from cronce.audit.crontab.read import Line
from cronce.audit.java import facts as java
from cronce.audit.javascript import facts as javascript
from cronce.audit.kubernetes.facts import Workload
from cronce.audit.kubernetes.seen import running
from cronce.audit.locks.guards import guards
from cronce.audit.model import Facts, Place
from cronce.audit.python.apscheduler.jobs import jobs

SEVERAL: Final = (
    "scheduler-in-every-worker", "scheduler-in-every-replica", "scheduler-under-a-reloader",
    "scheduler-in-django-ready", "job-added-behind-a-fork",
    "scheduler-inside-the-app", "timer-in-every-worker", "job-store-shared-by-processes", "beat-inside-a-worker",
    "several-beats", "cron-in-every-copy", "job-in-every-process", "scheduled-in-every-instance",
    "quartz-not-clustered", "django-crontab-on-several-machines", "same-job-twice", "two-timers-for-one-job",
    "cron-and-timer-for-one-job", "two-cronjobs-for-one-job", "task-registered-twice", "scheduler-running-twice",
    "scheduler-scaled-out",
)  # fmt: skip
SURGE: Final = ("new-copy-before-the-old-stops", "two-schedulers-during-a-rollout")
NOTHING: Final = "nothing that is scheduled was found"


class Scheduled(NamedTuple):
    what: str
    place: Place
    guard: bool | None
    """A lock that all machines see, or cronce; None where that cannot be told."""

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.what, self.place)


def scheduled(facts: Facts) -> Sequence[Scheduled]:
    """For `facts.conclude(scheduled)`."""
    return sorted(_scheduled(facts), key=lambda one: one.place)


def _scheduled(facts: Facts) -> Iterator[Scheduled]:
    guarded = {name for name, one in facts.conclude(guards).items() if one.across_hosts}
    for job in facts.conclude(jobs):
        seen = job.full_name in guarded
        yield Scheduled(f"{job.function}, by APScheduler", job.place, seen if job.full_name else None)
    for line in facts.of(Line):
        yield Scheduled(f"`{shown(line.command)}`, by cron", line.place, line.guard == "cronce")
    for cronjob in running(facts):
        if not cronjob.partial:
            yield Scheduled(cronjob.called, cronjob.place, cronjob.is_guarded)
    for timer in facts.of(javascript.Job):
        yield Scheduled(f"{timer.what}, by {timer.library}", timer.place, None if timer.is_guarded else False)
    for method in facts.of(java.Scheduled):
        guard = True if method.lock else None if method.is_guarded else False
        yield Scheduled(f"{method.name}, by @Scheduled", method.place, guard)


def all_guarded(facts: Facts) -> bool:
    found = facts.conclude(scheduled)
    return bool(found) and all(one.guard for one in found)


def entry_is_locked(seen: Seen) -> Answer:
    found = seen.facts.conclude(scheduled)
    if not found:
        return not_relevant(NOTHING)
    if open_ := [one.evidence for one in found if one.guard is False]:
        return not_met(f"no lock that all machines see around {len(open_)} of {len(found)} jobs", *open_)
    if unclear := [one.evidence for one in found if one.guard is None]:
        return cannot_tell(
            "a lock in the function of each job: an advisory lock, `SET … NX`, ShedLock, `cron.job` of cronce", *unclear
        )
    return met(f"all {len(found)} jobs are under one", *(one.evidence for one in found))


def one_process(seen: Seen) -> Answer:
    if found := seen.found(*SEVERAL, *SURGE):
        return not_met(*found)
    if not seen.facts.conclude(scheduled):
        return not_relevant(NOTHING)
    if all_guarded(seen.facts):
        return met("any number may run: every job is under a lock that all machines see")
    starts = [one.place for one in seen.facts.of(Command)] + [one.place for one in seen.facts.of(Workload)]
    if not starts:
        return cannot_tell("a Procfile, compose file, unit or manifest that says how many processes are started")
    return met("what starts processes starts no scheduler twice", *(Evidence("a process", place) for place in starts))


def old_stops_first(seen: Seen) -> Answer:
    """When a new version is deployed."""
    if found := seen.found(*SURGE):
        return not_met(*found)
    if not seen.facts.conclude(scheduled):
        return not_relevant(NOTHING)
    if all_guarded(seen.facts):
        return met("old and new may run side by side: every job is under a lock that all machines see")
    if told := seen.mentioned("drain"):
        return met(*told)
    return cannot_tell("a runbook or a step of the pipeline that stops the old scheduler first, or `cronce drain`")
