"""Who starts a scheduler, how often: each start in the code, joined with the processes that reach it.

app/jobs.py:12  scheduler.start()     at import of app.jobs
Procfile:1      gunicorn -w 4 app:app  imports app, which imports app.jobs     → 4 copies
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cronce_audit.guards import guards
from cronce_audit.model import Confidence, Facts
from cronce_audit.processes.argv import ONE, Count
from cronce_audit.processes.commands import Running, Serving, runnings
from cronce_audit.processes.reach import Reach, reach
from cronce_audit.processes.servers import servings
from cronce_audit.processes.starts import HOOKS, Occasion, Start, occasions, starts
from cronce_audit.processes.worlds import CHILD, PARENT, PRODUCTION, is_done
from cronce_audit.python.jobs import jobs
from cronce_audit.python.names import names


class Launch(NamedTuple):
    """A start, the occasion, and the process that brings it about; None where no process is seen."""

    start: Start
    occasion: Occasion
    by: Serving | Running | None
    per_process: Count
    """In one copy of the unit: the workers that reach it."""
    confidence: Confidence

    @property
    def doubts(self) -> tuple[tuple[str, str], ...]:
        return self.occasion.doubts

    @property
    def total(self) -> Count:
        return self.per_process.times(self.by.copies) if self.by else ONE


def launches(facts: Facts) -> Sequence[Launch]:
    """The worst launch of each start: the one with the most copies."""
    worst: dict[Start, Launch] = {}
    for launch in facts.conclude(every_launch):
        worst[launch.start] = max(worst.get(launch.start, launch), launch, key=_badness)
    return list(worst.values())


def every_launch(facts: Facts) -> Sequence[Launch]:
    """All that are seen; but none behind a lock of all machines, or behind cronce. What is behind a condition that is
    not understood has its doubts."""
    known = facts.conclude(occasions)
    return [
        launch
        for start in facts.conclude(starts)
        for occasion in known.of(start.scope)
        for launch in _of(start, occasion, facts)
    ]


def is_claimed(launch: Launch, facts: Facts, *, far: bool) -> bool:
    """Whether every job that it starts takes a lock itself, which all of these processes respect, also those that are
    far, on other machines: then all may try. This is asked last, of what would be told."""
    known = facts.conclude(guards)
    functions = [job.full_name for job in facts.conclude(jobs) if job.scheduler == launch.start.scheduler]
    found = [known.get(name) if name else None for name in functions or [launch.start.scope.function]]
    return all(guard is not None and (guard.across_hosts or not far) for guard in found)


def _badness(launch: Launch) -> tuple[int, int, bool, bool, int]:
    """What is known to serve counts more than a reloader, which is for development; and what is known to be so more
    than what may be, but less than what is known to be right."""
    reload = isinstance(launch.by, Serving) and launch.by.reload
    sure = 1 if launch.doubts else 2 if launch.total.is_several else 0
    return sure, launch.total.least, launch.by is not None, not reload, launch.confidence


def _of(start: Start, occasion: Occasion, facts: Facts) -> Iterator[Launch]:
    known = facts.conclude(reach)
    done = is_done(occasion.path, PRODUCTION, facts.conclude(names)) is not False
    served = False
    for serving in facts.conclude(servings):
        sure = _reaches(serving, occasion, known)
        if sure is not None:
            served = True
            workers = _workers(serving, occasion, facts)
            if workers is not None:
                one = ONE if occasion.alone else workers
                yield Launch(start, occasion, serving, one, min(sure, _sureness(serving)))
    for running in facts.conclude(runnings):
        if occasion.when in ("program", "import") and known.run(running) == occasion.module and done:
            yield Launch(start, occasion, running, ONE, _sureness(running))
    if done and not served:
        yield Launch(start, occasion, None, ONE, Confidence.HIGH)
    elif not served and occasion.when == "ready":  # it asks for runserver: so that is how it is started
        by = Serving("manage.py runserver", "", ONE, start.place, reload=True)
        workers = _workers(by, occasion, facts)
        if workers is not None and workers.is_several:
            yield Launch(start, occasion, by, workers, Confidence.HIGH)


def _sureness(started: Serving | Running) -> Confidence:
    return started.by.confidence if started.by else Confidence.HIGH


def _reaches(serving: Serving, occasion: Occasion, known: Reach) -> Confidence | None:
    """How sure it is that the server's processes get there; None where they do not."""
    if occasion.when == "hook":
        return Confidence.HIGH if serving.config and serving.config == known.path(occasion.module) else None
    module = known.served(serving)
    if occasion.when == "program":
        return Confidence.HIGH if serving.reload and serving.server == "app.run" and module == occasion.module else None
    if occasion.when == "ready":
        django = serving.server == "manage.py runserver" or known.imports(module, "django")
        return Confidence.HIGH if django else None
    sure = known.imported_from(module).get(occasion.module) if module else None
    return None if sure is None else Confidence.HIGH if sure else Confidence.MEDIUM


def _workers(serving: Serving, occasion: Occasion, facts: Facts) -> Count | None:
    """In how many processes of one server the start is reached; None where that is not known, or in none."""
    known = facts.conclude(names)
    if serving.reload and occasion.when in ("import", "ready", "program"):
        done = [is_done(occasion.path, world, known) for world in (PARENT, CHILD)]
        return None if None in done or not any(done) else Count(sum(map(bool, done)))
    if is_done(occasion.path, PRODUCTION, known) is False:
        return None
    if occasion.when == "hook":
        hook = occasion.path[-1].function.rpartition(".")[2]
        return serving.workers if HOOKS[hook] else ONE
    if serving.preload and occasion.when in ("import", "ready"):
        return ONE
    return serving.workers
