"""procrastinate: a periodic task, and the documentation's recipe for jobs whose worker died, with a heartbeat of a
second and a worker that counts as dead after a lease (defaults: 10 s and 30 s)."""

import sys
from typing import Any

import procrastinate

from bench.peers.ledger import LEASE, order, run, up

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=order().url))


@app.periodic(cron=f"* * * * * */{order().period}")
@app.task(name="tick")
def tick(timestamp: int) -> None:
    run(timestamp)


@app.periodic(cron="* * * * * */2")
@app.task(name="retry_stalled", queueing_lock="retry_stalled", pass_context=True)
async def retry_stalled(_context: Any, timestamp: int) -> None:  # noqa: ARG001  procrastinate gives it
    for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=LEASE):
        await app.job_manager.retry_job(job)


if __name__ == "__main__":
    if "setup" in sys.argv:
        with app.open():
            app.schema_manager.apply_schema()
    else:
        up()
        app.run_worker(concurrency=4, update_heartbeat_interval=1, stalled_worker_timeout=LEASE, name=order().host)
