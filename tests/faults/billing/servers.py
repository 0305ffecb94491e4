"""What a variant needs to run: a store for cronce or for the lock, and the shop's database."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from os import urandom
from pathlib import Path
from typing import Literal

import psycopg

from cronce.stores.redis import init
from tests.faults.billing.worker import keeps_shop
from tests.servers.postgres import Postgres
from tests.servers.valkey import DURABLE, Valkey

Store = Literal["postgres", "sqlite", "valkey"]


@contextmanager
def places(variant: str, store: Store, folder: Path, server: Postgres | None = None) -> Iterator[tuple[str, str]]:
    """The URLs of the store and of the shop, of servers that are started for it, apart from a PostgreSQL that is there
    already; "" where there is no shop's."""
    with ExitStack() as stack:
        urls = {"sqlite": f"sqlite:///{folder}/cronce.db"}
        if variant == "redis-lock":
            store = "valkey"
        if store == "valkey":
            urls["valkey"] = stack.enter_context(Valkey(*DURABLE)).url
            init(urls["valkey"])  # a store that was born by itself takes no slots from before its birth
        if store == "postgres" or keeps_shop(variant):
            urls["postgres"] = stack.enter_context(database((server or stack.enter_context(Postgres())).url))
        yield urls[store], urls["postgres"] if keeps_shop(variant) else ""


@contextmanager
def database(url: str) -> Iterator[str]:
    """A new one on a server, for as long as the block lasts."""
    name = f"billing_{urandom(4).hex()}"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        try:
            yield url.rpartition("/")[0] + f"/{name}"
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
