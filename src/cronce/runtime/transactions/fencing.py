"""The statements about a run in the user's database, written so that any driver can run them.

Theory of operation
===================

One table in the user's database, `cronce_effects (slot, step, fence, done)`. The row (slot, '') is the *fence row* of a
slot: which grant may commit, and whether the run has. A row (slot, step) is a step that was committed; of an effect on
a thing it is (what is done, thing), such as ('charge', 'invoice:7'), for all slots and jobs. Only what follows touches
the table; cronce's ledger and its keeper never do, wherever the store is.

    raise    before the body   the fence row gets this grant's fence, where it was lower and the slot is not done
    commit   user's own        … the user's writes …; LOCK the fence row, read it: my fence? not done?;
             transaction       write `done` (or the step's row); COMMIT
    seal     by a sweeper      the fence row gets the lost grant's fence and a "+": above it, below any later one

The promise: after `raise` (or `seal`) has returned, no transaction under a lower fence commits, and the process that
raised sees what was committed under one before.

*Why it holds.* Both sides lock one row, so one of them is first.

- The commit has the lock. The raise waits until that transaction has ended. If it committed, its `done` is there when
  the raise goes on, and is read by it in the same transaction; its steps are there too.
- The raise has the lock. The commit waits until that has ended, reads a fence that is not its own, and rolls back:
  all that the user wrote is gone with it.

*Why the row is locked, and not only read.* `INSERT … SELECT … WHERE fence = mine` reads without a lock: between it and
COMMIT there is room for a raise. Locking is SELECT … FOR UPDATE, and where there is no such thing (SQLite) an UPDATE
that changes nothing: it waits for its turn to write, whereas a transaction that reads first and writes then is refused
if another wrote in between. How many rows an UPDATE met is never asked: some drivers count those met, some those
changed.

*Two runs at one thing.* Each checks its own fence row, and then inserts the same row: the database lets one of them
have it. The other waits for that one's end, and is refused if it committed; then its own writes are rolled back.

*Why last.* From its check to its commit a transaction keeps others from raising the fence. Nothing but the commit
follows, and a process that is paused right there is cut off by its server after IDLE_SECONDS, which others wait for: on
PostgreSQL by a setting of this transaction, on MySQL and MariaDB by `wait_timeout`, which is put back behind the commit
(SQLAlchemy cannot send a statement there without a new transaction: through it no process is cut off). SQLite has no
server: a paused process that has written blocks all other writers. A process that raises then gives up, and nothing
runs.

Whether the step is done already is asked before the begin, over a connection of our own: read in the user's transaction
it would fix its snapshot, and under SERIALIZABLE on MySQL lock the row from the begin to the end.

*Isolation.* READ COMMITTED: a lock that was waited for shows the row as it is now. REPEATABLE READ and SERIALIZABLE on
PostgreSQL: a row that changed since the snapshot cannot be locked, the server refuses (40001). MySQL, MariaDB: a
locking read is always of the newest row; under `innodb_snapshot_isolation` it is refused (1020). SQLite: a transaction
that has read and whose snapshot is not the newest may not write (SQLITE_BUSY_SNAPSHOT). Each refusal is a rollback. So
none of these errors is read: whatever a driver raises, the *table* is read over a connection of our own to learn what
became of the run. Only where the table shows no loss the driver's error is passed on.

*A commit whose answer is lost* is found out the same way: the fence row is locked by the transaction whose answer was
lost, and the process that gets the lock next sees how it ended.

*A transaction that its user ended inside the block*, by commit(), rollback(), or a CREATE TABLE on MySQL, was not
checked. It is noticed by a savepoint that is taken at the begin, ends with its transaction, and is released at the end.
"""

from typing import Final

from cronce.errors import AlreadyDone, BadInput, CronceError, LeaseLost
from cronce.model import Fence, Instant, spell
from cronce.runtime.transactions.connection import (
    PROBE_TABLE,
    PURGE,
    RELEASE,
    SELECT_STEPS,
    Driver,
    T,
    Talk,
    leave,
    limit,
    undo,
)
from cronce.value import NamedTuple

MAX_STEP_BYTES: Final = 1000
"""Bytes of a step's name; MySQL has room for 3,072 in an index."""


class Committed(NamedTuple):
    """What a transaction puts on record: the slot's end, a step of a slot or, by its name, what is done to a thing."""

    of: str
    step: str = ""

    def __str__(self) -> str:
        return f"the step {self.step!r} of {self.of}" if "@" in self.of else f"{self.of} of {self.step}"


class FencingRow(NamedTuple):
    """What the table holds about a slot, and about one step."""

    fence: str = ""  # "" if there is no fence row
    done: bool = False
    step_fence: str = ""  # under which the step was committed; "" if it was not

    def is_by(self, fence: Fence, step: str) -> bool:
        """Whether the step, or the run, was committed under this fence."""
        return str(fence) == self.step_fence if step else self.done and str(fence) == self.fence


# --- short transactions of our own ----------------------------------------------------------------------------------


def short(driver: Driver, work: Talk[T]) -> Talk[T]:
    """Something quick, in a transaction for which others do not wait long."""
    yield from driver.begin()
    try:
        if driver.dialect.first:
            yield from driver.ask(driver.dialect.first)
        yield from limit(driver)
        answer = yield from work
        yield from driver.commit()
    except BaseException:
        yield from undo(driver)
        raise
    finally:
        yield from leave(driver, limited=True)
    return answer


