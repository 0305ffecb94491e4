"""How a column of time is read."""

import pytest

from cronce.evidence.model import unit_of


@pytest.mark.parametrize(("largest", "unit"), [(None, 1.0), (1.7e9, 1.0), (1.7e12, 1e-3), (1.7e15, 1e-6)])
def test_a_number_tells_by_its_size_what_it_counts(largest: float | None, unit: float) -> None:
    assert unit_of(largest).total_seconds() == unit
