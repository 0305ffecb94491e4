"""What the checklists ask of APScheduler."""

from collections.abc import Sequence
from typing import Final

from cronce_audit.checklist.answers import Answer, Evidence, Seen, cannot_tell, met, not_met, not_relevant
from cronce_audit.model import Facts
from cronce_audit.python.apscheduler.jobs import Job, jobs
from cronce_audit.python.apscheduler.schedulers import Scheduler, Store, schedulers
from cronce_audit.python.apscheduler.triggers import zone_name
from cronce_audit.python.facts import UNKNOWN, Const

NONE: Final = "there is no APScheduler here"
COPIES: Final = ("a-copy-of-the-job-per-start", "job-id-is-taken-at-the-next-start")
_UTC: Final = ("UTC", "Etc/UTC", "Etc/GMT", "GMT", "Zulu", "Universal")


def _schedulers(facts: Facts) -> Sequence[Scheduler]:
    return facts.conclude(schedulers).all


def _evidence(several: Sequence[Job | Scheduler | Store]) -> list[Evidence]:
    return [Evidence(one.function if isinstance(one, Job) else one.kind, one.place) for one in several]


def jobs_replace(seen: Seen) -> Answer:
    found, added = seen.found(*COPIES), seen.facts.conclude(jobs)
    if not added:
        return not_relevant(NONE)
    if found:
        return not_met(*found)
    return met(f"none of {len(added)} jobs adds a copy at a restart, or fails there", *_evidence(added))


def zone_is_utc(seen: Seen) -> Answer:
    made = _schedulers(seen.facts)
    if not made:
        return not_relevant(NONE)
    zones = {one.place: _zone(one, seen.facts) for one in made}
    unset = [Evidence(f"this {one.kind} has no timezone", one.place) for one in made if zones[one.place] is None]
    other = [Evidence(f"{zones[one.place]}", one.place) for one in made if zones[one.place] not in (None, "", *_UTC)]
    if unset or other:
        return not_met(*unset, *other)
    if unclear := [one for one in made if not zones[one.place]]:
        return cannot_tell('`timezone="UTC"` where the scheduler is made', *_evidence(unclear))
    return met(*(Evidence('timezone="UTC"', one.place) for one in made))


def _zone(scheduler: Scheduler, facts: Facts) -> str | None:
    """None where it is not set, "" where it cannot be told."""
    given = scheduler.options.get("timezone")
    if given in (None, Const(None)):
        return None
    return zone_name(given, facts, scheduler.module) or ""


def defaults_are_safe(seen: Seen) -> Answer:
    made = _schedulers(seen.facts)
    if not made:
        return not_relevant(NONE)
    if found := seen.found("missed-runs-come-in-a-burst", "runs-of-one-job-may-overlap"):
        return not_met(*found)
    keys = ("coalesce", "max_instances")
    unclear = [one for one in made if any(one.defaults.get(key) == UNKNOWN for key in keys)]
    if unclear:
        return cannot_tell("`job_defaults` written out where the scheduler is made", *_evidence(unclear))
    return met("coalesce=True and max_instances=1 are in force, as set or by default", *_evidence(made))


def grace_is_set(seen: Seen) -> Answer:
    added = [job for job in seen.facts.conclude(jobs) if job.scheduler.version == 3]
    if not added:
        return not_relevant(NONE)
    left = [job for job in added if job.option("misfire_grace_time") is None]
    if left:
        return not_met(f"left at one second for {len(left)} of {len(added)} jobs", *_evidence(left))
    if unclear := [job for job in added if job.option("misfire_grace_time") == UNKNOWN]:
        return cannot_tell("`misfire_grace_time` as a number, in `add_job` or in `job_defaults`", *_evidence(unclear))
    return met(f"set for all {len(added)} jobs", *_evidence(added))


def store_is_a_server(seen: Seen) -> Answer:
    made = _schedulers(seen.facts)
    if not made:
        return not_relevant(NONE)
    if found := seen.found("sqlite-job-store", "job-store-on-a-network-file-system"):
        return not_met(*found)
    kept = [store for one in made for _, store in one.stores if store and store.is_persistent]
    unclear = [one for one in made if not one.all_stores_seen or any(store is None for _, store in one.stores)]
    unnamed = [store for store in kept if store.kind == "SQLAlchemyJobStore" and not store.url]
    if unclear or unnamed:
        return cannot_tell(
            "the URL of the job store as a text, where the scheduler is made", *_evidence([*unclear, *unnamed])
        )
    if not kept:
        return not_relevant("all jobs are kept in memory")
    return met(*_evidence(kept))
