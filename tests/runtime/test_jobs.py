"""Purging: in two steps, in bounded pieces, by whoever ran a slot, about once an hour."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cronce.errors import BadRecord
from cronce.events import What
from cronce.model import BOARD_JOBS, Mark, Slot, Write, holder_cell, lock_cell
from cronce.protocol.record import Outcome, Record, State, encode
from cronce.protocol.retention import OUTCOMES, Keep, Limit, read_keep
from cronce.runtime.declare import declare
from cronce.runtime.jobs import tidy_later
from cronce.runtime.ledger import Grant
from cronce.stores.base import Page, Scan, Store
from tests.runtime.office import Office
from tests.runtime.shelf import START, HandClock, HandNode, Wire, beat, claim, granted

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
NONE = Keep(dict.fromkeys(OUTCOMES, Limit(newest=0)), least=timedelta(0))


def fill(node: HandNode, count: int) -> None:
    """So many runs that are over, a second apart, the newest an hour old."""
    node.do(node.ledger.finish(granted(node, Slot("billing", START - HOUR), overlap="allow"), Outcome.SUCCEEDED))
    value = encode(Record(State.CLOSED, outcome=Outcome.SUCCEEDED))
    slots = [Slot("billing", START - HOUR - number * SECOND) for number in range(1, count)]
    writes = [Write(slot.cell, 0, value, Mark.CLOSED, slot.at) for slot in slots]
    node.store.swap(writes, node.store.load([]).epoch.seen)


def left(store: Wire) -> int:
    return len(store.scan(Scan("run/", limit=10_000)).cells)


def test_a_long_history_goes_in_pieces_a_minute_after_it_was_announced(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    fill(node, 2500)
    keep = read_keep(100)
    assert node.do(node.ledger.jobs.purge("billing", keep)) == 0
    assert left(store) == 2500
    clock.turn(61)
    gone = [node.do(node.ledger.jobs.purge("billing", keep)) for _ in range(4)]
    assert gone == [1000, 1000, 400, 0]
    newest = store.scan(Scan("run/billing/", limit=10_000)).cells
    assert [cell.at for cell in newest] == [START - HOUR - number * SECOND for number in range(99, -1, -1)]
    assert [event.detail for event in node.events if event.what is What.PURGED] == ["1000", "1000", "400"]


def test_a_purged_slot_never_runs_again_and_a_kept_one_follows_its_record(
    node: HandNode, other: HandNode, clock: HandClock
) -> None:
    fill(node, 3)
    for wait in (0, 61):
        clock.turn(wait)
        node.do(node.ledger.jobs.purge("billing", read_keep(1)))
    answers = [claim(other, Slot("billing", START - HOUR - number * SECOND), overlap="allow") for number in range(4)]
    assert [str(getattr(answer, "outcome", None)) for answer in answers] == ["succeeded", *["too old"] * 3]


def test_two_that_purge_at_once_delete_each_run_once(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock
) -> None:
    fill(node, 10)
    for wait in (0, 61):
        clock.turn(wait)
        gone = [each.do(each.ledger.jobs.purge("billing", NONE)) for each in (node, other)]
    assert (sum(gone), left(store)) == (10, 0)


def test_what_dead_processes_and_forgotten_locks_left_is_swept(node: HandNode, store: Wire, clock: HandClock) -> None:
    lock = node.do(node.ledger.acquire(lock_cell("order-7")))
    assert isinstance(lock, Grant)
    node.do(node.ledger.release([lock]))
    beat(node, {})
    clock.turn(86_300)
    held = node.do(node.ledger.acquire(lock_cell("reindex")))
    assert isinstance(held, Grant)
    assert _swept(node, clock) == 0
    clock.turn(200)
    assert _swept(node, clock) == 2
    assert [cell.key for cell in store.scan(Scan("")).cells] == [BOARD_JOBS, lock_cell("reindex")]
    assert store.load([holder_cell("web-1")]).cells[0].version == 0


def test_nothing_is_swept_by_a_clock_that_was_not_watched(node: HandNode, other: HandNode, clock: HandClock) -> None:
    """By a store's clock that leapt ahead, a living lock looks a day old."""
    node.do(node.ledger.acquire(lock_cell("reindex")))
    clock.turn(2 * 86_400)
    other.do(other.ledger.overdue())
    assert other.do(other.ledger.jobs.sweep()) == 0


def _swept(node: HandNode, clock: HandClock) -> int:
    """A sweep by a process that watched the store's clock for a while."""
    for _ in range(40):
        clock.turn(1)
        node.do(node.ledger.overdue())
    return node.do(node.ledger.jobs.sweep())


