"""The watchdog: a program of its own that ends process groups when the process that started them cannot.

    python -S -P -c "import sys; sys.path.insert(0, THIS_FOLDER); from watchdog import main; main()" GRACE

Its input is a pipe of records, each about one group; the end of the pipe means that the process behind it is gone.
`process_group.Watchdog` is the other end.

Every `cronce exec` that runs a command starts it, so it imports only what is built into Python or quick to load: no
`typing`, no `site`, nothing else of cronce. It costs 9 ms of CPU, while the command starts; an interpreter with cronce
in it costs 28. A fork of `exec` costs 7, before the command starts: each page is copied when it is next written to.
"""

import math
import os
import select
import struct
import sys
import time
from _signal import SIGCONT, SIGKILL, SIGTERM  # type: ignore[import-not-found]  # `signal` makes enums of them: 4 ms

RECORD = struct.Struct("=cqd")
"""A word, the group it is about, and for GUARD and MOVE the deadline. A record is far below PIPE_BUF, so writes from
two threads never mix."""
GUARD = b"g"
MOVE = b"m"
UNGUARD = b"d"

BOOT_CLOCK_POLL = 1.0
"""Seconds. poll's timeout does not advance in suspend, the boot clock does: look again at least this often."""
GROUP_LOOK_EVERY = 0.02
"""Seconds between two looks whether the rest of a group is gone: the system does not report it."""

Guarded = dict[int, float]
"""The groups that it guards, and the deadline of each on the boot clock."""


def main() -> None:
    try:
        _watch(float(sys.argv[1]))
    finally:
        os._exit(0)


def _watch(grace: float) -> None:
    guarded: Guarded = {}
    while True:
        if ready({0: select.POLLIN}, _next_look(guarded)):  # read all that was sent, then judge
            if not (record := os.read(0, RECORD.size)):
                break
            _heed(record, guarded)
        else:
            _judge(guarded)
    _end({group: min(_boot() + grace, deadline) for group, deadline in guarded.items()})


def _boot() -> float:
    """As `cronce.clock` has it, which takes too long to import."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _next_look(guarded: Guarded) -> float:
    return min(min(guarded.values()) - _boot(), BOOT_CLOCK_POLL) if guarded else math.inf


def _heed(record: bytes, guarded: Guarded) -> None:
    word, group, deadline = RECORD.unpack(record)
    if word == GUARD or (word == MOVE and group in guarded):
        guarded[group] = deadline
    elif word == UNGUARD:
        guarded.pop(group, None)


def _judge(guarded: Guarded) -> None:
    boot = _boot()
    for group, deadline in list(guarded.items()):
        if boot >= deadline:
            send(group, SIGKILL)
            del guarded[group]
        elif not alive(group):  # a zombie counts, so this group is gone for ever and its number may be given away
            del guarded[group]


def _end(kill_at: Guarded) -> None:
    for group in kill_at:
        terminate(group)
    while kill_at:
        _judge(kill_at)
        ready({}, GROUP_LOOK_EVERY if kill_at else 0)


# --- what both sides do to a group ------------------------------------------------------------------------------------


def send(group: int, *numbers: int) -> None:
    """Signals to a whole group. None left in it, or none that we may signal: both leave nothing to do."""
    try:
        for number in numbers:
            os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def terminate(group: int) -> None:
    send(group, SIGTERM, SIGCONT)  # a stopped process heeds TERM only once it is continued


def alive(group: int) -> bool:
    """Whether the group has a member, even a zombie: where process 1 does not reap, a stop takes its whole grace."""
    try:
        os.killpg(group, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return True


def ready(interest: dict[int, int], seconds: float) -> set[int]:
    """Which of these descriptors are ready; after at most `seconds`, and no later than the next look at the clock."""
    poller = select.poll()
    for fd, events in interest.items():
        poller.register(fd, events)
    limit = None if seconds == math.inf else max(0, math.ceil(min(seconds, BOOT_CLOCK_POLL) * 1_000))
    return {fd for fd, _ in poller.poll(limit)}
