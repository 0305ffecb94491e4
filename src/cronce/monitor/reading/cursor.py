"""Where a list goes on: a position in a scan as a text, fit for a link."""

import re
from typing import Final

from cronce.errors import BadInput
from cronce.stores.base import Position

_NUMBER: Final = re.compile("[0-9]{1,17}", re.ASCII)
"""Microseconds, up to a year that nobody will see."""

_LONGEST: Final = 1000


def spell_cursor(position: Position) -> str:
    return f"{position.us}@{position.key}"


def read_cursor(text: str, prefix: str) -> Position:
    """The position that a text names, of a list of cells whose keys begin so; it comes from outside."""
    us, _, key = text.partition("@")
    written = _NUMBER.fullmatch(us) and key.startswith(prefix) and len(key) <= _LONGEST and key.isprintable()
    if not written:
        raise BadInput(f"{text[:60]!r} is not where a list goes on; take the text that came with its last part")
    return Position(int(us), key)
