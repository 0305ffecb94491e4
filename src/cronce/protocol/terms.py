"""The terms a slot is claimed on, and which terms are refused as mistakes."""

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
"""Long: no other process may take the slot, so none waits for the lease, and a database failover of a minute does not
stop the job function."""

SHORT_LEASE: Final = timedelta(seconds=10)
"""No default lease is shorter."""

RERUN_LEASE: Final = timedelta(seconds=30)
"""Short: another process waits to take over."""


class Terms(NamedTuple):
    """They are written with the grant: a process that finds the grant lapsed follows them."""

    lease: timedelta
    on_lost: OnLost = "skip"
    overlap: Overlap = "skip"
    turns: int = 1
    """How many runs of the job may go on at once; without meaning under overlap="allow"."""
    attempts: int = 1
    start_within: timedelta | None = None
    digest: str = ""
    """The version of the job in this process; without one it does not influence which version fires."""
    delay: timedelta = timedelta(0)
    """The earliest start, counted from its instant."""
    outside: bool = False
    """The trigger is outside: its call proves that the slot is due, and registers an unknown job just below its
    slot."""
    payload: str = ""
    """The run's payload, unless the run was requested with another."""
    joined: bool = False
    """Its runs may complete by a transaction in the user's database, which is asked before one is closed as lost."""

    @property
    def limit(self) -> int:
        """How many turns there are; 0: no limit."""
        return self.turns if is_limited(self.overlap) else 0

    @property
    def waits(self) -> bool:
        """A slot that finds no turn waits for one."""
        return self.overlap == "wait"

    def start_by(self, at: Instant) -> Instant | None:
        """When a slot of that instant is too late to start."""
        return None if self.start_within is None else at + self.start_within

    def by_hand(self) -> "Terms":
        """A run that a person requests is never too late, and waits for its turn: it is not skipped and replaces no
        other run."""
        return self._replace(start_within=None, overlap="wait" if is_limited(self.overlap) else self.overlap)

    def each_wanted(self) -> "Terms":
        """Under missed="all", and for slots that already wait, no slot is skipped in favour of another."""
        return self._replace(overlap="wait") if self.overlap == "skip" else self

    def only_noted(self) -> "Terms":
        """For a call that runs whatever the answer is: it claims only to learn what the answer would be."""
        overlap: Overlap = "skip" if is_limited(self.overlap) else self.overlap
        return self._replace(on_lost="skip", overlap=overlap, attempts=1, delay=timedelta(0))


class Wants(Protocol):
    """A wanted slot. `cell` is its key. `known`: a scan found its record, so read it first; otherwise it is assumed to
    be free. `nonce`: the same on each try while it is not known whether an earlier one landed."""

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
"""The terms that are in a record, or set the number of turns; the others are compared with what was read."""


def lease_for(on_lost: OnLost, gap: timedelta | None = None) -> timedelta:
    """The default lease. Under skip it is two thirds of the way to the next slot: a run that died early is noticed by
    then, and the next slot is not skipped because of it. It is never so short that a busy machine cannot renew it:
    stopping a live run is worse than noticing a dead one late."""
    if on_lost == "rerun":
        return RERUN_LEASE
    return SKIP_LEASE if gap is None else max(min(SKIP_LEASE, gap * 2 // 3), SHORT_LEASE)


MEANT: Final = 5
"""How many of the terms, from the first, are checked."""


def check_lease(lease: timedelta, traits: Traits) -> None:
    """Refuse a lease that would expire, given this store's clock errors, before the holder could act under it."""
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
    """The terms, if they are valid."""
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
