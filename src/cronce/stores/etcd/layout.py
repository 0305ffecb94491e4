"""How cells are kept in etcd: their keys and values, how numbers are drawn, transactions, and scans. Pure.

Below the namespace, which is a prefix:

    meta                  this life of the store, as JSON; written once in a life
    tally                 how many wins the last write had, and when; written with every win
    purged                written with every purge; empty
    cell/KEY              a line of JSON, then the cell's value
    at/INSTANT/KEY        every cell that has an instant, in its order; empty
    ta/…                  the same in reverse order: etcd can read the first few of a range, not the last few
    open/UNTIL/KEY        every open cell
    attention/INSTANT/KEY every cell that needs attention

*Numbers.* etcd gives each transaction the next revision, and keeps with each key the one that wrote it. A transaction
of ours has NUMBERS_PER_REVISION numbers: its n-th win gets the n-th of them. The revision is not known before it is
written, so what is stored is the rest: number = revision × NUMBERS_PER_REVISION + shift + n, where the shift is that of
this life, chosen so that numbers go on where the last life ended.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from cronce.errors import BadInput
from cronce.model import Cell, Epoch, Fence, Instant, Mark, Origin, from_us, to_us
from cronce.stores.base import By, Scan, instant, page_of, us
from cronce.stores.http_api import Json
from cronce.value import NamedTuple

ETCD_SCHEMA: Final = 1
"""The version of this layout. A newer one is refused, never guessed."""

NUMBERS_PER_REVISION: Final = 1000
"""Numbers per revision: more than a transaction can have writes."""

DRAFT: Final = 1 << 62
"""Numbers above it are drafts, whose revision is not known yet."""

META_KEY: Final = b"meta"
TALLY: Final = b"tally"
PURGED_KEY: Final = b"purged"
CELL_PREFIX: Final = b"cell/"

_NO_INSTANT: Final = "~"  # after all digits
_SHIFT: Final = 1 << 62  # so that instants before 1970 have their place too

Kv = dict[str, Any]


class Life(NamedTuple):
    """A life of the store as it was read."""

    epoch: Epoch
    last_write: Instant
    identity: str
    begun: int  # the revision that began it
    written: int  # the revision that last won something in it
    purged: int  # the revision that last purged something; 0: nothing was

    @property
    def shift(self) -> int:
        return self.epoch.base - self.begun * NUMBERS_PER_REVISION

    def went_on(self, revision: int, wins: int, now: Instant) -> "Life":
        """After a transaction of so many wins."""
        tally = revision * NUMBERS_PER_REVISION + self.shift + wins
        return self._replace(epoch=self.epoch._replace(tally=tally), last_write=now, written=revision)


class CellAtRevision(NamedTuple):
    """A cell, and the revision that wrote it."""

    revision: int
    cell: Cell


class EtcdCells(NamedTuple):
    """Some cells and their life: as they were read (`sure`), or as they are remembered."""

    life: Life
    keys: Sequence[str]
    cells: dict[str, CellAtRevision]  # those that are there
    sure: bool = True

    @property
    def read(self) -> Iterator[Cell]:
        return (kept.cell for kept in self.cells.values())

    def cell(self, key: str) -> Cell | None:
        return self.cells[key].cell if key in self.cells else None

    def revision(self, key: str) -> int:
        return self.cells[key].revision if key in self.cells else 0


# --- transactions ---------------------------------------------------------------------------------------------------

KEY_WIDTH: Final = 104
PACK: Final = 24
"""etcd accepts 128 operations in a transaction (--max-txn-ops): the longest of its three lists, plus that of a
transaction within it. So 104 packs of 24 fit into one."""


def text64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def data64(text: str) -> bytes:
    return base64.b64decode(text)


def one(key: bytes) -> Json:
    return {"request_range": {"key": text64(key)}}


def span(first: bytes, end: bytes, limit: int, *, backwards: bool = False) -> Json:
    """Keys from `first` to before `end`, in order. Forwards etcd stops at the limit; backwards it reads all of them."""
    wanted: Json = {"key": text64(first), "range_end": text64(end), "limit": limit}
    return {"request_range": {**wanted, "sort_order": "DESCEND", "sort_target": "KEY"} if backwards else wanted}


def count(first: bytes, end: bytes) -> Json:
    """How many keys there are from `first` to before `end`; etcd keeps them in memory."""
    return {"key": text64(first), "range_end": text64(end), "count_only": True}


def put(key: bytes, value: bytes = b"") -> Json:
    return {"request_put": {"key": text64(key), "value": text64(value)}}


def delete(key: bytes) -> Json:
    return {"request_delete_range": {"key": text64(key)}}


def is_at(key: bytes, revision: int) -> Json:
    """The key was last written at this revision; 0: it does not exist."""
    return {"key": text64(key), "target": "MOD", "mod_revision": revision, "result": "EQUAL"}


def is_at_least(key: bytes, revision: int) -> Json:
    return {"key": text64(key), "target": "MOD", "mod_revision": revision - 1, "result": "GREATER"}


def txn(compare: Sequence[Json], then: Sequence[Json], other: Sequence[Json] = ()) -> Json:
    return {"compare": compare, "success": packed(then), "failure": packed(other)}


def packed(operations: Sequence[Json]) -> Sequence[Json]:
    """More operations than fit side by side, in transactions without a condition."""
    if len(operations) <= KEY_WIDTH:
        return operations
    starts = range(0, len(operations), PACK)
    return [{"request_txn": {"success": operations[start : start + PACK]}} for start in starts]


# --- meta and tally -------------------------------------------------------------------------------------------------


def meta_value(epoch: Epoch, identity: str) -> bytes:
    row = {
        "schema": ETCD_SCHEMA,
        "birth": epoch.birth,
        "base": epoch.base,
        "origin": epoch.origin,
        "since": us(epoch.since),
    }
    return json.dumps({**row, "identity": identity}).encode()


def tally_value(wins: int, last_write: Instant) -> bytes:
    return json.dumps({"wins": wins, "now": to_us(last_write)}).encode()


def schema_of(meta: Kv) -> int:
    return int(json.loads(data64(meta["value"]))["schema"])


def read_life(meta: Kv, tally: Kv, purged: Sequence[Kv]) -> Life:
    row, last = json.loads(data64(meta["value"])), json.loads(data64(tally["value"]))
    epoch = Epoch(row["birth"], row["base"], row["base"], Origin(row["origin"]), instant(row["since"]))
    begun, written = int(meta["mod_revision"]), int(tally["mod_revision"])
    emptied = int(purged[0]["mod_revision"]) if purged else 0
    life = Life(epoch, from_us(last["now"]), row["identity"], begun, written, emptied)
    return life.went_on(written, last["wins"], life.last_write)


# --- cells ----------------------------------------------------------------------------------------------------------


def cell_key(key: str) -> bytes:
    try:
        data = key.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{key[:60]!r} is not text that can be stored") from None
    if b"\0" in data:
        raise BadInput("a key cannot contain NUL")
    return CELL_PREFIX + data


def cell_value(cell: Cell, shift: int) -> bytes:
    """A drafted cell as it is stored. Its fence may be drafted with it, or be one that it had before."""
    birth, number = cell.fence or (None, 0)
    drafted = number > DRAFT
    row = (
        cell.version - DRAFT + shift, int(cell.mark), us(cell.at), us(cell.until),
        birth, number - DRAFT + shift if drafted else number, drafted,
    )  # fmt: skip
    try:
        return f"{json.dumps(row, separators=(',', ':'))}\n{cell.value}".encode()
    except UnicodeEncodeError:
        raise BadInput(f"the value of {cell.key} is not text that can be stored") from None


def read_cell(kv: Kv, skip: int) -> CellAtRevision:
    """The cell of a key, without the first `skip` bytes of that."""
    revision = int(kv["mod_revision"])
    head, _, value = data64(kv["value"]).decode().partition("\n")
    rest, mark, at, until, birth, number, drafted = json.loads(head)
    drawn = revision * NUMBERS_PER_REVISION
    cell = Cell(
        data64(kv["key"])[skip:].decode(),
        drawn + rest,
        value,
        instant(at),
        Mark(mark),
        None if birth is None else Fence(birth, number + drawn * drafted),
        instant(until),
    )
    return CellAtRevision(revision, cell)


def settled(cell: Cell, shift: int, revision: int) -> Cell:
    """A drafted cell, now that its revision is known; any other as it is."""
    if cell.version <= DRAFT:
        return cell
    drawn = revision * NUMBERS_PER_REVISION + shift - DRAFT
    fence = cell.fence
    if fence is not None and fence.number > DRAFT:
        fence = Fence(fence.birth, fence.number + drawn)
    return cell._replace(version=cell.version + drawn, fence=fence)


# --- indexes --------------------------------------------------------------------------------------------------------


class EtcdIndex(NamedTuple):
    """Keys in the order of something; mirrored ones hold it backwards."""

    area: bytes
    by: By
    mirrored: bool = False

    def entry(self, us: int | None, key: str = "") -> bytes:
        """The entry of a cell; without a key: before all cells of that instant."""
        text = f"{_NO_INSTANT if us is None else format(us + _SHIFT, '019')}/{key}".encode()
        return self.area + (mirror(text) if self.mirrored else text)

    def place(self, entry: bytes) -> tuple[int | None, str]:
        """The instant and the key of an entry."""
        text = entry[len(self.area) :]
        us, _, key = (mirror(text[:-1])[:-1] if self.mirrored else text).decode().partition("/")
        return None if us == _NO_INSTANT else int(us) - _SHIFT, key

    def us(self, cell: Cell) -> int | None:
        """The instant by which it orders a cell."""
        return us(cell.at if self.by == "at" else cell.until)


BY_AT: Final = EtcdIndex(b"at/", "at")
BY_AT_BACKWARDS: Final = EtcdIndex(b"ta/", "at", mirrored=True)
OPEN_INDEX: Final = EtcdIndex(b"open/", "until")
ATTENTION: Final = EtcdIndex(b"attention/", "at")

_COMPLEMENT: Final = bytes(range(255, -1, -1))


def mirror(data: bytes) -> bytes:
    """Bytes that sort in reverse. The last one is above all others, so that what is longer comes first."""
    return data.translate(_COMPLEMENT) + b"\xff"


def entries(cell: Cell | None) -> Iterator[bytes]:
    """Every entry that a stored cell has."""
    if cell is None:
        return
    if cell.at is not None:
        yield BY_AT.entry(to_us(cell.at), cell.key)
        yield BY_AT_BACKWARDS.entry(to_us(cell.at), cell.key)
    if cell.mark is Mark.OPEN:
        yield OPEN_INDEX.entry(us(cell.until), cell.key)
    if cell.mark is Mark.ATTENTION:
        yield ATTENTION.entry(us(cell.at), cell.key)


def after_all(prefix: bytes) -> bytes:
    """The first key above all that begin with this; the last byte is never 255."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


