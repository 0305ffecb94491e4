"""Effects in simulated histories: what the receivers' own ledgers say, and the table that the docs show of it."""

from collections import Counter

import pytest

from cronce.cli import main
from cronce.model import Fence
from cronce.testing.chaos import DURABLE
from cronce.testing.database import COMMIT, Connection, Error, ModelDatabase, ModelDriver, SimulatedDatabase
from cronce.testing.effects_table import by_way, table
from cronce.testing.receivers import EFFECT_COUNTS, EffectGuard, ReceivedEffect, ReceiverRefused, Receivers
from cronce.testing.simulate import play_seeds
from cronce.testing.world import Play, SimulatedProcess, World

LOW, HIGH = Fence(1, 1), Fence(1, 2)


# --- the ledgers ---


@pytest.fixture
def world() -> World:
    world = World(1, DURABLE)
    world.calm = True
    return world


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def receivers(world: World, told: list[str]) -> Receivers:
    receivers = Receivers(world, lambda promise, _facts: told.append(promise))
    receivers.orders = {LOW: 1, HIGH: 2}
    return receivers


def effect(way: EffectGuard, fence: Fence = LOW, key: str = "a@1/0", item: str = "a@1/0") -> ReceivedEffect:
    return ReceivedEffect(way, item, "a", key, fence)


def send(receivers: Receivers, *effects: ReceivedEffect) -> list[object]:
    answers: list[object] = []
    for one in effects:
        receivers.post(one).deliver(answers.append)
    return answers


def figures(receivers: Receivers, way: EffectGuard) -> tuple[int, ...]:
    counted = receivers.counted(Counter(), Counter())
    return tuple(counted[way, column] for column in EFFECT_COUNTS)


def test_one_that_knows_keys_does_each_once(receivers: Receivers, told: list[str]) -> None:
    assert send(receivers, effect(EffectGuard.KEY), effect(EffectGuard.KEY, HIGH)) == ["done", "done"]
    assert (figures(receivers, EffectGuard.KEY), told) == ((1, 0, 0, 0, 0), [])


def test_a_key_that_changes_is_a_repeat(receivers: Receivers, told: list[str]) -> None:
    send(receivers, effect(EffectGuard.KEY), effect(EffectGuard.KEY, HIGH, key="another"))
    assert (figures(receivers, EffectGuard.KEY), told) == ((2, 1, 0, 0, 0), ["an effect happens once"])


def test_what_a_person_wanted_again_is_no_repeat(receivers: Receivers, told: list[str]) -> None:
    assert receivers.look_up("a@1/0") == "retry"
    send(receivers, effect(EffectGuard.STEP), effect(EffectGuard.STEP, HIGH))
    assert receivers.look_up("a@1/0") == "done"
    assert (figures(receivers, EffectGuard.STEP), told) == ((2, 0, 0, 0, 0), [])


def test_one_that_knows_fences_refuses_a_lower_one(receivers: Receivers, told: list[str]) -> None:
    first, second = send(receivers, effect(EffectGuard.FENCE, HIGH), effect(EffectGuard.FENCE, LOW))
    assert (first, type(second)) == ("done", ReceiverRefused)
    assert (figures(receivers, EffectGuard.FENCE), told) == ((1, 0, 0, 0, 0), [])


def test_nothing_prevents_nothing(receivers: Receivers, told: list[str]) -> None:
    send(receivers, effect(EffectGuard.NOTHING, HIGH), effect(EffectGuard.NOTHING, LOW))
    assert (figures(receivers, EffectGuard.NOTHING), told) == ((2, 1, 0, 1, 0), [])


def test_what_succeeded_without_its_effect_is_noticed(receivers: Receivers, told: list[str]) -> None:
    send(receivers, effect(EffectGuard.KEY))
    receivers.check_whole(EffectGuard.KEY, ["a@1/0"])
    assert told == []
    receivers.check_whole(EffectGuard.KEY, ["a@1/0", "a@1/1"])
    assert told == ["what succeeded is done"]


# --- the user's database ---


class Clients:
    """Two processes at one database."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.happened: list[ReceivedEffect] = []
        self.server = SimulatedDatabase(world, self.happened.append)
        self.process = SimulatedProcess("m:1", world.machine("m"), world)
        self.database = ModelDatabase(self.server, self.process, self._no_peril)
        self.said: list[object] = []

    def _no_peril(self) -> Play[None]:
        yield from ()

    def driver(self) -> ModelDriver:
        return ModelDriver(self.database.connect())

    def say(self, *plays: Play[object]) -> list[object]:
        """What comes of each, one after the other."""
        start = len(self.said)
        for play in plays:
            self.world.start(self.process, self._noted(play))
            self.world.run(self.world.real + 60)
        return self.said[start:]

    def _noted(self, play: Play[object]) -> Play[None]:
        try:
            self.said.append((yield from play))
        except Exception as error:
            self.said.append(error)


@pytest.fixture
def clients(world: World) -> Clients:
    return Clients(world)


def held(driver: ModelDriver, fence: Fence) -> Play[object]:
    """The check of a commit that does not come."""
    assert isinstance(driver.conn, Connection)
    yield from driver.ask(driver.dialect.limits)
    return (yield from driver.ask(driver.dialect.higher, slot="a@1", fence=str(fence)))


def test_a_fence_is_raised_and_never_lowered(clients: Clients) -> None:
    raised, lowered = clients.say(clients.database.raise_fence("a@1", HIGH), clients.database.raise_fence("a@1", LOW))
    assert raised is False
    assert type(lowered).__name__ == "LeaseLost"


def test_whoever_wants_a_lock_waits_until_its_idle_owner_is_cut_off(clients: Clients) -> None:
    idle = clients.driver()
    clients.world.start(clients.process, clients._noted(held(idle, LOW)))
    clients.world.run(clients.world.real + 1)
    assert clients.say(clients.database.raise_fence("a@1", HIGH)) == [False]
    assert clients.world.faults["lock waited for"] == clients.world.faults["session cut off"] == 1
    (late,) = clients.say(idle.conn.say(COMMIT))
    assert isinstance(late, Error)
    assert clients.server.lines == {("a@1", ""): (str(HIGH), False)}


# --- histories ---


def test_a_seed_always_counts_the_same() -> None:
    assert play_seeds([7, 8]).effects == play_seeds([7, 8]).effects


@pytest.mark.slow
def test_the_command_prints_a_line_for_each_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "1", "--no-mutants", "--workers", "1"]) == 0
    _, _, lines = capsys.readouterr().out.partition("what happened to effects, by how they were guarded:\n")
    head, *rows = lines.splitlines()[: 1 + len(EffectGuard)]
    assert head.split("  ")[-1].strip() == "in doubt"
    assert [row.rpartition("  ")[2] for row in rows] == list(EffectGuard)


# --- the table ---


def test_the_table_is_drawn_from_a_run() -> None:
    effects = by_way(Counter({(EffectGuard.NOTHING, "repeats"): 1234}))
    text = table(effects, 5000)
    assert text.startswith("In 5,000 histories of `cronce torture simulate`:\n\n| an effect | by | made |")
    assert "| by nothing | a plain call | 0 | 1,234 | 0 | 0 | 0 |" in text