def probe(driver: Driver) -> Talk[None]:
    """Fails where the table is missing, or the connection is broken."""
    yield from driver.ask(PROBE_TABLE)
    yield from driver.rollback()


def higher(driver: Driver, key: str, fence: str) -> Talk[FencingRow]:
    """Make the fence of a slot this one, where it was lower and nothing is done; then see how it is."""
    yield from driver.ask(driver.dialect.higher, slot=key, fence=fence)
    return (yield from locked(driver, key))


def locked(driver: Driver, key: str) -> Talk[FencingRow]:
    """The fence row, with its lock."""
    if driver.dialect.lock:
        yield from driver.ask(driver.dialect.lock, slot=key)
    rows = yield from driver.ask(driver.dialect.read, slot=key)
    return FencingRow(_text(rows[0][0]), bool(rows[0][1])) if rows else FencingRow()


def glance(driver: Driver, key: str, committed: Committed) -> Talk[FencingRow]:
    """The state of the slot, without waiting for any other transaction."""
    found = yield from look(driver, key, committed)
    yield from driver.rollback()
    return found


def settled(driver: Driver, key: str, committed: Committed) -> Talk[FencingRow]:
    """The state of the slot once every transaction that had checked the fence has ended."""
    yield from locked(driver, key)
    return (yield from look(driver, key, committed))


def look(driver: Driver, key: str, committed: Committed) -> Talk[FencingRow]:
    rows = yield from driver.ask(SELECT_STEPS, slot=key, of=committed.of, step=committed.step)
    steps = {_text(name): (_text(fence), bool(done)) for name, fence, done in rows}
    fence, done = steps.pop("", ("", False))
    step_fence, _ = steps.get(committed.step, ("", True))
    return FencingRow(fence, done, step_fence)


def purge(driver: Driver, job: str, before: Instant) -> Talk[None]:
    """A slot's key is its job, an @ and its instant, and sorts by that."""
    yield from driver.ask(PURGE, first=f"{job}@", before=f"{job}@{spell(before)}")


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else bytes(value).decode()


class NoFenceRow(BadInput):
    """There is no fence row. Only the declared database can explain why."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"this connection is to another database than the job's transaction=, or to another schema: its table"
            f" cronce_effects has no row of {key}"
        )


# --- the user's transaction -----------------------------------------------------------------------------------------


def check_step(step: str) -> None:
    if not isinstance(step, str) or "\0" in step or len(step.encode(errors="replace")) > MAX_STEP_BYTES:
        raise BadInput(f"step={step!r:.60} cannot be the name of a step: give a text of at most {MAX_STEP_BYTES} bytes")


def open_joint(driver: Driver) -> Talk[None]:
    """Begin, with the mark that ends when the transaction does."""
    try:
        yield from driver.begin()
        for mark in driver.dialect.marks:
            yield from driver.ask(mark)
    except BaseException:
        yield from undo(driver)
        yield from leave(driver, limited=False)
        raise


def close_joint(driver: Driver, key: str, fence: Fence, committed: Committed) -> Talk[None]:
    """All but the commit."""
    yield from driver.flush()
    yield from _release(driver, key)
    yield from limit(driver)
    found = yield from locked(driver, key)
    if not found.fence:
        raise NoFenceRow(key)
    if refusal := verdict(found, key, fence, committed):
        raise refusal
    row = {"of": committed.of, "step": committed.step, "fence": str(fence)} if committed.step else {"slot": key}
    yield from driver.ask(driver.dialect.done(committed.step), **row)


def _release(driver: Driver, key: str) -> Talk[None]:
    try:
        yield from driver.ask(RELEASE)
    except Exception as error:
        yield from undo(driver)
        yield from driver.ask("SELECT 1")  # fails as well where not the transaction is gone, but the connection
        raise BadInput(
            f"the transaction of {key} did not last to the end of its block ({error}): it was committed or rolled"
            " back inside, or a statement in it failed and the error was swallowed. What was committed inside was"
            " not checked. Leave the commit to run.transaction(), and on MySQL do not use CREATE or ALTER in it"
        ) from error


def verdict(found: FencingRow, key: str, fence: Fence, committed: Committed) -> CronceError | None:
    """Why a run may not commit this step, or its end; None if it may."""
    if found.fence != str(fence):
        return lease_lost(key, fence, found.fence)
    if found.step_fence:
        return AlreadyDone(f"{committed} was committed before")
    if found.done and committed.step:
        return BadInput(
            f"{key} is done: a transaction without a step ended it; such a transaction must be the last one"
        )
    if found.done:
        return AlreadyDone(f"{key} was committed before; several transactions in one run need names")
    return None


def lease_lost(key: str, fence: Fence, found: str) -> LeaseLost:
    why = f"the database has {found}" if found else "the database no longer has one"
    return LeaseLost(
        f"{key} may not commit under its fence {fence}: {why}; another run took over, or this one was closed. What it"
        " wrote in this transaction is rolled back",
        name=key,
        fence=fence,
        why=why,
    )
