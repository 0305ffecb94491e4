"""Any executor of APScheduler, with a guard before each body."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Any, Final, Unpack

from apscheduler.executors.base import BaseExecutor
from apscheduler.executors.pool import ProcessPoolExecutor

from cronce.errors import BadInput, StoreError, StoreUnavailable
from cronce.integrations.apscheduler.jobs import check_policies, declared, slot_of
from cronce.integrations.deliveries import check_is
from cronce.model import Slot
from cronce.protocol.commands import Queue, Skip, Unsure
from cronce.runtime.app import Cronce
from cronce.runtime.attempt import Work
from cronce.runtime.call import Call
from cronce.runtime.declare import Declaration, Policies, When
from cronce.runtime.guard import guarded
from cronce.runtime.keeper import Lease
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.log import LOGGER
from cronce.runtime.machine import Notebook
from cronce.runtime.run import Skipped
from cronce.runtime.steps import Nap, Steps

PATIENCE: Final = 60.0
"""Seconds for which a body that is never too late waits for a store that does not answer."""

AGAIN: Final = 0.25
"""Seconds until a store that did not answer is asked again."""


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
