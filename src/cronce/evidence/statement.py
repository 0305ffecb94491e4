"""The one statement: keys that repeat, and the least gap between neighbours. Pure: names and values in, text out."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final, cast

from cronce.evidence.model import DatabaseTable, DuplicatesQuery, QueryDialect, TimeColumn, TimeKind
from cronce.model import EPOCH, Instant

STATEMENT: Final = """\
SELECT {keys}, count(*), min(at_), max(at_), min(gap_){pairs}
FROM (
    SELECT {keys}, {moment} AS at_, {gap} AS gap_
    FROM {table}
    WHERE {window}
    WINDOW by_key AS (PARTITION BY {keys} ORDER BY {moment})
) AS seen
GROUP BY {keys}
HAVING count(*) > 1{near}
ORDER BY max(at_) DESC, {keys}
LIMIT {{most}}"""
EXTENT: Final = "SELECT count(*), max({moment}) FROM {table} WHERE {window}"
WINDOW: Final = "{moment} >= {since} AND {moment} < {until} AND {known}"
PAIRS: Final = ", sum(CASE WHEN gap_ <= {within} THEN 1 ELSE 0 END)"
WITHIN_CLAUSE: Final = " AND min(gap_) <= {within}"
UNTIL: Final = datetime(9999, 12, 30, tzinfo=UTC)
"""What is later is no time: `infinity`, a NaN, a date that stands for "never"."""


def statement(asked: DuplicatesQuery, table: DatabaseTable, time: TimeColumn, dialect: QueryDialect) -> str:
    """The statement, with `{since}`, `{until}`, `{within}` and `{most}` where values go. One row more than asked for
    tells that there are more."""
    parts, near = _parts(asked, table, time, dialect), asked.within is not None
    moment = parts["moment"]
    gap = dialect.seconds(time, f"lag({moment}) OVER by_key", moment)
    return STATEMENT.format(**parts, gap=gap, pairs=PAIRS if near else "", near=WITHIN_CLAUSE if near else "")


def extent(asked: DuplicatesQuery, table: DatabaseTable, time: TimeColumn, dialect: QueryDialect) -> str:
    """How many rows that statement looks at, and when the newest of them was made."""
    return EXTENT.format(**_parts(asked, table, time, dialect))


def some_row(table: DatabaseTable, dialect: QueryDialect) -> str:
    return f"SELECT 1 FROM {_unformatted(spelled(table, dialect))} LIMIT 1"  # noqa: S608  quoted


def _parts(asked: DuplicatesQuery, table: DatabaseTable, time: TimeColumn, dialect: QueryDialect) -> dict[str, str]:
    keys = [_name(key, dialect) for key in asked.keys]
    moment = dialect.moment(time._replace(column=_name(time.column, dialect)))
    known = " AND ".join(f"{key} IS NOT NULL" for key in keys)
    since, until = (dialect.edge(time, name) for name in ("since", "until"))
    return {
        "keys": ", ".join(keys),
        "moment": moment,
        "table": _unformatted(spelled(table, dialect)),
        "window": WINDOW.format(moment=moment, since=since, until=until, known=known),
    }


def values(asked: DuplicatesQuery, time: TimeColumn, since: Instant, zone: tzinfo) -> dict[str, Any]:
    given = {"since": _bound(since, time, zone), "until": _bound(UNTIL, time, zone), "most": asked.most + 1}
    return given if asked.within is None else {**given, "within": asked.within.total_seconds()}


def bound(text: str, dialect: QueryDialect) -> str:
    """The statement as a driver takes it. One that binds by % would take a name's for its own."""
    if "%" in dialect.slot(""):
        text = text.replace("%", "%%")
    return text.format(**{name: dialect.slot(name) for name in ("since", "until", "within", "most")})


def shown(text: str, values: Mapping[str, Any]) -> str:
    """The statement as a person would type it."""
    return text.format(**{name: f"'{value}'" if isinstance(value, str) else value for name, value in values.items()})


def instant(value: Any, time: TimeColumn, zone: tzinfo) -> Instant:
    """What the database says of a moment: a datetime with or without its zone, or a number."""
    if time.kind is TimeKind.NUMBER:
        return EPOCH + float(value) * time.unit
    if not isinstance(value, datetime):  # days since noon of a Monday in 4714 BC, as SQLite counts
        milliseconds = round((float(value) - 2440587.5) * 86_400_000)
        value = (EPOCH + timedelta(milliseconds=milliseconds)).replace(tzinfo=None)
    moment = value if value.tzinfo else value.replace(tzinfo=zone if time.kind is TimeKind.WALL else UTC)
    return cast(datetime, moment).astimezone(UTC)


def _bound(since: Instant, time: TimeColumn, zone: tzinfo) -> Any:
    if time.kind is TimeKind.NUMBER:
        return (since - EPOCH) // time.unit
    local = since.astimezone(zone if time.kind is TimeKind.WALL else UTC).replace(tzinfo=None)
    text = local.isoformat(" ", timespec="milliseconds")
    return text if time.kind is TimeKind.WALL or time.text else f"{text}+00:00"


def spelled(table: DatabaseTable, dialect: QueryDialect) -> str:
    return ".".join(dialect.quoted(part) for part in (table.schema, table.name) if part)


def _name(name: str, dialect: QueryDialect) -> str:
    return _unformatted(dialect.quoted(name))


def _unformatted(quoted: str) -> str:
    """Safe from what fills in the values."""
    return quoted.replace("{", "{{").replace("}", "}}")
