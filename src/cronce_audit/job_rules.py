"""Rules about one job in one process, in any language: it depends on the machine's time zone, its runs overlap, it only
sends a message, or a restart forgets it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from cronce_audit import java
from cronce_audit.containers.schedules import SleepingHost
from cronce_audit.guards import guards
from cronce_audit.javascript.code import Job as JavaScriptJob
from cronce_audit.javascript.code import Volatile
from cronce_audit.javascript.rules import living
from cronce_audit.locks import excludes_no_other, told
from cronce_audit.model import Confidence, Facts, Found, Place, Severity, is_of_process, rule
from cronce_audit.other_languages import joined
from cronce_audit.processes.rules import launches
from cronce_audit.processes.units import commands
from cronce_audit.python.facts import Bound, Call, Called, Const, Member, Name, Value, last
from cronce_audit.python.jobs import expression, jobs, machine_zone, seconds_between
from cronce_audit.python.names import Names, names

_NAMED_TIMES: Final = re.compile(
    r"@(?:daily|midnight|weekly|monthly|yearly|annually)|\w*_AT_\w+|EVERY_(?:WEEK|WEEKDAY|WEEKEND|QUARTER|YEAR)"
)
"""Names for times of day, including those of Nest's CronExpression."""
_OFTEN: Final = re.compile(r"EVERY_(?:\d+_)?SECONDS?|EVERY_MINUTE|EVERY_5_MINUTES")
_FREQUENT: Final = 300
"""Seconds. With a longer interval a run has nearly always ended before the next."""


def hour_of(pattern: str | None) -> bool:
    """Whether a cron expression of five or six fields, or its name, fixes an hour of the day."""
    if pattern is None or " " not in pattern.strip():
        return bool(pattern and _NAMED_TIMES.fullmatch(pattern))
    fields = pattern.split()
    return len(fields) in (5, 6) and fields[-4][:1].isdigit()


def is_frequent(pattern: str | None) -> bool:
    """Whether it runs every five minutes or more often."""
    fields = (pattern or "").split()
    if len(fields) not in (5, 6):
        return bool(_OFTEN.fullmatch(pattern or ""))
    step = re.fullmatch(r"\*(?:/(\d+))?", fields[-5])
    often = step is not None and int(step[1] or 1) * 60 <= _FREQUENT
    return often or (len(fields) == 6 and fields[0].startswith("*"))


class _Timed(NamedTuple):
    place: Place
    what: str
    by: str
    """The library that uses the machine's time zone: `node-cron`."""


@rule(
    "CR320 hour-of-the-machine",
    Severity.INFO,
    'name the zone beside the time: `{ timezone: \'Etc/UTC\' }`, `zone = "UTC"`, `.at("10:30", "UTC")`; or set TZ '
    "where the program is started",
    confidence=Confidence.MEDIUM,
)
def _local(facts: Facts) -> Iterator[Found]:
    if facts.conclude(machine_zone) is not None:
        return
    for place, what, by in (*_of_others(facts), *_of_python(facts)):
        yield Found(
            place,
            f"{what} is due at an hour of the machine's local time, because {by} is given no time zone: another"
            " machine, or a container in UTC, runs it at another time, and when clocks change, an hour comes"
            " twice or not at all",
        )


def _coded(facts: Facts) -> Sequence[JavaScriptJob | java.Scheduled]:
    """The jobs in JavaScript and Java."""
    return [*facts.conclude(living), *facts.of(java.Scheduled)]


def _of_others(facts: Facts) -> Iterator[_Timed]:
    for job in _coded(facts):
        if hour_of(job.pattern) and not job.has_zone and not is_of_process(job.place.path, job.what):
            yield _Timed(job.place, job.what, job.library)
    for trigger in facts.of(java.QuartzTrigger):
        yield _Timed(trigger.place, "what this trigger of Quartz starts", "`cronSchedule(…)`")


