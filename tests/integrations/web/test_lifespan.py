"""`lifespan=cron.lifespan`: the scheduler is there from before the first request until after the last."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from cronce import Cronce
from cronce.errors import BadInput, StoreUnavailable
from tests.house.wait import wait_until


@pytest.fixture
def cron() -> Iterator[Cronce]:
    with Cronce("memory:") as cron:
        yield cron


def schedulers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "cronce-scheduler"]


def test_jobs_run_while_the_app_serves_and_no_longer(cron: Cronce) -> None:
    ran = threading.Event()
    cron.job(every="1s", name="tick")(ran.set)
    app = FastAPI(lifespan=cron.lifespan)
    for _ in range(2):  # an app may be started again
        ran.clear()
        with TestClient(app):
            assert ran.wait(60)
            assert schedulers() == ["cronce-scheduler"]
        assert schedulers() == []


def test_it_stands_inside_of_what_the_jobs_need(cron: Cronce) -> None:
    said: list[str] = []

    @cron.job(every="1s")
    def tick() -> None:
        said.append("job")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, str]]:
        said.append("opened")
        async with cron.lifespan(app, workers=1):
            yield {"pool": "open"}
        said.append("closed")

    with TestClient(FastAPI(lifespan=lifespan)):
        wait_until(lambda: "job" in said)
    assert (said[0], said[-1], set(said[1:-1])) == ("opened", "closed", {"job"})


def test_the_loop_goes_on_while_a_body_comes_to_its_end(cron: Cronce) -> None:
    """A body may wait for what only the loop can bring about."""
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    @cron.job(every="1s")
    def slow() -> None:
        began.set()
        assert go_on.wait(60)
        ended.set()

    async def serve() -> None:
        async with cron.lifespan(grace="60s"):
            await asyncio.to_thread(began.wait, 60)
            asyncio.get_running_loop().call_later(0.1, go_on.set)  # when it is told to end, or later
        assert ended.is_set()

    asyncio.run(serve())


def test_an_app_whose_store_is_away_does_not_start() -> None:
    with (
        Cronce("redis://127.0.0.1:1") as cron,
        pytest.raises(StoreUnavailable),
        TestClient(FastAPI(lifespan=cron.lifespan)),
    ):
        raise AssertionError("it serves")


def test_what_makes_no_sense_is_refused_at_the_start(cron: Cronce) -> None:
    with pytest.raises(BadInput), TestClient(FastAPI(lifespan=lambda app: cron.lifespan(app, workers=0))):
        raise AssertionError("it serves")
