"""DBOS: a workflow with a schedule. Each host has an executor id of its own, as its documentation asks for; a host that
starts again recovers what it left. DBOS Conductor, a service that recovers elsewhere, is not part of the library."""

import sys
from datetime import datetime
from typing import Any

from dbos import DBOS

from bench.peers.adapters.wait import until_stopped
from bench.peers.ledger import order, run, up

DBOS(
    config={
        "name": "peers",
        "system_database_url": order().url.replace("postgresql:", "postgresql+psycopg:"),
        "executor_id": order().host,
        "application_version": "1",
        "scheduler_polling_interval_sec": 1.0,
        "run_admin_server": False,
    }
)


@DBOS.step()
def body(at: float) -> None:
    run(at)


@DBOS.workflow()
def tick(scheduled: datetime, _context: Any) -> None:
    body(scheduled.timestamp())


if __name__ == "__main__":
    DBOS.launch()
    if "setup" in sys.argv:
        DBOS.apply_schedules(
            [
                {
                    "schedule_name": "tick",
                    "workflow_fn": tick,
                    "schedule": f"*/{order().period} * * * * *",
                    "context": None,
                }
            ]
        )
    else:
        up()
        until_stopped()
    DBOS.destroy()
