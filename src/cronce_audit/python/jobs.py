"""The jobs that are added to the schedulers of a tree: where, with which id, store, trigger and options."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from cronce_audit.clocks import is_zone
from cronce_audit.model import Facts, Place, ZoneSet
from cronce_audit.python.facts import UNKNOWN, Bound, Call, Called, Const, Function, Name, Scope, Value
from cronce_audit.python.names import Names, names, starts
from cronce_audit.python.schedulers import (
    ADD_JOB,
    FLASK_KINDS,
    REGISTER_JOB,
    TRIGGERS,
    Options,
    Scheduler,
    Store,
    number,
    schedulers,
)

_CRON_FIELDS = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")
_PARTS = ("weeks", "days", "hours", "minutes", "seconds")


class Job(NamedTuple):
    """A job that is added."""

    place: Place
    scope: Scope
    scheduler: Scheduler
    function: str
    """As it is called in messages."""
    full_name: str
    """Of the function, in the tree; "" if unknown."""
    options: Options
    replaces: Value | None
    """`replace_existing`, as given; a decorator always replaces."""
    trigger: str
    """"cron", "crontab", "interval", "date", or "" where it is unknown."""
    trigger_options: Options
    own_trigger: bool
    """The trigger was made by itself: the scheduler's zone does not reach it."""
    start: str
    """Why it is added at each start; "" if it is not."""

    @property
    def store(self) -> Store | None:
        alias = self.options.get("jobstore")
        match alias:
            case None:
                return self.scheduler.store("default")
            case Const(str(name)):
                return self.scheduler.store(name)
        return None

    def option(self, key: str) -> Value | None:
        """The job's own, or the scheduler's default; None where neither is set, UNKNOWN where that cannot be told."""
        own = self.options.get(key)
        return self.scheduler.defaults.get(key) if own is None else own


def jobs(facts: Facts) -> Sequence[Job]:
    """For `facts.conclude(jobs)`."""
    return list(_jobs(facts))


def _jobs(facts: Facts) -> Iterator[Job]:
    known, all_schedulers = facts.conclude(names), facts.conclude(schedulers)
    for call in known.calls("add_job", "scheduled_job", "task"):
        scheduler = all_schedulers.of(known.receiver(call))
        if scheduler is not None:
            yield _job(call, scheduler, facts)
    for call in known.calls("register_job"):
        if known.target(call) in REGISTER_JOB and call.called.args:
            scheduler = all_schedulers.of(known.origin(call.called.args[0], call.scope.module))
            if scheduler is not None:
                yield _job(_of_django(call), scheduler, facts)


def _of_django(call: Call) -> Call:
    """`@register_job(scheduler, "interval", ...)` is add_job of a function below, with its name as the id."""
    called = call.called
    named = called.keywords if called.splat or called.keyword("id") else (*called.keywords, ("id", Const("its name")))
    function = Name("django_apscheduler.add_job")
    return call._replace(called=replace(called, function=function, args=(UNKNOWN, *called.args[1:]), keywords=named))


def _job(call: Call, scheduler: Scheduler, facts: Facts) -> Job:
    known, near = facts.conclude(names), call.scope.module
    options = _options(call, scheduler, known)
    function = options.get("func")
    decorated = facts.conclude(_decorated).get(call.place)
    kind, fields, own = _trigger(options, known, near)
    return Job(
        call.place,
        call.scope,
        scheduler,
        _short(function if decorated is None else Name(decorated.name)),
        decorated.name if decorated else "" if function is None else known.full_name(function, near),
        options,
        Const(value=True) if call.method != "add_job" else options.get("replace_existing"),
        kind,
        fields,
        own,
        facts.conclude(starts).why(call.scope) or _beside_its_start(call, scheduler, facts),
    )


def _decorated(facts: Facts) -> Mapping[Place, Function]:
    """Functions by the places of the decorators that are called: `@scheduler.scheduled_job("cron", hour=3)`."""
    return {
        each.place: function
        for function in facts.of(Function)
        for each in function.decorators
        if isinstance(each, Called)
    }


def _beside_its_start(call: Call, scheduler: Scheduler, facts: Facts) -> str:
    """Whatever calls the function: it starts the scheduler too."""
    is_so = (call.scope.function, scheduler.place) in facts.conclude(_started)
    return "where the scheduler is started" if is_so else ""


def _started(facts: Facts) -> frozenset[tuple[str, Place]]:
    """Functions, and the schedulers they start."""
    known, all_schedulers = facts.conclude(names), facts.conclude(schedulers)
    each = ((call.scope.function, all_schedulers.of(known.receiver(call))) for call in known.calls("start"))
    return frozenset((function, scheduler.place) for function, scheduler in each if scheduler is not None)


def _options(call: Call, scheduler: Scheduler, known: Names) -> Options:
    """Its arguments by name."""
    called, near = call.called, call.scope.module
    pairs = [*zip(_parameters(call.method, scheduler), called.args, strict=False), *called.keywords]
    followed = tuple((key, value if key == "func" else known.origin(value, near)) for key, value in pairs)
    return Options(followed, called.splat)


def _parameters(method: str, scheduler: Scheduler) -> Sequence[str]:
    """Those that may be given by their position."""
    if method == "scheduled_job":
        return ADD_JOB[1:-1]
    if method == "task":
        return ("trigger", "id", "name")
    return ("id", "func", "trigger") if scheduler.kind in FLASK_KINDS else ADD_JOB


