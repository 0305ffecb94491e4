"""A database that receives effects: a repeat is found by its key, and a run that was taken over by its fence.

    receiver = PostgreSQL()                                # or MySQL(), SQLite()
    with connection.transaction():
        if receiver.first(cursor, key):                    # it was not done before
            ...                                            # the effects, in the same transaction

Each call uses a cursor of the transaction that makes the effect, before or with it. It locks a row until that ends, so
a concurrent one waits for the outcome; a rollback undoes it. In autocommit it promises nothing: the key would be on
record before its effect.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Protocol

from cronce.errors import BadInput
from cronce.model import Fence, read_fence

MAX_SCOPE_BYTES: Final = 1000
"""Bytes of a key or a scope. A MySQL that is not strict would cut a longer one short, and take it for another."""

Columns = Mapping[str, object]


class DatabaseCursor(Protocol):
    """Of a DB-API driver, of Django, or of any other that has these three."""

    @property
    def rowcount(self) -> int: ...
    def execute(self, statement: Any, parameters: Any, /) -> Any: ...
    def fetchone(self) -> Any: ...


def _tables(key: str, at: str, fence: str, more: str = "") -> tuple[str, str]:
    """By the types of a key, of when it was written, and of a fence."""
    return (
        f"""CREATE TABLE IF NOT EXISTS cronce_keys (
    idempotency_key {key} PRIMARY KEY,
    at {at}
){more}""",
        f"""CREATE TABLE IF NOT EXISTS cronce_fences (
    scope {key} PRIMARY KEY,
    fence {fence} NOT NULL
){more}""",
    )


class Receiver:
    """What the databases have in common. It holds no connection, and each call is given a cursor.

    `placeholder` is the driver's, where it is not the usual one: Django uses `%s` for SQLite too. Names of tables and
    columns are quoted, so give them in the same case as in the database.
    """

    placeholder: ClassVar[str] = "%s"
    quote: ClassVar[str] = '"'
    fence_type: ClassVar[str]
    tables: ClassVar[tuple[str, str]]
    """What `first` and `admit` need, for a migration; it may be run again. All of it compares bytewise: to a collation
    of words "a" may be "A", or "a ", and 10 may come after 9."""

    def __init__(self, placeholder: str = "") -> None:
        self._mark = placeholder or self.placeholder
        if self._mark not in ("%s", "?"):
            raise BadInput(f"a placeholder must be %s or ?, not {placeholder!r:.60}")
        self.predicate = f"({self._name('fence')} IS NULL OR {self._name('fence')} <= {self._mark})"
        """For an UPDATE of your own that also sets the fence: true where no later fence has written."""

    def fence_column(self, table: str) -> str:
        """What `put` and `update` need in a table of yours, for a migration."""
        return f"ALTER TABLE {self._name(table)} ADD COLUMN {self._name('fence')} {self.fence_type}"

    def first(
        self, cursor: DatabaseCursor, key: str, *, table: str = "cronce_keys", column: str = "idempotency_key"
    ) -> bool:
        """Put the key on record. False: it is there already, so skip the effects.

        The table may be yours, such as job_results(job_run_id), if that column is unique and compares bytewise.
        """
        statement = f"{self._insert(table, [column])} ON CONFLICT ({self._name(column)}) DO NOTHING"
        cursor.execute(statement, [_text("key", key)])
        return cursor.rowcount > 0

    def admit(self, cursor: DatabaseCursor, scope: str, fence: Fence | str) -> bool:
        """Whether no later fence was admitted in this scope, for effects of any kind. The highest fence is in a table
        of its own, and its row is locked: one transaction of a scope at a time."""
        return self.put(cursor, "cronce_fences", {"scope": _text("scope", scope)}, {}, fence)

    def put(self, cursor: DatabaseCursor, table: str, key: Columns, values: Columns, fence: Fence | str) -> bool:
        """Insert the row with that unique key, or change it unless a later fence wrote it. False: one did."""
        row = _row(key, values, fence)
        changes = ", ".join(f"{name} = excluded.{name}" for name in map(self._name, [*values, "fence"]))
        kept, new = (f"{place}.{self._name('fence')}" for place in ("kept", "excluded"))
        statement = (
            f"{self._insert(table, row, alias=' AS kept')} ON CONFLICT ({', '.join(map(self._name, key))})"
            f" DO UPDATE SET {changes} WHERE {kept} IS NULL OR {kept} <= {new}"
        )
        cursor.execute(statement, [*row.values()])
        return self._wrote(cursor, table, key, fence)

    def update(self, cursor: DatabaseCursor, table: str, key: Columns, values: Columns, fence: Fence | str) -> bool:
        """Change the row with that key unless a later fence wrote it: a compare-and-swap. False: one did, or there is
        no such row."""
        written = _row({}, values, fence)
        changes = ", ".join(f"{self._name(name)} = {self._mark}" for name in written)
        statement = f"UPDATE {self._name(table)} SET {changes} WHERE {self._is(key)} AND {self.predicate}"  # noqa: S608
        cursor.execute(statement, [*written.values(), *key.values(), str(fence)])
        return self._wrote(cursor, table, key, fence)

    def _wrote(self, cursor: DatabaseCursor, _table: str, _key: Columns, _fence: Fence | str) -> bool:
        """Whether the statement just executed wrote its row."""
        return cursor.rowcount > 0

    # --- text ---

    def _insert(self, table: str, columns: Iterable[str], alias: str = "") -> str:
        names = [self._name(column) for column in columns]
        marks = ", ".join(self._mark for _ in names)
        return f"INSERT INTO {self._name(table)}{alias} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608

    def _is(self, key: Columns) -> str:
        return " AND ".join(f"{self._name(name)} = {self._mark}" for name in key)

    def _name(self, name: str) -> str:
        """A table or a column, with its schema if it has one, checked and quoted."""
        parts = name.split(".") if isinstance(name, str) else []
        if not 1 <= len(parts) <= 2 or not all(re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,62}", part) for part in parts):
            raise BadInput(f"{name!r:.60} cannot be the name of a table or a column: use letters, digits and _")
        return ".".join(f"{self.quote}{part}{self.quote}" for part in parts)


class PostgreSQL(Receiver):
    fence_type = 'text COLLATE "C"'
    tables = _tables(fence_type, "timestamptz NOT NULL DEFAULT now()", fence_type)


class SQLite(Receiver):
    placeholder = "?"
    fence_type = "TEXT"
    tables = _tables("TEXT NOT NULL", "TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP", fence_type)


class MySQL(Receiver):
    """And MariaDB. What it counts as a row depends on how the connection was opened (`CLIENT_FOUND_ROWS`: Django,
    SQLAlchemy and JDBC set it, PyMySQL does not), so `ON DUPLICATE KEY UPDATE` may report 1 for a row that it left
    alone, and `UPDATE` 0 for one that it found. `INSERT IGNORE` counts well, but turns all other errors into warnings.
    So a repeat is known by its error, and who wrote a row by reading it."""

    quote = "`"
    fence_type = "CHAR(27) CHARACTER SET ascii COLLATE ascii_bin"
    tables = _tables(
        "VARBINARY(1000) NOT NULL", "TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP", fence_type, " ENGINE = InnoDB"
    )
    _DUPLICATE: Final = 1062

    def first(
        self, cursor: DatabaseCursor, key: str, *, table: str = "cronce_keys", column: str = "idempotency_key"
    ) -> bool:
        try:
            cursor.execute(self._insert(table, [column]), [_text("key", key)])
        except Exception as problem:  # it undoes this statement alone, and the transaction goes on
            if self._DUPLICATE not in (getattr(problem, "errno", None), *problem.args[:1]):
                raise
            there = f"SELECT 1 FROM {self._name(table)} WHERE {self._is({column: key})} LOCK IN SHARE MODE"  # noqa: S608
            cursor.execute(there, [key])
            if cursor.fetchone() is None:  # it is another unique column that has its value already
                raise
            return False
        return True

    def put(self, cursor: DatabaseCursor, table: str, key: Columns, values: Columns, fence: Fence | str) -> bool:
        row, written = _row(key, values, fence), _row({}, values, fence)
        changes = ", ".join(f"{name} = IF({self.predicate}, {self._mark}, {name})" for name in map(self._name, written))
        again = [part for value in written.values() for part in (str(fence), value)]
        cursor.execute(f"{self._insert(table, row)} ON DUPLICATE KEY UPDATE {changes}", [*row.values(), *again])
        return self._wrote(cursor, table, key, fence)

    def _wrote(self, cursor: DatabaseCursor, table: str, key: Columns, fence: Fence | str) -> bool:
        """A locking read sees what is there; any other, what was there when the transaction began to read."""
        ours = f"{self._is(key)} AND {self._name('fence')} = {self._mark}"
        cursor.execute(f"SELECT 1 FROM {self._name(table)} WHERE {ours} FOR UPDATE", [*key.values(), str(fence)])  # noqa: S608
        return cursor.fetchone() is not None


def _row(key: Columns, values: Columns, fence: Fence | str) -> dict[str, object]:
    """A malformed fence would refuse all others for ever, so it is checked before it is written."""
    if "fence" in key or "fence" in values:
        raise BadInput("pass the fence as its own argument, not among the columns")
    return {**key, **values, "fence": str(read_fence(str(fence)))}


def _text(what: str, value: str) -> str:
    if not isinstance(value, str) or not 0 < len(value.encode()) <= MAX_SCOPE_BYTES:
        raise BadInput(f"a {what} is a text of 1 to {MAX_SCOPE_BYTES:,} bytes, not {value!r:.60}")
    return value