# --- scans: by the order of keys, by an index that holds the order asked for, or by sorting what is few --------------

KEYS_PER_PAGE: Final = 501
"""Keys in one answer. A scan of a thousand cells reads one more, to see whether there are more: that is two answers.
The JSON of an answer takes several times the memory of its cells."""

INDEX_OF_MARK: Final = {Mark.OPEN: OPEN_INDEX, Mark.ATTENTION: ATTENTION}
"""Marks that few cells have: each has an index of its own, which is sorted here if another order is asked for."""

Look = Callable[[Sequence[Json]], tuple[Life, Sequence[Sequence[Kv]]]]
Read = Callable[[Sequence[str]], EtcdCells]
Pages = Iterator[tuple[Life, Iterable[Cell]]]


def pages(scan: Scan, prefix: bytes, look: Look, read: Read) -> Pages:
    """The cells of a scan in order, in portions, each with the life that it was read in; at least one portion."""
    search = EtcdScan(scan, prefix, look, read)
    index = INDEX_OF_MARK.get(scan.mark) if scan.mark else None
    if scan.by == "at" and index is None:
        index = BY_AT_BACKWARDS if scan.newest_first else BY_AT
    if scan.by == (index.by if index else "key"):
        yield from search.along(index)
        return
    cells: list[Cell] = []
    for life, found in search.whole(index):
        last = life
        cells += found
    yield last, page_of(cells, scan._replace(limit=len(cells)), last.last_write, last.epoch).cells


