"""The file of an SQLite store: what may be one, damage, rights and room, copies, network file systems."""

import os
import resource
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

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
from cronce.model import Origin, Refusal
from cronce.stores import open_store, url_of
from cronce.stores.base import Scan
from cronce.stores.sqlite import SqliteStore, adopt_file
from cronce.stores.sqlite.file import explained
from cronce.testing.contract import DAY, cell_of, change, claim, keys_of, refusals, swap, win
from tests.house.needs import needs
from tests.stores.forks import NOBODY, ask, opened
from tests.stores.sqlite.files import raw
from tests.stores.tables import NFS, PLAIN


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Path]:
    """A directory that every user may look into, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        place.chmod(0o755)
        yield place


def names_in(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.iterdir())


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
    win(store, claim("a"))
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


def test_a_user_without_write_access_cannot_make_a_store(public: Path) -> None:
    protect(public)
    kind, text = ask(lambda: SqliteStore(public / "store.db"), user=NOBODY)
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
