"""Where crontabs are kept: a user's behind the `crontab` program, the system's in files. Read, written, locked."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Protocol

from cronce.errors import BadInput, CronceError

LOOKS: Final = 200
LOOK: Final = 0.1
"""Seconds between two looks at the lock; whoever holds it only writes a file."""


class Crontab(Protocol):
    """A crontab that is read and written as a whole."""

    @property
    def system(self) -> bool:
        """Whether each line names a user."""

    def __str__(self) -> str: ...
    def read(self) -> str: ...
    def write(self, text: str) -> None: ...
    def lock(self) -> AbstractContextManager[None]: ...


class UserCrontab:
    """A user's own, through the `crontab` program: only that may write it, and it refuses what cron cannot read."""

    system = False

    def __init__(self, user: str | None) -> None:
        self._program = _crontab()
        self._user = user

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
            raise CronceError(f"{self} is not what was written: somebody changed it at the same moment; look at it")

    def lock(self) -> AbstractContextManager[None]:
        """The program itself is the lock: whoever may use it can open it, and nobody has to make a file for it."""
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
                f"line {number} ends in \\r, which is how `crontab -l` shows a carriage return, and would not stay one;"
                " mend that line with `crontab -e` first"
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


def keep(text: str) -> Path:
    """Put a copy of a crontab aside, for whoever wants it back, and for nobody else: it may hold a password."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "cronce"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix="crontab.", dir=folder)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_encode(text))
    except OSError as error:
        raise CronceError(f"no copy can be kept in {folder} ({error.strerror}); nothing was changed") from None
    return Path(name)


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Alone among those that change crontabs by this program, on this machine; the lock goes with the process."""
    import fcntl  # noqa: PLC0415  not there on Windows, where all this is refused

    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise CronceError(f"{path} cannot be opened to lock it ({error.strerror}); nothing was changed") from None
    try:
        for _ in range(LOOKS):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(LOOK)
        else:
            raise CronceError(f"another process changes crontabs, and has held {path} for {LOOKS * LOOK:.0f} s")
        yield
    finally:
        os.close(descriptor)


def _crontab() -> str:
    found = shutil.which("crontab")
    if found is None:
        raise CronceError("there is no `crontab` program here; install cron (Debian) or cronie (Fedora, Arch)")
    return found


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"


def _decode(content: bytes) -> str:
    """Whatever bytes there are come back as they were."""
    return content.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
