"""A PostgreSQL that is killed, stopped in mid-air, copied while it runs, or set up to promise less."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from typing import Any

import psycopg
import pytest

from cronce.errors import StoreReadOnly, StoreUnavailable, StoreUnusable
from cronce.model import Epoch, Origin, Refusal
from cronce.stores import open_store
from cronce.stores.base import Store, Swapped
from cronce.stores.postgres import PostgresStore, init
from cronce.stores.postgres.server import ANSWER_TIMEOUT, locate
from cronce.testing.contract import claim, load, refusals, swap, win
from tests.house.wait import wait_until
from tests.servers.patience import until_it_answers
from tests.servers.postgres import PgBouncer, Postgres
from tests.servers.process import Server

pytestmark = pytest.mark.xdist_group("postgres faults")  # one server is killed again and again


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture
def url(server: Postgres) -> str:
    return f"{server.url}?schema=fault{next(_NUMBERS)}"


_NUMBERS = count()


def say(server: Postgres, *statements: str) -> None:
    with server.admin() as db:
        for statement in statements:
            db.execute(statement)


# --- hurried ----


def test_a_batch_for_which_the_server_gives_no_time_is_sent_in_smaller_ones(server: Postgres, url: str) -> None:
    """With 3,000 jobs there was no run in 40 s, and not a word: each batch was cancelled, and sent again as it was."""
    schema = url.partition("schema=")[2]
    hurried = open_store(f"{url}&options=-c%20statement_timeout%3D200")
    assert isinstance(hurried, PostgresStore)
    slow = f"CREATE FUNCTION {schema}.slow() RETURNS trigger LANGUAGE plpgsql AS"
    body = "$$ BEGIN PERFORM pg_sleep(0.002); RETURN new; END $$"
    trigger = f"BEFORE INSERT ON {schema}.cronce_cells FOR EACH ROW EXECUTE FUNCTION {schema}.slow()"
    say(server, f"{slow} {body}", f"CREATE TRIGGER slow {trigger}")
    writes = [claim(f"run/a/{number:03}")._replace(group=number // 2) for number in range(300)]
    swapped = hurried.swap(writes, hurried.load([]).epoch.seen)
    assert refusals(swapped) == [None] * 300
    again = hurried.swap(writes, swapped.epoch.seen)
    assert refusals(again) == [Refusal.VERSION] * 300
    with pytest.raises(StoreUnavailable, match="statement timeout"):  # what must land together is not divided
        hurried.swap([claim(f"run/b/{number:03}")._replace(group=1) for number in range(300)], again.epoch.seen)
    (check,) = [check for check in hurried.checks() if check.name == "statements"]
    assert (check.verdict, check.says) == (
        "warn",
        "statement_timeout is 200 ms: what takes longer is cancelled, and then sent again in smaller batches",
    )
    hurried.close()


# --- killed ---------------------------------------------------------------------------------------------------------


def test_a_hard_kill_loses_no_win_that_was_answered_and_is_no_new_life(server: Postgres, url: str) -> None:
    """Although the database says that commits need not wait for the disk: ours do."""
    say(server, "ALTER DATABASE postgres SET synchronous_commit = off", "ALTER SYSTEM SET wal_writer_delay = '10s'")
    server.stop()
    server.start()
    store = open_store(url)
    birth = store.load([]).epoch.birth
    won: list[str] = []
    workers = [threading.Thread(target=_work, args=(store, worker, won)) for worker in range(3)]
    for worker in workers:
        worker.start()
    wait_until(lambda: len(won) > 500)
    server.kill()
    for worker in workers:
        worker.join()
    server.start()
    again = open_store(url)
    cells = load(again, *won)
    assert [cell.key for cell in cells if not cell.version] == []
    seen = (birth, max(cell.version for cell in cells))
    swapped = again.swap([claim("after")], seen)
    assert (refusals(swapped), swapped.epoch.birth, swapped.epoch.origin) == ([None], birth, Origin.MADE)
    assert win(store, claim("with the old handle"))[0].version > seen[1]
    store.close()
    again.close()
    say(server, "ALTER DATABASE postgres RESET synchronous_commit", "ALTER SYSTEM RESET wal_writer_delay")


def _work(store: Store, worker: int, won: list[str]) -> None:
    """Claim until the store is gone: one by one, in groups, in batches."""
    with suppress(StoreUnavailable):
        seen = store.load([]).epoch.seen
        for number in count():
            keys = [f"run/{worker}/{number}/{part}" for part in range((1, 2, 20)[number % 3])]
            group = number if number % 3 == 1 else None
            swapped = store.swap([claim(key, group=group) for key in keys], seen)
            won += [key for key, verdict in zip(keys, swapped.verdicts, strict=True) if verdict.refused is None]


# --- stopped in mid-air ---------------------------------------------------------------------------------------------


def test_a_server_that_stands_still_is_waited_for_no_longer_than_the_timeout(server: Postgres, url: str) -> None:
    store = open_store(url)
    win(store, claim("a"))
    hasty = until_it_answers(lambda: open_store(f"{url}&timeout=0.5"))
    until_it_answers(lambda: hasty.load([]))
    server.pause()
    try:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match=r"did not answer for 0\.5 s"):
            hasty.load([])
        asked = time.monotonic() - began
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            hasty.load([])
        connected = time.monotonic() - began - asked
    finally:
        server.resume()
    assert (asked < ANSWER_TIMEOUT, connected < ANSWER_TIMEOUT) == (
        True,
        True,
    )  # libpq gives a connection two seconds at least
    assert until_it_answers(lambda: refusals(swap(hasty, claim("a")))) == [Refusal.VERSION]
    hasty.close()
    store.close()


def test_a_connection_that_is_cut_in_the_middle_of_a_call_is_an_answer_that_never_came(
    server: Postgres, url: str
) -> None:
    store = open_store(url)
    assert isinstance(store, PostgresStore)
    with pytest.raises(StoreUnavailable):
        store.ask("SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(5)", [])
    win(store, claim("a"))
    store.close()


@pytest.mark.parametrize("pooled", [False, True])
def test_a_session_that_is_ended_in_the_middle_of_a_swap_is_an_answer_that_never_came(
    server: Postgres, url: str, *, pooled: bool
) -> None:
    """Two results came, the error and the end of the line, where one was expected: a ValueError left the store."""
    schema = url.partition("schema=")[2]
    with (
        PgBouncer(server) as pooler,
        closing(open_store(url.replace(server.url, pooler.url if pooled else server.url))) as store,
    ):
        win(store, claim("a"))
        body = "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(5); RETURN new; END $$"
        say(
            server,
            f"CREATE FUNCTION {schema}.ends() RETURNS trigger LANGUAGE plpgsql AS {body}",
            f"CREATE TRIGGER ends BEFORE INSERT ON {schema}.cronce_cells FOR EACH ROW EXECUTE FUNCTION {schema}.ends()",
        )
        with pytest.raises(StoreUnavailable):
            swap(store, claim("b"))
        say(server, f"DROP TRIGGER ends ON {schema}.cronce_cells")
        win(store, claim("b"))


def test_a_server_that_restarts_is_found_again(server: Postgres, url: str) -> None:
    store = open_store(url)
    win(store, claim("a"))
    server.stop()
    with pytest.raises(StoreUnavailable):
        store.load([])
    server.start()
    assert refusals(swap(store, claim("a"))) == [Refusal.VERSION]
    store.close()


def test_a_pooler_that_restarts_is_found_again(server: Postgres, url: str) -> None:
    with PgBouncer(server) as pooler, closing(open_store(url.replace(server.url, pooler.url))) as store:
        win(store, claim("a"))
        pooler.kill()
        pooler.start()
        assert refusals(swap(store, claim("a"))) == [Refusal.VERSION]


# --- what its settings promise --------------------------------------------------------------------------------------


def test_a_win_waits_for_the_standby_that_the_trait_speaks_of(server: Postgres, url: str) -> None:
    """There is none by that name: so a write that is answered all the same would be a lie."""
    alone = open_store(url)
    assert not alone.traits.survives_failover
    alone.close()
    with _waiting_for_a_standby(server):
        store = until_it_answers(lambda: open_store(f"{url}&timeout=0.5"))
        assert store.traits.survives_failover
        with pytest.raises(StoreUnavailable):
            swap(store, claim("a"))
        store.close()
        store = open_store(f"{url}&{LOCAL}")
        assert not store.traits.survives_failover
        win(store, claim("b"))
        (failover,) = [check for check in _checks(store) if check.name == "failover"]
        assert failover.verdict == "warn"
        store.close()


LOCAL = "options=-c%20synchronous_commit%3Dlocal"


@contextmanager
def _waiting_for_a_standby(server: Postgres, name: str = "ghost") -> Iterator[None]:
    say(server, f"ALTER SYSTEM SET synchronous_standby_names = '{name}'", "SELECT pg_reload_conf()")
    with server.admin() as db:
        wait_until(lambda: _one(db, f"SELECT current_setting('synchronous_standby_names') = '{name}'"))
    try:
        yield
    finally:
        with psycopg.connect(f"{server.url}?{LOCAL}", autocommit=True) as db:
            db.execute("ALTER SYSTEM RESET synchronous_standby_names")
            db.execute("SELECT pg_reload_conf()")
            wait_until(lambda: _one(db, "SELECT current_setting('synchronous_standby_names') = ''"))


def _checks(store: Store) -> list[Any]:
    assert isinstance(store, PostgresStore)
    return list(store.checks())


def test_a_server_that_does_not_sync_is_not_durable_and_begins_as_one_that_can_forget() -> None:
    with Postgres(fsync="off", full_page_writes="off", autovacuum="off") as server:
        store = open_store(server.url)
        assert (store.traits.durable, store.traits.survives_failover) == (False, False)
        assert store.load([]).epoch.origin is Origin.FOUND
        verdicts = {check.name: check.verdict for check in _checks(store)}
        assert (verdicts["durable"], verdicts["vacuum"]) == ("error", "warn")
        store.close()
        assert init(f"{server.url}?schema=meant").origin is Origin.MADE


# --- standbys and people --------------------------------------------------------------------------------------------


@pytest.fixture
def standby(server: Postgres) -> Iterator[Postgres]:
    """A copy that follows the server, and can be asked."""
    standby = Postgres(server)
    standby._answers = _follows
    with standby:
        with server.admin() as db:
            wait_until(lambda: _one(db, f"SELECT count(*) = 1 FROM pg_stat_replication WHERE {FOLLOWED}"))
        yield standby


FOLLOWED = "state = 'streaming' AND application_name = 'walreceiver'"


def _one(db: Any, statement: str) -> bool:
    return bool(db.execute(statement).fetchone()[0])


def _follows(standby: Server) -> bool:
    with psycopg.connect(standby.url, connect_timeout=5) as connection:
        return connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)


def test_a_standby_is_refused_and_the_primary_found_beside_it(server: Postgres, url: str, standby: Postgres) -> None:
    store = open_store(url)
    win(store, claim("a"))
    with pytest.raises(StoreReadOnly, match="target_session_attrs=read-write"):
        open_store(standby.url)
    both = f"postgresql://postgres@127.0.0.1:{standby.port},127.0.0.1:{server.port}/postgres"
    found = open_store(f"{url.replace(server.url, both)}&target_session_attrs=read-write")
    assert refusals(swap(found, claim("a"))) == [Refusal.VERSION]
    assert {check.name: check.verdict for check in _checks(found)}["failover"] == "warn"
    found.close()
    store.close()


@pytest.mark.parametrize(("many", "fresh_first"), [(3, True), (100, False)])
def test_a_failover_to_a_standby_that_lags_is_found_out(
    server: Postgres, url: str, standby: Postgres, many: int, fresh_first: bool
) -> None:
    """The same server by its identity, with less in it: the last wins are gone, and a new life begins, once.

    Three wins do not show in its sequence, which is logged ahead: only that it was promoted tells.
    """
    both = f"postgresql://postgres@127.0.0.1:{server.port},127.0.0.1:{standby.port}/postgres"
    store = open_store(f"{url.replace(server.url, both)}&target_session_attrs=read-write")
    lost = _lost_in_a_failover(server, standby, store, many)
    server.kill()
    with suppress(StoreUnavailable):  # over a connection that is no more
        store.load([])
    fresh = open_store(url.replace(server.url, standby.url))
    believed = [(store, lost.seen), (fresh, fresh.load([]).epoch.seen)]
    asked = [handle.swap([claim("run/0")], seen) for handle, seen in believed[:: -1 if fresh_first else 1]]
    assert [refusals(swapped) for swapped in asked] == [[Refusal.EPOCH], [Refusal.EPOCH]]
    ((birth, origin),) = {(swapped.epoch.birth, swapped.epoch.origin) for swapped in asked}
    assert (birth > lost.birth, origin) == (True, Origin.RESTORED)
    win(store, claim("run/0"))
    assert fresh.load([]).epoch.birth == birth
    store.close()
    fresh.close()
    server.start()


def test_a_failover_behind_a_pooler_is_found_out(server: Postgres, url: str, standby: Postgres) -> None:
    """It keeps the connections of its clients: nothing is greeted again."""
    with PgBouncer(server) as pooler, closing(open_store(url.replace(server.url, pooler.url))) as store:
        lost = _lost_in_a_failover(server, standby, store, 3)
        settings = pooler.directory / "pgbouncer.ini"
        settings.write_text(settings.read_text().replace(f"port={server.port}", f"port={standby.port}"))
        os.kill(pooler.pid, signal.SIGHUP)
        assert isinstance(store, PostgresStore)
        wait_until(lambda: store.ask("SELECT current_setting('port')", []) == [(str(standby.port),)])
        swapped = store.swap([claim("run/0")], lost.seen)
        assert (refusals(swapped), swapped.epoch.origin) == ([Refusal.EPOCH], Origin.RESTORED)


def _lost_in_a_failover(server: Postgres, standby: Postgres, store: Store, many: int) -> Epoch:
    """Wins that the standby never hears of; the life that they were won in."""
    assert isinstance(store, PostgresStore)
    with standby.admin() as db:
        wait_until(lambda: _one(db, f"SELECT to_regclass('{store.place.schema}.cronce_meta') IS NOT NULL"))
        db.execute("ALTER SYSTEM SET primary_conninfo = ''")
        db.execute("SELECT pg_reload_conf()")
        wait_until(lambda: _one(db, "SELECT count(*) = 0 FROM pg_stat_wal_receiver"))
        lost = swap(store, *(claim(f"run/{number}") for number in range(many)))
        assert refusals(lost) == [None] * many
        db.execute("SELECT pg_promote()")
    return lost.epoch


def test_however_many_notice_a_failover_at_once_one_life_begins(server: Postgres, url: str) -> None:
    stores = [open_store(url) for _ in range(8)]
    (cell,) = win(stores[0], claim("a"))
    seen = stores[0].load([]).epoch.seen
    _as_if_promoted(server, url)
    answers: list[Swapped] = []
    at_once = threading.Barrier(len(stores))

    def work(store: Store) -> None:
        at_once.wait()
        answers.append(store.swap([claim("b")], seen))

    workers = [threading.Thread(target=work, args=(store,)) for store in stores]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [refusals(swapped) for swapped in answers] == [[Refusal.EPOCH]] * len(stores)
    assert len({swapped.epoch.birth for swapped in answers} | {seen[0]}) == 2
    epoch = stores[0].load([]).epoch
    assert (epoch.birth, epoch.origin, epoch.base) == (answers[0].epoch.birth, Origin.RESTORED, cell.version)
    for store in stores:
        store.close()


def test_a_failover_that_forgets_nothing_is_no_new_life(server: Postgres, url: str, standby: Postgres) -> None:
    with _waiting_for_a_standby(server, "*"), closing(open_store(url)) as store:
        before = store.load([]).epoch
        _as_if_promoted(server, url)
        win(store, claim("a"))
    with closing(open_store(url)) as store:  # nothing waits for a standby now: what was noted then still holds
        win(store, claim("b"))
        assert store.load([]).epoch.birth == before.birth


def _as_if_promoted(server: Postgres, url: str) -> None:
    say(server, f"UPDATE {locate(url).quoted}.cronce_meta SET timeline = timeline + 1000")


def test_a_wrong_password_is_told_without_it(server: Postgres) -> None:
    say(server, "CREATE ROLE careful LOGIN PASSWORD 'right'")
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"host all careful 127.0.0.1/32 scram-sha-256\n{before}")
    say(server, "SELECT pg_reload_conf()")
    wrong = server.url.replace("postgres@", "careful:wr0ng@")
    told: list[str] = []

    def locked_out() -> bool:
        with pytest.raises(StoreUnusable) as caught:  # until the rules are read, it merely may not make the tables
            open_store(wrong)
        told.append(str(caught.value))
        return 'password authentication failed for user "careful"' in told[-1]

    wait_until(locked_out)
    assert ("wr0ng" in told[-1], "careful:***@" in told[-1]) == (False, True)
    rules.write_text(before)
    say(server, "SELECT pg_reload_conf()")
