"""The SQLite store under real conditions: what its file may be, what may happen to it, and what it then says."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from cronce.errors import (
    BadInput,
    StoreCopied,
    StoreForgot,
    StoreUnavailable,
)
from cronce.model import Cell, Origin, Refusal, to_us
from cronce.stores import open_store, sql
from cronce.stores.base import Scan
from cronce.stores.sqlite import SqliteStore, locate, pauses
from cronce.testing.contract import cell_of, claim, put, refusals, swap, win
from tests.stores.forks import Child, ask, locked
from tests.stores.sqlite.files import raw

SHORT = timedelta(seconds=0.2)


# --- writing --------------------------------------------------------------------------------------------------------


def test_a_settled_loser_writes_nothing(store: SqliteStore, path: Path) -> None:
    win(store, claim("a"))
    watcher = raw(path)
    before = (log_of(path), watcher.execute("PRAGMA data_version").fetchone())
    assert refusals(swap(store, claim("a"), put("a"))) == [Refusal.VERSION] * 2
    assert store.swap([claim("b")], (1, 1)).verdicts[0].refused is Refusal.EPOCH
    assert (log_of(path), watcher.execute("PRAGMA data_version").fetchone()) == before
    win(store, claim("b"))
    assert (log_of(path), watcher.execute("PRAGMA data_version").fetchone()) != before
    watcher.close()


def log_of(path: Path) -> tuple[bytes, bytes]:
    return path.read_bytes(), Path(f"{path}-wal").read_bytes()


def test_a_batch_is_one_transaction(store: SqliteStore, path: Path) -> None:
    watcher = raw(path)
    (before,) = watcher.execute("PRAGMA data_version").fetchone()
    win(store, *(claim(f"run/{number:03}") for number in range(1000)))
    assert watcher.execute("SELECT count(*) FROM cronce_cells").fetchone() == (1000,)
    assert watcher.execute("PRAGMA data_version").fetchone() == (before + 1,)
    watcher.close()


def test_a_commit_is_flushed_to_disk_before_it_is_answered(store: SqliteStore) -> None:
    assert store._connection is not None
    assert store._connection.db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._connection.db.execute("PRAGMA synchronous").fetchone() == (2,)


def test_the_clock_is_sqlites_in_whole_milliseconds(store: SqliteStore, path: Path) -> None:
    earliest = time.time_ns() // 1_000_000 * 1000
    now = to_us(store.load([]).now)
    assert earliest <= now <= time.time_ns() // 1000
    assert now % 1000 == 0


def test_the_clock_is_read_once_the_lock_is_held(store: SqliteStore, path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        with locked(path):
            waiting = pool.submit(swap, store, claim("a"))
            still_locked = SqliteStore(path)
            begun = still_locked.load([]).now
            while still_locked.load([]).now == begun:
                pass
        assert waiting.result(timeout=30).now > begun
    still_locked.close()


def test_text_that_cannot_be_stored_is_refused(store: SqliteStore) -> None:
    for write in (claim("a\0b"), claim("a\ud800"), claim("a", "\ud800")):
        with pytest.raises(BadInput):
            swap(store, write)
    with pytest.raises(BadInput):
        store.load(["a\0b"])
    win(store, claim("a", "NUL in a \0 value is kept"))
    assert cell_of(store, "a").value == "NUL in a \0 value is kept"


def test_a_closed_store_says_so(path: Path) -> None:
    store = SqliteStore(path)
    store.close()
    with pytest.raises(StoreUnavailable, match=r"store\.db was closed by this process"):
        store.load([])


# --- locks ----------------------------------------------------------------------------------------------------------


def test_a_lock_held_past_the_timeout_is_named(path: Path) -> None:
    store = SqliteStore(path, timeout=SHORT)
    with locked(path):
        with pytest.raises(StoreUnavailable, match=r"store\.db was locked by another process for 0\.2 s"):
            swap(store, claim("a"))
        with pytest.raises(StoreUnavailable):
            store.purge([Cell("a", 1)])
    assert win(store, claim("a"))[0].version == 1
    store.close()


def test_reading_never_waits_for_a_writer(store: SqliteStore, path: Path) -> None:
    (cell,) = win(store, claim("a"))
    with locked(path):
        assert cell_of(store, "a") == cell
        assert list(store.scan(Scan("")).cells) == [cell]


def test_a_settled_loser_never_waits_for_a_writer(path: Path) -> None:
    store = SqliteStore(path, timeout=timedelta(0))
    (cell,) = win(store, claim("a"))
    with locked(path):
        assert swap(store, claim("a")).verdicts[0].cell == cell
        assert refusals(store.swap([claim("b")], (1, 1))) == [Refusal.EPOCH]
        with pytest.raises(StoreUnavailable):
            swap(store, claim("a"), claim("b"))
    assert cell_of(store, "b").version == 0
    store.close()


def test_a_store_is_opened_while_another_writes(store: SqliteStore, path: Path) -> None:
    with locked(path):
        SqliteStore(path, timeout=SHORT).close()


# --- the file behind the name ---------------------------------------------------------------------------------------


USES: list[Callable[[SqliteStore], object]] = [
    lambda store: swap(store, claim("b")),
    lambda store: store.swap([claim("a")], (1, 1)),
    lambda store: store.load(["a"]),
    lambda store: store.scan(Scan("")),
    lambda store: store.purge([Cell("a", 1)]),
]


@pytest.mark.usefixtures("watchful")
@pytest.mark.parametrize("use", USES)
def test_a_deleted_file_is_noticed_by_every_call(store: SqliteStore, path: Path, use: Callable[..., object]) -> None:
    path.unlink()
    with pytest.raises(StoreForgot, match=r"store\.db was deleted while this process used it"):
        use(store)
    with pytest.raises(StoreForgot, match=r"store\.db no longer exists"):
        use(store)
    assert not path.exists()


@pytest.mark.usefixtures("watchful")
def test_after_a_deletion_a_process_goes_on_with_the_store_that_another_makes(store: SqliteStore, path: Path) -> None:
    seen = swap(store, claim("a")).epoch.seen
    path.unlink()
    with pytest.raises(StoreForgot):
        store.load([])
    for side in ("-wal", "-shm"):
        path.with_name(path.name + side).unlink()
    assert ask(lambda: SqliteStore(path).load([]).epoch.tally) == 0
    assert refusals(store.swap([claim("a")], seen)) == [Refusal.EPOCH]
    assert win(store, claim("a"))[0].version == 1


def test_a_deleted_file_is_noticed_in_a_burst_of_calls(store: SqliteStore, path: Path) -> None:
    win(store, claim("a"))
    path.unlink()
    with pytest.raises(StoreForgot):
        _use_for(timedelta(minutes=1), store)


def _use_for(longest: timedelta, store: SqliteStore) -> None:
    end = time.monotonic() + longest.total_seconds()
    while time.monotonic() < end:
        swap(store, claim("a"))


@pytest.mark.usefixtures("watchful")
def test_a_replaced_file_is_noticed_and_refused_as_a_copy(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    shutil.copy(path, tmp_path / "copy.db")
    (tmp_path / "copy.db").replace(path)
    with pytest.raises(StoreForgot, match="was replaced by another file"):
        swap(store, claim("a"))
    with pytest.raises(StoreCopied):
        swap(store, claim("a"))


@pytest.mark.usefixtures("watchful")
@pytest.mark.parametrize("side", ["-wal", "-shm"])
def test_a_removed_log_is_noticed(store: SqliteStore, path: Path, side: str) -> None:
    path.with_name(path.name + side).unlink()
    for _ in range(2):
        with pytest.raises(StoreForgot, match="restart this process"):
            swap(store, claim("a"))


@pytest.mark.usefixtures("watchful")
def test_a_backup_put_back_under_a_running_process_is_not_overwritten_by_it(path: Path) -> None:
    """Closing would write the log of a store that is gone into the one that took its place."""

    def live(me: Child) -> None:
        store = SqliteStore(path)
        win(store, claim("old"))
        me.say("open")
        me.wait()
        with pytest.raises(StoreForgot):
            swap(store, claim("orphan"))
        store.close()

    SqliteStore(path).close()
    backup = path.read_bytes()
    child = Child(live)
    assert child.hear() == "open"
    path.write_bytes(backup)
    for side in ("-wal", "-shm"):
        path.with_name(path.name + side).unlink()
    assert child.end() == [None]
    assert path.read_bytes() == backup
    assert cell_of(SqliteStore(path), "old").version == 0


PUT_BACK = """
import sys
from pathlib import Path
from cronce.stores.sqlite import AFTER_ALL_TEXT, SqliteStore
from cronce.testing.contract import claim, win

