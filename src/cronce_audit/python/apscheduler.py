"""What a restart does to jobs in a store that outlives the process: a copy more, an error, or runs that are lost."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from cronce_audit.clocks import disputed, is_zone, season
from cronce_audit.guards import guards
from cronce_audit.model import Confidence, Facts, Found, Place, Severity, rule
from cronce_audit.python.facts import Call, Called, Const, Function, Member, Name, Unknown, Value, last
from cronce_audit.python.jobs import Job, expression, is_rare, jobs, machine_zone, named_days, zone, zone_name
from cronce_audit.python.names import Names, names
from cronce_audit.python.schedulers import CRON, FLASK_KINDS, Options, Scheduler, Store, is_false, number, schedulers

_LOOKS: Final = ("get_job", "get_jobs", "lookup_job", "remove_job", "remove_all_jobs", "get_schedule", "get_schedules")
"""Whoever asks for the jobs that are there, or removes them, has thought of the restart."""
_CATCHES: Final = ("ConflictingIdError", "Exception", "BaseException")
_RANDOM: Final = frozenset({"uuid.uuid1", "uuid.uuid4", "secrets.token_hex", "secrets.token_urlsafe", "time.time"})


@rule(
    "CR101 a-copy-of-the-job-per-start",
    Severity.ERROR,
    'give it a name of its own and let it replace itself: `id="...", replace_existing=True`; '
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


@rule("CR102 job-id-is-taken-at-the-next-start", Severity.ERROR, "add `replace_existing=True`")
def _conflicts(facts: Facts) -> Iterator[Found]:
    for job, store in _added_at_start(facts):
        if _has_id(job, facts.conclude(names)) and job.replaces in _NOT_REPLACED:
            yield Found(
                job.place,
                f"{job.function} is added to a job store that survives a restart ({store.kind}, {store.place}) "
                f"{job.start}, with an id and without replace_existing: the second start fails with "
                "ConflictingIdError, and the job keeps its old schedule",
            )


@rule(
    "CR105 a-second-late-is-lost",
    Severity.INFO,
    'set how late a run may be: `job_defaults={"misfire_grace_time": 60, "coalesce": True}`; None means however late',
)
def _lost(facts: Facts) -> Iterator[Found]:
    dropped: dict[Scheduler, list[Job]] = defaultdict(list)
    for job in filter(_is_dropped_when_late, facts.conclude(jobs)):
        dropped[job.scheduler].append(job)
    for scheduler in facts.conclude(schedulers).all:
        stray = [key for key, _ in scheduler.options.pairs if key in _OF_JOBS]
        if stray and scheduler.kind not in FLASK_KINDS:
            yield Found(
                scheduler.place,
                f"{' and '.join(stray)} given to the scheduler itself are ignored: its jobs have the defaults, one"
                " second of grace among them",
                remedy='put them into the job defaults: `job_defaults={"misfire_grace_time": 60, "coalesce": True}`',
            )
            continue
        late = dropped[scheduler]
        if late:
            yield Found(
                scheduler.place,
                f"misfire_grace_time is left at its default of one second: a run of {_several(late)} that starts later "
                "than that, because all threads are busy or the event loop is blocked, is dropped",
            )


_OF_JOBS: Final = ("misfire_grace_time", "coalesce", "max_instances")
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


def _is_dropped_when_late(job: Job) -> bool:
    """What comes again soon by an interval is made up for, unless the store remembers what was missed."""
    left = job.option("misfire_grace_time") is None
    return left and is_rare(job) and (_is_kept(job) or job.trigger != "interval")


def _is_kept(job: Job) -> bool:
    return job.store is not None and job.store.is_persistent


def _several(late: list[Job]) -> str:
    return f"{late[0].function} ({late[0].place})" + (f" and {len(late) - 1} more" if len(late) > 1 else "")


_JOINED: Final = "when a run takes longer than its interval, the next one starts beside it"


@rule(
    "CR103 missed-runs-come-in-a-burst",
    Severity.INFO,
    "leave coalesce at True: one run makes up for all that were missed",
)
def _burst(facts: Facts) -> Iterator[Found]:
    for scheduler in facts.conclude(schedulers).all:
        if is_false(scheduler.defaults.get("coalesce")) and _is_in_force("coalesce", scheduler, facts):
            yield Found(scheduler.place, f"the job defaults say coalesce=False: {_IN_A_ROW}")
    for job in facts.conclude(jobs):
        if is_false(job.options.get("coalesce")) and job.trigger != "date":
            yield Found(job.place, f"{job.function} is added with coalesce=False: {_IN_A_ROW}")


def _is_in_force(key: str, scheduler: Scheduler, facts: Facts) -> bool:
    """A default that all jobs which are seen set otherwise is none."""
    of_it = [job for job in facts.conclude(jobs) if job.scheduler == scheduler]
    return not of_it or any(job.options.get(key) is None for job in of_it)


_IN_A_ROW: Final = (
    "late runs, such as all that an outage missed where the store remembers them, start right after each other, not as"
    " one run"
)


@rule(
    "CR104 runs-of-one-job-may-overlap",
    Severity.INFO,
    "leave max_instances at 1, or make the job safe to run beside itself",
)
def _overlap(facts: Facts) -> Iterator[Found]:
    guarded = facts.conclude(guards)
    for scheduler in facts.conclude(schedulers).all:
        several = _instances(scheduler.defaults)
        if several and _is_in_force("max_instances", scheduler, facts):
            said = f"the job defaults say max_instances={several:g}: {_JOINED}"
            yield Found(scheduler.place, said)
    for job in facts.conclude(jobs):
        several = _instances(job.options)
        if several and job.trigger != "date" and job.full_name not in guarded:
            said = f"{job.function} is added with max_instances={several:g}: {_JOINED}"
            yield Found(job.place, said)


def _instances(options: Options) -> float:
    """0 where it is one at a time, or not said."""
    given = number(options.get("max_instances"))
    return given if given is not None and given > 1 else 0


_THREADED: Final = frozenset({"BackgroundScheduler", "BlockingScheduler", "APScheduler"})


@rule(
    "CR113 coroutine-that-is-never-awaited",
    Severity.ERROR,
    "use AsyncIOScheduler inside the running loop, or let the job call `asyncio.run(…)`",
)
def _never_awaited(facts: Facts) -> Iterator[Found]:
    """A thread pool calls the function, gets a coroutine, and drops it."""
    known = facts.conclude(names)
    for job in facts.conclude(jobs):
        function = known.function(job.full_name) if job.full_name else None
        plain = function is not None and function.is_async and not function.yields and _is_bare(job, function)
        own = job.scheduler.options.below("executors") if job.scheduler.options.get("executors") else None
        if plain and job.scheduler.kind in _THREADED and own is None and job.options.get("executor") is None:
            yield Found(
                job.place,
                f"{job.function} is `async`, and {job.scheduler.kind} calls it in a thread: what it returns is never "
                "awaited, so the job does nothing, and says so only in a RuntimeWarning",
            )


def _is_bare(job: Job, function: Function) -> bool:
    """No decorator but the scheduler's own is on it: another may make it an ordinary function."""
    return all(isinstance(one, Called) and one.place == job.place for one in function.decorators)


