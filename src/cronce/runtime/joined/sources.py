"""What a job may declare by `transaction=`, and how connections to it are made. Nothing is opened here."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cronce.errors import BadInput, BadPolicy
from cronce.runtime.joined.dialects import WAIT
from cronce.runtime.joined.kinds import is_connection, names_of
from cronce.stores import mask, scheme_of
from cronce.value import NamedTuple

if TYPE_CHECKING:
    import sqlite3

PATIENCE: Final = WAIT + 5
"""Seconds for an answer of a server, which itself waits for a lock."""

ACCEPTED: Final = (
    "a URL (postgresql://…, mysql://…, sqlite:///FILE), an engine of SQLAlchemy, a connection of Django or its alias,"
    " or a function that gives a connection"
)


class Source(NamedTuple):
    """Where connections come from, and how people call it."""

    name: str
    connect: Callable[[], Any]


def source(value: Any, store: str) -> Source:
    names = names_of(value)
    if isinstance(value, str):
        return _of_url(value, store) if "://" in value else _of_django(value)
    if "sqlalchemy.engine.base.Engine" in names:
        return Source(mask(str(value.url)), lambda: _detached(value))
    if "sqlalchemy.ext.asyncio.engine.AsyncEngine" in names:
        return _of_url(value.url.render_as_string(hide_password=False), store)
    if {"django.utils.connection.ConnectionProxy", "django.db.backends.base.base.BaseDatabaseWrapper"} & {*names}:
        return _of_django(value.alias)
    if is_connection(value):
        raise BadPolicy(f"transaction=<{type(value).__name__}> is one connection, and many are needed; give {ACCEPTED}")
    if callable(value):
        return Source(getattr(value, "__qualname__", repr(value)), value)
    raise BadPolicy(f"transaction={value!r:.60} is no database; give {ACCEPTED}")


def _detached(engine: Any) -> Any:
    """A connection as the engine makes them, that its pool does not count among its own."""
    connection = engine.connect()
    connection.detach()
    return connection


def _of_django(alias: str) -> Source:
    if "django.db" not in sys.modules:
        raise BadPolicy(f"transaction={alias!r:.60} is no URL, and Django is not here to know it; give {ACCEPTED}")
    from django.db import connections  # noqa: PLC0415  not without its user

    if alias not in connections.settings:
        raise BadPolicy(f"transaction={alias!r:.60}: Django knows {', '.join(connections.settings)}")

    def connect() -> Any:
        wrapper = connections.create_connection(alias)
        options = {name: option for name, option in wrapper.settings_dict["OPTIONS"].items() if name != "pool"}
        wrapper.settings_dict = {**wrapper.settings_dict, "OPTIONS": options}
        wrapper.connect()
        return wrapper.connection

    return Source(f"Django's {alias!r}", connect)


def _of_url(url: str, store: str) -> Source:
    """A URL as our stores read them, or as SQLAlchemy does, with a driver behind the scheme."""
    scheme, _, rest = url.partition("://")
    url = f"{scheme.partition('+')[0].lower()}://{rest}"
    try:
        match scheme_of(url):
            case "postgresql" | "postgres":
                return _postgresql(url)
            case "mysql" | "mariadb":
                return _mysql(url)
            case "sqlite":
                return _sqlite(url, store)
    except BadPolicy:
        raise
    except BadInput as error:
        raise BadPolicy(f"transaction=…: {error}") from None
    raise BadPolicy(f"transaction={mask(url)!r}: no database that can be joined; give {ACCEPTED}")


def _postgresql(url: str) -> Source:
    from cronce.stores.postgres.line import dial, locate  # noqa: PLC0415

    place = locate(url)
    if place.schema != "public":
        raise BadPolicy(f"transaction={mask(url)!r}: for a schema write ?options=-csearch_path%3D{place.schema}")
    return Source(mask(url), lambda: dial(place._replace(patience=PATIENCE)))


def _mysql(url: str) -> Source:
    from cronce.stores.mysql.server import locate, tls  # noqa: PLC0415

    place = locate(url)

    def connect() -> Any:
        import pymysql  # noqa: PLC0415

        return pymysql.connect(
            host=place.host,
            port=place.port,
            unix_socket=place.options.get("unix_socket"),
            user=place.user or None,
            password=place.password.encode(),
            database=place.database,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=place.timeout,
            read_timeout=PATIENCE,
            write_timeout=PATIENCE,
            ssl=tls(place),
        )

    return Source(mask(url), connect)


def _sqlite(url: str, store: str) -> Source:
    from cronce.stores.sqlite import locate  # noqa: PLC0415

    path, _ = locate(url)
    refuse_file(str(path), store, url)

    def connect() -> "sqlite3.Connection":
        import sqlite3  # noqa: PLC0415

        return sqlite3.connect(path, timeout=WAIT, isolation_level=None, check_same_thread=False)

    return Source(url, connect)


def refuse_file(path: str, store: str, name: str) -> None:
    if not path:
        raise BadPolicy(f"transaction={name} is in memory, where no other process sees it; name a file")
    if scheme_of(store) != "sqlite":
        return
    from cronce.stores.sqlite import locate  # noqa: PLC0415

    own, _ = locate(store)
    if _same(own, Path(path)):
        raise BadPolicy(
            f"transaction={name} is the file of cronce's own store: a transaction in it would keep leases from being"
            " renewed. Name another file for one of them"
        )


def _same(one: Path, other: Path) -> bool:
    """By its inode; by its name, while there is none."""
    try:
        return one.samefile(other)
    except OSError:
        return one.resolve() == other.resolve()
