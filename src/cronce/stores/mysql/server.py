"""A server of MySQL or MariaDB: its URL, a connection, what it says when something is wrong, in words, and what
`cronce doctor` asks of it: whether it keeps what it is given, and on how many machines."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from math import ceil
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from cronce.clock import SystemClock
from cronce.errors import (
    BadInput,
    StoreCorrupt,
    StoreError,
    StoreForgot,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnusable,
)
from cronce.model import Boot
from cronce.stores import mask, options, seconds, sql
from cronce.stores.base import closed_on_error
from cronce.stores.checks import Check, alone, error, ok, warn
from cronce.stores.checks import connection as encryption
from cronce.value import NamedTuple

try:
    import pymysql
    from pymysql.constants import CLIENT
except ImportError:
    raise BadInput("mysql:// needs PyMySQL: pip install 'cronce[mysql]'") from None

if TYPE_CHECKING:
    import ssl

Problem: Final = pymysql.Error

# --- URLs -----------------------------------------------------------------------------------------------------------

MYSQL_OPTIONS: Final = ("timeout", "unix_socket", "ssl_ca", "ssl_cert", "ssl_key", "ssl_check_hostname")
MYSQL_TIMEOUT: Final = "5"


_boot: Final = SystemClock().boot


class MySqlAddress(NamedTuple):
    """What a URL names: a database on a server, and how to get there."""

    url: str  # fit for people
    host: str
    port: int
    user: str
    password: str
    database: str
    timeout: float
    options: dict[str, str]

    @property
    def wait(self) -> int:
        """Seconds for which the server waits for a lock: a little less than the timeout, so that it can say so."""
        return max(1, ceil(self.timeout) - 1)

    def deadline(self) -> Boot:
        """When a call that begins now has taken long enough."""
        return _boot() + self.timeout


def locate(url: str) -> MySqlAddress:
    shown = mask(url)
    try:
        parts = urlsplit(url)
        port = parts.port or 3306
    except ValueError as problem:
        raise BadInput(f"{shown!r}: {problem}") from None
    found = options(shown, parts.query, MYSQL_OPTIONS)
    database = unquote(parts.path[1:])
    if not database or "/" in database:
        raise BadInput(f"{shown!r} names no database; write mysql://user:password@host:3306/database")
    timeout = seconds(shown, found.pop("timeout", MYSQL_TIMEOUT))
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return MySqlAddress(shown, parts.hostname or "localhost", port, user, password, database, timeout, found)


def tls(place: MySqlAddress) -> "ssl.SSLContext | None":
    """How the server is verified, where the URL names certificates; else None, and the connection is not verified."""
    authority, certificate, key = (place.options.get(name) for name in ("ssl_ca", "ssl_cert", "ssl_key"))
    if not authority and not certificate:
        return None
    import ssl  # noqa: PLC0415  slow to import, and few need it

    try:
        context = ssl.create_default_context(cafile=authority)
        if certificate:
            context.load_cert_chain(certificate, key)
    except OSError as problem:
        raise BadInput(f"{place.url}: its certificates cannot be read ({problem})") from None
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the certificates that MySQL makes for itself are not strict
    context.check_hostname = place.options.get("ssl_check_hostname", "true") not in ("false", "0", "off")
    return context


@cache
def unverified() -> "ssl.SSLContext":
    """Encrypts if the server can, and verifies nothing."""
    import ssl  # noqa: PLC0415  as above

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


# --- a connection ---------------------------------------------------------------------------------------------------

# READ COMMITTED: no gaps are locked, and a statement sees what was committed before it began.
# The rest are defaults that a server may have changed: under some of them a COMMIT hangs up, and a SELECT is cut short.
SET_UP: Final = """
    SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION',
        innodb_lock_wait_timeout = %(wait)s, lock_wait_timeout = %(wait)s,
        completion_type = 0, sql_safe_updates = 0, sql_select_limit = 18446744073709551615, sql_big_selects = 1;
    SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SELECT VERSION(), @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog, @@max_allowed_packet
