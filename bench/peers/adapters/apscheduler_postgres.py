"""APScheduler with one job store on PostgreSQL for all hosts (`SQLAlchemyJobStore`)."""

import time

from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from sqlalchemy.exc import SQLAlchemyError

from bench.peers import ledger
from bench.peers.adapters.by_apscheduler import serve


def tick() -> None:
    ledger.run()


if __name__ == "__main__":
    from bench.peers.adapters import apscheduler_postgres  # noqa: PLW0406  the job store keeps an importable name

    url = ledger.order().url.replace("postgresql:", "postgresql+psycopg2:")
    while True:
        try:
            serve(apscheduler_postgres.tick, jobstores={"default": SQLAlchemyJobStore(url)})
            break
        except SQLAlchemyError:  # two hosts that start at once both create the table: a supervisor starts it again
            time.sleep(0.5)
