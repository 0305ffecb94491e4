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
from cronce.runtime import queries, run_lists
from cronce.stores.base import Loaded, Page, Scan, Store
from cronce.stores.memory import MemoryStore
from cronce.web.app import application
from tests.house.wait import wait_until

NOON: Final = datetime(2026, 3, 29, 12, tzinfo=UTC)
SMALL: Final = Fleet(jobs=100, runs=20, open=60, attention=60, effects=300, doubtful=3, refused=60)
OLD: Final = Fleet(jobs=2, runs=20, open=4, attention=4, effects=0, refused=2)
"""Few jobs with some runs each."""


@pytest.fixture(autouse=True)
def walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody walks over the jobs, or counts duplicates, again in between, however long a test takes."""
    monkeypatch.setattr(read_jobs, "STALE", 3600.0)
    monkeypatch.setattr(figures, "RECOUNTED", 3600.0)
    monkeypatch.setattr(queries, "_WHOLE", {})


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
        node = asyncio.run(app.state.site.opened())
        wait_until(lambda: len(app.state.site.index) == fleet.jobs and app.state.site.prevented.of_all())
        noting = node.store = Listing(node.store)
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
    assert asked_for(SMALL, "/") == ["all open", "all attention", "load", "all after once", "run/ closed"]


def test_the_jobs_are_asked_for_together() -> None:
    """It was one request for each job that is shown: 58."""
    asked = asked_for(SMALL, "/jobs")
    assert kinds(asked, "-") == ["all open", "load", "bundle", "load", "run/ of all", "load"]


def test_a_job_is_asked_for_in_seven_requests_and_then_in_six() -> None:
    """What the schedulers of a deploy carry never changes: it is read once, for all jobs."""
    job = ["all open", "all attention", "load", "bundle", "run/", "refusals/"]
    for name in (SMALL.name(50), SMALL.name(51)):
        assert kinds(asked_for(SMALL, f"/jobs/{name}"), name) == job
        job.remove("bundle") if "bundle" in job else None


def test_a_job_with_more_runs_than_are_put_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is open, and what was asked for by hand, may be among the others."""
    monkeypatch.setattr(run_lists, "OF_A_JOB", 15)
    name = OLD.name(0)
    assert kinds(asked_for(OLD, f"/jobs/{name}"), name) == [
        "all open",
        "all attention",
        "load",
        "bundle",
        "run/",
        "run/ of all",
        "refusals/",
    ]


def kinds(asked: Sequence[str], name: str) -> list[str]:
    told = ["run/ of all" if one == "run/" else one.replace(f"{name}/", "") for one in asked]
    return ["bundle" if one.startswith("bundle/") else one for one in told]
