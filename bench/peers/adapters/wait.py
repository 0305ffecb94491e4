"""How a host without a loop of its own waits."""

import signal
import threading


def until_stopped() -> None:
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    over.wait()
