"""Process groups, and waiting for what happens to them."""

import math
import os
import select
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

LOOK: Final = 1.0  # poll's timeout stands still in suspend, the boot clock does not: look again at least this often
PROBE: Final = 0.02  # how often to look whether the rest of a group is gone: nobody tells us


def send(group: int, *numbers: int) -> None:
    """Signals to a whole group. None left in it, or none that we may signal: both leave nothing to do."""
    with suppress(ProcessLookupError, PermissionError):
        for number in numbers:
            os.killpg(group, number)


def terminate(group: int) -> None:
    send(group, signal.SIGTERM, signal.SIGCONT)  # a stopped process heeds TERM only once it is continued


def alive(group: int) -> bool:
    """Whether the group has a member, be it a zombie: where process 1 reaps nobody, a stop takes its whole grace."""
    try:
        os.killpg(group, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return True


def ready(interest: Mapping[int, int], seconds: float) -> set[int]:
    """Which of these descriptors are ready; after at most `seconds`, and no later than the next look at the clock."""
    poller = select.poll()
    for fd, events in interest.items():
        poller.register(fd, events)
    limit = None if seconds == math.inf else max(0, math.ceil(min(seconds, LOOK) * 1_000))
    return {fd for fd, _ in poller.poll(limit)}
