"""Cells in etcd: replicated by Raft, so that a write that won survives the loss of a minority of its members.

Three things here are subtle.

*Guess, then compare.* A transaction of etcd compares revisions and then writes, or else reads; it cannot compute. So
`judge_groups` judges a batch here, by what this process last saw of the cells (nothing, for most slots), and the
transaction compares that nothing has changed since. If something has, it returns the current cells, and those are
judged: refused, or tried once more. A guess by itself neither grants nor refuses. Each failed try means that another
writer won, so this ends; it is no retry of a write without an answer.

*The clock* is read from the replies; see `stores.http_api`. A write is dated before it is sent.

*A batch of more than WRITES_PER_REQUEST* is several transactions, one after the other: only a group is atomic.

Beside the store itself: `layout` its keys and values and how they are read in order, `api` etcd's JSON API, `checks`
what the doctor asks.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from cronce.errors import StoreCopied, StoreCorrupt, StoreNewer
from cronce.model import Boot, Cell, Epoch, Instant, Mark, Origin, Traits, Verdict, Write, to_us
from cronce.stores import base
from cronce.stores.base import Loaded, Page, Scan, Swapped
from cronce.stores.checks import Check
from cronce.stores.etcd import layout
from cronce.stores.etcd.api import EtcdAddress, EtcdAnswer, EtcdApi, read_url
from cronce.stores.etcd.layout import CellAtRevision, EtcdCells, Kv, Life
from cronce.stores.http_api import Json
from cronce.stores.news import SocketListener

TRAITS: Final = Traits("etcd", notifies=True, step=timedelta(seconds=1), skew=timedelta(milliseconds=750))
"""Its clock is known to the second; the skew of its members' clocks and the time of a reply add to that."""

SAFE: Final = 3
"""Members needed to survive the loss of one."""

WRITES_PER_REQUEST: Final = 100
BYTES: Final = 1_000_000
"""What is put into one transaction: etcd accepts 128 compares and 1.5 MiB."""

READS_PER_REQUEST: Final = 2000

CELLS_REMEMBERED: Final = 2_000
"""Cells that a process remembers, without their values; when there are more it forgets them all."""

NOT_REMEMBERED: Final = (Mark.CLOSED, Mark.ATTENTION)
"""Cells of these marks are not remembered: they are hardly ever written again, and each run leaves one."""


