"""What the doctor asks of a Redis."""

from contextlib import closing

from tests.servers.valkey import Valkey
from tests.stores.redis.opening import opened


def verdicts(url: str) -> dict[str, str]:
    with opened(url) as store:
        return {check.name: check.verdict for check in store.checks()}


def test_the_doctor_looks_at_persistence_and_eviction(server: Valkey) -> None:
    healthy = {
        "version": "ok", "rights": "ok", "writable": "ok", "settings": "ok", "durable": "ok", "eviction": "ok",
        "index": "ok", "failover": "ok", "namespaces": "ok",
    }  # fmt: skip
    wrong = {"durable": "error", "eviction": "error"}
    server.cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    assert verdicts(server.url) == healthy | wrong
    server.cli("CONFIG", "SET", "save", "60 1")
    server.cli("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    assert verdicts(server.url) == healthy | {"durable": "warn"}
    server.cli("CONFIG", "SET", "appendonly", "yes")
    assert verdicts(server.url) == healthy | {"durable": "warn"}
    server.cli("CONFIG", "SET", "appendfsync", "always")
    assert verdicts(server.url) == healthy
    server.cli("CONFIG", "SET", "no-appendfsync-on-rewrite", "yes")
    assert verdicts(server.url) == healthy | {"durable": "warn"}


def test_the_doctor_looks_at_replicas(server: Valkey) -> None:
    assert verdicts(f"{server.url}?min_replicas=1")["failover"] == "error"
    with closing(server.replica()):
        found = verdicts(server.url)
        assert (found["failover"], found["partition"]) == ("warn", "warn")
        server.cli("CONFIG", "SET", "min-replicas-to-write", 1)
        found = verdicts(f"{server.url}?min_replicas=1")
        assert (found["failover"], found["partition"]) == ("ok", "ok")


def test_the_doctor_names_other_namespaces(server: Valkey) -> None:
    verdicts(f"{server.url}?namespace=shop")
    with opened(server.url) as store:
        (check,) = [check for check in store.checks() if check.name == "namespaces"]
    assert (check.verdict, check.says) == (
        "warn",
        "there are other stores beside it: shop; a job runs once in each of them",
    )
