"""The SQL of the SQLite store: the tables, and whole statements with names."""

from functools import cache
from typing import Final

from cronce.model import Cell, Mark
from cronce.stores.base import BOARD, By, us
from cronce.stores.sql import Row, beyond, scan_words

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

RUNS: Final = """
    CREATE VIEW IF NOT EXISTS cronce_runs AS
    WITH runs AS (
        SELECT *, substr(key, 5) AS path, instr(substr(key, 5), '/') AS slash
        FROM cronce_cells WHERE key >= 'run/' AND key < 'run0'
    )
    SELECT
        substr(path, 1, slash - 1) AS job,
        substr(path, slash + 1, 20) AS slot,
        substr(path, slash + 22) AS request,
        json_extract(value, '$.state') AS state,
        json_extract(value, '$.outcome') AS outcome,
        json_extract(value, '$.reason') AS reason,
        json_extract(value, '$.holder') AS holder,
        CASE WHEN fence_number IS NOT NULL THEN printf('%014x-%012x', fence_birth, fence_number) END AS fence,
        coalesce(json_extract(value, '$.grant'), 0) AS "grant",
        {started} AS started,
        {finished} AS finished,
        {due} AS due,
        {until} AS until
    FROM runs
"""
"""For people and their own queries; cronce does not read it."""

_SPELLED: Final = "strftime('%Y-%m-%dT%H:%M:%fZ', {0} / 1000000.0, 'unixepoch')"
DDL: Final = (
    *TABLES,
    RUNS.format(
        started=_SPELLED.format("json_extract(value, '$.started')"),
        finished=_SPELLED.format("json_extract(value, '$.finished')"),
        due=_SPELLED.format("at"),
        until=_SPELLED.format("until"),
    ),
)

# --- the row about the store ----------------------------------------------------------------------------------------

NOW: Final = "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000"
"""In whole µs since 1970. A Julian day is a float exact to 40 µs and the clock behind it has whole milliseconds, so
rounding restores them."""

SELECT_NOW: Final = f"SELECT {NOW}"

FIRST_META: Final = """
    INSERT INTO cronce_meta (only_row, schema, birth, tally, base, origin, since, last_write, identity, network)
    VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (only_row) DO NOTHING
"""

_META: Final = f"SELECT {NOW}, schema, birth, tally, base, origin, since, last_write"
SELECT_META: Final = f"{_META}, identity, network FROM cronce_meta"

UPDATE_META: Final = "UPDATE cronce_meta SET birth = ?, tally = ?, base = ?, origin = ?, since = ?, last_write = ?"

ADOPT_META: Final = "UPDATE cronce_meta SET identity = ?, network = ?"

# --- cells ----------------------------------------------------------------------------------------------------------

META_AND: Final = f"{_META} FROM cronce_meta UNION ALL "
"""Before a statement that reads cells: its first row is the one about the store, of the same moment, and has as many
columns as a cell."""

SELECT_CELLS: Final = f"""{META_AND}
    SELECT cells.key, version, mark, at, until, fence_birth, fence_number, cells.value
    FROM json_each(?) AS wanted CROSS JOIN cronce_cells AS cells ON cells.key = wanted.value
"""  # noqa: S608  only words of our own

SELECT_CELL: Final = f"""{META_AND}
    SELECT key, version, mark, at, until, fence_birth, fence_number, value FROM cronce_cells WHERE key = ?
"""  # noqa: S608

# `at` is fixed by the first write; naming it in the update would rewrite its index each time.
PUT_CELL: Final = """
    INSERT INTO cronce_cells (key, version, mark, at, until, fence_birth, fence_number, value)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET version = excluded.version, mark = excluded.mark, until = excluded.until,
        fence_birth = excluded.fence_birth, fence_number = excluded.fence_number, value = excluded.value
"""

SELECT_BOARD: Final = f"SELECT key, version FROM cronce_cells WHERE key >= '{BOARD}' AND key < '{beyond(BOARD)}'"  # noqa: S608

SIZE: Final = "SELECT count(*) FROM cronce_cells"
"""SQLite counts by the leaves of an index, some hundred cells at a step."""

PURGE: Final = "DELETE FROM cronce_cells WHERE key = ? AND version = ?"


def cell_row(cell: Cell) -> Row:
    """What `PUT_CELL` takes; of an enum its number, since SQLite's driver first looks for how to adapt its type."""
    key, version, value, at, mark, fence, until = cell
    return (key, version, int(mark), us(at), us(until), *(fence or _NO_FENCE), value)


_NO_FENCE: Final = (None, None)


# --- scans ----------------------------------------------------------------------------------------------------------

# A page begins past a position. By until without a mark has no index, and reads what is below its prefix.
SCAN: Final = """
    SELECT * FROM (
        SELECT key, version, mark, at, until, fence_birth, fence_number, value
        FROM cronce_cells INDEXED BY {index}
        WHERE {only} AND key >= :low AND key < :high AND {past}
        ORDER BY {order} LIMIT :limit
    )
"""
PAST_KEY: Final = "key {past} :after"
PAST_INSTANT: Final = "({by}, key) {past} (:us, :after) AND {by} <= :upto"


@cache
def scan_statement(by: By, mark: Mark | None, *, newest_first: bool) -> str:
    words = scan_words(by, mark, newest_first=newest_first, key="key", past_key=PAST_KEY, past_instant=PAST_INSTANT)
    return META_AND + SCAN.format(index=_index(by, mark), **words)


def _index(by: By, mark: Mark | None) -> str:
    """Few cells are open or need attention: their own index is read, and sorted where the order is another."""
    if mark is Mark.OPEN:
        return "cronce_open"
    if mark is Mark.ATTENTION:
        return "cronce_attention"
    return "cronce_by_at" if by == "at" else "cronce_by_key"
