"""The user's database in a simulated world: PostgreSQL, as far as the real statements of a joined transaction need it.

Rows, row locks that are waited for, READ COMMITTED, sessions that are cut off when they are idle for too long behind
their limits, and that end some time after their client has gone. Each statement is a message of its own: it may be
late or lost, and so may its answer, the one to COMMIT too.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from cronce.errors import DatabaseUnavailable
from cronce.model import Fence
from cronce.runtime.transactions import drivers, fencing
from cronce.runtime.transactions.connection import (
    IDLE_SECONDS,
    POSTGRESQL,
    READ_FENCING_ROW,
    SELECT_STEPS,
    WAIT,
    Driver,
    Row,
    Talk,
)
from cronce.runtime.transactions.fencing import Committed, FencingRow, short
from cronce.testing.receivers import ReceivedEffect
from cronce.testing.world import Answer, OutsideMessage, Play, SimulatedProcess, Sleep, World

COMMIT: Final = "COMMIT"
ROLLBACK: Final = "ROLLBACK"
CHARGE: Final = "INSERT INTO charges (item) VALUES (:item)"
SIMULATED_TIMEOUT: Final = WAIT + 5.0
"""Seconds for an answer of a server, which itself waits for a lock."""

Key = tuple[str, str]


class Error(Exception):
    """What a driver raises: every driver has a class of this name."""


class SimulatedRow(NamedTuple):
    """A row of the table."""

    fence: str
    done: bool


@dataclass(eq=False)
class SimulatedSession:
    """The server's end of a connection."""

    process: SimulatedProcess
    open: bool = False  # in a transaction
    limited: bool = False
    over: bool = False
    busy: bool = False
    statements: int = 0
    lines: dict[Key, SimulatedRow] = field(default_factory=dict)
    charges: list[ReceivedEffect] = field(default_factory=list)
    locks: set[Key] = field(default_factory=set)


class WaitingSession(NamedTuple):
    key: Key
    session: SimulatedSession
    go_on: Callable[[], None]


class SimulatedDatabase:
    def __init__(self, world: World, happens: Callable[[ReceivedEffect], None]) -> None:
        self._world, self._happens = world, happens
        self.lines: dict[Key, SimulatedRow] = {}
        self._locks: dict[Key, SimulatedSession] = {}
        self._waiting: list[WaitingSession] = []
        self._down_until = 0.0

    def hear(self, session: SimulatedSession, statement: str, values: dict[str, Any], answer: Answer) -> None:
        """A statement has arrived."""
        if self._world.real < self._down_until:
            return
        if session.over:
            answer(Error("the server closed the connection"))
            return
        session.open = session.busy = True
        key = self._locking(statement, values)
        holder = self._locks.get(key, session) if key else session
        if key is None or holder is session:
            self._do(session, statement, values, key, answer)
            return
        self._world.faults["lock waited for"] += 1
        waiting = WaitingSession(key, session, lambda: self.hear(session, statement, values, answer))
        self._waiting.append(waiting)
        self._world.after(WAIT, lambda: self._give_up(waiting, answer))

    def _give_up(self, waiting: WaitingSession, answer: Answer) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
            self.end(waiting.session)
            answer(Error("canceling statement due to lock timeout"))

    def _locking(self, statement: str, values: dict[str, Any]) -> Key | None:
        """Which row a statement locks."""
        if statement in (POSTGRESQL.higher, POSTGRESQL.done("")):
            return values["slot"], ""
        if statement == POSTGRESQL.done("step"):
            return values["of"], values["step"]
        key = (values.get("slot", ""), "")
        return key if statement == f"{READ_FENCING_ROW} FOR UPDATE" and key in self.lines else None

    def _do(
        self, session: SimulatedSession, statement: str, values: dict[str, Any], key: Key | None, answer: Answer
    ) -> None:
        if key is not None:
            self._locks[key] = session
            session.locks.add(key)
        try:
            rows = self._done(session, statement, values)
        except Error as error:
            self.end(session)
            answer(error)
            return
        session.busy = False
        session.statements += 1
        self._watch_idle(session, session.statements)
        if statement == COMMIT and self._world.chance(0.02):
            self._go_down()
        else:
            answer(rows)

    def _go_down(self) -> None:
        """It has committed, and does not answer for a while; sessions that had a lock have none."""
        seconds = self._world.random.uniform(1, 20)
        self._world.fault("database outage", f"{seconds:.1f} s")
        self._down_until = self._world.real + seconds
        for session in list(self._locks.values()):
            self.end(session)

    def _done(self, session: SimulatedSession, statement: str, values: dict[str, Any]) -> list[Row]:
        if statement == COMMIT:
            self._commit(session)
        elif statement == ROLLBACK:
            self._forget(session)
        elif statement == CHARGE:
            session.charges.append(values["item"])
        elif statement == POSTGRESQL.limits:
            session.limited = True
        elif statement == SELECT_STEPS:
            rows = {(values["slot"], ""), (values["of"], values["step"])}
            return [(row[1], *line) for row in rows if (line := self._line(session, row))]
        elif statement.startswith(READ_FENCING_ROW):
            line = self._line(session, (values["slot"], ""))
            return [tuple(line)] if line else []
        elif key := self._locking(statement, values):
            self._write(session, statement, key, values)
        return []

    def _line(self, session: SimulatedSession, key: Key) -> SimulatedRow | None:
        return session.lines.get(key) or self.lines.get(key)

    def _write(self, session: SimulatedSession, statement: str, key: Key, values: dict[str, Any]) -> None:
        line = self._line(session, key)
        if statement == POSTGRESQL.higher:
            if line is None or (not line.done and line.fence < values["fence"]):
                session.lines[key] = SimulatedRow(values["fence"], done=False)
        elif key[1]:
            if line is not None:
                raise Error("duplicate key value violates unique constraint")
            session.lines[key] = SimulatedRow(values["fence"], done=True)
        elif line is not None:
            session.lines[key] = line._replace(done=True)

    # --- how a transaction ends ---

    def _commit(self, session: SimulatedSession) -> None:
        self.lines |= session.lines
        for effect in session.charges:
            self._happens(effect)
        self._forget(session)

    def _forget(self, session: SimulatedSession) -> None:
        session.lines, session.charges = {}, []
        session.open = session.limited = False
        freed, session.locks = session.locks, set()
        for key in freed:
            del self._locks[key]
        ready = [waiting for waiting in self._waiting if waiting.key in freed]
        self._waiting = [waiting for waiting in self._waiting if waiting not in ready]
        for waiting in ready:
            self._world.after(0.0, waiting.go_on)

    def end(self, session: SimulatedSession) -> None:
        """The connection is gone, and with it what was not committed."""
        session.over = True
        self._forget(session)

    def _watch_idle(self, session: SimulatedSession, statements: int) -> None:
        """Cut off an idle session; a dead client is idle, with or without limits."""

        def look() -> None:
            if session.over or not session.open or session.busy or session.statements != statements:
                return
            if session.limited or not session.process.alive:
                self._world.faults["session cut off"] += 1
                self.end(session)
            else:
                self._world.after(IDLE_SECONDS, look)

        if session.open:
            self._world.after(IDLE_SECONDS, look)


