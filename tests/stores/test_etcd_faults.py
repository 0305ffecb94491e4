"""etcd under faults: killed, stopped, restored, emptied. No win is lost, and processes go on by themselves.

Whoever gives up here was about to write: a client that goes away in the middle of a read may crash an etcd before 3.5.7
("unexpected error during txn: context canceled"), and the one of these tests is older.
"""

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from cronce.clock import SystemClock
from cronce.errors import StoreCopied, StoreUnavailable
from cronce.model import Cell, Mark, Origin, Refusal
from cronce.stores import open_store
from cronce.stores.base import Scan, Store
from cronce.stores.etcd import TRAITS, EtcdStore, adopt
from cronce.stores.etcd.api import ETCD_TIMEOUT
from cronce.testing.contract import DAY, HOUR, cell_of, claim, listening, news, put, refusals, swap, win
from cronce.torture.proxy import Proxy
from cronce.torture.route import HostPort
from tests.servers.etcd import Etcd, EtcdCluster
from tests.servers.patience import unanswered_within, until_it_answers

PATIENCE = timedelta(seconds=60)


@pytest.fixture
def own() -> Iterator[Etcd]:
    """It commits each transaction to its database at once. By default it does so ten times a second, and etcd 3.5.0 to
    3.5.2 may forget a transaction whose place in the log was committed before it, if they are killed in between."""
    with Etcd("--backend-batch-limit=1") as server:
        yield server


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster() as cluster:
        yield cluster


def eventually_win(store: Store, key: str) -> Cell:
    """Claim a cell as a user of the seam does: an answer that did not come is read back."""
    deadline = SystemClock().boot() + PATIENCE.total_seconds()
    while True:
        try:
            cell = cell_of(store, key)
            if cell.version == 0:
                cell = swap(store, claim(key, "mine")).verdicts[0].cell
        except StoreUnavailable as error:
            if SystemClock().boot() > deadline:
                raise AssertionError(f"no answer about {key} for {PATIENCE}") from error
            continue
        assert cell.value == "mine"
        return cell


# --- a member of three ----------------------------------------------------------------------------------------------

of_three = pytest.mark.xdist_group("etcd of three")


@of_three
def test_the_leader_is_killed_in_mid_traffic_and_no_win_is_lost(cluster: EtcdCluster) -> None:
    with closing(open_store(f"{cluster.url}/?namespace=killed")) as store:
        assert store.traits == TRAITS
        under_way = threading.Barrier(5)

        def work(number: int) -> list[Cell]:
            with closing(open_store(f"{cluster.url}/?namespace=killed")) as mine:
                wins = [eventually_win(mine, f"run/{number}/{turn:03}") for turn in range(10)]
                under_way.wait(PATIENCE.total_seconds())
                return wins + [eventually_win(mine, f"run/{number}/{turn:03}") for turn in range(10, 60)]

        with ThreadPoolExecutor(4) as pool:
            working = [pool.submit(work, number) for number in range(4)]
            under_way.wait(PATIENCE.total_seconds())
            dead = cluster.leader()
            dead.kill()
            wins = [cell for each in working for cell in each.result()]
        assert list(store.scan(Scan("run/")).cells) == sorted(wins, key=lambda cell: cell.key)
        assert len({cell.version for cell in wins}) == len({cell.fence for cell in wins}) == 240
        dead.start()
        assert isinstance(store, EtcdStore)
        (checked,) = [check for check in store.checks() if check.name == "members"]
        assert (checked.verdict, checked.says) == ("ok", "3 voting members, which survive the loss of 1")


@of_three
def test_a_member_stands_still_then_most_of_them_and_then_it_goes_on(cluster: EtcdCluster) -> None:
    with closing(open_store(cluster.url)) as store:
        (won,) = win(store, claim("a"))
        seen = store.load([]).epoch.seen
    with closing(until_it_answers(lambda: open_store(f"{cluster.url}/?timeout=1"))) as store:
        cluster.members[0].pause()  # the one that it talks to, which goes on taking connections
        with pytest.raises(StoreUnavailable):
            store.swap([claim("b")], seen)
        assert eventually_win(store, "c").version > won.version
        cluster.members[1].pause()
        assert unanswered_within(2.5, lambda: store.swap([claim("d")], seen))
        for member in cluster.members[:2]:
            member.resume()
        assert eventually_win(store, "e").version > won.version
        assert until_it_answers(lambda: cell_of(store, "a")) == won


@of_three
def test_a_member_that_has_lost_the_others_ends_what_is_listened_to(cluster: EtcdCluster) -> None:
    """It would have nothing more to tell, and the connection stays up."""
    one, *others = cluster.members
    with closing(open_store(f"{one.url}/?namespace=news")) as store:
        with closing(listening(store)) as listener:
            for member in others:
                member.kill()
            with pytest.raises(StoreUnavailable, match="notifications stopped"):
                listener.wait(PATIENCE.total_seconds())
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(Etcd.start, others))
        with closing(listening(store)) as listener:
            win(store, news())
            assert listener.wait(PATIENCE.total_seconds())


# --- one server -----------------------------------------------------------------------------------------------------


