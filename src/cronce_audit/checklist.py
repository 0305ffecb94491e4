"""The four checklists: their points, and a function that answers each point from the facts and findings."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from cronce_audit.clocks import is_zone
from cronce_audit.containers.schedules import scheduled
from cronce_audit.crontab.read import CronLine
from cronce_audit.evidence import (
    NOTHING,
    Answer,
    Evidence,
    Seen,
    all_guarded,
    all_locked,
    cannot_tell,
    entry_is_locked,
    judged,
    met,
    not_met,
    not_relevant,
    old_stops_first,
    one_process,
)
from cronce_audit.guards import guards
from cronce_audit.java import Scheduled
from cronce_audit.kubernetes.facts import Workload, running
from cronce_audit.model import Facts, LockCall, Place, ZoneSet
from cronce_audit.python.facts import UNKNOWN, Const
from cronce_audit.python.jobs import Job, jobs, zone_name
from cronce_audit.python.schedulers import Scheduler, Store, schedulers
from cronce_audit.systemd import Timer

NONE: Final = "there is no APScheduler here"
COPIES: Final = ("a-copy-of-the-job-per-start", "job-id-is-taken-at-the-next-start")
_UTC: Final = ("UTC", "Etc/UTC", "Etc/GMT", "GMT", "Zulu", "Universal")


def _schedulers(facts: Facts) -> Sequence[Scheduler]:
    return facts.conclude(schedulers).all


def _evidence(several: Sequence[Job | Scheduler | Store]) -> list[Evidence]:
    return [Evidence(one.function if isinstance(one, Job) else one.kind, one.place) for one in several]


def jobs_replace(seen: Seen) -> Answer:
    added = seen.facts.conclude(jobs)
    fine = f"none of {len(added)} jobs adds a copy at a restart, or fails there"
    return judged("" if added else NONE, seen.found(*COPIES), (Evidence(fine), *_evidence(added)))


def zone_is_utc(seen: Seen) -> Answer:
    made = _schedulers(seen.facts)
    if not made:
        return not_relevant(NONE)
    zones = {one.place: _zone(one, seen.facts) for one in made}
    unset = [Evidence(f"this {one.kind} has no timezone", one.place) for one in made if zones[one.place] is None]
    other = [Evidence(f"{zones[one.place]}", one.place) for one in made if zones[one.place] not in (None, "", *_UTC)]
    unclear = [one for one in made if not zones[one.place]]
    fine = [Evidence('timezone="UTC"', one.place) for one in made]
    return judged("", [*unset, *other], fine, _evidence(unclear), '`timezone="UTC"` where the scheduler is made')


def _zone(scheduler: Scheduler, facts: Facts) -> str | None:
    """None where it is not set, "" where it is not known."""
    given = scheduler.options.get("timezone")
    if given in (None, Const(None)):
        return None
    return zone_name(given, facts, scheduler.module) or ""


def defaults_are_safe(seen: Seen) -> Answer:
    made = _schedulers(seen.facts)
    wrong = seen.found("missed-runs-come-in-a-burst", "runs-of-one-job-may-overlap")
    keys = ("coalesce", "max_instances")
    unclear = [one for one in made if any(one.defaults.get(key) == UNKNOWN for key in keys)]
    fine = (Evidence("coalesce=True and max_instances=1 are in force, as set or by default"), *_evidence(made))
    shows = "`job_defaults` written out where the scheduler is made"
    return judged("" if made else NONE, wrong, fine, _evidence(unclear), shows)


def grace_is_set(seen: Seen) -> Answer:
    added = seen.facts.conclude(jobs)
    left = [job for job in added if job.option("misfire_grace_time") is None]
    wrong = (Evidence(f"left at one second for {len(left)} of {len(added)} jobs"), *_evidence(left)) if left else ()
    unclear = [job for job in added if job.option("misfire_grace_time") == UNKNOWN]
    fine = (Evidence(f"set for all {len(added)} jobs"), *_evidence(added))
    shows = "`misfire_grace_time` as a number, in `add_job` or in `job_defaults`"
    return judged("" if added else NONE, wrong, fine, _evidence(unclear), shows)


def store_is_a_server(seen: Seen) -> Answer:
    made = _schedulers(seen.facts)
    if not made:
        return not_relevant(NONE)
    if found := seen.found("sqlite-job-store", "job-store-on-a-network-file-system"):
        return not_met(*found)
    kept = [store for one in made for _, store in one.stores if store and store.is_persistent]
    unclear = [one for one in made if not one.all_stores_seen or any(store is None for _, store in one.stores)]
    unnamed = [store for store in kept if store.kind == "SQLAlchemyJobStore" and not store.url]
    nothing = "" if kept or unclear else "all jobs are kept in memory"
    shows = "the URL of the job store as a text, where the scheduler is made"
    return judged(nothing, (), _evidence(kept), _evidence([*unclear, *unnamed]), shows)


CLOCKS: Final = (
    "container-not-in-utc", "machine-not-in-utc", "runs-twice-when-the-clocks-go-back",
    "time-that-clocks-show-twice-or-never",
)  # fmt: skip
_UTC_OR_UNSET: Final = (*_UTC, "UTC0", "")
_NO_CRONJOB: Final = "there is no CronJob here"


def _cronjobs(facts: Facts) -> Sequence[Workload]:
    return [one for one in running(facts) if not one.partial]


def zones_are_utc(seen: Seen) -> Answer:
    said = seen.facts.of(ZoneSet)
    named = [*((one.zone.lstrip(":"), one.place) for one in said), *_zones_of_schedules(seen.facts)]
    other = [Evidence(zone, place) for zone, place in named if zone not in _UTC_OR_UNSET]
    if found := [*seen.found(*CLOCKS), *other]:
        return not_met(*found)
    if said:
        return met(*(Evidence(one.zone or "UTC", one.place) for one in said))
    return cannot_tell("TZ in the Dockerfile, compose file, unit or manifest; or `--zone UTC`, if all machines are")


def _zones_of_schedules(facts: Facts) -> Iterator[tuple[str, Place]]:
    """Zones that belong to a schedule: of CronJobs, and at the end of a timer's calendar."""
    for cronjob in _cronjobs(facts):
        zone = cronjob["timeZone"]
        if zone and zone.known:
            yield zone.text, zone.place
    for timer in facts.of(Timer):
        last = timer.calendar.rpartition(" ")[2]
        if is_zone(last):
            yield last, timer.place


