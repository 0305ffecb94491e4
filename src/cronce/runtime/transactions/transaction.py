"""`with run.transaction(conn)`: what the user writes, the check of the fence and the run's completion commit together,
or not at all. `fencing` explains how, and why that holds. A job function is not stopped halfway into the block or out
of it, and its run learns that it is committed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from cronce.errors import BadInput, CronceError, DatabaseUnavailable
from cronce.model import Fence
from cronce.runtime.interrupt import Interrupt, shielded
from cronce.runtime.transactions.connection import Driver, Talk, drive, drive_async, leave, undo
from cronce.runtime.transactions.drivers import driver_of
from cronce.runtime.transactions.fencing import (
    Committed,
    FencingRow,
    NoFenceRow,
    check_step,
    close_joint,
    open_joint,
    verdict,
)
from cronce.runtime.unfinished import Unfinished

if TYPE_CHECKING:
    from cronce.runtime.transactions.database import Database


C = TypeVar("C")

_IN_A_BLOCK_LOCK: Final = Lock()
_IN_A_BLOCK: Final[set[int]] = set()
"""Connections of this process that are in a block just now."""


class JoinedRun(Protocol):
    """What the transaction asks of a run, and what it reports to it."""

    committed: bool
    joined: bool
    """A transaction was begun for it: it may be committed although no answer came."""
    unfinished: Unfinished
    unentered: list[object]
    """Transactions that were not entered yet."""

    @property
    def key(self) -> str: ...
    @property
    def fence(self) -> Fence: ...
    def check(self) -> None: ...


class Transaction(Generic[C]):
    """A transaction of the user's connection that commits only under the fence of a run. It gives the connection. It
    puts on record the run's end, a step of its slot or, `of` what is done, the thing that it is done to."""

    def __init__(self, database: "Database", run: JoinedRun, conn: C, step: str = "", of: str = "") -> None:
        check_step(step)
        self._database, self._run, self._conn = database, run, conn
        self._committed = Committed(of or run.key, step)
        run.unentered.append(self)

    def __enter__(self) -> C:
        entered = False
        try:
            with shielded(), self._alone():
                drive(self._enter(asynchronous=False))
                entered = True
            return self._conn
        except Interrupt as error:  # it was stopped before its block began, so `with` calls no __exit__
            if entered:
                self.__exit__(Interrupt, error, None)
            raise

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        with shielded(error), self._left():
            drive(self._exit(error))

    async def __aenter__(self) -> C:
        with self._alone():
            await drive_async(self._enter(asynchronous=True))
        return self._conn

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        with self._left():
            await drive_async(self._exit(error))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """A block in a block, or beside another on the same connection, would commit what that one has written."""
        self._run.unentered.remove(self)
        with _IN_A_BLOCK_LOCK:
            if id(self._conn) in _IN_A_BLOCK:
                error = BadInput(
                    f"{self._run.key}: this connection is in another transaction of a run; let that block end before"
                    " the next begins, or give each a connection of its own"
                )
                self._run.unfinished.refuse(error)
                raise error
            _IN_A_BLOCK.add(id(self._conn))
        try:
            yield
        except BaseException:
            _IN_A_BLOCK.discard(id(self._conn))
            raise

    @contextmanager
    def _left(self) -> Iterator[None]:
        try:
            yield
        finally:
            _IN_A_BLOCK.discard(id(self._conn))

    # --- as conversations ---

    def __repr__(self) -> str:
        return f"the transaction for {self._what}"

    def _enter(self, *, asynchronous: bool) -> Talk[None]:
        """What was to be committed and is not, is noted: the body may make nothing of the error."""
        yield from self._run.unfinished.noted(self._what, self._begin(asynchronous=asynchronous))

    def _exit(self, error: BaseException | None) -> Talk[None]:
        yield from self._run.unfinished.noted(self._what, self._end(error))
        if error is not None:
            self._run.unfinished[self._what] = error

    def _begin(self, *, asynchronous: bool) -> Talk[None]:
        self._run.check()
        self._fence = self._run.fence
        self._driver = _driver(self._conn, self._run.key, asynchronous=asynchronous)
        if pending := (yield from self._driver.pending()):
            raise BadInput(
                f"the connection for {self._run.key} {pending}: what was written before would be committed with"
                " the run's own writes, and again if the run is repeated. Commit it or roll it back before"
                " run.transaction()"
            )
        found = yield from self._asked(self._database.look)
        if refusal := verdict(found, self._run.key, self._fence, self._committed):
            raise refusal
        self._run.joined = True
        yield from open_joint(self._driver)

    def _end(self, error: BaseException | None) -> Talk[None]:
        try:
            if error is None:
                yield from self._finish()
            else:
                yield from undo(self._driver)
        finally:
            yield from leave(self._driver, limited=error is None)
        if error is None and not self._committed.step:
            self._run.committed = True

    def _finish(self) -> Talk[None]:
        try:
            self._run.check()
            yield from close_joint(self._driver, self._run.key, self._fence, self._committed)
        except BaseException as error:
            yield from undo(self._driver)
            if isinstance(error, NoFenceRow) or not isinstance(error, CronceError):
                yield from self._explain(error)
            raise
        try:
            yield from self._driver.commit()
        except BaseException as error:
            yield from undo(self._driver)
            if not isinstance(error, Exception) or not (yield from self._was_committed(error)):
                raise

    # --- what the table shows about an error ---

    def _explain(self, error: BaseException) -> Talk[None]:
        """An error before the commit: nothing was committed, and the table may know why."""
        if not isinstance(error, Exception):
            return
        try:
            found = yield from self._asked(self._database.settled)
        except DatabaseUnavailable:
            return
        if refusal := verdict(found, self._run.key, self._fence, self._committed):
            raise refusal from error
        if "cronce_effects" in str(error):  # all is well where it should be: the table is missing where it is not
            raise NoFenceRow(self._run.key) from error

    def _was_committed(self, error: Exception) -> Talk[bool]:
        """An error of the commit itself; it may have been carried out all the same. What is no error of a database
        (a hook that runs after the commit) is the user's to see."""
        try:
            found = yield from self._asked(self._database.settled)
        except DatabaseUnavailable as silence:
            raise DatabaseUnavailable(
                f"{self._what} may have been committed, or not: the connection was lost meanwhile ({error}), and a"
                f" second check failed, too ({silence}). The next run checks it, and does not repeat what was"
                " committed"
            ) from error
        if found.is_by(self._fence, self._committed.step):
            return _of_a_database(error)
        if refusal := verdict(found, self._run.key, self._fence, self._committed):
            raise refusal from error
        return False

    def _asked(self, ask: Callable[[str, Committed], FencingRow]) -> Talk[FencingRow]:
        """Over a connection of our own, which is no asynchronous one."""
        if not self._driver.asynchronous:
            return ask(self._run.key, self._committed)
        import asyncio  # noqa: PLC0415  slow to import, and here already

        found: FencingRow = yield asyncio.to_thread(ask, self._run.key, self._committed)
        return found

    @property
    def _what(self) -> str:
        return str(self._committed) if self._committed.step else self._run.key


def _driver(conn: Any, key: str, *, asynchronous: bool) -> Driver:
    driver = driver_of(conn)
    if driver.asynchronous != asynchronous:
        word = "async with" if driver.asynchronous else "with"
        raise BadInput(f"this connection ({type(conn).__name__}) needs `{word} run.transaction(…)`")
    if obstacle := driver.obstacle():
        raise BadInput(
            f"the connection for {key} {obstacle}: its commit would not be the one that checks the fence."
            " Give run.transaction() a connection outside of any block; it begins and commits by itself"
        )
    return driver


def _of_a_database(error: Exception) -> bool:
    """Every driver has a class of this name at the root of its errors, as PEP 249 requires; SQLAlchemy has another."""
    return any(kind.__name__ in ("Error", "DBAPIError") for kind in type(error).__mro__)
