"""Who lives in a simulated world: processes that schedule, sweep, renew, run bodies and take locks.

They run the real flows of the ledger and obey the real arithmetic of trust; only time and the network are made up.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from cronce.errors import StoreUnavailable
from cronce.model import EPOCH, Cell, Instant, Slot, lock_cell, slot_of_cell
from cronce.policy import Missed
from cronce.protocol.commands import (
    Early,
    Stale,
)
from cronce.protocol.lease import Trust, renew_every
from cronce.protocol.record import Holder, Outcome
from cronce.protocol.retention import OUTCOMES, Keep, Limit
from cronce.protocol.specs import raise_floor
from cronce.runtime.flow import Flow
from cronce.runtime.ledger import Expired, Grant, Ledger, Refused, Terms, Wanted
from cronce.runtime.scheduling.roster import Roster, digest_of
from cronce.runtime.task import Superseded, Unsure
from cronce.schedule import Schedule, due, slot_of
from cronce.testing.referee import Body, Referee
from cronce.testing.world import Process, Sleep, Thread, World

BEAT = timedelta(seconds=8)
KEEP = Keep(dict.fromkeys(OUTCOMES, Limit(age=timedelta(seconds=15))), least=timedelta(0))
LOCK = lock_cell("shared")


@dataclass(frozen=True)
class Plan:
    """One version of a job as a process carries it."""

    job: str
    schedule: Schedule
    terms: Terms
    missed: Missed
    body: tuple[float, float]  # seconds a body takes, from and to
    fails: float
    outside: bool  # fired by a crontab on every machine, not by the scheduler

    @property
    def spec(self) -> tuple[str, str]:
        return self.terms.digest, self.schedule.text


@dataclass(eq=False)
class Run:
    """A body at work."""

    grant: Grant
    body: Body
    told: bool = False  # another has it, or somebody asked: stop


@dataclass
class Cursor:
    """Up to where a scheduler thread has looked."""

    since: Instant | None = None


@dataclass(eq=False)
class Node:
    """A process of the world with its ledger and its threads."""

    world: World
    referee: Referee
    process: Process
    plans: dict[str, Plan]
    threads: int = 1
    purges: bool = False
    runs: dict[str, Run] = field(default_factory=dict)

    def __post_init__(self) -> None:
        world, process = self.world, self.process
        self.ledger = Ledger(world.store.traits, process, process.name, self._nonce)
        self.referee.carries[process.name] = {plan.job: plan.terms.digest for plan in self.plans.values()}
        scheduled = [plan for plan in self.plans.values() if not plan.outside]
        for thread in [self._beat(), self._sweep(), self._keep(), self._lock()]:
            world.start(process, thread)
        for _ in range(self.threads):
            world.start(process, self._schedule(scheduled))
        for plan in self.plans.values():
            if plan.outside:
                world.start(process, self._crontab(plan))
        if self.purges:
            world.start(process, self._purge())

    def _nonce(self) -> str:
        return f"{self.world.random.getrandbits(64):016x}"

    def _ticks(self, low: float, high: float) -> Iterator[Sleep]:
        while True:
            yield Sleep(self.world.random.uniform(low, high))

    # --- the scheduler ---

    def _beat(self) -> Thread:
        specs = {plan.job: plan.spec for plan in self.plans.values() if not plan.outside}
        me = Holder(self.process.name, digest_of(specs), "both", self.threads, {}, EPOCH, "")
        roster = Roster(self.ledger.carrier, self.ledger.jobs)
        while True:
            with suppress(StoreUnavailable):
                yield from roster.beat(me, specs, self.process.boot(), ttl=BEAT)
            yield Sleep(self.world.random.uniform(1.5, 2.5))

    def _schedule(self, plans: list[Plan]) -> Thread:
        seen: dict[str, Cursor] = {plan.job: Cursor() for plan in plans}
        for tick in self._ticks(0.8, 2.0):
            yield tick
            for plan in plans:
                try:
                    yield from self._look(plan, seen[plan.job])
                except StoreUnavailable:
                    continue

    def _look(self, plan: Plan, cursor: Cursor) -> Flow[None]:
        """Claim what fell due since the last look, by the missed policy."""
        yield from self.ledger.jobs.learn(plan.job)
        known = self.ledger.know.job(plan.job)
        if known is None or known.job is None:
            return
        since = max(cursor.since or known.job.floor, known.job.floor)
        now = min(self.ledger.know.now(), self.world.last_slot)
        found = due(plan.schedule, since, now, plan.missed, grace=timedelta(seconds=20))
        missed = found.skipped
        if missed is not None and known.job.firing == plan.terms.digest:
            yield from self.ledger.jobs.edit(
                plan.job, lambda job, _now: job and raise_floor(job, missed.last, missed.count, missed.reason)
            )
        wanted = [Wanted(Slot(plan.job, at), plan.terms) for at in found.slots]
        if not wanted:
            return
        replies = yield from self.ledger.claim(wanted)
        again = [want.slot.at for want, reply in zip(wanted, replies, strict=True) if self._took(plan, reply)]
        cursor.since = min(again) - timedelta(seconds=1) if again else now

    def _took(self, plan: Plan, reply: Grant | Refused) -> bool:
        """Start what was granted; whether to ask again is the answer."""
        if isinstance(reply, Grant):
            self.world.start(self.process, self._run(plan, reply))
        return isinstance(reply, Unsure | Early | Expired | Superseded)

    def _sweep(self) -> Thread:
        """Look after what is overdue: take over, retry, close as lost."""
        for tick in self._ticks(1.0, 3.0):
            yield tick
            try:
                cells = yield from self.ledger.overdue(limit=20)
                yield from self._claim_overdue(cells)
            except StoreUnavailable:
                continue

    def _claim_overdue(self, cells: list[Cell]) -> Flow[None]:
        mine = [(cell, self.plans[slot_of_cell(cell.key).job]) for cell in cells]
        if not mine:
            return
        replies = yield from self.ledger.claim(
            [Wanted(slot_of_cell(cell.key), plan.terms._replace(digest=""), known=True) for cell, plan in mine]
        )
        for (_, plan), reply in zip(mine, replies, strict=True):
            self._took(plan, reply)

    def _crontab(self, plan: Plan) -> Thread:
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

    def _fire(self, plan: Plan, at: Instant) -> Thread:
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
                    yield from self.ledger.jobs.purge(plan.job, KEEP)
                except StoreUnavailable:
                    continue

    # --- bodies ---

    def _run(self, plan: Plan, grant: Grant) -> Thread:
        run = self._begin(grant)
        if run is None:
            return
        dice = self.world.random
        left, whole = dice.uniform(*plan.body), True
        while left > 0 and whole:
            step = min(left, dice.uniform(0.2, 1.5))
            yield Sleep(step)
            left -= step
            whole = self._may_act(run)
        run.body.ended = True
        if not whole and not run.grant.ask and plan.terms.on_lost == "rerun" and dice.random() < 0.5:
            self.runs.pop(grant.key, None)  # it just stops; somebody will find it lapsed
            return
        failed = not whole or dice.random() < plan.fails
        yield from self._end(run, Outcome.FAILED if failed else Outcome.SUCCEEDED)

    def _begin(self, grant: Grant) -> Run | None:
        if not grant.trust.holds(self.process.boot()):
            return None
        run = Run(grant, self.referee.started(grant, self.process))
        self.world.faults["lock"] += grant.slot is None
        self.runs[grant.key] = run
        self.world.say(f"{self.process.name} starts {grant.key} {grant.fence}")
        return run

    def _may_act(self, run: Run) -> bool:
        if run.told or not run.grant.trust.holds(self.process.boot()):
            return False
        self.referee.acts(run.body, run.grant)
        return True

    def _end(self, run: Run, outcome: Outcome) -> Thread:
        """Say how it ended until the store has heard it; the lease is renewed meanwhile."""
        for _ in range(40):
            answer = yield from self.ledger.finish(run.grant, outcome, backoff=timedelta(seconds=1))
            self.world.say(f"{self.process.name} finish {run.grant.key} {run.grant.fence}: {answer}")
            if not isinstance(answer, Unsure):
                break
            yield Sleep(0.5)
        self.runs.pop(run.grant.key, None)

    # --- the keeper ---

    def _keep(self) -> Thread:
        while True:
            yield Sleep(min([self._interval(run.grant) for run in self.runs.values()], default=0.5))
            runs = list(self.runs.values())
            if not runs:
                continue
            replies = yield from self.ledger.renew([run.grant for run in runs])
            for run, reply in zip(runs, replies, strict=True):
                self._kept(run, reply)

    def _interval(self, grant: Grant) -> float:
        return renew_every(grant.lease, self.world.store.traits).total_seconds()

    def _kept(self, run: Run, reply: Grant | Stale | Unsure) -> None:
        if isinstance(reply, Grant):
            self.referee.trust_extended(run.body, reply)
            run.grant = reply
            run.told = run.told or bool(reply.ask)
            self.referee.acts(run.body, reply)
        elif isinstance(reply, Stale):
            run.told = True
            run.grant = run.grant._replace(trust=Trust(0.0))
            run.body.ended = True

    # --- a lock ---

    def _lock(self) -> Thread:
        dice = self.world.random
        for tick in self._ticks(2.0, 15.0):
            yield tick
            try:
                grant = yield from self.ledger.acquire(LOCK, timedelta(seconds=dice.uniform(6, 12)))
            except StoreUnavailable:
                continue
            run = self._begin(grant) if isinstance(grant, Grant) else None
            if run is None:
                continue
            yield from self._hold(run, dice.uniform(0.5, 15.0))

    def _hold(self, run: Run, seconds: float) -> Thread:
        while seconds > 0 and self._may_act(run):
            yield Sleep(1.0)
            seconds -= 1.0
        run.body.ended = True
        self.runs.pop(run.grant.key, None)
        yield from self.ledger.release([run.grant], rest=timedelta(seconds=self.world.random.choice([0, 2])))
