"""Which requests a page makes of the store: each is a way there and back, and nothing is asked for twice."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import httpx
import pytest

from bench.fleet import Fleet, fill
from cronce import Cronce
from cronce.monitor import figures, read_jobs
from cronce.stores.base import Loaded, Page, Scan, Store
from cronce.stores.memory import MemoryStore
from cronce.web.app import application
from tests.house.wait import wait_until

NOON: Final = datetime(2026, 3, 29, 12, tzinfo=UTC)
SMALL: Final = Fleet(jobs=100, runs=20, open=60, attention=60, effects=300, doubtful=3, refused=60)
OLD: Final = Fleet(jobs=2, runs=300, open=4, attention=4, effects=0, refused=2)
"""Few jobs, each with more runs than its page reads."""


@pytest.fixture(autouse=True)
def walked_once(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Nobody walks over the jobs, or counts duplicates, again in between, however long a test takes."""
    monkeypatch.setattr(read_jobs, "STALE", 3600.0)
    monkeypatch.setattr(figures, "RECOUNTED", 3600.0)
    if "eight" not in request.node.name:
        monkeypatch.setattr(read_jobs, "_CARRIED", set())


class Listing:
    """A store that notes what it is asked."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def load(self, keys: Sequence[str]) -> Loaded:
        self.asked.append("load")
        return self.store.load(keys)

    def scan(self, scan: Scan) -> Page:
        mark = scan.mark.name.lower() if scan.mark else ""
        after = f"after {scan.after.key}" if scan.after and not scan.prefix else ""
        self.asked.append(" ".join(filter(None, (scan.prefix or "all", mark, after))))
        return self.store.scan(scan)


@contextmanager
def listing(fleet: Fleet) -> Iterator[tuple[Any, Listing]]:
    store = MemoryStore(clock=lambda: NOON)
    fill(store, fleet)
    with closing(Cronce(store=store)) as cron:
        app = application(cron, private=False)
        desk = asyncio.run(app.state.site.opened())
        wait_until(lambda: len(app.state.site.index) == fleet.jobs and app.state.site.prevented.of_all())
        noting = desk.store = Listing(desk.store)
        yield app, noting
        app.state.site.close()


def asked_for(fleet: Fleet, path: str) -> list[str]:
    async def get() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return await client.get(path)

    with listing(fleet) as (app, noting):
        assert asyncio.run(get()).status_code == 200
        return noting.asked


def test_the_overview() -> None:
    assert asked_for(SMALL, "/") == [
        "holder/",
        "load",
        "alert/ open",
        "run/ open",
        "all attention",
        "all after once/",
        "run/ closed",
        "effect/ open",
    ]


def test_a_job() -> None:
    name = SMALL.name(50)
    assert asked_for(SMALL, f"/jobs/{name}") == [
        "holder/",
        "load",
        "bundle/fleet/",
        f"run/{name}/",
        "all attention",
        f"refusals/{name}/",
        f"effect/{name}/ open",
        "once/ open",
        "alert/ open",
    ]


def test_a_job_and_the_overview_make_eight_requests_once_their_bundle_is_known() -> None:
    assert len(asked_for(SMALL, "/")) == 8
    name = SMALL.name(51)
    asked_for(SMALL, f"/jobs/{name}")
    assert len(asked_for(SMALL, f"/jobs/{name}")) == 8


def test_a_job_with_more_runs_than_are_read() -> None:
    """What is open may be among the others."""
    name = OLD.name(0)
    assert asked_for(OLD, f"/jobs/{name}") == [
        "holder/",
        "load",
        "bundle/fleet/",
        f"run/{name}/",
        f"run/{name}/ open",
        "all attention",
        f"refusals/{name}/",
        f"effect/{name}/ open",
        "once/ open",
        "alert/ open",
    ]
