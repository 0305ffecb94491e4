"""A database refuses a repeat by its key, and a run that was overtaken by its fence: on real servers, and in races."""

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cronce.errors import BadInput
from cronce.model import Fence
from cronce.receivers.sql import PostgreSQL, SQLite
from tests.receivers.databases import Database, mysql, mysql_that_counts_found_rows, postgresql, sqlite
from tests.stores.places import name_of

OLD, NEW, NEWEST = Fence(1_774_746_000_000_000, 9), Fence(1_774_746_000_000_000, 10), Fence(1_774_746_000_000_001, 1)
COUNTING = pytest.mark.parametrize("base", ["postgresql", "mysql", "mysql, found rows", "sqlite"], indirect=True)
"""For what rests on row counts: MySQL has two ways to count."""

KEY = "billing@2026-03-29T01:00:00Z/invoice-7"


@pytest.fixture(params=["postgresql", "mysql", "sqlite"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """A database with the receiver's tables, and those of an application."""
    name = name_of(tmp_path)
    match request.param:
        case "postgresql":
            made = postgresql(request.getfixturevalue("postgres").url, name)
        case "mysql":
            made = mysql(request.getfixturevalue("mysql_url"), name)
        case "mysql, found rows":
            made = mysql_that_counts_found_rows(request.getfixturevalue("mysql_url"), name)
        case _:
            made = sqlite(tmp_path)
    accounts = "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER)"
    records = "CREATE TABLE records (day VARCHAR(10), total INTEGER)"
    made.run(*made.receiver.tables, accounts, made.receiver.fence_column("accounts"), records)
    return made


def first(base: Database, key: str, **where: str) -> bool:
    with base.transaction() as cursor:
        return base.receiver.first(cursor, key, **where)


def admit(base: Database, scope: str, fence: Fence | str) -> bool:
    with base.transaction() as cursor:
        return base.receiver.admit(cursor, scope, fence)


def put(base: Database, balance: int, fence: Fence) -> bool:
    with base.transaction() as cursor:
        return base.receiver.put(cursor, "accounts", {"id": 7}, {"balance": balance}, fence)


def update(base: Database, balance: int, fence: Fence) -> bool:
    with base.transaction() as cursor:
        return base.receiver.update(cursor, "accounts", {"id": 7}, {"balance": balance}, fence)


def account(base: Database) -> list[tuple[Any, ...]]:
    return base.rows("SELECT balance, fence FROM accounts WHERE id = 7")


# --- by key ---------------------------------------------------------------------------------------------------------


@COUNTING
def test_a_key_is_first_once_and_its_repeat_leaves_the_transaction_whole(base: Database) -> None:
    assert first(base, KEY) is True
    with base.transaction() as cursor:
        assert base.receiver.first(cursor, KEY) is False
        assert base.receiver.first(cursor, f"{KEY}b") is True
    assert base.rows("SELECT count(*) FROM cronce_keys") == [(2,)]


def test_what_was_rolled_back_was_never_said(base: Database) -> None:
    with closing(base.connect()) as connection:
        assert base.receiver.first(connection.cursor(), KEY) is True
        connection.rollback()
    assert first(base, KEY) is True


def test_keys_are_compared_bytewise(base: Database) -> None:
    keys = ["a", "A", "a ", "ä", "ae", "%s", "?", "'; DROP TABLE cronce_keys; --", "k" * 1000]
    assert [first(base, key) for key in keys] == [True] * len(keys)
    assert [first(base, key) for key in keys] == [False] * len(keys)


def test_a_row_of_results_by_run_id_says_whether_to_skip(base: Database) -> None:
    """The seeds' job_results(job_run_id): nothing inserted, so the effects are skipped."""
    base.run("CREATE TABLE job_results (job_run_id VARCHAR(200) PRIMARY KEY, processed_at VARCHAR(30) DEFAULT 'now')")
    run_id = "nightly@2026-03-29T01:00:00Z"
    assert [first(base, run_id, table="job_results", column="job_run_id") for _ in range(3)] == [True, False, False]
    assert base.rows("SELECT job_run_id, processed_at FROM job_results") == [(run_id, "now")]


def test_a_daily_job_that_runs_again_leaves_no_second_record(base: Database) -> None:
    for key in ("totals@2026-03-28T01:00:00Z", "totals@2026-03-29T01:00:00Z", "totals@2026-03-29T01:00:00Z"):
        with base.transaction() as cursor:
            if base.receiver.first(cursor, key):
                cursor.execute(f"INSERT INTO records (day, total) VALUES ('{key[7:17]}', 5)")
    assert sorted(base.rows("SELECT day, total FROM records")) == [("2026-03-28", 5), ("2026-03-29", 5)]


def test_eight_consumers_of_one_message_make_one_effect(base: Database) -> None:
    """A message that was delivered eight times at once: key and effect are committed together, seven do nothing."""
    together = threading.Barrier(8)

    def consume(number: int) -> bool:
        together.wait()
        with base.transaction() as cursor:
            mine = base.receiver.first(cursor, "message-4711")
            if mine:
                cursor.execute(f"INSERT INTO records (day, total) VALUES ('{number}', 1)")
            return mine

    assert _at_once(consume, 8).count(True) == 1
    assert len(base.rows("SELECT * FROM records")) == 1


def test_another_error_is_no_repeat(base: Database) -> None:
    with pytest.raises(Exception, match=r"(?i)no_such_table"):
        first(base, KEY, table="no_such_table")


# --- by fence -------------------------------------------------------------------------------------------------------


@COUNTING
def test_a_lower_fence_is_refused_in_its_scope_and_in_no_other(base: Database) -> None:
    assert admit(base, "billing", NEW) is True
    assert admit(base, "billing", NEW) is True  # the same run, once more
    assert admit(base, "billing", OLD) is False
    assert admit(base, "Billing", OLD) is True
    assert admit(base, "billing", str(NEWEST)) is True  # as a header or a variable says it
    assert admit(base, "billing", NEW) is False
    assert sorted(fence for (fence,) in base.rows("SELECT fence FROM cronce_fences")) == [str(OLD), str(NEWEST)]


@COUNTING
def test_an_update_is_a_compare_and_swap_on_the_fence(base: Database) -> None:
    assert update(base, 1, NEW) is False  # there is no such row
    base.run("INSERT INTO accounts (id, balance) VALUES (7, 0), (8, 0)")
    assert update(base, 100, NEW) is True  # nobody's fence was there
    assert update(base, 100, NEW) is True  # the same run, with nothing to change
    assert update(base, 50, OLD) is False
    assert account(base) == [(100, str(NEW))]
    assert update(base, 50, NEWEST) is True
    assert base.rows("SELECT id, balance, fence FROM accounts ORDER BY id") == [(7, 50, str(NEWEST)), (8, 0, None)]


@COUNTING
def test_an_upsert_writes_all_or_nothing(base: Database) -> None:
    assert put(base, 100, NEW) is True
    assert put(base, 100, NEW) is True
    assert put(base, 50, OLD) is False
    assert account(base) == [(100, str(NEW))]
    assert put(base, 50, NEWEST) is True
    assert account(base) == [(50, str(NEWEST))]
    base.run("UPDATE accounts SET fence = NULL")
    assert put(base, 1, OLD) is True


def test_the_predicate_serves_an_update_of_ones_own(base: Database) -> None:
    base.run("INSERT INTO accounts (id, balance) VALUES (7, 0)")
    mark = base.receiver.placeholder
    for fence in (NEW, OLD, NEW):
        with base.transaction() as cursor:
            statement = f"UPDATE accounts SET balance = balance + 5, fence = {mark} WHERE id = 7 AND "
            cursor.execute(statement + base.receiver.predicate, [str(fence), str(fence)])
            assert cursor.rowcount == (0 if fence == OLD else 1)
    assert account(base) == [(10, str(NEW))]


FENCES = [Fence(9, 9), Fence(9, 10), Fence(9, 0xAF), Fence(9, 0xB0), Fence(10, 1), Fence(0xA0, 1), NEW, NEWEST]


def test_the_text_of_a_fence_sorts_as_the_fence_does(base: Database) -> None:
    assert sorted(FENCES) == FENCES
    with base.transaction() as cursor:
        for number, fence in enumerate(reversed(FENCES)):
            base.receiver.put(cursor, "accounts", {"id": number}, {"balance": 0}, fence)
    assert [fence for (fence,) in base.rows("SELECT fence FROM accounts ORDER BY fence")] == [str(f) for f in FENCES]
    with base.transaction() as cursor:
        for higher, fence in enumerate(FENCES):
            assert [base.receiver.admit(cursor, "s", any_) for any_ in (fence, fence)] == [True, True]
            assert [base.receiver.admit(cursor, "s", lower) for lower in FENCES[:higher]] == [False] * higher


COLLATIONS = """
    SELECT {collation} FROM information_schema.columns
    WHERE table_schema = '{schema}' AND column_name IN ('fence', 'scope', 'idempotency_key')
"""


@pytest.mark.parametrize(
    ("base", "collation", "found"),
    [
        ("postgresql", "collation_name", ["C"]),
        ("mysql", "concat_ws(' ', data_type, collation_name)", ["char ascii_bin", "varbinary"]),
    ],
    indirect=["base"],
)
def test_no_column_is_left_to_the_collation_of_a_database(
    base: Database, tmp_path: Path, collation: str, found: list[str]
) -> None:
    """In some locales digits in a text count as numbers: 0xaf would come before 0x9."""
    rows = base.rows(COLLATIONS.format(collation=collation, schema=name_of(tmp_path)))
    assert len(rows) == 4
    assert sorted({name for (name,) in rows}) == found


def test_of_many_writers_the_newest_stands_whatever_the_order(base: Database) -> None:
    """Eight runs at once write one row, which is there or not: nobody overwrites a later one."""
    for number, missing in enumerate((True, False, True, False)):
        together = threading.Barrier(8)
        if missing:
            base.run("DELETE FROM accounts")

        def write(place: int, number: int = number, together: threading.Barrier = together) -> None:
            fence = Fence(1_774_746_000_000_000 + number, place)
            together.wait()
            put(base, place, fence)

        _at_once(write, 8)
        assert account(base) == [(7, str(Fence(1_774_746_000_000_000 + number, 7)))]


def test_a_paused_writer_waits_for_the_newer_and_is_refused(base: Database) -> None:
    """The new run has written and not yet committed when the old one wakes up: it must not slip in between."""
    base.run("INSERT INTO accounts (id, balance) VALUES (7, 0)")
    with ThreadPoolExecutor(1) as pool:
        with base.transaction() as cursor:
            assert base.receiver.update(cursor, "accounts", {"id": 7}, {"balance": 100}, NEW) is True
            late = pool.submit(update, base, 50, OLD)
            base.wait_for_one_that_waits()
        assert late.result(60) is False
    assert account(base) == [(100, str(NEW))]


@pytest.mark.parametrize("base", ["postgresql", "mysql", "mysql, found rows"], indirect=True)
@pytest.mark.parametrize("how", [put, update])
def test_who_has_read_before_is_not_told_what_was_there_then(base: Database, how: Callable[..., bool]) -> None:
    """MySQL shows a transaction what was there when it first read: there the fence is still its own."""
    assert put(base, 50, OLD) is True
    with base.transaction() as cursor:
        cursor.execute("SELECT fence FROM accounts")
        assert [tuple(row) for row in cursor.fetchall()] == [(str(OLD),)]
        assert put(base, 100, NEW) is True
        write = {put: base.receiver.put, update: base.receiver.update}[how]
        assert write(cursor, "accounts", {"id": 7}, {"balance": 50}, OLD) is False
    assert account(base) == [(100, str(NEW))]


def test_who_admits_first_writes_first_in_any_table(base: Database) -> None:
    """`admit` locks its scope until the transaction ends: what an old run writes under it is there before the new one
    begins, never after."""

    def newer() -> int:
        with base.transaction() as cursor:
            assert base.receiver.admit(cursor, "billing", NEW) is True
            cursor.execute("SELECT count(*) FROM records")
            found: int = cursor.fetchone()[0]
            return found

    with ThreadPoolExecutor(1) as pool:
        with base.transaction() as cursor:
            assert base.receiver.admit(cursor, "billing", OLD) is True
            after = pool.submit(newer)
            base.wait_for_one_that_waits()
            cursor.execute("INSERT INTO records (day, total) VALUES ('old', 1)")
        assert after.result(60) == 1
    assert admit(base, "billing", OLD) is False


# --- at the edge ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "a;b", 'a"b', "a b", "a.b.c", "1a", "a`b", "ä", "a" * 64, "%s", None])
def test_what_is_no_identifier_is_refused(name: Any) -> None:
    with sqlite3.connect(":memory:") as connection, pytest.raises(BadInput, match="table or a column"):
        SQLite().first(connection.cursor(), "k", table=name)
    connection.close()


def test_a_table_may_name_its_schema() -> None:
    assert PostgreSQL().fence_column("shop.orders") == 'ALTER TABLE "shop"."orders" ADD COLUMN "fence" text COLLATE "C"'


@pytest.mark.parametrize("key", ["", "k" * 1001, "ü" * 501, None, 7])
def test_what_is_no_key_is_refused(key: Any) -> None:
    with sqlite3.connect(":memory:") as connection, pytest.raises(BadInput, match="1 to 1,000 bytes"):
        SQLite().first(connection.cursor(), key)
    connection.close()


@pytest.mark.parametrize("base", ["sqlite"], indirect=True)
@pytest.mark.parametrize("fence", ["", "zzz", "42", None, 42])
def test_what_is_no_fence_is_refused_before_it_is_written(base: Database, fence: Any) -> None:
    with pytest.raises(BadInput, match="is not a fence"):
        admit(base, "billing", fence)
    assert base.rows("SELECT * FROM cronce_fences") == []


@pytest.mark.parametrize("base", ["sqlite"], indirect=True)
def test_the_fence_is_not_given_twice(base: Database) -> None:
    with base.transaction() as cursor, pytest.raises(BadInput, match="as its own argument"):
        base.receiver.put(cursor, "accounts", {"id": 7}, {"fence": "x"}, NEW)


def test_django_writes_another_placeholder() -> None:
    assert SQLite("%s").predicate == '("fence" IS NULL OR "fence" <= %s)'
    with pytest.raises(BadInput, match=r"%s or \?"):
        SQLite(":1")


def _at_once(work: Callable[[int], Any], times: int) -> list[Any]:
    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(work, range(times)))
