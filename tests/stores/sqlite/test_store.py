"""The SQLite store under real conditions: what its file may be, what may happen to it, and what it then says."""

import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from cronce import Cronce
from cronce.errors import (
    BadInput,
    StoreCopied,
    StoreCorrupt,
    StoreForgot,
    StoreFull,
    StoreNewer,
    StoreOnNetwork,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnusable,
)
from cronce.model import Cell, Mark, Origin, Refusal, to_us
from cronce.runtime.node import host_name
from cronce.stores import open_store, sql
from cronce.stores.base import By, Scan
from cronce.stores.sql import bounds
from cronce.stores.sqlite import AFTER_ALL_TEXT, SqliteStore, adopt_file, locate
from cronce.stores.sqlite.file import explained, url_of
from cronce.stores.sqlite.statements import say_scan
from cronce.testing.contract import DAY, HOUR, cell_of, change, claim, keys_of, put, refusals, swap, win
from tests.house.needs import needs
from tests.stores.forks import NOBODY, Child, ask, locked, opened
from tests.stores.tables import NFS, PLAIN

SHORT = timedelta(seconds=0.2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    store.close()


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Path]:
    """A directory that every user may look into, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        place.chmod(0o755)
        yield place


def raw(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, timeout=10)


def names_in(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.iterdir())


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
    assert store._line is not None
    assert store._line.db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._line.db.execute("PRAGMA synchronous").fetchone() == (2,)


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


# --- finding without reading the shelf ------------------------------------------------------------------------------

QUICK = [
    ("key", None, "SEARCH cronce_cells USING INDEX cronce_by_key (key>? AND key<?)"),
    ("at", None, "SEARCH cronce_cells USING INDEX cronce_by_at ((at,key)>(?,?) AND at<?)"),
    ("until", Mark.OPEN, "SEARCH cronce_cells USING INDEX cronce_open ((until,key)>(?,?) AND until<?)"),
    ("at", Mark.ATTENTION, "SEARCH cronce_cells USING INDEX cronce_attention ((at,key)>(?,?) AND at<?)"),
]


@pytest.mark.parametrize(("by", "mark", "plan"), QUICK)
def test_a_scan_goes_along_its_index_and_sorts_nothing(
    store: SqliteStore, path: Path, by: By, mark: Mark | None, plan: str
) -> None:
    statement = say_scan(by, mark, newest_first=False)
    db = raw(path)
    steps = db.execute("EXPLAIN QUERY PLAN " + statement, bounds(Scan("x"), AFTER_ALL_TEXT)).fetchall()
    assert [step[3] for step in steps] == [plan]
    db.close()


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize(
    ("by", "mark"), [(by, mark) for by, mark, _ in QUICK] + [("key", Mark.OPEN), ("at", Mark.OPEN)]
)
def test_a_scan_costs_what_it_finds_not_what_is_there(
    store: SqliteStore, by: By, mark: Mark | None, newest_first: bool
) -> None:
    """Counted in steps of SQLite's machine, a thousand at a time: one step more per cell would be three thousand."""
    win(store, *(put(f"run/{number:04}", at=DAY + number * HOUR, ttl=HOUR) for number in range(3000)))
    win(store, put("run/o", Mark.OPEN, at=DAY, ttl=HOUR), put("run/x", Mark.ATTENTION, at=DAY, ttl=HOUR))
    assert store._line is not None
    thousands: list[None] = []
    store._line.db.set_progress_handler(lambda: thousands.append(None), 1000)
    assert len(store.scan(Scan("run/", by=by, mark=mark, newest_first=newest_first, limit=2)).cells) == (
        1 if mark else 2
    )
    assert len(thousands) <= 1


