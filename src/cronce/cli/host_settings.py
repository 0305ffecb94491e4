"""What lines of crontabs and units depend on, on this machine: its cron and its crontabs, its zone, its users, where
cronce is, and where a `cronce exec` that cron or systemd starts will keep its slots."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import cronce
from cronce.errors import BadInput, CronceError, StoreError
from cronce.stores import mask, scheme_of
from cronce.stores.default import URL_VARIABLE, Chosen, choose

Starter = Literal["cron", "systemd"]
_UNIT: Final = ("User", "Environment", "EnvironmentFile", "ExecStart")
_NAMES_OF_UTC: Final = frozenset(("UTC", "Etc/UTC", "UCT", "Etc/UCT", "Universal", "Etc/Universal", "Zulu", "Etc/Zulu"))


def follows_cron_tz() -> bool:
    """Whether this machine's cron follows a line `CRON_TZ=…`. cronie does, and says its name; Debian's does not."""
    found = shutil.which("crontab")
    if found is None:
        return False
    done = subprocess.run([found, "-V"], capture_output=True, check=False)  # noqa: S603  that program itself
    return b"cronie" in done.stdout + done.stderr


def program() -> list[str]:
    """How a crontab or a unit calls cronce: by its full path, for cron's own PATH is /usr/bin:/bin."""
    beside = Path(sysconfig.get_path("scripts"), "cronce")
    found = str(beside) if beside.exists() else shutil.which("cronce")
    return [found] if found else [sys.executable, "-m", "cronce"]


