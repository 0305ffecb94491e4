"""Connections to PostgreSQL: how they are opened and what is asked of each, who they talk to, and what errors mean.

Behind PgBouncer in transaction mode every statement may meet another session. So nothing here rests on one: no prepared
statement, no setting, no lock that outlives a statement; each statement is a transaction of its own. Limits on waiting
for locks travel within the statement. That an answer comes at all is watched from this side: a `PostgresConnection` is
a connection of psycopg that gives up waiting.
"""

import zlib
from collections.abc import Generator
from hashlib import md5
from importlib.resources import files
from math import ceil
from typing import Any, Final
from urllib.parse import unquote

from cronce.clock import SystemClock
from cronce.errors import (
    BadInput,
    CronceError,
    StoreCopied,
    StoreCorrupt,
    StoreForgot,
    StoreFull,
    StoreNewer,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnusable,
)
from cronce.stores import mask, scheme_of, seconds
from cronce.stores.base import BOARD, closed_on_error
from cronce.value import NamedTuple

try:
    import psycopg
    from psycopg import errors
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError as missing:
    raise BadInput("postgresql:// needs psycopg: pip install 'cronce[postgres]'") from missing

POSTGRES_SCHEMA: Final = 1
"""The version of what schema.sql makes. An older one is brought up to it, a newer one refused."""

ANSWER_TIMEOUT: Final = 5.0
PATIENCE_TO_CONNECT: Final = 2
"""Seconds. PostgreSQL's own library never waits less for a connection."""

ADVISORY_LOCKS: Final = int.from_bytes(b"cron", "big")
"""The first of the two numbers of our advisory locks; the second is the schema's."""

IDENTITY: Final = (
    "(SELECT system_identifier FROM pg_control_system()) || '/'"
    " || (SELECT oid FROM pg_database WHERE datname = current_database())"
)
"""Of a server and a database: a copy of either has another one."""

TIMELINE: Final = "('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint"
"""The number of the history that a server writes: a standby that is promoted begins another, as does archive recovery;
a restart goes on with it. (The last checkpoint's may still be the old one.) A standby must not be asked."""

SURVIVES: Final = """(
    current_setting('fsync') = 'on' AND current_setting('synchronous_standby_names') <> ''
    AND current_setting('synchronous_commit') NOT IN ('off', 'local')
)"""
"""Whether a win waits for a standby, so that a failover forgets none."""

HELLO: Final = """
    SELECT schema, identity, {identity}, current_setting('transaction_read_only') = 'on',
           current_setting('transaction_isolation'), current_setting('server_encoding'),
           current_setting('fsync') = 'on', {survives}, pg_backend_pid()
    FROM {schema}.cronce_meta
"""

__all__ = [
    "PostgresAddress",
    "PostgresConnection",
    "PostgresServer",
    "connect",
    "dial",
    "explained",
    "locate",
    "psycopg",
]


class PostgresAddress(NamedTuple):
    """Where a store is: the options for libpq, the schema, and for how long to wait for an answer."""

    url: str
    conninfo: str
    schema: str
    patience: float

    def __repr__(self) -> str:
        return f"Place({self.named})"  # no password

    @property
    def quoted(self) -> str:
        return '"' + self.schema.replace('"', '""') + '"'

    @property
    def patience_ms(self) -> int:
        """How long the server waits for a lock: less than we wait for the server, so that it can report the timeout."""
        return max(1, int(self.patience * 800))

    @property
    def channel(self) -> str:
        """The channel of this store's notifications; a schema may have a longer name than a channel."""
        return f"cronce_{md5(self.schema.encode(), usedforsecurity=False).hexdigest()}"

    @property
    def named(self) -> str:
        """For people."""
        return mask(self.url)

    def say(self, statement: str, *, bound: bool = False, made: bool = False) -> str:
        """A statement about this place; `bound`: psycopg will look for its parameters, by their %."""
        schema = self.quoted.replace("%", "%%") if bound else self.quoted
        for name, piece in {
            "identity": IDENTITY,
            "timeline": TIMELINE,
            "survives": SURVIVES,
            "version": str(POSTGRES_SCHEMA),
            "lock": f"{ADVISORY_LOCKS}, {zlib.crc32(self.schema.encode()) - (1 << 31)}",
            "made": str(made).lower(),
            "board": BOARD,
            "channel": self.channel,
            "text": schema.replace("'", "''"),
            "schema": schema,
        }.items():
            statement = statement.replace(f"{{{name}}}", piece)
        return statement

    def ddl(self, *, made: bool = False) -> str:
        """All that a store is made of, as SQL."""
        return self.say(files(__package__).joinpath("schema.sql").read_text(encoding="utf-8"), made=made)


