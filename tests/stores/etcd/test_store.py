"""The etcd store, beyond the contract: round trips, guesses, what lies in etcd, URLs, errors, the doctor."""

import base64
import http.client
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cronce.clock import SystemClock
from cronce.errors import BadInput, StoreError, StoreFull, StoreNewer, StoreUnavailable, StoreUnusable
from cronce.model import FREE, Boot, Cell, Mark, Refusal, Write
from cronce.stores import open_store
from cronce.stores.base import Scan, Store
from cronce.stores.etcd import TRAITS, WRITES_PER_REQUEST, EtcdStore, init
from cronce.stores.etcd.api import EtcdAnswer, read_url
from cronce.stores.etcd.checks import _version
from cronce.stores.etcd.layout import EtcdCells, data64, entries, mirror, text64
from cronce.testing.contract import CONTRACT_LEASE, DAY, HOUR, cell_of, change, claim, put, refusals, swap, win
from tests.house.needs import tool
from tests.house.wait import wait_until
from tests.servers.etcd import Etcd
from tests.stores.forks import ask
from tests.stores.places import name_of


@pytest.fixture
def namespace(tmp_path: Path) -> str:
    return name_of(tmp_path)


@pytest.fixture
def url(etcd: Etcd, namespace: str) -> str:
    return f"{etcd.url}/?namespace={namespace}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as store:
        yield store


