"""APScheduler 3: any number of schedulers, on any job stores, run each slot of a job once. `protect(scheduler, cron)`.

THEORY OF OPERATION

*A slot* is a job's id and the run time that its trigger gave, so all schedulers need the same run times. Cron and date
triggers give them. An interval counts from the moment at which its process made it, and jitter is random: intervals are
moved to the epoch grid, and jitter is removed.

*The claim comes before the job store is written.* A scheduler hands a run time to its executor, then writes the next
one, and from then on no other scheduler of that job store sees the first. A process that died before its claim would
lose the slot without a record. So slots of a shared job store are claimed when its due jobs are read, all in one round
trip. If our store does not answer, that read fails as if the job store had not answered: it is repeated later, and no
run time is passed over. A memory job store is not shared, and its scheduler may run on an event loop: there the claim
is made where the job function runs.

*A scheduler survives.* An error of the job store in the middle of a round ends APScheduler's loop for good: a database
that restarts, or a date job that another scheduler removed first. Here the loop goes on, and what it then fires a
second time is refused.

*What other processes left*, a run whose process died, a failure with attempts left, a run requested by hand, is looked
for on a thread of our own, and handed to the scheduler's.

Each object of APScheduler is changed as little as possible, and a job only in its trigger, which stays one of
APScheduler's: a scheduler without cronce still reads it from a shared job store.
"""

import json
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import partial
from inspect import isclass, ismethod
from math import inf
from types import MappingProxyType
from typing import Any, Final, Unpack

from cronce.clock import SystemClock
from cronce.errors import BadInput, BadPolicy, StoreError, StoreUnavailable
from cronce.integrations.deliveries import check_is
from cronce.model import EPOCH, Boot, Instant, Slot, name_from, slot_of_cell
from cronce.policy import Fold, Gap
from cronce.protocol.commands import Queue, Skip, Unsure
from cronce.protocol.notices import ForeignJob
from cronce.protocol.terms import lease_for
from cronce.runtime.app import Cronce
from cronce.runtime.attempt import Work
from cronce.runtime.call import Call
from cronce.runtime.declare import MOST_TURNS, SOME_DAY, Declaration, Policies, When, declare
from cronce.runtime.guard import guarded, module_name
from cronce.runtime.keeper import Lease, RepeatingThread
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.log import LOGGER
from cronce.runtime.process_notes import SIGN_EVERY, UnwrittenRefusals, announce_scheduler
from cronce.runtime.run import Skipped
from cronce.runtime.steps import Steps, WaitStep
from cronce.schedule import Every, Schedule, parse_schedule
from cronce.schedule.instant import RESOLUTION, SECOND, whole

try:
    from apscheduler.executors.base import BaseExecutor, MaxInstancesReachedError
    from apscheduler.executors.pool import ProcessPoolExecutor
    from apscheduler.jobstores.base import JobLookupError
    from apscheduler.jobstores.memory import MemoryJobStore
    from apscheduler.schedulers.base import STATE_RUNNING, BaseScheduler
    from apscheduler.triggers.base import BaseTrigger
    from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
    from apscheduler.triggers.combining import BaseCombiningTrigger
    from apscheduler.triggers.date import DateTrigger
    from apscheduler.triggers.interval import IntervalTrigger
except ImportError as missing:
    raise BadInput("cronce.integrations.apscheduler needs APScheduler: pip install 'cronce[apscheduler]'") from missing

__all__ = ["CronceTrigger", "GuardedExecutor", "protect", "report"]

# Shared job stores hold triggers that were pickled when the class was in a module of its own. APScheduler deletes a job
# that it cannot restore, so that path stays known.
sys.modules[f"{__name__}.triggers"] = sys.modules[__name__]

# --- what a job of APScheduler is to us: a name, terms, and slots -----------------------------------------------------

TRIGGER_POLICIES: Final = ("every", "at", "tz", "gap", "fold", "start", "end", "missed", "jitter", "start_within")
"""Policies about when a job fires: here its trigger, coalesce and misfire_grace_time decide that."""

LATE_GRACE: Final = 10
"""Seconds. Pauses of a process or a database are often longer than a shorter grace."""

_MADE_UP: Final = re.compile(r"[0-9a-f]{32}")
"""An id that APScheduler made up: it is another one in each process."""


