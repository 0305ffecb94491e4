"""What the clocks of a zone do to cron triggers, as APScheduler 3 reckons, and how it counts the days of the week."""

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final

from cronce.errors import BadInput
from cronce.schedule import Cron
from cronce.schedule.zone import find_zone, shifts
from cronce_audit.folds import disputed, is_zone, season
from cronce_audit.model import Confidence, Facts, Found, Rule, Severity, rule
from cronce_audit.python.apscheduler.jobs import Job, jobs
from cronce_audit.python.apscheduler.library import CRON, FLASK_KINDS
from cronce_audit.python.apscheduler.schedulers import Scheduler, schedulers
from cronce_audit.python.apscheduler.triggers import expression, machine_zone, named_days, zone, zone_name
from cronce_audit.python.facts import Const, Unknown
from cronce_audit.python.names import names

_IN_FLASK: Final = 'say it in the config of the app: `SCHEDULER_TIMEZONE = "UTC"`'
_UTC_REMEDY: Final = (
    'let the scheduler count in UTC (`timezone="UTC"`), or choose an hour that no change of clocks touches'
)


@rule(
    "CR107",
    "runs-twice-when-the-clocks-go-back",
    Severity.WARNING,
    Confidence.HIGH,
    remedy=_UTC_REMEDY,
)
def _twice(facts: Facts) -> Iterator[Found]:
    for job, spelled, where in _in_zones(facts):
        found = disputed(spelled, where, facts.year)
        if found and (wall := found.twice):
            yield Found(
                job.place,
                f"{job.function} runs by the clocks of {where}: {season(wall)} they show {wall:%H:%M} twice, and "
                "APScheduler runs it both times",
            )


@rule(
    "CR108",
    "midnight-run-is-lost-after-the-clocks-go-forward",
    Severity.WARNING,
    Confidence.HIGH,
    remedy=_UTC_REMEDY.replace("an hour that no change of clocks touches", "one o'clock or later"),
)
def _lost(facts: Facts) -> Iterator[Found]:
    for job, spelled, where in _in_zones(facts):
        lost = lost_midnight(spelled, where, facts.year)
        if lost is not None:
            yield Found(
                job.place,
                f"{job.function} runs in the first hour of the day by the clocks of {where}: APScheduler 3 leaves out "
                f"a day {season(lost)}, because of the day before, which has 23 hours",
            )


def lost_midnight(spelled: str, where: str, year: int) -> date | None:
    """The first day of a year that APScheduler 3 leaves out. After a day (or month) in which the clocks went forward,
    it looks for the next run from one o'clock on, and whatever is due in the hour before is over. Where they go forward
    at one o'clock, a run at midnight of that very day has it look from the right hour."""
    _, hour, day, month, _ = spelled.split()
    if hour != "0" or day not in ("*", "1") or (day == "1" and month != "*"):
        return None
    start, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    for shift in shifts(find_zone(where), start, end):
        if shift.after - shift.before == timedelta(hours=1):
            before = (shift.low - timedelta(seconds=1)).date()
            following = _next_first(before) if day == "1" else before + timedelta(days=1)
            is_seen = shift.low.hour == 1 and _is_due_on(spelled, before)
            if _is_due_on(spelled, following) and not is_seen:
                return following
    return None


def _next_first(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)


def _is_due_on(spelled: str, day: date) -> bool:
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    try:
        due = Cron(spelled, "UTC").next(midnight - timedelta(seconds=1))
    except BadInput:
        return False
    return due is not None and due.date() == day


def _in_zones(facts: Facts) -> Iterator[tuple[Job, str, str]]:
    """Cron jobs of APScheduler 3 whose times and zone are known."""
    for job in facts.conclude(jobs):
        spelled = expression(job) if job.scheduler.version == 3 else None
        where = zone(job, facts) if spelled else None
        if spelled is not None and where is not None and is_zone(where):
            yield job, spelled, where


_DIGIT: Final = re.compile(r"(?<![/\w])[0-7](?!\w)")
_IDIOMS: Final = frozenset({"1-5", "0,6", "6,0", "6-7"})
"""Of days of work and weekends, as a crontab has them."""
_CRONTAB_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")