def locate(url: str) -> PostgresAddress:
    """The place that a URL names: all that libpq knows, and our own ``?schema=NAME&timeout=SECONDS``."""
    address, _, query = url.partition(":")[2].partition("?")
    options = [part.partition("=") for part in query.split("&") if part]
    ours = {name: unquote(value) for name, _, value in options if name in ("schema", "timeout")}
    rest = "&".join("".join(option) for option in options if option[0] not in ours)
    try:
        given = conninfo_to_dict(f"{scheme_of(url)}:{address}?{rest}")
    except psycopg.ProgrammingError as error:
        raise BadInput(_unreadable(url, str(error))) from None
    if not str(given.get("port", "")).replace(",", "").isdigit() and "port" in given:
        raise BadInput(_unreadable(url, ""))
    patience = seconds(mask(url), ours["timeout"]) if "timeout" in ours else ANSWER_TIMEOUT
    hosts = str(given.get("host") or given.get("hostaddr") or "").count(",") + 1
    given.setdefault("connect_timeout", max(PATIENCE_TO_CONNECT, ceil(patience / hosts)))
    given.setdefault("fallback_application_name", "cronce")
    given["client_encoding"] = "UTF8"
    return PostgresAddress(url, make_conninfo("", **given), _schema(url, ours.get("schema", "public")), patience)


def _unreadable(url: str, words: str) -> str:
    """libpq names the option that it does not know; of anything else it may quote a piece, and that may be secret."""
    _, unknown, option = words.partition("invalid URI query parameter: ")
    if unknown:
        return (
            f"{mask(url)!r}: there is no option {option.strip()}; cronce's options are schema and timeout, the"
            " others are libpq's"
        )
    return f"{mask(url)!r} is not a URL: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with %40 for @ and so on"


def _schema(url: str, name: str) -> str:
    """Any name that PostgreSQL has for a schema of ours, but for characters that only a trick would use."""
    its_own = name == "information_schema" or name.startswith("pg_")
    if its_own or not 0 < len(name.encode()) < 64 or not name.isprintable() or set(name) & set("${}"):
        raise BadInput(f"{mask(url)!r}: {name[:70]!r} cannot be a schema")
    return name


class PostgresServer(NamedTuple):
    """What a server reports of the store and of itself when a connection is opened."""

    schema: int
    identity: str  # of where the store was made
    here: str  # and of where it is
    read_only: bool
    isolation: str
    encoding: str
    fsync: bool
    survives_failover: bool
    pooled: bool  # a pooler such as PgBouncer is in between


class StatementCancelled(StoreUnavailable):
    """It took longer than the server lets a statement take, or a person cancelled it. Nothing of it landed."""


class NoAnswer(psycopg.OperationalError):
    """The server was waited for as long as we may."""


class PostgresConnection(psycopg.Connection[Any]):
    """One connection. A call over it waits for an answer for `patience` at most."""

    patience: float = ANSWER_TIMEOUT
    server: PostgresServer

    def wait(self, gen: Any, *_: Any, **__: Any) -> Any:
        """psycopg wakes up every so often while it waits, and informs the generator that nothing has come."""
        return super().wait(_limited(gen, _boot() + self.patience), min(0.1, self.patience / 10))


_boot: Final = SystemClock().boot


def _limited(gen: Any, deadline: float) -> Generator[Any, Any, Any]:
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and _boot() >= deadline:
                raise NoAnswer
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value


def connect(place: PostgresAddress, *, adopt: bool = False, made: bool = False) -> PostgresConnection:
    """A connection to a store that is there, of a version and on a server that it can be used on."""
    line = dial(place)
    with closed_on_error(line):
        line.server = _greeted(line, place, adopt=adopt, made=made)
    return line


def dial(place: PostgresAddress) -> PostgresConnection:
    try:
        line = PostgresConnection.connect(place.conninfo, autocommit=True, prepare_threshold=None)
    except psycopg.Error as error:
        raise _not_connected(error, place) from error
    line.patience = place.patience
    return line


def _greeted(line: PostgresConnection, place: PostgresAddress, *, adopt: bool, made: bool) -> PostgresServer:
    try:
        found = line.execute(place.say(HELLO)).fetchone()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        found = None
    except psycopg.Error as error:
        raise explained(error, place) from error
    if found is None or found[0] < POSTGRES_SCHEMA:
        _make(line, place, made=made)
        found = line.execute(place.say(HELLO)).fetchone()
    assert found is not None
    *known, session = found
    # a pooler reports a backend number of its own, not that of the session that it connects to
    server = PostgresServer._make((*known, session != line.info.backend_pid))
    _check(server, place, adopt=adopt)
    return server


def _make(line: PostgresConnection, place: PostgresAddress, *, made: bool) -> None:
    """Make the tables, for the first time or from an older version; a process that does so at the same time waits."""
    try:
        line.execute(place.ddl(made=made))
    except errors.InsufficientPrivilege as error:
        raise StoreUnusable(
            f"{place.named}: this role may not create cronce's tables in the schema {place.schema}:"
            f" {_words(error)}; let an administrator run the output of `cronce store sql {place.named}`, or name a"
            " schema of its own with ?schema=NAME"
        ) from error
    except psycopg.Error as error:
        raise explained(error, place) from error


