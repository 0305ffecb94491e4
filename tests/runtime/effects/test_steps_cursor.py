"""How far a job has come: under the fence, on clocks that are turned by hand."""

from typing import Any

import pytest

from cronce.errors import BadInput, LeaseLost
from cronce.runtime.run import Run
from tests.runtime.office import Office, job
from tests.runtime.shelf import HandClock, Wire

RERUN = {"on_lost": "rerun", "lease": "10s"}


def test_the_next_slot_goes_on_where_the_last_one_stopped(office: Office, clock: HandClock) -> None:
    seen: list[Any] = []

    def body(run: Run) -> None:
        seen.append(run.cursor.get(0))
        run.cursor.set(seen[-1] + 10)
        seen.append(run.cursor.get())

    for _ in range(3):
        office.call(job(), body)
        clock.turn(15 * 60)
    assert seen == [0, 10, 10, 20, 20, 30]


def test_it_is_the_jobs_own(office: Office) -> None:
    office.call(job("a"), lambda run: run.cursor.set({"id": 7}))
    assert office.call(job("b"), lambda run: run.cursor.get("none")) == "none"


def test_a_run_that_was_taken_over_does_not_set_it_back(store: Wire) -> None:
    paused, other = Office(store), Office(store)
    other.call(job("other"), lambda _run: None)

    def body(run: Run) -> None:
        for _ in range(12):
            other.hand.turn(1)
            other.desk.do(other.desk.ledger.overdue())
        other.call(job(**RERUN), lambda later: later.cursor.set(100), when=run.slot)
        lease = run._lease
        lease.check = lambda: None  # type: ignore[method-assign]  # it was paused right after it had asked
        run.cursor.set(50)

    with pytest.raises(LeaseLost, match="was taken over, and does not move the cursor"):
        paused.call(job(**RERUN), body)
    other.hand.turn(15 * 60)
    assert other.call(job(**RERUN), lambda run: run.cursor.get()) == 100


def test_a_run_that_lapsed_does_not_move_it_even_if_nobody_took_over(office: Office) -> None:
    def body(run: Run) -> None:
        office.hand.turn(11)
        run._lease.check = lambda: None  # type: ignore[method-assign]
        run.cursor.set(50)

    with pytest.raises(LeaseLost):
        office.call(job(**RERUN), body)
    (cell,) = office.store.load(["cursor/billing"]).cells
    assert cell.version == 0


def test_a_write_that_comes_after_the_lease_does_not_move_it(office: Office) -> None:
    """By the store's clock, whatever the run thinks."""

    def body(run: Run) -> None:
        def late(name: str) -> str:
            if name == "swap":
                office.store.lose = lambda _name: ""
                office.hand.turn(11)
            return ""

        office.store.lose = late
        run.cursor.set(50)

    with pytest.raises(LeaseLost, match="does not move the cursor"):
        office.call(job(**RERUN), body)
    (cell,) = office.store.load(["cursor/billing"]).cells
    assert cell.version == 0


@pytest.mark.parametrize("fate", ["before", "after"])
@pytest.mark.parametrize("call", ["load", "swap"])
def test_a_lost_call_is_made_again(office: Office, call: str, fate: str) -> None:
    def body(run: Run) -> Any:
        if call == "swap":
            office.store.lose_next(call, fate, times=2)
        run.cursor.set(7)
        return run.cursor.get()

    assert office.call(job(), body) == 7


@pytest.mark.parametrize("position", [object(), float("inf"), "x" * 70_000], ids=["object", "inf", "long"])
def test_what_json_cannot_say_is_refused(office: Office, position: Any) -> None:
    with pytest.raises(BadInput, match="a cursor is"):
        office.call(job(), lambda run: run.cursor.set(position))


@pytest.mark.parametrize("policies", [{"overlap": "allow"}, {"turns": 2}])
def test_runs_that_go_on_at_the_same_time_have_no_common_cursor(office: Office, policies: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="would set one cursor against each other"):
        office.call(job(**policies), lambda run: run.cursor.get())
