"""What goes wrong in a simulated world, and when. Each kind is counted: a fault that never happens proves nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from random import Random
from typing import Final
from unittest.mock import patch

from cronce.model import Traits
from cronce.policy import Missed, OnLost, Overlap
from cronce.protocol import record
from cronce.protocol.codec import Decoder
from cronce.protocol.terms import Terms
from cronce.schedule import Every
from cronce.testing.actors import JobVersion, SimulatedNode
from cronce.testing.people import by_hand
from cronce.testing.receivers import WAYS, EffectGuard
from cronce.testing.referee import TAKEOVERS, Referee, Rules
from cronce.testing.simulated_effects import EffectPlan
from cronce.testing.world import Dump, How, SimulatedMachine, SimulatedOutage, SimulatedProcess, World

FAULT_SECONDS: Final = 70.0
"""Seconds of faults; the length of the quiet while after them depends on the longest lease."""

BACKLOG_LEASES: Final = 40
"""How many leases a backlog may take to be worked off in the quiet while."""

REFEREE_EVERY: Final = 1.0
"""Seconds between two looks of the referee."""

FORGETFUL: Final = Traits("model, can forget", durable=False, survives_failover=False)
DURABLE: Final = Traits("model, durable")

FAULTS: Final = (
    "failed call", "lost reply", "late call", "slow reply", "slow message", "hit in an effect", "session cut off",
    "database outage",
    "connections die", "crash", "pause", "suspend",
    "outage", "outage for one machine", "read-only store", "flapping store",
    "body does not stop",
    "store clock ahead", "store clock back", "store clock nudged", "store clock leaps",
    "host clock step", "store emptied",
    "old dump restored", "lagging replica promoted",
)  # fmt: skip
SITUATIONS: Final = (
    "purge", "edit", "roll-back", "two threads", "replaced", "lock", "outside trigger", "scheduler",
    "overlap=skip", "overlap=wait", "overlap=replace", "overlap=allow", "missed=skip", "missed=latest", "missed=all",
    "on_lost=skip", "on_lost=rerun", "by hand", "resolved", "key known", "lower fence refused", "lock waited for",
    "ends with claims",
)  # fmt: skip
FAULT_KINDS: Final = (*FAULTS, *SITUATIONS)


@dataclass(eq=False)
class ChaosWorld:
    """A world with its jobs and processes, and the hand that breaks things."""

    world: World
    referee: Referee
    plans: dict[str, JobVersion]
    forgets: bool
    purges: bool
    leaps: bool = False
    stubborn: Random | None = None
    nodes: list[SimulatedNode] = field(default_factory=list)
    versions: int = 1
    started: int = 0
    stepped: float = -1000.0
    dump: Dump | None = None
    replica: Dump | None = None

    # --- processes ---

    def spawn(self, machine: SimulatedMachine, plans: dict[str, JobVersion] | None = None) -> SimulatedNode:
        self.started += 1
        process = SimulatedProcess(f"{machine.name}:{self.started}", machine, self.world)
        threads = self.world.random.choice([1, 1, 2])
        if threads == 2:
            self.world.faults["two threads"] += 1
        node = SimulatedNode(
            self.world, self.referee, process, lambda: self.hit(node), plans or self.plans, threads, self.purges,
            self.stubborn,
        )  # fmt: skip
        self.nodes.append(node)
        return node

    def alive(self) -> list[SimulatedNode]:
        return [node for node in self.nodes if node.process.alive]

    # --- faults, one function each ---

    def crash(self) -> None:
        self._crash(self.world.random.choice(self.alive()))

    def _crash(self, node: SimulatedNode) -> None:
        self.world.fault("crash", node.process.name)
        node.process.alive = False
        self.world.after(self.world.random.uniform(0.5, 15), lambda: self._restart(node))

    def hit(self, node: SimulatedNode) -> None:
        """Right in the middle of an effect."""
        self.world.faults["hit in an effect"] += 1
        (self._crash if self.world.random.random() < 0.5 else self._pause)(node)

    def _restart(self, node: SimulatedNode) -> None:
        self.spawn(node.process.machine, node.plans)

    def pause(self) -> None:
        self._pause(self.world.random.choice(self.alive()))

    def _pause(self, node: SimulatedNode) -> None:
        seconds = self.world.random.uniform(1, 25)
        self.world.fault("pause", f"{node.process.name} {seconds:.1f} s")
        node.process.pause(seconds)

    def kill_connections(self) -> None:
        """A firewall drops the connections: neither side is notified."""
        node = self.world.random.choice(self.alive())
        self.world.fault("connections die", node.process.name)
        node.process.dead_lines = self.world.random.choice([1, 2, 4])

    def suspend(self) -> None:
        machine = self.world.random.choice(self.world.machines)
        seconds = self.world.random.uniform(3, 30)
        self.world.fault("suspend", f"{machine.name} {seconds:.1f} s")
        for node in self.alive():
            if node.process.machine is machine:
                node.process.pause(seconds)
        self.world.after(seconds, lambda: setattr(machine, "suspended", machine.suspended + seconds * machine.rate))

    def outage(self) -> None:
        seconds = self.world.random.uniform(1, 20)
        how: How = self.world.random.choice(["silent", "refusing", "read-only"])
        outage = SimulatedOutage(self.world.real, self.world.real + seconds, how)
        if outage.how != "read-only" and self.world.random.random() < 0.4:
            machine = self.world.random.choice(self.world.machines)
            self.world.fault("outage for one machine", f"{machine.name} {outage.how} {seconds:.1f} s")
            machine.outage = outage
        else:
            kind = "read-only store" if outage.how == "read-only" else "outage"
            self.world.fault(kind, f"{outage.how} {seconds:.1f} s")
            self.world.go_away(outage)

    def flap(self) -> None:
        """The store goes away every few seconds, for a while longer than any lease."""
        self.world.fault("flapping store")
        for _ in range(8):
            self.world.after(self.world.random.uniform(0, 60), self._flap)

    def _flap(self) -> None:
        if not self.world.calm:
            seconds = self.world.random.uniform(2.2, 5)
            self.world.say(f"FAULT away for {seconds:.1f} s")
            self.world.go_away(SimulatedOutage(self.world.real, self.world.real + seconds, "refusing"))

    def step_store_clock(self) -> None:
        """All clocks are set right. Once in a while: two steps within one lease could cancel out between two
        samples."""
        if self.world.real - self.stepped < 45 or self.forgets:
            return
        self.stepped = self.world.real
        ahead = self.world.random.random() < 0.6
        seconds = self.world.random.uniform(2, 40) if ahead else -self.world.random.uniform(2, 20)
        self.world.fault("store clock ahead" if ahead else "store clock back", f"{seconds:.1f} s")
        self.world.store_offset += seconds
        self.world.wall_offset += seconds

    def leap_store_clock(self) -> None:
        """The store's clock is wrong, for a while; no other is."""
        if self.world.real - self.stepped < 45 or self.forgets:
            return
        self.stepped = self.world.real
        dice = self.world.random
        leap = timedelta(seconds=dice.choice([10, 20, 60, 3600, 400 * 86400]) * dice.choice([-1, 1]))
        seconds = dice.uniform(1, 20)
        self.world.fault("store clock leaps", f"{leap} for {seconds:.1f} s")
        self.world.store_leap = leap
        self.world.after(seconds, self._leap_back)
        if dice.random() < 0.3:
            self.world.after(dice.uniform(0, seconds), self.edit)

    def _leap_back(self) -> None:
        self.world.store_leap = timedelta(0)

    def nudge_store_clock(self) -> None:
        """A step too small for any process's watch to notice: the margin must cover it."""
        seconds = self.world.random.uniform(-0.5, 0.5)
        self.world.fault("store clock nudged", f"{seconds:.2f} s")
        self.world.store_offset += 0.0 if self.forgets and seconds < 0 else seconds

    def step_host_clock(self) -> None:
        machine = self.world.random.choice(self.world.machines)
        self.world.fault("host clock step", machine.name)
        machine.wall_offset = timedelta(seconds=self.world.random.uniform(-0.45, 0.45))

    def forget(self) -> None:
        if not self.forgets:
            return
        how = self.world.random.choice(["store emptied", "old dump restored", "lagging replica promoted"])
        if how == "store emptied":
            self.world.fault(how)
            self.world.store.empty()
        elif self.dump is not None and self.replica is not None:
            self.world.fault(how)
            self.world.store.restore(self.dump if how == "old dump restored" else self.replica)
        self.dump = None

    def by_hand(self) -> None:
        node = self.world.random.choice(self.alive())
        self.world.start(node.process, by_hand(node))

    def edit(self) -> None:
        """A deploy: new processes carry a new version; some of the old ones stay for a while, or come back."""
        names = [name for name, plan in self.plans.items() if not plan.outside]
        if not names:
            return
        name = self.world.random.choice(names)
        self.versions += 1
        self.world.fault("edit", f"{name} v{self.versions}")
        old = self.plans[name]
        on_lost: OnLost = self.world.random.choice(["skip", "rerun"])
        terms = old.terms._replace(digest=f"v{self.versions}", on_lost=on_lost)
        plan = replace(old, terms=terms, schedule=_period(self.world))
        self.referee.rules[name].schedules[plan.terms.digest] = plan.schedule
        before, self.plans = self.plans, {**self.plans, name: plan}
        new = self.spawn(self.world.random.choice(self.world.machines))
        if self.world.random.random() < 0.4:
            self.world.after(self.world.random.uniform(3, 20), lambda: self._roll_back(new, before))
        else:
            self.world.after(self.world.random.uniform(1, 20), lambda: self._retire(before))

    def _roll_back(self, node: SimulatedNode, plans: dict[str, JobVersion]) -> None:
        self.world.fault("roll-back")
        for other in self.alive():
            if other.plans is node.plans:
                other.process.alive = False
        self.plans = plans
        self.spawn(node.process.machine, plans)

    def _retire(self, plans: dict[str, JobVersion]) -> None:
        for node in self.alive():
            if node.plans is plans:
                node.process.alive = False
        if not self.alive():
            self.spawn(self.world.machines[0])

    # --- the hand ---

    def torment(self) -> None:
        """One fault, then the next, until the world is calm."""
        if self.world.calm:
            return
        dice = self.world.random
        self.replica = self.world.store.dump()
        if self.dump is None and dice.random() < 0.5:
            self.dump = self.replica
        acts: list[tuple[int, Callable[[], None]]] = [
            (5, self.crash), (5, self.pause), (2, self.suspend), (4, self.outage), (1, self.flap),
            (2, self.kill_connections),
            (3, self.step_store_clock), (5, self.nudge_store_clock), (1, self.step_host_clock), (3, self.forget),
            (1, self.edit), (4, self.by_hand),
        ]  # fmt: skip
        if self.leaps:
            acts.append((6, self.leap_store_clock))
        if self.alive():
            weights, actions = zip(*acts, strict=True)
            dice.choices(actions, weights)[0]()
        self.world.after(dice.expovariate(1 / 6.0), self.torment)

    def tick(self) -> None:
        """The referee checks which runs still wait for a process."""
        self.referee.takeovers.look(self.alive(), REFEREE_EVERY)
        self.world.after(REFEREE_EVERY, self.tick)

    def calm_down(self) -> None:
        """No more faults: paused processes wake in a while, and at least one process carries the latest version."""
        self.world.calm = True
        self._leap_back()
        real = self.world.real
        self.world.outage = self.world.outage.over_by(real)
        for machine in self.world.machines:
            machine.outage = machine.outage.over_by(real)
        if not any(node.plans is self.plans for node in self.alive()):
            self.spawn(self.world.machines[0])


