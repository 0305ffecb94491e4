"""What a process can say to a store, and what it believes afterwards."""

import os
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import cast

import pytest

from cronce.errors import BadPolicy, StoreUnavailable
from cronce.events import What
from cronce.model import Mark, Slot, Traits, Write, lock_cell, spell, to_us
from cronce.protocol.commands import (
    Busy,
    Closed,
    Early,
    Finished,
    Held,
    Paused,
    Queue,
    Queued,
    Released,
    Resolve,
    Skip,
    Stale,
    Superseded,
    Unsure,
)
from cronce.protocol.record import Act, Outcome, State, decode, decode_job, decode_turn
from cronce.protocol.retention import OUTCOMES, Keep, Limit
from cronce.protocol.specs import raise_floor
from cronce.protocol.view import KnownJob
from cronce.runtime.client import Knowledge
from cronce.runtime.flow import Timed
from cronce.runtime.ledger import Expired, Grant, Refused, Wanted, fresh_nonce
from cronce.stores.base import Loaded, Scan, next_life
from tests.runtime.shelf import FORGETFUL, LEASE, SLOT, START, HandClock, HandNode, Wire, beat, claim, granted, terms

SECOND = timedelta(seconds=1)
NONE = Keep(dict.fromkeys(OUTCOMES, Limit(newest=0)), least=timedelta(0))


def later(slots: int) -> Slot:
    return Slot("billing", START + slots * SECOND)


def watch(clock: HandClock, node: HandNode, seconds: float) -> None:
    """Let time pass while the node looks at the store's clock now and then."""
    for _ in range(int(seconds)):
        clock.turn(1.0)
        node.do(node.ledger.overdue())
        node.do(node.ledger.client.probe())


# --- claiming ---


def too_old(floor: datetime) -> str:
    return f"slots up to {spell(floor)} are closed if they have no record"


def test_the_first_claim_is_granted_and_the_second_is_told_who_has_it(node: HandNode, other: HandNode) -> None:
    grant = granted(node)
    assert claim(other) == Held("web-1", START + LEASE)
    assert node.do(node.ledger.finish(grant, Outcome.SUCCEEDED)) == Finished(Outcome.SUCCEEDED)
    assert claim(other) == Closed(Outcome.SUCCEEDED, "")


def test_a_fresh_process_claims_in_two_calls_and_finishes_in_a_third(node: HandNode, store: Wire) -> None:
    node.do(node.ledger.finish(granted(node), Outcome.SUCCEEDED))
    assert store.calls == ["load", "swap", "swap"]


