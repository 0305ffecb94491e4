"""The rows that the SQL stores have in common; the statements are each store's own.

Instants are whole microseconds since 1970, a mark is its number, a fence is two numbers, and a key compares bytewise.
`value` is the last column, so that a filter on the others never reads a long one.
"""

from collections.abc import Sequence
from typing import Any, Final

from cronce.model import Cell, Epoch, Fence, Instant, Mark, Origin, from_us, to_us
from cronce.stores.base import By, Scan, instant, us
from cronce.value import NamedTuple

SQL_SCHEMA: Final = 1
"""The version of the tables. A newer one is refused, never guessed."""

BEFORE_ALL_INSTANTS: Final = -(1 << 62)
AFTER_ALL_INSTANTS: Final = 1 << 62
"""Before and after every instant, in µs."""

Row = Sequence[Any]

MARK_BY_NUMBER: Final = {int(mark): mark for mark in Mark}
ORIGIN_BY_WORD: Final = {str(origin): origin for origin in Origin}


class Meta(NamedTuple):
    """The one row about the store itself, and the store's clock when it was read."""

    now: Instant
    schema: int
    epoch: Epoch
    last_write: Instant
    identity: str = ""  # needed, and read, only where a store is opened
    network: bool = False  # a file on a network file system was adopted


def read_meta(row: Row) -> Meta:
    now, schema, birth, tally, base, origin, since, last_write, *rest = row
    epoch = Epoch(birth, tally, base, ORIGIN_BY_WORD[origin], instant(since))
    return Meta(from_us(now), schema, epoch, from_us(last_write), *rest)


def meta_row(epoch: Epoch, last_write: Instant) -> Row:
    """What changes in the row about the store: from birth to last_write."""
    return (epoch.birth, epoch.tally, epoch.base, str(epoch.origin), us(epoch.since), to_us(last_write))


def read_cell(row: Row) -> Cell:
    key, version, mark, at, until, fence_birth, fence_number, value = row
    return Cell(
        key,
        version,
        value,
        instant(at),
        MARK_BY_NUMBER[mark],
        None if fence_number is None else Fence(fence_birth, fence_number),
        instant(until),
    )


def beyond(prefix: str) -> str | None:
    """The least text above everything that begins with `prefix`, or None when nothing is: ``run/`` → ``run0``.

    A range of keys finds a prefix by its index, and knows no wildcards.
    """
    head = prefix.rstrip("\U0010ffff")
    if not head:
        return None
    last = ord(head[-1]) + 1
    return head[:-1] + chr(0xE000 if last == 0xD800 else last)  # no text holds a surrogate


def bounds(scan: Scan, after_all_text: Any) -> dict[str, Any]:
    """The parameters of a page: its keys and instants, and the position before it. One cell more shows that there are
    more."""
    at_first = (AFTER_ALL_INSTANTS, after_all_text) if scan.newest_first else (BEFORE_ALL_INSTANTS, "")
    past_us, past_key = scan.after or at_first
    upto = AFTER_ALL_INSTANTS if scan.upto is None else to_us(scan.upto)
    if scan.newest_first and scan.after is None:  # so that the index is entered there
        past_us = upto
    high = beyond(scan.prefix)
    return {
        "low": scan.prefix,
        "high": after_all_text if high is None else high,
        "us": past_us,
        "after": past_key,
        "upto": upto,
        "limit": scan.limit + 1,
    }


def scan_words(
    by: By, mark: Mark | None, *, newest_first: bool, key: str, past_key: str, past_instant: str
) -> dict[str, str]:
    """The parts of a scan's statement: which cells, past which position, in which order. `key` is the name of that
    column, the others are how a cell is compared with the position."""
    past, way = ("<", "DESC") if newest_first else (">", "ASC")
    return {
        "only": "TRUE" if mark is None else f"mark = {mark:d}",
        "past": (past_key if by == "key" else past_instant).format(by=by, past=past),
        "order": f"{key} {way}" if by == "key" else f"{by} {way}, {key} {way}",
    }
