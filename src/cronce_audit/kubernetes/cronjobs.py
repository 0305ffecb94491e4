"""Rules about when a CronJob starts, and whether Kubernetes takes it at all."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from cronce_audit.folds import Disputed, disputed, is_zone, season
from cronce_audit.kubernetes.facts import CronJob, Field
from cronce_audit.kubernetes.schedules import PREFIX, as_cron, complaint
from cronce_audit.kubernetes.seen import cron_jobs, running, whole
from cronce_audit.model import Confidence, Facts, Found, Rule, Severity, rule


@rule(
    "CR506",
    "misplaced-field",
    Severity.ERROR,
    Confidence.HIGH,
    remedy="move it to where it belongs, and apply with `--validate=strict`",
)
def _misplaced(facts: Facts) -> Iterator[Found]:
    for job in facts.of(CronJob):
        for one in job.misplaced:
            yield Found(
                one.place,
                f"`{one.name}` stands in {one.where}, where there is no such field; it belongs to {one.belongs}. The "
                "API server drops it, or refuses the object",
            )


@rule(
    "CR508",
    "zone-in-the-schedule",
    Severity.ERROR,
    Confidence.HIGH,
    remedy="write the zone as `timeZone` beside the schedule (Kubernetes 1.27; beta in 1.25)",
)
def _prefix(facts: Facts) -> Iterator[Found]:
    for job, schedule in _schedules(facts):
        found = PREFIX.match(schedule.text)
        if found:
            yield Found(
                schedule.place,
                f"{job.called} has `{found[1]}=` in its schedule: Kubernetes 1.29 and later refuses it, and earlier "
                "ones never promised it",
            )


@rule(
    "CR509",
    "fixed-time-when-clocks-change",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="take a time that the change of clocks leaves alone, or `timeZone: Etc/UTC`; or claim each slot with cronce",
)
def _clocks(facts: Facts) -> Iterator[Found]:
    for job, schedule in _schedules(facts):
        zone = _zone(job, schedule)
        found = disputed(as_cron(schedule.text), zone, facts.year) if is_zone(zone) else None
        if found and not job.is_guarded and (effects := list(_effects(found))):
            yield Found(schedule.place, f"`{schedule.text}` in {zone}: {', '.join(effects)}, as the clocks change")


def _zone(job: CronJob, schedule: Field) -> str:
    zone, prefix = job["timeZone"], PREFIX.match(schedule.text)
    return zone.text if zone else prefix[2] if prefix else ""


def _effects(found: Disputed) -> Iterator[str]:
    if found.twice:
        yield f"{season(found.twice)} it runs twice"
    if found.never:
        yield f"{season(found.never)} it does not run"


@rule(
    "CR510",
    "schedule-not-accepted",
    Severity.ERROR,
    Confidence.HIGH,
    remedy="write five fields, minute to weekday with Sunday as 0, and a zone of the IANA database",
)
def _refused(facts: Facts) -> Iterator[Found]:
    for job in facts.conclude(cron_jobs):
        schedule, zone = job["schedule"], job["timeZone"]
        why = complaint(PREFIX.sub("", schedule.text)) if schedule and schedule.known else None
        if schedule and why:
            yield Found(schedule.place, f"Kubernetes refuses the schedule `{schedule.text}`: {why}")
        if zone and _is_no_zone(zone):
            yield Found(zone.place, f"Kubernetes refuses the zone `{zone.text}`: there is none of that name")


def _is_no_zone(zone: Field) -> bool:
    spelled_out = zone.known and not set("${}<>%") & set(zone.text)
    return spelled_out and not is_zone(zone.text)


@rule(
    "CR511",
    "restart-policy-not-accepted",
    Severity.ERROR,
    Confidence.HIGH,
    remedy="write `restartPolicy: Never` (each attempt is a pod of its own, and its log stays) or `OnFailure`",
)
def _restart(facts: Facts) -> Iterator[Found]:
    for job in facts.conclude(cron_jobs):
        restart = job["restartPolicy"]
        if restart is None and not job.partial and not job.misplaces("restartPolicy"):
            yield Found(
                job.place,
                f"the pod template of {job.called} has no restartPolicy: the default is Always, which a Job refuses",
            )
        elif restart and restart.text == "Always":
            yield Found(restart.place, f"{job.called} has `restartPolicy: Always`, which a Job refuses")


@rule(
    "CR514",
    "two-cronjobs-for-one-job",
    Severity.WARNING,
    Confidence.MEDIUM,
    remedy="remove one of them; concurrencyPolicy is about runs of one CronJob, not of two",
)
def _twice(facts: Facts) -> Iterator[Found]:
    seen: dict[object, list[CronJob]] = defaultdict(list)
    for job in whole(facts):
        schedule = job["schedule"]
        does = tuple((each.image, each.words, each.environment) for each in job.containers)
        if job.name and schedule and schedule.known and _is_told(job):
            folder = PurePosixPath(job.place.path).parent
            seen[folder, job.namespace, schedule.text, _zone(job, schedule), does].append(job)
    for first, *others in seen.values():
        for other in others:
            if other.name != first.name:
                yield Found(
                    other.place,
                    f"{other.called} and `{first.name}` ({first.place}) run the same command at the same times",
                )


def _is_told(job: CronJob) -> bool:
    """Its commands are spelled out, and nothing else tells it from another."""
    return bool(job.containers) and all(
        each.words and each.is_told and "$unknown" not in " ".join((each.image, *each.words)) for each in job.containers
    )


def _schedules(facts: Facts) -> Iterator[tuple[CronJob, Field]]:
    """The schedules that are known, of what runs."""
    for job in running(facts):
        schedule = job["schedule"]
        if schedule and schedule.known:
            yield job, schedule


RULES: Final[tuple[Rule, ...]] = (_misplaced, _prefix, _clocks, _refused, _restart, _twice)
