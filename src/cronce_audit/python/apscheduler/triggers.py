"""What a cron trigger says, as a cron expression, and the zone it says it in."""

import re
from typing import Final

from cronce_audit.common import ZoneSet
from cronce_audit.folds import is_zone
from cronce_audit.model import Facts
from cronce_audit.python.apscheduler.jobs import Job
from cronce_audit.python.apscheduler.options import number
from cronce_audit.python.facts import Bound, Called, Const, Name, Value
from cronce_audit.python.names import names

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FIELDS: Final = ("month", "day", "day_of_week", "hour", "minute")
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
    given = {key: _text(value) for key, value in job.trigger_options.pairs if key in (*_FIELDS, "second")}
    beyond = any(job.trigger_options.get(key) is not None for key in ("year", "week", "start_date", "end_date"))
    if beyond or not given or "" in given.values() or not given.get("second", "0").isdigit():
        return None
    values = _filled_up(given)
    if values["day"] != "*" and values["day_of_week"] != "*":
        return None
    days = _crontab_days(values["day_of_week"])
    return " ".join((values["minute"], values["hour"], values["day"], values["month"], days))


def _filled_up(given: dict[str, str]) -> dict[str, str]:
    finest = max((*_FIELDS, "second").index(field) for field in given)
    least = {"month": "1", "day": "1", "day_of_week": "*", "hour": "0", "minute": "0"}
    return {
        field: given.get(field, "*" if position < finest else least[field]) for position, field in enumerate(_FIELDS)
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