def _check(server: PostgresServer, place: PostgresAddress, *, adopt: bool) -> None:
    if server.schema > POSTGRES_SCHEMA:
        raise StoreNewer(
            f"{place.named} has version {server.schema} of cronce's tables,"
            f" this cronce knows {POSTGRES_SCHEMA}: upgrade it"
        )
    if server.read_only:
        raise _read_only(place)
    if server.identity != server.here and not adopt:
        raise StoreCopied(
            f"{place.named} is a copy: its tables were made on the server and database {server.identity}, this is"
            f" {server.here}. With the original still in use both would run everything; if it is not,"
            f" `cronce store adopt {place.named}`"
        )
    if server.isolation != "read committed":
        raise StoreUnusable(
            f"{place.named}: transactions are {server.isolation} by default, and cronce needs read committed:"
            " ALTER ROLE … SET default_transaction_isolation = 'read committed'"
        )
    if server.encoding != "UTF8":
        raise StoreUnusable(f"{place.named}: the database is encoded in {server.encoding}; cronce needs one in UTF8")


# --- errors ---------------------------------------------------------------------------------------------------------

_FOR_A_PERSON: Final = {
    **dict.fromkeys(
        ("authentication failed", "no password supplied"),
        "check user and password in the URL (a special character as %XX)",
    ),
    "does not exist": "create it, or correct the URL",
    **dict.fromkeys(
        ("no pg_hba.conf entry", "is not permitted to log in", "permission denied"), "let an administrator allow it"
    ),
    **dict.fromkeys(("certificate", "does not support SSL"), "check sslmode and sslrootcert in the URL"),
}
"""Parts of the messages with which a server refuses a client until a person acts, and what to do."""


def _not_connected(error: psycopg.Error, place: PostgresAddress) -> CronceError:
    words = _words(error)
    if "session is read-only" in words or "server is in hot standby" in words:
        if "," in str(conninfo_to_dict(place.conninfo).get("host", "")):
            return StoreUnavailable(
                f"{place.named}: none of its servers can be written now; a failover may be under way"
            )
        return _read_only(place)
    for phrase, remedy in _FOR_A_PERSON.items():
        if phrase in words:
            return StoreUnusable(f"{place.named} refuses connections: {words}; {remedy}")
    return StoreUnavailable(f"{place.named} cannot be reached: {words}")


def explained(error: psycopg.Error, place: PostgresAddress) -> CronceError:
    """The error to raise for an error of the driver."""
    kind, means = next((kind, means) for kinds, kind, means in _MEANINGS if isinstance(error, kinds))
    return kind(means.format(place=place, words=_words(error)))


def _read_only(place: PostgresAddress) -> StoreReadOnly:
    return StoreReadOnly(READ_ONLY.format(place=place))


READ_ONLY: Final = (
    "{place.named} cannot be written: it is a standby or read-only; use the primary, or all servers with"
    " ?target_session_attrs=read-write"
)
LOCKED: Final = (
    "{place.named}: another transaction kept a lock for {place.patience_ms:,} ms; see which in pg_stat_activity, or"
    " wait longer with ?timeout=SECONDS"
)
_MEANINGS: Final[tuple[tuple[tuple[type[psycopg.Error], ...], type[CronceError], str], ...]] = (
    ((errors.ReadOnlySqlTransaction,), StoreReadOnly, READ_ONLY),
    (
        (errors.UndefinedTable, errors.UndefinedFunction, errors.InvalidSchemaName, errors.UndefinedColumn),
        StoreForgot,
        "{place.named}: cronce's tables are gone, or were changed by another version: {words}",
    ),
    (
        (errors.InsufficientPrivilege,),
        StoreUnusable,
        "{place.named}: {words}; the end of the output of `cronce store sql {place.named}` shows what a role needs",
    ),
    ((errors.DiskFull,), StoreFull, "{place.named}: {words}; make room on the server"),
    ((errors.DataCorrupted, errors.IndexCorrupted), StoreCorrupt, "{place.named}: {words}; restore a backup"),
    ((errors.LockNotAvailable,), StoreUnavailable, LOCKED),
    ((NoAnswer,), StoreUnavailable, "{place.named} did not answer for {place.patience:g} s"),
    ((errors.ProgramLimitExceeded,), BadInput, "more than PostgreSQL can store: {words}"),
    (
        (errors.QueryCanceled,),
        StatementCancelled,
        "{place.named}: {words}",
    ),
    (
        (psycopg.OperationalError, psycopg.InterfaceError, errors.TransactionRollback),
        StoreUnavailable,
        "{place.named}: {words}",
    ),
    ((psycopg.DataError,), BadInput, "not a text that PostgreSQL can store: {words}"),
    ((psycopg.Error,), StoreUnusable, "{place.named}: PostgreSQL says: {words}"),
)
"""The first that fits counts: errors of PostgreSQL are kinds of each other."""


def _words(error: psycopg.Error) -> str:
    """The first line is what happened; the rest points into SQL."""
    return (error.diag.message_primary or str(error) or type(error).__name__).strip().partition("\n")[0]
