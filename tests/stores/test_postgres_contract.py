"""The contract on PostgreSQL, directly and through PgBouncer, where every statement may meet another session."""

from pathlib import Path

import pytest

from cronce.testing import StoreContract
from cronce.testing.contract import BatchContract, CellContract, GroupContract, RaceContract
from tests.servers.postgres import PgBouncer, Postgres
from tests.stores.places import name_of


class OnPostgres:
    server: Postgres | PgBouncer

    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.server = postgres

    def url(self, place: Path) -> str:
        return f"{self.server.url}?schema={name_of(place)}"


class TestPostgres(OnPostgres, StoreContract):
    pass


class TestThroughPgBouncer(OnPostgres, CellContract, BatchContract, GroupContract, RaceContract):
    CELLS = 60

    @pytest.fixture(autouse=True)
    def _server(self, pgbouncer: PgBouncer) -> None:
        self.server = pgbouncer
