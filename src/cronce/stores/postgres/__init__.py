"""Cells in PostgreSQL, for any number of machines. A win is on disk before it is answered.

The hot path is one call of a server-side function for any batch, and schema.sql explains how; here is the rest.
Versions and fences come from a sequence: it is never waited for, and it also counts writes that were rolled back. So
its value is no answer to "what has been written": a number drawn by a transaction that is not committed may be lost in
a crash, and a process that had seen it would take a durable store for one that lost data. So an answer gives as the
tally only what is certain: the number noted last, those of the cells it shows, and what this very process won or
received before.

Beside the store itself: `swap` how a batch travels, `schema.sql` what the server does with it, `server` connections and
what their errors mean, `session` advisory locks.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cronce.errors import BadInput
from cronce.model import Cell, Epoch, Instant, Mark, Traits, Write, from_us
from cronce.stores import sql
from cronce.stores.base import (
    Loaded,
    Page,
    Scan,
    Swapped,
    closed_on_error,
    first_page,
    groups,
    in_batches,
    life_of,
    loaded,
    refused_epoch,
)
from cronce.stores.checks import Check, alone, connection, error, ok, warn
from cronce.stores.pool import ConnectionPool
from cronce.stores.postgres.server import (
    PostgresAddress,
    PostgresConnection,
    PostgresServer,
    StatementCancelled,
    connect,
    explained,
    locate,
    psycopg,
)
from cronce.stores.postgres.swap import (
    MANY_WRITES,
    Instants,
    read_cells,
    read_epoch,
    read_head,
    read_rows,
    read_verdicts,
    spell_swap,
)

if TYPE_CHECKING:
    from cronce.stores.news import SocketListener

STORE_COLUMNS: Final = 6
"""So many columns of what is read are about the store, the others about a cell."""

LOAD: Final = """
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, m.birth, m.tally, m.base, m.origin, m.since,
           c.key, c.version, c.mark, c.at, c.until, c.fence_birth, c.fence_number, c.value
    FROM {schema}.cronce_meta AS m
    LEFT JOIN (
        unnest(%b::text[]) AS n (key)
        CROSS JOIN LATERAL (SELECT * FROM {schema}.cronce_cells AS k WHERE k.key = n.key LIMIT 1) AS c
    ) ON true
"""

SCAN: Final = """
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, m.birth, m.tally, m.base, m.origin, m.since,
           c.key, c.version, c.mark, c.at, c.until, c.fence_birth, c.fence_number, c.value
    FROM {schema}.cronce_meta AS m
    LEFT JOIN LATERAL (
        SELECT * FROM {schema}.cronce_cells AS c
        WHERE {conditions}
        ORDER BY {order}
        LIMIT %(limit)s
    ) AS c ON true
    ORDER BY {order}
"""

# A cell that another process is writing just now has changed since it was read, and stays: so a purge never waits.
PURGE: Final = """
    WITH gone AS MATERIALIZED (
        SELECT c.key
        FROM unnest(%b::text[], %s::bigint[]) AS n (key, version)
        JOIN {schema}.cronce_cells AS c ON c.key = n.key AND c.version = n.version
        FOR UPDATE OF c SKIP LOCKED
    )
    DELETE FROM {schema}.cronce_cells AS c USING gone WHERE c.key = gone.key
"""

# Few are counted; of many the server knows how densely they lie, since it last looked.
SIZE: Final = """
    SELECT CASE
        WHEN few.cells < 10000 OR c.relpages = 0 THEN few.cells
        ELSE greatest(few.cells, (c.reltuples / c.relpages * pages.now)::bigint)
    END
    FROM (SELECT count(*) AS cells FROM (SELECT FROM {schema}.cronce_cells LIMIT 10000) AS first) AS few
    LEFT JOIN pg_class AS c ON c.oid = (SELECT tableoid FROM {schema}.cronce_cells LIMIT 1)
    LEFT JOIN LATERAL (SELECT pg_relation_size(c.oid) / current_setting('block_size')::bigint AS now) AS pages ON true
