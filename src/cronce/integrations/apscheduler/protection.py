"""`protect`: the line that makes a scheduler one of many."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from math import inf
from types import MappingProxyType
from typing import Any, Final, Unpack

from apscheduler.executors.base import BaseExecutor, MaxInstancesReachedError
from apscheduler.executors.pool import ProcessPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.base import STATE_RUNNING, BaseScheduler

from cronce.clock import SystemClock
from cronce.errors import BadInput, StoreError, StoreUnavailable
from cronce.integrations.apscheduler.jobs import (
    agreed,
    check_policies,
    declared,
    is_errand,
    is_private,
    is_unnamed,
    name_of,
    of_names,
    of_scheduler,
    remarks,
    rounded_up,
    slot_instant,
    slot_of,
    unjittered,
)
from cronce.integrations.deliveries import check_is
from cronce.model import Boot, Slot, slot_of_cell
from cronce.protocol.commands import Queue, Skip, Unsure
from cronce.runtime.app import Cronce
from cronce.runtime.attempt import Work
from cronce.runtime.call import Call
from cronce.runtime.declare import Declaration, Policies, When
from cronce.runtime.guard import guarded
from cronce.runtime.keeper import Beat, Lease
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.log import LOGGER
from cronce.runtime.machine import Notebook
from cronce.runtime.run import Skipped
from cronce.runtime.steps import Nap, Steps

# --- any executor of APScheduler, with a guard before each body -------------------------------------------------------

PATIENCE: Final = 60.0
"""Seconds for which a body that is never too late waits for a store that does not answer."""

AGAIN: Final = 0.25
"""Seconds until a store that did not answer is asked again; a job store then twice as long each time: APScheduler waits
for ten, and by then most of its jobs are later than they may be."""


class Guards:
    """What guards the bodies of one scheduler: its jobs, and the slots that were claimed for them ahead. Their leases
    are kept while they wait for a thread."""

    def __init__(self, cron: Cronce, policies: Policies, single: Mapping[str, Policies]) -> None:
        """`single` has other policies for single jobs, by their ids."""
        check_is(cron, Cronce, "protect(scheduler, Cronce(url))")
        self._policies, self.single = policies, {name: {**policies, **of_one} for name, of_one in single.items()}
        for words in (policies, *self.single.values()):
            check_policies(words)
        self.cron, self.notebook = cron, Notebook()
        self._ahead: dict[Slot, Lease] = {}

    def declaration(self, job: Any) -> Declaration | None:
        """The job, in our words, on its policies; None for an errand."""
        return declared(job, self.single.get(job.id, self._policies))

    def claim(self, due: Iterable[tuple[Any, Sequence[datetime]]]) -> None:
        """Claim what is due, in one round trip, or raise. What is not granted is asked for again where the body would
        run, and can be waited for there."""
        wanted: list[Wanted] = []
        for job, run_times in due:
            if ours := self.declaration(job):
                slots = [slot_of(job, ours.name, run_time) for run_time in run_times]
                wanted += [Wanted(slot, ours.terms(slot, inferred=False)) for slot in slots]
        if not wanted:
            return
        keeper = self.cron.at_work()
        answers = keeper.desk.do(keeper.desk.ledger.claim(wanted))
        for want, answer in zip(wanted, answers, strict=True):
            if isinstance(answer, Grant):
                self._ahead[want.slot] = lease = Lease(answer, keeper.desk.clock, lambda _over: None)
                keeper.keep(lease)
        for answer in answers:
            if isinstance(answer, Unsure) and answer.passing:
                raise StoreUnavailable(answer.why)

    def pass_over(self, passed: Iterable[tuple[Any, Sequence[datetime]]]) -> None:
        """Put on record what APScheduler runs no more, where nobody has run it."""
        slots: dict[Slot, Queue | Skip] = {}
        for job, run_times in passed:
            if run_times and (ours := self.declaration(job)):
                why = f"coalesce={job.coalesce}, misfire_grace_time={job.misfire_grace_time}"
                for run_time in run_times:
                    slot = slot_of(job, ours.name, run_time)
                    slots[slot] = Skip(f"APScheduler passed it over: {why}", first=slot.at)
        if slots:
            keeper = self.cron.at_work()
            keeper.desk.do(keeper.desk.ledger.put(slots))

    def taken(self, slots: Iterable[Slot]) -> dict[Slot, Lease]:
        """What was claimed ahead of some slots, to be handed to an executor: from then on it is the body's."""
        return {slot: self._ahead.pop(slot) for slot in slots if slot in self._ahead}

    def give_back(self, leases: Mapping[Slot, Lease] | None = None) -> None:
        """What was claimed and handed to nobody: the round was cut short, or no executor took it."""
        if leases is None:
            leases, self._ahead = self._ahead, {}
        if leases:
            keeper = self.cron.at_work()
            for lease in leases.values():
                keeper.drop(lease)
            with suppress(StoreError):
                keeper.desk.do(keeper.desk.ledger.release([lease.grant for lease in leases.values()]))


