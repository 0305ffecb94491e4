"""The SQLite store keeps the contract, between threads and between processes."""

from pathlib import Path

from cronce.testing import StoreContract


class TestSqlite(StoreContract):
    def url(self, place: Path) -> str:
        return f"sqlite:///{place}/store.db"
