"""The connections that can be joined: of database drivers, of SQLAlchemy and of Django, and which of them one is.

None of these packages is imported before its user has. A connection is recognised by the names of its class and of
those that it inherits from.
"""

from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

from cronce.errors import BadInput
from cronce.runtime.transactions.connection import (
    DIALECTS,
    HAS_WRITTEN,
    MYSQL,
    POSTGRESQL,
    SQLITE,
    Dialect,
    Driver,
    Row,
    Talk,
)

# --- PostgreSQL -----------------------------------------------------------------------------------------------------

_IDLE: Final = 0
_IN_ERROR: Final = 3
"""As libpq numbers the states of a transaction."""


class Psycopg2(Driver):
    """A connection in autocommit leaves it for the transaction, which so has the isolation level that was set."""

    def __init__(self, conn: Any) -> None:
        super().__init__(conn, POSTGRESQL)
        self.autocommit = conn.autocommit

    def obstacle(self) -> str:
        status = self.conn.get_transaction_status()
        if self.autocommit and status != _IDLE:
            return "is inside a transaction block (BEGIN by hand)"
        return "is in a transaction that failed" if status == _IN_ERROR else ""

    def is_open(self) -> bool:
        return bool(self.conn.get_transaction_status() != _IDLE)

    def has_written(self) -> Talk[bool | None]:
        ((written,),) = yield from self.ask(HAS_WRITTEN)
        return bool(written)

    def begin(self) -> Talk[None]:
        if self.autocommit:
            yield self._set_autocommit(on=False)

    def restore(self) -> Talk[None]:
        if self.autocommit and not self.conn.closed:
            yield self._set_autocommit(on=True)

    def _set_autocommit(self, *, on: bool) -> Any:
        self.conn.autocommit = on

    def _cursor(self) -> Any:
        from psycopg2.extensions import cursor  # noqa: PLC0415

        return self.conn.cursor(cursor_factory=cursor)


class Psycopg(Psycopg2):
    """psycopg 3."""

    def obstacle(self) -> str:
        status = self.conn.info.transaction_status
        if getattr(self.conn, "_num_transactions", 0) or (self.autocommit and status != _IDLE):
            return "is inside a transaction block (conn.transaction(), or BEGIN by hand)"
        if status == _IN_ERROR:
            return "is in a transaction that failed"
        return "is in pipeline mode" if self.conn.pgconn.pipeline_status else ""

    def is_open(self) -> bool:
        return bool(self.conn.info.transaction_status != _IDLE)

    def ask(self, statement: str, **values: str) -> Talk[list[Row]]:
        import psycopg  # noqa: PLC0415  not without its user

        kind: Any = psycopg.AsyncCursor if self.asynchronous else psycopg.Cursor
        cursor = kind(self.conn, row_factory=psycopg.rows.tuple_row)  # not as the user likes them
        yield cursor.execute(self._respelled(statement), self._bound(values) or None)
        rows: list[Row] = (yield cursor.fetchall()) if cursor.description else []
        return rows

    def _set_autocommit(self, *, on: bool) -> Any:
        return self.conn.set_autocommit(on)


class AsyncPsycopg(Psycopg):
    asynchronous = True


# --- MySQL and MariaDB ----------------------------------------------------------------------------------------------

_ECHO: Final = 274177
"""A number that no statement of the user's returns by chance."""


def wrote_mysql(conn: Any) -> bool:
    """Whether the server reported, after a statement that is no SELECT, that a transaction is open (its IN_TRANS flag).
    Other drivers get it after a SELECT, too."""
    return bool(conn.server_status & 1)