def test_a_scan_back_from_an_instant_enters_its_index_there(store: SqliteStore) -> None:
    """It walked to it over all that came after: an hour of a month ago took seconds among a million runs."""
    win(store, *(put(f"run/{number:04}", at=DAY + number * HOUR, ttl=HOUR) for number in range(3000)))
    assert store._line is not None
    thousands: list[None] = []
    store._line.db.set_progress_handler(lambda: thousands.append(None), 1000)
    page = store.scan(Scan("run/", "at", upto=DAY + 5 * HOUR, newest_first=True, limit=2))
    assert [cell.key for cell in page.cells] == ["run/0005", "run/0004"]
    assert len(thousands) <= 1
    rest = store.scan(Scan("run/", "at", upto=DAY + 5 * HOUR, newest_first=True, after=page.next))
    assert [cell.key for cell in rest.cells] == ["run/0003", "run/0002", "run/0001", "run/0000"]


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


# --- what the file may be -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["a b.db", "né☃.db", "a?b#c%20.db", "it's; --.db", "line\nbreak.db", "-wal", ":memory"]
)
def test_odd_names_are_names(tmp_path: Path, name: str) -> None:
    store = open_store(url_of(tmp_path / name))
    (cell,) = win(store, claim("a"))
    assert cell_of(SqliteStore(tmp_path / name), "a") == cell
    assert names_in(tmp_path) == sorted([name, f"{name}-wal", f"{name}-shm"])


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.db")
    win(open_store(url_of(path)), claim("a"))
    assert path.exists()


@pytest.mark.parametrize("name", ["", ":memory:", "file:x.db", "a\0b"])
def test_what_is_no_path_is_refused(name: str) -> None:
    with pytest.raises(BadInput):
        SqliteStore(name)


def test_a_relative_path_stays_the_same_file_when_the_process_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("store.db")
    monkeypatch.chdir("/")
    store.close()
    assert SqliteStore(tmp_path / "store.db").load([]).epoch.tally == 0


@pytest.mark.parametrize("directory", ["new", "no/such"])
def test_a_missing_directory_is_an_error_and_is_not_made(tmp_path: Path, directory: str) -> None:
    with pytest.raises(
        StoreUnusable, match=rf"the directory .*/{directory} does not exist, or .* `mkdir -p .*/{directory}`"
    ):
        SqliteStore(tmp_path / directory / "store.db")
    assert names_in(tmp_path) == []


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match=r"is not a plain file; name one, for instance .*/cronce\.db"):
        SqliteStore(tmp_path)


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnusable, match=r"file is not a directory; use another path"):
        SqliteStore(tmp_path / "file" / "store.db")


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreUnusable, match="is not a plain file"):
        SqliteStore(tmp_path / "pipe")


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    assert SqliteStore(path).load([]).epoch.origin is Origin.MADE


def test_a_text_file_is_not_a_database(path: Path) -> None:
    path.write_text("Dear diary,\n" * 1000)
    with pytest.raises(StoreCorrupt, match="is not an SQLite database; name another file"):
        SqliteStore(path)
    assert path.read_text() == "Dear diary,\n" * 1000


def test_the_database_of_something_else_is_left_alone(path: Path) -> None:
    db = raw(path)
    db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="is an SQLite database of something else; name a file of cronce's own"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_newer_store_is_refused_at_the_door(path: Path) -> None:
    SqliteStore(path).close()
    db = raw(path)
    db.execute("UPDATE cronce_meta SET schema = 2")
    db.execute("ALTER TABLE cronce_meta RENAME COLUMN origin TO provenance")
    db.close()
    for way in (SqliteStore, adopt_file):
        with pytest.raises(StoreNewer, match="its tables are version 2, this one knows 1; upgrade this one"):
            way(path)


def test_a_store_that_is_upgraded_under_a_running_process_is_refused(store: SqliteStore, path: Path) -> None:
    db = raw(path)
    db.execute("UPDATE cronce_meta SET schema = 2")
    db.close()
    with pytest.raises(StoreNewer):
        swap(store, claim("a"))
    with pytest.raises(StoreNewer):
        store.scan(Scan(""))


# --- damage ---------------------------------------------------------------------------------------------------------


