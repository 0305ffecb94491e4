"""Cells in one SQLite file, for any number of processes of one machine. Durable on commit.

Four things here are subtle; done the obvious way, each loses writes or answers too late.

*The lock comes before the clock.* A swap takes the file's one write lock first, then reads the clock: SQLite's own,
which stands still only within a statement, in whole milliseconds.

*A refused write needs no lock.* While another process holds the lock, a waiting swap reads whether its writes have
already lost, and if so returns. A loser writes nothing, and does not wait for the winner's disk.

*A fork.* SQLite counts its locks in memory that a fork copies. A connection opened in the child assumes that it shares
the parent's locks. Then the parent closes its connection as the last one and deletes the log, and the child goes on
writing to the deleted one. So every connection is closed before a fork, and each side opens its own after it.

*Files that are replaced.* SQLite keeps three files open, and goes on writing to them after they were removed or
replaced. So after each call, before it returns, the files of these names are compared with those that were opened,
unless that was done less than FILES_CHECKED_EVERY ago. A connection that lost its files is never closed: closing it
would write its log over the new ones.

Beside the store itself: `statements` the SQL, `file` how the file is found, made, checked and adopted, `news` listening
to it, `checks` what the doctor asks.
"""

import atexit
import os
import sqlite3
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cronce.clock import SystemClock
from cronce.errors import BadInput, StoreForgot, StoreUnavailable, StoreUnusable
from cronce.model import Cell, Epoch, Traits, Write
from cronce.stores import mask, options, scheme_of, seconds, sql, url_of
from cronce.stores.base import Loaded, Page, Scan, Swapped, first_page, judge, life_of, loaded
from cronce.stores.sqlite import file, statements

if TYPE_CHECKING:
    from pathlib import Path

    from cronce.stores.checks import Check
    from cronce.stores.sqlite.news import SqliteListener

TRAITS: Final = Traits("sqlite", survives_failover=False, notifies=True, own_clock=True, step=timedelta(milliseconds=1))

FILE_LOCK_TIMEOUT: Final = timedelta(seconds=10)
"""How long a call waits for a lock that another process holds; a transaction holds it for one flush to disk."""

FILES_CHECKED_EVERY: Final = 0.05
"""Seconds. In a burst of calls, checking the files each time would make every commit a tenth slower: once a file's time
stamps were read, Linux writes new ones with the next change."""

AFTER_ALL_TEXT: Final = b""  # a blob sorts after every text

_Answer = TypeVar("_Answer")
Work = Callable[["SqliteConnection"], _Answer]
Select = tuple[str, Sequence[Any]]
"""A statement that reads cells, and its parameters."""


