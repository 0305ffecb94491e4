"""How a connection is spoken to, whatever its kind.

What is said is written once, as generators that yield what a call of the driver gave: its answer, or where the driver
is asynchronous something to await. `drive` sends the answer right back, `drive_async` awaits it first; an error comes
up in the generator either way, at the same place.
"""

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import closing, suppress
from typing import Any, TypeVar

from cronce.runtime.joined.dialects import Dialect

T = TypeVar("T")
Talk = Generator[Any, Any, T]
Row = tuple[Any, ...]


def drive(talk: Talk[T]) -> T:
    answer = None
    try:
        while True:
            answer = talk.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def drive_async(talk: Talk[T]) -> T:
    try:
        said = talk.send(None)
        while True:
            try:
                answer = await said if inspect.isawaitable(said) else said
            except BaseException as error:
                said = talk.throw(error)
            else:
                said = talk.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


class Driver(ABC):
    """A connection, for one transaction at a time. What is here holds for most kinds."""

    asynchronous = False
    speaks_after = True  # may say something behind its commit without beginning another transaction

    def __init__(self, conn: Any, dialect: Dialect) -> None:
        self.conn = conn
        self.dialect = dialect

    @abstractmethod
    def obstacle(self) -> str:
        """Why a commit of ours would not be the real one; "" if it will be."""

    def begin(self) -> Talk[None]:
        """Open a transaction, or go on with the one that was opened by itself."""
        yield from ()

    def ask(self, statement: str, **values: str) -> Talk[list[Row]]:
        yield from ()
        with closing(self._cursor()) as cursor:
            cursor.execute(percent(statement), self._bound(values) or None)
            return list(cursor.fetchall()) if cursor.description else []

    def flush(self) -> Talk[None]:
        """Send what was kept back to be written later."""
        yield from ()

    def commit(self) -> Talk[None]:
        yield self.conn.commit()

    def rollback(self) -> Talk[None]:
        yield self.conn.rollback()

    def restore(self) -> Talk[None]:
        """After the transaction: the connection as it was given."""
        yield from ()

    def _cursor(self) -> Any:
        """One that gives rows as tuples, whatever its user likes."""
        return self.conn.cursor()

    def _bound(self, values: dict[str, str]) -> dict[str, Any]:
        return {name: self.dialect.spelled(value) for name, value in values.items()}


def percent(statement: str) -> str:
    return re.sub(r":(\w+)", r"%(\1)s", statement)


# --- around a transaction -------------------------------------------------------------------------------------------


def undo(driver: Driver) -> Talk[None]:
    """Roll back; where the connection is broken, the server does."""
    with suppress(Exception):
        yield from driver.rollback()


def leave(driver: Driver, *, limited: bool) -> Talk[None]:
    """After a transaction: take back what was set, on a connection that still listens."""
    with suppress(Exception):
        if limited and driver.speaks_after and driver.dialect.unlimited:
            yield from driver.ask(driver.dialect.unlimited)
    with suppress(Exception):
        yield from driver.restore()


def limit(driver: Driver) -> Talk[None]:
    """Where the limits last beyond the transaction, only if they can be taken back."""
    if driver.dialect.limits and (driver.speaks_after or not driver.dialect.unlimited):
        yield from driver.ask(driver.dialect.limits)