@pytest.fixture
def other(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as store:
        yield store


@pytest.fixture
def own() -> Iterator[Etcd]:
    """A server for this test alone."""
    with Etcd() as server:
        yield server


# --- round trips, counted by the server -----------------------------------------------------------------------------


class Count:
    def __init__(self, etcd: Etcd) -> None:
        self.etcd = etcd
        self.before = etcd.requests()

    def __call__(self) -> int:
        """Requests since it was last asked."""
        before, self.before = self.before, self.etcd.requests()
        return self.before - before


def group(number: int) -> list[Write]:
    return [claim("turn/job/0", group=1), claim(f"run/job/{number}", at=DAY, group=1)]


def test_a_claim_is_one_round_trip_and_claim_and_finish_two(etcd: Etcd, store: Store) -> None:
    seen, count = store.load([]).epoch.seen, Count(etcd)
    for number in range(3):
        turn, run = (verdict.cell for verdict in store.swap(group(number), seen).verdicts)
        assert count() == 1
        finish = [change(turn, mark=Mark.FREE, group=1), change(run, mark=Mark.CLOSED, group=1)]
        assert refusals(store.swap(finish, seen)) == [None, None]
        assert count() == 1


def test_a_fresh_process_claims_with_two_round_trips_after_opening(etcd: Etcd, store: Store, url: str) -> None:
    turn, _ = (verdict.cell for verdict in swap(store, *group(1)).verdicts)
    win(store, change(turn, mark=Mark.FREE))
    count = Count(etcd)
    with closing(open_store(url)) as fresh:
        assert count() == 2  # its members, and its life
        seen = fresh.load(["turn/job/0", "run/job/2"]).epoch.seen
        assert refusals(fresh.swap(group(2), seen)) == [None, None]
        assert count() == 2


def test_a_loser_needs_one_round_trip_and_writes_nothing(etcd: Etcd, store: Store, other: Store) -> None:
    seen = store.load([]).epoch.seen
    (won,) = win(other, claim("run/a"))
    before, count = _revision(etcd), Count(etcd)
    swapped = store.swap([claim("run/a")], seen)
    assert (count(), _revision(etcd)) == (1, before)
    assert [verdict.cell for verdict in swapped.verdicts] == [won]
    assert refusals(store.swap([claim("run/a")], seen)) == [Refusal.VERSION]
    assert (count(), _revision(etcd)) == (2, before)  # the second is the question for the revision


def test_a_batch_is_as_many_round_trips_as_transactions_that_hold_it(etcd: Etcd, store: Store) -> None:
    seen, count = store.load([]).epoch.seen, Count(etcd)
    store.swap([claim(f"run/a/{number:04}", at=DAY) for number in range(WRITES_PER_REQUEST)], seen)
    assert count() == 1
    store.swap([claim(f"run/b/{number:04}", at=DAY) for number in range(1000)], seen)
    assert count() == 10


def test_after_a_purge_the_others_need_one_more_round_trip_once(etcd: Etcd, store: Store, other: Store) -> None:
    seen, cells = store.load([]).epoch.seen, win(other, put("a"), put("b"))
    count = Count(etcd)
    assert (other.purge(cells), count()) == (2, 2)
    assert (refusals(other.swap([claim("run/0")], seen)), count()) == ([None], 1)
    for number, trips in ((1, 2), (2, 1)):
        assert (refusals(store.swap([claim(f"run/{number}")], seen)), count()) == ([None], trips)


def test_the_newest_few_of_many_are_two_round_trips(etcd: Etcd, store: Store) -> None:
    win(store, *(put(f"run/{number:03}", at=DAY + number * HOUR) for number in range(300)))
    count = Count(etcd)
    page = store.scan(Scan("run/", by="at", limit=3, newest_first=True))
    assert [cell.key for cell in page.cells] == ["run/299", "run/298", "run/297"]
    assert count() == 2


def _revision(etcd: Etcd) -> int:
    return int(etcd.ask("/v3/kv/range", {"key": text64(b"none")})["header"]["revision"])


# --- guesses --------------------------------------------------------------------------------------------------------


def test_a_wrong_guess_is_put_right_and_keeps_what_the_cell_has(etcd: Etcd, store: Store, other: Store) -> None:
    """The turn was used by another process since: it is free again, with another version, fence and until."""
    (turn,) = win(store, claim("turn", at=DAY))
    (turn,) = win(store, change(turn, mark=Mark.FREE))
    (theirs,) = win(other, Write("turn", FREE, "theirs", Mark.OPEN, grant=True, ttl=HOUR))
    (theirs,) = win(other, change(theirs, mark=Mark.FREE))
    seen, count = store.load([]).epoch.seen, Count(etcd)
    (verdict,) = store.swap([Write("turn", FREE, "mine", Mark.OPEN)], seen).verdicts
    assert count() == 2
    assert verdict.refused is None
    assert verdict.cell[2:] == ("mine", DAY, Mark.OPEN, theirs.fence, theirs.until)
    assert cell_of(other, "turn") == verdict.cell


def test_of_a_mixed_batch_each_group_lands_or_not_by_itself(etcd: Etcd, store: Store, other: Store) -> None:
    seen = store.load([]).epoch.seen
    taken = win(other, *(claim(f"run/{number}") for number in range(0, 20, 2)))
    count = Count(etcd)
    swapped = store.swap([claim(f"run/{number}", "mine") for number in range(20)], seen)
    assert count() == 2
    assert refusals(swapped) == [Refusal.VERSION, None] * 10
    assert [verdict.cell for verdict in swapped.verdicts[::2]] == taken
    assert [cell_of(other, f"run/{number}").value for number in range(4)] == ["claimed", "mine"] * 2


def test_a_guess_from_an_earlier_life_is_refused(store: Store, other: Store) -> None:
    before = store.load([]).epoch
    assert other.load([]).epoch == before
    after = store.swap([], (before.birth, before.tally + 5)).epoch
    swapped = other.swap([claim("a")], before.seen)
    assert (refusals(swapped), swapped.epoch) == ([Refusal.EPOCH], after)
    assert cell_of(store, "a") == Cell("a")


class Slow(EtcdStore):
    """Others act just before, or just after, it reads cells."""

    before: Callable[[], object] | None = None
    after: Callable[[], object] | None = None

    def _read(self, keys: Sequence[str], deadline: Boot) -> EtcdCells:
        before, self.before = self.before, None
        if before is not None:
            before()
        shelf = super()._read(keys, deadline)
        after, self.after = self.after, None
        if after is not None:
            after()
        return shelf


@pytest.fixture
def slow(url: str) -> Iterator[Slow]:
    with closing(Slow(read_url(url))) as store:
        yield store


def test_a_cell_that_changes_between_reading_and_writing_is_read_again(slow: Slow, other: Store) -> None:
    (cell,) = win(other, claim("a"))
    seen = slow.load([]).epoch.seen
    slow.after = lambda: win(other, claim("b"), change(cell, "theirs"))
    swapped = slow.swap([change(cell, "mine"), claim("b"), claim("c")], seen)
    assert refusals(swapped) == [Refusal.VERSION, Refusal.VERSION, None]
    assert [verdict.cell for verdict in swapped.verdicts] == list(other.load(["a", "b", "c"]).cells)
    assert cell_of(other, "a").value == "theirs"


def test_a_cell_that_changes_between_reading_and_purging_stays(slow: Slow, other: Store) -> None:
    cells = win(other, put("a"), put("b"))
    slow.after = lambda: win(other, change(cells[0], "new"))
    assert slow.purge(cells) == 1
    assert [cell.key for cell in other.scan(Scan("")).cells] == ["a"]


class HeldBack(EtcdStore):
    """Others act when what it writes is on its way."""

    meanwhile: Callable[[], object] | None = None

    def _commit(self, *plan: Any) -> EtcdAnswer:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super()._commit(*plan)


def test_a_claim_that_lands_after_its_slot_was_purged_is_refused(url: str, other: Store) -> None:
    with closing(HeldBack(read_url(url))) as held:
        loaded = held.load([])
        late = loaded.now + timedelta(seconds=0.2)

        def meanwhile() -> None:
            assert other.purge(win(other, put("run/a", Mark.CLOSED))) == 1
            wait_until(lambda: held.api.clock.now() > late)

        held.meanwhile = meanwhile
        assert refusals(held.swap([claim("run/a", not_after=late)], loaded.epoch.seen)) == [Refusal.LATE]
    assert cell_of(other, "run/a") == Cell("run/a")


def test_a_lease_that_is_renewed_while_a_scan_looks_for_lapsed_ones_is_not_found(slow: Slow, other: Store) -> None:
    cells = win(other, put("a", Mark.OPEN, ttl=timedelta(0)), put("b", Mark.OPEN, ttl=timedelta(0)))
    slow.before = lambda: win(other, change(cells[0], ttl=HOUR))
    page = slow.scan(Scan("", by="until", mark=Mark.OPEN, upto=cells[1].until))
    assert list(page.cells) == [cells[1]]


def test_who_knows_the_time_too_badly_asks_before_it_writes(etcd: Etcd, slow: Slow) -> None:
    """As after a long sleep, or slow replies."""
    seen = slow.load([]).epoch.seen
    known = slow.api.clock._bounds
    assert known is not None
    slow.api.clock._bounds = known._replace(low=known.low - 20, high=known.high + 20)
    count, wall = Count(etcd), SystemClock().wall()
    assert wall - slow.swap([claim("a")], seen).now < TRAITS.step
    assert count() == 2


def test_a_slot_that_just_came_due_is_not_early(store: Store) -> None:
    """What is known of the clock may be behind; before a write is refused for it, the clock is asked."""
    clock = SystemClock()
    store.load([])
    due = clock.wall().replace(microsecond=0) + timedelta(seconds=1)
    while clock.wall() < due:
        time.sleep(0.005)
    assert refusals(swap(store, claim("run/a", not_before=due))) == [None]


def test_more_than_fits_into_one_request_is_sent_in_several(store: Store, other: Store) -> None:
    win(store, *(put(f"big/{number}", value=str(number) * 600_000) for number in range(5)))
    assert [len(cell.value) for cell in other.load([f"big/{number}" for number in range(5)]).cells] == [600_000] * 5


# --- what lies in etcd ----------------------------------------------------------------------------------------------


def test_the_indexes_are_those_of_the_cells_whatever_was_written(etcd: Etcd, store: Store, namespace: str) -> None:
    dice = random.Random(11)
    for _ in range(60):
        cells = store.load([f"run/{number}" for number in range(8)]).cells
        for cell in dice.sample(cells, 3):
            at = dice.choice([None, DAY, DAY + dice.randrange(3) * HOUR])
            ttl = dice.choice([None, CONTRACT_LEASE, HOUR])
            win(store, Write(cell.key, cell.version, "", dice.choice(list(Mark)), at, ttl=ttl))
        if dice.random() < 0.3:
            store.purge(dice.sample(store.scan(Scan("run/")).cells, 2))
    cells = store.scan(Scan("")).cells
    expected = {entry for cell in cells for entry in entries(cell)} | {f"cell/{cell.key}".encode() for cell in cells}
    assert _keys(etcd, namespace) == sorted({b"meta", b"purged", b"tally"} | expected)


def test_what_is_purged_leaves_nothing_of_its_own_behind(etcd: Etcd, store: Store, namespace: str) -> None:
    store.purge(win(store, *(put(f"run/{mark.name}", mark, at=DAY, ttl=CONTRACT_LEASE) for mark in Mark)))
    assert _keys(etcd, namespace) == [b"meta", b"purged", b"tally"]


def _keys(etcd: Etcd, namespace: str) -> list[bytes]:
    below = {"key": text64(f"{namespace}/".encode()), "range_end": text64(f"{namespace}0".encode()), "keys_only": True}
    found = etcd.ask("/v3/kv/range", below)["kvs"]
    return [data64(kv["key"]).partition(b"/")[2] for kv in found]


@pytest.mark.parametrize(
    ("less", "more"), [(b"a", b"b"), (b"a", b"ab"), (b"", b"a"), (b"1/z", b"2/a"), (b"~", b"\xf4")]
)
def test_a_mirror_turns_the_order_round(less: bytes, more: bytes) -> None:
    assert mirror(less) > mirror(more)


def test_compacting_and_defragmenting_disturb_nothing(own: Etcd) -> None:
    with closing(open_store(own.url)) as store:
        cells = [win(store, claim(f"run/{number}", at=DAY))[0] for number in range(30)]
        epoch = store.load([]).epoch
        own.ctl("compaction", str(_revision(own)))
        own.ctl("defrag")
        assert list(store.load([cell.key for cell in cells]).cells) == cells
        assert store.load([]).epoch == epoch
        assert win(store, change(cells[0]))[0].version > epoch.tally
        assert "old revisions are removed" in [check.says for check in _checked(store)]


def test_namespaces_know_nothing_of_each_other(etcd: Etcd, store: Store) -> None:
    win(store, claim("a"))
    with closing(open_store(f"{etcd.url}?namespace=elsewhere")) as elsewhere:
        assert cell_of(elsewhere, "a") == Cell("a")
        assert list(elsewhere.scan(Scan("")).cells) == []


def test_a_newer_store_is_refused(etcd: Etcd, store: Store, namespace: str, url: str) -> None:
    meta = text64(f"{namespace}/meta".encode())
    (kv,) = etcd.ask("/v3/kv/range", {"key": meta})["kvs"]
    newer = data64(kv["value"]).replace(b'"schema": 1', b'"schema": 2')
    etcd.ask("/v3/kv/put", {"key": meta, "value": text64(newer)})
    with pytest.raises(StoreNewer, match="upgrade"):
        store.load([])
    with pytest.raises(StoreNewer):
        open_store(url)


def test_beginning_on_purpose_changes_nothing_that_is_there(store: Store, url: str) -> None:
    win(store, claim("a"))
    assert init(url) == store.load([]).epoch


# --- promises -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [0.02, 0.5, 0.8])
def test_a_process_that_has_just_begun_is_behind_by_no_more_than_the_step(url: str, phase: float) -> None:
    """The server is on this machine, so its clock is ours."""
    clock = SystemClock()
    while not phase <= clock.wall().microsecond / 1e6 < phase + 0.02:
        time.sleep(0.002)
    with closing(open_store(url)) as store:
        before = clock.wall()
        swapped = swap(store, claim("a"))
        after = clock.wall()
    assert before - TRAITS.step < swapped.now <= after


def test_a_single_member_does_not_survive_its_machine(store: Store) -> None:
    assert store.traits == TRAITS._replace(survives_failover=False)


def test_a_child_and_its_parent_use_connections_of_their_own(store: Store) -> None:
    win(store, claim("before"))

    def in_child() -> list[str | None]:
        return [verdict.refused for key in ("a", "b", "before") for verdict in swap(store, claim(key)).verdicts]

    assert ask(in_child) == [None, None, "version"]
    assert refusals(swap(store, claim("a"), claim("c"))) == [Refusal.VERSION, None]


# --- URLs -----------------------------------------------------------------------------------------------------------


def test_a_url_says_where_and_how() -> None:
    address = read_url("etcd://us%3Aer:p%40ss@one:1,two,[::1]:3,[::2]/?namespace=jobs&timeout=2.5")
    assert address.endpoints == [("one", 1), ("two", 2379), ("::1", 3), ("::2", 2379)]
    assert address[2:] == ("jobs", 2.5, "us:er", "p@ss", None)
    assert "p%40ss" not in address.shown


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("etcd://", "host and a port"),
        ("etcd://host:port", "host and a port"),
        ("etcd://host:0", "host and a port"),
        ("etcd://host:70000", "host and a port"),
        ("etcd://host,", "host and a port"),
        ("etcd://host/cronce", r"namespace=cronce"),
        ("etcd://host?database=1", "knows no database; it knows namespace, timeout"),
        ("etcd://host?namespace=a/b", "cannot be a name"),
        ("etcd://host?timeout=soon", "timeout=soon is not a number"),
        ("etcd://host?timeout=0", "timeout=0 is not a number"),
        ("etcd://host?timeout=nan", "timeout=nan is not a number"),
        ("etcd://host?ca=ca.pem", "write etcds://"),
        ("etcds://host?ca=/none/ca.pem", "cannot be used for TLS"),
        ("etcds://host?key=key.pem", "cert=FILE"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        open_store(url)


# --- errors ---------------------------------------------------------------------------------------------------------


def error(url: str) -> StoreError:
    with pytest.raises(StoreError) as caught:
        open_store(url)
    return caught.value


def test_nobody_there() -> None:
    caught = error("etcd://me:secret@127.0.0.1:9,127.0.0.1:1")
    assert type(caught) is StoreUnavailable
    assert "127.0.0.1:9: Connection refused; 127.0.0.1:1: Connection refused" in str(caught)
    assert "secret" not in str(caught)


def test_the_next_endpoint_is_tried_if_one_takes_no_connection(etcd: Etcd, url: str) -> None:
    with closing(open_store(url.replace("127.0.0.1", "127.0.0.1:9,127.0.0.1"))) as store:
        win(store, claim("a"))


class Proxy(ThreadingHTTPServer):
    """Hands requests on to etcd, and hangs up after each answer. If so told without a date, or as without a leader."""

    dated = True
    leaderless = False

    def __init__(self, etcd: Etcd) -> None:
        super().__init__(("127.0.0.1", 0), Hands)
        self.etcd = etcd


class Hands(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Proxy)
        if self.server.leaderless:
            self._say(503, b'{"error":"etcdserver: no leader","code":14}', "")
            return
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.etcd.port, timeout=10)) as line:
            line.request("POST", self.path, body)
            answer = line.getresponse()
            text = answer.read()
        self._say(answer.status, text, answer.headers["Date"] if self.server.dated else "")

    def _say(self, status: int, text: bytes, date: str) -> None:
        self.send_response_only(status)
        if date:
            self.send_header("Date", date)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture
def proxy(etcd: Etcd) -> Iterator[Proxy]:
    with Proxy(etcd) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_behind_a_proxy_that_hangs_up_after_each_answer(proxy: Proxy, namespace: str) -> None:
    with closing(open_store(f"etcd://127.0.0.1:{proxy.server_port}/?namespace={namespace}")) as store:
        (cell,) = win(store, claim("a"))
        assert cell_of(store, "a") == cell


def test_from_a_member_without_a_leader_the_next_call_goes_to_another(proxy: Proxy, etcd: Etcd, namespace: str) -> None:
    endpoints = f"127.0.0.1:{proxy.server_port},127.0.0.1:{etcd.port}"
    with closing(open_store(f"etcd://{endpoints}/?namespace={namespace}")) as store:
        proxy.leaderless = True
        with pytest.raises(StoreUnavailable, match="no leader; a write may have succeeded"):
            store.load([])
        win(store, claim("a"))


def test_behind_a_proxy_that_takes_the_date_away_there_is_no_clock(proxy: Proxy) -> None:
    proxy.dated = False
    caught = error(f"etcd://127.0.0.1:{proxy.server_port}")
    assert type(caught) is StoreUnusable
    assert "clock cannot be read" in str(caught)


def test_a_value_that_is_too_large_is_refused_by_name(store: Store) -> None:
    for size in (1_700_000, 3_000_000):
        with pytest.raises(StoreUnusable, match="max-request-bytes"):
            swap(store, put("a", value="x" * size))
    assert cell_of(store, "a") == Cell("a")


