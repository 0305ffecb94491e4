"""Looking: names are found in the catalogue, the one statement is asked, and its rows are put into words of ours."""

from collections.abc import Collection, Sequence
from datetime import timedelta, tzinfo
from difflib import get_close_matches
from importlib import import_module
from typing import Final, cast

from cronce.errors import BadInput
from cronce.evidence.model import (
    DatabaseTable,
    Duplicate,
    DuplicateRow,
    DuplicatesFound,
    DuplicatesQuery,
    ReadOnlyDatabase,
    SearchedRows,
    TimeColumn,
)
from cronce.evidence.statement import bound, extent, instant, shown, some_row, statement, values
from cronce.model import EPOCH, Instant
from cronce.stores import mask, scheme_of

DATABASES: Final = {
    "sqlite": "sqlite",
    **dict.fromkeys(("postgresql", "postgres"), "postgres"),
    **dict.fromkeys(("mysql", "mariadb"), "mysql"),
}


def connect(url: str, patience: timedelta) -> ReadOnlyDatabase:
    """The database that a URL names, to be read only. No statement takes longer than `patience`."""
    scheme = scheme_of(url)
    if scheme not in DATABASES:
        raise BadInput(f"{mask(url)!r}: dupes reads postgresql://, mysql:// and sqlite:///, and no {scheme!r}")
    module = import_module(f"cronce.evidence.{DATABASES[scheme]}")
    return cast(ReadOnlyDatabase, module.connect(url, patience))


def look(database: ReadOnlyDatabase, asked: DuplicatesQuery, zone: tzinfo) -> DuplicatesFound:
    """`zone`: by whose clocks a column is that names none."""
    table = _table(asked.table, database.tables())
    asked, time = _columns(asked, table, database)
    since = database.now() - asked.since
    text, given = statement(asked, table, time, database.dialect), values(asked, time, since, zone)
    rows = database.ask(bound(text, database.dialect), given)
    duplicates = [_duplicate(row, asked, time, zone) for row in rows[: asked.most]]
    looked_at = _extent(database, asked, table, time=time, since=since, zone=zone)
    return DuplicatesFound(str(table), since, shown(text, given), looked_at, duplicates, len(rows) > asked.most)


def _extent(
    database: ReadOnlyDatabase,
    asked: DuplicatesQuery,
    table: DatabaseTable,
    *,
    time: TimeColumn,
    since: Instant,
    zone: tzinfo,
) -> SearchedRows:
    """No duplicate among no rows is no good news: then the table is looked at as a whole, for what may be wrong."""
    text = bound(extent(asked, table, time, database.dialect), database.dialect)
    ((rows, _),) = database.ask(text, values(asked, time, since, zone))
    if rows:
        return SearchedRows(rows)
    ((_, newest),) = database.ask(text, values(asked, time, EPOCH, zone))
    some = database.ask(bound(some_row(table, database.dialect), database.dialect), {})
    return SearchedRows(0, None if newest is None else instant(newest, time, zone), is_empty=not some)


def _table(name: str, tables: Sequence[DatabaseTable]) -> DatabaseTable:
    known = {table.name: table for table in reversed(tables)}
    if "." in name:
        known = {str(table): table for table in tables} | known
    return known[_meant(name, known, "table", "the database")]


def _columns(
    asked: DuplicatesQuery, table: DatabaseTable, database: ReadOnlyDatabase
) -> tuple[DuplicatesQuery, TimeColumn]:
    """The question in the catalogue's own spelling."""
    known = database.columns(table)
    *keys, at = (_meant(name, known, "column", str(table)) for name in (*asked.keys, asked.at))
    if len({*keys, at}) < len(asked.keys) + 1:
        raise BadInput(f"a column is named twice among the key ({', '.join(keys)}) and the time ({at})")
    time = database.time(table, at, known[at])
    if time is None:
        raise BadInput(
            f"{table}.{at} is {known[at] or 'of no type'}: it does not hold a time to the second. Name a column with a"
            " time stamp, or a number of seconds or thousandths since 1970"
        )
    return asked._replace(keys=keys), time


def _meant(name: str, known: Collection[str], what: str, where: str) -> str:
    """The name as the catalogue has it; small letters and capitals only matter where there are both."""
    alike = [each for each in known if each.casefold() == name.casefold()]
    if name in known or len(alike) == 1:
        return name if name in known else alike[0]
    near = alike or get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there is {', '.join(sorted(known)[:20]) or 'none'}"
    raise BadInput(f"{where} has no {what} {name!r}; {hint}")


def _duplicate(values: Sequence[object], asked: DuplicatesQuery, time: TimeColumn, zone: tzinfo) -> Duplicate:
    size = len(asked.keys)
    row = DuplicateRow(values[:size], *values[size:])  # type: ignore[arg-type]
    key = dict(zip(asked.keys, row.key, strict=True))
    gap = timedelta(seconds=round(float(row.gap), 6))
    pairs = None if asked.within is None else int(row.pairs)
    return Duplicate(key, row.rows, instant(row.first, time, zone), instant(row.last, time, zone), gap, pairs)
