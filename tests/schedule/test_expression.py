"""What is no cron expression is refused: quickly, briefly, and with a caret under what is wrong."""

from time import process_time

import pytest

from cronce.errors import BadInput, BadSchedule
from cronce.schedule import Cron, parse_schedule

FIVE = "minute hour day-of-month month day-of-week"
COUNT = f"where 5 are expected ({FIVE}), or 6 with the second first; there is no year"
LIKE = "is not like 5, 1-5 or */15, or a list of these"


# Each is one schedule, the carets under it, and what stands beside them.
POINTED = [
    ("*/15 25 * * *", "     ^^", "hour: 25 is not in 0–23"),
    ("60 * * * *", "^^", "minute: 60 is not in 0–59"),
    ("0 24 * * *", "  ^^", "hour: 24 is not in 0–23"),
    ("0 0 0 * *", "    ^", "day-of-month: 0 is not in 1–31"),
    ("0 0 32 * *", "    ^^", "day-of-month: 32 is not in 1–31"),
    ("0 0 * 13 *", "      ^^", "month: 13 is not in 1–12"),
    ("0 0 * * 8", "        ^", "day-of-week: 8 is not in 0–7"),
    ("61 0 0 * * *", "^^", "second: 61 is not in 0–59"),
    ("0,15,75 * * * *", "     ^^", "minute: 75 is not in 0–59"),
    ("1-1000000000 * * * *", "^^^^^^^^^^^^", "minute: 1000000000 is not in 0–59"),
    ("*/0 * * * *", "^^^", "minute: a step of 0 does not advance; use 1 or more"),
    ("5/x * * * *", "^^^", "minute: a step of X does not advance; use 1 or more"),
    (
        "*/90 * * * *",
        "^^^^",
        "minute: a step of 90 is longer than the field, which has 60 values; for a longer period write 'every 90m'",
    ),
    ("0 0 1 */13 *", "      ^^^^", "month: a step of 13 is longer than the field, which has 12 values"),
    ("0 22-2 * * *", "  ^^^^", "hour: 22-2 runs backwards; write 22-23,0-2"),
    ("0 0 * * fri-mon", "        ^^^^^^^", "day-of-week: FRI-MON runs backwards; write FRI-SAT,SUN-MON"),
    (
        "0 0 * FOO *",
        "      ^^^",
        "month: FOO is not a number or one of JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC",
    ),
    ("0 0 * * JAN", "        ^^^", "day-of-week: JAN is not a number or one of SUN MON TUE WED THU FRI SAT"),
    ("mon 9 * * *", "^^^", "minute: MON is not a number"),
    ("1,,2 * * * *", "  ^", "minute: an empty item; remove the comma"),
    ("0 9, * * *", "    ^", "hour: an empty item; remove the comma"),
    ("1- * * * *", "^^", f"minute: '1-' {LIKE}"),
    ("-5 * * * *", "^^", f"minute: '-5' {LIKE}"),
    ("1-2-3 * * * *", "^^^^^", f"minute: '1-2-3' {LIKE}"),
    ("** * * * *", "^^", f"minute: '**' {LIKE}"),
    ("0 0 * * MON#6", "        ^^^^^", "day-of-week: #6 is not in #1–#5; a month has at most five of each weekday"),
    ("0 0 * * MON#0", "        ^^^^^", "day-of-week: #0 is not in #1–#5; a month has at most five of each weekday"),
    ("0 0 * * 9#1", "        ^^^", "day-of-week: 9 is not in 0–7"),
    # never
    ("0 0 30 2 *", "    ^^", "day-of-month: none of its months has such a day, so this never fires"),
    ("0 0 31 4,6,9,11 *", "    ^^", "day-of-month: none of its months has such a day, so this never fires"),
    ("0 0 */31 * MON#2", "    ^^^^", "day-of-month: none of its months has such a day, so this never fires"),
    # foreign
    ("0 0 12 * * ?", "           ^", "day-of-week: '?' is Quartz's; write *"),
    ("0 0 12 * * ? 2026", "^^^^^^^^^^^^^^^^^", f"7 fields, {COUNT}"),
    ("0 9 * * * 2026", "          ^^^^", "day-of-week: 2026 is not in 0–7 (there is no year field)"),
    ("H H * * *", "^", "minute: 'H' is a number that Jenkins chooses; write a number"),
    ("H(0-29)/10 * * * *", "^^^^^^^^^^", "minute: 'H' is a number that Jenkins chooses; write a number"),
    ("0~30 * * * *", "^^^^", "minute: '~' is a random number, and each machine would choose its own; write a number"),
    ("0 0 * * Mon..Fri", "        ^^^^^^^^", "day-of-week: write MON-FRI"),
    (
        "0 0 15W * *",
        "    ^^^",
        "day-of-month: the weekday nearest to a date is not supported; LW is the last weekday of the month",
    ),
    ("0 0 L-3 * *", "    ^^^", "day-of-month: days before the last are not supported; L is the last day of the month"),
    (
        "0 0 L/2 * *",
        "    ^^^",
        "day-of-month: L and LW are for day-of-month, alone; the last Friday is FRIL",
    ),
    (
        "0 0 * * L",
        "        ^",
        "day-of-week: L and LW are for day-of-month, alone; the last Friday is FRIL",
    ),
    ("@every 5m", "^^^^^^^^^", "write 'every 5m'"),
    (
        "@reboot",
        "^^^^^^^",
        "machines boot at different times, so they share no slot; call it at start-up",
    ),
    ("@fortnightly", "^^^^^^^^^^^^", "the known names are @yearly @annually @monthly @weekly @daily @midnight @hourly"),
    ("@dayly", "^^^^^^", "did you mean '@daily'?"),
    ("evry 5m", "^^^^^^^", "did you mean 'every 5m'?"),
    ("rate(5 minutes)", "^^^^^^^^^^^^^^^", "write 'every 5m'"),
    (
        "cron(0 12 * * ? *)",
        "^^^^^^^^^^^^^^^^^^",
        f"write the fields alone, without cron(…): {FIVE}; there is no year, and Sunday is 0 or 7",
    ),
    (
        "CRON_TZ=Europe/Berlin 0 9 * * *",
        "^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "give the zone beside the expression, as in tz='Europe/Berlin'",
    ),
    ("TZ=UTC 0 9 * * *", "^^^^^^^^^^^^^^^^", "give the zone beside the expression, as in tz='Europe/Berlin'"),
    ("daily", "^^^^^", "write '@daily'"),
    ("15m", "^^^", "write 'every 15m'"),
    ("every15m", "^^^^^^^^", "write 'every 15m'"),
    ("Mon *-*-* 09:00", "^^^^^^^^^^^^^^^", f"this is systemd's; write {FIVE}"),
    ("2026-03-29T01:00:00Z", "^^^^^^^^^^^^^^^^^^^^", "for a single instant write 'at 2026-03-29T01:00:00Z'"),
    ("9", "^", f"1 field, {COUNT}; put it in quotes, or the shell splits it"),
    ("* * * *", "^^^^^^^", f"4 fields, {COUNT}"),
    ("  0  9 *  *", "^^^^^^^", f"4 fields, {COUNT}"),
    ("0 9 * * * /usr/bin/backup", "          ^^^^^^^^^^^^^^^", f"day-of-week: '/USR/BIN/BACKUP' {LIKE}"),
]


