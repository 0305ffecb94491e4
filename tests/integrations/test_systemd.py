"""A timer elapses when the schedule fires, by systemd's own reckoning; what cannot be said so is refused."""

import os
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cronce.errors import BadInput
from cronce.integrations.systemd import calendar, units
from cronce.schedule import Cron
from tests.house.needs import tool
from tests.schedule.oracle import Rule
from tests.schedule.strategies import JUMPS, rules

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
TO_COME = [(zone, at) for zone, at in JUMPS if at.year >= 2024]
"""Timers are about the future: what clocks did in 1985 is beyond what systemd can reckon with, and nobody's trouble."""
EACH = 12
"""Of each line so many instants are asked for."""


def elapses(analyze: str, lines: Iterable[str], base: datetime) -> list[datetime]:
    """When lines elapse after `base`, all together, as far as all of them were asked."""
    words = [analyze, "calendar", f"--iterations={EACH}", f"--base-time={base:%Y-%m-%d %H:%M:%S} UTC", *lines]
    done = subprocess.run(words, env={**os.environ, "TZ": "UTC"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = [
        [read(line) for line in part.splitlines() if " UTC" in line and ("Next elapse" in line or "Iter." in line)]
        for part in done.stdout.split("\n\n")
    ]
    end = min((times[-1] for times in found if len(times) == EACH), default=datetime.max.replace(tzinfo=UTC))
    return sorted({time for times in found for time in times if time <= end})


def read(line: str) -> datetime:
    return datetime.strptime(line.partition(": ")[2].strip(), "%a %Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)


def fires(cron: Cron, base: datetime, number: int) -> list[datetime]:
    found: list[datetime] = []
    while len(found) < number and (following := cron.next(base)):
        found.append(base := following)
    return found


@pytest.fixture(scope="module")
def analyze() -> str:
    return tool("systemd-analyze", "apt-get install systemd")


@pytest.mark.parametrize(
    "expression",
    [
        "* * * * *", "*/15 9-17 * * 1-5", "@daily", "@yearly", "0 0 1 * 1", "0 0 1,15 */2 MON,WED", "0 0 */2 * 1-5",
        "0 0 L * *", "0 12 LW * *", "0 0 15,LW * FRI", "0 0 * * MON#2", "0 0 * * 5L", "0 0 13 * FRI", "0 0 L * SUN#5",
        "30 2 29 2 *", "*/7 */5 * * *", "15,45 0 1-20/3 * * *", "30 */10 8 * * 0,6",
        "0 0 * * MON#1,WED,FRIL", "0 0 31 * *", "0 0 */5 * SUN#1",
    ],
)  # fmt: skip
def test_each_kind_of_schedule_elapses_when_it_fires(expression: str, analyze: str) -> None:
    cron = Cron(expression)
    seen = elapses(analyze, calendar(cron, SINCE), SINCE)
    assert len(seen) in range(EACH, 5 * EACH)  # a line each for dates and weekdays
    assert seen == fires(cron, SINCE, len(seen))


@settings(max_examples=60, deadline=None)
@given(rules(with_seconds=False), st.sampled_from(TO_COME), st.integers(3, 48), st.sampled_from(["run", "skip"]))
def test_where_clocks_change_a_timer_does_what_cron_does_or_there_is_none(
    analyze: str, rule: Rule, jump: tuple[str, datetime], before: int, gap: str
) -> None:
    """From before a change: a timer that is started within the repeated hour may also elapse in it, which is a try too
    many, and harmless."""
    zone, at = jump
    base = at - timedelta(hours=before)
    try:
        cron = Cron(rule.text, zone, "skip" if gap == "skip" else "run")
        lines = calendar(cron, base)
    except BadInput:
        assume(False)
    seen = elapses(analyze, lines, base)
    assert seen == fires(cron, base, len(seen))


@pytest.mark.parametrize(
    ("expression", "lines"),
    [
        ("0 9 1 * MON", ["*-*-01 09:00:00 UTC", "Mon *-*-* 09:00:00 UTC"]),
        ("0 9 */10 * MON", ["Mon *-*-01,11,21,31 09:00:00 UTC"]),
        ("0 9 LW 1-3 *", ["Mon,Tue,Wed,Thu,Fri *-01,02,03~01 09:00:00 UTC", "Fri *-01,02,03~02,03 09:00:00 UTC"]),
    ],
)
def test_dates_or_weekdays_are_two_lines_dates_and_weekdays_are_one(expression: str, lines: list[str]) -> None:
    assert calendar(Cron(expression), SINCE) == lines


def test_what_goes_round_the_clock_is_said_in_utc_where_clocks_change() -> None:
    assert calendar(Cron("*/15 * * * *", "Europe/Berlin"), SINCE) == ["*-*-* *:00,15,30,45:00 UTC"]
    assert calendar(Cron("0 9 * * *", "Europe/Berlin"), SINCE) == ["*-*-* 09:00:00 Europe/Berlin"]
    assert calendar(Cron("0 * * * *", "Asia/Kolkata"), SINCE) == ["*-*-* *:00:00 Asia/Kolkata"]


@pytest.mark.parametrize(
    ("cron", "why"),
    [
        (Cron("30 2 * * *", "Europe/Berlin"), "add --gap skip"),
        (Cron("30 2 * * *", "Europe/Berlin", gap="skip", fold="both"), "a time occurs twice"),
        (Cron("30 2 * * *", "Europe/Berlin", gap="skip", fold="second"), "--fold first"),
        (Cron("*/30 0-6 * * *", "Europe/Berlin"), "a time occurs twice"),
        (Cron("*/20 * * * *", "Australia/Lord_Howe"), "a time occurs twice"),
        (Cron("0 0 */2 * MONL"), "from the start and from the end of the month"),
        (Cron("0 0-2 * * 0L", "Europe/Berlin", gap="skip"), "it is not certain which one systemd takes"),
        (Cron("30 0 1 11 *", "America/Havana"), "it is not certain which one systemd takes"),
        (Cron("45 1,2 * * *", "Europe/Dublin", gap="skip"), "the rest of that day or later days"),
        (Cron("0 1,2 * * *", "Europe/Dublin"), "the rest of that day or later days"),
    ],
)
def test_what_systemd_would_do_otherwise_is_refused(cron: Cron, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        calendar(cron, SINCE)


@pytest.mark.parametrize(
    ("line", "base", "second"),
    [
        ("Sun *-*~01..07 00,01,02:00:00 Europe/Berlin", datetime(2026, 10, 24, 23, tzinfo=UTC), "2026-10-25T01:00"),
        ("*-11-01 00:30:00 America/Havana", datetime(2026, 1, 1, tzinfo=UTC), "2026-11-01T05:30"),
    ],
)
def test_systemd_does_not_always_take_the_first_of_two_showings(
    line: str, base: datetime, second: str, analyze: str
) -> None:
    """Why such schedules are refused. With a systemd that takes the first of the two they need not be."""
    assert elapses(analyze, [line], base)[0] == datetime.fromisoformat(f"{second}+00:00")


@pytest.mark.parametrize(
    ("line", "next_ones"),
    [
        ("*-*-* 01,02:45:00 Europe/Dublin", ["2026-03-30T00:45", "2026-03-30T01:45"]),  # not on the 29th, at 02:45
        ("*-03-29 00,01:45:00 Europe/Dublin", ["2026-03-29T00:45", "2027-03-29T00:45"]),  # not at 00:45 of next year
    ],
)
def test_in_dublin_systemd_passes_over_more_than_the_gap(line: str, next_ones: list[str], analyze: str) -> None:
    """Why such schedules are refused."""
    seen = elapses(analyze, [line], datetime(2026, 3, 28, 12, tzinfo=UTC))
    assert seen[:2] == [datetime.fromisoformat(f"{one}+00:00") for one in next_ones]


def test_elsewhere_it_passes_over_the_gap_alone(analyze: str) -> None:
    cron, base = Cron("45 1,2 * * *", "Europe/London", "skip"), datetime(2026, 3, 28, 12, tzinfo=UTC)
    seen = elapses(analyze, calendar(cron, base), base)
    assert seen == fires(cron, base, len(seen))


def test_a_time_that_shows_twice_is_no_difference_where_systemd_takes_the_first(analyze: str) -> None:
    """However far from the change the timer is started: in winter, in summer, an hour before."""
    cron = Cron("15,45 0-3 25-31 10 0", "Europe/Berlin", gap="skip")
    lines = calendar(cron, SINCE)
    for base in (SINCE, SINCE.replace(month=7), datetime(2026, 10, 24, 23, tzinfo=UTC)):
        seen = elapses(analyze, lines, base)
        assert seen == fires(cron, base, len(seen))


def test_what_the_end_of_the_gap_fires_anyway_is_no_difference() -> None:
    assert calendar(Cron("0 2,3 * * *", "Europe/Berlin"), SINCE) == ["*-*-* 02,03:00:00 Europe/Berlin"]


def test_systemd_has_nothing_to_say_against_the_units(analyze: str, tmp_path: Path) -> None:
    words = ["/bin/sh", "-c", """echo "$HOME" 100% 'a b' \\; done""", ";", ""]
    made = units("shop_sync-1.x", Cron("0 0 1 * MON"), words, timedelta(seconds=90), since=SINCE, user="daemon")
    assert """ExecStart=/bin/sh -c "echo \\"$$HOME\\" 100%% 'a b' \\\\; done" ";" ""\n""" in made.service
    assert "TimeoutStopSec=95s\n" in made.service
    assert "\nUser=daemon\n" in made.service
    for suffix, text in (("service", made.service), ("timer", made.timer)):
        (tmp_path / f"{made.name}.{suffix}").write_text(text)
    done = subprocess.run(
        [analyze, "verify", *(str(tmp_path / f"{made.name}.{suffix}") for suffix in ("service", "timer"))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("user", ["root\nExecStartPre=/bin/evil", "%u", "a b", "-x", "ä", "ada\n"])
def test_a_user_that_no_unit_can_name_is_refused(user: str) -> None:
    with pytest.raises(BadInput, match="--user"):
        units("x", Cron("@daily"), ["/bin/true"], timedelta(0), since=SINCE, user=user)


def test_what_a_unit_cannot_hold_is_refused() -> None:
    with pytest.raises(BadInput, match="control characters"):
        units("x", Cron("@daily"), ["/bin/echo", "a\nb"], timedelta(0), since=SINCE)
