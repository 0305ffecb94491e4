"""Redis servers: sockets and TLS, passwords and rights, the master, and what errors mean."""

import gc
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cronce.errors import (
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreNewer,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnusable,
)
from cronce.model import Origin
from cronce.stores import open_store
from cronce.stores.base import Scan
from cronce.stores.redis import RedisStore
from cronce.stores.redis.url import REDIS_TIMEOUT
from cronce.testing.contract import (
    cell_of,
    claim,
    refusals,
    swap,
    win,
)
from tests.house.wait import wait_until
from tests.servers.patience import in_time, unanswered_within, until_it_answers
from tests.servers.tls import behind_tls
from tests.servers.valkey import Cluster, Valkey
from tests.stores.redis.opening import calls, hasty, opened
from tests.stores.test_redis_contract import namespaced

# --- URLs -----------------------------------------------------------------------------------------------------------


def test_by_a_unix_socket() -> None:
    server = Valkey()
    server.arguments = ("--unixsocket", f"{server.directory}/socket")
    with server, opened(f"redis://{server.directory}/socket?db=3") as store:
        win(store, claim("a"))
        assert server.cli("INFO", "keyspace")["db3"]["keys"] == 2


def test_a_unix_socket_that_is_not_there_leaves_no_socket_open(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        open_store(f"redis://{tmp_path}/nothing.sock")
    gc.collect()  # a socket that was left open would be an error here


def test_over_tls(server: Valkey, tmp_path: Path) -> None:
    with behind_tls(server.port, tmp_path) as (port, certificate):
        url = f"rediss://localhost:{port}/0?db=0"
        with opened(f"{url}&ssl_ca_certs={certificate}") as store, opened(f"{url}&ssl_cert_reqs=none") as other:
            win(store, claim("a"))
            assert cell_of(other, "a").value == "claimed"
        with hasty(f"{url}&ssl_ca_certs={certificate}&timeout=0.5") as store:
            server.pause()
            with pytest.raises(StoreUnavailable, match=r"did not answer within 0\.5 s"):
                store.load([])
            server.resume()
            assert until_it_answers(lambda: cell_of(store, "a")).value == "claimed"
        with pytest.raises(StoreUnavailable, match="certificate verify failed"):
            open_store(url)


# --- servers that fail ----------------------------------------------------------------------------------------------


def test_a_server_that_is_not_there(server: Valkey) -> None:
    server.kill()
    with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{server.port} cannot be reached"):
        open_store(server.url)


def test_a_silent_server_is_given_up_in_time_and_taken_up_again(server: Valkey) -> None:
    with opened(server.url) as store:
        seen = swap(store, claim("a")).epoch.seen
    with hasty(f"{server.url}?timeout=0.3") as store:
        server.pause()
        for ask in (lambda: store.swap([claim("b")], seen), lambda: store.load(["a"]), lambda: store.scan(Scan(""))):
            with pytest.raises(StoreUnavailable, match=r"did not answer within 0\.3 s; a write may have succeeded"):
                ask()
            assert unanswered_within(float(REDIS_TIMEOUT), ask, least=0.25)
        server.resume()
        assert until_it_answers(lambda: cell_of(store, "a")).version == 1
        assert until_it_answers(lambda: cell_of(store, "b")).version == 2  # it had landed


def test_many_threads_wait_no_longer_than_one(server: Valkey) -> None:
    with hasty(f"{server.url}?timeout=0.3") as store:
        server.pause()
        assert in_time(2, lambda: _fails_in_threads(20, store))
        server.resume()
        assert until_it_answers(lambda: store.load([])).epoch.tally == 0


def _fails_in_threads(number: int, store: RedisStore) -> None:
    threads = [threading.Thread(target=_fails_to, args=(store.load, [])) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _fails_to(call: Callable[..., object], *arguments: Any) -> None:
    with pytest.raises(StoreUnavailable):
        call(*arguments)


def test_a_connection_that_was_cut_while_idle_is_replaced_unnoticed(server: Valkey) -> None:
    with opened(server.url) as store:
        win(store, claim("a"))
        assert server.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") == 1
        assert refusals(swap(store, claim("b"))) == [None]


def test_a_script_that_the_server_forgot_is_sent_again(server: Valkey) -> None:
    with opened(server.url) as store:
        seen = swap(store, claim("a")).epoch.seen
        server.cli("SCRIPT", "FLUSH")
        calls(server)
        assert refusals(store.swap([claim("b")], seen)) == [None]
        assert {name: count for name, count in calls(server).items() if "eval" in name} == {"evalsha": 1, "eval": 1}


def test_a_full_server_writes_nothing_and_goes_on_when_there_is_room(server: Valkey) -> None:
    with opened(server.url) as store:
        win(store, claim("a"))
        server.cli("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(StoreFull, match="maxmemory, and nothing was written; raise maxmemory"):
            swap(store, claim("b"), claim("c"))
        assert cell_of(store, "a").version == 1
        server.cli("CONFIG", "SET", "maxmemory", 0)
        assert [cell.version for cell in win(store, claim("b"), claim("c"))] == [2, 3]


def test_a_full_redis_6_says_the_same(redis_6: Valkey, tmp_path: Path) -> None:
    with opened(namespaced(redis_6.url, tmp_path)) as store:
        redis_6.cli("CONFIG", "SET", "maxmemory", 1)
        try:
            with pytest.raises(StoreFull):
                swap(store, claim("b"))
        finally:
            redis_6.cli("CONFIG", "SET", "maxmemory", 0)


def test_a_server_that_cannot_save() -> None:
    with Valkey("--dbfilename", "taken") as server, opened(server.url) as store:
        win(store, claim("a"))
        server.directory.joinpath("taken").mkdir()
        server.cli("CONFIG", "SET", "save", "3600 1")
        server.cli("BGSAVE")
        wait_until(lambda: server.cli("INFO", "persistence")["rdb_last_bgsave_status"] == "err")
        with pytest.raises(StoreUnusable, match="cannot save to its disk"):
            swap(store, claim("b"))


def test_a_server_without_its_replicas(server: Valkey) -> None:
    with opened(server.url) as store:
        server.cli("CONFIG", "SET", "min-replicas-to-write", 1)
        with pytest.raises(StoreUnavailable, match="fewer replicas than its min-replicas-to-write"):
            swap(store, claim("b"))


def test_a_busy_server(server: Valkey) -> None:
    server.cli("CONFIG", "SET", "busy-reply-threshold", 50)
    with opened(server.url) as store:
        hog = threading.Thread(target=_hog, args=(server,))
        hog.start()
        try:
            wait_until(lambda: _said(store.load, []) == "StoreUnavailable: another client's script keeps it busy")
        finally:
            server.cli("SCRIPT", "KILL")
            hog.join()
        assert store.load([]).epoch.tally == 0


@pytest.mark.parametrize("name", ["valkey", "redis"])
def test_a_script_that_somebody_ended(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends none that has written, so it is as if it had not been called."""
    with Valkey("--lua-time-limit", "50", name=name) as server, opened(f"{server.url}?timeout=60") as store:
        said: list[str] = []
        monkeypatch.setattr(store, "_by_name", ("EVAL", "while true do end", 0))
        caller = threading.Thread(target=lambda: said.append(_said(store.load, [])))
        caller.start()
        wait_until(lambda: _ended(server))
        caller.join()
        assert said == ["StoreUnavailable: the script was killed"]
        monkeypatch.undo()
        assert store.load([]).epoch.tally == 0


def _ended(server: Valkey) -> bool:
    try:
        return bool(server.cli("SCRIPT", "KILL"))
    except Exception as error:
        if "No scripts in execution" in str(error):
            return False
        raise


def _hog(server: Valkey) -> None:
    with pytest.raises(Exception, match="Script killed"):
        server.cli("EVAL", "while true do end", 0)


def _said(call: Callable[..., object], *arguments: Any) -> str:
    try:
        call(*arguments)
    except StoreError as error:
        return f"{type(error).__name__}: {str(error).partition(': ')[2].partition(';')[0]}"
    return ""


RIGHTS = "&{cronce:* +@read +@write +@scripting +@connection +@pubsub +info +time +config|get"  # as the docs have it


def test_passwords_and_rights(server: Valkey) -> None:
    host = f"127.0.0.1:{server.port}"
    server.cli("ACL", "SETUSER", "app", "on", ">secret", "~{cronce:*", *RIGHTS.split())
    server.cli("ACL", "SETUSER", "reader", "on", ">secret", "~{cronce:*", "+@read", "+info", "+@connection")
    server.cli("ACL", "SETUSER", "bound", "on", ">secret", "~{cronce:*", *RIGHTS.removesuffix(" +config|get").split())
    with opened(f"redis://app:secret@{host}/1") as store:
        win(store, claim("a"))
        assert [check.verdict for check in store.checks() if check.name == "settings"] == ["ok"]
    with opened(f"redis://bound:secret@{host}/1?namespace=b") as store:
        assert not store.traits.durable
        win(store, claim("a"))
        assert [check.verdict for check in store.checks() if check.name == "settings"] == ["warn"]
    with pytest.raises(StoreUnusable, match=r"app:\*\*\*@.*does not accept this user and password"):
        open_store(f"redis://app:wrong@{host}")
    with pytest.raises(StoreUnusable, match="this user may not do that"):
        open_store(f"redis://reader:secret@{host}")
    server.cli("CONFIG", "SET", "requirepass", "secret")
    with pytest.raises(StoreUnusable, match="it needs a password"):
        open_store(f"redis://{host}")
    with opened(f"redis://:secret@{host}"):
        pass


def test_a_database_that_does_not_exist(server: Valkey) -> None:
    with pytest.raises(StoreUnusable, match="DB index is out of range"):
        open_store(f"redis://127.0.0.1:{server.port}/99")


def test_keys_that_hold_something_else(server: Valkey) -> None:
    server.cli("SET", "{cronce:cronce}:cells", "mine")
    with pytest.raises(StoreCorrupt, match="use another"):
        open_store(server.url)


def test_a_store_of_a_newer_cronce_is_left_alone(server: Valkey) -> None:
    with opened(server.url) as store:
        seen = swap(store, claim("a")).epoch.seen
        server.cli(
            "EVAL",
            "return redis.call('HSET', KEYS[1], '\\255', '\\2' .. string.rep('x', 90))",
            1,
            "{cronce:cronce}:cells",
        )
        for ask in (lambda: store.load([]), lambda: store.scan(Scan("")), lambda: store.swap([claim("b")], seen)):
            with pytest.raises(StoreNewer, match="upgrade this cronce"):
                ask()
    with pytest.raises(StoreNewer):
        open_store(server.url)


# --- replicas -------------------------------------------------------------------------------------------------------


def test_a_replica_is_refused(server: Valkey) -> None:
    with closing(server.replica()) as replica, pytest.raises(StoreReadOnly, match=r"is a replica.*name the master"):
        open_store(replica.url)


def test_a_master_that_became_a_replica_is_noticed(server: Valkey) -> None:
    """With the first write that it refuses. From then on it is not read either: it may be behind."""
    with opened(server.url) as store:
        seen = swap(store, claim("a")).epoch.seen
        server.cli("REPLICAOF", "127.0.0.1", 1)
        with pytest.raises(StoreReadOnly, match="is a replica"):
            store.swap([claim("b")], seen)
        with pytest.raises(StoreReadOnly, match="is a replica"):
            store.load([])
        server.cli("REPLICAOF", "NO", "ONE")
        assert cell_of(store, "a").version == 1


# --- a Cluster ------------------------------------------------------------------------------------------------------


class Moving:
    """The slot of a namespace on its way from one node of a Cluster to another."""

    def __init__(self, cluster: Cluster) -> None:
        slot = cluster.nodes[0].cli("CLUSTER", "KEYSLOT", "{cronce:cronce}:cells")
        self.source = next(node for node in cluster.nodes if node.cli("CLUSTER", "COUNTKEYSINSLOT", slot))
        self.target, self.third = (node for node in cluster.nodes if node is not self.source)
        self.steps = cluster.move(slot, self.source, self.target)


def test_a_slot_that_moves_to_another_node_is_followed_and_has_forgotten_nothing() -> None:
    """It began another life there, as if something were lost: slots that were due and had not run were passed over."""
    with Cluster() as cluster, opened(cluster.url) as store:
        (cell,) = win(store, claim("a"))
        epoch, moving = store.load([]).epoch, Moving(cluster)
        with pytest.raises(StoreUnusable, match="add cluster=true to the URL"):
            open_store(moving.third.url)
        said = [(step, _said(store.load, [])) for step in moving.steps]
        assert said == [
            ("migrating", ""),
            ("one key is there", "StoreUnavailable: the slot of this namespace is being moved to another node"),
            ("all keys are there", "StoreUnavailable: the slot of this namespace is being moved to another node"),
        ]
        wait_until(lambda: _said(store.load, []) == "")
        assert (cell_of(store, "a"), store.load([]).epoch) == (cell, epoch)
        assert refusals(swap(store, claim("b"))) == [None]


@pytest.mark.parametrize("gone", ["killed", "started anew"])
def test_a_slot_that_moved_from_a_node_which_cannot_be_asked_any_more_may_have_lost_something(gone: str) -> None:
    """What was moved may be what its replica had: nobody looked at it in between."""
    with Cluster() as cluster:
        with opened(cluster.url) as store:
            win(store, claim("a"))
        moving = Moving(cluster)
        list(moving.steps)
        moving.source.kill()
        if gone == "started anew":
            moving.source.start()
        others = ",".join(f"127.0.0.1:{node.port}" for node in (moving.target, moving.third))
        with opened(f"redis://{others}/?cluster=true") as store:
            assert store.load([]).epoch.origin is Origin.RESTORED