def is_private(scheduler: Any, alias: str) -> bool:
    """Whether a job store is this process's own."""
    return type(scheduler._jobstores.get(alias)) is MemoryJobStore


def is_unnamed(job: Any) -> bool:
    return _MADE_UP.fullmatch(job.id) is not None


def is_own_task(job: Any, *, private: bool) -> bool:
    """A date job that this process made for itself, as web applications do for work in the background. A date that is
    to run once for all processes has an id, and an instant that does not come from a clock."""
    return private and isinstance(job.trigger, DateTrigger) and (is_unnamed(job) or is_from_clock(job.trigger))


def name_of(job: Any, *, private: bool) -> str:
    """The job's name, the same in every process: its id, or else its function and arguments."""
    if not (private and is_unnamed(job)):
        return name_from(job.id)
    remedy = f"give {job.name} an id: add_job(…, id='{name_from(job.name)}')"
    own_module, _, function = (job.func_ref or "").partition(":")
    module = module_name(own_module)
    if not module or (ismethod(job.func) and not isclass(job.func.__self__)):
        raise BadInput(f"another process cannot tell which job this is; {remedy}")
    try:
        given = json.dumps([list(job.args), dict(job.kwargs)], sort_keys=True)
    except TypeError:
        raise BadInput(f"another process cannot tell from its arguments which job this is; {remedy}") from None
    return name_from(f"{module}:{function}{f' {given}' if job.args or job.kwargs else ''}")


def check_policies(policies: Mapping[str, Any]) -> None:
    for word in policies.keys() & set(TRIGGER_POLICIES):
        raise BadPolicy(
            f"{word} cannot be used with protect: APScheduler decides when a job runs, by its trigger and its options"
        )
    if declare("any", None, **policies).mode == "observe":
        raise BadPolicy(
            "mode='observe' does not work with protect, which changes how jobs run; to only observe a job, leave"
            " out protect and put @cron.observe('name') above its function"
        )


def declared(job: Any, policies: Mapping[str, Any]) -> Declaration | None:
    """The job as a declaration of ours; None for a task of this process alone. max_instances is the limit of all
    schedulers together. Where run times are not coalesced each waits for its turn; else one that finds another running
    is skipped, as by APScheduler. A date has one slot, and nothing to overlap with."""
    private = is_private(job._scheduler, job._jobstore_alias)
    if is_own_task(job, private=private):
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


# --- warnings about a scheduler's settings ----------------------------------------------------------------------------


def report(scheduler: Any) -> list[str]:
    """Settings of the scheduler by which a slot may run twice or not at all, a line each; protected or not."""
    jobs = [(job, alias) for job, alias, _ in scheduler._pending_jobs]
    if scheduler.running:
        jobs = [(job, job._jobstore_alias) for job in scheduler.get_jobs()]
    return [
        *scheduler_warnings(scheduler),
        *(warning for job, alias in jobs for warning in job_warnings(scheduler, job, alias)),
    ]


def scheduler_warnings(scheduler: Any) -> Iterator[str]:
    """Warnings about the scheduler itself."""
    if warning := _grace_warning(scheduler._job_defaults["misfire_grace_time"]):
        yield f"job_defaults: {warning}"
    for alias, store in scheduler._jobstores.items():
        engine = getattr(store, "engine", None)
        if engine is not None and engine.url.get_backend_name() == "sqlite":
            yield f"the job store {alias!r} is an SQLite file: it can be shared on one machine only"


def unknown_job_warnings(names: Iterable[str], ids: Iterable[str]) -> Iterator[str]:
    """Warnings about policies of jobs that do not exist."""
    for name in sorted(names):
        close = get_close_matches(name, ids, n=1)
        remedy = "these policies apply to no job until one with that id is added"
        if close:
            remedy = f"did you mean {close[0]!r}?"
        yield f"jobs= names {name!r:.60}, but no job here has that id; {remedy}"


def job_warnings(scheduler: Any, job: Any, alias: str) -> Iterator[str]:
    """Warnings about one job."""
    yield from _id_warnings(job, private=is_private(scheduler, alias) or alias not in scheduler._jobstores)
    yield from _time_warnings(job)
    for other in sorted(_places(scheduler, job.id) - {alias}):
        yield (
            f"{job.id}: the job stores {alias!r} and {other!r} both have a job with this id, and cronce takes them"
            " for one job; give one of them another id"
        )
    usual = scheduler._job_defaults["misfire_grace_time"]
    grace = getattr(job, "misfire_grace_time", usual)
    if grace != usual and (warning := _grace_warning(grace)):
        yield f"{job.id}: {warning}"


