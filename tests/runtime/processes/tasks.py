"""Bodies that tests run in processes of their own. Each says in a file that it has begun: its process, and others."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from cronce import Run


def begin(book: str, *others: int) -> None:
    """Appears whole or not at all."""
    Path(f"{book}.new").write_text(" ".join(map(str, (os.getpid(), *others))))
    Path(f"{book}.new").rename(book)


def spins(book: str) -> None:
    begin(book)
    while True:
        pass


def sleeps(book: str) -> None:
    begin(book)
    time.sleep(1e6)


def ignores_term(book: str) -> None:
    """The book is as old as the last sign of life."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    begin(book)
    while True:
        os.utime(book)
        time.sleep(0.005)


def has_children(book: str) -> None:
    """One that waits, and one of its own that would not go."""
    stays = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(1e6)"
    with subprocess.Popen([sys.executable, "-S", "-c", stays], stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        begin(book, child.pid)
        child.wait()


def cleans_up(book: str) -> None:
    try:
        begin(book)
        time.sleep(1e6)
    finally:
        Path(f"{book}.clean").touch()


async def awaits(book: str) -> None:
    try:
        begin(book)
        await asyncio.sleep(1e6)
    finally:
        begin(f"{book}.clean")


def asks(run: Run, book: str) -> None:
    """Goes on, past TERM, until it may not."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    begin(book)
    while run.trusted:
        os.utime(book)
    run.check()


def outlives(run: Run) -> list[bool]:
    """The trust that its grant came with."""
    first = run.grant.trust.end
    while time.clock_gettime(time.CLOCK_BOOTTIME) <= first:
        time.sleep(0.01)
    return [run.trusted, run.grant.trust.end > first]


def tells(run: Run) -> dict[str, Any]:
    run.check()
    env = {name: os.environ.get(name) for name in sorted(os.environ) if name.startswith("CRONCE_")}
    return {
        "run": [run.job, str(run.slot.at), str(run.at), run.key, str(run.fence), run.attempt],
        "env": env,
        "payload": run.payload,
        "stdin": sys.stdin.read(),
        "group": os.getpgid(0) == os.getpid(),
        "main thread": threading.current_thread() is threading.main_thread(),
    }


def adds(a: int, b: int = 2) -> int:
    return a + b


def repeats(times: int) -> str:
    return "r" * times


def length(text: str) -> list[Any]:
    return [len(text), text[-3:]]


async def adds_async(a: int, b: int = 2) -> int:
    await asyncio.sleep(0)
    return a + b


def counts(run: Run, book: str, release: str) -> None:
    for done in range(1, 8):
        run.progress(done, 7)
    begin(book)
    while not Path(release).exists():
        time.sleep(0.005)


def prints(word: str, times: int = 1) -> None:
    for _ in range(times):
        print(word)
    print(f"{word}!", file=sys.stderr)


def raises() -> None:
    raise LookupError("no such customer: \0 \ud800")


def forks() -> int:
    """The other comes back from here, too, by an exception."""
    pid = os.fork()
    if pid == 0:
        raise LookupError
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def leaves(code: int) -> None:
    print("half a li", end="", flush=True)
    os._exit(code)


def exits() -> None:
    sys.exit(0)


def crashes() -> None:
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    ctypes.string_at(0)


def kills_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def returns_what_json_cannot_say() -> object:
    return object()


def returns_a_generator() -> object:
    return (number for number in range(3))


class Nested:
    @staticmethod
    def body() -> str:
        return "found"


def charges_after_a_lease(run: Run, book: str) -> None:
    """Says nothing for as long as it was granted first, and then makes an effect: the parent has renewed meanwhile."""
    first = run.grant.trust.end
    while time.clock_gettime(time.CLOCK_BOOTTIME) < first + 0.5:
        time.sleep(0.01)
    run.on("invoice", 7).once("charge", Path(book).write_text, "charged")


def swallows(run: Run) -> str:
    def fails() -> None:
        raise OSError("no answer")

    with suppress(OSError):
        run.on("invoice", 8).once("charge", fails, unsure="retry")
    return "went on"


def forgets_with(run: Run, book: str) -> None:
    run.unentered.append("the transaction")
    Path(book).touch()