def policy_is_stated(seen: Seen) -> Answer:
    there = _cronjobs(seen.facts)
    if not there:
        return not_relevant(_NO_CRONJOB)
    if found := seen.found("overlap-allowed"):
        return not_met(*found)
    said = [_said(one, "concurrencyPolicy") for one in there]
    open_ = [one["concurrencyPolicy"] for one in there if not one.is_guarded]
    if any(policy is None or not policy.known for policy in open_):
        return cannot_tell("`concurrencyPolicy: Forbid` in the manifest itself, not by a template", *said)
    return met(*said)


def _said(cronjob: Workload, name: str) -> Evidence:
    value = cronjob[name]
    says = f"has no {name}" if value is None else f"has {name}: {value.text}"
    return Evidence(f"{cronjob.called} {says}", cronjob.place if value is None else value.place)


def runs_do_not_overlap(seen: Seen) -> Answer:
    """A run that takes longer than its interval."""
    policy = policy_is_stated(seen)
    found = seen.found("next-run-does-not-wait", "runs-of-one-job-may-overlap")
    if policy.verdict == "not met" or found:
        return not_met(*found, *(policy.evidence if policy.verdict == "not met" else ()))
    if not seen.facts.conclude(scheduled):
        return not_relevant(NOTHING)
    if all_locked(seen.facts):
        return met("every job is under a lock")
    if policy.verdict == "met" and len(_cronjobs(seen.facts)) == len(seen.facts.conclude(scheduled)):
        return policy
    return cannot_tell("a lock around each job, or how long jobs take: `cronce audit logs` shows it from their logs")


def failures_are_retried(seen: Seen) -> Answer:
    none = [one for one in _cronjobs(seen.facts) if (said := one["backoffLimit"]) and said.number == 0]
    if none:
        return not_met(*(_said(one, "backoffLimit") for one in none))
    others = len(seen.facts.conclude(scheduled)) - len(_cronjobs(seen.facts))
    if _cronjobs(seen.facts) and not others:
        return met("Kubernetes retries a failed Job six times, unless backoffLimit says otherwise")
    if told := seen.mentioned("retries"):
        return cannot_tell("retries of each job; cronce sees only these", *told)
    if not others:
        return not_relevant(NOTHING)
    return cannot_tell(
        "retries where the job is declared: `retries=` of cronce, autoretry_for of Celery, attempts of Bull"
    )


