"""A server as a process: started, killed, stopped in mid-air, started again on the same data and the same port."""

import atexit
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from tests.house.wait import PATIENCE, wait_until

NOBODY: Final = 65534
"""Who a server runs as that refuses to be root."""
LONGEST: Final = 60
"""Bytes of a folder for servers: the path of a socket in a folder below it has at most 107."""
DISK: Final = (tempfile.gettempdir(), "/tmp")
PLACES: Final = [*DISK]
"""Folders for servers, the best first."""


_GIVEN: Final[list[socket.socket]] = []
"""Ports of UDP, which no server here uses, with the numbers of those that this process has given away: whoever looks
for one, here or in another process, sees that the number is taken, also while its server is not up."""


@atexit.register
def _give_back() -> None:
    for given in _GIVEN:
        given.close()


def free_port() -> int:
    """One that no outgoing connection takes by chance before the server does: they are given higher ones."""
    while True:
        port = 20_000 + random.randrange(12_000)
        given = socket.socket(type=socket.SOCK_DGRAM)
        try:
            with socket.socket() as probe:
                given.bind(("127.0.0.1", port))
                probe.bind(("127.0.0.1", port))
        except OSError:
            given.close()
            continue
        _GIVEN.append(given)
        return port


class Service(ABC):
    """What runs in the block: started on the way in, and closed on the way out, also if it did not start."""

    @abstractmethod
    def start(self) -> Self: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_error: object) -> None:
        self.close()


class Server(Service):
    """One server process. `command` runs it in the foreground; `answers` says whether it can be used."""

    def __init__(
        self, name: str, command: Callable[["Server"], Sequence[str]], answers: Callable[["Server"], bool], url: str
    ) -> None:
        self.name = name
        self.port = free_port()
        self.directory = directory_for(name)
        self.url = url.format(port=self.port)
        self.demoted = False
        self.env: dict[str, str] = {}
        """What its environment has besides."""
        self._command = command
        self._answers = answers
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        assert self._process is None, f"{self.name} runs already"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(self), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.directory,
                user=self.who, group=self.who, env={**os.environ, **self.env},
            )  # fmt: skip
        self.wait_until_up()
        return self

    def wait_until_up(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self._up():
            if time.monotonic() > deadline or (self._process and self._process.poll() is not None):
                raise RuntimeError(f"{self.name} did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.02)

    def _up(self) -> bool:
        try:
            return self._answers(self)
        except Exception:
            return False

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def who(self) -> int | None:
        """Another user and group, where the server refuses to be root."""
        return NOBODY if self.demoted else None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    def kill(self) -> None:
        """The hard way: what was not flushed is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Alive, and silent. Connections stay open, no answer comes."""
        stop([self.pid])  # the others after it, since it makes more of them
        stop(self.processes())

    def resume(self) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def processes(self) -> list[int]:
        """The server and its children, which may answer without it, and outlive it: all that work in its directory."""
        return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _works_in(self.directory, entry)]

    def run(self, *command: str) -> None:
        """A tool of the server's, as its user."""
        done = subprocess.run(
            command, cwd=self.directory, capture_output=True, check=False, user=self.who, group=self.who
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {(done.stdout + done.stderr).decode()[-2000:]}")

    def close(self) -> None:
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        assert self._process is not None, f"{self.name} does not run"
        self.resume()
        self._process.send_signal(how)
        self._process.wait(PATIENCE)
        self._process = None
        wait_until(lambda: not self.processes())  # they notice by themselves, and hold its memory and files until then


def _works_in(directory: Path, process: Path) -> bool:
    try:
        return (process / "cwd").readlink().is_relative_to(directory)
    except OSError:  # it has just ended, or is not ours to look into
        return False


def stop(pids: Sequence[int]) -> None:
    """The signal reaches a busy program's threads one after the other: wait for the last."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: all(map(_stands_still, pids)))


def _stands_still(pid: int) -> bool:
    try:
        return all(_state(task) in "TZ" for task in Path(f"/proc/{pid}/task").iterdir())
    except OSError:  # a thread has just ended
        return False


def _state(task: Path) -> str:
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


def directory_for(name: str, places: Sequence[str] = PLACES) -> Path:
    """Not pytest's own: a server that is not root could not look into it."""
    place = next(filter(_is_good, places), None)
    return Path(tempfile.mkdtemp(prefix=f"cronce-{name}-{os.getpid()}-", dir=place)).resolve()


def forget(place: Path) -> None:
    """What processes have left there that were killed: memory is not for ever."""
    for left in place.glob("cronce-*-*-*"):
        process = left.name.split("-")[2]
        if process.isdigit() and not Path("/proc", process).exists():
            shutil.rmtree(left, ignore_errors=True)


def _is_good(place: str) -> bool:
    """Short enough for sockets, and open to every user if servers run as another."""
    path = Path(place).resolve()
    return len(os.fsencode(path)) <= LONGEST and path.is_dir() and (os.getuid() != 0 or open_to_all(path))


def open_to_all(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in (path, *path.parents))
