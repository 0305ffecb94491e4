"""Stores as people run them: while the servers behind a URL change, each slot of a job runs once.

Three processes' worth of threads, each with a connection of its own, call every slot until it is closed. Whoever gets
no answer asks again, as crontabs on three machines would. Each count is exact: extra 0, missed 0.
"""

import asyncio
import io
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    closing,
    nullcontext,
    redirect_stdout,
    suppress,
)
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import sleep
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from redis import Redis

from cronce import Cronce, LeaseLost, Run, Skipped
from cronce.cli import main
from cronce.errors import SlotFailed, StoreUnavailable, StoreUnusable
from cronce.model import Mark, Slot
from cronce.stores import open_store
from cronce.stores.base import Scan, Store, listen
from cronce.stores.redis import RedisStore, init
from cronce.stores.redis.checks import least_rights
from cronce.stores.redis.url import read_url
from cronce.stores.sqlite import init as init_sqlite
from cronce.testing.contract import change, claim, put, refusals, swap, win
from tests.house.needs import needs
from tests.house.wait import wait_until
from tests.servers.postgres import Admin, PgBouncer, Postgres
from tests.servers.process import Server
from tests.servers.valkey import Cluster, Valkey, Watched
from tests.stores.places import name_of

SLOTS = int(os.environ.get("CRONCE_TOPOLOGY_SLOTS", "30"))
CALLERS = 3
PAUSE = 0.02


