"""Signs of life of schedulers that are not ours."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cronce import Cronce
from cronce.clock import SystemClock
from cronce.errors import BadInput, BadName
from cronce.model import Cell, Mark, Write, beat_cell
from cronce.protocol.notices import Beats, LastBeat, decode_beats, encode_notice
from cronce.runtime.background import BEATS_KEPT, SignOfLife, forget_beats, write_notes
from cronce.runtime.node import host_name
from cronce.stores import open_store
from cronce.stores.base import Store
from tests.runtime.shelf import START, HandClock, HandNode, Wire
from tests.runtime.test_observe import lose_a_reply

MINUTE = timedelta(minutes=1)


def cell_of(store: Store, name: str = "cron") -> Cell:
    (cell,) = store.load([beat_cell(name)]).cells
    return cell


def beats_of(store: Store, name: str = "cron") -> Beats:
    return decode_beats(cell_of(store, name).value)


def beat(node: HandNode, every: str = "1m") -> None:
    clock = node.store.clock
    node.do(write_notes(node.ledger.client, [SignOfLife("cron", every, clock.boot())], clock.boot))


def test_each_beat_is_on_record_with_its_time_and_lasts_two_intervals(
    clock: HandClock, store: Wire, node: HandNode
) -> None:
    for _ in range(3):
        beat(node, "2m")
        clock.turn(120)
    cell, known = cell_of(store), beats_of(store)
    assert (known.every, known.times) == (2 * MINUTE, 3)
    assert [one.at for one in known.recent] == [START + 2 * n * MINUTE for n in range(3)]
    assert (cell.mark, cell.until) == (Mark.OPEN, START + 8 * MINUTE)


def test_the_record_does_not_grow(clock: HandClock, store: Wire, node: HandNode) -> None:
    for _ in range(BEATS_KEPT + 5):
        beat(node)
        clock.turn(60)
    known = beats_of(store)
    assert (len(known.recent), known.times, known.recent[0].at) == (BEATS_KEPT, BEATS_KEPT + 5, START + 5 * MINUTE)


def test_a_beat_whose_reply_was_lost_is_counted_once(clock: HandClock, store: Wire, node: HandNode) -> None:
    def another() -> None:
        clock.turn(1)
        beat(node)

    lose_a_reply(store, another)
    beat(node)
    assert (beats_of(store).times, len(beats_of(store).recent)) == (2, 2)


def test_what_nobody_can_read_is_begun_anew(store: Wire, node: HandNode) -> None:
    store.swap([Write(beat_cell("cron"), 0, "{}", Mark.OPEN)], store.load([]).epoch.seen)
    beat(node)
    assert beats_of(store).times == 1


def test_who_is_taken_down_on_purpose_is_forgotten(store: Wire, node: HandNode) -> None:
    beat(node)
    carrier = node.ledger.client
    assert [node.do(forget_beats(carrier, "cron")) for _ in range(2)] == [True, False]
    assert cell_of(store).version == 0


def test_a_record_is_read_as_it_was_written() -> None:
    known = Beats(MINUTE, (LastBeat(START, "web-1:1"),), 7)
    assert decode_beats(encode_notice(known)) == known


# --- from Python ----------------------------------------------------------------------------------------------------


@pytest.fixture
def cron(tmp_path: Path) -> Iterator[Cronce]:
    with Cronce(f"sqlite:///{tmp_path}/cronce.db") as cron:
        yield cron


def test_a_heartbeat_from_python_is_on_record_when_it_returns(
    cron: Cronce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "cronce.runtime.background.SIGN_OF_LIFE_TIMEOUT", 60.0
    )  # on a busy machine a write may take a second
    for _ in range(2):
        cron.heartbeat("beat-1", every="5m")
    with closing(open_store(f"sqlite:///{tmp_path}/cronce.db")) as store:
        known = beats_of(store, "beat-1")
    assert (known.every, known.times) == (5 * MINUTE, 2)
    assert {one.by.split(":")[0] for one in known.recent} == {host_name()}


def test_a_store_that_is_away_takes_no_scheduler_down(caplog: pytest.LogCaptureFixture) -> None:
    began = SystemClock().boot()
    with Cronce("redis://127.0.0.1:1/0") as cron:
        for _ in range(5):
            cron.heartbeat("beat-1")
    assert SystemClock().boot() - began < 30
    (line,) = caplog.messages
    assert line.startswith(
        "observed calls and signs of life cannot be recorded: redis at 127.0.0.1:1 cannot be reached"
    )


@pytest.mark.parametrize(
    ("given", "error"), [(("a b",), BadName), (("beat", "0s"), BadInput), (("beat", "999ms"), BadInput)]
)
def test_what_makes_no_sense_is_refused(cron: Cronce, given: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        cron.heartbeat(*given)
