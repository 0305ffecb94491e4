"""A store in a file of its own, for the tests of the SQLite store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cronce.stores.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    store.close()


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at the files with every call, not only when some time has passed."""
    monkeypatch.setattr("cronce.stores.sqlite.FILES_CHECKED_EVERY", 0.0)
