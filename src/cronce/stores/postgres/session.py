"""A session of PostgreSQL, for advisory locks: the server keeps those for as long as the session lives.

One connection for all locks of a process, and for nothing else: a user's rollback, or a pool that hands a connection to
another user, cannot touch them. No question ever waits at the server, so that no lock waits for another.

*A session that is not ours alone* is refused. The server sends each client at its start the number of the server
process that it talks to. A pooler cannot: it has many, and makes a number up. A client that gets another number from
the server process itself talks to a pooler, and its lock would soon belong to another client.

*A session that ended* takes its locks with it, so that has to be noticed. A server that ends it closes the connection,
which the socket shows at once. One that is out of reach sends nothing: then a call fails after SESSION_TIMEOUT at most.
The server in turn gives up a client that it cannot reach, and frees its locks, only after CLIENT_GONE_AFTER. That is
later.
"""

import os
import select
from contextlib import suppress
from typing import Any, Final

from cronce.clock import SystemClock
from cronce.errors import StoreReadOnly, StoreUnavailable, StoreUnusable
from cronce.model import Boot
from cronce.stores.base import closed_on_error
from cronce.stores.postgres.server import PostgresAddress, dial, explained, locate

# Not before the import above, whose error names what to install where psycopg is missing.
# isort: split
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

SESSION_TIMEOUT: Final = 5.0
"""Seconds. No call waits longer than this for its answer, whatever ?timeout is."""

CLIENT_GONE_AFTER: Final = 30
"""Seconds after which the server gives up a client that went silent."""

SERVER_SETTINGS: Final = {
    "tcp_keepalives_idle": f"{CLIENT_GONE_AFTER // 3}",
    "tcp_keepalives_interval": f"{CLIENT_GONE_AFTER // 6}",
    "tcp_keepalives_count": "4",
    "tcp_user_timeout": f"{CLIENT_GONE_AFTER * 1000}",
    "idle_session_timeout": "0",
}

CLIENT_SETTINGS: Final = {
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}

WHO_ARE_YOU: Final = "SELECT pg_backend_pid(), pg_is_in_recovery()"

SET_SESSION: Final = (
    "SELECT set_config(name, %(ours)s::jsonb ->> name, false) FROM pg_settings WHERE %(ours)s::jsonb ? name"
)

TRY: Final = "SELECT pg_try_advisory_lock(%s::bigint)"

UNLOCK: Final = "SELECT pg_advisory_unlock(%s::bigint)"

CHECK_SESSION: Final = "SELECT pg_backend_pid()"

WHO_HAS_IT: Final = """
    SELECT coalesce(nullif(a.application_name, ''), 'a session'), pid, coalesce(host(a.client_addr), '')
    FROM pg_locks LEFT JOIN pg_stat_activity AS a USING (pid)
    WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND (classid::bigint << 32 | objid::bigint) = %s::bigint
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    LIMIT 1
"""


def key_of(name: str, schema: str = "public") -> int:
    """The number of a name, the same on every machine: 64 bits of a real hash, so that two names meet by accident about
    as often as two random numbers, and hardly ever a number that a person chose."""
    from hashlib import blake2b  # noqa: PLC0415  slow to import, and few need it

    digest = blake2b(f"cronce/{schema}/lock/{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


class AdvisorySession:
    """An open connection of one process, used by one thread at a time. Once lost it stays lost."""

    def __init__(self, url: str, holder: str) -> None:
        place = locate(url)
        self.schema = place.schema
        self.lost = ""
        """Why its locks are gone, or cannot be shown to be held; "" while they are."""
        self.proven: Boot = 0.0
        """When a question began that was answered: the locks were held then."""
        self._place = place._replace(conninfo=_dressed(place, holder), patience=min(place.patience, SESSION_TIMEOUT))
        self._boot = SystemClock().boot
        self._line = dial(self._place)
        with closed_on_error(self):
            self._introduce()

    def _introduce(self) -> None:
        process, standby = self._ask(WHO_ARE_YOU)
        if process != self._line.pgconn.backend_pid:
            raise StoreUnusable(
                f"{self._place.named} is a pooler (PgBouncer or its like): an advisory lock belongs to a session,"
                " and a pooler shares its sessions between clients. Give session locks the URL of the server"
                " itself, or leave out session=…"
            )
        if standby:
            raise StoreReadOnly(
                f"{self._place.named} is a standby: a lock on it does not exclude clients of the primary; use the"
                " primary"
            )
        import json  # noqa: PLC0415  the server takes the settings as one parameter

        self._ask(SET_SESSION, {"ours": json.dumps(SERVER_SETTINGS)})

    # --- what is asked ---

    def try_lock(self, key: int) -> bool:
        """Whether the lock is ours now. The server grants it again to a session that has it, so a holder must not
        ask."""
        return self._whole(TRY, key)

    def unlock(self, key: int) -> bool:
        """Give it back; False if it was not held."""
        return self._whole(UNLOCK, key)

    def _whole(self, statement: str, key: int) -> bool:
        """If the caller is interrupted in between (Ctrl-C), the lock is released: otherwise it would never be given
        back."""
        try:
            return self._ask(statement, [key]) == (True,)
        except StoreUnavailable:
            raise
        except BaseException:
            with suppress(StoreUnavailable):
                self._ask(UNLOCK, [key])
            raise

    def who_has(self, key: int) -> str:
        """Who has it, for people."""
        found = self._ask(WHO_HAS_IT, [key])
        if not found:
            return "a session that has just released it"
        name, process, address = found
        return f"{name} (backend {process}{f', from {address}' if address else ''})"

    def beat(self) -> None:
        """See that the session is still there, and the same."""
        if self._ask(CHECK_SESSION) != (self._line.pgconn.backend_pid,):
            raise self._lose(f"{self._place.named} goes on with another session")

    def stirs(self, seconds: float) -> bool:
        """Wait until the server sends something without being asked: mostly that it closes the connection."""
        try:
            poll = select.poll()
            poll.register(self._line.fileno(), select.POLLIN)
            return bool(poll.poll(seconds * 1000))
        except psycopg.Error:  # it has no socket any more
            return True

    def _ask(self, statement: str, given: Any = None) -> tuple[Any, ...]:
        """The first row of the answer, if any. Whatever goes wrong, the session is not relied on any more."""
        if self.lost:
            raise StoreUnavailable(self.lost)
        began = self._boot()
        try:
            answer = self._line.execute(statement, given).fetchone() or ()
        except psycopg.Error as error:
            raise self._lose(str(explained(error, self._place))) from error
        self.proven = began
        return answer

    def _lose(self, why: str) -> StoreUnavailable:
        self.lost = why
        return StoreUnavailable(why)

    # --- the end ---

    def close(self) -> None:
        self.lost = self.lost or f"the session at {self._place.named} was closed by this process"
        self._line.close()

    def forked(self) -> None:
        """In a child: close the parent's socket without sending anything. As long as any process has it open, the
        server believes that the parent lives; and whatever the child sent there would count as the parent's."""
        _PARENTS_SESSIONS.append(self._line)
        with suppress(psycopg.Error):  # it may have no socket any more
            socket = self._line.fileno()
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, socket, inheritable=False)
            os.close(nothing)


_PARENTS_SESSIONS: Final[list[object]] = []


def _dressed(place: PostgresAddress, holder: str) -> str:
    """The options for libpq: who asks, and to notice soon when the other side is gone, unless the URL sets these."""
    given = conninfo_to_dict(place.conninfo)
    return make_conninfo("", **{**CLIENT_SETTINGS, **given, "application_name": holder[-63:]})
