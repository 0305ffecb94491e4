"""The harness: starts the processes, does to them what the plan says, waits until all is settled, and reads both sides.

It works under job names of its own, so that nothing else in the store is touched, and removes what was written at the
end. It talks to the store directly (`store_contents`), never through a proxy.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from math import ceil
from os import urandom
from pathlib import Path
from typing import Final, Self

from cronce.clock import SystemClock
from cronce.errors import BadInput, StoreUnavailable
from cronce.model import Instant, spell
from cronce.policy import Missed, OnLost, Overlap
from cronce.protocol.terms import Terms, check_terms
from cronce.stores import mask, open_store, scheme_of
from cronce.stores.base import Store
from cronce.stores.sqlite import locate
from cronce.testing.child_processes import ChildProcesses
from cronce.testing.ledger_file import NO_VALUE, LedgerLine, LedgerTail
from cronce.torture.fault_actions import FaultTools, Hook, InjectedFault, SchedulerOrders
from cronce.torture.faults import COLOURS, Faults
from cronce.torture.own_jobs import refuse_live, tasks_of
from cronce.torture.plan import Kind, plan
from cronce.torture.proxy import Link, Proxy
from cronce.torture.route import address, through
from cronce.torture.store_contents import StoreContents
from cronce.torture.verdict import TortureRecord, TortureVerdict
from cronce.torture.worker import SLOT_EVERY, TortureTask, WorkerOrder
from cronce.value import NamedTuple

SKEWS: Final = (0.4, -5.0, 5.0, -0.4, 0.0, 0.0)
"""Seconds that the processes' clocks are wrong by; the seventh begins again."""

TORTURE_LEASE: Final = 2.5
"""Seconds. Short, so that takeovers happen within the minute; where a store's clock is doubtful, longer than that."""

ANSWERS: Final = ("start", "accepted", "stale", "ran", "refused")
"""What a process cannot say before the store has answered it."""

GUARDS: Final = "cronce.torture.worker"
SCHEDULER_MODULE: Final = "cronce.torture.scheduling"
"""What is run as a process."""

TORTURE_POLL: Final = 0.02
SLOTS_BEFORE: Final = 2
FIRST_SLOT_AFTER: Final = (4, 30)
"""Seconds from when all processes have started to the first slot, at least and at most. Schedulers must have registered
the job by then: a job begins when it is registered, and slots before that would count as missed. On a busy machine that
takes longer, as the start of the processes did."""

SETTLE_TIMEOUT: Final = 60.0
"""Seconds that a slow machine may take beyond the slots themselves; then the verdict is on what is there."""

QUIET_AFTER: Final = 1.5
"""Seconds in which schedulers look once more, when all is closed, and find nothing to do."""

LOOK_AT_ALL: Final = 0.5
"""Seconds between two looks at every slot."""

READ_EVERY: Final = 0.2
"""Seconds between two readings of a store that keeps only the last slots; the verdict remembers what was read."""

NOTE: Final = 1.0
"""Seconds between two looks at which version fires."""

TORTURE_GRACE: Final = 10.0


class TortureSettings(NamedTuple):
    url: str
    seconds: int = 60
    processes: int = 6
    seed: int = 0
    on_lost: tuple[OnLost, ...] = ("skip", "rerun")
    restart: Hook | None = None
    empty: Hook | None = None
    keep: bool = False
    """Leave what was written in the store."""
    scheduler: bool = False
    """The processes are schedulers; else they call guards."""
    worker: str = ""
    """The module that is run as a process, if it is another; a test has worse ones."""
    only: tuple[Kind, ...] = ()
    """Faults of these kinds; without any, of all that can be done."""
    missed: Missed = "all"
    workers: int = 10
    slow: float = 1.0
    app: str = ""
    """MODULE:OBJECT: the user's own jobs instead of ours."""
    really: bool = False
    """Run their functions; otherwise a counter stands in for them."""
    beside_live: bool = False
    """Also on a store that schedulers are working on."""


