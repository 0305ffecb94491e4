"""The nouns: what is asked, what a column of time is like, and what is found."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, Protocol

from cronce.model import Instant
from cronce.value import NamedTuple

FINER_UNITS: Final = ((1e14, timedelta(microseconds=1)), (1e11, timedelta(milliseconds=1)))
"""In seconds, the year 5138 begins the second of these; thousandths passed it in 1973."""

NO_TIME: Final = 1e18
"""No time in any of these units; nor is what is more, infinity, or what PostgreSQL sorts after that (NaN)."""

SLACK: Final = 5.0
"""Seconds by which we wait longer than the server works, so that it can say so."""


class DuplicatesQuery(NamedTuple):
    """Rows of `table` with the same `keys`, as of `since` before now; `within`: only such that are that near."""

    table: str
    keys: Sequence[str]
    at: str
    since: timedelta
    within: timedelta | None
    most: int


class DatabaseTable(NamedTuple):
    """`schema` is "" where a database has none, or only one."""

    name: str
    schema: str = ""

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


class TimeKind(StrEnum):
    """How a column says when: as an instant, as clocks on a wall show it, or as a number since 1970."""

    INSTANT = "instant"
    WALL = "wall"
    NUMBER = "number"


class TimeColumn(NamedTuple):
    """A column of time. `unit` is what one of a number is; `text`: SQLite keeps it as text."""

    column: str
    kind: TimeKind
    unit: timedelta = timedelta(seconds=1)
    text: bool = False


def unit_of(largest: Any) -> timedelta:
    """Of numbers since 1970, what one is where this is the largest; of no rows at all any will do."""
    units = (unit for least, unit in FINER_UNITS if largest is not None and float(largest) > least)
    return next(units, timedelta(seconds=1))


class DuplicateRow(NamedTuple):
    """A key, how many rows have it, when the first and the last were made, and the least gap between two of them.
    `pairs` counts neighbours within the span that was asked for."""

    key: Sequence[Any]
    rows: int
    first: Any
    last: Any
    gap: float
    pairs: int = 0


class SearchedRows(NamedTuple):
    """How much was looked at. Where that is nothing: when the `newest` row was made that has a time, and a key; and
    whether there is no row at all."""

    rows: int
    newest: Instant | None = None
    is_empty: bool = False


class DuplicatesFound(NamedTuple):
    """`more`: there are more than were asked for. `query` is the statement as a person would type it."""

    table: str
    since: Instant
    query: str
    extent: SearchedRows
    rows: Sequence["Duplicate"]
    more: bool


class Duplicate(NamedTuple):
    key: Mapping[str, Any]
    rows: int
    first: Instant
    last: Instant
    gap: timedelta
    pairs: int | None


class ReadOnlyDatabase(Protocol):
    """A database that is only read: each call is part of one transaction that cannot write."""

    @property
    def dialect(self) -> "QueryDialect": ...

    def now(self) -> Instant: ...

    def tables(self) -> Sequence[DatabaseTable]:
        """Those that may be meant; the first of two with one name is the one that a plain name means."""
        ...

    def columns(self, table: DatabaseTable) -> Mapping[str, str]:
        """The columns and their types."""
        ...

    def time(self, table: DatabaseTable, column: str, declared: str, /) -> TimeColumn | None:
        """How the column says when; None: it does not."""
        ...

    def ask(self, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]: ...

    def close(self) -> None: ...


class QueryDialect(Protocol):
    """What differs between databases in the one statement that is asked."""

    def quoted(self, name: str) -> str: ...

    def slot(self, name: str) -> str:
        """Where a value of that name is bound."""
        ...

    def moment(self, time: TimeColumn) -> str:
        """The column as something that can be compared, and subtracted."""
        ...

    def edge(self, time: TimeColumn, name: str, /) -> str:
        """A moment of the same kind; `{name}` is the value."""
        ...

    def seconds(self, time: TimeColumn, before: str, after: str) -> str:
        """How many seconds lie between two moments."""
        ...
