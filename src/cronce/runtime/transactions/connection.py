"""How statements are sent over a connection to the user's database, whatever its kind, and which statements each kind
of database gets.

The statements are written once, as generators that yield what a call of the driver gave: its answer, or where the
driver is asynchronous something to await. `drive` sends the answer right back, `drive_async` awaits it first; an error
comes up in the generator either way, at the same place.

Parameters of a statement are named `:slot`, `:of`, `:step`, `:fence`; each driver respells them. In no statement does a
literal hold a colon or a per cent sign, so that respelling is a plain replacement.
"""

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from typing import Any, Final, TypeVar

from cronce.runtime.flow import driven, driven_async
from cronce.value import NamedTuple

# --- statements -----------------------------------------------------------------------------------------------------

IDLE_SECONDS: Final = 3
"""Seconds for which a transaction may be idle between its check and its commit, before the server ends it."""

WAIT: Final = 5
"""Seconds for which a lock is waited for: longer than another may keep it idle, so that one call gets through."""

SAVEPOINT: Final = "SAVEPOINT cronce_transaction"
ROLLBACK_TO: Final = "ROLLBACK TO SAVEPOINT cronce_transaction"
RELEASE: Final = "RELEASE SAVEPOINT cronce_transaction"

PROBE_TABLE: Final = "SELECT slot FROM cronce_effects WHERE slot = '' AND step = ''"
SELECT_STEPS: Final = """SELECT step, fence, done IS NOT NULL FROM cronce_effects
    WHERE (slot = :slot AND step = '') OR (slot = :of AND step = :step)"""
READ_FENCING_ROW: Final = "SELECT fence, done IS NOT NULL FROM cronce_effects WHERE slot = :slot AND step = ''"
DONE: Final = "UPDATE cronce_effects SET done = {now} WHERE slot = :slot AND step = ''"
STEP_DONE: Final = "INSERT INTO cronce_effects (slot, step, fence, done) VALUES (:of, :step, :fence, {now})"
PURGE: Final = "DELETE FROM cronce_effects WHERE slot >= :first AND slot < :before"

_INSERT: Final = "INSERT INTO cronce_effects (slot, step, fence) VALUES (:slot, '', :fence)"


HAS_WRITTEN: Final = "SELECT txid_current_if_assigned() IS NOT NULL"
"""On PostgreSQL: a transaction gets a number with its first write."""


class Dialect(NamedTuple):
    """What differs between databases."""

    name: str
    table: str
    now: str
    higher: str  # make the fence of a slot this one, where it was lower and the slot is not done
    for_update: str = ""  # behind a SELECT: lock the row
    lock: str = ""  # where a SELECT locks nothing: what does
    marks: tuple[str, ...] = (SAVEPOINT,)  # begin what ends with the transaction
    first: str = ""  # in a short transaction of our own
    limits: str = ""  # from here on others do not wait long for this transaction
    unlimited: str = ""  # after the transaction: the limits as they were
    spelled: Callable[[str], Any] = str  # a text as it is bound

    @property
    def read(self) -> str:
        return READ_FENCING_ROW + self.for_update

    def done(self, step: str) -> str:
        return (STEP_DONE if step else DONE).format(now=self.now)


_ON_CONFLICT: Final = f"""{_INSERT}
    ON CONFLICT (slot, step) DO UPDATE SET fence = excluded.fence
    WHERE cronce_effects.done IS NULL AND cronce_effects.fence < excluded.fence"""

POSTGRESQL: Final = Dialect(
    name="postgresql",
    table="""CREATE TABLE IF NOT EXISTS cronce_effects (
    slot  text COLLATE "C" NOT NULL,
    step  text COLLATE "C" NOT NULL,
    fence text COLLATE "C" NOT NULL,
    done  timestamptz,
    PRIMARY KEY (slot, step)
)""",
    now="clock_timestamp()",
    higher=_ON_CONFLICT,
    for_update=" FOR UPDATE",
    first="SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
    limits=(
        f"SELECT set_config('idle_in_transaction_session_timeout', '{IDLE_SECONDS}s', true),"
        f" set_config('lock_timeout', '{WAIT}s', true)"
    ),
)

