"""Which effects are in doubt, and a person's word on them: on clocks that are turned by hand, and on every store."""

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cronce import Cronce, InDoubt, Run
from cronce.clock import SystemClock
from cronce.errors import BadInput, CronceError
from cronce.model import ABSENT, Mark, Slot, Write, effect_cells, once_cell, spell
from cronce.protocol.commands import Finish, Queue
from cronce.protocol.record import Outcome, Record, State, decode, encode
from cronce.runtime.effects.liveness import RetryRefused
from cronce.runtime.effects.review import (
    DOUBTS_SHOWN,
    EFFECTS_COUNTED,
    EffectSeen,
    doubts,
    effect,
    effect_name,
    effect_named,
    effects,
    of_job,
    of_slot,
    places,
    resolve_effect,
    survey,
)
from cronce.runtime.ledger import Begin, Grant
from cronce.runtime.node import Node as RealNode
from cronce.runtime.operations import LapsedUnwatched, Operator
from cronce.runtime.queries import slot_named
from cronce.stores import open_store
from cronce.stores.base import Scan
from cronce.stores.redis import init
from tests.runtime.shelf import SLOT, START, HandClock, HandNode, Wire, claim, granted
from tests.runtime.test_operations import url_of

CHARGE = f"{SLOT.key}/charge:7"
MAIL = "order-mail/42"


def begin(node: HandNode, run: Grant, key: str = "charge:7") -> Grant:
    """A step of the run is begun."""
    return _begun(node, Begin(f"{effect_cells(SLOT.key)}{key}", node.ledger.nonce(), under=run))


def begin_key(node: HandNode, keep: timedelta | None = timedelta(days=1)) -> Grant:
    return _begun(node, Begin(once_cell("order-mail", "42"), node.ledger.nonce(), keep=keep))


def _begun(node: HandNode, wanted: Begin) -> Grant:
    _, (begun,) = node.do(node.ledger.exchange_effects((), [wanted]))
    assert isinstance(begun.answer, Grant), begun
    return begun.answer


def end(node: HandNode, grant: Grant, outcome: Outcome = Outcome.SUCCEEDED, reason: str = "", result: str = "") -> None:
    node.do(node.ledger.exchange_effects([(grant, Finish(grant.fence, outcome, reason, result=result))]))


def watch(clock: HandClock, node: HandNode, seconds: int) -> None:
    """Let time pass while the node looks at the store's clock now and then."""
    for _ in range(seconds):
        clock.turn(1.0)
        node.do(node.ledger.overdue())
        node.do(node.ledger.client.probe())


def seen(store: Wire, *, everything: bool = True) -> list[tuple[str, str, str]]:
    """As a person sees it, who has watched nothing."""
    found = HandNode(store, "a person").do(effects(None, 100, everything=everything)).effects
    return [(one.name.removeprefix(f"{SLOT.key}/"), one.state, one.why) for one in found]


def resolve(node: HandNode, name: str, *words: Any, by: str = "ada", force: bool = True) -> EffectSeen:
    """By a person who has looked, unless it is said otherwise."""
    return node.do(resolve_effect(Operator(node.ledger, by), name, *words, force=force))


# --- names ---


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("billing@2026-03-29T12:00:00Z/charge:7", "effect/billing/2026-03-29T12:00:00Z/charge:7"),
        ("billing@2026-03-29T12:00:00Z#t-1/a/b@c#d e", "effect/billing/2026-03-29T12:00:00Z#t-1/a/b@c#d e"),
        ("billing@2026-03-29T12:00:00Z#rerun-1:0a1b2c3d/x", "effect/billing/2026-03-29T12:00:00Z#rerun-1:0a1b2c3d/x"),
        ("order-mail/42", "once/order-mail/42"),
        ("order-mail/billing@2026-03-29T12:00:00Z/x", "once/order-mail/billing@2026-03-29T12:00:00Z/x"),
    ],
)
def test_an_effect_is_named_as_its_cell_is(name: str, cell: str) -> None:
    assert (effect_named(name).cell, effect_name(cell)) == (cell, name)


