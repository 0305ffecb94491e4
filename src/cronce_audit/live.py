"""`--live`: the crontabs and timers of this machine, its running schedulers, who has a job store open, its clock.

A machine is read like a repository, from `/proc`, `/etc` and `/var/spool` below a root that tests can set. So its
crontabs and units go through the same readers and rules. What this user may not read (other users' crontabs and open
files) is reported as not read.
"""

import ctypes
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from cronce import mounts
from cronce_audit.clocks import has_changes
from cronce_audit.engine import Read, read_source
from cronce_audit.model import Confidence, Facts, Found, Place, Severity, Source, Unparsed, ZoneSet, rule
from cronce_audit.processes.argv import agrees, known_program


class Process(NamedTuple):
    """A running process that starts jobs on a schedule."""

    pid: int
    words: tuple[str, ...]
    what: str
    """Its kind: `celery beat`, `cron`, `supercronic`."""
    folder: str
    """Its working directory; "" without permission."""
    inside: str
    """The id of its container, from its control group; "" outside of containers."""
    place: Place

    @property
    def shown(self) -> str:
        return f"{self.pid}{f' in {self.inside[:12]}' if self.inside else ''}"


class JobStore(NamedTuple):
    """An SQLite file with APScheduler's jobs, and the processes that have it open."""

    path: str
    holders: tuple[int, ...]
    network: str
    """The kind of network file system it is on; "" for a local one, or where that is not known."""
    place: Place


class MachineClock(NamedTuple):
    """Whether this machine's clock is synchronised, and its time zone."""

    in_step: bool | None
    """Whether the kernel says that the clock is synchronised; None where it cannot be asked."""
    zone: str
    place: Place


DAEMONS: Final = {"cron": "cron", "crond": "cron", "supercronic": "supercronic", "anacron": "anacron"}
_TITLED: Final = re.compile(r"\[celery beat\b")
_BEAT: Final = re.compile(r"-[a-zA-Z]*B|--beat")


def scheduler_of(words: Sequence[str]) -> str:
    """Its kind: `celery beat`, `cron`, `scheduler.py`; "" for what is no scheduler, as far as its words show."""
    if _TITLED.match(words[0]):
        return "celery beat"
    if daemon := DAEMONS.get(PurePosixPath(words[0]).name):
        return daemon
    found = known_program(words)
    if found is None:
        return ""
    if found.name == "celery worker":
        return "celery worker -B" if any(map(_BEAT.fullmatch, words)) else ""
    return "" if found.kind == "worker" else PurePosixPath(found.name).name


CRONTABS: Final = ("etc/crontab", "etc/anacrontab", "etc/cron.d/*", "var/spool/cron/crontabs/*", "var/spool/cron/*")
UNITS: Final = ("etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system")
"""In systemd's order: the first folder that has a unit counts."""
_CONTAINER_ID: Final = re.compile(r"(?:docker|containerd|crio|libpod|lxc|kubepods)\S*?([0-9a-f]{64}|lxc/[\w.-]+)")
_SQLITE: Final = b"SQLite format 3\0"
_JOBS_TABLE: Final = b"apscheduler_jobs"
_HEAD: Final = 64 * 1024
"""Bytes at the start of an SQLite file that hold its list of tables, unless there are hundreds."""
_UNSYNCHRONISED: Final = 0x0040


def look_at(root: Path, zone: str, *, in_step: bool | None) -> Read:
    """Crontabs of all users, cron.d, timers, running schedulers, job stores and their holders, the clock."""
    clock, unread = Place("etc/localtime", 1), list[Unparsed]()
    facts: list[Any] = [MachineClock(in_step, zone, clock), ZoneSet(zone, clock, "")]
    sources = [*_texts(root, [*_crontabs(root), *_enabled_units(root)], unread)]
    for read in map(read_source, sources):
        facts += read.facts
        unread += read.unparsed
    processes = list(_processes(root))
    facts += [*_schedulers(processes), *_job_stores(root, processes, unread)]
    return Read(facts, unread, len(sources) + len(processes))


def clock_in_step() -> bool | None:
    """Whether the kernel says that the clock is synchronised; None where it cannot be asked (not on Linux)."""
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
    """The enabled timers, and the services they start."""
    timers = sorted({link.name for folder in UNITS for link in (root / folder).glob("*.wants/*.timer")})
    services = [name.removesuffix("timer") + "service" for name in timers]
    for name in [*timers, *services]:
        found = next((root / folder / name for folder in UNITS if (root / folder / name).is_file()), None)
        if found:
            yield found


def _texts(root: Path, paths: Iterable[Path], unread: list[Unparsed]) -> Iterator[Source]:
    for path in paths:
        below = path.relative_to(root).as_posix()
        try:
            yield Source(below, path.read_text(encoding="utf-8", errors="replace"))
        except OSError as error:
            unread.append(Unparsed(Place(below, 1), f"{error.strerror}; root may read it"))


# --- what runs ------------------------------------------------------------------------------------------------------


class _Running(NamedTuple):
    pid: int
    parent: int
    words: tuple[str, ...]
    folder: Path
    """Of the process, below /proc."""


