"""Torture at full size: a minute each on every store, several times, with hard restarts, and with stores that forget.
`make proof` runs it by name; there are too many minutes in it for every test run.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cronce.model import Slot
from cronce.torture.fault_actions import Hook
from cronce.torture.harness import Torture, TortureResult, TortureSettings
from cronce.torture.picture import outcome, svg
from cronce.torture.plan import DEPLOYS, LIFE, NETWORK_FAULTS, SIGNALS
from cronce.torture.verdict import TortureVerdict
from cronce.torture.worker import TortureTask
from tests.faults.notes import Note
from tests.faults.test_scheduler_torture import check_scheduled
from tests.faults.test_torture import cells, check
from tests.servers.etcd import Etcd
from tests.servers.kubernetes import Kubernetes
from tests.servers.mariadb import MariaDb
from tests.servers.postgres import Postgres
from tests.servers.process import Server
from tests.servers.valkey import DURABLE, Valkey

RUNS = int(os.environ.get("CRONCE_TORTURE_RUNS", "2"))
NOTICED = 6
"""Seconds after which the loss of a store's memory is noticed: an outage may keep everybody from asking."""

SETTLED = 12
"""The same for schedulers, which may all be killed just then, and register their jobs anew when they are back."""


class Case:
    """A store of its own, and what can be done to it beside what is done to the processes."""

    name = ""

    def __init__(self, server: Server, restart: Hook | None = None, empty: Hook | None = None) -> None:
        self.server, self.restart, self.empty = server, restart, empty


def restarted(server: Server) -> Case:
    def restart() -> None:
        server.kill()
        server.start()

    return Case(server, restart)


def emptied() -> Case:
    server = Valkey(*DURABLE)
    return Case(server, empty=lambda: server.cli("FLUSHALL") and None)


def old_dump() -> Case:
    """What was saved when it was to be restarted is put back later."""
    server = Valkey()
    dump, kept = server.directory / "dump.rdb", server.directory / "kept.rdb"

    def save() -> None:
        server.cli("SAVE")
        shutil.copy(dump, kept)

    def put_back() -> None:
        server.kill()
        shutil.copy(kept, dump)
        server.start()

    return Case(server, save, put_back)


DURABLE_CASES: dict[str, Callable[[], Case]] = {
    "postgres": lambda: restarted(Postgres()),
    "mariadb": lambda: restarted(MariaDb()),
    "etcd": lambda: restarted(Etcd()),
    "valkey, always": lambda: restarted(Valkey(*DURABLE)),
}
FORGETFUL_CASES: dict[str, Callable[[], Case]] = {
    "valkey, everysec": lambda: restarted(Valkey("--appendonly", "yes", "--appendfsync", "everysec")),
    "valkey, nothing kept": lambda: restarted(Valkey()),
    "valkey, emptied": emptied,
    "valkey, old dump": old_dump,
}


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    name, make = request.param
    made: Case = make()
    made.name = name
    with made.server:
        yield made


def counted(result: TortureResult, store: str) -> dict[str, Any]:
    """What the docs show of it: the counts of both jobs together."""
    columns = [column for column in TortureVerdict._fields if column != "on_lost"]
    verdict = {column: sum(getattr(each, column) for each in result.verdicts) for column in columns}
    settings = {"store": store, "seed": result.settings.seed, "processes": result.settings.processes}
    return {**settings, "faults": dict(result.faults), "forgot": result.forgot, "verdict": verdict}


def tortured(
    url: str, seed: int, folder: Path, note: Note, case: Case | None = None, store: str = "sqlite"
) -> TortureResult:
    restart, empty = (case.restart, case.empty) if case else (None, None)
    result = Torture(TortureSettings(url, 60, seed=seed, restart=restart, empty=empty), folder).run()
    (folder / "picture.svg").write_text(svg(result))
    note(counted(result, case.name if case else store))
    check(result)
    assert cells(url) == []
    return result


seeds = pytest.mark.parametrize("seed", range(RUNS))