def test_an_instant_may_be_written_otherwise() -> None:
    assert effect_named("billing@2026-03-29T14:00:00+02:00/charge:7").name == CHARGE


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("billing", "is not an effect; an effect is written like billing@2026"),
        ("billing/", "is not an effect"),
        (f"{SLOT.key}/", "is not an effect"),
        ("/7", "cannot be a name"),
        ("a b/7", "cannot be a name"),
        ("billing@noon/7", "is not a slot; a slot is written like"),
        ("@2026-03-29T12:00:00Z/7", "cannot be a name"),
        (f"{SLOT.key}/a\nb", "cannot be printed"),
        (f"order-mail/{'x' * 501}", "500 at most"),
    ],
)
def test_what_is_no_effect_is_told_why(text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        effect_named(text)


# --- states ---


def test_a_step_is_in_progress_while_its_run_is_and_then_done(node: HandNode, store: Wire) -> None:
    run = granted(node)
    step = begin(node, run)
    assert seen(store, everything=False) == [("charge:7", "in progress", "")]
    end(node, step, result='{"id":7}')
    node.do(node.ledger.finish(run, Outcome.SUCCEEDED))
    assert seen(store, everything=False) == []
    assert seen(store) == [("charge:7", "done", "")]


def test_a_step_is_filed_by_its_slot_so_that_one_scan_finds_what_is_in_doubt_of_runs_and_steps(
    node: HandNode, store: Wire
) -> None:
    run = granted(node)
    end(node, begin(node, run), Outcome.UNKNOWN)
    node.do(node.ledger.finish(run, Outcome.UNKNOWN))
    found = store.scan(Scan("", "at", Mark.ATTENTION)).cells
    assert [(cell.key, cell.at) for cell in found] == [
        (f"{effect_cells(SLOT.key)}charge:7", SLOT.at),
        (SLOT.cell, SLOT.at),
    ]


def closes_as_lost(node: HandNode, other: HandNode, clock: HandClock, _run: Grant) -> None:
    watch(clock, other, 11)
    claim(other)


def is_taken_over(node: HandNode, other: HandNode, clock: HandClock, _run: Grant) -> None:
    watch(clock, other, 11)
    granted(other)


def is_settled(node: HandNode, other: HandNode, clock: HandClock, run: Grant) -> None:
    watch(clock, other, 11)
    other.do(other.ledger.settle(run.cells[:1]))


def succeeds(node: HandNode, other: HandNode, clock: HandClock, run: Grant) -> None:
    node.do(node.ledger.finish(run, Outcome.SUCCEEDED))


def is_retried(node: HandNode, other: HandNode, clock: HandClock, run: Grant) -> None:
    node.do(node.ledger.finish(run, Outcome.FAILED, backoff=timedelta(hours=1)))


def is_purged(node: HandNode, other: HandNode, clock: HandClock, run: Grant) -> None:
    del node.store._cells[run.key]


Over = Callable[[HandNode, HandNode, HandClock, Grant], None]


@pytest.mark.parametrize(
    ("over", "on_lost"),
    [
        (closes_as_lost, "skip"),
        (is_taken_over, "rerun"),
        (is_settled, "rerun"),
        (succeeds, "skip"),
        (is_retried, "skip"),
        (is_purged, "skip"),
    ],
)
@pytest.mark.parametrize(("verdict", "state"), [("done", "done"), ("retry", "not done")])
def test_a_step_that_stands_as_begun_by_a_run_that_is_over_is_in_doubt_and_can_be_resolved(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock, over: Over, on_lost: str, verdict: str, state: str
) -> None:
    run = granted(node, on_lost=on_lost, attempts=2)
    step = begin(node, run)
    over(node, other, clock, run)
    assert seen(store, everything=False) == [("charge:7", "in doubt", "its run is over")]
    resolved = resolve(HandNode(store, "a person"), CHARGE, verdict, "I looked")
    assert isinstance(resolved, EffectSeen)
    assert resolved.state == state
    (_name, now, why), *none = seen(store)
    assert (now, none) == (state, [])
    retried = "lost: its run at web-1 is over, retried: by ada: I looked"
    assert why == ("resolved: by ada: I looked" if verdict == "done" else retried)
    end(node, step)  # whoever began it comes too late
    assert seen(store)[0][1] == state


def test_a_step_whose_run_has_lapsed_is_in_doubt_and_resolved_by_who_has_watched_the_clock(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    begin(node, granted(node, on_lost="rerun"))
    clock.turn(9)
    person = HandNode(store, "a person")
    with pytest.raises(CronceError, match=r"is in progress: web-1 has been working on it since 2026-03-29T12:00:00Z"):
        resolve(person, CHARGE, "retry")
    clock.turn(1)
    why = f"the lease of its run expired at {spell(START + timedelta(seconds=10))}"
    assert seen(store, everything=False) == [("charge:7", "in doubt", why)]
    with pytest.raises(
        LapsedUnwatched, match=f"{CHARGE} was begun, and the run's lease expired at 2026-03-29T12:00:10"
    ):
        resolve(person, CHARGE, "done")
    watch(clock, person, 9)
    answer = resolve(person, CHARGE, "done")
    assert isinstance(answer, EffectSeen)
    (run,) = store.load([SLOT.cell]).cells
    assert decode(run.value).state is State.RUNNING  # its slot is left to those who carry the job


def test_a_step_that_a_run_by_hand_is_at_belongs_to_the_slot(node: HandNode, store: Wire) -> None:
    again = SLOT._replace(request="rerun-1")
    node.do(node.ledger.put({again: Queue(by="ada", key=SLOT.key)}))
    run = granted(node, again)
    begin(node, run)
    assert node.do(places(again.key)) == node.do(places(SLOT.key)) == of_slot(SLOT, None)
    assert seen(store) == [("charge:7", "in progress", "")]
    node.do(node.ledger.finish(run, Outcome.FAILED, "boom"))
    assert seen(store) == [("charge:7", "in doubt", "its run is over")]


@pytest.mark.parametrize("everything", [False, True])
def test_what_is_done_while_somebody_looks_is_not_taken_to_be_in_doubt(
    node: HandNode, store: Wire, everything: bool
) -> None:
    """The scan finds it begun; when its run is read that is over, and the step was done before. Another scan finds it
    done: it is told of once."""
    run = granted(node)
    step = begin(node, run)

    def meanwhile(call: str) -> str:
        if call == "load":
            store.lose = lambda _call: ""
            end(node, step)
            node.do(node.ledger.finish(run, Outcome.SUCCEEDED))
        return ""

    store.lose = meanwhile
    assert seen(store, everything=everything) == ([("charge:7", "done", "")] if everything else [])


def test_a_key_is_in_progress_then_in_doubt_when_its_lease_has_passed(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    begin_key(node)
    assert seen(store) == [(MAIL, "in progress", "")]
    with pytest.raises(CronceError, match=f"{MAIL} is in progress: web-1 has been working on it since"):
        resolve(node, MAIL, "done")
    clock.turn(30)
    assert seen(store) == [(MAIL, "in doubt", "its lease expired at 2026-03-29T12:00:30Z")]
    person = HandNode(store, "a person")
    told = "lease expired at 2026-03-29T12:00:30Z; cronce watches the store's clock for 30s before"
    with pytest.raises(LapsedUnwatched, match=told):
        resolve(person, MAIL, "done", "", 42)
    watch(clock, person, 31)
    answer = resolve(person, MAIL, "done", "", 42)
    assert isinstance(answer, EffectSeen)
    assert answer.record
    assert (answer.state, answer.record.result) == ("done", "42")


@pytest.mark.parametrize(
    ("outcome", "state", "why"),
    [
        (Outcome.SUCCEEDED, "done", ""),
        (Outcome.UNKNOWN, "in doubt", "Boom: x"),
        (Outcome.FAILED, "not done", "failed: Boom: x"),
    ],
)
def test_a_key_is_as_it_ended(node: HandNode, store: Wire, outcome: Outcome, state: str, why: str) -> None:
    end(node, begin_key(node), outcome, "" if outcome is Outcome.SUCCEEDED else "Boom: x")
    assert seen(store) == [(MAIL, state, why)]
    assert seen(store, everything=False) == ([(MAIL, state, why)] if state == "in doubt" else [])


def test_what_was_done_and_kept_for_long_enough_is_not_shown_but_a_doubt_is(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    end(node, begin_key(node))
    end(node, begin(node, granted(node)), Outcome.UNKNOWN, "Boom: x")
    clock.turn(86_399)
    assert [state for _, state, _ in seen(store)] == ["in doubt", "done"]
    clock.turn(1)
    assert [state for _, state, _ in seen(store)] == ["in doubt"]
    for verdict in ("done", "retry"):
        with pytest.raises(CronceError, match=f"there is no record of {MAIL}"):
            resolve(node, MAIL, verdict)


def test_what_a_newer_cronce_wrote_is_unreadable(node: HandNode, store: Wire, clock: HandClock) -> None:
    run = granted(node)
    begin(node, run)
    key = effect_named(CHARGE).cell
    store._cells[run.key] = store._cells[run.key]._replace(value='{"v":99}')
    assert seen(store) == [("charge:7", "in progress", "")]  # the run may be at it
    store._cells[run.key] = store._cells[run.key]._replace(mark=Mark.CLOSED)
    assert seen(store) == [("charge:7", "in doubt", "its run is over")]  # as far as anybody can tell
    store._cells[run.key] = store._cells[run.key]._replace(mark=Mark.OPEN)
    clock.turn(11)
    with pytest.raises(CronceError, match="has format 99"):
        resolve(node, CHARGE, "done")
    store._cells[key] = store._cells[key]._replace(value='{"v":99}')
    ((_, state, why),) = seen(store, everything=False)
    assert state == "unreadable"
    assert "has format 99" in why
    with pytest.raises(CronceError, match="has format 99"):
        resolve(node, CHARGE, "done")


# --- never all of it ---


def fill(store: Wire, number: int, record: Record, mark: Mark) -> None:
    cells = [f"{effect_cells(SLOT.key)}{mark.name}:{place:05}" for place in range(number)]
    store.swap([Write(key, ABSENT, encode(record), mark) for key in cells], store.load([]).epoch.seen)


DONE = Record(State.CLOSED, outcome=Outcome.SUCCEEDED)
DOUBTFUL = Record(State.CLOSED, outcome=Outcome.UNKNOWN, reason="Boom")


def test_counts_are_capped_and_say_so(node: HandNode, store: Wire) -> None:
    fill(store, EFFECTS_COUNTED, DONE, Mark.CLOSED)
    fill(store, 30, DOUBTFUL, Mark.ATTENTION)
    found = node.do(survey(SLOT, DONE))
    assert (found.counts, found.capped) == ({"done": EFFECTS_COUNTED, "in doubt": 30}, frozenset())
    assert len(found.doubtful) == DOUBTS_SHOWN
    store.swap(
        [Write(f"{effect_cells(SLOT.key)}one more", ABSENT, encode(DONE), Mark.CLOSED)], store.load([]).epoch.seen
    )
    found = node.do(survey(SLOT, DONE))
    assert (found.counts, found.capped) == ({"done": EFFECTS_COUNTED, "in doubt": 30}, frozenset({"done"}))
    assert node.do(doubts(of_job("billing"))).counts == {"in doubt": 30}


def test_a_list_ends_where_it_should_and_says_that_there_is_more(node: HandNode, store: Wire) -> None:
    fill(store, 30, DOUBTFUL, Mark.ATTENTION)
    begin_key(node)
    for limit, shown, more in [(29, 29, True), (30, 30, True), (31, 31, False), (100, 31, False)]:
        found = node.do(effects(None, limit))
        assert (len(found.effects), found.next is not None) == (shown, more)


def test_a_look_for_few_among_many_has_an_end(node: HandNode, store: Wire) -> None:
    """What failed and may be begun again is open, like what is in progress: there may be no end of it."""
    fill(store, 10_001, Record(State.RETRYING), Mark.OPEN)
    begin_key(node)
    found = node.do(effects(None, 5))
    assert (found.effects, found.next is not None) == ((), True)


def test_effects_of_a_job_are_not_those_of_another_whose_name_begins_like_it(node: HandNode, store: Wire) -> None:
    for key in ("effect/mail/2026-03-29T12:00:00Z/x", "effect/mail-daily/2026-03-29T12:00:00Z/x", "once/mail/1"):
        store.swap([Write(key, ABSENT, encode(DOUBTFUL), Mark.ATTENTION)], store.load([]).epoch.seen)
    found = node.do(effects("mail", 10)).effects
    assert [one.name for one in found] == ["mail/1", "mail@2026-03-29T12:00:00Z/x"]


# --- a person's word ---


def in_doubt(node: HandNode) -> None:
    end(node, begin(node, granted(node)), Outcome.UNKNOWN, "Boom: x")


def test_the_first_word_stands_and_the_same_again_is_no_error(node: HandNode, store: Wire) -> None:
    in_doubt(node)
    for by in ("ada", "bob"):
        resolved = resolve(node, CHARGE, "done", "I looked", {"id": 7}, by=by)
        assert isinstance(resolved, EffectSeen)
        assert resolved.record
        assert (resolved.record.result, resolved.why) == ('{"id":7}', "resolved: by ada: I looked")
    for verdict, result in (("done", {"id": 8}), ("done", None)):
        with pytest.raises(
            CronceError, match=r'was done, resolved: by ada: I looked, at 2026-\S+, with the result \{"id":7\}: '
        ):
            resolve(node, CHARGE, verdict, "", result)


def test_to_let_it_be_begun_again_may_be_said_twice(node: HandNode) -> None:
    in_doubt(node)
    for _ in range(2):
        resolved = resolve(node, CHARGE, "retry")
        assert isinstance(resolved, EffectSeen)
        assert (resolved.state, resolved.why) == ("not done", "unknown: Boom: x, retried: by ada")
    done = resolve(node, CHARGE, "done")  # nobody has begun it since
    assert isinstance(done, EffectSeen)
    assert done.state == "done"


def test_what_surely_did_not_happen_is_not_resolved_as_done(node: HandNode) -> None:
    end(node, begin(node, granted(node)), Outcome.FAILED, "Refused: x")
    with pytest.raises(CronceError, match="there is nothing to resolve"):
        resolve(node, CHARGE, "done")


@pytest.mark.parametrize("verdict", ["done", "retry"])
@pytest.mark.parametrize("fate", ["before", "after"])
def test_a_word_whose_reply_was_lost_is_said_again(node: HandNode, store: Wire, fate: str, verdict: str) -> None:
    in_doubt(node)
    store.lose_next("swap", fate)
    resolved = resolve(node, CHARGE, verdict)
    assert isinstance(resolved, EffectSeen)
    assert resolved.record
    assert len(resolved.record.past) == 1


def test_what_was_done_by_its_run_is_not_a_persons_to_resolve(node: HandNode) -> None:
    end(node, begin(node, granted(node)))
    for verdict in ("done", "retry"):
        with pytest.raises(CronceError, match=r"was done at 2026-03-29T12:00:00Z: there is nothing to resolve"):
            resolve(node, CHARGE, verdict)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("perhaps",), "resolve takes done or retry, not 'perhaps'"),
        (("retry", "", 7), "has no result yet"),
        (("done", "", "x" * 65_535), "a result must be at most 64 KB of JSON, not 65,537 bytes"),
        (("done", "", float("nan")), "a result must be a value that JSON can hold"),
        (("done", "a\nb"), "the reason must have 1 to 500 printable characters"),
    ],
)
def test_a_word_that_makes_no_sense_is_refused_and_changes_nothing(
    node: HandNode, store: Wire, words: tuple[Any, ...], why: str
) -> None:
    in_doubt(node)
    with pytest.raises(BadInput, match=why):
        resolve(node, CHARGE, *words)
    assert seen(store) == [("charge:7", "in doubt", "Boom: x")]


def test_nothing_is_resolved_that_is_not_on_record(node: HandNode) -> None:
    with pytest.raises(CronceError, match=f"no record of {CHARGE}; `cronce status effects` lists what is in doubt"):
        resolve(node, CHARGE, "done")
    assert node.do(effect(effect_named(CHARGE))) is None


def test_programs_say_it_by_the_same_name(node: HandNode, store: Wire, clock: HandClock) -> None:
    begin_key(node)
    in_doubt(node)
    clock.turn(31)
    with Cronce(store=store, clock=clock) as cron:
        cron.resolve(CHARGE, "done", "I looked", result=[7], by="ada")
        assert seen(store)[-1] == ("charge:7", "done", "resolved: by ada: I looked")
        with pytest.raises(BadInput, match="only an effect, such as a step, has a result"):
            cron.resolve(SLOT, "done", result=7)
        with pytest.raises(CronceError, match=r"for 30s before it accepts this: until 2026-03-29T12:01:02Z$"):
            cron.resolve(MAIL, "retry", force=True)
        clock.turn(31)
        cron.resolve(MAIL, "retry", by="ada", force=True)
        assert seen(store)[0] == (MAIL, "not done", "lost: its holder web-1 did not renew its lease, retried: by ada")


def test_a_program_that_says_retry_is_refused_while_the_holder_may_be_alive(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    """It was asked on the command line and on the page only: by a program the customer was charged twice."""
    run = granted(node, on_lost="skip")
    begin(node, run)
    clock.turn(11)
    with Cronce(store=store, clock=clock) as cron:
        watch(clock, cron.at_work().node, 11)  # type: ignore[arg-type]
        for what in (CHARGE, SLOT.key):
            if what == SLOT.key:
                cron.at_work().node.do(cron.at_work().node.ledger.settle([store.load([SLOT.cell]).cells[0]]))
            with pytest.raises(RetryRefused, match=f"{what} may still be in progress. web-1 did not renew its lease"):
                cron.resolve(what, "retry")
        assert [state for _, state, _ in seen(store)] == ["in doubt"]
        cron.resolve(CHARGE, "retry", force=True)
        cron.resolve(SLOT, "retry", force=True)
        assert decode(store.load([SLOT.cell]).cells[0].value).state is State.DUE


def test_a_slot_that_an_effect_keeps_in_doubt_is_refused_until_that_is_resolved(node: HandNode, store: Wire) -> None:
    run = granted(node)
    end(node, begin(node, run), Outcome.UNKNOWN, "Boom: x")
    node.do(node.ledger.finish(run, Outcome.UNKNOWN, InDoubt(CHARGE, "Boom: x").brief))
    with Cronce(store=store, clock=store.clock) as cron:
        with pytest.raises(RetryRefused) as refused:
            cron.resolve(SLOT, "retry")
        assert "resolve the effect first" in str(refused.value)
        assert f"`cronce resolve {CHARGE} done`" in str(refused.value)
        cron.resolve(CHARGE, "retry")  # whoever was at it has said that it is over
        cron.resolve(SLOT, "retry")


# --- on every store ---


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "valkey", "mysql", "etcd"])
def test_a_doubt_is_seen_and_resolved_on_every_store(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = url_of(kind, request, tmp_path)
    if kind == "valkey":
        init(url)  # on purpose: else a store that can forget grants nothing for a while
    called: list[str] = []

    def charge(what: str) -> dict[str, str]:
        called.append(what)
        if what == "b":
            raise ConnectionError("no answer")
        return {"charged": what}

    with Cronce(url) as cron:

        @cron.job("* * * * *", name="billing")
        def billing(run: Run) -> None:
            for what in "abc":
                run.once(f"charge/{what}", charge, what, per="slot")

        @cron.idempotent("order-mail", key=lambda order: order)
        def mail(order: int) -> int:
            called.append(f"mail {order}")
            raise ConnectionError("no answer")

        with pytest.raises(InDoubt) as doubt:
            billing()
        with pytest.raises(InDoubt):
            mail(42)
        name = doubt.value.name
        with closing(open_store(url)) as store:
            node = RealNode(store, SystemClock(), lambda: store, lambda _event: None)
            found = node.do(effects(None, 10))
            assert [(one.name, one.state, one.why) for one in found.effects] == [
                (name, "in doubt", "ConnectionError: no answer"),
                (MAIL, "in doubt", "ConnectionError: no answer"),
            ]
            counts = node.do(survey(slot_named(name.partition("/")[0]), DONE)).counts
            assert counts == {"done": 1, "in doubt": 1}
            cron.resolve(name, "done", result={"charged": "b"})
            cron.resolve(MAIL, "done", result=7)
            assert node.do(effects(None, 10)).effects == ()
        cron.resolve(name.partition("/")[0], "retry")
        billing.at(_slot(name).at)()
        assert mail(42) == 7
    assert called == ["a", "b", "mail 42", "c"]


def _slot(name: str) -> Slot:
    slot = slot_named(name.partition("/")[0])
    assert slot
    return slot
