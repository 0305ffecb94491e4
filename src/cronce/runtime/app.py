"""`Cronce`: what a user holds in hand. It makes guards, locks, leaders and a scheduler, and the work is done by those.
Nothing is opened before something is asked of the store."""

import atexit
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Never, TypeVar, Unpack, cast

from cronce.clock import Clock, SystemClock
from cronce.errors import BadInput, BadPolicy, StoreError, tell
from cronce.events import Event
from cronce.model import Fence, Slot, check_key, read_fence
from cronce.policy import WhenUnsure, refuse_foreign
from cronce.runtime.app_loading import defined, place_of
from cronce.runtime.attempt import Work
from cronce.runtime.call import Call, could_not_ask
from cronce.runtime.declare import Declaration, Duration, Policies, When, declare, remark
from cronce.runtime.guard import (
    CommandGuard,
    Decorator,
    SameSignature,
    SingleDecorator,
    Steppable,
    code_of,
    guarded,
    line_of,
    name_of,
    single,
)
from cronce.runtime.journal import Journal
from cronce.runtime.keeper import Keeper, refuse_patched_threads
from cronce.runtime.lock import HeldBlock, Lock, limits
from cronce.runtime.log import LOGGER, Listeners
from cronce.runtime.node import Node
from cronce.runtime.pod import JOB_NAME, PodCall
from cronce.runtime.process_notes import UnwrittenRefusals
from cronce.runtime.processes.child import BodyRunners
from cronce.runtime.run import Around
from cronce.runtime.standby import Standby
from cronce.schedule import Schedule, parse_duration
from cronce.stores import mask
from cronce.stores.base import Store
from cronce.stores.default import Chosen, choose, journal_directory, open_chosen, pinned

if TYPE_CHECKING:
    from cronce.look import Look
    from cronce.runtime.background import BackgroundWriter
    from cronce.runtime.election import Leader, Term
    from cronce.runtime.flow import Flow
    from cronce.runtime.operations import Operator, Verdict
    from cronce.runtime.scheduling.running import Carry
    from cronce.runtime.scheduling.scheduler import Scheduler
    from cronce.runtime.scheduling.settings import Role
    from cronce.runtime.session_lock import SessionKeeper
    from cronce.runtime.transactions import Database

T = TypeVar("T")


