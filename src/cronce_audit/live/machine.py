"""Look at a machine. What may not be read as this user is told as unread: another's crontab, another's open files."""

import ctypes
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from cronce import mounts
from cronce_audit.common import ZoneSet
from cronce_audit.engine import Read, read_source
from cronce_audit.live.facts import JobStore, MachineClock, Process
from cronce_audit.live.schedulers import scheduler_of
from cronce_audit.model import Place, Source, Unparsed

CRONTABS: Final = ("etc/crontab", "etc/anacrontab", "etc/cron.d/*", "var/spool/cron/crontabs/*", "var/spool/cron/*")
UNITS: Final = ("etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system")
"""In the order in which systemd looks: the first that has a unit is the one that counts."""
_CONTAINER: Final = re.compile(r"(?:docker|containerd|crio|libpod|lxc|kubepods)\S*?([0-9a-f]{64}|lxc/[\w.-]+)")
_SQLITE: Final = b"SQLite format 3\0"
_JOBS: Final = b"apscheduler_jobs"
_HEAD: Final = 64 * 1024
"""Bytes at the head of an SQLite file that hold its table of tables, where there are not hundreds of them."""
_UNSYNCHRONISED: Final = 0x0040


class _Look(NamedTuple):
    """What was seen so far, and what could not be."""

    facts: list[Any]
    unread: list[Unparsed]


def look_at(root: Path, zone: str, *, in_step: bool | None) -> Read:
    """Crontabs of all users, cron.d, timers, running schedulers, job stores and their holders, the clock."""
    seen = _Look(
        [MachineClock(in_step, zone, Place("etc/localtime", 1)), ZoneSet(zone, Place("etc/localtime", 1), "")], []
    )
    sources = [*_texts(root, [*_crontabs(root), *_enabled_units(root)], seen)]
    for source in sources:
        read = read_source(source)
        seen.facts.extend(read.facts)
        seen.unread.extend(read.unparsed)
    processes = list(_processes(root))
    seen.facts.extend(_schedulers(processes))
    seen.facts.extend(_job_stores(root, processes, seen))
    return Read(seen.facts, seen.unread, len(sources) + len(processes))


def clock_in_step() -> bool | None:
    """What the kernel says: somebody corrects its clock, nobody does, or it cannot be asked (not on Linux)."""
    state = ctypes.create_string_buffer(512)  # struct timex; its first word says "only asking"
    try:
        ctypes.CDLL(None, use_errno=True).adjtimex(state)
    except (OSError, AttributeError):
        return None
    status = int.from_bytes(state.raw[_STATUS : _STATUS + 4], "little", signed=True)
    return not status & _UNSYNCHRONISED


_STATUS: Final = ctypes.sizeof(ctypes.c_long) * 5
"""After modes (padded to a long), offset, freq, maxerror and esterror."""


# --- what is fired by files -----------------------------------------------------------------------------------------


def _crontabs(root: Path) -> Iterator[Path]:
    for pattern in CRONTABS:
        yield from sorted(path for path in root.glob(pattern) if path.is_file() and not path.name.startswith("."))
    for folder in ("var/spool/cron/crontabs", "var/spool/cron"):
        if (root / folder).is_dir() and not os.access(root / folder, os.R_OK | os.X_OK):
            yield root / folder


def _enabled_units(root: Path) -> Iterator[Path]:
    """The timers that are wanted by something, and the services they start."""
    timers = sorted({link.name for folder in UNITS for link in (root / folder).glob("*.wants/*.timer")})
    services = [name.removesuffix("timer") + "service" for name in timers]
    for name in [*timers, *services]:
        found = next((root / folder / name for folder in UNITS if (root / folder / name).is_file()), None)
        if found:
            yield found


def _texts(root: Path, paths: Iterable[Path], seen: _Look) -> Iterator[Source]:
    for path in paths:
        below = path.relative_to(root).as_posix()
        try:
            yield Source(below, path.read_text(encoding="utf-8", errors="replace"))
        except OSError as error:
            seen.unread.append(Unparsed(Place(below, 1), f"{error.strerror}; root may read it"))


# --- what runs ------------------------------------------------------------------------------------------------------


class _Running(NamedTuple):
    pid: int
    parent: int
    words: tuple[str, ...]
    folder: Path
    """Of the process, below /proc."""


def _processes(root: Path) -> Iterator[_Running]:
    """Those with a command line: threads of the kernel have none. One that ends while it is looked at is left out."""
    for folder in sorted((root / "proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            words = tuple(os.fsdecode((folder / "cmdline").read_bytes()).rstrip("\0").split("\0"))
            parent = re.search(r"^PPid:\s*(\d+)", (folder / "status").read_text(), re.MULTILINE)
        except OSError:
            continue
        if words != ("",) and parent:
            yield _Running(int(folder.name), int(parent[1]), words, folder)


def _schedulers(processes: Iterable[_Running]) -> Iterator[Process]:
    """A child with its parent's words is a worker of the same program: one scheduler, not two."""
    by_pid = {process.pid: process for process in processes}
    for process in by_pid.values():
        what = scheduler_of(process.words)
        parent = by_pid.get(process.parent)
        if what and not (parent and scheduler_of(parent.words) == what):
            place = Place(f"proc/{process.pid}/cmdline", 1)
            yield Process(process.pid, process.words, what, _link(process.folder / "cwd"), _container(process), place)


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _container(process: _Running) -> str:
    try:
        found = _CONTAINER.search((process.folder / "cgroup").read_text())
    except OSError:
        return ""
    return found[1] if found else ""


# --- who holds a job store ------------------------------------------------------------------------------------------


def _job_stores(root: Path, processes: Iterable[_Running], seen: _Look) -> Iterator[JobStore]:
    table = _mount_table(root)
    for path, holders in sorted(_open_databases(processes, seen).items()):
        if _keeps_jobs(root / path.lstrip("/")):
            network = mounts.network_kind(path, table) or ""
            yield JobStore(path, tuple(sorted(holders)), network, Place(path.lstrip("/"), 1))


def _open_databases(processes: Iterable[_Running], seen: _Look) -> Mapping[str, set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    hidden = 0
    for process in processes:
        try:
            links = list(os.scandir(process.folder / "fd"))
        except OSError as error:
            hidden += isinstance(error, PermissionError)  # else it ended while we looked
            continue
        for link in links:
            path = _link(Path(link.path))
            if path.startswith("/") and not path.startswith(("/dev/", "/proc/")):
                found[path].add(process.pid)
    if hidden:
        why = f"the open files of {hidden} processes may not be read; root may"
        seen.unread.append(Unparsed(Place("proc", 1), why))
    return found


def _keeps_jobs(path: Path) -> bool:
    """Read as bytes: to open it as a database would be to take part in it."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return head.startswith(_SQLITE) and _JOBS in head


def _mount_table(root: Path) -> str:
    try:
        return (root / "proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return ""
