"""A scheduler that hears of news looks seldom until a lease of another process comes near to its end."""

from collections import Counter
from itertools import pairwise
from unittest.mock import patch

import pytest

from cronce import Cronce
from cronce.model import Traits
from cronce.runtime.ledger import Grant
from cronce.runtime.scheduling import candidates
from cronce.stores.base import Page, Scan
from cronce.stores.memory import MemoryStore
from tests.runtime.scheduling.manual_cluster import ManualCluster, Process
from tests.runtime.test_requests import counting

NOTIFIES = Traits("model, tells of news", notifies=True)


def hearing(cron: Cronce, *, holds_back: bool = False, traits: Traits = NOTIFIES) -> ManualCluster:
    """A cluster on a store that tells of news."""
    cluster = ManualCluster(cron, notifies=True, holds_back=holds_back)
    cluster.store = MemoryStore(cluster.clock.wall, traits)
    cluster._heard = cluster.store.news
    return cluster


def joined(cluster: ManualCluster, name: str) -> Process:
    process = cluster.join(name)
    process.engine.is_notified = True
    return process


def seldom(lease: str = "12s", every: str = "100s") -> Cronce:
    cron = Cronce("sqlite:///:memory:")
    cron.job(every=every, name="seldom", on_lost="rerun", lease=lease)(lambda: None)
    return cron


def requests(cluster: ManualCluster, start: int, end: int) -> Counter[str]:
    cluster.turn_to(start)
    with counting() as made:
        cluster.turn_to(end)
    return Counter(made)


def test_while_nothing_runs_it_looks_and_beats_once_in_ten_seconds() -> None:
    with hearing(seldom("30s")) as cluster:
        joined(cluster, "web-1:1:a")
        made = requests(cluster, 20_000, 80_000)
        assert made == {"Load": 6, "Scan": 13, "Swap": 7}  # the odd ones are once a minute


def test_one_that_hears_nothing_goes_on_looking() -> None:
    with hearing(seldom()) as cluster:
        joined(cluster, "web-1:1:a").engine.is_notified = False
        made = requests(cluster, 20_000, 80_000)
        assert made["Load"] == 43  # once in 1.4 s


@pytest.mark.parametrize("late", range(0, 7_000, 700))
def test_what_begins_to_run_elsewhere_is_taken_over_as_soon_as_it_lapses(late: int) -> None:
    """Whenever the other process looked last: it sees the lease before that comes near to its end."""
    with hearing(seldom(), holds_back=True) as cluster:
        first = joined(cluster, "web-1:1:a")
        cluster.turn_to(20_000 + late)
        second = joined(cluster, "web-2:1:b")
        cluster.turn_to(101_000)
        (run,) = cluster.begun
        dead, heir = (first, second) if first.held else (second, first)
        cluster.kill(dead)  # and its lease lapses 12 seconds after the slot
        cluster.turn_to(130_000)
        again = cluster.begun[1]
        assert (again.process, again.slot, again.attempt) == (heir.name, run.slot, 2)
        assert again.at - 112_000 <= 1_500


def test_while_another_process_runs_something_it_rests_until_that_lease_comes_near_to_its_end() -> None:
    """While anything ran anywhere, each of fifty processes asked the store twice a second."""
    with hearing(seldom("200s", "400s"), holds_back=True) as cluster:
        first, second = joined(cluster, "web-1:1:a"), joined(cluster, "web-2:1:b")
        cluster.turn_to(401_000)
        cluster.kill(first if first.held else second)
        assert requests(cluster, 410_000, 470_000) == {"Load": 6, "Scan": 13, "Swap": 7}
        cluster.turn_to(610_000)
        assert [(one.slot, one.attempt) for one in cluster.begun] == [(400, 1), (400, 2)]
        assert cluster.begun[1].at - 600_000 <= 1_500


def test_news_that_comes_while_it_looks_is_looked_at_at_once() -> None:
    """What was triggered by hand just then began ten seconds later."""
    with hearing(seldom()) as cluster:
        process = joined(cluster, "web-1:1:a")
        cluster.turn_to(30_000)
        scan, store = cluster.store.scan, process.keeper.node.store

        def scan_and_hear(asked: Scan) -> Page:
            page = scan(asked)
            process.engine.look_soon()
            return page

        process.engine._look_at = 0.0
        with patch.object(store, "scan", scan_and_hear):
            process.engine.step()
        assert process.engine._next_look <= cluster.clock.boot()


