"""APScheduler with the guides' table `job_runs`, whose primary key is the job and its slot: who inserts the row runs.
The slot is the time at which the job fired, cut to the period, as the guides cut it to the hour."""

import sys

import psycopg2

from bench.peers.adapters.by_apscheduler import serve
from bench.peers.ledger import current, order, run

TABLE = """
CREATE TABLE IF NOT EXISTS job_runs (job_name text, run_slot bigint, status text DEFAULT 'running',
                                     started_at timestamptz DEFAULT now(), PRIMARY KEY (job_name, run_slot))
"""


def tick() -> None:
    slot = current()
    try:
        execute("INSERT INTO job_runs (job_name, run_slot) VALUES ('tick', %s)", slot)
    except psycopg2.IntegrityError:
        return
    run(slot)
    execute("UPDATE job_runs SET status = 'completed' WHERE job_name = 'tick' AND run_slot = %s", slot)


def execute(statement: str, *values: object) -> None:
    connection = psycopg2.connect(order().url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(statement, values)
    finally:
        connection.close()


if __name__ == "__main__":
    if "setup" in sys.argv:
        execute(TABLE)
    else:
        serve(tick)
