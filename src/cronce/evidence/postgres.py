"""PostgreSQL, read only: one transaction that cannot write, each statement of which the server ends in time. Nothing
outlives that transaction, so a pooler such as PgBouncer may stand before it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cronce.errors import BadInput, CronceError, StoreUnavailable
from cronce.evidence.model import NO_TIME, SLACK, DatabaseTable, TimeColumn, TimeKind, unit_of
from cronce.evidence.statement import spelled
from cronce.model import Instant
from cronce.stores.postgres.server import PostgresAddress, PostgresConnection, dial, locate, psycopg

NOW: Final = "SELECT extract(epoch FROM clock_timestamp())::float8"
TABLES: Final = """
    SELECT c.relname, n.nspname, pg_table_is_visible(c.oid)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
    ORDER BY pg_table_is_visible(c.oid) DESC, n.nspname, c.relname
"""
COLUMNS: Final = """
    SELECT a.attname, format_type(coalesce(nullif(t.typbasetype, 0), t.oid), NULL)
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = %(table)s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
NUMBERS: Final = ("integer", "bigint", "numeric", "real", "double precision")


class PostgresDialect:
    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def slot(self, name: str) -> str:
        return f"%({name})s"

    def moment(self, time: TimeColumn) -> str:
        return time.column

    def edge(self, time: TimeColumn, name: str) -> str:
        kinds = {TimeKind.INSTANT: "timestamptz", TimeKind.WALL: "timestamp", TimeKind.NUMBER: "bigint"}
        return f"CAST({{{name}}} AS {kinds[time.kind]})"

    def seconds(self, time: TimeColumn, before: str, after: str) -> str:
        if time.kind is TimeKind.NUMBER:
            return f"({after} - {before}) * {time.unit.total_seconds():f}"
        return f"extract(epoch FROM {after} - {before})"


class PostgresDatabase:
    dialect: Final = PostgresDialect()

    def __init__(self, line: PostgresConnection, place: PostgresAddress, patience: timedelta) -> None:
        self._line, self._place = line, place
        line.patience = patience.total_seconds() + SLACK
        self._say("BEGIN READ ONLY")
        self._say(f"SET LOCAL statement_timeout = {patience // timedelta(milliseconds=1)}")
        self._say("SET LOCAL timezone = 'UTC'")

    def now(self) -> Instant:
        ((seconds,),) = self._say(NOW)
        return datetime.fromtimestamp(seconds, UTC)

    def tables(self) -> Sequence[DatabaseTable]:
        rows = self._say(TABLES)
        plain = [DatabaseTable(name) for name, _, is_visible in rows if is_visible]
        return [*plain, *(DatabaseTable(name, schema) for name, schema, _ in rows)]

    def columns(self, table: DatabaseTable) -> Mapping[str, str]:
        return dict(self._say(COLUMNS, {"table": spelled(table, self.dialect)}))

    def time(self, table: DatabaseTable, column: str, declared: str) -> TimeColumn | None:
        if declared.startswith("timestamp"):
            return TimeColumn(column, TimeKind.INSTANT if declared == "timestamp with time zone" else TimeKind.WALL)
        if declared not in NUMBERS:
            return None
        name = self.dialect.quoted(column)
        statement = f"SELECT max({name}) FROM {spelled(table, self.dialect)} WHERE {name} < {NO_TIME:f}"  # noqa: S608  quoted
        ((largest,),) = self._say(statement)
        return TimeColumn(column, TimeKind.NUMBER, unit_of(largest))

    def ask(self, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        return self._say(statement, values)

    def close(self) -> None:
        self._line.close()

    def _say(self, statement: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        try:
            cursor = self._line.execute(statement, values)
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise self._explained(error) from None

    def _explained(self, error: psycopg.Error) -> CronceError:
        words = (error.diag.message_primary or str(error) or type(error).__name__).strip().partition("\n")[0]
        if isinstance(error, psycopg.errors.QueryCanceled):
            return StoreUnavailable(f"{self._place.named}: not done in time ({words}); an index on the time helps")
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return StoreUnavailable(f"{self._place.named}: {words}")
        return BadInput(f"{self._place.named}: PostgreSQL says: {words}")


def connect(url: str, patience: timedelta) -> PostgresDatabase:
    place = locate(url)
    line = dial(place)
    try:
        return PostgresDatabase(line, place, patience)
    except BaseException:
        line.close()
        raise
