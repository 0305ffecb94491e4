"""APScheduler with the one line of cronce, `protect(scheduler, cron)`. Every slot is wanted, so late ones are not
coalesced; and runs that wait for the store count as instances, so ten are allowed."""

from bench.peers import ledger
from bench.peers.adapters.by_apscheduler import DEFAULTS, serve
from bench.peers.ledger import LEASE, order
from cronce import Cronce, Run
from cronce.integrations.apscheduler import protect


def tick(run: Run | None = None) -> None:
    assert run is not None
    ledger.run(run.at.timestamp(), run.check)


if __name__ == "__main__":
    cron = Cronce(order().url)
    serve(
        tick,
        lambda scheduler: protect(scheduler, cron, on_lost="rerun", lease=f"{LEASE}s"),
        job_defaults={**DEFAULTS, "coalesce": False, "max_instances": 10},
    )
