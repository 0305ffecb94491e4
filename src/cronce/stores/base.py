"""The store seam: a shelf of compare-and-swap cells with a clock. Four methods; a store never decides, logs or retries.

What a backend has to get right, and `cronce.testing.StoreContract` checks:

* `swap` is atomic per group and linearizable: of all writes that expect one version of a cell, one wins.
* Every winning write draws the next number of one tally that never repeats within a life of the store: it becomes
  the cell's version and, on a grant, its fence. A reply's tally covers every version that it shows, and no number that
  a crash of the store could take back.
* `now` is the store's own clock at that moment, read in the same round trip, never a transaction's start.
* A swap names the epoch its writer has seen. A writer that is behind is refused. A writer that is *ahead* proves that
  the store forgot: the store begins a new life, and refuses all the same.
* Groups of a batch are judged in the order given, each seeing what the ones before it did; rows are locked in one
  sorted order, so that batches never deadlock.

Where a store cannot (a trait says so), the rest holds all the same: without a `tally`, each cell counts for itself, its
versions never return and its fences rise.

A store may also wake processes that wait (`Traits.notifies`): a write that wins on a cell whose key begins with
`board/` is news to every listener of the store. It costs no request: the news is part of the swap.
It only makes others read sooner; they also read now and then without it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from itertools import repeat
from typing import Any, Final, Literal, Protocol, TypeVar, runtime_checkable

from cronce.model import (
    ABSENT,
    FREE,
    Cell,
    Epoch,
    Fence,
    Instant,
    Mark,
    Origin,
    Refusal,
    Traits,
    Verdict,
    Write,
    from_us,
    to_us,
)
from cronce.value import NamedTuple

By = Literal["key", "at", "until"]

BOARD: Final = "board/"
"""Writes to a cell whose key begins with this are news."""


class Position(NamedTuple):
    """The place of a cell in a scan: the instant it is ordered by, in µs (0 when ordered by key), then its key."""

    us: int
    key: str


class Loaded(NamedTuple):
    """Cells as they stood at `now`, in the order asked for; an absent one has version 0."""

    now: Instant
    epoch: Epoch
    cells: Sequence[Cell]


class Swapped(NamedTuple):
    """A verdict for each write, in the order given."""

    now: Instant
    epoch: Epoch
    verdicts: Sequence[Verdict]


class Page(NamedTuple):
    """Part of a scan, and where the next part begins, or None at the end."""

    now: Instant
    epoch: Epoch
    cells: Sequence[Cell]
    next: Position | None


class Scan(NamedTuple):
    """Cells whose key begins with `prefix`, in order; by at or until: only those that have one, at most `upto`."""

    prefix: str
    by: By = "key"
    mark: Mark | None = None
    upto: Instant | None = None
    after: Position | None = None
    limit: int = 1000
    newest_first: bool = False


class Store(Protocol):
    """Compare-and-swap cells with a clock."""

    @property
    def traits(self) -> Traits: ...

    def load(self, keys: Sequence[str]) -> Loaded: ...

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        """`seen` is the (birth, tally) of the latest epoch the writer knows of."""
        ...

    def scan(self, scan: Scan) -> Page: ...

    def purge(self, cells: Sequence[Cell]) -> int:
        """Delete these cells, each if it still has the version it was read with; how many went."""
        ...

    def close(self) -> None: ...


class Listener(Protocol):
    """Learns of writes on the board since it was made. One thread waits; any other may wake or close it.

    Several writes may be one piece of news, and a process's own writes are news too. None is lost while the connection
    is up; when that breaks, `wait` raises `StoreUnavailable`: close it, and listen again. A forked child needs its own.
    """

    def wait(self, seconds: float) -> bool:
        """True once a cell of the board was written since the last True; False when the time is over."""
        ...

    def wake(self) -> None:
        """End the current wait, or else the next one: it returns False, unless there is news."""
        ...

    def close(self) -> None:
        """Also while another thread waits: that wait returns False, and a later one raises `StoreUnavailable`."""
        ...


@runtime_checkable
class Notifies(Store, Protocol):
    """A store whose trait `notifies` is True."""

    def listen(self) -> Listener: ...


def listen(store: Store) -> Listener | None:
    """A listener, if the store can notify. A wrapper with the traits of its store need not pass this on."""
    return store.listen() if store.traits.notifies and isinstance(store, Notifies) else None


@runtime_checkable
class ReadsAtOnce(Store, Protocol):
    """A store for which reading all of it is one request, as is reading any part."""

    def at_once(self) -> AbstractContextManager[None]: ...


def at_once(store: Store) -> AbstractContextManager[None]:
    """A block in which one thread reads much, and may get a reading up to a second old: such a store is asked once for
    all of it. Writes in the block are judged by what is in the store, as always."""
    return store.at_once() if isinstance(store, ReadsAtOnce) else nullcontext()


@runtime_checkable
class Sized(Store, Protocol):
    """A store that can tell how many cells it holds without reading them all."""

    def size(self) -> int:
        """About how many: exact as long as there are few, else within a tenth or so."""
        ...


def size(store: Store) -> int | None:
    """About how many cells there are, where the store can say."""
    return store.size() if isinstance(store, Sized) else None


def is_news(keys: Iterable[str]) -> bool:
    """Whether a cell of the board is among those that were written."""
    return any(key.startswith(BOARD) for key in keys)


def position(cell: Cell, by: By) -> Position | None:
    """The place of the cell in a scan; None if it has no such instant."""
    if by == "key":
        return Position(0, cell.key)
    instant = cell.at if by == "at" else cell.until
    return None if instant is None else Position(to_us(instant), cell.key)


def page_of(cells: Iterable[Cell], scan: Scan, now: Instant, epoch: Epoch) -> Page:
    """A scan over all cells there are, for stores that have them in memory."""
    found = {
        place: cell
        for cell in cells
        if cell.key.startswith(scan.prefix) and scan.mark in (None, cell.mark) and (place := position(cell, scan.by))
    }
    places = sorted(found, reverse=scan.newest_first)
    if scan.upto is not None and scan.by != "key":
        places = [place for place in places if place.us <= to_us(scan.upto)]
    if scan.after is not None:
        places = [place for place in places if (place < scan.after) == scan.newest_first and place != scan.after]
    return first_page(now, epoch, [found[place] for place in places[: scan.limit + 1]], scan)


def loaded(now: Instant, epoch: Epoch, keys: Sequence[str], found: Iterable[Cell]) -> Loaded:
    """The cells of these keys, of which some were found."""
    cells = {cell.key: cell for cell in found}
    return Loaded(now, epoch, [cells.get(key) or Cell(key) for key in keys])


def first_page(now: Instant, epoch: Epoch, cells: Sequence[Cell], scan: Scan) -> Page:
    """The first of cells that are in order and past the scan's position; one too many shows that there are more."""
    page = cells[: scan.limit]
    return Page(now, epoch, page, position(page[-1], scan.by) if len(cells) > scan.limit else None)