class TortureResult(NamedTuple):
    """What became of it: a verdict for each job, and what a picture is drawn from."""

    settings: TortureSettings
    verdicts: tuple[TortureVerdict, ...]
    forgot: bool
    """The store lost what it knew, and says so."""
    left_out: tuple[str, ...]
    """What could not be done here, and why."""
    tasks: tuple[TortureTask, ...]
    slots: tuple[Instant, ...]
    first: float
    """The boot clock at the first slot."""
    lines: tuple[LedgerLine, ...]
    records: dict[str, TortureRecord]
    deeds: tuple[InjectedFault, ...]

    @property
    def passed(self) -> bool:
        return all(verdict.passed(forgot=self.forgot) for verdict in self.verdicts)

    @property
    def faults(self) -> Counter[Kind]:
        return Counter(deed.kind for deed in self.deeds)


class Torture:
    """One torture of one store. `show` is called with how many slots are due so far: with 0 when it begins."""

    def __init__(
        self, settings: TortureSettings, folder: Path, show: Callable[[int], None] = lambda _due: None
    ) -> None:
        self.settings, self._folder, self._show = settings, folder, show
        self._clock = SystemClock()
        self._ledger, self._calls = LedgerTail(folder / "ledger"), LedgerTail(folder / "calls")
        self._lines: list[LedgerLine] = []
        self._said: set[tuple[str, str, str]] = set()
        self._first: Instant | None = None
        self._shown = 0
        self._answered = self._moved = self._looked_at_all = self._noted = self._read = 0.0
        self._closed = False
        self._mark = urandom(3).hex()
        """Two tortures of one seed on one store are not in each other's way."""

    def _task(self, on_lost: OnLost) -> TortureTask:
        """Under skip the job is as most are, no two slots at once; under rerun what lapsed runs beside the others, or,
        where the store lets runs of a job only follow each other, all wait for it."""
        name = f"torture-{self.settings.seed}-{self._mark}-{on_lost}"
        beside: Overlap = "allow" if self._store.traits.history else "wait"
        overlap: Overlap = "skip" if on_lost == "skip" else beside
        check_terms(Terms(timedelta(seconds=self._lease), on_lost=on_lost, overlap=overlap), self._store.traits)
        return TortureTask(name, on_lost, overlap, self._lease, self.settings.missed)

    def _our_tasks(self) -> tuple[TortureTask, ...]:
        return tuple(self._task(on_lost) for on_lost in self.settings.on_lost)

    def _own_tasks(self) -> tuple[TortureTask, ...]:
        if not self.settings.beside_live:
            refuse_live(self._store, self._clock)
        mark = f"{self.settings.seed}-{self._mark}"
        tasks = tasks_of(self.settings.app, mark, self._lease, self.settings.seconds, self._store_now())
        for task in tasks:
            lease = timedelta(seconds=task.lease)
            check_terms(Terms(lease, on_lost=task.on_lost, overlap=task.overlap, turns=task.turns), self._store.traits)
        return tasks

    def run(self) -> TortureResult:
        """From the first process to the verdict."""
        with self:
            return self._run()

    def __enter__(self) -> Self:
        self._store: Store = open_store(self.settings.url)
        if not self._store.traits.shared:
            raise BadInput(f"{mask(self.settings.url)} works in one process only, and a torture run needs several")
        doubt = self._store.traits.skew + self._store.traits.step
        self._lease = max(TORTURE_LEASE, 4 * doubt.total_seconds())
        self._tasks = self._own_tasks() if self.settings.app else self._our_tasks()
        self._ahead = (self._store_now() - self._clock.wall()).total_seconds()
        self._shelf = StoreContents(self._store, self._clock, self._tasks, f"{self.settings.seed}-{self._mark}")
        usual = SCHEDULER_MODULE if self.settings.scheduler else GUARDS
        self._crew = ChildProcesses(self.settings.worker or usual, lambda name: self._folder / f"{name}.log")
        self._names = tuple(f"w{number + 1}" for number in range(self.settings.processes))
        to = address(self.settings.url)
        self._proxy = None if isinstance(to, str) else Proxy(to)
        self._left_out = (f"no lost replies, latency or partitions: {to}",) if isinstance(to, str) else ()
        self._links: dict[str, Link] = {name: self._proxy.link() for name in self._names} if self._proxy else {}
        self._versions = dict.fromkeys(self._names, 0)
        orders = (
            SchedulerOrders(self._shelf.drain, self._shelf.undrain, self._release, self._is_ready)
            if self.settings.scheduler
            else None
        )
        props = FaultTools(self._crew, self._links, self._start, self._hooks(), file_of(self.settings.url), orders)
        self._faults = Faults(self._names, props, self._clock)
        return self

    def __exit__(self, *_error: object) -> None:
        self._crew.clear()
        self._faults.close()
        if self._proxy is not None:
            self._proxy.close()  # before the cells go: bytes that it holds back may be writes
        try:
            if not self.settings.keep:
                self._shelf.remove()
        finally:
            self._store.close()

    def _hooks(self) -> dict[Kind, Hook]:
        """What a store loses of its last moments no verdict could explain: so nothing is on its way to it then."""
        restart, empty, durable = self.settings.restart, self.settings.empty, self._store.traits.durable
        hooks: dict[Kind, Hook] = {}
        if restart is not None:
            hooks["restart"] = restart if durable else partial(self._remembered, restart)
        if empty is not None:
            hooks["empty"] = partial(self._remembered, empty)
        return hooks

    def _remembered(self, hook: Hook) -> None:
        def work() -> None:
            self._shelf.remember()
            hook()

        self._faults.in_calm(work)

    # --- the acts ---

    def _run(self) -> TortureResult:
        self._show(0)
        began = self._clock.boot()
        for name in self._names:
            self._start(name)
        self._until(lambda: all(self._is_ready(name) for name in self._names), self._clock.boot() + SETTLE_TIMEOUT)
        self._begin(registered(self._clock.boot() - began) if self.settings.scheduler else SLOTS_BEFORE)
        try:
            return self._play()
        except StoreUnavailable as error:
            raise StoreUnavailable(self._stopped_answering(error)) from None

    def _play(self) -> TortureResult:
        last = self._begun + self.settings.seconds
        self._until(lambda: self._clock.boot() >= last and not self._faults.left, last + SETTLE_TIMEOUT)
        self._faults.end_all()
        self._moved = self._clock.boot()
        while (
            not self._settled() and self._clock.boot() < self._moved + SETTLE_TIMEOUT
        ):  # however slow, while it goes on
            self._until(self._settled, self._clock.boot() + 1)
        self._crew.end(TORTURE_GRACE)
        return self._result()

    def _stopped_answering(self, error: StoreUnavailable) -> str:
        """Every process has asked it since, without an answer."""
        ago = timedelta(seconds=self._clock.boot() - self._answered)
        last, after = self._clock.wall() - ago, max(self._answered - self._begun, 0)
        return (
            f"the store stopped answering in the middle, at {last:%H:%M:%S} UTC ({after:.0f} s after the first"
            f" slot), so there is no result: {error}"
        )

    def _start(self, name: str) -> None:
        """A process, new or again; one that comes back begins at once."""
        number = self._names.index(name)
        url = through(self.settings.url, self._links[name].port) if self._links else self.settings.url
        order = WorkerOrder(
            name, url, str(self._folder), self._tasks, self.settings.seconds,
            self._ahead + SKEWS[number % len(SKEWS)], self.settings.seed * 1000 + number, self.settings.slow,
            self.settings.workers, self._shelf.label(COLOURS[number % len(COLOURS)]), self._versions[name],
            self.settings.app if self.settings.really else "",
        )  # fmt: skip
        self._hear()  # what the one before it has said
        self._said.discard(("ready", name, NO_VALUE))
        self._crew.start(name)
        self._crew.tell(name, order.written())
        if self._first is not None:
            self._crew.tell(name, spell(self._first))

    def _release(self, name: str, kind: Kind) -> None:
        self._versions[name] = 1 if kind == "deploy" else 0

    def _is_ready(self, name: str) -> bool:
        return ("ready", name, NO_VALUE) in self._said

    def _begin(self, before: int) -> None:
        """Everybody is there: choose the first second, by the store's clock."""
        now = self._store_now()
        self._first = first = now.replace(microsecond=0) + timedelta(seconds=before)
        self._begun = self._clock.boot() + (first - now).total_seconds()
        self._answered = self._clock.boot()
        if not self.settings.scheduler:  # schedulers register their jobs themselves
            self._shelf.begin(first)
        for name in self._names:
            self._crew.tell(name, spell(first))
        settings = self.settings
        kinds = [kind for kind in self._faults.kinds if not settings.only or kind in settings.only]
        self._faults.begin(plan(settings.seed, settings.seconds, self._lease, kinds), self._begun)

    def _settled(self) -> bool:
        """Every process has been through all slots, and none is open any more."""
        if self.settings.scheduler:
            return self._all_closed()
        through_all = all(("through", name, task.job) in self._said for name in self._names for task in self._tasks)
        return through_all and not self._shelf.has_open()

    def _all_closed(self) -> bool:
        """Every slot is on record, and none is open any more. Counting must not slow the
        processes down, so it is done only now and then."""
        boot = self._clock.boot()
        if self._closed or boot < self._looked_at_all + LOOK_AT_ALL:
            return self._closed
        self._looked_at_all = boot
        try:
            if self._shelf.has_open() or any(one.missed for one in self._shelf.verdicts(self._slots(), self._lines)):
                return False
        except StoreUnavailable:
            return False
        self._closed = not threading.Event().wait(QUIET_AFTER)
        return self._closed

    # --- looking ---

    def _until(self, condition: Callable[[], bool], limit: float) -> None:
        while self._clock.boot() < limit:
            self._look()
            if condition():
                return
            threading.Event().wait(TORTURE_POLL)

    def _look(self) -> None:
        new = self._ledger.new()
        self._lines += new
        self._took_in(new)
        self._hear()
        self._faults.look(new)
        self._crew.check()
        if not self._store.traits.history and self._clock.boot() >= self._read + READ_EVERY:
            self._read = self._clock.boot()
            self._shelf.remember()
        if self.settings.scheduler and self._clock.boot() >= self._noted + NOTE:
            self._noted = self._clock.boot()
            self._shelf.note_edits()
        if self._first is not None:
            self._tell_due(int(self._clock.boot() - self._begun) + 1)

    def _hear(self) -> None:
        calls = self._calls.new()
        self._said |= {(line.what, line.who, line.slot) for line in calls}
        self._took_in(calls)

    def _took_in(self, lines: Sequence[LedgerLine]) -> None:
        self._answered = max([self._answered, *(float(line.when) for line in lines if line.what in ANSWERS)])
        if lines:
            self._moved = self._clock.boot()

    def _tell_due(self, slots: int) -> None:
        due = min(max(slots, 0), self.settings.seconds)
        if due != self._shown:
            self._shown = due
            self._show(due)

    def _store_now(self) -> Instant:
        return self._store.load([]).now

    def _slots(self) -> tuple[Instant, ...]:
        assert self._first is not None
        return tuple(self._first + number * SLOT_EVERY for number in range(self.settings.seconds))

    def _result(self) -> TortureResult:
        self._lines += self._ledger.new()
        shelf, slots = self._shelf, self._slots()
        return TortureResult(
            self.settings, shelf.verdicts(slots, self._lines), shelf.forgot, self._left_out,
            self._tasks, slots, self._begun, tuple(self._lines), shelf.records(), tuple(self._faults.deeds),
        )  # fmt: skip


def registered(start: float) -> int:
    """Seconds until schedulers have registered their jobs, where their start took so long."""
    least, most = FIRST_SLOT_AFTER
    return min(max(least, ceil(2 * start)), most)


def file_of(url: str) -> str | None:
    """The file that a URL names, if it names one."""
    return str(locate(url)[0]) if scheme_of(url) == "sqlite" else None
