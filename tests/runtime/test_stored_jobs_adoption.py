"""When schedulers take on a change of a stored job, and which version of it runs meanwhile: to the millisecond."""

from typing import Any
from unittest.mock import patch

import pytest

from cronce import Cronce
from cronce.model import bundle_cells, holder_cell
from cronce.protocol.notices import decode_bundle, decode_holder
from cronce.runtime.stored_jobs import parsed, spelled
from cronce.stores.base import Page, Scan
from tests.runtime.scheduling.manual_cluster import ManualCluster

FUNCTION = "platform:node"  # one that needs no arguments


def version(revision: int, **words: Any) -> str:
    """The digest of that version of the job `mail`."""
    definition = parsed("mail", spelled("mail", {"function": FUNCTION, **words}))
    return definition.job._replace(revision=revision).spec[0]


class Watched(ManualCluster):
    """Notes which version of the job each scheduler says that it carries, and when it began to."""

    def __init__(self, **how: Any) -> None:
        super().__init__(Cronce("memory:"), **how)
        self._said: dict[str, str | None] = {}
        self.changes: list[tuple[int, str, str | None]] = []

    def go(self, now: int) -> list[tuple[int, str, str | None]]:
        """What changed up to this millisecond."""
        self.changes.clear()
        self.turn_to(now, self._see)
        return self.changes

    def _see(self) -> None:
        for process in self.processes:
            (cell,) = self.store.load([holder_cell(process.name)]).cells
            if not cell.version:
                continue
            bundle = self.store.scan(Scan(bundle_cells(decode_holder(cell.value).bundle))).cells
            found = [digest for part in bundle if (digest := decode_bundle(part.value).specs.get("mail"))]
            said = found[0] if found else None
            if said != self._said.get(process.name):
                self._said[process.name] = said
                self.changes.append((self.now, process.name, said))


def three(cluster: Watched) -> None:
    """Two allow the job and one does not. They look every 1.4 s, each from when it came."""
    cluster.join("web-1:1:0", ["platform:*"])
    cluster.turn_to(500)
    cluster.join("web-2:1:0", [FUNCTION, "command:true"])
    cluster.turn_to(900)
    cluster.join("web-3:1:0", ["evil:*"])


def test_a_change_reaches_every_scheduler_that_allows_it_when_it_looks_next() -> None:
    with Watched() as cluster:
        three(cluster)
        assert cluster.go(10_000) == []
        cluster.cron.add("mail", every="1h", function=FUNCTION)
        first = version(1, every="1h")
        assert cluster.go(20_000) == [(10_300, "web-2:1:0", first), (11_200, "web-1:1:0", first)]
        cluster.cron.edit("mail", every="2h")
        second = version(2, every="2h")
        assert cluster.go(30_000) == [(20_100, "web-2:1:0", second), (21_000, "web-1:1:0", second)]
        cluster.cron.remove("mail")
        assert cluster.go(40_000) == [(30_800, "web-1:1:0", None), (31_300, "web-2:1:0", None)]
        cluster.cron.add("mail", every="1h", function=FUNCTION)
        fourth = version(4, every="1h")
        assert cluster.go(50_000) == [(40_600, "web-1:1:0", fourth), (41_100, "web-2:1:0", fourth)]


@pytest.mark.parametrize("after", [1, 700, 1399])
def test_a_change_right_after_a_look_is_seen_by_the_next_one_1400_ms_later(after: int) -> None:
    """So that a change is there within two seconds, whenever it is made."""
    with Watched() as cluster:
        cluster.join("web-1:1:0", ["platform:*"])
        cluster.go(14_000 + after)
        cluster.cron.add("mail", every="1h", function=FUNCTION)
        assert cluster.go(20_000) == [(15_400, "web-1:1:0", version(1, every="1h"))]