class Closes(Protocol):
    def close(self) -> None: ...


@contextmanager
def closed_on_error(opened: Closes) -> Iterator[None]:
    """Close what was just opened if the block raises."""
    try:
        yield
    except BaseException:
        opened.close()
        raise


def life_of(store: Store) -> Epoch:
    """The epoch of a store that was opened only to initialise it, or to ask for the epoch."""
    with closing(store):
        return store.load([]).epoch


def us(instant: Instant | None) -> int | None:
    return None if instant is None else to_us(instant)


def instant(us: int | None) -> Instant | None:
    return None if us is None else from_us(us)


# --- judging a batch in memory, for stores whose server does not ------------------------------------------------------


def believe(seen: tuple[int, int], stored: Epoch) -> Literal["yes", "behind", "ahead"]:
    """Whether a writer's epoch is the store's. Ahead: the writer has seen what the store no longer knows."""
    if seen > stored[:2]:
        return "ahead"
    return "yes" if seen[0] == stored.birth else "behind"


def first_life(now_us: int, traits: Traits, *, on_purpose: bool = False) -> Epoch:
    made = on_purpose or traits.durable
    return Epoch(now_us, origin=Origin.MADE if made else Origin.FOUND)


def next_life(now_us: int, seen: tuple[int, int], stored: Epoch, last_write: Instant) -> Epoch:
    """The epoch after a loss: its birth is later, and its tally at least as high, as any that is known."""
    tally = max(seen[1], stored.tally) if seen[0] >= stored.birth else stored.tally
    birth = max(now_us, seen[0] + 1, stored.birth + 1)
    return Epoch(birth, tally, tally, Origin.RESTORED, last_write)


def groups(writes: Sequence[Write]) -> Iterator[Sequence[int]]:
    """The indexes of writes that are written together, in the order given; the members of a group are neighbours."""
    start = 0
    for place in range(1, len(writes) + 1):
        if place == len(writes) or writes[place].group is None or writes[place].group != writes[start].group:
            yield range(start, place)
            start = place


