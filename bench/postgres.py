"""PostgreSQL: what the seam costs next to the least that psycopg and the server need for the same rows.

*Bare* speaks psycopg in autocommit, durable as ours, on a table with the same columns and the same indexes as ours.

- A pair is `INSERT … ON CONFLICT DO NOTHING` with the values of a claim, then an `UPDATE` of that row with those of its
  finish: two transactions, of one row, also where ours are of two (a run and its turn).
- A batch is one `INSERT … SELECT FROM unnest(…)` of the same rows in the same order: lists of texts in binary, which is
  how psycopg spells them fastest, and numbers as the spelling of an array, made in advance. It returns nothing, and
  would fail if one of the rows were there.
"""

import atexit
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import cache
from typing import Any, Final

import psycopg

from bench import seam
from bench.harness import Unavailable
from cronce.model import Cell, to_us
from cronce.protocol.record import encode
from cronce.stores import open_store
from cronce.stores.base import Store
from cronce.stores.postgres import PostgresStore
from tests.servers.postgres import Postgres

SETTINGS: Final = {"shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "1h"}


class Bare:
    """The same rows, by hand."""

    def __init__(self, db: "psycopg.Connection[Any]", schema: str) -> None:
        self.db = db
        self.insert = INSERT.replace("{schema}", schema)
        self.update = UPDATE.replace("{schema}", schema)
        self.unnest = UNNEST.replace("{schema}", schema)
        self.columns: list[Any] = []

    def pair(self, claimed: Cell, finished: Cell) -> None:
        self.db.execute(self.insert, _row(claimed))
        self.db.execute(self.update, (finished.version, finished.mark.value, finished.value, finished.key))

    def prepare(self, cells: Sequence[Cell]) -> None:
        keys, values, *numbers = zip(*map(_row, cells), strict=True)
        self.columns = [list(keys), list(values), *map(_spelled, numbers)]

    def batch(self) -> None:
        self.db.execute(self.unnest, self.columns)


def _row(cell: Cell) -> tuple[Any, ...]:
    assert cell.fence is not None
    return (cell.key, cell.value, cell.version, cell.mark.value, _us(cell.at), _us(cell.until), *cell.fence)


def _us(instant: Any) -> int | None:
    return None if instant is None else to_us(instant)


def _spelled(numbers: Sequence[int | None]) -> str:
    return "{" + ",".join("NULL" if number is None else str(number) for number in numbers) + "}"


COLUMNS: Final = "(key, value, version, mark, at, until, fence_birth, fence_number)"
INSERT: Final = f"""
    INSERT INTO {{schema}}.cronce_cells {COLUMNS} VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (key) DO NOTHING
"""
UPDATE: Final = "UPDATE {schema}.cronce_cells SET version = %s, mark = %s, value = %s WHERE key = %s"
UNNEST: Final = f"""
    INSERT INTO {{schema}}.cronce_cells {COLUMNS}
    SELECT * FROM unnest(
        %b::text[], %b::text[], %s::bigint[], %s::smallint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[]
    )
"""


@contextmanager
def server(**settings: str) -> Iterator[Postgres]:
    try:
        postgres = Postgres(**SETTINGS, **settings)
    except BaseException as missing:  # pytest's way to skip
        raise Unavailable(f"needs PostgreSQL: {missing}") from missing
    try:
        yield postgres.start()
    finally:
        postgres.close()


@contextmanager
def opened() -> Iterator[tuple[Store, Bare]]:
    with server() as postgres:
        store = open_store(f"{postgres.url}?schema=ours")
        open_store(f"{postgres.url}?schema=bare").close()  # the same table
        with psycopg.connect(postgres.url, autocommit=True, prepare_threshold=None) as db:
            yield store, Bare(db, "bare")
        store.close()


# --- a million runs -------------------------------------------------------------------------------------------------

FILL: Final = """
    INSERT INTO public.cronce_cells (key, version, mark, at, until, fence_birth, fence_number, value)
    SELECT 'run/job-' || n %% 1000 || '/' || to_char(timestamp '2020-01-01' + n / 1000 * interval '1 minute',
               'YYYY-MM-DD"T"HH24:MI:SS"Z"'), n,
           CASE WHEN n %% 1000 = 7 THEN 1 WHEN n %% 5000 = 13 THEN 4 ELSE 3 END,
           1577836800000000 + n / 1000 * 60000000, 1577836800000000 + n / 1000 * 60000000 + 300000000, 1, n, %s
    FROM generate_series(1, %s::bigint) AS n
"""
"""A thousand open runs, 800 that lapsed long ago; 200 that want attention; the rest closed."""


@cache
def filled() -> PostgresStore:
    """One for all scans, until the end: to write a million runs takes longer than to look for them."""
    until_the_end = ExitStack()
    atexit.register(until_the_end.close)
    postgres = until_the_end.enter_context(server())
    store = open_store(postgres.url)
    assert isinstance(store, PostgresStore)
    until_the_end.callback(store.close)
    with psycopg.connect(postgres.url, autocommit=True) as db:
        db.execute(FILL, (encode(seam.closed(seam.record())), seam.RUNS))
        db.execute("VACUUM ANALYZE public.cronce_cells")
    return store


BENCHMARKS = [
    *seam.benchmarks(
        opened,
        pair=(0.8, 0.65),
        batch=(0.65, 0.5),
        losing=(1.4, 1.6),
        cpu=(3, 6),
        bare_pair="INSERT ON CONFLICT DO NOTHING, then UPDATE, of one row, a transaction each, same table and psycopg",
        bare_batch="one INSERT SELECT unnest of the same rows, same table, psycopg; nothing returned",
    ),
    *seam.scans(filled, lapsed=seam.START + timedelta(minutes=800)),
]

if __name__ == "__main__":
    from bench.__main__ import main

    sys.exit(main(["postgres"]))