@pytest.mark.parametrize("write", [claim("a\0b"), claim("a\ud800"), claim("a", "\ud800")])
def test_what_is_no_text_is_refused(store: Store, write: Write) -> None:
    with pytest.raises(BadInput):
        swap(store, write)


def test_without_its_gateway() -> None:
    with Etcd("--enable-grpc-gateway=false") as server:
        caught = error(server.url)
    assert type(caught) is StoreUnusable
    assert "--enable-grpc-gateway" in str(caught)


def test_a_full_database() -> None:
    with Etcd("--quota-backend-bytes=6000000") as server, closing(open_store(server.url)) as store:
        with pytest.raises(StoreFull, match="compact and defragment"):
            _fill(store)
        verdicts = {check.name: check.verdict for check in _checked(store)}
        assert (verdicts["alarms"], verdicts["members"]) == ("error", "warn")


def _fill(store: Store) -> None:
    """Until it is full: etcd measures its file only now and then."""
    for number in range(200):
        win(store, put(f"a/{number}", value="x" * 1_000_000))


def _guard(server: Etcd) -> str:
    """Let it ask who comes; the URL for one who may use the namespace cronce."""
    cronce = [base64.b64encode(key).decode() for key in (b"cronce/", b"cronce0")]
    may = {"permType": "READWRITE", "key": cronce[0], "range_end": cronce[1]}
    server.ask("/v3/auth/role/add", {"name": "jobs"})
    server.ask("/v3/auth/role/grant", {"name": "jobs", "perm": may})
    for user, role in {"root": "root", "app": "jobs"}.items():
        server.ask("/v3/auth/user/add", {"name": user, "password": "s3cret"})
        server.ask("/v3/auth/user/grant", {"user": user, "role": role})
    server.ask("/v3/auth/enable")
    return server.url.replace("//", "//app:s3cret@")