@rule(
    "CR109",
    "crontab-weekdays-are-shifted",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="name the days: `mon-fri` instead of `1-5`",
)
def _weekdays(facts: Facts) -> Iterator[Found]:
    known = facts.conclude(names)
    if any(scheduler.version == 4 for scheduler in facts.conclude(schedulers).all):
        return
    for call in known.calls("from_crontab"):
        first = call.called.args[0] if call.called.args else call.called.keyword("expr")
        text = known.constant(first, call.scope.module)
        fields = text.split() if isinstance(text, str) else []
        if len(fields) == 5 and _is_shifted(fields[4]) and known.target(call) == f"{CRON}.from_crontab":
            yield Found(call.place, _shifted(fields[4]))
    for job in facts.conclude(jobs):
        days = job.trigger_options.get("day_of_week") if job.trigger == "cron" else None
        field = days.value if isinstance(days, Const) else None
        if isinstance(field, str) and field.replace(" ", "") in _IDIOMS:
            yield Found(job.place, _shifted(field).replace("from_crontab", "APScheduler"), Confidence.MEDIUM)


def _is_shifted(field: str) -> bool:
    """Every day is every day, wherever one begins to count; and what neither reads is not told here."""
    return bool(_DIGIT.search(field)) and "#" not in field and field not in ("0-6", "1-7")


def _shifted(field: str) -> str:
    meant = _DIGIT.sub(lambda found: _CRONTAB_DAYS[int(found[0])], field)
    is_here = "an error" if "7" in _DIGIT.findall(field) else named_days(field)
    return f"from_crontab counts the days of the week from Monday, which is 0: `{field}` is {is_here}, not {meant}"


@rule(
    "CR110",
    "scheduler-without-a-zone",
    Severity.INFO,
    Confidence.HIGH,
    remedy='say it: `timezone="UTC"`',
)
def _no_zone(facts: Facts) -> Iterator[Found]:
    if facts.conclude(machine_zone) is not None:
        return
    added: dict[Scheduler, list[str]] = defaultdict(list)
    for job in facts.conclude(jobs):
        added[job.scheduler].append(job.trigger)
    for scheduler in facts.conclude(schedulers).all:
        by_clock = not added[scheduler] or any(kind not in ("interval", "date") for kind in added[scheduler])
        if scheduler.version == 3 and by_clock and scheduler.options.get("timezone") in (None, Const(None)):
            yield Found(
                scheduler.place,
                f"this {scheduler.kind} has no timezone: its cron jobs run by the clocks of whichever machine it is on",
                remedy=_IN_FLASK if scheduler.kind in FLASK_KINDS else None,
            )


@rule(
    "CR111",
    "trigger-without-the-schedulers-zone",
    Severity.INFO,
    Confidence.HIGH,
    remedy='give the trigger the timezone too, or pass "cron" and its fields to add_job',
)
def _own_zone(facts: Facts) -> Iterator[Found]:
    for job in facts.conclude(jobs):
        if job.scheduler.version == 3 and job.own_trigger and _misses_the_zone(job, facts):
            yield Found(
                job.place,
                f"the trigger of {job.function} is made by itself and has no timezone: it runs by the clocks of "
                f"the machine, not in the zone of its scheduler ({job.scheduler.place})",
            )


def _misses_the_zone(job: Job, facts: Facts) -> bool:
    """A zone for all is set, the trigger has none, and the machine is not known to have the same."""
    of_all = job.scheduler.options.get("timezone")
    if of_all in (None, Const(None)) or isinstance(of_all, Unknown) or job.trigger not in ("cron", "crontab"):
        return False
    here = facts.conclude(machine_zone)
    is_same = here is not None and here == zone_name(of_all, facts, job.scheduler.module)
    return job.trigger_options.get("timezone") in (None, Const(None)) and not is_same


RULES: tuple[Rule, ...] = (_twice, _lost, _weekdays, _no_zone, _own_zone)
