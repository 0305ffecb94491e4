"""Who starts a scheduler, how often: each start in the code, joined with the processes that reach it.

app/jobs.py:12  scheduler.start()     at import of app.jobs
Procfile:1      gunicorn -w 4 app:app  imports app, which imports app.jobs     → 4 copies
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from cronce_audit.guards import guards
from cronce_audit.model import Check, Confidence, Facts, Found, Severity, is_of_process, rule
from cronce_audit.processes.argv import ONE, Count
from cronce_audit.processes.commands import Serving, Started, runnings
from cronce_audit.processes.reach import Reach, reach
from cronce_audit.processes.servers import servings
from cronce_audit.processes.starts import HOOKS, Occasion, Start, is_job_loop, occasions, starts, store_of
from cronce_audit.processes.worlds import World, by_default, doubts, is_done, may_be_locked
from cronce_audit.python.jobs import Job, jobs
from cronce_audit.python.names import Names, names
from cronce_audit.python.schedulers import Scheduler


class Launch(NamedTuple):
    """A start, the occasion, and the process that brings it about; None where no process is seen."""

    start: Start
    occasion: Occasion
    by: Serving | Started | None
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


def _by_start(facts: Facts) -> dict[Start, list[Launch]]:
    found: dict[Start, list[Launch]] = defaultdict(list)
    for launch in facts.conclude(every_launch):
        found[launch.start].append(launch)
    return found


def every_launch(facts: Facts) -> Sequence[Launch]:
    """All that are seen; but none behind a lock of all machines, or behind cronce. What is behind a condition that is
    not understood has its doubts."""
    known = facts.conclude(occasions)
    return [
        launch
        for start in facts.conclude(starts)
        for occasion in known.of(start.scope)
        for launch in _launches_of(start, occasion, facts)
    ]


def is_claimed(launch: Launch, facts: Facts, *, far: bool) -> bool:
    """Whether every job that it starts takes a lock itself, which all of these processes respect, also those that are
    far, on other machines: then all may try. This is asked last, of what would be told."""
    known = facts.conclude(guards)
    functions = [job.full_name for job in facts.conclude(jobs) if job.scheduler == launch.start.scheduler]
    found = [known.get(name) if name else None for name in functions or [launch.start.scope.function]]
    return all(guard is not None and (guard.across_hosts or not far) for guard in found)


def _badness(launch: Launch) -> tuple[int, int, bool, int]:
    """What is known to be so counts more than what may be, but less than what is known to be right."""
    sure = 1 if launch.doubts else 2 if launch.total.is_several else 0
    return sure, launch.total.least, launch.by is not None, launch.confidence


def _launches_of(start: Start, occasion: Occasion, facts: Facts) -> Iterator[Launch]:
    known, named = facts.conclude(reach), facts.conclude(names)
    done = is_done(occasion.path, (), named) is not False
    served = False
    found: list[Launch] = []
    off = False
    for serving in facts.conclude(servings):
        sure = _reaches(serving, occasion, known)
        if sure is not None:
            served = True
            world = _world(serving)
            workers = _reaching(serving, occasion, facts, world)
            if workers is not None:
                one = ONE if occasion.alone else workers
                clear = _without(occasion, world, named)
                found.append(Launch(start, clear, serving, one, min(sure, _sureness(serving))))
            off = off or (workers is None and _is_deployed(serving))
    yield from (launch for launch in found if not off or _is_deployed(launch.by))
    for running in facts.conclude(runnings):
        if occasion.when in ("program", "import") and known.run(running) == occasion.module:
            world = _world(running)
            if is_done(occasion.path, world, named) is not False:
                yield Launch(start, _without(occasion, world, named), running, ONE, _sureness(running))
    if done and not served:
        yield Launch(start, occasion, None, ONE, Confidence.HIGH)


def _world(serving: Serving | Started) -> World:
    return serving.by.command.environment if serving.by else ()


def _without(occasion: Occasion, world: World, known: Names) -> Occasion:
    """Without the doubts that the environment of what deploys it dispels."""
    cleared = {*doubts(occasion.path, known)} - {*doubts(occasion.path, known, world)} if occasion.doubts else set()
    return occasion._replace(doubts=tuple(one for one in occasion.doubts if one not in cleared))


def _is_deployed(by: Serving | Started | None) -> bool:
    """By more than the image, which what deploys it may tell otherwise."""
    return by is not None and by.by is not None and by.by.command.origin != "dockerfile"


def _sureness(started: Serving | Started) -> Confidence:
    return started.by.confidence if started.by else Confidence.HIGH


def _reaches(serving: Serving, occasion: Occasion, known: Reach) -> Confidence | None:
    """How sure it is that the server's processes get there; None where they do not."""
    if occasion.when == "hook":
        return Confidence.HIGH if serving.config and serving.config == known.path(occasion.module) else None
    module = known.served(serving)
    if occasion.when == "program":
        return None
    if occasion.when == "ready":
        django = serving.server == "manage.py runserver" or known.imports(module, "django")
        return Confidence.HIGH if django else None
    sure = known.imported_from(module).get(occasion.module) if module else None
    return None if sure is None else Confidence.HIGH if sure else Confidence.MEDIUM


