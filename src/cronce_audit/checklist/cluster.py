"""What the checklists ask of Kubernetes, and of the clocks and time limits of what is scheduled anywhere."""

from collections.abc import Sequence
from typing import Final

from cronce_audit.checklist.answers import Answer, Evidence, Seen, cannot_tell, met, not_met, not_relevant
from cronce_audit.checklist.scheduled import NOTHING, all_locked, scheduled
from cronce_audit.common import ZoneSet
from cronce_audit.crontab.read import Line
from cronce_audit.kubernetes.facts import CronJob
from cronce_audit.kubernetes.seen import running
from cronce_audit.model import Facts

CLOCKS: Final = (
    "container-not-in-utc", "machine-not-in-utc", "runs-twice-when-the-clocks-go-back",
    "midnight-run-is-lost-after-the-clocks-go-forward", "time-that-clocks-show-twice-or-never",
    "time-that-clocks-pass-over", "time-that-comes-twice-or-never", "fixed-time-when-clocks-change",
)  # fmt: skip
_UTC: Final = ("UTC", "Etc/UTC", "Etc/GMT", "GMT", "Zulu", "Universal", "UTC0", "")
_NO_CRONJOB: Final = "there is no CronJob here"


def _cronjobs(facts: Facts) -> Sequence[CronJob]:
    return [one for one in running(facts) if not one.partial]


def zones_are_utc(seen: Seen) -> Answer:
    said = seen.facts.of(ZoneSet)
    other = [Evidence(one.zone, one.place) for one in said if one.zone.lstrip(":") not in _UTC]
    if found := [*seen.found(*CLOCKS), *other]:
        return not_met(*found)
    if said:
        return met(*(Evidence(one.zone or "UTC", one.place) for one in said))
    return cannot_tell("TZ in the Dockerfile, compose file, unit or manifest; or `--zone UTC`, if all machines are")


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


def _said(cronjob: CronJob, name: str) -> Evidence:
    value = cronjob[name]
    says = f"has no {name}" if value is None else f"has {name}: {value.text}"
    return Evidence(f"{cronjob.called} {says}", cronjob.place if value is None else value.place)


def runs_do_not_overlap(seen: Seen) -> Answer:
    """A run that takes longer than its interval."""
    policy = policy_is_stated(seen)
    found = seen.found("no-lock-on-a-frequent-job", "runs-of-one-job-may-overlap")
    if policy.verdict == "not met" or found:
        return not_met(*found, *(policy.evidence if policy.verdict == "not met" else ()))
    if not seen.facts.conclude(scheduled):
        return not_relevant(NOTHING)
    if all_locked(seen.facts):
        return met("every job is under a lock")
    if policy.verdict == "met" and len(_cronjobs(seen.facts)) == len(seen.facts.conclude(scheduled)):
        return policy
    return cannot_tell("a lock around each job, or how long the jobs take: `cronce logs` tells it from their logs")


def failures_are_retried(seen: Seen) -> Answer:
    none = [one for one in _cronjobs(seen.facts) if (said := one["backoffLimit"]) and said.number == 0]
    if none:
        return not_met(*(_said(one, "backoffLimit") for one in none))
    others = len(seen.facts.conclude(scheduled)) - len(_cronjobs(seen.facts))
    if _cronjobs(seen.facts) and not others:
        return met("Kubernetes retries a failed Job six times, unless backoffLimit says otherwise")
    if told := seen.mentioned("retries"):
        return cannot_tell("retries of each job; these are seen", *told)
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
    bounded += [Evidence("a time limit", line.place) for line in seen.facts.of(Line) if "timeout" in line.command]
    if len(bounded) < len(there):
        shows = "a time limit of each job: `timeout` before the command, `--timeout` of `cronce exec`"
        return cannot_tell(shows, *bounded)
    return met(*bounded)


def restarts_are_bounded(seen: Seen) -> Answer:
    """A scheduler that was down: what it makes up for when it comes back."""
    there = _cronjobs(seen.facts)
    if not there:
        return not_relevant(_NO_CRONJOB)
    if found := seen.found("no-starting-deadline", "starting-deadline-too-short"):
        return not_met(*found)
    return met(*(_said(one, "startingDeadlineSeconds") for one in there))
