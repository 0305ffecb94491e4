"""The processes of a simulated world: they schedule, sweep, renew, run job functions and take locks.

They run the real flows of the ledger and obey the real arithmetic of trust; only time and the network are simulated.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from cronce.errors import DatabaseUnavailable, LeaseLost, StoreUnavailable
from cronce.model import EPOCH, Cell, Fence, Instant, Slot, lock_cell, slot_of_cell
from cronce.policy import Missed
from cronce.protocol.commands import (
    Busy,
    Early,
    Finish,
    Release,
    Superseded,
    Unsure,
)
from cronce.protocol.notices import Holder
from cronce.protocol.record import Outcome, Record, decode, effects_key
from cronce.protocol.retention import OUTCOMES, Keep, Limit
from cronce.protocol.specs import fires_alike, raise_floor
from cronce.protocol.terms import Terms
from cronce.runtime.flow import Flow
from cronce.runtime.keeper import LeaseEnd
from cronce.runtime.ledger import Expired, Grant, Refused, Wanted
from cronce.runtime.scheduling.roster import Roster, digest_of
from cronce.schedule import Schedule, due, slot_of
from cronce.testing.database import ModelDatabase
from cronce.testing.held_leases import HeldLeases, HeldRun
from cronce.testing.receivers import EffectGuard
from cronce.testing.simulated_effects import TROUBLE, EffectPlan, RunEffects, handle
from cronce.testing.takeovers import LOOK_THREAD
from cronce.testing.world import Play, Sleep, Thread

SIMULATED_BEAT = timedelta(seconds=8)
SIMULATED_KEEP = Keep(dict.fromkeys(OUTCOMES, Limit(age=timedelta(seconds=15))), least=timedelta(0))
LOCK = lock_cell("shared")


@dataclass(frozen=True)
class JobVersion:
    """One version of a job as a process carries it."""

    job: str
    schedule: Schedule
    terms: Terms
    missed: Missed
    body: tuple[float, float]  # seconds a body takes, from and to
    fails: float
    outside: bool  # fired by a crontab on every machine, not by the scheduler
    habit: EffectPlan

    @property
    def spec(self) -> tuple[str, str]:
        return self.terms.digest, self.schedule.text


@dataclass(eq=False)
class SimulatedNode(HeldLeases):
    """A process of the world with its ledger and its threads."""

    plans: dict[str, JobVersion]
    threads: int = 1
    purges: bool = False
    stubborn: Random | None = None  # the dice that decide which job functions ignore a stop; without it, all stop
    blockers: set[str] = field(default_factory=set)  # runs that others wait for, which may have committed

    def __post_init__(self) -> None:
        super().__post_init__()
        world, process = self.world, self.process
        self.database = ModelDatabase(self.referee.server, process, lambda: self.peril(0.005))
        self.referee.knows[process.name] = self.ledger.know
        self.referee.carries[process.name] = {plan.job: plan.terms.digest for plan in self.plans.values()}
        scheduled = [plan for plan in self.plans.values() if not plan.outside]
        for thread in [self._beat(), self._sweep(), self.renew(), self._lock(), self._consume()]:
            world.start(process, thread)
        for _ in range(self.threads):
            world.start(process, self._schedule(scheduled))
        for plan in self.plans.values():
            if plan.outside:
                world.start(process, self._crontab(plan))
        if self.purges:
            world.start(process, self._purge())

    def _ticks(self, low: float, high: float) -> Iterator[Sleep]:
        while True:
            yield Sleep(self.world.random.uniform(low, high))

    # --- the scheduler ---

    def _beat(self) -> Thread:
        specs = {plan.job: plan.spec for plan in self.plans.values() if not plan.outside}
        me = Holder(self.process.name, digest_of(specs), "both", self.threads, {}, EPOCH, "")
        roster = Roster(self.ledger.client, self.ledger.jobs)
        while True:
            with suppress(StoreUnavailable):
                yield from roster.beat(me, specs, self.process.boot(), ttl=SIMULATED_BEAT)
            yield Sleep(self.world.random.uniform(1.5, 2.5))

    def _schedule(self, plans: list[JobVersion]) -> Thread:
        """Look at every job, then report what has ended and claim what fell due, all in one call. A claim that is
        repeated keeps its nonce."""
        since: dict[str, Instant] = {}
        nonces: dict[Slot, str] = {}
        for tick in self._ticks(0.8, 2.0):
            yield tick
            slots: list[Slot] = []
            for plan in plans:
                with suppress(StoreUnavailable):
                    slots += yield from self._look(plan, since)
            wanted = [
                Wanted(slot, self.plans[slot.job].terms, nonce=nonces.pop(slot, "") or self.nonce()) for slot in slots
            ]
            replies = yield from self._exchange(wanted)
            for (slot, *_, nonce), reply in zip(wanted, replies, strict=True):
                if self._took(self.plans[slot.job], reply):
                    nonces[slot] = nonce
                    if slot.job in since:
                        since[slot.job] = min(since[slot.job], slot.at - timedelta(seconds=1))

    def _look(self, plan: JobVersion, since: dict[str, Instant]) -> Flow[list[Slot]]:
        """What fell due since the last look, by the missed policy."""
        yield from self.ledger.jobs.learn(plan.job)
        known = self.ledger.know.job(plan.job)
        if self.ledger.know.doubt is not None:  # without a read, doubt would never end
            yield from self.ledger.client.load([])
        if known is None or known.job is None or self.ledger.know.doubt is not None:
            return []
        start = max(since.get(plan.job, known.job.floor), known.job.floor)
        now = min(self.ledger.know.now(), self.world.last_slot)
        found = due(plan.schedule, start, now, plan.missed, grace=timedelta(seconds=20))
        missed = found.skipped
        has_a_say = fires_alike(known.job, plan.terms.digest)
        if missed is not None and has_a_say:
            yield from self.ledger.jobs.edit(
                plan.job, lambda job, _now: job and raise_floor(job, missed.last, missed.count, missed.reason)
            )
        if found.slots and (missed is None or has_a_say):  # else what was missed is not on record, and is found again
            since[plan.job] = now
        return [Slot(plan.job, at) for at in found.slots]

    def _exchange(self, wanted: list[Wanted]) -> Play[list[Grant | Refused]]:
        """Claim these, and report all ends with them."""
        ended, self.ended = self.ended, []
        try:
            replies = (yield from self.exchange(ended, wanted)) if ended or wanted else []
        finally:  # without an answer they are reported again
            self.ended += [run for run in ended if run.word is not None]
        self.world.faults["ends with claims"] += bool(ended and wanted)
        return replies

    def _took(self, plan: JobVersion, reply: Grant | Refused) -> bool:
        """Start what was granted; whether to ask again is the answer."""
        if isinstance(reply, Grant):
            self.world.start(self.process, self._run(plan, reply))
        if isinstance(reply, Busy):
            if plan.terms.joined:
                self.blockers.add(reply.run)
            return True
        return isinstance(reply, Unsure | Early | Expired | Superseded)

    def _sweep(self) -> Thread:
        """Look after what is overdue: take over, retry, close as lost."""
        for tick in self._ticks(0.5, 1.0):
            yield tick
            with suppress(StoreUnavailable):
                yield from self.asks(LOOK_THREAD, self._claim_overdue())

    def _claim_overdue(self) -> Play[None]:
        cells = yield from self.ledger.overdue(limit=100)
        ready = yield from self._settled(cells)
        mine = [(cell, self.plan_of(cell)) for cell in ready]
        if not mine:
            return
        replies = yield from self._exchange(
            [
                Wanted(slot_of_cell(cell.key), plan.terms._replace(digest=""), known=True, nonce=self.nonce())
                for cell, plan in mine
            ]
        )
        for (_, plan), reply in zip(mine, replies, strict=True):
            self._took(plan, reply)

    def _settled(self, cells: list[Cell]) -> Play[list[Cell]]:
        """Runs that may be committed are not closed before the user's database was asked; the rest is to be claimed."""
        lost = {cell.key for cell in cells if self.plan_of(cell).terms.joined and _closes(decode(cell.value))}
        asked, self.blockers = sorted(lost | self.blockers), set()
        gone = (yield from self.ledger.gone(asked)) if asked else []
        for cell in gone:
            with suppress(DatabaseUnavailable):
                committed = yield from self._sealed(cell)
                yield from self.ledger.settle([cell], committed)
        return [cell for cell in cells if cell.key not in lost]

    def _sealed(self, cell: Cell) -> Play[dict[str, Fence]]:
        """The run by its fence, if it was committed; if not, it never will be."""
        assert cell.fence is not None
        key = effects_key(decode(cell.value), slot_of_cell(cell.key))
        return {cell.key: cell.fence} if (yield from self.database.seal(key, cell.fence)) else {}

    @property
    def of_things(self) -> bool:
        return any(plan.habit.way is EffectGuard.THING for plan in self.plans.values())

    def plan_of(self, cell: Cell) -> JobVersion:
        return self.plans[slot_of_cell(cell.key).job]

    def _crontab(self, plan: JobVersion) -> Thread:
        """A crontab on this machine: fires by the machine's wall clock, knows nothing of the others."""
        while True:
            upcoming = plan.schedule.next(self.process.wall())
            assert upcoming is not None
            wait = (upcoming - self.process.wall()).total_seconds()
            yield Sleep(max(wait, 0.0) + self.world.random.uniform(0.0, 0.3))
            at = slot_of(plan.schedule, self.process.wall())
            if at > self.world.last_slot:
                return
            yield from self._fire(plan, at)

    def _fire(self, plan: JobVersion, at: Instant) -> Thread:
        for _ in range(20):
            try:
                (reply,) = yield from self.ledger.claim([Wanted(Slot(plan.job, at), plan.terms)])
            except StoreUnavailable:
                return
            if not self._took(plan, reply):
                return
            yield Sleep(0.5)

    def _purge(self) -> Thread:
        for tick in self._ticks(5.0, 12.0):
            yield tick
            for plan in self.plans.values():
                try:
                    yield from self.ledger.jobs.purge(plan.job, SIMULATED_KEEP)
                except StoreUnavailable:
                    continue

    # --- bodies ---

    def _run(self, plan: JobVersion, grant: Grant) -> Thread:
        """A body from its grant to its end, with the effects that it makes."""
        run = self.held(grant)
        deeds = RunEffects(self, self.referee.receivers, self.database, plan.habit, run.lease, self._making(run))
        try:
            if (yield from deeds.ready()):
                yield from self._report(plan, run, Finish(grant.fence, Outcome.SUCCEEDED))
                return
        except (DatabaseUnavailable, LeaseLost):
            yield from self._report(plan, run, Release(grant.fence))
            return
        if not self.begin(run):
            return
        outcome = yield from self._outcome(plan, run, deeds)
        if outcome is None:
            self.let_go(grant)  # it just stops; another process will find it lapsed
        else:
            yield from self._report(plan, run, Finish(grant.fence, outcome, backoff=timedelta(seconds=1)))

    def _report(self, plan: JobVersion, run: HeldRun, word: Finish | Release) -> Thread:
        """The scheduler reports the ends of its runs; a call that a crontab fired reports its own."""
        run.word = word
        if plan.outside:
            yield from self.end(run)
        else:
            self.ended.append(run)

    def _outcome(self, plan: JobVersion, run: HeldRun, deeds: RunEffects) -> Play[Outcome | None]:
        """Run the job function. Returns how it ended, or None if it does not report an end."""
        dice, failed = self.world.random, False
        try:
            whole = yield from self._work(plan, run, deeds)
        except TROUBLE as trouble:
            self.world.say(f"{self.process.name} {run.grant.key}: {trouble!r:.150}")
            whole = failed = True
        assert run.body is not None
        run.body.ended = True
        if deeds.doubts:
            return Outcome.UNKNOWN
        if not whole and not run.grant.ask and plan.terms.on_lost == "rerun" and dice.random() < 0.5:
            return None
        if whole and not failed and dice.random() >= plan.fails:
            return Outcome.SUCCEEDED
        try:
            return Outcome.SUCCEEDED if (yield from deeds.sealed()) else Outcome.FAILED
        except DatabaseUnavailable:
            return None

    def _work(self, plan: JobVersion, run: HeldRun, deeds: RunEffects) -> Play[bool]:
        """The body: it takes its time, and makes its effects meanwhile. Whether it could be trusted to the end."""
        dice, todo = self.world.random, deeds.todo()
        left = dice.uniform(*plan.body)
        while left > 0 or todo:
            step = max(0.0, min(left, dice.uniform(0.2, 1.5)))
            yield Sleep(step)
            left -= step
            if not self.may_act(run):
                yield from self._go_on(run)
                return False
            if todo and (left <= 0 or dice.random() < 0.5):
                yield from todo.pop(0)()
                yield from self.peril()
        return self.may_act(run)

    def _go_on(self, run: HeldRun) -> Play[None]:
        """It was asked to stop, and is in a call that cannot be interrupted: it acts no more, and does not end."""
        dice = self.stubborn
        if dice is None or dice.random() < 0.3:
            return
        assert run.body is not None
        self.world.fault("body does not stop", run.grant.key)
        run.lease.end(LeaseEnd("lost", "it was told to stop"))
        run.body.stubborn = True
        yield Sleep(dice.uniform(5, 40))

    def _making(self, run: HeldRun) -> Callable[[str], None]:
        def making(item: str) -> None:
            assert run.body is not None
            self.referee.makes(run.body, item)

        return making

    # --- a queue ---

    def _consume(self) -> Thread:
        """Handle messages that come more than once."""
        for tick in self._ticks(2.0, 12.0):
            yield tick
            if self.world.calm:
                return
            message = f"{self.world.real // 30:.0f}-{self.world.random.randrange(2)}"
            try:
                yield from handle(self, self.referee.receivers, message, self.referee.message)
            except TROUBLE as trouble:
                self.world.say(f"{self.process.name} {message}: {trouble!r:.150}")

    # --- a lock ---

    def _lock(self) -> Thread:
        dice = self.world.random
        for tick in self._ticks(2.0, 15.0):
            yield tick
            try:
                grant = yield from self.ledger.acquire(LOCK, timedelta(seconds=dice.uniform(6, 12)))
            except StoreUnavailable:
                continue
            if isinstance(grant, Grant) and self.begin(run := self.held(grant)):
                yield from self._hold(run, dice.uniform(0.5, 15.0))

    def _hold(self, run: HeldRun, seconds: float) -> Thread:
        while seconds > 0 and self.may_act(run):
            yield Sleep(1.0)
            seconds -= 1.0
        assert run.body is not None
        run.body.ended = True
        self.let_go(run.grant)
        yield from self.ledger.release([run.grant], rest=timedelta(seconds=self.world.random.choice([0, 2])))


def _closes(record: Record) -> bool:
    """Whether it is closed, and not taken over, if its holder is gone."""
    return record.is_running and record.closes_as_lost
