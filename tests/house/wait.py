"""Waiting for what happens in its own time."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE: Final = 60.0
"""Seconds, for what happens at once, on a machine that is busy with something else."""

SHORTEST, LONGEST = 0.01, 0.03
"""Seconds between two looks: the longer one waits, the seldomer one looks. Many looks open a file or ask a server, and
a hundred of them in a second take time from what is waited for."""


def wait_until(true: Callable[[], object]) -> None:
    __tracebackhide__ = True  # what pytest shows is the line that waits in vain
    began = time.monotonic()
    while not true():
        waited = time.monotonic() - began
        assert waited < PATIENCE, "it never came true"
        time.sleep(min(max(waited / 20, SHORTEST), LONGEST))


def wait_for(wanted: T, read: Callable[[], T]) -> None:
    """Until that is what it reads. If it never is, what it reads instead is told."""
    __tracebackhide__ = True
    try:
        wait_until(lambda: read() == wanted)
    except AssertionError:
        raise AssertionError(f"it never was {wanted!r}, but {read()!r}") from None