def _places(scheduler: Any, job_id: str) -> set[str]:
    """The job stores that have a job of this id."""
    if not scheduler.running:
        return {alias for job, alias, _ in scheduler._pending_jobs if job.id == job_id}
    stores = scheduler._jobstores.items()
    return {alias for alias, store in stores if store.lookup_job(job_id)} if len(stores) > 1 else set()


def _grace_warning(grace: int | None) -> str:
    if grace is None or grace >= LATE_GRACE:
        return ""
    return (
        f"with misfire_grace_time={grace}, APScheduler skips a slot for which every scheduler is more than {grace}"
        " s late, such as after a short pause of a database; use 60"
    )


def _id_warnings(job: Any, *, private: bool) -> Iterator[str]:
    if not is_unnamed(job):
        if is_own_task(job, private=private):
            yield (
                f"{job.id}: its date comes from the current time, so it runs in each process that adds it,"
                " once for each date"
            )
    elif not private:
        yield (
            f"{job.name} has no id: each start of a program adds it to the job store once more; add it with an id and"
            " replace_existing=True"
        )
    elif is_own_task(job, private=True):
        yield f"{job.name} has a date and no id: it runs in each process that adds it; with an id it is one job"
    else:
        name = name_of(job, private=True)
        yield (
            f"{job.name} has no id, so cronce names it {name}, by its module and function: a process in which either"
            " has another name runs it too; give it an id"
        )


def _time_warnings(job: Any) -> Iterator[str]:
    trigger, first = job.trigger, getattr(job, "next_run_time", None)
    if getattr(trigger, "jitter", None):
        yield (
            f"{job.id}: each process would choose its own jitter, and so have its own slots; protect ignores the jitter"
        )
    if isinstance(trigger, CalendarIntervalTrigger) and trigger.start_date == SystemClock().wall().astimezone().date():
        yield f"{job.id}: its days are counted from the day on which the process starts; give it a start_date"
    if first is not None and first.microsecond and not isinstance(trigger, DateTrigger | IntervalTrigger):
        yield f"{job.id}: next_run_time comes from the current time, so each process has its own first run"


# --- triggers that say the same in every process ----------------------------------------------------------------------

RUN_TIMES_COMPARED = 5
"""How many run times of a trigger are compared for their shortest gap."""


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


def same_everywhere(trigger: Any) -> Any:
    """The trigger, made to give the same run times in every process; refused if it cannot."""
    if isinstance(trigger, BaseCombiningTrigger):
        if any(isinstance(one, IntervalTrigger) for one in trigger.triggers):
            raise BadInput(
                f"{trigger}: an interval that is combined with other triggers counts from what ran last, which"
                " differs between processes; make it a job of its own, or write it as a cron trigger"
            )
        for one in trigger.triggers:
            same_everywhere(one)
    if isinstance(trigger, IntervalTrigger):
        _on_grid(trigger)
    return without_jitter(trigger)


def without_jitter(trigger: Any) -> Any:
    """The trigger without its jitter."""
    for one in getattr(trigger, "triggers", ()):
        without_jitter(one)
    if getattr(trigger, "jitter", None):
        LOGGER.warning(
            "%s: its jitter of %ss is ignored, because each process would choose another and run at its own time",
            trigger,
            trigger.jitter,
        )
        trigger.jitter = None
    return trigger


def _on_grid(trigger: Any) -> None:
    """A start on a whole second was written by a person, and is the same everywhere. Any other was read from a
    clock."""
    span: timedelta = trigger.interval
    if span % SECOND:
        raise BadInput(f"{trigger}: slots are whole seconds, so an interval must be in whole seconds, too")
    if trigger.start_date.microsecond:
        first = Every(span).next(trigger.start_date - span)
        assert first is not None
        trigger.start_date = first.astimezone(trigger.timezone)


def is_from_clock(trigger: DateTrigger) -> bool:
    """Whether a date was read from this machine's clock, as "now" and "in five minutes" are."""
    return bool(trigger.run_date.microsecond)


