"""Clocks put forward and back, in numbered twins: `_1_mar` is the gap, `_1_nov` the fold, of the same promise.

Every time is written with its offset, so each is one exact instant: 03:00-04:00 is 07:00Z.
"""

from datetime import datetime

from cronce.schedule import Cron
from tests.schedule.oracle import utc


def fires(cron: Cron, start: str, end: str) -> list[datetime]:
    """All instants from `start` up to and including `end`, forwards; and the same backwards."""
    forwards, at = [], cron.next(utc(start))
    while at is not None and at <= utc(end):
        forwards.append(at)
        at = cron.next(at)
    backwards, at = [], cron.previous(utc(end).replace(microsecond=1))
    while at is not None and at > utc(start):
        backwards.append(at)
        at = cron.previous(at)
    assert backwards[::-1] == forwards
    assert cron.count(utc(start), utc(end)) == len(forwards)
    return forwards


def at(*times: str) -> list[datetime]:
    return [utc(time) for time in times]


# --- New York, 2026: 8 March, 02:00 → 03:00 at 07:00Z; 1 November, 02:00 → 01:00 at 06:00Z ---------------------------

NEW_YORK = "America/New_York"
MARCH = ("2026-03-07T12:00-05:00", "2026-03-09T12:00-04:00")
NOVEMBER = ("2026-10-31T12:00-04:00", "2026-11-02T12:00-05:00")


def test_new_york_1_mar_a_fixed_time_in_the_gap_runs_right_after_it() -> None:
    assert fires(Cron("30 2 * * *", NEW_YORK), *MARCH) == at("2026-03-08T03:00-04:00", "2026-03-09T02:30-04:00")


def test_new_york_1_nov_a_fixed_time_in_the_fold_runs_once_the_first_time() -> None:
    assert fires(Cron("30 1 * * *", NEW_YORK), *NOVEMBER) == at("2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00")


def test_new_york_2_mar_a_fixed_time_in_the_gap_can_be_skipped() -> None:
    assert fires(Cron("30 2 * * *", NEW_YORK, gap="skip"), *MARCH) == at("2026-03-09T02:30-04:00")


def test_new_york_2_nov_a_fixed_time_in_the_fold_can_run_the_second_time() -> None:
    cron = Cron("30 1 * * *", NEW_YORK, fold="second")
    assert fires(cron, *NOVEMBER) == at("2026-11-01T01:30-05:00", "2026-11-02T01:30-05:00")


def test_new_york_3_mar_fixed_times_in_one_gap_run_once_together() -> None:
    cron = Cron("0,15,30,45 2 * * *", NEW_YORK)
    assert fires(cron, MARCH[0], "2026-03-08T12:00-04:00") == at("2026-03-08T03:00-04:00")


def test_new_york_3_nov_a_fixed_time_in_the_fold_can_run_both_times() -> None:
    cron = Cron("0,30 1 * * *", NEW_YORK, fold="both")
    assert fires(cron, NOVEMBER[0], "2026-11-01T12:00-05:00") == at(
        "2026-11-01T01:00-04:00", "2026-11-01T01:30-04:00", "2026-11-01T01:00-05:00", "2026-11-01T01:30-05:00"
    )  # fmt: skip


def test_new_york_4_mar_a_time_after_the_gap_joins_the_one_that_fell_into_it() -> None:
    cron = Cron("0 2,3 * * *", NEW_YORK)
    assert fires(cron, *MARCH) == at("2026-03-08T03:00-04:00", "2026-03-09T02:00-04:00", "2026-03-09T03:00-04:00")


def test_new_york_4_nov_the_edges_of_the_fold_are_exact() -> None:
    cron = Cron("59,0 0,1,2 * * *", NEW_YORK)
    assert fires(cron, "2026-10-31T12:00-04:00", "2026-11-01T12:00-05:00") == at(
        "2026-11-01T00:00-04:00", "2026-11-01T00:59-04:00", "2026-11-01T01:00-04:00", "2026-11-01T01:59-04:00",
        "2026-11-01T02:00-05:00", "2026-11-01T02:59-05:00",
    )  # fmt: skip


def test_new_york_5_mar_a_wildcard_has_no_extra_run_at_the_gap() -> None:
    cron = Cron("*/30 * * * *", NEW_YORK)
    assert fires(cron, "2026-03-08T01:00-05:00", "2026-03-08T04:00-04:00") == at(
        "2026-03-08T01:30-05:00", "2026-03-08T03:00-04:00", "2026-03-08T03:30-04:00", "2026-03-08T04:00-04:00"
    )  # fmt: skip