class EtcdScan:
    """One scan under way: by an index, or, without one, by the keys of the cells."""

    def __init__(self, scan: Scan, prefix: bytes, look: Look, read: Read) -> None:
        self.scan = scan
        self.prefix = prefix
        self.look = look
        self.read = read

    def along(self, index: EtcdIndex | None) -> Pages:
        """In the order asked for, past the scan's position."""
        first, end = _bounds(index, self.scan) if index else self._cells()
        backwards = self.scan.newest_first and not (index and index.mirrored)
        return self._portions(index, first, end, backwards=backwards)

    def whole(self, index: EtcdIndex | None) -> Pages:
        """All that there is, in another order."""
        area = index.area if index else cell_key(self.scan.prefix)
        return self._portions(index, area, after_all(area))

    def _cells(self) -> tuple[bytes, bytes]:
        first = cell_key(self.scan.prefix)
        end = after_all(first)
        if self.scan.after is None:
            return first, end
        past = cell_key(self.scan.after.key)
        return (first, min(end, past)) if self.scan.newest_first else (max(first, past + b"\0"), end)

    def _portions(self, index: EtcdIndex | None, first: bytes, end: bytes, *, backwards: bool = False) -> Pages:
        skip = len(self.prefix + CELL_PREFIX)
        for life, kvs in self._walk(self.prefix + first, self.prefix + end, backwards=backwards):
            if index:
                yield self._found(life, index, kvs)
            else:
                yield life, self._matching(read_cell(kv, skip).cell for kv in kvs)

    def _found(self, life: Life, index: EtcdIndex, kvs: Sequence[Kv]) -> tuple[Life, Iterable[Cell]]:
        """The cells of some entries, without those that have changed since and are elsewhere in the index."""
        skip = len(self.prefix)
        stand = {key: us for us, key in (index.place(data64(kv["key"])[skip:]) for kv in kvs)}
        keys = [key for key in stand if key.startswith(self.scan.prefix)]
        if not keys:
            return life, []
        shelf = self.read(keys)
        cells = (kept.cell for key in keys if (kept := shelf.cells.get(key)))
        return shelf.life, self._matching(cell for cell in cells if index.us(cell) == stand[cell.key])

    def _matching(self, cells: Iterable[Cell]) -> list[Cell]:
        return [cell for cell in cells if self.scan.mark in (None, cell.mark)]

    def _walk(self, first: bytes, end: bytes, *, backwards: bool) -> Iterator[tuple[Life, Sequence[Kv]]]:
        limit = min(self.scan.limit + 1, KEYS_PER_PAGE)
        while True:
            life, (kvs,) = self.look([span(first, end, limit, backwards=backwards)])
            yield life, kvs
            if len(kvs) < limit:
                return
            last = data64(kvs[-1]["key"])
            first, end = (first, last) if backwards else (last + b"\0", end)


def _bounds(index: EtcdIndex, scan: Scan) -> tuple[bytes, bytes]:
    """Where a scan along an index begins and ends. Cells without such an instant are left out."""
    past = None if scan.after is None else index.entry(*scan.after)
    top = index.entry(None) if scan.upto is None else index.entry(to_us(scan.upto) + 1)
    if index.mirrored:
        return max(top, b"" if past is None else past + b"\0"), after_all(index.area)
    if scan.newest_first:
        return index.area, top if past is None else min(top, past)
    return index.area if past is None else past + b"\0", top
