"""What the page says of a scheduler that was killed, at which millisecond after its last beat."""

from collections.abc import Iterator

import pytest

from cronce import Cronce
from cronce.model import holder_cell
from cronce.runtime.process_notes import looked_on
from cronce.web.app import application
from tests.runtime.scheduling.manual_cluster import ManualCluster
from tests.web.house import Browser

WEB_1 = "web-1:1:0"


class Watched(ManualCluster):
    """One scheduler with a job, and a page of its store."""

    def __init__(self) -> None:
        cron = Cronce("memory:")
        cron.job(every="1h", name="report")(lambda: None)
        super().__init__(cron)
        self.beats: list[int] = []
        self._version = 0
        self._looks = self.node("page:1:0")
        self._page = Browser(application(Cronce(store=self.store), private=False))

    def go(self, now: int) -> None:
        """Let time pass up to this millisecond, and note the beats."""
        self.turn_to(now, self._see)

    def looked_on(self, now: int) -> None:
        """The same, while somebody has the page open, which says so every five seconds."""
        for said in range(self.now, now, 5000):
            self.go(said)
            self._looks.do(looked_on(self._looks.ledger, says=True))
        self.go(now)

    def _see(self) -> None:
        (cell,) = self.store.load([holder_cell(WEB_1)]).cells
        if cell.version != self._version:
            self._version = cell.version
            self.beats.append(self.now)

    def shown(self, now: int) -> tuple[str, bool]:
        """The state on the page of schedulers, and whether the first page says that it stopped beating."""
        self.clock.turn_to(now / 1000)
        row = self._page.get("/holders").text.partition(f'data-holder="{WEB_1}"')[2]
        told = self._page.get("/").text
        silent = "Scheduler web-1:1 stopped sending heartbeats" in told or "Host web-1 is gone" in told
        return row.partition('data-state="')[2].partition('"')[0], silent


@pytest.fixture
def cluster() -> Iterator[Watched]:
    with Watched() as cluster:
        cluster.join(WEB_1)
        cluster.go(10_000)
        cluster.beats.clear()
        yield cluster


def test_a_scheduler_beats_every_second_from_its_next_look_on_while_a_page_is_open(cluster: Watched) -> None:
    cluster.looked_on(15_000)
    assert cluster.beats == [11_200, 12_200, 13_200, 14_200]


@pytest.mark.parametrize("killed", [14_201, 14_700, 15_199])
def test_a_killed_scheduler_is_late_on_the_page_two_seconds_after_its_last_beat(cluster: Watched, killed: int) -> None:
    """A page that is open asks for itself each second."""
    cluster.looked_on(killed)
    assert cluster.beats[-1] == 14_200
    cluster.kill(cluster.processes[0])
    assert [cluster.shown(now) for now in (killed, 16_200, 16_201, 44_200, 44_201)] == [
        *(("alive", False), ("alive", False), ("late", True)),
        *(("late", True), ("dead", True)),
    ]


def test_where_nobody_looked_on_it_is_late_after_twenty_seconds(cluster: Watched) -> None:
    cluster.go(20_500)
    assert cluster.beats == [20_000]
    cluster.kill(cluster.processes[0])
    assert [cluster.shown(now) for now in (40_000, 40_001, 49_999, 50_000)] == [
        *(("alive", False), ("late", True), ("late", True), ("dead", True)),
    ]
