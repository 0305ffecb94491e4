"""What `cronce doctor` checks of a Redis: whether it can lose data, and on how many machines it is."""

from collections.abc import Iterator, Mapping
from typing import Final

from cronce.stores.checks import Check, alone, error, ok, warn
from cronce.stores.redis.server import FLUSHING, RedisConnection, answered, read_config, shown, tag
from cronce.stores.redis.url import RedisAddress
from cronce.stores.redis.wire import instant_at

OLDEST_REDIS: Final = (6, 2)
SETTINGS: Final = ("*append*", "save", "maxmemory*", "min-replicas-to-write")
SCANS: Final = 20
"""Steps of a thousand keys: on a server with more, namespaces beyond them are not seen."""


READ_COMMANDS: Final = ("hget", "hlen", "hmget", "hscan", "zrangebylex", "zrevrangebylex")
WRITE_COMMANDS: Final = ("hset", "hdel", "del", "zadd", "zrem")
ASKS: Final = ("select", "info", "time", "eval", "evalsha", "publish", "subscribe", "config|get", "scan")
"""The commands that the store sends; the last one only the doctor."""


def least_rights(place: RedisAddress) -> str:
    """The rights that a user needs for this store, as `ACL SETUSER` takes them."""
    more = ("wait",) * bool(place.min_replicas) + ("cluster|slots", "cluster|keyslot", "cluster|nodes") * place.cluster
    allowed = " ".join(f"+{command}" for command in (*ASKS, *more, *READ_COMMANDS, *WRITE_COMMANDS))
    keys = f"{tag(place.namespace)}:*"
    return f"resetkeys ~{keys} resetchannels &{keys} -@all {allowed}"


def checks(connection: RedisConnection, place: RedisAddress) -> Iterator[Check]:
    config = _config(connection)
    yield _version(connection)
    yield ok("rights", f"the least that works: ACL SETUSER NAME on >PASSWORD {least_rights(place)}")
    yield ok("writable", f"{shown(connection.address)} is the master")
    yield _settings(config)
    if config:
        yield _durable(config)
        yield _eviction(config)
    yield _index(connection, place)
    yield _failover(connection, place)
    if config and (place.fails_over or connection.server.replicas):
        yield _partition(config)
    yield _namespaces(connection, place)


def _config(connection: RedisConnection) -> Mapping[str, str]:
    replies = connection.ask(*(("CONFIG", "GET", setting) for setting in SETTINGS))
    return {name: value for reply in replies for name, value in read_config(reply).items()}


def _version(connection: RedisConnection) -> Check:
    info = connection.server.info
    if "valkey_version" in info:
        return ok("version", f"Valkey {info['valkey_version']}")
    version = info.get("redis_version", "?")
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < OLDEST_REDIS:
        return warn(
            "version", f"Redis {version}", "cronce is tested with Redis 6.2 and newer, and with Valkey: upgrade"
        )
    return ok("version", f"Redis {version}")


def _settings(config: Mapping[str, str]) -> Check:
    if config:
        return ok("settings", "can be read")
    return warn(
        "settings",
        "this user may not read them, so the store counts as one that can lose data",
        "allow it: ACL SETUSER NAME +config|get",
    )


def _durable(config: Mapping[str, str]) -> Check:
    if config.get("appendonly") == "yes":
        if FLUSHING.items() <= config.items():
            return ok("durable", "every write is on disk before it is answered")
        if config.get("appendfsync") == "always":
            return warn(
                "durable",
                "no-appendfsync-on-rewrite is yes: a crash while the log is rewritten loses writes",
                "CONFIG SET no-appendfsync-on-rewrite no, and the same in its configuration file",
            )
        return warn(
            "durable",
            f"appendfsync is {config.get('appendfsync')}: a crash loses the last second, and its slots are unknown",
            "CONFIG SET appendfsync always, and the same in its configuration file",
        )
    if config.get("save"):
        return warn(
            "durable",
            f"only snapshots (save {config['save']}): a crash loses what came after, and its slots are unknown",
            "CONFIG SET appendonly yes, then appendfsync always, and the same in its configuration file",
        )
    return error(
        "durable",
        "a restart loses everything: claims are lost, and slots around it are unknown",
        "CONFIG SET appendonly yes, then appendfsync always, and the same in its configuration file",
    )


def _eviction(config: Mapping[str, str]) -> Check:
    policy = config.get("maxmemory-policy", "noeviction")
    if not policy.startswith("allkeys"):  # our keys never expire, so volatile policies do not touch them
        return ok("eviction", f"maxmemory-policy is {policy}: no cell is evicted")
    says = f"maxmemory-policy is {policy}: when memory is full it deletes this store, and slots run again"
    return error("eviction", says, "CONFIG SET maxmemory-policy noeviction, or a server of its own")


def _index(connection: RedisConnection, place: RedisAddress) -> Check:
    """Its first member says when the index was rebuilt, if it was."""
    first = ("ZRANGEBYLEX", f"{tag(place.namespace)}:index", "[!", '("', "LIMIT", 0, 1)
    (reply,) = answered(connection.ask(first), place)
    rebuilt = instant_at(reply[0][1:]) if reply else None
    if rebuilt is None:
        return ok("index", "lists every cell")
    says = f"it was evicted or deleted, and rebuilt from the cells at {rebuilt:%Y-%m-%d %H:%M:%S} UTC"
    return warn("index", says, "find out what deletes keys here; maxmemory-policy must be noeviction")


def _failover(connection: RedisConnection, place: RedisAddress) -> Check:
    replicas, wanted = connection.server.replicas, place.min_replicas
    if wanted > replicas:
        return error(
            "failover",
            f"min_replicas={wanted}, and {replicas} are connected: every write counts as unanswered",
            "connect a replica, or lower min_replicas in the URL",
        )
    if wanted:
        return ok("failover", f"every write is on {wanted} of {replicas} replicas before it counts")
    if not replicas and not place.fails_over:
        return ok("failover", "one server: if it fails, no other takes over")
    return warn(
        "failover",
        "replicas get writes after they were answered: a failover can lose the last ones without a trace",
        "add min_replicas=1 to the URL of every process",
    )


def _partition(config: Mapping[str, str]) -> Check:
    least = config.get("min-replicas-to-write", "0")
    if least != "0":
        return ok("partition", f"a master with fewer than {least} replicas refuses to write")
    return warn(
        "partition",
        "a master that is cut off still accepts writes, which are lost when it comes back",
        "CONFIG SET min-replicas-to-write 1",
    )


def _namespaces(connection: RedisConnection, place: RedisAddress) -> Check:
    ours, cursor, found = f"{tag(place.namespace)}:cells".encode(), b"0", set[bytes]()
    for _ in range(SCANS):
        step = ("SCAN", cursor, "MATCH", "{cronce:*}:cells", "COUNT", 1000)
        ((cursor, keys),) = answered(connection.ask(step), place)
        found.update(keys)
        if cursor == b"0":
            break
    others = sorted(key.decode(errors="replace")[8:-7] for key in found - {ours})
    return alone(others, "give every process of a job the same ?namespace=")