def test_users_passwords_and_rights(own: Etcd) -> None:
    with closing(open_store(own.url.replace("//", "//app:s3cret@"))) as early:
        url = _guard(own)
        win(early, claim("a"))
        own.kill()
        own.start()  # and knows no token any more
        win(early, claim("b"))
        (found,) = [check for check in _checked(early) if check.name == "namespaces"]
        assert found.verdict == "warn"
        assert "not checked: " in found.says
        assert "permission denied" in found.says
    assert "write etcd://USER:PASSWORD@HOST" in str(error(own.url))
    wrong = error(own.url.replace("//", "//app:wr0ng@"))
    assert "user or password is wrong" in str(wrong)
    assert "wr0ng" not in str(wrong)
    assert "readwrite on the prefix" in str(error(f"{url}?namespace=other"))


def test_a_token_from_before_a_change_of_rights_is_renewed(tmp_path: Path) -> None:
    key, public = tmp_path / "key.pem", tmp_path / "public.pem"
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key))
    _openssl("ec", "-in", str(key), "-pubout", "-out", str(public))
    token = f"--auth-token=jwt,pub-key={public},priv-key={key},sign-method=ES256,ttl=1h"
    with Etcd(token) as server, closing(open_store(_guard(server))) as store:
        server.ctl("--user=root:s3cret", "role", "add", "another")
        win(store, claim("a"))


