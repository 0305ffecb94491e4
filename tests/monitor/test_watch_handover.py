"""Whoever leads next knows nothing of what only watching shows: what stands is not over because of that."""

from datetime import timedelta

import pytest

from cronce.model import Epoch
from cronce.monitor.alerts import AlertKind, Alerts, key_of
from cronce.monitor.settings import Settings
from cronce.monitor.survey import Survey, WatcherState, WatchMemory, survey
from cronce.monitor.watch import is_over, judge
from cronce.protocol.notices import Alert, decode_alert
from cronce.protocol.record import Outcome
from cronce.runtime.flow import drive
from cronce.runtime.ledger import Grant
from tests.monitor.shelf import HOUR, MINUTE, SECOND, Town, every
from tests.runtime.shelf import START

WEB = "web-1:1:a"
JOB = every("10m")


class Leader:
    """A process that leads from now on."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.known, self.memory = WatcherState(), WatchMemory()
        self.alerts = Alerts(town.node().ledger.client)

    def look(self, times: int = 1) -> None:
        town = self.town
        for _ in range(times):
            seen = drive(survey(self.known, town.store.traits), town.store, town.clock)
            anew = self.memory.first is None
            found, self.memory = judge(seen, self.memory, town.settings)
            memory = self.memory
            over = lambda alert: is_over(alert, seen, memory, town.settings)  # noqa: B023, E731
            town.node().do(self.alerts.settle(found, over, anew=anew))


def stands(town: Town, kind: AlertKind, subject: str = "billing") -> bool:
    cell = town.store.load([key_of(kind, subject)]).cells[0]
    return bool(cell.version) and decode_alert(cell.value, cell.key).cleared is None


@pytest.fixture
def town() -> Town:
    town = Town()
    town.beat(WEB, JOB)
    return town


def to(town: Town, minutes: float, *leaders: Leader) -> None:
    end = START + minutes * MINUTE
    while town.now < end:
        town.pass_time(min(20 * SECOND, end - town.now))
        town.beat(WEB, since=START)
        for leader in leaders:
            leader.look()


def test_what_was_missed_within_the_hour_stands_until_the_next_has_watched_for_one(town: Town) -> None:
    first = Leader(town)
    to(town, 12, first)
    assert stands(town, AlertKind.MISSED)
    to(town, 20)
    town.run(JOB, START + 20 * MINUTE)
    first.look(3)
    assert stands(town, AlertKind.MISSED)
    second = Leader(town)
    for minute in range(30, 90, 10):
        to(town, minute, second)
        town.run(JOB, START + minute * MINUTE)
        assert stands(town, AlertKind.MISSED)
        second.look()
    to(town, 81, second)
    assert not stands(town, AlertKind.MISSED)


def test_a_run_that_stands_still_does_so_for_the_next_too(town: Town) -> None:
    first = Leader(town)
    to(town, 10)
    grant = town.run(JOB, START + 10 * MINUTE, None, lease=5 * MINUTE)
    (renewed,) = town.node().do(town.node().ledger.renew([grant], progress={grant.fence: (3, 10)}))
    assert isinstance(renewed, Grant)
    to(town, 26, first)
    assert stands(town, AlertKind.NO_PROGRESS)
    second = Leader(town)
    to(town, 40, second)
    assert stands(town, AlertKind.NO_PROGRESS)
    third = Leader(town)
    third.look(3)
    town.node().do(town.node().ledger.finish(renewed, Outcome.SUCCEEDED))
    third.look(2)
    assert not stands(town, AlertKind.NO_PROGRESS)  # it ended: there is nothing to watch for


def test_a_failure_that_only_the_last_leader_saw_stands_until_a_run_ends(town: Town) -> None:
    first = Leader(town)
    to(town, 10, first)
    town.run(JOB, START + 10 * MINUTE, Outcome.FAILED)
    first.look()
    assert stands(town, AlertKind.FAILED)
    town.store.purge(town.store.load([f"run/billing/{START + 10 * MINUTE:%Y-%m-%dT%H:%M:%SZ}"]).cells)
    second = Leader(town)
    second.look(3)
    assert stands(town, AlertKind.FAILED)
    to(town, 20, second)
    town.run(JOB, START + 20 * MINUTE)
    second.look(2)
    assert not stands(town, AlertKind.FAILED)


@pytest.mark.parametrize(
    "kind", [AlertKind.MISSED, AlertKind.LAPSING, AlertKind.AMNESIA, AlertKind.LATE, AlertKind.GONE]
)
def test_who_has_watched_for_long_enough_knows(town: Town, kind: AlertKind) -> None:
    seen = town.survey()
    rests = kind not in (AlertKind.LATE, AlertKind.GONE)
    alert = Alert(kind, "billing", "critical", "", START)
    for watched, known in ((HOUR - SECOND, not rests), (HOUR, True)):
        memory = WatchMemory(first=seen.now - watched)
        assert is_over(alert, seen, memory, Settings()) == known


def test_a_paused_job_has_missed_nothing_whoever_looks(town: Town) -> None:
    alert, fresh = Alert(AlertKind.MISSED, "billing", "critical", "", START), WatchMemory(first=START)
    assert not is_over(alert, town.survey(), fresh, Settings())
    town.node().do(town.hand.pause("billing"))
    assert is_over(alert, town.survey(), fresh, Settings())
    assert is_over(alert, Survey(START + timedelta(1), Epoch()), fresh, Settings())