class Play:
    """The slots of one job, each of the last hour, and who ran which."""

    def __init__(self, url: str) -> None:
        self.url, self.ran = url, Counter[str]()
        now = datetime.now(UTC).replace(second=0, microsecond=0)
        self.slots = [Slot("billing", now - timedelta(minutes=SLOTS - number)) for number in range(SLOTS)]

    def during(self, change: Callable[[], object]) -> None:
        """All of them are called; when a third has run, the change happens. Whatever that is, each runs once."""
        callers = [threading.Thread(target=self._call) for _ in range(CALLERS)]
        for caller in callers:
            caller.start()
        wait_until(lambda: len(self.ran) >= len(self.slots) // 3)
        change()
        for caller in callers:
            caller.join()
        assert self.ran == dict.fromkeys((slot.key for slot in self.slots), 1)

    def _call(self) -> None:
        with closing(Cronce(self.url)) as cron:
            job = cron.job(every="1m", name="billing", on_lost="rerun", lease="2s", start_within="9d", overlap="allow")
            guard = job(self._run)
            for slot in self.slots:
                while not self._is_closed(guard.at(slot)):
                    sleep(PAUSE)

    def _run(self, run: Run) -> str:
        self.ran[run.key] += 1
        sleep(PAUSE)
        return run.key

    def _is_closed(self, call: Callable[[], object]) -> bool:
        with suppress(StoreUnavailable, LeaseLost, SlotFailed):
            answer = call()
            return not isinstance(answer, Skipped) or answer.kind not in ("held", "early")
        return False


# --- Redis and Valkey -----------------------------------------------------------------------------------------------


def test_a_slot_of_a_redis_cluster_moves_to_another_node() -> None:
    """Those that were due before the move and had not run were passed over: the store took it for a failover."""
    with Cluster() as cluster:
        url = f"{cluster.url}&namespace=moving"
        init(url)
        place = cluster.nodes[0].cli("CLUSTER", "KEYSLOT", "{cronce:moving}:cells")
        source = next(node for node in cluster.nodes if node.cli("CLUSTER", "COUNTKEYSINSLOT", place))
        target = next(node for node in cluster.nodes if node is not source)
        Play(url).during(lambda: list(cluster.move(place, source, target)))


def test_sentinel_fails_over_while_each_win_is_on_a_replica() -> None:
    with Watched(2) as watched:
        url = f"{watched.url}&min_replicas=1"
        wait_until(lambda: all(one.cli("INFO", "server")["uptime_in_seconds"] >= 3 for one in watched.replicas))
        init(url)
        Play(url).during(watched.lose_master)


@pytest.mark.parametrize("kind", ["valkey", "redis_6"])
def test_a_redis_user_with_the_least_rights_that_the_doctor_prints(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path
) -> None:
    server: Valkey = request.getfixturevalue(kind)
    host, name = f"127.0.0.1:{server.port}", name_of(tmp_path)
    options = f"?namespace={name}"
    init(f"redis://{host}/{options}")
    with closing(open_store(f"redis://{host}/{options}")) as store:
        assert isinstance(store, RedisStore)
        (said,) = [check.says for check in store.checks() if check.name == "rights"]
    begins, _, rights = said.partition("ACL SETUSER NAME on >PASSWORD ")
    assert begins == "the least that works: "
    server.cli("ACL", "SETUSER", name, "reset", "on", ">secret", *rights.split())
    url = f"redis://{name}:secret@{host}/{options}"
    Play(url).during(lambda: None)
    with closing(open_store(url)) as store:
        assert isinstance(store, RedisStore)
        assert {check.verdict for check in store.checks() if check.name in ("settings", "rights")} == {"ok"}
        listener = listen(store)
        assert listener
        with closing(listener):
            assert refusals(swap(store, put("board/runs"))) == [None]
            assert listener.wait(30)


def test_of_the_least_rights_none_can_be_left_out(valkey: Valkey, tmp_path: Path) -> None:
    """But for those that are about being woken, about what a server promises, and the doctor's own."""
    name = name_of(tmp_path)
    base = f"redis://127.0.0.1:{valkey.port}/1?namespace={name}"
    init(base)
    rights = least_rights(read_url(base)).split()
    url = base.replace("redis://", f"redis://{name}:secret@")
    spared = {"+publish", "+subscribe", "+config|get", "+scan"}
    for left_out in ("", *(right for right in rights if right.startswith("+") and right not in spared)):
        valkey.cli("ACL", "SETUSER", name, "reset", "on", ">secret", *(right for right in rights if right != left_out))
        refused = pytest.raises(StoreUnusable, match="may not do that") if left_out else nullcontext()
        with Redis(port=valkey.port, db=1) as admin:
            anew = ("index", "cells") if left_out == "+del" else ("index",)  # the whole store, or its index alone
            admin.delete(*(f"{{cronce:{name}}}:{key}" for key in anew))
            admin.script_flush()
        with refused, closing(open_store(url)) as store:
            use_all(store, left_out.strip("+"))


def use_all(store: Store, key: str) -> None:
    """Whatever a store is asked for."""
    store.scan(Scan(""))
    (cell,) = win(store, claim(f"a-{key}"))
    (cell,) = win(store, change(cell, mark=Mark.CLOSED))
    for newest_first in (False, True):
        store.scan(Scan("", newest_first=newest_first))
        store.scan(Scan("", "until", Mark.OPEN, newest_first=newest_first))
    assert isinstance(store, RedisStore)
    assert store.size() > 0
    store.purge([cell])


# --- PostgreSQL -----------------------------------------------------------------------------------------------------


@pytest.fixture
def alone() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


def test_a_postgresql_role_that_may_only_use_what_another_made(postgres: Postgres, tmp_path: Path) -> None:
    schema = name_of(tmp_path)
    url, script = f"{postgres.url}?schema={schema}", io.StringIO()
    with redirect_stdout(script):
        assert main(["store", "sql", url]) == 0
    grants = [line.removeprefix("--") for line in script.getvalue().splitlines() if line.startswith("--   GRANT")]
    with postgres.admin() as db:
        db.execute(f"CREATE ROLE role_{schema} LOGIN")
        db.execute(script.getvalue())
        db.execute("\n".join(grants).replace("TO app", f"TO role_{schema}"))
    Play(url.replace("postgres@", f"role_{schema}@")).during(lambda: None)


def test_pgbouncer_in_transaction_mode_is_killed_and_so_are_the_sessions_behind_it(alone: Postgres) -> None:
    with PgBouncer(alone) as pooler:
        assert "pool_mode = transaction" in (pooler.directory / "pgbouncer.ini").read_text()

        def killed() -> None:
            pooler.kill()
            pooler.start()
            with alone.admin() as db:
                db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

        Play(pooler.url).during(killed)


def test_a_synchronous_replica_of_postgresql_takes_over(alone: Postgres) -> None:
    """Every win waited for it, so nothing is forgotten, and nothing is closed as unknown."""
    standby = follow(alone)
    with closing(standby), ExitStack() as later:
        with alone.admin() as db:
            wait_for_standby(db)
        both = f"postgresql://postgres@127.0.0.1:{alone.port},127.0.0.1:{standby.port}/postgres"

        def promoted() -> None:
            alone.kill()
            with standby.admin() as db:
                db.execute("SELECT pg_promote()")
            later.enter_context(closing(follow(standby)))

        Play(f"{both}?target_session_attrs=read-write").during(promoted)


def follow(server: Postgres) -> Postgres:
    """Another that has all that the first has, and takes part in every commit from then on."""
    standby = Postgres(server, synchronous_standby_names="*")
    standby._answers = _can_be_asked
    return standby.start()


def _can_be_asked(server: Server) -> bool:
    with psycopg.connect(server.url, connect_timeout=5) as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)


