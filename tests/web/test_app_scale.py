"""However much the store holds, a page asks it as often, and for no more than it shows. What is looked at is what the
servers did: PostgreSQL's plans with the rows that each step read, and the commands that Valkey carried out."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import redis
from starlette.applications import Starlette

from bench.fleet import Fleet, fill
from bench.ui import Counting
from cronce import Cronce
from cronce.model import Instant, Mark
from cronce.monitor import figures, read_jobs, read_overview
from cronce.runtime import queries, run_lists
from cronce.stores import open_store
from cronce.stores.base import Scan
from cronce.stores.memory import MemoryStore
from cronce.stores.postgres import PostgresStore
from cronce.web.app import application
from tests.house.wait import wait_until
from tests.servers.postgres import Admin, Postgres
from tests.servers.valkey import Valkey
from tests.stores.places import name_of
from tests.stores.test_redis_contract import namespaced
from tests.stores.test_size import PLACES

NOON: Final = datetime(2026, 3, 29, 12, tzinfo=UTC)
SMALL: Final = Fleet(jobs=100, runs=20, open=60, attention=60, effects=300, doubtful=3, refused=60)
LARGE: Final = Fleet(jobs=100, runs=80, open=60, attention=60, effects=1200, doubtful=3, refused=60)
"""Two thousand runs that are closed, and eight thousand; four times the effects of the newest, too."""

TIGHT: Final = Fleet(jobs=60, runs=5, open=30, attention=10, effects=100, doubtful=1, refused=60)
FEW_RUNS: Final = Fleet(jobs=60, runs=1, open=0, attention=0, effects=0, doubtful=0, refused=0)
CROWD: Final = Fleet(jobs=300, runs=4, open=400, attention=300, effects=250, doubtful=3, refused=250)
"""More of everything than is shown at once."""

FEW: Final = 250
"""Cells that a statement may look at besides those it gives: what is open, what is in doubt, what a job has."""


@pytest.fixture(autouse=True)
def walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody walks over the jobs, or counts duplicates, again in between, however long a test takes."""
    monkeypatch.setattr(read_jobs, "STALE", 3600.0)
    monkeypatch.setattr(figures, "RECOUNTED", 3600.0)


def pages(fleet: Fleet, now: Instant) -> dict[str, str]:
    slot = next(fleet.slots(50, now)).key
    return {
        "overview": "/",
        "jobs": f"/jobs?after={fleet.name(50)}",
        "jobs found": "/jobs?q=port",
        "job": f"/jobs/{fleet.name(50)}",
        "run": f"/runs/{slot.replace('@', '%40')}",
        "runs": "/runs",
        "runs that failed": "/runs?state=failed",
        "runs that are lost": "/runs?state=lost",
        "timeline": "/timeline?span=1h",
        "timeline of a job": f"/timeline?span=1d&job={fleet.name(50)}",
        "holders": "/holders",
        "effects": "/effects",
        "alerts": "/alerts",
    }


class Visit:
    """The application on a filled store, and what it asks of it."""

    def __init__(self, cron: Cronce, fleet: Fleet, now: Instant) -> None:
        self.now = now
        self.pages = pages(fleet, now)
        self.app = application(cron, private=False)
        node = asyncio.run(self.app.state.site.opened())
        self.store: Any = node.store
        wait_until(lambda: len(self.app.state.site.index) == fleet.jobs and self.app.state.site.prevented.of_all())
        self.counting = node.store = Counting(self.store)

    def get(self, name: str) -> tuple[int, int]:
        """How often the store is asked for a page, and for how many cells."""
        self.counting.calls = self.counting.cells = 0
        answer = asyncio.run(ask(self.app, self.pages[name]))
        assert answer.status_code == 200, answer.text
        return self.counting.calls, self.counting.cells


