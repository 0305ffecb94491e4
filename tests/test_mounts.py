"""Which file system a path rests on, asked of recorded mount tables."""

import subprocess
from pathlib import Path

import pytest

from cronce.mounts import NETWORK_FILE_SYSTEMS, current_table, mount_of, network_kind
from tests.house.needs import tool
from tests.stores import tables


@pytest.mark.parametrize(
    ("table", "path", "kind"),
    [
        (tables.PLAIN, "/var/lib/cronce.db", "ext4"),
        (tables.PLAIN, "/home/ada/cronce.db", "xfs"),
        (tables.PLAIN, "/homely/cronce.db", "ext4"),
        (tables.PLAIN, "/home", "xfs"),
        (tables.PLAIN, "/dev/shm/cronce.db", "tmpfs"),
        (tables.NFS, "/srv/shared/jobs/cronce.db", "nfs4"),
        (tables.NFS, "/srv/cronce.db", "ext4"),
        (tables.NFS, "/mnt/old/cronce.db", "nfs"),
        (tables.CIFS, "/mnt/Team Files/cronce.db", "cifs"),
        (tables.CIFS, "/mnt/Team/cronce.db", "ext4"),
        (tables.CIFS, "/mnt/back\\slash/cronce.db", "smb3"),
        (tables.SSHFS, "/home/ada/remote/cronce.db", "fuse.sshfs"),
        (tables.SSHFS, "/home/ada/gate/cronce.db", "fuse.gocryptfs"),
        (tables.SSHFS, "/home/ada/usb/cronce.db", "fuseblk"),
        (tables.DOCKER, "/app/cronce.db", "overlay"),
        (tables.DOCKER, "/data/cronce.db", "ext4"),
        (tables.DOCKER, "/shared/cronce.db", "nfs4"),
        (tables.BTRFS, "/home/ada/cronce.db", "btrfs"),
        (tables.BTRFS, "/var/lib/cronce.db", "btrfs"),
        (tables.OVERMOUNTED, "/data/cronce.db", "ext4"),
        (tables.OVERMOUNTED, "/deep/er/cronce.db", "ext4"),
        (tables.OVERMOUNTED, "/net/cronce.db", "nfs4"),
        (tables.CHROOT, "/srv/shared/cronce.db", "nfs4"),
        (tables.CHROOT, "/tmp/cronce.db", "ext4"),
    ],
)
def test_a_path_rests_on_the_mount_that_the_kernel_would_find(table: str, path: str, kind: str) -> None:
    mount = mount_of(Path(path), table)
    assert mount is not None
    assert mount.kind == kind
    assert network_kind(Path(path), table) == (kind if kind.startswith(("nfs", "cifs", "smb", "fuse.sshfs")) else None)


@pytest.mark.parametrize(("table", "path"), [("", "/cronce.db"), ("not a table\n- -\n", "/"), (tables.CHROOT, "/x.db")])
def test_where_nobody_can_tell_nothing_is_said(table: str, path: str) -> None:
    assert mount_of(Path(path), table) is None
    assert network_kind(Path(path), table) is None


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "lustre", "fuse.sshfs", "afs"]
)
def test_these_are_shared_between_machines(kind: str) -> None:
    assert kind in NETWORK_FILE_SYSTEMS


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "f2fs", "apfs", "fuseblk"])
def test_these_are_not(kind: str) -> None:
    assert kind not in NETWORK_FILE_SYSTEMS


def test_it_agrees_with_this_machine(tmp_path: Path) -> None:
    findmnt = tool("findmnt", "apt-get install util-linux")
    told = subprocess.run([findmnt, "-nro", "FSTYPE", "-T", tmp_path], capture_output=True, text=True, check=True)
    mount = mount_of(tmp_path, current_table())
    assert mount is not None
    assert mount.kind == told.stdout.split()[-1]