@pytest.mark.parametrize(("lease", "looks"), [("3s", 43), ("12s", 10), ("30s", 6)])
def test_it_looks_as_often_as_the_shortest_lease_of_its_jobs_asks_for(lease: str, looks: int) -> None:
    """A run that begins elsewhere tells nobody; if its process dies, it is taken over in time."""
    with hearing(seldom(lease)) as cluster:
        joined(cluster, "web-1:1:a")
        assert requests(cluster, 20_000, 80_000)["Load"] == looks


def test_of_more_open_runs_than_one_scan_brings_each_is_taken_over_as_soon_as_it_lapses() -> None:
    """Of 1,100 only those that lapse within a look were known, and it rested for nine seconds."""
    cron = Cronce("sqlite:///:memory:")
    for number in range(1_100):
        cron.job(every="200s", name=f"job-{number:04}", on_lost="rerun", lease="30s")(lambda: None)
    with hearing(cron, holds_back=True) as cluster:
        first = cluster.join("web-1:1:a", workers=1_100)
        cluster.turn_to(201_000)
        joined(cluster, "web-2:1:b")
        cluster.kill(first)
        cluster.turn_to(230_500)
        again = [one.at for one in cluster.begun if one.process != first.name]
        assert again[0] <= 230_010


def test_one_that_looks_often_beats_no_more_often_for_it() -> None:
    """A lease of another that comes near to its end brought a beat with each look."""
    with hearing(seldom("12s"), holds_back=True) as cluster:
        first, second = joined(cluster, "web-1:1:a"), joined(cluster, "web-2:1:b")
        cluster.turn_to(101_000)
        busy, other = (first, second) if first.held else (second, first)
        beats, beat = list[int](), other.engine._beat

        def counted(boot: float) -> None:
            beats.append(cluster.now)
            beat(boot)

        other.engine._beat = counted  # type: ignore[method-assign]
        for at in range(104_000, 160_000, 4_000):
            cluster.turn_to(at)
            attempt = busy.held[0]
            (renewed,) = busy.keeper.node.do(busy.keeper.node.ledger.renew([attempt.lease.grant]))
            assert isinstance(renewed, Grant)
            attempt.lease.grant = renewed
        assert len(cluster.begun) == 1
        assert [late - early >= 6_000 for early, late in pairwise(beats)] == [True] * 4


SEVERAL_CLOCKS = NOTIFIES._replace(one_clock=False)


@pytest.mark.parametrize("joins", [113_000, 140_000, 171_300])
def test_one_that_joins_after_a_lease_has_lapsed_takes_the_run_over_without_rest(joins: int) -> None:
    """It rested ten seconds after each try. So no holder could be heard for long enough, and it never took over."""
    with hearing(seldom(), holds_back=True) as cluster:
        first = joined(cluster, "web-1:1:a")
        cluster.turn_to(101_000)
        cluster.kill(first)
        cluster.turn_to(joins)
        joined(cluster, "web-2:1:b")
        cluster.turn_to(199_000)
        assert [(one.slot, one.attempt) for one in cluster.begun] == [(100, 1), (100, 2)]
        assert cluster.begun[1].at - joins <= 13_500  # it has to watch the store's clock for a lease


def test_where_several_clocks_date_leases_a_run_is_watched_from_its_start() -> None:
    """There a lease has lapsed once it was seen unchanged for its whole length. It was first seen when it came near to
    its end, and taken over 45 seconds late."""
    with hearing(seldom("60s", "400s"), holds_back=True, traits=SEVERAL_CLOCKS) as cluster:
        first, second = joined(cluster, "web-1:1:a"), joined(cluster, "web-2:1:b")
        cluster.turn_to(401_000)
        cluster.kill(first if first.held else second)
        cluster.turn_to(500_000)
        assert [(one.slot, one.attempt) for one in cluster.begun] == [(400, 1), (400, 2)]
        assert cluster.begun[1].at - 460_000 <= 3_000


def test_one_that_reads_many_jobs_ahead_beats_no_more_often_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand jobs are read a thousand at a look, and each of those looks brought a beat with it."""
    monkeypatch.setattr(candidates, "JOBS_READ_AHEAD", 5)
    cron = Cronce("sqlite:///:memory:")
    for number in range(50):
        cron.job(every="100s", name=f"job-{number}")(lambda: None)
    with hearing(cron) as cluster:
        joined(cluster, "web-1:1:a")
        assert requests(cluster, 35_000, 95_000) == {"Load": 23, "Scan": 31, "Swap": 8}
