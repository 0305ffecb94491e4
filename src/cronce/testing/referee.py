"""The referee: watches a world and reports when a promise was broken. It sees everything at once, as no process can."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from cronce.model import Cell, Fence, Instant, Mark, Slot, Write, slot_of_cell
from cronce.protocol.commands import Answer, Finished
from cronce.protocol.lease import FACTS_AGE, renew_every
from cronce.protocol.notices import decode_position
from cronce.protocol.record import LAPSED, Job, Outcome, Record, State, decode_job, effects_key
from cronce.protocol.record import decode as decode_record
from cronce.protocol.store_clock import HARMLESS_ERROR
from cronce.runtime.client import Knowledge
from cronce.runtime.ledger import Grant
from cronce.schedule import Schedule
from cronce.stores.base import Swapped
from cronce.testing.database import SimulatedDatabase
from cronce.testing.receivers import EffectGuard, Figures, Receivers
from cronce.testing.simulated_effects import DONE_TO_THINGS, MESSAGE_TTL, EffectPlan
from cronce.testing.takeovers import RENEWAL, Takeovers
from cronce.testing.world import WORLD_TIMEOUT, SimulatedProcess, World

STALE_FACTS_LIMIT: Final = 2 * FACTS_AGE.total_seconds() + WORLD_TIMEOUT
"""How long a claim may rest on facts that have changed: their age, and as much again for a clock that steps back."""


decode = lru_cache(1000)(decode_record)
"""Whatever is written is read as the next one's past."""

LEAP: Final = HARMLESS_ERROR + timedelta(seconds=30)
"""A clock that is off by more has leapt, and every process knows: also one that has just begun."""

TAKEOVERS: Final = 3
"""How many holders of a slot may die one after the other before it is closed: fewer here, since a history is short."""

NUDGES: Final = timedelta(seconds=3)
"""By how much the store's clock may be nudged back within a few seconds."""


@dataclass(eq=False)
class BodySeen:
    """A body that was started: while it trusts its grant it may act, unless it has ended or its process has died."""

    grant: Grant
    process: SimulatedProcess
    ended: bool = False
    making: str = ""  # the step that it is at
    stubborn: bool = False  # it was asked to stop, and goes on
    renewing: bool = False  # its process asks for its lease just now
    renewed: float = 0.0  # when it last did

    def acting(self) -> bool:
        return not self.ended and self.process.alive and self.grant.trust.holds(self.process.boot())

    def __str__(self) -> str:
        return f"{self.process.name} under {self.grant.fence}"


class HandledMessage(NamedTuple):
    """Until when it is known that a message was handled, and when that was."""

    until: Instant
    real: float


@dataclass
class Rules:
    """What the referee has to know of a job."""

    turns: int
    schedules: dict[str, Schedule]  # by the digest of the version; empty when only outside triggers fire it
    habit: EffectPlan


class Violation(AssertionError):
    """A promise was broken."""