class SqliteStore:
    """A store in a file.

    `timeout` is how long to wait for another's lock. `adopt` accepts a copy, or a file on a network file system, on
    purpose. `mount_table` stands in for this machine's, for tests.
    """

    traits: Final = TRAITS
    _connection: "SqliteConnection | None" = None

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timeout: timedelta = FILE_LOCK_TIMEOUT,
        adopt: bool = False,
        mount_table: str | None = None,
    ) -> None:
        self.path: Final = file.plain_path(path)
        self._timeout = timeout
        self._lock = threading.RLock()
        self._working = False
        self._boot = SystemClock().boot
        self._files_checked_at = -FILES_CHECKED_EVERY
        with _FORKING:
            _STORES.add(self)
        self._open: Callable[[], SqliteConnection] = partial(
            SqliteConnection, self.path, mount_table, make=True, adopt=adopt
        )
        self._use(lambda connection: file.read_meta(connection.db, connection.path))
        self._open = partial(SqliteConnection, self.path, mount_table)

    def load(self, keys: Sequence[str]) -> Loaded:
        wanted = select(keys)
        meta, cells = self._use(lambda connection: connection.read(*wanted))
        return loaded(meta.now, meta.epoch, keys, cells)

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        wanted = select([write.key for write in writes])
        return self._use(lambda connection: connection.swap(writes, wanted, seen))

    def scan(self, scan: Scan) -> Page:
        statement = statements.scan_statement(scan.by, scan.mark, newest_first=scan.newest_first)
        meta, cells = self._use(lambda connection: connection.read(statement, sql.bounds(scan, AFTER_ALL_TEXT)))
        return first_page(meta.now, meta.epoch, cells, scan)

    def purge(self, cells: Sequence[Cell]) -> int:
        return self._use(lambda connection: connection.purge([(cell.key, cell.version) for cell in cells]))

    def listen(self) -> "SqliteListener":
        from cronce.stores.sqlite.news import SqliteListener  # noqa: PLC0415  not under cron

        return SqliteListener(self)

    def size(self) -> int:
        return self._use(lambda connection: int(connection.db.execute(statements.SIZE).fetchone()[0]))

    def board(self) -> frozenset[tuple[str, int]]:
        """The cells of the board, by their keys and versions."""
        return self._use(lambda connection: frozenset(connection.db.execute(statements.SELECT_BOARD).fetchall()))

    def checks(self) -> "Iterator[Check]":
        from cronce.stores.sqlite.checks import checks  # noqa: PLC0415  only the doctor asks

        return checks(self.path)

    def close(self) -> None:
        with self._lock:
            self._disconnect()
            self._open = partial(_refuse, self.path)

    def __del__(self) -> None:
        if self._connection is not None and not sys.is_finalizing():
            _UNUSED.append(self._connection)
            _close_unused()

    # --- one connection, for all threads of the process -------------------------------------------------------------

    def _use(self, work: Work[_Answer]) -> _Answer:
        """One call, tried again while another process holds the file's lock, up to the timeout."""
        for pause in pauses(self._timeout):
            try:
                with self._lock:
                    return self._attempt(work)
            except sqlite3.Error as error:
                if not file.is_busy(error):
                    raise file.explained(error, self.path) from error
            except UnicodeEncodeError as error:
                raise BadInput(f"{error.object[:60]!r} is not text that can be stored") from None
            time.sleep(pause)
        raise StoreUnavailable(
            f"{self.path} was locked by another process for {self._timeout.total_seconds():g} s; see who holds it with"
            f" `fuser -v {self.path}`, or wait longer with ?timeout=SECONDS"
        )

    def _attempt(self, work: Work[_Answer]) -> _Answer:
        self._working = True
        try:
            connection = self._own_connection()
            try:
                answer = work(connection)
            finally:
                if connection.db.in_transaction:
                    connection.db.execute("ROLLBACK")
        except sqlite3.Error:
            self._check_files()  # if they are gone, that is the better error
            raise
        finally:
            self._working = False
        if self._boot() - self._files_checked_at >= FILES_CHECKED_EVERY:
            self._check_files()
        return answer

    def _own_connection(self) -> "SqliteConnection":
        if self._connection is None:
            self._connection = self._open()
        elif self._connection.process != os.getpid():
            raise StoreUnusable(
                f"{self.path} was open during a fork that Python did not see (uWSGI without lazy-apps?);"
                " open the store after the fork"
            )
        return self._connection

    def _check_files(self) -> None:
        if self._connection is None or (found := file.inodes(self._connection.names)) == self._connection.files:
            self._files_checked_at = self._boot()
            return
        if found[0] == self._connection.files[0]:
            raise StoreForgot(
                f"the -wal or -shm file beside {self.path} was removed while this process used it, so no other process"
                " sees its writes; restart this process, and never remove those files while one is running"
            )
        self._disconnect()
        raise StoreForgot(
            f"{self.path} was {'replaced by another file' if found[0] else 'deleted'} while this process used it,"
            " and what it wrote last is lost; put the file back, or start another cronce process, which creates a"
            " new store"
        )

    # --- forks, and the end of the process --------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Wait for calls of other threads, then disconnect; not if the fork happens inside a call of this thread."""
        self._lock.acquire()
        if not self._working:
            self._disconnect()

    def after_fork(self) -> None:
        self._lock.release()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _refuse(path: str) -> "SqliteConnection":
    raise StoreUnavailable(f"{path} was closed by this process; open the store again")


_STORES: Final = weakref.WeakSet[SqliteStore]()
_LOCKED: Final[list[SqliteStore]] = []
_FORKING: Final = threading.RLock()
"""Held by a thread that forks. No other thread is inside of SQLite then: the child would wait for ever for the locks
that it holds there."""
_UNUSED: Final[list["SqliteConnection"]] = []
"""Connections of stores that are gone."""


def _close_unused() -> None:
    """Not while another thread forks, which closes them: it may wait for a call that this thread is in."""
    if _FORKING.acquire(blocking=False):
        try:
            while _UNUSED:
                _UNUSED.pop().close()
        finally:
            _FORKING.release()


def _before_fork() -> None:
    _FORKING.acquire()
    for store in sorted(_STORES, key=id):
        store.before_fork()
        _LOCKED.append(store)


def _after_fork() -> None:
    while _LOCKED:
        _LOCKED.pop().after_fork()
    _FORKING.release()
    _close_unused()


def _before_exit() -> None:
    """Disconnect while a connection that lost its files can still be recognised; a later call connects again."""
    _before_fork()
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
atexit.register(_before_exit)