def test_new_york_5_nov_a_wildcard_goes_on_through_the_repeated_hour() -> None:
    cron = Cron("*/5 * * * *", NEW_YORK)
    repeated = [f"2026-11-01T01:{minute:02}{offset}" for offset in ("-04:00", "-05:00") for minute in range(0, 60, 5)]
    assert fires(cron, "2026-11-01T00:59-04:00", "2026-11-01T01:59-05:00") == at(*repeated)


def test_new_york_6_mar_a_wildcard_hour_runs_each_real_hour() -> None:
    cron = Cron("15 * * * *", NEW_YORK)
    assert fires(cron, "2026-03-08T01:00-05:00", "2026-03-08T04:00-04:00") == at(
        "2026-03-08T01:15-05:00", "2026-03-08T03:15-04:00"
    )  # fmt: skip


def test_new_york_6_nov_a_wildcard_hour_runs_each_real_hour() -> None:
    cron = Cron("15 * * * *", NEW_YORK)
    assert fires(cron, "2026-11-01T01:00-04:00", "2026-11-01T02:00-05:00") == at(
        "2026-11-01T01:15-04:00", "2026-11-01T01:15-05:00"
    )  # fmt: skip


def test_new_york_7_mar_a_range_of_hours_is_fixed_though_it_spans_the_day() -> None:
    cron = Cron("30 0-23 * * *", NEW_YORK)
    assert fires(cron, "2026-03-08T01:00-05:00", "2026-03-08T04:00-04:00") == at(
        "2026-03-08T01:30-05:00", "2026-03-08T03:00-04:00", "2026-03-08T03:30-04:00"
    )  # fmt: skip


def test_new_york_7_nov_a_range_of_hours_is_fixed_though_it_spans_the_day() -> None:
    cron = Cron("30 0-23 * * *", NEW_YORK)
    assert fires(cron, "2026-11-01T01:00-04:00", "2026-11-01T03:00-05:00") == at(
        "2026-11-01T01:30-04:00", "2026-11-01T02:30-05:00"
    )  # fmt: skip


def test_new_york_8_mar_policy_does_not_change_a_wildcard() -> None:
    plain = fires(Cron("*/20 * * * *", NEW_YORK), *MARCH)
    assert fires(Cron("*/20 * * * *", NEW_YORK, gap="skip", fold="second"), *MARCH) == plain


def test_new_york_8_nov_policy_does_not_change_a_wildcard() -> None:
    plain = fires(Cron("*/20 1 * * *", NEW_YORK), *NOVEMBER)
    assert fires(Cron("*/20 1 * * *", NEW_YORK, gap="skip", fold="second"), *NOVEMBER) == plain
    assert len(plain) == 2 * 3 + 3  # twice on the 1st, once on the 2nd


def test_new_york_9_mar_six_fields_follow_the_same_policy() -> None:
    cron = Cron("*/10 30 2 * * *", NEW_YORK)
    assert fires(cron, MARCH[0], "2026-03-08T12:00-04:00") == at("2026-03-08T03:00:00-04:00")
    assert fires(Cron("*/10 30 2 * * *", NEW_YORK, gap="skip"), MARCH[0], "2026-03-08T12:00-04:00") == []


def test_new_york_9_nov_six_fields_follow_the_same_policy() -> None:
    cron = Cron("*/30 30 1 * * *", NEW_YORK)
    assert fires(cron, NOVEMBER[0], "2026-11-01T12:00-05:00") == at(
        "2026-11-01T01:30:00-04:00", "2026-11-01T01:30:30-04:00"
    )


# --- Berlin, 2026: 29 March, 02:00 → 03:00 at 01:00Z; 25 October, 03:00 → 02:00 at 01:00Z -----------------------------

BERLIN = "Europe/Berlin"


def test_berlin_1_mar_the_default_is_debians() -> None:
    cron = Cron("30 2 * * *", BERLIN)
    assert fires(cron, "2026-03-28T12:00+01:00", "2026-03-30T12:00+02:00") == at(
        "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"
    )  # fmt: skip


def test_berlin_1_oct_the_default_is_debians() -> None:
    cron = Cron("30 2 * * *", BERLIN)
    assert fires(cron, "2026-10-24T12:00+02:00", "2026-10-26T12:00+01:00") == at(
        "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"
    )  # fmt: skip


def test_berlin_2_mar_a_schedule_that_only_falls_on_the_gap_waits_for_another_year() -> None:
    cron = Cron("30 2 29 3 *", BERLIN, gap="skip")
    assert cron.next(utc("2026-01-01T00:00Z")) == utc("2027-03-29T02:30+02:00")
    assert Cron("30 2 29 3 *", BERLIN).next(utc("2026-01-01T00:00Z")) == utc("2026-03-29T03:00+02:00")


