"""The contract on PostgreSQL, directly and through PgBouncer, where every statement may meet another session."""

import hashlib
from pathlib import Path

import pytest

from cronce.testing import StoreContract
from cronce.testing.contract import BatchContract, CellContract, GroupContract, RaceContract
from tests.servers.postgres import PgBouncer, Postgres


class OnPostgres:
    server: Postgres | PgBouncer

    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.server = postgres

    def url(self, place: Path) -> str:
        """A schema of the test's own: the name of a place may repeat, its path does not."""
        return f"{self.server.url}?schema=t{hashlib.sha1(str(place).encode()).hexdigest()[:16]}"


class TestPostgres(OnPostgres, StoreContract):
    pass


class TestThroughPgBouncer(OnPostgres, CellContract, BatchContract, GroupContract, RaceContract):
    @pytest.fixture(autouse=True)
    def _server(self, pgbouncer: PgBouncer) -> None:
        self.server = pgbouncer
