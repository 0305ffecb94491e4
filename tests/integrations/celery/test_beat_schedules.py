"""What Celery calls a schedule, as slots that are the same for every beat."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.schedules import BaseSchedule, crontab, maybe_schedule

from cronce.errors import BadInput
from cronce.integrations.celery.beat import rule_of
from cronce.schedule import At, Cron, Every


def made(schedule: Any, **conf: object) -> Any:
    """As an entry of an app has it."""
    app = Celery("shop", set_as_current=False)
    app.conf.update(conf)
    return maybe_schedule(schedule, app=app)


@pytest.mark.parametrize(
    ("schedule", "expression"),
    [
        (crontab(), "* * * * *"),
        (crontab(minute="*/15"), "*/15 * * * *"),
        (crontab(minute=0, hour="*/3"), "0 */3 * * *"),
        (crontab(minute="*/15,7", hour="8-17/3"), "0,7,15,30,45 8,11,14,17 * * *"),
        (crontab(minute="30", hour="22-2", day_of_week="mon-fri"), "30 0,1,2,22,23 * * 1,2,3,4,5"),
        (crontab(minute=[0, 30], hour=4, day_of_week="sun"), "0,30 4 * * 0"),
        (crontab(minute=0, hour=0, day_of_month="1,15", month_of_year="jan-mar"), "0 0 1,15 1,2,3 *"),
        (crontab(minute="*/90"), "*/60 * * * *"),
        (crontab(minute=0, hour=0, day_of_month="*/2", day_of_week="mon"), "0 0 */2 * 1"),
    ],
)
def test_a_crontab_is_our_cron(schedule: crontab, expression: str) -> None:
    assert rule_of(made(schedule), 2026) == Cron(expression)


def test_a_crontab_is_in_the_zone_of_the_app() -> None:
    at_nine = Cron("0 9 * * *", "Europe/Berlin")
    for utc in (True, False):
        assert rule_of(made(crontab(0, 9), timezone="Europe/Berlin", enable_utc=utc), 2026) == at_nine


def test_a_zone_without_a_name_is_refused() -> None:
    schedule = made(crontab(0, 9))
    schedule.tz = timezone(timedelta(hours=1))
    with pytest.raises(BadInput, match="set timezone = 'Europe/Berlin'"):
        rule_of(schedule, 2026)


def test_every_five_minutes_goes_on_in_the_hour_that_comes_twice() -> None:
    """Celery's own crontab skips all of it."""
    rule = rule_of(made(crontab(minute="*/5"), timezone="Europe/Berlin"), 2026)
    midnight = datetime(2026, 10, 25, tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC)
    assert rule.count(midnight, midnight + timedelta(hours=25)) == 25 * 12


def test_an_interval_lies_on_the_epoch_grid() -> None:
    assert rule_of(made(timedelta(minutes=15)), 2026) == Every("15m")
    assert rule_of(made(30.0), 2026) == Every("30s")


def test_an_interval_of_less_than_a_second_is_refused() -> None:
    with pytest.raises(BadInput, match="slots are whole seconds"):
        rule_of(made(0.5), 2026)


def test_a_date_and_a_weekday_are_both_meant() -> None:
    """Every Friday the 13th."""
    rule = rule_of(made(crontab(minute=0, hour=12, day_of_month=13, day_of_week="fri")), 2026)
    assert rule == At(*[f"{day}T12:00:00Z" for day in ("2026-02-13", "2026-03-13", "2026-11-13", "2027-08-13")])


class Tides(BaseSchedule):  # type: ignore[misc]  # Celery has no types
    """As `solar` does, it says when it is due next; its instants are not whole seconds."""

    FIRST, EVERY = datetime(2025, 12, 31, 20, 0, 0, 500_000, tzinfo=UTC), timedelta(days=20, seconds=1.25)

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        last: datetime = self.maybe_make_aware(last_run_at)
        number = (last - self.FIRST) // self.EVERY + 1
        remaining: timedelta = self.FIRST + number * self.EVERY - self.maybe_make_aware(self.now())
        return remaining


def test_what_says_only_how_long_it_is_to_the_next_is_listed_for_two_years() -> None:
    rule = rule_of(made(Tides()), 2026)
    assert isinstance(rule, At)
    assert rule.instants[:2] == (
        datetime(2026, 1, 20, 20, 0, 2, tzinfo=UTC),
        datetime(2026, 2, 9, 20, 0, 3, tzinfo=UTC),
    )
    assert len(rule.instants) == 36
    assert rule_of(made(Tides()), 2027).next(datetime(2027, 6, 1, tzinfo=UTC)) == rule.next(
        datetime(2027, 6, 1, tzinfo=UTC)
    )


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        (BaseSchedule(), "does not say when it is due next"),
        (crontab(minute="*", day_of_month=13, day_of_week="fri"), "has more than 1,000 slots in two years"),
        (
            crontab(0, 0, day_of_month=29, month_of_year=2, day_of_week="mon"),
            "has no slot in 2026 and 2027",
        ),
        (None, "it has no schedule"),
    ],
)
def test_what_cannot_be_listed_is_refused(schedule: Any, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        rule_of(made(schedule), 2026)
