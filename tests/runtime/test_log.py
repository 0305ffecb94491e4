"""Events as people read them in a log."""

import pytest

from cronce import Cronce
from cronce.events import Event, What
from cronce.runtime.log import log
from cronce.stores.memory import MemoryStore
from tests.runtime.shelf import START


@pytest.mark.parametrize(
    ("what", "cell", "detail", "line"),
    [
        (What.REGISTERED, "job/tick", "be5b0c1d", "tick registered"),
        (What.EDITED, "job/tick", "be5b0c1d", "tick edited"),
        (
            What.RETRYING,
            "run/flaky/2026-03-29T12:00:00Z#a:rerun-1",
            "failed",
            "flaky@2026-03-29T12:00:00Z#a:rerun-1 retrying: failed",
        ),
        (
            What.MISSED,
            "job/tick",
            "8 slots up to 2026-03-29T12:00:00Z: superseded",
            "tick missed: 8 slots up to 2026-03-29T12:00:00Z fell due while no scheduler ran",
        ),
        (What.DRAINED, "holder/web-1:1:a", "by ada", "web-1:1:a claims no more: by ada"),
        (What.DEPOSED, "leader/indexer", "its lease passed", "leader indexer deposed: its lease passed"),
        (What.FORGOT, "meta", "found", "the store forgot: found"),
        (What.SILENT, "the store", "no route", "the store does not answer: no route"),
    ],
)
def test_a_line_names_things_as_people_write_them(
    what: What, cell: str, detail: str, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "cronce")
    event = Event(what, cell, "web-1:1:a", START, detail=detail)
    log(event)
    assert caplog.messages == [line]
    assert caplog.records[0].event is event  # type: ignore[attr-defined]


def test_who_lost_a_claim_is_quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "cronce")
    log(Event(What.REFUSED, "run/tick/2026-03-29T12:00:00Z", "web-1:1:a", START, detail="held by web-2"))
    assert caplog.messages == []


def test_who_meets_an_empty_store_that_can_forget_is_told_why_nothing_runs(caplog: pytest.LogCaptureFixture) -> None:
    said = {}
    for on_purpose in (True, False):
        caplog.clear()
        with Cronce(store=MemoryStore(on_purpose=on_purpose)) as cron:
            cron.job("@yearly", name="tick")(lambda: None)()
        said[on_purpose] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said[True] == []
    (told,) = said[False]
    assert told.startswith("the store may have forgotten: it was found empty at ")
    assert told.endswith("A new store does not wait if `cronce store init` makes it")
