"""What time it is on a server that says so only by the second in the `Date` of its replies: etcd, Kubernetes.

A *member* is one of several machines that may answer.

A reply dated D, asked for at `began` and here at `ended` on our boot clock, was written at some moment between the two,
and at that moment the member's clock stood between D and D + 1 s. So the offset *member's clock − boot clock* is

    at least  D − ended        (the reply was written at the latest when it arrived)
    below     D + 1 s − began  (and at the earliest when it was asked for)

Every reply gives such a pair of bounds, and the truth lies in all of them: a few replies around a change of the second
narrow a whole second down to the length of a round trip. Old bounds grow by DRIFT, since no two clocks run alike, and
by MEMBERS when another member answers. If nothing is left between them, the clock was set: begin anew.

`now` is the lower bound: the latest instant that the server's clock has surely reached. It never claims a slot early,
never takes a lease for lapsed early, and does not fall while the clock is left alone. It is behind by what is not known
yet, at most a second and the way of a reply; a lease written by it ends that much early for others, and the margin of
trust (`Traits.step` and `Traits.skew`) pays for that. It is exact right after a change of the second, where slots are.
"""

from collections.abc import Callable
from datetime import timedelta
from email.utils import parsedate_to_datetime
from math import inf

from cronce.errors import StoreUnusable
from cronce.model import EPOCH, Boot, Instant
from cronce.value import NamedTuple

DRIFT = 500e-6
"""Two clocks drift apart by less than this: the most by which NTP slews one."""

MEMBERS = 0.5
"""Seconds by which the clocks of two members may differ: far more than NTP allows."""

WIDEST = 1.25
"""Seconds of doubt with which nothing is written: the one of the date, and a quarter for the way of its reply."""


class Reading(NamedTuple):
    """The second that a member wrote on a reply, and between which readings of our boot clock."""

    member: str
    second: int
    began: Boot
    ended: Boot


class Bounds(NamedTuple):
    """Between which numbers of seconds a member's clock was ahead of our boot clock, as known at `when`."""

    member: str
    low: float
    high: float
    when: Boot

    def now(self, boot: Boot) -> float:
        """The instant that the member's clock has surely reached, in seconds since 1970."""
        return boot + self._aged(boot).low

    def doubt(self, boot: Boot) -> float:
        """By how many seconds that may be behind."""
        aged = self._aged(boot)
        return aged.high - aged.low

    def _aged(self, boot: Boot) -> "Bounds":
        return self._widened(DRIFT * max(boot - self.when, 0.0))

    def _widened(self, by: float) -> "Bounds":
        return self._replace(low=self.low - by, high=self.high + by)

    def narrowed(self, reading: Reading) -> "Bounds":
        """What is known after one more reply."""
        fresh = bounds(reading)
        known = self._aged(reading.ended)
        if self.member != reading.member:
            known = known._widened(MEMBERS)
        low, high = max(known.low, fresh.low), min(known.high, fresh.high)
        return fresh if low >= high else fresh._replace(low=low, high=high)


def bounds(reading: Reading) -> Bounds:
    """What one reply tells."""
    return Bounds(reading.member, reading.second - reading.ended, reading.second + 1 - reading.began, reading.ended)


class ServerClock:
    """What all replies up to now tell together."""

    def __init__(self, boot: Callable[[], Boot]) -> None:
        self._boot = boot
        self._bounds: Bounds | None = None

    def heard(self, reading: Reading) -> None:
        self._bounds = bounds(reading) if self._bounds is None else self._bounds.narrowed(reading)

    def now(self) -> Instant:
        assert self._bounds is not None, "opened by asking"
        return EPOCH + timedelta(seconds=self._bounds.now(self._boot()))

    @property
    def doubt(self) -> float:
        return inf if self._bounds is None else self._bounds.doubt(self._boot())

    @property
    def is_sure(self) -> bool:
        """Whether something may be written by it; else one asks, after a slow reply or a long sleep."""
        return self.doubt <= WIDEST


def second_of(date: str | None, shown: str) -> int:
    try:
        return int(parsedate_to_datetime(date or "").timestamp())
    except ValueError:
        raise StoreUnusable(
            f"{shown}: the replies carry no Date, so the server's clock cannot be read; is a proxy before it?"
        ) from None
