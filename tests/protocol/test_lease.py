"""How long a grant may be believed: trust ends before the lease does, and nobody takes over before trust ended."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from cronce.model import Epoch, Instant, Origin, Traits, to_us
from cronce.policy import OnLost
from cronce.protocol import lease
from cronce.protocol.lease import (
    FACTS_AGE,
    LOCK_LEASE,
    Contact,
    Sample,
    Trust,
    even_span,
    forgotten_floor,
    heard,
    hearing,
    margin,
    renew_every,
    tolerance,
    trust_end,
)
from cronce.protocol.retention import PURGE_DELAY
from cronce.protocol.terms import RERUN_LEASE, SKIP_LEASE, lease_for
from tests.protocol.examples import examples

NOON = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)
LEASE = timedelta(seconds=30)
EXACT = Traits("exact")


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


# --- trust ----------------------------------------------------------------------------------------------------------


def test_trust_counts_from_when_the_call_began_not_from_its_reply() -> None:
    end = trust_end(began=100.0, now=NOON, until=NOON + LEASE, lease=LEASE, traits=EXACT)
    assert end == 100.0 + 30 - 6  # whenever the reply came


def test_trust_counts_what_is_left_of_the_lease_not_its_length() -> None:
    read_back_late = trust_end(began=120.0, now=NOON + seconds(20), until=NOON + LEASE, lease=LEASE, traits=EXACT)
    assert read_back_late == 120.0 + 10 - 6


def test_trust_in_a_lease_that_is_over_never_began() -> None:
    end = trust_end(began=100.0, now=NOON + LEASE, until=NOON + LEASE, lease=LEASE, traits=EXACT)
    assert not Trust(end).holds(100.0)


@pytest.mark.parametrize(
    ("length", "skew", "step", "expected"),
    [
        (30, 0, 0, 6),
        (300, 0, 0, 60),
        (30, 2, 3, 11),
        (30, 5, 3, 14),
        (1, 0, 0.001, 0.201),
        (1, 0, 2, 2.2),
    ],
)
def test_the_margin_is_a_fifth_of_the_lease_and_what_the_stores_clock_is_off_by(
    length: float, skew: float, step: float, expected: float
) -> None:
    assert margin(seconds(length), Traits("x", skew=seconds(skew), step=seconds(step))) == seconds(expected)


def test_trust_holds_up_to_its_end_and_is_extended_while_it_holds() -> None:
    trust = Trust(100.0)
    assert trust.holds(99.9)
    assert not trust.holds(100.0)
    assert trust.extended(99.9, 120.0) == Trust(120.0)


def test_trust_that_has_ended_never_returns() -> None:
    ended = Trust(100.0)
    assert ended.extended(100.0, 1000.0) == ended
    assert ended.extended(500.0, 1000.0) == ended


def test_a_renewal_that_brings_less_takes_nothing_away() -> None:
    assert Trust(100.0).extended(50.0, 80.0) == Trust(100.0)


def test_two_renewals_may_fail_before_trust_ends() -> None:
    assert 3 * renew_every(LEASE, EXACT) <= LEASE - margin(LEASE, EXACT)


# --- lengths --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on_lost", "gap", "expected"),
    [
        ("rerun", None, RERUN_LEASE),
        ("rerun", seconds(5), RERUN_LEASE),
        ("skip", None, SKIP_LEASE),
        ("skip", timedelta(days=1), SKIP_LEASE),
        ("skip", seconds(60), seconds(40)),
        ("skip", seconds(1), seconds(10)),
    ],
)
def test_a_lease_is_short_where_somebody_waits_for_it(
    on_lost: OnLost, gap: timedelta | None, expected: timedelta
) -> None:
    assert lease_for(on_lost, gap) == expected


def test_purge_waits_longer_than_a_claim_can_rest_on_old_facts() -> None:
    assert PURGE_DELAY >= 2 * FACTS_AGE


def test_the_tolerance_of_the_watch_is_half_the_margin() -> None:
    assert 2 * tolerance(LEASE) == margin(LEASE, EXACT)


# --- the watch ------------------------------------------------------------------------------------------------------


def samples(offsets: Iterable[tuple[float, float]], width: float = 0.0) -> list[Sample]:
    """Samples at these readings of our clock, the store's being ahead by that much; newest first, as they are read."""
    taken = [Sample(boot, boot + width, NOON + seconds(boot + ahead)) for boot, ahead in offsets]
    return sorted(taken, reverse=True)


def even(taken: Sequence[Sample], slack: float = 3.0) -> float:
    return even_span(taken, seconds(slack)).total_seconds()


def test_a_watch_without_samples_or_with_one_has_seen_nothing() -> None:
    assert even([]) == 0
    assert even(samples([(0, 0)])) == 0
    assert even(samples([(0, 0)], width=1.0)) == 0


def test_a_steady_clock_is_even_as_far_back_as_it_was_watched() -> None:
    assert even(samples((t, 7.0) for t in range(61))) == 60


def test_the_latency_of_both_ends_is_not_counted_as_watched() -> None:
    assert even(samples(((t, 0.0) for t in (0, 30, 60)), width=0.5)) == 59.5


