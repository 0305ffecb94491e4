"""An outage is told once, however often it is noticed, and by however many."""

import pytest

from cronce.events import What
from cronce.runtime.log import log
from cronce.runtime.node import Outage
from tests.runtime.office import Office, job
from tests.runtime.shelf import HandClock, Wire
from tests.runtime.test_keeper import held

TOLD = (What.SILENT, What.ANSWERS)


def told(office: Office) -> list[tuple[What, str]]:
    return [(event.what, event.detail) for event in office.events if event.what in TOLD]


SILENT = (What.SILENT, "the call was lost; runs of this process continue while their leases can be trusted")


def test_renewals_that_fail_are_one_outage(office: Office, store: Wire, clock: HandClock) -> None:
    held(office)
    store.lose = lambda _call: "before"
    for _ in range(3):
        clock.turn(8)
        office.keeper.renew()
    assert told(office) == [SILENT]
    store.lose = lambda _call: ""
    clock.turn(5)
    office.keeper.renew()
    assert told(office) == [SILENT, (What.ANSWERS, "after 21s")]


def test_the_next_outage_is_told_again(office: Office, store: Wire, clock: HandClock) -> None:
    held(office)
    for _ in range(2):
        store.lose = lambda _call: "before"
        clock.turn(8)
        office.keeper.renew()
        store.lose = lambda _call: ""
        clock.turn(6)
        office.keeper.renew()
    assert told(office) == [SILENT, (What.ANSWERS, "after 6s")] * 2


def test_an_end_that_cannot_be_recorded_is_an_outage_too(office: Office, store: Wire) -> None:
    left = [20]

    def lose(_call: str) -> str:
        left[0] -= 1
        return "before" if left[0] > 0 else ""

    def body(_run: object) -> None:
        store.lose = lose

    office.call(job(lease="5m"), body)
    assert [what for what, _ in told(office)] == [What.SILENT, What.ANSWERS]


def test_a_reply_that_was_lost_and_read_back_is_no_outage(office: Office, store: Wire, clock: HandClock) -> None:
    held(office)
    store.lose_next("swap", "after")
    clock.turn(8)
    office.keeper.renew()
    assert told(office) == []


def test_a_grant_ends_an_outage_in_which_all_others_were_lost(office: Office, store: Wire, clock: HandClock) -> None:
    held(office)
    store.lose = lambda _call: "before"
    clock.turn(8)
    office.keeper.renew()
    clock.turn(20)
    office.keeper.watch()
    store.lose = lambda _call: ""
    held(office, "other")
    assert told(office) == [SILENT, (What.ANSWERS, "after 20s")]


def test_a_call_that_fails_late_is_of_an_outage_that_is_over(office: Office, clock: HandClock) -> None:
    outage = Outage(office.node)
    began = clock.boot()
    clock.turn(5)
    outage.answered()
    outage.unanswered(began, "no answer")
    assert told(office) == []
    clock.turn(1)
    outage.unanswered(clock.boot(), "no answer")
    assert [what for what, _ in told(office)] == [What.SILENT]


def test_it_is_said_so_that_a_person_sees_it(
    office: Office, store: Wire, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    office.node.ledger.client.report = log
    held(office)
    store.lose = lambda _call: "before"
    clock.turn(8)
    office.keeper.renew()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"the store does not answer: {SILENT[1]}"),
    ]  # fmt: skip
