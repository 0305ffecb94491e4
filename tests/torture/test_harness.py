"""The harness of a torture: when the first slot is due."""

import pytest

from cronce.torture.harness import registered


@pytest.mark.parametrize(("start", "seconds"), [(0.4, 4), (2.0, 4), (3.3, 7), (9.0, 18), (40.0, 30)])
def test_where_processes_start_slowly_the_first_slot_is_later(start: float, seconds: int) -> None:
    """It once was four seconds later in any case. On a busy machine schedulers had not registered their jobs by then,
    and the slots before that were counted as missed."""
    assert registered(start) == seconds
