"""How many cells there are: a store says it without going through them, exactly while they are few."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cronce.model import Mark
from cronce.stores import open_store
from cronce.stores.base import size
from cronce.testing.contract import put, win
from tests.servers.etcd import Etcd
from tests.servers.kubernetes import Kubernetes
from tests.servers.postgres import Admin, Postgres
from tests.servers.valkey import Valkey
from tests.stores.places import name_of
from tests.stores.test_mysql_contract import database
from tests.stores.test_redis_contract import namespaced

Url = Callable[[pytest.FixtureRequest, Path], str]


def _postgres(request: pytest.FixtureRequest, place: Path) -> str:
    server: Postgres = request.getfixturevalue("postgres")
    return f"{server.url}?schema={name_of(place)}"


def _valkey(request: pytest.FixtureRequest, place: Path) -> str:
    server: Valkey = request.getfixturevalue("valkey")
    return namespaced(server.url, place)


def _etcd(request: pytest.FixtureRequest, place: Path) -> str:
    server: Etcd = request.getfixturevalue("etcd")
    return f"{server.url}/?namespace={name_of(place)}"


PLACES: dict[str, Url] = {
    "memory": lambda _request, _place: "memory://",
    "sqlite": lambda _request, place: f"sqlite:///{place}/cells.db",
    "postgres": _postgres,
    "valkey": _valkey,
    "mysql": lambda request, place: database(request.getfixturevalue("mysql_url"), place),
    "etcd": _etcd,
}


@pytest.mark.parametrize("place", PLACES)
def test_few_cells_are_counted_exactly(place: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    with closing(open_store(PLACES[place](request, tmp_path))) as store:
        assert size(store) == 0
        marks = [Mark.OPEN, Mark.FREE, Mark.CLOSED, Mark.ATTENTION]
        cells = win(store, *(put(f"run/{number}", mark) for number, mark in enumerate(marks * 3)))
        assert size(store) == 12
        assert store.purge(cells[:5]) == 5
        assert size(store) == 7


def test_a_store_that_cannot_say_is_not_asked(kubernetes: Kubernetes) -> None:
    with closing(open_store(kubernetes.url("sized"))) as store:
        assert size(store) is None


def test_of_many_postgresql_says_what_it_knows_of_them(postgres: Postgres, admin: Admin, tmp_path: Path) -> None:
    schema = name_of(tmp_path)
    with closing(open_store(f"{postgres.url}?schema={schema}")) as store:
        admin.execute(f"ALTER TABLE {schema}.cronce_cells SET (autovacuum_enabled = false)")
        fill = f"INSERT INTO {schema}.cronce_cells (key, version, mark, value) SELECT '{{0}}/' || n, n, 3, '' FROM"
        admin.execute(f"{fill.format('run')} generate_series(1, 20000) AS n")
        assert size(store) == 10_000, "nobody has counted them: so many there are at least"
        admin.execute(f"ANALYZE {schema}.cronce_cells")
        assert size(store) == 20_000
        admin.execute(f"{fill.format('job')} generate_series(1, 20000) AS n")
        grown = size(store)
        assert grown is not None
        assert abs(grown - 40_000) < 400, "they lie as densely as when they were counted"