def runs_are_bounded(seen: Seen) -> Answer:
    """A run that hangs."""
    if found := seen.found("run-without-end"):
        return not_met(*found)
    there = seen.facts.conclude(scheduled)
    if not there:
        return not_relevant(NOTHING)
    bounded = [_said(one, "activeDeadlineSeconds") for one in _cronjobs(seen.facts)]
    bounded += [Evidence("a time limit", line.place) for line in seen.facts.of(CronLine) if "timeout" in line.command]
    if len(bounded) < len(there):
        shows = "a time limit of each job: `timeout` before the command, `--timeout` of `cronce exec`"
        return cannot_tell(shows, *bounded)
    return met(*bounded)


def restarts_are_bounded(seen: Seen) -> Answer:
    """What a scheduler makes up for after it was down."""
    there = _cronjobs(seen.facts)
    fine = [_said(one, "startingDeadlineSeconds") for one in there]
    return judged("" if there else _NO_CRONJOB, seen.found("no-starting-deadline"), fine)


def ci_audits(seen: Seen) -> Answer:
    if told := seen.mentioned("audit"):
        return met(*told)
    return not_met("no pipeline, pre-commit config or Makefile here runs `cronce audit`")


def _habit(*signs: tuple[str, str], beside: str = "") -> Callable[[Seen], Answer]:
    """A habit of people, by its signs in files, each with what would show it; `beside` is a sign that is not enough."""

    def judge(seen: Seen) -> Answer:
        told = [each for sign, _ in signs for each in seen.mentioned(sign)]
        missing = [shows for sign, shows in signs if not seen.mentioned(sign)]
        return cannot_tell("; and ".join(missing), *told, *seen.mentioned(beside)) if missing else met(*told)

    return judge


silence_and_doubles_alert = _habit(
    ("silence", "an `alert:` about a heartbeat in a Prometheus rules file, or a ping of healthchecks.io or the like"),
    ("doubled", "an `alert:` about duplicates in a Prometheus rules file"),
)
durations_alert = _habit(("duration", "an `alert:` about a lock, a lease or a duration in a Prometheus rules file"))
duplicates_are_looked_for = _habit(
    ("dupes", "`cronce audit dupes … --since 30m` here, or a query with `HAVING COUNT(*) > 1` that the pipeline runs"),
    beside="queries",
)
unended_runs_are_looked_for = _habit(("logs", "`cronce audit logs` in a pipeline, a script or a runbook here"))


ETERNAL: Final = ("lock-without-expiry",)
SHORT: Final = ("lock-released-by-anyone", "lock-released-when-the-job-ends")
_NO_LOCK: Final = "no lock was found"


def _others(seen: Seen) -> list[Evidence]:
    """Locks that are not cronce's."""
    made = [one for one in seen.facts.conclude(guards).values() if one.kind != "cronce"]
    found = {one.place: Evidence(one.kind, one.place) for one in made}
    found |= {one.place: Evidence("redis lock", one.place) for one in seen.facts.of(LockCall)}
    found |= {one.lock.place: Evidence("ShedLock", one.lock.place) for one in seen.facts.of(Scheduled) if one.lock}
    return [found[place] for place in sorted(found)]


def _cronces(seen: Seen) -> list[Evidence]:
    places = {one.place for one in seen.facts.conclude(guards).values() if one.kind == "cronce"}
    places |= {line.place for line in seen.facts.of(CronLine) if line.guard == "cronce"}
    return [Evidence("cronce", place) for place in sorted(places)]


def locks_run_out(seen: Seen) -> Answer:
    """When the holder crashes."""
    wrong, held = seen.found(*ETERNAL), [*_others(seen), *_cronces(seen)]
    return judged("" if wrong or held else _NO_LOCK, wrong, held)


def locks_last(seen: Seen) -> Answer:
    """Locks last as long as the run, or are renewed."""
    wrong, made, held = seen.found(*SHORT, *ETERNAL), _others(seen), _cronces(seen)
    shows = "how long the longest run takes, beside each time to live; cronce renews its leases"
    fine = (Evidence("cronce renews its leases while a run works"), *held)
    return judged("" if wrong or made or held else _NO_LOCK, wrong, fine, made, shows)