def _reaching(serving: Serving, occasion: Occasion, facts: Facts, world: World) -> Count | None:
    """In how many processes of one server the start is reached; None where that is not known, or in none."""
    known = facts.conclude(names)
    if is_done(occasion.path, world, known) is False:
        return None
    if occasion.when == "hook":
        hook = occasion.path[-1].function.rpartition(".")[2]
        return serving.workers if HOOKS[hook] else ONE
    if serving.preload and occasion.when in ("import", "ready"):
        return ONE
    return serving.workers


_ONE: Final = (
    "start the scheduler in a process of its own that exists once (`python scheduler.py`), and not in the web app; "
    "or let each run be claimed once, in whichever process it starts: `protect(scheduler, Cronce(…))` of "
    "cronce.integrations.apscheduler"
)


_WEB: Final = ("flask", "fastapi", "starlette", "quart", "sanic", "litestar", "django", "aiohttp", "tornado")


def _fittings(facts: Facts) -> Sequence[tuple[Launch, str]]:
    return [(launch, _fitting(launch, facts)) for launch in facts.conclude(launches)]


def _fitting(launch: Launch, facts: Facts) -> str:
    """The one rule that tells of a launch; "" where nothing is wrong."""
    several = launch.total.is_several
    alone = not _is_web(launch, facts) or _is_decided(launch) or _is_one(launch, facts)
    if launch.doubts:
        return "CR206" if launch.start.kind == "scheduler" and (several or not alone) else ""
    if launch.start.kind != "scheduler":
        named = is_job_loop(launch.start.scope.function) and not is_of_process("", launch.start.scope.function)
        seldom = launch.start.kind == "timer" or launch.start.every >= _SELDOM or named
        return "CR207" if several or (seldom and not alone) else ""
    if launch.per_process.is_several:
        return "CR201"
    if launch.by and launch.by.copies.is_several:
        return "CR202"
    return "CR206" if launch.occasion.when == "ready" or not alone else ""


def _is_one(launch: Launch, facts: Facts) -> bool:
    """What deploys the app starts one process of it: a service of compose or a unit of systemd. An
    image alone may be started anywhere; a Procfile's platform sets WEB_CONCURRENCY, and a cluster starts the next pod
    first. Not where a lock that all machines see says that a person expects more."""
    of_it = [each.by for each in facts.conclude(_by_start)[launch.start]]
    served = [by for by in of_it if isinstance(by, Serving) and not by.watches]
    alone = [(by, by.by.command.origin) for by in served if by.by and by.workers == ONE]
    if any(by.workers != ONE for by in served):
        return False
    told = any(origin not in ("dockerfile", "procfile", "kubernetes") and by.copies == ONE for by, origin in alone)
    expected = any(guard.across_hosts for guard in facts.conclude(guards).values())
    return any(by.decided for by, _ in alone) or (told and not expected)


_SELDOM: Final = 600
"""Seconds. A loop that sleeps for as long has work to do, and does not wait for something."""


def _is_web(launch: Launch, facts: Facts) -> bool:
    """Whether it is started inside an app of which servers start more processes, or in what others import."""
    occasion, known = launch.occasion, facts.conclude(reach)
    if occasion.when in ("program", "hook") and not isinstance(launch.by, Serving):
        return False
    if isinstance(launch.by, Serving) or occasion.when in ("start-up", "ready") or known.importers(occasion.module):
        return True
    return any(known.imports(scope.module, library) for scope in occasion.path for library in _WEB)


def _is_decided(launch: Launch) -> bool:
    """Somebody has seen to it that there is one: by `--workers 1`, in gunicorn's master, or by a lock."""
    serving = launch.by if isinstance(launch.by, Serving) else None
    occasion = launch.occasion
    if occasion.when == "hook" and not HOOKS[occasion.path[-1].function.rpartition(".")[2]]:
        return True
    early = occasion.when in ("import", "ready")
    if serving and serving.server == "uwsgi" and serving.preload and early:
        return False  # its thread is left in the master
    decided = serving is not None and serving.decided and serving.workers.exact
    return occasion.alone or decided or (serving is not None and serving.preload and early)


