"""How long this process stands still while it should do something in time: a machine that is busy is no finding."""

import threading
import time
from typing import Final, Self

TICK: Final = 0.01


class Standstill(threading.Thread):
    """A thread that wants to look at the clock each ten milliseconds. `seconds` is by how much it came late, in all,
    since the block began: so much more time is granted to whatever had to run beside it."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seconds = 0.0
        self._over = threading.Event()

    def run(self) -> None:
        before = time.monotonic()
        while not self._over.wait(TICK):
            now = time.monotonic()
            self.seconds += max(now - before - TICK, 0.0)
            before = now

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self.join()