"""

MAX_WRITES_PER_STATEMENT: Final = 1_000_000
"""Writes that go in one statement, unless the server cancels it."""

BEGIN_STORE: Final = "SELECT {schema}.cronce_begin(%s, %s, %s, %s)"


_Answer = TypeVar("_Answer")


TRAITS: Final = Traits("postgresql", survives_failover=False, notifies=True)
"""Of a server as it comes."""


def traits_of(server: PostgresServer) -> Traits:
    """What this very server can promise, by its settings. Through a pooler no process can listen: news goes to a
    session, and the pooler may give a listener another session the next time."""
    return TRAITS._replace(
        durable=server.fsync,
        survives_failover=server.survives_failover,
        notifies=not server.pooled,
    )


class PostgresStore:
    """A store in a schema of a database. Connections are opened as threads need them, and kept."""

    def __init__(self, place: PostgresAddress, *, adopt: bool = False, made: bool = False) -> None:
        self.place: Final = place
        self._lock = threading.Lock()
        self._known = (0, 0)
        self._most = MAX_WRITES_PER_STATEMENT
        self._said = cache(partial(place.say, bound=True))
        self._told = cache(lambda statement: place.say(statement).encode())
        self._patience_ms = place.patience_ms
        self._connect = partial(connect, place, adopt=adopt, made=made)
        self._pool: ConnectionPool[PostgresConnection] = ConnectionPool(
            lambda: self._connect(),  # noqa: PLW0108  it changes
            PostgresConnection.fileno,
            place.patience,
        )
        with self._pool.line() as line:
            self.traits: Final = traits_of(line.server)
        self._connect = partial(connect, place)

    # --- the seam ---------------------------------------------------------------------------------------------------

    def load(self, keys: Sequence[str]) -> Loaded:
        now, epoch, cells = self._read(LOAD, [list(keys)])
        return loaded(now, epoch, keys, cells)

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        """In one statement; where the server cancels such a long one, in shorter ones from then on."""
        parts = list(in_batches(writes, self._most)) if len(writes) > self._most else [writes]
        if len(parts) > 1:
            swapped = [self.swap(part, seen) for part in parts]
            return swapped[-1]._replace(verdicts=[verdict for part in swapped for verdict in part.verdicts])
        try:
            return self._swap(writes, seen)
        except StatementCancelled:  # nothing of it landed
            if len(list(groups(writes))) == 1:
                raise
            self._most = max(len(writes) // 2, 1)
            return self.swap(writes, seen)

    def _swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        call = spell_swap(writes, (*seen, self._patience_ms))
        rows = read_rows(call, (self.ask if call.statement is MANY_WRITES else self._tell)(call.statement, call.given))
        head = read_head(rows[0])
        if head.belief:
            epoch = self._begin(seen) if head.belief > 1 else self._learnt(head.epoch, 0)
            return Swapped(head.now, epoch, refused_epoch(writes))
        verdicts, highest = read_verdicts(call, head, rows)
        return Swapped(head.now, self._learnt(head.epoch, max(highest, seen[1])), verdicts)

    def scan(self, scan: Scan) -> Page:
        statement, bounds = spell_scan(scan)
        now, epoch, cells = self._read(statement, bounds)
        return first_page(now, epoch, cells, scan)

    def purge(self, cells: Sequence[Cell]) -> int:
        given = [[cell.key for cell in cells], [cell.version for cell in cells]]
        return self._work(lambda line: line.execute(self._said(PURGE), given).rowcount) if cells else 0

    def size(self) -> int:
        ((cells,),) = self.ask(SIZE, [])
        return int(cells)

    def listen(self) -> "SocketListener":
        from cronce.stores.news import SocketListener  # noqa: PLC0415  not under cron

        line = connect(self.place)
        with closed_on_error(line):
            return SocketListener(NotifyChannel(line, self.place))

    def close(self) -> None:
        self._pool.close()

    def checks(self) -> Iterator[Check]:
        (look,) = self.ask(SELECT_SETTINGS, [])
        major, version, fsync, full_pages, commit, standbys, replicas, idle, autovacuum, schemas, limit = look
        yield _version(major, version)
        yield _durable(fsync, full_pages, commit)
        yield _failover(standbys, replicas, commit)
        yield from _connected(self.place)
        yield _namespaces(self.place.schema, schemas)
        yield _vacuum(autovacuum)
        yield _statements(int(limit))
        yield ok("transactions", f"none is open between calls (idle_in_transaction_session_timeout is {idle})")

    # --- asking -----------------------------------------------------------------------------------------------------

    def ask(self, statement: str, given: Any) -> Sequence[sql.Row]:
        return self._work(lambda line: line.execute(self._said(statement), given, binary=True).fetchall())

    def _tell(self, statement: str, given: Sequence[str | bytes | None]) -> Sequence[sql.Row]:
        """Ask without a cursor, which costs 25 µs of CPU: with one, a single swap would take half as much again."""
        return self._work(lambda line: _texts(line, self._told(statement), given))

    def _work(self, work: Callable[[PostgresConnection], _Answer]) -> _Answer:
        try:
            with self._pool.line() as line:
                return work(line)
        except psycopg.Error as error:
            raise explained(error, self.place) from error
        except UnicodeEncodeError as error:
            raise BadInput(f"{error.object[:60]!r} is not text that can be stored") from None

    def _read(self, statement: str, given: Any) -> tuple[Instant, Epoch, list[Cell]]:
        rows = self.ask(statement, given)
        now, birth, tally, base, origin, since = rows[0][:STORE_COLUMNS]
        epoch = read_epoch(birth, tally, base, origin, since)
        keys, versions, *others = list(zip(*rows, strict=True))[STORE_COLUMNS:]
        if keys[0] is None:
            return from_us(now), self._learnt(epoch, 0), []
        cells = list(read_cells([keys, versions, *others], Instants()))
        return from_us(now), self._learnt(epoch, max(versions)), cells

    def _learnt(self, epoch: Epoch, highest: int) -> Epoch:
        """The epoch with the highest number that is certain. Within one life of the store, it never falls below one
        given before."""
        with self._lock:
            tally = max(epoch.tally, highest)
            if self._known[0] == epoch.birth:
                tally = max(tally, self._known[1])
            self._known = max(self._known, (epoch.birth, tally))
        return epoch if tally == epoch.tally else Epoch(epoch.birth, tally, *epoch[2:])

    def _begin(self, seen: tuple[int, int], *, adopt: bool = False) -> Epoch:
        self.ask(BEGIN_STORE, [*seen, self._patience_ms, adopt])
        return self.load([]).epoch

    def adopt(self) -> Epoch:
        """A new life on this server, whatever was known of the one before."""
        return self._begin(self.load([]).epoch.seen, adopt=True)


def _texts(line: PostgresConnection, statement: bytes, given: Sequence[str | bytes | None]) -> list[sql.Row]:
    """The rows of texts that a statement returns. A str is sent as it is, with its length."""
    parameters = [text.encode() if isinstance(text, str) else text for text in given]
    line.pgconn.send_query_params(statement, parameters, param_formats=[isinstance(text, str) for text in given])
    result, *more = line.wait(psycopg.generators.execute(line.pgconn))
    for one in (result, *more):  # of a session that a pooler's server has ended: its error, and the end of the line
        if one.status != psycopg.pq.ExecStatus.TUPLES_OK:
            raise psycopg.errors.error_from_result(one)
    return [((result.get_value(row, 0) or b"").decode(),) for row in range(result.ntuples)]


# --- scans ----------------------------------------------------------------------------------------------------------

RUN_AT: Final = "(CASE WHEN left(c.key, 4) = 'run/' THEN c.at END)"
"""What runs are ordered by, as their index has it."""


def spell_scan(scan: Scan) -> tuple[str, dict[str, Any]]:
    """A page begins past a position. By until, or by the at of what is no run, there is no index: what is open, or
    below its prefix, is sorted."""
    past, way = ("<", "DESC") if scan.newest_first else (">", "ASC")
    conditions, by = _held(scan)
    if scan.by != "key" and scan.upto is not None:
        conditions.append(f"{by} <= %(upto)s")
    if scan.after is not None:
        conditions.append(
            f"c.key {past} %(after)s" if scan.by == "key" else f"({by}, c.key) {past} (%(us)s, %(after)s)"
        )
    order = f"c.key {way}" if scan.by == "key" else f"{by} {way}, c.key {way}"
    statement = SCAN.replace("{conditions}", " AND ".join(conditions)).replace("{order}", order)
    return statement, sql.bounds(scan, None)


def _held(scan: Scan) -> tuple[list[str], str]:
    """Conditions and an order that leave one index to choose from.

    Before the first ANALYZE the planner takes any range of keys for small, and reads the shelf. So what must not decide
    is hidden from it: in the order of at, the prefix; where the prefix or the mark decides, the order.
    """
    below = ["c.key >= %(low)s", *(["c.key < %(high)s"] if sql.beyond(scan.prefix) is not None else [])]
    marked = [] if scan.mark is None else [f"c.mark = {scan.mark:d}"]
    if scan.by == "key":
        return below + marked, "c.key"
    there = f"c.{scan.by} IS NOT NULL"
    if scan.by == "at" and scan.mark is Mark.ATTENTION:
        return [there, *marked, _hidden(below)], "c.at"
    if scan.by == "at" and scan.mark is not Mark.OPEN and scan.prefix.startswith("run/"):
        return [f"{RUN_AT} IS NOT NULL", _hidden(below + marked)], RUN_AT
    return [there, *below, *marked], f"(c.{scan.by} + 0)"


def _hidden(conditions: Sequence[str]) -> str:
    return f"coalesce({' AND '.join(conditions)}, false)"


# --- news -----------------------------------------------------------------------------------------------------------


class NotifyChannel:
    """A session that listens: the functions in schema.sql send NOTIFY."""

    def __init__(self, line: PostgresConnection, place: PostgresAddress) -> None:
        self._line = line
        self._place = place
        self._news = False
        line.add_notify_handler(self._note)  # one may come with the answer to LISTEN
        try:
            line.execute(f"LISTEN {place.channel}")
        except psycopg.Error as error:
            raise explained(error, place) from error

    def fileno(self) -> int:
        return self._line.fileno()

    def heard(self) -> bool:
        wire = self._line.pgconn
        try:
            wire.consume_input()
        except psycopg.Error as error:
            raise explained(error, self._place) from error
        while wire.notifies():
            self._news = True
        news, self._news = self._news, False
        return news

    def close(self) -> None:
        self._line.close()

    def _note(self, _notify: object) -> None:
        self._news = True


# --- what the doctor asks: the settings that have burned others -------------------------------------------------------

OLDEST_POSTGRES: Final = 13
"""The oldest PostgreSQL that the statements are known to work on."""

SELECT_SETTINGS: Final = """
    SELECT current_setting('server_version_num')::integer / 10000, current_setting('server_version'),
           current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
           current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication),
           current_setting('idle_in_transaction_session_timeout'), current_setting('autovacuum'),
           (SELECT array_agg(relnamespace::regnamespace::text) FROM pg_class
            WHERE relname = 'cronce_meta' AND relkind = 'r'),
           (SELECT setting FROM pg_settings WHERE name = 'statement_timeout')