def round_up(trigger: Any) -> None:
    """Move a date that was read from a clock to the next whole second. Of two in one second the later would count as a
    repeat of the first; like this the first has not fired by then, and is replaced."""
    if isinstance(trigger, DateTrigger) and is_from_clock(trigger):
        trigger.run_date = whole(trigger.run_date + SECOND).astimezone(trigger.run_date.tzinfo)


def slot_instant(trigger: Any, run_time: datetime) -> Instant:
    """The instant of a run time's slot. One between two instants of a grid belongs to the first: its start was "now",
    or the job was made before its scheduler was protected."""
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
    while before is not None and len(gaps) < RUN_TIMES_COMPARED:
        after = trigger.get_next_fire_time(before, before)
        gaps += [whole(after) - whole(before)] if after else []
        before = after
    return min(gaps, default=None)


# --- any executor of APScheduler, with a guard before each body -------------------------------------------------------

OUTAGE_TIMEOUT: Final = 60.0
"""Seconds for which a run without a misfire_grace_time waits for a store that does not answer."""

OUTAGE_RETRY: Final = 0.25
"""Seconds until a store that did not answer is asked again; for a job store twice as long each time. APScheduler's own
pause is ten seconds, after which most jobs would be too late."""


class Guards:
    """The guards of one scheduler's jobs, and the slots that were claimed ahead for them. Their leases are renewed
    while they wait for a thread."""

    def __init__(self, cron: Cronce, policies: Policies, single: Mapping[str, Policies]) -> None:
        """`single` has other policies for single jobs, by their ids."""
        check_is(cron, Cronce, "protect(scheduler, Cronce(url))")
        self._policies, self.single = policies, {name: {**policies, **of_one} for name, of_one in single.items()}
        for words in (policies, *self.single.values()):
            check_policies(words)
        self.cron, self.notebook = cron, UnwrittenRefusals()
        self._ahead: dict[Slot, Lease] = {}

    def declaration(self, job: Any) -> Declaration | None:
        """The job as a declaration of ours, with its policies; None for a task of this process alone."""
        return declared(job, self.single.get(job.id, self._policies))

    def claim(self, due: Iterable[tuple[Any, Sequence[datetime]]]) -> None:
        """Claim what is due, in one round trip, or raise. What is not granted is claimed again where the job function
        would run, and can be waited for there."""
        wanted: list[Wanted] = []
        for job, run_times in due:
            if ours := self.declaration(job):
                slots = [slot_of(job, ours.name, run_time) for run_time in run_times]
                wanted += [Wanted(slot, ours.terms(slot, inferred=False)) for slot in slots]
        if not wanted:
            return
        keeper = self.cron.at_work()
        answers = keeper.node.do(keeper.node.ledger.claim(wanted))
        for want, answer in zip(wanted, answers, strict=True):
            if isinstance(answer, Grant):
                self._ahead[want.slot] = lease = Lease(answer, keeper.node.clock, lambda _over: None)
                keeper.keep(lease)
        for answer in answers:
            if isinstance(answer, Unsure) and answer.passing:
                raise StoreUnavailable(answer.why)

    def pass_over(self, passed: Iterable[tuple[Any, Sequence[datetime]]]) -> None:
        """Put on record the run times that APScheduler passes over, where no process has run them."""
        slots: dict[Slot, Queue | Skip] = {}
        for job, run_times in passed:
            if run_times and (ours := self.declaration(job)):
                why = f"coalesce={job.coalesce}, misfire_grace_time={job.misfire_grace_time}"
                for run_time in run_times:
                    slot = slot_of(job, ours.name, run_time)
                    slots[slot] = Skip(f"APScheduler passed it over: {why}", first=slot.at)
        if slots:
            keeper = self.cron.at_work()
            keeper.node.do(keeper.node.ledger.put(slots))

    def taken(self, slots: Iterable[Slot]) -> dict[Slot, Lease]:
        """The leases that were claimed ahead for some slots, to be handed to an executor with them."""
        return {slot: self._ahead.pop(slot) for slot in slots if slot in self._ahead}

    def give_back(self, leases: Mapping[Slot, Lease] | None = None) -> None:
        """Release what was claimed and not handed over: the round was cut short, or no executor took it."""
        if leases is None:
            leases, self._ahead = self._ahead, {}
        if leases:
            keeper = self.cron.at_work()
            for lease in leases.values():
                keeper.drop(lease)
            with suppress(StoreError):
                keeper.node.do(keeper.node.ledger.release([lease.grant for lease in leases.values()]))


