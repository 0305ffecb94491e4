"""The workload that stores are measured by, at their seam: writes as the ledger sends them.

*Single* is a run alone (overlap "allow"), *group* a run and its job's turn that land together. One by one, slots follow
each other in one job, so that its turn is there and free, as in life. The slots of a batch are of a job each: a group
takes a turn that nobody took before, and a bare insert of the same cells is the same work.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final, Protocol

from bench.harness import CPU, AtLeast, AtMost, Benchmark, Sides, Slice, Within
from cronce.model import ABSENT, FREE, Cell, Fence, Instant, Mark, Slot, Verdict, Write, to_us, turn_cell
from cronce.protocol.record import Outcome, Record, State, Turn, encode, encode_turn
from cronce.stores.base import Scan, Store

OPS: Final = 20
BATCH: Final = 1000
START: Final = datetime(2020, 1, 1, tzinfo=UTC)
LEASE: Final = timedelta(minutes=5)
LONG: Final = timedelta(days=36500)


class Bare(Protocol):
    """The least that the same server needs for the same rows; a store's benchmark says exactly what that is."""

    def pair(self, claimed: Cell, finished: Cell) -> None:
        """Claim and finish of one slot: make a row, then change it, each on disk before it is answered."""
        ...

    def prepare(self, cells: Sequence[Cell]) -> None:
        """Cells as parameters of the driver; not timed."""
        ...

    def batch(self) -> None:
        """Make all of them, in one call."""
        ...


def record(turn: str = "") -> Record:
    return Record(
        State.RUNNING, 1, "0123456789abcdef", "web-7:4711:1a2b3c", LEASE, turn=turn, started=START, attempts=3
    )


def closed(claimed: Record) -> Record:
    return claimed._replace(state=State.CLOSED, turn="", finished=START, outcome=Outcome.SUCCEEDED)


class Workload:
    """Slots that nobody claimed yet, one process, one store."""

    def __init__(self, store: Store, *, grouped: bool) -> None:
        self.store = store
        self.grouped = grouped
        self.seen = store.load([]).epoch.seen
        self.numbers = count()
        self.writes: list[Write] = []

    # --- one by one ---

    def one_by_one(self) -> None:
        for _ in range(OPS):
            slot = Slot("billing", START + next(self.numbers) * timedelta(seconds=1))
            won = self.store.swap(self.claim(slot), self.seen).verdicts
            self.store.swap(self.finish(won), self.seen)

    def claim(self, slot: Slot) -> list[Write]:
        turn = turn_cell(slot.job, 0) if self.grouped else ""
        run = Write(
            slot.cell, ABSENT, encode(record(turn)), Mark.OPEN, slot.at, grant=True, ttl=LEASE, not_before=slot.at,
            not_after=START + LONG, group=to_us(slot.at) if turn else None,
        )  # fmt: skip
        return [run, Write(turn, FREE, _turn(slot.cell), Mark.OPEN, ttl=LEASE, group=run.group)] if turn else [run]

    def finish(self, won: Sequence[Verdict]) -> list[Write]:
        """What was won just now, closed; its turn, free again."""
        (refused, run), *turns = won
        assert refused is None, f"{run.key} was not won: {refused}"
        group = run.version if turns else None
        close = Write(run.key, run.version, encode(closed(record())), Mark.CLOSED, run.at, group=group)
        return [close, *(Write(turn.key, turn.version, _turn(""), Mark.FREE, group=group) for _, turn in turns)]

    # --- a batch ---

    def prepare(self) -> None:
        """The claims of the next batch, each of a job of its own."""
        slots = (Slot(f"billing-{number}", START + number * timedelta(seconds=1)) for number in self.numbers)
        self.writes = [write for _, slot in zip(range(BATCH), slots, strict=False) for write in self.claim(slot)]

    def prepare_to_lose(self) -> None:
        self.prepare()
        self.win()

    def win(self) -> None:
        verdicts = self.store.swap(self.writes, self.seen).verdicts
        assert all(verdict.refused is None for verdict in verdicts)

    def lose(self) -> None:
        verdicts = self.store.swap(self.writes, self.seen).verdicts
        assert not any(verdict.refused is None for verdict in verdicts)


def _turn(run: str) -> str:
    return encode_turn(Turn(run))


def cells(writes: Sequence[Write], numbers: Iterator[int]) -> list[Cell]:
    """What writes leave behind on a shelf where nothing was, for a bare side to make by hand."""
    return [
        Cell(write.key, number, write.value, write.at, write.mark, Fence(to_us(START), number), START + LEASE)
        for write, number in zip(writes, numbers, strict=False)
    ]