"""


def _version(major: int, version: str) -> Check:
    if major < OLDEST_POSTGRES:
        return error("version", f"PostgreSQL {version}", f"use PostgreSQL {OLDEST_POSTGRES} or newer")
    return ok("version", f"PostgreSQL {version}, the primary")


BATCH_TIMEOUT_MS: Final = 5000
"""Milliseconds in which a server answers a batch of a thousand writes also when it is busy."""


def _statements(limit: int) -> Check:
    if not limit or limit >= BATCH_TIMEOUT_MS:
        return ok("statements", "have enough time" if limit else "have no time limit")
    return warn(
        "statements",
        f"statement_timeout is {limit} ms: what takes longer is cancelled, and then sent again in smaller batches",
        "ALTER ROLE … SET statement_timeout = 0, for the role that cronce has",
    )


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
            "standbys follow asynchronously: a failover may lose the last writes, and a slot may run twice",
            "set synchronous_standby_names, and synchronous_commit = on",
        )
    return ok("failover", "no standby is connected: if this machine is lost, the store is lost")


def _connected(place: PostgresAddress) -> Iterator[Check]:
    """What a connection has in between, and whether it is known whom it is to."""
    line = connect(place)
    with closing(line):
        yield _pooler(line)
        told = {option.keyword.decode(): (option.val or b"").decode() for option in line.pgconn.info}
        mode = told.get("sslmode", "")
        if mode == "require" and told.get("sslrootcert"):  # libpq verifies then, too
            mode = "verify-ca"
        remedy = "add sslmode=verify-full&sslrootcert=FILE (or sslrootcert=system) to the URL"
        yield connection(line.info.host, _VERIFIED.get(mode, ""), remedy, encrypted=bool(line.pgconn.ssl_in_use))


_VERIFIED: Final = {
    "verify-full": "its certificate is signed by sslrootcert, and names the host (verify-full)",
    "verify-ca": "its certificate is signed by sslrootcert; the host name is not checked (verify-ca)",
}


def _pooler(line: PostgresConnection) -> Check:
    if line.server.pooled:
        says = "a pooler such as PgBouncer is in between; the store works with all of its modes"
        return ok("pooler", f"{says}, but it sends no notifications: requests by hand are seen a moment later")
    return ok("pooler", "none: each connection has a session of its own")


def _namespaces(ours: str, schemas: list[str]) -> Check:
    others = sorted(name.strip('"') for name in schemas if name.strip('"') != ours)
    return alone(others, "make sure that every process names the same ?schema=")


def _vacuum(autovacuum: str) -> Check:
    if autovacuum == "off":
        return warn("vacuum", "autovacuum is off: tables will grow, and scans become slow", "set autovacuum = on")
    return ok("vacuum", "autovacuum is on")


# --- by URL ---------------------------------------------------------------------------------------------------------


def open_store(url: str) -> PostgresStore:
    return PostgresStore(locate(url))


def init(url: str) -> Epoch:
    """Begin on purpose; where there is a store already, just the life it is in."""
    return life_of(PostgresStore(locate(url), made=True))


def adopt(url: str) -> Epoch:
    """Take a copy for the store from now on; the life that begins with it."""
    with closing(PostgresStore(locate(url), adopt=True)) as store:
        return store.adopt()


def ddl(url: str) -> str:
    """All the SQL that a store is made of, for a person to run."""
    return locate(url).ddl()