def _check_of(rule_id: str, message: Callable[[Launch, Facts], str]) -> Check:
    def check(facts: Facts) -> Iterator[Found]:
        for launch, fitting in facts.conclude(_fittings):
            far = launch.by is not None and launch.by.copies.is_several
            if fitting == rule_id and not is_claimed(launch, facts, far=far):
                sure = None if launch.confidence is Confidence.HIGH else launch.confidence
                in_ready = rule_id == "CR206" and launch.occasion.when == "ready" and not launch.doubts
                unclear = _unclear(launch, facts) if rule_id in ("CR201", "CR202") else ""
                mild = bool(unclear) or _is_mild(launch, rule_id, facts)
                yield Found(
                    launch.start.place,
                    message(launch, facts) + unclear,
                    Confidence.LOW if launch.doubts or unclear else sure,
                    Severity.INFO if mild else None,
                    _LOOK if launch.doubts else _COMMAND if in_ready else None,
                )

    return check


def _unclear(launch: Launch, facts: Facts) -> str:
    """What is missing in the evidence, as the end of a sentence; "" where the command that is deployed starts several
    processes of this very app, and nothing is seen that may keep any of them from starting the scheduler."""
    added = [job.full_name for job in facts.conclude(jobs) if job.scheduler == launch.start.scheduler]
    known = {*facts.conclude(may_be_locked), *facts.conclude(guards)}
    scheduler = launch.start.scheduler
    if scheduler is not None and not store_of(scheduler) and known.issuperset(added):
        return "; the files do not show which jobs, or what the lock in them is worth"
    if not launch.by or not launch.by.by or launch.by.by.command.origin == "script":
        return "; the files do not show who runs this command"
    if launch.confidence is not Confidence.HIGH:
        return "; the files do not show for certain that this app is the one that is deployed there"
    for gate in by_default(launch.occasion.path, _world(launch.by), facts.conclude(names)):
        return f", unless a setting makes `{gate}` false, which the files do not show"
    for one in facts.conclude(_by_start)[launch.start]:
        other = one.by if isinstance(one.by, Serving) and one.by.by and not one.by.watches else None
        origin = other.by.command.origin if other and other.by else ""
        if other and other.workers == ONE and other.by != launch.by.by and origin not in ("dockerfile", "script"):
            return f"; `{other.server}` ({other.place}) starts one, and the files do not show which of them is deployed"
    return ""


def _is_mild(launch: Launch, rule_id: str, facts: Facts) -> bool:
    """A loop may be about its process, and so may jobs by their names."""
    added = [job for job in facts.conclude(jobs) if job.scheduler == launch.start.scheduler]
    own = bool(added) and all(is_of_process(job.place.path, job.full_name or job.function) for job in added)
    alone = rule_id == "CR207" and not launch.total.is_several
    return launch.start.kind == "loop" or own or alone


_COMMAND: Final = (
    "start it in a management command of its own, in one process (`manage.py run_scheduler`); or see "
    "docs/how-to/django.md for jobs that run once however many processes there are"
)
_LOOK: Final = (
    "check whether the condition is true in at most one process, of all workers and machines; if so, write `#"
    " cronce: ignore[CR206] …`, or name the lock under `locks` in the config"
)


def _when(occasion: Occasion) -> str:
    if occasion.when == "start-up":
        return "when the app starts"
    if occasion.when == "ready":
        return "in AppConfig.ready()"
    if occasion.when == "hook":
        return f"in {occasion.path[-1].function.rpartition('.')[2]}"
    return f"when {occasion.module} is {'run' if occasion.when == 'program' else 'imported'}"


def _times(launch: Launch) -> str:
    if launch.total.exact:
        return f"{launch.total.least} times"
    return f"at least {launch.total.least} times" if launch.per_process.exact else "several times"


def _by(launch: Launch) -> str:
    """`each of the 4 gunicorn workers (Dockerfile:7), in each of the 2 copies of `web` (compose.yml:8)`."""
    return (
        ", in ".join(f"each of {'the ' * count.exact}{count} {of}" for count, of in _factors(launch)) or "each process"
    )


def _for_each_processor(serving: Serving) -> str:
    return f"{serving.counted} counts processors" if serving.counted else "one for each processor"


def _per_process(launch: Launch, _: Facts) -> str:
    start, store = launch.start, store_of(launch.start.scheduler)
    shared = f"; the job store that they share ({store.kind}, {store.place}) does not keep them apart" if store else ""
    return (
        f"{start.what} is started {_when(launch.occasion)}, in {_by(launch)}: every job runs {_times(launch)}{shared}"
    )


def _ready(launch: Launch) -> str:
    return (
        f"{launch.start.what} is started in AppConfig.ready(), which every worker and every manage.py command calls "
        f"(migrate, shell, a job of cron): while one of them is running, every job runs there too"
    )