@pytest.mark.parametrize(("text", "carets", "reason"), POINTED)
def test_nonsense_is_refused_and_pointed_at(text: str, carets: str, reason: str) -> None:
    with pytest.raises(BadSchedule) as error:
        parse_schedule(text)
    assert str(error.value) == f"cannot read this schedule\n  {' '.join(text.split())}\n  {carets} {reason}"


def test_a_foreign_schedule_handed_to_cron_is_told_what_it_is() -> None:
    with pytest.raises(BadSchedule, match=r"this is not cron; write Every\('15m'\)"):
        Cron("every 15m")
    with pytest.raises(BadSchedule, match=r"this is not cron; write At\('2026-03-29t01:00:00z'\)"):
        Cron("at 2026-03-29T01:00:00Z")


HOSTILE = [
    "9" * 10**7,
    " " * 10**7,
    "*," * 5 * 10**6,
    "at " + "2026-03-29T01:00:00Z " * 10**6,
    "every " + "9" * 10**7,
    *("-" * 999, "1-" * 499, "," * 999, "/" * 999, "L" * 999, "a" * 999 + " b c d e", "0 0 * * " + "MON" * 300),
    *("rate(" + " " * 990, "@every" + " " * 990, "cron(" * 199, "9" * 998 + "m", "- " * 499, ": -" * 333, "~" * 999),
    *("1" * 990 + " * * * *", "*/" + "9" * 990 + " * * * *", "0 0 * * 1#" + "9" * 980, "every " + "1m" * 50),
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: f"{text[:12]!r}…{len(text)}")
def test_hostile_input_is_refused_quickly_and_briefly(text: str) -> None:
    start = process_time()
    with pytest.raises(BadInput) as error:
        parse_schedule(text)
    assert process_time() - start < 5  # thousands of times what it takes; a backtracking pattern would take minutes
    assert len(str(error.value)) < 5_000