def test_berlin_2_oct_from_the_second_hour_the_first_is_over_and_the_second_is_not() -> None:
    second_hour = utc("2026-10-25T02:10+01:00")
    assert Cron("30 2 * * *", BERLIN).next(second_hour) == utc("2026-10-26T02:30+01:00")
    assert Cron("30 2 * * *", BERLIN, fold="second").next(second_hour) == utc("2026-10-25T02:30+01:00")
    assert Cron("30 2 * * *", BERLIN).previous(second_hour) == utc("2026-10-25T02:30+02:00")
    assert Cron("30 2 * * *", BERLIN, fold="second").previous(second_hour) == utc("2026-10-24T02:30+02:00")


def test_berlin_3_mar_the_end_of_the_gap_is_strictly_after_and_strictly_before() -> None:
    cron, end = Cron("30 2 * * *", BERLIN), utc("2026-03-29T03:00+02:00")
    assert cron.next(end) == utc("2026-03-30T02:30+02:00")
    assert cron.previous(end) == utc("2026-03-28T02:30+01:00")
    assert cron.next(utc("2026-03-29T01:59:59.999999+01:00")) == end
    assert cron.previous(utc("2026-03-29T03:00:00.000001+02:00")) == end


def test_berlin_3_oct_from_the_first_hour_the_second_is_still_to_come() -> None:
    first_hour = utc("2026-10-25T02:40+02:00")
    assert Cron("30 2 * * *", BERLIN, fold="second").next(first_hour) == utc("2026-10-25T02:30+01:00")
    assert Cron("30 2 * * *", BERLIN, fold="both").next(first_hour) == utc("2026-10-25T02:30+01:00")
    assert Cron("30 2 * * *", BERLIN).next(first_hour) == utc("2026-10-26T02:30+01:00")


# --- Lord Howe, 2026: half an hour. 4 October, 02:00 → 02:30 at 15:30Z; 5 April, 02:00 → 01:30 at 15:00Z --------------

LORD_HOWE = "Australia/Lord_Howe"


def test_lord_howe_1_oct_the_gap_is_half_an_hour() -> None:
    cron = Cron("15,45 2 * * *", LORD_HOWE)
    assert fires(cron, "2026-10-03T12:00+10:30", "2026-10-04T12:00+11:00") == at(
        "2026-10-04T02:30+11:00", "2026-10-04T02:45+11:00"
    )  # fmt: skip


def test_lord_howe_1_apr_the_fold_is_half_an_hour() -> None:
    cron = Cron("15,45 1 * * *", LORD_HOWE, fold="both")
    assert fires(cron, "2026-04-04T12:00+11:00", "2026-04-05T12:00+10:30") == at(
        "2026-04-05T01:15+11:00", "2026-04-05T01:45+11:00", "2026-04-05T01:45+10:30"
    )  # fmt: skip


def test_lord_howe_2_oct_a_wildcard_follows_real_time() -> None:
    cron = Cron("*/20 * * * *", LORD_HOWE)
    assert fires(cron, "2026-10-04T01:30+10:30", "2026-10-04T03:00+11:00") == at(
        "2026-10-04T01:40+10:30", "2026-10-04T02:40+11:00", "2026-10-04T03:00+11:00"
    )  # fmt: skip


def test_lord_howe_2_apr_a_wildcard_follows_real_time() -> None:
    cron = Cron("*/20 * * * *", LORD_HOWE)
    assert fires(cron, "2026-04-05T01:30+11:00", "2026-04-05T02:00+10:30") == at(
        "2026-04-05T01:40+11:00", "2026-04-05T01:40+10:30", "2026-04-05T02:00+10:30"
    )  # fmt: skip


def test_lord_howe_3_oct_a_wildcard_minute_in_the_hour_after_the_gap_loses_nothing() -> None:
    cron = Cron("*/18 3 * * *", LORD_HOWE)
    assert fires(cron, "2026-10-03T12:00+10:30", "2026-10-04T12:00+11:00") == at(
        "2026-10-04T03:00+11:00", "2026-10-04T03:18+11:00", "2026-10-04T03:36+11:00", "2026-10-04T03:54+11:00"
    )  # fmt: skip


def test_lord_howe_3_apr_only_the_second_half_hour_comes_twice() -> None:
    first, second = Cron("0,30 1 * * *", LORD_HOWE), Cron("0,30 1 * * *", LORD_HOWE, fold="second")
    day = ("2026-04-04T12:00+11:00", "2026-04-05T12:00+10:30")
    assert fires(first, *day) == at("2026-04-05T01:00+11:00", "2026-04-05T01:30+11:00")
    assert fires(second, *day) == at("2026-04-05T01:00+11:00", "2026-04-05T01:30+10:30")