path = Path(sys.argv[1])
SqliteStore(path).close()
backup = path.read_bytes()
store = SqliteStore(path)
win(store, claim("old"))
path.write_bytes(backup)
for side in ("-wal", "-shm"):
    path.with_name(path.name + side).unlink()
"""


def test_nor_by_a_process_that_ends_unaware(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PUT_BACK, path], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert cell_of(SqliteStore(path), "old").version == 0


def test_a_restored_dump_is_found_out_by_a_living_writer(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    known = swap(store, claim("a"))
    live, backup = raw(path), raw(tmp_path / "backup.db")
    live.backup(backup)
    latest = swap(store, claim("b")).epoch
    backup.backup(live)
    backup.close()
    live.close()
    swapped = store.swap([claim("c")], latest.seen)
    assert refusals(swapped) == [Refusal.EPOCH]
    assert (swapped.epoch.origin, swapped.epoch.since) == (Origin.RESTORED, known.now)
    assert swapped.epoch.base == latest.tally
    assert cell_of(store, "b").version == 0


# --- errors ---------------------------------------------------------------------------------------------------------


def test_an_interrupted_call_leaves_nothing_half_written(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sql, "meta_row", interrupt)
        with pytest.raises(KeyboardInterrupt):
            swap(store, claim("a"))
    assert cell_of(store, "a").version == 0
    assert win(store, claim("a"))[0].version == 1


# --- URLs -----------------------------------------------------------------------------------------------------------


def test_a_url_names_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ada")
    assert locate("sqlite:///store.db") == (tmp_path / "store.db", timedelta(seconds=10))
    assert locate("sqlite:////var/lib/a%20b%3F.db?timeout=2.5") == (Path("/var/lib/a b?.db"), timedelta(seconds=2.5))
    assert locate("sqlite:///~/store.db")[0] == Path("/home/ada/store.db")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("sqlite://store.db", "with four slashes"),
        ("sqlite:store.db", "with four slashes"),
        ("sqlite:///", "name a plain file"),
        ("sqlite:///:memory:", "cannot be seen by another process"),
        ("sqlite:///a.db?mode=ro&timeout=1", "sqlite knows no mode; it knows timeout"),
        ("sqlite:///a.db?timeout=soon", "timeout=soon is not a number of seconds"),
        ("sqlite:///a.db?timeout=-1", "timeout=-1 is not a number of seconds"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str, text: str) -> None:
    with pytest.raises(BadInput, match=text):
        open_store(url)


def test_a_lock_that_is_given_back_is_had_within_20_ms_however_long_it_was_waited_for() -> None:
    waits = list(pauses(timedelta(seconds=10)))
    assert (max(waits), round(sum(waits), 6), waits[0], waits[-1]) == (0.02, 10.0, 0.0005, 0.0)