class Connection:
    """The client's end."""

    def __init__(self, server: SimulatedDatabase, process: SimulatedProcess, peril: Callable[[], Play[None]]) -> None:
        self._server, self._world, self._peril = server, process.world, peril
        self.session = SimulatedSession(process)
        self.broken = False

    def say(self, statement: str, **values: Any) -> Play[list[Row]]:
        if self.broken or self.session.process.gone:
            raise Error("the connection is closed")
        post = OutsideMessage(
            lambda answer: self._server.hear(self.session, statement, values, answer),
            Error("no answer from the server"),
            SIMULATED_TIMEOUT,
            risk=0.3,
        )
        yield from self._peril()
        try:
            rows: list[Row] = yield post
        except Error:
            self.close()
            raise
        return rows

    def hesitate(self) -> Play[None]:
        if self._world.chance(0.2):
            yield Sleep(self._world.random.uniform(0.0, IDLE_SECONDS))

    def close(self) -> None:
        """The server learns of it a little later."""
        if self.broken or self.session.process.gone:
            return
        self.broken = True
        self._world.after(self._world.random.uniform(0.0, IDLE_SECONDS), lambda: self._server.end(self.session))


class ModelDriver(Driver):
    def __init__(self, conn: Connection) -> None:
        super().__init__(conn, POSTGRESQL)

    def obstacle(self) -> str:
        return ""

    def ask(self, statement: str, **values: str) -> Talk[list[Row]]:
        rows: list[Row] = yield from self.conn.say(statement, **values)
        return rows

    def commit(self) -> Talk[None]:
        """At times a moment passes between the check and the commit."""
        yield from self.conn.hesitate()
        yield from self.conn.say(COMMIT)

    def rollback(self) -> Talk[None]:
        yield from self.conn.say(ROLLBACK)

    def hang_up(self) -> Talk[None]:
        yield from ()
        self.conn.close()


drivers.DRIVERS[f"{Connection.__module__}.{Connection.__qualname__}"] = ModelDriver


class ModelDatabase:
    """What `transactions.Database` is in production, for one process of this world."""

    def __init__(self, server: SimulatedDatabase, process: SimulatedProcess, peril: Callable[[], Play[None]]) -> None:
        self._server, self._process, self._peril = server, process, peril

    def connect(self) -> Connection:
        return Connection(self._server, self._process, self._peril)

    def raise_fence(self, key: str, fence: Fence) -> Play[bool]:
        found = yield from self._do(lambda driver: short(driver, fencing.higher(driver, key, str(fence))))
        if not found.done and found.fence != str(fence):
            raise fencing.lease_lost(key, fence, found.fence)
        return found.done

    def seal(self, key: str, fence: Fence) -> Play[bool]:
        return (yield from self._do(lambda driver: short(driver, fencing.higher(driver, key, f"{fence}+")))).done

    def look(self, key: str, committed: Committed | None = None) -> Play[FencingRow]:
        return self._do(lambda driver: fencing.glance(driver, key, committed or Committed(key)))

    def settled(self, key: str, committed: Committed) -> Play[FencingRow]:
        return self._do(lambda driver: short(driver, fencing.settled(driver, key, committed)))

    def _do(self, work: Callable[[Driver], Talk[FencingRow]]) -> Play[FencingRow]:
        conn = self.connect()
        try:
            return (yield from work(ModelDriver(conn)))
        except Error as error:
            raise DatabaseUnavailable(f"no answer: {error}") from error
        finally:
            conn.close()