# --- Santiago, 2026: midnight. 6 September, 00:00 → 01:00 at 04:00Z; 5 April, 00:00 → 23:00 on the 4th, at 03:00Z ----

SANTIAGO = "America/Santiago"


def test_santiago_1_sep_a_midnight_that_does_not_exist_runs_at_one() -> None:
    cron = Cron("@daily", SANTIAGO)
    assert fires(cron, "2026-09-05T00:00-04:00", "2026-09-07T12:00-03:00") == at(
        "2026-09-06T01:00-03:00", "2026-09-07T00:00-03:00"
    )  # fmt: skip


def test_santiago_1_apr_an_hour_before_midnight_comes_twice_and_runs_once() -> None:
    cron = Cron("30 23 * * *", SANTIAGO)
    assert fires(cron, "2026-04-04T12:00-03:00", "2026-04-06T12:00-04:00") == at(
        "2026-04-04T23:30-03:00", "2026-04-05T23:30-04:00"
    )  # fmt: skip


def test_santiago_2_sep_the_first_of_a_weekday_is_not_lost_in_the_gap() -> None:
    cron = Cron("0 0 * 9 SUN#1", SANTIAGO)
    assert cron.next(utc("2026-01-01T00:00Z")) == utc("2026-09-06T01:00-03:00")
    assert cron.previous(utc("2026-12-31T00:00Z")) == utc("2026-09-06T01:00-03:00")


def test_santiago_2_apr_the_repeated_hour_belongs_to_the_day_before() -> None:
    cron = Cron("0 23 4 4 *", SANTIAGO, fold="both")
    assert fires(cron, "2026-01-01T00:00Z", "2026-12-31T00:00Z") == at(
        "2026-04-04T23:00-03:00", "2026-04-04T23:00-04:00"
    )
    assert Cron("0 0 5 4 *", SANTIAGO).next(utc("2026-01-01T00:00Z")) == utc("2026-04-05T00:00-04:00")


# --- Cairo, 2026: 24 April, 00:00 → 01:00 at 22:00Z on the 23rd; 30 October, 00:00 → 23:00 on the 29th, at 21:00Z ----

CAIRO = "Africa/Cairo"


def test_cairo_1_apr_a_midnight_that_does_not_exist_runs_at_one_or_not_at_all() -> None:
    day = ("2026-04-23T12:00+02:00", "2026-04-25T12:00+03:00")
    assert fires(Cron("0 0 * * *", CAIRO), *day) == at("2026-04-24T01:00+03:00", "2026-04-25T00:00+03:00")
    assert fires(Cron("0 0 * * *", CAIRO, gap="skip"), *day) == at("2026-04-25T00:00+03:00")


def test_cairo_1_oct_the_fold_ends_at_midnight_and_midnight_comes_once() -> None:
    day = ("2026-10-29T12:00+03:00", "2026-10-30T12:00+02:00")
    assert fires(Cron("0 0 * * *", CAIRO, fold="both"), *day) == at("2026-10-30T00:00+02:00")
    assert fires(Cron("59 23 * * *", CAIRO, fold="both"), *day) == at(
        "2026-10-29T23:59+03:00", "2026-10-29T23:59+02:00"
    )


# --- Havana, 2026: 8 March, 00:00 → 01:00 at 05:00Z; 1 November, 01:00 → 00:00 at 05:00Z: midnight comes twice --------

HAVANA = "America/Havana"


def test_havana_1_mar_the_gap_begins_the_day() -> None:
    cron = Cron("0,30 0,1 * * *", HAVANA)
    assert fires(cron, "2026-03-07T12:00-05:00", "2026-03-08T12:00-04:00") == at(
        "2026-03-08T01:00-04:00", "2026-03-08T01:30-04:00"
    )  # fmt: skip


def test_havana_1_nov_a_midnight_that_comes_twice_runs_once() -> None:
    day = ("2026-10-31T12:00-04:00", "2026-11-01T12:00-05:00")
    assert fires(Cron("@daily", HAVANA), *day) == at("2026-11-01T00:00-04:00")
    assert fires(Cron("@daily", HAVANA, fold="second"), *day) == at("2026-11-01T00:00-05:00")
    assert fires(Cron("@daily", HAVANA, fold="both"), *day) == at("2026-11-01T00:00-04:00", "2026-11-01T00:00-05:00")


