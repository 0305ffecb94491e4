"""cronce dupes: rows of a table that stand there twice, by their key, within a window."""

import argparse
import json
import os
from contextlib import closing
from typing import Any, Final

from cronce.cli.table import Screen, Text, Toned, paint, screen, table
from cronce.errors import BadInput
from cronce.evidence.dupes.look import connect, look
from cronce.evidence.dupes.model import Asked, Duplicate, Found
from cronce.schedule.duration import format_duration, parse_duration
from cronce.schedule.zone import find_zone
from cronce.stores import mask
from cronce.telling.words import fine, iso, short

MOST: Final = 10_000
NOTHING_SEEN: Final = 3
EXAMPLES = """
examples:
  cronce dupes postgresql://shop@db/shop --table orders --key order_id --at created_at --since 30m
  cronce dupes --url-from-env DATABASE_URL --table mails --key order_id,kind --at sent_at --since 1d --within 2s
  cronce dupes sqlite:///shop.db --table orders --key order_id --at created_at --since 30m --json

The database is only read. It exits with 0 when there is no duplicate, 1 when there is one, 2 when a table or a column
is not there, 3 when there is no row to look at though the table has some, 75 when the database cannot be reached or is
not done in time, 78 when it does not let us in.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", nargs="?", metavar="URL", help="postgresql://…, mysql://… or sqlite:///FILE")
    parser.add_argument("--url-from-env", metavar="NAME", help="the variable that holds the URL, and its password")
    parser.add_argument("--table", required=True, metavar="NAME", help="orders, or shop.orders")
    parser.add_argument("--key", required=True, metavar="COLUMNS", help="what is the same: order_id, or order_id,kind")
    parser.add_argument("--at", required=True, metavar="COLUMN", help="when a row was made")
    parser.add_argument("--since", required=True, metavar="SPAN", help="how far to look back, by the database's clock")
    parser.add_argument("--within", metavar="SPAN", help="only rows that were made as near to each other as this")
    parser.add_argument(
        "--tz", default="UTC", metavar="ZONE", help="by whose clocks the column is, if it names no zone (default UTC)"
    )
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="show the N newest (default 50)")
    parser.add_argument("--timeout", default="30s", metavar="SPAN", help="give up after this (default 30s)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    url, asked, zone = _url(options), _asked(options), find_zone(options.tz)
    patience = parse_duration(options.timeout)
    if not patience:
        raise BadInput("--timeout is more than nothing: 30s")
    with closing(connect(url, patience)) as database:
        found = look(database, asked, zone)
    if options.json:
        print(json.dumps(_document(found, asked, url), ensure_ascii=False, default=str))
    else:
        print(_page(found, asked, screen()))
    if found.rows:
        return 1
    return 0 if found.extent.rows or found.extent.is_empty else NOTHING_SEEN


def _url(options: argparse.Namespace) -> str:
    name = options.url_from_env
    if (options.url is None) == (name is None):
        raise BadInput("name one database: URL, or --url-from-env NAME")
    url: str = options.url if name is None else os.environ.get(name, "")
    if "://" not in url:
        at, place = mask(url).rpartition("@")[1:]  # without a scheme, nobody knows a password for one
        shown = f"${name}" if name else repr(f"…@{place}" if at else place)
        raise BadInput(f"{shown} is not the URL of a database: sqlite:///shop.db")
    return url


def _asked(options: argparse.Namespace) -> Asked:
    keys = [key.strip() for key in options.key.split(",")]
    if not all(keys):
        raise BadInput(f"--key {options.key!r} has an empty name in it; write order_id,kind")
    if not 1 <= options.limit <= MOST:
        raise BadInput(f"--limit is 1 to {MOST:,}, and this is {options.limit}")
    within = None if options.within is None else parse_duration(options.within)
    return Asked(options.table, keys, options.at, parse_duration(options.since), within, options.limit)


# --- for people -----------------------------------------------------------------------------------------------------


def _page(found: Found, asked: Asked, on: Screen) -> str:
    query = "\n".join(paint(Toned(line, "dim"), on) for line in f"{found.query};".splitlines())
    return "\n\n".join(filter(None, [query, _rows(found, asked, on), _summary(found, asked, on)]))


def _rows(found: Found, asked: Asked, on: Screen) -> str:
    if not found.rows:
        return ""
    keys = list(found.rows[0].key)
    headers = [*keys, "rows", *(["pairs"] if asked.within is not None else []), "first", "last", "least gap"]
    return table(headers, [_row(one) for one in found.rows], on)


def _row(one: Duplicate) -> list[Text]:
    pairs = [] if one.pairs is None else [f"{one.pairs:,}"]
    gap = short(one.gap) if one.gap else "0s"
    return [*map(str, one.key.values()), Toned(f"{one.rows:,}", "bad"), *pairs, fine(one.first), fine(one.last), gap]


def _summary(found: Found, asked: Asked, on: Screen) -> str:
    if not found.extent.rows:
        return paint(_nothing(found, asked), on)
    near = f" within {format_duration(asked.within)} of each other" if asked.within is not None else ""
    rows = f"{found.extent.rows:,} row{'s' * (found.extent.rows != 1)}"
    where = f"among {rows} {_where(found, asked)}"
    if not found.rows:
        return paint(Toned(f"no {' and '.join(asked.keys)} twice{near} {where}", "good"), on)
    number = f"more than {len(found.rows):,}" if found.more else f"{len(found.rows):,}"
    keys = "key" if len(found.rows) == 1 and not found.more else "keys"
    return paint(Toned(f"{number} {keys} more than once{near} {where}", "bad"), on)


def _nothing(found: Found, asked: Asked) -> Toned:
    """No duplicate, but for want of rows: the zone may be the wrong one, or the column."""
    if found.extent.is_empty:
        return Toned(f"{found.table} is empty", "good")
    if found.extent.newest is None:
        return Toned(f"nothing to look at: no row in {found.table} has a time in {asked.at} and a key", "odd")
    newest = f"the newest is of {fine(found.extent.newest)} (--tz says by whose clocks, --since how far to look back)"
    return Toned(f"nothing to look at: no row {_where(found, asked)}; {newest}", "odd")


def _where(found: Found, asked: Asked) -> str:
    return f"in {found.table} since {fine(found.since)} ({format_duration(asked.since)})"


# --- for programs ---------------------------------------------------------------------------------------------------


def _document(found: Found, asked: Asked, url: str) -> dict[str, Any]:
    return {
        "url": mask(url),
        "table": found.table,
        "since": iso(found.since),
        "within_ms": None if asked.within is None else asked.within.total_seconds() * 1000,
        "query": found.query,
        "looked_at": found.extent.rows,
        "newest": iso(found.extent.newest),
        "duplicates": [_duplicate(one) for one in found.rows],
        "more": found.more,
    }


def _duplicate(one: Duplicate) -> dict[str, Any]:
    return {
        "key": dict(one.key),
        "rows": one.rows,
        "pairs": one.pairs,
        "first": iso(one.first),
        "last": iso(one.last),
        "gap_ms": one.gap.total_seconds() * 1000,
    }
