"""The job function of every peer. It appends to a file that no scheduler knows of; the lines of that file are counted.

Every peer's environment imports this, so it needs nothing but Python.
"""

import json
import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

LEASE: Final = 4
"""Seconds: the lease or time-to-live of every peer that has one. Their defaults would not fit into a cell."""

EARLY: Final = 0.2
"""Seconds that a peer may start before its slot, by its own clock."""


class Order(NamedTuple):
    """What a host is given."""

    host: str = "a"
    url: str = ""
    """The store of the peer."""
    broker: str = ""
    folder: str = "."
    period: int = 3
    """Seconds from one slot to the next, counted from the epoch; a divisor of 60."""
    works: float = 1.0
    """Seconds that the job function takes."""


@cache
def order() -> Order:
    return Order(*json.loads(os.environ.get("PEER_ORDER", "[]")))


def current() -> int:
    """The slot that has come by this process's clock, for tools that do not tell the job function."""
    period = order().period
    return int((time.time() + EARLY) // period) * period


def run(slot: float | None = None, check: Callable[[], object] = lambda: None) -> None:
    """One run. `check` is what a tool offers to ask, just before an effect, whether this run still holds its slot."""
    at = current() if slot is None else round(slot)
    write("begin", at)
    time.sleep(order().works)
    check()
    write("end", at)


def up() -> None:
    """This process is ready."""
    write("up", 0)


def write(what: str, slot: int) -> None:
    """One line, in one write: lines of different processes never mix. All have the same monotonic clock."""
    line = f"{what} {slot} {order().host} {time.monotonic():.3f}\n"
    file = os.open(f"{order().folder}/ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


class Line(NamedTuple):
    what: str
    slot: int
    host: str
    when: float


def read(folder: Path) -> list[Line]:
    file = folder / "ledger"
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return [Line(what, int(slot), host, float(when)) for what, slot, host, when in lines]
