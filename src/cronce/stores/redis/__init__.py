"""Cells in Redis or Valkey: one server, a master under Sentinel, or a Cluster. As durable as the server is told to be.

What has to be one step is one script, `script.lua`; its head says what is kept where. Three things here are subtle.

*A server can forget.* It is restarted empty or from an old dump, emptied by hand, or replaced by a replica that lagged.
A restart or a failover breaks every connection. So on each new one, before anything else, the script is told which
server this is, and begins a new life of the store where writes may have been lost. Of two processes that notice at
once, the second finds it begun.

*What the server's settings allow decides the traits.* It is durable only if every write is flushed before it is
answered, and that can be read.

*`min_replicas`.* A win counts once so many replicas have it. If they do not say so in time it is not known whether it
will last, and nor is anything that is read after it, until a later write has reached them: they get writes in order.

Beside the store itself: `script.lua` what the server does in one step, `wire` how batches and cells travel, `server`
which server is spoken to and what its errors mean, `url` what a URL says, `checks` what the doctor asks.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from hashlib import sha1
from typing import TYPE_CHECKING, Final

from cronce.errors import BadInput, StoreUnavailable
from cronce.model import Cell, Epoch, Mark, Origin, Traits, Write, to_us
from cronce.stores.base import (
    Loaded,
    Page,
    Scan,
    Swapped,
    closed_on_error,
    in_batches,
    life_of,
    page_of,
    refused_epoch,
)
from cronce.stores.checks import Check
from cronce.stores.pool import ConnectionPool
from cronce.stores.redis.server import (
    Command,
    RedisConnection,
    Reply,
    ReplyError,
    connect,
    explained,
    listen,
    other_masters,
    tag,
)
from cronce.stores.redis.url import RedisAddress, read_url
from cronce.stores.redis.wire import (
    INSTANT_BASE,
    NUMBER_OF_ORIGIN,
    WRITES_PER_CALL,
    in_range,
    ordered,
    read_cells,
    read_meta,
    read_verdicts,
    said,
)

if TYPE_CHECKING:
    from cronce.stores.news import SocketListener

TRAITS: Final = Traits("redis", durable=False, survives_failover=False, notifies=True, in_memory=True)
"""As it comes. The settings of the server and of the URL can make it more."""

SKEW: Final = timedelta(milliseconds=500)
"""How far apart the clocks of two servers may be of which one takes the other's place."""

NO_LIMIT: Final = 1 << 31
MEMBERS_PER_CALL: Final = 10_000
"""Members of a sorted set that one call of the script goes through at most."""

with open(f"{__file__.removesuffix('__init__.py')}script.lua", "rb") as _script:  # noqa: PTH123  pathlib is slow to import
    SCRIPT: Final = _script.read()
BY_TEXT: Final = ("EVAL", SCRIPT, 2)
BY_NAME: Final = ("EVALSHA", sha1(SCRIPT, usedforsecurity=False).hexdigest(), 2)
LIVE, KEY, AT, ATTENTION = b"o", b"k", b"a", b"t"
"""The kinds of members of the index."""


