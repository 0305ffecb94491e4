"""Guests: schedulers that are not ours, in processes that we guard. They say now and then that they are there and what
they have to fire, for people who look. Nothing is decided by it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from cronce.model import FREE, Mark, Write, guest_cell
from cronce.protocol.notices import ForeignJob, ForeignScheduler, encode_notice
from cronce.runtime.flow import Flow
from cronce.runtime.ledger import Ledger

SAID_EVERY: Final = 20.0
"""Seconds between two signs of a guest."""

TTL: Final = timedelta(seconds=60)
"""Without a sign for so long it is gone."""

MAX_JOBS_TOLD: Final = 50
"""Of so many of its jobs it says when they are due: the next ones."""


def say_there(ledger: Ledger, kind: str, jobs: Sequence[ForeignJob]) -> Flow[None]:
    """A guest is there, with these jobs, the next first."""
    if not ledger.client.traits.history:  # no room for it
        return
    guest = ForeignScheduler(ledger.client.holder, kind, tuple(jobs[:MAX_JOBS_TOLD]))
    write = Write(guest_cell(guest.holder), FREE, encode_notice(guest), Mark.FREE, ttl=TTL)
    yield from ledger.client.swap([write], ledger.know.epoch.seen)
