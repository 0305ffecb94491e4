"""A FastAPI app that starts a scheduler in its lifespan: once in each worker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from fastapi import FastAPI

from cronce import Cronce
from cronce.integrations.apscheduler import protect
from tests.faults.neighbours.apps import GUARDED, PERIOD
from tests.faults.neighbours.book import note


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    scheduler = AsyncIOScheduler(timezone="UTC")
    if GUARDED:
        protect(scheduler, Cronce())
    scheduler.add_job(note, "cron", second=f"*/{PERIOD}", id="report")
    scheduler.start()
    note("up")
    yield
    scheduler.shutdown()


app = FastAPI(lifespan=lifespan)
