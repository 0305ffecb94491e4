"""The same application behind web servers. It answers every request with its process number."""

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from tests.runtime.scheduling.life.app import cron

Reply = Callable[[str, list[tuple[str, str]]], object]

if os.environ.get("LIFE_WHEN") == "import":
    cron.start(grace="10s")


def wsgi(_environ: dict[str, Any], start_response: Reply) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]


@asynccontextmanager
async def lifespan() -> AsyncIterator[None]:
    """What frameworks call a lifespan: from before the first request to after the last."""
    scheduler = cron.start(grace="10s")
    yield
    scheduler.stop()


async def asgi(scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[dict[str, Any]], Any]) -> None:
    if scope["type"] == "lifespan":
        await receive()
        async with lifespan():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(os.getpid()).encode()})
