"""An app that is started several times at once, and counted."""

from pathlib import Path

import pytest

from cronce.errors import BadInput, CronceError
from cronce.testing.rehearsal import Rehearsal, rehearse

APP = """
from cronce import Cronce
cron = Cronce("memory:")

@cron.job(every="1s")
def tick():
    pass

@cron.job(every="1s", overlap="allow")
async def tock():
    pass
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "rehearsed.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    return "rehearsed:cron"


@pytest.mark.slow
def test_an_app_that_is_started_three_times_runs_each_slot_once(app: str) -> None:
    told = rehearse(app, processes=3, seconds=2.2)
    told.check()
    assert set(told.runs.values()) == {1}
    assert {key.partition("@")[0] for key in told.runs} == {"tick", "tock"}
    assert (told.extra, told.missed) == ([], [])


@pytest.mark.slow
def test_an_app_without_a_shared_store_is_caught(app: str) -> None:
    """Each process has a store of its own: every slot runs twice."""
    told = rehearse(app, processes=2, seconds=2.2, url="memory:")
    assert max(told.runs.values()) == 2  # one, of the first and the last second
    with pytest.raises(AssertionError, match=r"ran more than once: .*tick@"):
        told.check()


def test_nothing_that_ran_is_no_success() -> None:
    with pytest.raises(AssertionError, match="nothing ran"):
        Rehearsal({}, {}, [], []).check()  # type: ignore[arg-type]


def test_what_is_no_app_says_so(app: str) -> None:
    with pytest.raises(CronceError, match="rehearsed has no 'corn'; there is rehearsed:cron"):
        rehearse("rehearsed:corn")
    with pytest.raises(BadInput, match="more than zero"):
        rehearse(app, processes=0)