def _trigger(options: Options, known: Names, near: str) -> tuple[str, Options, bool]:
    given = options.get("trigger")
    match given:
        case None:
            return "date", Options(), False
        case Const(str(alias)):
            return alias if alias in TRIGGERS.values() else "", options, False
        case Called(function, args, keywords, splat):
            kind = TRIGGERS.get(known.full_name(function, near), "")
            names_of = {"cron": _CRON_FIELDS, "crontab": ("expr", "timezone"), "interval": _PARTS}.get(kind, ())
            pairs = [*zip(names_of, args, strict=False), *keywords]
            return kind, Options(tuple((key, known.origin(value, near)) for key, value in pairs), splat), True
    return "", Options((), open=True), False


def _short(function: Value | None) -> str:
    match function:
        case Name() as name if "<lambda" not in name.dotted:
            return f"`{name.last}`"
        case Const(str(text)):
            return f"`{text}`"
    return "a job"


DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_COARSE_TO_FINE: Final = ("month", "day", "day_of_week", "hour", "minute")
"""From coarse to fine. Those above the first that is given are `*`, those below the last are 0."""
_DAY_NUMBER: Final = re.compile(r"(?<![/\w])[0-6](?!\w)")
_DAY_NAME: Final = re.compile("|".join(DAYS))
_UTC: Final = frozenset({"pytz.utc", "pytz.UTC", "datetime.timezone.utc", "datetime.UTC", "dateutil.tz.UTC"})
_ZONES: Final = frozenset({
    "pytz.timezone", "zoneinfo.ZoneInfo", "backports.zoneinfo.ZoneInfo", "dateutil.tz.gettz", "dateutil.tz.tz.gettz",
    "pendulum.timezone",
})  # fmt: skip


def expression(job: Job) -> str | None:
    """`0 2 * * mon`; None where it is none, is not all seen, or says more than a cron expression can."""
    if job.trigger == "crontab":
        fields = _text(job.trigger_options.get("expr")).split()
        return " ".join([*fields[:4], _crontab_days(fields[4])]) if len(fields) == 5 else None
    if job.trigger != "cron" or job.trigger_options.open:
        return None
    given = {key: _text(value) for key, value in job.trigger_options.pairs if key in (*_COARSE_TO_FINE, "second")}
    beyond = any(job.trigger_options.get(key) is not None for key in ("year", "week", "start_date", "end_date"))
    if beyond or not given or "" in given.values() or not given.get("second", "0").isdigit():
        return None
    values = _filled_up(given)
    if values["day"] != "*" and values["day_of_week"] != "*":
        return None
    days = _crontab_days(values["day_of_week"])
    return " ".join((values["minute"], values["hour"], values["day"], values["month"], days))


def _filled_up(given: dict[str, str]) -> dict[str, str]:
    finest = max((*_COARSE_TO_FINE, "second").index(field) for field in given)
    least = {"month": "1", "day": "1", "day_of_week": "*", "hour": "0", "minute": "0"}
    return {
        field: given.get(field, "*" if position < finest else least[field])
        for position, field in enumerate(_COARSE_TO_FINE)
    }


def _text(value: Value | None) -> str:
    """Of a field; "" where it is not seen."""
    match value:
        case Const(bool() | None):
            return ""
        case Const(int(plain)):
            return str(plain)
        case Const(str(text)):
            return text.strip().lower()
    return ""


def named_days(field: str) -> str:
    """APScheduler counts the days of the week from Monday, which is 0."""
    return _DAY_NUMBER.sub(lambda found: DAYS[int(found[0])], field)


def _crontab_days(field: str) -> str:
    """As a crontab counts them, with Sunday at the end: a range may end there."""
    return _DAY_NAME.sub(lambda found: str(DAYS.index(found[0]) + 1), named_days(field))


def seconds_between(job: Job) -> float | None:
    """Of an interval."""
    if job.trigger != "interval" or job.trigger_options.open:
        return None
    units = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
    given = {unit: number(value) for unit, value in job.trigger_options.pairs if unit in units}
    known = [value * units[unit] for unit, value in given.items() if value is not None]
    return sum(known) if known and len(known) == len(given) else None


def zone(job: Job, facts: Facts) -> str | None:
    """The one in force for its trigger; None where that is not known. `timezone=None` is the machine's, too."""
    own = job.trigger_options.get("timezone")
    given = own if own is not None or job.own_trigger else job.scheduler.options.get("timezone")
    return facts.conclude(machine_zone) if given in (None, Const(None)) else zone_name(given, facts, job.scope.module)


def machine_zone(facts: Facts) -> str | None:
    """What Django sets for its process, or what the deployment says, if it says one thing only."""
    said = {each.zone for each in facts.of(ZoneSet)}
    return django_zone(facts) or (said.pop() if len(said) == 1 else None)


def django_zone(facts: Facts) -> str | None:
    """Django puts TIME_ZONE into the environment of its process, so that it is the local zone there."""
    known = facts.conclude(names)
    settings = [each for each in facts.of(Bound) if each.name.endswith(".TIME_ZONE") and not each.scope.function]
    values = {known.constant(each.value, each.scope.module) for each in settings}
    only = values.pop() if len(values) == 1 else None
    is_django = any(each.name.endswith(".INSTALLED_APPS") for each in facts.of(Bound))
    return only if is_django and isinstance(only, str) and is_zone(only) else None


def zone_name(value: Value, facts: Facts, near: str) -> str | None:
    match facts.conclude(names).origin(value, near):
        case Const(str(name)) if is_zone(name):
            return name
        case Called(Name(function), (first, *_)) if function in _ZONES:
            return zone_name(first, facts, near)
        case Name(dotted) if dotted in _UTC:
            return "UTC"
        case Name("django.conf.settings.TIME_ZONE"):
            return django_zone(facts)
    return None


def is_rare(job: Job) -> bool:
    """Whether a run that is left out is not made up for by the next within minutes."""
    spelled = expression(job)
    if spelled is not None:
        return spelled.split()[1] != "*"
    return (seconds_between(job) or 0) >= 3_600
