"""Schedules as text: what is read, what is written, and what is refused, word by word."""

import json

import pytest
from hypothesis import given, settings

from cronce.errors import BadPolicy, BadSchedule
from cronce.policy import Fold, Gap
from cronce.schedule import At, Cron, Every, Schedule, parse_schedule, spec_of
from tests.schedule.oracle import Rule
from tests.schedule.strategies import folds, gaps, rules


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("0 9 * * *", Cron("0 9 * * *")),
        ("@daily", Cron("0 0 * * *")),
        ("every 15m", Every("15m")),
        ("Every  1h 30m", Every("90m")),
        ("at 2026-03-29T01:00:00Z", At("2026-03-29T01:00:00Z")),
        (
            "AT 2026-03-29T03:00:00+02:00, 2026-04-01T00:00Z",
            At("2026-03-29T01:00:00Z", "2026-04-01T00:00:00Z"),
        ),
    ],
)
def test_a_line_of_text_is_a_schedule(text: str, schedule: Schedule) -> None:
    assert parse_schedule(text) == schedule


@pytest.mark.parametrize(
    ("schedule", "spec"),
    [
        (
            Cron("0 9 * * mon-fri", "Europe/Berlin", "skip", "both"),
            {"text": "0 9 * * MON-FRI", "tz": "Europe/Berlin", "gap": "skip", "fold": "both"},
        ),
        (Every("90m"), {"text": "every 1h30m"}),
        (At("2026-03-29T01:00Z"), {"text": "at 2026-03-29T01:00:00Z"}),
    ],
)
def test_a_schedule_survives_json(schedule: Schedule, spec: dict[str, str]) -> None:
    assert spec_of(schedule) == spec
    assert parse_schedule(**json.loads(json.dumps(spec))) == schedule


@settings(max_examples=100, deadline=None)
@given(rules(), gaps, folds)
def test_every_cron_schedule_survives_json(rule: Rule, gap: Gap, fold: Fold) -> None:
    try:
        cron = Cron(rule.text, "Europe/Berlin", gap, fold)
    except BadSchedule as error:
        assert "never fires" in str(error)  # noqa: PT017
    else:
        assert parse_schedule(**json.loads(json.dumps(spec_of(cron)))) == cron


FIVE = "minute hour day-of-month month day-of-week"
SPAN = "write it like '90s', '15m', '1h30m' or '2d', in whole numbers, the largest unit first"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"this schedule is empty; write {FIVE}, or '@daily', or 'every 15m'"),
        (" \t ", f"this schedule is empty; write {FIVE}, or '@daily', or 'every 15m'"),
        ("0 9 * * *\n", "a schedule must be one line of plain ASCII; character 10 is '\\n'"),
        ("0 9\x00 * * *", "a schedule must be one line of plain ASCII; character 4 is '\\x00'"),
        ("0 9\x1f* * *", "a schedule must be one line of plain ASCII; character 4 is '\\x1f'"),
        ("٣ * * * *", "a schedule must be one line of plain ASCII; character 1 is '٣'"),
        ("0 9 * * ﬁ", "a schedule must be one line of plain ASCII; character 9 is 'ﬁ'"),
        ("every 5m\u00a0", "a schedule must be one line of plain ASCII; character 9 is '\\xa0'"),
        (None, "a schedule must be text, not NoneType None"),
        (b"0 9 * * *", "a schedule must be text, not bytes b'0 9 * * *'"),
        ("every five", f"every: 'five' is not a duration: {SPAN}"),
        ("at", "at: name 1 to 1,000 instants, not 0"),
    ],
)
def test_what_is_no_line_of_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadSchedule) as error:
        parse_schedule(text)
    assert str(error.value) == message


def test_a_zone_where_it_would_do_nothing_is_refused() -> None:
    message = "'every 1d' counts real time, not local time: leave out tz, gap and fold, or use a cron expression"
    with pytest.raises(BadSchedule) as error:
        parse_schedule("every 1d", tz="Europe/Berlin")
    assert str(error.value) == message
    with pytest.raises(BadSchedule, match="counts real time"):
        parse_schedule("at 2026-03-29T01:00:00Z", fold="both")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"gap": "jump"}, "gap must be one of 'run', 'skip', not 'jump'"),
        ({"fold": "twice"}, "fold must be one of 'first', 'second', 'both', not 'twice'"),
        ({"fold": 1}, "fold must be one of 'first', 'second', 'both', not 1"),
    ],
)
def test_a_policy_that_does_not_exist_is_refused(policy: dict[str, Gap], message: str) -> None:
    with pytest.raises(BadPolicy) as error:
        Cron("0 9 * * *", **policy)  # type: ignore[arg-type]  # what a caller without types may write
    assert str(error.value) == message
