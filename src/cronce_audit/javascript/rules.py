"""What the readers of JavaScript tell the rules."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cronce_audit.common import is_of_process
from cronce_audit.javascript.code import Job, Module
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
        if not job.is_guarded
        and not conditional & set(job.starters)
        and not _leans_on_lock(job, known)
        and not is_of_process(job.place.path, job.what)
    ]


def unclear(facts: Facts) -> Sequence[Job]:
    """Jobs behind a condition, or something called a lock, of which nobody can tell what it is worth."""
    known = facts.conclude(tree)
    clear = {*facts.conclude(unguarded)}
    return [
        job
        for job in facts.of(Job)
        if job not in clear
        and not job.is_locked
        and not any(one.surely_locks for one in _used(job, known))
        and not is_of_process(job.place.path, job.what)
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
    "CR701 job-in-every-process",
    Severity.ERROR,
    "run the jobs in a program of their own with one instance, or start the body through a claim on a shared "
    "store (`cronce exec NAME --schedule CRON -- node job.js` in a crontab line on each host, or a row keyed by job "
    "and slot)",
)
def _in_every_process(facts: Facts) -> Iterator[Found]:
    for job, place, how, confidence in facts.conclude(repeated):
        message = f"{job.what} fires in every process ({job.library} knows only its own), and {how} ({place})"
        yield Found(job.place, message, confidence, Severity.INFO if job.library == TIMER else None)


@rule(
    "CR702 job-tied-to-one-process",
    Severity.INFO,
    "keep this program at one process, or let each slot be claimed on a shared store before its body runs",
    confidence=Confidence.MEDIUM,
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
