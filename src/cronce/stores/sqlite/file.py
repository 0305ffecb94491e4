"""The file of an SQLite store: its names, opening it, refusing it, and its errors in words."""

import os
import sqlite3
import stat
from collections.abc import Iterable, Sequence
from typing import Final

from cronce import mounts
from cronce.errors import (
    BadInput,
    StoreCopied,
    StoreCorrupt,
    StoreError,
    StoreForgot,
    StoreFull,
    StoreNewer,
    StoreOnNetwork,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnusable,
)
from cronce.model import Epoch, Origin, Traits, to_us
from cronce.stores import sql, url_of
from cronce.stores.base import closed_on_error, first_life, next_life
from cronce.stores.sqlite.statements import ADOPT_META, DDL, FIRST_META, SELECT_META, SELECT_NOW, UPDATE_META

OLDEST_SQLITE: Final = (3, 38)
"""The first SQLite that always has JSON; Python brings its own or the system's."""

# --- names, in plain text: pathlib is slow to import, and each `cronce exec` opens a store --------------------------

AnyPath = str | os.PathLike[str]


def plain_path(path: AnyPath) -> str:
    text = os.fspath(path)
    if text == ":memory:":
        raise BadInput("an SQLite store in memory cannot be seen by another process; name a file, or use memory:")
    if not text or "\0" in text or text.startswith("file:"):
        raise BadInput(f"{text!r} cannot be the path of a store; name a plain file")
    return os.path.abspath(os.path.expanduser(text))  # realpath would follow links


def names(path: str) -> tuple[str, ...]:
    """The file by the name it was given, then its log and shared memory, which SQLite keeps where a link leads."""
    real = os.path.realpath(path)
    return path, f"{real}-wal", f"{real}-shm"


def inodes(names: Iterable[str]) -> tuple[int | None, ...]:
    """The inode of each file; None where there is none."""
    return tuple(map(inode, names))


def inode(name: str) -> int | None:
    found = _stat(name)
    return found.st_ino if found else None


def stamp(name: str) -> tuple[int, int, int] | None:
    """What changes when a file is written to; None where there is none."""
    found = _stat(name)
    return (found.st_ino, found.st_size, found.st_mtime_ns) if found else None


def _mode(path: AnyPath) -> int:
    """The mode of a file or directory; 0 if there is none, or this user may not see it."""
    found = _stat(path)
    return found.st_mode if found else 0


def _stat(path: AnyPath) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


# --- opening --------------------------------------------------------------------------------------------------------


def connect(path: str, traits: Traits, mount_table: str | None, *, make: bool, adopt: bool) -> sqlite3.Connection:
    """A connection to a store that may be used: made if there is none, adopted if that is meant, refused otherwise."""
    network = network_of(path, mount_table)
    there = _look(path, network, make=make, adopt=adopt)
    uri = f"file:{_escaped(path)}?mode={'rwc' if make else 'rw'}"
    db = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
    with closed_on_error(db):
        if _is_empty(db, path):
            _fill(db, path, traits, network, make=make, adopt=adopt, there=there)
        elif adopt:
            _adopt(db, path, network)
        _write_ahead(db, path)
        _check(db, path, network)
    return db