class PyMysql(Driver):
    def __init__(self, conn: Any) -> None:
        super().__init__(conn, MYSQL)

    def obstacle(self) -> str:
        begun = wrote_mysql(self.conn)
        return "is inside a transaction (begin() by hand)" if self.conn.get_autocommit() and begun else ""

    def is_open(self) -> bool:
        return wrote_mysql(self.conn)

    def has_written(self) -> Talk[bool | None]:
        yield from ()
        return True

    def begin(self) -> Talk[None]:
        if self.conn.get_autocommit():
            yield self.conn.begin()

    def in_step(self) -> Talk[bool]:
        """If it was stopped before it had read an answer, it takes that for the answer to what it asks next."""
        ((number,),) = yield from self.ask(f"SELECT {_ECHO}")
        return int(number) == _ECHO

    def hang_up(self) -> Talk[None]:
        """As it does itself when a connection breaks: its user will close it once more, which close() does not bear."""
        yield self.conn._force_close()

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

    def obstacle(self) -> str:
        if self.autocommit == 0:
            return "is always in a transaction (autocommit=False; open it without that)"
        by_hand = self.autocommit == 1 or (self.autocommit == -1 and self.conn.isolation_level is None)
        return "is inside a transaction (BEGIN by hand)" if by_hand and self.conn.in_transaction else ""

    def is_open(self) -> bool:
        return bool(self.conn.in_transaction)

    def has_written(self) -> Talk[bool | None]:
        """It begins with the first write."""
        yield from ()
        return True

    def begin(self) -> Talk[None]:
        # without it the savepoint would be the transaction, and its release the commit
        if not self.conn.in_transaction:
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
        elif self.conn.in_transaction:
            yield from self.ask(word)

    def _cursor(self) -> Any:
        cursor = self.conn.cursor()
        cursor.row_factory = None
        return cursor


def _dialect(name: str) -> Dialect:
    if name not in DIALECTS:
        raise BadInput(f"a transaction in {name} cannot be joined; cronce knows {', '.join(sorted(DIALECTS))}")
    return DIALECTS[name]


# --- SQLAlchemy -----------------------------------------------------------------------------------------------------


class Alchemy(Driver):
    """A connection. Every statement begins a transaction, so no statement may be sent after its commit."""

    speaks_after = False

    def __init__(self, conn: Any) -> None:
        self.sync = self._sync(conn)
        super().__init__(conn, _dialect(self._bind().dialect.name))

    def obstacle(self) -> str:
        if self.sync.in_nested_transaction() or getattr(self.sync, "_trans_context_manager", None):
            return "is inside a transaction block (begin() or begin_nested())"
        return ""

    def pending(self) -> Talk[str]:
        pending = yield from super().pending()
        connection = yield from self._connection()
        return "is in AUTOCOMMIT" if not pending and connection._is_autocommit_isolation() else pending

    def is_open(self) -> bool:
        return bool(self.sync.in_transaction())

    def has_written(self) -> Talk[bool | None]:
        if self.dialect is POSTGRESQL:
            ((written,),) = yield from self.ask(HAS_WRITTEN)
            return bool(written)
        plain = yield from self._plain()
        if self.dialect is SQLITE:
            return bool(plain.in_transaction)
        return wrote_mysql(plain) if "pymysql.connections.Connection" in names_of(plain) else None

    def _plain(self) -> Talk[Any]:
        """The driver's own connection."""
        connection = yield from self._connection()
        return connection.dialect.get_driver_connection(connection.connection.dbapi_connection)

    def begin(self) -> Talk[None]:
        """A transaction begins by itself; but on SQLite the driver sends no BEGIN before the first write."""
        if self.dialect is SQLITE and not (yield from self._plain()).in_transaction:
            yield from self.ask("BEGIN")

    def ask(self, statement: str, **values: str) -> Talk[list[Row]]:
        from sqlalchemy import text  # noqa: PLC0415

        result = yield self.conn.execute(text(statement), self._bound(values))
        return [tuple(row) for row in result.fetchall()] if result.returns_rows else []

    def hang_up(self) -> Talk[None]:
        """It gets another from its pool when it is used again."""
        yield self.conn.invalidate()

    @staticmethod
    def _sync(conn: Any) -> Any:
        """The synchronous connection that an asynchronous one wraps."""
        return getattr(conn, "sync_connection", conn)

    def _bind(self) -> Any:
        return self.sync

    def _connection(self) -> Talk[Any]:
        yield from ()
        return self.sync


