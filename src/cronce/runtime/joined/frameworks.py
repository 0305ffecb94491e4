"""Connections of SQLAlchemy and Django. Neither is imported before its user has."""

from typing import Any

from cronce.errors import BadInput
from cronce.runtime.joined.dialects import DIALECTS, SQLITE, Dialect
from cronce.runtime.joined.talk import Driver, Row, Talk


def _dialect(name: str) -> Dialect:
    if name not in DIALECTS:
        raise BadInput(f"a transaction in {name} cannot be joined; cronce knows {', '.join(sorted(DIALECTS))}")
    return DIALECTS[name]


# --- SQLAlchemy -----------------------------------------------------------------------------------------------------


class Alchemy(Driver):
    """A connection. What it says begins a transaction, so that after its commit it has to be silent."""

    speaks_after = False

    def __init__(self, conn: Any) -> None:
        self.sync = self._sync(conn)
        super().__init__(conn, _dialect(self._bind().dialect.name))

    def obstacle(self) -> str:
        if self.sync.in_nested_transaction() or getattr(self.sync, "_trans_context_manager", None):
            return "is inside a transaction block (begin() or begin_nested())"
        return ""

    def begin(self) -> Talk[None]:
        """It begins by itself; but on SQLite it only says so, and leaves it to the first write."""
        if self.dialect is SQLITE:
            connection = Alchemy._sync((yield self._connection()))
            if not connection.dialect.get_driver_connection(connection.connection.dbapi_connection).in_transaction:
                yield from self.ask("BEGIN")

    def ask(self, statement: str, **values: str) -> Talk[list[Row]]:
        from sqlalchemy import text  # noqa: PLC0415

        result = yield self.conn.execute(text(statement), self._bound(values))
        return [tuple(row) for row in result.fetchall()] if result.returns_rows else []

    @staticmethod
    def _sync(conn: Any) -> Any:
        """What an asynchronous one stands before."""
        return getattr(conn, "sync_connection", conn)

    def _bind(self) -> Any:
        return self.sync

    def _connection(self) -> Any:
        return self.conn


class AlchemySession(Alchemy):
    def obstacle(self) -> str:
        bind = self._bind()
        if hasattr(bind, "in_transaction") and bind.in_transaction():
            return "is bound to a connection that is in a transaction already"
        return super().obstacle()

    def flush(self) -> Talk[None]:
        yield self.conn.flush()

    @staticmethod
    def _sync(conn: Any) -> Any:
        return getattr(conn, "sync_session", conn)

    def _bind(self) -> Any:
        return self.sync.get_bind()

    def _connection(self) -> Any:
        return self.conn.connection()


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
