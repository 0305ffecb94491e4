"""Cells in Kubernetes: in Lease objects, which the cluster keeps in etcd. Made for what a cluster needs before it has a
database: locks, leaders, and one run per slot of its CronJobs.

*Replace what was read.* A write is judged here, by the Lease as it was last seen, and replaces that Lease under its
resourceVersion. If another writer was faster the server says so, the Lease is read, and the write is judged again:
refused, or tried once more. A guess by itself neither grants nor refuses. Each failed try means that another writer
won, so this ends; it is no retry of a write without an answer.

*The clock* is read from the replies (`stores.http_api`). There may be several API servers, whose clocks differ by what
NTP leaves. So a lease is dated by them, but a process that finds one lapsed has watched it for its whole length with a
clock of its own (`Traits.one_clock`), as client-go does.

*A Lease that was deleted* held the records of its job. The store's own Lease lists every job that had one: in a new
Lease of such a job, all slots up to its creation count as passed. If the store's own was deleted, the next one makes
the list from the Leases that exist. Each Lease says in which life of the store it was written, so that a process which
knows another life reads the store's Lease before it writes.

*What is not kept.* There is no room for one cell per effect or run, nor for the notes of each pod: those keys read as
absent, and a write of one is refused with the reason.

Beside the store itself: `layout` how cells are kept in Leases, `api` where the API server is, the login, and the
requests.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from typing import Final

from cronce.clock import Clock, SystemClock
from cronce.errors import StoreError, StoreUnusable
from cronce.model import EPOCH, Boot, Cell, Epoch, Instant, Traits, Verdict, Write, to_us
from cronce.stores.base import BOARD, Loaded, Page, Scan, Swapped, groups, life_of, page_of, refused_epoch
from cronce.stores.checks import Check, error, ok, warn
from cronce.stores.http_api import Json
from cronce.stores.kubernetes import layout
from cronce.stores.kubernetes.api import ApiServerAddress, KubernetesApi, is_forbidden, read_url
from cronce.stores.kubernetes.layout import STORE, LeaseCells, LeaseOfCell
from cronce.stores.news import HttpWatch, SocketListener

TRAITS: Final = Traits(
    "kubernetes", survives_failover=False, groups=False, notifies=True, history=False, tally=False, one_clock=False,
    step=timedelta(seconds=1), skew=timedelta(milliseconds=750),
)  # fmt: skip
"""Whether its etcd has several members cannot be seen from here, so nothing is promised. Its clock is known to the
second; the skew of its API servers' clocks and the time of a reply add to that."""

NOT_KEPT: Final = {
    "effect": "effects of a slot (run.once)",
    "once": "effects on things (run.on) or keys (idempotent)",
    "cursor": "cursors (run.cursor)",
    "asked": "runs by hand (trigger, rerun, backfill, a Job made by hand)",
    "stored": "jobs that live in the store",
    "scope": "fences of receivers",
    "machine": "notes of machines",
    "refusals": "notes of machines",
    "duplicates": "counts of prevented duplicates",
}
"""By the first word of a key: what there is no room for."""

LIST_CACHE_SECONDS: Final = 1.0
"""Seconds for which a list of all Leases answers what is read in one block."""

LEASES_REMEMBERED: Final = 1000
"""Leases that a process remembers; when there are more it forgets them all."""