def store_is_safe(seen: Seen) -> Answer:
    """The store of the locks."""
    if not (_others(seen) or _cronces(seen)):
        return not_relevant(_NO_LOCK)
    shows = "`cronce doctor` on each machine: it says whether the store persists, and what it does in a failover"
    return cannot_tell(shows, *seen.mentioned("doctor"))


def connections_are_given_back(seen: Seen) -> Answer:
    made, held = _others(seen), _cronces(seen)
    fine = (Evidence("cronce holds no connection for as long as a run works"), *held)
    shows = "how many connections the store counts, now and in a week"
    return judged("" if made or held else _NO_LOCK, (), fine, made, shows)


def effects_have_keys(seen: Seen) -> Answer:
    if kept := seen.mentioned("once"):
        return met(*kept)
    shows = (
        "a key for each effect that must happen once: a unique column beside the effect, or `run.on(…).once(…)` of"
        " cronce"
    )
    return cannot_tell(shows, *seen.mentioned("keys"))


def skew_does_no_harm(seen: Seen) -> Answer:
    if found := seen.found("clock-not-in-step"):
        return not_met(*found)
    if all_guarded(seen.facts) and not _others(seen):
        return met("the slot comes from the schedule, and time from the store", *_cronces(seen))
    return cannot_tell("clocks that are synchronised: `cronce audit --live` on each machine")


class Point(NamedTuple):
    text: str
    judge: Callable[[Seen], Answer]


class Answered(NamedTuple):
    checklist: str
    number: int
    text: str
    answer: Answer


CHECKLISTS: Final[dict[str, Sequence[Point]]] = {
    "schedulers": (
        Point("Every job that is added replaces the one that is there", jobs_replace),
        Point("The scheduler's time zone is set, to UTC", zone_is_utc),
        Point("Missed runs become one run, and one instance runs at a time", defaults_are_safe),
        Point("The misfire grace time is set, not left at one second", grace_is_set),
        Point("The job store is a server, not a file that machines share", store_is_a_server),
        Point("The deployment runs one scheduler at any time", one_process),
        Point("A lock that all machines see is at the entry of each job", entry_is_locked),
        Point("Effects that must happen once have a key in a store that lasts", effects_have_keys),
        Point("Servers, containers and schedules are in UTC", zones_are_utc),
        Point("The pipeline runs this audit", ci_audits),
        Point("A silent and a doubled scheduler raise an alert", silence_and_doubles_alert),
        Point("Every CronJob forbids or replaces overlapping runs", policy_is_stated),
        Point("The old scheduler is stopped before the new one starts", old_stops_first),
        Point("After a deploy, duplicates are looked for within 30 minutes", duplicates_are_looked_for),
        Point("Runs that start and never end are looked for", unended_runs_are_looked_for),
    ),
    "cron jobs": (
        Point("Several instances do not run the same job: there is a lock, or a leader", entry_is_locked),
        Point("The next run does not start while a long one still runs", runs_do_not_overlap),
        Point("A run that fails is retried", failures_are_retried),
        Point("A run that does not finish is stopped", runs_are_bounded),
        Point("The lock of a process that crashed is released", locks_run_out),
    ),
    "locks": (
        Point("A lock lasts as long as the longest run, or is renewed", locks_last),
        Point("The lock's store is replicated and durable", store_is_safe),
        Point("Connections are given back", connections_are_given_back),
        Point("Locks that cannot be taken and runs that take too long raise an alert", durations_alert),
    ),
    "causes": (
        Point("Several nodes with one schedule are kept apart by a lock", entry_is_locked),
        Point("Old and new, side by side in a deploy, do not both run a slot", old_stops_first),
        Point("No CronJob is left at Allow", policy_is_stated),
        Point("A scheduler that was down starts nothing that is too late", restarts_are_bounded),
        Point("Work that is delivered twice is done once, by a key in a database", effects_have_keys),
        Point("Clocks that differ do no harm", skew_does_no_harm),
    ),
}
"""The points of four articles on jobs that run twice, in their order."""


def answers(seen: Seen) -> Sequence[Answered]:
    """Points with the same function share one Answer object."""
    judge = cache(lambda how: how(seen))
    return [
        Answered(name, number, point.text, judge(point.judge))
        for name, points in CHECKLISTS.items()
        for number, point in enumerate(points, start=1)
    ]
