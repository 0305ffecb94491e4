"""Many claims and ends in one exchange: one swap for what is alike, and each has its own answer."""

from datetime import timedelta
from typing import Final, Literal, cast, get_args

import pytest
from hypothesis import given, settings
from hypothesis.strategies import lists, sampled_from

from cronce.events import What
from cronce.model import BOARD_RUNS, Slot
from cronce.protocol.commands import Answer, Finish, Finished, Held, Release, Released, Stale
from cronce.protocol.record import Outcome, State, decode
from cronce.runtime.ledger import Grant, Wanted
from cronce.stores.base import Scan
from tests.runtime.shelf import LEASE, START, HandClock, HandNode, Wire, granted, terms

SECOND = timedelta(seconds=1)
NAMES = [f"job-{number}" for number in range(5)]


def warm(node: HandNode, clock: HandClock) -> list[Wanted]:
    """All jobs are known; the slots of all are due."""
    for name in NAMES:
        node.do(node.ledger.finish(granted(node, Slot(name, START)), Outcome.SUCCEEDED))
    clock.turn(1)
    slots = [Slot(name, START + timedelta(seconds=1)) for name in NAMES]
    return [Wanted(slot, terms(), nonce=node.ledger.nonce()) for slot in slots]


def claimed(node: HandNode, wanted: list[Wanted]) -> list[Grant]:
    _, grants = node.do(node.ledger.exchange([], wanted))
    return cast(list[Grant], grants)


def kinds(node: HandNode, wanted: list[Wanted]) -> list[str]:
    return [type(grant).__name__ for grant in claimed(node, wanted)]


def done(grants: list[Grant]) -> list[tuple[Grant, Finish | Release, bool]]:
    return [(grant, Finish(grant.fence, Outcome.SUCCEEDED), False) for grant in grants]


def test_alike_claims_are_one_swap_and_so_are_their_ends(node: HandNode, store: Wire, clock: HandClock) -> None:
    wanted = warm(node, clock)
    store.calls.clear()
    grants = claimed(node, wanted)
    said, _ = node.do(node.ledger.exchange(done(grants), []))
    assert store.calls == ["swap", "swap"]
    assert said == [Finished(Outcome.SUCCEEDED)] * 5
    assert [grant.slot for grant in grants] == [want.slot for want in wanted]
    assert [grant.trust.end for grant in grants] == [clock.boot() + 0.8 * LEASE.total_seconds()] * 5


@pytest.mark.parametrize("ends", [1, 5], ids=["one", "many"])
@pytest.mark.parametrize("fate", ["answered", "before", "after"])
@pytest.mark.parametrize("awaited", [False, True], ids=["not awaited", "awaited"])
def test_only_an_end_that_others_wait_for_wakes_them(
    node: HandNode, store: Wire, clock: HandClock, ends: int, fate: str, awaited: bool
) -> None:
    over = done(claimed(node, warm(node, clock)))[:ends]
    before = store.load([BOARD_RUNS]).cells[0].version
    if fate != "answered":  # the call is lost, or only its reply
        store.lose_next("swap", fate)
    node.do(node.ledger.exchange([*over[:-1], (*over[-1][:2], awaited)], []))
    assert (store.load([BOARD_RUNS]).cells[0].version != before) is awaited


def test_a_grant_of_many_has_the_record_that_stands_in_its_cell(node: HandNode, store: Wire, clock: HandClock) -> None:
    grants = claimed(node, warm(node, clock))
    cells = store.load([grant.key for grant in grants]).cells
    assert [grant.record for grant in grants] == [decode(cell.value, cell.key) for cell in cells]
    assert [grant.cells[0] for grant in grants] == list(cells)
    assert [grant.cells[1].key for grant in grants] == [f"turn/{name}/0" for name in NAMES]


def test_what_another_has_is_refused_and_the_rest_is_granted(node: HandNode, other: HandNode, clock: HandClock) -> None:
    wanted = warm(node, clock)
    granted(other, wanted[2].slot)
    _, grants = node.do(node.ledger.exchange([], wanted))
    assert grants[2] == Held("web-2", START + timedelta(seconds=1) + LEASE)
    assert [isinstance(grant, Grant) for grant in grants] == [True, True, False, True, True]


def test_what_does_not_pass_is_decided_beside_the_others(node: HandNode, store: Wire, clock: HandClock) -> None:
    wanted = warm(node, clock)
    node.do(node.ledger.jobs.pause("job-1"))
    store.calls.clear()
    assert kinds(node, wanted) == ["Grant", "Paused", "Grant", "Grant", "Grant"]
    assert store.calls == ["swap"]