class KubernetesStore:
    """A store in the Leases of a namespace whose names begin with a prefix. `clock` is this machine's."""

    def __init__(self, address: ApiServerAddress, clock: Clock | None = None) -> None:
        """No request is made yet: the first one reads the store's own Lease in any case."""
        self.traits = TRAITS
        self.api: Final = KubernetesApi(address, clock or SystemClock())
        self._prefix = address.prefix
        self._remembered: dict[LeaseOfCell, LeaseCells] = {}
        self._sighted: dict[LeaseOfCell, tuple[str, Instant]] = {}
        self._epoch = Epoch()
        self._block = _ThreadReads()

    def load(self, keys: Sequence[str]) -> Loaded:
        """The store's own Lease is read first: before the switch for all jobs is turned on again, the floors of the
        jobs are raised. For locks and leaders that were written in the known life it is not read."""
        deadline = self.api.deadline()
        homes = {layout.home_of(key) for key in keys if _is_kept(key)}
        shelves: dict[LeaseOfCell, LeaseCells] = {}
        if not homes or not all(home.elects for home in homes):
            shelves = dict(self._all(deadline)) if self._block.inside else {STORE: self._read_store(deadline)}
        for home in sorted(homes - shelves.keys()):
            missing = self._block.inside and not home.elects  # a lock of another program has none of our labels
            shelves[home] = layout.absent(home) if missing else self._read(home, deadline)
        if STORE not in shelves and {shelf.life for shelf in shelves.values()} != {self._epoch.birth}:
            self._read_store(deadline)
        cells = [shelves[layout.home_of(key)].cell(key) if _is_kept(key) else Cell(key) for key in keys]
        return Loaded(self.api.clock.now(), self._epoch, cells)

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        deadline = self.api.deadline()
        _refuse_unkept(self.api.address.shown, writes)
        parts, now = _by_home(writes), self._sure_now(deadline)
        if seen[0] != self._epoch.birth and seen[0] != _epoch(self._read_store(deadline)).birth:
            return Swapped(now, self._epoch, refused_epoch(writes))
        verdicts: dict[int, Verdict] = {}
        for home, places in parts.items():
            part = self._swap(home, [writes[place] for place in places], now, seen[0], deadline)
            verdicts.update(zip(places, part, strict=True))
        return Swapped(now, self._epoch, [verdicts[place] for place in range(len(writes))])

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """A list of all Leases costs what one of them does."""
        self._block.inside = True
        try:
            yield
        finally:
            self._block.inside, self._block.until = False, 0.0

    def scan(self, scan: Scan) -> Page:
        found = self._found(scan.prefix, self.api.deadline())
        cells = [cell for shelf in found for cell in shelf.cells.values()]
        return page_of(cells, scan, self.api.clock.now(), self._epoch)

    def purge(self, cells: Sequence[Cell]) -> int:
        deadline = self.api.deadline()
        versions: dict[LeaseOfCell, dict[str, int]] = {}
        for cell in cells:
            versions.setdefault(layout.home_of(cell.key), {})[cell.key] = cell.version
        return sum(self._purge(home, gone, deadline) for home, gone in versions.items())

    def listen(self) -> SocketListener:
        """The board is in the store's own Lease, which is watched. A process that may not watch it gets no news."""
        deadline = self.api.deadline()
        shelf = self._read_store(deadline)
        try:
            return self.api.listen(self._name(STORE), shelf.revision, deadline, partial(BoardWatch, shelf))
        except StoreUnusable as error:
            self.traits = TRAITS._replace(notifies=not is_forbidden(error))
            raise

    def checks(self) -> Iterator[Check]:
        yield ok("server", f"{self.api.version(self.api.deadline())} at {self.api.address.access.server}")
        try:
            shelves = list(self._listed(self.api.deadline()))
        except StoreError as failure:
            yield error("rights", str(failure), "a Role with get, list, create, update and delete on leases is enough")
            return
        yield ok("rights", f"may list leases in {self.api.address.namespace}: {len(shelves)} of this store")
        yield _deleted(shelves)
        yield _room(shelves)

    def close(self) -> None:
        self.api.close()

    # --- swapping ---------------------------------------------------------------------------------------------------

    def _swap(
        self, home: LeaseOfCell, writes: Sequence[Write], now: Instant, birth: int, deadline: Boot
    ) -> Sequence[Verdict]:
        """A Lease that was written in the writer's life has lost nothing. Before one is made, or one of another life is
        written, the store's own Lease is read: both may have been deleted, and made again by another process."""
        guess = self._remembered.get(home)
        guess = guess if guess and guess.life == birth else None
        shelf = guess or self._read_to_write(home, birth, deadline)
        while self._epoch.birth == birth:
            verdicts, changed = layout.judged(shelf, writes, now)
            doubtful = shelf is guess and any(verdict.refused for verdict in verdicts)
            if not (changed or doubtful):
                return verdicts
            if not shelf.there and _epoch(self._read_store(deadline)).birth == birth:
                self._make(home, deadline)
            elif (
                shelf.there and not doubtful and self._replace(layout.changed_by(shelf, changed, birth), now, deadline)
            ):
                return verdicts
            shelf = self._read_to_write(home, birth, deadline)
        return refused_epoch(writes)

    def _make(self, home: LeaseOfCell, deadline: Boot) -> None:
        """A Lease with nothing in it, unless another process is faster."""
        self.api.create(layout.bare(self._name(home), self._prefix, self.api.address.namespace), deadline)

    def _replace(self, shelf: LeaseCells, now: Instant, deadline: Boot) -> LeaseCells | None:
        """The Lease afterwards; None: it had changed since it was read."""
        until = self._forget(shelf.home)
        answer = self.api.replace(layout.lease_of(shelf, self._prefix, now), deadline)
        if answer.status != 200:
            return None
        self._block.until = until
        return self._remember(shelf.home, answer.body)

    def _purge(self, home: LeaseOfCell, versions: Mapping[str, int], deadline: Boot) -> int:
        while True:
            shelf = self._read(home, deadline)
            gone = [key for key, cell in shelf.cells.items() if cell.version == versions.get(key)]
            if not gone or self._leave_out(shelf, gone, deadline):
                return len(gone)

    def _leave_out(self, shelf: LeaseCells, gone: Sequence[str], deadline: Boot) -> bool:
        left = layout.without(shelf, shelf.cells, gone)
        if left.cells or shelf.home == STORE:
            return self._replace(left, self._sure_now(deadline), deadline) is not None
        return self._delete(shelf, deadline)

    def _delete(self, shelf: LeaseCells, deadline: Boot) -> bool:
        self._forget(shelf.home)
        if self.api.delete(shelf.lease, deadline).status != 200:
            return False
        if shelf.home.kind == "job":
            self._strike(shelf.home.name, deadline)
        return True

    # --- jobs whose Lease was deleted -------------------------------------------------------------------------------

    def _enlist(self, job: str, uid: str, deadline: Boot) -> str:
        """Put a job, and the uid of its Lease, on the store's list, unless it is there; the uid that is there now."""
        return self._relist(lambda jobs: {job: uid, **jobs}, deadline)[job]

    def _strike(self, job: str, deadline: Boot) -> None:
        """Take a job off the list: its Lease is deleted on purpose."""
        self._relist(lambda jobs: {name: uid for name, uid in jobs.items() if name != job}, deadline)

    def _relist(self, changed: Callable[[Mapping[str, str]], dict[str, str]], deadline: Boot) -> Mapping[str, str]:
        while True:
            shelf = self._read_store(deadline)
            jobs = changed(shelf.jobs)
            if jobs == shelf.jobs or self._replace(shelf._replace(jobs=jobs), self._sure_now(deadline), deadline):
                return jobs

    def _read_to_write(self, home: LeaseOfCell, birth: int, deadline: Boot) -> LeaseCells:
        """A job's Lease in which nothing is written yet, while the job is on the list with another one: that was
        deleted with its records, and any slot up to now may have run."""
        shelf = self._read(home, deadline)
        if home.kind == "job" and shelf.is_new:
            first = self._enlist(home.name, shelf.uid, deadline) == shelf.uid
            return shelf if first else shelf._replace(passed=shelf.born + TRAITS.step + TRAITS.skew)
        if shelf.there and shelf.life != birth:
            self._read_store(deadline)
        return shelf

    def _jobs_there(self, deadline: Boot) -> dict[str, str]:
        """The jobs that have a Lease; none, if this account may not list them."""
        try:
            return {shelf.home.name: shelf.uid for shelf in self._listed(deadline) if shelf.home.kind == "job"}
        except StoreUnusable as error:
            if is_forbidden(error):
                return {}
            raise

    # --- reading ----------------------------------------------------------------------------------------------------

    def _read_store(self, deadline: Boot) -> LeaseCells:
        """The store's own Lease; it is made if there is none, which starts a life of the store."""
        shelf = self._read(STORE, deadline)
        while shelf.is_new or not shelf.there:
            if not shelf.there:
                self._make(STORE, deadline)
            else:
                listed = shelf._replace(jobs=self._jobs_there(deadline))
                if written := self._replace(listed, self._sure_now(deadline), deadline):
                    shelf = written
                    break
            shelf = self._read(STORE, deadline)
        self._epoch = _epoch(shelf)
        return shelf

    def _read(self, home: LeaseOfCell, deadline: Boot) -> LeaseCells:
        answer = self.api.get(self._name(home), deadline)
        if answer.status != 404:
            return self._remember(home, answer.body)
        self._forget(home)
        return layout.absent(home)

    def _forget(self, home: LeaseOfCell) -> Boot:
        """What is remembered of it may have changed, as may what was listed with it; until when that list was valid."""
        self._remembered.pop(home, None)
        until, self._block.until = self._block.until, 0.0
        return until

    def _remember(self, home: LeaseOfCell, lease: Json) -> LeaseCells:
        if len(self._sighted) > LEASES_REMEMBERED:
            self._remembered, self._sighted = {}, {}
        revision = lease["metadata"]["resourceVersion"]
        sighted = self._sighted.get(home)
        if sighted is None or sighted[0] != revision:
            sighted = self._sighted[home] = (revision, self.api.clock.now())
        shelf = layout.read_shelf(home, lease, sighted[1])
        if not shelf.is_new:
            self._remembered[home] = shelf
            if self._block.inside:
                self._block.shelves[home] = shelf
        return shelf

    def _found(self, prefix: str, deadline: Boot) -> Sequence[LeaseCells]:
        """The Leases in which there may be cells with this prefix. They also show whether the store is still in the
        known life: the Lease of a job names the life of the store that it was written in."""
        kind, _, rest = prefix.partition("/")
        if kind in NOT_KEPT and self._epoch.birth:
            return ()
        if kind in NOT_KEPT:
            self._read_store(deadline)
            return ()
        if self._block.inside or kind != "run" or rest.count("/") != 1 or not rest.endswith("/"):
            return list(self._all(deadline).values())
        shelf = self._read(LeaseOfCell("job", rest[:-1]), deadline)
        if shelf.life != self._epoch.birth:
            self._read_store(deadline)
        return [shelf]

    def _all(self, deadline: Boot) -> Mapping[LeaseOfCell, LeaseCells]:
        """Every Lease, with the store's own, as they were at one moment, and what this thread has written since."""
        block, began = self._block, self.api.boot()
        if began < block.until:
            return block.shelves
        found = {shelf.home: shelf for shelf in self._listed(deadline)}
        if STORE in found:
            self._epoch = _epoch(found[STORE])
        else:
            found[STORE] = self._read_store(deadline)
        if block.inside:
            block.shelves, block.until = found, began + LIST_CACHE_SECONDS
        return found

    def _listed(self, deadline: Boot) -> Iterator[LeaseCells]:
        for answer in self.api.list(f"{layout.STORE_LABEL}={self._prefix}", deadline):
            for lease in answer.body.get("items") or ():
                home = layout.home_in(lease)
                if home is not None and lease["metadata"]["name"] == self._name(home):  # else it is a copy of one
                    yield self._remember(home, lease)

    # --- asking -----------------------------------------------------------------------------------------------------

    def _name(self, home: LeaseOfCell) -> str:
        return layout.lease_name(self._prefix, home)

    def _sure_now(self, deadline: Boot) -> Instant:
        """The time to date a write by."""
        while not self.api.clock.is_sure:
            self.api.get(self._name(STORE), deadline)
        return self.api.clock.now()


