"""Checklists for scheduled jobs, answered for a tree point by point, each with what the answer rests on.

They go further than the rules: a rule is silent where it cannot see, a checklist says so. *Cannot tell* comes with what
would show it; *not relevant* is a point about something that is not there.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, NamedTuple

from cronce_audit.checklist import cluster, habits, locks, python
from cronce_audit.checklist import scheduled as jobs
from cronce_audit.checklist.answers import Answer, Seen


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
        Point("Every job that is added replaces the one that is there", python.jobs_replace),
        Point("The scheduler's time zone is set, to UTC", python.zone_is_utc),
        Point("Missed runs are one run, and one instance runs at a time", python.defaults_are_safe),
        Point("The misfire grace time is set, not left at one second", python.grace_is_set),
        Point("The job store is a server, not a file that machines share", python.store_is_a_server),
        Point("The deployment runs one scheduler at any time", jobs.one_process),
        Point("A lock that all machines see is at the entry of each job", jobs.entry_is_locked),
        Point("Effects that must happen once have a key in a store that lasts", locks.effects_have_keys),
        Point("Servers, containers and schedules are in UTC", cluster.zones_are_utc),
        Point("The pipeline runs this audit", habits.ci_audits),
        Point("A silent and a doubled scheduler raise an alert", habits.silence_and_doubles_alert),
        Point("Every CronJob forbids or replaces a run beside another", cluster.policy_is_stated),
        Point("The old scheduler is stopped before the new one starts", jobs.old_stops_first),
        Point("After a deploy, duplicates are looked for within 30 minutes", habits.duplicates_are_looked_for),
        Point("Runs that start and never end are looked for", habits.unended_runs_are_looked_for),
    ),
    "cron jobs": (
        Point("Several instances do not run the same job: there is a lock, or a leader", jobs.entry_is_locked),
        Point("A run that takes longer than its interval is not joined by the next", cluster.runs_do_not_overlap),
        Point("A run that fails is retried", cluster.failures_are_retried),
        Point("A run that does not finish is stopped", cluster.runs_are_bounded),
        Point("The lock of one that crashed comes free", locks.locks_run_out),
    ),
    "locks": (
        Point("A lock lasts as long as the longest run, or is renewed", locks.locks_last),
        Point("The lock's store is replicated, and keeps what it is told", locks.store_is_safe),
        Point("Connections are given back", locks.connections_are_given_back),
        Point("Locks that are not got and runs that take too long raise an alert", habits.durations_alert),
    ),
    "causes": (
        Point("Several nodes with one schedule are kept apart by a lock", jobs.entry_is_locked),
        Point("Old and new, side by side in a deploy, do not both run a slot", jobs.old_stops_first),
        Point("No CronJob is left at Allow", cluster.policy_is_stated),
        Point("A scheduler that was down starts nothing that is too late", cluster.restarts_are_bounded),
        Point("Work that is delivered twice is done once, by a key in a database", locks.effects_have_keys),
        Point("Clocks that differ do no harm", locks.skew_does_no_harm),
    ),
}
"""What four articles on jobs that fire twice ask for, in their order."""


def answers(seen: Seen) -> Sequence[Answered]:
    """Points that ask the same have the same answer, which is the same object."""
    judge = cache(lambda how: how(seen))
    return [
        Answered(name, number, point.text, judge(point.judge))
        for name, points in CHECKLISTS.items()
        for number, point in enumerate(points, start=1)
    ]