def test_a_server_that_gives_no_answer_is_given_up_in_time_and_used_again_after(own: Etcd) -> None:
    """It is held back on the way."""
    with closing(Proxy(HostPort("127.0.0.1", own.port))) as proxy:
        link = proxy.link()
        with closing(open_store(own.url)) as store:
            (won,) = win(store, claim("a", "mine"))
            seen = store.load([]).epoch.seen
        hasty = f"etcd://127.0.0.1:{link.port}/?timeout=0.5"
        with closing(until_it_answers(lambda: open_store(hasty))) as store:
            link.cut()
            with pytest.raises(StoreUnavailable, match=r"no answer within 0\.5 s"):
                store.swap([claim("b")], seen)
            assert unanswered_within(ETCD_TIMEOUT, lambda: store.swap([claim("b")], seen), least=0.4)
            link.heal()
            assert eventually_win(store, "a") == won


def test_a_killed_server_remembers_every_win(own: Etcd) -> None:
    with closing(open_store(own.url)) as store:
        cells = win(store, *(claim(f"run/{number}") for number in range(20)))
        epoch = store.load([]).epoch
        own.kill()
        with pytest.raises(StoreUnavailable):
            store.load([])
        own.start()
        loaded = store.load([cell.key for cell in cells])
        assert (list(loaded.cells), loaded.epoch) == (cells, epoch)
        assert refusals(swap(store, claim("run/0"), claim("run/x"))) == [Refusal.VERSION, None]


# --- backups --------------------------------------------------------------------------------------------------------


def test_an_old_snapshot_put_back_is_found_out_by_who_knew_more(own: Etcd, tmp_path: Path) -> None:
    """With the names and addresses it had, the restored cluster even has the same id."""
    with closing(open_store(own.url)) as store:
        kept = swap(store, claim("a"))
        own.ctl("snapshot", "save", str(tmp_path / "snapshot"))
        before = swap(store, claim("b")).epoch
        _put_back(own, tmp_path / "snapshot")
        assert refusals(store.swap([claim("c")], before.seen)) == [Refusal.EPOCH]
        epoch = store.load([]).epoch
        assert (epoch.origin, epoch.since) == (Origin.RESTORED, kept.now)
        assert epoch.base == epoch.tally == before.tally
        assert cell_of(store, "a") == kept.verdicts[0].cell
        assert win(store, claim("b"))[0].version > before.tally


def test_after_a_loss_nothing_is_guessed_from_before_it(own: Etcd, tmp_path: Path) -> None:
    """The same key at the same revision: written by one before the loss, and by another, otherwise, after it."""
    with closing(open_store(own.url)) as store:
        win(store, claim("a"))
        own.ctl("snapshot", "save", str(tmp_path / "snapshot"))
        (lost,) = win(store, put("b", Mark.FREE, at=DAY))
        seen = swap(store, claim("c")).epoch.seen
        _put_back(own, tmp_path / "snapshot")
        with closing(open_store(own.url)) as other:
            (theirs,) = win(other, put("b", Mark.FREE, at=DAY + HOUR))
        assert theirs.version == lost.version
        assert refusals(store.swap([], seen)) == []
        assert win(store, claim("b"))[0].at == DAY + HOUR


def test_a_snapshot_put_up_elsewhere_is_refused_until_it_is_adopted(own: Etcd, tmp_path: Path) -> None:
    with closing(open_store(own.url)) as store:
        won = swap(store, claim("a"))
    own.ctl("snapshot", "save", str(tmp_path / "snapshot"))
    copy = Etcd(member="copy")
    copy.restore(tmp_path / "snapshot")
    with copy:
        with pytest.raises(StoreCopied, match="cronce store adopt"):
            open_store(copy.url)
        epoch = adopt(copy.url)
        assert (epoch.origin, epoch.since) == (Origin.RESTORED, won.now)
        assert epoch.birth > won.epoch.birth
        assert epoch.base == epoch.tally > won.epoch.tally
        with closing(open_store(copy.url)) as store:
            assert store.load(["a"])[1:] == (epoch, [won.verdicts[0].cell])
            assert win(store, claim("b"))[0].version > epoch.base


def test_an_emptied_server_begins_a_life_that_says_so_to_who_knew_it(own: Etcd) -> None:
    with closing(open_store(own.url)) as store:
        before = swap(store, claim("a")).epoch
        own.kill()
        shutil.rmtree(own.directory / "data")
        own.start()
        epoch = store.load([]).epoch
        assert (epoch.origin, epoch.base) == (Origin.FOUND, 0)
        assert epoch.birth > before.birth
        assert refusals(store.swap([claim("a")], before.seen)) == [Refusal.EPOCH]
        assert refusals(store.swap([claim("a")], epoch.seen)) == [None]
    with closing(open_store(own.url)) as fresh:
        assert fresh.load([]).epoch.origin is Origin.FOUND


def test_a_namespace_that_was_deleted_begins_anew(own: Etcd) -> None:
    with closing(open_store(own.url)) as store:
        before = swap(store, claim("a")).epoch
        own.ctl("del", "--prefix", "cronce/")
        assert refusals(store.swap([claim("a")], before.seen)) == [Refusal.EPOCH]
        assert store.load([]).epoch.origin is Origin.FOUND
        win(store, claim("a"))


def _put_back(server: Etcd, snapshot: Path) -> None:
    server.kill()
    shutil.rmtree(server.directory / "data")
    server.restore(snapshot)
    server.start()
