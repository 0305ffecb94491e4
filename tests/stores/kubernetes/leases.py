"""Runs of a job in its Lease, as the tests of the Kubernetes store write them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from cronce.model import (
    ABSENT,
    Cell,
    Mark,
    Write,
    spell,
)
from cronce.stores.base import Store
from cronce.testing.contract import (
    change,
    claim,
    win,
)
from tests.servers.kubernetes import Kubernetes

NOON = datetime(2026, 3, 29, 12, 0, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Requests:
    """What was asked of the server since it was last asked."""

    def __init__(self, server: Kubernetes) -> None:
        self.server = server
        self()

    def __call__(self) -> dict[str, int]:
        counted = dict(self.server.requests)
        self.server.requests.clear()
        return counted


def run(minute: int) -> str:
    return f"run/billing/{spell(NOON + minute * MINUTE)}"


def begin(minute: int, **more: Any) -> list[Write]:
    """A slot and its turn, as a claim takes them."""
    slot = claim(run(minute), at=NOON + minute * MINUTE, group=1, seen=ABSENT)
    return [slot._replace(**more), claim("turn/billing/0", grant=False, group=1)]


def end(cells: Sequence[Cell], mark: Mark = Mark.CLOSED) -> list[Write]:
    slot, turn = cells
    return [change(slot, mark=mark, group=1), change(turn, mark=Mark.FREE, group=1)]


def through(store: Store, minute: int) -> Cell:
    """A slot from its claim to its end."""
    return win(store, *end(win(store, *begin(minute))))[0]


@contextmanager
def losing(server: Kubernetes, which: Callable[[str, str], bool]) -> Iterator[None]:
    """A server that loses replies."""
    server.losing, before = which, server.losing
    yield
    server.losing = before
