"""What the doctor asks of an SQLite file: its disk, its room, its names, and who may read it."""

from pathlib import Path

import pytest

from cronce.stores import open_store
from cronce.stores.checks import warn
from cronce.stores.sqlite.checks import checks


def table(kind: str) -> str:
    return f"1 0 8:1 / / rw - {kind} /dev/sda1 rw\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    open_store(f"sqlite:///{tmp_path}/cronce.db").close()
    return tmp_path / "cronce.db"


def test_an_sqlite_file_on_a_local_disk_is_well(file: Path) -> None:
    found = {check.name: check for check in checks(str(file), table("ext4"))}
    assert {check.verdict for check in found.values()} == {"ok"}
    assert list(found) == ["file", "disk", "room", "readers", "version"]
    assert found["file"].says == f"{file} is not a copy and has no hard link"
    assert found["disk"].says == "on a local file system (ext4)"


@pytest.mark.parametrize(
    ("kind", "says", "remedy"),
    [
        (
            "nfs4",
            "on a network file system (nfs4), which was adopted: its locks do not reach other machines",
            "use it from one machine only, or move it to a local disk or a database server",
        ),
        ("tmpfs", "in memory (tmpfs): a reboot empties it", "move {} to a disk"),
    ],
)
def test_an_sqlite_file_in_a_bad_place(file: Path, kind: str, says: str, remedy: str) -> None:
    found = {check.name: check for check in checks(str(file), table(kind))}
    assert found["disk"] == warn("disk", says, remedy.format(file))


def test_an_sqlite_file_by_another_name_that_others_may_read(file: Path) -> None:
    link = file.with_name("link.db")
    link.symlink_to(file)
    file.chmod(0o644)
    found = {check.name: check for check in checks(str(link), "")}
    assert found["file"].says == f"{link} points to {file}, which is not a copy and has no hard link"
    assert found["disk"].verdict == "ok"
    assert found["readers"] == warn(
        "readers",
        "other users of this machine may open it (644), and what jobs printed is in it",
        f"if you do not want that: chmod 600 {file}",
    )


def test_an_sqlite_file_on_a_full_disk(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronce.stores.sqlite.checks.MIN_DISK_BYTES", 1 << 62)
    found = {check.name: check for check in checks(str(file), "")}
    assert found["room"].verdict == "warn"
    assert found["room"].remedy == "make room: without it nothing can be claimed"