def _processes(root: Path) -> Iterator[_Running]:
    """Processes with a command line: kernel threads have none. One that ends meanwhile is left out."""
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
        found = _CONTAINER_ID.search((process.folder / "cgroup").read_text())
    except OSError:
        return ""
    return found[1] if found else ""


# --- who holds a job store ------------------------------------------------------------------------------------------


def _job_stores(root: Path, processes: Iterable[_Running], unread: list[Unparsed]) -> Iterator[JobStore]:
    table = _mount_table(root)
    for path, holders in sorted(_open_databases(processes, unread).items()):
        if _keeps_jobs(root / path.lstrip("/")):
            network = mounts.network_kind(path, table) or ""
            yield JobStore(path, tuple(sorted(holders)), network, Place(path.lstrip("/"), 1))


def _open_databases(processes: Iterable[_Running], unread: list[Unparsed]) -> Mapping[str, set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    hidden = 0
    for process in processes:
        try:
            links = list(os.scandir(process.folder / "fd"))
        except OSError as error:
            hidden += isinstance(error, PermissionError)  # else it ended meanwhile
            continue
        for link in links:
            path = _link(Path(link.path))
            if path.startswith("/") and not path.startswith(("/dev/", "/proc/")):
                found[path].add(process.pid)
    if hidden:
        why = f"the open files of {hidden} processes may not be read; root may"
        unread.append(Unparsed(Place("proc", 1), why))
    return found


def _keeps_jobs(path: Path) -> bool:
    """Read as bytes: opening it as a database could lock it."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return head.startswith(_SQLITE) and _JOBS_TABLE in head


def _mount_table(root: Path) -> str:
    try:
        return (root / "proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return ""


_CERTAIN: Final = frozenset({"celery beat", "celery worker -B"})


@rule(
    "CR901 scheduler-running-twice",
    Severity.ERROR,
    "stop all but one of them, and let one supervisor start it; or let any number run once, by `cronce run`, "
    "`celery beat -S cronce` or `protect(scheduler, cron)`",
)
def _twice(facts: Facts) -> Iterator[Found]:
    for same in _same(facts.of(Process)):
        first = same[0]
        pids = ", ".join(process.shown for process in same)
        said = f"{len(same)} of {first.what} run here, each firing everything (processes {pids})"
        if len({process.inside for process in same}) > 1:
            yield Found(first.place, f"{said}, unless their containers are of different projects", *_UNSURE)
        else:
            certain = first.what in _CERTAIN or first.what in DAEMONS.values()
            yield Found(first.place, said, None if certain else Confidence.MEDIUM)


_UNSURE: Final = (Confidence.MEDIUM, Severity.WARNING)


def _same(processes: Sequence[Process]) -> Iterator[Sequence[Process]]:
    """Groups of processes that start the same jobs."""
    groups: dict[tuple[object, ...], list[Process]] = defaultdict(list)
    for process in processes:
        if not agrees(process.what, process.words):
            groups[_fires(process)].append(process)
    return (group for group in groups.values() if len(group) > 1)


def _fires(process: Process) -> tuple[object, ...]:
    """One cron reads all crontabs of a machine or container; other schedulers differ by their words and folder."""
    if process.what != "cron":
        return process.what, process.words, process.folder
    options = dict(pairwise(process.words))
    return process.what, process.inside, options.get("-c", "")


@rule(
    "CR902 job-store-held-by-several",
    Severity.WARNING,
    "stop all but one of them: APScheduler's job store keeps jobs, it does not keep two schedulers apart; or "
    "guard the scheduler, `protect(scheduler, cron)`",
    confidence=Confidence.MEDIUM,
)
def _held(facts: Facts) -> Iterator[Found]:
    for store in facts.of(JobStore):
        if len(store.holders) > 1:
            pids = ", ".join(map(str, store.holders))
            yield Found(store.place, f"{len(store.holders)} processes have the job store {store.path} open ({pids})")


@rule(
    "CR903 job-store-on-a-network-file-system",
    Severity.ERROR,
    "keep the jobs in a database server (PostgreSQL, Redis), or the file on a local disk of one machine",
)
def _on_network(facts: Facts) -> Iterator[Found]:
    for store in facts.of(JobStore):
        if store.network:
            yield Found(
                store.place,
                f"the job store {store.path} is on {store.network}, where SQLite's locks do not reach other machines",
            )


@rule(
    "CR904 clock-not-in-step",
    Severity.WARNING,
    "run chrony or systemd-timesyncd (on a virtual machine: see that its host keeps the time)",
    confidence=Confidence.MEDIUM,
)
def _out_of_step(facts: Facts) -> Iterator[Found]:
    for clock in facts.of(MachineClock):
        if clock.in_step is False:
            yield Found(
                clock.place,
                "the kernel reports that this machine's clock is not synchronised: it fires earlier or later than"
                " others",
            )


@rule(
    "CR905 machine-not-in-utc",
    Severity.INFO,
    "`timedatectl set-timezone UTC`, or look at the fixed times between midnight and four with `cronce explain`",
)
def _not_utc(facts: Facts) -> Iterator[Found]:
    for clock in facts.of(MachineClock):
        if has_changes(clock.zone, facts.year):
            yield Found(clock.place, f"this machine shows the time of {clock.zone}, whose clocks change twice a year")
