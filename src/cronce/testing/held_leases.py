"""What a simulated process holds: grants that are renewed, and the bodies at work under them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from typing import Final, TypeVar

from cronce.model import Fence
from cronce.protocol.commands import Finish, Release, Stale, Unsure
from cronce.protocol.lease import renew_every
from cronce.runtime.client import patience
from cronce.runtime.keeper import Lease, LeaseEnd
from cronce.runtime.ledger import Grant, Ledger, Refused, Wanted
from cronce.testing.referee import BodySeen, Referee
from cronce.testing.takeovers import RENEWAL
from cronce.testing.world import Play, SimulatedProcess, Sleep, Thread, World

RETRY: Final = 0.45
"""Seconds. A holder retries a write at least twice a second."""


ANSWER_WITHIN: Final = 0.5
"""Seconds. If a reply takes longer than this, it does not come at all."""

PATIENT: Final = patience(timedelta(seconds=12)) + RETRY + 0.1
"""Seconds. A renewal waits at most this long for an answer: no lease here is longer."""

T = TypeVar("T")


@dataclass(eq=False)
class HeldRun:
    """What is held, and the body at work under it, once it is."""

    lease: Lease
    body: BodySeen | None = None
    told: bool = False  # another process has it, or it was asked to stop
    waits: float = 0.0  # until when the answer to its renewal is waited for
    word: Finish | Release | None = None  # how it ended, until the store has answered that

    @property
    def grant(self) -> Grant:
        return self.lease.grant

    @property
    def is_stubborn(self) -> bool:
        return self.body is not None and self.body.stubborn


@dataclass(eq=False)
class HeldLeases:
    """A process of the world with its ledger, and its keeper."""

    world: World
    referee: Referee
    process: SimulatedProcess
    hit: Callable[[], None]  # it crashes, or is paused
    runs: dict[str, HeldRun] = field(default_factory=dict, init=False)
    ended: list[HeldRun] = field(default_factory=list, init=False)  # runs whose ends the scheduler is to report
    asking: dict[str, float] = field(default_factory=dict, init=False)  # since when each of its threads asks the store
    stuck: dict[str, float] = field(default_factory=dict, init=False)  # until when it waited without an answer

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.world.store.traits, self.process, self.process.name, self.nonce)

    @property
    def clock(self) -> SimulatedProcess:
        return self.process

    def peril(self, probability: float = 0.015) -> Play[None]:
        """Here it would hurt."""
        if self.world.chance(probability):
            self.hit()
            yield Sleep(0.0)

    def nonce(self) -> str:
        return f"{self.world.random.getrandbits(64):016x}"

    # --- what is held ---

    def keep(self, grant: Grant) -> Lease:
        return self.held(grant).lease

    def let_go(self, grant: Grant) -> None:
        """It is not this process's any more: it takes what it left over itself, like others."""
        run = self.runs.get(grant.key)
        if run is not None and run.grant.fence == grant.fence:  # else it was granted anew
            del self.runs[grant.key]
        self.ledger.know.let_go([grant.fence])

    def held(self, grant: Grant) -> HeldRun:
        run = self.runs[grant.key] = HeldRun(Lease(grant, self.process, lambda _over: None))
        run.lease.renew_at = self.process.boot() + self._interval(grant)
        self.referee.takeovers.holders[grant.fence] = self
        if grant.slot is not None:
            self.ledger.know.own.add(grant.fence)
        return run

    def asks(self, who: str, play: Play[T]) -> Play[T]:
        """Ask the store; whether that gets stuck is noted."""
        if who in self.asking:
            self.stuck[who] = self.world.real
        began = self.asking[who] = self.world.real
        try:
            return (yield from play)
        finally:
            if self.asking.get(who) == began:  # else another asks by now
                del self.asking[who]
                if self.world.real - began > ANSWER_WITHIN:
                    self.stuck[who] = self.world.real

    def able_since(self, who: str) -> float:
        """Since when it reaches the store, and its thread is not stuck in a call. A renewal is not stuck for longer
        than its patience."""
        pending = self.world.real - self.asking.get(who, inf)
        is_stuck = ANSWER_WITHIN < pending <= (PATIENT if who == RENEWAL else inf)
        return max(self.process.reaches_since, self.stuck.get(who, 0.0), inf if is_stuck else 0.0)

    def hung_until(self, who: str) -> float:
        """When that thread of it last came back from a call in which it was stuck."""
        return self.stuck.get(who, 0.0)

    def wants(self, key: str, fence: Fence) -> bool:
        """Whether it has a write to make for that grant, or will have."""
        run = self.runs.get(key)
        return self.process.alive and run is not None and run.grant.fence == fence and not run.told

    def begin(self, run: HeldRun) -> bool:
        grant = run.grant
        if run.told or not grant.trust.holds(self.process.boot()):
            self.let_go(grant)
            return False
        run.body = self.referee.started(grant, self.process)
        self.world.faults["lock"] += grant.slot is None
        self.world.say("{} starts {} {}", self.process.name, grant.key, grant.fence)
        return True

    def may_act(self, run: HeldRun) -> bool:
        if run.told or not run.grant.trust.holds(self.process.boot()):
            return False
        assert run.body is not None
        self.referee.acts(run.body, run.grant)
        return True

    def end(self, run: HeldRun) -> Thread:
        """Report an end alone, until the store has answered; the lease is renewed meanwhile."""
        for _ in range(100):
            yield from self.asks(run.grant.key, self.exchange([run]))
            if run.word is None:
                return
            yield Sleep(RETRY)
        self.let_go(run.grant)

    def exchange(self, ended: Sequence[HeldRun], wanted: Sequence[Wanted] = ()) -> Play[list[Grant | Refused]]:
        """Report ends and claim slots in one call. An end without an answer keeps its word, to be reported again."""
        words = [(run.grant, run.word, True) for run in ended if run.word is not None]
        answers, replies = yield from self.ledger.exchange(words, wanted)
        for run, answer in zip(ended, answers, strict=True):
            self.world.say("{} end {} {}: {}", self.process.name, run.grant.key, run.grant.fence, answer)
            if not isinstance(answer, Unsure):
                self.referee.end_answered(run.grant, answer)
                run.word = None
                self.let_go(run.grant)
        return replies

    # --- the keeper ---

    def renew(self) -> Thread:
        """Renew leases that are due, and retry soon those that got no answer, also after trust has ended. A renewal
        that hangs is not waited for."""
        while True:
            yield Sleep(RETRY)
            boot = self.process.boot()
            due = [run for run in self.runs.values() if max(run.lease.renew_at, run.waits) <= boot]
            runs = [run for run in due if not run.is_stubborn or run.lease.held_on]
            if runs:
                for run in runs:
                    run.waits = boot + patience(run.grant.lease)
                self.world.start(self.process, self._renew(runs))

    def _renew(self, runs: list[HeldRun]) -> Thread:
        self._renewing(runs, now=True)
        waits = [run.waits for run in runs]
        replies = yield from self.asks(RENEWAL, self.ledger.renew([run.grant for run in runs]))
        self._renewing(runs, now=False)
        for run, reply, waited in zip(runs, replies, waits, strict=True):
            if not isinstance(reply, Unsure):
                self._kept(run, reply)
                run.lease.renew_at = self.process.boot() + self._interval(run.grant)
            if run.waits == waited:  # else another asks by now
                run.waits = 0.0

    def _renewing(self, runs: list[HeldRun], *, now: bool) -> None:
        for run in runs:
            if run.body is not None:
                run.body.renewing, run.body.renewed = now, self.world.real

    def _interval(self, grant: Grant) -> float:
        """As the keeper does it: sooner, the less trust is left."""
        left = max(grant.trust.end - self.process.boot(), 0.0) / 3
        return min(renew_every(grant.lease, self.world.store.traits).total_seconds(), left)

    def _kept(self, run: HeldRun, reply: Grant | Stale | Unsure) -> None:
        if isinstance(reply, Grant):
            run.told = run.told or bool(reply.ask)
            if reply.trust.end < run.grant.trust.end:
                return  # it hung, and another came first
            if run.body is not None:
                self.referee.trust_extended(run.body, reply)
                self.referee.acts(run.body, reply)
            run.lease.grant = reply
        elif isinstance(reply, Stale):
            run.told = run.lease.stale = True
            run.lease.end(LeaseEnd("lost", f"{reply.by} has it"))
            if run.body is not None:
                run.body.ended = True
