"""The harness: starts the processes, does to them what the plan says, waits until all is settled, and reads both sides.

It works under job names of its own, so that nothing else in the store is touched, and removes what was written at the
end. It talks to the store directly, never by way of a proxy.
"""

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from os import urandom
from pathlib import Path
from typing import Final, Self

from cronce.clock import SystemClock
from cronce.errors import BadInput, StoreUnavailable
from cronce.model import Epoch, Instant, Mark, Slot, job_cell, spell
from cronce.policy import OnLost
from cronce.protocol.lease import forgotten_floor
from cronce.protocol.record import FORGOTTEN, decode_job
from cronce.runtime.flow import drive
from cronce.runtime.look import RunSeen, read_all, seen_run
from cronce.stores import mask, open_store, scheme_of
from cronce.stores.base import Scan, Store
from cronce.stores.sqlite import locate
from cronce.testing.book import Line, Tail
from cronce.testing.crew import Crew
from cronce.torture.faults import Deed, Faults, Hook, Props
from cronce.torture.plan import Kind, plan
from cronce.torture.proxy import Link, Proxy
from cronce.torture.route import address, through
from cronce.torture.verdict import Gap, OnRecord, Verdict, judge, lets_another_run
from cronce.torture.worker import EVERY, Order, Task
from cronce.value import NamedTuple

SKEWS: Final = (0.0, 0.4, -0.4, 5.0, -5.0, 0.0)
"""Seconds that the processes' clocks are wrong by; the seventh begins again."""

LEASE: Final = 2.5
"""Seconds. Short, so that takeovers happen within the minute; where a store's clock is doubtful, longer than that."""

ANSWERS: Final = ("start", "accepted", "stale", "ran", "refused")
"""What a process cannot say before the store has answered it."""

LOOK: Final = 0.02
BEFORE: Final = 2
"""Seconds from when everybody is there to the first slot."""

PATIENCE: Final = 60.0
"""Seconds that a slow machine may take beyond the slots themselves; then the verdict is on what is there."""

GRACE: Final = 10.0
BATCH: Final = 1000


class Settings(NamedTuple):
    url: str
    seconds: int = 60
    processes: int = 6
    seed: int = 0
    on_lost: tuple[OnLost, ...] = ("skip", "rerun")
    restart: Hook | None = None
    empty: Hook | None = None
    keep: bool = False
    """Leave what was written in the store."""
    worker: str = "cronce.torture.worker"
    """The module that is run as a process; a test has worse ones."""


class Result(NamedTuple):
    """What became of it: a verdict for each job, and what a picture is drawn from."""

    settings: Settings
    verdicts: tuple[Verdict, ...]
    forgot: bool
    """The store lost what it knew, and says so."""
    left_out: tuple[str, ...]
    """What could not be done here, and why."""
    tasks: tuple[Task, ...]
    slots: tuple[Instant, ...]
    first: float
    """The boot clock at the first slot."""
    lines: tuple[Line, ...]
    records: dict[str, OnRecord]
    deeds: tuple[Deed, ...]

    @property
    def passed(self) -> bool:
        return all(verdict.passed(forgot=self.forgot) for verdict in self.verdicts)

    @property
    def faults(self) -> Counter[Kind]:
        return Counter(deed.kind for deed in self.deeds)