MYSQL: Final = Dialect(
    name="mysql",
    # bytes: of the text collations that MySQL and MariaDB both know, none distinguishes "a" from "a "
    table="""CREATE TABLE IF NOT EXISTS cronce_effects (
    slot  VARBINARY(300) NOT NULL,
    step  VARBINARY(1000) NOT NULL,
    fence VARBINARY(40) NOT NULL,
    done  DATETIME(6),
    PRIMARY KEY (slot, step)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC""",
    now="UTC_TIMESTAMP(6)",
    higher=f"{_INSERT} ON DUPLICATE KEY UPDATE fence = IF(done IS NULL AND fence < :fence, :fence, fence)",
    for_update=" FOR UPDATE",
    # outside of a transaction a SAVEPOINT is accepted silently; to go back to it then is an error
    marks=(SAVEPOINT, ROLLBACK_TO),
    first=f"SET SESSION innodb_lock_wait_timeout = {WAIT}",
    # an idle session is ended also within a transaction; there are no settings for one transaction
    limits=(
        "SET @cronce_idle = @@SESSION.wait_timeout, @cronce_wait = @@SESSION.innodb_lock_wait_timeout,"
        f" SESSION wait_timeout = {IDLE_SECONDS}, SESSION innodb_lock_wait_timeout = {WAIT}"
    ),
    unlimited="SET SESSION wait_timeout = @cronce_idle, SESSION innodb_lock_wait_timeout = @cronce_wait",
    spelled=str.encode,
)

SQLITE: Final = Dialect(
    name="sqlite",
    table="""CREATE TABLE IF NOT EXISTS cronce_effects (
    slot  TEXT NOT NULL,
    step  TEXT NOT NULL,
    fence TEXT NOT NULL,
    done  TEXT,
    PRIMARY KEY (slot, step)
) WITHOUT ROWID""",
    now="CURRENT_TIMESTAMP",
    higher=_ON_CONFLICT,
    lock="UPDATE cronce_effects SET fence = fence WHERE slot = :slot AND step = ''",
)

DIALECTS: Final = {"postgresql": POSTGRESQL, "mysql": MYSQL, "mariadb": MYSQL, "sqlite": SQLITE}
"""By the names that SQLAlchemy and Django have for them."""


# --- drivers --------------------------------------------------------------------------------------------------------

T = TypeVar("T")
Talk = Generator[Any, Any, T]
Row = tuple[Any, ...]


def drive(talk: Talk[T]) -> T:
    return driven(talk, lambda said: said)


async def drive_async(talk: Talk[T]) -> T:
    return await driven_async(talk, _heard)


async def _heard(said: Any) -> Any:
    return await said if inspect.isawaitable(said) else said


class Driver(ABC):
    """A connection, for one transaction at a time. What is here holds for most kinds."""

    asynchronous = False
    speaks_after = True  # may send a statement after its commit without beginning another transaction

    def __init__(self, conn: Any, dialect: Dialect) -> None:
        self.conn = conn
        self.dialect = dialect

    @abstractmethod
    def obstacle(self) -> str:
        """Why a commit of ours would not be the real one; "" if it will be."""

    def pending(self) -> Talk[str]:
        """Why what its user did before would become part of a transaction of ours; "" if it does not. A transaction
        that has only read is ended."""
        if not self.is_open():
            return ""
        written = yield from self.has_written()
        if written:
            return "has writes that are not committed yet"
        if written is None:
            return "is in a transaction (a SELECT opens one, too), and cronce cannot know whether it has written"
        yield from self.end_reading()
        return ""

    def is_open(self) -> bool:
        """Whether it is in a transaction already."""
        return False

    def has_written(self) -> Talk[bool | None]:
        """Whether the open transaction has written; None: the driver does not know."""
        yield from ()
        return None

    def end_reading(self) -> Talk[None]:
        yield from self.rollback()

    def begin(self) -> Talk[None]:
        """Open a transaction."""
        yield from ()

    def ask(self, statement: str, **values: str) -> Talk[list[Row]]:
        yield from ()
        with closing(self._cursor()) as cursor:
            cursor.execute(self._respelled(statement), self._bound(values) or None)
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

    def in_step(self) -> Talk[bool]:
        """Whether an answer that it reads is the one to what it asked. Most refuse to ask before they have read."""
        yield from ()
        return True

    def hang_up(self) -> Talk[None]:
        yield self.conn.close()

    def _cursor(self) -> Any:
        """One that gives rows as tuples, whatever its user likes."""
        return self.conn.cursor()

    def _bound(self, values: dict[str, str]) -> dict[str, Any]:
        return {name: self.dialect.spelled(value) for name, value in values.items()}

    @staticmethod
    def _respelled(statement: str) -> str:
        """Its parameters as most drivers want them."""
        return re.sub(r":(\w+)", r"%(\1)s", statement)


# --- around a transaction -------------------------------------------------------------------------------------------


def undo(driver: Driver) -> Talk[None]:
    """Roll back. Where that fails close the connection, so that the server rolls back: an open connection would keep
    its locks. A caller that was stopped in the middle of a statement leaves a connection with an unread answer, which
    refuses every statement."""
    undone = False
    with suppress(Exception):
        yield from driver.rollback()
        undone = yield from driver.in_step()
    if not undone:
        with suppress(Exception):
            yield from driver.hang_up()


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
