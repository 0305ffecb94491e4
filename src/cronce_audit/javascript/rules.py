"""What goes wrong with jobs of Node."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from cronce_audit.folds import disputed, season
from cronce_audit.javascript.facts import Act, Job, LockCall, Module, Package, Repeatable
from cronce_audit.javascript.fleet import Program, Tree, fleet, tree
from cronce_audit.javascript.jobs import TIMER
from cronce_audit.model import Confidence, Facts, Found, Place, Severity, rule


class Repeated(NamedTuple):
    """A job that several processes run, and who says so."""

    job: Job
    place: Place
    how: str
    confidence: Confidence


def unguarded(facts: Facts) -> Sequence[Job]:
    """Jobs that nothing keeps from running in each process, as far as their code is seen."""
    known = facts.conclude(tree)
    conditional = {name for module in known.modules.values() for name in module.conditional_calls}
    return [
        job
        for job in facts.of(Job)
        if not job.is_guarded and not conditional & set(job.starters) and not _leans_on_lock(job, known)
    ]


def unclear(facts: Facts) -> Sequence[Job]:
    """Jobs behind a condition, or something called a lock, of which nobody can tell what it is worth."""
    known = facts.conclude(tree)
    clear = {*facts.conclude(unguarded)}
    return [
        job
        for job in facts.of(Job)
        if job not in clear and not job.is_locked and not any(one.surely_locks for one in _used(job, known))
    ]


def _leans_on_lock(job: Job, known: Tree) -> bool:
    return any(one.has_lock for one in _used(job, known))


def _used(job: Job, known: Tree) -> Iterator[Module]:
    """The files of this tree that its body uses."""
    for name in job.leans_on:
        path = known.imported(job.place.path, name)
        if path:
            yield known.modules[path]


def repeated(facts: Facts) -> Sequence[Repeated]:
    """Jobs that several processes are seen to run, each with the plainest evidence."""
    found = []
    for job in facts.conclude(unguarded):
        evidence = [*_forked(job, facts.conclude(tree)), *_started(job, facts)]
        if evidence:
            found.append(max(evidence, key=lambda one: one.confidence))
    return found


def _forked(job: Job, known: Tree) -> Iterator[Repeated]:
    """Workers of `cluster` run the file that forks them, and all it loads."""
    for module in known.modules.values():
        if module.forks and job.place.path in known.loads(module.path)[0]:
            place = Place(module.path, module.forks)
            yield Repeated(job, place, "`cluster.fork()` starts workers that load it", _sureness(job, known))


def _started(job: Job, facts: Facts) -> Iterator[Repeated]:
    known = facts.conclude(tree)
    programs = facts.conclude(fleet)
    for program in programs:
        _, copies, place, how, confidence, _ = program.start
        if copies.is_several and job.place.path in program.files:
            yield Repeated(job, place, how, min(confidence, _sureness(job, known)))
        elif copies.is_several and not program.is_whole and _is_alone(program, programs, job, known):
            yield Repeated(job, place, how, Confidence.MEDIUM)


def _is_alone(program: Program, programs: Sequence[Program], job: Job, known: Tree) -> bool:
    """The only program of the package that the job is in."""
    others = {one.script for one in programs if one.package == program.package}
    return bool(known.packages) and known.package_of(job.place.path) == program.package and len(others) == 1


def _sureness(job: Job, known: Tree) -> Confidence:
    """Whether all that is used was seen; and a function that registers the job may not be called."""
    is_seen = all(known.imported(job.place.path, name) for name in job.leans_on)
    return Confidence.HIGH if is_seen and not job.starters else Confidence.MEDIUM


@rule(
    "CR701",
    "job-in-every-process",
    Severity.ERROR,
    Confidence.HIGH,
    remedy="run the jobs in a program of their own with one instance, or start the body through a claim on a shared "
    "store (`cronce exec NAME --schedule CRON -- node job.js` in a crontab line on each host, or a row keyed by job "
    "and slot)",
)
def _in_every_process(facts: Facts) -> Iterator[Found]:
    for job, place, how, confidence in facts.conclude(repeated):
        message = f"{job.what} fires in every process ({job.library} knows only its own), and {how} ({place})"
        yield Found(job.place, message, confidence, Severity.INFO if job.library == TIMER else None)


@rule(
    "CR702",
    "job-tied-to-one-process",
    Severity.INFO,
    Confidence.MEDIUM,
    remedy="keep this program at one process, or let each slot be claimed on a shared store before its body runs",
)
def _tied_to_one_process(facts: Facts) -> Iterator[Found]:
    told = {one.job for one in facts.conclude(repeated)}
    kept = {path for program in facts.conclude(fleet) if program.start.kept_at_one for path in program.files}
    for job in facts.conclude(unguarded):
        if job not in told and job.place.path not in kept:
            yield Found(
                job.place,
                f"{job.what} runs once only as long as one process loads this file: {job.library} knows of no other "
                "process, and no lock is seen",
            )
    for job in facts.conclude(unclear):
        if job.place.path not in kept:
            yield Found(
                job.place,
                f"{job.what} runs in every process that gets there ({job.library} knows of no other), and what stands "
                "before it, a condition or something called a lock, does not say in how many that is",
                Confidence.LOW,
                remedy=_LOOK,
            )


_LOOK: Final = (
    "look whether it runs in one process at most, of all workers and machines; if so, say it: "
    "`// cronce: ignore[CR702] …`"
)


@rule(
    "CR703",
    "time-that-comes-twice-or-never",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="choose a time that the clocks do not skip or repeat, or give the job `UTC` as its zone",
)
def _twice_or_never(facts: Facts) -> Iterator[Found]:
    known = facts.conclude(tree)
    for job in facts.of(Job):
        if not (job.pattern and job.zone and (job.library == "node-cron" or job.is_rule)):
            continue
        hit = disputed(job.pattern, job.zone, facts.year)
        if hit and hit.twice and _fires_twice(job, known):
            yield Found(job.place, f"{job.what} runs twice when clocks go back: {_shown(hit.twice, job.zone)} twice")
        elif hit and hit.never:
            message = f"{job.what} does not run on the day that clocks go forward: {_shown(hit.never, job.zone)} never"
            yield Found(job.place, message)


def _shown(wall: datetime, zone: str) -> str:
    """`Europe/Berlin, each year (in 2026 on 25 October), shows 02:30`."""
    return f"{zone}, {season(wall)}, shows {wall:%H:%M}"


_MAJOR: Final = re.compile(r"[\^~>=v\s]*(\d+)")


def _fires_twice(job: Job, known: Tree) -> bool:
    """A RecurrenceRule, and node-cron before its fourth version, look at the wall clock alone."""
    if job.is_rule:
        return True
    package: Package | None = known.packages.get(known.package_of(job.place.path) or "")
    version = _MAJOR.match(dict(package.needs).get("node-cron", "")) if package else None
    return version is not None and int(version[1]) < 4


@rule(
    "CR704",
    "repeatable-job-left-behind",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="call `upsertJobScheduler(id, …)` (BullMQ 5.16 and later), which replaces the schedule of its id, or remove "
    "the old one by `removeRepeatable` before adding",
)
def _left_behind(facts: Facts) -> Iterator[Found]:
    first: dict[tuple[str, str, str], Repeatable] = {}
    for one in facts.of(Repeatable):
        before = first.setdefault((one.place.path, one.queue, one.name), one)
        if before.pattern != one.pattern:
            yield Found(
                one.place,
                f"`{one.name}` is added with `{one.pattern}` here and with `{before.pattern}` in line "
                f"{before.place.line}: these are two, for the schedule is part of their key, and both stay in Redis",
            )


def _acts(facts: Facts, *acts: Act) -> Iterator[LockCall]:
    return (call for call in facts.of(LockCall) if call.act in acts)


@rule(
    "CR711",
    "redis-lock-released-by-anyone",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="compare and delete in one step: `eval` of a script that deletes the key only if it still holds the value "
    "that this run drew",
)
def _released_by_anyone(facts: Facts) -> Iterator[Found]:
    for call in _acts(facts, "free after get", "free unasked"):
        gap = (
            "the key may run out and be taken by another process between `get` and `del`"
            if call.act == "free after get"
            else "when it ran out meanwhile, this deletes the lock of whoever took it"
        )
        yield Found(call.place, f"the lock `{call.key}` is released without knowing that it is still held: {gap}")


@rule(
    "CR712",
    "redis-lock-without-expiry",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="set value and time to live in one command: `set(key, token, 'PX', ms, 'NX')`",
)
def _without_expiry(facts: Facts) -> Iterator[Found]:
    for call in _acts(facts, "take for ever", "take in two steps"):
        how = (
            "never runs out"
            if call.act == "take for ever"
            else "gets its time to live by a second command, and never runs out if the process dies between the two"
        )
        yield Found(call.place, f"the lock `{call.key}` {how}: after a crash nobody gets it, and the job is lost")


@rule(
    "CR713",
    "redis-lock-renewed-by-anyone",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="compare and extend in one step: `eval` of a script that calls `pexpire` only if the key still holds the "
    "value that this process drew, and stop when it does not",
)
def _renewed_by_anyone(facts: Facts) -> Iterator[Found]:
    for call in _acts(facts, "renew after get", "renew unasked"):
        gap = " between `get` and `expire`" if call.act == "renew after get" else ""
        yield Found(
            call.place,
            f"the lock `{call.key}` is extended whoever holds it: a process that is paused{gap} until it runs out "
            "extends another's, and both go on",
        )


RULES: Final = (
    _in_every_process,
    _tied_to_one_process,
    _twice_or_never,
    _left_behind,
    _released_by_anyone,
    _without_expiry,
    _renewed_by_anyone,
)
