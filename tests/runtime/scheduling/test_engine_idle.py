"""A scheduler that hears of news looks seldom while nothing runs anywhere, and at once when something begins to."""

from collections import Counter
from unittest.mock import patch

import pytest

from cronce import Cronce
from cronce.model import BOARD_RUNS, Traits
from cronce.stores.base import Page, Scan
from cronce.stores.memory import MemoryStore
from tests.runtime.scheduling.manual_cluster import ManualCluster, Process
from tests.runtime.test_requests import counting

NOTIFIES = Traits("model, tells of news", notifies=True)


def hearing(cron: Cronce, *, holds_back: bool = False) -> ManualCluster:
    """A cluster on a store that tells of news."""
    cluster = ManualCluster(cron, notifies=True, holds_back=holds_back)
    cluster.store = MemoryStore(cluster.clock.wall, NOTIFIES)
    cluster._heard = cluster.store.news
    return cluster


def joined(cluster: ManualCluster, name: str) -> Process:
    process = cluster.join(name)
    process.engine.hears = True
    return process


def seldom() -> Cronce:
    cron = Cronce("sqlite:///:memory:")
    cron.job(every="100s", name="seldom", on_lost="rerun", lease="12s")(lambda: None)
    return cron


def requests(cluster: ManualCluster, start: int, end: int) -> Counter[str]:
    cluster.turn_to(start)
    with counting() as made:
        cluster.turn_to(end)
    return Counter(made)


def test_while_nothing_runs_it_looks_and_beats_once_in_ten_seconds() -> None:
    with hearing(seldom()) as cluster:
        joined(cluster, "web-1:1:a")
        made = requests(cluster, 20_000, 80_000)
        assert sum(made.values()) / 60 <= 0.5


def test_one_that_hears_nothing_goes_on_looking() -> None:
    with hearing(seldom()) as cluster:
        joined(cluster, "web-1:1:a").engine.hears = False
        made = requests(cluster, 20_000, 80_000)
        assert made["Load"] == 43  # once in 1.4 s


def test_what_begins_to_run_is_told_and_keeps_the_others_awake_until_it_is_over() -> None:
    with hearing(seldom(), holds_back=True) as cluster:
        first, second = joined(cluster, "web-1:1:a"), joined(cluster, "web-2:1:b")
        cluster.turn_to(99_000)
        before = cluster.store.load([BOARD_RUNS]).cells[0].version
        cluster.turn_to(101_000)
        assert cluster.store.load([BOARD_RUNS]).cells[0].version > before
        (run,) = cluster.begun
        dead, heir = (first, second) if first.held else (second, first)
        cluster.kill(dead)  # and its lease lapses 12 seconds after the slot
        cluster.turn_to(130_000)
        again = cluster.begun[1]
        assert (again.process, again.slot, again.attempt) == (heir.name, run.slot, 2)
        assert again.at - 112_000 <= 1_500


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
        assert process.engine._look_at <= cluster.clock.boot()


def test_it_rests_no_longer_than_the_shortest_lease_of_its_jobs() -> None:
    """A call that begins elsewhere tells nobody; if its process dies, it is taken over in time."""
    cron = Cronce("sqlite:///:memory:")
    cron.job(every="100s", name="short", on_lost="rerun", lease="3s")(lambda: None)
    with hearing(cron) as cluster:
        joined(cluster, "web-1:1:a")
        looks = requests(cluster, 20_000, 80_000)["Load"]
        assert looks == pytest.approx(60 / 3, abs=2)
