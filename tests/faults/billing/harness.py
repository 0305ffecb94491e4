"""The play: starts the receiver and three workers, does to them what the plan says, and counts when all is billed."""

import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from os import urandom
from pathlib import Path
from typing import Final

from cronce.clock import SystemClock
from cronce.errors import CronceError
from cronce.model import spell
from cronce.stores import scheme_of
from cronce.testing.child_processes import ChildProcesses
from cronce.torture.proxy import Link, Proxy
from cronce.torture.route import HostPort, address, through
from cronce.value import NamedTuple
from tests.faults.billing.ledgers import Books, File, Ledger, Progress, Table
from tests.faults.billing.person import Person
from tests.faults.billing.plan import Fault, Kind, plan
from tests.faults.billing.recipes import RECIPES
from tests.faults.billing.verdict import Verdict, count
from tests.faults.billing.worker import NIGHTS, Order, keeps_shop, marks_paid

PROCESSES: Final = ("w1", "w2", "w3")
IN_THE_MIDDLE: Final = 0.7
"""How many of the faults hit the process that charges just then; the others hit any."""

DROPS: Final = 3
"""Replies that are swallowed, one after the other."""

LOOK: Final = 0.001
STILL: Final = 0.02
"""Seconds between two looks: while invoices are charged, and while everybody waits for a lease to end."""

ROUNDS: Final = 1.0
"""Seconds between two rounds of the person who looks after the nights."""

PATIENCE: Final = 150.0
"""Seconds without any progress after which something hangs."""


class Settings(NamedTuple):
    variant: str
    store: str
    """The URL of cronce's store, or of the Redis with the lock."""
    shop: str = ""
    """The URL of the application's PostgreSQL, for the joined transaction."""
    invoices: int = 500
    kills: int = 50
    pauses: int = 6
    drops: int = 12
    lease: int = 2
    seed: int = 0


