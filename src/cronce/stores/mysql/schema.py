"""The tables of a MySQL store: making them, and the row about the store itself.

Only what MySQL 8 and MariaDB 10.6 have in common is used. Keys are VARBINARY: no text collation that both know
distinguishes "a" from "a ".
"""

from collections.abc import Sequence
from typing import Any, Final

from cronce.errors import StoreCopied, StoreCorrupt, StoreNewer, StoreUnavailable, StoreUnusable
from cronce.model import Epoch, Instant, Traits, to_us
from cronce.stores import sql
from cronce.stores.base import first_life, next_life
from cronce.stores.mysql.server import NO_SUCH_TABLE, MySqlAddress, MySqlConnection, Problem, code_of, is_on
from cronce.value import NamedTuple

MAX_KEY_BYTES: Final = 1000
"""Bytes of a key. InnoDB has room for 3,072 in an index entry, which also holds a mark and an instant."""

# --- the tables -----------------------------------------------------------------------------------------------------

CELLS: Final = """
    CREATE TABLE IF NOT EXISTS cronce_cells (
        `key`         VARBINARY(1000) NOT NULL PRIMARY KEY,
        version       BIGINT NOT NULL,
        mark          TINYINT NOT NULL,
        at            BIGINT,
        until         BIGINT,
        fence_birth   BIGINT,
        fence_number  BIGINT,
        value         LONGTEXT NOT NULL,
        INDEX cronce_by_at (at, `key`),
        INDEX cronce_by_mark_at (mark, at, `key`),
        INDEX cronce_by_mark_until (mark, until, `key`)
    ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
"""

RUNS: Final = """
    CREATE OR REPLACE SQL SECURITY INVOKER VIEW cronce_runs AS
    SELECT
        SUBSTRING_INDEX(SUBSTRING_INDEX(CONVERT(`key` USING utf8mb4), '/', 2), '/', -1) AS job,
        SUBSTRING(SUBSTRING_INDEX(CONVERT(`key` USING utf8mb4), '/', -1), 1, 20) AS slot,
        SUBSTRING(SUBSTRING_INDEX(CONVERT(`key` USING utf8mb4), '/', -1), 22) AS request,
        JSON_UNQUOTE(JSON_EXTRACT(value, '$.state')) AS state,
        JSON_UNQUOTE(JSON_EXTRACT(value, '$.outcome')) AS outcome,
        JSON_UNQUOTE(JSON_EXTRACT(value, '$.reason')) AS reason,
        JSON_UNQUOTE(JSON_EXTRACT(value, '$.holder')) AS holder,
        LOWER(CONCAT(LPAD(HEX(fence_birth), 14, '0'), '-', LPAD(HEX(fence_number), 12, '0'))) AS fence,
        COALESCE(JSON_EXTRACT(value, '$.grant'), 0) + 0 AS `grant`,
        DATE_ADD({epoch}, INTERVAL JSON_EXTRACT(value, '$.started') MICROSECOND) AS started,
        DATE_ADD({epoch}, INTERVAL JSON_EXTRACT(value, '$.finished') MICROSECOND) AS finished,
        DATE_ADD({epoch}, INTERVAL at MICROSECOND) AS due,
        DATE_ADD({epoch}, INTERVAL until MICROSECOND) AS until
    FROM cronce_cells WHERE `key` >= 'run/' AND `key` < 'run0'
"""
"""For people and their own queries; cronce does not read it. Its instants are UTC."""

CREATE_META: Final = """
    CREATE TABLE IF NOT EXISTS cronce_meta (
        only_row    TINYINT NOT NULL PRIMARY KEY CHECK (only_row = 1),
        `schema`    INT NOT NULL,
        birth       BIGINT NOT NULL,
        tally       BIGINT NOT NULL,
        base        BIGINT NOT NULL,
        origin      VARCHAR(16) NOT NULL,
        since       BIGINT,
        last_write  BIGINT NOT NULL,
        identity    VARCHAR(255) NOT NULL
    ) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
"""

TABLES: Final = (CELLS, RUNS.format(epoch="CAST('1970-01-01' AS DATETIME(6))"), CREATE_META)
"""Each is a transaction of its own: if the last one exists, all do."""


# --- the row about the store itself -----------------------------------------------------------------------------------

NOW: Final = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
"""When this statement began, in µs since 1970; it does not depend on a time zone."""

SELECT_META: Final = """
    SELECT {now}, `schema`, birth, tally, base, origin, since, last_write, identity,
        IS_FREE_LOCK(CONCAT('cronce:', birth, ':', tally)), @@read_only, {went}
    FROM cronce_meta
"""

