"""The Redis store under real conditions: what its URL may say, what may happen to its server, what it says then."""

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from redis.connection import URL_QUERY_ARGUMENT_PARSERS

from cronce.clock import SystemClock
from cronce.errors import (
    BadInput,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreNewer,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnusable,
)
from cronce.model import EPOCH, Cell, Mark, Origin, Refusal, Slot, Write
from cronce.protocol.record import Outcome
from cronce.protocol.terms import Terms
from cronce.runtime.flow import drive
from cronce.runtime.ledger import Grant, Ledger, Wanted
from cronce.stores import open_store
from cronce.stores.base import By, Scan
from cronce.stores.checks import ok
from cronce.stores.redis import TRAITS, RedisStore, init
from cronce.stores.redis.url import INSTEAD, REDIS_TIMEOUT, URL_OPTIONS, Login, RedisAddress, Tls, read_url
from cronce.testing.contract import (
    DAY,
    HOUR,
    cell_of,
    claim,
    keys_of,
    put,
    refusals,
    swap,
    win,
)
from tests.house.wait import wait_until
from tests.servers.patience import in_time, unanswered_within, until_it_answers
from tests.servers.tls import behind_tls
from tests.servers.valkey import DURABLE, Cluster, Valkey
from tests.stores.forks import Child
from tests.stores.test_redis_contract import namespaced

BYS: tuple[By, ...] = ("key", "at", "until")


@contextmanager
def opened(url: str) -> Iterator[RedisStore]:
    store = open_store(url)
    assert isinstance(store, RedisStore)
    with closing(store):
        yield store


@contextmanager
def hasty(url: str) -> Iterator[RedisStore]:
    """One of little patience, whose server has answered it."""
    with until_it_answers(lambda: _answered(url)) as store:
        yield store


def _answered(url: str) -> "closing[RedisStore]":
    store = open_store(url)
    assert isinstance(store, RedisStore)
    try:
        store.load([])
    except BaseException:
        store.close()
        raise
    return closing(store)