_NETWORK: Final = ("/mnt/", "/nfs", "/net/", "/efs", "//", "\\\\", "/shared/")


@rule(
    "CR106 sqlite-job-store",
    Severity.INFO,
    "keep the file on a local disk that outlives a deployment and is not part of an image, or use PostgreSQL or Redis",
)
def _sqlite(facts: Facts) -> Iterator[Found]:
    for scheduler in facts.conclude(schedulers).all:
        for _, store in scheduler.stores:
            driver, _, path = store.url.partition("://") if store is not None else ("", "", "")
            path = path.rpartition("@")[2].partition("?")[0].removeprefix("/")  # a cipher's password is no part of it
            if store is None or not driver.startswith("sqlite") or not path or path == ":memory:":
                continue
            if path.startswith(_NETWORK):
                message = f"the job store is an SQLite file on a network file system, by its path ({path}): "
                message += "its locks do not hold there"
                yield Found(store.place, message, confidence=Confidence.MEDIUM, severity=Severity.WARNING)
            else:
                message = f"the job store is an SQLite file ({path}): a copy of the directory, or a second "
                message += "container from the image, has a second store with the same jobs"
                yield Found(store.place, message)


_IN_FLASK: Final = 'say it in the config of the app: `SCHEDULER_TIMEZONE = "UTC"`'
_UTC_REMEDY: Final = (
    'let the scheduler count in UTC (`timezone="UTC"`), or choose an hour that no change of clocks touches'
)


@rule("CR107 runs-twice-when-the-clocks-go-back", Severity.INFO, _UTC_REMEDY)
def _twice(facts: Facts) -> Iterator[Found]:
    for job, spelled, where in _in_zones(facts):
        found = disputed(spelled, where, facts.year)
        if found and (wall := found.twice):
            yield Found(
                job.place,
                f"{job.function} runs in the local time of {where}: {season(wall)} the clocks show {wall:%H:%M}"
                " twice, and APScheduler runs it both times",
            )


def _in_zones(facts: Facts) -> Iterator[tuple[Job, str, str]]:
    """Cron jobs whose times and zone are known."""
    for job in facts.conclude(jobs):
        spelled = expression(job)
        where = zone(job, facts) if spelled else None
        if spelled is not None and where is not None and is_zone(where):
            yield job, spelled, where


_DIGIT: Final = re.compile(r"(?<![/\w])[0-7](?!\w)")
_IDIOMS: Final = frozenset({"1-5", "0,6", "6,0", "6-7"})
"""Of days of work and weekends, as a crontab has them."""
_CRONTAB_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")


