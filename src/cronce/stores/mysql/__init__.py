"""Cells in a database of MySQL or MariaDB. One round trip for a batch of claims, won or lost.

*No lock is held while the server waits for a client.* A swap that locked, read, judged here and then wrote would hold
the lock for a round trip, and a process that is stopped in the middle of one would stop all others. So a swap is sent
as one piece: what it expects to find, and what to write if it does. The server compares, without a lock at first, so
that a loser takes none and writes nothing; then it takes the lock of the one row in `cronce_meta`, always before any
other, so that swaps never deadlock. It reads its clock, and writes all or nothing. What it found is returned either
way, and `judge` decides what that means. The first try expects that every write wins. If only some can, or a key is
named twice, a second try expects exactly what the first one found.

*No answer counts a win before it is on disk.* Without a binary log, InnoDB shows a commit to others first and flushes
it then. A crash in between undoes what they have read, and they would conclude that the store lost data. So a winner
holds a named lock, called after its tally, until its commit returns, and an answer that counts up to there waits for
it.

*Cells are read before the row in `cronce_meta`*, by a statement of their own, so that the tally of an answer covers
every version in it.

Beside the store itself: `schema` its tables, `server` connections, what their errors mean and what the doctor asks.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import cache, partial
from inspect import cleandoc
from typing import Any, Final, TypeVar

from cronce.errors import BadInput, StoreReadOnly, StoreUnavailable, StoreUnusable
from cronce.model import Cell, Epoch, Instant, Mark, Traits, Write, to_us
from cronce.stores import sql
from cronce.stores.base import By, Loaded, Page, Scan, Swapped, closed_on_error, first_page, judge, life_of, loaded, us
from cronce.stores.checks import Check
from cronce.stores.mysql import schema
from cronce.stores.mysql.schema import MAX_KEY_BYTES, MySqlState
from cronce.stores.mysql.server import MySqlAddress, MySqlConnection, Problem, checks, explained, locate, tls
from cronce.stores.pool import ConnectionPool
from cronce.value import NamedTuple

TRAITS: Final = Traits("mysql", survives_failover=False)

AFTER_ALL_TEXT: Final = b"\xff"

_Answer = TypeVar("_Answer")
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

# --- statements -----------------------------------------------------------------------------------------------------

# Keys, each with the version that is expected; -1 is free or absent.
WANTED_KEYS: Final = """JSON_TABLE(@wanted, '$[*]' COLUMNS (
        name VARCHAR(1000) CHARACTER SET utf8mb4 PATH '$[0]',
        seen BIGINT PATH '$[1]'
    )) AS wanted"""

SELECT_CELLS: Final = """
    SELECT `key`, version, mark, at, until, fence_birth, fence_number, {value}
    FROM {wanted} STRAIGHT_JOIN cronce_cells ON `key` = CAST(name AS BINARY)
"""

AS_EXPECTED: Final = """(
        SELECT `schema` = {schema} AND birth = %(birth)s AND tally >= %(tally)s AND NOT @@read_only FROM cronce_meta
    ) AND NOT EXISTS (
        SELECT 1 FROM {wanted} LEFT JOIN cronce_cells ON `key` = CAST(name AS BINARY)
        WHERE seen <> COALESCE(version, 0) AND NOT (seen = -1 AND COALESCE(mark, {free}) = {free})
    )"""

# Numbers are counted from the tally, spans from now. Of a cell that is there, what is NULL here stays as it is.
WRITE_CELLS: Final = """
    INSERT INTO cronce_cells (`key`, version, mark, at, until, fence_birth, fence_number, value)
    SELECT CAST(name AS BINARY), tally + n, to_mark, to_at, @now + ttl, IF(fence, birth, NULL), tally + fence, to_value
    FROM cronce_meta STRAIGHT_JOIN JSON_TABLE(%(rows)s, '$[*]' COLUMNS (
        name VARCHAR(1000) CHARACTER SET utf8mb4 PATH '$[0]',
        n BIGINT PATH '$[1]',
        to_mark TINYINT PATH '$[2]',
        to_at BIGINT PATH '$[3]',
        ttl BIGINT PATH '$[4]',
        fence BIGINT PATH '$[5]',
        to_value LONGTEXT CHARACTER SET utf8mb4 PATH '$[6]'
    )) AS written
    WHERE only_row = @go
    ON DUPLICATE KEY UPDATE version = VALUES(version), mark = VALUES(mark), until = COALESCE(VALUES(until), until),
        fence_birth = COALESCE(VALUES(fence_birth), fence_birth),
        fence_number = COALESCE(VALUES(fence_number), fence_number), value = VALUES(value)