def _escaped(path: str) -> str:
    """A path as SQLite reads it in a URI."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def network_of(path: str, mount_table: str | None = None) -> str | None:
    """The kind of network file system that a path is on, if any."""
    table = mounts.current_table() if mount_table is None else mount_table
    return mounts.network_kind(os.path.realpath(path), table)


def _look(path: str, network: str | None, *, make: bool, adopt: bool) -> bool:
    """Whether the file exists. What can be refused is refused here, before opening, which would create the file."""
    mode = _mode(path)  # read once: another process may be creating it
    if mode and not stat.S_ISREG(mode):
        raise StoreUnusable(f"{path} is not a plain file; name one, for instance {path}/cronce.db")
    if mode:
        return True
    if not make:
        raise StoreForgot(f"{path} no longer exists; put it back, or start another process, which creates a new store")
    if network and not adopt:
        raise _on_network(path, network)
    _check_directory(os.path.dirname(path))
    return False


def _check_directory(directory: str) -> None:
    """It is not created here: the path may be mistyped."""
    if os.path.isdir(directory):
        return
    if _mode(directory):
        raise StoreUnusable(f"{directory} is not a directory; use another path")
    from shlex import quote  # noqa: PLC0415  a start that succeeds does not need it

    raise StoreUnusable(
        f"the directory {directory} does not exist, or this user cannot see it; check the path, or create it with"
        f" `mkdir -p {quote(directory)}`"
    )


def _is_empty(db: sqlite3.Connection, path: str) -> bool:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreUnusable(f"cronce needs SQLite 3.38 or newer; this Python brings {sqlite3.sqlite_version}")
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if tables and "cronce_meta" not in tables:
        raise StoreCorrupt(f"{path} is an SQLite database of something else; name a file of cronce's own")
    return not tables


def _fill(
    db: sqlite3.Connection, path: str, traits: Traits, network: str | None, *, make: bool, adopt: bool, there: bool
) -> None:
    """The tables and the first epoch, unless another process is faster. An empty file that is adopted has lost what
    was in it.

    This is done before there is a log, so that a copy of the file alone holds its identity from the start.
    """
    if not make:
        raise StoreForgot(f"{path} was emptied while this process used it; restore it from a backup")
    if network and not adopt:
        raise _on_network(path, network)
    os.chmod(path, 0o600)  # what jobs printed is in it; its log, not made yet, is given the same
    db.execute("BEGIN IMMEDIATE")
    for statement in DDL:
        db.execute(statement)
    (now,) = db.execute(SELECT_NOW).fetchone()
    epoch = Epoch(now, origin=Origin.FOUND) if adopt and there else first_life(now, traits)
    meta = (sql.SQL_SCHEMA, *sql.meta_row(epoch, epoch.born), str(inode(path)), network is not None)
    db.execute(FIRST_META, meta)
    db.execute("COMMIT")


def _adopt(db: sqlite3.Connection, path: str, network: str | None) -> None:
    """A new identity, and a new epoch, since a copy may be behind its original."""
    _check_schema(db, path)
    db.execute("BEGIN IMMEDIATE")
    meta = read_meta(db, path)
    epoch = next_life(to_us(meta.now), meta.epoch.seen, meta.epoch, meta.last_write)
    db.execute(UPDATE_META, sql.meta_row(epoch, meta.last_write))
    db.execute(ADOPT_META, (str(inode(path)), network is not None))
    db.execute("COMMIT")


def _write_ahead(db: sqlite3.Connection, path: str) -> None:
    """With a write-ahead log readers never wait for a writer, and a commit is one flush of one file."""
    (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreUnusable(f"{path} is on a file system where processes cannot share memory; move it to a local disk")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA fullfsync = ON")  # macOS: through the disk's own cache


def _check(db: sqlite3.Connection, path: str, network: str | None) -> None:
    _check_schema(db, path)
    meta = read_meta(db, path)
    if meta.identity != str(inode(path)):
        raise StoreCopied(
            f"{path} is a copy: with its original in use, both would run everything. To use this one as the store"
            " from now on, make sure that the other is no longer used, then run `cronce store adopt"
            f" {url_of(path)}`"
        )
    if os.stat(path).st_nlink > 1:
        raise StoreCopied(
            f"{path} has a second name (a hard link), and SQLite keeps a log for each: processes that use both would"
            f" destroy it. Find the other with `find -samefile {path}` and remove it"
        )
    if network and not meta.network:
        raise _on_network(path, network)


def _check_schema(db: sqlite3.Connection, path: str) -> None:
    """First of all: the other columns of a newer store may be others."""
    for (schema,) in db.execute("SELECT schema FROM cronce_meta"):
        if schema != sql.SQL_SCHEMA:
            raise _newer(path, schema)


def read_meta(db: sqlite3.Connection, path: str) -> sql.Meta:
    return meta_of(db.execute(SELECT_META).fetchall(), path)


def meta_of(rows: Sequence[sql.Row], path: str) -> sql.Meta:
    """What the first row says."""
    if not rows or type(rows[0][0]) is str:  # the key of a cell
        raise StoreCorrupt(f"{path} has lost the row that says what it is; restore it from a backup")
    meta = sql.read_meta(rows[0])
    if meta.schema != sql.SQL_SCHEMA:
        raise _newer(path, meta.schema)
    return meta


def _newer(path: str, schema: int) -> StoreNewer:
    return StoreNewer(
        f"{path} was written by a newer cronce: its tables are version {schema}, this one knows {sql.SQL_SCHEMA};"
        " upgrade this one"
    )


def _on_network(path: str, kind: str) -> StoreOnNetwork:
    return StoreOnNetwork(
        f"{path} is on a network file system ({kind}): other machines do not see its locks, and each would run"
        " everything. Use a local disk or a database server; if no other machine ever uses this file, run"
        f" `cronce store adopt {url_of(path)}`"
    )


# --- errors ---------------------------------------------------------------------------------------------------------

BUSY_CODES: Final = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL))

SQLITE_ERRORS: Final[dict[int, tuple[type[StoreError], str]]] = {
    sqlite3.SQLITE_READONLY: (StoreReadOnly, "cannot be written; let this user write the file and its directory"),
    sqlite3.SQLITE_PERM: (StoreReadOnly, "cannot be written; let this user write the file and its directory"),
    sqlite3.SQLITE_FULL: (StoreFull, "has no room on its disk and nothing was written; make room"),
    sqlite3.SQLITE_IOERR_WRITE: (StoreFull, "could not grow and nothing was written; is there a quota or limit?"),
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, "is damaged; stop all processes and restore it from a backup"),
    sqlite3.SQLITE_NOTADB: (StoreCorrupt, "is not an SQLite database; name another file, or restore a backup"),
    sqlite3.SQLITE_ERROR: (StoreCorrupt, "is not as cronce left it; restore it from a backup"),
}
NO_ANSWER: Final = (StoreUnavailable, "gave no answer, and a write may have succeeded; check the disk")


def is_busy(error: sqlite3.Error) -> bool:
    return _code(error) & 0xFF in BUSY_CODES


def explained(error: sqlite3.Error, path: AnyPath) -> StoreError:
    code = _code(error)
    if code & 0xFF == sqlite3.SQLITE_CANTOPEN:
        return _cannot_open(path)
    kind, meaning = SQLITE_ERRORS.get(code) or SQLITE_ERRORS.get(code & 0xFF) or NO_ANSWER
    return kind(f"{path} {meaning} ({error})")


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)


def _cannot_open(path: AnyPath) -> StoreError:
    if not os.access(os.path.dirname(path), os.W_OK) or (_mode(path) and not os.access(path, os.R_OK | os.W_OK)):
        return StoreReadOnly(f"{path} cannot be opened; let this user write the file and its directory")
    return StoreUnavailable(
        f"{path} cannot be opened. Possible causes: {os.path.dirname(path)} accepts no new files, the name is too long,"
        " this process has too many open files; use another path: sqlite:////PATH/cronce.db"
    )