class RedisStore:
    """A store in a Redis. `on_purpose`: should it be empty, that is meant."""

    def __init__(self, place: RedisAddress, *, on_purpose: bool = False) -> None:
        self.place: Final = place
        self.traits = TRAITS
        self._cells = f"{tag(place.namespace)}:cells"
        keys = (self._cells, f"{tag(place.namespace)}:index")
        self._by_name, self._by_text = (*BY_NAME, *keys), (*BY_TEXT, *keys)
        wait: Command = ("WAIT", place.min_replicas, int(place.timeout * 500))  # in ms, and the server is not exact
        self._proof = (wait,) if place.min_replicas else ()
        self._new_is = Origin.MADE if on_purpose else Origin.FOUND
        self._doubt: object = None  # of the last write that may not have reached the replicas
        self._pool = ConnectionPool(self._connect, RedisConnection.fileno, place.timeout)
        with self._pool.line():
            pass  # what cannot be used says so at once

    def load(self, keys: Sequence[str]) -> Loaded:
        raw, found = self._say("load", *keys)
        return Loaded(*read_meta(raw), read_cells(keys, found[1:]))

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        if len(writes) <= WRITES_PER_CALL:
            return self._swap(writes, seen)
        parts = [self._swap(part, seen) for part in in_batches(writes, WRITES_PER_CALL)]
        return parts[-1]._replace(verdicts=[verdict for part in parts for verdict in part.verdicts])

    def _swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        with in_range():
            words = said(writes, seen)
        told, *others = self._say("swap", *words, writes=bool(writes))
        now, epoch = meta = read_meta(told)
        believed = seen[0] == epoch.birth
        return Swapped(now, epoch, read_verdicts(writes, told, others, meta) if believed else refused_epoch(writes))

    def purge(self, cells: Sequence[Cell]) -> int:
        gone = 0
        for start in range(0, len(cells), WRITES_PER_CALL):
            part = cells[start : start + WRITES_PER_CALL]
            keys, versions = [cell.key for cell in part], [cell.version for cell in part]
            _, count = self._say("purge", *keys, *versions)
            gone += count
        return gone

    def size(self) -> int:
        with self._pool.line() as line:
            (fields,) = line.ask(("HLEN", self._cells))
        if isinstance(fields, ReplyError):
            raise explained(fields, self.place)
        return max(int(fields) - 1, 0)  # one of them is the meta

    def listen(self) -> "SocketListener":
        return listen(self.place)

    def close(self) -> None:
        self._pool.close()

    def checks(self) -> Iterator[Check]:
        """What `cronce doctor` asks of this store."""
        from cronce.stores.redis.checks import checks  # noqa: PLC0415  only the doctor asks

        with self._pool.line() as line:
            yield from checks(line, self.place)

    # --- scans ------------------------------------------------------------------------------------------------------

    def scan(self, scan: Scan) -> Page:
        """Each range that may hold such cells is read, as far as need be, all at once; then they are put in order."""
        with in_range():
            ranges = [_range(scan, kind, in_order) for kind, in_order in _kinds(scan)]
            upto = b"" if scan.upto is None or scan.by == "key" else ordered(to_us(scan.upto) + INSTANT_BASE)
            until = upto if scan.by == "until" else b""
        mark = b"" if scan.mark is None else bytes((scan.mark,))
        found: dict[bytes, bytes] = {}
        while ranges:
            words = [word for each in ranges for word in each]
            raw, *parts = self._say("scan", int(scan.newest_first), scan.prefix, mark, until, MEMBERS_PER_CALL, *words)
            for cells in parts[::2]:
                found |= zip(cells[::2], cells[1::2], strict=True)
            stopped = zip(ranges, parts[1::2], strict=True)
            ranges = [_past(each, member, newest_first=scan.newest_first) for each, member in stopped if member]
        cells = read_cells([key.decode() for key in found], list(found.values()))
        return page_of(cells, scan, *read_meta(raw))

    # --- talking to the server --------------------------------------------------------------------------------------

    def _connect(self) -> RedisConnection:
        line = connect(self.place)
        with closed_on_error(line):
            self._greet(line)
        return line

    def _greet(self, line: RedisConnection) -> None:
        """Tell the script which server this is; an empty store, or one that lost writes, begins a life."""
        server, place = line.server, self.place
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
        hello = ("hello", *who, *flags, NUMBER_OF_ORIGIN[self._new_is], int(self._new_is is Origin.MADE))
        if self._run(line, (*hello, "?" if place.cluster else ""))[0] is None:
            self._run(line, (*hello, other_masters(line, place)))
        self._new_is = Origin.FOUND  # from now on an empty store is one that was emptied

    def _say(self, *words: str | bytes | int, writes: bool = False) -> list[Reply]:
        """Call the script. What it answers begins with the meta."""
        try:
            with self._pool.line() as line:
                if doubt := self._doubt:  # a swap that loses would not wait for them: it writes nothing
                    self._run(line, ("touch",), proven=True)
                    self._doubt = None if self._doubt is doubt else self._doubt
                reply = self._run(line, words, proven=writes)
                if reply[0] is None:  # it was emptied under this process, and nothing was done
                    self._greet(line)
                    reply = self._run(line, words, proven=writes)
        except UnicodeEncodeError as error:
            near = error.object[max(error.start - 30, 0) :][:60]
            raise BadInput(f"{near!r} is not text that can be stored") from None
        if reply[0] is None:
            raise StoreUnavailable(f"{self.place.url}: the store is emptied again and again while it is initialised")
        return reply

    def _run(self, line: RedisConnection, words: Command, *, proven: bool = False) -> list[Reply]:
        """Call the script, once; a server that does not know it says so, and is sent it. `proven`: on replicas too."""
        if not (proven and self._proof):
            return self._ask(line, words)
        try:
            return self._ask(line, words, *self._proof)
        except BaseException:
            self._doubt = object()
            raise

    def _ask(self, line: RedisConnection, words: Command, *proof: Command) -> list[Reply]:
        answer, *acknowledged = line.ask((*self._by_name, *words), *proof)
        if isinstance(answer, ReplyError) and "NOSCRIPT" in str(answer):
            answer, *acknowledged = line.ask((*self._by_text, *words), *proof)
        if isinstance(answer, ReplyError):
            raise explained(answer, self.place)
        if acknowledged:
            self._check_proof(acknowledged[0])
        return answer if type(answer) is list else [answer]

    def _check_proof(self, replicas: Reply) -> None:
        if isinstance(replicas, ReplyError):
            raise explained(replicas, self.place)
        if replicas < self.place.min_replicas:
            raise StoreUnavailable(
                f"{self.place.url}: a write has reached only {replicas} of {self.place.min_replicas} replicas in"
                " time; it may have succeeded, and a failover may lose it"
            )


