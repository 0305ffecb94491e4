"""What a job of APScheduler is to us: a name, terms, and slots."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from inspect import isclass, ismethod
from typing import Any, Final

from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import BaseCombiningTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from cronce.clock import SystemClock
from cronce.errors import BadInput, BadPolicy
from cronce.model import EPOCH, Instant, Slot, name_from
from cronce.policy import Fold, Gap
from cronce.protocol.terms import lease_for
from cronce.runtime.declare import MOST_TURNS, SOME_DAY, Declaration, declare
from cronce.runtime.log import LOGGER
from cronce.schedule import Every, Schedule, parse_schedule
from cronce.schedule.instant import RESOLUTION, SECOND, whole

THEIRS: Final = ("every", "at", "tz", "gap", "fold", "start", "end", "missed", "jitter", "start_within")
"""Policies that say when a job fires: here its trigger, coalesce and misfire_grace_time do."""

GRACE: Final = 10
"""Many a pause of a process or of a database is longer than fewer seconds than this."""

_MADE_UP: Final = re.compile(r"[0-9a-f]{32}")
"""An id that nobody gave: APScheduler makes another one in each process."""


def is_private(scheduler: Any, alias: str) -> bool:
    """Whether a job store is this process's own."""
    return type(scheduler._jobstores.get(alias)) is MemoryJobStore


def is_unnamed(job: Any) -> bool:
    return _MADE_UP.fullmatch(job.id) is not None


def is_errand(job: Any, *, private: bool) -> bool:
    """Something that this process asked of itself, once, as web applications do for what can wait. Nobody else knows of
    it: whoever wants a date to run once for all gives it an id, and an instant that others come to as well."""
    return private and isinstance(job.trigger, DateTrigger) and (is_unnamed(job) or is_read_off(job.trigger))


def name_of(job: Any, *, private: bool) -> str:
    """The job's name, the same in every process: its id. Without one, what it calls says which it is."""
    if not (private and is_unnamed(job)):
        return name_from(job.id)
    remedy = f"give {job.name} an id: add_job(…, id='{name_from(job.name)}')"
    if job.func_ref is None or (ismethod(job.func) and not isclass(job.func.__self__)):
        raise BadInput(f"nobody can tell in another process which job this is; {remedy}")
    try:
        given = json.dumps([list(job.args), dict(job.kwargs)], sort_keys=True)
    except TypeError:
        raise BadInput(f"nobody can tell in another process which job this is by its arguments; {remedy}") from None
    return name_from(f"{job.func_ref} {given}" if job.args or job.kwargs else job.func_ref)


def check_policies(policies: Mapping[str, Any]) -> None:
    for word in policies.keys() & set(THEIRS):
        raise BadPolicy(f"{word} is not for protect: APScheduler says when a job fires, by its trigger and its options")
    if declare("any", None, **policies).mode == "observe":
        raise BadPolicy(
            "protect puts slots into a scheduler's jobs, and they do not run as before; to only observe one, leave out"
            " protect and put @cron.observe('name') above its function"
        )


def declared(job: Any, policies: Mapping[str, Any]) -> Declaration | None:
    """The job, in our words; None for an errand. max_instances holds for all schedulers together. Where run times are
    not coalesced each waits for its turn; else one that finds another at work is skipped, as APScheduler does. A date
    has one slot, and nothing to overlap with."""
    private = is_private(job._scheduler, job._jobstore_alias)
    if is_errand(job, private=private):
        return None
    words: dict[str, Any] = {"overlap": "skip" if job.coalesce else "wait", "turns": job.max_instances}
    if isinstance(job.trigger, DateTrigger) or job.max_instances > MOST_TURNS:
        words = {"overlap": "allow"}
    words |= policies
    if words.get("lease") is None:
        words["lease"] = lease_for(words.get("on_lost") or "skip", shortest_gap(job.trigger))
    return declare(name_of(job, private=private), None, **words)


def slot_of(job: Any, name: str, run_time: datetime) -> Slot:
    return Slot(name, slot_instant(job.trigger, run_time))


