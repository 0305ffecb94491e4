"""What `cronce doctor` asks of a MySQL or MariaDB: whether it keeps what it is given, and on how many machines."""

from collections.abc import Iterator, Sequence
from typing import Final

from cronce.stores import sql
from cronce.stores.checks import Check, error, ok, warn
from cronce.stores.mysql.schema import is_on
from cronce.stores.mysql.server import Line, Problem, Server

SELECT_SETTINGS: Final = r"""
    SELECT @@time_zone, @@read_only;
    SHOW SESSION VARIABLES WHERE variable_name IN ('transaction_isolation', 'tx_isolation');
    SELECT table_schema FROM information_schema.tables
    WHERE table_name = 'cronce_meta' AND table_schema <> DATABASE() ORDER BY table_schema;
    SHOW GLOBAL VARIABLES LIKE 'rpl\_semi\_sync\_%%\_enabled';
    SHOW GLOBAL VARIABLES LIKE 'wsrep\_on'
"""


def checks(line: Line) -> Iterator[Check]:
    ((zone, read_only),), ((_, isolation), *_), others, semi, galera = line.ask(SELECT_SETTINGS)
    yield ok("version", line.server.version)
    yield _durable(line.server)
    yield _writable(line, read_only=is_on(read_only))
    yield _failover(line.server, semi)
    if any(value == "ON" for _, value in galera):
        yield warn("cluster", "Galera: of two nodes that say yes, one takes it back", "let all name the same node")
    yield _alone([str(name) for (name,) in others])
    yield ok("isolation", f"{isolation}, which cronce sets for itself, whatever the server's default is")
    yield ok("time zone", f"{zone}; cronce asks for UTC, whatever it is")


def _durable(server: Server) -> Check:
    says = f"innodb_flush_log_at_trx_commit={server.flush}"
    if server.log_bin:
        says += f", sync_binlog={server.sync_binlog}"
    if server.durable:
        return ok("durable", f"{says}: a win is on disk before it is answered")
    remedy = "set innodb_flush_log_at_trx_commit=1 and sync_binlog=1"
    return warn("durable", f"{says}: a crash can take back what was won", remedy)


def _writable(line: Line, *, read_only: bool) -> Check:
    if read_only:
        return error("writable", "read_only is on", "name the server that is written to")
    for show in ("SHOW REPLICA STATUS", "SHOW SLAVE STATUS"):
        try:
            (rows,) = line.ask(show)
        except Problem:  # not spoken here, or not allowed
            continue
        if rows:
            return error("writable", "this server is a replica", "name the server that it replicates")
        return ok("writable", "read_only is off, and it is nobody's replica")
    return ok("writable", "read_only is off; whether it is a replica, this user may not ask")


def _failover(server: Server, semi: Sequence[sql.Row]) -> Check:
    if not server.log_bin:
        return ok("failover", "no binary log, so no replica: with its machine, the store is gone")
    if any(value == "ON" for name, value in semi if "source" in name or "master" in name):
        return ok("failover", "semi-synchronous: a win is on a replica too, unless that took longer than its timeout")
    return warn(
        "failover",
        "replicas, if any, follow asynchronously: a failover loses the last wins, and their slots may run again",
        "turn on semi-synchronous replication (rpl_semi_sync_source_enabled, on MariaDB rpl_semi_sync_master_enabled)",
    )


def _alone(others: Sequence[str]) -> Check:
    if not others:
        return ok("namespaces", "no other cronce database is to be seen on this server")
    return warn(
        "namespaces",
        f"also on this server: {', '.join(others)}; a job known to two of them runs in each",
        "see that every process of a job names the same database",
    )
