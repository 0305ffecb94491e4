"""The harness of a torture: when the first slot is due, and what is no verdict."""

from pathlib import Path

import pytest

from cronce.cli import main
from cronce.torture.harness import Torture, TortureSettings, registered
from tests.house.wait import wait_until

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("start", "seconds"), [(0.4, 4), (2.0, 4), (3.3, 7), (9.0, 18), (40.0, 30)])
def test_where_processes_start_slowly_the_first_slot_is_later(start: float, seconds: int) -> None:
    """It once was four seconds later in any case. On a busy machine schedulers had not registered their jobs by then,
    and the slots before that were counted as missed."""
    assert registered(start) == seconds


def test_a_process_that_is_refused_what_it_shall_do_is_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was told with the exit code of a promise that was broken."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("cronce.torture.harness.GUARDS", "tests.torture.refused_worker")
    assert main(["torture", "--store", f"sqlite:///{tmp_path}/cronce.db", "--seconds", "5", "--processes", "2"]) == 2
    assert " was refused: no runs on Sundays\n" in capsys.readouterr().err


def test_what_a_process_said_before_it_was_killed_is_not_said_by_the_next_of_its_name(tmp_path: Path) -> None:
    """The next was asked to end before it could hear that, died of the signal, and the torture with it."""
    settings = TortureSettings(f"sqlite:///{tmp_path}/cronce.db", processes=1, scheduler=True)
    with Torture(settings, tmp_path) as torture:
        torture._start("w1")
        wait_until(lambda: "ready" in (tmp_path / "calls").read_text() if (tmp_path / "calls").exists() else False)
        torture._crew.kill("w1")
        torture._start("w1")
        torture._look()
        assert not torture._is_ready("w1")