SELECT_ENGINES: Final = """
    SELECT table_name, engine FROM information_schema.tables
    WHERE table_schema = DATABASE() AND table_name IN ('cronce_cells', 'cronce_meta') ORDER BY table_name
"""

FIRST_META: Final = """
    INSERT INTO cronce_meta (only_row, `schema`, birth, tally, base, origin, since, last_write, identity)
    VALUES (1, %(schema)s, %(birth)s, %(tally)s, %(base)s, %(origin)s, %(since)s, %(last_write)s, %(identity)s)
    ON DUPLICATE KEY UPDATE only_row = only_row
"""

NEXT_META: Final = """
    UPDATE cronce_meta SET birth = %(birth)s, tally = %(tally)s, base = %(base)s, origin = %(origin)s,
        since = %(since)s, last_write = %(last_write)s, identity = %(identity)s
    WHERE birth = %(old_birth)s AND tally = %(old_tally)s
"""


class MySqlState(NamedTuple):
    """The row about the store, whether all that it counts is on disk, and whether a swap went through."""

    meta: sql.Meta
    flushed: bool
    read_only: bool
    went: bool


def read_state(rows: Sequence[sql.Row], place: MySqlAddress) -> MySqlState:
    if not rows:
        raise StoreCorrupt(f"{place.url} has lost the row that says what it is (cronce_meta); restore a backup")
    *row, flushed, read_only, went = rows[0]
    meta = sql.read_meta(row)
    if meta.schema != sql.SQL_SCHEMA:
        raise StoreNewer(
            f"{place.url} was written by a newer cronce: its tables are version {meta.schema}, this one knows"
            f" {sql.SQL_SCHEMA}; upgrade this one"
        )
    return MySqlState(meta, bool(flushed), is_on(read_only), bool(went))


def check_engines(rows: Sequence[sql.Row], place: MySqlAddress) -> None:
    """Without transactions two processes win the same slot."""
    for table, engine in rows:
        if engine != "InnoDB":
            raise StoreUnusable(
                f"{place.url}: the table {table} uses the engine {engine}, which has no transactions; run ALTER"
                f" TABLE `{place.database}`.{table} ENGINE = InnoDB"
            )


def replace_life(connection: MySqlConnection, meta: sql.Meta, life: Epoch, identity: str) -> bool:
    """False if another process was faster."""
    new = _row(life, meta.last_write, identity)
    return connection.tell(NEXT_META, old_birth=meta.epoch.birth, old_tally=meta.epoch.tally, **new) == 1


def _row(epoch: Epoch, last_write: Instant, identity: str) -> dict[str, Any]:
    names = ("birth", "tally", "base", "origin", "since", "last_write")
    return {**dict(zip(names, sql.meta_row(epoch, last_write), strict=True)), "identity": identity}


# --- opening --------------------------------------------------------------------------------------------------------


def prepare(connection: MySqlConnection, traits: Traits, *, on_purpose: bool, adopt: bool) -> None:
    """Create the tables if they are missing, adopt a copy if asked to, and else refuse it.

    A database under another name is certainly a copy. One of the same name elsewhere may as well be a failover.
    """
    identity = connection.place.database.casefold()
    if not _is_begun(connection):
        (((now,),),) = connection.ask(f"SELECT {NOW}")
        epoch = first_life(now, traits, on_purpose=on_purpose)
        connection.tell(FIRST_META, schema=sql.SQL_SCHEMA, **_row(epoch, epoch.born, identity))
    engines, rows = connection.ask(f"{SELECT_ENGINES}; {SELECT_META.format(now=NOW, went=0)}")
    check_engines(engines, connection.place)
    meta = read_state(rows, connection.place).meta
    if adopt:
        life = next_life(to_us(meta.now), meta.epoch.seen, meta.epoch, meta.last_write)
        if not replace_life(connection, meta, life, identity):
            raise StoreUnavailable(f"{connection.place.url} was written to meanwhile, and is not adopted; try again")
    elif meta.identity != identity:
        raise StoreCopied(
            f"{connection.place.url} is a copy of the database {meta.identity!r}: with the original in use, both would"
            " run everything. To use this one as the store from now on, make sure that the other is no longer"
            f" used, then run `cronce store adopt {connection.place.url}`"
        )


def _is_begun(connection: MySqlConnection) -> bool:
    try:
        (rows,) = connection.ask("SELECT only_row FROM cronce_meta")
        return bool(rows)
    except Problem as problem:
        if code_of(problem) != NO_SUCH_TABLE:
            raise
    for table in TABLES:
        connection.tell(table)
    return False
