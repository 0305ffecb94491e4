"""On what terms a slot is claimed, and which terms cannot be meant."""

from datetime import timedelta
from operator import itemgetter
from typing import Final, Protocol

from cronce.errors import BadPolicy
from cronce.model import Instant, Slot, Traits
from cronce.policy import OnLost, Overlap, check_choice, is_limited
from cronce.protocol.lease import LONGEST_LEASE, margin
from cronce.schedule import format_duration
from cronce.value import NamedTuple

SKIP_LEASE: Final = LONGEST_LEASE
"""Nobody may take the slot, so nobody waits for the lease: long, and a database failover of a minute kills no body."""

SHORT_LEASE: Final = timedelta(seconds=10)
"""No default is shorter."""

RERUN_LEASE: Final = timedelta(seconds=30)
"""Somebody waits to take over: short."""


class Terms(NamedTuple):
    """They are written with the grant: a process that finds it lapsed goes by them."""

    lease: timedelta
    on_lost: OnLost = "skip"
    overlap: Overlap = "skip"
    turns: int = 1
    """How many runs of the job may go on at once; without meaning under overlap="allow"."""
    attempts: int = 1
    start_within: timedelta | None = None
    digest: str = ""
    """Which version of the job this process carries; without one it has no say in which version fires."""
    delay: timedelta = timedelta(0)
    """How long after its instant it may start at the earliest."""
    outside: bool = False
    """The trigger is outside: its call is its own evidence, and registers an unknown job just below its slot."""
    payload: str = ""
    """What the run is given, unless it was asked for with something else."""
    joined: bool = False
    """Its runs may complete by a transaction in the user's database, which is asked before one is closed as lost."""

    @property
    def limit(self) -> int:
        """How many turns there are to take."""
        return self.turns if is_limited(self.overlap) else 0

    @property
    def waits(self) -> bool:
        """A slot that finds no turn waits for one."""
        return self.overlap == "wait"

    def start_by(self, at: Instant) -> Instant | None:
        """When a slot of that instant is too late to start."""
        return None if self.start_within is None else at + self.start_within

    def by_hand(self) -> "Terms":
        """What a person asks for is never too late, and waits for its turn: it neither gives way nor pushes others
        out."""
        return self._replace(start_within=None, overlap="wait" if is_limited(self.overlap) else self.overlap)

    def each_wanted(self) -> "Terms":
        """Under missed="all", and of what waits already, no slot gives way to another."""
        return self._replace(overlap="wait") if self.overlap == "skip" else self

    def only_noted(self) -> "Terms":
        """Of a call that runs whatever the answer: it is claimed to see what the answer would be."""
        overlap: Overlap = "skip" if is_limited(self.overlap) else self.overlap
        return self._replace(on_lost="skip", overlap=overlap, attempts=1, delay=timedelta(0))


class Wants(Protocol):
    """Who wants a slot. `cell` is its key. `known`: it is on record, as a scan found it: read it first; else it is
    guessed to be nobody's. `nonce`: the same each time that it is asked for and nobody knows whether it landed."""

    @property
    def slot(self) -> Slot: ...
    @property
    def cell(self) -> str: ...
    @property
    def terms(self) -> Terms: ...
    @property
    def known(self) -> bool: ...
    @property
    def nonce(self) -> str: ...


_COMPARED_FIELDS: Final = ("start_within", "digest", "delay", "outside")
written: Final = itemgetter(*[place for place, field in enumerate(Terms._fields) if field not in _COMPARED_FIELDS])
"""What of the terms is in a record, or says how many turns there are; the rest is compared with what was read."""


def lease_for(on_lost: OnLost, gap: timedelta | None = None) -> timedelta:
    """The default length; under skip two thirds of the way to the next slot, so that a run that died early is noticed
    by then, and the next slot does not give way to it; but never so short that a busy machine cannot renew it: a living
    run that is stopped is worse than a dead one noticed late."""
    if on_lost == "rerun":
        return RERUN_LEASE
    return SKIP_LEASE if gap is None else max(min(SKIP_LEASE, gap * 2 // 3), SHORT_LEASE)


MEANT: Final = 5
"""The first so many of the terms are what is checked of them."""


def check_lease(lease: timedelta, traits: Traits) -> None:
    """Refuse a lease that is over, by the doubts about this store's clock, before anybody could act under it."""
    if lease <= margin(lease, traits):
        least = 2 * (traits.skew + traits.step)
        raise BadPolicy(
            f"a lease of {format_duration(lease)} is too short for {traits.name}, whose clock is only known to"
            f" {format_duration(traits.skew + traits.step)}; use {format_duration(least)} or more"
        )


def check_terms(terms: Terms, traits: Traits) -> None:
    """Refuse what this store cannot keep."""
    check_lease(terms.lease, traits)
    if not traits.history and terms.limit != 1:
        raise BadPolicy(
            f"{traits.name} keeps only the last slots of a job, so its runs cannot overlap: overlap='allow' and"
            " turns above 1 do not work there; leave them out, or use a database, such as postgresql://"
        )


def checked(terms: Terms) -> Terms:
    """The terms, if they can be meant."""
    if not timedelta(0) < terms.lease <= LONGEST_LEASE:
        longest = format_duration(LONGEST_LEASE)
        raise BadPolicy(
            f"a lease must be more than zero and at most {longest}; it is renewed while the run works; this is"
            f" {terms.lease}"
        )
    for name, number in (("turns", terms.turns), ("attempts", terms.attempts)):
        if number < 1:
            raise BadPolicy(f"{name} must be 1 or more, not {number}")
    check_choice("on_lost", terms.on_lost, OnLost)
    check_choice("overlap", terms.overlap, Overlap)
    return terms
