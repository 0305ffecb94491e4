"""Cells in etcd: replicated by Raft, so that a write that won survives the loss of a minority of its members.

Three things here are subtle.

*Guess, then compare.* A transaction of etcd compares revisions and then writes, or else reads; it cannot work anything
out. So `judge_groups` is asked here what a batch comes to, from what this process last saw of the cells (nothing, for
most slots), and the transaction compares that nothing has changed since. If something has, it hands back what stands
there now, and that is judged: refused, or tried once more with compares on that. A guess grants nothing by itself and
refuses nobody. Each failed try means that somebody else won, so this ends; it is no retry of a write without an answer.

*The clock* is read off the replies; see `stores.http_api`. A write is dated before it is sent.

*A batch of more than WRITES_PER_REQUEST* is several transactions, one after the other: only a group lands as one.

Beside the store itself: `layout` the keys and records it keeps and how they are read in order, `api` its JSON gateway,
`checks` what the doctor asks.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from cronce.errors import StoreCopied, StoreCorrupt, StoreNewer
from cronce.model import Boot, Cell, Epoch, Instant, Origin, Traits, Verdict, Write, to_us
from cronce.stores.base import (
    BOARD,
    Loaded,
    Page,
    Scan,
    Swapped,
    believe,
    closed_on_error,
    first_life,
    first_page,
    in_batches,
    judge_groups,
    life_of,
    loaded,
    next_life,
    refused_epoch,
)
from cronce.stores.checks import Check
from cronce.stores.etcd.api import EtcdAddress, EtcdAnswer, EtcdApi, read_url
from cronce.stores.etcd.layout import (
    DRAFT,
    ETCD_SCHEMA,
    META_KEY,
    NUMBERS_PER_REVISION,
    PURGED_KEY,
    TALLY,
    CellAtRevision,
    EtcdCells,
    Kv,
    Life,
    after_all,
    cell_key,
    cell_value,
    count,
    delete,
    entries,
    is_at,
    is_at_least,
    meta_value,
    one,
    pages,
    put,
    read_cell,
    read_life,
    schema_of,
    settled,
    tally_value,
    txn,
)
from cronce.stores.http_api import Json
from cronce.stores.news import SocketListener

TRAITS: Final = Traits("etcd", notifies=True, step=timedelta(seconds=1), skew=timedelta(milliseconds=750))
"""Its clock is known to the second; the clocks of its members and the way of a reply add the rest."""

SAFE: Final = 3
"""Members that it takes to survive the loss of one."""

WRITES_PER_REQUEST: Final = 100
BYTES: Final = 1_000_000
"""What is put into one transaction: etcd takes 128 compares and 1.5 MiB."""

READS_PER_REQUEST: Final = 2000

CELLS_REMEMBERED: Final = 2_000
"""Cells that a process remembers, without their values; when there are more it begins anew."""


class EtcdStore:
    """A store below a prefix of etcd's keys. `adopt` accepts a restored or copied one on purpose."""

    def __init__(self, address: EtcdAddress, *, adopt: bool = False) -> None:
        self.api: Final = EtcdApi(address)
        self._prefix = address.namespace.encode() + b"/"
        self._adopting = adopt
        self._cluster = ""
        self._life: Life | None = None
        self._remembered: dict[str, CellAtRevision] = {}
        with closed_on_error(self):
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
        return loaded(self.api.clock.now(), shelves[-1].life.epoch, keys, found)

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        deadline = self.api.deadline()
        swapped = [self._swap(part, seen, deadline) for part in in_batches(writes, BYTES, _bytes_of)]
        return swapped[-1]._replace(verdicts=[verdict for part in swapped for verdict in part.verdicts])

    def scan(self, scan: Scan) -> Page:
        deadline = self.api.deadline()
        look, read = partial(self._look, deadline=deadline), partial(self._read, deadline=deadline)
        found: list[Cell] = []
        for life, cells in pages(scan, self._prefix, look, read):
            epoch = life.epoch
            found += cells
            if len(found) > scan.limit:
                break
        return first_page(self.api.clock.now(), epoch, found, scan)

    def purge(self, cells: Sequence[Cell]) -> int:
        deadline = self.api.deadline()
        chunks = [cells[start : start + WRITES_PER_REQUEST] for start in range(0, len(cells), WRITES_PER_REQUEST)]
        return sum(self._purge({cell.key: cell.version for cell in chunk}, deadline) for chunk in chunks)

    def size(self) -> int:
        first = self._cell("")
        return self._ask("/v3/kv/range", count(first, after_all(first)), self.api.deadline()).number

    def listen(self) -> SocketListener:
        return self.api.listen(self._cell(BOARD))

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
            if believe(seen, shelf.life.epoch) == "yes":
                swapped, news = self._try(writes, shelf, now, deadline)
            else:
                swapped, news = self._refuse(writes, seen, shelf, now, deadline), None
            if swapped is not None:
                return swapped
            shelf = news or self._read(keys, deadline)

    def _try(
        self, writes: Sequence[Write], shelf: EtcdCells, now: Instant, deadline: Boot
    ) -> tuple[Swapped | None, EtcdCells | None]:
        """What a batch comes to; or, if the cells are not as on this shelf, the one to go on from, if it is known."""
        life = shelf.life
        drafts, changed, tally = judge_groups(writes, shelf.read, life.epoch._replace(tally=DRAFT), now)
        if shelf.sure and not changed:
            return Swapped(now, life.epoch, drafts), None
        if not shelf.sure and (not changed or any(verdict.refused for verdict in drafts)):
            return None, None
        answer = self._commit(shelf, changed, tally - DRAFT, now, deadline)
        if not answer.succeeded:
            return None, self._shelf(answer, shelf.keys)
        self._life = life = life.went_on(answer.revision, tally - DRAFT, now)
        settle = partial(settled, shift=life.shift, revision=answer.revision)
        self._remember(changed, {key: CellAtRevision(answer.revision, settle(cell)) for key, cell in changed.items()})
        verdicts = [Verdict(refused, settle(cell)) for refused, cell in drafts]
        return Swapped(now, life.epoch, verdicts), None

    def _commit(
        self, shelf: EtcdCells, changed: dict[str, Cell], wins: int, now: Instant, deadline: Boot
    ) -> EtcdAnswer:
        """Write the changed cells, if they and the store's life are still as on the shelf; else read all of them.

        That its tally has not fallen shows that the store has not forgotten what the writer saw. That nothing was
        purged since shows that a cell that is not there never was: a network may hold a claim back for longer than the
        slot is kept, and its bounds were judged before it was sent.
        """
        life = shelf.life
        compare = [is_at(self._prefix + META_KEY, life.begun), is_at(self._prefix + PURGED_KEY, life.purged)]
        compare.append(is_at_least(self._prefix + TALLY, life.written))
        then = [put(self._prefix + TALLY, tally_value(wins, now))]
        for key, cell in changed.items():
            compare.append(is_at(self._cell(key), shelf.revision(key)))
            then.append(put(self._cell(key), cell_value(cell, life.shift)))
            then += self._reindexed(shelf.cell(key), cell)
        return self._transact(compare, then, self._reads(shelf.keys), deadline)

    def _reindexed(self, old: Cell | None, new: Cell | None) -> Iterator[Json]:
        was, will = set(entries(old)), set(entries(new))
        yield from (delete(self._prefix + entry) for entry in was - will)
        yield from (put(self._prefix + entry) for entry in will - was)

    def _refuse(
        self, writes: Sequence[Write], seen: tuple[int, int], shelf: EtcdCells, now: Instant, deadline: Boot
    ) -> Swapped | None:
        """The answer to a writer of another life; None if that has to be read first."""
        if not shelf.sure:
            return None
        ahead = believe(seen, shelf.life.epoch) == "ahead"
        epoch = self._begin_next(shelf.life, seen, deadline) if ahead else shelf.life.epoch
        return Swapped(now, epoch, refused_epoch(writes)) if epoch else None

    def _purge(self, versions: dict[str, int], deadline: Boot) -> int:
        while True:
            shelf = self._read(list(versions), deadline)
            gone = [kept for key, kept in shelf.cells.items() if kept.cell.version == versions[key]]
            compare = [is_at(self._cell(cell.key), revision) for revision, cell in gone]
            then = [put(self._prefix + PURGED_KEY), *(delete(self._cell(cell.key)) for _, cell in gone)]
            then += [operation for _, cell in gone for operation in self._reindexed(cell, None)]
            if not gone:
                return 0
            answer = self._transact(compare, then, [], deadline)
            if answer.succeeded:
                self._life = shelf.life._replace(purged=answer.revision)
                return len(gone)

    # --- reading ----------------------------------------------------------------------------------------------------

    def _guess(self, keys: Sequence[str]) -> EtcdCells | None:
        """What this process last saw. A cell that it knows nothing of is most likely a slot that is not there yet."""
        remembered = self._remembered
        cells = {key: remembered[key] for key in keys if key in remembered}
        return None if self._life is None else EtcdCells(self._life, keys, cells, sure=False)

    def _remember(self, keys: Iterable[str], cells: dict[str, CellAtRevision]) -> None:
        if len(self._remembered) > CELLS_REMEMBERED:
            self._remembered = {}
        for key in keys:
            self._remembered.pop(key, None)
        self._remembered.update(
            {key: CellAtRevision(kept.revision, kept.cell._replace(value="")) for key, kept in cells.items()}
        )

    def _read(self, keys: Sequence[str], deadline: Boot) -> EtcdCells:
        life, found = self._look([one(self._cell(key)) for key in keys], deadline)
        return self._shelved(life, keys, found)

    def _shelf(self, answer: EtcdAnswer, keys: Sequence[str]) -> EtcdCells | None:
        """What a transaction that did not come about read instead; None if there is no store any more."""
        life, found = self._take_in(answer)
        return life and self._shelved(life, keys, found)

    def _shelved(self, life: Life, keys: Sequence[str], found: Iterable[Sequence[Kv]]) -> EtcdCells:
        skip = len(self._cell(""))
        kept = [read_cell(kv, skip) for kvs in found for kv in kvs]
        shelf = EtcdCells(life, keys, {each.cell.key: each for each in kept})
        self._remember(keys, shelf.cells)
        return shelf

    def _look(self, operations: Sequence[Json], deadline: Boot) -> tuple[Life, Sequence[Sequence[Kv]]]:
        """Read the store's life, and what else is asked for, at one moment. An empty store begins to live by that."""
        while True:
            answer = self._transact([], [*self._reads([]), *operations], [], deadline)
            life, found = self._take_in(answer)
            if life is not None:
                return life, found
            self._begin(deadline)

    def _reads(self, keys: Iterable[str]) -> list[Json]:
        about = [one(self._prefix + key) for key in (META_KEY, TALLY, PURGED_KEY)]
        return [*about, *(one(self._cell(key)) for key in keys)]

    def _take_in(self, answer: EtcdAnswer) -> tuple[Life | None, Sequence[Sequence[Kv]]]:
        meta, tally, purged, *found = answer.ranges
        if not meta:
            return None, found
        self._check(meta[0], tally)
        life = read_life(meta[0], tally[0], purged)
        if life.identity != self._cluster and not self._adopting:
            raise StoreCopied(
                f"{self.api.address.shown} was written by another cluster: this is a restored snapshot or a copy,"
                " and with its original in use both would run everything. To use this one as the store from now"
                " on, make sure that the other is no longer used, then run `cronce store adopt URL`"
            )
        if self._life is not None and self._life.begun != life.begun:
            self._remembered = {}  # after a loss the same revision may stand for something else
        self._life = life
        return life, found

    def _check(self, meta: Kv, tally: Sequence[Kv]) -> None:
        if schema_of(meta) > ETCD_SCHEMA:
            raise StoreNewer(f"{self.api.address.shown} was written by a newer cronce; upgrade this one")
        if not tally:
            raise StoreCorrupt(
                f"{self.api.address.shown} has lost the key {(self._prefix + TALLY).decode()}; restore it, or"
                f" delete all keys below {self._prefix.decode()} and start again"
            )

    # --- lives ------------------------------------------------------------------------------------------------------

    def _begin(self, deadline: Boot) -> None:
        """The first life, unless another process is faster. Whoever knew one before knows that it was forgotten."""
        now, known = self._sure_now(deadline), self._life
        epoch = first_life(to_us(now), TRAITS)
        if known is not None:
            epoch = Epoch(max(epoch.birth, known.epoch.birth + 1), origin=Origin.FOUND)
        self._transact([is_at(self._prefix + META_KEY, 0)], self._life_put(epoch, now), [], deadline)

    def _begin_next(self, life: Life, seen: tuple[int, int], deadline: Boot) -> Epoch | None:
        """The life after a loss; None if another process is faster."""
        epoch = next_life(to_us(self._sure_now(deadline)), seen, life.epoch, life.last_write)
        same = [is_at(self._prefix + META_KEY, life.begun), is_at(self._prefix + TALLY, life.written)]
        answer = self._transact(same, self._life_put(epoch, life.last_write), [], deadline)
        return epoch if answer.succeeded else None

    def _adopted(self, life: Life, deadline: Boot) -> bool:
        """A copy made key by key has revisions of its own: no number of its cells may be above the tally it had."""
        return self._begin_next(life, (life.epoch.birth, life.written * NUMBERS_PER_REVISION), deadline) is not None

    def _life_put(self, epoch: Epoch, last_write: Instant) -> Sequence[Json]:
        meta, tally = meta_value(epoch, self._cluster), tally_value(0, last_write)
        return [put(self._prefix + META_KEY, meta), put(self._prefix + TALLY, tally)]

    # --- asking -----------------------------------------------------------------------------------------------------

    def _cell(self, key: str) -> bytes:
        return self._prefix + cell_key(key)

    def _transact(
        self, compare: Sequence[Json], then: Sequence[Json], other: Sequence[Json], deadline: Boot
    ) -> EtcdAnswer:
        return self._ask("/v3/kv/txn", txn(compare, then, other), deadline)

    def _ask(self, path: str, body: Json, deadline: Boot) -> EtcdAnswer:
        answer = self.api.ask(path, body, deadline)
        self._cluster = answer.cluster
        return answer

    def _sure_now(self, deadline: Boot) -> Instant:
        """The time to write by."""
        while not self.api.clock.is_sure:
            self._transact([], [], [], deadline)
        return self.api.clock.now()


def _bytes_of(write: Write) -> int:
    """What a write takes of a transaction; a short one takes its share of the compares."""
    return max(len(write.value.encode(errors="replace")) + 4 * len(write.key), BYTES // WRITES_PER_REQUEST)


# --- URLs, beginning and adopting -----------------------------------------------------------------------------------


def open_store(url: str) -> EtcdStore:
    return EtcdStore(read_url(url))


def init(url: str) -> Epoch:
    """Begin a store on purpose; one that is there already stays as it is."""
    return life_of(open_store(url))


def adopt(url: str) -> Epoch:
    """Accept a restored snapshot or a copy as the store from now on; the life that begins with it."""
    return life_of(EtcdStore(read_url(url), adopt=True))
