"""The jobs that every scheduler here is given."""

import time


def names(jobs: int) -> list[str]:
    return [f"job-{number}" for number in range(jobs)]


def far(number: int) -> str:
    """A schedule of its own for each job, in a month that is about half a year away."""
    month = (time.gmtime().tm_mon + 5) % 12 + 1
    return f"{number % 60} {number // 60 % 24} {number // 1440 % 28 + 1} {month} *"
