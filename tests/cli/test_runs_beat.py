"""beat, from the command line: the line of a crontab that is to be watched."""

import json
import os
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from cronce.cli import main
from cronce.clock import SystemClock
from cronce.model import Mark, beat_cell
from cronce.protocol.notices import decode_beats
from cronce.runtime.background import SignOfLife, write_notes
from cronce.runtime.node import Node, host_name
from cronce.stores import open_store


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/cronce.db"


def test_a_beat_says_nothing_and_is_on_record(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["beat", "web-1", "--every", "5m", "--store", url]) == 0
    assert capsys.readouterr() == ("", "")
    with closing(open_store(url)) as store:
        (cell,) = store.load([beat_cell("web-1")]).cells
    beats = decode_beats(cell.value)
    assert (beats.every, beats.times, cell.mark) == (timedelta(minutes=5), 2, Mark.OPEN)
    assert {one.by for one in beats.recent} == {f"{host_name()}:{os.getpid()}"}


def test_its_json_is_a_contract(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["beat", "web-1", "--json", "--store", url]) == 0
    told = {"beat": "web-1", "every": "1m", "by": f"{host_name()}:{os.getpid()}"}
    assert json.loads(capsys.readouterr().out) == told
    for known in (True, False):
        assert main(["beat", "web-1", "--remove", "--json", "--store", url]) == 0
        assert json.loads(capsys.readouterr().out) == {"removed": known}


def test_who_is_taken_down_on_purpose_is_not_expected_any_more(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["beat", "web-1", "--store", url])
    for words in ("heartbeats of web-1 are not expected any more\n", "no heartbeats of web-1 were expected\n"):
        assert main(["beat", "web-1", "--remove", "--store", url]) == 0
        assert capsys.readouterr().out == words


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["a b"], 2, "cannot be a name"),
        (["web-1", "--every", "0s"], 2, "every is the time between two signs of life: 1s or more"),
        (["web-1", "--every", "often"], 2, "'often' is not a duration"),
        (["web-1", "--remove", "--store", "sqlite:///nowhere/cronce.db"], 1, "nowhere does not exist"),
        (["web-1", "--store", "memory:"], 2, "exists only in this process"),
        (["web-1", "--store", "redis://127.0.0.1:1/0"], 75, "cannot be reached"),
    ],
)
def test_what_cannot_be_done_is_told(
    words: list[str], code: int, message: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["beat", *words, *([] if "--store" in words else ["--store", url])]) == code
    assert message in capsys.readouterr().err


# --- whoever watches ------------------------------------------------------------------------------------------------


def beaten(url: str, *seconds_ago: float) -> None:
    """By one scheduler or another, each minute."""
    clock = SystemClock()
    now = clock.boot()
    with closing(open_store(url)) as store:
        node = Node(store, clock, lambda: store, lambda _event: None)
        for ago in seconds_ago:
            note = SignOfLife("web-1", "1m", now - ago)
            node.do(write_notes(node.ledger.client, [note], clock.boot))


def watched(url: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    code = main(["watch", "--once", "--json", "--store", url])
    alerts = [one["id"] for one in json.loads(capsys.readouterr().out)["alerts"]]
    assert code == int(bool(alerts))
    return alerts


@pytest.mark.parametrize(
    ("seconds_ago", "findings"),
    [
        ((180, 120, 60, 0), []),  # one
        ((180.4, 119.6, 60.2, 0), []),  # one that is not on the dot
        ((120, 119.7, 60, 59.7, 0.2, 0), ["beat-double/web-1"]),  # two on the dot
        ((160, 150, 100, 90, 40, 30), ["beat-double/web-1"]),  # two that were started at different times
        ((80,), []),  # where the limit is, is told with the watch; here seconds may pass before it looks
        ((122,), ["beat-silent/web-1"]),
    ],
)
def test_whoever_watches_hears_of_silence_and_of_two(
    seconds_ago: tuple[float, ...], findings: list[str], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    beaten(url, *seconds_ago)
    assert watched(url, capsys) == findings


def test_who_was_silent_beats_again_or_is_not_expected_any_more(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for mended in ([], ["--remove"]):
        beaten(url, 200)
        assert watched(url, capsys) == ["beat-silent/web-1"]
        assert main(["beat", "web-1", *mended, "--store", url]) == 0
        capsys.readouterr()
        assert watched(url, capsys) == []
        main(["beat", "web-1", "--remove", "--store", url])
        capsys.readouterr()
