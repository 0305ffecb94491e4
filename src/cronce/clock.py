"""The only module that asks what time it is.

Trust is counted on a clock that goes on while the machine sleeps: a laptop lid or a paused virtual machine must not
stretch a lease. Linux: CLOCK_BOOTTIME (its CLOCK_MONOTONIC stops in suspend). macOS: CLOCK_MONOTONIC counts sleep there
(not tested by this project's suite). Windows has no such clock in Python, so it is refused rather than guessed.
"""

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol

from cronce.errors import ClockUnsupported
from cronce.value import NamedTuple


class Clock(Protocol):
    """Time as an argument: the real one below, or one that a test turns by hand."""

    def boot(self) -> float:
        """Seconds on a clock that goes on in suspend."""
        ...

    def wall(self) -> datetime:
        """This host's idea of UTC: for inferring the slot of a trigger that fired here, for logs, and to hold a store's
        clock against that seems to have leapt."""
        ...

    def synchronised(self) -> bool:
        """Whether the kernel says that a person keeps the wall clock right."""
        ...


def _suspend_proof() -> Callable[[], float]:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        return partial(time.clock_gettime, time.CLOCK_MONOTONIC)
    return _unsupported


def _unsupported() -> float:
    raise ClockUnsupported(
        f"{sys.platform} has no clock in Python that counts time in suspend; cronce needs Linux or macOS"
    )


class SystemClock:
    """The machine's clocks."""

    boot = staticmethod(_suspend_proof())  # no function around it: a run asks eight times

    def wall(self) -> datetime:
        return datetime.now(UTC)

    def synchronised(self) -> bool:
        kept = kernel_clock()
        return kept is not None and kept.synchronised


# --- whether this machine's clock is kept right: the kernel knows from chrony, ntpd or timesyncd ----------------------

UNSYNCHRONISED: Final = 0x0040
"""Set in the kernel's status when nobody has corrected the clock for hours (STA_UNSYNC in <sys/timex.h>)."""


class KernelClock(NamedTuple):
    """What the kernel knows of its clock; `error` is by how many seconds it may be off."""

    synchronised: bool
    error: float


def kernel_clock() -> KernelClock | None:
    """None where it cannot be asked: not on Linux, or in a container that forbids it."""
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415  slow to import, and rarely asked

    class Timex(ctypes.Structure):
        """The first fields of `struct timex`, and room for the others."""

        _fields_ = (
            ("modes", ctypes.c_uint),
            ("offset", ctypes.c_long),
            ("freq", ctypes.c_long),
            ("maxerror", ctypes.c_long),
            ("esterror", ctypes.c_long),
            ("status", ctypes.c_int),
            ("rest", ctypes.c_long * 40),
        )

    state = Timex()  # modes = 0: only to be read
    try:
        if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(state)) < 0:
            return None
    except (OSError, AttributeError):
        return None
    return KernelClock(not state.status & UNSYNCHRONISED, state.maxerror / 1e6)


def boot_id() -> str:
    """Which boot of the machine this is, so that readings of its boot clock are never compared across two; "" where
    that cannot be known, and nothing is compared."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as boot:  # noqa: PTH123  pathlib is slow to import
            return boot.read().strip().decode()  # as text, the file would need the codec of its encoding imported
    except OSError:
        return ""
