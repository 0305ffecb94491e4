"""SQLite, read only: the file is opened so that nothing can write to it. It keeps times as text or as numbers, whatever
the column is declared as, so the newest one tells how to read them all."""

import re
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cronce.clock import SystemClock
from cronce.errors import BadInput, CronceError, StoreUnavailable
from cronce.evidence.model import NO_TIME, DatabaseTable, TimeColumn, TimeKind, unit_of
from cronce.evidence.statement import UNTIL, spelled
from cronce.model import Instant
from cronce.stores import mask
from cronce.stores.sqlite import locate

NOW: Final = "SELECT (julianday('now') - 2440587.5) * 86400"
TABLES: Final = (
    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
)
COLUMNS: Final = "SELECT name, lower(type) FROM pragma_table_xinfo(:table) WHERE hidden <> 1"
NEWEST_ROW: Final = """
    SELECT typeof(at), at, julianday(at) IS NOT NULL FROM (
        SELECT coalesce(max(CASE WHEN is_time THEN at END), max(at)) AS at
        FROM (
            SELECT {column} AS at, typeof({column}) <> 'text' AND {column} < {no_time:f}
                   OR julianday({column}) < julianday('{until}') AS is_time
            FROM {table}
        )
    )
"""
OFFSET: Final = re.compile(r"(?:Z|[+-]\d\d:\d\d)\s*$")
INSTRUCTIONS_PER_LOOK: Final = 10_000
"""Instructions of SQLite between two looks at the clock."""


class SqliteDialect:
    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def slot(self, name: str) -> str:
        return f":{name}"

    def moment(self, time: TimeColumn) -> str:
        return time.column if time.kind is TimeKind.NUMBER else f"julianday({time.column})"

    def edge(self, time: TimeColumn, name: str) -> str:
        return f"{{{name}}}" if time.kind is TimeKind.NUMBER else f"julianday({{{name}}})"

    def seconds(self, time: TimeColumn, before: str, after: str) -> str:
        unit = time.unit.total_seconds() if time.kind is TimeKind.NUMBER else 86_400
        return f"round(({after} - {before}) * {unit:g}, 3)"


class SqliteDatabase:
    dialect: Final = SqliteDialect()

    def __init__(self, file: sqlite3.Connection, name: str, patience: timedelta) -> None:
        self._file, self._name = file, name
        self._boot, self._patience = SystemClock().boot, patience.total_seconds()
        self._deadline = self._boot() + self._patience
        file.set_progress_handler(lambda: self._boot() > self._deadline, INSTRUCTIONS_PER_LOOK)
        self._say("PRAGMA query_only = ON")
        self._say("BEGIN")

    def now(self) -> Instant:
        ((seconds,),) = self._say(NOW)
        return datetime.fromtimestamp(seconds, UTC)

    def tables(self) -> Sequence[DatabaseTable]:
        rows = self._say(TABLES)
        return [*(DatabaseTable(name) for (name,) in rows), *(DatabaseTable(name, "main") for (name,) in rows)]

    def columns(self, table: DatabaseTable) -> Mapping[str, str]:
        return dict(self._say(COLUMNS, {"table": table.name}))

    def time(self, table: DatabaseTable, column: str, _declared: str) -> TimeColumn | None:
        names = {"column": self.dialect.quoted(column), "table": spelled(table, self.dialect)}
        ((kind, newest, is_date),) = self._say(NEWEST_ROW.format(**names, no_time=NO_TIME, until=f"{UNTIL:%Y-%m-%d}"))
        match kind:
            case "integer" | "real" if newest > 1e8:
                return TimeColumn(column, TimeKind.NUMBER, unit_of(newest))
            case "text" if is_date and len(newest) > len("2026-11-01"):
                return TimeColumn(column, TimeKind.INSTANT if OFFSET.search(newest) else TimeKind.WALL, text=True)
            case "null":  # no row has one, and there is nothing to find among them
                return TimeColumn(column, TimeKind.WALL, text=True)
            case _:
                return None

    def ask(self, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        return self._say(statement, values)

    def close(self) -> None:
        self._file.close()

    def _say(self, statement: str, values: Mapping[str, Any] | None = None) -> list[Any]:
        self._deadline = self._boot() + self._patience
        try:
            return self._file.execute(statement, values or {}).fetchall()
        except sqlite3.Error as error:
            raise _explained(error, self._name) from None


def connect(url: str, patience: timedelta) -> SqliteDatabase:
    path, _timeout = locate(url)
    if not path.is_file():
        raise BadInput(f"{mask(url)!r}: there is no file {path}")
    try:
        file = sqlite3.connect(
            f"{path.as_uri()}?mode=ro", uri=True, timeout=patience.total_seconds(), isolation_level=None
        )
    except sqlite3.Error as error:
        raise _explained(error, mask(url)) from None
    try:
        return SqliteDatabase(file, mask(url), patience)
    except BaseException:
        file.close()
        raise


def _explained(error: sqlite3.Error, name: str) -> CronceError:
    words = str(error)
    if "interrupted" in words:
        return StoreUnavailable(f"{name}: not done in time; an index on the time helps")
    if "locked" in words or "unable to open" in words:
        return StoreUnavailable(f"{name}: {words}")
    return BadInput(f"{name}: SQLite says: {words}")
