"""A joined transaction as a body has it: nothing stops it halfway, and the run learns that it is committed."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from cronce.errors import BadInput
from cronce.runtime.interrupt import Interrupt, shielded
from cronce.runtime.joined import Database, Transaction

if TYPE_CHECKING:
    from cronce.runtime.run import Run

C = TypeVar("C")


class RunTransaction(Transaction[C], Generic[C]):
    def __init__(self, database: Database, run: "Run", conn: C, step: str) -> None:
        super().__init__(database, run, conn, step)
        self._of, self._whole = run, not step

    def __enter__(self) -> C:
        entered = False
        try:
            with shielded(), self._alone():
                conn = super().__enter__()
                entered = True
            return conn
        except Interrupt as error:  # it was stopped before its block began, so nobody else leaves it
            if entered:
                self.__exit__(Interrupt, error, None)
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with shielded(error), self._left():
            super().__exit__(kind, error, trace)
            self._ended(error)

    async def __aenter__(self) -> C:
        with self._alone():
            return await super().__aenter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with self._left():
            await super().__aexit__(kind, error, trace)
            self._ended(error)

    def _ended(self, error: BaseException | None) -> None:
        if error is None and self._whole:
            self._of.committed = True

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """A block in a block, or beside another on the same connection, would commit what that one has written."""
        with _LOCK:
            if id(self._conn) in _JOINED:
                raise BadInput(
                    f"{self._of.key}: this connection is in another transaction of a run; let that block end before the"
                    " next begins, or give each a connection of its own"
                )
            _JOINED.add(id(self._conn))
        try:
            yield
        except BaseException:
            _JOINED.discard(id(self._conn))
            raise

    @contextmanager
    def _left(self) -> Iterator[None]:
        try:
            yield
        finally:
            _JOINED.discard(id(self._conn))


_LOCK: Final = Lock()
_JOINED: Final[set[int]] = set()
"""Connections of this process that are in a block just now."""
