"""What the SQL stores share: the statements, whole and named, and the rows they speak in.

A dialect fills in what no two databases agree on: its clock, how a list of keys travels, how a statement is held to an
index. Instants are whole microseconds since 1970, a mark is its number, a fence is two numbers, and a key compares
bytewise. `value` stands last in a row, so that a filter on the other columns never reads a long one.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from cronce.model import Cell, Epoch, Fence, Instant, Mark, Origin, from_us, to_us
from cronce.stores.base import By
from cronce.value import NamedTuple

SCHEMA: Final = 1
"""The version of the tables. A newer one is refused, never guessed."""

Row = Sequence[Any]

# --- the tables -----------------------------------------------------------------------------------------------------

TABLES: Final = (
    """
    CREATE TABLE IF NOT EXISTS cronce_meta (
        only_row    INTEGER PRIMARY KEY CHECK (only_row = 1),
        schema      INTEGER NOT NULL,
        birth       BIGINT NOT NULL,
        tally       BIGINT NOT NULL,
        base        BIGINT NOT NULL,
        origin      TEXT NOT NULL,
        since       BIGINT,
        last_write  BIGINT NOT NULL,
        identity    TEXT NOT NULL,
        network     INTEGER NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS cronce_cells (
        key           TEXT NOT NULL,
        version       BIGINT NOT NULL,
        mark          INTEGER NOT NULL,
        at            BIGINT,
        until         BIGINT,
        fence_birth   BIGINT,
        fence_number  BIGINT,
        value         TEXT NOT NULL
    )
    """,
    "CREATE UNIQUE INDEX IF NOT EXISTS cronce_by_key ON cronce_cells (key)",
    "CREATE INDEX IF NOT EXISTS cronce_by_at ON cronce_cells (at, key) WHERE at IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS cronce_open ON cronce_cells (until, key) WHERE mark = 1",
    "CREATE INDEX IF NOT EXISTS cronce_attention ON cronce_cells (at, key) WHERE mark = 4",
)

# --- rows -----------------------------------------------------------------------------------------------------------

_MARKS: Final = {int(mark): mark for mark in Mark}
_ORIGINS: Final = {str(origin): origin for origin in Origin}


class Meta(NamedTuple):
    """The one row about the store itself, and the store's clock when it was read."""

    now: Instant
    schema: int
    epoch: Epoch
    last_write: Instant
    identity: str
    network: bool


def read_meta(row: Row) -> Meta:
    now, schema, birth, tally, base, origin, since, last_write, identity, network = row
    epoch = Epoch(birth, tally, base, _ORIGINS[origin], None if since is None else from_us(since))
    return Meta(from_us(now), schema, epoch, from_us(last_write), identity, bool(network))


def meta_row(epoch: Epoch, last_write: Instant) -> Row:
    """What `UPDATE_META` takes."""
    return (epoch.birth, epoch.tally, epoch.base, epoch.origin, _us(epoch.since), to_us(last_write))


def read_cell(row: Row) -> Cell:
    key, version, mark, at, until, fence_birth, fence_number, value = row
    return Cell(
        key,
        version,
        value,
        None if at is None else from_us(at),
        _MARKS[mark],
        None if fence_number is None else Fence(fence_birth, fence_number),
        None if until is None else from_us(until),
    )


def updated_row(cell: Cell) -> Row:
    """What `UPDATE_CELL` takes."""
    fence_birth, fence_number = cell.fence or (None, None)
    return (cell.version, cell.mark, _us(cell.until), fence_birth, fence_number, cell.value, cell.key)


def inserted_row(cell: Cell) -> Row:
    """What `INSERT_CELL` takes."""
    return (*updated_row(cell), _us(cell.at))


def _us(instant: Instant | None) -> int | None:
    return None if instant is None else to_us(instant)


def beyond(prefix: str) -> str | None:
    """The least text above everything that begins with `prefix`, or None when nothing is: ``run/`` → ``run0``.

    A range of keys finds a prefix by its index, and knows no wildcards.
    """
    head = prefix.rstrip("\U0010ffff")
    if not head:
        return None
    last = ord(head[-1]) + 1
    return head[:-1] + chr(0xE000 if last == 0xD800 else last)  # no text holds a surrogate


# --- statements -----------------------------------------------------------------------------------------------------


class Dialect(NamedTuple):
    """What differs between databases, as pieces of SQL."""

    now: str  # this moment, in whole µs since 1970; never the transaction's start
    wanted: str  # one parameter, unrolled into rows of keys: wanted (value)
    held_to: str  # how a scan is held to an index


FIRST_META: Final = """
    INSERT INTO cronce_meta (only_row, schema, birth, tally, base, origin, since, last_write, identity, network)
    VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (only_row) DO NOTHING
"""

SELECT_NOW: Final = "SELECT {now}"

SELECT_META: Final = """
    SELECT {now}, schema, birth, tally, base, origin, since, last_write, identity, network FROM cronce_meta
"""

UPDATE_META: Final = "UPDATE cronce_meta SET birth = ?, tally = ?, base = ?, origin = ?, since = ?, last_write = ?"

ADOPT_META: Final = "UPDATE cronce_meta SET identity = ?, network = ?"

SELECT_CELLS: Final = """
    SELECT cells.key, version, mark, at, until, fence_birth, fence_number, cells.value
    FROM {wanted} CROSS JOIN cronce_cells AS cells ON cells.key = wanted.value
"""

SELECT_CELL: Final = """
    SELECT key, version, mark, at, until, fence_birth, fence_number, value FROM cronce_cells WHERE key = ?
"""

INSERT_CELL: Final = """
    INSERT INTO cronce_cells (version, mark, until, fence_birth, fence_number, value, key, at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""

# Its `at` is fixed by the first write; to name it here would rewrite its index each time.
UPDATE_CELL: Final = """
    UPDATE cronce_cells SET version = ?, mark = ?, until = ?, fence_birth = ?, fence_number = ?, value = ? WHERE key = ?
"""

PURGE: Final = "DELETE FROM cronce_cells WHERE key = ? AND version = ?"

# A page begins past a position. By until without a mark has no index, and reads what is below its prefix.
SCAN_BY_KEY: Final = """
    SELECT key, version, mark, at, until, fence_birth, fence_number, value
    FROM cronce_cells {held_to} {index}
    WHERE {only} AND key >= ? AND key < ? AND key {past} ?
    ORDER BY key {way} LIMIT ?
"""

SCAN_BY_INSTANT: Final = """
    SELECT key, version, mark, at, until, fence_birth, fence_number, value
    FROM cronce_cells {held_to} {index}
    WHERE {only} AND key >= ? AND key < ? AND ({by}, key) {past} (?, ?) AND {by} <= ?
    ORDER BY {by} {way}, key {way} LIMIT ?
"""


def say(statement: str, dialect: Dialect) -> str:
    return statement.format(now=dialect.now, wanted=dialect.wanted)


@cache
def say_scan(dialect: Dialect, by: By, mark: Mark | None, *, newest_first: bool) -> str:
    return (SCAN_BY_KEY if by == "key" else SCAN_BY_INSTANT).format(
        held_to=dialect.held_to,
        index=_index(by, mark),
        only="TRUE" if mark is None else f"mark = {mark:d}",
        by=by,
        past="<" if newest_first else ">",
        way="DESC" if newest_first else "ASC",
    )


def _index(by: By, mark: Mark | None) -> str:
    """What is open or wants attention is little: its own index is read, and sorted if need be, whatever the order."""
    if mark is Mark.OPEN:
        return "cronce_open"
    if mark is Mark.ATTENTION:
        return "cronce_attention"
    return "cronce_by_at" if by == "at" else "cronce_by_key"
