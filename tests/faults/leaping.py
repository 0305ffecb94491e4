"""A server whose clock a test may set: `clock_gettime` is another for it, by a preloaded library."""

import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.house.needs import tool
from tests.servers.process import Server


class Leaping:
    """A clock that is right until it leaps."""

    def __init__(self, folder: Path) -> None:
        self._file, self._library = folder / "leap", folder / "leap.so"
        source = Path(__file__).with_name("leap.c")
        compiler = tool("gcc", "apt-get install gcc")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", self._library, source, "-ldl"], check=True)
        self._file.write_bytes(struct.pack("d", 0.0))
        for path in (self._file, self._library):
            path.chmod(0o755)

    @property
    def env(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "LEAP_FILE": str(self._file)}

    def to(self, seconds: float) -> None:
        with self._file.open("r+b") as file:
            file.write(struct.pack("d", seconds))

    @contextmanager
    def by(self, seconds: float, long: float) -> Iterator[None]:
        self.to(seconds)
        try:
            time.sleep(long)
            yield
        finally:
            self.to(0.0)


def leaping(server: Server) -> Leaping:
    """The clock of a server that is not started yet."""
    clock = Leaping(server.directory)
    server.env.update(clock.env)
    return clock
