"""What a torture has in its store."""

from datetime import UTC, datetime, timedelta

from cronce import Cronce, Run
from cronce.clock import SystemClock
from cronce.stores.memory import MemoryStore
from cronce.torture.store_contents import StoreContents
from cronce.torture.worker import SLOT_EVERY, TortureTask


def test_a_late_first_call_is_no_reason_to_miss_the_slots_before_it() -> None:
    """A job that nobody knows begins with the slot of its first call. On a busy machine that was the third slot, and
    the two before it were counted as missed."""
    store, ran = MemoryStore(), list[datetime]()
    first = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=9)
    shelf = StoreContents(store, SystemClock(), [TortureTask("tick", "skip", "allow", 30.0)], "label")
    shelf.begin(first)
    with Cronce(store=store) as cron:

        @cron.job(every=SLOT_EVERY, start=first, name="tick", overlap="allow", missed="all")
        def tick(run: Run) -> None:
            ran.append(run.at)

        late = [first + 2 * SLOT_EVERY, first, first + SLOT_EVERY]
        for at in late:
            tick.at(at)()
    assert ran == late


def test_a_job_that_is_known_stays_as_it_is() -> None:
    store = MemoryStore()
    first = datetime.now(UTC).replace(microsecond=0)
    shelf = StoreContents(store, SystemClock(), [TortureTask("tick", "skip", "allow", 30.0)], "label")
    shelf.begin(first)
    (before,) = store.load(["job/tick"]).cells
    shelf.begin(first + SLOT_EVERY)
    (after,) = store.load(["job/tick"]).cells
    assert after == before
