"""When two schedules meet."""

import pytest

from cronce_audit.clocks import shared_slot
from tests.audit.trees import YEAR


@pytest.mark.parametrize(
    ("one", "other", "at"),
    [("0 3 * * *", "@hourly", "03:00"), ("*/7 * * * *", "*/5 * * * *", "00:00"), ("1 * * * *", "2 * * * *", None),
     ("0 0 29 2 *", "0 0 1 3 *", None), ("0 3 * * 1", "0 3 1 * *", "03:00"), ("x", "0 3 * * *", None)],
)  # fmt: skip
def test_the_slot_that_two_schedules_share(one: str, other: str, at: str | None) -> None:
    found = shared_slot(one, other, YEAR)
    assert (f"{found:%H:%M}" if found else None) == at