def _of_python(facts: Facts) -> Iterator[_Timed]:
    known = facts.conclude(names)
    for call in _first_of_each(known.calls("at")):
        if len(call.called.args) == 1 and not call.called.keywords:
            yield _Timed(call.place, "this job of `schedule`", "it")
    zoned = {
        bound.scope.module
        for bound in facts.of(Bound)
        if bound.name.endswith(".timezone") and bound.value != Name("datetime.timezone")
    }
    for call in known.calls("cron"):
        by_hour = call.called.keyword("hour") is not None and call.scope.module not in zoned
        if by_hour and known.target(call).startswith("arq."):
            zoned.add(call.scope.module)
            yield _Timed(call.place, "this cron job of arq, as all others of its worker,", "`WorkerSettings`")
    sleeping = {call.scope.function for call in known.calls("sleep") if call.scope.loop}
    planned = {
        call.scope.function
        for call in known.calls("replace")
        if isinstance(call.called.keyword("hour"), Const) and call.called.keyword("tzinfo") is None
    }
    for call in known.calls("now", "today"):
        function = call.scope.function
        if function in sleeping & planned and function not in zoned and _is_naive(call):
            zoned.add(function)
            yield _Timed(call.place, f"the loop in `{function.rpartition('.')[2]}`", "`datetime.now()`")


def _is_naive(call: Call) -> bool:
    full = call.called.function
    bare = not call.called.args and not call.called.keywords
    return bare and isinstance(full, Name) and full.dotted.startswith("datetime.")


def _first_of_each(calls: Iterable[Call]) -> Iterable[Call]:
    """Of the calls of `schedule`, the first in each function: what is true of one is true of the others."""
    found: dict[tuple[str, str], Call] = {}
    for call in calls:
        if _is_of_schedule(call.called):
            found.setdefault((call.place.path, call.scope.function), call)
    return found.values()


def _is_of_schedule(value: Value) -> bool:
    """Whether a chain of calls begins with `schedule.every`, as in `schedule.every().day.at(…)`."""
    while isinstance(value, Called | Member):
        value = value.function if isinstance(value, Called) else value.of
        if value == Name("schedule.every"):
            return True
    return False


@rule(
    "CR321 next-run-does-not-wait",
    Severity.INFO,
    "let the next run wait or be skipped: `noOverlap: true` (node-cron), `waitForCompletion: true` (cron, Nest), "
    "`protect: true` (croner), a flag around the body; without `@Async` Spring waits by itself",
    confidence=Confidence.MEDIUM,
)
def _joined(facts: Facts) -> Iterator[Found]:
    for job in facts.conclude(living):
        often = job.every <= _FREQUENT * 1000 if job.every is not None else is_frequent(job.pattern)
        if often and job.overlaps and not job.is_locked and not is_of_process(job.place.path, job.what):
            yield Found(
                job.place,
                f"{job.what} starts again while the last run still waits for something: {job.library} does not"
                " check that, and two runs at once do the same work twice",
            )
    for one in facts.of(java.Scheduled):
        if one.overlaps and not one.lock and not one.is_guarded:
            yield Found(
                one.place,
                f"{one.what} is `@Async`: each run has its own thread, and the next one starts while the last is"
                " still running",
            )
    yield from joined(facts)


_HANDLERS: Final = frozenset({
    "route", "get", "post", "put", "patch", "delete", "api_view", "action", "api_route", "message", "callback_query",
    "message_handler", "callback_query_handler", "command", "on_message", "websocket",
})  # fmt: skip
_LONG_INTERVAL: Final = 12 * 3600
"""Seconds. With one deploy a day such an interval restarts before it is over."""