class AlchemySession(Alchemy):
    def obstacle(self) -> str:
        bind = self._bind()
        if hasattr(bind, "in_transaction") and bind.in_transaction():
            return "is bound to a connection that is in a transaction already"
        return super().obstacle()

    def has_written(self) -> Talk[bool | None]:
        if self.sync.new or self.sync.dirty or self.sync.deleted:
            return True
        return (yield from super().has_written())

    def end_reading(self) -> Talk[None]:
        """Not by a rollback: that would let it forget what it has read."""
        yield self.conn.commit()

    def flush(self) -> Talk[None]:
        yield self.conn.flush()

    @staticmethod
    def _sync(conn: Any) -> Any:
        return getattr(conn, "sync_session", conn)

    def _bind(self) -> Any:
        return self.sync.get_bind()

    def _connection(self) -> Talk[Any]:
        return Alchemy._sync((yield self.conn.connection()))


class AsyncAlchemy(Alchemy):
    asynchronous = True


class AsyncAlchemySession(AlchemySession):
    asynchronous = True


# --- Django ---------------------------------------------------------------------------------------------------------


class Django(Driver):
    """This thread's connection of an alias. Its transaction is an atomic block, so that `on_commit` works in it."""

    def __init__(self, conn: Any) -> None:
        from django.db import connections, transaction  # noqa: PLC0415

        self._atomic = transaction.atomic(using=conn.alias, durable=True)
        self._inside = False
        self._foreign = not conn == connections[conn.alias]  # noqa: SIM201  a proxy knows == only
        super().__init__(connections[conn.alias], _dialect(conn.vendor))

    def obstacle(self) -> str:
        if self._foreign:
            return f"is not this thread's connection of {self.conn.alias!r}"
        if self.conn.in_atomic_block:
            return "is inside an atomic block (in tests use TransactionTestCase)"
        return "" if self.conn.get_autocommit() else "is out of autocommit"

    def begin(self) -> Talk[None]:
        self._atomic.__enter__()
        self._inside = True
        yield from ()

    def commit(self) -> Talk[None]:
        self._inside = False
        yield self._atomic.__exit__(None, None, None)

    def rollback(self) -> Talk[None]:
        if self._inside:
            self._inside = False
            yield self._atomic.__exit__(BaseException, BaseException(), None)

    def _cursor(self) -> Any:
        return self.conn.cursor()


# --- which of them a connection is ----------------------------------------------------------------------------------

DRIVERS: Final[dict[str, Callable[[Any], Driver]]] = {
    "psycopg.Connection": Psycopg,
    "psycopg.AsyncConnection": AsyncPsycopg,
    "psycopg2.extensions.connection": Psycopg2,
    "pymysql.connections.Connection": PyMysql,
    "sqlite3.Connection": Sqlite,
    "sqlalchemy.engine.base.Connection": Alchemy,
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": AsyncAlchemy,
    "sqlalchemy.orm.session.Session": AlchemySession,
    "sqlalchemy.ext.asyncio.session.AsyncSession": AsyncAlchemySession,
    "django.db.backends.base.base.BaseDatabaseWrapper": Django,
    "django.utils.connection.ConnectionProxy": Django,
}

_SCOPED: Final = ("sqlalchemy.orm.scoping.scoped_session", "sqlalchemy.ext.asyncio.scoping.async_scoped_session")

KNOWN_CONNECTIONS: Final = (
    "a connection of psycopg (sync or async), psycopg2, PyMySQL or sqlite3, a connection or session of SQLAlchemy"
    " (sync or async), or django.db.connection"
)


def names_of(value: object) -> list[str]:
    """Its class and those it inherits from, spelled in full."""
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__]


def is_connection(value: object) -> bool:
    """Also of a framework that has its own way to make others: those are asked for first."""
    return any(name in DRIVERS or name in _SCOPED for name in names_of(value))


def driver_of(conn: Any) -> Driver:
    names = names_of(conn)
    if any(name in _SCOPED for name in names):
        return driver_of(conn())
    for name in names:
        if name in DRIVERS:
            return DRIVERS[name](conn)
    raise BadInput(f"a {names[0]} cannot be joined; give {KNOWN_CONNECTIONS}")
