"""arq and TaskIQ need no guard of their own: `@cron.idempotent` does, with the id that they know a job by."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from arq import Retry, Worker, create_pool
from arq.connections import RedisSettings
from arq.worker import func
from taskiq import InMemoryBroker

from cronce import Cronce, InProgress, Run
from cronce.stores.memory import MemoryStore
from tests.servers.valkey import Valkey

SLOT = datetime(2026, 3, 29, 1, tzinfo=UTC)


def test_an_arq_job_that_is_queued_again_after_it_was_forgotten_runs_once(valkey: Valkey) -> None:
    bodies: list[str] = []
    settings = RedisSettings(port=valkey.port)
    cron = Cronce(store=MemoryStore())

    @cron.idempotent("report", key=lambda ctx, _customer: ctx["job_id"], unsure="retry")
    async def make_report(ctx: dict[Any, Any], customer: str) -> str:
        bodies.append(customer)
        if len(bodies) == 1:
            raise Retry(defer=0)
        return f"a report for {customer}"

    async def report(ctx: dict[Any, Any], customer: str) -> str:
        try:
            return await make_report(ctx, customer)
        except InProgress:
            raise Retry(defer=5) from None

    async def main() -> list[Any]:
        pool = await create_pool(settings, default_queue_name="recipes")

        @cron.job(name="nightly", retries=1)
        async def nightly(run: Run) -> None:
            async def queue() -> None:
                await pool.enqueue_job("report", "ada", _job_id=run.key_of("report", per="slot"))

            await run.once("queue-report", queue, unsure="retry", per="slot")

        results = []
        for _ in range(2):
            await nightly.at(SLOT)()
            await pool.enqueue_job("report", "ada", _job_id="nightly@2026-03-29T01:00:00Z/report")
            worker = Worker(
                [func(report, name="report")],
                redis_pool=pool,
                queue_name="recipes",
                burst=True,
                keep_result=0,  # arq forgets a job that is done, and would run the same id again
                poll_delay=0.02,
                handle_signals=False,
            )
            await worker.main()
            results.append((worker.jobs_complete, worker.jobs_retried, worker.jobs_failed))
        await pool.aclose(close_connection_pool=True)
        return results

    with cron:
        assert asyncio.run(main()) == [(1, 1, 0), (1, 0, 0)]
    assert bodies == ["ada", "ada"]  # it was tried twice, and the second time it was done


def test_a_taskiq_task_that_is_sent_three_times_runs_once() -> None:
    bodies: list[str] = []
    broker = InMemoryBroker()
    with Cronce(store=MemoryStore()) as cron:

        async def main() -> list[Any]:
            begun, go_on = asyncio.Event(), asyncio.Event()

            @broker.task
            @cron.idempotent("report", key=lambda customer, slot: f"{customer}:{slot}", unsure="retry")
            async def report(customer: str, slot: str) -> str:
                bodies.append(customer)
                begun.set()
                await go_on.wait()
                return f"a report for {customer}"

            await broker.startup()
            first = await report.kiq("ada", "2026-03-29T01:00:00Z")
            await begun.wait()
            beside = await (await report.kiq("ada", "2026-03-29T01:00:00Z")).wait_result()
            go_on.set()
            done = await first.wait_result()
            late = await (await report.kiq("ada", "2026-03-29T01:00:00Z")).wait_result()
            await broker.shutdown()
            return [done, beside, late]

        done, beside, late = asyncio.run(main())
    assert bodies == ["ada"]
    assert done.return_value == late.return_value == "a report for ada"
    assert isinstance(beside.error, InProgress)