def damage(path: Path, start: int, length: int) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xa5" * length)


def filled(path: Path) -> None:
    store = SqliteStore(path)
    win(store, *(claim(f"run/{number:03}", "x" * 500, at=DAY) for number in range(300)))
    store.close()


def test_a_damaged_header_is_refused(path: Path) -> None:
    filled(path)
    damage(path, 0, 100)
    with pytest.raises(StoreCorrupt, match="restore a backup"):
        SqliteStore(path)


def test_damaged_pages_are_refused_when_they_are_read(path: Path) -> None:
    filled(path)
    damage(path, 7 * 4096, path.stat().st_size - 7 * 4096)
    store = SqliteStore(path)
    for work in (lambda: store.scan(Scan("")), lambda: swap(store, claim("run/200"))):
        with pytest.raises(StoreCorrupt, match="is damaged; stop all processes and restore it from a backup"):
            work()
    store.close()


@pytest.mark.parametrize("statement", ["DROP TABLE cronce_cells", "DELETE FROM cronce_meta"])
def test_tables_that_were_tampered_with_are_refused(store: SqliteStore, path: Path, statement: str) -> None:
    db = raw(path)
    db.execute(statement)
    db.close()
    with pytest.raises(StoreCorrupt, match="restore it from a backup"):
        swap(store, claim("a"))


# --- rights and room ------------------------------------------------------------------------------------------------


def test_a_user_without_write_access_may_read_while_others_have_it_open(public: Path) -> None:
    path = public / "store.db"
    with opened(path):
        protect(public)
        assert ask(lambda: cell_of(SqliteStore(path), "a").value, user=NOBODY) == "claimed"
        kind, text = ask(lambda: swap(SqliteStore(path), claim("b")), user=NOBODY)
        assert kind == StoreReadOnly.__name__
        assert text.startswith(f"{path} cannot be written; let this user write the file and its directory")
        release(public)


def test_a_user_without_write_access_cannot_open_a_store_alone(public: Path) -> None:
    path = public / "store.db"
    SqliteStore(path).close()
    protect(public)
    kind, text = ask(lambda: SqliteStore(path), user=NOBODY)
    assert (kind, "let this user write the file and its directory" in text) == (StoreReadOnly.__name__, True)
    release(public)


@pytest.mark.parametrize("name", ["store.db", "new/store.db"])
def test_a_user_without_write_access_cannot_make_a_store(public: Path, name: str) -> None:
    protect(public)
    kind, text = ask(lambda: SqliteStore(public / name), user=NOBODY)
    assert (kind, "this user" in text) == (StoreReadOnly.__name__, True)
    release(public)


def test_a_file_that_may_not_be_read_is_refused(public: Path) -> None:
    SqliteStore(public / "store.db").close()
    (public / "store.db").chmod(0)
    kind, _ = ask(lambda: SqliteStore(public / "store.db"), user=NOBODY)
    assert kind == StoreReadOnly.__name__
    release(public)


def protect(directory: Path) -> None:
    for file in directory.iterdir():
        file.chmod(0o444)
    directory.chmod(0o555)


def release(directory: Path) -> None:
    directory.chmod(0o755)
    for file in directory.iterdir():
        file.chmod(0o644)


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A disk of 512 KB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    if not mount or subprocess.run(command, check=False, capture_output=True).returncode:
        needs("tmpfs", "run as root")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def test_a_full_disk_is_named_and_nothing_is_half_written(tiny: Path) -> None:
    store = SqliteStore(tiny / "store.db")
    (small,) = win(store, claim("small"))
    epoch = store.load([]).epoch
    with pytest.raises(StoreFull, match=r"store\.db has no room on its disk and nothing was written; make room"):
        swap(store, change(small), *(claim(f"run/{number}", "x" * 20_000) for number in range(40)))
    assert (store.load([]).epoch, cell_of(store, "small")) == (epoch, small)
    assert keys_of(SqliteStore(tiny / "store.db").scan(Scan("")).cells) == ["small"]
    win(store, change(small))
    store.close()