class Cronce:
    """Guards for functions, and locks, on one store. Nothing is opened before something is asked of the store.

    One object serves any number of threads, and the children of a fork: each process is a holder of its own.
    """

    def __init__(self, url: str | None = None, *, store: Store | None = None, clock: Clock | None = None) -> None:
        self._read_url: Callable[[], str | None] = lambda: url
        self._given, self._clock = store, clock or SystemClock()
        self._chosen: Chosen | None = None
        self._listeners = Listeners()
        self._opening = threading.Lock()
        self._session: SessionKeeper | None = None
        self.keeper: Keeper | None = None
        """What this process holds at the store, if anything was asked of it yet."""
        self._bodies = BodyRunners(self.at_work, self._clock, self._named)
        self._databases: dict[str | int, Database] = {}
        self._leaders: weakref.WeakSet[Leader] = weakref.WeakSet()
        self._refusals = UnwrittenRefusals()
        self._standby = Standby(self._clock)
        self._background: BackgroundWriter | None = None
        self._starting = threading.Lock()
        self.scheduler: Scheduler | None = None
        """The one that runs in this process, if any."""
        self._remarks: dict[str, str] = {}
        self._places: dict[str, str] = {}
        self._idempotent: dict[str, object] = {}
        self.jobs: dict[str, Declaration] = {}
        """The jobs that this process declares, by name."""
        self.works: dict[str, Callable[[], Work]] = {}
        """For each of them that needs no arguments: what makes the work of one run."""
        _ALL_APPS.add(self)

    def __repr__(self) -> str:
        return f"<Cronce on {self.place}>"

    # --- the store: which it is, and what this process holds there ---

    def use(self, url: str) -> None:
        """Another store than it was made with, before anything was asked of that."""
        self._use(lambda: url)

    def _use(self, read_url: Callable[[], str | None]) -> None:
        if self.keeper is not None or self._session is not None:
            raise BadInput(f"{self.place} is already in use; set the other store before you start anything")
        self._read_url, self._chosen, self._given = read_url, None, None

    @property
    def place(self) -> str:
        """Its store, for people."""
        return f"{self._given!r}" if self._given else mask(self._url)

    @property
    def _url(self) -> str:
        """Of the store as it would be chosen now; empty for an object."""
        return "" if self._given else (self._chosen or choose(self._read_url())).url

    def _named(self) -> str | None:
        """The URL by which another process reaches the same store; None for an object."""
        return None if self._given else self._choose().url

    def _choose(self) -> Chosen:
        if self._chosen is None:  # once: a later change of the directory or the environment does not change the store
            self._chosen = pinned(choose(self._read_url()))
        return self._chosen

    def _connect(self, *, first: bool = False) -> Store:
        if self._given is not None:
            return self._given
        chosen = self._choose()
        if first and chosen.is_default:
            tell(f"cronce: the store is {chosen.url}; set CRONCE_URL to choose another")
        return open_chosen(chosen)

    def at_work(self) -> Keeper:
        """What this process holds at the store, which is opened by the first who asks: for integrations."""
        with self._opening:
            if self.keeper is None:
                store, listeners = self._connect(first=True), self._listeners
                node = Node(store, self._clock, self._connect, listeners.report, around=listeners.around)
                node.ledger.client.timed, node.ledger.client.wants = listeners.timed, listeners.wants
                self.keeper = Keeper(node, journal=self._journal())
            return self.keeper

    def _journal(self) -> Journal:
        """Keeps what could not be written to the store."""
        return Journal("" if self._given else journal_directory(self._choose().url))

    def _in_session(self) -> "SessionKeeper":
        """What it holds in a session of PostgreSQL."""
        from cronce.runtime.session_lock import SessionKeeper  # noqa: PLC0415  it needs psycopg

        with self._opening:
            if self._session is None:
                self._session = SessionKeeper(self._named() or "an object", self._clock)
            return self._session

    @property
    def look(self) -> "Look":
        """Runs, why and status, as the command line prints them with `--json`: `cron.look.runs("billing")`."""
        look: Look = import_module("cronce.look").Look(lambda: self.at_work().node, self.place, self._journal())
        return look

    # --- guards ---

    def job(
        self,
        schedule: str | Schedule | None = None,
        *,
        name: str | None = None,
        slot: Callable[..., When] | None = None,
        isolate: bool = False,
        **policies: Unpack[Policies],
    ) -> Decorator:
        """Guard a function: each slot of the schedule runs once, on however many machines the function is called.

        `slot` is a function of the call's arguments that returns the slot of the call; without one, a call means the
        latest instant of the schedule. `isolate` runs the job function in a process of its own, which can be killed.

        The policies: every, at, tz, gap, fold, start, end, on_lost, overlap, turns, missed, start_within, jitter,
        retries, backoff, timeout, lease, keep, transaction, mode. With mode="observe" the job function always runs; a
        call that the guard would refuse is recorded.
        """
        if callable(schedule):
            raise BadInput("write @cron.job('*/15 * * * *'), with the schedule in brackets")

        if policies.get("transaction") is not None:
            policies["transaction"] = self._database(policies["transaction"])

        def guard(fn: Callable[..., Any]) -> Any:
            job = declare(name or name_of(fn), schedule, **policies)._replace(code=code_of(fn))
            place = line_of(fn)
            if job.mode == "observe":
                made = self._only_observed(job, fn, slot, isolate=isolate)
                self._declare(job, None, policies, place)
                return made
            isolated = partial(self._bodies.isolated, place_of(fn)) if isolate else None
            made = guarded(job.name, fn, slot, partial(self._call, job), isolated)
            made.database = job.database
            self._declare(job, made.work, policies, place)
            return made

        return guard

    def _database(self, transaction: object) -> "Database":
        """What a job declares, beside the store: an SQLite file cannot be both. Jobs that name the same share it."""
        from cronce.runtime.transactions import read_database  # noqa: PLC0415  most have none

        key = transaction if isinstance(transaction, str) else id(transaction)
        if key not in self._databases:
            self._databases[key] = read_database(transaction, self._url)
        return self._databases[key]

    def command(
        self, name: str, words: Sequence[str], schedule: str | Schedule | None = None, **policies: Unpack[Policies]
    ) -> CommandGuard:
        """A job whose body is a command, in words: `cron.command("order-sync", ["./sync.sh", "--all"], "@hourly")`."""
        from cronce.runtime.processes.command import checked_words  # noqa: PLC0415  most have none

        job, place = declare(name, schedule, **policies), f"the command {' '.join(checked_words(words))}"
        if job.mode == "observe":
            from cronce.runtime.observe import by_code, called  # noqa: PLC0415

            self._declare(job, None, policies, place)
            return cast(CommandGuard, self._only_observed(job, called(checked_words(words)), ended=by_code))
        work = partial(self._bodies.command, checked_words(words))
        self._declare(job, work, policies, place)
        return CommandGuard(job.name, work, partial(self._call, job))

    def _only_observed(
        self,
        job: Declaration,
        fn: Callable[..., Any],
        slot: Callable[..., When] | None = None,
        *,
        isolate: bool = False,
        **how: Any,
    ) -> Any:
        from cronce.runtime.observe import ObservedCall, observed_job  # noqa: PLC0415  most have none

        if isolate:
            raise BadPolicy("mode='observe' runs the job function as before, in this process: leave out isolate")
        made = lambda when: ObservedCall(job, when, self._in_background(), self.at_work, self._clock, **how)  # noqa: E731
        return observed_job(job, fn, slot, made)

    def _call(self, job: Declaration, work: Work, take_over: bool, when: When | None) -> Steppable:
        defined(f"calls {job.name}")
        job_name, refused = os.environ.get(JOB_NAME), self._refusals.refused
        try:
            keeper = self.at_work()
        except StoreError as error:
            could_not_ask(self._journal(), job, self._clock, error, when)
            raise
        standby = self._standby if isinstance(self._clock, SystemClock) else None
        call = Call(keeper, job, work, take_over=take_over, stand_by=bool(job_name), refused=refused, standby=standby)
        return PodCall(job_name, call) if job_name else call

    def _declare(self, job: Declaration, work: Callable[[], Work] | None, policies: Policies, place: str) -> None:
        """A module that is imported twice declares the same again; anything else under the same name is refused."""
        before, at = self.jobs.setdefault(job.name, job), self._places.setdefault(job.name, place)
        if before._replace(code="") != job._replace(code=""):
            raise BadInput(
                f"the job {job.name} is declared twice, with different schedules or policies ({at} and {place});"
                " give one of them name=…"
            )
        if at and place and at != place:
            raise BadInput(f"there are two jobs named {job.name}: {at} and {place}; give one of them name=…")
        self._remarks[job.name] = remark(job.name, policies)
        if work is not None:
            self.works[job.name] = work

    # --- locks ---

    def lock(
        self,
        name: str,
        *,
        at_most: Duration | None = None,
        at_least: Duration = "0s",
        wait: Duration = "0s",
        session: bool | int = False,
        **foreign: Never,
    ) -> HeldBlock:
        """Mutual exclusion for a block: `with cron.lock("reindex"):`. Raises `LockHeld` when another has it.

        `session=True` takes one of PostgreSQL's advisory locks instead, by a number made of the name; `session=1001` by
        that number.
        """
        refuse_foreign(foreign, ("at_most", "at_least", "wait", "session"))
        refuse_patched_threads()
        checked = limits(at_most, at_least, wait)
        if session is False:
            return Lock(name, checked, self.at_work)
        from cronce.runtime.session_lock import SessionLock  # noqa: PLC0415  it needs psycopg

        return SessionLock(name, session, checked, self._in_session)

    def single(
        self,
        name: str,
        *,
        at_most: Duration | None = None,
        at_least: Duration = "0s",
        wait: Duration = "0s",
        session: bool | int = False,
        **foreign: Never,
    ) -> SingleDecorator:
        """Let a function run in one place at a time: while it does, other calls return `Skipped`."""
        if not isinstance(name, str):
            raise BadInput("write @cron.single('reindex'), with the name of the lock in brackets")
        lock = self.lock(name, at_most=at_most, at_least=at_least, wait=wait, session=session, **foreign)
        return cast(SingleDecorator, partial(single, lock))

    # --- effects ---

    def idempotent(
        self,
        name: str,
        *,
        key: Callable[..., object],
        ttl: Duration = "400d",
        lease: Duration = "30s",
        unsure: WhenUnsure = "raise",
        not_done: type[BaseException] | tuple[type[BaseException], ...] = (),
        **foreign: Never,
    ) -> SameSignature:
        """Let a function do its work once for each key. `key` makes the key from the call's arguments.

        A repeat returns the recorded result, kept as JSON, for `ttl` after it was done. While the function runs, and
        for `lease` after its process died, another call raises `InProgress`. `unsure` and `not_done` are as in
        `run.once`. With the key `("invoice", 7)`, "charge" is the same effect as a job's
        `run.on("invoice", 7).once("charge", …)`.
        """
        from cronce.runtime.effects.idempotent import Keyed, read_lease, read_ttl  # noqa: PLC0415  most have none
        from cronce.runtime.effects.once import checked_how  # noqa: PLC0415
        from cronce.runtime.effects.things import refuse_another  # noqa: PLC0415

        refuse_foreign(foreign, ("key", "ttl", "lease", "unsure", "not_done"))
        refuse_patched_threads()
        if not isinstance(name, str):
            raise BadInput("write @cron.idempotent('order-email', key=…), with a name for what is done")
        how = checked_how(unsure, not_done)
        keyed = Keyed(name, key, read_ttl(ttl), how, self.at_work, lease=read_lease(lease))

        def guard(fn: Callable[..., Any]) -> Any:
            refuse_another(self._idempotent, name, fn)
            return keyed.guard(fn)

        return cast(SameSignature, guard)

    def admits(self, scope: str, fence: Fence | str) -> bool:
        """For a receiver of effects: whether no higher fence was seen in the scope. From then on no lower one is."""
        from cronce.runtime.effects.steps import admitted  # noqa: PLC0415

        given = read_fence(fence) if isinstance(fence, str) else fence
        node = self.at_work().node
        return node.do(admitted(node.ledger.client, check_key(scope), given))

    # --- observing ---

    def observe(
        self,
        name: str,
        *,
        window: Duration = "10s",
        key: Callable[..., object] | None = None,
        **foreign: Never,
    ) -> SameSignature:
        """Detect only: the function runs as before, and a call within `window` of another is warned of and counted.

        With `key`, a function of the call's arguments, only calls for the same key are compared. `cronce status
        observed` lists the results.
        """
        from cronce.runtime.observe import observer  # noqa: PLC0415  most have none

        refuse_foreign(foreign, ("window", "key"))
        return cast(SameSignature, observer(name, window, key, self._in_background, self._clock.boot))

    def heartbeat(self, name: str, every: Duration = "1m") -> None:
        """A sign of life of a scheduler that is not ours: call it from a job of its own, at each interval. Who watches
        sees that it fell silent, or that there are two of it.

        It raises only what makes no sense: a store that does not answer is no reason to take a scheduler down.
        """
        from cronce.runtime.background import SignOfLife  # noqa: PLC0415

        beat, background = SignOfLife(name, every, self._clock.boot()), self._in_background()
        background.add(beat)
        background.wait(beat)

    def _in_background(self) -> "BackgroundWriter":
        if self._background is None:
            from cronce.runtime.background import BackgroundWriter  # noqa: PLC0415

            with self._starting:
                self._background = self._background or BackgroundWriter(self.at_work, self._clock)
        return self._background

    # --- leaders ---

    def leader(
        self,
        group: str,
        *,
        lease: Duration = "30s",
        renew: Duration | None = None,
        on_elected: "Callable[[Term], object] | None" = None,
        on_deposed: "Callable[[Term], object] | None" = None,
        **foreign: Never,
    ) -> "Leader":
        """A candidate for the leadership of a group: of all its candidates one leads, for a term.

        `lease` is how long the others wait for a leader that died, `renew` how often a live leader renews.
        """
        from cronce.runtime.election import Leader, candidacy  # noqa: PLC0415  most have none

        refuse_foreign(foreign, ("lease", "renew", "on_elected", "on_deposed"))
        refuse_patched_threads()
        stands = candidacy(group, lease, renew)._replace(on_elected=on_elected, on_deposed=on_deposed)
        leader = Leader(stands, self.at_work, self._clock)
        self._leaders.add(leader)
        return leader

    # --- by hand: each act may be repeated, and is recorded with its time and with `by`, by default user@host ---

    def pause(self, name: str, reason: str = "", *, by: str | None = None) -> bool:
        """Grant none of the job's slots until it is resumed; what runs goes on. False: it was paused before."""
        return self._by_hand(by, lambda operator: operator.pause(name, reason)).new

    def resume(self, name: str, *, by: str | None = None) -> bool:
        """What fell due meanwhile does not fire. False: it was not paused."""
        return self._by_hand(by, lambda operator: operator.resume(name)) is not None

    def pause_all(self, reason: str = "", *, by: str | None = None) -> bool:
        """The kill switch: nothing at all is granted until `resume_all`."""
        return self._by_hand(by, lambda operator: operator.pause_all(reason)).new

    def resume_all(self, *, by: str | None = None) -> bool:
        """Jobs that were paused one by one stay so. False: not everything was paused."""
        return self._by_hand(by, lambda operator: operator.resume_all()) is not None

    def trigger(self, name: str, payload: Any = None, id: str = "", *, by: str | None = None) -> str:  # noqa: A002
        """Ask for a run of its own with its own key, which is returned. By one id, a job is run once."""
        return self._by_hand(by, lambda operator: operator.trigger(name, payload, id)).slot.key

    def rerun(self, slot: Slot | str, *, fresh: bool = False, force: bool = False, by: str | None = None) -> str:
        """Ask for another run of a closed slot; the key of that run. Its effects go by the slot's key, unless fresh. It
        is refused while the process that ran the slot may be alive, unless you `force` it."""
        return self._by_hand(by, lambda operator: operator.rerun(_slot(slot), fresh=fresh, force=force)).slot.key

    def cancel(self, slot: Slot | str, reason: str = "", *, by: str | None = None) -> None:
        """Stop a run, or close what waits to be run; what is closed stays as it is."""
        self._by_hand(by, lambda operator: operator.cancel(_slot(slot), reason))

    def resolve(
        self,
        what: Slot | str,
        verdict: "Verdict",
        reason: str = "",
        *,
        result: Any = None,
        force: bool = False,
        by: str | None = None,
    ) -> None:
        """Resolve a slot that failed, was lost or is unknown: it is done, or must be tried again. Or resolve an effect
        that is in doubt, such as "billing@2026-03-29T01:00:00Z/charge:7". One that is done has a `result`, which every
        repeat returns. A retry is refused while the process that held it may be alive, unless you `force` it."""
        from cronce.runtime.effects.review import names_effect, resolve_effect  # noqa: PLC0415

        if names_effect(what):
            said = lambda operator: resolve_effect(operator, str(what), verdict, reason, result, force=force)  # noqa: E731
            self._by_hand(by, said)
        elif result is not None:
            raise BadInput("only an effect, such as a step, has a result: billing@2026-03-29T01:00:00Z/charge:7")
        else:
            self._by_hand(by, lambda operator: operator.resolve(_slot(what), verdict, reason, force=force))

    def backfill(self, name: str, start: datetime | str, end: datetime | str, *, by: str | None = None) -> list[str]:
        """Ask for a run of each slot from `start` until before `end` that never succeeded: their keys. A slot gets one
        such run, however often this is called."""
        from cronce.runtime.operations import backfill  # noqa: PLC0415

        return [slot.key for slot in self._by_hand(by, lambda operator: backfill(operator, name, start, end))]

    def drain(
        self,
        holder: str | None = None,
        *,
        label: str | None = None,
        off: bool = False,
        reason: str = "",
        by: str | None = None,
    ) -> bool:
        """Let a process, or all with a label such as colour=blue, claim nothing more while it lives; `off` undoes it.
        False: it was so before."""
        from cronce.runtime.operations import drain_cell  # noqa: PLC0415

        cell = drain_cell(holder, label)
        if off:
            return self._by_hand(by, lambda operator: operator.undrain(cell)) is not None
        return self._by_hand(by, lambda operator: operator.drain(cell, reason)).new

    # --- jobs that live in the store ---

    def add(self, name: str, schedule: str | Schedule | None = None, *, by: str | None = None, **words: Any) -> bool:
        """Keep a job in the store, for all processes that allow it: `cron.add("mail", "@hourly", function="app:mail")`,
        or `command=["./mail.sh"]`, with the policies of `job`. False: it is there, defined the same."""
        from cronce.runtime.stored_jobs import add  # noqa: PLC0415

        return self._by_hand(by, lambda operator: add(operator, name, {"schedule": schedule, **words})) is not None

    def edit(self, name: str, *, by: str | None = None, **changes: Any) -> bool:
        """Change the definition of a job in the store; None goes back to the default. False: nothing changed."""
        from cronce.runtime.stored_jobs import edit  # noqa: PLC0415

        return self._by_hand(by, lambda operator: edit(operator, name, changes)) is not None

    def remove(self, name: str, *, by: str | None = None) -> None:
        """Take a job out of the store; its history stays."""
        from cronce.runtime.stored_jobs import remove  # noqa: PLC0415

        self._by_hand(by, lambda operator: remove(operator, name))

    def _by_hand(self, by: str | None, act: "Callable[[Operator], Flow[T]]") -> T:
        from cronce.runtime.operations import Operator, who  # noqa: PLC0415  who only guards functions need not load it

        node = self.at_work().node
        return node.do(act(Operator(node.ledger, who() if by is None else by, self.jobs)))

    # --- the scheduler ---

    def start(
        self,
        *,
        role: "Role" = "both",
        workers: int = 10,
        grace: Duration = "30s",
        labels: Mapping[str, str] = MappingProxyType({}),
        allow: Sequence[str] = (),
    ) -> "Scheduler":
        """Run the jobs from now on, in the background: start it in as many processes as you like, each slot runs once.

        `role` is "both", or "schedule" or "work" for processes that only find what is due, or only run it. `allow` are
        patterns of what jobs that live in the store may run here. `grace` is how long bodies have to end when it stops.
        """
        defined("starts its scheduler")
        refuse_patched_threads()
        from cronce.runtime.scheduling.scheduler import Scheduler  # noqa: PLC0415
        from cronce.runtime.scheduling.settings import check_settings  # noqa: PLC0415  guards do not need it

        settings, length = check_settings(role, workers, labels), parse_duration(grace).total_seconds()
        if self.scheduler is not None:
            raise BadInput("a scheduler is already running in this process; stop it first")
        if observed := [name for name, job in self.jobs.items() if job.mode == "observe"]:
            raise BadInput(
                f"{', '.join(observed[:5])}: mode='observe' is for functions that another scheduler calls; this"
                " scheduler would run it a second time. Leave out mode= to run it here, once per slot; or use"
                " another Cronce for functions that are only observed"
            )
        keeper = self.at_work()
        for name in self.works:
            self.jobs[name].check_on(keeper.node.store.traits)
        self.scheduler = Scheduler(
            keeper,
            self._carry(allow, keeper),
            settings,
            grace=length,
            ended=self._ended,
            refused=self._refusals.refused,
        )
        return self.scheduler.start()

    def _carry(self, allow: Sequence[str], keeper: Keeper) -> "Carry":
        """What a scheduler here carries: these jobs, and those in the store that it allows, as they are just now."""
        from cronce.runtime.stored_jobs import (  # noqa: PLC0415  guards do not need it
            RunnableJob,
            RunnableStoredJobs,
            definitions,
        )

        for name in self.jobs.keys() - self.works.keys():
            LOGGER.warning("%s needs arguments, so the scheduler cannot run it; call it from your own code", name)
        for said in filter(None, self._remarks.values()):
            LOGGER.warning("%s", said)
        own = {name: RunnableJob(self.jobs[name], work) for name, work in self.works.items()}
        stored = RunnableStoredJobs(allow, self._bodies, self.jobs)
        return lambda: own | stored.carry(keeper.node.do(definitions()))

    def run(
        self,
        *,
        role: "Role" = "both",
        workers: int = 10,
        grace: Duration = "30s",
        labels: Mapping[str, str] = MappingProxyType({}),
        allow: Sequence[str] = (),
    ) -> bool:
        """The same in the foreground, until SIGTERM or SIGINT; whether everything that ran here is on record.

        The first signal ends claiming and lets bodies end for `grace`, the second stops them now.
        """
        from cronce.runtime.scheduling.scheduler import Orders, see_through  # noqa: PLC0415

        with Orders() as orders:
            scheduler = self.start(role=role, workers=workers, grace=grace, labels=labels, allow=allow)
            return see_through(scheduler, orders)

    def stop(self) -> bool:
        """Stop the scheduler, if it runs in this process; whether everything that ran here is on record. A body gets
        False at once, and the scheduler stops when that has ended."""
        scheduler = self.scheduler
        return True if scheduler is None else scheduler.stop()

    @asynccontextmanager
    async def lifespan(self, _app: object = None, **how: Any) -> AsyncIterator[None]:
        """For ASGI frameworks: with `FastAPI(lifespan=cron.lifespan)` the scheduler runs in every worker, from before
        its first request until after its last. `how` is as for `start`. The loop goes on while it starts and stops."""
        from asyncio import to_thread  # noqa: PLC0415  45 ms, and a caller with an event loop has imported it

        await to_thread(self.start, **how)
        try:
            yield
        finally:
            await to_thread(self.close)

    def _ended(self, scheduler: "Scheduler") -> None:
        if self.scheduler is scheduler:
            self.scheduler = None

    # --- for integrations, and for those who listen ---

    def on_event(self, hear: Callable[[Event], None]) -> None:
        """Call `hear` with each event: who was granted what, what started and ended, what was refused, and whether the
        store answers. It is called on the thread where the event happens, so it should be quick."""
        self._listeners.of_events.append(hear)

    def on_call(self, hear: Callable[[str, float], None]) -> None:
        """Call `hear` after each answer of the store, with the kind of request (Load, Swap, Scan, Purge) and the
        seconds that it took. It is called on the thread that asked, so it should be quick."""
        self._listeners.of_calls.append(hear)

    def around(self, wrap: Around) -> None:
        """Have each body run within what `wrap(run)` gives, a context manager: for those who trace. Where that fails
        it is logged, and the body runs without."""
        self._listeners.wraps.append(wrap)

    @contextmanager
    def _standing_in(self, store: Store, clock: Clock, keeper: Keeper) -> Iterator[None]:
        """For a while these are its store, its clock and what it holds: those of a test."""
        if self.scheduler is not None:
            raise BadInput("its scheduler is running; stop it before you set its clock by hand")
        before = self._given, self._clock, self.keeper
        self._given, self._clock, self.keeper = store, clock, keeper
        try:
            yield
        finally:
            self._given, self._clock, self.keeper = before

    def _forked(self) -> None:
        """In the child: the parent's threads are not here, its locks may be held for ever, its leases are not ours."""
        self._opening, self.keeper = threading.Lock(), None
        if self._session is not None:
            self._session.forked()
        self._session = None
        self.scheduler = None
        self._refusals, self._standby = UnwrittenRefusals(), Standby(self._clock)
        self._background, self._starting = None, threading.Lock()
        self._bodies.forked()
        for leader in list(self._leaders):
            leader.forked()

    def close(self) -> None:
        """Stop the scheduler, resign, and give back the connections, unless something runs or is held; the next call
        opens others."""
        self.stop()
        self._standby.close()
        for leader in list(self._leaders):
            leader.stop()
        if self._background is not None:
            self._background.close()
        keeper = self._let_go()
        if keeper is None:
            return
        self._bodies.close()
        keeper.close()
        for database in self._databases.values():
            database.close()
        if keeper.node.store is not self._given:
            keeper.node.store.close()

    def _let_go(self) -> Keeper | None:
        """Hold nothing more, unless something runs or is held; what was held, to be closed. Who closes does not
        wait for a thread that is just opening the store, which takes long at a silent server."""
        if not self._opening.acquire(blocking=False):
            return None
        try:
            keeper = self.keeper
            if self._session is not None:
                self._session.close()
            if keeper is None or keeper.busy:
                return None
            self.keeper = None
            return keeper
        finally:
            self._opening.release()

    def __enter__(self) -> "Cronce":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


_ALL_APPS: Final[weakref.WeakSet[Cronce]] = weakref.WeakSet()


def _for_all(action: Callable[[Cronce], None]) -> None:
    for cronce in list(_ALL_APPS):
        action(cronce)


os.register_at_fork(after_in_child=partial(_for_all, Cronce._forked))
atexit.register(_for_all, Cronce.close)


def _slot(named: Slot | str) -> Slot:
    from cronce.runtime.queries import slot_named  # noqa: PLC0415

    return named if isinstance(named, Slot) else slot_named(named)
