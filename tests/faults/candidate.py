"""A process that stands for election and, again and again, asks itself whether it leads. Run as a script.

Each time that it does, it says so in a plain file of lines: a ledger that knows nothing of cronce. The times are those
before and after the question, by a clock that all processes of a machine share. That it stands is in the ledger too,
and after a gap, as when the process was stopped, the first answer either way.
"""

import os
import signal
import sys
import threading
from contextlib import suppress

from cronce import Cronce, LockHeld
from cronce.clock import SystemClock

GAP = 0.5
"""Seconds without an answer after which the next one is of interest, whatever it is."""


def spin() -> None:
    while True:
        pass


def main() -> None:
    url, book, lease, busy = sys.argv[1:]
    ledger = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    boot, pause, over = SystemClock().boot, threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    for _ in range(int(busy)):
        threading.Thread(target=spin, daemon=True).start()
    with Cronce(url) as cron:
        leader = cron.leader("indexer", lease=lease)
        leader.start()
        with suppress(LockHeld), leader.elected():  # by now the store was asked
            pass
        os.write(ledger, f"{boot()} {boot()} {os.getpid()} stands\n".encode())
        asked = boot()
        while not over.is_set():
            before, asked = asked, boot()
            term, answered = leader.term, boot()
            if term is not None or asked - before > GAP:
                line = f"{asked} {answered} {os.getpid()} {term.fence if term else '-'}\n"
                os.write(ledger, line.encode())
            pause.wait(0.002)


if __name__ == "__main__":
    main()
