"""The output of a command on its way to ours: passed on at once, and the end of it kept."""

import os
import select
from contextlib import suppress
from typing import Final

TAIL: Final = 2_000
"""Characters of a command's output that are kept: the end says what went wrong."""

_PIPE_MOST: Final = 1 << 20  # what the largest pipe holds that an ordinary user can make


class Tail:
    """The end of all that was printed, in constant memory."""

    def __init__(self) -> None:
        self._bytes = b""

    def add(self, chunk: bytes) -> None:
        self._bytes = (self._bytes + chunk)[-4 * TAIL :]  # no character has more than four bytes

    def text(self) -> str:
        return self._bytes.decode(errors="replace")[-TAIL:]


class Stream:
    """One output of the command on its way to ours: read, kept in the tail, written on, one chunk at a time.

    A slow reader of ours slows the command, as it would without us; it must not slow *us*, who have a lease to lose.
    So nothing is written before poll says that PIPE_BUF bytes have room, and never more than that. (A terminal makes
    no such promise. There the watchdog's deadline is what remains.) A reader that went away costs the command nothing.
    """

    def __init__(self, target: int, tail: Tail) -> None:
        self.source, self.inlet = os.pipe()
        os.set_blocking(self.source, False)
        self._target = target
        self._tail = tail
        self.pending = memoryview(b"")

    def interest(self) -> dict[int, int]:
        if self.pending:
            return {self._target: select.POLLOUT}
        return {self.source: select.POLLIN} if self.source >= 0 else {}

    def read(self) -> int:
        """How many bytes came; at the end of the output the source is closed."""
        with suppress(BlockingIOError):
            chunk = os.read(self.source, 1 << 16)
            self._tail.add(chunk)
            if self._target >= 0:
                self.pending = memoryview(bytes(self.pending) + chunk)
            if not chunk:
                self.close()
            return len(chunk)
        return 0

    def write(self) -> None:
        try:
            self.pending = self.pending[os.write(self._target, self.pending[: select.PIPE_BUF]) :]
        except BlockingIOError:  # others write there too, and were faster
            pass
        except OSError:
            self._target, self.pending = -1, memoryview(b"")

    def finish(self) -> None:
        """Take what is there, and no more: a process that was left behind may hold the other end for ever."""
        taken = 0
        while self.source >= 0 and taken < _PIPE_MOST and (size := self.read()):
            taken += size
        self.close()

    def close(self) -> None:
        if self.source >= 0:
            os.close(self.source)
            self.source = -1
