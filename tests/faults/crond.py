"""A crond in a few lines: starts a command every so many seconds of its own wall clock, as wrong as that may be.

python crond.py FIRST EVERY COUNT COMMAND...
"""

import subprocess
import sys
from datetime import datetime, timedelta
from threading import Event

from cronce.clock import SystemClock


def main() -> int:
    first, every, slots, command = datetime.fromisoformat(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    clock = SystemClock()
    started = []
    for number in range(slots):
        due = first + timedelta(seconds=every * number)
        while (left := (due - clock.wall()).total_seconds()) > 0:
            Event().wait(min(left, 0.2))
        started.append(subprocess.Popen(command))
    return max(process.wait() for process in started)


if __name__ == "__main__":
    sys.exit(main())
