"""What `cronce doctor` asks of a PostgreSQL: the settings that have burned others."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from cronce.stores.checks import Check, error, ok, warn
from cronce.stores.postgres.line import connect

if TYPE_CHECKING:
    from cronce.stores.postgres import PostgresStore

OLDEST: Final = 13
"""The oldest PostgreSQL that the statements are known to work on."""

LOOK: Final = """
    SELECT current_setting('server_version_num')::integer / 10000, current_setting('server_version'),
           current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
           current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication),
           current_setting('idle_in_transaction_session_timeout'), current_setting('autovacuum'),
           (SELECT array_agg(relnamespace::regnamespace::text) FROM pg_class
            WHERE relname = 'cronce_meta' AND relkind = 'r')
"""


def checks(store: "PostgresStore") -> Iterator[Check]:
    (look,) = store.ask(LOOK, [])
    major, version, fsync, full_pages, commit, standbys, replicas, idle, autovacuum, schemas = look
    yield _version(major, version)
    yield _durable(fsync, full_pages, commit)
    yield _failover(standbys, replicas, commit)
    yield _pooler(store)
    yield _namespaces(store.place.schema, schemas)
    yield _vacuum(autovacuum)
    yield _idle(idle)


def _version(major: int, version: str) -> Check:
    if major < OLDEST:
        return error("version", f"PostgreSQL {version}", f"use PostgreSQL {OLDEST} or newer")
    return ok("version", f"PostgreSQL {version}, the primary")


def _durable(fsync: str, full_pages: str, commit: str) -> Check:
    if fsync == "off":
        return error("durable", "fsync is off: a crash of the server may lose or break anything", "set fsync = on")
    if full_pages == "off":
        return warn(
            "durable",
            "full_page_writes is off: a crash may leave torn pages",
            "set full_page_writes = on, unless the file system never writes half a page",
        )
    if commit == "off":
        return ok("durable", "synchronous_commit is off here; cronce turns it on for each of its own writes")
    return ok("durable", f"fsync is on, synchronous_commit is {commit}")


def _failover(standbys: str, replicas: int, commit: str) -> Check:
    if standbys and commit not in ("off", "local"):
        return ok("failover", f"every write waits for a standby ({standbys})")
    if replicas or standbys:
        return warn(
            "failover",
            "standbys follow asynchronously: a failover may forget the last wins, and a slot may run twice",
            "set synchronous_standby_names, and synchronous_commit = on",
        )
    return ok("failover", "no standby is connected: what is lost with this machine is lost")


def _pooler(store: "PostgresStore") -> Check:
    line = connect(store.place)
    line.close()
    if line.server.pooled:
        says = "a pooler such as PgBouncer is in between; in any of its modes the store needs no session"
        return ok("pooler", f"{says}, but nobody is woken: requests by hand are seen a moment later")
    return ok("pooler", "none: each connection has a session of its own")


def _namespaces(ours: str, schemas: list[str]) -> Check:
    others = sorted(name.strip('"') for name in schemas if name.strip('"') != ours)
    if not others:
        return ok("namespaces", f"this database has one store, in {ours}")
    return warn(
        "namespaces",
        f"this database has other stores, in {', '.join(others)}: a job runs once in each of them",
        "make sure that every process names the same ?schema=",
    )


def _vacuum(autovacuum: str) -> Check:
    if autovacuum == "off":
        return warn("vacuum", "autovacuum is off: tables will swell, and scans become slow", "set autovacuum = on")
    return ok("vacuum", "autovacuum is on")


def _idle(timeout: str) -> Check:
    return ok("transactions", f"none is open between calls (idle_in_transaction_session_timeout is {timeout})")
