"""etcd's clock is read off the second on its replies, and never taken to be later than it is."""

import random
from itertools import pairwise

import pytest

from cronce.stores.etcd import TRAITS
from cronce.stores.http_api import MAX_DOUBT, MAX_DRIFT, MEMBERS, ClockBounds, DateReading, bounds

START = 1_800_000_000.0
"""What the member's clock shows when our boot clock shows 0."""


def reading(boot: float, *, start: float = START, way: float = 0.002, member: str = "one") -> DateReading:
    """A reply written at `boot`, half of its way after it was asked for."""
    return DateReading(member, int(start + boot), boot - way / 2, boot + way / 2)


def known(*readings: DateReading) -> ClockBounds:
    first, *rest = readings
    found = bounds(first)
    for each in rest:
        found = found.narrowed(each)
    return found


def test_one_reply_tells_the_second() -> None:
    found = bounds(reading(10.7))
    assert found.now(10.701) == pytest.approx(START + 10)
    assert found.doubt(10.701) == pytest.approx(1.002)


def test_right_after_a_change_of_the_second_one_reply_tells_the_time() -> None:
    """And there the slots are."""
    assert bounds(reading(60.001)).now(60.002) == pytest.approx(START + 60, abs=0.002)


def test_two_replies_around_a_change_of_the_second_tell_the_time() -> None:
    found = known(reading(10.990), reading(11.010))
    assert found.now(11.011) == pytest.approx(START + 11, abs=0.002)
    assert found.doubt(11.011) == pytest.approx(0.022, abs=0.001)


def test_the_truth_is_always_between_the_bounds_and_now_never_falls() -> None:
    dice = random.Random(3)
    drift = 1 - MAX_DRIFT / 2
    boot, found, shown = 0.5, bounds(reading(0.5)), [0.0]
    for _ in range(5000):
        way = dice.choice([0.001, 0.02, 0.3])
        boot += 0.3 + dice.expovariate(2)  # one after the other
        start = START - boot * (1 - drift)
        found = found.narrowed(reading(boot, start=start, way=way))
        asked = boot + way / 2
        now, truth = found.now(asked), start + asked
        assert now <= truth + 0.001 * way < now + found.doubt(asked) + 0.001 * way
        shown.append(now)
    assert all(later > earlier for earlier, later in pairwise(shown))


def test_many_replies_sharpen_it_to_the_way_of_a_reply() -> None:
    found = known(*(reading(0.3 + number * 0.1037) for number in range(200)))
    assert found.doubt(21.1) < 0.03


@pytest.mark.parametrize("step", [-3600.0, -2.0, 2.0, 3600.0])
def test_a_clock_that_was_set_is_followed_at_once(step: float) -> None:
    sharp = known(*(reading(0.3 + number * 0.1037) for number in range(200)))
    found = sharp.narrowed(reading(30.5, start=START + step))
    assert found == bounds(reading(30.5, start=START + step))
    assert START + step + 29.5 < found.now(30.5) <= START + step + 30.5


def test_what_is_not_asked_for_grows_doubtful() -> None:
    found = bounds(reading(10.0))
    assert found.doubt(10.001) < MAX_DOUBT < found.doubt(10.001 + 260)
    assert found.now(1000.0) == pytest.approx(START + 1000 - 990 * MAX_DRIFT, abs=0.01)


def test_another_member_may_be_ahead_or_behind() -> None:
    sharp = known(reading(10.990), reading(11.010))
    assert sharp.narrowed(reading(11.5, member="two")).doubt(11.501) == pytest.approx(2 * MEMBERS, abs=0.03)
    ahead = sharp.narrowed(reading(11.5, start=START + 0.4, member="two"))
    assert ahead.now(11.501) <= START + 11.901 < ahead.now(11.501) + ahead.doubt(11.501)


@pytest.mark.parametrize("apart", [-0.5, -0.2, 0.2, 0.5])
def test_between_members_now_falls_by_less_than_the_traits_say(apart: float) -> None:
    """Whichever answers: the skew and the step that the margins rest on are true."""
    slack = (TRAITS.skew + TRAITS.step).total_seconds()
    dice = random.Random(7)
    boot, found, shown = 0.5, bounds(reading(0.5)), [0.0]
    for _ in range(3000):
        boot += dice.expovariate(3)
        way = dice.choice([0.001, 0.2])
        member, start = dice.choice([("one", START), ("two", START + apart)])
        found = found.narrowed(reading(boot, start=start, way=way, member=member))
        asked = boot + way / 2
        shown.append(found.now(asked))
        assert shown[-1] <= max(START, START + apart) + asked + 0.001
        assert START + asked - shown[-1] < slack
    assert all(later > earlier - slack for earlier, later in pairwise(shown))
