"""Which driver a connection needs. Nothing is imported that its user has not imported: a connection is recognised by
the names of its class and of those that it inherits from."""

from collections.abc import Callable
from typing import Any, Final

from cronce.errors import BadInput
from cronce.runtime.joined.drivers import AsyncPsycopg, Psycopg, Psycopg2, PyMysql, Sqlite
from cronce.runtime.joined.frameworks import Alchemy, AlchemySession, AsyncAlchemy, AsyncAlchemySession, Django
from cronce.runtime.joined.talk import Driver

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

KNOWN: Final = (
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
    raise BadInput(f"a {names[0]} cannot be joined; give {KNOWN}")
