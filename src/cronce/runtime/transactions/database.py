"""The database that a job declares by `transaction=`: how connections to it are made, and short transactions in it over
connections of our own.

A run may be committed without a record of it in the store. So before a job function begins, the fence is raised in the
database, which shows whether an earlier run of the slot was committed. And before a run whose holder is gone is closed
as lost, it is sealed: either it was committed, and the slot succeeded, or it never will be.

Connections are opened when they are needed and kept for the next time. One that was closed meanwhile, or whose table is
gone, is noticed before it is used again.
"""

import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cronce.errors import BadInput, BadPolicy, CronceError, DatabaseUnavailable
from cronce.model import Fence, Instant, slot_of_cell
from cronce.protocol.codec import all_readable
from cronce.protocol.record import decode, effects_key
from cronce.runtime.flow import Flow
from cronce.runtime.log import LOGGER
from cronce.runtime.transactions import fencing
from cronce.runtime.transactions.connection import SQLITE, WAIT, Driver, Talk, drive, undo
from cronce.runtime.transactions.drivers import driver_of, is_connection, names_of
from cronce.runtime.transactions.fencing import Committed, FencingRow, short
from cronce.stores import mask, mask_all, scheme_of

if TYPE_CHECKING:
    from cronce.runtime.ledger import Grant, Ledger
    from cronce.runtime.node import Node

T = TypeVar("T")

MAX_IDLE_CONNECTIONS: Final = 4
"""Connections that lie idle at most."""


Source = tuple[str, Callable[[], Any]]
"""What people call a database, and how a connection to it is made."""


