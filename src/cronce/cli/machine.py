"""What lines of crontabs and units depend on, on this machine: its cron, its zone, its users, where cronce is."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from cronce.errors import BadInput

_UTC: Final = frozenset(("UTC", "Etc/UTC", "UCT", "Etc/UCT", "Universal", "Etc/Universal", "Zulu", "Etc/Zulu"))


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
        known = f"this machine's is {zone}, TZ={shell}" if zone else "/etc/localtime does not tell"
        raise BadInput(f"in which zone does cron fire? {known}; say --tz")
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
    return "UTC" if name in _UTC else name


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
        raise BadInput(f"Windows has no {verb}; cronce runs where there are POSIX processes: Linux, macOS, WSL")
