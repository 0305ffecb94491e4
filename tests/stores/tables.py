"""Mount tables as Linux shows them (/proc/self/mountinfo), of machines of many kinds."""

PLAIN = r"""
21 27 0:20 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
22 27 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:13 - proc proc rw
23 27 0:5 / /dev rw,nosuid shared:2 - devtmpfs udev rw,size=8104640k,nr_inodes=2026160,mode=755,inode64
24 23 0:22 / /dev/pts rw,nosuid,noexec,relatime shared:3 - devpts devpts rw,gid=5,mode=620,ptmxmode=000
25 27 0:23 / /run rw,nosuid,nodev,noexec,relatime shared:5 - tmpfs tmpfs rw,size=1627640k,mode=755,inode64
27 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
28 23 0:24 / /dev/shm rw,nosuid,nodev shared:4 - tmpfs tmpfs rw,inode64
88 27 259:1 / /boot/efi rw,relatime shared:37 - vfat /dev/nvme0n1p1 rw,fmask=0077,dmask=0077,codepage=437
91 27 259:3 / /home rw,relatime shared:39 - xfs /dev/nvme0n1p3 rw,attr2,inode64,logbufs=8,logbsize=32k,noquota
"""

NFS = PLAIN + (
    r"""
101 27 0:45 / /srv/shared rw,relatime shared:51 - nfs4 filer.example.org:/export/shared rw,vers=4.2,rsize=1048576,"""
    r"""wsize=1048576,namlen=255,hard,proto=tcp,timeo=600,retrans=2,sec=sys,clientaddr=10.0.0.7,local_lock=none
104 27 0:47 / /mnt/old rw,relatime shared:54 - nfs 10.0.0.3:/vol/old rw,vers=3,rsize=65536,hard,nolock,proto=tcp
"""
)

CIFS = PLAIN + (
    r"""
110 27 0:50 / /mnt/Team\040Files rw,relatime shared:60 - cifs //nas/Team\040Files rw,vers=3.1.1,cache=strict,"""
    r"""username=ada,uid=1000,forceuid,gid=1000,addr=10.0.0.9,file_mode=0755,dir_mode=0755,soft,nounix,serverino
111 27 0:51 / /mnt/back\134slash rw,relatime shared:61 - smb3 //nas/odd rw,vers=3.1.1
"""
)

SSHFS = PLAIN + (
    r"""
120 91 0:55 / /home/ada/remote rw,nosuid,nodev,relatime shared:70 - fuse.sshfs ada@far.example.org: rw,user_id=1000
121 91 0:56 / /home/ada/gate rw,nosuid,nodev,relatime shared:71 - fuse.gocryptfs /home/ada/.vault rw,user_id=1000
122 91 8:33 / /home/ada/usb rw,nosuid,nodev,relatime shared:72 - fuseblk /dev/sdc1 rw,user_id=0,blksize=4096
"""
)

DOCKER = r"""
612 528 0:62 / / rw,relatime master:190 - overlay overlay rw,lowerdir=/l/A:/l/B,upperdir=/u,workdir=/w
613 612 0:65 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
614 612 0:66 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755,inode64
620 612 259:2 /var/lib/docker/containers/f00/hosts /etc/hosts rw,relatime - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
621 612 259:2 /var/lib/docker/volumes/cronce/_data /data rw,relatime master:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
622 612 0:45 /jobs /shared rw,relatime master:51 - nfs4 filer.example.org:/export/shared rw,vers=4.2,hard,proto=tcp
"""

BTRFS = r"""
60 1 0:32 /@ / rw,noatime shared:1 - btrfs /dev/mapper/luks rw,compress=zstd:1,ssd,space_cache=v2,subvolid=256,subvol=/@
61 60 0:32 /@home /home rw,noatime shared:30 - btrfs /dev/mapper/luks rw,compress=zstd:1,ssd,subvolid=257,subvol=/@home
62 60 0:32 /@var/lib /var/lib rw,noatime shared:31 - btrfs /dev/mapper/luks rw,ssd,subvolid=258,subvol=/@var/lib
"""

OVERMOUNTED = (
    PLAIN
    + r"""
130 27 0:60 / /data rw,relatime shared:80 - nfs4 filer:/data rw,vers=4.2
131 130 8:1 / /data rw,relatime shared:81 - ext4 /dev/sda1 rw
140 27 0:61 / /deep/er rw,relatime shared:82 - nfs4 filer:/deep rw,vers=4.2
141 27 8:2 / /deep rw,relatime shared:83 - ext4 /dev/sdb1 rw
150 27 0:62 / /net rw,relatime shared:84 - autofs systemd-1 rw,fd=44,pgrp=1,timeout=0,minproto=5,maxproto=5,direct
151 150 0:63 / /net rw,relatime shared:85 - nfs4 filer:/net rw,vers=4.2
"""
)
"""Local over network, local over the parent of a network mount (hiding it), network over an automounter."""

CHROOT = r"""
301 300 0:70 / /srv/shared rw,relatime - nfs4 filer:/shared rw,vers=4.2
302 300 259:2 /jail/tmp /tmp rw,relatime - ext4 /dev/nvme0n1p2 rw
"""
"""In a jail whose root is no mount point the table does not show the root."""
