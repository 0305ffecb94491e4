"""`protect`: the line that makes a scheduler one of many."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from math import inf
from types import MappingProxyType
from typing import Any, Final, Unpack

from apscheduler.executors.base import MaxInstancesReachedError
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.base import STATE_RUNNING, BaseScheduler

from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.integrations.apscheduler.executor import GuardedExecutor, Guards
from cronce.integrations.apscheduler.jobs import (
    agreed,
    is_errand,
    is_private,
    is_unnamed,
    name_of,
    of_names,
    of_scheduler,
    remarks,
    rounded_up,
    slot_instant,
    unjittered,
)
from cronce.model import Boot, Slot, slot_of_cell
from cronce.runtime.app import Cronce
from cronce.runtime.declare import Policies
from cronce.runtime.keeper import Beat
from cronce.runtime.log import LOGGER

LOOK: Final = 2.0
"""Seconds between two looks for what others left."""

AGAIN: Final = 0.25
"""Seconds until a job store that failed is asked again, then twice as long: APScheduler waits for ten, and by then most
of its jobs are later than they may be."""

PASSED: Final = 1000
"""Of the run times that a job passes over at once, so many are put on record: the newest."""


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
        raise BadInput(f"this is no scheduler of APScheduler 3, but of type {kind}: write protect(scheduler, cron)")
    if hasattr(scheduler, "_cronce"):
        raise BadInput("this scheduler is protected already; once is enough, with all policies")
    scheduler._cronce = Protection(scheduler, guards)


class Protection:
    """Stands before three methods of a scheduler, and before those of its job stores and executors that matter."""

    def __init__(self, scheduler: Any, guards: Guards) -> None:
        self._scheduler, self._guards = scheduler, guards
        self._older: dict[Slot, Any] = {}
        self._awaited = set(guards.single)
        self._settled: Boot | None = None
        self._pause = AGAIN
        self._round_at: Boot | None = None
        self._beat = Beat("cronce-apscheduler", self._look, SystemClock())
        self._dress()
        _warn(of_scheduler(scheduler))
        self._see_to_jobs()
        scheduler._create_trigger = partial(self._made, scheduler._create_trigger)
        scheduler._real_add_job = partial(self._added, scheduler._real_add_job)
        scheduler._process_jobs = partial(self._round, scheduler._process_jobs)
        if scheduler.running:
            scheduler.wakeup()  # the next round of its own may be far

    # --- jobs, as they come ---

    def _see_to_jobs(self) -> None:
        """Those that are there already. Whoever shares a job store sees the same run times, whatever they are; in one's
        own the next is an instant that all agree on."""
        for job, _, _ in self._scheduler._pending_jobs:
            agreed(job.trigger)
        for job in self._scheduler.get_jobs() if self._scheduler.running else ():
            self._check(job, job._jobstore_alias)
            if is_private(self._scheduler, job._jobstore_alias) and job.next_run_time is not None:
                trigger = agreed(job.trigger)
                if slot_instant(trigger, job.next_run_time) != job.next_run_time:
                    job.modify(next_run_time=trigger.get_next_fire_time(None, SystemClock().wall()))

    def _made(self, create: Callable[..., Any], trigger: Any, arguments: dict[str, Any]) -> Any:
        return agreed(create(trigger, arguments))

    def _added(self, add: Callable[..., None], job: Any, alias: str, replace_existing: bool) -> None:
        self._check(job, alias)
        if not (is_private(self._scheduler, alias) or is_unnamed(job)):
            rounded_up(job.trigger)
        add(job, alias, replace_existing)

    def _check(self, job: Any, alias: str) -> None:
        """Refuse a job that nobody could tell from another; say what else is not as it should be."""
        self._awaited.discard(job.id)
        if is_private(self._scheduler, alias) and _goes_by_function(job):
            name = name_of(job, private=True)
            others = filter(_goes_by_function, self._scheduler._jobstores[alias].get_all_jobs())
            if any(name_of(other, private=True) == name and other.id != job.id for other in others):
                raise BadInput(
                    f"two jobs without an id call {job.name} with the same arguments, and nobody can tell in another"
                    " process which is which; give each an id: add_job(…, id='…')"
                )
        _warn(remarks(self._scheduler, job, alias))

    # --- a round of the scheduler ---

    def _round(self, process: Callable[[], float | None]) -> float | None:
        """For how long to sleep, in seconds. What cannot be done now is due in the next round."""
        self._beat.wake(SystemClock().boot() + LOOK)
        try:
            self._dress()
            if self._scheduler.state == STATE_RUNNING:  # else it is paused
                self._take_up()
            return process()
        except JobLookupError as error:
            LOGGER.debug("another scheduler was faster: %s", error)
            return 0.0
        except Exception as error:
            pause = self._ask_soon()
            LOGGER.warning("the job store failed, and is asked again in %g s: %s", pause, error)
            return pause
        finally:
            self._guards.give_back()

    def _dress(self) -> None:
        """Whatever executors and job stores there are by now."""
        executors = self._scheduler._executors
        for alias, executor in executors.items():
            if not isinstance(executor, GuardedExecutor):
                executors[alias] = GuardedExecutor(self._guards.cron, executor)
            executors[alias].guards = self._guards
        for store in self._scheduler._jobstores.values():
            if "get_due_jobs" not in vars(store):
                store.get_due_jobs = partial(self._due, store.get_due_jobs)

    def _due(self, get_due_jobs: Callable[[datetime], list[Any]], now: datetime) -> list[Any]:
        try:
            due = get_due_jobs(now)
            for job in due:
                unjittered(job.trigger)
            shared = [job for job in due if not is_private(self._scheduler, job._jobstore_alias)]
            wanted = [(job, _in_time(job, now)) for job in shared]
            self._guards.claim(wanted)
            self._guards.pass_over([(job, _passed_over(job, now, times)) for job, times in wanted])
        except Exception:
            self._ask_soon()
            raise
        self._pause = AGAIN
        return due

    def _ask_soon(self) -> float:
        """Have another round before long, longer each time; in how many seconds."""
        pause, self._pause = self._pause, min(2 * self._pause, self._scheduler.jobstore_retry_interval)
        self._round_at = SystemClock().boot() + pause
        self._beat.wake(self._round_at)
        return pause

    # --- what others left ---

    def _look(self) -> Boot | None:
        """On a thread of its own: the scheduler's may be an event loop."""
        if not self._scheduler.running:
            return None
        try:
            self._tell_awaited()
            self._older = self._left()
        except Exception as error:  # a store that is away is reported by those who need it
            LOGGER.debug("could not look for what others left: %s", error)
        if self._older or self._is_asked_for():
            self._scheduler.wakeup()
        return min(SystemClock().boot() + LOOK, self._round_at or inf)

    def _is_asked_for(self) -> bool:
        """Whether it is time to ask a job store again that failed."""
        if self._round_at is None or SystemClock().boot() < self._round_at:
            return False
        self._round_at = None
        return True

    def _tell_awaited(self) -> None:
        """Once, and not before others had a moment to add their jobs: many start a scheduler first."""
        now = SystemClock().boot()
        self._settled = self._settled or now + LOOK
        if self._awaited and now >= self._settled:
            ids = {job.id for job in self._scheduler.get_jobs()}
            _warn(of_names(self._awaited - ids, ids))
            self._awaited.clear()

    def _left(self) -> dict[Slot, Any]:
        """With the job of each. One without a next run time is paused. What is still before a job is handed on by the
        scheduler's own round; twice in a round would be one instance too many."""
        desk = self._guards.cron.at_work().desk
        slots = [slot_of_cell(cell.key) for cell in desk.do(desk.ledger.overdue())]
        if not slots:
            return {}
        private = {alias: is_private(self._scheduler, alias) for alias in self._scheduler._jobstores}
        jobs = [(job, private[job._jobstore_alias]) for job in self._scheduler.get_jobs() if job.next_run_time]
        named = {name_of(job, private=own): job for job, own in jobs if not is_errand(job, private=own)}
        return {slot: named[slot.job] for slot in slots if slot.job in named and _is_behind(slot, named[slot.job])}

    def _take_up(self) -> None:
        older, self._older = self._older, {}
        for slot, job in older.items():
            with suppress(MaxInstancesReachedError):
                self._scheduler._lookup_executor(job.executor).submit_older(job, slot)


def _warn(remarks: Iterable[str]) -> None:
    for remark in remarks:
        LOGGER.warning("%s", remark)


def _goes_by_function(job: Any) -> bool:
    return is_unnamed(job) and not is_errand(job, private=True)


def _is_behind(slot: Slot, job: Any) -> bool:
    return bool(slot.request) or slot.at < slot_instant(job.trigger, job.next_run_time)


def _passed_over(job: Any, now: datetime, wanted: Sequence[datetime]) -> list[datetime]:
    """The run times that are due, and that APScheduler hands on to nobody: coalesced, or later than its grace."""
    due: list[datetime] = job._get_run_times(now)
    return [run_time for run_time in due[-PASSED:] if run_time not in wanted]


def _in_time(job: Any, now: datetime) -> list[datetime]:
    """The run times that APScheduler is about to hand on, less those of which it will say that they were missed."""
    due: list[datetime] = job._get_run_times(now)
    wanted = due[-1:] if job.coalesce else due
    if job.misfire_grace_time is None:
        return wanted
    return [run_time for run_time in wanted if now - run_time <= timedelta(seconds=job.misfire_grace_time)]