"""

READ_CELLS: Final = """
    SET @wanted = %(wanted)s;
    {cells};
    {meta}
"""

# To read for a SET or a DO would take locks, SELECT … INTO takes none. Without their values cells are so few bytes that
# the server can send them and go on, whether or not the client reads them.
SWAP: Final = """
    SET @wanted = %(wanted)s;
    SELECT {as_expected} INTO @go;
    START TRANSACTION;
    SELECT only_row INTO @locked FROM cronce_meta WHERE only_row = @go FOR UPDATE;
    SET @now = {now};
    SELECT @go AND @now BETWEEN %(earliest)s AND %(latest)s AND {as_expected} INTO @go;
    {cells};
    {meta};
    {write};
    UPDATE cronce_meta SET tally = tally + %(drawn)s, last_write = @now WHERE only_row = @go;
    SELECT GET_LOCK(CONCAT('cronce:', birth, ':', tally), 1) INTO @held FROM cronce_meta WHERE only_row = @go;
    COMMIT;
    DO RELEASE_ALL_LOCKS()
"""

WAIT_FOR_LOCK: Final = "SELECT GET_LOCK(%(name)s, %(wait)s); DO RELEASE_ALL_LOCKS()"

PURGE: Final = """
    SET @wanted = %(wanted)s;
    START TRANSACTION;
    SELECT only_row INTO @locked FROM cronce_meta FOR UPDATE;
    DELETE cronce_cells FROM {wanted} STRAIGHT_JOIN cronce_cells ON `key` = CAST(name AS BINARY) AND version = seen;
    SELECT ROW_COUNT();
    COMMIT
"""

SCAN: Final = """
    SELECT `key`, version, mark, at, until, fence_birth, fence_number, value FROM cronce_cells FORCE INDEX ({index})
    WHERE {only} AND `key` >= %(low)s AND `key` < %(high)s AND {past}
    ORDER BY {order} LIMIT %(limit)s;
    {meta}
"""

# Few are counted; of many InnoDB has an estimate, which it looks after itself.
SIZE: Final = """
    SELECT IF(cells < 10000, cells, GREATEST(cells, COALESCE(table_rows, 0)))
    FROM (SELECT COUNT(*) AS cells FROM (SELECT 1 FROM cronce_cells LIMIT 10000) AS first) AS few
    LEFT JOIN information_schema.tables ON table_schema = DATABASE() AND table_name = 'cronce_cells'
