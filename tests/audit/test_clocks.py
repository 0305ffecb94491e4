"""When two schedules meet."""

import pytest

from cronce_audit.clocks import never, shared_slot
from tests.audit.trees import YEAR


@pytest.mark.parametrize(
    ("one", "other", "at"),
    [("0 3 * * *", "@hourly", "03:00"), ("*/7 * * * *", "*/5 * * * *", "00:00"), ("1 * * * *", "2 * * * *", None),
     ("0 0 29 2 *", "0 0 1 3 *", None), ("0 3 * * 1", "0 3 1 * *", "03:00"), ("x", "0 3 * * *", None)],
)  # fmt: skip
def test_the_slot_that_two_schedules_share(one: str, other: str, at: str | None) -> None:
    found = shared_slot(one, other, YEAR)
    assert (f"{found:%H:%M}" if found else None) == at


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("0 25 * * *", "hour: 25 is not in 0–23"),
        ("0 2 31 2,4 *", "day-of-month: none of its months has such a day"),
        ("0 2 29 2 *", ""),
        ("0 22-4 * * *", ""),  # some programs read it
        ("*/70 * * * *", ""),
        ("0 0 25 * * *", ""),  # six fields, of which not all programs take the first for the second
        ("@daily", ""),
    ],
)
def test_a_schedule_without_any_time(schedule: str, why: str) -> None:
    assert never(schedule) == why
