"""Cells in PostgreSQL, for any number of machines. A win is on disk before it is answered.

The hot path is one call of a server-side function for any batch, and schema.sql tells how; here is the rest.
Versions and fences come from a sequence: it is never waited for, and it also counts what never came to be. So its value
is no answer to "what has been written": a number drawn by a transaction that is not committed may be forgotten in a
crash, and whoever had heard of it would take a durable store for a forgetful one. What an answer says of the tally is
what is certain: the number noted last, those of the cells it shows, and what this very process won or was told before.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cronce.errors import BadInput
from cronce.model import Cell, Epoch, Instant, Mark, Traits, Write, from_us, to_us
from cronce.stores import sql
from cronce.stores.base import Loaded, Page, Scan, Swapped, life_of, position, refused_epoch
from cronce.stores.pool import Pool
from cronce.stores.postgres.line import Line, Place, Server, connect, explained, locate, psycopg, socket
from cronce.stores.postgres.swap import MANY_WRITES, read_epoch, read_head, read_rows, read_verdicts, spell_swap

if TYPE_CHECKING:
    from cronce.stores.checks import Check
    from cronce.stores.news import SocketListener

HEAD: Final = 6
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

# Whatever somebody is writing just now is not what was read, and stays: so a purge never waits.
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

BEGIN: Final = "SELECT {schema}.cronce_begin(%s, %s, %s, %s)"


_Answer = TypeVar("_Answer")


TRAITS: Final = Traits("postgresql", survives_failover=False, notifies=True)
"""Of a server as it comes."""


def traits_of(server: Server) -> Traits:
    """What this very server can promise, by its settings. Through a pooler nobody can listen: it is a session that has
    news, and whoever listened may not be given the same one again."""
    return TRAITS._replace(
        durable=server.fsync,
        survives_failover=server.survives_failover,
        notifies=server.tells and not server.pooled,
    )


class PostgresStore:
    """A store in a schema of a database. Connections are opened as threads need them, and kept."""

    def __init__(self, place: Place, *, adopt: bool = False, made: bool = False) -> None:
        self.place: Final = place
        self._lock = threading.Lock()
        self._known = (0, 0)
        self._said: dict[str, str] = {}
        self._told: dict[str, bytes] = {}
        self._patience_ms = place.patience_ms
        self._connect = partial(connect, place, adopt=adopt, made=made)
        self._pool: Pool[Line] = Pool(lambda: self._connect(), socket, place.patience)  # noqa: PLW0108  it changes
        with self._pool.line() as line:
            self.traits: Final = traits_of(line.server)
        self._connect = partial(connect, place)

    # --- the seam ---------------------------------------------------------------------------------------------------

    def load(self, keys: Sequence[str]) -> Loaded:
        now, epoch, cells = self._read(LOAD, [list(keys)])
        found = {cell.key: cell for cell in cells}
        return Loaded(now, epoch, [found.get(key) or Cell(key) for key in keys])

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
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
        page = cells[: scan.limit]
        return Page(now, epoch, page, position(page[-1], scan.by) if len(cells) > scan.limit else None)

    def purge(self, cells: Sequence[Cell]) -> int:
        given = [[cell.key for cell in cells], [cell.version for cell in cells]]
        return self._work(lambda line: line.execute(self.place.say(PURGE, bound=True), given).rowcount) if cells else 0

    def size(self) -> int:
        ((cells,),) = self.ask(SIZE, [])
        return int(cells)

    def listen(self) -> "SocketListener":
        from cronce.stores.postgres.news import listen  # noqa: PLC0415  not under cron

        return listen(self.place)

    def close(self) -> None:
        self._pool.close()

    def checks(self) -> "Iterator[Check]":
        from cronce.stores.postgres.checks import checks  # noqa: PLC0415  the doctor's alone

        return checks(self)

    # --- asking -----------------------------------------------------------------------------------------------------

    def ask(self, statement: str, given: Any) -> Sequence[sql.Row]:
        said = self._said.get(statement) or self._said.setdefault(statement, self.place.say(statement, bound=True))
        return self._work(lambda line: line.execute(said, given, binary=True).fetchall())

    def _tell(self, statement: str, given: Sequence[str | bytes | None]) -> Sequence[sql.Row]:
        """Ask without a cursor: for a statement as short as a single swap that would take as long as its work."""
        said = self._told.get(statement) or self._told.setdefault(statement, self.place.say(statement).encode())
        return self._work(lambda line: _texts(line, said, given))

    def _work(self, work: Callable[[Line], _Answer]) -> _Answer:
        try:
            with self._pool.line() as line:
                return work(line)
        except psycopg.Error as error:
            raise explained(error, self.place) from error
        except UnicodeEncodeError as error:
            raise BadInput(f"{error.object[:60]!r} is not text that can be stored") from None

    def _read(self, statement: str, given: Any) -> tuple[Instant, Epoch, list[Cell]]:
        rows = self.ask(statement, given)
        now, birth, tally, base, origin, since = rows[0][:HEAD]
        cells = [sql.read_cell(row[HEAD:]) for row in rows if row[HEAD] is not None]
        highest = max((cell.version for cell in cells), default=0)
        return from_us(now), self._learnt(read_epoch(birth, tally, base, origin, since), highest), cells

    def _learnt(self, epoch: Epoch, highest: int) -> Epoch:
        """The epoch with the highest number that is certain: of this life, none that was told before is taken back."""
        with self._lock:
            tally = max(epoch.tally, highest)
            if self._known[0] == epoch.birth:
                tally = max(tally, self._known[1])
            self._known = max(self._known, (epoch.birth, tally))
        return epoch if tally == epoch.tally else Epoch(epoch.birth, tally, *epoch[2:])

    def _begin(self, seen: tuple[int, int], *, adopt: bool = False) -> Epoch:
        self.ask(BEGIN, [*seen, self._patience_ms, adopt])
        return self.load([]).epoch

    def adopt(self) -> Epoch:
        """A new life on this server, whatever was known of the one before."""
        return self._begin(self.load([]).epoch.seen, adopt=True)


def _texts(line: Line, statement: bytes, given: Sequence[str | bytes | None]) -> list[sql.Row]:
    """The rows of texts that a statement comes to. A str travels as it is, with its length."""
    parameters = [text.encode() if isinstance(text, str) else text for text in given]
    line.pgconn.send_query_params(statement, parameters, param_formats=[isinstance(text, str) for text in given])
    (result,) = line.wait(psycopg.generators.execute(line.pgconn))
    if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
        raise psycopg.errors.error_from_result(result)
    return [((result.get_value(row, 0) or b"").decode(),) for row in range(result.ntuples)]


# --- scans ----------------------------------------------------------------------------------------------------------

RUN_AT: Final = "(CASE WHEN left(c.key, 4) = 'run/' THEN c.at END)"
"""What runs are ordered by, as their index has it."""


def spell_scan(scan: Scan) -> tuple[str, dict[str, Any]]:
    """A page begins past a position. By until, or by the at of what is no run, there is no index: what is open, or
    below its prefix, is sorted."""
    past, way = ("<", "DESC") if scan.newest_first else (">", "ASC")
    conditions, by = _held(scan)
    bounds: dict[str, Any] = {"prefix": scan.prefix, "end": sql.beyond(scan.prefix), "limit": scan.limit + 1}
    if scan.by != "key" and scan.upto is not None:
        conditions.append(f"{by} <= %(upto)s")
        bounds["upto"] = to_us(scan.upto)
    if scan.after is not None:
        conditions.append(f"c.key {past} %(key)s" if scan.by == "key" else f"({by}, c.key) {past} (%(us)s, %(key)s)")
        bounds |= scan.after._asdict()
    order = f"c.key {way}" if scan.by == "key" else f"{by} {way}, c.key {way}"
    return SCAN.replace("{conditions}", " AND ".join(conditions)).replace("{order}", order), bounds


def _held(scan: Scan) -> tuple[list[str], str]:
    """Conditions and an order that leave one index to choose from.

    Where nobody counted the rows yet, the planner takes any range of keys for small, and reads the shelf. So what must
    not decide is hidden from it: in the order of at, the prefix; where the prefix or the mark decides, the order.
    """
    below = ["c.key >= %(prefix)s", *(["c.key < %(end)s"] if sql.beyond(scan.prefix) is not None else [])]
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
