"""The database that a job declares by `transaction=`, and short transactions in it over connections of our own.

Connections are opened when they are needed and kept for the next time. One that was hung up meanwhile, or whose table
is gone, is noticed before it is used again.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from cronce.errors import BadInput, BadPolicy, DatabaseUnavailable
from cronce.model import Fence, Instant
from cronce.runtime.joined import flows
from cronce.runtime.joined.dialects import SQLITE
from cronce.runtime.joined.flows import Found, short
from cronce.runtime.joined.kinds import driver_of
from cronce.runtime.joined.sources import ACCEPTED, Source, refuse_file, source
from cronce.runtime.joined.talk import Driver, Talk, drive, undo
from cronce.stores import mask_all

T = TypeVar("T")

KEPT: Final = 4
"""Connections that lie idle at most."""


class Database:
    """A database of the user's, in which runs commit. Any thread may ask; a forked child has its own connections."""

    def __init__(self, origin: Source, store: str = "") -> None:
        self._source, self._store = origin, store
        self._closed = False
        self._kept: list[Driver] = []
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"<database {self._source.name}>"

    def raise_fence(self, key: str, fence: Fence) -> bool:
        """Before a body: from now on no lower fence commits. True if the run's completion is committed already: then
        there is nothing to run. `LeaseLost` if there is a higher one."""
        found = self._do(lambda driver: short(driver, flows.higher(driver, key, str(fence))))
        if not found.done and found.fence != str(fence):
            raise flows.lease_lost(key, fence, found.fence)
        return found.done

    def seal(self, key: str, fence: Fence) -> bool:
        """Before a run whose holder is gone is closed: True if its completion is committed; else it never will be."""
        return self._do(lambda driver: short(driver, flows.higher(driver, key, f"{fence}+"))).done

    def look(self, key: str, step: str = "") -> Found:
        """How things stand."""
        return self._do(lambda driver: flows.glance(driver, key, step))

    def settled(self, key: str, step: str = "") -> Found:
        """How things stand, after waiting for a transaction that has checked the fence and not ended yet."""
        return self._do(lambda driver: short(driver, flows.settled(driver, key, step)))

    def purge(self, job: str, before: Instant) -> None:
        """Forget the slots of a job that are older."""
        self._do(lambda driver: short(driver, flows.purge(driver, job, before)))

    def close(self) -> None:
        """Connections that are used just now are closed after that."""
        self._closed = True
        while self._kept:
            _hang_up(self._kept.pop())

    # --- connections ---

    def _do(self, work: Callable[[Driver], Talk[T]]) -> T:
        driver = self._take() or self._open()
        try:
            answer = drive(work(driver))
        except BaseException as error:
            _hang_up(driver)
            if isinstance(error, Exception):
                raise self._unavailable(error) from error
            raise
        self._keep(driver)
        return answer

    def _take(self) -> Driver | None:
        """One that was kept and still works."""
        if self._pid != os.getpid():
            _PARENTS.extend(self._kept)
            self._kept, self._pid = [], os.getpid()
        with suppress(IndexError):  # another thread took the last one
            while self._kept:
                driver = self._kept.pop()
                if not _problem(driver):
                    return driver
                _hang_up(driver)
        return None

    def _keep(self, driver: Driver) -> None:
        if self._closed or len(self._kept) >= KEPT:
            _hang_up(driver)
        else:
            self._kept.append(driver)

    def _open(self) -> Driver:
        try:
            driver = driver_of(self._source.connect())
            if driver.asynchronous:
                raise BadPolicy(f"transaction={self._source.name} gives asynchronous connections; give {ACCEPTED}")
        except BadInput:
            raise
        except Exception as error:
            raise self._unavailable(error) from error
        try:
            self._refuse(driver)
            self._prepare(driver)
        except BaseException:
            _hang_up(driver)
            raise
        return driver

    def _refuse(self, driver: Driver) -> None:
        if driver.dialect is SQLITE:
            ((_, _, file), *_) = drive(driver.ask("PRAGMA database_list"))
            refuse_file(file, self._store, self._source.name)

    def _prepare(self, driver: Driver) -> None:
        """Make the table, unless it is there. That another makes it at the same time is an error to some servers, so
        the last word is whether it is there."""
        if not _problem(driver):
            return
        with suppress(Exception):
            drive(short(driver, flows.make(driver)))
        if problem := _problem(driver):
            raise DatabaseUnavailable(
                f"{self._source.name}: the table cronce_effects is not there, or this user may not use it"
                f" ({mask_all(str(problem))}), nor make it. Let one that may grant it SELECT, INSERT, UPDATE and DELETE"
                f" on the table, which is made by:\n{driver.dialect.table};"
            ) from problem

    def _unavailable(self, error: Exception) -> DatabaseUnavailable:
        words = mask_all(str(error).strip().partition("\n")[0]) or type(error).__name__
        return DatabaseUnavailable(f"{self._source.name}, where the run commits, gave no answer: {words}")


def _problem(driver: Driver) -> Exception | None:
    """Why a connection cannot be used; None if it can."""
    try:
        drive(flows.probe(driver))
    except Exception as error:
        drive(undo(driver))
        return error
    return None


def _hang_up(driver: Driver) -> None:
    with suppress(Exception):
        driver.conn.close()


_PARENTS: Final[list[Driver]] = []
"""Connections that another process uses. They are kept, so that no destructor hangs up on it."""


def read_database(value: object, store: str = "") -> Database:
    """The database that `transaction=` names; nothing is opened. `store` is the URL of cronce's own: an SQLite file
    cannot be both."""
    if isinstance(value, Database):
        return value
    return Database(source(value, store), store)
