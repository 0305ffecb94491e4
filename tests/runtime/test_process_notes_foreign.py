"""A guest leaves a sign that ends by itself, and says no more than there is room for."""

from contextlib import closing
from datetime import UTC, datetime

from cronce import Cronce
from cronce.model import guest_cell
from cronce.protocol.notices import ForeignJob, ForeignScheduler, decode_guest
from cronce.runtime.process_notes import MAX_JOBS_TOLD, SIGN_TTL, announce_scheduler
from cronce.stores.memory import MemoryStore

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)


def test_a_guest_says_what_it_fires_next_and_is_forgotten_in_a_minute() -> None:
    store = MemoryStore(lambda: NOON)
    jobs = [ForeignJob(f"job-{number}", "every 5m", NOON) for number in range(MAX_JOBS_TOLD + 1)]
    with closing(Cronce(store=store)) as cron:
        node = cron.at_work().node
        for _ in range(2):
            node.do(announce_scheduler(node.ledger, "APScheduler", jobs))
        (cell,) = store.load([guest_cell(node.holder)]).cells
    assert cell.until == NOON + SIGN_TTL
    assert decode_guest(cell.value, cell.key) == ForeignScheduler(
        node.holder, "APScheduler", tuple(jobs[:MAX_JOBS_TOLD])
    )
