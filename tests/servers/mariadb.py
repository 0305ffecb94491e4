"""MariaDB from the distribution's packages."""

import getpass
import shutil
from collections.abc import Sequence

from tests.house.needs import tool
from tests.servers.process import Server

INSTALL = "apt-get install mariadb-server"


class MariaDb(Server):
    """Settings are those of `my.cnf`."""

    def __init__(self, **settings: str) -> None:
        self.program = shutil.which("mariadbd", path="/usr/sbin:/usr/bin:/usr/local/sbin") or tool("mariadbd", INSTALL)
        super().__init__("mariadb", _command, _answers, "mysql://root@127.0.0.1:{port}/cronce")
        self.settings = {"innodb-buffer-pool-size": "64M", "max-connections": "300", **settings}
        self.temporary = self.directory / "tmp"  # of its own: one that starts removes what others have in a shared one
        self.temporary.mkdir()
        self.run(
            tool("mariadb-install-db", INSTALL), "--no-defaults", f"--user={getpass.getuser()}", "--skip-test-db",
            f"--datadir={self.directory / 'data'}", "--auth-root-authentication-method=normal",
            f"--tmpdir={self.temporary}",
        )  # fmt: skip


def _command(server: Server) -> Sequence[str]:
    assert isinstance(server, MariaDb)
    settings = [f"--{name}={value}" for name, value in server.settings.items()]
    return [
        server.program, "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={server.directory / 'data'}",
        f"--socket={server.directory / 'socket'}", f"--port={server.port}", "--bind-address=127.0.0.1",
        "--skip-log-bin", f"--pid-file={server.directory / 'pid'}", f"--tmpdir={server.temporary}", *settings,
    ]  # fmt: skip


def _answers(server: Server) -> bool:
    import pymysql  # noqa: PLC0415

    with (
        pymysql.connect(host="127.0.0.1", port=server.port, user="root", connect_timeout=5) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE DATABASE IF NOT EXISTS cronce")
        return True