class GuardedExecutor(BaseExecutor):  # type: ignore[misc]
    """An executor whose jobs run once for each of their run times: `GuardedExecutor(cron, ThreadPoolExecutor(20))`.

    For a scheduler of one's own making; `protect` puts it around all executors of one that is there.
    """

    def __init__(self, cron: Cronce, executor: Any, **policies: Unpack[Policies]) -> None:
        super().__init__()
        if isinstance(executor, ProcessPoolExecutor):
            raise BadInput(
                "a job function in APScheduler's process pool cannot have a lease; run the job in a thread pool,"
                " and guard its function with @cron.job(…, isolate=True) if it needs a process"
            )
        self.executor, self.guards = executor, Guards(cron, policies, {})
        self.ending = False
        self.log = executor._logger
        executor._run_job_success = partial(_without_losers, executor._run_job_success)
        if executor._scheduler is not None:
            self._quiet_log()

    def start(self, scheduler: Any, alias: str) -> None:
        self.ending = False
        self.executor.start(scheduler, alias)
        self._quiet_log()

    def shutdown(self, wait: bool = True) -> None:
        self.ending = True
        self.executor.shutdown(wait)

    def submit_job(self, job: Any, run_times: Sequence[datetime]) -> None:
        ours = self.guards.declaration(job)
        if ours is None:
            self.executor.submit_job(job, run_times)
            return
        slots = {run_time: slot_of(job, ours.name, run_time) for run_time in run_times}
        leases = self.guards.taken(slots.values())
        try:
            self._submit(FiredJob(self, ours, job, slots, dict(leases)))
        except BaseException:
            self.guards.give_back(leases)
            raise

    def submit_older(self, job: Any, slot: Slot) -> None:
        """A slot that another process began, or that was requested by hand: it is never too late."""
        ours = self.guards.declaration(job)
        assert ours is not None
        self._submit(FiredJob(self, ours, job, {slot.at: slot}, {}, is_older=True))

    def _submit(self, fired_job: "FiredJob") -> None:
        self.executor.submit_job(fired_job, fired_job.run_times())

    def _do_submit_job(self, job: Any, run_times: Sequence[datetime]) -> None:
        self.executor._do_submit_job(job, run_times)

    def _quiet_log(self) -> None:
        """APScheduler logs that a job runs, and that it was executed, around the call. For a slot that another process
        has that is not true: it is logged here instead, for those that run."""
        self.log = self.executor._logger
        self.executor._logger = self.log.getChild("cronce")
        self.executor._logger.setLevel(logging.WARNING)
        self.executor._logger.addFilter(_in_one_line)


def _without_losers(told: Callable[[str, list[Any]], None], job_id: str, events: list[Any]) -> None:
    """No event for a slot that was refused: nothing happened."""
    told(job_id, [event for event in events if not isinstance(getattr(event, "retval", None), Skipped)])


def _in_one_line(record: logging.LogRecord) -> bool:
    """For a run that did not begin because the store did not answer, a traceback is of no use."""
    error = record.exc_info[1] if record.exc_info else None
    match record.args:
        case (FiredJob(began=False) as fired_job,) if isinstance(error, StoreError):
            record.msg, record.args, record.exc_info = 'Job "%s" was not run: %s', (fired_job, error), None
    return True


