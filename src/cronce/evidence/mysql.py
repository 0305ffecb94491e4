"""MySQL and MariaDB, read only: one transaction that cannot write, each statement of which the server ends in time."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cronce.errors import BadInput, CronceError, StoreUnavailable
from cronce.evidence.model import SLACK, DatabaseTable, TimeColumn, TimeKind, unit_of
from cronce.evidence.statement import spelled
from cronce.model import Instant
from cronce.stores.mysql.server import MySqlConnection, Problem, code_of, explained, locate, tls

BEGIN: Final = "SET SESSION time_zone = '+00:00', {limit}; START TRANSACTION READ ONLY"
NOW: Final = "SELECT UNIX_TIMESTAMP(NOW(6))"
TABLES: Final = """
    SELECT TABLE_NAME, '', 0 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()
    UNION ALL
    SELECT TABLE_NAME, TABLE_SCHEMA, 1 FROM information_schema.TABLES
    WHERE TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
    ORDER BY 3, 2, 1
"""
COLUMNS: Final = """
    SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS
    WHERE TABLE_SCHEMA = coalesce(nullif(%(schema)s, ''), DATABASE()) AND TABLE_NAME = %(table)s
    ORDER BY ORDINAL_POSITION
"""
NUMBERS: Final = ("int", "bigint", "decimal", "float", "double")
OUT_OF_TIME: Final = (1969, 3024)


class MysqlDialect:
    def quoted(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def slot(self, name: str) -> str:
        return f"%({name})s"

    def moment(self, time: TimeColumn) -> str:
        return time.column

    def edge(self, _time: TimeColumn, name: str) -> str:
        return f"{{{name}}}"

    def seconds(self, time: TimeColumn, before: str, after: str) -> str:
        if time.kind is TimeKind.NUMBER:
            return f"({after} - {before}) * {time.unit.total_seconds():f}"
        return f"TIMESTAMPDIFF(MICROSECOND, {before}, {after}) / 1000000"


class MysqlDatabase:
    dialect: Final = MysqlDialect()

    def __init__(self, line: MySqlConnection, patience: timedelta) -> None:
        self._line, self._place = line, line.place
        seconds = patience.total_seconds()
        mariadb = "mariadb" in line.server.version.lower()
        limit = f"max_statement_time = {seconds:f}" if mariadb else f"max_execution_time = {seconds * 1000:.0f}"
        self._say(BEGIN.format(limit=limit))

    def now(self) -> Instant:
        ((seconds,),) = self._say(NOW)
        return datetime.fromtimestamp(float(seconds), UTC)

    def tables(self) -> Sequence[DatabaseTable]:
        return [DatabaseTable(name, schema) for name, schema, _ in self._say(TABLES)]

    def columns(self, table: DatabaseTable) -> Mapping[str, str]:
        return dict(self._say(COLUMNS, schema=table.schema, table=table.name))  # type: ignore[arg-type]

    def time(self, table: DatabaseTable, column: str, declared: str) -> TimeColumn | None:
        if declared in ("timestamp", "datetime"):
            return TimeColumn(column, TimeKind.INSTANT if declared == "timestamp" else TimeKind.WALL, text=True)
        if declared not in NUMBERS:
            return None
        names = self.dialect.quoted(column), spelled(table, self.dialect)
        ((largest,),) = self._say("SELECT max({}) FROM {}".format(*names).replace("%", "%%"))  # noqa: S608  quoted
        return TimeColumn(column, TimeKind.NUMBER, unit_of(largest))

    def ask(self, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        return self._say(statement, **values)

    def close(self) -> None:
        self._line.close()

    def _say(self, statement: str, **values: Any) -> Sequence[Sequence[Any]]:
        self._line.deadline = self._place.deadline()
        try:
            answers = self._line.ask(statement, **values)
        except Problem as problem:
            raise self._explained(problem) from None
        return answers[-1] if answers else []

    def _explained(self, problem: Exception) -> CronceError:
        code, words = code_of(problem), str(problem.args[-1])
        if code in OUT_OF_TIME:
            return StoreUnavailable(f"{self._place.url}: not done in time ({words}); an index on the time helps")
        if code < 2000 or code >= 3000:
            return BadInput(f"{self._place.url}: MySQL says: {words}")
        return explained(problem, self._place)


def connect(url: str, patience: timedelta) -> MysqlDatabase:
    place = locate(url)
    place = place._replace(timeout=patience.total_seconds() + SLACK)
    try:
        line = MySqlConnection(place, tls(place))
    except Problem as problem:
        raise explained(problem, place) from None
    try:
        return MysqlDatabase(line, patience)
    except BaseException:
        line.close()
        raise