class Database:
    """A database of the user's, in which runs commit. Any thread may ask; a forked child has its own connections."""

    def __init__(self, source: Source, store: str = "") -> None:
        self._name, self._connect = source
        self._store = store
        self.told_unused = False
        """It was logged that a run did without it."""
        self._closed = False
        self._kept: list[Driver] = []
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"<database {self._name}>"

    # --- of runs: flows for steps and nodes, though only this database is asked ---

    def committed_before(self, grant: "Grant") -> Flow[bool]:
        """Raise the fence: whether an earlier run of the slot has committed."""
        yield from ()
        return self.raise_fence(_key_of(grant), grant.fence)

    def sealed(self, grant: "Grant") -> Flow[bool]:
        """Whether a run that ended was committed; if not, it never will be."""
        yield from ()
        return self.seal(_key_of(grant), grant.fence)

    def settle_gone(self, ledger: "Ledger", keys: Sequence[str]) -> Flow[None]:
        """Of these runs, close those whose holder is gone: as succeeded if they were committed, else by their
        on_lost."""
        gone = yield from ledger.gone(keys)
        committed: dict[str, Fence] = {}
        for cell, record in all_readable(gone, decode):
            if cell.fence is not None and self.seal(effects_key(record, slot_of_cell(cell.key)), cell.fence):
                committed[cell.key] = cell.fence
        yield from ledger.settle(gone, committed)

    # --- of slots ---

    def raise_fence(self, key: str, fence: Fence) -> bool:
        """Before a body: from now on no lower fence commits. True if the run's completion is committed already: then
        there is nothing to run. `LeaseLost` if there is a higher one."""
        found = self._do(lambda driver: short(driver, fencing.higher(driver, key, str(fence))))
        if not found.done and found.fence != str(fence):
            raise fencing.lease_lost(key, fence, found.fence)
        return found.done

    def seal(self, key: str, fence: Fence) -> bool:
        """Before a run whose holder is gone is closed: True if its completion is committed; else it never will be."""
        return self._do(lambda driver: short(driver, fencing.higher(driver, key, f"{fence}+"))).done

    def look(self, key: str, committed: Committed | None = None) -> FencingRow:
        """The current state of the slot."""
        return self._do(lambda driver: fencing.glance(driver, key, committed or Committed(key)))

    def settled(self, key: str, committed: Committed | None = None) -> FencingRow:
        """The state of the slot, after waiting for a transaction that has checked the fence and not ended yet."""
        return self._do(lambda driver: short(driver, fencing.settled(driver, key, committed or Committed(key))))

    def purge(self, job: str, before: Instant) -> None:
        """Forget the slots of a job that are older."""
        self._do(lambda driver: short(driver, fencing.purge(driver, job, before)))

    def close(self) -> None:
        """Connections that are used just now are closed after that."""
        self._closed = True
        while self._kept:
            _close(self._kept.pop().conn)

    # --- connections ---

    def _do(self, work: Callable[[Driver], Talk[T]]) -> T:
        driver = self._take() or self._open()
        try:
            answer = drive(work(driver))
        except BaseException as error:
            _close(driver.conn)
            if isinstance(error, Exception):
                raise self._unavailable(error) from error
            raise
        self._keep(driver)
        return answer

    def _take(self) -> Driver | None:
        """One that was kept and still works."""
        if self._pid != os.getpid():
            _PARENTS_CONNECTIONS.extend(self._kept)
            self._kept, self._pid = [], os.getpid()
        with suppress(IndexError):  # another thread took the last one
            while self._kept:
                driver = self._kept.pop()
                if not _problem(driver):
                    return driver
                _close(driver.conn)
        return None

    def _keep(self, driver: Driver) -> None:
        if self._closed or len(self._kept) >= MAX_IDLE_CONNECTIONS:
            _close(driver.conn)
        else:
            self._kept.append(driver)

    def _open(self) -> Driver:
        try:
            conn = self._connect()
        except BadInput:
            raise
        except Exception as error:
            raise self._unavailable(error) from error
        with ExitStack() as on_error:
            on_error.callback(_close, conn)
            driver = driver_of(conn)
            if driver.asynchronous:
                on_error.pop_all()  # only its event loop could close it
                raise BadPolicy(f"transaction={self._name} gives asynchronous connections; give {ACCEPTED}")
            self._refuse(driver)
            self._prepare(driver)
            on_error.pop_all()
        return driver

    def _refuse(self, driver: Driver) -> None:
        if driver.dialect is SQLITE:
            ((_, _, file), *_) = drive(driver.ask("PRAGMA database_list"))
            refuse_file(file, self._store, self._name)

    def _prepare(self, driver: Driver) -> None:
        """Make the table, unless it is there. That another makes it at the same time is an error to some servers, so
        the last word is whether it is there."""
        if not _problem(driver):
            return
        with suppress(Exception):
            drive(short(driver, driver.ask(driver.dialect.table)))
        if problem := _problem(driver):
            raise DatabaseUnavailable(
                f"{self._name}: the table cronce_effects does not exist, or this user may not use it"
                f" ({mask_all(str(problem))}), and may not create it. Ask an administrator to create it and to grant"
                f" this user SELECT, INSERT, UPDATE and DELETE on it:\n{driver.dialect.table};"
            ) from problem

    def _unavailable(self, error: Exception) -> DatabaseUnavailable:
        words = mask_all(str(error).strip().partition("\n")[0]) or type(error).__name__
        return DatabaseUnavailable(f"{self._name}, in which the run commits, did not answer: {words}")


def _key_of(grant: "Grant") -> str:
    assert grant.slot is not None
    return effects_key(grant.record, grant.slot)


