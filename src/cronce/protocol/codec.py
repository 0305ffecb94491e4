"""How values are spelled in a cell: versioned JSON, never pickle.

Every version ever written stays readable: a codec that changes a field's meaning, or adds one, raises VERSION and
upgrades old values while reading (`UPGRADES`). A value of a newer version is refused as BadRecord, never guessed. So is
any value that this codec would not have written: cells are written whole, so a field that a reader did not know would
be lost.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from math import isfinite
from typing import Any, Final, Generic, TypeVar

from cronce.errors import BadInput, BadRecord
from cronce.model import MICROSECOND, Cell, Fence, Instant, from_us, to_us

RECORD_VERSION: Final = 6


quoted = json.encoder.encode_basestring_ascii  # in ASCII, so that stores with different text encodings agree


def dumps(fields: dict[str, Any]) -> str:
    """Like `json.dumps`, which builds a new encoder for each value. That takes longer than encoding one, and a run
    writes four."""
    return "".join(_chunks(fields, 0))


def _encoder() -> Callable[[Any, int], Iterable[str]]:
    plain = json.JSONEncoder(separators=(",", ":"))
    make: Any = json.encoder.c_make_encoder  # type: ignore[attr-defined]
    if make is None:  # a Python without C
        return lambda value, _level: (plain.encode(value),)
    encoder: Callable[[Any, int], Iterable[str]] = make(
        None, plain.default, quoted, None, ":", ",", plain.sort_keys, plain.skipkeys, plain.allow_nan
    )
    return encoder


_chunks: Final = _encoder()


def encoded(fields: Mapping[str, Any], newer: Collection[str] = ()) -> str:
    """What a cell holds that has these fields. The `newer` ones are left out where they are empty, so that older
    versions can read the cell."""
    said = {name: spelled(value) for name, value in fields.items() if value or name not in newer}
    return dumps({"v": RECORD_VERSION, **said})


def spelled(value: Any) -> Any:
    """Instants and spans in microseconds, fences as text, records as rows."""
    match value:
        case None | str() | int():
            return value
        case datetime():
            return to_us(value)
        case timedelta():
            return value // MICROSECOND
        case Fence():
            return str(value)
        case tuple():
            return [spelled(one) for one in value]
        case Mapping():
            return {name: spelled(one) for name, one in sorted(value.items())}
        case _:
            return value


# --- reading: each field has a reader, which takes what was written and nothing else ----------------------------------

T = TypeVar("T")
Reader = Callable[[Any], Any]


def text(value: Any) -> str:
    return of(str, value)


def whole(value: Any) -> int:
    return of(int, value)


def of(kind: type[T], value: Any) -> T:
    if type(value) is not kind:  # isinstance takes True for an int; a cell never has a flag as a number
        raise TypeError
    return value


def flag(value: Any) -> bool:
    return of(bool, value)


def count(value: Any) -> int:
    if whole(value) < 0:
        raise ValueError
    return int(value)


def span(value: Any) -> timedelta:
    return timedelta(microseconds=count(value))


def offset(value: Any) -> timedelta:
    """A span, positive or negative."""
    return timedelta(microseconds=whole(value))


def pair(value: Any) -> tuple[int, int]:
    one, other = of(list, value)
    return count(one), count(other)


def one_of(choices: tuple[str, ...]) -> Callable[[Any], str]:
    return lambda value: choices[choices.index(value)]


def seconds(value: Any) -> float:
    if not isfinite(of(float, value)):
        raise ValueError
    return float(value)


def instant(value: Any) -> Instant:
    return from_us(whole(value))


def maybe(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    return lambda value: None if value is None else read(value)


def each(make: Callable[..., T], *readers: Reader) -> Callable[[Any], tuple[T, ...]]:
    """A list of rows, each with these columns."""

    def row(values: Any) -> T:
        return make(*(read(value) for read, value in zip(readers, of(list, values), strict=True)))

    return lambda rows: tuple(row(values) for values in of(list, rows))


def texts(value: Any) -> dict[str, str]:
    return {text(name): text(one) for name, one in of(dict, value).items()}


_BROKEN: Final = (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError)
"""The errors that reading a damaged value can raise: wrong type, out of range, incomplete, nested too deep."""


def _with_ended(fields: dict[str, Any]) -> dict[str, Any]:
    """Version 2 records when each earlier grant ended."""
    if "past" in fields:
        fields["past"] = [[*row, None] for row in fields["past"]]
    return fields


def _with_acts(fields: dict[str, Any]) -> dict[str, Any]:
    """Version 3 records who paused a job. A holder names its bundle, where it listed its jobs before."""
    if "paused" in fields:
        fields["paused"] = ["", None, ""] if of(bool, fields["paused"]) else None
    if "holder" in fields and "specs" in fields:
        bundled = {
            "bundle": "",
            "role": "both",
            "workers": 0,
            "labels": {},
            "since": 0,
            "cronce": "",
            "draining": False,
            "gone": False,
        }
        fields = {"holder": fields["holder"], **bundled}
    return fields


def _with_effects(fields: dict[str, Any]) -> dict[str, Any]:
    """Version 4 adds the fields of effects, which earlier versions never wrote."""
    return fields


def _with_pulse(fields: dict[str, Any]) -> dict[str, Any]:
    """Version 5 records how often a holder beats, its clock skew, and how many runs it has."""
    if "holder" in fields and "bundle" in fields:
        fields = {**fields, "every": 10_000_000, "skew": 0, "running": 0}
    return fields


def _with_retried(fields: dict[str, Any]) -> dict[str, Any]:
    """Version 6 records when a person retried a slot, and when it ended. Before, the first replaced the second."""
    if "past" in fields:
        fields["past"] = [
            [*row[:4], None, *row[4:]] if row[3].startswith(_RETRIED) else [*row, None] for row in fields["past"]
        ]
    return fields


_RETRIED: Final = ("failed, retried: ", "lost, retried: ", "unknown, retried: ")
"""How the end of a retried grant began. A job function's own failure begins with "failed: ", and any text may
follow."""


UPGRADES: Final[dict[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    1: _with_ended,
    2: _with_acts,
    3: _with_effects,
    4: _with_pulse,
    5: _with_retried,
}
"""How to upgrade a value from each version to the next. Entries are added, never removed."""


class Decoder(Generic[T]):
    """Reads a cell, each field by its reader. All fields must be present, unless it is `sparse`. `newer` fields are
    left out where they are empty, so that older versions can read the cell."""

    def __init__(
        self, make: Callable[..., T], /, *, sparse: bool = False, newer: Mapping[str, Reader] = {}, **readers: Reader
    ) -> None:
        self._make, self._readers, self._sparse, self._newer = make, {**readers, **newer}, sparse, newer

    def __call__(self, text: str, key: str = "") -> T:
        readers = self._readers
        try:
            fields = _fields(text, key)
            there = fields.keys()
            if not self._sparse and there != readers.keys() and {*there, *self._newer} != readers.keys():
                raise KeyError
            return self._make(**{name: readers[name](value) for name, value in fields.items()})
        except _BROKEN as error:
            raise BadRecord(f"the cell {key!r} holds something cronce did not write: {text[:80]!r}") from error


def _fields(text: str, key: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(text)
    version = whole(fields.pop("v"))
    if version > RECORD_VERSION:
        raise BadRecord(
            f"the cell {key!r} has format {version}, this cronce reads up to {RECORD_VERSION}: upgrade cronce"
        )
    if version < 1:
        raise ValueError
    for old in range(version, RECORD_VERSION):
        fields = UPGRADES[old](fields)
    return fields


# --- cells that may not be readable: damaged, or written by a newer cronce ------------------------------------------

# A program that only shows cells leaves these out. A decision that rests on a cell cannot leave it out: there, each
# caller defines what an unreadable cell means.

Decode = Callable[[str, str], T]


def readable(cell: Cell, decode: Decode[T]) -> T | None:
    """The decoded cell; None if it cannot be read, or is absent."""
    try:
        return decode(cell.value, cell.key)
    except BadRecord:
        return None


def all_readable(cells: Iterable[Cell], decode: Decode[T]) -> Iterator[tuple[Cell, T]]:
    """The cells that can be read, each with its decoded value."""
    for cell in cells:
        said = readable(cell, decode)
        if said is not None:
            yield cell, said


# --- what users keep as JSON: payloads, results, positions ----------------------------------------------------------

MAX_PAYLOAD_BYTES: Final = 64 * 1024
"""In bytes. It is stored with the record: it names the work or its result, and is not the work itself."""


def json_text(what: str, value: Any) -> str:
    """Empty for None."""
    if value is None:
        return ""
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"{what} must be a value that JSON can hold: {error}") from None
    if len(text) > MAX_PAYLOAD_BYTES:
        raise BadInput(f"{what} must be at most {MAX_PAYLOAD_BYTES // 1024} KB of JSON, not {len(text):,} bytes")
    return text


def as_json(value: Any) -> Any:
    """The value as JSON returns it: a tuple becomes a list, for example. A value that JSON cannot hold is returned
    unchanged."""
    try:
        return json.loads(json_text("a value", value) or "null")
    except BadInput:
        return value


def changed_by_json(value: Any, text: str) -> str:
    """Which part of a value JSON would change, given the text it is kept as; empty if the value comes back
    unchanged."""
    if not text or json.loads(text) == value:
        return ""
    return _changed(value) or "JSON would change its type"


def _changed(value: Any) -> str:
    if isinstance(value, tuple):
        return "JSON turns a tuple into a list, so return a list"
    keys = [key for key in value if not isinstance(key, str)] if isinstance(value, dict) else []
    if keys:
        return f"JSON turns the key {keys[0]!r:.40} into text, so use text as the key"
    parts: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, map(_changed, parts)), "")
