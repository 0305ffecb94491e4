"""A joined transaction as a body has it: nothing stops it halfway, and the run learns that it is complete."""

from collections.abc import Callable
from typing import Generic, TypeVar

from cronce.runtime.interrupt import shielded
from cronce.runtime.joined import Database, Transaction
from cronce.runtime.joined.block import Runs

C = TypeVar("C")


class RunTransaction(Transaction[C], Generic[C]):
    """`complete` is called when the run's own completion is committed, not that of a step."""

    def __init__(self, database: Database, run: Runs, conn: C, step: str, complete: Callable[[], None]) -> None:
        super().__init__(database, run, conn, step)
        self._complete = complete if not step else lambda: None

    def __enter__(self) -> C:
        with shielded():
            return super().__enter__()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with shielded(error):
            super().__exit__(kind, error, trace)
            self._ended(error)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await super().__aexit__(kind, error, trace)
        self._ended(error)

    def _ended(self, error: BaseException | None) -> None:
        if error is None:
            self._complete()
