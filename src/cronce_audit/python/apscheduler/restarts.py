"""What a restart does to jobs in a store that outlives the process: a copy more, an error, or runs that are lost."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from cronce_audit.model import Confidence, Facts, Found, Rule, Severity, rule
from cronce_audit.python.apscheduler.jobs import Job, jobs
from cronce_audit.python.apscheduler.options import number
from cronce_audit.python.apscheduler.schedulers import Scheduler, Store, schedulers
from cronce_audit.python.apscheduler.triggers import is_rare
from cronce_audit.python.facts import Call, Called, Const, Member, Name, Value
from cronce_audit.python.names import Names, names

_LOOKS: Final = ("get_job", "get_jobs", "lookup_job", "remove_job", "remove_all_jobs", "get_schedule", "get_schedules")
"""Whoever asks for the jobs that are there, or removes them, has thought of the restart."""
_CATCHES: Final = ("ConflictingIdError", "Exception", "BaseException")
_RANDOM: Final = frozenset({"uuid.uuid1", "uuid.uuid4", "secrets.token_hex", "secrets.token_urlsafe", "time.time"})


@rule(
    "CR101",
    "a-copy-of-the-job-per-start",
    Severity.ERROR,
    Confidence.HIGH,
    remedy='give it a name of its own and let it replace itself: `id="...", replace_existing=True`; '
    "then remove the copies that are already in the store",
)
def _copies(facts: Facts) -> Iterator[Found]:
    for job, store in _added_at_start(facts):
        if not _has_id(job, facts.conclude(names)):
            yield Found(
                job.place,
                f"{job.function} is added to a job store that survives a restart ({store.kind}, {store.place}) "
                f"{job.start}, without an id of its own: each start adds a copy, and all of them run",
            )


@rule(
    "CR102",
    "job-id-is-taken-at-the-next-start",
    Severity.ERROR,
    Confidence.HIGH,
    remedy="add `replace_existing=True`",
)
def _conflicts(facts: Facts) -> Iterator[Found]:
    for job, store in _added_at_start(facts):
        if job.scheduler.version == 3 and _has_id(job, facts.conclude(names)) and job.replaces in _NOT_REPLACED:
            yield Found(
                job.place,
                f"{job.function} is added to a job store that survives a restart ({store.kind}, {store.place}) "
                f"{job.start}, with an id and without replace_existing: the second start fails with "
                "ConflictingIdError, and the job keeps its old schedule",
            )


@rule(
    "CR105",
    "a-second-late-is-lost",
    Severity.WARNING,
    Confidence.HIGH,
    remedy='say how late a run may be: `job_defaults={"misfire_grace_time": 3600, "coalesce": True}`; '
    "None means however late",
)
def _lost(facts: Facts) -> Iterator[Found]:
    for scheduler in facts.conclude(schedulers).all:
        late = [job for job in facts.conclude(jobs) if job.scheduler == scheduler and _is_dropped_when_late(job)]
        kept = [job for job in late if not job.start and job.replaces in _NOT_REPLACED]
        if kept:
            yield Found(
                scheduler.place,
                f"misfire_grace_time is left at its default of one second: a run of {_several(kept)} that was due "
                "while this was down is remembered by the store, and dropped",
            )
        elif late:
            yield Found(
                scheduler.place,
                f"misfire_grace_time is left at its default of one second: a run of {_several(late)} that starts later "
                "than that, because all threads are busy, is dropped",
                severity=Severity.INFO,
            )


@rule(
    "CR112",
    "replaced-job-forgets-the-missed-run",
    Severity.INFO,
    Confidence.HIGH,
    remedy="if a run that was missed matters, add the job only where it is missing "
    "(`if scheduler.get_job(...) is None`), or look for missed work at the start",
)
def _forgotten(facts: Facts) -> Iterator[Found]:
    replaced: dict[Scheduler, list[Job]] = defaultdict(list)
    for job, _ in _added_at_start(facts):
        if job.scheduler.version == 3 and job.replaces == Const(value=True) and is_rare(job) and _waits(job):
            replaced[job.scheduler].append(job)
    for several in replaced.values():
        yield Found(
            several[0].place,
            f"each start replaces {_several(several)}, and reckons the next run anew: one that was due while this was "
            "down is forgotten, although the store had remembered it",
        )


_NOT_REPLACED: Final = (None, Const(value=False))


def _added_at_start(facts: Facts) -> Iterator[tuple[Job, Store]]:
    """Jobs that come again and again, added by each start to a store that remembers them, without a look at it."""
    aware = facts.conclude(_aware)
    for job in facts.conclude(jobs):
        store = job.store
        if store is None or not store.is_persistent or not job.start or job.trigger in ("", "date"):
            continue
        if {_body(job), job.scheduler.place, job.options.get("id")} & aware or _is_caught(job):
            continue
        yield job, store


def _aware(facts: Facts) -> frozenset[object]:
    """Functions that look at the jobs that are there, by themselves or by one they call; schedulers whose jobs are all
    removed somewhere, at the start or at the end; and ids that are."""
    known = facts.conclude(names)
    found: set[object] = set()
    for call in known.calls(*_LOOKS):
        found.add(_body(call))
        function = known.function(call.scope.function)
        found.update(_body(caller) for caller in (known.callers(function) if function else ()))
        scheduler = facts.conclude(schedulers).of(known.receiver(call))
        if call.method == "remove_all_jobs" and scheduler is not None:
            found.add(scheduler.place)
        if call.method == "remove_job" and call.called.args:
            found.add(known.origin(call.called.args[0], call.scope.module))
    return frozenset(found)


def _body(of: Call | Job) -> str:
    return of.scope.function or of.scope.module


def _is_caught(job: Job) -> bool:
    suppressed = (
        each
        for context in job.scope.contexts
        if isinstance(context, Called) and context.function == Name("contextlib.suppress")
        for each in context.args
    )
    return any(isinstance(each, Name) and each.last in _CATCHES for each in (*job.scope.caught, *suppressed))


def _has_id(job: Job, known: Names) -> bool:
    """An id that is drawn anew at each start is none; one that cannot be seen is one."""
    given = job.options.get("id")
    return given not in (None, Const(None), Const("")) and not _is_random(given, known)


def _is_random(value: Value | None, known: Names) -> bool:
    match value:
        case Called(function, args):
            return known.full_name(function) in _RANDOM or any(_is_random(each, known) for each in args)
        case Member(of, _):
            return _is_random(of, known)
    return False


def _waits(job: Job) -> bool:
    """Whether somebody wanted late runs to be made up for."""
    grace = job.option("misfire_grace_time")
    return grace == Const(None) or (number(grace) or 0) > 1


def _is_dropped_when_late(job: Job) -> bool:
    store = job.store
    left = job.option("misfire_grace_time") is None
    return left and store is not None and store.is_persistent and job.scheduler.version == 3 and is_rare(job)


def _several(late: list[Job]) -> str:
    return f"{late[0].function} ({late[0].place})" + (f" and {len(late) - 1} more" if len(late) > 1 else "")


RULES: tuple[Rule, ...] = (_copies, _conflicts, _lost, _forgotten)