async def ask(app: Starlette, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.get(path)


@contextmanager
def visit(url: str, fleet: Fleet, now: Instant | None = None) -> Iterator[Visit]:
    with closing(open_store(url)) as store:
        now = now or store.load([]).now
        fill(store, fleet, now)
    with closing(Cronce(url)) as cron:
        made = Visit(cron, fleet, now)
        try:
            yield made
        finally:
            made.app.state.site.close()


# --- any store -------------------------------------------------------------------------------------------------------


def test_the_pages_that_show_the_latest_read_it_once() -> None:
    store = MemoryStore(clock=lambda: NOON)
    fill(store, CROWD)
    with closing(Cronce(store=store)) as cron:
        visited = Visit(cron, CROWD, NOON)
        assert visited.get("overview")[0] == 7
        runs, refused = (200 + 501) + (200 + 100) + 300, 200 + 250
        assert visited.get("timeline") == (5 + 3 + 3 + 1, runs + refused + 1 + 2 * 3)  # and three holders, twice


@pytest.mark.parametrize("place", [*PLACES, "kubernetes"])
def test_the_overview_and_a_job_ask_eight_times_at_most(
    place: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the first time, where more is open and refused than is read at once, and of a job with more runs than are
    put in order. A store without history keeps few runs, and none by hand."""
    monkeypatch.setattr(run_lists, "OF_A_JOB", 3)
    few = (Scan("", mark=Mark.OPEN, limit=20), Scan("", mark=Mark.ATTENTION, limit=40))
    for module in (read_jobs, read_overview):
        monkeypatch.setattr(module, "READ_AHEAD", few)
    monkeypatch.setattr(read_jobs, "HOSTS", 20)
    monkeypatch.setattr(queries, "_WHOLE", {})
    server = request.getfixturevalue("kubernetes") if place == "kubernetes" else None
    url = server.url("requests") if server else PLACES[place](request, tmp_path)
    fleet = FEW_RUNS if server else TIGHT
    with closing(open_store(url)) as store, closing(Cronce(store=store)) as cron:
        fill(store, fleet)
        visited = Visit(cron, fleet, store.load([]).now)
        asked = [visited.get(page)[0] for page in ("overview", "job", "job")]
        visited.app.state.site.close()
    assert asked == ([5, 6, 5] if server else [7, 8, 7])


@pytest.mark.parametrize("mounted", [True, False])
def test_the_jobs_are_known_before_anybody_asks_for_them(mounted: bool) -> None:
    """Mounted, it is told of no beginning: then from the first request on, whatever that is for."""
    store = MemoryStore()
    fill(store, SMALL)
    app = application(Cronce(store=store), private=False)

    async def begin() -> None:
        if mounted:
            await ask(app, "/alerts")
            await asyncio.to_thread(wait_until, lambda: len(app.state.site.index) == SMALL.jobs)
            return
        async with app.router.lifespan_context(app):
            await asyncio.to_thread(wait_until, lambda: len(app.state.site.index) == SMALL.jobs)

    asyncio.run(begin())


# --- PostgreSQL -----------------------------------------------------------------------------------------------------


def test_every_statement_of_a_page_reads_an_index_and_no_more_than_it_gives(
    postgres: Postgres, admin: Admin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = name_of(tmp_path)
    with visit(f"{postgres.url}?schema={schema}", LARGE) as visited:
        store = visited.store
        assert isinstance(store, PostgresStore)
        ask, plans = store.ask, dict[str, Any]()

        def explained(statement: str, given: Any) -> Any:
            rows = ask(statement, given)
            if statement not in plans:  # of those that only name another job, one will do
                ((plan,),) = ask("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement, given)
                plans[statement] = (*_read(plan[0]["Plan"]), len(rows))
            return rows

        monkeypatch.setattr(store, "ask", explained)
        for page in [*visited.pages, "ANALYZE", *visited.pages]:  # the planner guesses until somebody has counted
            if page == "ANALYZE":
                admin.execute(f"ANALYZE {schema}.cronce_cells")
                continue
            plans.clear()
            visited.get(page)
            assert plans, page
            for statement, (read, scans, given) in plans.items():
                assert "Seq Scan" not in scans, (page, statement)
                assert read <= given + FEW, (page, statement)


def _read(plan: dict[str, Any]) -> tuple[int, set[str]]:
    """How many rows of the cells it looked at, and how."""
    nodes = [node for node in _nodes(plan) if node.get("Relation Name") == "cronce_cells"]
    passed = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
    read = sum(sum(node.get(rows, 0) for rows in passed) * node["Actual Loops"] for node in nodes)
    return round(read), {node["Node Type"] for node in nodes}


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from _nodes(inner)


# --- Valkey ---------------------------------------------------------------------------------------------------------

PLAIN: Final = {"TIME", "HGET", "HMGET", "ZRANGEBYLEX", "ZREVRANGEBYLEX"}
"""What the script may say when it reads. By name, or a range with a limit: none of them goes through all there is."""

MEMBERS: Final = "members"


@pytest.fixture
def own_valkey() -> Iterator[Valkey]:
    """A server to which nobody else says anything."""
    with Valkey() as server:
        yield server


def test_every_command_of_a_page_has_a_limit_and_there_are_as_many_of_them_with_four_times_the_runs(
    own_valkey: Valkey, tmp_path: Path
) -> None:
    small, large = namespaced(own_valkey.url, tmp_path / "small"), namespaced(own_valkey.url, tmp_path / "large")
    with visit(small, SMALL) as few, visit(large, LARGE, few.now) as many:
        few.get("job")  # which jobs a scheduler of both carries is asked once in a process
        for page in few.pages:
            some, more = _within_a_minute(own_valkey, (few, many), page)
            assert some == more, page
            assert more.keys() - PLAIN == {"EVALSHA", MEMBERS}, page


def _within_a_minute(valkey: Valkey, visits: Sequence[Visit], page: str) -> list[Counter[str]]:
    """Slots are at full minutes: of two stretches that end now, one might have moved past a slot already."""
    store = visits[0].store
    while True:
        began = store.load([]).now
        found = [_commands(valkey, one, page) for one in visits]
        ended = store.load([]).now
        if ended - began < timedelta(minutes=1) and ended.minute == began.minute:
            return found


def _commands(valkey: Valkey, visited: Visit, page: str) -> Counter[str]:
    """What the server carried out for a page: commands by name, those of scripts too, and how many members of ranges
    they may look at. Each call of the store is one call of its script, and few cells are read that are not wanted."""
    said: list[str] = []
    with redis.Redis(port=valkey.port) as client, redis.Redis(port=valkey.port) as listener:
        client.ping()
        with listener.monitor() as monitor:
            calls, cells = visited.get(page)
            client.echo("that was all")
            while "that was all" not in (command := monitor.next_command()["command"]):
                said.append(command)
    counted = Counter(command.split(" ", 1)[0].upper() for command in said)
    assert counted["EVALSHA"] == calls, page
    looked = [int(limit) for command in said for limit in re.findall(r"BYLEX .* LIMIT 0 (\d+)$", command)]
    assert len(looked) == counted["ZRANGEBYLEX"] + counted["ZREVRANGEBYLEX"], "each has a limit"
    named = sum(len(command.split(" ")) - 2 for command in said if command.startswith("HMGET"))
    assert named <= 3 * cells + FEW, page
    return counted + Counter({MEMBERS: sum(looked)})