def test_a_disk_that_is_full_already(tiny: Path) -> None:
    (tiny / "ballast").write_bytes(b"\0" * 500 * 1024)
    with pytest.raises((StoreFull, StoreUnavailable), match=r"store\.db"):
        SqliteStore(tiny / "store.db")
    (tiny / "ballast").unlink()
    win(SqliteStore(tiny / "store.db"), claim("a"))


def test_a_limit_on_the_size_of_files_is_named(path: Path) -> None:
    def fill() -> None:
        store = SqliteStore(path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        swap(store, *(claim(f"run/{number}", "x" * 20_000) for number in range(40)))

    kind, text = ask(fill)
    assert (kind, "could not grow and nothing was written" in text) == (StoreFull.__name__, True)
    assert SqliteStore(path).load([]).epoch.tally == 0


# --- copies ---------------------------------------------------------------------------------------------------------


def test_a_copy_is_refused_with_the_command_that_adopts_it(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    """Also of a store so young that all it knows would still be in its log."""
    copy = tmp_path / "a copy.db"
    shutil.copy(path, copy)
    with pytest.raises(StoreCopied, match=f"run `cronce store adopt sqlite:///{tmp_path}/a%20copy.db`"):
        SqliteStore(copy)
    assert win(store, claim("a"))[0].version == 1


def test_an_adopted_copy_begins_a_new_life(path: Path, tmp_path: Path) -> None:
    store, copy = SqliteStore(path), tmp_path / "copy.db"
    last = swap(store, claim("a"))
    store.close()
    shutil.copy(path, copy)
    epoch = adopt_file(copy)
    assert (epoch.origin, epoch.since, epoch.base, epoch.tally) == (Origin.RESTORED, last.now, 1, 1)
    assert epoch.birth > last.epoch.birth
    adopted = SqliteStore(copy)
    assert adopted.load([]).epoch == epoch
    assert refusals(adopted.swap([claim("b")], last.epoch.seen)) == [Refusal.EPOCH]
    assert win(SqliteStore(path), claim("b"))[0].version == 2


def test_a_moved_file_is_the_same_store(path: Path, tmp_path: Path) -> None:
    filled(path)
    path.rename(tmp_path / "moved.db")
    assert SqliteStore(tmp_path / "moved.db").load([]).epoch.origin is Origin.MADE


def test_a_second_name_for_the_file_is_refused(path: Path, tmp_path: Path) -> None:
    filled(path)
    (tmp_path / "second.db").hardlink_to(path)
    with pytest.raises(StoreCopied, match=r"has a second name \(a hard link\)"):
        SqliteStore(tmp_path / "second.db")


@pytest.mark.usefixtures("watchful")
def test_a_symbolic_link_leads_to_the_same_store(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(path)
    linked = SqliteStore(tmp_path / "link.db")
    win(linked, claim("a"))
    assert refusals(swap(store, claim("a"))) == [Refusal.VERSION]
    (tmp_path / "link.db").unlink()
    (tmp_path / "link.db").symlink_to(tmp_path / "elsewhere.db")
    with pytest.raises(StoreForgot):
        swap(linked, claim("b"))


# --- the file behind the name ---------------------------------------------------------------------------------------


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at the files with every call, not only when some time has passed."""
    monkeypatch.setattr("cronce.stores.sqlite.FILES_CHECKED_EVERY", 0.0)


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


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_IOERR_FSYNC, StoreUnavailable),
        (sqlite3.SQLITE_IOERR_SHMSIZE, StoreUnavailable),
        (sqlite3.SQLITE_NOMEM, StoreUnavailable),
        (sqlite3.SQLITE_INTERRUPT, StoreUnavailable),
        (sqlite3.SQLITE_IOERR_WRITE, StoreFull),
        (sqlite3.SQLITE_FULL, StoreFull),
        (sqlite3.SQLITE_READONLY_DIRECTORY, StoreReadOnly),
        (sqlite3.SQLITE_PERM, StoreReadOnly),
        (sqlite3.SQLITE_CORRUPT_INDEX, StoreCorrupt),
        (sqlite3.SQLITE_NOTADB, StoreCorrupt),
        (sqlite3.SQLITE_ERROR, StoreCorrupt),
        (sqlite3.SQLITE_CANTOPEN_NOTEMPDIR, StoreUnavailable),
    ],
)
def test_every_error_of_the_driver_is_one_of_ours(path: Path, code: int, kind: type[Exception]) -> None:
    """What a failed flush leaves behind may come back after a crash: so a write may have succeeded."""
    error = sqlite3.OperationalError("the driver's words")
    error.sqlite_errorcode = code
    told = explained(error, path)
    assert type(told) is kind
    assert str(told).startswith(str(path))
    assert ";" in str(told)


def test_an_interrupted_call_leaves_nothing_half_written(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sql, "meta_row", interrupt)
        with pytest.raises(KeyboardInterrupt):
            swap(store, claim("a"))
    assert cell_of(store, "a").version == 0
    assert win(store, claim("a"))[0].version == 1


# --- network file systems -------------------------------------------------------------------------------------------


def test_a_network_file_system_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    table = NFS.replace("/srv/shared", str(tmp_path))
    with pytest.raises(StoreOnNetwork, match=f"nfs4.*run `cronce store adopt sqlite:///{tmp_path}/store.db`"):
        SqliteStore(tmp_path / "store.db", mount_table=table)
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreOnNetwork):
        SqliteStore(tmp_path / "empty.db", mount_table=table)
    assert names_in(tmp_path) == ["empty.db"]
    assert (tmp_path / "empty.db").stat().st_size == 0


def test_a_store_that_came_to_lie_on_a_network_file_system_is_refused(path: Path, tmp_path: Path) -> None:
    SqliteStore(path, mount_table=PLAIN).close()
    with pytest.raises(StoreOnNetwork):
        SqliteStore(path, mount_table=NFS.replace("/srv/shared", str(tmp_path)))


@pytest.mark.parametrize("there", [True, False])
def test_a_network_file_system_is_adopted_on_purpose_and_remembered(path: Path, tmp_path: Path, there: bool) -> None:
    table = NFS.replace("/srv/shared", str(tmp_path))
    if there:
        SqliteStore(path, mount_table=PLAIN).close()
    epoch = adopt_file(path, mount_table=table)
    assert epoch.origin is (Origin.RESTORED if there else Origin.MADE)
    assert SqliteStore(path, mount_table=table).load([]).epoch == epoch


def test_where_no_table_can_be_read_nobody_can_tell(path: Path) -> None:
    SqliteStore(path, mount_table="").close()


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


# --- the view for people ----------------------------------------------------------------------------------------------


def test_runs_can_be_read_in_plain_sql(path: Path, tmp_path: Path) -> None:
    cron = Cronce(f"sqlite:///{path}")

    @cron.job("@daily", name="report", start_within="3650d")
    def report() -> None:
        raise RuntimeError("no paper")

    with pytest.raises(RuntimeError, match="no paper"):
        report.at("2026-03-29")()
    cron.close()
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    (row,) = map(dict, db.execute("SELECT * FROM cronce_runs"))
    db.close()
    assert row.pop("holder").startswith(host_name())
    assert row.pop("started") <= row.pop("finished")
    assert len(row.pop("fence")) == len("00000000000000-000000000000")
    assert row.pop("until").endswith("Z")
    assert row == {
        "job": "report",
        "slot": "2026-03-29T00:00:00Z",
        "request": "",
        "state": "closed",
        "outcome": "failed",
        "reason": "RuntimeError: no paper",
        "grant": 1,
        "due": "2026-03-29T00:00:00.000Z",
    }