def wait_for_standby(db: Admin) -> None:
    db.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    db.execute("SELECT pg_reload_conf()")
    sync = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
    wait_until(lambda: db.execute(sync).fetchone() == (1,))


# --- drivers that belong to an event loop ---------------------------------------------------------------------------

Put = Callable[[str], Awaitable[object]]


@asynccontextmanager
async def by_asyncpg(url: str) -> AsyncIterator[Put]:
    pool = await driver("asyncpg").create_pool(url, min_size=1)
    async with pool:
        await pool.execute("CREATE TABLE IF NOT EXISTS did (what text)")
        yield lambda what: pool.execute("INSERT INTO did VALUES ($1)", what)


@asynccontextmanager
async def by_psycopg(url: str) -> AsyncIterator[Put]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        await conn.execute("CREATE TABLE IF NOT EXISTS did (what text)")
        yield lambda what: conn.execute("INSERT INTO did VALUES (%s)", [what])


@asynccontextmanager
async def by_redis(url: str) -> AsyncIterator[Put]:
    async with driver("redis.asyncio").from_url(url) as client:
        yield lambda what: client.rpush("did", what)


@asynccontextmanager
async def by_asyncmy(url: str) -> AsyncIterator[Put]:
    place = {"host": "127.0.0.1", "port": urlsplit(url).port, "user": "root", "db": "cronce", "autocommit": True}
    async with driver("asyncmy").create_pool(minsize=1, **place) as pool:

        async def put(what: str) -> None:
            async with pool.acquire() as conn, conn.cursor() as cursor:
                await cursor.execute("CREATE TABLE IF NOT EXISTS did (what TEXT)")
                await cursor.execute("INSERT INTO did VALUES (%s)", [what])

        yield put


def driver(name: str) -> Any:
    if find_spec(name.partition(".")[0]) is None:
        needs(name, f"pip install {name}")
    return import_module(name)


@pytest.mark.parametrize(
    ("server", "opened"),
    [("postgres", by_asyncpg), ("postgres", by_psycopg), ("valkey", by_redis), ("mariadb", by_asyncmy)],
    ids=["asyncpg", "psycopg", "redis-asyncio", "asyncmy"],
)
def test_connections_of_the_users_own_loop_work_in_guarded_calls_effects_and_locks(
    request: pytest.FixtureRequest,
    server: str,
    opened: Callable[[str], AbstractAsyncContextManager[Put]],
    tmp_path: Path,
) -> None:
    """Whatever a call waits for, it is on the loop of whoever awaits it: a pool of another loop would refuse it."""
    url, did, place = request.getfixturevalue(server).url, Counter[str](), tmp_path / "cronce.db"
    slots = [Slot("billing", datetime(2026, 3, 29, 12, minute, tzinfo=UTC)) for minute in range(10)]

    async def call_all(put: Put) -> None:
        with closing(Cronce(f"sqlite:///{place}")) as cron:

            async def pay(slot: str) -> None:
                await put(f"paid {slot}")
                did[f"paid {slot}"] += 1

            @cron.job(every="1m", name="billing", start_within="9999d", overlap="allow")
            async def billing(run: Run) -> None:
                async with cron.lock("books", wait="1m"):
                    await put(f"ran {run.key}")
                did[f"ran {run.key}"] += 1
                await run.once("pay", pay, run.key, per="slot")

            for slot in slots:
                await billing.at(slot)()

    async def main() -> None:
        async with opened(url) as put:
            await asyncio.gather(*(call_all(put) for _ in range(CALLERS)))

    init_sqlite(f"sqlite:///{place}")
    asyncio.run(main())
    assert did == Counter(f"{what} {slot.key}" for what in ("ran", "paid") for slot in slots)
