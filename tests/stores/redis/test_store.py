"""The Redis store under real conditions: what its URL may say, what may happen to its server, what it says then."""

from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from cronce.clock import SystemClock
from cronce.errors import (
    StoreUnavailable,
)
from cronce.model import EPOCH, Cell, Mark, Refusal, Slot, Write
from cronce.protocol.record import Outcome
from cronce.protocol.terms import Terms
from cronce.runtime.flow import drive
from cronce.runtime.ledger import Grant, Ledger, Wanted
from cronce.stores import open_store
from cronce.stores.base import By, Scan
from cronce.stores.checks import ok
from cronce.stores.redis import TRAITS, RedisStore, init
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
from tests.servers.patience import in_time, until_it_answers
from tests.servers.valkey import DURABLE, Valkey
from tests.stores.forks import Child
from tests.stores.redis.opening import calls, hasty, opened

BYS: tuple[By, ...] = ("key", "at", "until")


# --- URLs -----------------------------------------------------------------------------------------------------------


def test_namespaces_and_databases_are_separate_stores(valkey: Valkey, url: str) -> None:
    others = [url + "x", url.replace("/0?", "/1?")]
    for each in (url, *others):
        with opened(each) as store:
            assert refusals(swap(store, claim("a"))) == [None]


# --- what it costs --------------------------------------------------------------------------------------------------


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


# --- many at once, and forks ----------------------------------------------------------------------------------------


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


# --- replicas -------------------------------------------------------------------------------------------------------


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
