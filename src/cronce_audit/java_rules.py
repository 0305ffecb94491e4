"""Where several instances of a Java program are started.

A tree with one Spring Boot application has one program to start. Where there are several, a command belongs to the
application in whose folder it stands, and says nothing of the others.
"""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from cronce_audit.java import ALL, Enabled, LockingClass, QuartzSettings, QuartzUse, Scheduled
from cronce_audit.model import Confidence, Facts, Found, Severity, is_of_process, rule
from cronce_audit.processes.commands import Started, started


def module_of(path: str) -> str:
    """The folder of a build: what is above `src/main`."""
    parts = PurePosixPath(path).parts
    return "/".join(parts[: parts.index("src")]) if "src" in parts else str(PurePosixPath(path).parent)


def several(facts: Facts, path: str) -> Started | None:
    """What starts several instances of the program that this file is part of."""
    found = _starts(facts, path) if facts.conclude(_applications) else ()
    return next((one for one in found if one.copies.is_several), None)


def _copies(one: Started) -> str:
    return f"`{one.by.name}` has {one.copies} copies ({one.by.copies_at})"


def _starts(facts: Facts, path: str) -> Sequence[Started]:
    applications, found = facts.conclude(_applications), facts.conclude(_javas)
    if len(applications) <= 1:
        return found
    home = module_of(path)
    return [one for one in found if home in applications and f"{one.folder}/".startswith(f"{home}/")]


def _applications(facts: Facts) -> set[str]:
    return {module_of(one.place.path) for one in facts.of(Enabled) if one.what == "application"}


def _javas(facts: Facts) -> Sequence[Started]:
    return [one for one in facts.conclude(started) if one.argv.program == "java"]


def unlocked(facts: Facts) -> Sequence[Scheduled]:
    """Methods that nothing keeps from running in each instance, as far as their code is seen."""
    locking = {one.name for one in facts.of(LockingClass)}
    return [
        job
        for job in facts.of(Scheduled)
        if not job.lock and not job.is_guarded and ALL not in locking and not is_of_process(job.place.path, job.what)
    ]


def _is_unclear(job: Scheduled, facts: Facts) -> bool:
    """A condition, on it or on the whole of scheduling, may hold in one instance only; or a class that it uses speaks
    of locks, which may be about something else."""
    locking = {one.name for one in facts.of(LockingClass)}
    return (
        bool(locking & {*job.leans_on})
        or job.is_unclear
        or any(one.what == "scheduling" and one.is_conditional for one in facts.of(Enabled))
    )


_SHEDLOCK: Final = (
    "let one instance win each slot: `@SchedulerLock` with lockAtLeastFor (ShedLock), or move the job into a "
    "program of its own that one CronJob, or `cronce exec`, starts"
)


def in_every_instance(facts: Facts) -> Iterator[Found]:
    for job in facts.conclude(unlocked):
        evidence = several(facts, job.place.path)
        if job.pattern is not None and evidence and not _is_unclear(job, facts):
            message = f"{job.what} runs in every instance, and {_copies(evidence)}"
            sure = evidence.by.confidence if job.pattern else Confidence.MEDIUM
            yield Found(job.place, message, sure, remedy=_SHEDLOCK)


def without_lock(facts: Facts) -> Iterator[Found]:
    locked = [job for job in facts.of(Scheduled) if job.lock]
    for job in facts.conclude(unlocked):
        if _is_unclear(job, facts):
            said = f"{job.what} runs in every instance for which its condition holds; the files do not say in how many"
            yield Found(job.place, said, Confidence.LOW, remedy=_LOOK)
            continue
        if job.pattern is not None and several(facts, job.place.path):
            continue  # told by CR701
        said = f"{job.what} runs once only as long as there is one instance: no lock is seen"
        if locked and job.pattern is not None:
            said = f"{said}, and {len(locked)} of the scheduled methods here have one ({locked[0].what})"
        remedy = "keep this application at one instance, or put `@SchedulerLock` on the method before it is scaled"
        yield Found(job.place, said, remedy=remedy)


_LOOK: Final = (
    "check whether it runs in one instance at most; if so, write `// cronce: ignore[CR702] …`; or put"
    " `@SchedulerLock` on the method"
)


@rule(
    "CR811 quartz-not-clustered",
    Severity.INFO,
    "set `org.quartz.jobStore.isClustered = true` and `org.quartz.scheduler.instanceId = AUTO`, with a store in "
    "a database that all instances share",
)
def _not_clustered(facts: Facts) -> Iterator[Found]:
    clustered = {module_of(one.path) for one in facts.of(QuartzSettings) if one.is_clustered}
    stores = {module_of(one.path): one.database for one in facts.of(QuartzSettings) if one.database}
    for home, place in stores.items():
        if home not in clustered:
            evidence = several(facts, place.path)
            also = f"and {_copies(evidence)}" if evidence else "also the new one beside the old in a deploy"
            yield Found(
                place,
                f"Quartz keeps its jobs in a database, and is not clustered: every instance fires them all, {also}",
                evidence.by.confidence if evidence else Confidence.MEDIUM,
                Severity.ERROR if evidence else None,
            )
    for use in facts.of(QuartzUse) if not clustered and not stores else ():
        if use.act == "schedule":
            yield Found(
                use.place,
                "this job is given to Quartz, and no settings here choose a store in a database: Quartz then keeps its"
                " jobs in memory, and every instance that comes here fires them all",
                Confidence.MEDIUM,
            )
