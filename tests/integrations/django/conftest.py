"""A database for a Django project."""

import pytest

from tests.servers.postgres import Postgres


@pytest.fixture
def database(postgres: Postgres) -> dict[str, object]:
    with postgres.admin() as admin:
        admin.execute("DROP DATABASE IF EXISTS shop WITH (FORCE)")  # who left it may not be gone yet
        admin.execute("CREATE DATABASE shop")
    place = {"NAME": "shop", "USER": "postgres", "HOST": "127.0.0.1", "PORT": postgres.port}
    return {"ENGINE": "django.db.backends.postgresql", **place}