class FiredJob:
    """A job as the executor sees it, for some run times: its function is guarded, and is called for the slot of the
    latest run time that `run_times` gave."""

    def __init__(
        self,
        executor: GuardedExecutor,
        ours: Declaration,
        job: Any,
        slots: Mapping[datetime, Slot],
        leases: dict[Slot, Lease],
        *,
        is_older: bool = False,
    ) -> None:
        self.guarded_by, self._guards, self.log = executor, executor.guards, executor.log
        self._ours, self._job, self._slots, self._is_older = ours, job, slots, is_older
        self.leases = leases
        self.max_instances = sys.maxsize if leases else job.max_instances  # the store counts what was granted
        self.func = guarded(ours.name, job.func, lambda *_args, **_named: self._slot, self._call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._job, name)

    def __str__(self) -> str:
        return str(self._job)

    def run_times(self) -> Iterator[datetime]:
        for run_time, slot in self._slots.items():
            self.run_time, self._slot, self.began = run_time, slot, False
            try:
                yield run_time
            finally:
                self.let_go(slot)

    @property
    def misfire_grace_time(self) -> int | None:
        """What was claimed was claimed in time."""
        return None if self._is_older or self._slot in self.leases else self._job.misfire_grace_time

    def let_go(self, slot: Slot) -> Lease | None:
        """The lease that was claimed ahead, if it still waits. It is no longer renewed."""
        lease = self.leases.pop(slot, None)
        if lease is not None:
            self._guards.cron.at_work().drop(lease)
        return lease

    @contextmanager
    def _running(self) -> Iterator[None]:
        self.began = True
        self.log.info('Running job "%s" (scheduled at %s)', self, self.run_time)
        yield
        self.log.info('Job "%s" executed successfully', self)

    def _call(self, work: Work, *_meant: object) -> "RetryingCall":
        """All slots of a job have the same arguments: any call may take over any of them."""
        keeper, refused = self._guards.cron.at_work(), self._guards.notebook.refused
        call = Call(keeper, self._ours, work, take_over=True, refused=refused, ahead=self.let_go, running=self._running)
        return RetryingCall(self, call)


class RetryingCall:
    """A call for a slot that may have been claimed ahead. If the store does not answer it waits, for as long as the job
    may be late; but not while its scheduler shuts down, which waits for it. Another process runs what did not begin."""

    def __init__(self, fired_job: FiredJob, call: Call) -> None:
        self._fired_job, self._call, self.node = fired_job, call, call.node
        grace = fired_job.misfire_grace_time
        self._give_up = self.node.clock.boot() + (OUTAGE_TIMEOUT if grace is None else grace)

    def steps(self, when: When | None = None) -> Steps[Any]:
        while True:
            try:
                result = yield from self._call.steps(when)
                if isinstance(result, Skipped) and result.kind == "too old":  # it may be that no process has run it
                    LOGGER.warning("%s was not run: %s", result.slot, result.reason)
                return result
            except StoreUnavailable:
                if self._fired_job.began or self._fired_job.guarded_by.ending or self.node.clock.boot() > self._give_up:
                    raise
            yield WaitStep(OUTAGE_RETRY)


# --- the line that makes a scheduler one of many ----------------------------------------------------------------------

TAKEOVER_POLL: Final = 2.0
"""Seconds between two searches for what other processes left."""

PASSED_RECORDED: Final = 1000
"""Of the run times that a job passes over at once, at most so many are put on record: the newest."""


def protect(
    scheduler: Any,
    cron: Cronce,
    *,
    jobs: Mapping[str, Policies] = MappingProxyType({}),
    **policies: Unpack[Policies],
) -> None:
    """Let each slot of the scheduler's jobs run once, however many schedulers have them. Before or after it is started;
    what is added later is protected too.

    The policies (on_lost, retries, backoff, timeout, lease, overlap, turns, keep) are those of all its jobs; `jobs` has
    others for single ones, by their ids.
    """
    guards = Guards(cron, policies, jobs)
    if not isinstance(scheduler, BaseScheduler):
        kind = type(scheduler).__name__
        raise BadInput(f"this is not a scheduler of APScheduler 3 but of type {kind}: write protect(scheduler, cron)")
    if hasattr(scheduler, "_cronce"):
        raise BadInput("this scheduler is already protected; call protect once, with all policies")
    scheduler._cronce = Protection(scheduler, guards)


