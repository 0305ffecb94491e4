"""The output of a command on its way to ours: passed on at once, and the end of it kept."""

import os
import select
import sys
from collections import deque
from contextlib import suppress
from fcntl import ioctl
from termios import FIONREAD
from typing import Final

TAIL: Final = 2_000
"""Characters of a command's output that are kept: the end, which usually shows what went wrong."""

OUTPUT_VARIABLE: Final = "CRONCE_OUTPUT"
"""The variable that is `none` where the store shall keep none of the output, because others may read the store."""

_TAIL_BYTES: Final = 4 * TAIL  # no character has more than four

_PIPE_MOST: Final = 1 << 20  # what the largest pipe holds that an ordinary user can make


class Tail:
    """The end of all that was printed, in constant memory.

    Two pipes have no common order. When our reader or the machine is slow, stdout is read later than stderr, and its
    old lines would push the last words on stderr, such as a traceback, out of what is kept. So stderr is placed behind
    the part of stdout that was there when stderr was read, though that part is read later.
    """

    def __init__(self) -> None:
        self._bytes = b""
        self._read = 0  # bytes of stdout
        self._ahead: deque[tuple[int, bytes]] = deque()  # of stderr: behind how many bytes of stdout it belongs
        self._ahead_size = 0

    def add_stdout(self, chunk: bytes) -> None:
        while self._ahead and self._ahead[0][0] <= self._read + len(chunk):
            place, said = self._pop_ahead()
            before, chunk = chunk[: place - self._read], chunk[place - self._read :]
            self._append(before + said)
            self._read = place
        self._append(chunk)
        self._read += len(chunk)

    def add_stderr(self, chunk: bytes, unread: int) -> None:
        """`unread` bytes of stdout were printed before it and are yet to come."""
        said = chunk[-_TAIL_BYTES:]
        self._ahead.append((self._read + unread, said))
        self._ahead_size += len(said)
        while self._ahead_size - len(self._ahead[0][1]) >= _TAIL_BYTES:
            self._pop_ahead()  # so much follows it that it will not be kept
        self.add_stdout(b"")

    def text(self) -> str:
        if os.environ.get(OUTPUT_VARIABLE) == "none":
            return ""
        kept = self._bytes + b"".join(said for _, said in self._ahead)
        return kept.decode(errors="replace")[-TAIL:]

    def _append(self, chunk: bytes) -> None:
        self._bytes = (self._bytes + chunk)[-_TAIL_BYTES:]

    def _pop_ahead(self) -> tuple[int, bytes]:
        place, said = self._ahead.popleft()
        self._ahead_size -= len(said)
        return place, said


class Stream:
    """One output of the command on its way to ours: read, kept in the tail, written on, one chunk at a time.

    A slow reader of ours slows the command, as it would without us; it must not slow *us*, who have a lease to lose. So
    nothing is written before poll reports room for PIPE_BUF bytes, and never more than that. (A terminal makes no such
    promise. There the watchdog's deadline is what remains.) A reader that went away costs the command nothing.
    """

    def __init__(self, target: int, tail: Tail, stdout: "Stream | None" = None) -> None:
        self.source, self.inlet = os.pipe()
        os.set_blocking(self.source, False)
        self._target = target
        self._tail = tail
        self._stdout = stdout  # of the same command, if this is its stderr
        self.pending = memoryview(b"")

    def interest(self) -> dict[int, int]:
        if self.pending:
            return {self._target: select.POLLOUT}
        return {self.source: select.POLLIN} if self.source >= 0 else {}

    def read(self) -> int:
        """How many bytes came; at the end of the output the source is closed."""
        with suppress(BlockingIOError):
            chunk = os.read(self.source, 1 << 16)
            self._keep(chunk)
            if self._target >= 0:
                self.pending = memoryview(bytes(self.pending) + chunk)
            if not chunk:
                self.close()
            return len(chunk)
        return 0

    def _keep(self, chunk: bytes) -> None:
        if self._stdout is None:
            self._tail.add_stdout(chunk)
        else:
            self._tail.add_stderr(chunk, self._stdout.unread())

    def unread(self) -> int:
        """How many bytes were printed that are yet to be read."""
        if self.source < 0:
            return 0
        with suppress(OSError):  # where the system cannot report it, what is kept has the order in which it was read
            return int.from_bytes(ioctl(self.source, FIONREAD, bytes(4)), sys.byteorder)
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
