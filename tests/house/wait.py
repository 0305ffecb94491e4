"""Waiting for what happens in its own time."""

import time
from collections.abc import Callable
from typing import Final

PATIENCE: Final = 60.0
"""Seconds, for what happens at once, on a machine that is busy with something else."""


def wait_until(true: Callable[[], object]) -> None:
    __tracebackhide__ = True  # what pytest shows is the line that waits in vain
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
