"""Whatever isolation a user's transactions have, a stale one is refused, and an error that is the user's own stays."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel

from cronce.errors import AlreadyDone, LeaseLost
from cronce.runtime.transactions import Database, Transaction, read_database
from tests.house.wait import wait_until
from tests.runtime.transactions.site import Run, Site, next_fence, put
from tests.servers.postgres import Admin

LEVELS = [IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]


def raised_meanwhile(database: Database, run: Run, conn: Any, step: str) -> None:
    """Under a snapshot that is older than the fence."""
    with Transaction(database, run, conn, step):
        conn.cursor().execute(put(run.key))
        database.raise_fence(run.key, next_fence())


def done_meanwhile(database: Database, run: Run, conn: Any, step: str, other: Any) -> None:
    with Transaction(database, run, conn, step):
        conn.execute(put(f"{run.key} late"))
        with Transaction(database, run, other, step):
            other.execute(put(run.key))


def crossed(database: Database, run: Run, one: Any, two: Any) -> None:
    """Each reads what the other writes."""
    with Transaction(database, run, one, "charge"):
        one.execute("SELECT count(*) FROM written")
        one.execute(put(run.key))
        two.execute("SELECT count(*) FROM written")
        two.execute(put(f"{run.key} two"))
        two.commit()


@pytest.fixture
def database(postgres_site: Site) -> Iterator[Database]:
    found = read_database(postgres_site.url)
    yield found
    found.close()


@pytest.fixture(params=LEVELS, ids=lambda level: level.name)
def conn(request: pytest.FixtureRequest, postgres_site: Site) -> Iterator["psycopg.Connection[Any]"]:
    with psycopg.connect(postgres_site.url) as conn:
        conn.isolation_level = request.param
        yield conn


def test_a_snapshot_from_before_the_fence_was_raised_does_not_help(
    conn: "psycopg.Connection[Any]", database: Database, postgres_site: Site
) -> None:
    for step in ("", "charge"):
        run = Run.begun(database)
        with pytest.raises(LeaseLost):
            raised_meanwhile(database, run, conn, step)
        assert postgres_site.written(run.key) == []


def test_a_snapshot_from_before_the_step_was_done_does_not_help(
    conn: "psycopg.Connection[Any]", database: Database, postgres_site: Site
) -> None:
    for step in ("", "charge"):
        run = Run.begun(database)
        with psycopg.connect(postgres_site.url) as other, pytest.raises(AlreadyDone):
            done_meanwhile(database, run, conn, step, other)
        assert postgres_site.written(run.key, f"{run.key} late") == [run.key]


def test_other_slots_and_other_steps_disturb_nobody(
    conn: "psycopg.Connection[Any]", database: Database, postgres_site: Site
) -> None:
    run, neighbour = Run.begun(database), Run.begun(database)
    with Transaction(database, run, conn, "charge"):
        conn.execute(put(run.key))
        database.raise_fence(neighbour.key, next_fence())
        with psycopg.connect(postgres_site.url) as other, Transaction(database, run, other, "mail"):
            pass
    assert postgres_site.written(run.key) == [run.key]


def test_a_conflict_of_the_users_own_is_the_users_to_see(database: Database, postgres_site: Site) -> None:
    """Of two serializable transactions that each read what the other writes, one fails, at its commit."""
    run = Run.begun(database)
    with psycopg.connect(postgres_site.url) as one, psycopg.connect(postgres_site.url) as two:
        for conn in (one, two):
            conn.isolation_level = IsolationLevel.SERIALIZABLE
        with pytest.raises(psycopg.errors.SerializationFailure):
            crossed(database, run, one, two)
        assert postgres_site.written(run.key) == []
        with Transaction(database, run, one, "charge"):
            one.execute(put(run.key))
    assert postgres_site.written(run.key) == [run.key]


def test_a_default_that_is_stricter_does_not_disturb_the_raising_of_fences(
    database: Database, postgres_site: Site, admin: Admin
) -> None:
    """It waits for a commit, and then sees it."""
    options = "?application_name=strict&options=-cdefault_transaction_isolation%3Dserializable"
    waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'strict'"
    with closing(read_database(postgres_site.url + options)) as strict, ThreadPoolExecutor(1) as pool:
        run = Run.begun(database)
        with psycopg.connect(postgres_site.url) as holder:
            holder.execute("UPDATE cronce_effects SET done = now() WHERE slot = %s", (run.key,))
            raised = pool.submit(strict.raise_fence, run.key, next_fence())
            wait_until(lambda: admin.execute(waiting).fetchone() is not None)
        assert raised.result() is True


@pytest.mark.parametrize("setting", ["OFF", "ON"])
@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_mariadb_refuses_a_stale_one_under_every_isolation(mariadb_site: Site, level: str, setting: str) -> None:
    with closing(read_database(mariadb_site.url)) as database, closing(mariadb_site.pymysql()) as conn:
        cursor = conn.cursor()
        cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        cursor.execute(f"SET SESSION innodb_snapshot_isolation = {setting}")
        for step in ("", "charge"):
            run = Run.begun(database)
            with pytest.raises(LeaseLost):
                raised_meanwhile(database, run, conn, step)
            assert mariadb_site.written(run.key) == []
            run = Run.begun(database, run.key)
            with Transaction(database, run, conn, step):
                cursor.execute(put(run.key))
            assert mariadb_site.written(run.key) == [run.key]