"""


class MySqlServer(NamedTuple):
    """What a server says of itself."""

    version: str
    flush: int
    log_bin: int
    sync_binlog: int
    packet: int

    @property
    def durable(self) -> bool:
        """A commit is on disk when it returns. Where there is a binary log, what is missing there is taken back."""
        return self.flush in (1, 3) and (not self.log_bin or self.sync_binlog == 1)

    @property
    def too_old(self) -> bool:
        found = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)", self.version)
        oldest = (10, 6) if "mariadb" in self.version.lower() else (8, 0)
        return found is not None and tuple(map(int, found.groups())) < oldest


class MySqlConnection:
    """An open connection. Any number of statements are one round trip.

    `deadline` is that of the call that uses it, however many round trips the call takes.
    """

    def __init__(self, place: MySqlAddress, context: "ssl.SSLContext | None") -> None:
        self.place: Final = place
        self.context: Final = context
        self.deadline = place.deadline()
        self.packet = 1 << 20
        self.driver: Final = pymysql.connect(
            host=place.host,
            port=place.port,
            unix_socket=place.options.get("unix_socket"),
            user=place.user or None,
            password=place.password.encode(),  # as text the driver would encode it as Latin-1
            database=place.database,
            charset="utf8mb4",
            collation="utf8mb4_bin",
            autocommit=True,
            client_flag=CLIENT.MULTI_STATEMENTS | CLIENT.FOUND_ROWS,
            connect_timeout=place.timeout,
            read_timeout=place.timeout,
            write_timeout=place.timeout,
            ssl=context,
            ssl_disabled=context is None,
            defer_connect=True,
        )
        if context is None:  # the driver would do the same, and read all authorities of the machine for each connection
            vars(self.driver).update(ssl=True, ctx=unverified())
        self.driver.connect()
        with closed_on_error(self):
            self.server: Final = self._set_up()
        self.packet = self.server.packet

    def _set_up(self) -> MySqlServer:
        ((row,),) = self.ask(SET_UP, wait=self.place.wait)
        server = MySqlServer(*row)
        if server.too_old:
            raise StoreUnusable(f"{self.place.url} is {server.version}; cronce needs MySQL 8.0 or MariaDB 10.6")
        return server

    def ask(self, statements: str, **values: Any) -> list[list[sql.Row]]:
        """The rows of each statement that has some."""
        self._limit()
        with self.driver.cursor() as cursor:
            said = cursor.mogrify(statements, values)
            self._check_size(len(said.encode()))
            cursor.execute(said)
            answers = [list[sql.Row](cursor.fetchall())] if cursor.description else []
            while cursor.nextset():
                if cursor.description:
                    answers.append(list(cursor.fetchall()))
            return answers

    def tell(self, statement: str, **values: Any) -> int:
        """How many rows it found, changed or not."""
        self._limit()
        with self.driver.cursor() as cursor:
            return cursor.execute(statement, values)

    def _limit(self) -> None:
        left = self.deadline - _boot()
        if left <= 0:
            raise StoreUnavailable(
                f"{self.place.url}: not done within {self.place.timeout:g} s; this process is too busy"
            )
        self.driver._read_timeout = left  # type: ignore[attr-defined]

    def _check_size(self, size: int) -> None:
        """The server would close the connection in the middle of it, without a reason."""
        if size >= self.packet:
            raise StoreUnusable(
                f"{self.place.url} takes {self.packet:,} bytes at once, and this call has {size:,}; nothing was"
                " written. Raise max_allowed_packet"
            )

    @property
    def socket(self) -> int:
        number: int = self.driver._sock.fileno()  # type: ignore[attr-defined]
        return number

    def close(self) -> None:
        self.driver.close()


# --- errors ---------------------------------------------------------------------------------------------------------

NO_SUCH_TABLE: Final = 1146
CANNOT_CONNECT: Final = 2003
GRANT_STATEMENT: Final = "GRANT SELECT, INSERT, UPDATE, DELETE ON `{place.database}`.* TO this user"

MYSQL_ERRORS: Final[dict[int, tuple[type[StoreError], str]]] = {
    1044: (StoreUnusable, f"may not be used by this user; let an administrator run {GRANT_STATEMENT}"),
    1045: (StoreUnusable, "refused the user or the password; check both in the URL (a special character as %XX)"),
    1698: (StoreUnusable, "refused the user or the password; this user may be let in through the unix_socket only"),
    1049: (StoreUnusable, "has no such database; run CREATE DATABASE `{place.database}` CHARACTER SET utf8mb4"),
    1130: (StoreUnusable, "does not accept this host; let an administrator create the user for this host, too"),
    1142: (
        StoreUnusable,
        (
            "lacks a privilege; let an administrator run what `cronce store sql` prints, if this was not done"
            f" yet, and {GRANT_STATEMENT}"
        ),
    ),
    NO_SUCH_TABLE: (
        StoreForgot,
        ("lost its tables while this process used it; restore them, or start again with an empty store"),
    ),
    1054: (StoreCorrupt, "has tables that are not as cronce made them; restore a backup, or name another database"),
    1665: (StoreUnusable, "writes statements to its binary log; set binlog_format to ROW or MIXED"),
    1205: (StoreUnavailable, "was locked by another client for too long, and nothing was written"),
    1213: (StoreUnavailable, "met a deadlock with a transaction that is not cronce's, and nothing was written"),
    1040: (StoreUnavailable, "has no connection left; raise max_connections"),
    1203: (StoreUnavailable, "has no connection left for this user; raise max_user_connections"),
    **dict.fromkeys((1021, 1114, 3675), (StoreFull, "has no room on its disk, and nothing was written; make room")),
    **dict.fromkeys(
        (1290, 1792, 1836, 3989),
        (StoreReadOnly, "is read-only: a replica, or closed for writing; use the server that accepts writes"),
    ),
}
NO_ANSWER: Final = (StoreUnavailable, "gave no answer, and a write may have succeeded")
NOT_REACHED: Final = (StoreUnavailable, "cannot be reached; does the server run, and is this its address?")
NOT_TRUSTED: Final = (StoreUnusable, "has a certificate that cannot be verified; check ssl_ca and ssl_check_hostname")
NOT_INNODB: Final = (
    StoreUnusable,
    ("does not create InnoDB tables, and cronce needs them; unset enforce_storage_engine"),
)


def code_of(problem: Exception) -> int:
    code = problem.args[0] if problem.args else 0
    return code if isinstance(code, int) else 0


def explained(problem: Exception, place: MySqlAddress) -> StoreError:
    code, text = code_of(problem), str(problem.args[-1]) if problem.args else ""
    kind, meaning = MYSQL_ERRORS.get(code, NO_ANSWER)
    if code == CANNOT_CONNECT:
        kind, meaning = NOT_TRUSTED if "CERTIFICATE" in text else NOT_REACHED
    elif "NO_ENGINE_SUBSTITUTION" in text:  # its number is that of read_only too
        kind, meaning = NOT_INNODB
    return kind(f"{place.url} {meaning.format(place=place)} ({code}: {text})")


# --- what the doctor asks -------------------------------------------------------------------------------------------

SELECT_SETTINGS: Final = r"""
    SELECT @@time_zone, @@read_only;
    SHOW SESSION VARIABLES WHERE variable_name IN ('transaction_isolation', 'tx_isolation');
    SELECT table_schema FROM information_schema.tables
    WHERE table_name = 'cronce_meta' AND table_schema <> DATABASE() ORDER BY table_schema;
    SHOW GLOBAL VARIABLES LIKE 'rpl\_semi\_sync\_%%\_enabled';
    SHOW GLOBAL VARIABLES LIKE 'wsrep\_on'
