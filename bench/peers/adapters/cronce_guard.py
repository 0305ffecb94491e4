"""cronce's guard behind a trigger that is as simple as cron: each host calls the guarded function at each slot, in a
thread. A call that finds no store is made again, as its documentation says."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from bench.peers import ledger
from bench.peers.adapters.wait import until_stopped
from bench.peers.ledger import LEASE, current, order, up
from cronce import Cronce, Run
from cronce.errors import LeaseLost, StoreError

AGAIN = 0.5
"""Seconds."""

cron = Cronce(order().url)


@cron.job(every=f"{order().period}s", on_lost="rerun", missed="all", overlap="allow", lease=f"{LEASE}s")
def tick(run: Run) -> None:
    ledger.run(run.at.timestamp(), run.check)


def fire(at: datetime) -> None:
    call: Callable[[], object] = tick
    while True:
        try:
            call()
        except StoreError:
            time.sleep(AGAIN)
            call = tick.at(at)  # by now, a call without a name could mean a later slot
        except LeaseLost:
            return
        else:
            return


def trigger() -> None:
    while True:
        time.sleep(order().period - time.time() % order().period)
        at = datetime.fromtimestamp(current(), UTC)
        threading.Thread(target=fire, args=(at,), daemon=True).start()


if __name__ == "__main__":
    threading.Thread(target=trigger, daemon=True).start()
    up()
    until_stopped()
