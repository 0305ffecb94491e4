"""A Redis that forgets, by every way there is: noticed at the seam, and nothing fires twice above it.

What nobody can see: an empty, old or lagging server that was put in the place of another behind a proxy that kept the
connections open, as long as no process asks that has seen more; and, on a server that flushes every write, an old file
that was put back while no process lived.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from cronce.clock import SystemClock
from cronce.errors import StoreUnavailable
from cronce.events import Event, What
from cronce.model import Epoch, Mark, Origin, Refusal, Slot
from cronce.protocol.commands import Closed, Early, Finished, Held, Stale, Unsure
from cronce.protocol.record import Outcome, decode_job
from cronce.protocol.terms import Terms
from cronce.runtime.flow import Flow, drive
from cronce.runtime.ledger import Grant, Ledger, Wanted
from cronce.stores import open_store
from cronce.stores.base import Scan, Store
from cronce.stores.redis import RedisStore, init
from cronce.testing.contract import cell_of, claim, put, refusals, swap, win
from tests.house.wait import wait_until
from tests.servers.patience import until_it_answers
from tests.servers.valkey import DURABLE, Valkey, Watched

T = TypeVar("T")
Forget = Callable[[Valkey], None]


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Valkey]:
    with Valkey(*getattr(request, "param", ())) as valkey:
        yield valkey


@pytest.fixture
def opened() -> Iterator[Callable[[str], RedisStore]]:
    stores: list[RedisStore] = []

    def open_one(url: str) -> RedisStore:
        store = open_store(url)
        assert isinstance(store, RedisStore)
        stores.append(store)
        return store

    yield open_one
    for store in stores:
        store.close()


Opened = Callable[[str], RedisStore]


def flush(server: Valkey) -> None:
    server.cli("FLUSHALL")


def restart(server: Valkey) -> None:
    server.kill()
    server.start()


def cut_power(server: Valkey) -> None:
    """The last second of the log never reached the disk."""
    server.kill()
    (log,) = Path(server.directory, "appendonlydir").glob("*.incr.aof")
    whole = log.read_bytes()
    log.write_bytes(whole[: whole.rindex(b"MULTI")])
    server.start()


# --- at the seam ------------------------------------------------------------------------------------------------------


def test_an_empty_store_that_can_forget_was_found_so(server: Valkey, opened: Opened) -> None:
    assert opened(server.url).load([]).epoch.origin is Origin.FOUND


def test_a_store_begun_on_purpose_was_made(server: Valkey, opened: Opened) -> None:
    made = init(server.url)
    assert made.origin is Origin.MADE
    assert opened(server.url).load([]).epoch == made == init(server.url)


def test_to_begin_a_store_that_holds_something_changes_nothing(server: Valkey, opened: Opened) -> None:
    found = swap(opened(server.url), claim("a")).epoch
    assert init(server.url) == found
    assert found.origin is Origin.FOUND


def test_a_store_that_was_only_looked_at_can_still_be_begun(server: Valkey, opened: Opened) -> None:
    """To look at an empty store is to find it empty; whoever begins it then knows better."""
    found = opened(server.url).load([]).epoch
    assert init(server.url) == found._replace(origin=Origin.MADE) == opened(server.url).load([]).epoch


@pytest.mark.parametrize("server", [DURABLE], indirect=True)
def test_flushed_before_a_new_process_comes_it_is_found_too(server: Valkey, opened: Opened) -> None:
    """Also where it promises to keep everything: nothing says that there was nothing before."""
    assert init(server.url).origin is Origin.MADE
    opened(server.url).close()
    flush(server)
    store = opened(server.url)
    assert (store.traits.durable, store.load([]).epoch.origin) == (True, Origin.FOUND)


def test_a_master_that_followed_another_meanwhile_has_lost_what_it_answered_before(
    server: Valkey, opened: Opened
) -> None:
    """Sentinel had taken it for dead, and made it the master again later. It is the very process that wrote last, and
    nobody had asked the other one in between: what it had forgotten ran again."""
    with closing(server.replica()) as other:
        store = opened(server.url)
        win(store, claim("kept"))
        wait_until(lambda: cell_there(other, "kept"))
        other.cli("REPLICAOF", "NO", "ONE")
        win(store, claim("lost"))
        store.close()
        for master in (f"127.0.0.1 {other.port}", "NO ONE"):
            server.cli("REPLICAOF", *master.split())
            wait_until(lambda: server.cli("INFO", "replication").get("master_link_status", "up") == "up")
        again = opened(server.url)
        assert [cell.version > 0 for cell in again.load(["kept", "lost"]).cells] == [True, False]
        assert again.load([]).epoch.origin is Origin.RESTORED


@pytest.mark.parametrize("alone", [True, False])
def test_a_master_whose_replication_has_another_id_has_lost_nothing_by_that(
    server: Valkey, opened: Opened, alone: bool
) -> None:
    """It draws a new one when its first replica comes, or when somebody told it to follow nobody."""
    store = opened(server.url)
    win(store, claim("a"))
    epoch = store.load([]).epoch
    store.close()
    if alone:
        server.cli("REPLICAOF", "127.0.0.1", "1")
        server.cli("REPLICAOF", "NO", "ONE")
        assert opened(server.url).load([]).epoch == epoch
    else:
        with closing(server.replica()):
            assert opened(server.url).load([]).epoch == epoch


def cell_there(server: Valkey, key: str) -> bool:
    return bool(server.cli("HEXISTS", "{cronce:cronce}:cells", key))


def test_cells_that_were_deleted_alone_leave_no_index(server: Valkey, opened: Opened) -> None:
    """As an eviction does: the store is two keys."""
    store = opened(server.url)
    win(store, put("a", Mark.OPEN, ttl=timedelta(0)), put("b"))
    server.cli("DEL", "{cronce:cronce}:cells")
    assert store.scan(Scan("")).cells == []
    assert server.cli("ZCARD", "{cronce:cronce}:index") == 1  # which says that the others are all there
    win(store, put("a"), put("b"))
    server.cli("HDEL", "{cronce:cronce}:cells", "a")
    assert [cell.key for cell in store.scan(Scan("")).cells] == ["b"]


@pytest.mark.parametrize("server", [(), DURABLE], indirect=True)
def test_flushed_under_a_living_process_it_begins_anew_by_itself(server: Valkey, opened: Opened) -> None:
    """Also where it promises to keep everything: that somebody emptied it does not make what came before known."""
    store = opened(server.url)
    before = swap(store, claim("a")).epoch
    flush(server)
    swapped = store.swap([claim("a")], before.seen)
    assert refusals(swapped) == [Refusal.EPOCH]
    assert (swapped.epoch.origin, swapped.epoch.tally) == (Origin.FOUND, 0)
    assert swapped.epoch.birth > before.birth
    assert opened(server.url).load([]).epoch == swapped.epoch
    assert [cell.version for cell in win(store, claim("a"))] == [1]


def test_flushed_before_a_load_a_scan_or_a_purge(server: Valkey, opened: Opened) -> None:
    store = opened(server.url)
    births = []
    for ask in (lambda: store.load(["a"]), lambda: store.purge([cell_of(store, "a")])):
        win(store, claim("a"))
        flush(server)
        ask()
        births.append(store.load([]).epoch.birth)
        assert cell_of(store, "a").version == 0
    assert births == sorted(set(births))


@pytest.mark.parametrize("server", [(), ("--appendonly", "yes")], indirect=True)
def test_a_restart_that_may_have_lost_writes_is_a_new_life(server: Valkey, opened: Opened) -> None:
    store = opened(server.url)
    last = swap(store, claim("a"))
    server.cli("SAVE")
    restart(server)
    epoch = store.load([]).epoch
    assert epoch == Epoch(epoch.birth, last.epoch.tally, last.epoch.tally, Origin.RESTORED, last.now)
    assert opened(server.url).load([]).epoch == epoch
    assert refusals(store.swap([claim("b")], last.epoch.seen)) == [Refusal.EPOCH]


@pytest.mark.parametrize("server", [DURABLE], indirect=True)
def test_a_restart_that_kept_everything_changes_nothing(server: Valkey, opened: Opened) -> None:
    store = opened(server.url)
    (cell,) = win(store, claim("a"))
    before = store.load([]).epoch
    restart(server)
    assert store.load([]).epoch == before
    assert opened(server.url).load([]).epoch == before
    assert cell_of(store, "a") == cell


@pytest.mark.parametrize("server", [DURABLE], indirect=True)
def test_settings_that_were_weaker_before_the_restart_count(server: Valkey, opened: Opened) -> None:
    server.cli("CONFIG", "SET", "appendfsync", "everysec")
    store = opened(server.url)
    win(store, claim("a"))
    restart(server)
    assert store.load([]).epoch.origin is Origin.RESTORED
    assert store.traits.durable


@pytest.mark.parametrize("server", [(*DURABLE, "--rename-command", "CONFIG", "")], indirect=True)
def test_settings_that_cannot_be_read_count_as_weak(server: Valkey, opened: Opened) -> None:
    store = opened(server.url)
    assert not store.traits.durable
    assert store.load([]).epoch.origin is Origin.FOUND
    win(store, claim("a"))
    restart(server)
    assert store.load([]).epoch.origin is Origin.RESTORED


@pytest.mark.parametrize("server", [DURABLE], indirect=True)
def test_an_old_file_is_found_out_by_a_writer_that_has_seen_more(server: Valkey, opened: Opened) -> None:
    """On a server that says it keeps everything, whose files somebody put back."""
    store = opened(server.url)
    first = swap(store, put("a", Mark.OPEN))
    log = next(Path(server.directory, "appendonlydir").glob("*.incr.aof"))
    old = log.read_bytes()
    seen = swap(store, put("b")).epoch
    server.kill()
    log.write_bytes(old)
    server.start()
    assert store.load([]).epoch == first.epoch
    swapped = store.swap([put("c")], seen.seen)
    assert refusals(swapped) == [Refusal.EPOCH]
    assert swapped.epoch == Epoch(swapped.epoch.birth, seen.tally, seen.tally, Origin.RESTORED, first.now)


def test_of_two_processes_that_notice_a_restart_one_begins_the_new_life(server: Valkey, opened: Opened) -> None:
    stores = [opened(server.url) for _ in range(4)]
    before = swap(stores[0], claim("a")).epoch
    server.cli("SAVE")
    restart(server)
    lives = {store.load([]).epoch for store in stores}
    assert len(lives) == 1
    assert lives.pop().birth > before.birth


def test_nothing_is_written_to_a_restarted_server_before_it_was_looked_at(server: Valkey, opened: Opened) -> None:
    """The first thing after a restart is a swap by a process that knows of none."""
    store = opened(server.url)
    seen = swap(store, claim("a")).epoch
    server.cli("SAVE")
    restart(server)
    assert refusals(store.swap([claim("b")], seen.seen)) == [Refusal.EPOCH]
    assert cell_of(store, "b").version == 0


def set_last_write(server: Valkey, seconds: int) -> None:
    """So far from now: what a clock that stepped back would see."""
    server.cli(
        "EVAL",
        "local meta = redis.call('HGET', KEYS[1], '\\255')"
        " local last = struct.pack('>I8', (redis.call('TIME')[1] + ARGV[1]) * 1000000 + 2^50)"
        " redis.call('HSET', KEYS[1], '\\255', string.sub(meta, 1, 33) .. last .. string.sub(meta, 42))",
        1, "{cronce:cronce}:cells", seconds,
    )  # fmt: skip


@pytest.mark.parametrize("server", [("--dbfilename", "old.rdb")], indirect=True)
def test_no_life_begins_while_the_clock_is_behind_the_last_write(server: Valkey, opened: Opened) -> None:
    """It would be born before what was lost, which would then be granted again."""
    store = opened(server.url)
    win(store, claim("a"))
    set_last_write(server, 3600)
    opened(server.url)  # nothing was lost yet
    server.cli("SAVE")
    restart(server)
    for ask in (lambda: store.load([]), lambda: opened(server.url)):
        with pytest.raises(StoreUnavailable, match="its clock is behind its own last write; set the clock"):
            ask()
    set_last_write(server, 0)
    assert store.load([]).epoch.origin is Origin.RESTORED


def test_a_writer_that_has_seen_more_begins_no_life_either(server: Valkey, opened: Opened) -> None:
    store = opened(server.url)
    birth, tally = swap(store, claim("a")).epoch.seen
    set_last_write(server, 3600)
    with pytest.raises(StoreUnavailable, match="set the clock"):
        store.swap([claim("b")], (birth, tally + 1))
    assert store.load([]).epoch.seen == (birth, tally)
    set_last_write(server, 0)
    assert refusals(store.swap([claim("b")], (birth, tally + 1))) == [Refusal.EPOCH]


# --- and above it: nothing fires twice, and later slots run -----------------------------------------------------------


class Process:
    """One that claims slots as they fall due."""

    def __init__(self, store: Store, name: str = "web-1") -> None:
        self.store, self.clock = store, SystemClock()
        self.events: list[Event] = []
        self.ledger = Ledger(store.traits, self.clock, name, report=self.events.append)

    def do(self, flow: Flow[T]) -> T:
        return drive(flow, self.store, self.clock)

    def claim(self, slot: Slot) -> object:
        terms = Terms(timedelta(minutes=5), overlap="allow", outside=True)
        (answer,) = self.do(self.ledger.claim([Wanted(slot, terms)]))
        return answer

    def claim_in_time(self, slot: Slot) -> object:
        """As soon as the store lets it."""
        answers: list[object] = []

        def decided() -> bool:
            answers.append(self.claim(slot))
            return not isinstance(answers[-1], Early)

        wait_until(decided)
        return answers[-1]

    @property
    def forgot(self) -> list[str]:
        return [event.detail for event in self.events if event.what is What.FORGOT]


def slots(store: Store, count: int) -> list[Slot]:
    """The last slots of a job that runs every second, the latest first."""
    now = store.load([]).now.replace(microsecond=0)
    return [Slot("billing", now - timedelta(seconds=number)) for number in range(count)]


class Day:
    """What was done before the store forgot: one slot finished, one running, and one claimed that it may have lost."""

    def __init__(self, process: Process, before_the_last: Callable[[], object]) -> None:
        self.process = process
        self.unclaimed, self.later, self.running, self.done = slots(process.store, 4)
        grants = [process.claim(slot) for slot in (self.done, self.running)]
        done, self.grant = (grant for grant in grants if isinstance(grant, Grant))
        assert process.do(process.ledger.finish(done, Outcome.SUCCEEDED)) == Finished(Outcome.SUCCEEDED)
        before_the_last()
        assert isinstance(process.claim(self.later), Grant)

    def check(self, newcomer: Process, origin: str) -> None:
        """None of them fires again, for whoever asks; what is unknown is on record; a later one runs."""
        process, store = self.process, self.process.store
        for slot in (self.done, self.running, self.later, self.unclaimed):
            for one in (newcomer, process):
                assert isinstance(one.claim(slot), Closed), slot
        assert process.forgot == [origin]
        assert isinstance(process.do(process.ledger.finish(self.grant, Outcome.SUCCEEDED)), Stale)
        cells = store.load([slot.cell for slot in (self.done, self.running, self.later, self.unclaimed)]).cells
        kept = [Mark.CLOSED, Mark.ATTENTION] if origin == "restored" else []
        assert [cell.mark for cell in cells if cell.version] == kept
        job = decode_job(cell_of(store, "job/billing").value)
        assert [span.reason for span in job.spans] == ["unknown: the store forgot"]
        self.check_later(newcomer)

    def check_later(self, newcomer: Process) -> None:
        born, skew = self.process.store.load([]).epoch.born, self.process.store.traits.skew
        after = Slot("billing", (born + skew).replace(microsecond=0) + timedelta(seconds=1))
        assert isinstance(self.process.claim_in_time(after), Grant)
        assert not isinstance(newcomer.claim(after), Grant)


WAYS: list[tuple[tuple[str, ...], Forget, str]] = [
    ((), flush, "found"),
    ((), restart, "found"),
    (("--dbfilename", "old.rdb"), restart, "restored"),
    (("--appendonly", "yes"), cut_power, "restored"),
]


@pytest.mark.parametrize(
    ("server", "forget", "origin"), WAYS, indirect=["server"], ids=["flushed", "empty", "old", "cut"]
)
def test_nothing_fires_twice_and_later_slots_run(server: Valkey, forget: Forget, origin: str, opened: Opened) -> None:
    init(server.url)
    saves = "old.rdb" in server.arguments
    day = Day(Process(opened(server.url)), lambda: saves and server.cli("SAVE"))
    forget(server)
    day.check(Process(opened(server.url), "web-2"), origin)


# --- another server takes its place -----------------------------------------------------------------------------------


class Old(NamedTuple):
    """Servers that were up for some seconds before anything was written: only then is it plain that they did not lose
    it in a restart. They are started together, so that there is one time to wait."""

    watched: Watched
    alone: Valkey
    dumped: Valkey
    elsewhere: Valkey
    promoted: Valkey
    master: Valkey
    replica: Valkey


@pytest.fixture(scope="module")
def old() -> Iterator[Old]:
    with ExitStack() as stack:
        watched = stack.enter_context(Watched(2))
        alone, dumped, elsewhere, master = (
            stack.enter_context(Valkey(*settings)) for settings in ((), ("--dbfilename", "old.rdb"), (), ())
        )
        for each in (alone, dumped):
            stack.enter_context(closing(each.replica()))
        promoted, replica = (stack.enter_context(closing(each.replica())) for each in (elsewhere, master))
        servers = Old(watched, alone, dumped, elsewhere, promoted, master, replica)
        wait_until(lambda: all(runs_for(server, 3) for server in (*watched.replicas, dumped, promoted, replica)))
        yield servers


def runs_for(server: Valkey, seconds: int) -> bool:
    return bool(server.cli("INFO", "server")["uptime_in_seconds"] >= seconds)


together = pytest.mark.xdist_group("old redis")


def test_a_lagging_replica_in_the_masters_place_is_a_store_that_lost_writes(opened: Opened) -> None:
    with Watched() as watched:
        init(watched.url)
        process = Process(opened(watched.url))
        day = Day(process, lambda: watched.replicas[0].cli("REPLICAOF", "127.0.0.1", 1))
        watched.lose_master()
        assert until_it_answers(lambda: process.store.load([])).epoch.origin is Origin.RESTORED
        day.check(Process(opened(watched.url), "web-2"), "restored")


@together
def test_a_run_goes_on_through_a_failover_when_replicas_have_every_win(old: Old, opened: Opened) -> None:
    url = f"{old.watched.url}&min_replicas=1"
    init(url)
    process = Process(opened(url))
    assert process.store.traits.survives_failover
    day = Day(process, lambda: None)
    before = process.store.load([]).epoch
    old.watched.lose_master()
    assert until_it_answers(lambda: process.store.load([])).epoch == before
    answer = until_it_answers(lambda: _sure(process.do(process.ledger.finish(day.grant, Outcome.SUCCEEDED))))
    assert answer == Finished(Outcome.SUCCEEDED)
    newcomer = Process(opened(url), "web-2")
    assert newcomer.claim(day.running) == process.claim(day.done) == Closed(Outcome.SUCCEEDED, "")
    assert isinstance(newcomer.claim(day.later), Held)
    assert isinstance(newcomer.claim(day.unclaimed), Grant)
    assert (process.forgot, newcomer.forgot) == ([], [])


@together
def test_a_master_that_restarts_from_a_dump_is_not_taken_for_its_replica(old: Old, opened: Opened) -> None:
    """A Valkey then says that it continues the replication in the dump, as a replica in its place would."""
    url = f"{old.dumped.url}?min_replicas=1"
    store = opened(url)
    before = swap(store, claim("a"))
    old.dumped.cli("SAVE")
    win(store, claim("b"))
    restart(old.dumped)
    epoch = opened(url).load([]).epoch
    assert epoch == Epoch(epoch.birth, 1, 1, Origin.RESTORED, before.now)


@together
def test_a_server_that_was_promoted_in_the_place_of_another_is_not_believed(old: Old, opened: Opened) -> None:
    """It continues a replication, but not that of the server that wrote last."""
    old.promoted.cli("REPLICAOF", "NO", "ONE")
    win(opened(f"{old.alone.url}?min_replicas=1"), claim("a"))
    old.alone.cli("MIGRATE", "127.0.0.1", old.promoted.port, "{cronce:cronce}:cells", 0, 5000, "COPY")
    assert opened(f"{old.promoted.url}?min_replicas=1").load([]).epoch.origin is Origin.RESTORED


@together
def test_a_replica_in_its_masters_place_is_believed(old: Old, opened: Opened) -> None:
    before = swap(opened(f"{old.master.url}?min_replicas=1"), claim("a")).epoch
    old.master.kill()
    old.replica.cli("REPLICAOF", "NO", "ONE")
    assert opened(f"{old.replica.url}?min_replicas=1").load([]).epoch == before


def _sure(answer: object) -> object:
    if isinstance(answer, Unsure):
        raise StoreUnavailable(answer.why)
    return answer
