"""Ends wait for starts, but not for long."""

from types import SimpleNamespace
from typing import Any

from cronce.runtime.attempt import End
from cronce.runtime.scheduling.exchange import PUT_OFF, SAID_AT_ONCE, SAID_BESIDE, Endings, Said
from tests.runtime.office import Office


def said(number: int) -> Said:
    attempt: Any = SimpleNamespace(job=SimpleNamespace(name=f"job-{number}"))
    return Said(attempt, End(None))


def test_while_others_start_some_ends_are_said_and_all_when_they_have_waited(office: Office) -> None:
    endings = Endings(office.keeper)
    endings.take(10.0, ["sync"])
    endings.keep(map(said, range(200)))
    assert len(endings.take(10.01, ["sync"])) == SAID_BESIDE
    assert len(endings.take(10.02, [])) == 150


def test_what_waited_is_said_however_many_there_are(office: Office) -> None:
    """After the first five hundred the others waited once more: 0.6 s until all of ten thousand were on record."""
    endings = Endings(office.keeper)
    endings.take(10.0, ["sync"])
    endings.keep(map(said, range(SAID_AT_ONCE * 2 + 100)))
    waited = 10.0 + PUT_OFF
    assert [len(endings.take(waited, ["sync"])) for _ in range(4)] == [SAID_AT_ONCE, SAID_AT_ONCE, 100, 0]
    endings.keep(map(said, range(200)))
    assert len(endings.take(waited + PUT_OFF / 2, ["sync"])) == SAID_BESIDE


def test_the_end_of_an_earlier_slot_is_said_before_its_job_is_tried_again(office: Office) -> None:
    endings = Endings(office.keeper)
    endings.take(10.0, ["sync"])
    endings.keep(map(said, range(200)))
    now = endings.take(10.01, ["job-150"])
    assert [one.attempt.job.name for one in now] == [*(f"job-{number}" for number in range(SAID_BESIDE)), "job-150"]


def test_so_it_is_after_an_outage_when_thousands_have_ended(office: Office) -> None:
    """Behind the first five hundred it was not said, and its next slot was skipped because it "still ran"."""
    endings = Endings(office.keeper)
    endings.keep(map(said, range(SAID_AT_ONCE + 300)))
    now = endings.take(10.0, ["job-750"])
    assert [one.attempt.job.name for one in now][SAID_AT_ONCE - 1 :] == [f"job-{SAID_AT_ONCE - 1}", "job-750"]
