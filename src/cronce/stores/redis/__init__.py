"""Cells in Redis or Valkey: one server, a master under Sentinel, or a Cluster. As durable as the server is told to be.

What has to be one step is one script, `script.lua`; its head says what is kept where. Three things here are subtle.

*A server can lose data.* It is restarted empty or from an old dump, emptied by hand, or replaced by a replica that
lagged. A restart or a failover breaks every connection. So on each new one, before anything else, the script is given
the identity of the server, and starts a new epoch of the store where writes may have been lost. Of two processes that
notice at once, the second finds the new epoch.

*The server's settings decide the traits.* It is durable only if every write is flushed before it is answered, and that
setting can be read.

*`min_replicas`.* A win counts once so many replicas have it. If they do not confirm in time, it may be lost in a
failover, and so may anything that is read after it, until a later write has reached them: they get writes in order.

Beside the store itself: `script.lua` what the server does in one step, `wire` how batches and cells are encoded,
`server` connections and what errors mean, `url` what a URL says, `checks` what the doctor asks.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from hashlib import sha1
from typing import TYPE_CHECKING, Final

from cronce.errors import BadInput, StoreUnavailable
from cronce.model import Cell, Epoch, Mark, Origin, Traits, Write, to_us
from cronce.stores import base
from cronce.stores.base import Loaded, Page, Scan, Swapped
from cronce.stores.checks import Check
from cronce.stores.pool import ConnectionPool
from cronce.stores.redis import wire
from cronce.stores.redis.server import (
    Command,
    RedisConnection,
    Reply,
    ReplyError,
    answered,
    connect,
    listen,
    other_masters,
    tag,
)
from cronce.stores.redis.url import RedisAddress, read_url

if TYPE_CHECKING:
    from cronce.stores.news import SocketListener

TRAITS: Final = Traits("redis", durable=False, survives_failover=False, notifies=True, in_memory=True)
"""By default. The settings of the server and of the URL can allow more."""

SKEW: Final = timedelta(milliseconds=500)
"""How far apart the clocks of a server and of the one that replaces it may be."""

NO_LIMIT: Final = 1 << 31
MEMBERS_PER_CALL: Final = 10_000
"""Members of a sorted set that one call of the script reads at most."""

with open(f"{__file__.removesuffix('__init__.py')}script.lua", "rb") as _script:  # noqa: PTH123  pathlib is slow to import
    SCRIPT: Final = _script.read()
BY_TEXT: Final = ("EVAL", SCRIPT, 2)
BY_NAME: Final = ("EVALSHA", sha1(SCRIPT, usedforsecurity=False).hexdigest(), 2)
LIVE, KEY, AT, ATTENTION = b"o", b"k", b"a", b"t"
"""The kinds of members of the index."""


class RedisStore:
    """A store in a Redis. `on_purpose`: if it is empty, it has lost nothing."""

    def __init__(self, place: RedisAddress, *, on_purpose: bool = False) -> None:
        self.place: Final = place
        self.traits = TRAITS
        self._cells = f"{tag(place.namespace)}:cells"
        keys = (self._cells, f"{tag(place.namespace)}:index")
        self._by_name, self._by_text = (*BY_NAME, *keys), (*BY_TEXT, *keys)
        wait: Command = ("WAIT", place.min_replicas, int(place.timeout * 500))  # in ms, and the server is not exact
        self._replica_wait = (wait,) if place.min_replicas else ()
        self._new_is = Origin.MADE if on_purpose else Origin.FOUND
        self._doubt: object = None  # of the last write that may not have reached the replicas
        self._pool = ConnectionPool(self._connect, RedisConnection.fileno, place.timeout)
        with self._pool.line():
            pass  # so that what cannot be used is an error now

    def load(self, keys: Sequence[str]) -> Loaded:
        raw, found = self._call("load", *keys)
        return Loaded(*wire.read_meta(raw), wire.read_cells(keys, found[1:]))

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        if len(writes) <= wire.WRITES_PER_CALL:
            return self._swap(writes, seen)
        parts = [self._swap(part, seen) for part in base.in_batches(writes, wire.WRITES_PER_CALL)]
        return parts[-1]._replace(verdicts=[verdict for part in parts for verdict in part.verdicts])

    def _swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        with wire.in_range():
            words = wire.encode_batch(writes, seen)
        told, *others = self._call("swap", *words, writes=bool(writes))
        now, epoch = meta = wire.read_meta(told)
        believed = seen[0] == epoch.birth
        return Swapped(
            now, epoch, wire.read_verdicts(writes, told, others, meta) if believed else base.refused_epoch(writes)
        )

    def purge(self, cells: Sequence[Cell]) -> int:
        gone = 0
        for start in range(0, len(cells), wire.WRITES_PER_CALL):
            part = cells[start : start + wire.WRITES_PER_CALL]
            keys, versions = [cell.key for cell in part], [cell.version for cell in part]
            _, count = self._call("purge", *keys, *versions)
            gone += count
        return gone

    def size(self) -> int:
        with self._pool.line() as connection:
            (fields,) = answered(connection.ask(("HLEN", self._cells)), self.place)
        return max(int(fields) - 1, 0)  # one of them is the meta

    def listen(self) -> "SocketListener":
        return listen(self.place)

    def close(self) -> None:
        self._pool.close()

    def checks(self) -> Iterator[Check]:
        """What `cronce doctor` asks of this store."""
        from cronce.stores.redis.checks import checks  # noqa: PLC0415  only the doctor asks

        with self._pool.line() as connection:
            yield from checks(connection, self.place)

    # --- scans ------------------------------------------------------------------------------------------------------

    def scan(self, scan: Scan) -> Page:
        """Every range that may hold such cells is read as far as needed, all in one call; then the cells are sorted."""
        with wire.in_range():
            ranges = [_range(scan, kind, in_order) for kind, in_order in _kinds(scan)]
            upto = b"" if scan.upto is None or scan.by == "key" else wire.ordered(to_us(scan.upto) + wire.INSTANT_BASE)
            until = upto if scan.by == "until" else b""
        mark = b"" if scan.mark is None else bytes((scan.mark,))
        found: dict[bytes, bytes] = {}
        while ranges:
            words = [word for each in ranges for word in each]
            raw, *parts = self._call("scan", int(scan.newest_first), scan.prefix, mark, until, MEMBERS_PER_CALL, *words)
            for cells in parts[::2]:
                found |= zip(cells[::2], cells[1::2], strict=True)
            stopped = zip(ranges, parts[1::2], strict=True)
            ranges = [_past(each, member, newest_first=scan.newest_first) for each, member in stopped if member]
        cells = wire.read_cells([key.decode() for key in found], list(found.values()))
        return base.page_of(cells, scan, *wire.read_meta(raw))

    # --- talking to the server --------------------------------------------------------------------------------------

    def _connect(self) -> RedisConnection:
        connection = connect(self.place)
        with base.closed_on_error(connection):
            self._introduce(connection)
        return connection

    def _introduce(self, connection: RedisConnection) -> None:
        """Give the script the identity of the server; an empty store, or one that lost writes, starts a new epoch."""
        server, place = connection.server, self.place
        replicated = place.min_replicas > 0
        self.traits = TRAITS._replace(
            linearizable=replicated or not place.fails_over,
            durable=server.flushes and (replicated or not place.fails_over),
            survives_failover=replicated,
            notifies=server.publishes,
            skew=SKEW if place.fails_over or server.replicas else timedelta(0),
        )
        who = (server.identity, server.replication, server.continued, server.started)
        flags = (int(server.flushes), place.min_replicas, int(place.fails_over))
        hello = ("hello", *who, *flags, wire.NUMBER_OF_ORIGIN[self._new_is], int(self._new_is is Origin.MADE))
        if self._run(connection, (*hello, "?" if place.cluster else ""))[0] is None:
            self._run(connection, (*hello, other_masters(connection, place)))
        self._new_is = Origin.FOUND  # from now on an empty store has lost its data

    def _call(self, *words: str | bytes | int, writes: bool = False) -> list[Reply]:
        """Call the script. Its answer begins with the meta."""
        try:
            with self._pool.line() as connection:
                if doubt := self._doubt:  # a losing swap would not wait for the replicas, since it writes nothing
                    self._run(connection, ("touch",), proven=True)
                    self._doubt = None if self._doubt is doubt else self._doubt
                reply = self._run(connection, words, proven=writes)
                if reply[0] is None:  # the store was emptied meanwhile, and nothing was done
                    self._introduce(connection)
                    reply = self._run(connection, words, proven=writes)
        except UnicodeEncodeError as error:
            near = error.object[max(error.start - 30, 0) :][:60]
            raise BadInput(f"{near!r} is not text that can be stored") from None
        if reply[0] is None:
            raise StoreUnavailable(f"{self.place.url}: the store is emptied again and again while it is initialised")
        return reply

    def _run(self, connection: RedisConnection, words: Command, *, proven: bool = False) -> list[Reply]:
        """Call the script once; a server that does not know it is sent its text. `proven`: wait for replicas too."""
        if not (proven and self._replica_wait):
            return self._ask(connection, words)
        try:
            return self._ask(connection, words, *self._replica_wait)
        except BaseException:
            self._doubt = object()
            raise

    def _ask(self, connection: RedisConnection, words: Command, *proof: Command) -> list[Reply]:
        answer, *acknowledged = connection.ask((*self._by_name, *words), *proof)
        if isinstance(answer, ReplyError) and "NOSCRIPT" in str(answer):
            answer, *acknowledged = connection.ask((*self._by_text, *words), *proof)
        answered((answer, *acknowledged), self.place)
        if acknowledged:
            self._check_replicas(acknowledged[0])
        return answer if type(answer) is list else [answer]

    def _check_replicas(self, replicas: int) -> None:
        if replicas < self.place.min_replicas:
            raise StoreUnavailable(
                f"{self.place.url}: a write has reached only {replicas} of {self.place.min_replicas} replicas in"
                " time; it may have succeeded, and a failover may lose it"
            )


def _kinds(scan: Scan) -> Iterator[tuple[bytes, bool]]:
    """The kinds of members that a scan reads, and whether they are in the order asked for. If not, all are read: few
    cells are not final, and of final ones only a scan by `until` reads more than it returns."""
    if scan.mark in (None, Mark.OPEN, Mark.FREE):
        yield LIVE, scan.by == "key"
    if scan.mark is Mark.ATTENTION:
        yield ATTENTION, scan.by == "at"
    elif scan.mark in (None, Mark.CLOSED):
        yield (AT, scan.prefix != "") if scan.by == "at" else (KEY, scan.by == "key")


Range = tuple[bytes, bytes, int, int]
"""The lowest and the highest member as ZRANGEBYLEX takes them, the bytes before the key, and how many cells."""


def _range(scan: Scan, kind: bytes, in_order: bool) -> Range:
    prefix, keyed = scan.prefix.encode(), kind in (LIVE, KEY)
    kind, skip = (kind + prefix[:1], 10) if kind == AT else (kind, 1 if keyed else 9)
    head = kind + prefix if keyed else kind
    low, high = b"[" + head, b"(" + _beyond(head)
    if not in_order:
        return low, high, skip, NO_LIMIT
    if scan.by == "at":  # those without an instant are first
        low = b"[" + kind + wire.ordered(1)
        high = high if scan.upto is None else b"(" + kind + wire.ordered(to_us(scan.upto) + wire.INSTANT_BASE + 1)
    if scan.after is not None:
        past = (
            b"(" + kind + (b"" if keyed else wire.ordered(scan.after.us + wire.INSTANT_BASE)) + scan.after.key.encode()
        )
        low, high = (low, min(high, past)) if scan.newest_first else (max(past, low, key=_bytes), high)
    return low, high, skip, scan.limit + 1


def _past(each: Range, member: bytes, *, newest_first: bool) -> Range:
    """What is left of a range that stopped at a member."""
    low, high, skip, limit = each
    return (low, b"(" + member, skip, limit) if newest_first else (b"(" + member, high, skip, limit)


def _bytes(bound: bytes) -> bytes:
    return bound[1:]


def _beyond(head: bytes) -> bytes:
    """The least bytes above everything that begins with these; no byte of UTF-8 is the highest."""
    return head[:-1] + bytes([head[-1] + 1])


# --- URLs -----------------------------------------------------------------------------------------------------------


def open_store(url: str) -> RedisStore:
    return RedisStore(read_url(url))


def init(url: str) -> Epoch:
    """Initialise the store, also if it was opened before and is still empty; one that holds cells stays as it is."""
    return base.life_of(RedisStore(read_url(url), on_purpose=True))