@rule("CR109 crontab-weekdays-are-shifted", Severity.WARNING, "name the days: `mon-fri` instead of `1-5`")
def _weekdays(facts: Facts) -> Iterator[Found]:
    known = facts.conclude(names)
    if next(known.calls("add_schedule"), None):
        return  # version 4 counts as a crontab does
    for call in known.calls("from_crontab"):
        first = call.called.args[0] if call.called.args else call.called.keyword("expr")
        text = known.constant(first, call.scope.module)
        fields = text.split() if isinstance(text, str) else []
        if known.target(call) != f"{CRON}.from_crontab":
            continue
        if len(fields) == 5 and _is_shifted(fields[4]):
            yield Found(call.place, _shifted(fields[4]))
        elif not isinstance(text, str):
            yield Found(call.place, _TYPED, Confidence.MEDIUM, Severity.INFO)
    for job in facts.conclude(jobs):
        days = job.trigger_options.get("day_of_week") if job.trigger == "cron" else None
        field = days.value if isinstance(days, Const) else None
        if isinstance(field, str) and field.replace(" ", "") in _IDIOMS:
            yield Found(job.place, _shifted(field).replace("from_crontab", "APScheduler"), Confidence.MEDIUM)
    splitting = {call.scope.function for call in known.calls("split")}
    for call in known.calls("CronTrigger", "add_job", "reschedule_job"):
        given = [call.called.keyword(name) for name in ("minute", "hour", "day", "month", "day_of_week")]
        if call.scope.function in splitting and all(isinstance(one, Name) for one in given):
            yield Found(call.place, _TYPED, Confidence.MEDIUM, Severity.INFO)


_TYPED: Final = (
    "this setting counts the days of the week from Monday, which is 0: a `1` as in a crontab means Tuesday, and"
    " `1-5` is Tuesday to Saturday"
)


def _is_shifted(field: str) -> bool:
    """Every day is every day, wherever one begins to count; and what neither reads is not told here."""
    return bool(_DIGIT.search(field)) and "#" not in field and field not in ("0-6", "1-7")


def _shifted(field: str) -> str:
    meant = _DIGIT.sub(lambda found: _CRONTAB_DAYS[int(found[0])], field)
    is_here = "an error" if "7" in _DIGIT.findall(field) else named_days(field)
    return f"from_crontab counts the days of the week from Monday, which is 0: `{field}` is {is_here}, not {meant}"


@rule("CR110 scheduler-without-a-zone", Severity.INFO, 'say it: `timezone="UTC"`')
def _no_zone(facts: Facts) -> Iterator[Found]:
    if facts.conclude(machine_zone) is not None:
        return
    added: dict[Scheduler, list[str]] = defaultdict(list)
    for job in facts.conclude(jobs):
        added[job.scheduler].append(job.trigger)
    for scheduler in facts.conclude(schedulers).all:
        by_clock = not added[scheduler] or any(kind not in ("interval", "date") for kind in added[scheduler])
        if by_clock and scheduler.options.get("timezone") in (None, Const(None)):
            yield Found(
                scheduler.place,
                (
                    f"this {scheduler.kind} has no timezone: its cron jobs run in the local time of the machine"
                    " that it is on"
                ),
                remedy=_IN_FLASK if scheduler.kind in FLASK_KINDS else None,
            )


@rule(
    "CR111 trigger-without-the-schedulers-zone",
    Severity.INFO,
    'give the trigger the timezone too, or pass "cron" and its fields to add_job',
)
def _own_zone(facts: Facts) -> Iterator[Found]:
    for job in facts.conclude(jobs):
        if not job.own_trigger or not _goes_by_clock(job):
            continue
        of_all = job.scheduler.options.get("timezone")
        spelled = of_all not in (None, Const(None)) and not (isinstance(of_all, Unknown) and job.scheduler.options.open)
        if of_all is not None and spelled and _misses_the_zone(of_all, job, facts):
            yield Found(
                _trigger_place(job),
                f"the trigger of {job.function} is made by itself and has no timezone: it runs in the local time"
                f" of the machine, not in the zone of its scheduler ({job.scheduler.place})",
            )
        elif not spelled and facts.conclude(machine_zone) is None:
            yield Found(
                _trigger_place(job),
                f"the trigger of {job.function} has no timezone: its hour is in the local time of the machine,"
                " even if the scheduler has a timezone",
            )


def _trigger_place(job: Job) -> Place:
    made = job.options.get("trigger")
    return made.place if isinstance(made, Called) else job.place


def _goes_by_clock(job: Job) -> bool:
    """A cron trigger of its own without a zone, about an hour of the day: spelled out, or from a setting."""
    told = job.trigger_options
    if told.open or told.get("timezone") not in (None, Const(None)):
        return False
    spelled = expression(job)
    if spelled is not None:
        return spelled.split()[1] != "*"
    hour = told.get({"cron": "hour", "crontab": "expr"}.get(job.trigger, ""))
    return hour is not None and hour != Const("*")


def _misses_the_zone(of_all: Value, job: Job, facts: Facts) -> bool:
    """The machine is not known to have the zone that is set for all."""
    here = facts.conclude(machine_zone)
    local = isinstance(of_all, Called) and last(of_all.function) == "get_localzone"
    return not local and (here is None or here != zone_name(of_all, facts, job.scheduler.module))