class BoardWatch(HttpWatch):
    """What the API server tells of the store's own Lease after it was `read`."""

    def __init__(self, read: LeaseCells, connection: HTTPConnection, response: HTTPResponse, shown: str) -> None:
        super().__init__(connection, response, shown)
        self._board = _board(read)

    def is_news(self, message: Json) -> bool:
        """Other writes to the Lease leave the board as it was, and a purge only takes cells away."""
        if message["type"] not in ("ADDED", "MODIFIED"):
            raise self.over(str(message["object"].get("message") or "the store's Lease was deleted"))
        before, self._board = self._board, _board(layout.read_shelf(STORE, message["object"], EPOCH))
        return not self._board <= before


def _board(shelf: LeaseCells) -> set[tuple[str, int]]:
    return {(key, cell.version) for key, cell in shelf.cells.items() if key.startswith(BOARD)}


class _ThreadReads(threading.local):
    """Of one thread: whether it reads much at once, what it has read, and until when that may be used."""

    inside = False
    until: Boot = 0.0

    def __init__(self) -> None:
        self.shelves: dict[LeaseOfCell, LeaseCells] = {}


def _epoch(shelf: LeaseCells) -> Epoch:
    return Epoch(to_us(shelf.born))


def _is_kept(key: str) -> bool:
    return key.partition("/")[0] not in NOT_KEPT


