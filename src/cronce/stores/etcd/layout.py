"""How cells lie in etcd: which keys and values stand for one, and how numbers are drawn. Pure.

Below the namespace, which is a prefix:

    meta                  this life of the store, as JSON; written once in a life
    tally                 how many wins the last write had, and when; written with every win
    purged                written with every purge; empty
    cell/KEY              a line of JSON, then the cell's value
    at/INSTANT/KEY        every cell that has an instant, in its order; empty
    ta/…                  the same the other way round: etcd reads the newest few only forwards
    open/UNTIL/KEY        every open cell
    attention/INSTANT/KEY every cell that a person should look at

*Numbers.* etcd gives each transaction the next revision, and keeps with each key the one that wrote it. A transaction
of ours draws SPAN numbers for each revision: its n-th win has the number n of them. Nobody knows the revision before it
is written, so what is stored is the rest: number = revision × SPAN + shift + n, where the shift is that of this life,
chosen so that it goes on where the last one ended.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from cronce.errors import BadInput
from cronce.model import Cell, Epoch, Fence, Instant, Mark, Origin, from_us, to_us
from cronce.stores.base import By
from cronce.stores.etcd.api import data64
from cronce.value import NamedTuple

SCHEMA: Final = 1
"""The version of this layout. A newer one is refused, never guessed."""

SPAN: Final = 1000
"""Numbers per revision: more than a transaction can have writes."""

DRAFT: Final = 1 << 62
"""Numbers above it are drawn, and wait for their revision."""

META: Final = b"meta"
TALLY: Final = b"tally"
PURGED: Final = b"purged"
CELL: Final = b"cell/"

_NONE: Final = "~"  # after all digits
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
        return self.epoch.base - self.begun * SPAN

    def went_on(self, revision: int, wins: int, now: Instant) -> "Life":
        """After a transaction of so many wins."""
        tally = revision * SPAN + self.shift + wins
        return self._replace(epoch=self.epoch._replace(tally=tally), last_write=now, written=revision)


class Kept(NamedTuple):
    """A cell, and the revision that wrote it."""

    revision: int
    cell: Cell


class Shelf(NamedTuple):
    """Some cells, and the life they are part of: as they stood when they were read, or as they are remembered."""

    life: Life
    keys: Sequence[str]
    cells: dict[str, Kept]  # those that are there
    sure: bool = True

    @property
    def read(self) -> Iterator[Cell]:
        return (kept.cell for kept in self.cells.values())

    def cell(self, key: str) -> Cell | None:
        return self.cells[key].cell if key in self.cells else None

    def revision(self, key: str) -> int:
        return self.cells[key].revision if key in self.cells else 0


# --- meta and tally -------------------------------------------------------------------------------------------------


def meta_value(epoch: Epoch, identity: str) -> bytes:
    since = None if epoch.since is None else to_us(epoch.since)
    row = {"schema": SCHEMA, "birth": epoch.birth, "base": epoch.base, "origin": epoch.origin, "since": since}
    return json.dumps({**row, "identity": identity}).encode()


def tally_value(wins: int, last_write: Instant) -> bytes:
    return json.dumps({"wins": wins, "now": to_us(last_write)}).encode()


def schema_of(meta: Kv) -> int:
    return int(json.loads(data64(meta["value"]))["schema"])


def read_life(meta: Kv, tally: Kv, purged: Sequence[Kv]) -> Life:
    row, last = json.loads(data64(meta["value"])), json.loads(data64(tally["value"]))
    since = None if row["since"] is None else from_us(row["since"])
    epoch = Epoch(row["birth"], row["base"], row["base"], Origin(row["origin"]), since)
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
    return CELL + data


def cell_value(cell: Cell, shift: int) -> bytes:
    """A drafted cell as it is stored. Its fence may be drafted with it, or be one that it had before."""
    birth, number = cell.fence or (None, 0)
    drafted = number > DRAFT
    row = (
        cell.version - DRAFT + shift, int(cell.mark), _us(cell.at), _us(cell.until),
        birth, number - DRAFT + shift if drafted else number, drafted,
    )  # fmt: skip
    try:
        return f"{json.dumps(row, separators=(',', ':'))}\n{cell.value}".encode()
    except UnicodeEncodeError:
        raise BadInput(f"the value of {cell.key} is not text that can be stored") from None


def read_cell(kv: Kv, skip: int) -> Kept:
    """The cell of a key whose first `skip` bytes say where it lies."""
    revision = int(kv["mod_revision"])
    head, _, value = data64(kv["value"]).decode().partition("\n")
    rest, mark, at, until, birth, number, drafted = json.loads(head)
    drawn = revision * SPAN
    cell = Cell(
        data64(kv["key"])[skip:].decode(),
        drawn + rest,
        value,
        None if at is None else from_us(at),
        Mark(mark),
        None if birth is None else Fence(birth, number + drawn * drafted),
        None if until is None else from_us(until),
    )
    return Kept(revision, cell)


def settled(cell: Cell, shift: int, revision: int) -> Cell:
    """A drafted cell, now that its revision is known; any other as it is."""
    if cell.version <= DRAFT:
        return cell
    drawn = revision * SPAN + shift - DRAFT
    fence = cell.fence
    if fence is not None and fence.number > DRAFT:
        fence = Fence(fence.birth, fence.number + drawn)
    return cell._replace(version=cell.version + drawn, fence=fence)


def _us(instant: Instant | None) -> int | None:
    return None if instant is None else to_us(instant)


# --- indexes --------------------------------------------------------------------------------------------------------


class Index(NamedTuple):
    """Keys in the order of something; mirrored ones hold it backwards."""

    area: bytes
    by: By
    mirrored: bool = False

    def entry(self, us: int | None, key: str = "") -> bytes:
        """Where a cell stands in it; without a key: before all cells of that instant."""
        text = f"{_NONE if us is None else format(us + _SHIFT, '019')}/{key}".encode()
        return self.area + (mirror(text) if self.mirrored else text)

    def place(self, entry: bytes) -> tuple[int | None, str]:
        """The instant and the key that an entry stands for."""
        text = entry[len(self.area) :]
        us, _, key = (mirror(text[:-1])[:-1] if self.mirrored else text).decode().partition("/")
        return None if us == _NONE else int(us) - _SHIFT, key

    def us(self, cell: Cell) -> int | None:
        """The instant by which a cell stands in it."""
        return _us(cell.at if self.by == "at" else cell.until)


BY_AT: Final = Index(b"at/", "at")
BY_AT_BACKWARDS: Final = Index(b"ta/", "at", mirrored=True)
OPEN: Final = Index(b"open/", "until")
ATTENTION: Final = Index(b"attention/", "at")

_COMPLEMENT: Final = bytes(range(255, -1, -1))


def mirror(data: bytes) -> bytes:
    """Sorts the other way round. The end is above all bytes, so that what is longer comes first."""
    return data.translate(_COMPLEMENT) + b"\xff"


def entries(cell: Cell | None) -> Iterator[bytes]:
    """Every entry that a stored cell has."""
    if cell is None:
        return
    if cell.at is not None:
        yield BY_AT.entry(to_us(cell.at), cell.key)
        yield BY_AT_BACKWARDS.entry(to_us(cell.at), cell.key)
    if cell.mark is Mark.OPEN:
        yield OPEN.entry(_us(cell.until), cell.key)
    if cell.mark is Mark.ATTENTION:
        yield ATTENTION.entry(_us(cell.at), cell.key)


def after_all(prefix: bytes) -> bytes:
    """The first key above all that begin with this; the last byte is never 255."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