class Settling:
    """Closes runs whose holder is gone, in the background of a scheduler. A database may be slow to answer, and must
    not delay the others. So each database has a thread of its own while there is something to ask it."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._lock = threading.Lock()
        self._waiting: dict[Database, set[str]] = {}

    def soon(self, database: Database, key: str) -> None:
        with self._lock:
            busy = database in self._waiting
            self._waiting.setdefault(database, set()).add(key)
        if not busy:
            threading.Thread(target=self._settle, args=(database,), name="cronce-settle", daemon=True).start()

    def _settle(self, database: Database) -> None:
        """Everything that is to be asked this database."""
        while True:
            with self._lock:
                keys, self._waiting[database] = sorted(self._waiting[database]), set()
                if not keys:
                    del self._waiting[database]
                    return
            try:
                self._node.do(database.settle_gone(self._node.ledger, keys))
            except CronceError as error:
                LOGGER.warning("%s stays open, although its holder is gone: %s", slot_of_cell(keys[0]).key, error)


def _problem(driver: Driver) -> Exception | None:
    """Why a connection cannot be used; None if it can."""
    try:
        drive(fencing.probe(driver))
    except Exception as error:
        drive(undo(driver))
        return error
    return None


def _close(conn: Any) -> None:
    with suppress(Exception):
        conn.close()


_PARENTS_CONNECTIONS: Final[list[Driver]] = []
"""Connections that another process uses. They are kept, so that no destructor closes them."""


def read_database(value: object, store: str = "") -> Database:
    """The database that `transaction=` names; nothing is opened. `store` is the URL of cronce's own: an SQLite file
    cannot be both."""
    if isinstance(value, Database):
        return value
    return Database(_source(value, store), store)


# --- what a job may declare by `transaction=`; nothing is opened here -------------------------------------------------

USER_DATABASE_TIMEOUT: Final = WAIT + 5
"""Seconds for an answer of a server, which itself waits for a lock."""

ACCEPTED: Final = (
    "a URL (postgresql://…, mysql://…, sqlite:///FILE), an engine of SQLAlchemy, a connection of Django or its alias,"
    " or a function that gives a connection"
)


def _source(value: Any, store: str) -> Source:
    names = names_of(value)
    if isinstance(value, str):
        return _of_url(value, store) if "://" in value else _of_django(value)
    if "sqlalchemy.engine.base.Engine" in names:
        return mask(str(value.url)), lambda: _detached(value)
    if "sqlalchemy.ext.asyncio.engine.AsyncEngine" in names:
        return _of_url(value.url.render_as_string(hide_password=False), store)
    if {"django.utils.connection.ConnectionProxy", "django.db.backends.base.base.BaseDatabaseWrapper"} & {*names}:
        return _of_django(value.alias)
    if is_connection(value):
        raise BadPolicy(
            f"transaction=<{type(value).__name__}> is a single connection, and several are needed; give {ACCEPTED}"
        )
    if callable(value):
        return getattr(value, "__qualname__", repr(value)), value
    raise BadPolicy(f"transaction={value!r:.60} is not a database; give {ACCEPTED}")


def _detached(engine: Any) -> Any:
    """A connection as the engine makes them, that its pool does not count among its own."""
    connection = engine.connect()
    connection.detach()
    return connection


def _of_django(alias: str) -> Source:
    if "django.db" not in sys.modules:
        raise BadPolicy(
            f"transaction={alias!r:.60} is not a URL, and Django is not loaded, so it cannot be an alias; give"
            f" {ACCEPTED}"
        )
    from django.db import connections  # noqa: PLC0415  not without its user

    if alias not in connections.settings:
        raise BadPolicy(
            f"transaction={alias!r:.60}: Django has no such database; it has {', '.join(connections.settings)}"
        )

    def connect() -> Any:
        wrapper = connections.create_connection(alias)
        options = {name: option for name, option in wrapper.settings_dict["OPTIONS"].items() if name != "pool"}
        wrapper.settings_dict = {**wrapper.settings_dict, "OPTIONS": options}
        wrapper.connect()
        return wrapper.connection

    return f"Django's {alias!r}", connect


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
    raise BadPolicy(f"transaction={mask(url)!r}: cronce cannot join transactions of this database; give {ACCEPTED}")


def _postgresql(url: str) -> Source:
    from cronce.stores.postgres.server import dial, locate  # noqa: PLC0415

    place = locate(url)
    if place.schema != "public":
        raise BadPolicy(f"transaction={mask(url)!r}: for a schema write ?options=-csearch_path%3D{place.schema}")
    return mask(url), lambda: dial(place._replace(patience=USER_DATABASE_TIMEOUT))


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
            read_timeout=USER_DATABASE_TIMEOUT,
            write_timeout=USER_DATABASE_TIMEOUT,
            ssl=tls(place),
        )

    return mask(url), connect


def _sqlite(url: str, store: str) -> Source:
    from cronce.stores.sqlite import locate  # noqa: PLC0415

    path, _ = locate(url)
    refuse_file(str(path), store, url)

    def connect() -> Any:
        import sqlite3  # noqa: PLC0415

        return sqlite3.connect(path, timeout=WAIT, isolation_level=None, check_same_thread=False)

    return url, connect


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
