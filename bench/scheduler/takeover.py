"""A process goes away in the middle of a run, and another runs the slot again: how soon."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench import postgres
from bench.harness import Within
from bench.scheduler.book import Entry, read
from bench.scheduler.process import Child
from bench.scheduler.report import Line
from tests.house.wait import wait_until

LEASE = 3


class Size(NamedTuple):
    cycles: int


def takeover(size: Size) -> Iterator[Line]:
    with postgres.server() as server:
        urls = [f"{server.url}?schema=gone_{number}" for number in range(2 * size.cycles)]
        killed = [after_kill(url) for url in urls[::2]]
        told = [after_term(url) for url in urls[1::2]]
    yield Line(f"SIGKILL to the re-run, lease {LEASE} s", killed, limit=Within(LEASE + 1))
    yield Line("SIGTERM: end of the body to the re-run", told, limit=Within(0.2))


def after_kill(url: str) -> float:
    """From the signal to the second start."""
    with TemporaryDirectory() as folder:
        killed, (first, second, end) = gone(url, Path(folder, "book"), signal.SIGKILL, 3)
    if (first.what, second.what, end.what) != ("start", "start", "end") or first.pid == second.pid != end.pid:
        raise AssertionError(f"one start, then a start and an end elsewhere: {first}, {second}, {end}")
    return second.at - killed


def after_term(url: str) -> float:
    """From the end of the body, which is cut short, to the second start."""
    with TemporaryDirectory() as folder:
        _, (first, cut, second, end) = gone(url, Path(folder, "book"), signal.SIGTERM, 4)
    if not first.pid == cut.pid != second.pid == end.pid or [cut.what, second.what] != ["end", "start"]:
        raise AssertionError(f"a start and an end, then the same elsewhere: {first}, {cut}, {second}, {end}")
    return second.at - cut.at


def gone(url: str, book: Path, number: signal.Signals, entries: int) -> tuple[float, list[Entry]]:
    """Two processes, of which the one that has the slot is sent the signal; when, and all that was written."""
    at = int(time.time()) + 4
    arguments = {"url": url, "book": str(book), "at": at, "lease": f"{LEASE}s"}
    with Child("holder", **arguments) as one, Child("holder", **arguments) as other:
        wait_until(lambda: read(book))
        holder = {child.pid: child for child in (one, other)}[read(book)[0].pid]
        sent = time.time()
        holder.send(number)
        wait_until(lambda: len(read(book)) >= entries)
    return sent, read(book)
