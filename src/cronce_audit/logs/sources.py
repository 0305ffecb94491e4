"""Reads log files as marks in order of time: plain or compressed, rotated, from several hosts, or from stdin.

Lines are read one at a time and forgotten; starts and ends are kept, and sorted: `kubectl logs -l app=shop` writes pod
after pod, and some write JSON as it comes. What clocks without an offset put back by up to an hour keeps its place: in
one night of the year that is right.
"""

import bz2
import gzip
import lzma
import os
import re
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import IO, Final, cast

from cronce.errors import BadInput
from cronce.model import Instant
from cronce_audit.logs.envelope import Stamps, opened
from cronce_audit.logs.judge import Form, LogEvent, LogMark, LogWriter
from cronce_audit.logs.words import LIKELY, Recogniser, recognise

LONGEST: Final = 1 << 14
"""Bytes of a line that are read."""
STDIN: Final = "-"
_PUT_BACK: Final = timedelta(hours=1)
_TAIL: Final = 50
_OPENERS: Final[dict[bytes, Callable[[IO[bytes]], IO[bytes]]]] = {
    b"\x1f\x8b": lambda file: cast(IO[bytes], gzip.GzipFile(fileobj=file)),
    b"BZh": lambda file: cast(IO[bytes], bz2.BZ2File(file)),
    b"\xfd7zXZ": lambda file: cast(IO[bytes], lzma.LZMAFile(file)),  # noqa: SIM115  the opener closes its file
}
_ROTATED: Final = re.compile(r"[._-]?\d{4}-?\d\d-?\d\d(?:[-_T]\d{2,6})?(?=[^/]*$)|(?:\.(?:\d{1,3}|gz|bz2|xz|old))+$")
"""What rotation adds to a name: a date, a number, a compression."""


class Log:
    """One file; after reading, its number of lines and its last time."""

    def __init__(self, file: IO[bytes], name: str, stamps: Stamps, own: Recogniser | None) -> None:
        self.name, self.log = name, _ROTATED.sub("", name) or name
        self.lines = 0
        self.until: Instant | None = None
        self._file, self._stamps = file, stamps
        self._own = own
        self._tail: deque[bytes] = deque(maxlen=_TAIL)

    def marks(self) -> list[tuple[Instant, LogMark]]:
        """In order of time, each with the instant that it is sorted by: its own, or a later one of a line before, if
        clocks may have gone back."""
        found = sorted(self._found(), key=_by_time)
        for line in self._tail:
            self._goes_on(self._stamps.value(opened(_text(line)).stamp))
        return found

    def _found(self) -> Iterator[tuple[Instant, LogMark]]:
        is_likely, keep, own = LIKELY.search, self._tail.append, self._own
        before: Instant | None = None
        for line in self._lines():
            self.lines += 1
            keep(line)
            if not own and not is_likely(line.lower()):
                continue
            mark = self._mark(line, own or recognise)
            if mark is not None:
                self._goes_on(mark.at)
                put_back = before is not None and not self._stamps.exact and before - _PUT_BACK <= mark.at < before
                before = before if put_back else mark.at
                assert before is not None
                yield before, mark

    def _goes_on(self, at: Instant | None) -> None:
        if at is not None:
            self.until = at if self.until is None else max(at, self.until)

    def _lines(self) -> Iterator[bytes]:
        """One line at a time; only the beginning of an overlong one."""
        whole = True
        try:
            for line in iter(partial(self._file.readline, LONGEST), b""):
                if whole:
                    yield line
                whole = line.endswith(b"\n")
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise BadInput(f"{self.name} cannot be read to its end ({error})") from None

    def _mark(self, line: bytes, recognise: Recogniser) -> LogMark | None:
        text = _text(line)
        letter = opened(text)
        said = recognise(letter)
        at = self._stamps.value(letter.stamp) if said else None
        if said is None or at is None:
            return None
        place = LogWriter(said.by or letter.host or self.log, letter.pid)
        twofold = self._stamps.twofold
        return LogMark(at, said, place, self.log, self.name, self.lines, hash(text), self._slot(said, at), twofold)

    def _slot(self, said: LogEvent, at: Instant) -> Instant | None:
        """The slot that the line names; for cron the minute."""
        if said.form is Form.CRON:
            return at.replace(second=0, microsecond=0)
        return Stamps(UTC, at).value(said.slot) if said.slot else None


def merged(logs: Sequence[Log]) -> Iterator[LogMark]:
    """The marks of all logs in order of time."""
    return (mark for _, mark in sorted((each for log in logs for each in log.marks()), key=_by_time))


def _by_time(found: tuple[Instant, LogMark]) -> Instant:
    return found[0]


def open_logs(
    names: Sequence[str], zone: tzinfo | None, now: Instant, own: Recogniser | None, kept: ExitStack
) -> list[Log]:
    """The files, open as long as `kept` is; `now` stands for the last change of stdin."""
    logs = []
    for name in dict.fromkeys(names):
        file, changed = _open(name, now)
        kept.callback(file.close)
        stream = _unpacked(file)
        logs.append(Log(stream, "stdin" if name == STDIN else name, Stamps(zone, changed), own))
    return logs


def _open(name: str, now: Instant) -> tuple[IO[bytes], Instant]:
    try:
        if name == STDIN:
            return os.fdopen(os.dup(sys.stdin.fileno()), "rb"), now
        file = Path(name).open("rb")  # noqa: SIM115  the caller closes it
    except OSError as error:
        raise BadInput(f"{name} cannot be read ({error.strerror or error})") from None
    return file, datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)


def _unpacked(file: IO[bytes]) -> IO[bytes]:
    head: bytes = file.peek(8)  # type: ignore[attr-defined]
    return next((opener(file) for magic, opener in _OPENERS.items() if head.startswith(magic)), file)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")