def test_where_the_store_tells_of_news_a_change_is_there_at_once() -> None:
    with Watched(notifies=True) as cluster:
        three(cluster)
        cluster.go(10_000)
        cluster.cron.add("mail", every="1h", function=FUNCTION)
        first = version(1, every="1h")
        assert sorted(cluster.go(20_000)) == [(10_000, "web-1:1:0", first), (10_000, "web-2:1:0", first)]


# --- which version runs meanwhile -----------------------------------------------------------------------------------


def ticking(cluster: ManualCluster, until: int) -> None:
    """Two schedulers, one of which looks at 0 ms, 1400 ms, …, the other at 500 ms, 1900 ms, …; a job each second."""
    cluster.join("web-1:1:0", ["platform:*"])
    cluster.turn_to(500)
    cluster.join("web-2:1:0", ["platform:*"])
    cluster.cron.add("mail", every="1s", function=FUNCTION, payload=1)
    cluster.turn_to(until)
    cluster.begun.clear()


def ran(cluster: ManualCluster) -> list[tuple[int, Any]]:
    """Which slots, each in its very millisecond, and by which version."""
    assert [begun.at for begun in cluster.begun] == [1000 * begun.slot for begun in cluster.begun]
    return [(begun.slot, begun.payload) for begun in cluster.begun]


def test_until_the_first_scheduler_looks_the_old_version_runs_and_from_then_on_the_new() -> None:
    with ManualCluster(Cronce("memory:")) as cluster:
        ticking(cluster, 24_950)
        cluster.cron.edit("mail", payload=2)  # seen at 25,200 and at 25,700
        cluster.turn_to(27_500)
        assert ran(cluster) == [(25, 1), (26, 2), (27, 2)]


@pytest.mark.parametrize(("first", "payload"), [("web-1:1:0", 1), ("web-2:1:0", 2)])
def test_between_two_looks_a_slot_runs_once_by_the_version_of_whoever_claims_it_first(first: str, payload: int) -> None:
    with ManualCluster(Cronce("memory:")) as cluster:
        ticking(cluster, 24_250)
        cluster.processes.sort(key=lambda one: one.name != first)  # both claim the slot 25 at its instant
        cluster.cron.edit("mail", payload=2)  # web-2 sees it at 24,300 and web-1 at 25,200
        cluster.turn_to(27_500)
        assert ran(cluster) == [(25, payload), (26, 2), (27, 2)]
        assert cluster.begun[0].process == first


def test_a_removed_job_runs_until_the_last_scheduler_has_looked_and_never_after() -> None:
    with ManualCluster(Cronce("memory:")) as cluster:
        ticking(cluster, 30_050)
        cluster.cron.remove("mail")  # web-1 sees it at 30,800 and web-2 at 31,300
        cluster.turn_to(60_000)
        assert ran(cluster) == [(31, 1)]
        assert cluster.begun[0].process == "web-2:1:0"


def test_where_the_store_tells_of_news_no_slot_after_an_edit_runs_the_old_version() -> None:
    with ManualCluster(Cronce("memory:"), notifies=True) as cluster:
        ticking(cluster, 22_999)
        cluster.cron.edit("mail", payload=2)
        cluster.turn_to(24_999)
        cluster.cron.remove("mail")
        cluster.turn_to(60_000)
        assert ran(cluster) == [(23, 2), (24, 2)]


def test_a_job_that_is_added_while_a_scheduler_starts_is_taken_on_at_its_next_look() -> None:
    """It was added right after the scheduler had read what there is, and was not seen until the next change."""
    with ManualCluster(Cronce("memory:")) as cluster:
        scan, added = cluster.store.scan, list[bool]()

        def scan_and_add(asked: Scan) -> Page:
            page = scan(asked)
            if asked.prefix == "stored/" and not added:
                added.append(cluster.cron.add("mail", every="1s", function=FUNCTION))
            return page

        with patch.object(cluster.store, "scan", scan_and_add):
            cluster.join("web-1:1:a", allow=[FUNCTION])
        cluster.turn_to(5_000)
        assert added == [True]
        assert [begun.slot for begun in cluster.begun] == [1, 2, 3, 4, 5]