class EtcdStore:
    """A store below a prefix of etcd's keys. `adopt` accepts a restored or copied one on purpose."""

    def __init__(self, address: EtcdAddress, *, adopt: bool = False) -> None:
        self.api: Final = EtcdApi(address)
        self._prefix = address.namespace.encode() + b"/"
        self._meta, self._tally, self._purged = (
            self._prefix + name for name in (layout.META_KEY, layout.TALLY, layout.PURGED_KEY)
        )
        self._adopting = adopt
        self._cluster = ""
        self._life: Life | None = None
        self._remembered: dict[str, CellAtRevision] = {}
        with base.closed_on_error(self):
            deadline = self.api.deadline()
            voters = self._ask("/v3/cluster/member/list", {}, deadline).voters
            self.traits: Final = TRAITS._replace(survives_failover=voters >= SAFE)
            life, _ = self._look([], deadline)
            while self._adopting:
                self._adopting = not self._adopted(life, deadline)
                life, _ = self._look([], deadline)

    def load(self, keys: Sequence[str]) -> Loaded:
        deadline = self.api.deadline()
        wanted = list(dict.fromkeys(keys))
        shelves = [
            self._read(wanted[start : start + READS_PER_REQUEST], deadline)
            for start in range(0, len(wanted) or 1, READS_PER_REQUEST)
        ]
        found = [cell for shelf in shelves for cell in shelf.read]
        return base.loaded(self.api.clock.now(), shelves[-1].life.epoch, keys, found)

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        deadline = self.api.deadline()
        swapped = [self._swap(part, seen, deadline) for part in base.in_batches(writes, BYTES, _bytes_of)]
        return swapped[-1]._replace(verdicts=[verdict for part in swapped for verdict in part.verdicts])

    def scan(self, scan: Scan) -> Page:
        deadline = self.api.deadline()
        look, read = partial(self._look, deadline=deadline), partial(self._read, deadline=deadline)
        found: list[Cell] = []
        for life, cells in layout.pages(scan, self._prefix, look, read):
            epoch = life.epoch
            found += cells
            if len(found) > scan.limit:
                break
        return base.first_page(self.api.clock.now(), epoch, found, scan)

    def purge(self, cells: Sequence[Cell]) -> int:
        deadline = self.api.deadline()
        chunks = [cells[start : start + WRITES_PER_REQUEST] for start in range(0, len(cells), WRITES_PER_REQUEST)]
        return sum(self._purge({cell.key: cell.version for cell in chunk}, deadline) for chunk in chunks)

    def size(self) -> int:
        first = self._cell("")
        return self._ask("/v3/kv/range", layout.count(first, layout.after_all(first)), self.api.deadline()).number

    def listen(self) -> SocketListener:
        return self.api.listen(self._cell(base.BOARD))

    def checks(self) -> Iterator[Check]:
        from cronce.stores.etcd.checks import checks  # noqa: PLC0415  only the doctor asks

        return checks(self.api)

    def close(self) -> None:
        self.api.close()

    # --- swapping ---------------------------------------------------------------------------------------------------

    def _swap(self, writes: Sequence[Write], seen: tuple[int, int], deadline: Boot) -> Swapped:
        keys = list(dict.fromkeys(write.key for write in writes))
        shelf = self._guess(keys) or self._read(keys, deadline)
        while True:
            now = self._sure_now(deadline)
            if base.believe(seen, shelf.life.epoch) == "yes":
                swapped, news = self._try(writes, shelf, now, deadline)
            else:
                swapped, news = self._refuse(writes, seen, shelf, now, deadline), None
            if swapped is not None:
                return swapped
            shelf = news or self._read(keys, deadline)

    def _try(
        self, writes: Sequence[Write], shelf: EtcdCells, now: Instant, deadline: Boot
    ) -> tuple[Swapped | None, EtcdCells | None]:
        """The answer to a batch; or, if the cells are not as on this shelf, None and the current ones, if known."""
        life = shelf.life
        drafts, changed, tally = base.judge_groups(writes, shelf.read, life.epoch._replace(tally=layout.DRAFT), now)
        if shelf.sure and not changed:
            return Swapped(now, life.epoch, drafts), None
        if not shelf.sure and (not changed or any(verdict.refused for verdict in drafts)):
            return None, None
        answer = self._commit(shelf, changed, tally - layout.DRAFT, now, deadline)
        if not answer.succeeded:
            return None, self._shelf(answer, shelf.keys)
        self._life = life = life.went_on(answer.revision, tally - layout.DRAFT, now)
        settle = partial(layout.settled, shift=life.shift, revision=answer.revision)
        self._remember(changed, {key: CellAtRevision(answer.revision, settle(cell)) for key, cell in changed.items()})
        verdicts = [Verdict(refused, settle(cell)) for refused, cell in drafts]
        return Swapped(now, life.epoch, verdicts), None

    def _commit(
        self, shelf: EtcdCells, changed: dict[str, Cell], wins: int, now: Instant, deadline: Boot
    ) -> EtcdAnswer:
        """Write the changed cells, if they and the store's life are still as on the shelf; else read all of them.

        That its tally has not fallen shows that the store has lost nothing that the writer saw. That nothing was purged
        since shows that a missing cell never existed: a network may delay a claim for longer than the slot is kept, and
        its bounds were judged before it was sent.
        """
        life = shelf.life
        compare = [layout.is_at(self._meta, life.begun), layout.is_at(self._purged, life.purged)]
        compare.append(layout.is_at_least(self._tally, life.written))
        then = [layout.put(self._tally, layout.tally_value(wins, now))]
        for key, cell in changed.items():
            compare.append(layout.is_at(self._cell(key), shelf.revision(key)))
            then.append(layout.put(self._cell(key), layout.cell_value(cell, life.shift)))
            then += self._reindexed(shelf.cell(key), cell)
        return self._transact(compare, then, self._reads(shelf.keys), deadline)

    def _reindexed(self, old: Cell | None, new: Cell | None) -> Iterator[Json]:
        was, will = set(layout.entries(old)), set(layout.entries(new))
        yield from (layout.delete(self._prefix + entry) for entry in was - will)
        yield from (layout.put(self._prefix + entry) for entry in will - was)

    def _refuse(
        self, writes: Sequence[Write], seen: tuple[int, int], shelf: EtcdCells, now: Instant, deadline: Boot
    ) -> Swapped | None:
        """The answer to a writer of another life; None if that has to be read first."""
        if not shelf.sure:
            return None
        ahead = base.believe(seen, shelf.life.epoch) == "ahead"
        epoch = self._begin_next(shelf.life, seen, deadline) if ahead else shelf.life.epoch
        return Swapped(now, epoch, base.refused_epoch(writes)) if epoch else None

    def _purge(self, versions: dict[str, int], deadline: Boot) -> int:
        while True:
            shelf = self._read(list(versions), deadline)
            gone = [kept for key, kept in shelf.cells.items() if kept.cell.version == versions[key]]
            compare = [layout.is_at(self._cell(cell.key), revision) for revision, cell in gone]
            then = [layout.put(self._purged), *(layout.delete(self._cell(cell.key)) for _, cell in gone)]
            then += [operation for _, cell in gone for operation in self._reindexed(cell, None)]
            if not gone:
                return 0
            answer = self._transact(compare, then, [], deadline)
            if answer.succeeded:
                self._life = shelf.life._replace(purged=answer.revision)
                return len(gone)

    # --- reading ----------------------------------------------------------------------------------------------------

    def _guess(self, keys: Sequence[str]) -> EtcdCells | None:
        """What this process last saw. A cell that it does not know is most likely a slot without a record."""
        remembered = self._remembered
        cells = {key: remembered[key] for key in keys if key in remembered}
        return None if self._life is None else EtcdCells(self._life, keys, cells, sure=False)

    def _remember(self, keys: Iterable[str], cells: dict[str, CellAtRevision]) -> None:
        if len(self._remembered) > CELLS_REMEMBERED:
            self._remembered = {}
        for key in keys:
            self._remembered.pop(key, None)
        self._remembered.update(
            {
                key: CellAtRevision(kept.revision, kept.cell._replace(value=""))
                for key, kept in cells.items()
                if kept.cell.mark not in NOT_REMEMBERED
            }
        )

    def _read(self, keys: Sequence[str], deadline: Boot) -> EtcdCells:
        life, found = self._look([layout.one(self._cell(key)) for key in keys], deadline)
        return self._shelved(life, keys, found)

    def _shelf(self, answer: EtcdAnswer, keys: Sequence[str]) -> EtcdCells | None:
        """What a transaction read whose compares failed; None if there is no store any more."""
        life, found = self._take_in(answer)
        return life and self._shelved(life, keys, found)

    def _shelved(self, life: Life, keys: Sequence[str], found: Iterable[Sequence[Kv]]) -> EtcdCells:
        skip = len(self._cell(""))
        kept = [layout.read_cell(kv, skip) for kvs in found for kv in kvs]
        shelf = EtcdCells(life, keys, {each.cell.key: each for each in kept})
        self._remember(keys, shelf.cells)
        return shelf

    def _look(self, operations: Sequence[Json], deadline: Boot) -> tuple[Life, Sequence[Sequence[Kv]]]:
        """Read the store's life, and what else is asked for, at one moment. An empty store is initialised by this."""
        while True:
            answer = self._transact([], [*self._reads([]), *operations], [], deadline)
            life, found = self._take_in(answer)
            if life is not None:
                return life, found
            self._begin(deadline)

    def _reads(self, keys: Iterable[str]) -> list[Json]:
        cells = (self._cell(key) for key in keys)
        return [layout.one(key) for key in (self._meta, self._tally, self._purged, *cells)]

    def _take_in(self, answer: EtcdAnswer) -> tuple[Life | None, Sequence[Sequence[Kv]]]:
        meta, tally, purged, *found = answer.ranges
        if not meta:
            return None, found
        self._check(meta[0], tally)
        life = layout.read_life(meta[0], tally[0], purged)
        if life.identity != self._cluster and not self._adopting:
            raise StoreCopied(
                f"{self.api.address.shown} was written by another cluster: this is a restored snapshot or a copy,"
                " and with its original in use both would run everything. To use this one as the store from now"
                " on, make sure that the other is no longer used, then run `cronce store adopt URL`"
            )
        if self._life is not None and self._life.begun != life.begun:
            self._remembered = {}  # after a loss the same revision may be another write
        self._life = life
        return life, found

    def _check(self, meta: Kv, tally: Sequence[Kv]) -> None:
        if layout.schema_of(meta) > layout.ETCD_SCHEMA:
            raise StoreNewer(f"{self.api.address.shown} was written by a newer cronce; upgrade this one")
        if not tally:
            raise StoreCorrupt(
                f"{self.api.address.shown} has lost the key {self._tally.decode()}; restore it, or"
                f" delete all keys below {self._prefix.decode()} and start again"
            )

    # --- lives ------------------------------------------------------------------------------------------------------

    def _begin(self, deadline: Boot) -> None:
        """The first life, unless another process is faster. A process that knew one before knows that it was lost."""
        now, known = self._sure_now(deadline), self._life
        epoch = base.first_life(to_us(now), TRAITS)
        if known is not None:
            epoch = Epoch(max(epoch.birth, known.epoch.birth + 1), origin=Origin.FOUND)
        self._transact([layout.is_at(self._meta, 0)], self._life_put(epoch, now), [], deadline)

    def _begin_next(self, life: Life, seen: tuple[int, int], deadline: Boot) -> Epoch | None:
        """The life after a loss; None if another process is faster."""
        epoch = base.next_life(to_us(self._sure_now(deadline)), seen, life.epoch, life.last_write)
        same = [layout.is_at(self._meta, life.begun), layout.is_at(self._tally, life.written)]
        answer = self._transact(same, self._life_put(epoch, life.last_write), [], deadline)
        return epoch if answer.succeeded else None

    def _adopted(self, life: Life, deadline: Boot) -> bool:
        """A copy made key by key has revisions of its own: no number of its cells may be above the tally it had."""
        above_all = life.written * layout.NUMBERS_PER_REVISION
        return self._begin_next(life, (life.epoch.birth, above_all), deadline) is not None

    def _life_put(self, epoch: Epoch, last_write: Instant) -> Sequence[Json]:
        meta, tally = layout.meta_value(epoch, self._cluster), layout.tally_value(0, last_write)
        return [layout.put(self._meta, meta), layout.put(self._tally, tally)]

    # --- asking -----------------------------------------------------------------------------------------------------

    def _cell(self, key: str) -> bytes:
        return self._prefix + layout.cell_key(key)

    def _transact(
        self, compare: Sequence[Json], then: Sequence[Json], other: Sequence[Json], deadline: Boot
    ) -> EtcdAnswer:
        return self._ask("/v3/kv/txn", layout.txn(compare, then, other), deadline)

    def _ask(self, path: str, body: Json, deadline: Boot) -> EtcdAnswer:
        answer = self.api.ask(path, body, deadline)
        self._cluster = answer.cluster
        return answer

    def _sure_now(self, deadline: Boot) -> Instant:
        """The time to date a write by."""
        while not self.api.clock.is_sure:
            self._transact([], [], [], deadline)
        return self.api.clock.now()


def _bytes_of(write: Write) -> int:
    """The size of a write in a transaction; a short one counts as its share of the compares."""
    return max(len(write.value.encode(errors="replace")) + 4 * len(write.key), BYTES // WRITES_PER_REQUEST)


# --- URLs, beginning and adopting -----------------------------------------------------------------------------------


def open_store(url: str) -> EtcdStore:
    return EtcdStore(read_url(url))


def init(url: str) -> Epoch:
    """Initialise a store; one that exists stays as it is."""
    return base.life_of(open_store(url))


def adopt(url: str) -> Epoch:
    """Accept a restored snapshot or a copy as the store from now on; its new epoch."""
    return base.life_of(EtcdStore(read_url(url), adopt=True))