def in_batches(
    writes: Sequence[Write], most: int, cost: Callable[[Write], int] = lambda _write: 1
) -> Iterator[Sequence[Write]]:
    """Parts of at most so many writes, or of so much `cost`. A group is never divided: a part may be one that is
    longer."""
    start = used = 0
    for group in groups(writes):
        more = sum(cost(writes[place]) for place in group)
        if used and used + more > most:
            yield writes[start : group[0]]
            start, used = group[0], 0
        used += more
    yield writes[start:]


def judge(
    writes: Sequence[Write],
    seen: tuple[int, int],
    read: Iterable[Cell],
    stored: Epoch,
    *,
    last_write: Instant,
    now: Instant,
) -> tuple[Swapped, dict[str, Cell]]:
    """The answer to a swap, and the cells to store. If the epoch in the answer is the stored one, nothing changes."""
    belief = believe(seen, stored)
    if belief == "ahead":
        stored = next_life(to_us(now), seen, stored, last_write)
    if belief != "yes":
        return Swapped(now, stored, refused_epoch(writes)), {}
    verdicts, changed, tally = judge_groups(writes, read, stored, now)
    return Swapped(now, Epoch(stored.birth, tally, *stored[2:]), verdicts), changed


def judge_groups(
    writes: Sequence[Write], read: Iterable[Cell], epoch: Epoch, now: Instant
) -> tuple[list[Verdict], dict[str, Cell], int]:
    """Which writes of a batch win: the verdicts, the cells to store, and the tally afterwards."""
    shelf = {cell.key: cell for cell in read}
    changed: dict[str, Cell] = {}
    verdicts: list[Verdict] = []
    tally = epoch.tally
    for places in groups(writes):
        group = [writes[place] for place in places]
        refusals = [_refusal(write, shelf.get(write.key), now) for write in group]
        if any(refusals):
            for write, refused in zip(group, refusals, strict=True):
                verdicts.append(Verdict(refused or Refusal.GROUP, shelf.get(write.key) or Cell(write.key)))
            continue
        for write in group:
            tally += 1
            cell = _written(write, shelf.get(write.key), tally, epoch.birth, now)
            shelf[cell.key] = changed[cell.key] = cell
            verdicts.append(Verdict(None, cell))
    return verdicts, changed, tally


def _refusal(write: Write, cell: Cell | None, now: Instant) -> Refusal | None:
    version = cell.version if cell else ABSENT
    free = version == ABSENT or (cell is not None and cell.mark is Mark.FREE)
    if version != write.seen and not (write.seen == FREE and free):
        return Refusal.VERSION
    if write.not_before is not None and now < write.not_before:
        return Refusal.EARLY
    if write.not_after is not None and now > write.not_after:
        return Refusal.LATE
    return None


def _written(write: Write, cell: Cell | None, tally: int, birth: int, now: Instant) -> Cell:
    at, fence, until = (write.at, None, None) if cell is None else (cell.at, cell.fence, cell.until)
    if write.grant:
        fence = Fence(birth, tally)
    if write.ttl is not None:
        until = now + write.ttl
    return Cell(write.key, tally, write.value, at, write.mark, fence, until)


def refused_epoch(writes: Sequence[Write]) -> list[Verdict]:
    return [Verdict(Refusal.EPOCH, Cell(write.key)) for write in writes]


# --- many cells at once, for stores whose hot path is Python ---------------------------------------------------------

_Tuple = TypeVar("_Tuple", bound=tuple[Any, ...])
_new: Final[Callable[..., Any]] = tuple.__new__


def made(kind: type[_Tuple], *columns: Iterable[Any]) -> Iterator[_Tuple]:
    """NamedTuples of columns: one by one, field by field, takes three times as long."""
    return map(_new, repeat(kind), zip(*columns, strict=False))


def new_cells(writes: Sequence[Write], first: int, birth: int, now: Instant) -> Iterator[Cell]:
    """The cells that a batch made, if each of its writes met none and won. Their numbers begin with `first`."""
    keys, _, values, marks, ats, grants, ttls, *_ = zip(*writes, strict=True)
    versions = range(first, first + len(writes))
    fences: Iterable[Fence | None] = made(Fence, repeat(birth), versions)
    if not all(grants):
        fences = (fence if grant else None for fence, grant in zip(fences, grants, strict=True))
    untils = {ttl: None if ttl is None else now + ttl for ttl in set(ttls)}
    return made(Cell, keys, versions, values, ats, marks, fences, map(untils.__getitem__, ttls))


Opener = Callable[[str], Store]
"""What an entry point of `cronce.stores` names: a function that opens a store by its URL."""
