"""The only module that asks what time it is.

Trust is counted on a clock that goes on while the machine sleeps: a laptop lid or a paused virtual machine must not
stretch a lease. Linux: CLOCK_BOOTTIME (its CLOCK_MONOTONIC stops in suspend). macOS: CLOCK_MONOTONIC counts sleep there
(not tested by this project's suite). Windows has no such clock in Python, so it is refused rather than guessed.
"""

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from cronce.errors import ClockUnsupported


class Clock(Protocol):
    """Time as an argument: the real one below, or one that a test turns by hand."""

    def boot(self) -> float:
        """Seconds on a clock that goes on in suspend."""
        ...

    def wall(self) -> datetime:
        """This host's idea of UTC: only for inferring the slot of a trigger that fired here, and for logs."""
        ...


def _suspend_proof() -> Callable[[], float]:
    if hasattr(time, "CLOCK_BOOTTIME"):
        clock_id = time.CLOCK_BOOTTIME
        return lambda: time.clock_gettime(clock_id)
    if sys.platform == "darwin":
        return lambda: time.clock_gettime(time.CLOCK_MONOTONIC)
    raise ClockUnsupported(
        f"{sys.platform} has no clock in Python that counts time in suspend; cronce needs Linux or macOS"
    )


class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        self._boot = _suspend_proof()

    def boot(self) -> float:
        return self._boot()

    def wall(self) -> datetime:
        return datetime.now(UTC)


def boot_id() -> str:
    """Which boot of the machine this is, so that readings of its boot clock are never compared across two; "" where
    that cannot be known, and nothing is compared."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:  # noqa: PTH123  pathlib is slow to import
            return boot.read().strip()
    except OSError:
        return ""