class Torture:
    """One torture of one store. `show` is called with how many slots are due so far: with 0 when it begins."""

    def __init__(self, settings: Settings, folder: Path, show: Callable[[int], None] = lambda _due: None) -> None:
        self.settings, self._folder, self._show = settings, folder, show
        self._clock = SystemClock()
        self._ledger, self._calls = Tail(folder / "ledger"), Tail(folder / "calls")
        self._lines: list[Line] = []
        self._said: set[tuple[str, str, str]] = set()
        self._older: dict[str, OnRecord] = {}
        self._first: Instant | None = None
        self._shown = 0
        self._answered = self._moved = 0.0
        self._mark = urandom(3).hex()
        """Two tortures of one seed on one store are not in each other's way."""

    def _task(self, on_lost: OnLost) -> Task:
        """Under skip the job is as most are, no two slots at once; under rerun what lapsed runs beside the others."""
        name = f"torture-{self.settings.seed}-{self._mark}-{on_lost}"
        return Task(name, on_lost, "skip" if on_lost == "skip" else "allow", self._lease)

    def run(self) -> Result:
        """From the first process to the verdict."""
        with self:
            return self._run()

    def __enter__(self) -> Self:
        self._store: Store = open_store(self.settings.url)
        if not self._store.traits.shared:
            raise BadInput(f"{mask(self.settings.url)} is a store of one process only, and this takes several")
        doubt = self._store.traits.skew + self._store.traits.step
        self._lease = max(LEASE, 4 * doubt.total_seconds())
        self._tasks = tuple(self._task(on_lost) for on_lost in self.settings.on_lost)
        loaded = self._store.load([])
        self._epoch, self._ahead = loaded.epoch, (loaded.now - self._clock.wall()).total_seconds()
        self._crew = Crew(self.settings.worker, lambda name: self._folder / f"{name}.log")
        self._names = tuple(f"w{number + 1}" for number in range(self.settings.processes))
        to = address(self.settings.url)
        self._proxy = None if isinstance(to, str) else Proxy(to)
        self._left_out = (f"no lost replies, latency or partitions: {to}",) if isinstance(to, str) else ()
        self._links: dict[str, Link] = {name: self._proxy.link() for name in self._names} if self._proxy else {}
        props = Props(self._crew, self._links, self._start, self._hooks(), file_of(self.settings.url))
        self._faults = Faults(self._names, props, self._clock)
        return self

    def __exit__(self, *_error: object) -> None:
        self._crew.clear()
        self._faults.close()
        if self._proxy is not None:
            self._proxy.close()  # before the cells go: bytes that it holds back may be writes
        try:
            if not self.settings.keep:
                self._remove()
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
            self._snapshot()
            hook()

        self._faults.in_calm(work)

    # --- the acts ---

    def _run(self) -> Result:
        self._show(0)
        for name in self._names:
            self._start(name)
        self._until(
            lambda: all(("ready", name, "-") in self._said for name in self._names), self._clock.boot() + PATIENCE
        )
        self._begin()
        try:
            return self._play()
        except StoreUnavailable as error:
            raise StoreUnavailable(self._stopped_answering(error)) from None

    def _play(self) -> Result:
        last = self._begun + self.settings.seconds
        self._until(lambda: self._clock.boot() >= last and not self._faults.left, last + PATIENCE)
        self._faults.end_all()
        self._moved = self._clock.boot()
        while not self._settled() and self._clock.boot() < self._moved + PATIENCE:  # however slow, while it goes on
            self._until(self._settled, self._clock.boot() + 1)
        self._crew.end(GRACE)
        return self._result()

    def _stopped_answering(self, error: StoreUnavailable) -> str:
        """Every process has asked it since, in vain."""
        ago = timedelta(seconds=self._clock.boot() - self._answered)
        last, after = self._clock.wall() - ago, self._answered - self._begun
        return (
            f"the store stopped answering in the middle, at {last:%H:%M:%S} UTC ({after:.0f} s after the first slot),"
            f" and nothing was judged: {error}"
        )

    def _start(self, name: str) -> None:
        """A process, new or again; one that comes back begins at once."""
        number = self._names.index(name)
        url = through(self.settings.url, self._links[name].port) if self._links else self.settings.url
        order = Order(
            name, url, str(self._folder), self._tasks, self.settings.seconds,
            self._ahead + SKEWS[number % len(SKEWS)], self.settings.seed * 1000 + number,
        )  # fmt: skip
        self._crew.start(name)
        self._crew.tell(name, order.written())
        if self._first is not None:
            self._crew.tell(name, spell(self._first))

    def _begin(self) -> None:
        """Everybody is there: choose the first second, by the store's clock."""
        now = self._store_now()
        self._first = first = now.replace(microsecond=0) + timedelta(seconds=BEFORE)
        self._begun = self._clock.boot() + (first - now).total_seconds()
        self._answered = self._clock.boot()
        for name in self._names:
            self._crew.tell(name, spell(first))
        settings = self.settings
        self._faults.begin(plan(settings.seed, settings.seconds, self._lease, self._faults.kinds), self._begun)

    def _settled(self) -> bool:
        """Every process has been through all slots, and none is open any more."""
        through_all = all(("through", name, task.job) in self._said for name in self._names for task in self._tasks)
        return through_all and not any(self._still_open(task) for task in self._tasks)

    def _still_open(self, task: Task) -> bool:
        try:
            return bool(self._store.scan(Scan(f"run/{task.job}/", mark=Mark.OPEN, limit=1)).cells)
        except StoreUnavailable:
            return True

    # --- looking ---

    def _until(self, condition: Callable[[], bool], limit: float) -> None:
        while self._clock.boot() < limit:
            self._look()
            if condition():
                return
            threading.Event().wait(LOOK)

    def _look(self) -> None:
        new = self._ledger.new()
        self._lines += new
        calls = self._calls.new()
        self._said |= {(line.what, line.who, line.slot) for line in calls}
        answers = (float(line.when) for line in (*new, *calls) if line.what in ANSWERS)
        self._answered = max([self._answered, *answers])
        if new or calls:
            self._moved = self._clock.boot()
        self._faults.look(new)
        self._crew.check()
        if self._first is not None:
            self._tell_due(int(self._clock.boot() - self._begun) + 1)

    def _tell_due(self, slots: int) -> None:
        due = min(max(slots, 0), self.settings.seconds)
        if due != self._shown:
            self._shown = due
            self._show(due)

    def _store_now(self) -> Instant:
        return self._store.load([]).now

    # --- what the store says ---

    def _runs(self) -> list[RunSeen]:
        found = []
        for task in self._tasks:
            now, cells = drive(read_all(Scan(f"run/{task.job}/")), self._store, self._clock)
            found += [seen_run(cell, now) for cell in cells]
        return found

    def _snapshot(self) -> None:
        """What is on record now, for the case that the store forgets it."""
        with suppress(StoreUnavailable):
            for run in self._runs():
                self._older[run.slot.key] = _on_record(run)

    def _result(self) -> Result:
        self._lines += self._ledger.new()
        assert self._first is not None
        slots = tuple(self._first + number * EVERY for number in range(self.settings.seconds))
        records = {run.slot.key: _on_record(run) for run in self._runs()}
        for key, older in self._older.items():
            records[key] = records.get(key, OnRecord()).joined(older)
        epoch = self._store.load([]).epoch
        verdicts = tuple(
            judge(
                {Slot(task.job, at).key: at for at in slots},
                [line for line in self._lines if line.slot.startswith(f"{task.job}@")],
                records,
                self._gaps(task, epoch),
                task.on_lost,
                exclusive=task.overlap != "allow",
            )
            for task in self._tasks
        )
        return Result(
            self.settings, verdicts, epoch.birth != self._epoch.birth, self._left_out,
            self._tasks, slots, self._begun, tuple(self._lines), records, tuple(self._faults.deeds),
        )  # fmt: skip

    def _gaps(self, task: Task, epoch: Epoch) -> list[Gap]:
        """Times of which the store says that it no longer knows."""
        (cell,) = self._store.load([job_cell(task.job)]).cells
        spans = decode_job(cell.value, cell.key).spans if cell.version else ()
        gaps = [Gap(span.start, span.end) for span in spans if span.reason == FORGOTTEN]
        floor = forgotten_floor(epoch, self._store.traits) if epoch.birth != self._epoch.birth else None
        return gaps if floor is None else [*gaps, Gap(None, floor)]

    def _remove(self) -> None:
        """Delete what was written; a store that does not answer keeps it."""
        with suppress(StoreUnavailable):
            for task in self._tasks:
                for prefix in (f"run/{task.job}/", f"turn/{task.job}/", f"refusals/{task.job}/", job_cell(task.job)):
                    _, cells = drive(read_all(Scan(prefix)), self._store, self._clock)
                    for start in range(0, len(cells), BATCH):
                        self._store.purge(cells[start : start + BATCH])


def _on_record(run: RunSeen) -> OnRecord:
    record = run.record
    if record is None:
        return OnRecord()
    ended = frozenset(str(past.fence) for past in record.past if past.fence and lets_another_run(past.end))
    return OnRecord(record.outcome, str(run.cell.fence or ""), ended)


def file_of(url: str) -> str | None:
    """The file that a URL names, if it names one."""
    return str(locate(url)[0]) if scheme_of(url) == "sqlite" else None