class Referee:
    def __init__(self, world: World, rules: dict[str, Rules]) -> None:
        self.world = world
        self.rules = rules
        self.bodies: dict[str, list[BodySeen]] = defaultdict(list)
        self.fences: dict[str, Fence] = {}
        self.granted: dict[Fence, Record] = {}
        self.failures: dict[str, int] = defaultdict(int)
        self.purged: set[str] = set()
        self.registered: dict[str, Instant] = {}
        self.floors: dict[str, list[tuple[float, Instant]]] = defaultdict(list)
        self.firing: dict[str, list[tuple[float, str]]] = defaultdict(list)
        self.carries: dict[str, dict[str, str]] = {}
        self.knows: dict[str, Knowledge] = {}
        joined = any(rule.habit.way is EffectGuard.JOINED for rule in rules.values())
        self.takeovers = Takeovers(world, self.broken, asks_database=joined)
        self.succeeded: set[str] = set()
        self.forgot = False
        self.lives = 0
        self.rounds: Counter[str] = Counter()  # how often a message may have been handled, by the record
        self.messages: dict[Fence, str] = {}
        self.handled: dict[str, HandledMessage] = {}
        self.receivers = Receivers(world, self.broken)
        self.receivers.unordered = {job for job, rule in rules.items() if rule.turns != 1}
        self.server = SimulatedDatabase(world, self.receivers.happens)
        world.store.watch = self.saw_swap
        world.store.purged = self.saw_purge
        world.store.forgot = self.saw_loss

    def broken(self, promise: str, facts: str) -> None:
        raise Violation(f"{promise}: {facts}")

    # --- what the store did ---

    def saw_swap(self, writes: Sequence[Write], swapped: Swapped, before: dict[str, Cell]) -> None:
        shelf = dict(before)
        for write, verdict in zip(writes, swapped.verdicts, strict=True):
            if verdict.refused is None:
                self._saw_write(write, shelf[write.key], verdict.cell, self.world.right_now())
                shelf[write.key] = verdict.cell

    def _saw_write(self, write: Write, old: Cell, new: Cell, now: Instant) -> None:
        kind = write.key.partition("/")[0]
        if kind == "job":
            self._saw_job(old, new, now)
        elif kind == "cursor":
            self._saw_cursor(old, new)
        elif kind in ("run", "lock", "once", "effect"):
            was = decode(old.value) if old.version else None
            record = decode(new.value)
            if write.grant:
                self._saw_grant(old, new, record, now)
            if kind == "once" and record.succeeded:
                self.handled[new.key] = HandledMessage(self._known_until(new, now), self.world.real)
            if kind == "run":
                self._saw_run(was, record, new)
                if was is not None and was.is_running:
                    self.takeovers.saw(old, record)

    def _saw_job(self, old: Cell, new: Cell, now: Instant) -> None:
        name, job = new.key.removeprefix("job/"), decode_job(new.value)
        was = decode_job(old.value) if old.version else None
        if job.floor > now + LEAP and not self.world.faults["store clock back"]:
            self.broken("no floor by a clock that leapt", f"{new.key} to {job.floor}, now {now}")
        if was is None:
            self.registered[name] = job.floor
        elif was.floor > job.floor:
            self.broken("a floor never falls", f"{new.key} to {job.floor}")
        if was is None or was.firing != job.firing:
            self.firing[name].append((self.world.real, job.firing))
            edited = was is not None and was.firing and not self._alike(name, was.firing, job.firing)
            if edited and job.floor < now - FACTS_AGE - self._believable():
                self.broken("an edit raises the floor to now", f"{new.key}: floor {job.floor}, now {now}")
        self.floors[name].append((self.world.real, job.floor))

    def _believable(self) -> timedelta:
        """By how much a process that has just begun may take the store's clock to be right, and be wrong."""
        leap = abs(self.world.store_leap)
        return leap if leap < HARMLESS_ERROR else timedelta(0)

    def _saw_grant(self, old: Cell, new: Cell, record: Record, now: Instant) -> None:
        assert new.fence is not None
        self.granted[new.fence] = record
        self.receivers.orders[new.fence] = len(self.granted)
        for scope in self._scopes(new.key):
            if scope in self.fences and self.fences[scope] >= new.fence:
                self.broken("fences rise", f"{scope}: {new.fence} after {self.fences[scope]}")
            self.fences[scope] = new.fence
        if new.key.startswith("effect/"):
            self._saw_step(new, record, now)
        if new.key.startswith("once/"):
            self._saw_message(new, record, now)
        if not new.key.startswith("run/"):
            return
        slot = slot_of_cell(new.key)
        if self.world.store_now() < slot.at:
            self.broken("no slot before its instant", f"{new.key} at {now}")
        self._check_renewed(old)
        if [past.end for past in record.past[-TAKEOVERS - 1 :]] == [LAPSED] * (TAKEOVERS + 1):
            self.broken("a slot that its holders die with is closed", f"{new.key} by {record.holder}")
        if 0 < old.version <= self.world.store.dump()[1].base:
            self.broken("what the store forgot is not granted again", f"{new.key} by {record.holder}")
        if not old.version:
            self._check_floor(new.key, slot)
            self._check_version(new.key, slot, record)

    def _saw_cursor(self, old: Cell, new: Cell) -> None:
        if old.version and decode_position(old.value).fence > decode_position(new.value).fence:
            self.broken("a cursor never goes back", f"{new.key} from {old.value} to {new.value}")

    def _saw_step(self, cell: Cell, record: Record, now: Instant) -> None:
        """A step is begun by a run that is on record as running, unless the clock was set back."""
        if self.forgot or self.world.faults["store clock back"] or self.world.faults["store clock leaps"]:
            return
        assert record.under is not None
        run, fence = record.under
        (found,) = self.world.store.load([run]).cells
        in_time = found.until is not None and now < found.until + NUDGES
        live = found.version and found.fence == fence and in_time
        if not live or not decode(found.value).is_running:
            self.broken("a step is begun within the lease of its run", f"{cell.key} by {record.under}")

    def _saw_message(self, new: Cell, record: Record, now: Instant) -> None:
        """It may happen anew when it is known for long enough that it was done. A process whose first reading of the
        store's clock came in a small leap believes that."""
        assert new.fence is not None
        done = self.handled.pop(new.key, None)
        early = self._believable() if self.knows[record.holder].doubt is None else timedelta(0)
        if done is not None and (now + early >= done.until or self._has_passed(MESSAGE_TTL, done.real)):
            self.rounds[new.key] += 1
        self.messages[new.fence] = f"{new.key}, {self.lives}, {self.rounds[new.key]}"

    def _known_until(self, cell: Cell, now: Instant) -> Instant:
        """Until when it is known that it was done: for less, if the store's clock leapt back by little just before."""
        if cell.until is None or not timedelta(0) < -self.world.store_leap < HARMLESS_ERROR:
            return now + MESSAGE_TTL
        return min(cell.until, now + MESSAGE_TTL)

    def _has_passed(self, span: timedelta, since: float) -> bool:
        """Also if the clock was set back since."""
        return (self.world.real - since) * self.world.store_rate >= span.total_seconds()

    def message(self, fence: Fence) -> str:
        """Which of the times that a message may be handled this is."""
        return self.messages[fence]

    def _scopes(self, key: str) -> list[str]:
        if not key.startswith("run/"):
            return [key]
        job = slot_of_cell(key).job
        return [key, job] if self.rules[job].turns == 1 else [key]

    def _check_floor(self, key: str, slot: Slot) -> None:
        if key in self.purged:
            self.broken("a purged slot stays closed", key)
        for raised, floor in self.floors[slot.job]:
            if slot.at <= floor and self.world.real - raised > STALE_FACTS_LIMIT:
                self.broken("floors hold", f"{key} was granted, the floor {floor} stood since {raised:.1f} s")

    def _check_version(self, key: str, slot: Slot, record: Record) -> None:
        """Only a version with the schedule that fires, or fired until a moment ago, starts a slot; any, where none
        was registered until a moment ago, as in a store that was emptied."""
        digest = self.carries.get(record.holder, {}).get(slot.job, "")
        fired = self.firing[slot.job]
        ends = [*(real for real, _ in fired[1:]), self.world.real]
        pairs = zip(fired, ends, strict=True)
        recent = sorted({firing for (_, firing), end in pairs if self.world.real - end <= STALE_FACTS_LIMIT})
        if digest and "" not in recent and not any(self._alike(slot.job, digest, firing) for firing in recent):
            self.broken("the newest live version fires", f"{key} by {record.holder} with {digest}, firing {recent}")

    def _alike(self, name: str, one: str, other: str) -> bool:
        schedules = self.rules[name].schedules
        return one == other or schedules.get(one) == schedules.get(other)

    def _saw_run(self, was: Record | None, record: Record, cell: Cell) -> None:
        if was is not None and was.state is State.CLOSED:
            self.broken("closed once", f"{cell.key} was {was.outcome}, then {record.state} {record.outcome}")
        if record.outcome is Outcome.LOST:
            self._check_nobody_acts(cell.key, "the living are not closed as lost")
            self._check_renewed(cell)
        if record.succeeded:
            self._saw_success(cell.key, record)
        if record.state is State.RETRYING:
            self.failures[cell.key] += 1
        if record.ask:
            self.world.faults["replaced"] += 1

    def _saw_success(self, cell: str, record: Record) -> None:
        slot = slot_of_cell(cell)
        habit, key = self.rules[slot.job].habit, effects_key(record, slot)
        self.succeeded.add(key)
        self.receivers.check_whole(habit.way, habit.items(key))

    def saw_purge(self, keys: Sequence[str]) -> None:
        self.purged.update(keys)
        self.world.faults["purge"] += bool(keys)

    def saw_loss(self) -> None:
        """The store is not what it was: the version that fires is the one it now knows."""
        self.forgot = True
        self.rounds.clear()
        self.lives += 1
        for cell in self.world.store.cells("job/"):
            self.firing[cell.key.removeprefix("job/")].append((self.world.real, decode_job(cell.value).firing))

    # --- what the bodies did ---

    def started(self, grant: Grant, process: SimulatedProcess) -> BodySeen:
        body = BodySeen(grant, process)
        new = NUDGES if abs(self.world.store_leap) > HARMLESS_ERROR else LEAP
        if grant.slot is not None and self.world.right_now() < grant.slot.at - new:
            self.broken("no slot starts before its instant", f"{grant.key} at {self.world.right_now()}")
        self._check_nobody_acts(grant.key, "one run trusts a slot at a time")
        self._check_starts(body)
        self.bodies[grant.key].append(body)
        if grant.slot is not None:
            self.receivers.began(effects_key(grant.record, grant.slot), grant.fence)
        self._check_turns(body)
        return body

    def acts(self, body: BodySeen, grant: Grant) -> None:
        """A body that trusts its grant does something, or its trust was extended."""
        body.grant = grant
        if body.acting():
            self._check_nobody_acts(grant.key, "one run trusts a slot at a time", but=body)
            self._check_turns(body)
            if any(other.grant.fence > grant.fence for other in self.bodies[grant.key]):
                self.broken("an overtaken run does not act", f"{grant.key}: {body}")

    def end_answered(self, grant: Grant, answer: Answer) -> None:
        """An end that its process no longer reports is on record: as the store confirmed it, or under another process.
        A store that lost data since may not have it."""
        loaded = self.world.store.load([grant.key])
        (cell,) = loaded.cells
        if grant.birth != loaded.epoch.birth or not cell.version:
            return
        record, is_wrong = decode(cell.value), False
        is_last = cell.fence == grant.fence
        if isinstance(answer, Finished):
            ended = record.state is State.RETRYING if answer.retrying else record.outcome is answer.outcome
            lapsed = any(past.fence == grant.fence and past.end == LAPSED for past in record.past)
            is_wrong = lapsed or (is_last and not ended)
        if is_wrong or (is_last and record.is_running):
            facts = f"{grant.key} {grant.fence}: {answer}, but it is {record.state} {record.outcome or ''}"
            self.broken("an end that was answered is on record", facts)

    def makes(self, body: BodySeen, item: str) -> None:
        """A body makes a step, or has made it."""
        body.making = item
        if not item:
            return
        for others in self.bodies.values():
            for other in others:
                if other is not body and other.making == item and other.acting():
                    self.broken("a step is at one run at a time", f"{item}: {body} and {other}")

    def trust_extended(self, body: BodySeen, grant: Grant) -> None:
        boot = body.process.boot()
        if grant.trust.holds(boot) and not body.grant.trust.holds(boot):
            self.broken("trust never returns", f"{grant.key}: {body}")

    def _check_nobody_acts(self, key: str, promise: str, but: BodySeen | None = None) -> None:
        for other in self.bodies[key]:
            if other is not but and other.acting():
                self.broken(promise, f"{key}: {other} acts too")

    def _check_renewed(self, run: Cell) -> None:
        """A run that does not stop may lapse all the same, if its process is cut off; but not because its process stops
        renewing."""
        for body in self.bodies[run.key]:
            every = renew_every(body.grant.lease, self.world.store.traits).total_seconds() * 1.1 + 0.5
            holder = self.takeovers.holders[body.grant.fence]
            able = self.world.real > holder.able_since(RENEWAL) + every
            awake = body.process.alive and not self.world.calm and able
            lately = body.renewing or self.world.real <= body.renewed + every
            runs = body.stubborn and not body.ended and body.grant.fence == run.fence
            if runs and awake and not lately:
                self.broken("what does not stop keeps its turn", f"{run.key}: {body}, renewed at {body.renewed:.1f}")

    def _check_starts(self, body: BodySeen) -> None:
        """After a grant under skip, another start needs a failure on record; and each start needs its own grant."""
        key, earlier = body.grant.key, self.bodies[body.grant.key]
        once = [other for other in earlier if self.granted[other.grant.fence].on_lost == "skip"]
        if len(once) > self.failures[key]:
            self.broken("with skip nothing runs twice", f"{key}: {body} after {once[-1]}")
        if any(other.grant.fence == body.grant.fence for other in earlier):
            self.broken("a start needs a grant of its own", f"{key}: {body}")

    def _check_turns(self, body: BodySeen) -> None:
        slot = body.grant.slot
        if slot is None or not self.rules[slot.job].turns:
            return
        prefix = f"run/{slot.job}/"
        acting = [
            one for key, bodies in self.bodies.items() if key.startswith(prefix) for one in bodies if one.acting()
        ]
        if len(acting) > self.rules[slot.job].turns:
            self.broken("turns are never exceeded", ", ".join(f"{one.grant.key} by {one}" for one in acting))

    # --- at the end ---

    def all_closed(self) -> bool:
        return all(decode(cell.value).is_closed for cell in self.world.store.cells("run/"))

    def check_end(self, upto: Instant) -> None:
        """After a quiet while: every slot is closed, or its absence is on record."""
        runs = {cell.key: decode(cell.value) for cell in self.world.store.cells("run/")}
        for key, record in runs.items():
            if not record.is_closed:
                self.broken("nothing stays open", f"{key}: {record.state} by {record.holder}")
        for cell in self.world.store.cells("job/"):
            rules = self.rules[cell.key.removeprefix("job/")]
            if rules.schedules:
                self._check_none_missed(cell.key.removeprefix("job/"), decode_job(cell.value), runs, upto)
        if not self.forgot:
            self._check_committed()
            self._check_steps()

    def _check_committed(self) -> None:
        """What was committed is on record as succeeded."""
        for key in sorted(self._committed() - self.succeeded):
            self.broken("what is committed is on record", key)

    def _committed(self) -> set[str]:
        return {slot for (slot, step), line in self.server.lines.items() if line.done and not step}

    def _check_steps(self) -> None:
        """A step that happened is never recorded as one that did not."""
        done = self.receivers.ledgers[EffectGuard.STEP].times
        for cell in self.world.store.cells("effect/"):
            job, at, number = cell.key.removeprefix("effect/").split("/")
            item, record = f"{job}@{at}/{number}", decode(cell.value)
            if done[item] and record.state in (State.DUE, State.RETRYING) and item not in self.receivers.wanted_again:
                self.broken("no step that happened is on record as not done", f"{cell.key} is {record.state}")
        for cell in [cell for what in DONE_TO_THINGS for cell in self.world.store.cells(f"once/{what}/")]:
            item, state = cell.key.removeprefix("once/"), decode(cell.value).state
            happened = self.receivers.ledgers[EffectGuard.THING].times[item] and item not in self.receivers.wanted_again
            if happened and state in (State.DUE, State.RETRYING):
                self.broken("no step that happened is on record as not done", f"{cell.key} is {state}")

    def counted(self) -> Figures:
        """The figures of all ways to make an effect."""
        lost: Counter[EffectGuard] = Counter()
        for key in self.succeeded:
            habit = self.rules[key.partition("@")[0]].habit
            lost[habit.way] += sum(not self.receivers.ledgers[habit.way].times[item] for item in habit.items(key))
        lost[EffectGuard.JOINED] += 0 if self.forgot else len(self._committed() - self.succeeded)
        return self.receivers.counted(lost, self._in_doubt())

    def _in_doubt(self) -> Counter[EffectGuard]:
        """What waits for a person, by the record."""
        found: Counter[EffectGuard] = Counter()
        for cell in [*self.world.store.cells("effect/"), *self.world.store.cells("once/")]:
            if cell.mark is Mark.ATTENTION:
                kind, name, _ = cell.key.split("/", 2)
                keyed = EffectGuard.THING if name in DONE_TO_THINGS else EffectGuard.MESSAGE
                found[self.rules[name].habit.way if kind == "effect" else keyed] += 1
        return found

    def _check_none_missed(self, name: str, job: Job, runs: dict[str, Record], upto: Instant) -> None:
        """Every slot of the version that fires has a record of its own, was purged, or lies in a span on record."""
        schedule = self.rules[name].schedules[job.firing]
        known_upto = self.world.store.dump()[1].since
        at = schedule.next(self.registered[name])
        while at is not None and at <= upto:
            key = Slot(name, at).cell
            spanned = any(span.start < at <= span.end for span in job.spans) or (known_upto and at <= known_upto)
            if key not in runs and key not in self.purged and not spanned:
                self.broken("nothing is missed", f"{key} has no record; floor {job.floor}, spans {job.spans}")
            at = schedule.next(at)
