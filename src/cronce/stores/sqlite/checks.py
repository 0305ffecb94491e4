"""What `cronce doctor` checks of an SQLite file. What opening refuses is not checked again: a copy, a hard link, a
network file system that was not adopted."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cronce import mounts
from cronce.stores.checks import Check, ok, warn

MIN_DISK_BYTES: Final = 100_000_000
"""Bytes. With less left on the disk there is a warning."""


def checks(path: str, mount_table: str | None = None) -> Iterator[Check]:
    """`mount_table` stands in for this machine's, for tests."""
    table = mounts.current_table() if mount_table is None else mount_table
    real = Path(path).resolve()
    yield _name(Path(path), real)
    yield _disk(mounts.mount_of(real, table), real)
    yield _room(real)
    yield _readers(real)
    yield ok("version", f"SQLite {sqlite3.sqlite_version}")


def _name(path: Path, real: Path) -> Check:
    """That it is no copy and has no hard link was checked when it was opened."""
    if path != real:
        return ok("file", f"{path} points to {real}, which is not a copy and has no hard link")
    return ok("file", f"{real} is not a copy and has no hard link")


def _disk(mount: mounts.Mount | None, real: Path) -> Check:
    if mount is None:
        return ok("disk", "cannot find out the kind of its file system here; it must not be a network file system")
    if mount.kind in mounts.NETWORK_FILE_SYSTEMS:
        says = f"on a network file system ({mount.kind}), which was adopted: its locks do not reach other machines"
        return warn("disk", says, "use it from one machine only, or move it to a local disk or a database server")
    if mount.kind in mounts.FLEETING:
        return warn("disk", f"in memory ({mount.kind}): a reboot empties it", f"move {real} to a disk")
    return ok("disk", f"on a local file system ({mount.kind})")


def _room(real: Path) -> Check:
    disk = os.statvfs(real)
    left = disk.f_bavail * disk.f_frsize
    says = f"{real.stat().st_size / 1e6:,.0f} MB used, {left / 1e6:,.0f} MB left"
    return (
        ok("room", says)
        if left >= MIN_DISK_BYTES
        else warn("room", says, "make room: without it nothing can be claimed")
    )


def _readers(real: Path) -> Check:
    mode = real.stat().st_mode
    if mode & 0o077:
        says = f"other users of this machine may open it ({mode & 0o777:o}), and what jobs printed is in it"
        return warn("readers", says, f"if you do not want that: chmod 600 {real}")
    return ok("readers", "only its user may open it")
