"""What is done is undone: to a store's file, and to schedulers."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cronce.errors import CronceError
from cronce.testing.child_processes import ChildProcesses
from cronce.torture.fault_actions import ENDS_WITHIN, FaultTools, SchedulerOrders
from cronce.torture.faults import Faults
from cronce.torture.plan import Fault, Kind
from tests.runtime.shelf import HandClock


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE t (x)")
    return path


def is_free(file: Path) -> bool:
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        return True


def test_a_file_is_locked_by_one_fault_at_a_time_and_free_when_it_ends(file: Path, clock: HandClock) -> None:
    """A second lock that fell due during the first once took its place, and the first was never let go."""
    crew = ChildProcesses("cronce.torture.worker", file.with_name)  # a lock needs nobody
    faults = Faults(["w1"], FaultTools(crew, {}, lambda _name: None, {}, str(file)), clock)
    faults.begin([Fault("lock", 0.0, 2.0), Fault("lock", 1.0, 2.0)], clock.boot())
    free = []
    for _ in range(7):
        faults.look([])
        free.append(is_free(file))
        clock.turn(1)
    assert free[0] is False
    assert free[-1] is True
    assert [deed.kind for deed in faults.deeds] == ["lock"]


class Players(ChildProcesses):
    """Writes down what is done to whom; whoever is asked to end has ended when `ends` says so."""

    def __init__(self, *names: str) -> None:
        super().__init__("nobody", Path)
        self.done: list[str] = []
        self.alive = {*names}
        self.ends = True
        self.drained: list[str] = []
        self.busy = False

    @property
    def names(self) -> list[str]:
        return sorted(self.alive)

    def start(self, name: str, *_arguments: str) -> None:
        self.done.append(f"start {name}")
        self.alive.add(name)

    def kill(self, name: str) -> None:
        self.done.append(f"kill {name}")
        self.alive.remove(name)

    def ask_to_end(self, name: str) -> None:
        self.done.append(f"end {name}")

    def has_ended(self, name: str) -> bool:
        if self.ends:
            self.alive.discard(name)
        return self.ends

    def stop(self, name: str) -> None:
        self.done.append(f"stop {name}")

    def go_on(self, name: str) -> None:
        self.done.append(f"go on {name}")

    def release(self, name: str, kind: Kind) -> None:
        self.done.append(f"{kind} {name}")

    def drain(self, colour: str) -> bool:
        self.done.append(f"drain {colour}")
        return True

    def undrain(self, colour: str) -> bool:
        self.done += [] if self.busy else [f"undrain {colour}"]
        return not self.busy


@pytest.fixture
def players() -> Players:
    return Players("w1", "w2")


def faults_of(players: Players, clock: HandClock, *faults: Fault, file: str | None = None) -> Faults:
    orders = SchedulerOrders(players.drain, players.undrain, players.release, players.alive.__contains__)
    made = Faults(["w1", "w2"], FaultTools(players, {}, players.start, {}, file, orders), clock)
    made.begin(faults, clock.boot())
    return made


def looked(faults: Faults, clock: HandClock, times: int) -> None:
    for _ in range(times):
        faults.look([])
        clock.turn(1)


def test_a_deploy_ends_one_after_the_other_and_the_next_waits_until_it_is_back(
    players: Players, clock: HandClock
) -> None:
    faults = faults_of(players, clock, Fault("deploy", 0.0))
    looked(faults, clock, 1)
    players.ends = False
    looked(faults, clock, 3)
    assert players.done == ["deploy w1", "end w1"]
    players.ends = True
    looked(faults, clock, 3)
    assert players.done[2:] == ["start w1", "deploy w2", "end w2", "start w2"]
    assert ([deed.kind for deed in faults.deeds], faults.left) == (["deploy", "deploy"], False)


def test_who_does_not_end_though_asked_is_found_out(players: Players, clock: HandClock) -> None:
    players.ends = False
    faults = faults_of(players, clock, Fault("deploy", 0.0))
    with pytest.raises(CronceError, match="w1 was asked to end 20 s ago, and still runs"):
        looked(faults, clock, int(ENDS_WITHIN) + 2)


def test_a_colour_is_drained_until_the_store_could_be_told_otherwise(players: Players, clock: HandClock) -> None:
    faults = faults_of(players, clock, Fault("drain", 0.0, 1.0, 0.9), Fault("drain", 1.0, 1.0, 0.1))
    players.busy = True
    looked(faults, clock, 4)
    assert players.done == ["drain green"]  # and no other at the same time
    players.busy = False
    looked(faults, clock, 1)
    assert (players.done[1:], faults.left) == (["undrain green"], False)


def test_all_are_killed_and_come_back_also_those_that_were_dead_or_leaving(players: Players, clock: HandClock) -> None:
    players.ends = False
    faults = faults_of(players, clock, Fault("kill", 0.0, 9.0), Fault("roll", 0.0, 0.0), Fault("blackout", 4.0, 2.0))
    looked(faults, clock, 8)
    assert players.done == ["kill w1", "end w2", "kill w2", "start w1", "start w2"]
    assert [deed.kind for deed in faults.deeds] == ["kill", "roll", "blackout"]


def test_nobody_waits_for_a_file_that_who_is_stopped_may_have_locked(players: Players, clock: HandClock) -> None:
    """Only whoever waits could end that: everything stood still until the store gave up."""
    drain, pause = Fault("drain", 0.0, 3.0), Fault("pause", 0.0, 4.0)
    looked(faults_of(players, clock, drain, pause, file="store.db"), clock, 9)
    assert players.done == ["drain blue", "stop w1", "go on w1", "undrain blue"]
