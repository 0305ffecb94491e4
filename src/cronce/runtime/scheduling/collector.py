"""The garbage collector, and when it is in the way."""

import gc
import threading
from typing import Final


class _Uncollected:
    """Without the garbage collector, for a moment: a batch makes thousands of values, none of them in a circle, and to
    look through them all, and ten thousand jobs beside them, took a third of the time. Several engines of a process may
    be at it at once: the last one out puts it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside, self._collects = 0, False

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._collects = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._collects:
                gc.enable()


uncollected: Final = _Uncollected()
