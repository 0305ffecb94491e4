"""Whether anybody keeps this machine's clock right: the kernel is told by whoever does (chrony, ntpd, timesyncd)."""

import sys
from typing import Final

from cronce.value import NamedTuple

UNSYNCHRONISED: Final = 0x0040
"""Set in the kernel's status when nobody has corrected the clock for hours (STA_UNSYNC in <sys/timex.h>)."""


class Kept(NamedTuple):
    """What the kernel knows of its clock; `error` is by how many seconds it may be off."""

    synchronised: bool
    error: float


def kept() -> Kept | None:
    """None where it cannot be asked: not on Linux, or in a container that forbids it."""
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415  slow to import, and only the doctor asks

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
    return Kept(not state.status & UNSYNCHRONISED, state.maxerror / 1e6)
