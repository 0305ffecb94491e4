"""Just enough of YAML to print a manifest that people edit: blocks of keys and lists, and notes above them.

A text is plain only where no reader could take it for anything else (`no`, `1e3`, `12:30` and `2026-03-29` are all
something else to one reader or another); else it is quoted.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from cronce.value import NamedTuple

PLAIN: Final = re.compile(r"(?a)[A-Za-z][\w./-]*")
TAKEN: Final = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})

Value: TypeAlias = "str | int | Mapping[str, Value] | Sequence[Value] | Noted"


class Noted(NamedTuple):
    """A value, and what whoever reads the manifest should know of it."""

    value: "Value"
    note: str


def dump(*documents: Mapping[str, Value]) -> str:
    """The documents, one after the other."""
    return "---\n".join("".join(f"{line}\n" for line in _lines(document)) for document in documents)


def _lines(value: Value) -> Iterator[str]:
    match value:
        case Mapping() if value:
            for key, item in value.items():
                yield from _entry(f"{_text(key)}:", item)
        case str() | int():
            yield _scalar(value)
        case Sequence() if value:
            for item in value:
                yield from _item(item)
        case Mapping():
            yield "{}"
        case _:
            yield "[]"


def _entry(key: str, item: Value) -> Iterator[str]:
    value, notes = _parted(item)
    yield from notes
    if isinstance(value, str | int) or not value:
        yield f"{key} {''.join(_lines(value))}"
    else:
        yield key
        yield from (f"  {line}" for line in _lines(value))


def _item(item: Value) -> Iterator[str]:
    value, notes = _parted(item)
    yield from notes
    marks = iter(["- "])
    yield from (f"{next(marks, '  ')}{line}" for line in _lines(value))


def _parted(item: Value) -> tuple[Value, list[str]]:
    return (item.value, [f"# {line}" for line in item.note.splitlines()]) if isinstance(item, Noted) else (item, [])


def _scalar(value: str | int) -> str:
    return _text(value) if isinstance(value, str) else str(value).lower()


def _text(text: str) -> str:
    if PLAIN.fullmatch(text) and text.lower() not in TAKEN:
        return text
    return f'"{"".join(map(_quoted, text))}"'


def _quoted(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"
