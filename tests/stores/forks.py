"""Real processes for the tests, made by fork: quick, and with nothing to import from where the child may not read."""

import json
import os
import signal
import sqlite3
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cronce.errors import CronceError
from cronce.stores.sqlite import SqliteStore
from cronce.testing.contract import claim, win

NOBODY = 65534


class Child:
    """A process that does some work and tells its parent in JSON: the outcome, or the error's name and text."""

    def __init__(self, work: "Callable[[Child], Any]", *, user: int | None = None) -> None:
        hears, self._say = os.pipe()
        self._wait, self._go = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn of a fork beside threads
            self.pid = os.fork()
        if self.pid == 0:
            os.close(self._go)
            self._live(work, user)
        os.close(self._say)
        os.close(self._wait)
        self._hears = os.fdopen(hears, encoding="utf-8")

    def _live(self, work: "Callable[[Child], Any]", user: int | None) -> None:
        try:
            if user is not None and os.getuid() == 0:
                os.setgid(user)
                os.setuid(user)
            self.say(work(self))
        except CronceError as error:
            self.say([type(error).__name__, str(error)])
        except BaseException:
            self.say(traceback.format_exc())
        finally:
            os._exit(0)

    def say(self, word: Any) -> None:
        """In the child."""
        os.write(self._say, (json.dumps(word) + "\n").encode())

    def wait(self) -> None:
        """In the child: until the parent says go, ends the child, or is gone."""
        os.read(self._wait, 1)

    def hear(self) -> Any:
        return json.loads(self._hears.readline())

    def go(self) -> None:
        os.write(self._go, b"!")

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def end(self) -> list[Any]:
        """Let it go on, hear all that it still has to say, and see it off."""
        os.close(self._go)
        words = [json.loads(line) for line in self._hears]
        self._hears.close()
        os.waitpid(self.pid, 0)
        return words


def ask(work: Callable[[], Any], *, user: int | None = None) -> Any:
    """What some work comes to in another process."""
    (word,) = Child(lambda _: work(), user=user).end()
    return word


@contextmanager
def locked(path: Path, begin: str = "BEGIN EXCLUSIVE") -> Iterator[Child]:
    """Another process in the middle of a transaction, until the block ends or it is killed."""

    def hold(me: Child) -> None:
        db = sqlite3.connect(path, isolation_level=None, timeout=10)
        db.execute(begin)
        db.execute("UPDATE cronce_meta SET tally = tally + 1000")
        me.say("holding")
        me.wait()
        db.execute("ROLLBACK")
        db.close()

    child = Child(hold)
    assert child.hear() == "holding"
    try:
        yield child
    finally:
        child.end()


@contextmanager
def opened(path: Path) -> Iterator[Child]:
    """Another process that has the store open, with a cell `a` in it."""

    def hold(me: Child) -> None:
        store = SqliteStore(path)
        win(store, claim("a"))
        me.say("open")
        me.wait()

    child = Child(hold)
    assert child.hear() == "open"
    try:
        yield child
    finally:
        child.end()
