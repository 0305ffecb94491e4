"""What people do by hand: each act is on record, may be repeated, and gives the same result when two do it at once."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import pytest

from cronce import Cronce, Run
from cronce.clock import SystemClock
from cronce.errors import BadInput, BadRecord, CronceError, StoreUnavailable
from cronce.model import ABSENT, BOARD_RUNS, SWITCH, Instant, Mark, Slot, Write, asked_cell, job_cell
from cronce.protocol.codec import json_text
from cronce.protocol.commands import Asked, Closed, Held, Paused, Queue, Queued
from cronce.protocol.notices import Holder
from cronce.protocol.record import (
    Act,
    Job,
    Outcome,
    Record,
    SpanRecord,
    Spec,
    State,
    decode,
    decode_act,
    decode_job,
    encode,
)
from cronce.protocol.retention import OUTCOMES, Keep, Limit
from cronce.runtime.flow import Flow, Timed, perform
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.node import Node as RealDesk
from cronce.runtime.operations import (
    LapsedUnwatched,
    Operator,
    RequestedRun,
    StandingOrder,
    ask_to_backfill,
    backfill,
    backfill_stretch,
    drain_cell,
    who,
)
from cronce.runtime.queries import halted_and_carried, holders
from cronce.runtime.scheduling.roster import Roster, digest_of
from cronce.runtime.scheduling.scheduler import Scheduler
from cronce.schedule import parse_schedule, spec_of
from cronce.stores import open_store
from cronce.stores.base import Scan
from tests.house.wait import wait_until
from tests.runtime.shelf import SLOT, START, HandClock, HandNode, Wire, claim, granted, terms
from tests.stores.places import name_of
from tests.stores.test_mysql_contract import database

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
NONE = Keep(dict.fromkeys(OUTCOMES, Limit(newest=0)), least=timedelta(0))


def hand(node: HandNode, by: str = "ada") -> Operator:
    return Operator(node.ledger, by)


def declare(
    node: HandNode, name: str = "billing", schedule: str = "* * * * *", floor: Instant = START - SECOND
) -> None:
    text = json.dumps({"schedule": spec_of(parse_schedule(schedule))})
    job = Job(floor, specs=(Spec("v1", START, text),), firing="v1")
    node.do(node.ledger.jobs.edit(name, lambda _job, _now: job))


def job(store: Wire, name: str = "billing") -> Job:
    return decode_job(store.load([job_cell(name)]).cells[0].value)


def record(store: Wire, slot: Slot) -> Record:
    return decode(store.load([slot.cell]).cells[0].value)


def act(store: Wire, cell: str) -> Act | None:
    return decode_act(store.load([cell]).cells[0].value)


def runs(store: Wire) -> dict[str, Record]:
    return {cell.key.removeprefix("run/"): decode(cell.value) for cell in store.scan(Scan("run/")).cells}


def later(minutes: int, request: str = "") -> Slot:
    return Slot("billing", START + minutes * MINUTE, request)


def close(node: HandNode, slot: Slot = SLOT, outcome: Outcome = Outcome.SUCCEEDED, reason: str = "") -> None:
    node.do(node.ledger.finish(granted(node, slot, overlap="allow"), outcome, reason))


def interleaved(store: Wire, both: Sequence[Flow[Any]], turns: frozenset[int]) -> tuple[Any, Any]:
    """Both flows to their ends, a call at a time: at these turns it is the first one's, else the second's."""
    results: dict[int, Any] = {}
    asked = {number: next(flow) for number, flow in enumerate(both)}
    turn = 0
    while asked:
        number = 0 if turn in turns else 1
        number = number if number in asked else 1 - number
        turn += 1
        clock = store.clock
        reply = Timed(perform(store, asked[number]), clock.boot(), clock.boot())
        try:
            asked[number] = both[number].send(reply)
        except StopIteration as stop:
            results[number] = stop.value
            del asked[number]
    return results[0], results[1]


def orders(calls: int) -> Iterator[frozenset[int]]:
    """All ways in which two who each make so many calls can come in between each other."""
    return map(frozenset, combinations(range(2 * calls), calls))


# --- pausing ---


def test_a_pause_is_on_record_with_who_when_and_why_and_the_first_stands(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    declare(node)
    clock.turn(5)
    first = Act("ada", START + 5 * SECOND, "moving")
    assert node.do(hand(node).pause("billing", "moving")) == StandingOrder(first, new=True)
    clock.turn(5)
    assert node.do(hand(node, "bob").pause("billing")) == StandingOrder(first, new=False)
    assert job(store).paused == first
    assert claim(node) == Paused()


def test_what_fell_due_while_paused_does_not_run_and_both_names_are_on_record(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    declare(node)
    node.do(hand(node).pause("billing", "moving"))
    clock.turn(90)
    assert node.do(hand(node, "bob").resume("billing")) == Act("ada", START, "moving")
    why = "paused by ada at 2026-03-29T12:00:00Z (moving), resumed by bob"
    assert job(store).spans == (SpanRecord(START - SECOND, START + 90 * SECOND, None, why),)
    assert [claim(node, later(minutes)) for minutes in (0, 1)] == [
        Closed(Outcome.TOO_OLD, "slots up to 2026-03-29T12:01:30Z are closed if they have no record")
    ] * 2
    assert node.do(hand(node, "bob").resume("billing")) is None
    clock.turn(30)
    assert granted(node, later(2)).number == 1


def test_a_job_that_nobody_knows_is_told_from_the_one_that_was_meant(node: HandNode) -> None:
    declare(node)
    for flow in (hand(node).pause("biling"), hand(node).resume("biling"), hand(node).trigger("biling")):
        with pytest.raises(CronceError, match="no job is called 'biling'; did you mean 'billing'"):
            node.do(flow)


def test_a_job_that_is_declared_here_may_be_meant_before_the_store_knows_it(node: HandNode) -> None:
    declared = Operator(node.ledger, "ada", ["mail"])
    assert node.do(declared.trigger("mail", request="first")) == RequestedRun(Slot("mail", START, "first"), new=True)
    assert node.do(Operator(node.ledger, "ada").pause("mail")).new is True


# --- everything ---


def test_the_kill_switch_stops_every_job_that_is_known_and_every_other(
    node: HandNode, other: HandNode, store: Wire
) -> None:
    declare(node)
    stands = StandingOrder(Act("ada", START, "fire"), new=True)
    assert node.do(hand(node).pause_all("fire")) == stands
    assert node.do(hand(node, "bob").pause_all()) == stands._replace(new=False)
    assert [claim(other), claim(other, Slot("unheard-of", START))] == [Paused(), Paused()]
    assert runs(store) == {}


def test_when_everything_is_resumed_nothing_fires_that_fell_due_and_what_was_paused_alone_stays_so(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock
) -> None:
    declare(node)
    declare(node, "mail")
    alone = node.do(hand(node).pause("mail")).act
    node.do(hand(node).pause_all())
    clock.turn(90)
    assert other.do(hand(other, "bob").resume_all()) == Act("ada", START)
    assert act(store, SWITCH) is None
    why = "paused by ada at 2026-03-29T12:00:00Z, resumed by bob"
    span = SpanRecord(START - SECOND, START + 90 * SECOND, None, why)
    assert [(job(store, name).spans, job(store, name).paused) for name in ("billing", "mail")] == [
        ((span,), None),
        ((span,), alone),
    ]
    assert isinstance(claim(HandNode(store, "web-3"), later(1)), Closed)
    clock.turn(30)
    assert granted(HandNode(store, "web-4"), later(2)).number == 1
    assert other.do(hand(other).resume_all()) is None


def test_the_floors_of_thousands_rise_before_the_switch_goes_back(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    names = [f"job-{number}" for number in range(1001)]
    node.do(node.ledger.jobs.edit_all(dict.fromkeys(names, lambda _job, now: Job(now))))
    node.do(hand(node).pause_all())
    clock.turn(60)
    store.lose = lambda call: "before" if call == "swap" and store.calls.count("swap") >= 5 else ""
    with pytest.raises(StoreUnavailable):
        node.do(hand(node).resume_all())
    store.lose = lambda _call: ""
    assert {job(store, name).floor for name in names} == {START + 60 * SECOND}
    assert act(store, SWITCH) == Act("ada", START)
    clock.turn(1)
    assert node.do(hand(node).resume_all()) == Act("ada", START)
    assert {len(job(store, name).spans) for name in names} == {1}


@pytest.mark.parametrize("cell", [SWITCH, drain_cell("web-1")])
def test_whoever_should_know_of_an_order_is_woken(node: HandNode, store: Wire, cell: str) -> None:
    for _ in range(2):
        board = store.load([BOARD_RUNS]).cells[0].version
        node.do(hand(node).drain(cell))
        given = store.load([BOARD_RUNS]).cells[0].version
        assert given > board
        node.do(hand(node).undrain(cell))
        assert store.load([BOARD_RUNS]).cells[0].version > given


# --- draining ---


def test_an_order_to_drain_stands_until_it_is_lifted(node: HandNode, store: Wire) -> None:
    blue = drain_cell(label="colour=blue")
    assert blue == "drain/label:colour=blue"
    first = StandingOrder(Act("ada", START, "green"), new=True)
    assert node.do(hand(node).drain(blue, "green")) == first
    assert node.do(hand(node, "bob").drain(blue)) == first._replace(new=False)
    assert act(store, blue) == first.act
    assert node.do(hand(node, "bob").undrain(blue)) == first.act
    assert node.do(hand(node, "bob").undrain(blue)) is None
    assert act(store, blue) is None


@pytest.mark.parametrize(
    "whom", [{}, {"holder": "a", "label": "b=c"}, {"holder": "a b"}, {"label": "blue"}, {"label": "=blue"}]
)
def test_whom_to_drain_has_to_be_said(whom: dict[str, str]) -> None:
    with pytest.raises(BadInput):
        drain_cell(**whom)


def test_a_label_without_a_value_is_shown_how_it_is_written() -> None:
    with pytest.raises(BadInput, match=r"a label must be NAME=VALUE, such as colour=blue, not 'colour'"):
        drain_cell(label="colour")


def scheduler(node: HandNode, role: str = "both", **labels: str) -> None:
    """A live scheduler that carries billing."""
    specs = {"billing": ("v1", "")}
    me = Holder(node.ledger.client.holder, digest_of(specs), role, 4, labels, START, "1.0")
    node.do(Roster(node.ledger.client, node.ledger.jobs).beat(me, specs, 0.0))


def test_who_lives_who_is_drained_and_what_would_be_run(node: HandNode, store: Wire, clock: HandClock) -> None:
    for name, role, colour in (("a", "both", "blue"), ("b", "work", "green"), ("c", "schedule", "green")):
        scheduler(HandNode(store, name), role, colour=colour)
    assert node.do(halted_and_carried())[1] == {"billing"}
    drained = node.do(hand(node).drain(drain_cell(label="colour=blue"))).act
    _, live = node.do(holders())
    assert [(one.holder.holder, one.drained, one.claims) for one in live] == [
        ("a", drained, False),
        ("b", None, True),
        ("c", None, True),
    ]
    assert node.do(halted_and_carried())[1] == {"billing"}
    node.do(hand(node).drain(drain_cell("b")))
    assert node.do(halted_and_carried())[1] == set()
    clock.turn(31)
    assert node.do(holders())[1] == []


def test_an_order_that_cannot_be_read_stands_all_the_same(node: HandNode, store: Wire) -> None:
    scheduler(node)
    newer = [Write(cell, ABSENT, '{"v":99}', Mark.OPEN) for cell in (SWITCH, drain_cell("web-1"))]
    store.swap(newer, store.load([]).epoch.seen)
    ((_, (seen,)), everything) = node.do(holders()), node.do(halted_and_carried())[0]
    assert (seen.claims, everything is None) == (False, False)
    assert claim(HandNode(store, "web-2")) == Paused()


def test_an_order_that_cannot_be_read_can_be_lifted(node: HandNode, other: HandNode, store: Wire) -> None:
    scheduler(node)
    cells = (SWITCH, drain_cell("web-1"))
    store.swap([Write(cell, ABSENT, '{"v":99}', Mark.OPEN) for cell in cells], store.load([]).epoch.seen)
    for cell in cells:
        stands, new = node.do(hand(node).drain(cell))
        assert (stands.by, stands.at, new) == ("", None, False)
        assert "upgrade cronce" in stands.reason
    assert node.do(hand(node).resume_all()) is not None
    assert node.do(hand(node).undrain(drain_cell("web-1"))) is not None
    assert [act(store, cell) for cell in cells] == [None, None]
    assert [one.claims for one in node.do(holders())[1]] == [True]
    assert isinstance(claim(other), Closed)  # by a floor, and no longer by the switch


@pytest.mark.parametrize("fate", ["before", "after"])
def test_an_order_whose_reply_is_lost_is_given_once(node: HandNode, store: Wire, fate: str) -> None:
    blue = drain_cell(label="colour=blue")
    for cell, order in ((SWITCH, hand(node).pause_all()), (blue, hand(node).drain(blue))):
        store.lose_next("swap", fate)
        assert node.do(order) == StandingOrder(Act("ada", START), new=True)
        assert act(store, cell) == Act("ada", START)
        store.lose_next("swap", fate)
        assert node.do(hand(node).undrain(cell)) == Act("ada", START)
        assert act(store, cell) is None


def test_whoever_was_slower_by_a_moment_gave_no_order(node: HandNode, other: HandNode, store: Wire) -> None:
    both = hand(node).pause_all(), hand(other).pause_all()
    said = interleaved(store, both, frozenset({0, 2}))
    assert sorted(one.new for one in said) == [False, True]


@pytest.mark.parametrize("act", ["pause", "resume", "resume_all"])
def test_of_two_who_do_the_same_at_once_the_second_is_told_so_whoever_comes_in_between(
    act: str, clock: HandClock
) -> None:
    told = set()
    for order in (*orders(4), frozenset(range(20))):  # the last: one after the other
        store = Wire(clock)
        one, two = hand(HandNode(store)), hand(HandNode(store, "web-2"), "bob")
        declare(HandNode(store))
        if act == "resume":
            HandNode(store).do(one.pause("billing"))
        if act == "resume_all":
            HandNode(store).do(one.pause_all())
        given = () if act == "resume_all" else ("billing",)
        said = interleaved(store, [getattr(one, act)(*given), getattr(two, act)(*given)], order)
        told.add(tuple(answer.new if isinstance(answer, StandingOrder) else answer is not None for answer in said))
        if act == "pause":
            assert {answer.act.by for answer in said} == {"ada" if said[0].new else "bob"}
    assert told == {(True, False), (False, True)}


# --- trigger ---


def test_a_trigger_is_a_run_of_its_own_with_who_asked_and_what_for(
    node: HandNode, other: HandNode, store: Wire
) -> None:
    declare(node)
    board = store.load([BOARD_RUNS]).cells[0].version
    request = node.do(hand(node).trigger("billing", {"month": "2026-03"}))
    assert (request.new, request.slot.job, request.slot.at) == (True, "billing", START)
    assert request.slot.request.startswith("t-")
    assert store.load([BOARD_RUNS]).cells[0].version > board
    written = record(store, request.slot)
    assert (written.state, written.by, written.payload, written.key) == (State.DUE, "ada", '{"month":"2026-03"}', "")
    grant = granted(other, request.slot)
    assert (grant.record.by, grant.record.payload) == ("ada", '{"month":"2026-03"}')
    assert node.do(hand(node).trigger("billing")).slot != request.slot


def test_a_trigger_while_paused_is_due_when_it_is_resumed(node: HandNode) -> None:
    declare(node)
    node.do(hand(node).pause("billing"))
    request = node.do(hand(node).trigger("billing"))
    assert claim(node, request.slot) == Paused()
    node.do(hand(node).resume("billing"))
    assert granted(node, request.slot).number == 1


def test_by_one_id_a_job_is_run_once_whenever_it_is_asked_for(node: HandNode, store: Wire, clock: HandClock) -> None:
    declare(node)
    first = node.do(hand(node).trigger("billing", 1, "march"))
    assert first == RequestedRun(Slot("billing", START, "march"), new=True)
    clock.turn(100)
    close(node, first.slot)
    assert node.do(hand(node, "bob").trigger("billing", 2, "march")) == first._replace(new=False)
    assert {key: (one.by, one.payload) for key, one in runs(store).items()} == {
        "billing/2026-03-29T12:00:00Z#march": ("ada", "1")
    }


def test_two_who_trigger_by_one_id_at_once_get_one_run_whoever_comes_in_between(clock: HandClock) -> None:
    told = set()
    for order in orders(5):
        store = Wire(clock)
        one, two = HandNode(store), HandNode(store, "web-2")
        declare(one)
        flows = [hand(node).trigger("billing", None, "march") for node in (one, two)]
        results = interleaved(store, flows, order)
        assert {request.slot for request in results} == {Slot("billing", clock.wall(), "march")}
        assert len(runs(store)) == 1
        told.add(tuple(request.new for request in results))
    assert told == {(True, False), (False, True)}


def test_who_was_gone_after_writing_the_id_down_is_helped_by_the_next(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    declare(node)
    half = hand(node).trigger("billing", None, "march")
    request = next(half)
    while store.load([asked_cell("billing", "march")]).cells[0].version == 0:
        request = half.send(Timed(perform(store, request), clock.boot(), clock.boot()))
    half.close()
    assert runs(store) == {}
    clock.turn(3600)
    again = node.do(hand(node, "bob").trigger("billing", None, "march"))
    assert again == RequestedRun(Slot("billing", START, "march"), new=False)
    assert len(runs(store)) == 1


def test_a_lost_reply_and_another_try_are_one_run(node: HandNode, store: Wire) -> None:
    declare(node)
    store.lose_next("swap", "after", times=2)
    told = [node.do(hand(node).trigger("billing", None, "march")).new for _ in range(2)]
    assert (told, len(runs(store))) == ([True, False], 1)


def test_an_id_that_cannot_be_read_runs_nothing(node: HandNode, store: Wire) -> None:
    declare(node)
    store.swap([Write(asked_cell("billing", "march"), ABSENT, '{"v":99}', Mark.OPEN)], store.load([]).epoch.seen)
    with pytest.raises(BadRecord, match="upgrade cronce"):
        node.do(hand(node).trigger("billing", None, "march"))
    assert runs(store) == {}


def test_an_id_whose_run_was_purged_runs_nothing_again(node: HandNode, store: Wire, clock: HandClock) -> None:
    declare(node)
    close(node, node.do(hand(node).trigger("billing", None, "march")).slot)
    clock.turn(10)
    node.do(node.ledger.jobs.purge("billing", NONE))
    clock.turn(61)
    assert node.do(node.ledger.jobs.purge("billing", NONE)) == 1
    with pytest.raises(CronceError, match="#march was already requested by ada, and its run is gone: use another id"):
        node.do(hand(node, "bob").trigger("billing", None, "march"))
    assert runs(store) == {}


def test_an_id_is_forgotten_in_the_end(node: HandNode, store: Wire, clock: HandClock) -> None:
    declare(node)
    node.do(hand(node).trigger("billing", None, "march"))
    for days, left in ((30, 1), (2, 0)):
        clock.turn(days * 86_400)
        for _ in range(40):
            clock.turn(1)
            node.do(node.ledger.overdue())
        node.do(node.ledger.jobs.sweep())
        assert len(store.scan(Scan("asked/")).cells) == left


@pytest.mark.parametrize("request_id", ["backfill", "rerun-1", "rerun-x", "a:b", "a b", "#", "x" * 65])
def test_an_id_is_a_plain_name_and_none_of_ours(node: HandNode, request_id: str) -> None:
    declare(node)
    with pytest.raises(BadInput):
        node.do(hand(node).trigger("billing", None, request_id))


@pytest.mark.parametrize("payload", [{1, 2}, float("nan"), "x" * 65_535, b"bytes", START])
def test_a_payload_is_json_and_no_more_than_fits(payload: object) -> None:
    with pytest.raises(BadInput):
        json_text("a payload", payload)


def test_a_payload_that_just_fits() -> None:
    assert len(json_text("a payload", "x" * 65_534)) == 65_536
    assert json_text("a payload", None) == ""
    assert json_text("a payload", 0) == "0"


# --- rerun ---


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.SKIPPED])
def test_a_closed_slot_is_run_again_by_its_own_key(node: HandNode, store: Wire, outcome: Outcome) -> None:
    declare(node)
    close(node, outcome=outcome)
    request = node.do(hand(node).rerun(SLOT))
    assert request == RequestedRun(later(0, "rerun-1"), new=True)
    assert (record(store, request.slot).by, record(store, request.slot).key) == ("ada", SLOT.key)
    assert granted(node, request.slot).record.key == SLOT.key


def test_while_a_rerun_is_open_it_is_the_answer_and_then_comes_the_next(node: HandNode) -> None:
    declare(node)
    close(node)
    for number in range(1, 12):
        asked = node.do(hand(node).rerun(SLOT))
        assert asked == RequestedRun(later(0, f"rerun-{number}"), new=True)
        assert node.do(hand(node, "bob").rerun(asked.slot)) == asked._replace(new=False)
        close(node, asked.slot)


def test_two_who_rerun_at_once_get_one_run(clock: HandClock) -> None:
    for order in orders(4):
        store = Wire(clock)
        one, two = HandNode(store), HandNode(store, "web-2")
        declare(one, floor=clock.wall() - MINUTE)
        slot = Slot("billing", clock.wall())
        close(one, slot)
        results = interleaved(store, [hand(one).rerun(slot), hand(two).rerun(slot)], order)
        assert {request.slot for request in results} == {slot._replace(request="rerun-1")}
        assert len(runs(store)) == 2


def test_a_fresh_rerun_has_a_key_that_nobody_ever_had(node: HandNode, store: Wire) -> None:
    declare(node)
    close(node)
    keys = set()
    for _ in range(2):
        slot = node.do(hand(node).rerun(SLOT, fresh=True)).slot
        keys.add(record(store, slot).key)
        close(node, slot)
        store.purge(store.load([slot.cell]).cells)  # its number comes back, its key must not
    assert len(keys) == 2
    assert {key.rpartition(":")[0] for key in keys} == {f"{SLOT.key}#rerun-1"}


def test_a_rerun_of_what_was_triggered_has_its_payload_and_its_key(node: HandNode, store: Wire) -> None:
    declare(node)
    first = node.do(hand(node).trigger("billing", [1], "march")).slot
    close(node, first)
    again = node.do(hand(node).rerun(first)).slot
    assert again == first._replace(request="march:rerun-1")
    assert (record(store, again).payload, record(store, again).key) == ("[1]", first.key)


def test_what_is_not_closed_or_not_there_is_not_run_again(node: HandNode) -> None:
    declare(node)
    granted(node)
    with pytest.raises(CronceError, match=r"billing@2026-03-29T12:00:00Z is running on web-1: only a closed slot"):
        node.do(hand(node).rerun(SLOT))
    with pytest.raises(
        CronceError,
        match="there is no record of billing@2026-03-29T12:01:00Z; `cronce rerun billing --from WHEN --to WHEN` runs",
    ):
        node.do(hand(node).rerun(later(1)))
    with pytest.raises(CronceError, match="12:01:00Z; nothing to cancel: `cronce runs billing` lists its runs"):
        node.do(hand(node).cancel(later(1)))
    with pytest.raises(CronceError, match="no job is called 'biling'"):
        node.do(hand(node).rerun(Slot("biling", START)))


# --- cancel ---


def test_a_run_is_asked_to_stop_and_learns_who_wants_it(node: HandNode, other: HandNode, store: Wire) -> None:
    declare(node)
    grant = granted(node)
    assert other.do(hand(other).cancel(SLOT, "wrong month")) == Asked()
    assert other.do(hand(other, "bob").cancel(SLOT)) == Asked()
    (renewed,) = node.do(node.ledger.renew([grant]))
    assert isinstance(renewed, Grant)
    assert renewed.ask == "cancelled by ada: wrong month"


def test_what_waits_to_be_run_is_closed_with_who_wanted_it(node: HandNode, store: Wire, clock: HandClock) -> None:
    declare(node)
    due = node.do(hand(node).trigger("billing")).slot
    node.do(node.ledger.put({later(0): Queue(waiting=True)}))
    clock.turn(60)
    retrying = granted(node, later(1), overlap="allow", attempts=2)
    node.do(node.ledger.finish(retrying, Outcome.FAILED, "boom", backoff=timedelta(hours=1)))
    for slot in (due, later(0), later(1)):
        cancelled = Closed(Outcome.SKIPPED, "cancelled by ada")
        assert node.do(hand(node).cancel(slot)) == cancelled
        assert node.do(hand(node, "bob").cancel(slot)) == cancelled
        assert isinstance(claim(node, slot), Closed)


def test_what_is_closed_stays_as_it_is_and_what_is_not_there_is_an_error(node: HandNode) -> None:
    declare(node)
    close(node)
    assert node.do(hand(node).cancel(SLOT)) == Closed(Outcome.SUCCEEDED, "")
    with pytest.raises(CronceError, match="there is no record of billing@2026-03-29T12:01:00Z"):
        node.do(hand(node).cancel(later(1)))


def test_a_cancel_that_meets_a_claim_or_an_end_on_its_way_still_says_what_is_true(clock: HandClock) -> None:
    """Whoever comes in between: either the run is asked to stop, or it never ran, or it was over before."""
    told = set()
    for order in orders(3):
        store = Wire(clock)
        one, two = HandNode(store), HandNode(store, "web-2")
        declare(one, floor=clock.wall() - MINUTE)
        slot = one.do(hand(one).trigger("billing")).slot
        (claimed,), cancelled = interleaved(
            store, [two.ledger.claim([Wanted(slot, terms(overlap="allow"))]), hand(one).cancel(slot)], order
        )
        written = record(store, slot)
        told.add(type(cancelled))
        if isinstance(claimed, Grant):
            assert (cancelled, written.ask) == (Asked(), "cancelled by ada")
        else:
            assert claimed == cancelled == Closed(Outcome.SKIPPED, "cancelled by ada")
            assert written.grant == 0
    assert told == {Asked, Closed}


# --- on a run whose holder is gone ---


def left_behind(node: HandNode, person: HandNode, clock: HandClock, **more: Any) -> None:
    """A run whose lease has expired; the person has just come, and then watches the clock for a lease."""
    declare(node)
    lease = granted(node, **more).record.lease.total_seconds()
    clock.turn(lease)
    with pytest.raises(
        LapsedUnwatched, match="12:00:00Z was begun, and the run's lease expired at 2026-03-29T12:00:10Z"
    ):
        person.do(hand(person).cancel(SLOT))
    clock.turn(lease)


def test_a_run_whose_holder_is_gone_is_closed_as_lost_and_can_be_run_again(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock
) -> None:
    """It was said to be running, and that only a closed slot can be run again."""
    left_behind(node, other, clock)
    again = other.do(hand(other).rerun(SLOT, force=True))
    assert again == RequestedRun(SLOT._replace(request="rerun-1"), new=True)
    assert record(store, SLOT).outcome is Outcome.LOST
    clock.turn(1)
    granted(node, again.slot)
    clock.turn(20)
    assert other.do(hand(other).rerun(SLOT, force=True)).slot.request == "rerun-2"
    (cell,) = store.load([again.slot.cell]).cells
    lost = "its holder web-1 did not renew its lease; superseded by billing@2026-03-29T12:00:00Z#rerun-2"
    assert (cell.mark, decode(cell.value).outcome, decode(cell.value).reason) == (Mark.CLOSED, Outcome.LOST, lost)


def test_a_run_whose_holder_is_gone_is_closed_before_a_backfill(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock
) -> None:
    """It was left out as open, and closed as lost by the next call: it never ran."""
    left_behind(node, other, clock)
    seen = other.do(backfill_stretch(hand(other), "billing", START, START + SECOND))
    assert (seen.busy, seen.wanted) == (1, ())
    assert filled(other, 0, 1) == ["12:00:00Z#backfill"]
    assert record(store, SLOT).outcome is Outcome.LOST
    close(node, later(0, "backfill"))
    assert (record(store, SLOT).outcome, record(store, SLOT).reason) == (
        Outcome.SUCCEEDED,
        "resolved: by billing@2026-03-29T12:00:00Z#backfill",
    )


@pytest.mark.parametrize("joined", [False, True])
def test_a_run_whose_holder_is_gone_can_be_resolved(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock, joined: bool
) -> None:
    """There was nothing to resolve yet."""
    left_behind(node, other, clock)
    (cell,) = store.load([SLOT.cell]).cells
    if joined:  # in the user's database it may be committed: a person has looked
        value = encode(decode(cell.value)._replace(joined=True))
        store.swap([Write(SLOT.cell, cell.version, value, cell.mark)], store.load([]).epoch.seen)
        with pytest.raises(CronceError, match="is running on web-1: only a closed slot can be run again"):
            other.do(hand(other).rerun(SLOT))
    done = Closed(Outcome.SUCCEEDED, "resolved: by ada: all there")
    assert other.do(hand(other).resolve(SLOT, "done", "all there")) == done


def test_a_run_whose_holder_is_gone_is_not_asked_to_stop_but_closed(
    node: HandNode, other: HandNode, clock: HandClock
) -> None:
    """A process that was gone was asked to stop."""
    left_behind(node, other, clock, on_lost="rerun")
    assert other.do(hand(other).cancel(SLOT)) == Closed(Outcome.SKIPPED, "cancelled by ada")


# --- resolve ---


def test_a_slot_that_failed_counts_as_done_when_somebody_says_so(node: HandNode, store: Wire) -> None:
    declare(node)
    close(node, outcome=Outcome.FAILED, reason="boom")
    for by in ("ada", "bob"):
        done = Closed(Outcome.SUCCEEDED, "resolved: by ada: I looked")
        assert node.do(hand(node, by).resolve(SLOT, "done", "I looked")) == done
    assert node.do(hand(node, "cay").resolve(SLOT, "retry")) == Queued(waiting=False)  # that word is taken back
    words = "failed: boom, resolved: by ada: I looked, retried: by cay"
    assert [past.end for past in record(store, SLOT).past] == [words]


def test_what_a_rerun_has_done_is_no_word_that_could_be_taken_back(node: HandNode) -> None:
    declare(node)
    close(node, outcome=Outcome.FAILED, reason="boom")
    close(node, node.do(hand(node).rerun(SLOT)).slot)
    with pytest.raises(
        CronceError, match=r"was succeeded \(resolved: by billing@\S+#rerun-1\); only a slot that failed"
    ):
        node.do(hand(node).resolve(SLOT, "retry"))


@pytest.mark.parametrize("said", [None, "done"])
def test_a_rerun_is_refused_while_the_holder_of_a_lost_slot_may_be_alive(
    node: HandNode, said: Literal["done"] | None
) -> None:
    """It went around the check that a retry makes: a holder that was only paused went on beside it."""
    declare(node)
    close(node, outcome=Outcome.LOST)
    if said:
        node.do(hand(node).resolve(SLOT, said))
    with pytest.raises(CronceError, match=f"may still be in progress.*`cronce rerun {SLOT.key} --force`"):
        node.do(hand(node).rerun(SLOT))
    asked = node.do(hand(node).rerun(SLOT, force=True))
    assert node.do(hand(node).rerun(SLOT)) == asked._replace(new=False)  # it is open: nothing is begun by asking
    assert node.do(hand(node).open_reruns(SLOT)) == [asked.slot]


def test_a_slot_that_failed_is_due_again_when_somebody_says_so(node: HandNode, store: Wire) -> None:
    declare(node)
    close(node, outcome=Outcome.FAILED, reason="boom")
    for by in ("ada", "bob"):
        assert node.do(hand(node, by).resolve(SLOT, "retry")) == Queued(waiting=False)
    assert [past.end for past in record(store, SLOT).past] == ["failed: boom, retried: by ada"]
    granted(node)
    verdicts: tuple[Literal["done", "retry"], ...] = ("done", "retry")
    for verdict in verdicts:
        with pytest.raises(CronceError, match="is running on web-1: there is nothing to resolve yet"):
            node.do(hand(node).resolve(SLOT, verdict))


def test_what_cannot_be_resolved_says_so(node: HandNode) -> None:
    declare(node)
    with pytest.raises(CronceError, match="there is no record of "):
        node.do(hand(node).resolve(SLOT, "done"))
    close(node, outcome=Outcome.SKIPPED)
    with pytest.raises(CronceError, match="was skipped; only"):
        node.do(hand(node).resolve(SLOT, "done"))
    with pytest.raises(BadInput, match="not 'perhaps'"):
        node.do(hand(node).resolve(SLOT, "perhaps"))  # type: ignore[arg-type]


# --- backfill ---


def filled(node: HandNode, start: int, end: int, by: str = "ada") -> list[str]:
    """The runs that a backfill of these minutes asks for."""
    asked = node.do(backfill(hand(node, by), "billing", START + start * MINUTE, START + end * MINUTE))
    return [slot.key.removeprefix("billing@2026-03-29T") for slot in asked]


def test_each_slot_that_never_succeeded_and_is_not_open_gets_one_run_by_its_key(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    declare(node, floor=START - 10 * MINUTE)
    clock.turn(600)
    close(node, later(1))
    close(node, later(2), Outcome.FAILED)
    granted(node, later(3), overlap="allow")
    close(node, later(4), Outcome.FAILED)
    close(node, node.do(hand(node).rerun(later(4))).slot)
    triggered = node.do(hand(node).ask_for(later(5, "t-1"), Queue(by="ada"))).slot
    close(node, triggered)
    wanted = ["11:59:00Z#backfill", "12:00:00Z#backfill", "12:02:00Z#backfill", "12:05:00Z#backfill"]
    assert filled(node, -1, 6) == wanted
    assert filled(node, -1, 6, "bob") == []
    asked = [one for key, one in runs(store).items() if key.endswith("#backfill")]
    assert [(one.state, one.by) for one in asked] == [(State.DUE, "ada")] * 4
    assert [one.key for one in asked] == [later(minutes).key for minutes in (-1, 0, 2, 5)]


def test_a_slot_that_is_backfilled_cannot_run_beside_it(node: HandNode, other: HandNode, clock: HandClock) -> None:
    """Above the floor, a scheduler may be about to claim it."""
    declare(node)
    clock.turn(120)
    assert filled(node, 0, 2) == ["12:00:00Z#backfill", "12:01:00Z#backfill"]
    assert claim(other, later(0)) == Closed(Outcome.SKIPPED, "backfilled by ada")
    assert granted(other, later(2)).number == 1


def test_a_slot_that_another_runs_or_has_run_meanwhile_is_left_to_it(
    node: HandNode, other: HandNode, clock: HandClock
) -> None:
    declare(node)
    clock.turn(180)
    wanted = node.do(backfill_stretch(hand(node), "billing", START, START + 3 * MINUTE)).wanted
    assert len(wanted) == 3
    close(other, later(0))
    granted(other, later(1), overlap="allow")
    assert node.do(ask_to_backfill(hand(node), wanted)) == [later(2, "backfill")]
    assert isinstance(claim(node, later(1)), Held)


def test_two_backfills_and_a_scheduler_at_once_run_each_slot_once(clock: HandClock) -> None:
    for order in orders(5):
        store = Wire(clock)
        one, two = HandNode(store), HandNode(store, "web-2")
        start = clock.wall().replace(second=0)
        declare(one, floor=start - MINUTE)
        flows = [backfill(hand(node), "billing", start, start + SECOND) for node in (one, two)]
        interleaved(store, flows, order)
        states = {key.partition("Z")[2]: one.state for key, one in runs(store).items()}
        assert states == {"": State.CLOSED, "#backfill": State.DUE}


def test_a_backfill_that_failed_is_not_asked_for_again(node: HandNode, store: Wire, clock: HandClock) -> None:
    declare(node)
    clock.turn(60)
    filled(node, 0, 1)
    close(node, later(0, "backfill"), Outcome.FAILED)
    stretch = node.do(backfill_stretch(hand(node), "billing", START, START + MINUTE))
    assert (stretch.wanted, stretch.succeeded, stretch.busy, stretch.asked) == ((), 0, 0, ())
    assert [one.slot for one in stretch.ended] == [later(0, "backfill")]
    again = node.do(hand(node).rerun(later(0, "backfill"))).slot
    assert record(store, again).key == SLOT.key
    assert node.do(backfill_stretch(hand(node), "billing", START, START + MINUTE)).busy == 1
    close(node, again)
    assert node.do(backfill_stretch(hand(node), "billing", START, START + MINUTE)).succeeded == 1


def test_a_slot_of_which_only_its_backfill_is_on_record_is_run_again_by_its_own_name(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    declare(node, floor=START + MINUTE)  # so the slot itself is too old to be put on record
    clock.turn(120)
    filled(node, 0, 1)
    close(node, later(0, "backfill"))
    again = node.do(hand(node).rerun(SLOT)).slot
    assert again == later(0, "backfill:rerun-1")
    assert record(store, again).key == SLOT.key


def test_a_thousand_and_more_are_asked_for_in_parts(node: HandNode, store: Wire, clock: HandClock) -> None:
    declare(node)
    clock.turn(1201 * 60)
    assert len(filled(node, 0, 1201)) == 1201
    assert len(store.scan(Scan("run/", limit=5000)).cells) == 2402
    stretch = node.do(backfill_stretch(hand(node), "billing", START, START + 1201 * MINUTE))
    assert (len(stretch.asked), stretch.busy, stretch.wanted) == (1201, 1201, ())


def test_what_cannot_be_backfilled_says_so(node: HandNode, clock: HandClock) -> None:
    declare(node)
    clock.turn(600)
    with pytest.raises(BadInput, match=r"more than 5 slots, the last of them at 2026-03-29T12:04:00Z: .*--most"):
        node.do(backfill_stretch(hand(node), "billing", START, START + 6 * MINUTE, 5))
    with pytest.raises(BadInput, match="billing@2026-03-29T12:11:00Z is not due yet"):
        node.do(backfill_stretch(hand(node), "billing", START, START + 12 * MINUTE))
    node.do(node.ledger.jobs.edit("mail", lambda _job, now: Job(now)))
    with pytest.raises(CronceError, match="mail has no schedule on record"):
        node.do(backfill_stretch(hand(node), "mail", START, START + MINUTE))
    assert node.do(backfill_stretch(hand(node), "billing", START, START)).wanted == ()
    with pytest.raises(BadInput, match="not run from 2026-03-29T12:00:00Z to 2026-03-29T11:59:00Z"):
        node.do(backfill_stretch(hand(node), "billing", START, START - MINUTE))


@pytest.mark.parametrize(("tz", "midnight"), [("UTC", "2026-03-28T00:00:00Z"), ("Asia/Tokyo", "2026-03-27T15:00:00Z")])
def test_a_day_begins_where_the_job_lives(node: HandNode, tz: str, midnight: str) -> None:
    text = json.dumps({"schedule": spec_of(parse_schedule("0 */6 * * *", tz=tz))})
    job = Job(START - timedelta(days=9), specs=(Spec("v1", START, text),), firing="v1")
    node.do(node.ledger.jobs.edit("billing", lambda _job, _now: job))
    wanted = node.do(backfill_stretch(hand(node), "billing", "2026-03-28", "2026-03-29")).wanted
    assert (len(wanted), wanted[0].key) == (4, f"billing@{midnight}")
    with pytest.raises(BadInput, match="'2026-02-30' is not an instant"):
        node.do(backfill_stretch(hand(node), "billing", "2026-02-30", "2026-03-29"))


# --- who ---


@pytest.mark.parametrize("by", ["", " ", "a\nb", "\x1b[31m", "x" * 501])
def test_who_acts_is_said_in_plain_words(node: HandNode, by: str) -> None:
    with pytest.raises(BadInput, match="who acts must have 1 to 500 printable characters"):
        hand(node, by)


def test_who_acts_is_user_and_host_also_where_the_user_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    assert who().startswith("ada@")
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 987_654)
    assert who().startswith("uid987654@")


# --- as methods, and on servers ---


def test_programs_act_by_the_same_names(tmp_path: Path) -> None:
    with Cronce(f"sqlite:///{tmp_path}/cronce.db") as cron:

        @cron.job("* * * * *", name="billing")
        def billing() -> None: ...

        assert [cron.pause("billing", "moving"), cron.pause("billing")] == [True, False]
        assert [cron.resume("billing"), cron.resume("billing")] == [True, False]
        assert [cron.pause_all(), cron.resume_all(), cron.resume_all()] == [True, True, False]
        assert [cron.drain(label="colour=blue"), cron.drain(label="colour=blue", off=True)] == [True, True]
        key = cron.trigger("billing", {"month": 3}, id="march", by="ada")
        assert cron.trigger("billing", id="march") == key
        cron.cancel(key, "wrong month", by="ada")
        again = cron.rerun(key)
        assert again == f"{key}:rerun-1"
        cron.cancel(again)
        with pytest.raises(CronceError, match="was skipped"):
            cron.resolve(key, "done")
        for nothing in (5, None):
            with pytest.raises(BadInput, match="is not a slot; a slot is written like billing@2026"):
                cron.rerun(nothing)  # type: ignore[arg-type]
            with pytest.raises(BadInput, match="is not a slot"):
                cron.cancel(nothing)  # type: ignore[arg-type]
        with pytest.raises(CronceError, match="no schedule on record"):
            cron.backfill("billing", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z")


def url_of(kind: str, request: pytest.FixtureRequest, place: Path) -> str:
    """A store of its own, on a server that all share."""
    if kind == "sqlite":
        return f"sqlite:///{place}/cronce.db"
    if kind == "mysql":
        return database(request.getfixturevalue("mysql_url"), place)
    option = "schema" if kind == "postgres" else "namespace"
    return f"{request.getfixturevalue(kind).url}?{option}={name_of(place)}"


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "valkey", "mysql", "etcd"])
def test_eight_at_once_are_one_run_of_an_id_and_one_of_each_slot_on_every_store(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = url_of(kind, request, tmp_path)
    clock = SystemClock()
    with closing(open_store(url)) as store:
        now = clock.wall().replace(second=0, microsecond=0)
        job = Job(now - 90 * MINUTE, specs=(Spec("v1", now, json.dumps({"schedule": {"text": "* * * * *"}})),))
        node = RealDesk(store, clock, lambda: store, lambda _event: None)
        node.do(node.ledger.jobs.edit("billing", lambda _job, _now: job))
    keys: list[str] = []
    asked: list[Slot] = []
    barrier = threading.Barrier(8)

    def act() -> None:
        with closing(open_store(url)) as store:
            node = RealDesk(store, clock, lambda: store, lambda _event: None)
            barrier.wait()
            keys.append(node.do(Operator(node.ledger, "ada").trigger("billing", None, "march")).slot.key)
            asked.extend(node.do(backfill(Operator(node.ledger, "ada"), "billing", now - 60 * MINUTE, now)))

    threads = [threading.Thread(target=act) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8
    assert len(set(keys)) == 1
    with closing(open_store(url)) as store:
        requests = [cell.key for cell in store.scan(Scan("run/billing/", mark=Mark.OPEN)).cells]
        backfilled = [now - minutes * MINUTE for minutes in range(60, 0, -1)]
        assert requests == sorted([*(Slot("billing", at, "backfill").cell for at in backfilled), _cell(keys[0])])
        assert {slot.cell for slot in asked} == set(requests) - {_cell(keys[0])}


def _cell(key: str) -> str:
    return f"run/{key.replace('@', '/')}"


def test_a_drained_scheduler_claims_nothing_while_it_lives_and_the_other_colour_does(tmp_path: Path) -> None:
    """Blue and green, at work on one store: what is asked for is run by the one that is not drained."""
    url = f"sqlite:///{tmp_path}/cronce.db"
    ran: dict[str, list[tuple[str, Any]]] = {"blue": [], "green": []}

    def switched(works: Scheduler, rests: Scheduler, name: str) -> None:
        wait_until(lambda: works.engine.claims and not rests.engine.claims)
        keys = [cron.trigger("billing", {"run": number}) for number in range(5)]
        wait_until(lambda: len(ran[name]) == 5)
        assert sorted(ran[name]) == sorted((key, number) for number, key in enumerate(keys))

    with colour(url, "blue", ran) as blue, colour(url, "green", ran) as green, Cronce(url) as cron:
        cron.drain(label="colour=blue")
        switched(green, blue, "green")
        cron.drain(green.holder)
        cron.drain(label="colour=blue", off=True)
        switched(blue, green, "blue")
    assert {name: len(runs) for name, runs in ran.items()} == {"blue": 5, "green": 5}


@contextmanager
def colour(url: str, name: str, ran: dict[str, list[tuple[str, Any]]]) -> Iterator[Scheduler]:
    """A scheduler with that label."""
    with Cronce(url) as cron:

        @cron.job("0 0 1 1 *", name="billing", overlap="allow")
        def billing(run: Run) -> None:
            ran[name].append((run.slot.key, run.payload["run"]))

        with cron.start(labels={"colour": name}) as scheduler:
            assert scheduler.wait_ready(60)
            yield scheduler


def test_a_rerun_that_another_takes_the_place_of_does_not_wait_for_a_person_any_more(
    node: HandNode, store: Wire
) -> None:
    """It stayed in doubt for ever, though its slot was done by the next one."""
    declare(node)
    close(node, outcome=Outcome.FAILED, reason="boom")
    first = node.do(hand(node, "ada").rerun(SLOT)).slot
    node.do(node.ledger.finish(granted(node, first), Outcome.UNKNOWN, "nobody knows"))
    second = node.do(hand(node, "bob").rerun(SLOT)).slot
    node.do(node.ledger.finish(granted(node, second), Outcome.FAILED, "again"))
    node.do(hand(node, "bob").rerun(SLOT))
    (cell,) = store.load([first.cell]).cells
    superseded = decode(cell.value)
    assert (cell.mark, superseded.outcome) == (Mark.CLOSED, Outcome.UNKNOWN)  # it was said to have succeeded
    assert superseded.reason == f"nobody knows; superseded by {second.key}"
    assert superseded.took() == timedelta(0)
    (base,) = store.load([SLOT.cell]).cells
    assert decode(base.value).outcome is Outcome.FAILED  # the slot itself waits for the second one
