"""arq: a cron job, unique by default, in a worker on each of the hosts."""

import asyncio
from typing import Any

from arq import cron
from arq.connections import RedisSettings
from arq.worker import run_worker

from bench.peers.ledger import order, run, up


async def tick(ctx: dict[Any, Any]) -> None:  # noqa: ARG001  arq gives it
    await asyncio.to_thread(run)


async def ready(_context: Any) -> None:
    up()


class Settings:
    redis_settings = RedisSettings.from_dsn(order().url)
    cron_jobs = (cron(tick, second=set(range(0, 60, order().period)), microsecond=0),)
    on_startup = ready


if __name__ == "__main__":
    asyncio.set_event_loop(asyncio.new_event_loop())
    run_worker(Settings)  # type: ignore[arg-type,unused-ignore]