class BareWork:
    """The same slots, for a bare side. Its pair is of the run alone, also where ours is a run and its turn."""

    def __init__(self, bare: Bare, workload: Workload) -> None:
        self.bare = bare
        self.workload = workload
        self.numbers = count(1)
        self.slots = count()

    def one_by_one(self) -> None:
        for _ in range(OPS):
            slot = Slot("billing", START + next(self.slots) * timedelta(seconds=1))
            (claimed, *_) = cells(self.workload.claim(slot), self.numbers)
            finish = encode(closed(record()))
            self.bare.pair(claimed, claimed._replace(version=next(self.numbers), value=finish, mark=Mark.CLOSED))

    def prepare(self) -> None:
        self.workload.prepare()
        self.bare.prepare(cells(self.workload.writes, self.numbers))


Opened = Callable[[], AbstractContextManager[tuple[Store, Bare]]]
"""A store and its bare counterpart, each on a shelf of its own, on the same server."""


def against_bare(opened: Opened, *, grouped: bool) -> Callable[[], AbstractContextManager[Sides]]:
    """Claim and finish, one slot after the other."""

    @contextmanager
    def sides() -> Iterator[Sides]:
        with opened() as (store, bare):
            work = Workload(store, grouped=grouped)
            yield Sides(Slice(work.one_by_one, OPS), Slice(BareWork(bare, work).one_by_one, OPS))

    return sides


def batch_against_bare(opened: Opened, *, grouped: bool) -> Callable[[], AbstractContextManager[Sides]]:
    @contextmanager
    def sides() -> Iterator[Sides]:
        with opened() as (store, bare):
            ours, theirs = Workload(store, grouped=grouped), BareWork(bare, Workload(store, grouped=grouped))
            yield Sides(Slice(ours.win, BATCH, before=ours.prepare), Slice(bare.batch, BATCH, before=theirs.prepare))

    return sides


def losing_against_winning(opened: Opened, *, grouped: bool) -> Callable[[], AbstractContextManager[Sides]]:
    """All of a batch is taken already, against taking it. Its two sides are both ours."""

    @contextmanager
    def sides() -> Iterator[Sides]:
        with opened() as (store, _bare):
            work = Workload(store, grouped=grouped)
            yield Sides(
                Slice(work.lose, BATCH, before=work.prepare_to_lose), Slice(work.win, BATCH, before=work.prepare)
            )

    return sides


def benchmarks(
    opened: Opened,
    *,
    pair: tuple[float, float],
    batch: tuple[float, float],
    losing: tuple[float, float],
    cpu: tuple[float, float],
    bare_pair: str,
    bare_batch: str,
) -> list[Benchmark]:
    """The eight figures that a store is held to; each limit is a pair, for single cells and for groups."""
    found = []
    for place, kind in enumerate(("single", "group")):
        grouped = kind == "group"
        batches = batch_against_bare(opened, grouped=grouped)
        winning = "winning the same batch"
        found += [
            Benchmark(kind, against_bare(opened, grouped=grouped), AtLeast(pair[place]), bare_pair),
            Benchmark(f"batch-{kind}", batches, AtLeast(batch[place]), bare_batch),
            Benchmark(f"lose-{kind}", losing_against_winning(opened, grouped=grouped), AtLeast(losing[place]), winning),
            Benchmark(f"cpu-{kind}", batches, AtMost(cpu[place]), f"client CPU of {bare_batch}", CPU),
        ]
    return found


# --- a million runs -------------------------------------------------------------------------------------------------

RUNS: Final = 1_000_000
JOBS: Final = 1000


def scans(filled: Callable[[], Store], lapsed: Instant) -> Iterator[Benchmark]:
    """A page of each kind that people ask for, out of so many runs; `lapsed`: those whose lease was over by then."""
    wanted = {
        "newest": Scan("run/", by="at", limit=50, newest_first=True),
        "of-a-job": Scan("run/job-500/", limit=50, newest_first=True),
        "lapsed": Scan("run/", by="until", mark=Mark.OPEN, upto=lapsed, limit=200),
        "attention": Scan("run/", by="at", mark=Mark.ATTENTION, limit=50, newest_first=True),
    }
    for name, scan in wanted.items():
        yield Benchmark(
            f"scan-{name}", scanning(filled, scan), Within(0.005), f"a page out of {RUNS:,} runs of {JOBS:,} jobs"
        )


def scanning(filled: Callable[[], Store], scan: Scan) -> Callable[[], AbstractContextManager[Sides]]:
    @contextmanager
    def sides() -> Iterator[Sides]:
        store = filled()
        yield Sides(Slice(lambda: store.scan(scan)))

    return sides