def _refuse_unkept(shown: str, writes: Sequence[Write]) -> None:
    for write in writes:
        kind, _, name = write.key.partition("/")
        what = NOT_KEPT.get(kind) or (NOT_KEPT["asked"] if kind == "run" and "#" in name else None)
        if what is not None:
            raise StoreUnusable(
                f"{shown}: a Lease has room for a lock, a leader and the last slots of a job, and for no {what}; name"
                " a database for those, such as postgresql://"
            )


def _by_home(writes: Sequence[Write]) -> dict[LeaseOfCell, list[int]]:
    """The indexes of the writes of each Lease. The writes of a group must be in one."""
    for places in groups(writes):
        if len({layout.home_of(writes[place].key) for place in places}) > 1:
            raise StoreUnusable(f"{writes[places[0]].key} and the cells to write with it are not in one Lease")
    found: dict[LeaseOfCell, list[int]] = {}
    for place, write in enumerate(writes):
        found.setdefault(layout.home_of(write.key), []).append(place)
    return found


# --- what the doctor asks -------------------------------------------------------------------------------------------

ANNOTATION_BYTES: Final = 256 << 10
"""Bytes of annotations that an API server takes of one object."""


def _deleted(shelves: Sequence[LeaseCells]) -> Check:
    """A job that is on the store's list and has no Lease: that was deleted."""
    there = {shelf.home.name for shelf in shelves if shelf.home.kind == "job"}
    gone = sorted(job for shelf in shelves if shelf.home == STORE for job in shelf.jobs if job not in there)
    if not gone:
        return ok("deleted", "every job has its Lease")
    says = f"the Leases of {', '.join(gone[:5])} were deleted: slots up to the time they are created again count as run"
    return warn("deleted", says, "delete no Lease of a job in use; `cronce store purge` removes what is old")


def _room(shelves: Sequence[LeaseCells]) -> Check:
    sizes = {shelf.lease["metadata"]["name"]: len((layout.annotation(shelf.lease) or "").encode()) for shelf in shelves}
    name = max(sizes, key=lambda one: sizes[one], default="")
    says = f"the fullest Lease, {name}, has {sizes.get(name, 0) / 1024:.0f} KiB of {ANNOTATION_BYTES / 1024:.0f}"
    if sizes.get(name, 0) > 0.8 * ANNOTATION_BYTES:
        return warn("room", says, "check its runs that are still open: `cronce runs`")
    return ok("room", says)


# --- URLs and beginning ---------------------------------------------------------------------------------------------


def open_store(url: str) -> KubernetesStore:
    return KubernetesStore(read_url(url))


def init(url: str) -> Epoch:
    """Initialise a store; one that exists stays as it is."""
    return life_of(open_store(url))
