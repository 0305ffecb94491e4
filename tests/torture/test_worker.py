"""A process of a torture writes down what happened, whatever the store says: also when a store breaks its promise."""

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from cronce import Cronce, LeaseLost, Run
from cronce.model import Mark, Slot, Write
from cronce.protocol.record import Past, decode, encode
from cronce.stores.base import Store, Swapped
from cronce.stores.memory import MemoryStore
from cronce.testing.ledger_file import LedgerLine, LedgerTail
from cronce.torture.verdict import TortureRecord, TortureVerdict, judge
from cronce.torture.worker import EndAnswers, SkewedClock, TortureTask, TortureWorker, WorkerOrder, read_order

TASK = TortureTask("job", "rerun", "allow", 30.0)
ORDER = WorkerOrder("w1", "memory://", "", (TASK,), 5, 0.4, 7)


class Lenient(MemoryStore):
    """A store that lets a late write win: it puts what is there in the place of what the writer has seen."""

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        cells = self.load([write.key for write in writes]).cells
        late = [write.mark is Mark.CLOSED for write in writes]
        versions = [
            cell.version if is_late else write.seen for cell, write, is_late in zip(cells, writes, late, strict=True)
        ]
        blind = [write._replace(seen=version) for write, version in zip(writes, versions, strict=True)]
        return super().swap(blind, seen)


class Overtaken(TortureWorker):
    """While its body runs, another takes over: the run has a higher fence before it ends."""

    def __init__(self, folder: Path, store: Store) -> None:
        super().__init__(ORDER._replace(folder=str(folder)))
        self.store = store
        self.cron = Cronce(store=store, clock=self.clock)

    def body(self, run: Run) -> None:
        super().body(run)
        loaded = self.store.load([run.slot.cell])
        (cell,) = loaded.cells
        record = decode(cell.value)
        past = Past(cell.fence, record.holder, record.started, "lapsed", loaded.now)
        another = record._replace(grant=2, nonce="another", holder="another", past=(past,))
        write = Write(cell.key, cell.version, encode(another), Mark.OPEN, grant=True, ttl=timedelta(seconds=30))
        (verdict,) = self.store.swap([write], loaded.epoch.seen).verdicts
        assert verdict.refused is None

    def lines(self) -> list[LedgerLine]:
        return LedgerTail(Path(self.order.folder) / "ledger").new()

    def verdict(self, slot: Slot) -> TortureVerdict:
        (cell,) = self.store.load([slot.cell]).cells
        record = decode(cell.value)
        seen = TortureRecord(record.outcome, str(cell.fence), frozenset(str(past.fence) for past in record.past))
        return judge({slot.key: slot.at}, self.lines(), {slot.key: seen}, (), "rerun", exclusive=False)


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    logger = logging.getLogger("cronce")
    level, handlers = logger.level, [*logger.handlers]
    logger.setLevel(logging.DEBUG)
    yield logger
    logger.setLevel(level)
    logger.handlers = handlers


def called(worker: Overtaken) -> Slot:
    slot = Slot("job", worker.store.load([]).now.replace(microsecond=0))
    worker.guarded(TASK).at(slot)()
    return slot


def test_an_end_under_an_old_fence_is_written_down_as_stale(tmp_path: Path, log: logging.Logger) -> None:
    worker = Overtaken(tmp_path, MemoryStore())
    log.addHandler(EndAnswers(worker.heard))
    with pytest.raises(LeaseLost):
        called(worker)
    assert [line.what for line in worker.lines()][-2:] == ["done", "stale"]


def test_a_store_that_accepts_it_is_found_out(tmp_path: Path, log: logging.Logger) -> None:
    worker = Overtaken(tmp_path, Lenient())
    log.addHandler(EndAnswers(worker.heard))
    slot = called(worker)
    assert [line.what for line in worker.lines()][-2:] == ["done", "accepted"]
    verdict = worker.verdict(slot)
    assert (verdict.stale_accepted, verdict.passed(forgot=False)) == (1, False)


def test_an_order_is_read_as_it_was_written() -> None:
    assert read_order(ORDER.written()) == ORDER


def test_a_wrong_clock_is_wrong_about_the_time_of_day_only() -> None:
    right, wrong = SkewedClock(0), SkewedClock(-5)
    walls = [right.wall(), wrong.wall() + timedelta(seconds=5), right.wall()]
    boots = [right.boot(), wrong.boot(), right.boot()]
    assert (walls, boots) == (sorted(walls), sorted(boots))


def test_a_process_that_comes_back_goes_on_after_its_last_answer(tmp_path: Path) -> None:
    first = datetime.fromisoformat("2026-03-29T08:17:00Z")
    slots = [Slot("job", first + timedelta(seconds=number)) for number in range(5)]
    worker = TortureWorker(ORDER._replace(folder=str(tmp_path)))
    assert worker._begin_at(slots) == 0
    worker.say("refused", slots[0].key)
    worker.say("stopped", slots[2].key)
    assert TortureWorker(worker.order)._begin_at(slots) == 3
    assert TortureWorker(worker.order._replace(name="w2"))._begin_at(slots) == 0