def test_havana_2_mar_a_month_that_begins_is_not_lost() -> None:
    assert Cron("0 0 8 3 *", HAVANA).next(utc("2026-01-01T00:00Z")) == utc("2026-03-08T01:00-04:00")


def test_havana_2_nov_a_month_that_begins_twice_runs_once() -> None:
    cron = Cron("@monthly", HAVANA)
    assert fires(cron, "2026-10-15T00:00Z", "2026-12-15T00:00Z") == at(
        "2026-11-01T00:00-04:00", "2026-12-01T00:00-05:00"
    )


# --- Kolkata: no change since 1945 -----------------------------------------------------------------------------------


def test_kolkata_1_mar_nothing_jumps() -> None:
    cron = Cron("30 2 * * *", "Asia/Kolkata")
    assert fires(cron, "2026-03-28T12:00Z", "2026-03-30T12:00Z") == at(
        "2026-03-29T02:30+05:30", "2026-03-30T02:30+05:30"
    )


def test_kolkata_1_nov_nothing_jumps_under_any_policy() -> None:
    year = ("2026-01-01T00:00Z", "2027-01-01T00:00Z")
    plain = fires(Cron("30 1 * * *", "Asia/Kolkata"), *year)
    assert fires(Cron("30 1 * * *", "Asia/Kolkata", gap="skip", fold="both"), *year) == plain
    assert len(plain) == 365


# --- changes that are no summer time ---------------------------------------------------------------------------------


def test_apia_without_30_december_2011_runs_its_daily_job_once_for_that_day() -> None:
    # Friday the 30th was left out whole: the clock went from 29 December, 24:00-10:00 to 31 December, 00:00+14:00.
    days = ("2011-12-28T12:00-10:00", "2012-01-01T12:00+14:00")
    assert fires(Cron("0 9 * * *", "Pacific/Apia"), *days) == at(
        "2011-12-29T09:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T09:00+14:00", "2012-01-01T09:00+14:00"
    )  # fmt: skip
    assert fires(Cron("0 9 * * *", "Pacific/Apia", gap="skip"), *days) == at(
        "2011-12-29T09:00-10:00", "2011-12-31T09:00+14:00", "2012-01-01T09:00+14:00"
    )  # fmt: skip


def test_apia_midnight_after_the_missing_day_is_one_slot() -> None:
    days = ("2011-12-29T12:00-10:00", "2012-01-01T12:00+14:00")
    assert fires(Cron("@daily", "Pacific/Apia"), *days) == at("2011-12-31T00:00+14:00", "2012-01-01T00:00+14:00")
    assert fires(Cron("0 * * * *", "Pacific/Apia"), "2011-12-29T22:30-10:00", "2011-12-31T01:30+14:00") == at(
        "2011-12-29T23:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T01:00+14:00"
    )  # fmt: skip


def test_kwajalein_without_21_august_1993_runs_once_for_that_day() -> None:
    days = ("1993-08-20T00:00-12:00", "1993-08-22T12:00+12:00")
    assert fires(Cron("30 6 * * *", "Pacific/Kwajalein"), *days) == at(
        "1993-08-20T06:30-12:00", "1993-08-22T00:00+12:00", "1993-08-22T06:30+12:00"
    )  # fmt: skip


def test_lisbon_lost_its_summer_fold_in_1992_when_it_moved_east() -> None:
    # 27 September 1992: the end of summer time and a move to Central European Time cancel out, +01:00 on both sides.
    day = ("1992-09-26T12:00Z", "1992-09-27T12:00Z")
    assert fires(Cron("30 1 * * *", "Europe/Lisbon", fold="both"), *day) == at("1992-09-27T01:30+01:00")


def test_monrovia_changed_by_44_minutes_and_30_seconds() -> None:
    # 7 January 1972, 00:00-00:44:30 became 00:44:30Z: a gap that does not end on a minute.
    day = ("1972-01-06T12:00Z", "1972-01-07T12:00Z")
    assert fires(Cron("30 0 * * *", "Africa/Monrovia"), *day) == at("1972-01-07T00:44:30Z")
    assert fires(Cron("30 44 0 * * *", "Africa/Monrovia"), *day) == at("1972-01-07T00:44:30Z")


def test_a_schedule_that_lives_in_gaps_only_is_asked_in_vain_but_not_for_ever() -> None:
    cron = Cron("30 2 * 3 SUN#2", NEW_YORK, gap="skip")
    assert cron.next(utc("2026-01-01T00:00Z")) is None
    assert cron.previous(utc("2026-01-01T00:00Z")) == utc("2006-03-12T02:30-05:00")  # until 2006 it was in April
