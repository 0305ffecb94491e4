"""Many jobs due at the same instant: how late their bodies start, how many start in a second, how many never.

The schedulers stand side by side, each with its slots some seconds after those of the one before.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench import postgres, valkey
from bench.harness import AtLeast, AtMost
from bench.scheduler.book import Tally, exactly_once, percentile, read, tally
from bench.scheduler.jobs import names
from bench.scheduler.peers import alchemy, installed
from bench.scheduler.process import Child, sleep_until
from bench.scheduler.report import Line
from tests.servers.valkey import Valkey

BEATS = 5.0
"""For how many seconds Celery beat ticks: it would take minutes to send them all."""

LEAD = 1.0
"""Seconds for which everybody is there before the first slot that counts."""


class Arm(NamedTuple):
    """A scheduler, and how many seconds its slots lie after the grid's."""

    offset: float
    start: Callable[[Path], Child]


class Size(NamedTuple):
    jobs: int
    cycles: int
    period: int
    """Seconds from one cycle to the next."""
    shares: Mapping[str, float]
    """When in a period each has its turn, by name, and when the next one's begins."""


def same_second(size: Size) -> Iterator[Line]:
    """A thousand jobs due in the same second."""
    with postgres.server() as server:
        arms = {
            "ours": ours(server.url, size),
            **aps("memory", None, size),
            **aps("postgresql", alchemy(server.url), size),
            **aps("default grace", alchemy(server.url), size, graceful=False),
        }
        found = compared(arms, size, Beats(1))
    yield Line(f"p50 slot to body of {size.jobs:,}", lateness(found["ours"], 50))
    yield Line(f"p99 slot to body of {size.jobs:,}", lateness(found["ours"], 99))
    yield from delays(found, "memory", 1.5)
    yield from delays(found, "postgresql", 0.15)
    for name, tallies in found.items():
        if name != "ours":
            dropped = sum(cycle.missed for cycle in tallies)
            yield Line(f"dropped of {size.cycles * size.jobs:,}, APScheduler, {name}", peer=[dropped], unit="runs")


def all_due(size: Size) -> Iterator[Line]:
    """All of ten thousand jobs due at once."""
    with postgres.server() as server, beating(size) as beats:
        arms = {"ours": ours(server.url, size), **aps("postgresql", alchemy(server.url), size)}
        found = compared(arms, size, beats)
    each = {name: [cycle.delays[-1] / len(cycle.delays) for cycle in tallies] for name, tallies in found.items()}
    yield Line(f"last of {size.jobs:,} bodies", [cycle.delays[-1] for cycle in found["ours"]])
    if "postgresql" in each:
        yield Line("each body, APScheduler on PostgreSQL", each["ours"], each["postgresql"], AtLeast(10))
    if beats.each:
        yield Line("each body, Celery beat (it only sends)", each["ours"], beats.each, AtLeast(10))


class Beats:
    """Celery beat with as many entries, all due, which ticks for a while when it is its turn."""

    def __init__(self, share: float, child: Child | None = None, broker: Valkey | None = None) -> None:
        self.share, self._child, self._broker = share, child, broker
        self.each: list[float] = []
        """Seconds for each message, by what the broker has."""

    def turn(self) -> None:
        if self._child and self._broker:
            before = self._broker.cli("LLEN", "celery")
            began = time.monotonic()
            self._child.ask(BEATS)
            self.each.append((time.monotonic() - began) / (self._broker.cli("LLEN", "celery") - before))


@contextmanager
def beating(size: Size) -> Iterator[Beats]:
    if not installed("celery"):
        yield Beats(1)
        return
    with valkey.server() as broker, TemporaryDirectory() as folder:
        file = str(Path(folder, "beat"))
        with Child("beat", url=broker.url, jobs=size.jobs, file=file, due=True) as child:
            child.told()
            yield Beats(size.shares["beat"], child, broker)


def ours(url: str, size: Size) -> Arm:
    start = lambda book: Child("ours", url=url, book=str(book), jobs=size.jobs, every=f"{size.period}s")  # noqa: E731
    return Arm(0, start)


def aps(name: str, url: str | None, size: Size, *, graceful: bool = True) -> dict[str, Arm]:
    if not installed("apscheduler"):
        return {}
    offset = size.shares[name] * size.period
    place = {"url": url, "table": f"aps_{name.replace(' ', '_')}", "every": size.period, "offset": offset}
    return {name: Arm(offset, lambda book: Child("aps", book=str(book), jobs=size.jobs, graceful=graceful, **place))}


def compared(arms: Mapping[str, Arm], size: Size, beats: "Beats") -> dict[str, list[Tally]]:
    """What each of them did in each cycle. Slots of ours that ran twice or never end it here."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        books = {name: Path(folder, name.replace(" ", "-")) for name in arms}
        for child in [stack.enter_context(arm.start(books[name])) for name, arm in arms.items()]:
            child.told()
        first = -(-(time.time() + LEAD) // size.period) * size.period
        slots = [first + cycle * size.period for cycle in range(size.cycles)]
        for slot in slots:
            sleep_until(slot + beats.share * size.period)
            beats.turn()
            sleep_until(slot + size.period - 0.2)
        ends = {name: read(book) for name, book in books.items()}
    found = {
        name: [
            tally(ends[name], names(size.jobs), slot + arm.offset, slot + arm.offset + size.period) for slot in slots
        ]
        for name, arm in arms.items()
    }
    exactly_once(found["ours"])
    return found


def lateness(tallies: Sequence[Tally], percent: float) -> list[float]:
    return [percentile(cycle.delays, percent) for cycle in tallies]


def delays(found: Mapping[str, Sequence[Tally]], peer: str, bound: float) -> Iterator[Line]:
    if peer in found:
        yield Line(f"p50, APScheduler, {peer}", peer=lateness(found[peer], 50))
        sides = lateness(found["ours"], 99), lateness(found[peer], 99)
        yield Line(f"p99, APScheduler, {peer}", *sides, AtMost(bound))