def test_a_reply_that_was_lost_is_read_back_for_each(node: HandNode, store: Wire, clock: HandClock) -> None:
    wanted = warm(node, clock)
    store.lose_next("swap", "after")
    grants = claimed(node, wanted)
    store.lose_next("swap", "after")
    said, _ = node.do(node.ledger.exchange(done(grants), []))
    assert (said, len({grant.fence for grant in grants})) == ([Finished(Outcome.SUCCEEDED)] * 5, 5)


def test_ends_of_several_kinds_are_said_in_one_swap(node: HandNode, store: Wire, clock: HandClock) -> None:
    grants = claimed(node, warm(node, clock))
    words: list[Finish | Release] = [Finish(grant.fence, Outcome.SUCCEEDED) for grant in grants]
    words[1], words[2] = Release(grants[1].fence), Finish(grants[2].fence, Outcome.FAILED, "no answer")
    node.do(node.ledger.finish(grants[3], Outcome.FAILED))
    store.calls.clear()
    said, _ = node.do(node.ledger.exchange([(*one, False) for one in zip(grants, words, strict=True)], []))
    ended = Finished(Outcome.SUCCEEDED)
    assert said == [ended, Released(), Finished(Outcome.FAILED), Stale("web-1"), ended]
    assert store.calls == ["swap"]


def test_who_wants_to_hear_of_them_hears_of_each(node: HandNode, clock: HandClock) -> None:
    wanted = warm(node, clock)
    node.events.clear()
    node.do(node.ledger.exchange(done(claimed(node, wanted)), []))
    told = [(event.what, event.key, event.detail) for event in node.events]
    assert told == [
        *((What.GRANTED, want.cell, "") for want in wanted),
        *((What.CLOSED, want.cell, "succeeded") for want in wanted),
    ]


@pytest.mark.parametrize("ends", range(1, 7))
@pytest.mark.parametrize("claims", range(1, 7))
def test_a_claim_that_another_won_takes_no_end_with_it(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock, ends: int, claims: int
) -> None:
    """The writes of four ends and of three claims had one group number between them. The last claim was another's, so
    the first end was refused with it, taken for recorded, and forgotten: its run went on for the store until its lease
    was over."""
    names = [f"job-{number}" for number in range(ends + claims)]
    for name in names:
        node.do(node.ledger.finish(granted(node, Slot(name, START)), Outcome.SUCCEEDED))
    clock.turn(1)
    wanted = [Wanted(Slot(name, START + SECOND), terms(attempts=2), nonce=node.ledger.nonce()) for name in names]
    grants, wanted = claimed(node, wanted[:ends]), wanted[ends:]
    granted(other, wanted[-1].slot)
    words = [(grant, Finish(grant.fence, Outcome.FAILED), False) for grant in grants]
    store.calls.clear()
    said, found = node.do(node.ledger.exchange(words, wanted))
    assert store.calls == ["swap"]
    assert said == [Finished(Outcome.FAILED, retrying=True)] * ends
    cells = store.load([grant.key for grant in grants]).cells
    assert [decode(cell.value, cell.key).state for cell in cells] == [State.RETRYING] * ends
    assert [type(one) for one in found] == [Grant] * (claims - 1) + [Held]


def test_a_known_claim_that_another_won_takes_no_stamped_end_with_it(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock
) -> None:
    """The same the other way round: the end is stamped, the claim is a question."""
    first, second, *_ = warm(node, clock)
    (grant, *_) = claimed(node, [first])
    known = second._replace(known=True)
    lost = granted(other, known.slot)
    node.do(other.ledger.release([lost]))
    store.hung = lambda: granted(other, known.slot)
    store.calls.clear()
    said, (found,) = node.do(node.ledger.exchange(done([grant]), [known]))
    assert (said, type(found)) == ([Finished(Outcome.SUCCEEDED)], Held)
    assert store.calls.count("load") == 1  # nothing had to be read again


def test_while_the_store_does_not_answer_nobody_knows(node: HandNode, store: Wire, clock: HandClock) -> None:
    wanted = warm(node, clock)
    store.lose = lambda _call: "before"
    assert kinds(node, wanted) == ["Unsure"] * 5
    clock.turn(60)  # what is known of the jobs is too old: they would have to be read
    assert kinds(node, wanted) == ["Unsure"] * 5


End = Literal["succeeds", "fails", "fails for good", "given back", "taken from it", "ended before"]
ENDS: Final[tuple[End, ...]] = get_args(End)
Claimed = Literal["free", "another's", "closed", "paused", "known", "overlap allowed", "turn taken"]
CLAIMS: Final[tuple[Claimed, ...]] = get_args(Claimed)