def test_a_warm_process_claims_in_one_call_and_finishes_in_a_second(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    granted(node, overlap="allow")
    store.calls.clear()
    clock.turn(1)
    node.do(node.ledger.finish(granted(node, later(1), overlap="allow"), Outcome.SUCCEEDED))
    assert store.calls == ["swap", "swap"]


def test_a_warm_loser_asks_once_and_writes_nothing(node: HandNode, other: HandNode, store: Wire) -> None:
    granted(other, Slot("mail", START))
    other.do(other.ledger.jobs.edit("billing", lambda job, _now: job))
    granted(node, overlap="allow")
    other.do(other.ledger.jobs.edit("billing", lambda job, _now: job))
    before = store.load(["meta"]).epoch
    store.calls.clear()
    assert claim(other, overlap="allow") == Held("web-1", START + LEASE)
    assert store.calls == ["swap"]
    assert store.load(["meta"]).epoch == before


def test_a_thousand_slots_are_claimed_in_one_call(node: HandNode, store: Wire, clock: HandClock) -> None:
    granted(node, overlap="allow")
    clock.turn(2000)
    node.do(node.ledger.jobs.edit("billing", lambda job, _now: job))
    store.calls.clear()
    wanted = [Wanted(later(number), terms(overlap="allow")) for number in range(1, 1001)]
    grants = node.do(node.ledger.claim(wanted))
    assert [type(grant) for grant in grants] == [Grant] * 1000
    assert store.calls == ["swap"]
    fences = [grant.fence for grant in cast(list[Grant], grants)]
    assert fences == sorted(set(fences))


def test_a_slot_is_not_granted_before_its_instant(node: HandNode) -> None:
    assert claim(node, later(5)) == Early(START + 5 * SECOND)


def test_two_threads_of_one_process_are_two_claimants(node: HandNode) -> None:
    claimed: list[Grant | Refused] = []
    barrier = threading.Barrier(8)

    def contend() -> None:
        barrier.wait()
        claimed.append(claim(node))

    threads = [threading.Thread(target=contend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(one, Grant) for one in claimed) == 1
    assert sum(isinstance(one, Held) for one in claimed) == 7


def test_a_batch_from_outside_registers_its_job_just_below_its_slot(node: HandNode, store: Wire) -> None:
    granted(node)
    (cell,) = store.load(["job/billing"]).cells
    assert decode_job(cell.value).floor == START - SECOND
    assert claim(node, Slot("billing", START - 5 * SECOND)) == Closed(Outcome.TOO_OLD, too_old(START - SECOND))


# --- lost replies ---


def test_a_lost_reply_is_read_back_with_the_same_fence_and_what_is_left_of_the_lease(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    store.lose_next("swap", "after")
    grant = granted(node)
    assert grant.number == 1
    assert grant.trust.end == clock.boot() + 8.0  # a lease of 10 s less the margin of 2 s
    (cell,) = store.load([SLOT.cell]).cells
    assert cell.fence == grant.fence


def test_a_call_that_never_landed_is_sent_again_under_the_same_nonce(node: HandNode, store: Wire) -> None:
    store.lose_next("swap", "before")
    assert granted(node).number == 1
    assert store.calls == ["load", "swap", "load", "swap"]


def test_lost_replies_of_a_batch_of_groups_are_read_back(node: HandNode, store: Wire, clock: HandClock) -> None:
    clock.turn(60)
    names = [f"job-{number}" for number in range(20)]
    store.lose_next("swap", "after")
    grants = node.do(node.ledger.claim([Wanted(Slot(name, START), terms()) for name in names]))
    assert [type(grant) for grant in grants] == [Grant] * 20
    for grant in cast(list[Grant], grants):
        run, turn = grant.cells
        assert decode_turn(turn.value).run == run.key == grant.key
    store.lose_next("swap", "after")
    renewed = node.do(node.ledger.renew(cast(list[Grant], grants)))
    assert [type(grant) for grant in renewed] == [Grant] * 20


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED])
def test_a_finish_whose_reply_was_lost_is_finished(node: HandNode, store: Wire, outcome: Outcome) -> None:
    grant = granted(node, attempts=2)
    store.lose_next("swap", "after")
    assert node.do(node.ledger.finish(grant, outcome)) == Finished(outcome, retrying=outcome is Outcome.FAILED)


def test_a_release_whose_reply_was_lost_is_released(node: HandNode, store: Wire) -> None:
    grant = granted(node)
    store.lose_next("swap", "after")
    assert node.do(node.ledger.release([grant])) == [Released()]


def test_when_reading_back_fails_too_nobody_runs(node: HandNode, store: Wire) -> None:
    store.lose = lambda call: "after" if call == "swap" or store.calls.count("load") > 1 else ""
    with pytest.raises(StoreUnavailable):
        claim(node)


def test_what_was_granted_is_kept_when_the_rest_of_the_batch_is_unsure(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock
) -> None:
    node.do(node.ledger.finish(granted(node), Outcome.SUCCEEDED))
    granted(other, Slot("mail", START), on_lost="rerun")
    watch(clock, node, 12)
    for job in ("billing", "mail"):
        node.do(node.ledger.jobs.edit(job, lambda job, _now: job))
    store.calls.clear()
    store.lose = lambda _call: "before" if len(store.calls) > 1 else ""
    grant, unsure = node.do(node.ledger.claim([Wanted(later(1), terms()), Wanted(Slot("mail", START), terms())]))
    assert isinstance(grant, Grant)
    assert isinstance(unsure, Unsure)
    assert unsure.why == "the call was lost"


# --- trust and takeover ---


def test_a_grant_whose_answer_took_too_long_is_given_back_and_never_starts(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    store.slow = 8.5
    assert claim(node) == Expired()
    store.slow = 0.0
    (cell,) = store.load([SLOT.cell]).cells
    assert decode(cell.value).state is State.DUE
    assert granted(node).number == 2


def test_a_lapsed_run_is_taken_over_only_by_who_watched_the_clock(
    node: HandNode, other: HandNode, clock: HandClock
) -> None:
    first = granted(node, on_lost="rerun")
    clock.turn(11)
    assert claim(other, on_lost="rerun") == Held("web-1", START + LEASE)
    watch(clock, other, 10)
    second = granted(other, on_lost="rerun")
    assert second.number == 2
    assert [event.detail for event in other.events if event.what is What.TAKEN_OVER] == ["from web-1"]
    assert second.fence > first.fence
    assert node.do(node.ledger.finish(first, Outcome.SUCCEEDED)) == Stale("web-2")
    assert node.do(node.ledger.renew([first])) == [Stale("web-2")]
    assert [event.what for event in other.events if event.what is What.TAKEN_OVER] == [What.TAKEN_OVER]


def test_a_lapsed_run_under_skip_is_closed_as_lost_and_needs_attention(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock
) -> None:
    grant = granted(node)
    watch(clock, other, 11)
    assert claim(other, on_lost="rerun") == Closed(Outcome.LOST, "its holder web-1 did not renew its lease")
    assert [cell.key for cell in store.scan(Scan("run/", mark=Mark.ATTENTION)).cells] == [SLOT.cell]
    assert node.do(node.ledger.finish(grant, Outcome.SUCCEEDED)) == Stale("web-1")
    assert [event.what for event in node.events if event.what is What.STALE] == [What.STALE]


def test_renewing_extends_trust_and_a_renewal_after_its_end_does_not(node: HandNode, clock: HandClock) -> None:
    grant = granted(node)
    clock.turn(5)
    (renewed,) = node.do(node.ledger.renew([grant]))
    assert isinstance(renewed, Grant)
    assert renewed.trust.end == grant.trust.end + 5
    clock.turn(9)
    (late,) = node.do(node.ledger.renew([renewed]))
    assert isinstance(late, Grant)
    assert not late.trust.holds(clock.boot())


# --- overlap ---


def test_overlap_skip_puts_the_slot_on_record_with_who_still_ran(
    node: HandNode, other: HandNode, clock: HandClock
) -> None:
    granted(node)
    clock.turn(1)
    assert claim(other, later(1)) == Closed(Outcome.SKIPPED, f"{SLOT.key} had not ended")


def test_a_slot_that_follows_a_dead_run_waits_until_that_is_settled(
    node: HandNode, other: HandNode, clock: HandClock
) -> None:
    """Its lease has passed, so it does not *still run*; and who comes new may not act on that at once."""
    granted(node)
    clock.turn(11)
    for _ in range(10):
        assert claim(other, later(11)) == Busy(SLOT.cell, START + LEASE)
        clock.turn(1)
    assert granted(other, later(11)).number == 1


def test_a_slot_that_follows_a_dead_run_waits_no_longer_than_it_may_start(
    node: HandNode, other: HandNode, clock: HandClock
) -> None:
    granted(node)
    clock.turn(11)
    for _ in range(6):
        assert claim(other, later(11), start_within=5 * SECOND) == Busy(SLOT.cell, START + LEASE)
        clock.turn(1)
    assert claim(other, later(11), start_within=5 * SECOND) == Closed(Outcome.SKIPPED, "too late to start")


def test_overlap_wait_waits_for_the_turn(node: HandNode, other: HandNode, clock: HandClock) -> None:
    first = granted(node)
    clock.turn(1)
    assert claim(other, later(1), overlap="wait") == Queued(waiting=True)
    assert claim(other, later(1), overlap="wait") == Busy(SLOT.cell, START + LEASE)
    node.do(node.ledger.finish(first, Outcome.SUCCEEDED))
    assert granted(other, later(1), overlap="wait").number == 1


def test_overlap_replace_asks_the_holder_to_stop(node: HandNode, other: HandNode, clock: HandClock) -> None:
    first = granted(node)
    clock.turn(1)
    assert claim(other, later(1), overlap="replace") == Queued(waiting=True)
    (renewed,) = node.do(node.ledger.renew([first]))
    assert isinstance(renewed, Grant)
    assert renewed.ask == f"replaced by {later(1).cell}"


def test_overlap_replace_never_stops_a_later_slot_for_an_earlier_one(
    node: HandNode, other: HandNode, clock: HandClock
) -> None:
    node.do(node.ledger.finish(granted(node), Outcome.SUCCEEDED))
    clock.turn(2)
    latest = granted(node, later(2))
    assert claim(other, later(1), overlap="replace") == Queued(waiting=True)
    (renewed,) = node.do(node.ledger.renew([latest]))
    assert isinstance(renewed, Grant)
    assert renewed.ask == ""


def test_overlap_allow_takes_no_turn(node: HandNode, other: HandNode, clock: HandClock) -> None:
    granted(node, overlap="allow")
    clock.turn(1)
    assert granted(other, later(1), overlap="allow").number == 1


def test_two_turns_let_two_run_and_not_a_third(node: HandNode, other: HandNode, clock: HandClock) -> None:
    clock.turn(5)
    granted(node, turns=2, overlap="wait")
    granted(other, later(1), turns=2, overlap="wait")
    assert claim(node, later(2), turns=2, overlap="wait") == Queued(waiting=True)


def test_a_turn_whose_run_lapsed_is_settled_first(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock
) -> None:
    granted(node)
    watch(clock, other, 11)
    assert granted(other, later(1)).number == 1
    (lost,) = store.load([SLOT.cell]).cells
    assert decode(lost.value).outcome is Outcome.LOST


# --- policies of time ---


def test_a_slot_that_is_too_late_to_start_is_skipped_on_record(node: HandNode, clock: HandClock) -> None:
    granted(node, overlap="allow")
    clock.turn(100)
    late = claim(node, later(1), overlap="allow", start_within=timedelta(seconds=30))
    assert late == Closed(Outcome.SKIPPED, "too late to start")


def test_a_failed_slot_is_retried_from_outside_while_its_attempts_last(node: HandNode, clock: HandClock) -> None:
    first = granted(node, attempts=2)
    backoff = timedelta(seconds=3)
    assert node.do(node.ledger.finish(first, Outcome.FAILED, "boom", backoff)) == Finished(
        Outcome.FAILED, retrying=True
    )
    assert claim(node, attempts=2) == Early(START + backoff)
    clock.turn(3)
    second = granted(node, attempts=2)
    assert second.fence > first.fence
    assert node.do(node.ledger.finish(second, Outcome.FAILED, "boom")) == Finished(Outcome.FAILED)
    assert claim(node, attempts=2) == Closed(Outcome.FAILED, "boom")


def test_a_person_resolves_what_was_lost(node: HandNode, other: HandNode, clock: HandClock) -> None:
    granted(node)
    watch(clock, other, 11)
    claim(other)
    assert other.do(other.ledger.resolve(SLOT, Resolve("retry", "ada"))) == Queued(waiting=False)
    assert granted(other).number == 2


# --- jobs ---


def test_a_paused_job_is_not_claimed_and_resuming_does_not_catch_up(node: HandNode, clock: HandClock) -> None:
    granted(node, overlap="allow")
    node.do(node.ledger.jobs.pause("billing"))
    clock.turn(5)
    assert claim(node, later(1), overlap="allow") == Paused()
    assert node.do(node.ledger.jobs.resume("billing")) == Act("", START)
    job = node.do(node.ledger.jobs.edit("billing", lambda _job, _now: None))
    assert job is not None
    assert [(span.start, span.end, span.reason) for span in job.spans] == [(START - SECOND, clock.wall(), "paused")]
    assert isinstance(claim(node, later(1), overlap="allow"), Closed)


def test_the_newest_live_version_fires_and_the_old_one_takes_over_when_it_is_gone(
    node: HandNode, other: HandNode, clock: HandClock
) -> None:
    old, new = {"billing": ("v1", "every 1s")}, {"billing": ("v2", "every 2s")}
    beat(node, old)
    beat(other, new)
    beat(node, old)
    clock.turn(1)
    assert claim(node, later(1), digest="v1", overlap="allow") == Superseded("v2")
    assert granted(other, later(1), digest="v2", overlap="allow").number == 1
    for _ in range(40):
        clock.turn(1)
        beat(node, old)
    clock.turn(1)
    assert granted(node, later(42), digest="v1", overlap="allow").number == 1
    assert isinstance(claim(node, later(2), digest="v1", overlap="allow"), Closed)


def test_purge_raises_the_floor_first_and_deletes_a_minute_later(node: HandNode, store: Wire, clock: HandClock) -> None:
    node.do(node.ledger.finish(granted(node), Outcome.SUCCEEDED))
    clock.turn(10)
    assert node.do(node.ledger.jobs.purge("billing", NONE)) == 0
    clock.turn(59)
    assert node.do(node.ledger.jobs.purge("billing", NONE)) == 0
    clock.turn(2)
    assert node.do(node.ledger.jobs.purge("billing", NONE)) == 1
    assert store.load([SLOT.cell]).cells[0].version == 0
    assert isinstance(claim(node), Closed)


def test_a_claim_that_rests_on_old_facts_is_refused_and_asked_anew(
    node: HandNode, other: HandNode, clock: HandClock
) -> None:
    granted(node, overlap="allow")
    clock.turn(20)
    other.do(other.ledger.jobs.edit("billing", lambda job, _now: job and raise_floor(job, later(10).at, 10, "missed")))
    clock.turn(40)
    late = claim(node, later(10), overlap="allow")
    assert late == Closed(Outcome.TOO_OLD, too_old(later(10).at))


# --- a store that forgets ---


def test_after_the_store_forgot_nothing_up_to_its_birth_is_granted_and_that_is_on_record(clock: HandClock) -> None:
    store = Wire(clock, FORGETFUL)
    node = HandNode(store)
    grant = granted(node, overlap="allow")
    clock.turn(5)
    node.store = Wire(clock, FORGETFUL, on_purpose=False)
    assert node.do(node.ledger.renew([grant])) == [Stale("")]
    assert [event.what for event in node.events if event.what is What.FORGOT] == [What.FORGOT]
    assert isinstance(claim(node, overlap="allow"), Closed)
    (cell,) = node.store.load(["job/billing"]).cells
    assert [span.reason for span in decode_job(cell.value).spans] == ["unknown: the store forgot"]
    clock.turn(1)
    assert granted(node, later(6), overlap="allow").fence > grant.fence


def test_a_store_that_was_deleted_and_made_anew_has_forgotten(clock: HandClock) -> None:
    node = HandNode(Wire(clock))
    granted(node, overlap="allow")
    clock.turn(5)
    node.store = Wire(clock)
    assert claim(node, overlap="allow") == Closed(Outcome.TOO_OLD, too_old(clock.wall()))
    assert [event.what for event in node.events if event.what is What.FORGOT] == [What.FORGOT]


def test_a_store_set_back_is_told_by_the_first_writer_that_knows_more(clock: HandClock) -> None:
    store = Wire(clock)
    node = HandNode(store)
    granted(node, overlap="allow")
    clock.turn(1)
    kept = (dict(store._cells), store._epoch, store._last_write)
    node.do(node.ledger.finish(granted(node, later(1), overlap="allow"), Outcome.SUCCEEDED))
    clock.turn(1)
    store._cells, store._epoch, store._last_write = kept
    clock.turn(40)
    assert claim(node, later(1), overlap="allow") == Closed(Outcome.TOO_OLD, too_old(clock.wall()))
    (cell,) = store.load(["job/billing"]).cells
    assert [span.reason for span in decode_job(cell.value).spans] == ["unknown: the store forgot"]
    assert claim(node, overlap="allow") == Closed(Outcome.UNKNOWN, "the store forgot what became of it")


# --- locks ---


def test_a_lock_taken_unread_knows_since_when_it_is_held(node: HandNode, clock: HandClock) -> None:
    node.do(node.ledger.acquire(lock_cell("other")))
    clock.turn(5)
    grant = node.do(node.ledger.acquire(lock_cell("reindex")))
    assert isinstance(grant, Grant)
    assert grant.record.started == clock.wall()


def test_a_lock_is_held_by_one_and_rests_after_release(node: HandNode, other: HandNode, clock: HandClock) -> None:
    key = lock_cell("reindex")
    grant = node.do(node.ledger.acquire(key, LEASE))
    assert isinstance(grant, Grant)
    assert other.do(other.ledger.acquire(key, LEASE)) == Held("web-1", START + LEASE)
    assert node.do(node.ledger.release([grant], rest=timedelta(seconds=5))) == [Released()]
    assert other.do(other.ledger.acquire(key, LEASE)) == Early(START + timedelta(seconds=5))
    clock.turn(5)
    assert isinstance(other.do(other.ledger.acquire(key, LEASE)), Grant)
    assert node.do(node.ledger.release([grant])) == [Stale("web-2")]


@pytest.mark.parametrize("renewals", [0, 3])
def test_what_a_lock_is_kept_for_at_least_outlives_a_holder_that_was_killed(
    node: HandNode, other: HandNode, clock: HandClock, renewals: int
) -> None:
    """Another had it when the lease was over, 30 s after the holder was killed, though it said at_least="45s"."""
    key, least = lock_cell("reindex"), timedelta(seconds=45)
    grant = node.do(node.ledger.acquire(key, LEASE, least))
    assert isinstance(grant, Grant)
    for _ in range(renewals):
        watch(clock, other, 3)
        (renewed,) = node.do(node.ledger.renew([grant]))
        assert isinstance(renewed, Grant)
    watch(clock, other, 44 - 3 * renewals)
    assert other.do(other.ledger.acquire(key, LEASE)) == Held("web-1", START + least)
    watch(clock, other, 1)
    assert isinstance(other.do(other.ledger.acquire(key, LEASE)), Grant)


# --- found by trying to break it ---


def test_facts_that_expire_while_a_claim_is_planned_are_read_again(
    node: HandNode, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.do(node.ledger.finish(granted(node, overlap="allow"), Outcome.SUCCEEDED))
    clock.turn(10)
    node.do(node.ledger.jobs.purge("billing", NONE))
    clock.turn(61)
    assert node.do(node.ledger.jobs.purge("billing", NONE)) == 1
    ask = Knowledge.job
    asked = count(1)

    def paused_in_between(self: Knowledge, name: str) -> KnownJob | None:
        known = ask(self, name)
        if next(asked) == 2:
            clock.turn(31)
        return known

    monkeypatch.setattr(Knowledge, "job", paused_in_between)
    assert claim(node, overlap="allow") == Closed(Outcome.TOO_OLD, too_old(START))


def test_a_store_clock_that_stepped_back_does_not_stretch_trust(clock: HandClock) -> None:
    store = Wire(clock)
    node = HandNode(store)
    granted(node, Slot("mail", START))
    store.lose = lambda call: "after" if call == "swap" and not clock.back else ""
    step = store.load

    def load(keys: Sequence[str]) -> Loaded:
        clock.back = 0.9 if store.calls.count("load") > 1 else 0.0
        return step(keys)

    store.load = load  # type: ignore[method-assign]
    grant = granted(node)
    assert grant.trust.end == clock.boot() + 8.0


def test_the_clock_is_judged_by_the_reading_that_brought_the_cell(
    node: HandNode, other: HandNode, clock: HandClock
) -> None:
    granted(node, on_lost="rerun")
    watch(clock, other, 12)
    clock.back = -60.0  # the store's clock jumps ahead; another thread's older reply arrives last
    other.ledger.know.learn(Timed(Loaded(START + 12 * SECOND, other.ledger.know.epoch, []), 5011.9, 5012.2))
    assert claim(other, on_lost="rerun") == Held("web-1", START + LEASE)


def test_one_unreadable_cell_does_not_take_the_others_down(node: HandNode, store: Wire, clock: HandClock) -> None:
    granted(node, overlap="allow")
    clock.turn(5)
    newer = Write(later(2).cell, 0, '{"v":99,"state":"running"}', Mark.OPEN, at=later(2).at)
    store.swap([newer], store.load([]).epoch.seen)
    wanted = [Wanted(later(number), terms(overlap="allow")) for number in (1, 2, 3)]
    first, second, third = node.do(node.ledger.claim(wanted))
    assert isinstance(first, Grant)
    assert isinstance(third, Grant)
    assert isinstance(second, Unsure)
    assert "upgrade cronce" in second.why


def test_a_store_that_does_not_answer_is_told_beside_an_unreadable_cell(node: HandNode, store: Wire) -> None:
    newer = Write(later(1).cell, 0, '{"v":99,"state":"running"}', Mark.OPEN, at=later(1).at)
    store.swap([newer], store.load([]).epoch.seen)
    store.lose = lambda call: "before" if call == "swap" else ""
    wanted = [Wanted(later(number), terms(overlap="allow"), known=True) for number in (1, 2)]
    with pytest.raises(StoreUnavailable, match="the call was lost"):
        node.do(node.ledger.claim(wanted))


def test_a_batch_takes_turns_that_differ(node: HandNode, clock: HandClock, store: Wire) -> None:
    clock.turn(400)
    wanted = [Wanted(later(number), terms(turns=100, overlap="wait")) for number in range(100)]
    grants = node.do(node.ledger.claim(wanted))
    assert [type(grant) for grant in grants] == [Grant] * 100
    assert store.calls == ["load", "swap"]


def test_a_busy_turn_does_not_skip_a_slot_before_its_instant(node: HandNode, other: HandNode) -> None:
    granted(node)
    assert claim(other, later(3600)) == Early(later(3600).at)


def test_a_slot_that_was_granted_and_given_back_can_still_be_too_late(node: HandNode, clock: HandClock) -> None:
    within = timedelta(seconds=10)
    node.do(node.ledger.release([granted(node, start_within=within)]))
    clock.turn(600)
    assert claim(node, start_within=within) == Closed(Outcome.SKIPPED, "too late to start")


def test_a_batch_from_outside_registers_its_job_below_all_its_slots(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    clock.turn(3600)
    wanted = [Wanted(later(3600), terms(overlap="allow")), Wanted(later(0), terms(overlap="allow"))]
    assert [type(grant) for grant in node.do(node.ledger.claim(wanted))] == [Grant, Grant]
    (cell,) = store.load(["job/billing"]).cells
    assert decode_job(cell.value).floor == START - SECOND


def test_a_run_by_hand_is_purged_like_others_and_never_run_again_by_a_late_claim(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    by_hand = SLOT._replace(request="ada-1")
    node.do(node.ledger.jobs.learn("billing"))
    clock.turn(5)
    node.do(node.ledger.put({by_hand: Queue()}))
    (cell,) = store.load([by_hand.cell]).cells
    assert cell.at == START + 5 * SECOND  # filed by when it was asked for, not by the slot that it is about
    node.do(node.ledger.finish(granted(node, by_hand), Outcome.SUCCEEDED))
    clock.turn(10)
    node.do(node.ledger.jobs.purge("billing", NONE))
    assert claim(node, by_hand) == Closed(Outcome.SUCCEEDED, "")
    clock.turn(61)
    assert node.do(node.ledger.jobs.purge("billing", NONE)) == 1
    assert claim(node, by_hand) == Closed(Outcome.TOO_OLD, "the request for it was withdrawn")


@pytest.mark.parametrize("overlap", ["skip", "wait", "replace"])
def test_what_is_asked_for_by_hand_is_never_too_late_and_waits_for_its_turn(
    node: HandNode, store: Wire, clock: HandClock, overlap: str
) -> None:
    by_hand = SLOT._replace(request="ada-1")
    scheduled = granted(node, overlap=overlap)
    node.do(node.ledger.put({by_hand: Queue()}))
    clock.turn(5)
    assert claim(node, by_hand, overlap=overlap, start_within=SECOND) == Queued(waiting=True)
    assert decode(store.load([SLOT.cell]).cells[0].value).ask == ""
    node.do(node.ledger.finish(scheduled, Outcome.SUCCEEDED))
    assert granted(node, by_hand, overlap=overlap, start_within=SECOND).number == 1


def test_a_purge_never_closes_the_future(node: HandNode, clock: HandClock) -> None:
    granted(node, overlap="allow")
    node.do(node.ledger.put({later(3600): Skip("not then")}))
    node.do(node.ledger.jobs.purge("billing", NONE))
    clock.turn(2)
    assert granted(node, later(2), overlap="allow").number == 1


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"turns": 0}, "turns must be 1 or more"),
        ({"on_lost": "rerunn"}, "on_lost must be one of 'skip', 'rerun', not 'rerunn'"),
        ({"overlap": "alow"}, "overlap must be one of 'skip', 'wait', 'replace', 'allow', not 'alow'"),
        ({"attempts": 0}, "attempts must be 1 or more"),
        ({"lease": timedelta(0)}, "a lease must be more than zero and at most 5m"),
        ({"lease": timedelta(minutes=6)}, "a lease must be more than zero and at most 5m"),
    ],
)
def test_terms_that_cannot_be_meant_are_refused(node: HandNode, wrong: dict[str, object], says: str) -> None:
    with pytest.raises(BadPolicy, match=says):
        node.do(node.ledger.claim([Wanted(SLOT, terms(**wrong))]))


def test_a_lease_that_is_over_before_it_can_be_trusted_is_refused(clock: HandClock) -> None:
    """By a clock that is known to a second and three quarters, two seconds leave nothing."""
    vague = HandNode(Wire(clock, Traits("vague", skew=timedelta(seconds=0.75), step=timedelta(seconds=1))))
    says = "a lease of 2s is too short for vague, whose clock is only known to 1s750ms; use 3s5"
    with pytest.raises(BadPolicy, match=says):
        claim(vague, lease=timedelta(seconds=2))
    with pytest.raises(BadPolicy, match=says):
        vague.do(vague.ledger.acquire(lock_cell("reindex"), timedelta(seconds=2)))
    assert granted(vague, lease=timedelta(seconds=3.5)).trust.end == pytest.approx(clock.boot() + 1.05)


def test_a_lock_is_not_promised_for_longer_than_after_forgetting_one_waits(node: HandNode) -> None:
    with pytest.raises(BadPolicy, match="a lock's lease must be more than zero and at most 30s"):
        node.do(node.ledger.acquire(lock_cell("reindex"), timedelta(minutes=2)))


def test_what_was_asked_of_a_lapsed_run_is_done_once_it_is_settled(
    node: HandNode, other: HandNode, clock: HandClock
) -> None:
    granted(node, on_lost="rerun")
    watch(clock, other, 11)
    assert other.do(other.ledger.put({SLOT: Skip("not today")})) == [Closed(Outcome.SKIPPED, "not today")]


def test_a_grant_and_an_end_whose_replies_were_lost_are_told(node: HandNode, store: Wire) -> None:
    store.lose_next("swap", "after")
    grant = granted(node)
    store.lose_next("swap", "after")
    node.do(node.ledger.finish(grant, Outcome.SUCCEEDED))
    told = [event.what for event in node.events]
    assert told == [What.GRANTED, What.CLOSED]


def test_a_finish_does_not_take_a_cell_of_another_life_for_its_own_by_its_number(clock: HandClock) -> None:
    """The versions of two lives may coincide; what was decoded in one must not be believed in the other."""
    store = Wire(clock, FORGETFUL)
    node = HandNode(store)
    grant = granted(node, overlap="allow")
    kept = (dict(store._cells), store._epoch, store._last_write)
    (renewed,) = node.do(node.ledger.renew([grant]))
    assert isinstance(renewed, Grant)
    store._cells, store._epoch, store._last_write = kept
    store._epoch = next_life(to_us(clock.wall()), store._epoch.seen, store._epoch, store._last_write)
    other = HandNode(store, "web-2")
    assert claim(other, overlap="allow") == Closed(Outcome.UNKNOWN, "the store forgot what became of it")
    (cell,) = store.load([SLOT.cell]).cells
    coincides = renewed._replace(cells=(renewed.cells[0]._replace(version=cell.version),))
    assert node.do(node.ledger.finish(coincides, Outcome.FAILED)) == Stale("web-1")
    assert store.load([SLOT.cell]).cells[0] == cell


# --- nonces ---


def test_a_nonce_is_drawn_once_however_many_threads_draw() -> None:
    drawn: list[str] = []
    threads = [threading.Thread(target=lambda: drawn.extend(fresh_nonce() for _ in range(2500))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 10_000
    assert {len(nonce) for nonce in drawn} == {16}


def test_a_forked_child_draws_no_nonce_of_its_parent() -> None:
    fresh_nonce()  # there are more where it came from
    here, there = os.pipe()
    child = os.fork()
    if not child:
        os.write(there, fresh_nonce().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(here, 16).decode() not in {fresh_nonce() for _ in range(2000)}
    os.close(here)
    os.close(there)