@rule(
    "CR323 plan-that-dies-with-the-process",
    Severity.INFO,
    "store what is due, in a table or a job store that outlives the process, and read it at each start; for a"
    " long interval name a time of day instead",
    confidence=Confidence.MEDIUM,
)
def _forgotten(facts: Facts) -> Iterator[Found]:
    for place, what in (*_asked_for(facts), *((one.place, f"this job of {one.library}") for one in facts.of(Volatile))):
        yield Found(
            place,
            f"{what} is planned by a request, in the memory of the process: after a restart or deploy it is"
            " forgotten, and never runs",
        )
    for place, what, every in _counted_anew(facts):
        yield Found(
            place,
            f"{what} is due every {every / 3600:g} h, counted from the start of the process, and nothing remembers the "
            "last run: where the process is started more often than that, it never runs",
        )
    for place, what, pattern in _of_months(facts):
        yield Found(
            place,
            f"{what} is due once a month (`{pattern}`), and only a process that is up in that minute runs it: after a"
            " restart or deploy then, nothing makes up for it until the next month",
            remedy="store which months are done, and look at each start; or give it to what remembers: cronce, a"
            " systemd timer with `Persistent=true`, a CronJob",
        )
    yield from _asleep(facts)
    yield from _shell_loops(facts)


def _asleep(facts: Facts) -> Iterator[Found]:
    """Hosts that stop an app between requests, where something in it runs by itself."""
    inside = [(job.place, job.what) for job in _coded(facts) if not is_of_process(job.place.path, job.what)]
    inside += [
        (each.start.place, each.start.what) for each in facts.conclude(launches) if each.occasion.when != "program"
    ]
    for host in facts.of(SleepingHost):
        first = next(((place, what) for place, what in inside if f"/{place.path}".startswith(f"/{host.folder}")), None)
        if first is not None:
            yield Found(
                host.place,
                f"{host.name} stops this app while no request comes in, and {first[1]} ({first[0]}) runs only inside"
                " it: what is due meanwhile is left out",
                remedy="keep one instance up (`min_machines_running = 1`, `--min-instances=1`, a plan that does not"
                " sleep), or let a scheduler of the host start the job",
            )


_SHELL_LOOP: Final = re.compile(
    r"\bwhile\s+(?:true|:|\[\s*(?:1|true)\s*\])\s*;?\s*do\b(?P<body>.*?)\bsleep\s+\"?(?P<span>\d+)(?P<unit>[smhd]?)",
    re.S,
)
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def _shell_loops(facts: Facts) -> Iterator[Found]:
    """`while true; do php artisan schedule:run; sleep 60; done` as the command of a container."""
    for command in facts.conclude(commands):
        found = _SHELL_LOOP.search(" ".join(command.words)) if "while" in " ".join(command.words[:3]) else None
        span = int(found["span"]) * _UNITS[found["unit"]] if found else 0
        if found and "schedule:run" in found["body"]:
            yield Found(
                command.place,
                f"a run of the scheduler, then {span} s of sleep: each round takes longer than that, and now and then a"
                " minute is left out, with what is due in it",
                remedy="let `schedule:work`, cron or supercronic start it each minute",
            )
        elif span >= _LONG_INTERVAL:
            yield Found(
                command.place,
                f"the loop of `{command.unit}` sleeps {span / 3600:g} h, counted from the start of the container: where"
                " it is started more often than that, the work is done at each start, or never",
            )


def _asked_for(facts: Facts) -> Iterator[tuple[Place, str]]:
    """Jobs that a request or message adds to a scheduler in memory, and that are not added at the start."""
    known = facts.conclude(names)
    for job in facts.conclude(jobs):
        store = job.store
        if store and not store.is_persistent and not job.start and _is_asked(job.scope.function, known):
            yield job.place, job.function
    for call in _first_of_each(known.calls("do")):
        if _is_asked(call.scope.function, known):
            yield call.place, "this job of `schedule`"


def _is_asked(name: str, known: Names) -> bool:
    """Whether a function, or a caller of it, handles a request or a message."""
    waiting, seen = [name] if name else [], {name}
    for one in waiting:
        function = known.function(one)
        if function is not None and any(map(_answers, function.decorators)):
            return True
        callers = known.callers(function) if function and len(seen) < _MOST_CALLERS else []
        fresh = {call.scope.function for call in callers} - seen - {""}
        seen |= fresh
        waiting += sorted(fresh)
    return False


