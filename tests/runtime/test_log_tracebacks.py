"""Where a job function failed is on record, masked and cut, without cronce's own frames."""

import logging
from pathlib import Path
from typing import NoReturn

import pytest

import cronce
from cronce import Cronce
from cronce.errors import BadInput
from cronce.model import Slot
from cronce.protocol.record import Outcome
from cronce.runtime.log import job_traceback
from cronce.runtime.processes.output import TAIL
from cronce.runtime.run import Run
from cronce.schedule import parse_duration
from tests.runtime.office import Office, job
from tests.runtime.scheduling.manual_cluster import ManualCluster
from tests.runtime.shelf import START, HandClock

SLOT = Slot("billing", START)
OWN = str(Path(cronce.__file__).parent)


def charge(invoice: int) -> NoReturn:
    raise ValueError(f"invoice {invoice} at postgresql://ada:geheim@db/shop")


def fails(run: Run) -> None:
    run.progress(1, 2)
    charge(7)


def raised(call: object) -> BaseException:
    with pytest.raises(BaseException) as told:  # noqa: PT011
        call()  # type: ignore[operator]
    return told.value


def test_a_failure_is_on_record_with_where_it_happened(office: Office) -> None:
    with pytest.raises(ValueError, match="invoice 7"):
        office.call(job(), fails)
    record = office.record(SLOT)
    assert record.outcome is Outcome.FAILED
    lines = record.output.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert [line.split(", in ")[1] for line in lines if line.startswith("  File ")] == ["fails", "charge"]
    assert lines[-1] == "ValueError: invoice 7 at postgresql://ada:***@db/shop"
    assert OWN not in record.output


def test_frames_of_cronce_between_those_of_the_job_are_left_out_too(office: Office) -> None:
    def body(run: Run) -> None:
        run.once("charge", charge, 7, per="slot")

    with pytest.raises(Exception, match="invoice 7"):
        office.call(job(), body)
    assert OWN not in office.record(SLOT).output
    assert office.record(SLOT).output.count("  File ") >= 2


def test_what_was_stopped_says_where_it_was(office: Office, clock: HandClock) -> None:
    def body(run: Run) -> None:
        clock.turn(100)
        run.check()

    with pytest.raises(Exception, match="lost its lease"):
        office.call(job(lease="30s"), body)
    assert ", in body" in office.record(SLOT).output


def test_a_long_traceback_is_cut_at_its_beginning() -> None:
    text = job_traceback(raised(lambda: charge(10**3000)))
    assert len(text) == TAIL
    assert text.startswith("…\n")
    assert text.endswith("@db/shop\n")


def test_causes_and_groups_have_none_of_our_frames() -> None:
    def chained() -> None:
        try:
            parse_duration("5 bananas")
        except BadInput as error:
            raise RuntimeError("no bananas") from error

    def group() -> None:
        raise BaseExceptionGroup("both", [raised(lambda: parse_duration("x")), raised(chained)])

    for call in (chained, group):
        text = job_traceback(raised(call))
        assert "no bananas" in text
        assert OWN not in text


def test_what_is_all_ours_says_no_more_than_its_reason() -> None:
    error = BadInput("it makes no sense")
    assert job_traceback(error) == ""


def test_an_exception_that_cannot_say_what_it_is_is_no_trouble() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    def odd() -> None:
        raise Odd

    assert job_traceback(raised(odd)).endswith("Odd: <exception str() failed>\n")


def test_where_no_output_is_kept_no_traceback_is(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONCE_OUTPUT", "none")
    with pytest.raises(ValueError, match="invoice 7"):
        office.call(job(), fails)
    assert office.record(SLOT).output == ""


def test_the_log_of_a_scheduler_begins_with_the_job_function(caplog: pytest.LogCaptureFixture) -> None:
    """Fourteen frames of cronce stood before it."""
    cron = Cronce("memory:")
    cron.job(every="1m", name="billing")(lambda: charge(7))
    with ManualCluster(cron) as cluster:
        cluster.join("web-1:1:0")
        cluster.turn_to(61_000)
    (line,) = [line for line in caplog.records if line.levelno == logging.ERROR]
    text = line.exc_text or ""  # it had a secret in it
    assert [row.split(", in ")[1] for row in text.splitlines() if row.startswith("  File ")] == ["<lambda>", "charge"]
