"""Effects, part by part: nothing is left out, nothing comes twice, and no part reads more than it should."""

from datetime import timedelta

import pytest

from cronce.errors import BadInput
from cronce.model import ABSENT, Mark, Write, effect_cells
from cronce.protocol.record import Outcome, Record, State, encode
from cronce.runtime.effects.review import CELLS_SEARCHED, EffectList, effects
from cronce.stores.base import Page, Scan
from tests.runtime.shelf import SLOT, START, HandClock, HandNode, Wire

DONE = Record(State.CLOSED, outcome=Outcome.SUCCEEDED)
DOUBTFUL = Record(State.CLOSED, outcome=Outcome.UNKNOWN, reason="Boom")
AGAIN = Record(State.RETRYING)


class Counting(Wire):
    """Counts the cells that it hands out."""

    read = 0

    def scan(self, scan: Scan) -> Page:
        page = super().scan(scan)
        self.read += len(page.cells)
        return page


@pytest.fixture
def store(clock: HandClock) -> Counting:
    return Counting(clock)


def fill(store: Wire, prefix: str, number: int, record: Record, mark: Mark) -> list[str]:
    cells = [f"{prefix}{place:06}" for place in range(number)]
    store.swap([Write(key, ABSENT, encode(record), mark) for key in cells], store.load([]).epoch.seen)
    return cells


def parts(node: HandNode, limit: int, *, everything: bool = False) -> list[EffectList]:
    found = [node.do(effects(None, limit, everything=everything))]
    while found[-1].next is not None:
        found.append(node.do(effects(None, limit, after=found[-1].next, everything=everything)))
    return found


def keys(pages: list[EffectList]) -> list[str]:
    return [one.cell.key for page in pages for one in page.effects]


@pytest.mark.parametrize("limit", [1, 3, 7, 10, 11, 50])
def test_all_parts_are_the_whole(node: HandNode, store: Counting, limit: int) -> None:
    of_slot, of_function = effect_cells(SLOT.key), "once/order-mail/"
    doubts = [
        *fill(store, f"{of_slot}a", 7, DOUBTFUL, Mark.ATTENTION),
        *fill(store, f"{of_function}a", 3, DOUBTFUL, Mark.ATTENTION),
    ]
    again = fill(store, f"{of_slot}b", 4, AGAIN, Mark.OPEN)
    done = [*fill(store, f"{of_slot}c", 5, DONE, Mark.CLOSED), *fill(store, f"{of_function}c", 2, DONE, Mark.CLOSED)]
    assert keys(parts(node, limit)) == doubts
    pages = parts(node, limit, everything=True)
    assert sorted(keys(pages)) == sorted([*doubts, *again, *done])
    assert [len(page.effects) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert pages[-1].effects


def test_of_thousands_in_doubt_each_part_reads_its_own(node: HandNode, store: Counting) -> None:
    fill(store, effect_cells(SLOT.key), CELLS_SEARCHED + 500, DOUBTFUL, Mark.ATTENTION)
    first = node.do(effects(None, 100))
    assert (len(first.effects), store.read) == (100, 101)
    second = node.do(effects(None, 100, after=first.next))
    assert (len(second.effects), store.read) == (100, 202)
    assert second.effects[0].cell.key == f"{effect_cells(SLOT.key)}000100"
    last = node.do(effects(None, 100, after=f"4@{effect_cells(SLOT.key)}{CELLS_SEARCHED + 399:06}"))
    assert (len(last.effects), last.next) == (100, None)


def test_a_part_in_which_nothing_is_wanted_says_where_to_look_further(node: HandNode, store: Counting) -> None:
    """What failed and may be begun again is open, like what is in progress: there may be no end of it."""
    fill(store, f"{effect_cells(SLOT.key)}a", CELLS_SEARCHED + 500, AGAIN, Mark.OPEN)
    (late,) = fill(store, "once/order-mail/", 1, Record(State.RUNNING, started=START), Mark.OPEN)
    empty, full = parts(node, 5)
    assert (empty.effects, [one.cell.key for one in full.effects]) == ((), [late])
    assert store.read == CELLS_SEARCHED + 501


def test_a_part_in_which_all_has_expired_says_where_to_look_further(node: HandNode, store: Counting) -> None:
    """What is forgotten stays in the store until it is purged: it is not shown, and it is not looked at again."""
    expired = [f"once/order-mail/a{place:06}" for place in range(CELLS_SEARCHED + 50)]
    kept = encode(DONE._replace(keep=timedelta(0)))
    store.swap([Write(key, ABSENT, kept, Mark.CLOSED, ttl=timedelta(0)) for key in expired], store.load([]).epoch.seen)
    (late,) = fill(store, "once/order-mail/b", 1, DONE, Mark.CLOSED)
    first = node.do(effects(None, 999, everything=True))
    assert (first.effects, store.read) == ((), CELLS_SEARCHED)
    second = node.do(effects(None, 999, after=first.next, everything=True))
    assert (keys([second]), second.next, store.read) == ([late], None, CELLS_SEARCHED + 51)


def test_a_key_may_look_like_a_place_in_a_list(node: HandNode, store: Counting) -> None:
    cells = [f"once/order-mail/{key}" for key in ("a", "b@effect/1", "c", "d")]
    store.swap([Write(key, ABSENT, encode(DOUBTFUL), Mark.ATTENTION) for key in cells], store.load([]).epoch.seen)
    assert keys(parts(node, 1)) == cells


def test_what_ends_while_somebody_turns_the_page_is_not_left_out(node: HandNode, store: Counting) -> None:
    """It moves to a part that comes later, or is gone: never to one that was shown already."""
    cells = fill(store, effect_cells(SLOT.key), 4, DOUBTFUL, Mark.ATTENTION)
    first = node.do(effects(None, 2))
    gone = store.load([cells[1]]).cells[0]
    store.purge([gone])
    assert keys([first, node.do(effects(None, 2, after=first.next))]) == cells


@pytest.mark.parametrize(
    ("what", "after"),
    [
        (None, "x"),
        (None, "4@run/billing/x"),
        (None, "9@effect/billing/x"),
        (None, "4@effect/\0"),
        ("order-mail", "3@once/letter/7"),
    ],
)
def test_where_a_list_never_goes_on_is_refused(node: HandNode, what: str | None, after: str) -> None:
    with pytest.raises(BadInput, match="is not a place in"):
        node.do(effects(what, 10, after=after))
