"""APScheduler with a PostgreSQL advisory lock around the job: who does not get it skips the slot."""

import psycopg2

from bench.peers.adapters.by_apscheduler import serve
from bench.peers.ledger import order, run

JOB = 1001


def tick() -> None:
    connection = psycopg2.connect(order().url)
    try:
        cursor = connection.cursor()
        cursor.execute("SELECT pg_try_advisory_lock(%s)", (JOB,))
        if cursor.fetchone() == (True,):
            try:
                run()
            finally:
                cursor.execute("SELECT pg_advisory_unlock(%s)", (JOB,))
    finally:
        connection.close()


if __name__ == "__main__":
    serve(tick)
