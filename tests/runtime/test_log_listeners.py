"""Facts are told to whoever wants to hear them, and nobody who hears badly stands in the way."""

from pathlib import Path

import pytest

from cronce import Cronce, Skipped
from cronce.events import Event, What

SLOT = "2026-03-01T00:00:00Z"


@pytest.fixture
def cron(tmp_path: Path) -> Cronce:
    return Cronce(f"sqlite:///{tmp_path}/cronce.db")


def of_bodies(heard: list[Event]) -> list[tuple[What, str, str]]:
    return [(one.what, one.key, one.detail) for one in heard if one.what in (What.STARTED, What.ENDED)]


def test_a_body_that_starts_and_ends_is_told_of_with_its_fence_and_how_long_it_took(cron: Cronce) -> None:
    heard: list[Event] = []
    cron.on_event(heard.append)

    @cron.job("0 0 1 3 *", name="good", start_within="3650d")
    def good() -> str:
        return "done"

    with cron:
        assert good.at(SLOT)() == "done"
    key = f"run/good/{SLOT}"
    assert of_bodies(heard) == [(What.STARTED, key, "attempt 1"), (What.ENDED, key, "succeeded")]
    started, ended = (one for one in heard if one.what in (What.STARTED, What.ENDED))
    assert started.fence == ended.fence is not None
    assert started.seconds is not None
    assert ended.seconds is not None
    assert started.seconds > 86_400 > ended.seconds > 0


def test_what_a_failed_body_and_a_refused_call_are_told_as(cron: Cronce) -> None:
    heard: list[Event] = []
    cron.on_event(heard.append)

    @cron.job("0 0 1 3 *", name="bad", start_within="3650d")
    def bad() -> None:
        raise ValueError("no")

    with cron:
        with pytest.raises(ValueError, match="no"):
            bad.at(SLOT)()
        assert isinstance(bad.at(SLOT)(), Skipped)
    key = f"run/bad/{SLOT}"
    assert of_bodies(heard) == [(What.STARTED, key, "attempt 1"), (What.ENDED, key, "failed")]
    assert [one.key for one in heard if one.what is What.REFUSED] == [key]


def test_who_cannot_take_it_in_keeps_nothing_from_running(cron: Cronce, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Event] = []

    def deaf(_event: Event) -> None:
        raise RuntimeError("deaf")

    cron.on_event(deaf)
    cron.on_event(heard.append)
    good = cron.job("0 0 1 3 *", name="good", start_within="3650d")(lambda: "done")
    with cron:
        assert good.at(SLOT)() == "done"
    assert [one.what for one in heard if one.what in (What.STARTED, What.ENDED)] == [What.STARTED, What.ENDED]
    assert f"failed on event: run/good/{SLOT} started" in caplog.text