def _kinds(scan: Scan) -> Iterator[tuple[bytes, bool]]:
    """The kinds of members that a scan reads, and whether they are in the order asked for. If not, all are read: of
    what is not final there is little, and of what is, only a scan by `until` reads more than it shows."""
    if scan.mark in (None, Mark.OPEN, Mark.FREE):
        yield LIVE, scan.by == "key"
    if scan.mark is Mark.ATTENTION:
        yield ATTENTION, scan.by == "at"
    elif scan.mark in (None, Mark.CLOSED):
        yield (AT, scan.prefix != "") if scan.by == "at" else (KEY, scan.by == "key")


Range = tuple[bytes, bytes, int, int]
"""The lowest and the highest member as ZRANGEBYLEX has them, the bytes before the key, and how many cells."""


def _range(scan: Scan, kind: bytes, in_order: bool) -> Range:
    prefix, keyed = scan.prefix.encode(), kind in (LIVE, KEY)
    kind, skip = (kind + prefix[:1], 10) if kind == AT else (kind, 1 if keyed else 9)
    head = kind + prefix if keyed else kind
    low, high = b"[" + head, b"(" + _beyond(head)
    if not in_order:
        return low, high, skip, NO_LIMIT
    if scan.by == "at":  # those without an instant stand first
        low = b"[" + kind + ordered(1)
        high = high if scan.upto is None else b"(" + kind + ordered(to_us(scan.upto) + INSTANT_BASE + 1)
    if scan.after is not None:
        past = b"(" + kind + (b"" if keyed else ordered(scan.after.us + INSTANT_BASE)) + scan.after.key.encode()
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
    """Begin the store on purpose, also if somebody has looked at it, empty as it is; one that holds something stays as
    it is. The life it is in."""
    return life_of(RedisStore(read_url(url), on_purpose=True))