"""

# A page begins past a position; no index serves a comparison of pairs, so it is said in two.
PAST_KEY: Final = "`key` {past} %(after)s"
PAST_INSTANT: Final = "{by} {past}= %(us)s AND ({by} {past} %(us)s OR `key` {past} %(after)s) AND {by} <= %(upto)s"


def _swap_statements() -> str:
    return SWAP.format(
        as_expected=AS_EXPECTED.format(schema=sql.SQL_SCHEMA, wanted=WANTED_KEYS, free=int(Mark.FREE)),
        now=schema.NOW,
        cells=SELECT_CELLS.format(value="IF(@go, '', value)", wanted=WANTED_KEYS),
        meta=schema.SELECT_META.format(now="@now", went="@go"),
        write=WRITE_CELLS,
    )


META_SQL: Final = schema.SELECT_META.format(now=schema.NOW, went=0)
READ_SQL: Final = READ_CELLS.format(cells=SELECT_CELLS.format(value="value", wanted=WANTED_KEYS), meta=META_SQL)
SWAP_SQL: Final = _swap_statements()
PURGE_SQL: Final = PURGE.format(wanted=WANTED_KEYS)


@cache
def scan_statement(by: By, mark: Mark | None, *, newest_first: bool) -> str:
    words = sql.scan_words(
        by, mark, newest_first=newest_first, key="`key`", past_key=PAST_KEY, past_instant=PAST_INSTANT
    )
    return SCAN.format(index=_index(by, mark), meta=META_SQL, **words)


def _index(by: By, mark: Mark | None) -> str:
    """What is open or wants attention is little: it is read whole, and sorted if need be. By until needs a mark."""
    if by == "at":
        return "cronce_by_at" if mark is None else "cronce_by_mark_at"
    if by == "until" and mark is not None:
        return "cronce_by_mark_until"
    return "cronce_by_mark_at" if mark in (Mark.OPEN, Mark.ATTENTION) else "PRIMARY"


# --- what a swap expects --------------------------------------------------------------------------------------------


class SwapExpectation(NamedTuple):
    """What a swap expects of the store, and what it writes if that is so. What `SWAP` takes."""

    birth: int
    tally: int
    earliest: int
    latest: int
    wanted: str
    rows: str
    drawn: int


def expect_all_to_win(writes: Sequence[Write], seen: tuple[int, int]) -> SwapExpectation | None:
    """Every write wins. None where a key is named twice: then that depends on what is stored."""
    wanted = {write.key: write.seen for write in writes}
    if not writes or len(wanted) < len(writes):
        return None
    return SwapExpectation(*seen, *span(writes, None), named(wanted.items()), rows(writes), len(writes))


def expect_the_same(writes: Sequence[Write], cells: Sequence[Cell], swapped: Swapped, epoch: Epoch) -> SwapExpectation:
    """The cells are as they were read, and the clock is on the same side of every bound, so that the same win."""
    wanted = {**{write.key: 0 for write in writes}, **{cell.key: cell.version for cell in cells}}
    won = [write for write, (refused, _) in zip(writes, swapped.verdicts, strict=True) if refused is None]
    return SwapExpectation(*epoch.seen, *span(writes, swapped.now), named(wanted.items()), rows(won), len(won))


def span(writes: Sequence[Write], now: Instant | None) -> tuple[int, int]:
    """From when till when every bound is kept or broken as it is now; None: all are kept."""
    earliest, latest = sql.BEFORE_ALL_INSTANTS, sql.AFTER_ALL_INSTANTS
    for write in writes:
        if write.not_before is not None:
            if now is None or now >= write.not_before:
                earliest = max(earliest, to_us(write.not_before))
            else:
                latest = min(latest, to_us(write.not_before) - 1)
        if write.not_after is not None:
            if now is None or now <= write.not_after:
                latest = min(latest, to_us(write.not_after))
            else:
                earliest = max(earliest, to_us(write.not_after) + 1)
    return earliest, latest


def rows(won: Sequence[Write]) -> str:
    """What `WRITE_CELLS` takes: a row for each cell. One that is written twice draws two numbers and keeps the last."""
    found: dict[str, tuple[Any, ...]] = {}
    for n, write in enumerate(won, start=1):
        at = us(write.at)
        ttl = None if write.ttl is None else write.ttl // timedelta(microseconds=1)
        fence = n if write.grant else None
        if was := found.get(write.key):
            at, ttl, fence = was[3], was[4] if ttl is None else ttl, fence or was[5]
        found[write.key] = (write.key, n, int(write.mark), at, ttl, fence, write.value)
    return _encode(list(found.values()))


def named(wanted: Iterable[tuple[str, int]]) -> str:
    """Keys and versions as `WANTED_KEYS` reads them."""
    pairs = list(wanted)
    for key, _ in pairs:
        if len(key) * 4 > MAX_KEY_BYTES and (size := len(key.encode(errors="surrogatepass"))) > MAX_KEY_BYTES:
            raise BadInput(f"a key has at most {MAX_KEY_BYTES} bytes here, not {size}: {key[:60]!r}…")
    return _encode(pairs)


# --- the store --------------------------------------------------------------------------------------------------------


class MysqlStore:
    """A store in a database. `on_purpose`: if it is empty, that is meant. `adopt`: a copy is accepted on purpose."""

    def __init__(self, place: MySqlAddress, *, on_purpose: bool = False, adopt: bool = False) -> None:
        self.traits = TRAITS
        self._place = place
        self._context = tls(place)
        self._pool: ConnectionPool[MySqlConnection] = ConnectionPool(
            self._connect, lambda connection: connection.socket, place.timeout
        )
        with closed_on_error(self):
            self._use(lambda connection: schema.prepare(connection, self.traits, on_purpose=on_purpose, adopt=adopt))

    def load(self, keys: Sequence[str]) -> Loaded:
        state, cells = self._use(partial(_read, READ_SQL, {"wanted": named((key, 0) for key in keys)}))
        return loaded(state.meta.now, state.meta.epoch, keys, cells)

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        return self._use(lambda connection: _swap(connection, writes, seen))

    def scan(self, scan: Scan) -> Page:
        statements = scan_statement(scan.by, scan.mark, newest_first=scan.newest_first)
        state, cells = self._use(partial(_read, statements, sql.bounds(scan, AFTER_ALL_TEXT)))
        return first_page(state.meta.now, state.meta.epoch, cells, scan)

    def purge(self, cells: Sequence[Cell]) -> int:
        wanted = named((cell.key, cell.version) for cell in cells)
        ((gone,),) = self._use(lambda connection: connection.ask(PURGE_SQL, wanted=wanted)[0])
        return int(gone)

    def size(self) -> int:
        (((cells,),),) = self._use(lambda connection: connection.ask(SIZE))
        return int(cells)

    def checks(self) -> Iterator[Check]:
        yield from self._use(lambda connection: list(checks(connection)))

    def close(self) -> None:
        self._pool.close()

    def _connect(self) -> MySqlConnection:
        try:
            connection = MySqlConnection(self._place, self._context)
        except RuntimeError as problem:  # by this the driver says that the login method needs another package
            raise StoreUnusable(f"{self._place.url}: {problem}; or let the server speak TLS") from problem
        self.traits = TRAITS._replace(durable=connection.server.durable)
        return connection

    def _use(self, work: Callable[[MySqlConnection], _Answer]) -> _Answer:
        deadline = self._place.deadline()
        try:
            with self._pool.line() as connection:
                connection.deadline = deadline
                return work(connection)
        except Problem as problem:
            raise explained(problem, self._place) from problem
        except UnicodeEncodeError as problem:
            raise BadInput(f"{problem.object[:60]!r} is not text that can be stored") from None


def _read(statements: str, values: dict[str, Any], connection: MySqlConnection) -> tuple[MySqlState, list[Cell]]:
    state, cells = _ask(connection, statements, values)
    _wait_for_flush(connection, state)
    return state, cells


def _ask(connection: MySqlConnection, statements: str, values: dict[str, Any]) -> tuple[MySqlState, list[Cell]]:
    found, meta = connection.ask(statements, **values)
    return schema.read_state(meta, connection.place), [sql.read_cell((key.decode(), *row)) for key, *row in found]


def _swap(connection: MySqlConnection, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
    """Each failed try means that another writer won, so this ends, at the latest when the call's time is up."""
    wanted = {"wanted": named((write.key, 0) for write in writes)}
    expected, cells = expect_all_to_win(writes, seen), list[Cell]()
    while True:
        state, found = (
            _ask(connection, SWAP_SQL, expected._asdict()) if expected else _ask(connection, READ_SQL, wanted)
        )
        meta, went = state.meta, state.went
        cells = cells if went and cells else found  # if they are again the same, we have their values too
        swapped, changed = judge(writes, seen, cells, meta.epoch, last_write=meta.last_write, now=meta.now)
        if went:
            return swapped
        if swapped.epoch == meta.epoch:
            _wait_for_flush(connection, state)
            return swapped
        if state.read_only:
            raise StoreReadOnly(f"{connection.place.url} is read_only: a replica? Use the server that accepts writes")
        if changed:
            expected = expect_the_same(writes, cells, swapped, meta.epoch)
        elif schema.replace_life(connection, meta, swapped.epoch, meta.identity):
            return swapped


def _wait_for_flush(connection: MySqlConnection, state: MySqlState) -> None:
    """All wins that the answer counts are on disk before it is returned."""
    if state.flushed:
        return
    name = "cronce:{}:{}".format(*state.meta.epoch.seen)
    (((got,),),) = connection.ask(WAIT_FOR_LOCK, name=name, wait=connection.place.wait)
    if not got:
        raise StoreUnavailable(
            f"{connection.place.url} has not flushed its log for {connection.place.wait} s; check its disk"
        )


# --- from a URL -------------------------------------------------------------------------------------------------------


def open_store(url: str) -> MysqlStore:
    return MysqlStore(locate(url))


def init(url: str) -> Epoch:
    """Begin a store on purpose, or find it begun."""
    return life_of(MysqlStore(locate(url), on_purpose=True))


def ddl(_url: str) -> str:
    """The SQL that makes the tables."""
    return ";\n\n".join(map(cleandoc, schema.TABLES)) + ";"


def adopt(url: str) -> Epoch:
    """Accept a copy as the store from now on; the life that begins with it."""
    return life_of(MysqlStore(locate(url), adopt=True))