class GuardedExecutor(BaseExecutor):  # type: ignore[misc]
    """An executor whose jobs run once for each of their run times: `GuardedExecutor(cron, ThreadPoolExecutor(20))`.

    For a scheduler of one's own making; `protect` puts it around all executors of one that is there.
    """

    def __init__(self, cron: Cronce, executor: Any, **policies: Unpack[Policies]) -> None:
        super().__init__()
        if isinstance(executor, ProcessPoolExecutor):
            raise BadInput(
                "a body in APScheduler's process pool cannot have a lease; run the job in a thread pool, and guard"
                " its function by @cron.job(…, isolate=True) if it needs a process"
            )
        self.executor, self.guards = executor, Guards(cron, policies, {})
        self.ending = False
        self.log = executor._logger
        executor._run_job_success = partial(_without_losers, executor._run_job_success)
        if executor._scheduler is not None:
            self._hush()

    def start(self, scheduler: Any, alias: str) -> None:
        self.ending = False
        self.executor.start(scheduler, alias)
        self._hush()

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
            self._submit(Firing(self, ours, job, slots, dict(leases)))
        except BaseException:
            self.guards.give_back(leases)
            raise

    def submit_older(self, job: Any, slot: Slot) -> None:
        """A slot that another began, or that somebody asked for: it is never too late."""
        ours = self.guards.declaration(job)
        assert ours is not None
        self._submit(Firing(self, ours, job, {slot.at: slot}, {}, is_older=True))

    def _submit(self, firing: "Firing") -> None:
        self.executor.submit_job(firing, firing.run_times())

    def _do_submit_job(self, job: Any, run_times: Sequence[datetime]) -> None:
        self.executor._do_submit_job(job, run_times)

    def _hush(self) -> None:
        """Before it calls the function, and after, APScheduler says that a job runs and was executed. Of a slot that
        another has that is not true: it is said here, of those that run."""
        self.log = self.executor._logger
        self.executor._logger = self.log.getChild("cronce")
        self.executor._logger.setLevel(logging.WARNING)
        self.executor._logger.addFilter(_in_one_line)


def _without_losers(told: Callable[[str, list[Any]], None], job_id: str, events: list[Any]) -> None:
    """Nothing happened where a slot was refused, and no event says otherwise."""
    told(job_id, [event for event in events if not isinstance(getattr(event, "retval", None), Skipped)])


def _in_one_line(record: logging.LogRecord) -> bool:
    """A body that did not begin, since the store did not answer: in which of our lines that was helps nobody."""
    error = record.exc_info[1] if record.exc_info else None
    match record.args:
        case (Firing(began=False) as firing,) if isinstance(error, StoreError):
            record.msg, record.args, record.exc_info = 'Job "%s" was not run: %s', (firing, error), None
    return True


class Firing:
    """A job as an executor is to see it, while it runs for some run times: its function is guarded, and is called for
    the slot of the run time that was asked for last."""

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
        self.max_instances = sys.maxsize if leases else job.max_instances  # of what was granted the store keeps count
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
        """What was claimed ahead, if it still waits: from here on nobody keeps it."""
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

    def _call(self, work: Work, *_meant: object) -> "PatientCall":
        """The arguments are the job's, the same for all of its slots: any call may take over any of them."""
        keeper, refused = self._guards.cron.at_work(), self._guards.notebook.refused
        call = Call(keeper, self._ours, work, take_over=True, refused=refused, ahead=self.let_go, running=self._running)
        return PatientCall(self, call)


class PatientCall:
    """A call for a slot that may have been claimed ahead. If the store does not answer it waits, for as long as the job
    may be late; but not while its scheduler shuts down, which waits for it. What did not begin others see to."""

    def __init__(self, firing: Firing, call: Call) -> None:
        self._firing, self._call, self.desk = firing, call, call.desk
        grace = firing.misfire_grace_time
        self._give_up = self.desk.clock.boot() + (PATIENCE if grace is None else grace)

    def steps(self, when: When | None = None) -> Steps[Any]:
        while True:
            try:
                result = yield from self._call.steps(when)
                if isinstance(result, Skipped) and result.kind == "too old":  # nobody else need have run it
                    LOGGER.warning("%s was not run: %s", result.slot, result.reason)
                return result
            except StoreUnavailable:
                if self._firing.began or self._firing.guarded_by.ending or self.desk.clock.boot() > self._give_up:
                    raise
            yield Nap(AGAIN)


# --- the line that makes a scheduler one of many ----------------------------------------------------------------------

LOOK: Final = 2.0
"""Seconds between two looks for what others left."""

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