class SqliteConnection:
    """An open connection of one process."""

    def __init__(self, path: str, mount_table: str | None, *, make: bool = False, adopt: bool = False) -> None:
        self.db: Final = file.connect(path, TRAITS, mount_table, make=make, adopt=adopt)
        self.path: Final = path
        self.names: Final = file.names(path)
        self.files: Final = file.inodes(self.names)
        self.process: Final = os.getpid()

    def read(self, statement: str, bounds: Any) -> tuple[sql.Meta, list[Cell]]:
        rows = self.db.execute(statement, bounds).fetchall()
        return file.meta_of(rows, self.path), list(map(sql.read_cell, rows[1:]))

    def swap(self, writes: Sequence[Write], wanted: Select, seen: tuple[int, int]) -> Swapped:
        try:
            self.db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            return self._refused_already(writes, wanted, seen, error)
        meta, cells = self.read(*wanted)
        swapped, changed = judge(writes, seen, cells, meta.epoch, last_write=meta.last_write, now=meta.now)
        if swapped.epoch != meta.epoch:
            self.db.executemany(statements.PUT_CELL, map(statements.cell_row, changed.values()))
            self.db.execute(
                statements.UPDATE_META, sql.meta_row(swapped.epoch, meta.now if changed else meta.last_write)
            )
        self.db.execute("COMMIT")
        return swapped

    def _refused_already(
        self, writes: Sequence[Write], wanted: Select, seen: tuple[int, int], error: sqlite3.OperationalError
    ) -> Swapped:
        """The answer to a swap that would write nothing. Another process holds the lock: any other swap has to wait."""
        if not file.is_busy(error):
            raise error
        meta, cells = self.read(*wanted)
        swapped, _ = judge(writes, seen, cells, meta.epoch, last_write=meta.last_write, now=meta.now)
        if swapped.epoch != meta.epoch:
            raise error
        return swapped

    def purge(self, cells: Sequence[tuple[str, int]]) -> int:
        self.db.execute("BEGIN IMMEDIATE")
        gone = self.db.executemany(statements.PURGE, cells).rowcount if cells else 0
        self.db.execute("COMMIT")
        return gone

    def close(self) -> None:
        if self.process == os.getpid() and file.inodes(self.names) == self.files:
            self.db.close()
        else:
            _leak(self.db)


def _leak(db: sqlite3.Connection) -> None:
    """Keep a connection open until the process ends, past the interpreter's last clean-up."""
    import ctypes  # noqa: PLC0415

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))


# --- URLs, and adopting ---------------------------------------------------------------------------------------------


def open_store(url: str) -> SqliteStore:
    path, timeout = _named(url)
    return SqliteStore(path, timeout=timeout)


def locate(url: str) -> tuple["Path", timedelta]:
    """The file and the timeout that a URL names: ``sqlite:///relative.db``, ``sqlite:////absolute.db?timeout=5``."""
    from pathlib import Path  # noqa: PLC0415  slow to import, and a store is opened without it

    path, timeout = _named(url)
    return Path(path), timeout


def absolute(url: str) -> str:
    """The same store by the absolute path of its file."""
    path, _timeout = _named(url)
    _, question, query = url.partition("?")
    return f"{url_of(path)}{question}{query}"


def _named(url: str) -> tuple[str, timedelta]:
    _, _, rest = url.partition(":")
    if scheme_of(url) != "sqlite" or not rest.startswith("///"):
        raise BadInput(f"{mask(url)!r}: write sqlite:///relative.db, or sqlite:////absolute/path.db with four slashes")
    path, _, query = rest[3:].partition("?")
    timeout = _patience(url, query) if query else FILE_LOCK_TIMEOUT
    if "%" in path:
        from urllib.parse import unquote  # noqa: PLC0415  as below

        path = unquote(path, errors="surrogateescape")
    return file.plain_path(path), timeout


def _patience(url: str, query: str) -> timedelta:
    timeout = options(mask(url), query, ["timeout"]).get("timeout")
    return FILE_LOCK_TIMEOUT if timeout is None else timedelta(seconds=seconds(mask(url), timeout))


def init(url: str) -> Epoch:
    """Initialise a store; one that exists stays as it is."""
    return life_of(open_store(url))


def ddl(_url: str) -> str:
    """The SQL that makes the tables."""
    from inspect import cleandoc  # noqa: PLC0415  slow to import, and only a person asks

    return ";\n\n".join(map(cleandoc, statements.DDL)) + ";"


def adopt(url: str) -> Epoch:
    path, timeout = _named(url)
    if not os.path.exists(path) and not file.network_of(os.fspath(path)):  # noqa: PTH110  pathlib is slow to import
        raise BadInput(f"there is no file {path}; nothing was adopted")
    return adopt_file(path, timeout=timeout)


def adopt_file(
    path: str | os.PathLike[str], *, timeout: timedelta = FILE_LOCK_TIMEOUT, mount_table: str | None = None
) -> Epoch:
    """Accept a copy, or a file on a network file system, as the store from now on; its new epoch.

    A copy may be behind its original, so what is open in it counts as unknown. On a network file system there may be no
    file yet: then one is made.
    """
    return life_of(SqliteStore(path, timeout=timeout, adopt=True, mount_table=mount_table))


# --- small matters --------------------------------------------------------------------------------------------------


def pauses(timeout: timedelta) -> Iterator[float]:
    """Seconds to sleep between tries: short at first, since most wait for one flush to disk."""
    left, pause = timeout.total_seconds(), 0.0005
    while left > 0:
        yield min(pause, left)
        left -= pause
        pause = min(pause * 1.5, 0.02)
    yield 0.0


def select(keys: Sequence[str]) -> Select:
    """How to read some cells: one by its key, many by a list of keys in JSON.

    SQLite's JSON ends a text at NUL, so a key with one in it would never be found.
    """
    if "\0" in "".join(keys):
        raise BadInput("a key cannot contain NUL")
    if len(keys) == 1:
        return statements.SELECT_CELL, keys
    return statements.SELECT_CELLS, [f"[{','.join(map(encode_basestring, keys))}]"]
