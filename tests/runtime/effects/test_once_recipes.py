"""The recipes of the docs (effects, billing, transactions), killed at every call of the store, before and after it: the
slot is lost, the next slots meet the same unpaid invoices, a person reads the bank's books. Each is charged once."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Literal

import pytest

from cronce.errors import AlreadyDone, CronceError, InDoubt, StoreUnavailable
from cronce.runtime.declare import Declaration
from cronce.runtime.effects.idempotent import Keyed
from cronce.runtime.effects.once import EffectPolicy
from cronce.runtime.effects.review import effects, resolve_effect
from cronce.runtime.effects.steps import THING_KEPT
from cronce.runtime.operations import Operator
from cronce.runtime.run import Run
from tests.runtime.office import Office, job, watch
from tests.runtime.shelf import HandClock, Wire

QUARTER = 15 * 60
INVOICES = (1, 2, 3)
Fate = Literal["before", "after"]
Recipe = Callable[[Office, "Bank", Run], None]


class Bank:
    """The receiver, with books of its own. One that honours keys charges once for each."""

    def __init__(self, *, honours_keys: bool) -> None:
        self.books: Counter[int] = Counter()
        self._keys: set[str] | None = set() if honours_keys else None

    def charge(self, invoice: int, key: str) -> str:
        if self._keys is None or key not in self._keys:
            self.books[invoice] += 1
        if self._keys is not None:
            self._keys.add(key)
        return f"charge of {invoice}"


# --- as the docs have them ------------------------------------------------------------------------------------------


def by_key(_office: Office, bank: Bank, run: Run) -> None:
    def charge(invoice: int) -> str:
        return bank.charge(invoice, run.on("invoice", invoice).key_of("charge"))

    run.once_each(INVOICES, on="invoice", key=lambda invoice: invoice, what="charge", fn=charge, unsure="retry")


def without_keys(_office: Office, bank: Bank, run: Run) -> None:
    for invoice in INVOICES:
        with suppress(InDoubt):
            run.on("invoice", invoice).once("charge", bank.charge, invoice, "")


def with_the_cursor(_office: Office, bank: Bank, run: Run) -> None:
    last = run.cursor.get(0)
    for invoice in run.cursor.over([one for one in INVOICES if one > last], at=lambda one: one):
        run.on("invoice", invoice).once("charge", bank.charge, invoice, "")


def by_a_queue(office: Office, bank: Bank, _run: Run) -> None:
    keyed = Keyed(
        "charge", lambda invoice: f"invoice:{invoice}", THING_KEPT, EffectPolicy("raise", ()), lambda: office.keeper
    )
    charge = keyed.guard(lambda invoice: bank.charge(invoice, ""))
    for invoice in INVOICES:
        with suppress(InDoubt):
            charge(invoice)


RECIPES: dict[str, tuple[Recipe, bool]] = {
    "by key": (by_key, True),
    "by key, at a receiver that knows none": (without_keys, False),
    "with the cursor": (with_the_cursor, False),
    "by a queue": (by_a_queue, False),
}


# --- killed, lost, and then the next slots --------------------------------------------------------------------------


def mortal(store: Wire, at: int, fate: Fate) -> tuple[Office, Callable[[], int]]:
    """A process that dies with this call of the store: before it, or after it, without having heard."""
    office, calls = Office(store), [0]
    right = office.node.do

    def do(flow: Any) -> Any:
        calls[0] += 1
        if calls[0] >= at:
            if calls[0] == at and fate == "after":
                right(flow)
            raise StoreUnavailable("this process is dead")
        return right(flow)

    office.node.do = do  # type: ignore[method-assign]
    return office, lambda: calls[0]


def resolved_by_the_books(office: Office, books: Counter[int]) -> int:
    """A script that reads what the receiver has, and says so of all that is in doubt."""
    found = office.node.do(effects(None, 100)).effects
    doubtful = [one for one in found if one.state == "in doubt"]
    for one in doubtful:
        verdict: Any = "done" if books[int(one.name.rpartition(":")[2])] else "retry"
        office.node.do(resolve_effect(Operator(office.node.ledger, "ann"), one.name, verdict, force=True))
    return len(doubtful)


def next_slot(office: Office, declared: Declaration, body: Callable[[Run], None]) -> None:
    watch(office, 12)
    office.hand.turn(QUARTER)
    with suppress(CronceError):
        office.call(declared, body)


@pytest.mark.parametrize("on_lost", ["skip", "rerun"])
@pytest.mark.parametrize("name", RECIPES)
def test_each_recipe_charges_once_wherever_it_is_killed(clock: HandClock, name: str, on_lost: str) -> None:
    recipe, honours_keys = RECIPES[name]
    declared, calls, doubts = job(on_lost=on_lost, lease="10s"), 1000, 0
    for fate in ("before", "after"):
        at = 1
        while at <= calls:
            store, bank = Wire(clock), Bank(honours_keys=honours_keys)
            other = Office(store)
            other.call(job("other"), lambda _run: None)
            dead, counted = mortal(store, at, fate)
            with suppress(CronceError):
                dead.call(declared, lambda run, dead=dead, bank=bank: recipe(dead, bank, run))  # type: ignore[misc]
            if counted() < at:  # it came to its end
                calls = counted()
                break
            for _ in range(2):
                next_slot(other, declared, lambda run, bank=bank, other=other: recipe(other, bank, run))  # type: ignore[misc]
            assert set(bank.books.values()) <= {1}, (fate, at)
            doubts += resolved_by_the_books(other, bank.books)
            next_slot(other, declared, lambda run, bank=bank, other=other: recipe(other, bank, run))  # type: ignore[misc]
            assert bank.books == dict.fromkeys(INVOICES, 1), (fate, at)
            assert resolved_by_the_books(other, bank.books) == 0
            at += 1
    assert calls > len(INVOICES)
    assert bool(doubts) != honours_keys  # without keys somebody had to look; with them nobody


# --- in a joined transaction ----------------------------------------------------------------------------------------


@pytest.fixture
def books(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as conn:
        conn.execute("create table charges (invoice)")
        conn.commit()
        yield conn


@pytest.mark.parametrize("on_lost", ["skip", "rerun"])
def test_a_transaction_on_a_thing_commits_once_wherever_it_is_killed(
    clock: HandClock, tmp_path: Path, books: sqlite3.Connection, on_lost: str
) -> None:
    declared = job(on_lost=on_lost, lease="10s", transaction=f"sqlite:///{tmp_path}/shop.db")

    def body(run: Run) -> None:
        for invoice in INVOICES:
            with suppress(AlreadyDone), run.on("invoice", invoice).transaction(books, "charge") as tx:
                tx.execute("insert into charges values (?)", (invoice,))

    fates: tuple[Fate, ...] = ("before", "after")
    for fate, at in [(fate, at) for fate in fates for at in range(1, 6)]:
        books.execute("delete from charges")
        with suppress(sqlite3.OperationalError):
            books.execute("delete from cronce_effects")
        books.commit()
        store = Wire(clock)
        other = Office(store)
        other.call(job("other"), lambda _run: None)
        dead, _ = mortal(store, at, fate)
        with suppress(CronceError):
            dead.call(declared, body)
        for _ in range(2):
            next_slot(other, declared, body)
        assert books.execute("select invoice from charges order by invoice").fetchall() == [(1,), (2,), (3,)], (
            fate,
            at,
        )
    assert declared.database is not None
    declared.database.close()


# --- the pages themselves -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["effects", "billing", "transactions"])
def test_each_page_begins_with_what_may_not_happen_twice_and_the_table_of_choices(page: str) -> None:
    """Before any code. What the code does under fire is played word by word: tests/faults/billing/recipes.py."""
    text = (Path(__file__).parents[3] / "docs" / "how-to" / f"{page}.md").read_text()
    before, _, _ = text.partition("```python")
    assert "**What may not happen twice" in before
    assert "or how long?**" in before
    assert before.index("or how long?**") < before.index("|---|---|---|")
