"""Listening to an SQLite file: other processes, forks, and what its log shows."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cronce.errors import StoreForgot, StoreUnavailable
from cronce.stores import open_store
from cronce.stores.sqlite import news as sqlite_news
from cronce.testing.contract import NEWS_WITHIN, NO_NEWS_SECONDS, listening, news, win
from tests.stores.forks import Child, ask
from tests.stores.listening import heard_on


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


def test_sqlite_another_process_is_heard(file: str) -> None:
    open_store(file).close()

    def write(_: Child) -> int:
        with closing(open_store(file)) as store:
            return len(win(store, news()))

    with heard_on(open_store(file)) as listener:
        assert Child(write).end() == [1]
        assert listener.wait(NEWS_WITHIN)


def test_sqlite_a_fork_disturbs_nobody(file: str) -> None:
    """The connection is closed before it, and opened again after it; a child listens for itself."""
    with closing(open_store(file)) as store, closing(listening(store)) as listener:

        def child() -> list[bool]:
            win(store, news())
            with closing(listening(store)) as own:
                win(store, news())
                return [own.wait(NEWS_WITHIN), own.wait(NO_NEWS_SECONDS)]

        assert ask(child) == [True, False]
        assert (listener.wait(NEWS_WITHIN), listener.wait(NO_NEWS_SECONDS)) == (True, False)
        assert "listen again" in ask(lambda: listener.wait(NEWS_WITHIN))[1]


def test_sqlite_listening_makes_no_file(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_news, "ANYWAY", 0)
    store = open_store(file)
    listener = listening(store)
    (tmp_path / "store.db").unlink()
    with pytest.raises(StoreForgot):
        listener.wait(NEWS_WITHIN)
    store.close()
    with pytest.raises(StoreUnavailable, match="closed by this process"):
        listener.wait(NEWS_WITHIN)
    assert not (tmp_path / "store.db").exists()


def test_sqlite_every_commit_shows_in_the_stamp_of_the_log(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the log is written from its beginning again, and is no longer than it was."""
    monkeypatch.setattr(sqlite_news, "ANYWAY", 1e9)
    with heard_on(open_store(file)) as listener, closing(open_store(file)) as other:
        for _ in range(10):
            win(other, news())
            assert listener.wait(NEWS_WITHIN)
            with closing(sqlite3.connect(file.removeprefix("sqlite:///"))) as db:
                assert db.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0] == 0


def test_sqlite_what_is_written_in_the_tick_of_the_last_look_is_heard(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamps = [(0, 0, 0)]
    monkeypatch.setattr(sqlite_news, "stamp", lambda _path: stamps[-1])
    monkeypatch.setattr(sqlite_news, "ANYWAY", 1e9)
    with closing(open_store(file)) as store, closing(listening(store)) as listener:
        assert not listener.wait(NO_NEWS_SECONDS)
        stamps.append((0, 0, 1))
        assert not listener.wait(0)
        win(store, news())
        assert listener.wait(NEWS_WITHIN)
        assert not listener.wait(NO_NEWS_SECONDS)
        monkeypatch.setattr(sqlite_news, "TIMESTAMP_STEP", 0)  # it is over
        win(store, news())
        assert not listener.wait(NO_NEWS_SECONDS)  # no stamp, no look
        monkeypatch.setattr(sqlite_news, "ANYWAY", 0)
        assert listener.wait(NEWS_WITHIN)
