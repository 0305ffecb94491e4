"""A scheduler while the store's clock leaps: no slot before its instant, none twice, all of them in the end. On a clock
that is turned by hand."""

from datetime import UTC, datetime, timedelta

import pytest

from cronce import Cronce
from cronce.policy import Missed
from cronce.testing import manual
from cronce.testing.manual_time import Manual

START = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)
LEAPS = [timedelta(hours=1), timedelta(hours=-1), timedelta(days=400), timedelta(days=-400)]
MINUTE = timedelta(minutes=1)


def leap(time: Manual, by: timedelta) -> None:
    """Of the store's clock alone."""
    time.store._clock = lambda: time.clock.wall() + by


def app(missed: Missed = "latest") -> Cronce:
    cron = Cronce("memory://")

    @cron.job(every="1m", name="tick", missed=missed, overlap="wait")
    def tick() -> None:
        """Does nothing."""

    return cron


@pytest.mark.parametrize("missed", ["latest", "all", "skip"])
@pytest.mark.parametrize("seconds", [3, 8, 60])
@pytest.mark.parametrize("by", LEAPS)
def test_each_slot_of_a_leap_runs_once_and_none_before_its_instant(by: timedelta, seconds: int, missed: Missed) -> None:
    with manual(app(missed), START, processes=2) as time:
        time.advance("178s")
        leap(time, by)
        time.advance(f"{seconds}s")
        assert len(time.ran) == 2
        leap(time, timedelta(0))
        time.advance("10m")
        assert [one.slot.at for one in time.ran] == [START + number * MINUTE for number in range(1, 14)]
        late = [one.at - one.slot.at for one in time.ran]
        assert max(late) < timedelta(seconds=seconds)
        assert min(late) >= timedelta(0)
        assert time.job("tick").floor == START


@pytest.mark.parametrize("by", LEAPS)
def test_schedulers_that_are_started_in_a_leap_begin_when_it_is_over(by: timedelta) -> None:
    with manual(app("all"), START) as time:
        time.advance("178s")
        leap(time, by)
        time.skip("1s")
        time.advance("29s")
        assert len(time.ran) == 2
        leap(time, timedelta(0))
        time.advance("10m")
        assert [one.slot.at for one in time.ran] == [START + number * MINUTE for number in range(1, 14)]
        assert time.job("tick").floor == START


def test_an_edit_in_a_leap_raises_no_floor() -> None:
    """It begins to fire when the leap is over."""
    with manual(app(), START) as time:
        time.advance("178s")
        leap(time, timedelta(days=400))
        time.advance("10s")
        other = app("all")
        leap(time, timedelta(days=400))
        time.cron = other
        time.skip("1s")
        time.advance("10s")
        assert time.job("tick").floor == START
        leap(time, timedelta(0))
        time.advance("5m")
        assert time.job("tick").floor < time.now
        assert time.ran[-1].slot.at == START + 8 * MINUTE