def _openssl(*words: str) -> None:
    subprocess.run([tool("openssl", "apt-get install openssl"), *words], check=True, capture_output=True)


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Etcd]:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    _openssl(
        "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-keyout", str(key), "-out", str(cert), "-subj", "/CN=etcd", "-addext", "subjectAltName=IP:127.0.0.1",
    )  # fmt: skip
    with Etcd(f"--cert-file={cert}", f"--key-file={key}", scheme="https") as server:
        yield server


def test_over_tls(secured: Etcd, tmp_path: Path, etcd: Etcd) -> None:
    secure = secured.url.replace("etcd:", "etcds:")
    with closing(open_store(f"{secure}?ca={tmp_path}/cert.pem")) as store:
        win(store, claim("a"))
    unknown, plain, none = error(secure), error(secured.url), error(etcd.url.replace("etcd:", "etcds:"))
    assert [type(unknown), type(plain)] == [StoreUnusable, StoreUnavailable]
    assert "?ca=FILE" in str(unknown)
    assert "write etcds://" in str(plain)
    assert "write etcd://" in str(none)


# --- the doctor -----------------------------------------------------------------------------------------------------


def _checked(store: Store) -> list[Any]:
    assert isinstance(store, EtcdStore)
    return list(store.checks())


def test_the_doctor_looks_at_members_room_alarms_and_namespaces(own: Etcd) -> None:
    own.ctl("put", "unrelated", "x")
    own.ctl("put", "z/meta", "[]")
    init(f"{own.url}?namespace=second")
    with closing(open_store(f"{own.url},127.0.0.1:9")) as store:
        found = {f"{check.name} {check.verdict}": check.says for check in _checked(store)}
    assert list(found) == [
        "endpoint ok", "endpoint warn", "version warn", "room ok", "members warn", "alarms ok", "compaction ok",
        "namespaces warn", "clock ok",
    ]  # fmt: skip
    assert found["namespaces warn"] == "there are other stores beside it: second; a job runs once in each of them"
    assert found["compaction ok"].startswith("none of ")
    assert "Connection refused" in found["endpoint warn"]
    assert found["members warn"] == "one member: if it is lost, the store is lost"


@pytest.mark.parametrize(
    ("versions", "verdict"),
    [
        (["3.3.27"], "error"),
        (["3.4.22"], "warn"),
        (["3.4.23"], "ok"),
        (["3.5.6"], "warn"),
        (["3.5.7", "3.5.10"], "ok"),
        (["3.5.10", "3.5.6"], "warn"),
        (["3.6.0-rc.1"], "ok"),
    ],
)
def test_versions_that_a_client_can_crash_are_told(versions: list[str], verdict: str) -> None:
    assert _version([{"version": version} for version in versions]).verdict == verdict
