"""Wrong uses of effects, each as somebody writes it, and what they get: an error that says so, a slot that does not
succeed, or the reason why it does no harm. None is silent. The table in the docs is made of these rows."""

import sqlite3
import traceback
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from cronce import Cronce, InDoubt, Run
from cronce.protocol.record import decode
from cronce.stores import open_store

PAGE: Final = Path(__file__).parents[3] / "docs/reference/misuse.md"
SLOT: Final = "2026-03-29T12:00:00Z"


class Misuse(NamedTuple):
    """What is written; part of the error; how the slot ends; which functions were called."""

    code: str
    error: str = ""
    outcome: str = "failed"
    calls: tuple[str, ...] = ()
    harmless: str = ""


def harmless(code: str, why: str, *calls: str) -> Misuse:
    return Misuse(code, outcome="succeeded", calls=calls, harmless=why)


BOTH = "does not say what may not happen twice"
NAME = "cannot be the key of an effect"
TABLE: Final = (
    # --- what may not happen twice, and for how long? ---
    Misuse('run.once("charge:7", pay)', BOTH),
    Misuse('run.once("charge:7", pay, per="day")', BOTH),
    Misuse("run.once_each([7], key=str, fn=pay)", BOTH),
    Misuse('run.once_each([7], key=str, fn=pay, on="invoice")', BOTH),
    Misuse('run.once_each([7], key=str, fn=pay, on="invoice", what="charge", per="slot")', BOTH),
    Misuse('run.key_of("charge:7")', BOTH),
    Misuse('run.headers("charge:7")', BOTH),
    Misuse('run.transaction(conn, "charge:7")', BOTH),
    # --- two effects under one name ---
    Misuse(
        'run.on("invoice", 7).once("do", pay); run.on("invoice", 7).once("do", write)',
        "'do' is done by another function already",
        calls=("paid",),
    ),
    Misuse(
        'run.once(7, pay, per="slot"); run.once(7, write, per="slot")',
        "is done by another function already",
        calls=("paid",),
    ),
    Misuse(
        'run.once_each([7], key=int, fn=pay, per="slot"); run.once_each([7], key=int, fn=write, per="slot")',
        "is done by another function already",
        calls=("paid",),
    ),
    Misuse(
        'cron.idempotent("p", key=str)(pay); cron.idempotent("p", key=str)(write)',
        "'p' is done by another function already",
    ),
    Misuse(
        'run.once_each([7, 7], on="invoice", key=int, what="charge", fn=pay)', "two items have the key", calls=("paid",)
    ),
    # --- names and ids ---
    Misuse('run.on("invoice:7", 1).once("charge", pay)', "cannot be a kind of thing"),
    Misuse('run.on("an invoice", 7).once("charge", pay)', "cannot be a name"),
    Misuse('run.on("invoice", 7.5).once("charge", pay)', NAME),
    Misuse('run.on("invoice", None).once("charge", pay)', NAME),
    Misuse('run.on("invoice", "").once("charge", pay)', NAME),
    Misuse('run.on("invoice", {"id": 7}).once("charge", pay)', NAME),
    Misuse('run.on("invoice", "x" * 600).once("charge", pay)', "an effect's key has 500 at most"),
    Misuse('run.on("invoice", 7).once("charge/7", pay)', "cannot be a name"),
    Misuse('run.on("invoice", 7).once(7, pay)', "cannot be a name"),
    Misuse('run.on(7).once("charge", pay)', "missing 1 required positional argument"),
    # --- what is called ---
    Misuse('run.on("invoice", 7).once(pay)', "missing 1 required positional argument"),
    Misuse('run.on("invoice", 7).once("charge", pay())', "cannot be called", calls=("paid",)),
    Misuse('run.on("invoice", 7).once("charge", pay, 1, 2, 3)', "cannot be called"),
    Misuse('run.on("invoice", 7).once("charge", coroutine)', "is awaited: make the body `async def`"),
    Misuse('run.on("invoice", 7).once("charge", lambda: coroutine())', "of which nothing has run"),
    Misuse('run.on("invoice", 7).once("charge", generator)', "of which nothing has run"),
    Misuse('run.once_each([7], on="invoice", key="id", what="charge", fn=pay)', "cannot be called"),
    Misuse('run.once_each(7, on="invoice", key=int, what="charge", fn=pay)', "is not iterable"),
    Misuse('run.on("invoice", 7).once("charge", pay, unsure="maybe")', "unsure"),
    Misuse('run.on("invoice", 7).once("charge", pay, not_done="Timeout")', "not_done is an exception or some of them"),
    Misuse('run.on("invoice", 7).once("charge", object)', "is done, but what it returned cannot be kept"),
    # --- errors that are swallowed ---
    Misuse(
        'with suppress(Exception): run.on("invoice", 7).once("charge", fails)', outcome="unknown", calls=("failed",)
    ),
    Misuse('with suppress(Exception): run.on("invoice", 7).once("charge", fails, unsure="retry")', calls=("failed",)),
    Misuse('with suppress(Exception): run.on("invoice", 7).once("charge", fails, not_done=OSError)', calls=("failed",)),
    Misuse('with suppress(Exception), run.transaction(conn): conn.execute("insert into nowhere values (1)")'),
    Misuse(
        'with suppress(InDoubt): run.on("order", 7).once("send", fails)\nrun.cursor.set(7)',
        "nobody knows whether send/order:7 happened",
        outcome="unknown",
        calls=("failed",),
    ),
    # --- transactions ---
    Misuse(
        'run.on("invoice", 7).transaction(conn, "charge")', "was never entered, and committed nothing: write `with`"
    ),
    Misuse('run.on("invoice", 7).transaction(conn)', "missing 1 required positional argument"),
    Misuse("with run.transaction(conn), run.transaction(conn): pass", "is in another transaction of a run"),
    Misuse(
        'conn.execute("insert into charges values (7)")\nwith run.transaction(conn): pass',
        "has written, and that is not committed yet",
        outcome="",  # SQLite is kept locked by that write, so it cannot be asked what was committed before it is over
    ),
    Misuse("with run.transaction(conn): conn.commit()", "did not last to the end of its block"),
    Misuse('with run.transaction("books.db"): pass', "cannot be joined"),
    Misuse(
        "with run.transaction(conn): pass\nwith run.transaction(conn): pass",
        "was committed before; several transactions in one run need names",
        outcome="succeeded",
    ),
    # --- the cursor ---
    Misuse("run.cursor.set(object())", "a cursor is"),
    Misuse("for order in run.cursor.over([2, 1], at=lambda order: order): pass", "would skip items"),
    Misuse('for order in run.cursor.over([1], at="id"): pass', "is no function of an item"),
    # --- harmless ---
    harmless(
        'run.on("invoice", 7).once("charge", pay); run.on("invoice", 7).once("charge", pay)',
        "the second call returns what came of the first",
        "paid",
    ),
    harmless(
        'run.on("invoice", 7).once("charge", pay); run.on("invoice", "7").once("charge", pay)',
        "a number and the same number as text are one id",
        "paid",
    ),
    harmless(
        'run.on("invoice", 7).once("charge", pay, 10); run.on("invoice", 7).once("charge", pay, 20)',
        "what is done is done: other arguments do not do it again",
        "paid",
    ),
    harmless('run.on("invoice", 7)', "it names a thing, and nothing is done to it"),
    harmless('run.on("invoice", 7).key_of("charge")', "a key is a text: nothing is begun by asking for it"),
    harmless('run.once_each([], on="invoice", key=int, what="charge", fn=pay)', "there is nothing to do"),
    harmless(
        'run.on("invoice", 7).once("charge", fails, unsure="skip")',
        "it is passed over on purpose, and stays on record as in doubt",
        "failed",
    ),
    harmless(
        'conn.execute("select * from charges").fetchall()\nwith run.transaction(conn): pass',
        "a transaction that has only read is ended first",
    ),
    harmless("run.cursor.get()", "before the first `set` it is the default, `None`"),
)