@pytest.mark.parametrize(("drift", "watched"), [(0.01, 100), (0.05, 60), (0.1, 30), (1.0, 3), (-0.1, 30), (-1.0, 3)])
def test_a_drifting_clock_is_even_for_as_long_as_it_stays_within_the_tolerance(drift: float, watched: float) -> None:
    assert even(samples((t, drift * t) for t in range(101))) == watched


@pytest.mark.parametrize("step", [3.5, 60, 3600, -3.5, -60, -3600])
def test_a_step_ahead_or_back_ends_what_was_even(step: float) -> None:
    assert even(samples((t, step if t >= 40 else 0.0) for t in range(61))) == 20


@pytest.mark.parametrize("step", [2.5, -2.5])
def test_a_step_within_the_tolerance_is_what_the_margin_pays_for(step: float) -> None:
    assert even(samples((t, step if t >= 40 else 0.0) for t in range(61))) == 60


def test_small_steps_add_up() -> None:
    assert even(samples((t, 2.0 * min(t // 20, 2)) for t in range(61))) == 40


def test_ahead_and_behind_add_up() -> None:
    assert even(samples([(60, 0.0), (40, 2.0), (20, -2.0), (0, 0.0)])) == 20


def test_a_step_ahead_and_back_again_is_still_a_step() -> None:
    assert even(samples((t, 60.0 if 30 <= t < 35 else 0.0) for t in range(61))) == 25


def test_a_wide_sample_proves_nothing_and_is_passed_over() -> None:
    slow = Sample(30.0, 40.0, NOON + seconds(35))
    assert even(sorted([slow, *samples([(0, 0), (60, 0)])], reverse=True)) == 60
    assert even(sorted([slow, *samples([(60, 0)])], reverse=True)) == 0


@pytest.mark.parametrize("ahead", [60, -60])
def test_a_wide_sample_that_contradicts_the_others_ends_what_was_even(ahead: float) -> None:
    slow = Sample(30.0, 40.0, NOON + seconds(35 + ahead))
    assert even(sorted([slow, *samples([(0, 0), (50, 0), (60, 0)])], reverse=True)) == 10


@pytest.mark.parametrize("served", [60, 65, 70])
def test_whoever_waited_long_for_the_newest_sample_knows_nothing_yet(served: float) -> None:
    slow = Sample(60.0, 70.0, NOON + seconds(served))
    assert even([slow, *samples((t, 0.0) for t in range(60))]) == 0


def test_a_step_there_and_back_between_two_samples_is_not_seen() -> None:
    """A limit of every watch: what a store's clock does while nobody looks is for its trait `step` to say."""
    assert even(samples([(0, 0.0), (60, 0.0)])) == 60


# --- after a store forgot -------------------------------------------------------------------------------------------


def test_after_a_store_forgot_nothing_up_to_its_birth_can_be_known() -> None:
    vague = Traits("vague", skew=seconds(2), step=seconds(1))
    assert forgotten_floor(Epoch(to_us(NOON), origin=Origin.FOUND), vague) == NOON + seconds(3)
    assert forgotten_floor(Epoch(to_us(NOON), origin=Origin.RESTORED), EXACT) == NOON
    assert forgotten_floor(Epoch(to_us(NOON), origin=Origin.MADE), vague) is None


def test_no_lock_is_longer_than_what_is_waited_after_a_store_forgot() -> None:
    assert seconds(30) == LOCK_LEASE


# --- the argument ---------------------------------------------------------------------------------------------------
#
# One holder, one observer, one store, each with a clock of its own. Real time is what nobody can read. The store's and
# the two boot clocks drift apart by up to 3 %; the store's clock also steps once, by any amount. The holder is granted,
# and renews once. Whenever the observer believes that the lease lapsed, and its write wins, the holder's trust is over.

SPAN = LEASE.total_seconds()
Real = float


class Clock(NamedTuple):
    rate: float
    step: float = 0.0
    stepped: Real = 0.0

    def at(self, real: Real) -> float:
        return self.rate * real + (self.step if real >= self.stepped else 0.0)


class Call(NamedTuple):
    """When it began, when the store answered, when the reply arrived: in real time."""

    began: Real
    served: Real
    ended: Real


class Story(NamedTuple):
    store: Clock
    holder: Clock
    observer: Clock
    grant: Call
    renewal: Call
    looks: tuple[Call, ...]  # of the observer; the last one reads the cell
    pause: float  # from the last look to the observer's write

    def now(self, call: Call) -> Instant:
        return NOON + seconds(self.store.at(call.served))

    def trust(self) -> Trust:
        first, second = (
            trust_end(self.holder.at(call.began), self.now(call), self.now(call) + LEASE, LEASE, EXACT)
            for call in (self.grant, self.renewal)
        )
        return Trust(first).extended(self.holder.at(self.renewal.ended), second)

    def until(self) -> Instant | None:
        """Of the lease as the last look finds it; None if there is none, or it changes before the observer's write."""
        read, write = self.looks[-1].served, self.looks[-1].ended + self.pause
        if not self.grant.served <= read or read < self.renewal.served <= write:
            return None
        return self.now(self.renewal if self.renewal.served <= read else self.grant) + LEASE

    def believed(self) -> bool:
        """Whether the observer takes over."""
        until = self.until()
        taken = [Sample(self.observer.at(c.began), self.observer.at(c.ended), self.now(c)) for c in self.looks]
        return (
            until is not None
            and self.now(self.looks[-1]) >= until
            and even_span(reversed(taken), tolerance(LEASE)) >= LEASE
        )

    def safe(self) -> bool:
        return not self.believed() or not self.trust().holds(self.holder.at(self.looks[-1].ended + self.pause))


rates = st.floats(0.985, 1.015)
latencies = st.sampled_from([0.0, 0.0, 0.1, 1.0, 5.0]) | st.floats(0, 3)
steps = st.sampled_from([0.0, SPAN / 10, -SPAN / 10, SPAN, -SPAN]) | st.floats(-3 * SPAN, 3 * SPAN)
waits = st.floats(0.7, 1.2) | st.floats(0, 3)  # how much of a lease after the renewal the observer looks


@st.composite
def calls(draw: st.DrawFn, began: Real) -> Call:
    served = began + draw(latencies)
    return Call(began, served, served + draw(latencies))


@st.composite
def stories(draw: st.DrawFn) -> Story:
    grant = draw(calls(0.0))
    renewal = draw(calls(grant.ended + draw(st.floats(0, 40))))
    looking = renewal.served + draw(waits) * SPAN
    every = draw(st.sampled_from([7.0, 14.0, 31.0]))
    return Story(
        Clock(draw(rates), draw(steps), stepped=draw(st.floats(-20, 100))),
        Clock(draw(rates)),
        Clock(draw(rates)),
        grant,
        renewal,
        tuple([draw(calls(looking - ago * every)) for ago in range(int(70 / every), -1, -1)]),
        draw(latencies),
    )


@examples(200)
@given(stories())
def test_whenever_a_lease_is_believed_to_have_lapsed_its_holders_trust_is_over(story: Story) -> None:
    event("believed" if story.believed() else "not believed")
    assert story.safe()


def at_once(real: Real) -> Call:
    return Call(real, real, real)


# All against the holder: its clock is slow, the store's fast, and steps ahead by almost what the watch tolerates.
AGAINST = Story(
    store=Clock(1.015, step=2.6, stepped=15.0),
    holder=Clock(0.985),
    observer=Clock(1.015),
    grant=at_once(-1.0),
    renewal=at_once(0.0),
    looks=tuple(at_once(27.0 - ago) for ago in range(35, -1, -1)),
    pause=0.0,
)


def test_the_margin_is_what_keeps_the_worst_case_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    assert AGAINST.believed()
    assert AGAINST.safe()
    monkeypatch.setattr(lease, "margin", lambda *_: timedelta(0))
    assert not AGAINST.safe()


def test_the_watch_is_what_keeps_a_jump_ahead_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    jump = AGAINST._replace(store=Clock(1.0, step=3600.0, stepped=15.0), looks=AGAINST.looks[:-10])
    assert not jump.believed()
    monkeypatch.setattr(f"{__name__}.even_span", lambda *_: timedelta(hours=1))
    assert jump.believed()
    assert not jump.safe()


# --- contact --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "expected"), [(1, 1.0), (3, 1.0), (6, 1.5), (30, 7.5), (32, 8.0), (300, 8.0)])
def test_holders_are_heard_for_about_as_long_as_between_two_renewals(length: float, expected: float) -> None:
    assert hearing(seconds(length)) == seconds(expected)


@pytest.mark.parametrize(
    ("pieces", "renewed", "expected"),
    [
        ([], 0, 0.0),
        ([(90, 100)], 70, 10.0),
        ([(50, 60), (90, 100)], 70, 10.0),
        ([(71, 75), (80, 82), (90, 100)], 70, 16.0),
        ([(71, 75), (80, 80.7), (90, 100)], 70, 14.0),
        ([(60, 75), (90, 100)], 70, 10.0),
        ([(71, 90), (99.5, 100)], 70, 0.0),
        ([(71, 97.9)], 70, 0.0),
        ([(71, 98)], 70, 27.0),
    ],
    ids=[
        "no contact", "one piece", "older ones do not count", "it adds up", "too short a piece",
        "before the first break", "contact is too young", "contact is over", "contact until a moment ago",
    ],
)  # fmt: skip
def test_what_is_heard_adds_up_since_contact_first_broke(
    pieces: list[tuple[float, float]], renewed: float, expected: float
) -> None:
    contacts = [Contact(since, upto) for since, upto in pieces]
    assert heard(contacts, renewed, 100).total_seconds() == pytest.approx(expected)


def test_without_a_break_since_the_last_renewal_all_was_heard() -> None:
    assert heard([Contact(70, 99)], 70, 100) == timedelta.max
    assert heard([Contact(70, 99)], 69.9, 100) == seconds(29)
    assert heard([Contact(70, 97)], 70, 100) == timedelta(0)