class Case:
    """Jobs whose runs end, and jobs whose slots are claimed, each in its own situation; the same on any store."""

    def __init__(self, ends: list[End], claims: list[Claimed]) -> None:
        clock = HandClock()
        self.store, self.ends, self.claims = Wire(clock), ends, claims
        self.node, other = HandNode(self.store), HandNode(self.store, "web-2")
        names = [f"end-{number}" for number in range(len(ends))] + [f"claim-{number}" for number in range(len(claims))]
        for name in names:
            self.node.do(self.node.ledger.finish(granted(self.node, Slot(name, START)), Outcome.SUCCEEDED))
        clock.turn(2)
        slots = [Slot(name, START + 2 * SECOND) for name in names]
        self.grants = [granted(self.node, slot, attempts=2) for slot in slots[: len(ends)]]
        for grant, end in zip(self.grants, ends, strict=True):
            self._set_up_end(other, grant, end)
        self.wanted = [
            self._set_up_claim(other, slot, claim) for slot, claim in zip(slots[len(ends) :], claims, strict=True)
        ]
        self.node.do(self.node.ledger.client.load([]))

    def _set_up_end(self, other: HandNode, grant: Grant, end: End) -> None:
        if end == "ended before":
            self.node.do(self.node.ledger.finish(grant, Outcome.SUCCEEDED))
        if end == "taken from it":
            self.node.do(self.node.ledger.release([grant]))
            assert grant.slot is not None
            granted(other, grant.slot, attempts=2)

    def _set_up_claim(self, other: HandNode, slot: Slot, claim: Claimed) -> Wanted:
        if claim in ("another's", "known"):
            grant = granted(other, slot)
            if claim == "known":
                other.do(other.ledger.release([grant]))
        if claim == "closed":
            other.do(other.ledger.finish(granted(other, slot), Outcome.SUCCEEDED))
        if claim == "turn taken":
            granted(other, Slot(slot.job, START + SECOND))
        if claim == "paused":
            self.node.do(self.node.ledger.jobs.pause(slot.job))
        on = terms(overlap="allow") if claim == "overlap allowed" else terms()
        return Wanted(slot, on, known=claim == "known", nonce=self.node.ledger.nonce())

    def word(self, grant: Grant, end: End) -> Finish | Release:
        if end == "given back":
            return Release(grant.fence)
        failed = end in ("fails", "fails for good")
        return Finish(
            grant.fence, Outcome.FAILED if failed else Outcome.SUCCEEDED, end, cut_short=False, final=end != "fails"
        )

    @property
    def records(self) -> list[tuple[str, str, object, int]]:
        found = [(cell.key, decode(cell.value, cell.key)) for cell in self.store.scan(Scan("run/")).cells]
        return [(key, record.state, record.outcome, record.grant) for key, record in found]

    @property
    def turns(self) -> list[tuple[str, str]]:
        return [(cell.key, cell.mark.name) for cell in self.store.scan(Scan("turn/")).cells]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(lists(sampled_from(ENDS), max_size=6), lists(sampled_from(CLAIMS), max_size=6))
def test_in_one_exchange_each_has_the_answer_that_it_has_alone(ends: list[End], claims: list[Claimed]) -> None:
    """However many there are, and whatever becomes of the others."""
    together, alone = Case(ends, claims), Case(ends, claims)
    words = [together.word(*one) for one in zip(together.grants, ends, strict=True)]
    saying = [(grant, word, False) for grant, word in zip(together.grants, words, strict=True)]
    said, found = together.node.do(together.node.ledger.exchange(saying, together.wanted))
    for grant, end in zip(alone.grants, ends, strict=True):
        alone.node.do(alone.node.ledger.record_ends([(grant.key, alone.word(grant, end))]))
    singly = [alone.node.do(alone.node.ledger.claim([want]))[0] for want in alone.wanted]
    expected: dict[End, Answer] = {
        "succeeds": Finished(Outcome.SUCCEEDED),
        "ended before": Finished(Outcome.SUCCEEDED),
        "fails": Finished(Outcome.FAILED, retrying=True),
        "fails for good": Finished(Outcome.FAILED),
        "given back": Released(),
        "taken from it": Stale("web-2"),
    }
    assert said == [expected[end] for end in ends]
    assert [type(one) for one in found] == [type(one) for one in singly]
    assert (together.records, together.turns) == (alone.records, alone.turns)
