"""Schedules in plain English: the exact sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronce.errors import BadSchedule
from cronce.schedule import Cron, parse_schedule
from cronce.schedule.describe import describe
from tests.protocol.examples import examples
from tests.schedule.oracle import Rule
from tests.schedule.strategies import rules

TIMES = {
    "* * * * *": "every minute",
    "*/5 * * * *": "every 5 minutes",
    "*/1 * * * *": "every minute",
    "0,15,30,45 * * * *": "every 15 minutes",
    "5/10 * * * *": "every 10 minutes, beginning at :05",
    "0 * * * *": "every hour, on the hour",
    "15 * * * *": "every hour, at :15",
    "*/40 * * * *": "at :00 and :40 of every hour",
    "*/7 * * * *": "every 7 minutes from :00 through :56 of every hour",
    "1,2,5-40 * * * *": "at the minutes 01, 02 and 05 to 40 of every hour",
    "0 9 * * *": "at 09:00 every day",
    "0,30 9 * * *": "at 09:00 and 09:30 every day",
    "0 */6 * * *": "at 00:00, 06:00, 12:00 and 18:00 every day",
    "0 */2 * * *": "every 2 hours from 00:00 through 22:00, every day",
    "0 1/2 * * *": "every 2 hours from 01:00 through 23:00, every day",
    "* 9 * * *": "every minute from 09:00 through 09:59, every day",
    "*/7 9 * * *": "every 7 minutes from 09:00 through 09:56, every day",
    "0 9-17 * * *": "every hour from 09:00 through 17:00, every day",
    "*/15 8-10,14-16 * * *": "at :00, :15, :30 and :45 of the hours 08 to 10 and 14 to 16, every day",
    "0 1-5,12 * * *": "at 01:00, 02:00, 03:00, 04:00, 05:00 and 12:00 every day",
    "0 1,3,6,9,13 * * *": "at 01:00, 03:00, 06:00, 09:00 and 13:00 every day",
    "*/15 */2 * * *": "at :00, :15, :30 and :45 of every 2nd hour from 00 through 22, every day",
    "*/10 8-18/2 * * *": "every 10 minutes of every 2nd hour from 08 through 18, every day",
    "1,2,3,30 9-17 * * *": "at :01, :02, :03 and :30 of every hour from 09 through 17, every day",
    "*/7 1,2,9 * * *": "every 7 minutes from :00 through :56 of the hours 01, 02 and 09, every day",
}
SECONDS = {
    "* * * * * *": "every second",
    "*/20 * * * * *": "every 20 seconds",
    "30 * * * * *": "every minute, at second 30",
    "30 15 * * * *": "every hour, at :15:30",
    "0 0 9 * * *": "at 09:00 every day",
    "15 30 9 * * *": "at 09:30:15 every day",
    "*/20 30 9 * * *": "at 09:30:00, 09:30:20 and 09:30:40 every day",
    "* 30 9 * * *": "every second from 09:30:00 through 09:30:59, every day",
    "*/10 * 9-17 * * MON-FRI": "every 10 seconds from 09:00:00 through 17:59:50, Monday to Friday",
    "5,10 */30 * * * *": "at :00:05, :00:10, :30:05 and :30:10 of every hour",
    "5,10,42 1-59/2 * * * *": (
        "at the seconds 05, 10 and 42 of the minutes 01, 03, 05, 07, 09, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,"
        " 33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57 and 59 of every hour"
    ),
    "* 5,10 * * * *": "every second of the minutes 05 and 10 of every hour",
    "5,10 * * * * *": "at the seconds 05 and 10 of every minute of every hour",
}
DAYS = {
    "*/15 9-17 * * 1-5": "every 15 minutes from 09:00 through 17:45, Monday to Friday",
    "30 2 * * MON": "at 02:30 on Mondays",
    "0 9 * * mon,wed,fri": "at 09:00 on Mondays, Wednesdays and Fridays",
    "0 9 * * 6,0": "at 09:00 on Saturdays and Sundays",
    "0 9 * * 7": "at 09:00 on Sundays",
    "0 9 * * 5-7,1": "at 09:00, Friday to Monday",
    "* * * * SUN": "every minute on Sundays",
    "0 0 * * MON#2": "at 00:00 on the second Monday of the month",
    "0 0 * * FRIL,MON#1": "at 00:00 on the first Monday and the last Friday of the month",
    "0 0 * * TUE,FRIL": "at 00:00 on Tuesdays and on the last Friday of the month",
    "0 0 1 * *": "at 00:00 on the 1st of the month",
    "0 0 2,3,11,22 * *": "at 00:00 on the 2nd, the 3rd, the 11th and the 22nd of the month",
    "0 0 1-7 * *": "at 00:00 on the 1st to the 7th of the month",
    "0 0 L * *": "at 00:00 on the last day of the month",
    "0 0 LW * *": "at 00:00 on the last weekday (Monday to Friday) of the month",
    "0 0 1,15,L * *": "at 00:00 on the 1st, the 15th and the last day of the month",
    "0 0 */2 * *": "at 00:00 on every 2nd day of the month from the 1st",
    "*/15 9-17 1 * *": "every 15 minutes from 09:00 through 17:45, on the 1st of the month",
}
MONTHS = {
    "0 0 1 1 *": "at 00:00 on the 1st of January",
    "0 0 29 2 *": "at 00:00 on the 29th of February",
    "0 0 1 */3 *": "at 00:00 on the 1st of January, April, July and October",
    "0 9 1 MAR-MAY *": "at 09:00 on the 1st of each month from March to May",
    "0 9 1 1,3-5 *": "at 09:00 on the 1st of January and March to May",
    "0 9 * 6-8 *": "at 09:00 every day from June to August",
    "*/15 * * 6-8 *": "every 15 minutes from June to August",
    "0 9 * 12 *": "at 09:00 every day in December",
    "0 9 * 12 1-5": "at 09:00, Monday to Friday in December",
    "0 0 * 3 FRIL": "at 00:00 on the last Friday of March",
    "0 0 * 3 TUE,FRIL": "at 00:00 on Tuesdays in March and on the last Friday of March",
}
BOTH_DAYS = {
    # Debian's cron: either is enough, unless one of them starts with a star.
    "0 0 13 * FRI": "at 00:00 on the 13th of the month, and also on Fridays",
    "0 12 1,15 * MON-FRI": "at 12:00 on the 1st and the 15th of the month, and also Monday to Friday",
    "0 12 13 1 FRI": "at 12:00 on the 13th of January, and also on Fridays in January",
    "0 0 */2 * FRI": "at 00:00 on every 2nd day of the month from the 1st, if it is a Friday",
    "0 0 1 * */2": "at 00:00 on the 1st of the month, if it is a Tuesday, a Thursday, a Saturday or a Sunday",
    "0 0 */2 * MON#1": "at 00:00 on every 2nd day of the month from the 1st, if it is the first Monday",
    "0 0 1-31 * FRI": "at 00:00 every day",
    "0 0 13 * 0-6": "at 00:00 every day",
    "0 0 * * 0-6": "at 00:00 every day",
}
NAMED = {
    "@hourly": "every hour, on the hour",
    "@daily": "at 00:00 every day",
    "@midnight": "at 00:00 every day",
    "@weekly": "at 00:00 on Sundays",
    "@monthly": "at 00:00 on the 1st of the month",
    "@yearly": "at 00:00 on the 1st of January",
}
REAL_TIME = {
    "every 1s": "every second, counted from 00:00 UTC",
    "every 15m": "every 15 minutes, counted from 00:00 UTC",
    "every 1h30m": "every 1 hour 30 minutes, counted from 00:00 UTC",
    "every 1d": "every day, counted from 00:00 UTC",
    "every 7d": "every 7 days, counted from 1970-01-01 00:00 UTC",
    "at 2026-03-29T01:00:00Z": "once, at 2026-03-29 01:00:00 UTC",
    "at 2026-03-29T01:00:00Z 2026-03-30T01:00:00Z": "at 2026-03-29 01:00:00 and 2026-03-30 01:00:00 UTC",
    "at " + " ".join(f"2026-03-{day}T01:00:00Z" for day in range(10, 20)): (
        "at 10 instants, from 2026-03-10 01:00:00 to 2026-03-19 01:00:00 UTC"
    ),
}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [item for table in (TIMES, SECONDS, DAYS, MONTHS, BOTH_DAYS, NAMED, REAL_TIME) for item in table.items()],
)
def test_a_schedule_in_plain_words(text: str, sentence: str) -> None:
    assert describe(parse_schedule(text)) == sentence


@examples(100)
@given(rules())
def test_every_schedule_has_words_whatever_it_is(rule: Rule) -> None:
    try:
        cron = Cron(rule.text)
    except BadSchedule:
        return
    sentence = describe(cron)
    assert sentence.startswith(("at ", "every "))
    assert "  " not in sentence
    assert not sentence.endswith((" ", ","))


@examples(50)
@given(st.sets(st.integers(0, 59), min_size=1), st.sets(st.integers(0, 23), min_size=1))
def test_the_words_are_about_the_values_not_about_how_they_were_written(minutes: set[int], hours: set[int]) -> None:
    once = f"{','.join(map(str, sorted(minutes)))} {','.join(map(str, sorted(hours)))} * * *"
    again = f"{','.join(f'{n}-{n}' for n in sorted(minutes, reverse=True))} {','.join(map(str, hours))} 1-31 1-12 *"
    assert describe(Cron(once)) == describe(Cron(again))
