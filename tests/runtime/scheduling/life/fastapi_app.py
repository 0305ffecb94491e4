"""The same application in FastAPI. It answers every request with its process number."""

import os
from functools import partial

from fastapi import FastAPI

from tests.runtime.scheduling.life.app import cron

app = FastAPI(lifespan=partial(cron.lifespan, grace="10s"))


@app.get("/")
async def who() -> int:
    return os.getpid()