def cases(known: dict[str, Callable[[], Case]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", known.items(), ids=known, indirect=True)


@pytest.mark.timeout(300)
@seeds
def test_a_minute_on_a_file(seed: int, tmp_path: Path, note: Note) -> None:
    assert not tortured(f"sqlite:///{tmp_path}/cronce.db", seed, tmp_path, note).forgot


@pytest.mark.timeout(400)
@seeds
def test_a_minute_on_leases(seed: int, tmp_path: Path, note: Note) -> None:
    """Its runs follow each other, so it takes longer than the minute of its slots."""
    with Kubernetes() as server:
        result = tortured(server.url("jobs"), seed, tmp_path, note, store="kubernetes (our server)")
    assert (result.forgot, result.left_out) == (False, ())


@pytest.mark.timeout(300)
@seeds
@cases(DURABLE_CASES)
def test_a_minute_with_a_hard_restart_of_what_is_durable(case: Case, seed: int, tmp_path: Path, note: Note) -> None:
    result = tortured(case.server.url, seed, tmp_path, note, case)
    assert (result.forgot, result.faults["restart"]) == (False, 1)
    assert [verdict.unknown for verdict in result.verdicts] == [0, 0]


@pytest.mark.timeout(300)
@seeds
@cases(FORGETFUL_CASES)
def test_a_minute_on_what_forgets_is_unknown_in_the_gap_and_nowhere_else(
    case: Case, seed: int, tmp_path: Path, note: Note
) -> None:
    result = tortured(case.server.url, seed, tmp_path, note, case)
    lost = max(deed.ended for deed in result.deeds if deed.kind in ("restart", "empty")) - result.first
    unknown = [place for task in result.tasks for place in unknown_slots(result, task)]
    assert [place for place in unknown if place > lost + NOTICED] == []


def unknown_slots(result: TortureResult, task: TortureTask) -> list[int]:
    keys = [Slot(task.job, at).key for at in result.slots]
    return [place for place, key in enumerate(keys) if outcome(result, key) == "unknown"]


# --- schedulers -----------------------------------------------------------------------------------------------------

ROUGH = (*SIGNALS, *NETWORK_FAULTS, *LIFE, "lock")
FULL = {"workers": 1, "slow": 2.0}
"""One body at a time, most of them longer than the second to the next slot."""

WAYS: tuple[dict[str, Any], ...] = (
    {"only": ROUGH},
    {
        "only": ("pause", *NETWORK_FAULTS, "lock", "roll", "drain", *DEPLOYS)
    },  # a version whose process died lives on for 30 s
    {"only": ROUGH, **FULL},
    {"only": ROUGH, **FULL, "missed": "latest"},
)
"""What is done to schedulers, in turn."""


def way_of(seed: int, processes: int) -> dict[str, Any]:
    """Two seeds play all of them, on each store: the first two with three schedulers, the others with eight."""
    return WAYS[(seed + (2 if processes == 8 else 0)) % len(WAYS)]


SERVERS: dict[str, Callable[[], Case]] = {
    "postgres": lambda: Case(Postgres()),
    "valkey": lambda: Case(Valkey(*DURABLE)),
}

numbers = pytest.mark.parametrize("processes", [3, 8])


def scheduled(settings: TortureSettings, folder: Path, note: Note, store: str) -> TortureResult:
    result = Torture(settings._replace(scheduler=True), folder).run()
    (folder / "picture.svg").write_text(svg(result))
    note(counted(result, store))
    check_scheduled(result)
    assert cells(settings.url) == []
    return result


@pytest.mark.timeout(300)
@numbers
@seeds
def test_a_minute_of_schedulers_on_a_file(processes: int, seed: int, tmp_path: Path, note: Note) -> None:
    url, way = f"sqlite:///{tmp_path}/cronce.db", way_of(seed, processes)
    assert not scheduled(TortureSettings(url, 60, processes, seed, **way), tmp_path, note, "sqlite").forgot


@pytest.mark.timeout(300)
@numbers
@seeds
@cases(SERVERS)
def test_a_minute_of_schedulers_on_a_server(case: Case, processes: int, seed: int, tmp_path: Path, note: Note) -> None:
    way = way_of(seed, processes)
    assert not scheduled(TortureSettings(case.server.url, 60, processes, seed, **way), tmp_path, note, case.name).forgot


@pytest.mark.timeout(300)
@numbers
@seeds
@cases({"valkey, emptied": emptied})
def test_a_minute_of_schedulers_on_what_forgets(
    case: Case, processes: int, seed: int, tmp_path: Path, note: Note
) -> None:
    settings = TortureSettings(case.server.url, 60, processes, seed, empty=case.empty, only=(*ROUGH, "empty"))
    result = scheduled(settings, tmp_path, note, case.name)
    assert result.forgot
    lost = max(deed.ended for deed in result.deeds if deed.kind == "empty") - result.first
    unknown = [place for task in result.tasks for place in unknown_slots(result, task)]
    assert [place for place in unknown if place > lost + SETTLED] == []
