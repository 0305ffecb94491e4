"""A joined transaction as a body has it: nothing stops it halfway, and the run learns that it is committed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from cronce.errors import BadInput
from cronce.runtime.interrupt import shielded
from cronce.runtime.joined import Database, Transaction

if TYPE_CHECKING:
    from cronce.runtime.run import Run

C = TypeVar("C")


class RunTransaction(Transaction[C], Generic[C]):
    def __init__(self, database: Database, run: "Run", conn: C, step: str) -> None:
        super().__init__(database, run, conn, step)
        self._of, self._whole, self._conn_id = run, not step, id(conn)

    def __enter__(self) -> C:
        with shielded(), self._alone():
            return super().__enter__()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with shielded(error):
            self._of.joined.discard(self._conn_id)
            super().__exit__(kind, error, trace)
            self._ended(error)

    async def __aenter__(self) -> C:
        with self._alone():
            return await super().__aenter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._of.joined.discard(self._conn_id)
        await super().__aexit__(kind, error, trace)
        self._ended(error)

    def _ended(self, error: BaseException | None) -> None:
        if error is None and self._whole:
            self._of.committed = True

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """A block in a block would commit what the outer one has written."""
        joined = self._of.joined
        if self._conn_id in joined:
            raise BadInput(
                f"{self._of.key}: this connection is in a transaction of the run already; end that block before the"
                " next begins, or give the inner one a connection of its own"
            )
        joined.add(self._conn_id)
        try:
            yield
        except BaseException:
            joined.discard(self._conn_id)
            raise
