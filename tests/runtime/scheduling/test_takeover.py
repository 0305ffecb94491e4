"""How soon another scheduler takes over what one that is stopped, or dies, was at: to the millisecond."""

import pytest

from cronce import Cronce, Run
from cronce.model import Slot
from cronce.policy import OnLost
from cronce.protocol.record import Outcome, Record, decode
from cronce.runtime.keeper import LeaseEnd
from tests.runtime.scheduling.manual_cluster import START, Begun, ManualCluster, Process


class Hauling(ManualCluster):
    """A job that is run at second 60, and goes on until it is stopped."""

    def __init__(self, *, on_lost: OnLost = "rerun", notifies: bool = False) -> None:
        cron = Cronce("memory:")
        cron.job(at=START.replace(minute=1), name="haul", on_lost=on_lost, lease="30s")(self._haul)
        super().__init__(cron, notifies=notifies, holds_back=True)

    def _haul(self, run: Run) -> None:
        """The scheduler that runs it is stopped, and so is this."""
        (holder,) = [one for one in self.processes if one.engine.running]
        (attempt,) = holder.engine.running
        holder.keeper.end(attempt.lease, LeaseEnd("drained", "the scheduler was stopped"))
        while True:
            run.check()

    def both(self) -> tuple[Process, Process]:
        """Who runs it, and who does not; they look every 1.4 s, one from the beginning and one from 500 ms on."""
        self.join("web-1:1:0")
        self.turn_to(500)
        self.join("web-2:1:0")
        self.turn_to(60_100)
        (begun,) = self.begun
        assert (begun.at, begun.slot, begun.attempt) == (60_000, 60, 1)
        first, second = sorted(self.processes, key=lambda one: one.name != begun.process)
        self.begun.clear()
        return first, second

    def record(self) -> Record:
        (cell,) = self.store.load([Slot("haul", START.replace(minute=1)).cell]).cells
        return decode(cell.value, cell.key)


def ends(record: Record) -> list[str]:
    return [past.end for past in record.past]


def stop_now(process: Process) -> None:
    """As a second signal does."""
    process.engine.leaving = True
    process.end(process.held.pop())


@pytest.mark.parametrize(("stopped", "again"), [(70_100, 71_400), (71_300, 71_400), (71_500, 72_800)])
def test_what_a_stopped_scheduler_was_at_is_taken_over_at_the_next_look_of_another(stopped: int, again: int) -> None:
    """Long before its lease would have lapsed, at 90,000."""
    with Hauling() as cluster:
        first, second = cluster.both()
        cluster.turn_to(stopped)
        stop_now(first)
        cluster.turn_to(150_000)
        assert cluster.begun == [Begun(again, second.name, 60, 2, None)]
        assert ends(cluster.record()) == ["failed: stopped: the scheduler was stopped"]


@pytest.mark.parametrize("stopped", [70_100, 71_300, 71_500])
def test_where_the_store_tells_of_news_it_is_taken_over_at_once(stopped: int) -> None:
    """Who is second in the order for a slot leaves the first 60 ms."""
    with Hauling(notifies=True) as cluster:
        first, second = cluster.both()
        cluster.turn_to(stopped)
        stop_now(first)
        cluster.turn_to(150_000)
        assert cluster.begun == [Begun(stopped + 60, second.name, 60, 2, None)]


@pytest.mark.parametrize(("killed", "again"), [(60_100, 90_005), (70_000, 90_060), (89_999, 90_060)])
def test_what_a_killed_scheduler_was_at_is_taken_over_when_its_lease_has_lapsed(killed: int, again: int) -> None:
    """Nobody renews it. A look comes 5 ms after that. For 30 s after its last beat a dead one counts as alive: then it
    is first in the order, and is left 60 ms."""
    with Hauling() as cluster:
        first, second = cluster.both()
        cluster.turn_to(killed)
        cluster.kill(first)
        cluster.turn_to(150_000)
        assert cluster.begun[0] == Begun(again, second.name, 60, 2, None)
        assert ends(cluster.record())[0] == "lapsed"


def test_under_skip_what_a_killed_scheduler_was_at_is_lost_and_never_taken_over() -> None:
    with Hauling(on_lost="skip") as cluster:
        first, _ = cluster.both()
        cluster.turn_to(70_000)
        cluster.kill(first)
        cluster.turn_to(150_000)
        assert cluster.begun == []
        assert cluster.record().outcome is Outcome.LOST