# --- what somebody should know of a scheduler's settings, though they can be meant ------------------------------------


def report(scheduler: Any) -> list[str]:
    """What in the scheduler's settings may run a slot twice or not at all, a line each; protected or not."""
    jobs = [(job, alias) for job, alias, _ in scheduler._pending_jobs]
    if scheduler.running:
        jobs = [(job, job._jobstore_alias) for job in scheduler.get_jobs()]
    return [*of_scheduler(scheduler), *(remark for job, alias in jobs for remark in remarks(scheduler, job, alias))]


def of_scheduler(scheduler: Any) -> Iterator[str]:
    """What is to be said of all of its jobs at once."""
    if remark := _of_grace(scheduler._job_defaults["misfire_grace_time"]):
        yield f"job_defaults: {remark}"
    for alias, store in scheduler._jobstores.items():
        engine = getattr(store, "engine", None)
        if engine is not None and engine.url.get_backend_name() == "sqlite":
            yield f"the job store {alias!r} is an SQLite file: it can be shared on one machine only"


def of_names(names: Iterable[str], ids: Iterable[str]) -> Iterator[str]:
    """What is to be said of policies for jobs that there are not."""
    for name in sorted(names):
        close = get_close_matches(name, ids, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else "these policies hold for none, until one is added"
        yield f"jobs= names {name!r:.60}, which is the id of no job here; {remedy}"


def remarks(scheduler: Any, job: Any, alias: str) -> Iterator[str]:
    """What is to be said of one job."""
    yield from _of_id(job, private=is_private(scheduler, alias) or alias not in scheduler._jobstores)
    yield from _of_times(job)
    for other in sorted(_places(scheduler, job.id) - {alias}):
        yield f"{job.id}: it is in the job stores {alias!r} and {other!r}, and one job in both; give one another id"
    usual = scheduler._job_defaults["misfire_grace_time"]
    grace = getattr(job, "misfire_grace_time", usual)
    if grace != usual and (remark := _of_grace(grace)):
        yield f"{job.id}: {remark}"


def _places(scheduler: Any, job_id: str) -> set[str]:
    """The job stores that have a job of this id."""
    if not scheduler.running:
        return {alias for job, alias, _ in scheduler._pending_jobs if job.id == job_id}
    stores = scheduler._jobstores.items()
    return {alias for alias, store in stores if store.lookup_job(job_id)} if len(stores) > 1 else set()


def _of_grace(grace: int | None) -> str:
    if grace is None or grace >= GRACE:
        return ""
    return (
        f"misfire_grace_time={grace} passes over a slot for which every scheduler is more than {grace} s late, as after"
        " a short pause of a database; 60 is better"
    )


def _of_id(job: Any, *, private: bool) -> Iterator[str]:
    if not is_unnamed(job):
        if is_errand(job, private=private):
            yield f"{job.id}: its date was read off a clock: it runs in each process that adds it, once for each time"
    elif not private:
        yield (
            f"{job.name} has no id: each start of a program adds it to the job store once more; add it with an id and"
            " replace_existing=True"
        )
    elif is_errand(job, private=True):
        yield f"{job.name} has no id, and a date: it runs in each process that adds it; an id makes it one job"
    else:
        name = name_of(job, private=True)
        yield f"{job.name} has no id, and goes by {name}: by another name of the function it is another job"


def _of_times(job: Any) -> Iterator[str]:
    trigger, first = job.trigger, getattr(job, "next_run_time", None)
    if getattr(trigger, "jitter", None):
        yield f"{job.id}: each process draws its own jitter, and has slots of its own by that; protect leaves it out"
    if isinstance(trigger, CalendarIntervalTrigger) and trigger.start_date == SystemClock().wall().astimezone().date():
        yield f"{job.id}: it counts from today, and tomorrow's processes count from tomorrow; give it a start_date"
    if first is not None and first.microsecond and not isinstance(trigger, DateTrigger | IntervalTrigger):
        yield f"{job.id}: next_run_time was read off a clock, and each process has a first run of its own"


# --- triggers that say the same in every process ----------------------------------------------------------------------

# Triggers that say the same in every process.

LOOKED_AT = 5
"""How many run times of a trigger tell how close they are."""


class CronceTrigger(BaseTrigger):  # type: ignore[misc]
    """A schedule of cronce as a trigger, with its rules for when clocks change: `CronceTrigger("30 1 * * *", tz=…)`."""

    def __init__(self, schedule: str, tz: str = "UTC", gap: Gap = "run", fold: Fold = "first") -> None:
        self.__setstate__((schedule, tz, gap, fold))

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        return self._schedule.next(previous_fire_time or now - RESOLUTION)

    def __getstate__(self) -> tuple[str, str, Gap, Fold]:
        return self._words

    def __setstate__(self, words: tuple[str, str, Gap, Fold]) -> None:
        self._words = words
        self._schedule: Schedule = parse_schedule(*words)

    def __str__(self) -> str:
        return f"cronce[{self._schedule.text}]"


def agreed(trigger: Any) -> Any:
    """The trigger, made to give the same run times in every process; refused if it cannot."""
    if isinstance(trigger, BaseCombiningTrigger):
        if any(isinstance(one, IntervalTrigger) for one in trigger.triggers):
            raise BadInput(
                f"{trigger}: an interval that is combined with other triggers counts from whatever fired last, which is"
                " something else in each process; make it a job of its own, or write it as a cron trigger"
            )
        for one in trigger.triggers:
            agreed(one)
    if isinstance(trigger, IntervalTrigger):
        _on_grid(trigger)
    return unjittered(trigger)


def unjittered(trigger: Any) -> Any:
    """The trigger without its lottery."""
    for one in getattr(trigger, "triggers", ()):
        unjittered(one)
    if getattr(trigger, "jitter", None):
        LOGGER.warning(
            "%s: its jitter of %ss is left out, as each process would draw another and run at a time of its own",
            trigger,
            trigger.jitter,
        )
        trigger.jitter = None
    return trigger


def _on_grid(trigger: Any) -> None:
    """A start on a whole second was given, and is the same everywhere. Any other was read off a clock."""
    span: timedelta = trigger.interval
    if span % SECOND:
        raise BadInput(f"{trigger}: slots are whole seconds, so an interval is one of whole seconds too")
    if trigger.start_date.microsecond:
        first = Every(span).next(trigger.start_date - span)
        assert first is not None
        trigger.start_date = first.astimezone(trigger.timezone)


def is_read_off(trigger: DateTrigger) -> bool:
    """Whether a date is a reading of this machine's clock, as "now" and "in five minutes" are."""
    return bool(trigger.run_date.microsecond)


def rounded_up(trigger: Any) -> None:
    """Let a date that was read off a clock wait for the next whole second. Of two in one second the later would be
    taken for a repeat of the first; like this the first has not fired by then, and is replaced."""
    if isinstance(trigger, DateTrigger) and is_read_off(trigger):
        trigger.run_date = whole(trigger.run_date + SECOND).astimezone(trigger.run_date.tzinfo)


def slot_instant(trigger: Any, run_time: datetime) -> Instant:
    """Which instant a run time is for. One between two instants of a grid is for the first of them: somebody said "now"
    for a start, or the job was made before its scheduler was protected."""
    if not isinstance(trigger, IntervalTrigger):
        return whole(run_time)
    start = trigger.start_date
    origin = EPOCH if start.microsecond else whole(start)
    return whole(origin + (run_time - origin) // trigger.interval * trigger.interval)


def shortest_gap(trigger: Any) -> timedelta | None:
    """How close its run times are, as seen from one day for all processes; None if there is only one."""
    if isinstance(trigger, DateTrigger):
        return None
    if isinstance(trigger, IntervalTrigger):
        return timedelta(seconds=trigger.interval_length)
    gaps: list[timedelta] = []
    before = trigger.get_next_fire_time(None, SOME_DAY)
    while before is not None and len(gaps) < LOOKED_AT:
        after = trigger.get_next_fire_time(before, before)
        gaps += [whole(after) - whole(before)] if after else []
        before = after
    return min(gaps, default=None)