def _period(world: World) -> Every:
    return Every(timedelta(seconds=world.random.choice([5, 7, 10, 15])))


def _plan(world: World, name: str) -> JobVersion:
    dice = world.random
    schedule = _period(world)
    period = schedule.span.total_seconds()
    overlap: Overlap = dice.choice(["skip", "wait", "replace", "allow"])
    missed: Missed = dice.choice(["skip", "latest", "all"])
    if missed == "all" and overlap == "skip":
        overlap = "wait"  # a backlog waits for the turn
    on_lost: OnLost = dice.choice(["skip", "rerun"])
    outside = dice.random() < 0.3
    queues = overlap == "wait" or missed == "all"
    terms = Terms(
        lease=timedelta(seconds=dice.choice([6, 8, 12])),
        on_lost=on_lost,
        overlap=overlap,
        turns=dice.choice([1, 1, 2]),
        attempts=1 if overlap == "replace" else dice.choice([1, 1, 2, 3]),
        start_within=None if queues or dice.random() < 0.5 else schedule.span,
        digest="" if outside else "v1",
        outside=outside,
    )
    habit = _habit(world, exclusive=terms.limit == 1)
    terms = terms._replace(joined=habit.way is EffectGuard.JOINED)
    body = (0.1, period * 0.4) if queues else (0.1, period * dice.choice([0.5, 1.5, 2.5]))
    return JobVersion(name, schedule, terms, missed, body, dice.choice([0.0, 0.2]), outside, habit)


