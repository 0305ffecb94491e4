"""The referee: watches a world and says when a promise was broken. It sees everything at once, as no process can."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from cronce.model import Cell, Fence, Instant, Slot, Write, slot_of_cell
from cronce.policy import OnLost
from cronce.protocol.lease import FACTS_AGE
from cronce.protocol.record import Job, Outcome, Record, State, decode, decode_job
from cronce.runtime.ledger import Grant
from cronce.schedule import Schedule
from cronce.stores.base import Swapped
from cronce.testing.world import Process, World


@dataclass(eq=False)
class Body:
    """A body that was started: while it trusts its grant it may act, unless it has ended or its process has died."""

    key: str
    fence: Fence
    process: Process
    trusts_until: float  # in real time, by the machine's own clock
    ended: bool = False

    def acting(self, real: float) -> bool:
        return not self.ended and self.process.alive and real < self.trusts_until


@dataclass
class Rules:
    """What the referee has to know of a job."""

    turns: int
    on_lost: OnLost
    schedules: dict[str, Schedule]  # by the digest of the version; empty when only outside triggers fire it


class Violation(AssertionError):
    """A promise was broken."""


class Referee:
    def __init__(self, world: World, rules: dict[str, Rules]) -> None:
        self.world = world
        self.rules = rules
        self.bodies: dict[str, list[Body]] = defaultdict(list)
        self.fences: dict[str, Fence] = {}
        self.purged: set[str] = set()
        self.floors: dict[str, list[tuple[float, Instant]]] = defaultdict(list)
        self.failures: dict[str, int] = defaultdict(int)
        self.starts: dict[str, int] = defaultdict(int)
        self.grants: dict[str, int] = defaultdict(int)
        world.store.watch = self.saw_swap
        world.store.purged = self.saw_purge

    def broken(self, promise: str, facts: str) -> None:
        raise Violation(f"{promise}: {facts}")

    # --- what the store did ---

    def saw_swap(self, writes: Sequence[Write], swapped: Swapped, before: dict[str, Cell]) -> None:
        shelf = dict(before)
        for write, verdict in zip(writes, swapped.verdicts, strict=True):
            if verdict.refused is None:
                self._saw_write(write, shelf[write.key], verdict.cell, swapped.now)
                shelf[write.key] = verdict.cell

    def _saw_write(self, write: Write, old: Cell, new: Cell, now: Instant) -> None:
        kind = write.key.partition("/")[0]
        if kind == "job":
            self._saw_job(old, new)
        elif kind in ("run", "lock"):
            was = decode(old.value) if old.version else None
            record = decode(new.value)
            if write.grant:
                self._saw_grant(old, new, was, now)
            if kind == "run":
                self._saw_run(was, record, new)

    def _saw_job(self, old: Cell, new: Cell) -> None:
        floor = decode_job(new.value).floor
        if old.version and decode_job(old.value).floor > floor:
            self.broken("a floor never falls", f"{new.key} to {floor}")
        self.floors[new.key.removeprefix("job/")].append((self.world.real, floor))

    def _saw_grant(self, old: Cell, new: Cell, was: Record | None, now: Instant) -> None:
        assert new.fence is not None
        self.grants[new.key] += 1
        if was is not None and was.state is State.CLOSED:
            self.broken("closed once", f"{new.key} was granted after {was.outcome}")
        for scope in self._scopes(new.key):
            if scope in self.fences and self.fences[scope] >= new.fence:
                self.broken("fences rise", f"{scope}: {new.fence} after {self.fences[scope]}")
            self.fences[scope] = new.fence
        if not new.key.startswith("run/"):
            return
        slot = slot_of_cell(new.key)
        if now < slot.at:
            self.broken("no slot before its instant", f"{new.key} at {now}")
        if not old.version:
            self._check_floor(new.key, slot)

    def _scopes(self, key: str) -> list[str]:
        if not key.startswith("run/"):
            return [key]
        job = slot_of_cell(key).job
        return [key, job] if self.rules[job].turns == 1 else [key]

    def _check_floor(self, key: str, slot: Slot) -> None:
        if key in self.purged:
            self.broken("a purged slot stays closed", key)
        patience = 2 * FACTS_AGE.total_seconds() + 5.0
        for raised, floor in self.floors[slot.job]:
            if slot.at <= floor and self.world.real - raised > patience:
                self.broken("floors hold", f"{key} was granted, the floor {floor} stood since {raised:.1f} s")

    def _saw_run(self, was: Record | None, record: Record, cell: Cell) -> None:
        if was is not None and was.state is State.CLOSED:
            self.broken("closed once", f"{cell.key} was {was.outcome}, then {record.state} {record.outcome}")
        if record.outcome is Outcome.LOST:
            self._check_nobody_acts(cell.key, "the living are not closed as lost")
        if record.state is State.RETRYING:
            self.failures[cell.key] += 1

    def saw_purge(self, keys: Sequence[str]) -> None:
        self.purged.update(keys)

    # --- what the bodies did ---

    def started(self, grant: Grant, process: Process) -> Body:
        body = Body(grant.key, grant.fence, process, process.machine.real_at(grant.trust.end))
        self._check_nobody_acts(grant.key, "one run trusts a slot at a time")
        self.starts[grant.key] += 1
        if grant.slot is not None:
            self._check_starts(grant)
        self.bodies[grant.key].append(body)
        self._check_turns(grant)
        return body

    def extended(self, body: Body, grant: Grant) -> None:
        body.trusts_until = body.process.machine.real_at(grant.trust.end)
        if body.acting(self.world.real):
            self._check_nobody_acts(grant.key, "one run trusts a slot at a time", but=body)
            self._check_turns(grant)

    def _check_nobody_acts(self, key: str, promise: str, but: Body | None = None) -> None:
        for other in self.bodies[key]:
            if other is not but and other.acting(self.world.real):
                self.broken(
                    promise, f"{key}: {other.process.name} under {other.fence} until {other.trusts_until:.3f} s"
                )

    def _check_starts(self, grant: Grant) -> None:
        """Under skip a slot starts once, and again only after a failure that is on record."""
        assert grant.slot is not None
        rules = self.rules[grant.slot.job]
        starts, failures = self.starts[grant.key], self.failures[grant.key]
        if rules.on_lost == "skip" and starts > 1 + failures:
            self.broken("with skip nothing runs twice", f"{grant.key}: {starts} starts, {failures} failures")
        if starts > self.grants[grant.key]:
            self.broken("a start needs a grant", f"{grant.key}: {starts} starts, {self.grants[grant.key]} grants")

    def _check_turns(self, grant: Grant) -> None:
        if grant.slot is None or not self.rules[grant.slot.job].turns:
            return
        prefix = f"run/{grant.slot.job}/"
        acting = [
            body
            for key, bodies in self.bodies.items()
            if key.startswith(prefix)
            for body in bodies
            if body.acting(self.world.real)
        ]
        if len(acting) > self.rules[grant.slot.job].turns:
            keys = ", ".join(f"{body.key} by {body.process.name}" for body in acting)
            self.broken("turns are never exceeded", keys)

    # --- at the end ---

    def check_end(self, upto: Instant) -> None:
        """After a quiet while: every slot is closed, or its absence is on record."""
        runs = {cell.key: decode(cell.value) for cell in self.world.store.cells("run/")}
        for key, record in runs.items():
            if record.state is not State.CLOSED:
                self.broken("nothing stays open", f"{key}: {record.state} by {record.holder}")
        for cell in self.world.store.cells("job/"):
            rules = self.rules[cell.key.removeprefix("job/")]
            if rules.schedules:
                self._check_none_missed(cell.key.removeprefix("job/"), decode_job(cell.value), runs, upto)

    def _check_none_missed(self, name: str, job: Job, runs: dict[str, Record], upto: Instant) -> None:
        """Every slot of the version that fires has a record of its own, was purged, or lies in a span on record."""
        schedule = self.rules[name].schedules[job.firing]
        known_upto = self.world.store.dump()[1].since
        at = schedule.next(job.spans[0].start if job.spans else job.floor)
        while at is not None and at <= upto:
            key = Slot(name, at).cell
            spanned = any(span.start < at <= span.end for span in job.spans) or (known_upto and at <= known_upto)
            if key not in runs and key not in self.purged and not spanned:
                self.broken("nothing is missed", f"{key} has no record; floor {job.floor}, spans {job.spans}")
            at = schedule.next(at)
