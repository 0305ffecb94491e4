"""Numbers that say when: seconds since 1970, or what is finer. Which, their size tells."""

from datetime import timedelta
from typing import Any, Final

FINER: Final = ((1e14, timedelta(microseconds=1)), (1e11, timedelta(milliseconds=1)))
"""In seconds, the year 5138 begins the second of these; thousandths passed it in 1973."""

NO_TIME: Final = 1e18
"""No time in any of these units; nor is what is more, infinity, or what PostgreSQL sorts after that (NaN)."""


def unit_of(largest: Any) -> timedelta:
    """What one is, where this is the largest; of no rows at all any will do."""
    return next((unit for least, unit in FINER if largest is not None and float(largest) > least), timedelta(seconds=1))
