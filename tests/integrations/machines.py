"""A machine of its own as far as cron can tell: private spool, private /run, no crontabs of the system's.

A process holds the mount namespace open, and others enter it. The crontabs of the machine that runs the tests are never
seen there.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.house.needs import needs, tool

SKEW = Path(__file__).parents[1] / "faults" / "skew.c"

MOUNTS = """
set -e
mount -t tmpfs spool /var/spool
mount -t tmpfs run /run
mkdir -p /var/spool/cron
mkdir -m 1730 /var/spool/cron/crontabs
chgrp crontab /var/spool/cron/crontabs
if [ -d /etc/cron.d ]; then mount -t tmpfs none /etc/cron.d; fi
if [ -e /etc/crontab ]; then mount --bind /dev/null /etc/crontab; fi
echo ready
read end
"""


class Machine:
    def __init__(self, keeper: subprocess.Popen[str]) -> None:
        self._enter = ["nsenter", "--target", str(keeper.pid), "--mount", f"--wd={Path.cwd()}"]

    def run(self, *words: str, given: str = "", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._enter, *words],
            input=given,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            check=False,
        )

    def start(self, *words: str, env: dict[str, str], out: int | None = None) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self._enter, *words], env=env, stdin=subprocess.DEVNULL, stdout=out)

    def cronce(self, *words: str, code: int = 0, env: dict[str, str] | None = None) -> str:
        done = self.run(sys.executable, "-m", "cronce", "crontab", *words, env=env)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr if code else done.stdout

    @property
    def bytes(self) -> bytes:
        """Root's crontab, as it is."""
        return subprocess.run([*self._enter, "crontab", "-l"], capture_output=True, check=True).stdout


@contextmanager
def machine() -> Iterator[Machine]:
    tool("crontab", "apt-get install cron")
    unshare = tool("unshare", "apt-get install util-linux")
    words = [unshare, "--mount", "--propagation", "private", "sh", "-c", MOUNTS]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as keeper:
        assert keeper.stdout is not None
        if keeper.stdout.readline() != "ready\n":
            _, why = keeper.communicate()
            needs("root and Debian's cron", f"run the tests as root; apt-get install cron ({why.splitlines()[0][:80]})")
        try:
            yield Machine(keeper)
        finally:
            keeper.communicate("end\n")


def preload(folder: Path) -> Path:
    """The library that makes a process's wall clock wrong."""
    library = folder / "skew.so"
    compiler = tool("gcc", "apt-get install gcc")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SKEW, "-ldl"], check=True)
    return library
