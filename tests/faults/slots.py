"""The slots that the claimants of a fault test share."""

import os
from datetime import UTC, datetime, timedelta

JOB = "billing"
SLOTS = int(os.environ.get("CRONCE_KILLED_SLOTS", "60"))  # `make proof` takes 500
LEASE = timedelta(seconds=1)
DEATH = 0.012
"""How likely a process dies at each step of a run: granted, started, ended, finished."""


def instant(number: int) -> datetime:
    return datetime(2026, 3, 29, tzinfo=UTC) + timedelta(minutes=number)