def machine_zone(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> str:
    """By whose clocks cron fires: the machine's. A container's `TZ` may be cron's, too, or only this shell's: where it
    says something else, only a person knows."""
    zone, shell = system_zone(root), shell_zone(environ)
    if not zone or shell not in ("", zone):
        known = f"this machine's is {zone}, TZ={shell}" if zone else "/etc/localtime does not name a zone"
        raise BadInput(f"cron's time zone is not known: {known}; give --tz")
    return zone


def system_zone(root: Path = Path("/")) -> str:
    """Where /etc/localtime leads, or what /etc/timezone says; nothing if neither tells."""
    link = os.path.realpath(root / "etc/localtime")
    return _known(link) if "zoneinfo/" in link else _known(_timezone(root))


def shell_zone(environ: Mapping[str, str] = os.environ) -> str:
    """What `TZ` says: a name, or the path of one, with or without a colon before it."""
    return _known(environ.get("TZ", "").removeprefix(":"))


def _known(zone: str) -> str:
    name = zone.rpartition("zoneinfo/")[2]
    return "UTC" if name in _NAMES_OF_UTC else name


def _timezone(root: Path) -> str:
    file = root / "etc/timezone"
    if file.exists():
        return file.read_text(errors="replace").strip()
    return "" if (root / "etc/localtime").exists() else "UTC"  # no clock was ever set to anything else


def this_user() -> str:
    """Whose crontab `crontab` means: the one who runs it, whatever the environment says."""
    import pwd  # noqa: PLC0415  not there on Windows, where all this is refused

    return pwd.getpwuid(os.getuid()).pw_name


def home_of(user: str) -> str | None:
    """A user's home; None if this machine has no such user."""
    import pwd  # noqa: PLC0415

    try:
        return pwd.getpwnam(user).pw_dir
    except KeyError:
        return None


def may_act_as(user: str) -> bool:
    """Whether this process can find out what that user may do: it is theirs, or root's."""
    return os.getuid() == 0 or user == this_user()


@contextmanager
def rights_of(user: str) -> Iterator[None]:
    """In here files are opened with that user's rights, where this process may have them."""
    if user == this_user() or not may_act_as(user):
        yield
        return
    import pwd  # noqa: PLC0415

    who, groups, group = pwd.getpwnam(user), os.getgroups(), os.getegid()
    try:
        with suppress(PermissionError):  # root of a user namespace may not, and goes on with its own
            os.setgroups(os.getgrouplist(user, who.pw_gid))
            os.setegid(who.pw_gid)
            os.seteuid(who.pw_uid)
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        with suppress(PermissionError):
            os.setgroups(groups)


def refuse_windows(verb: str) -> None:
    if sys.platform == "win32":
        raise BadInput(f"Windows has no {verb}; cronce needs POSIX processes: Linux, macOS or WSL")


# --- where slots will be kept -----------------------------------------------------------------------------------------


def place_of_slots(user: str, settings: Mapping[str, str], starter: Starter = "cron") -> str:
    """Where it keeps slots, in words, and whether other hosts see that; or why it will run nothing. What cron or
    systemd starts has a user, a home and the settings of its line, and nothing of the shell that one types in."""
    chosen = _chosen(user, settings)
    if isinstance(chosen, str):
        return _refuses(chosen, starter)
    if scheme_of(chosen.url) not in ("sqlite", "memory"):
        return f"slots are kept in {mask(chosen.url)}"
    unseen = f"; {URL_VARIABLE} is set here, and {starter} will not see it" if os.environ.get(URL_VARIABLE) else ""
    also = f", or {URL_VARIABLE}=… at the top of the crontab" if starter == "cron" else ""
    return (
        f"this host only: slots are kept in {chosen.file or mask(chosen.url)}, which no other host sees{unseen}. For"
        f' all hosts put url = "…" into /etc/cronce.toml{also}'
    )


def store_of(user: str, settings: Mapping[str, str], command: str, starter: Starter = "cron") -> Chosen | str:
    """The store of a command that cron or systemd starts, as the command itself or its environment names it; or why it
    will run nothing."""
    said = re.search(rf"(?:\s--store[\s=]|\b{URL_VARIABLE}=)(?P<url>'[^']*'|\"[^\"]*\"|[^\s;]+)", command)
    chosen = choose(said["url"].strip("'\"")) if said else _chosen(user, settings)
    return _refuses(chosen, starter) if isinstance(chosen, str) else chosen


def unit_environment(path: str) -> tuple[str, dict[str, str], str]:
    """The user, the environment and the command of a systemd service."""
    try:
        lines = [line.partition("=") for line in Path(path).read_text(encoding="utf-8").splitlines()]
        said = {name: [value for key, _, value in lines if key.strip() == name] for name in _UNIT}
        files = [Path(name.lstrip("-")) for name in said["EnvironmentFile"]]
        texts = [*said["Environment"], *(file.read_text("utf-8") for file in files if file.exists())]
        words = [word for text in texts for word in shlex.split(text, comments=True)]
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None
    settings = {name: value for name, equals, value in (word.partition("=") for word in words) if equals}
    return "".join(said["User"][-1:]) or "root", settings, " ".join(said["ExecStart"])


def refusal(user: str, settings: Mapping[str, str], starter: Starter = "cron") -> str:
    """Why it will run nothing; empty if it will, or if only that user could find out."""
    chosen = _chosen(user, settings)
    return _refuses(chosen, starter) if isinstance(chosen, str) else ""


def _refuses(why: str, starter: Starter) -> str:
    return f"when {starter} runs it, cronce will refuse it: {why}"


def _chosen(user: str, settings: Mapping[str, str]) -> Chosen | str:
    """The store, found with that user's rights, so far as this process may have them; or why there is none."""
    home = home_of(user)
    if home is None:
        return f"{user!r} is not a user of this machine"
    with rights_of(user):
        if shut := _shut(user):  # before anything else is loaded with these rights
            return f"{user} may not read {shut}; install cronce where that user can read it"
        try:
            chosen = choose(None, {**settings, "HOME": settings.get("HOME") or home})
        except StoreError as error:
            return str(error)
        if chosen.is_default and may_act_as(user) and not _can_be_made(chosen.file):
            return f'{user} cannot create {chosen.file}; put url = "…" into /etc/cronce.toml'
    return chosen


def _shut(user: str) -> str:
    """The part of the program that another user cannot read: often a Python in root's home."""
    if user == this_user() or not may_act_as(user):
        return ""
    parts = (program()[0], os.path.realpath(sys.executable), cronce.__file__)
    return next((path for path in parts if not os.access(path, os.R_OK, effective_ids=True)), "")


def _can_be_made(path: str) -> bool:
    """Whether what there is of the way to a file, or the file itself, may be written to."""
    while not os.path.exists(path):  # noqa: PTH110  not that of pathlib, which raises where one may not look
        path = os.path.dirname(path)  # noqa: PTH120
    return os.access(path, os.W_OK, effective_ids=True)


# --- crontabs: a user's behind the `crontab` program, the system's in files -------------------------------------------

MAX_LOOKS: Final = 200
FILE_LOCK_POLL: Final = 0.1
"""Seconds between two tries of the lock, which is held only while a file is written."""


class UserCrontab:
    """A user's own, through the `crontab` program: only that may write it, and it refuses what cron cannot read."""

    system = False
    """Whether each line names a user."""

    def __init__(self, user: str | None) -> None:
        found = shutil.which("crontab")
        if found is None:
            raise CronceError("there is no `crontab` program here; install cron (Debian) or cronie (Fedora, Arch)")
        self._program, self._user = found, user

    def __str__(self) -> str:
        return f"the crontab of {self._user}" if self._user else "this user's crontab"

    def read(self) -> str:
        done = self._run("-l")
        if done.returncode == 0:
            return _decode(done.stdout)
        if b"no crontab for" in done.stderr.lower():  # any other failure is not taken for an empty crontab
            return ""
        raise CronceError(f"`crontab -l` failed, and nothing was changed: {_said(done)}")

    def write(self, text: str) -> None:
        _refuse_returns(text)
        done = self._run("-", _encode(text))
        if done.returncode:
            raise CronceError(f"`crontab` refused it, and nothing was changed: {_said(done)}")
        if self.read() != text:
            raise CronceError(
                f"{self} is not as cronce wrote it: another program changed it at the same moment; check it"
            )

    def lock(self) -> AbstractContextManager[None]:
        """The lock is on the program itself: every user who may run it can open it, and no extra file is needed."""
        return _locked(self._program)

    def _run(self, word: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        whose = ["-u", self._user] if self._user else []
        words = [self._program, *whose, word]
        return subprocess.run(words, input=given, capture_output=True, check=False)  # noqa: S603  no shell reads it


def _refuse_returns(text: str) -> None:
    """Debian's `crontab -l` shows a carriage return as two letters: written back, it would be those."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.endswith("\\r"):
            raise BadInput(
                f"line {number} ends in \\r: so `crontab -l` shows a carriage return, and cronce cannot write it back;"
                " correct that line with `crontab -e` first"
            )


class SystemCrontab:
    """A file in the format of /etc/crontab and /etc/cron.d. It is replaced, so cron never reads half of it."""

    system = True

    def __init__(self, path: str) -> None:
        self._path = Path(path).resolve()  # a link stays one

    def __str__(self) -> str:
        return str(self._path)

    def read(self) -> str:
        try:
            return _decode(self._path.read_bytes())
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise CronceError(f"{self} cannot be read ({error.strerror})") from None

    def write(self, text: str) -> None:
        try:
            self._replace(_encode(text))
        except OSError as error:
            raise CronceError(f"{self} cannot be written ({error.strerror}), and was not changed") from None

    def _replace(self, content: bytes) -> None:
        """Under a name that cron passes over, because there is a dot in it, until it is whole."""
        descriptor, name = tempfile.mkstemp(prefix=".cronce.", dir=self._path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(descriptor)
                before = self._path.stat() if self._path.exists() else None
                os.fchmod(descriptor, before.st_mode & 0o777 if before else 0o644)
                if before:
                    os.fchown(descriptor, before.st_uid, before.st_gid)
            Path(name).replace(self._path)
        except BaseException:
            Path(name).unlink()
            raise

    def lock(self) -> AbstractContextManager[None]:
        return _locked(str(self._path.parent))


Crontab = UserCrontab | SystemCrontab
"""One that is read and written as a whole."""


def keep(text: str) -> Path:
    """Keep a copy of a crontab that only this user can read: it may hold a password."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "cronce"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix="crontab.", dir=folder)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_encode(text))
    except OSError as error:
        raise CronceError(f"cronce cannot keep a copy in {folder} ({error.strerror}); nothing was changed") from None
    return Path(name)


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Only one process on this machine changes crontabs at a time; the lock ends with the process."""
    import fcntl  # noqa: PLC0415  not there on Windows, where all this is refused

    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise CronceError(f"{path} cannot be opened to lock it ({error.strerror}); nothing was changed") from None
    try:
        for _ in range(MAX_LOOKS):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(FILE_LOCK_POLL)
        else:
            raise CronceError(
                f"another process is changing crontabs, and has locked {path} for {MAX_LOOKS * FILE_LOCK_POLL:.0f} s"
            )
        yield
    finally:
        os.close(descriptor)


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"


def _decode(content: bytes) -> str:
    """Bytes that are not UTF-8 are kept as they were."""
    return content.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
