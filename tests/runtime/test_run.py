"""What a job function is told of its run."""

from datetime import timedelta

from cronce.model import Slot
from cronce.protocol.record import PAST_KEPT, Outcome
from cronce.protocol.terms import Terms
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.run import times_begun
from tests.runtime.office import Office
from tests.runtime.shelf import START, HandClock

TERMS = Terms(timedelta(seconds=30), "rerun", "allow", attempts=100, outside=True)


def granted(office: Office) -> Grant:
    (grant,) = office.node.do(office.node.ledger.claim([Wanted(Slot("billing", START), TERMS, known=True)]))
    assert isinstance(grant, Grant)
    return grant


def given_back(office: Office, times: int) -> None:
    for _ in range(times):
        office.node.do(office.node.ledger.release([granted(office)]))


def failed(office: Office, times: int) -> None:
    for _ in range(times):
        office.node.do(office.node.ledger.finish(granted(office), Outcome.FAILED))


def test_grants_under_which_nothing_ran_are_no_attempts_however_many_there_are(
    office: Office,
) -> None:
    """Of a slot that was given back thirty times, the first attempt was told as the eleventh: of its past only the
    last twenty grants are kept."""
    given_back(office, PAST_KEPT + 10)
    assert times_begun(granted(office).record) == 1


def test_attempts_are_counted_among_grants_that_were_given_back(office: Office, clock: HandClock) -> None:
    failed(office, 2)
    given_back(office, PAST_KEPT + 10)
    failed(office, 1)
    given_back(office, PAST_KEPT)
    clock.turn(1)
    last = granted(office)
    assert times_begun(last.record) == 4
    clock.turn(1)
    office.node.do(office.node.ledger.finish(last, Outcome.SUCCEEDED))
    assert times_begun(office.record(Slot("billing", START))) == 4
