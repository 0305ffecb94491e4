"""How long a grant may be believed: the arithmetic of lease, trust and watch. Pure; every clock is an argument.

THEORY OF OPERATION

Two clocks matter. The *store's* clock dates leases: a grant made at store time s with a time-to-live L lapses at
until = s + L, and no other process gets it before that. The *holder's* boot clock (it counts suspend) dates trust: what
the holder may do without asking. Trust must end before the lease lapses, whatever the network did:

    holder   began ─────────── ended                      trust ends
    (boot)     │   request   reply │                          │
    store      └──► s ─────────────┘          until = s + L   ▼        ▼ lapses
                    now                                       │◄margin►│

    trust ends at  began + (until − now) − margin

The store's clock was read after the call began, so `began` is never too late, however slow the reply was; `ended`
would be. (until − now) is what is left of the lease, not L: a lost reply resolved by reading back must not start the
lease anew. Nor is it ever more than L: a store clock that stepped back since must not stretch the lease.

The margin covers what the two clocks may disagree on while the lease runs: unnoticed steps and skew of the store's
clock (its traits), plus L/5: half for the watch's tolerance below, half for the drift of the holder's clock.

A store clock that jumps ahead would make every lease look lapsed at once. So a process believes that a lease lapsed
only if its own samples (boot clock and store clock) ran evenly for at least L. Then at least 0.9 L of real time passed
since the last renewal that could have set `until`, and the holder's trust (0.8 L) has ended. After a step back, other
processes only wait longer.

Where a store has several clocks (`Traits.one_clock`), the clock that dated a lease need not be the one that was
watched. There a process believes that a lease lapsed only if it saw the cell unchanged for at least L by its own clock.
Then the last renewal is at least that long ago, whatever any of the store's clocks shows.

While the store is unreachable no holder can renew, so a missing renewal in that time does not prove a crash. *Contact*
is what a reader knows of it: answers to its own writes, since a store may be read-only. If contact broke since the last
renewal, holders are *heard* before the lease counts as lapsed: each tries to write at least twice a second. The heard
time adds up over the pieces of contact, so a store that is reachable only now and then does not block a takeover.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from cronce.model import EPOCH, Boot, Epoch, Instant, Traits
from cronce.value import NamedTuple

FACTS_AGE: Final = timedelta(seconds=30)
"""A claim rests on facts read at most this long ago; later the store refuses it."""

LONGEST_LEASE: Final = timedelta(minutes=5)
"""A longer lease could not be watched: processes remember only a few minutes of the store's clock."""

LOCK_LEASE: Final = timedelta(seconds=30)
"""No lock or leader has a longer lease. So this long after a store forgot, no process still trusts one."""


def margin(lease: timedelta, traits: Traits) -> timedelta:
    """How much earlier trust ends than the lease."""
    return 2 * tolerance(lease) + traits.skew + traits.step


def trust_end(began: Boot, now: Instant, until: Instant, lease: timedelta, traits: Traits) -> Boot:
    """When trust ends on the holder's boot clock, counted from the call that granted or renewed."""
    return began + (min(until - now, lease) - margin(lease, traits)).total_seconds()


class Trust(NamedTuple):
    """A window that can be extended while it is open, and never reopens once it has ended."""

    end: Boot

    def holds(self, boot: Boot) -> bool:
        return boot < self.end

    def extended(self, boot: Boot, end: Boot) -> "Trust":
        return Trust(max(self.end, end)) if self.holds(boot) else self


def renew_every(lease: timedelta, traits: Traits) -> timedelta:
    """Early enough that two renewals may fail before trust ends."""
    return max(lease - margin(lease, traits), lease / 20) / 3


class Sample(NamedTuple):
    """The store's time, and the readings of this process's boot clock before and after it."""

    began: Boot
    ended: Boot
    now: Instant


NO_SAMPLE: Final = Sample(0.0, 0.0, EPOCH)


def even_span(samples: Iterable[Sample], tolerance: timedelta, enough: timedelta = timedelta.max) -> timedelta:
    """For how long, back from the newest sample, the store's clock surely ran evenly with ours; newest comes first.

    Each sample bounds the offset store − boot between now − ended and now − began. The clocks ran evenly as far back
    as all those bounds together span no more than the tolerance. A slow reply bounds the offset too loosely to prove
    anything, so it is passed over, unless it contradicts the others. Who has `enough` looks no further back.
    """
    slack, most_wanted = tolerance.total_seconds(), enough.total_seconds()
    newest: Sample | None = None
    low = high = span = 0.0
    for sample in samples:
        newest = newest or sample
        shift = (sample.now - newest.now).total_seconds()
        least, most = shift + newest.ended - sample.ended, shift + newest.ended - sample.began
        if most - least > slack / 2:
            if sample is newest or least > high or most < low:
                break
            continue
        low, high = min(low, least), max(high, most)
        if high - low > slack or span > most_wanted:
            break
        span = newest.began - sample.ended
    return timedelta(seconds=max(span, 0.0))


def tolerance(lease: timedelta) -> timedelta:
    """How unevenly the clocks may have run over a lease; the margin is twice this."""
    return lease / 10


PIECE: Final = 0.75
"""In this many seconds of contact every holder has tried to write: it does so every half a second."""


class Contact(NamedTuple):
    """A time in which the store answered this process's writes: from the first answer to the last."""

    since: Boot
    upto: Boot

    def reaches(self, boot: Boot) -> bool:
        return boot - self.upto <= 2.0


def hearing(lease: timedelta) -> timedelta:
    """How long to wait for holders after contact broke: about as long as from one renewal to the next."""
    return min(max(lease / 4, timedelta(seconds=1)), timedelta(seconds=8))


def heard(contacts: Sequence[Contact], renewed: Boot, boot: Boot) -> timedelta:
    """For how long a holder that renewed then could be heard since contact first broke; without a break, for ever. A
    piece counts if it is longer than a holder waits between two tries, and such contact must exist now."""
    if not contacts or not contacts[-1].reaches(boot):
        return timedelta(0)
    if contacts[-1].since <= renewed:
        return timedelta.max
    spans = [contact.upto - contact.since for contact in contacts if contact.since > renewed]
    return timedelta(seconds=sum(span for span in spans if span >= PIECE) if spans[-1] >= PIECE else 0.0)


def forgotten_floor(epoch: Epoch, traits: Traits) -> Instant | None:
    """Up to this instant nothing is known after a store forgot. A slot is never granted before its instant, so no slot
    later than the birth can have been granted in an earlier life."""
    return epoch.born + traits.skew + traits.step if epoch.forgot else None