_MOST_CALLERS: Final = 20
"""Callers that are followed."""


def _answers(decorator: Value) -> bool:
    return last(decorator.function if isinstance(decorator, Called) else decorator) in _HANDLERS


def _of_months(facts: Facts) -> Iterator[tuple[Place, str, str]]:
    """Jobs on a day of the month that only the memory of a process knows."""
    found = [(one.place, one.what, one.pattern or "") for one in facts.conclude(living)]
    found += [
        (job.place, job.function, expression(job) or "")
        for job in facts.conclude(jobs)
        if job.store and not job.store.is_persistent and job.option("misfire_grace_time") is None
    ]
    for place, what, pattern in found:
        fields = pattern.split()
        if len(fields) in (5, 6) and fields[-3].isdigit() and fields[-4].isdigit():
            yield place, what, pattern


def _counted_anew(facts: Facts) -> Iterator[tuple[Place, str, float]]:
    for job in facts.conclude(jobs):
        store, every = job.store, seconds_between(job) or 0
        planned = job.trigger_options.get("start_date") or job.options.get("next_run_time")
        if every >= _LONG_INTERVAL and store and not store.is_persistent and planned is None:
            yield job.place, job.function, every
    for one in facts.conclude(living):
        if one.every is not None and one.every >= _LONG_INTERVAL * 1000:
            yield one.place, one.what, one.every / 1000


@rule(
    "CR307 lock-released-when-the-job-ends",
    Severity.INFO,
    "claim the slot, not the moment: `@cron.job(…)` of cronce; or keep the lock, under a key that names the "
    "slot, for longer than clocks differ and the others are late",
)
def _let_go(facts: Facts) -> Iterator[Found]:
    """Measured: two schedulers, a Redis lock around a short job, five slots: ten runs."""
    yield from (each for each in told(facts, "end with the run") if _JOB_PATHS.search(each.place.path))
    yield from _let_go_in_java(facts)
    several = {launch.start.scheduler for launch in facts.conclude(launches) if launch.total.is_several}
    for job in facts.conclude(jobs):
        guard = facts.conclude(guards).get(job.full_name) if job.full_name else None
        if guard is not None and not guard.keeps and (guard.across_hosts or job.scheduler in several):
            yield Found(
                job.place,
                f"{job.function} runs under a lock ({guard.kind}, {guard.place}) that is released when it ends: it "
                "keeps two runs apart, but does not make a slot run once; a process that starts after a short run"
                " repeats it",
            )


_JOB_PATHS: Final = re.compile(r"(?i)cron|job|sched|task|worker")
"""Files whose locks are about jobs."""


def _let_go_in_java(facts: Facts) -> Iterator[Found]:
    if any(one.what == "locks" and one.has_least for one in facts.of(java.Enabled)):
        return
    for job in facts.of(java.Scheduled):
        if job.lock and not job.lock.has_least:
            again = (
                "an instance whose clock is behind by more than that takes it again, and runs the same slot"
                if job.pattern is not None
                else "each instance counts its intervals from its own start, and runs it once in each of them"
            )
            yield Found(
                job.lock.place,
                f"the lock of {job.what} is released when the method returns: {again}",
                Confidence.MEDIUM,
                remedy="give `lockAtLeastFor` more than the clocks of the instances may differ by, and less than the"
                ' interval: `lockAtLeastFor = "30s"`',
            )


@rule(
    "CR309 lock-that-excludes-no-other",
    Severity.WARNING,
    "take it in one command that fails if it is there (`SET key value NX EX seconds`, `cache.add(…)`), on a server that"
    " all processes share; or `cron.lock(name)` of cronce",
    confidence=Confidence.MEDIUM,
)
def _excludes(facts: Facts) -> Iterator[Found]:
    yield from excludes_no_other(facts)