def test_about_one_slot_an_hour_sees_to_what_is_kept() -> None:
    minutely, daily = declare("billing", "* * * * *"), declare("report", "0 0 * * *")
    day = datetime(2026, 3, 29, tzinfo=UTC)
    a_day = [Slot("billing", day + number * timedelta(minutes=1)) for number in range(1440)]
    assert sum(map(minutely.tidies, a_day)) == 20
    days = [Slot("report", day + number * DAY) for number in range(100)]
    assert sum(map(daily.tidies, days)) == 12
    assert all(map(declare("report", "0 0 * * *", keep=5).tidies, days))


def test_whoever_ran_a_slot_sees_to_what_is_kept(office: Office, clock: HandClock) -> None:
    """Each run announces what has become too much, and carries out what the one before announced."""
    daily = declare("billing", "0 12 * * *", keep=1)
    for _day in range(4):
        assert office.call(daily, lambda _run: "ran") == "ran"
        clock.turn(20)
        office.keeper.do_chores()
        clock.turn(86_380)
    assert [cell.at for cell in office.store.scan(Scan("run/")).cells] == [START + day * DAY for day in (2, 3)]


def test_a_job_that_always_fails_is_tidied_too(office: Office, clock: HandClock) -> None:
    daily = declare("billing", "0 12 * * *", keep=1)
    for _day in range(4):
        with pytest.raises(ZeroDivisionError):
            office.call(daily, lambda _run: 1 / 0)
        clock.turn(20)
        office.keeper.do_chores()
        clock.turn(86_380)
    assert [cell.at for cell in office.store.scan(Scan("run/")).cells] == [START + day * DAY for day in (2, 3)]


@pytest.mark.parametrize(
    ("policies", "span"),
    [({}, HOUR), ({"start_within": "6h"}, 6 * HOUR), ({"start_within": "1m"}, HOUR), ({"missed": "all"}, 7 * DAY)],
)
def test_no_run_goes_while_a_slot_before_it_may_still_start(policies: dict[str, Any], span: timedelta) -> None:
    assert declare("billing", "* * * * *", keep=0, **policies).still_open == span


def test_a_slot_that_may_still_start_is_not_closed_by_what_is_kept(office: Office, clock: HandClock) -> None:
    clock.turn(5 * 3600)
    often = declare("billing", "every 10m", keep=0, start_within="6h")
    for hours in (5, 2):
        assert office.call(often, lambda _run: "ran", when=START + (5 - hours) * HOUR) == "ran"
    office.hand.turn(20)
    office.keeper.do_chores()
    clock.turn(61)
    office.keeper.do_chores()
    assert office.call(often, lambda _run: "ran", when=START + 2 * HOUR) == "ran"


def test_a_chore_that_fails_or_takes_long_keeps_nobody_from_renewing(office: Office, clock: HandClock) -> None:
    done: list[str] = []

    def broken(_store: Store) -> None:
        raise BadRecord("written by a newer cronce")

    office.keeper.later("broken", broken)
    office.keeper.later("next", lambda _store: done.append("next"))
    clock.turn(6)
    assert (office.keeper.renew(), done) == (None, [])
    assert (office.keeper.do_chores(), done) == (None, ["next"])


def test_of_many_jobs_that_are_tidied_at_once_one_sweeps(office: Office) -> None:
    """Each swept for itself: ten thousand jobs of a minute, 167 times in one."""
    for name in ("billing", "report", "sync"):
        job = declare(name, every="1h", keep=5)
        tidy_later(office.keeper, job, job.slot_at(office.hand.wall()))
    assert sorted(office.keeper._chores) == ["sweep", "tidy billing", "tidy report", "tidy sync"]


def test_where_there_are_no_effects_one_of_many_jobs_that_are_tidied_finds_that_out(
    office: Office, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each asked for its own: of ten thousand jobs of a minute, 167 in one."""
    asked, scan = list[str](), office.store.scan

    def heard(one: Scan) -> Page:
        asked.append(one.prefix)
        return scan(one)

    monkeypatch.setattr(office.store, "scan", heard)

    def tidied() -> list[str]:
        asked.clear()
        for name in ("billing", "report", "sync"):
            job = declare(name, every="1h", keep=5)
            tidy_later(office.keeper, job, job.slot_at(office.hand.wall()))
        office.keeper.do_chores(at_once=True)
        return [prefix for prefix in asked if prefix.startswith("effect/")]

    assert tidied() == ["effect/"]
    assert tidied() == []
    effect = Write("effect/report/2026-03-29T01:00:00Z/charge", 0, "", Mark.CLOSED, START)
    office.store.swap([effect], office.store.load([]).epoch.seen)
    clock.turn(61)
    assert tidied()[:4] == ["effect/", "effect/billing/", "effect/", "effect/report/"]
