"""Steps of before, which are on record for a slot, become effects on things: by clocks that are turned by hand."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from cronce.errors import BadInput, InDoubt
from cronce.runtime.effects.adopt import Adoption, adopt, adoptable
from cronce.runtime.effects.review import resolve_effect
from cronce.runtime.operations import Operator
from cronce.runtime.run import Run
from tests.runtime.office import Office, dies, job, watch
from tests.runtime.shelf import HandClock, Wire

QUARTER = 15 * 60


def before(done: list[str], *invoices: int, fails: int = 0) -> Callable[[Run], None]:
    """As it was written before: the key belongs to the slot."""

    def charge(invoice: int, key: str) -> str:
        done.append(key)
        if invoice == fails:
            raise TimeoutError
        return f"paid {invoice}"

    def body(run: Run) -> None:
        for invoice in invoices:
            key = f"charge:{invoice}"
            with suppress(InDoubt):
                run.once(key, charge, invoice, run.key_of(key, per="slot"), per="slot")

    return body


def now(done: list[str], invoice: int, **how: Any) -> Callable[[Run], Any]:
    """As it is written now."""

    def body(run: Run) -> Any:
        thing = run.on("invoice", invoice)

        def charge() -> str:
            done.append(thing.key_of("charge"))
            return "paid now"

        return thing.once("charge", charge, **how)

    return body


def found(office: Office) -> list[Adoption]:
    return office.node.do(adoptable("billing", "charge:*", "invoice", "charge"))


def adopted(office: Office) -> None:
    office.node.do(adopt(Operator(office.node.ledger, "ann"), found(office)))


def test_what_is_done_stays_done_and_what_is_in_doubt_stays_so_with_the_key_that_was_sent(
    office: Office, clock: HandClock
) -> None:
    done: list[str] = []
    office.call_failing(job(), before(done, 1, 2, fails=2))
    clock.turn(QUARTER)
    assert [(one.target.name, one.step.state, one.step.name, one.hindrance) for one in found(office)] == [
        ("charge/invoice:1", "done", "billing@2026-03-29T12:00:00Z/charge:1", ""),
        ("charge/invoice:2", "in doubt", "billing@2026-03-29T12:00:00Z/charge:2", ""),
    ]
    assert [key for key in office.store._cells if key.startswith("once/")] == []  # that was a look
    adopted(office)
    assert office.call(job(), now(done, 1)) == "paid 1"
    with pytest.raises(InDoubt, match="adopted from billing@2026-03-29T12:00:00Z/charge:2: TimeoutError"):
        office.call(job("dunning"), now(done, 2))
    clock.turn(QUARTER)
    assert office.call(job(), now(done, 2, unsure="retry")) == "paid now"
    assert done == [f"billing@2026-03-29T12:00:00Z/charge:{invoice}" for invoice in (1, 2, 2)]


def test_the_key_stays_after_a_persons_retry_and_outside_of_the_step(office: Office, clock: HandClock) -> None:
    done: list[str] = []
    office.call_failing(job(), before(done, 2, fails=2))
    adopted(office)
    office.node.do(resolve_effect(Operator(office.node.ledger, "ann"), "charge/invoice:2", "retry"))
    clock.turn(QUARTER)
    key = "billing@2026-03-29T12:00:00Z/charge:2"
    assert office.call(job("dunning"), lambda run: run.on("invoice", 2).key_of("charge")) == key
    office.call(job(), now(done, 2))
    assert done == [key, key]


def test_twice_is_once_and_the_doubt_of_the_step_is_closed(office: Office) -> None:
    office.call_failing(job(), before([], 1, 2, fails=2))
    adopted(office)
    assert [one.hindrance for one in found(office)] == ["known already", "known already"]
    again = list(office.store._cells.items())
    adopted(office)
    assert list(office.store._cells.items()) == again
    assert [one.step.state for one in found(office)] == ["done", "done"]


def test_what_was_done_by_two_slots_is_adopted_once_and_both_are_named(office: Office, clock: HandClock) -> None:
    for _ in range(2):
        office.call(job(), before([], 1))
        clock.turn(QUARTER)
    (one,) = found(office)
    assert (one.step.name, one.times_done) == ("billing@2026-03-29T12:00:00Z/charge:1", 2)
    assert [step.name for step in one.steps] == [f"billing@2026-03-29T12:{when}:00Z/charge:1" for when in ("00", "15")]
    adopted(office)
    assert office.call(job(), now([], 1)) == "paid 1"


def test_what_is_in_progress_is_left_alone_and_what_its_run_left_is_in_doubt(store: Wire, clock: HandClock) -> None:
    dead, other = Office(store), Office(store)
    other.call(job("other"), lambda _run: None)
    seen: list[str] = []

    def charge() -> None:
        seen.append(found(other)[0].hindrance)
        dies(dead)

    with suppress(Exception):
        dead.call(job(lease="10s"), lambda run: run.once("charge:1", charge, per="slot"))
    assert seen == ["billing@2026-03-29T12:00:00Z/charge:1 is in progress"]
    watch(other, 12)
    clock.turn(QUARTER)
    adopted(other)
    with pytest.raises(InDoubt):
        other.call(job("dunning"), now([], 1))


def test_what_surely_did_not_happen_is_nothing_to_adopt(office: Office) -> None:
    def refused() -> None:
        raise ConnectionRefusedError

    with suppress(ConnectionRefusedError):
        office.call(job(), lambda run: run.once("charge:1", refused, per="slot", not_done=ConnectionRefusedError))
    assert found(office) == []


@pytest.mark.parametrize("pattern", ["charge:7", "*:*", ""])
def test_a_pattern_without_one_place_for_the_id_is_refused(office: Office, pattern: str) -> None:
    with pytest.raises(BadInput, match="must have one"):
        office.node.do(adoptable("billing", pattern, "invoice", "charge"))
