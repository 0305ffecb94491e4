"""cronce's own scheduler on each of the hosts: every slot is wanted, also late ones and those whose process died."""

from bench.peers import ledger
from bench.peers.ledger import LEASE, order, up
from cronce import Cronce, Run

cron = Cronce(order().url)


@cron.job(every=f"{order().period}s", on_lost="rerun", missed="all", overlap="allow", lease=f"{LEASE}s")
def tick(run: Run) -> None:
    ledger.run(run.at.timestamp(), run.check)


if __name__ == "__main__":
    up()
    cron.run()