@pytest.fixture
def books(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "books.db")) as conn:
        conn.execute("create table charges (invoice)")
        conn.commit()
        yield conn


@pytest.mark.parametrize("misuse", TABLE, ids=lambda misuse: misuse.code)
def test_no_wrong_use_is_silent(tmp_path: Path, books: sqlite3.Connection, misuse: Misuse) -> None:
    calls: list[str] = []

    def noted(word: str, *_given: Any) -> None:
        calls.append(word)

    def pay(given: Any = None) -> None:
        noted("paid", given)

    def write(given: Any = None) -> None:
        noted("written", given)

    def fails() -> None:
        noted("failed")
        raise OSError("no answer")

    async def coroutine() -> None: ...

    def generator() -> Iterator[int]:
        yield 1

    with Cronce(f"sqlite:///{tmp_path}/cronce.db") as cron:
        known = {"cron": cron, "conn": books, "pay": pay, "write": write, "fails": fails, "coroutine": coroutine}
        known |= {"generator": generator, "suppress": suppress, "InDoubt": InDoubt, "partial": partial}

        @cron.job(None, name="billing", transaction=f"sqlite:///{tmp_path}/books.db")
        def billing(run: Run) -> None:
            exec(misuse.code, {**known, "run": run})

        told = ""
        try:
            billing.at(SLOT)()
        except Exception as error:
            told = "".join(traceback.format_exception_only(error))
    assert misuse.error in told
    assert bool(told) == bool(misuse.error)
    with closing(open_store(f"sqlite:///{tmp_path}/cronce.db")) as store:
        (cell,) = store.load([f"run/billing/{SLOT}"]).cells
    assert (decode(cell.value).outcome or "", tuple(calls)) == (misuse.outcome, misuse.calls)


def test_there_are_forty_at_least() -> None:
    assert len([misuse for misuse in TABLE if not misuse.harmless]) >= 40
    assert len({misuse.code for misuse in TABLE}) == len(TABLE)


def table() -> str:
    """As the docs have it."""
    rows = ["| what is written | what you get |", "|---|---|"]
    for misuse in TABLE:
        code = " ⏎ ".join(f"`{line}`" for line in misuse.code.split("\n"))
        if misuse.harmless:
            got = f"harmless: {misuse.harmless}"
        elif misuse.error:
            got = f"an error: *{misuse.error}*"
        else:
            got = f"the slot does not succeed: it is *{misuse.outcome}*, after its retries"
        rows.append(f"| {code} | {got} |")
    return "\n".join(rows)


def test_the_page_has_the_table() -> None:
    assert table() in PAGE.read_text(), "python -m tests.runtime.effects.test_misuse prints it"


if __name__ == "__main__":
    print(table())
