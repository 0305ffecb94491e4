"""Which file system a path rests on, read from Linux's mount table. The table is text, so recorded ones can be asked.

A lock on a network file system may not reach the other machines, and SQLite's shared memory never does: two hosts would
each believe that they hold the only lock. Where there is no table to read (macOS) the kind is unknown, and the result
is None.
"""

import os
import re
from collections.abc import Iterator
from typing import Final

from cronce.value import NamedTuple

MOUNT_TABLE: Final = "/proc/self/mountinfo"

NETWORK_FILE_SYSTEMS: Final = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "davfs"),
        *("ceph", "glusterfs", "lustre", "gpfs", "beegfs", "orangefs", "pvfs2", "panfs", "gfs2", "ocfs2"),
        *("9p", "virtiofs", "vboxsf", "prl_fs", "fuse.vmhgfs-fuse"),
        *("fuse.sshfs", "fuse.curlftpfs", "fuse.davfs2", "fuse.smbnetfs", "fuse.rclone", "fuse.cvmfs2"),
        *("fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.mfs", "fuse.moosefs"),
        *("fuse.juicefs", "fuse.seaweedfs"),
        *("fuse.s3fs", "fuse.mount-s3", "fuse.goofys", "fuse.gcsfuse", "fuse.blobfuse", "fuse.blobfuse2"),
    )
)
"""Kinds that other machines may write as well, a virtual machine's host among them."""

FLEETING: Final = frozenset(("tmpfs", "ramfs"))
"""Kinds in memory, which a reboot empties."""

_ESCAPED: Final = r"\\([0-7]{3})"


class Mount(NamedTuple):
    """One line of the table: what is mounted where, and on top of which other mount."""

    number: int
    parent: int
    point: str
    kind: str


def current_table() -> str:
    try:
        with open(MOUNT_TABLE, encoding="utf-8", errors="surrogateescape") as table:  # noqa: PTH123  every start pays for pathlib
            return table.read()
    except OSError:
        return ""


def network_kind(path: str | os.PathLike[str], table: str) -> str | None:
    """The kind of network file system that a path rests on. None: it is a local one, or the kind is unknown."""
    mount = mount_of(path, table)
    return mount.kind if mount and mount.kind in NETWORK_FILE_SYSTEMS else None


def mount_of(path: str | os.PathLike[str], table: str) -> Mount | None:
    """Walk down as the kernel does: from mount to mount, each entered at the first point on the way.

    So a file system mounted over a directory hides what was mounted below that directory before.
    """
    mounts = list(_read(table))
    known = {mount.number for mount in mounts}
    here, below = None, [mount for mount in mounts if mount.parent not in known or mount.parent == mount.number]
    while ahead := [mount for mount in reversed(below) if _is_below(os.fspath(path), mount.point)]:
        here = min(ahead, key=lambda mount: len(mount.point))
        below = [mount for mount in mounts if mount.parent == here.number != mount.number]
    return here


def _is_below(path: str, point: str) -> bool:
    return path == point or path.startswith(point if point == "/" else f"{point}/")


def _read(table: str) -> Iterator[Mount]:
    """`36 35 98:0 /root /mount/point options shared:1 - kind source options`; the fields before the dash vary."""
    for line in table.splitlines():
        fields = line.split()
        if "-" in fields[6:]:
            dash = fields.index("-", 6)
            yield Mount(int(fields[0]), int(fields[1]), _plain(fields[4]), fields[dash + 1])


def _plain(field: str) -> str:
    """Blanks and backslashes of a path are written in the table as octal, `\\040`."""
    return re.sub(_ESCAPED, lambda match: chr(int(match[1], 8)), field) if "\\" in field else field