"""


def is_on(setting: Any) -> bool:
    return setting not in (0, "OFF")


def checks(connection: MySqlConnection) -> Iterator[Check]:
    ((zone, read_only),), ((_, isolation), *_), others, semi, galera = connection.ask(SELECT_SETTINGS)
    yield ok("version", connection.server.version)
    yield _connection(connection)
    yield _durable(connection.server)
    yield _writable(connection, read_only=is_on(read_only))
    yield _failover(connection.server, semi)
    if any(value == "ON" for _, value in galera):
        yield warn(
            "cluster",
            "Galera: two nodes may both accept a write, and one of them is undone later",
            ("let every process use the same node"),
        )
    yield alone([str(name) for (name,) in others], "see that every process of a job names the same database")
    yield ok("isolation", f"{isolation}, which cronce sets for itself, whatever the server's default is")
    yield ok("time zone", f"{zone}; cronce asks for UTC, whatever it is")


def _connection(connection: MySqlConnection) -> Check:
    ((cipher,),) = connection.ask("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
    verified, context = "", connection.context
    if context is not None:
        host = "and names the host" if context.check_hostname else "the host name is not checked"
        verified = f"its certificate is signed by ssl_ca, {host}"
    remedy = "add ssl_ca=FILE to the URL, the authority that signed the server's certificate"
    host = "" if connection.place.options.get("unix_socket") else connection.place.host
    return encryption(host, verified, remedy, encrypted=bool(cipher[1]))


def _durable(server: MySqlServer) -> Check:
    says = f"innodb_flush_log_at_trx_commit={server.flush}"
    if server.log_bin:
        says += f", sync_binlog={server.sync_binlog}"
    if server.durable:
        return ok("durable", f"{says}: a write is on disk before it is confirmed")
    remedy = "set innodb_flush_log_at_trx_commit=1 and sync_binlog=1"
    return warn("durable", f"{says}: a crash can lose confirmed writes", remedy)


def _writable(connection: MySqlConnection, *, read_only: bool) -> Check:
    if read_only:
        return error("writable", "read_only is on", "use the server that accepts writes")
    for show in ("SHOW REPLICA STATUS", "SHOW SLAVE STATUS"):
        try:
            (rows,) = connection.ask(show)
        except Problem:  # not known to this server, or not allowed
            continue
        if rows:
            return error("writable", "this server is a replica", "use the server that it replicates")
        return ok("writable", "read_only is off, and it is not a replica")
    return ok("writable", "read_only is off; this user may not ask whether it is a replica")


def _failover(server: MySqlServer, semi: Sequence[sql.Row]) -> Check:
    if not server.log_bin:
        return ok("failover", "no binary log, so no replica: if its machine is lost, the store is lost")
    if any(value == "ON" for name, value in semi if "source" in name or "master" in name):
        return ok(
            "failover",
            ("semi-synchronous: a confirmed write is on a replica, too, unless that took longer than its timeout"),
        )
    return warn(
        "failover",
        "replicas, if any, follow asynchronously: a failover loses the last writes, and their slots may run again",
        "turn on semi-synchronous replication (rpl_semi_sync_source_enabled, on MariaDB rpl_semi_sync_master_enabled)",
    )