def _in_app(launch: Launch, facts: Facts) -> str:
    start, known = launch.start, facts.conclude(reach)
    if launch.doubts:
        text, module = launch.doubts[0]
        where = known.path(module) or module
        many = f"{_by(launch)}, if" if launch.total.is_several else "each process for which"
        return (
            f"{start.what} is started {_when(launch.occasion)}, in {many} `{text}` ({where}): the files do not say in "
            "how many that holds, and each of them runs every job"
        )
    if launch.occasion.when == "ready":
        return _ready(launch)
    if isinstance(launch.by, Serving) and launch.by.server == "uwsgi" and launch.by.preload:
        return (
            f"{start.what} is started {_when(launch.occasion)}, and uWSGI ({launch.by.place}) imports the app before "
            "it forks: its thread is left in the master, where jobs may never run; with lazy-apps each worker runs them"
        )
    if isinstance(launch.by, Serving):
        return (
            f"{start.what} is started {_when(launch.occasion)}, inside the web app that {launch.by.server} serves "
            f"({launch.by.place}): {_today(launch)}; a second worker or replica runs every job once more"
        )
    importers = known.importers(launch.occasion.module)
    by = f", and {known.path(importers[0])} imports it" if importers and launch.occasion.when == "import" else ""
    others = f" and {len(importers) - 1} more" if by and len(importers) > 1 else ""
    told = f"{start.what} is started {_when(launch.occasion)}{by}{others}"
    return f"{told}: every process that does has a scheduler of its own"


def _today(launch: Launch) -> str:
    return "one process today" if launch.per_process.exact else "the files do not say how many workers there are"


def _looped(launch: Launch, _: Facts) -> str:
    if not launch.total.is_several:
        return (
            f"{launch.start.what} starts {_when(launch.occasion)}, in each process of the web app: {_today(launch)}; a "
            "second worker or replica does its work once more"
        )
    times = f"its work is done {_times(launch)} per interval"
    return f"{launch.start.what} starts {_when(launch.occasion)}, in {_by(launch)}: {times}"


def _factors(launch: Launch) -> Iterator[tuple[Count, str]]:
    """4 `gunicorn workers (Dockerfile:5)`, 3 `copies of `web` (compose.yaml:7)`: what the number is the product of, and
    the line that says each."""
    by = launch.by
    workers = by if isinstance(by, Serving) and launch.per_process.is_several else None
    if workers:
        counted = workers.counted if workers.workers.exact else _for_each_processor(workers)
        where = f"{workers.place}; {counted}" if counted else f"{workers.place}"
        yield workers.workers, f"{workers.server} workers ({where})"
    if by and by.by and by.copies.is_several:
        what = by.server if isinstance(by, Serving) else f"`{by.what}`"
        each = "" if workers else f", each with {what} ({by.place})"
        yield by.copies, f"copies of `{by.by.name}` ({by.by.copies_at}){each}"


rule("CR201 scheduler-in-every-worker", Severity.ERROR, _ONE)(_check_of("CR201", _per_process))
rule("CR202 scheduler-in-every-replica", Severity.ERROR, _ONE)(_check_of("CR202", _per_process))
rule(
    "CR206 scheduler-inside-the-app",
    Severity.INFO,
    'start it in a program of its own, below `if __name__ == "__main__":`, that exists once; or let each run be '
    "claimed: `protect(scheduler, Cronce(…))` of cronce.integrations.apscheduler",
)(_check_of("CR206", _in_app))
rule(
    "CR207 timer-in-every-worker",
    Severity.WARNING,
    "move it to a process of its own; or claim each run, so that one of them does it: `@cron.job(…)` of cronce",
)(_check_of("CR207", _looped))


@rule(
    "CR308 job-without-the-lock-of-the-others",
    Severity.INFO,
    "take the same lock around this job too, or say why one run more does no harm",
    confidence=Confidence.MEDIUM,
)
def _forgotten(facts: Facts) -> Iterator[Found]:
    known = facts.conclude(guards)
    by_scheduler: dict[Scheduler, list[Job]] = defaultdict(list)
    for job in facts.conclude(jobs):
        by_scheduler[job.scheduler].append(job)
    for added in by_scheduler.values():
        locked = [job for job in added if (guard := known.get(job.full_name)) and guard.across_hosts]
        for job in added if locked else ():
            if job.full_name and job.full_name not in known:
                yield Found(
                    job.place,
                    f"{job.function} takes no lock, and {locked[0].function} ({locked[0].place}) of the same"
                    " scheduler takes one that all machines see: where that lock is needed, this job runs twice",
                )
