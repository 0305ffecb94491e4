"""Where the processes of `cronce run` write what they counted, and one of them reads it: memory that all share.

*A place each, and two halves to a place.* A snapshot is written into the half that holds the older one, with a number
that is higher by one, its length and its checksum. Whoever reads takes the half with the higher number whose checksum
is right. So a writer that is killed in the middle leaves the snapshot before, and a reader never takes half of one.

*Who takes over a place counts on.* A process that died is replaced, and its successor begins with what stands in its
place: so counters never fall, and nobody who looks at their rate sees a restart. What it counted in its last second,
and had not written yet, is not in there.
"""

import json
import mmap
import struct
import zlib
from typing import Any, Final

from cronce.model import Boot
from cronce.monitor.metrics.catalogue import METRICS
from cronce.monitor.metrics.registry import Key, Values
from cronce.value import NamedTuple

HALF: Final = 1 << 20
"""Bytes. Jobs with labels of their own are few enough that their snapshot always fits, however long their names; and
what is not written takes no memory."""

_HEAD: Final = struct.Struct("=QII")
"""Number, length, checksum."""

_NAMES: Final = tuple(METRICS)


class Snapshot(NamedTuple):
    """What a process counted, and when it said so."""

    at: Boot
    values: Values


class Slates:
    """Made before the processes are, of which each writes in its own place."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._memory = mmap.mmap(-1, number * 2 * HALF)

    def write(self, place: int, snapshot: Snapshot) -> None:
        text = _encoded(snapshot)
        assert len(text) <= HALF - _HEAD.size, f"{len(text)} bytes"
        number = max(self._number(place, half) for half in (0, 1)) + 1
        start = self._start(place, number % 2)
        self._memory[start + _HEAD.size : start + _HEAD.size + len(text)] = text
        _HEAD.pack_into(self._memory, start, number, len(text), _checksum(number, text))

    def read(self, place: int) -> Snapshot | None:
        """The last that is whole. While it is read two more may be written: then there is a newer one."""
        for _ in range(10):
            for half in sorted((0, 1), key=lambda half: self._number(place, half), reverse=True):
                text = self._text(place, half)
                if text is not None:
                    return _decoded(text)
        return None

    def _text(self, place: int, half: int) -> bytes | None:
        start = self._start(place, half)
        number, length, checksum = _HEAD.unpack_from(self._memory, start)
        text = self._memory[start + _HEAD.size : start + _HEAD.size + min(length, HALF - _HEAD.size)]
        return text if number and checksum == _checksum(number, text) else None

    def _number(self, place: int, half: int) -> int:
        number: int = _HEAD.unpack_from(self._memory, self._start(place, half))[0]
        return number

    def _start(self, place: int, half: int) -> int:
        return (2 * place + half) * HALF


def _checksum(number: int, text: bytes) -> int:
    return zlib.crc32(text, number & 0xFFFFFFFF)


def _encoded(snapshot: Snapshot) -> bytes:
    rows = [[_NAMES.index(name), labels, value] for (name, *labels), value in snapshot.values.items()]
    return json.dumps([snapshot.at, rows], separators=(",", ":")).encode()


def _decoded(text: bytes) -> Snapshot:
    at, rows = json.loads(text)
    return Snapshot(at, {_key(name, labels): value for name, labels, value in rows})


def _key(name: int, labels: list[Any]) -> Key:
    return (_NAMES[name], *labels)
