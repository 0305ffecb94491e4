"""Every driver at every database: what a transaction that is joined does, and does not."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from functools import partial
from itertools import product
from unittest.mock import patch

import pytest
from sqlalchemy import text

from cronce.errors import AlreadyDone, BadInput, LeaseLost
from cronce.runtime.transactions import Transaction, read_database
from cronce.runtime.transactions.connection import Talk, drive
from cronce.runtime.transactions.drivers import DRIVERS as RECOGNISED
from cronce.runtime.transactions.drivers import Alchemy, driver_of, names_of
from tests.runtime.transactions.site import Client, Run, Site, next_fence, next_key, put
from tests.runtime.transactions.ways import DATABASES, DRIVERS, MATRIX, NEWER

CELLS = {
    f"{driver} on {database}": (driver, database)
    for driver, database in product(DRIVERS, DATABASES)
    if not isinstance(MATRIX[driver][database], str)
}


@pytest.fixture(params=CELLS.values(), ids=[*CELLS])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """Somebody with a driver, and the database declared as that user would."""
    driver, kind = request.param
    site: Site = request.getfixturevalue({"postgresql": "postgres"}.get(kind, kind) + "_site")
    make = MATRIX[driver][kind]
    assert not isinstance(make, str)
    way = make(site)
    database = read_database(way.declared())
    yield Client(site, way, database)
    database.close()


def test_every_cell_of_the_matrix_is_there_or_says_why_not() -> None:
    assert sorted(MATRIX) == sorted(DRIVERS)
    assert {driver: sorted(row) for driver, row in MATRIX.items()} == dict.fromkeys(DRIVERS, sorted(DATABASES))
    assert len(CELLS) == 22 + (0 if NEWER else 1)


def test_every_kind_of_connection_that_is_recognised_has_a_cell(
    postgres_site: Site, mariadb_site: Site, sqlite_site: Site
) -> None:
    sites = {"postgresql": postgres_site, "mariadb": mariadb_site, "sqlite": sqlite_site}
    seen: set[str] = set()

    async def look(manager: object) -> None:
        async with manager as conn:  # type: ignore[attr-defined]
            seen.update(names_of(conn))

    for driver, kind in CELLS.values():
        make = MATRIX[driver][kind]
        assert not isinstance(make, str)
        way = make(sites[kind])
        if way.asynchronous:
            asyncio.run(look(way.open()))
        else:
            with way.open() as conn:
                seen.update(names_of(conn))
    users = {name for name in RECOGNISED if not name.startswith("cronce.")}  # but that of a simulated world
    assert sorted(users - seen) == ["django.utils.connection.ConnectionProxy"]  # nobody opens one by itself


def test_what_is_written_commits_with_the_run(client: Client) -> None:
    run = Run.begun(client.database)
    client.commit(run, "", run.key)
    assert client.site.written(run.key) == [run.key]
    assert client.database.raise_fence(run.key, next_fence()) is True
    assert client.database.seal(run.key, run.fence) is True
    assert client.database.look(run.key).is_by(run.fence, "")
    assert run.checks == 2  # before the block, and behind it


def test_an_exception_rolls_all_of_it_back(client: Client) -> None:
    run = Run.begun(client.database)
    with pytest.raises(Exception, match=r"(?i)duplicate|unique"):
        client.commit(run, "charge", run.key, run.key)
    assert client.site.written(run.key) == []
    with pytest.raises(KeyError, match="no such customer"):
        client.commit(run, "", inside=_fail)
    assert client.database.raise_fence(run.key, run.fence) is False
    client.commit(run, "charge", run.key)
    assert client.site.written(run.key) == [run.key]


@pytest.mark.parametrize("step", ["", "charge"])
def test_a_stale_holder_cannot_commit_and_its_writes_vanish(client: Client, step: str) -> None:
    run = Run.begun(client.database)
    later = next_fence()
    with pytest.raises(LeaseLost, match=str(later)) as caught:
        client.commit(run, step, run.key, inside=partial(client.database.raise_fence, run.key, later))
    assert (caught.value.name, caught.value.fence) == (run.key, run.fence)
    assert client.site.written(run.key) == []
    with pytest.raises(LeaseLost):
        client.commit(run, step, inside=_never)
    with pytest.raises(LeaseLost):
        client.commit(Run(run.key, later), step, run.key, inside=partial(client.database.seal, run.key, later))
    assert client.site.written(run.key) == []
    client.commit(Run.begun(client.database, run.key), step, run.key)
    assert client.site.written(run.key) == [run.key]


def test_a_step_that_is_done_is_not_begun_again(client: Client) -> None:
    run = Run.begun(client.database)
    client.commit(run, "charge", run.key)
    with pytest.raises(AlreadyDone, match="'charge'"):
        client.commit(run, "charge", inside=_never)
    next_run = Run.begun(client.database, run.key)
    with pytest.raises(AlreadyDone, match="'charge'"):
        client.commit(next_run, "charge", inside=_never)


def test_several_steps_of_one_run_and_then_its_end(client: Client) -> None:
    run = Run.begun(client.database)
    whose = {step: f"{run.key} {number}" for number, step in enumerate(("charge", "Größe", "größe", "größe "))}
    for step, who in whose.items():
        client.commit(run, step, who)
    client.commit(run, "")
    assert client.site.written(*whose.values()) == [*whose.values()]
    assert client.database.raise_fence(run.key, run.fence) is True


def test_a_step_that_two_do_at_once_is_done_once(client: Client) -> None:
    run = Run.begun(client.database)
    whose = [f"{run.key} {name}" for name in ("one", "two")]
    outcomes = _at_once(client, run, whose)
    assert sorted(outcomes) == ["AlreadyDone", "committed"]
    assert client.site.written(*whose) == [whose[outcomes.index("committed")]]


def _at_once(client: Client, run: Run, whose: list[str]) -> list[str]:
    """Both have begun before one of them writes."""
    if client.way.asynchronous:
        return asyncio.run(_tasks(client, run, whose))
    met = threading.Barrier(len(whose))
    with ThreadPoolExecutor(len(whose)) as pool:
        return list(pool.map(lambda who: _outcome(partial(client.commit, run, "charge", who, inside=met.wait)), whose))


async def _tasks(client: Client, run: Run, whose: list[str]) -> list[str]:
    met = asyncio.Barrier(len(whose))

    async def commit(who: str) -> str:
        try:
            await client.acommit(run, "charge", who, inside=met.wait)
        except AlreadyDone:
            return "AlreadyDone"
        return "committed"

    return list(await asyncio.gather(*map(commit, whose)))


def _outcome(commit: Callable[[], None]) -> str:
    try:
        commit()
    except AlreadyDone:
        return "AlreadyDone"
    return "committed"


def _fail() -> None:
    raise KeyError("no such customer")


def _never() -> None:
    pytest.fail("the block was entered")


# --- what was done on the connection before ---------------------------------------------------------------------------


def _before(client: Client, run: Run, statement: str, who: str) -> None:
    """A statement, and then a transaction of the run on the same connection."""
    if client.way.asynchronous:
        asyncio.run(_abefore(client, run, statement, who))
        return
    with client.way.open() as conn:
        client.way.say(conn, statement)
        with Transaction(client.database, run, conn) as tx:
            client.way.say(tx, put(who))


async def _abefore(client: Client, run: Run, statement: str, who: str) -> None:
    async with client.way.open() as conn:
        await client.way.say(conn, statement)
        async with Transaction(client.database, run, conn) as tx:
            await client.way.say(tx, put(who))


COMMITS_EACH = ("autocommit", "isolation_level=None", "Django")
"""Words of drivers that commit each statement by itself outside of a block."""


def test_writes_that_are_pending_do_not_become_part_of_it(client: Client, request: pytest.FixtureRequest) -> None:
    """They were committed with the run's own, and once more by a repeat."""
    run, pending = Run.begun(client.database), next_key()
    commits = any(word in request.node.name for word in COMMITS_EACH)
    if commits:
        _before(client, run, put(pending), run.key)
    else:
        with pytest.raises(BadInput, match=r"Commit it or roll it back before run\.transaction\(\)"):
            _before(client, run, put(pending), run.key)
    assert client.site.written(pending, run.key) == ([pending, run.key] if commits else [])


def test_what_was_only_read_before_does_not_matter(client: Client, request: pytest.FixtureRequest) -> None:
    """asyncmy says of a transaction that it is open, and not whether it wrote: it is refused, with that reason."""
    run, unknown = Run.begun(client.database), "async session on mariadb" in request.node.name
    with pytest.raises(BadInput, match="cronce cannot know whether it has written") if unknown else nullcontext():
        _before(client, run, "SELECT who FROM written", run.key)
    assert client.site.written(run.key) == ([] if unknown else [run.key])


def test_where_nobody_knows_whether_it_wrote_an_open_transaction_is_refused(mariadb_site: Site) -> None:
    """SQLAlchemy over a driver that does not tell what its server said."""
    way = MATRIX["SQLAlchemy connection"]["mariadb"]
    assert not isinstance(way, str)
    with way(mariadb_site).open() as conn, closing(read_database(mariadb_site.url)) as database:
        conn.execute(text("SELECT 1"))
        driver = driver_of(conn)
        with patch.object(Alchemy, "_plain", _silent):
            assert "cronce cannot know whether it has written" in drive(driver.pending())
        with Transaction(database, Run.begun(database), conn):
            pass


def _silent(_self: object) -> Talk[object]:
    yield from ()
    return object()