class Billing:
    """One month's billing. `show` is told how many invoices are charged so far."""

    def __init__(self, settings: Settings, folder: Path, show: Callable[[int], None] = lambda _done: None) -> None:
        self.settings, self._folder, self._show = settings, folder, show
        self._crew = self._hire_crew()
        self._lives = Counter[str]()
        self._done = Counter[str]()
        self._job = f"billing-{urandom(3).hex()}"
        self._slot = spell(SystemClock().wall().replace(day=1, hour=0, minute=0, second=0, microsecond=0))
        self._links: dict[str, dict[HostPort, Link]] = {name: {} for name in PROCESSES}
        self._hit_at = 0
        """How many invoices were charged when the last fault came."""
        self._paused: dict[str, float] = {}
        """Who is stopped, and until when."""
        self._recipe = RECIPES.get(settings.variant)
        self._person: Person | None = None
        self._round_at = 0.0

    def run(self) -> Verdict:
        began = time.monotonic()
        with ExitStack() as stack:
            self._ledger = stack.enter_context(closing(self._open_ledger()))
            self._payments = self._start_receiver(stack)
            self._link(stack)
            if self.settings.variant in NIGHTS:
                self._person = stack.enter_context(closing(self._hire()))
            stack.callback(self._clear)
            for name in PROCESSES:
                self._start(name)
            self._play()
            self._crew.end(PATIENCE)
            if self._person:
                self._look_into_doubts(self._person)
            return self._verdict(time.monotonic() - began)

    def _clear(self) -> None:
        self._crew.clear()

    def _hire_crew(self) -> ChildProcesses:
        return ChildProcesses("tests.faults.billing.worker", lambda name: self._folder / f"{name}.log")

    # --- the stage ---

    def _open_ledger(self) -> Ledger:
        if keeps_shop(self.settings.variant):
            return Table(self.settings.shop)
        if self._recipe and self._recipe.receiver == "SQLite":
            return File(self._file)
        if marks_paid(self.settings.variant):
            with closing(sqlite3.connect(self._file)) as shop, shop:
                shop.execute("CREATE TABLE invoices (id INTEGER PRIMARY KEY, paid INTEGER NOT NULL DEFAULT 0)")
                shop.executemany("INSERT INTO invoices (id) VALUES (?)", [(invoice,) for invoice in self._invoices])
        return Books(self._folder / "books")

    def _start_receiver(self, stack: ExitStack) -> str:
        words = [sys.executable, "-m", "tests.faults.billing.receiver", str(self._folder / "books")]
        receiver = stack.enter_context(
            subprocess.Popen(
                [*words, str(self.settings.seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )  # leaving it closes its input, and waits
        assert receiver.stdout is not None
        return f"http://127.0.0.1:{int(receiver.stdout.readline())}"

    def _link(self, stack: ExitStack) -> None:
        """A proxy for each process, before each server that is reached by TCP."""
        for to in {address(self.settings.store), address(self.settings.shop)}:
            if isinstance(to, HostPort):
                proxy = stack.enter_context(closing(Proxy(to)))
                for name in PROCESSES:
                    self._links[name][to] = proxy.link()

    @property
    def _file(self) -> str:
        return str(self._folder / "shop.db")

    @property
    def _invoices(self) -> range:
        return range(1, self.settings.invoices + 1)

    # --- the players ---

    def _start(self, name: str) -> None:
        """A process, new or again: each life has a name of its own."""
        self._lives[name] += 1
        settings = self.settings
        order = Order(
            self._life(name), settings.variant, self._job, self._slot, settings.invoices, settings.lease,
            self._way(name, settings.store), self._way(name, settings.shop) if settings.shop else self._file,
            self._payments, str(self._said),
        )  # fmt: skip
        self._crew.start(name)
        self._crew.tell(name, order.written())

    def _way(self, name: str, url: str) -> str:
        to = address(url)
        return through(url, self._links[name][to].port) if isinstance(to, HostPort) else url

    def _life(self, name: str) -> str:
        return f"{name}.{self._lives[name]}"

    @property
    def _said(self) -> Path:
        return self._folder / "said"

    @property
    def _billed(self) -> bool:
        """Whether everybody who lives has heard that the month is billed."""
        return all(self._life(name) in self._heard() for name in PROCESSES)

    def _heard(self) -> list[str]:
        return self._said.read_text().split() if self._said.exists() else []

    # --- what is done to them ---

    def _play(self) -> None:
        settings = self.settings
        kinds: dict[Kind, int] = {"kill": settings.kills, "pause": settings.pauses, "drop": settings.drops}
        faults = plan(settings.seed, settings.invoices, settings.lease, kinds)
        last, moved = Progress(), time.monotonic()
        while faults or self._paused or not self._billed:
            progress = self._ledger.progress()
            self._show(progress.invoices)
            if faults and self._is_due(faults[0], progress) and self._do(faults[0], progress.at_work):
                faults.pop(0)
                self._hit_at = progress.invoices
            self._wake()
            self._look_around()
            self._crew.check()
            if progress != last:
                last, moved = progress, time.monotonic()
            if time.monotonic() > moved + PATIENCE:
                raise CronceError(f"nothing moves any more, with {progress.invoices} invoices charged: {self._folder}")
            time.sleep(LOOK if time.monotonic() < moved + STILL else STILL)

    def _is_due(self, fault: Fault, progress: Progress) -> bool:
        """Between two faults something is charged: so each hits somebody who works, and not who was just hit."""
        return progress.invoices >= max(fault.at, min(self._hit_at + 1, self.settings.invoices))

    def _do(self, fault: Fault, at_work: str) -> bool:
        """Whether there is anybody it could be done to."""
        free = [name for name in PROCESSES if name not in self._paused]
        if not free:
            return False
        working = at_work.partition(".")[0]
        in_the_middle = fault.dice < IN_THE_MIDDLE and working in free
        who = working if in_the_middle else free[int(fault.dice * 1000) % len(free)]
        time.sleep(fault.late)
        match fault.kind:
            case "kill":
                self._crew.kill(who)
                self._start(who)
            case "pause":
                self._crew.stop(who)
                self._paused[who] = time.monotonic() + fault.lasts
            case "drop":
                for link in self._links[who].values():
                    link.drops += DROPS
                    self._done["reply"] += DROPS
        self._done[fault.kind] += 1
        return True

    def _wake(self) -> None:
        for who, until in [*self._paused.items()]:
            if until <= time.monotonic():
                del self._paused[who]
                self._crew.go_on(who)

    # --- the books are read, and then comes one more night ---

    def _hire(self) -> Person:
        whats = self._recipe.whats if self._recipe else ("charge",)
        return Person(self.settings.store, whats, self.settings.invoices // len(whats))

    def _look_around(self) -> None:
        """Between the nights, slots that went wrong are rerun; where a recipe stops at a doubt, that is looked into."""
        if self._person is None or time.monotonic() < self._round_at:
            return
        self._person.rerun()
        if self._recipe and self._recipe.stops:
            self._person.resolve(self._charged)
        self._round_at = time.monotonic() + ROUNDS

    def _look_into_doubts(self, person: Person) -> None:
        doubtful = person.in_doubt()
        charged = self._charged()
        self._done["once"] = self._once()
        self._done["unexplained"] = len({*self._invoices} - charged - doubtful)
        self._done["none"] = len(doubtful - charged)
        self._done["in doubt"] = len(doubtful) + len(person.resolved)
        deadline = time.monotonic() + PATIENCE
        while person.in_doubt() or self._charged() != {*self._invoices}:
            person.resolve(self._charged)
            self._one_more_night(deadline)

    def _one_more_night(self, deadline: float) -> None:
        name, self._crew = PROCESSES[0], self._hire_crew()
        self._start(name)
        while self._life(name) not in self._heard():
            self._crew.check()
            if time.monotonic() > deadline:
                raise CronceError(f"what is resolved is not charged after {PATIENCE:g} s: {self._folder}")
            time.sleep(STILL)
        self._crew.end(PATIENCE)

    def _charged(self) -> set[int]:
        return {entry.invoice for entry in self._ledger.entries() if entry.what == "charge"}

    def _once(self) -> int:
        """How many invoices have one charge."""
        counted = Counter(entry.invoice for entry in self._ledger.entries() if entry.what == "charge")
        return sum(number == 1 for number in counted.values())

    # --- what became of it ---

    def _verdict(self, seconds: float) -> Verdict:
        entries = self._ledger.entries()
        seen = Counter(entry.what for entry in entries)
        left = sum(link.drops for links in self._links.values() for link in links.values())
        charges, duplicates, missing = count(
            (entry.invoice for entry in entries if entry.what == "charge"), self._invoices
        )
        return Verdict(
            self.settings.variant, scheme_of(self.settings.store), self.settings.seed, self.settings.invoices,
            self._done["kill"], self._done["pause"], self._done["reply"] - left, seen["hung-up"],
            seen["request"] or charges, charges, duplicates, missing, round(seconds, 1), self._done["once"],
            self._done["none"], self._done["in doubt"], self._done["unexplained"],
            self._person.reruns if self._person else 0, self._once(),
        )  # fmt: skip