@pytest.fixture
def url(valkey: Valkey, tmp_path: Path) -> str:
    return namespaced(valkey.url, tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[RedisStore]:
    with opened(url) as store:
        yield store


@pytest.fixture
def server() -> Iterator[Valkey]:
    """One to stop, pause and misconfigure."""
    with Valkey() as valkey:
        yield valkey


# --- URLs -------------------------------------------------------------------------------------------------------------


def test_a_url_says_where_and_how() -> None:
    place = read_url(
        "rediss://app:s%40cret@cache:6380/3?namespace=shop&timeout=2.5&min_replicas=1&ssl_ca_certs=/ca.pem"
    )
    assert place == RedisAddress(
        url="rediss://app:***@cache:6380/3?namespace=shop&timeout=2.5&min_replicas=1&ssl_ca_certs=/ca.pem",
        addresses=(("cache", 6380),), login=Login("app", "s@cret"), db=3, namespace="shop", timeout=2.5, min_replicas=1,
        sentinel="", sentinel_login=Login(), cluster=False, tls=Tls(ca="/ca.pem"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("url", "addresses", "db"),
    [
        ("redis://", (("localhost", 6379),), 0),
        ("valkey://cache", (("cache", 6379),), 0),
        ("redis:///2", (("localhost", 6379),), 2),
        ("redis://[::1]:7000/1", (("::1", 7000),), 1),
        ("redis://:secret@/run/redis.sock?db=4", ("/run/redis.sock",), 4),
        ("redis://a,b:7000,c/?cluster=true", (("a", 6379), ("b", 7000), ("c", 6379)), 0),
        ("redis://a,b:7000/1?sentinel=main", (("a", 26379), ("b", 7000)), 1),
    ],
)
def test_hosts_sockets_and_databases(url: str, addresses: tuple[Any, ...], db: int) -> None:
    place = read_url(url)
    assert (place.addresses, place.db) == (addresses, db)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://host/x", "not the number of a database"),
        ("redis://host:port/", "not a host and a port"),
        ("redis://host/?speed=high", "redis knows no speed; it knows cluster, db"),
        ("redis://host/?socket_timeout=1&protocol=3", "redis knows no protocol, socket_timeout; it knows cluster, db"),
        ("redis://host/?socket_connect_timeout=1", "socket_connect_timeout: timeout=SECONDS is for both"),
        ("redis://host/?decode_responses=true", "decode_responses: leave it out: cronce takes care of that"),
        ("rediss://host/?ssl_check_hostname=false", "ssl_check_hostname: ssl_ca_certs=FILE says whom to trust"),
        ("redis://u:hush@host/?timeout=soon", r"u:\*\*\*@host.*timeout=soon is not a number of seconds"),
        ("redis://host/?timeout=-1", "timeout=-1 is not a number of seconds"),
        ("redis://host/?min_replicas=many", "min_replicas=many is not a number of replicas"),
        ("redis://host/?min_replicas=1.5", "min_replicas=1.5 is not a number of replicas"),
        ("redis://host/?min_replicas=201", "min_replicas=201 is not a number of replicas"),
        ("redis://host/²", "'²' is not the number of a database"),
        ("redis://host/?cluster=yes", "write cluster=true"),
        ("redis://host/1?cluster=true", "a Cluster has only database 0"),
        ("redis://host/?cluster=true&sentinel=main", "Give sentinel or cluster, not both"),
        ("redis://host/?namespace=a{b", "cannot be a namespace"),
        ("redis://host/?namespace=", "cannot be a namespace"),
        ("rediss://host/?ssl_cert_reqs=maybe", "ssl_cert_reqs=none"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        open_store(url)


def test_namespaces_and_databases_are_separate_stores(valkey: Valkey, url: str) -> None:
    others = [url + "x", url.replace("/0?", "/1?")]
    for each in (url, *others):
        with opened(each) as store:
            assert refusals(swap(store, claim("a"))) == [None]


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


# --- what it costs ----------------------------------------------------------------------------------------------------


def calls(server: Valkey) -> dict[str, int]:
    """Commands that clients sent since the last time; those of scripts and of the question itself aside."""
    stats = server.cli("INFO", "commandstats")
    server.cli("CONFIG", "RESETSTAT")
    inner = (
        "hmget",
        "hget",
        "hset",
        "zadd",
        "zrem",
        "del",
        "time",
        "hello",
        "client|setinfo",
        "info",
        "config|resetstat",
    )
    found = {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in stats.items()}
    return {name: count for name, count in found.items() if name not in inner}


class Process:
    def __init__(self, store: RedisStore) -> None:
        self.store, self.clock = store, SystemClock()
        self.ledger = Ledger(store.traits, self.clock, "web-1")

    def claim(self, count: int, day: int, overlap: Any = "skip") -> list[Grant]:
        terms = Terms(timedelta(minutes=5), overlap=overlap, outside=True)
        start = EPOCH + timedelta(days=day)
        wanted = [Wanted(Slot(f"job-{number}", start), terms) for number in range(count)]
        grants = drive(self.ledger.claim(wanted), self.store, self.clock)
        return [grant for grant in grants if isinstance(grant, Grant)]

    def finish(self, grant: Grant) -> object:
        return drive(self.ledger.finish(grant, Outcome.SUCCEEDED), self.store, self.clock)


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_round_trips_are_counted(server: Valkey, overlap: str) -> None:
    """A fresh process: claim 2, claim and finish 3. A warm one: 1 and 2, and 1 for a thousand slots, turns and all."""
    init(server.url)
    with opened(server.url) as store:
        process = Process(store)
        calls(server)
        for day, trips in ((20_000, 2), (20_001, 1)):
            (grant,) = process.claim(1, day, overlap)
            assert calls(server) == {"evalsha": trips}
            process.finish(grant)
            assert calls(server) == {"evalsha": 1}
        many = process.claim(1000, 20_003, overlap)
        drive(process.ledger.release(many), store, process.clock)
        calls(server)
        assert len(process.claim(1000, 20_004, overlap)) == 1000
        assert calls(server) == {"evalsha": 1}


def test_a_connection_is_set_up_in_two_round_trips(server: Valkey) -> None:
    calls(server)
    with opened(server.url):
        found = calls(server)
    # this server has not seen the script before; whether news may be published is asked by publishing to nobody
    assert found == {"evalsha": 1, "eval": 1, "config|get": 1, "publish": 1}


def test_more_than_one_call_takes_is_divided_but_no_group_is(server: Valkey) -> None:
    with opened(server.url) as store:
        calls(server)
        batch = [claim(f"{kind}/{number:04}", group=number) for number in range(2500) for kind in ("run", "turn", "x")]
        win(store, *batch)
        assert calls(server) == {"evalsha": 1 + 3}
        assert refusals(swap(store, claim("run/0001"), *batch)) == [Refusal.VERSION] * 7501
        assert store.load([]).epoch.tally == 7500


def test_a_group_that_no_call_could_take_is_refused(store: RedisStore) -> None:
    batch = [put(f"{number:04}", at=DAY, group=1) for number in range(3001)]
    with pytest.raises(BadInput, match="a group of 3,001 writes"):
        swap(store, *batch)
    assert len(win(store, *batch[:3000])) == 3000
    assert (
        len(
            win(store, *(put(f"x/{number}/{part}", at=DAY, group=number) for number in range(4) for part in range(999)))
        )
        == 3996
    )


def test_a_loser_writes_nothing(server: Valkey) -> None:
    with opened(server.url) as store:
        win(store, claim("a"))
        before = server.cli("INFO", "persistence")["rdb_changes_since_last_save"]
        assert refusals(swap(store, claim("a"), put("a"))) == [Refusal.VERSION] * 2
        assert refusals(store.swap([claim("b")], (1, 1))) == [Refusal.EPOCH]
        assert server.cli("INFO", "persistence")["rdb_changes_since_last_save"] == before


def test_nothing_expires(server: Valkey) -> None:
    with opened(server.url) as store:
        process = Process(store)
        for grant in process.claim(20, 20_000):
            process.finish(grant)
        win(store, claim("lock/a"), put("b", Mark.ATTENTION, at=DAY, ttl=timedelta(0)))
    assert server.cli("INFO", "keyspace")["db0"]["expires"] == 0
    assert [server.cli("TTL", key) for key in sorted(server.cli("KEYS", "*"))] == [-1, -1]
    assert sorted(server.cli("KEYS", "*")) == ["{cronce:cronce}:cells", "{cronce:cronce}:index"]


def test_what_was_purged_leaves_nothing_behind(server: Valkey) -> None:
    with opened(server.url) as store:
        cells = win(store, *(put(f"run/{mark.name}", mark, at=DAY, ttl=HOUR) for mark in Mark), put("bare", Mark.OPEN))
        changed = win(store, *(Write(cell.key, cell.version, "", Mark(5 - cell.mark), ttl=HOUR) for cell in cells))
        assert store.purge(cells) == 0
        assert store.purge(changed) == 5
    assert server.cli("HLEN", "{cronce:cronce}:cells") == 1
    assert server.cli("ZCARD", "{cronce:cronce}:index") == 1  # which says that the others are all there


def everything(store: RedisStore) -> list[list[str]]:
    """What each kind of scan finds."""
    marks = (None, *Mark)
    return [keys_of(store.scan(Scan("run/", by, mark, limit=5000)).cells) for by in BYS for mark in marks]


@pytest.mark.parametrize("later", [0, 1])
def test_an_index_that_was_deleted_is_made_anew_from_the_cells(server: Valkey, later: int) -> None:
    """`runs` was empty, and lapsed runs were never found: what was written before stood in no index any more."""
    with opened(server.url) as store:
        marks = tuple(Mark)
        win(store, *(put(f"run/a/{n:04}", marks[n % 4], at=EPOCH + n * HOUR, ttl=HOUR) for n in range(1000)))
        known = everything(store)
        assert {len(keys) for keys in known} == {1000, 250}
        (index,) = [check for check in store.checks() if check.name == "index"]
        assert index == ok("index", "lists every cell")
        server.cli("DEL", "{cronce:cronce}:index")
        for number in range(later):  # then there is an index again, of what is new alone
            win(store, put(f"lock/{number}", Mark.OPEN))
        assert everything(store) == known
        (index,) = [check for check in store.checks() if check.name == "index"]
        assert (index.verdict, index.says[:57]) == (
            "warn",
            "it was evicted or deleted, and rebuilt from the cells at ",
        )


def test_scans_go_through_many_cells_in_steps(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prefix that few cells have, by `at`: the server is asked several times, and never long."""
    monkeypatch.setattr("cronce.stores.redis.MEMBERS_PER_CALL", 100)
    many = [
        put(f"run/{'few' if number % 400 == 0 else 'many'}/{number:04}", at=DAY + number * HOUR)
        for number in range(2000)
    ]
    win(store, *many)
    few = [f"run/few/{number:04}" for number in range(0, 2000, 400)]
    for newest in (False, True):
        page = store.scan(Scan("run/few/", by="at", newest_first=newest, limit=3))
        rest = store.scan(Scan("run/few/", by="at", newest_first=newest, limit=3, after=page.next))
        assert [*keys_of(page.cells), *keys_of(rest.cells)] == (few[::-1] if newest else few)
        assert rest.next is None
    marked = [put(f"x/{number:03}", Mark(number % 4 + 1), at=DAY, ttl=number * HOUR) for number in range(1000)]
    win(store, *marked)
    for mark in Mark:
        expected = [write.key for write in marked if write.mark is mark]
        for by in BYS:
            assert keys_of(store.scan(Scan("x/", by, mark)).cells) == expected


def test_text_that_cannot_be_stored_is_refused(store: RedisStore) -> None:
    for write in (claim("a\ud800"), claim("a", "\ud800")):
        with pytest.raises(BadInput, match="not text that can be stored"):
            swap(store, write)
    win(store, claim("NUL \0 in a key", "and \0 in a value"))
    assert cell_of(store, "NUL \0 in a key").value == "and \0 in a value"


def test_instants_before_1970_stand_before_those_after(store: RedisStore) -> None:
    instants = [EPOCH + timedelta(days=days) for days in (-5000, -1, 0, 1, 50_000)]
    win(store, *(put(f"run/{number}", at=at) for number, at in enumerate(instants)))
    assert [cell.at for cell in store.scan(Scan("run/", by="at")).cells] == instants


@pytest.mark.parametrize(
    "write",
    [
        put("a", at=EPOCH.replace(year=1900)),
        put("a", at=EPOCH.replace(year=1)),
        Write("a", 0, "", Mark.OPEN, not_before=EPOCH.replace(year=1900)),
        Write("a", 0, "", Mark.OPEN, not_after=EPOCH.replace(year=1)),
        put("a", ttl=timedelta(microseconds=-1)),
        put("a", ttl=timedelta(days=-1)),
        put("a", ttl=timedelta.max),
        Write("a", 1 << 64, "", Mark.OPEN),
    ],
    ids=["at 1900", "at 1", "not before 1900", "not after 1", "ttl -1 us", "ttl -1 day", "ttl for ever", "version"],
)
def test_what_cannot_be_kept_is_refused(store: RedisStore, write: Write) -> None:
    with pytest.raises(BadInput, match="Redis keeps"):
        swap(store, write)
    assert store.load([]).epoch.tally == 0


def test_what_cannot_be_asked_for_is_refused(store: RedisStore) -> None:
    with pytest.raises(BadInput, match="Redis keeps"):
        store.swap([claim("a")], (1 << 64, 0))
    for by in ("at", "until"):
        with pytest.raises(BadInput, match="Redis keeps instants from 1935"):
            store.scan(Scan("", by=by, upto=EPOCH.replace(year=1900)))
    (cell,) = win(store, claim("a"))
    assert store.purge([cell._replace(version=1 << 64)]) == 0


def test_a_page_goes_on_after_a_key_that_is_the_prefix(store: RedisStore) -> None:
    for mark, prefix in ((Mark.CLOSED, "run"), (Mark.OPEN, "x")):
        keys = [prefix, f"{prefix}/1", f"{prefix}/2"]
        win(store, *(put(key, mark) for key in keys))
        found, after = [], None
        for _ in keys:
            page = store.scan(Scan(prefix, limit=1, after=after))
            found += keys_of(page.cells)
            after = page.next
        assert (found, after) == (keys, None)


# --- many at once, and forks ------------------------------------------------------------------------------------------


def test_a_forked_child_has_connections_of_its_own(store: RedisStore, valkey: Valkey) -> None:
    win(store, claim("a"))
    child = Child(lambda _: [win(store, claim(f"child/{number}"))[0].key for number in range(50)])
    mine = [win(store, claim(f"parent/{number}"))[0].key for number in range(50)]
    (theirs,) = child.end()
    assert theirs == [f"child/{number}" for number in range(50)]
    assert keys_of(store.scan(Scan("")).cells) == ["a", *sorted(theirs), *sorted(mine)]


def test_a_closed_store_says_so(url: str) -> None:
    store = open_store(url)
    store.close()
    with pytest.raises(StoreUnavailable, match="closed by this process"):
        store.load([])


# --- servers that fail ------------------------------------------------------------------------------------------------


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


def test_every_option_that_redis_py_takes_from_a_url_is_understood_or_says_what_to_write() -> None:
    assert set(URL_QUERY_ARGUMENT_PARSERS) - set(URL_OPTIONS) <= INSTEAD.keys()
    assert not INSTEAD.keys() & set(URL_OPTIONS)


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


def test_a_win_counts_once_it_is_on_a_replica(server: Valkey) -> None:
    with closing(server.replica()) as replica, hasty(f"{server.url}?min_replicas=1&timeout=1") as store:
        assert store.traits.survives_failover
        with opened(f"{server.url}?min_replicas=1") as patient:
            win(patient, claim("a"))
        assert replica.cli("HEXISTS", "{cronce:cronce}:cells", "a") == 1
        seen = until_it_answers(lambda: store.load([])).epoch.seen
        replica.pause()
        with pytest.raises(StoreUnavailable, match="has reached only 0 of 1 replicas in time; it may have succeeded"):
            store.swap([claim("b")], seen)
        with pytest.raises(StoreUnavailable, match="has reached only 0 of 1 replicas"):
            store.load(["b"])  # what a failover may take back is not told as if it could not
        replica.resume()
        assert until_it_answers(lambda: cell_of(store, "b")).version == 2


def test_a_win_whose_answer_was_lost_counts_once_it_is_on_a_replica(server: Valkey) -> None:
    with closing(server.replica()) as replica, hasty(f"{server.url}?min_replicas=1&timeout=1") as store:
        with opened(f"{server.url}?min_replicas=1") as patient:
            seen = swap(patient, claim("a")).epoch.seen
        until_it_answers(lambda: store.load([]))
        replica.pause()
        server.pause()
        with pytest.raises(StoreUnavailable, match="did not answer within 1 s; a write may have succeeded"):
            store.swap([claim("b")], seen)
        server.resume()
        wait_until(lambda: server.cli("HEXISTS", "{cronce:cronce}:cells", "b") == 1)
        for ask in (lambda: store.load(["b"]), lambda: store.swap([claim("b")], seen), lambda: store.load(["b"])):
            with pytest.raises(StoreUnavailable, match="has reached only 0 of 1 replicas"):
                ask()
        replica.resume()
        assert until_it_answers(lambda: cell_of(store, "b")).version == 2


def test_a_loser_does_not_wait_for_replicas(server: Valkey) -> None:
    with closing(server.replica()) as replica, opened(f"{server.url}?min_replicas=1&timeout=2") as store:
        (cell,) = win(store, claim("a"))
        seen, told = store.load([]).epoch.seen, list[Cell]()
        replica.pause()
        assert in_time(0.9, lambda: told.append(store.swap([claim("a")], seen).verdicts[0].cell))
        assert set(told) == {cell}


def test_traits_say_what_the_settings_allow(server: Valkey) -> None:
    settings = [
        ("yes", "always", "no", True), ("yes", "everysec", "no", False), ("yes", "always", "yes", False),
        ("no", "always", "no", False),
    ]  # fmt: skip
    for appendonly, appendfsync, unflushed, durable in settings:
        server.cli("CONFIG", "SET", "appendonly", appendonly)
        server.cli("CONFIG", "SET", "appendfsync", appendfsync)
        server.cli("CONFIG", "SET", "no-appendfsync-on-rewrite", unflushed)
        with opened(server.url) as store:
            assert store.traits == TRAITS._replace(durable=durable)
    with closing(server.replica()), opened(server.url) as store:
        assert store.traits == TRAITS._replace(skew=timedelta(milliseconds=500))


def test_what_a_durable_server_answered_survives_a_kill() -> None:
    with Valkey(*DURABLE) as server, opened(server.url) as store:
        for number in range(5):
            (cell,) = win(store, claim(f"{number}"))
            server.kill()
            server.start()
            assert cell_of(store, f"{number}") == cell


# --- a Cluster --------------------------------------------------------------------------------------------------------


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


# --- the doctor's questions -------------------------------------------------------------------------------------------


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