class Protection:
    """Wraps three methods of a scheduler, and some of its job stores and executors."""

    def __init__(self, scheduler: Any, guards: Guards) -> None:
        self._scheduler, self._guards = scheduler, guards
        self._left_slots: dict[Slot, Any] = {}
        self._unknown_ids = set(guards.single)
        self._warn_after: Boot | None = None
        self._retry_pause = OUTAGE_RETRY
        self._retry_at: Boot | None = None
        self._announced_at = -inf
        self._poll_thread = RepeatingThread("cronce-apscheduler", self._poll, SystemClock())
        self._wrap_parts()
        _warn(scheduler_warnings(scheduler))
        self._adjust_jobs()
        scheduler._create_trigger = partial(self._create_trigger, scheduler._create_trigger)
        scheduler._real_add_job = partial(self._add_job, scheduler._real_add_job)
        scheduler._process_jobs = partial(self._process_jobs, scheduler._process_jobs)
        if scheduler.running:
            scheduler.wakeup()  # the next round of its own may be far

    # --- jobs, as they come ---

    def _adjust_jobs(self) -> None:
        """Jobs that exist already. Schedulers that share a job store see the same run times; in a private one the next
        run time is moved to an instant that all processes compute."""
        for job, _, _ in self._scheduler._pending_jobs:
            same_everywhere(job.trigger)
        for job in self._scheduler.get_jobs() if self._scheduler.running else ():
            self._check(job, job._jobstore_alias)
            if is_private(self._scheduler, job._jobstore_alias) and job.next_run_time is not None:
                trigger = same_everywhere(job.trigger)
                if slot_instant(trigger, job.next_run_time) != job.next_run_time:
                    job.modify(next_run_time=trigger.get_next_fire_time(None, SystemClock().wall()))

    def _create_trigger(self, create: Callable[..., Any], trigger: Any, arguments: dict[str, Any]) -> Any:
        return same_everywhere(create(trigger, arguments))

    def _add_job(self, add: Callable[..., None], job: Any, alias: str, replace_existing: bool) -> None:
        self._check(job, alias)
        if not (is_private(self._scheduler, alias) or is_unnamed(job)):
            round_up(job.trigger)
        add(job, alias, replace_existing)

    def _check(self, job: Any, alias: str) -> None:
        """Refuse a job that cannot be told from another; warn about its settings."""
        self._unknown_ids.discard(job.id)
        if is_private(self._scheduler, alias) and _goes_by_function(job):
            name = name_of(job, private=True)
            others = filter(_goes_by_function, self._scheduler._jobstores[alias].get_all_jobs())
            if any(name_of(other, private=True) == name and other.id != job.id for other in others):
                raise BadInput(
                    f"two jobs without an id call {job.name} with the same arguments, and another process cannot tell"
                    " them apart; give each an id: add_job(…, id='…')"
                )
        _warn(job_warnings(self._scheduler, job, alias))

    # --- a round of the scheduler ---

    def _process_jobs(self, process: Callable[[], float | None]) -> float | None:
        """For how many seconds to sleep. What fails now is due again in the next round."""
        self._poll_thread.wake(SystemClock().boot() + TAKEOVER_POLL)
        try:
            self._wrap_parts()
            if self._scheduler.state == STATE_RUNNING:  # else it is paused
                self._submit_left()
            return process()
        except JobLookupError as error:
            LOGGER.debug("another scheduler already updated the job store: %s", error)
            return 0.0
        except Exception as error:
            pause = self._retry_soon()
            LOGGER.warning("the job store failed; the next try is in %g s: %s", pause, error)
            return pause
        finally:
            self._guards.give_back()

    def _wrap_parts(self) -> None:
        """Wrap the executors and job stores that exist by now."""
        executors = self._scheduler._executors
        for alias, executor in executors.items():
            if not isinstance(executor, GuardedExecutor):
                executors[alias] = GuardedExecutor(self._guards.cron, executor)
            executors[alias].guards = self._guards
        for store in self._scheduler._jobstores.values():
            if "get_due_jobs" not in vars(store):
                store.get_due_jobs = partial(self._get_due_jobs, store.get_due_jobs)

    def _get_due_jobs(self, get_due_jobs: Callable[[datetime], list[Any]], now: datetime) -> list[Any]:
        try:
            due = get_due_jobs(now)
            for job in due:
                without_jitter(job.trigger)
            shared = [job for job in due if not is_private(self._scheduler, job._jobstore_alias)]
            wanted = [(job, _in_time(job, now)) for job in shared]
            self._guards.claim(wanted)
            self._guards.pass_over([(job, _passed_over(job, now, times)) for job, times in wanted])
        except Exception:
            self._retry_soon()
            raise
        self._retry_pause = OUTAGE_RETRY
        return due

    def _retry_soon(self) -> float:
        """Plan another round soon, later each time; in how many seconds."""
        pause, self._retry_pause = (
            self._retry_pause,
            min(2 * self._retry_pause, self._scheduler.jobstore_retry_interval),
        )
        self._retry_at = SystemClock().boot() + pause
        self._poll_thread.wake(self._retry_at)
        return pause

    # --- what others left ---

    def _poll(self) -> Boot | None:
        """On a thread of its own: the scheduler's may be an event loop."""
        if not self._scheduler.running:
            return None
        try:
            self._warn_of_unknown_jobs()
            self._left_slots = self._left_by_others()
            self._announce()
        except Exception as error:  # a store that is away is reported by those who need it
            LOGGER.debug("could not look for slots that other processes left: %s", error)
        if self._left_slots or self._is_retry_due():
            self._scheduler.wakeup()
        return min(SystemClock().boot() + TAKEOVER_POLL, self._retry_at or inf)

    def _is_retry_due(self) -> bool:
        """Whether it is time to ask a job store that failed again."""
        if self._retry_at is None or SystemClock().boot() < self._retry_at:
            return False
        self._retry_at = None
        return True

    def _warn_of_unknown_jobs(self) -> None:
        """Warn once, a moment after the start: many programs add their jobs after they start the scheduler."""
        now = SystemClock().boot()
        self._warn_after = self._warn_after or now + TAKEOVER_POLL
        if self._unknown_ids and now >= self._warn_after:
            ids = {job.id for job in self._scheduler.get_jobs()}
            _warn(unknown_job_warnings(self._unknown_ids - ids, ids))
            self._unknown_ids.clear()

    def _announce(self) -> None:
        """Show on the page that this scheduler is alive, and what it fires next."""
        now = SystemClock().boot()
        if now < self._announced_at + SIGN_EVERY:
            return
        self._announced_at = now
        told = [
            ForeignJob(name, str(job.trigger)[:200], job.next_run_time.astimezone(UTC))
            for name, job in sorted(self._shared_jobs(), key=lambda one: one[1].next_run_time)
        ]
        node = self._guards.cron.at_work().node
        node.do(announce_scheduler(node.ledger, "APScheduler", told))

    def _left_by_others(self) -> dict[Slot, Any]:
        """With the job of each. What is still before a job is handed on by the scheduler's own round; twice in a round
        would be one instance too many."""
        node = self._guards.cron.at_work().node
        slots = [slot_of_cell(cell.key) for cell in node.do(node.ledger.overdue())]
        if not slots:
            return {}
        named = dict(self._shared_jobs())
        return {slot: named[slot.job] for slot in slots if slot.job in named and _is_behind(slot, named[slot.job])}

    def _shared_jobs(self) -> Iterator[tuple[str, Any]]:
        """The jobs that processes share, by their names. One without a next run time is paused."""
        for job in self._scheduler.get_jobs():
            private = is_private(self._scheduler, job._jobstore_alias)
            if job.next_run_time and not is_own_task(job, private=private):
                yield name_of(job, private=private), job

    def _submit_left(self) -> None:
        older, self._left_slots = self._left_slots, {}
        for slot, job in older.items():
            with suppress(MaxInstancesReachedError):
                self._scheduler._lookup_executor(job.executor).submit_older(job, slot)


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        LOGGER.warning("%s", warning)


def _goes_by_function(job: Any) -> bool:
    return is_unnamed(job) and not is_own_task(job, private=True)


def _is_behind(slot: Slot, job: Any) -> bool:
    return bool(slot.request) or slot.at < slot_instant(job.trigger, job.next_run_time)


def _passed_over(job: Any, now: datetime, wanted: Sequence[datetime]) -> list[datetime]:
    """The run times that are due and that APScheduler does not run: coalesced, or later than its grace."""
    due: list[datetime] = job._get_run_times(now)
    return [run_time for run_time in due[-PASSED_RECORDED:] if run_time not in wanted]


def _in_time(job: Any, now: datetime) -> list[datetime]:
    """The run times that APScheduler is about to run, without those that it will report as missed."""
    due: list[datetime] = job._get_run_times(now)
    wanted = due[-1:] if job.coalesce else due
    if job.misfire_grace_time is None:
        return wanted
    return [run_time for run_time in wanted if now - run_time <= timedelta(seconds=job.misfire_grace_time)]
