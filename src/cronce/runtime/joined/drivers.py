"""Connections of the drivers themselves. None of them is imported before its user has."""

from contextlib import closing
from typing import Any, Final

from cronce.runtime.joined.dialects import MYSQL, POSTGRESQL, SQLITE
from cronce.runtime.joined.talk import Driver, Row, Talk, percent

# --- PostgreSQL -----------------------------------------------------------------------------------------------------

_IDLE: Final = 0
_IN_ERROR: Final = 3
"""As libpq numbers the states of a transaction."""


class Psycopg(Driver):
    """psycopg 3. A connection in autocommit is out of it for the transaction, which so gets the isolation level that
    the connection was told."""

    def __init__(self, conn: Any) -> None:
        super().__init__(conn, POSTGRESQL)
        self.autocommit = conn.autocommit

    @property
    def idle(self) -> bool:
        return bool(self.conn.info.transaction_status == _IDLE)

    def obstacle(self) -> str:
        if getattr(self.conn, "_num_transactions", 0) or (self.autocommit and not self.idle):
            return "is inside a transaction block (conn.transaction(), or BEGIN by hand)"
        if self.conn.info.transaction_status == _IN_ERROR:
            return "is in a transaction that failed"
        return "is in pipeline mode" if self.conn.pgconn.pipeline_status else ""

    def begin(self) -> Talk[None]:
        if self.autocommit:
            yield self.conn.set_autocommit(False)

    def ask(self, statement: str, **values: str) -> Talk[list[Row]]:
        import psycopg  # noqa: PLC0415  not without its user

        kind: Any = psycopg.AsyncCursor if self.asynchronous else psycopg.Cursor
        cursor = kind(self.conn, row_factory=psycopg.rows.tuple_row)  # not as the user likes them
        yield cursor.execute(percent(statement), self._bound(values) or None)
        rows: list[Row] = (yield cursor.fetchall()) if cursor.description else []
        return rows

    def restore(self) -> Talk[None]:
        if self.autocommit and not self.conn.closed:
            yield self.conn.set_autocommit(True)


class AsyncPsycopg(Psycopg):
    asynchronous = True


class Psycopg2(Driver):
    def __init__(self, conn: Any) -> None:
        super().__init__(conn, POSTGRESQL)
        self.autocommit = conn.autocommit

    @property
    def idle(self) -> bool:
        return bool(self.conn.get_transaction_status() == _IDLE)

    def obstacle(self) -> str:
        if self.autocommit and not self.idle:
            return "is inside a transaction block (BEGIN by hand)"
        return "is in a transaction that failed" if self.conn.get_transaction_status() == _IN_ERROR else ""

    def begin(self) -> Talk[None]:
        yield from ()
        if self.autocommit:
            self.conn.autocommit = False

    def restore(self) -> Talk[None]:
        yield from ()
        if self.autocommit and not self.conn.closed:
            self.conn.autocommit = True

    def _cursor(self) -> Any:
        from psycopg2.extensions import cursor  # noqa: PLC0415

        return self.conn.cursor(cursor_factory=cursor)


# --- MySQL and MariaDB ----------------------------------------------------------------------------------------------


class PyMysql(Driver):
    def __init__(self, conn: Any) -> None:
        super().__init__(conn, MYSQL)

    def obstacle(self) -> str:
        begun = self.conn.server_status & 1  # SERVER_STATUS_IN_TRANS
        return "is inside a transaction (begin() by hand)" if self.conn.get_autocommit() and begun else ""

    def begin(self) -> Talk[None]:
        if self.conn.get_autocommit():
            yield self.conn.begin()

    def _cursor(self) -> Any:
        from pymysql.cursors import Cursor  # noqa: PLC0415

        return self.conn.cursor(Cursor)


# --- SQLite ---------------------------------------------------------------------------------------------------------


class Sqlite(Driver):
    """Its transaction is deferred: it locks nothing before it writes. From Python 3.12 on a connection may have an
    attribute `autocommit`: True leaves BEGIN and COMMIT to statements, False keeps a transaction open at all times."""

    def __init__(self, conn: Any) -> None:
        super().__init__(conn, SQLITE)
        self.autocommit = getattr(conn, "autocommit", -1)

    @property
    def idle(self) -> bool:
        return not self.conn.in_transaction

    def obstacle(self) -> str:
        by_hand = self.autocommit == 1 or (self.autocommit == -1 and self.conn.isolation_level is None)
        return "is inside a transaction (BEGIN by hand)" if by_hand and not self.idle else ""

    def begin(self) -> Talk[None]:
        # without it the savepoint would be the transaction, and its release the commit
        if self.idle:
            yield from self.ask("BEGIN")

    def ask(self, statement: str, **values: str) -> Talk[list[Row]]:
        yield from ()
        with closing(self._cursor()) as cursor:
            return list(cursor.execute(statement, values).fetchall())

    def commit(self) -> Talk[None]:
        yield from self._end("COMMIT", self.conn.commit)

    def rollback(self) -> Talk[None]:
        yield from self._end("ROLLBACK", self.conn.rollback)

    def _end(self, word: str, method: Any) -> Talk[None]:
        if self.autocommit != 1:
            method()
        elif not self.idle:
            yield from self.ask(word)

    def _cursor(self) -> Any:
        cursor = self.conn.cursor()
        cursor.row_factory = None
        return cursor