def _habit(world: World, *, exclusive: bool) -> EffectPlan:
    dice = world.random
    way = dice.choice([way for way in WAYS if exclusive or way is not EffectGuard.FENCE])
    return EffectPlan(
        way, dice.choice([1, 1, 2, 3]), at_once=dice.random() < 0.5, cursor=exclusive and dice.random() < 0.3
    )


SLOTS_PER_JOB: Final = 20
OF_THINGS: Final = 16
"""Of so many worlds this one is about things: all its jobs come by the same ones, slot after slot."""


def _on_things(plan: JobVersion) -> JobVersion:
    habit = EffectPlan(EffectGuard.THING, max(2, plan.habit.number))
    return replace(plan, habit=habit, terms=plan.terms._replace(joined=False))


def stage(seed: int) -> ChaosWorld:
    """A world from a seed: which store, which jobs, which processes, and which faults."""
    forgets = seed % 4 == 3
    world = World(seed, FORGETFUL if forgets else DURABLE)
    plans = {name: _plan(world, name) for name in ["a", "b"][: world.random.choice([1, 2])]}
    if seed % SLOTS_PER_JOB == OF_THINGS:
        plans = {name: _on_things(plan) for name, plan in plans.items()}
    rules = {
        name: Rules(plan.terms.limit, {} if plan.outside else {plan.terms.digest: plan.schedule}, plan.habit)
        for name, plan in plans.items()
    }
    for plan in plans.values():
        policies = (f"overlap={plan.terms.overlap}", f"missed={plan.missed}", f"on_lost={plan.terms.on_lost}")
        world.faults.update([*policies, "outside trigger" if plan.outside else "scheduler"])
    stubborn = Random(seed) if seed % 10 == 6 else None
    stage = ChaosWorld(world, Referee(world, rules), plans, forgets, seed % 5 == 0, seed % 8 == 6, stubborn)
    machines = [world.machine(f"m{number}") for number in range(world.random.choice([2, 3]))]
    for machine in machines:
        stage.spawn(machine)
    world.after(world.random.uniform(2, 8), stage.torment)
    world.after(REFEREE_EVERY, stage.tick)
    return stage


def length(stage: ChaosWorld) -> float:
    """Purging takes a minute from announcing to deleting, so those worlds last longer."""
    return FAULT_SECONDS + (70.0 if stage.purges else 0.0)


def play(seed: int) -> ChaosWorld:
    """Play one seed to its end; raises `Violation` when a promise is broken."""
    scene = stage(seed)
    play_out(scene)
    return scene


def play_out(scene: ChaosWorld) -> None:
    """A while of faults, a quiet while, and the referee's last look. Each text that a cell holds is decoded once,
    however many processes read it."""
    once = patch.object(Decoder, "__call__", lru_cache(4096)(Decoder.__call__))
    try:
        with once, patch.object(record, "MOST_LAPSED", TAKEOVERS):
            _play_out(scene)
    finally:
        scene.world.end()


def _play_out(scene: ChaosWorld) -> None:
    world = scene.world
    world.run(length(scene))
    scene.calm_down()
    world.last_slot = world.store_now()
    longest = max(plan.terms.lease.total_seconds() for plan in scene.plans.values())
    world.run(world.real + 4 * longest + 60)
    for _ in range(BACKLOG_LEASES):
        if scene.referee.all_closed():
            break
        world.run(world.real + longest)
    scene.referee.check_end(world.last_slot)
