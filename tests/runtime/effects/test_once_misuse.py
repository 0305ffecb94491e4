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


BOTH = "does not say what must happen only once"
NAME = "cannot be the key of an effect"
TABLE: Final = (
    # --- what must happen only once, and for how long? ---
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
        "the name 'do' is already used for another function",
        calls=("paid",),
    ),
    Misuse(
        'run.once(7, pay, per="slot"); run.once(7, write, per="slot")',
        "is already used for another function",
        calls=("paid",),
    ),
    Misuse(
        'run.once_each([7], key=int, fn=pay, per="slot"); run.once_each([7], key=int, fn=write, per="slot")',
        "is already used for another function",
        calls=("paid",),
    ),
    Misuse(
        'cron.idempotent("p", key=str)(pay); cron.idempotent("p", key=str)(write)',
        "the name 'p' is already used for another function",
    ),
    Misuse(
        'run.once_each([7, 7], on="invoice", key=int, what="charge", fn=pay)', "two items have the key", calls=("paid",)
    ),
    # --- names and ids ---
    Misuse('run.on("invoice:7", 1).once("charge", pay)', "cannot be a kind of thing"),
    Misuse('run.on("an invoice", 7).once("charge", pay)', "cannot be a name"),
    Misuse('run.on("invoice", 7.5).once("charge", pay)', NAME),
    Misuse('run.on("invoice", None).once("charge", pay)', NAME),
    Misuse('cron.idempotent("charge", key=lambda order: ("order", order))(pay)(None)', NAME),
    Misuse('run.on("invoice", "").once("charge", pay)', NAME),
    Misuse('run.on("invoice", {"id": 7}).once("charge", pay)', NAME),
    Misuse('run.on("invoice", "x" * 600).once("charge", pay)', "the key of an effect may have 500 at most"),
    Misuse('run.on("invoice", 7).once("charge/7", pay)', "cannot be a name"),
    Misuse('run.on("invoice", 7).once(7, pay)', "cannot be a name"),
    Misuse('run.on(7).once("charge", pay)', "missing 1 required positional argument"),
    # --- what is called ---
    Misuse('run.on("invoice", 7).once(pay)', "missing 1 required positional argument"),
    Misuse('run.on("invoice", 7).once("charge", pay())', "cannot be called", calls=("paid",)),
    Misuse('run.on("invoice", 7).once("charge", pay, 1, 2, 3)', "cannot be called"),
    Misuse('run.on("invoice", 7).once("charge", coroutine)', "must be awaited: make the job function `async def`"),
    Misuse('run.on("invoice", 7).once("charge", lambda: coroutine())', "and none of it has run"),
    Misuse('run.on("invoice", 7).once("charge", generator)', "and none of it has run"),
    Misuse('run.once_each([7], on="invoice", key="id", what="charge", fn=pay)', "cannot be called"),
    Misuse('run.once_each(7, on="invoice", key=int, what="charge", fn=pay)', "is not iterable"),
    Misuse('run.on("invoice", 7).once("charge", pay, unsure="maybe")', "unsure"),
    Misuse(
        'run.on("invoice", 7).once("charge", pay, not_done="Timeout")',
        "not_done is an exception class or a tuple of them",
    ),
    Misuse('run.on("invoice", 7).once("charge", object)', "is done, but its result cannot be stored"),
    # --- errors that are swallowed ---
    Misuse(
        'with suppress(Exception): run.on("invoice", 7).once("charge", fails)', outcome="unknown", calls=("failed",)
    ),
    Misuse('with suppress(Exception): run.on("invoice", 7).once("charge", fails, unsure="retry")', calls=("failed",)),
    Misuse('with suppress(Exception): run.on("invoice", 7).once("charge", fails, not_done=OSError)', calls=("failed",)),
    Misuse(
        'with suppress(Exception): cron.idempotent("mail", key=lambda: 7)(fails)()',
        outcome="unknown",
        calls=("failed",),
    ),
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
        "has writes that are not committed yet",
    ),
    Misuse("with run.transaction(conn): conn.commit()", "did not last to the end of its block"),
    Misuse('with run.transaction("books.db"): pass', "cannot be joined"),
    Misuse("conn.close()\nwith run.transaction(conn): pass", "Cannot operate on a closed database"),
    Misuse(
        "with run.transaction(conn): pass\nwith run.transaction(conn): pass",
        "was committed before; several transactions in one run need names",
        outcome="succeeded",
    ),
    # --- the cursor ---
    Misuse("run.cursor.set(object())", "a cursor must be"),
    Misuse("for order in run.cursor.over([2, 1], at=lambda order: order): pass", "would skip items"),
    Misuse('for order in run.cursor.over([1], at="id"): pass', "is not a function of an item"),
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


class Tried(NamedTuple):
    """What the caller was told, how the slot ended and why, and which functions were called."""

    told: str
    outcome: str
    reason: str
    calls: tuple[str, ...]


def tried(home: Path, books: sqlite3.Connection, code: str) -> Tried:
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

    with Cronce(f"sqlite:///{home}/cronce.db") as cron:
        known = {"cron": cron, "conn": books, "pay": pay, "write": write, "fails": fails, "coroutine": coroutine}
        known |= {"generator": generator, "suppress": suppress, "InDoubt": InDoubt, "partial": partial}

        @cron.job(None, name="billing", transaction=f"sqlite:///{home}/books.db")
        def billing(run: Run) -> None:
            exec(code, {**known, "run": run})

        told = ""
        try:
            billing.at(SLOT)()
        except Exception as error:
            told = "".join(traceback.format_exception_only(error))
    with closing(open_store(f"sqlite:///{home}/cronce.db")) as store:
        (cell,) = store.load([f"run/billing/{SLOT}"]).cells
    record = decode(cell.value)
    return Tried(told, record.outcome or "", record.reason, tuple(calls))


@pytest.mark.parametrize("misuse", TABLE, ids=lambda misuse: misuse.code)
def test_no_wrong_use_is_silent(tmp_path: Path, books: sqlite3.Connection, misuse: Misuse) -> None:
    seen = tried(tmp_path, books, misuse.code)
    assert misuse.error in seen.told
    assert bool(seen.told) == (not misuse.harmless)
    assert (seen.outcome, seen.calls) == (misuse.outcome, misuse.calls)


SWALLOWED: Final = [
    misuse
    for misuse in TABLE
    if misuse.error
    and misuse.outcome != "succeeded"  # it is committed, and stays so
    and not misuse.code.startswith('cron.idempotent("p"')  # it is declared, and nothing asked for
    and misuse.error != "is done, but its result cannot be stored"
]


@pytest.mark.parametrize("misuse", SWALLOWED, ids=lambda misuse: misuse.code)
def test_a_refusal_that_is_caught_does_not_make_a_slot_succeed(
    tmp_path: Path, books: sqlite3.Connection, misuse: Misuse
) -> None:
    """The slot was succeeded, nothing was logged, and the effect had never happened. A write that was pending left it
    running for a whole lease."""
    lines = "".join(f"\n    {line}" for line in misuse.code.split("\n"))
    seen = tried(tmp_path, books, f"with suppress(Exception):{lines}")
    assert (seen.outcome, seen.calls) == (misuse.outcome, misuse.calls)
    assert misuse.error in seen.reason
    assert misuse.error in seen.told


@pytest.mark.parametrize("verb", ["fails", "fails, unsure='retry'", "fails, not_done=OSError"])
def test_who_calls_hears_that_a_slot_did_not_succeed_though_its_function_returned(
    tmp_path: Path, books: sqlite3.Connection, verb: str
) -> None:
    """The call returned None, and a crontab saw exit code 0."""
    seen = tried(tmp_path, books, f'with suppress(Exception): run.on("invoice", 7).once("charge", {verb})')
    assert seen.told.startswith("cronce.errors.SlotFailed: billing@2026-03-29T12:00:00Z ")
    assert "though its job function returned: " in seen.told
    assert "charge/invoice:7" in seen.told
    assert "OSError: no answer" in seen.told


def test_what_was_refused_stays_so_whatever_is_done_afterwards(tmp_path: Path, books: sqlite3.Connection) -> None:
    once = 'run.on("invoice", 7).once("charge", {})'
    swallowed = f"with suppress(Exception): {once.format('write')}"
    seen = tried(tmp_path, books, f"{once.format('pay')}\n{swallowed}\n{once.format('pay')}")
    assert (seen.outcome, seen.calls) == ("failed", ("paid",))
    assert seen.reason.endswith(".write would be skipped: use another name")


def test_what_failed_and_is_done_by_a_second_try_is_done(tmp_path: Path, books: sqlite3.Connection) -> None:
    once = 'run.on("invoice", 7).once("charge", partial(act, {}), unsure="retry")'
    act = "def act(fn): return fn()"
    lines = [act, *(f"with suppress(Exception): {once.format('fails')}" for _ in "12"), once.format("pay")]
    seen = tried(tmp_path, books, "\n".join(lines))
    assert (seen.told, seen.outcome, seen.calls) == ("", "succeeded", ("failed", "failed", "paid"))


@pytest.mark.parametrize("unsure", ["raise", "retry"])
def test_an_item_without_an_id_is_not_passed_over_in_silence(
    tmp_path: Path, books: sqlite3.Connection, unsure: str
) -> None:
    each = f'run.once_each([103, None], on="invoice", key=lambda id: id, what="charge", fn=pay, unsure={unsure!r})'
    seen = tried(tmp_path, books, f"with suppress(Exception): {each}")
    assert (seen.outcome, NAME in seen.reason) == ("failed", True)


def test_a_job_that_declares_a_transaction_and_uses_none_is_told_so_once(
    tmp_path: Path, books: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    with Cronce(f"sqlite:///{tmp_path}/cronce.db") as cron:

        @cron.job(None, name="totals", transaction=f"sqlite:///{tmp_path}/books.db")
        def totals(run: Run) -> None:
            books.execute("insert into charges values (7)")
            books.commit()

        totals.at("2026-03-29T12:00:00Z")()
        totals.at("2026-03-29T13:00:00Z")()
    assert caplog.text.count("did not use run.transaction") == 1


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
            got = f"`SlotFailed`: the slot is *{misuse.outcome}*, after its retries"
        rows.append(f"| {code} | {got} |")
    return "\n".join(rows)


def test_the_page_has_the_table() -> None:
    assert table() in PAGE.read_text(), "python -m tests.runtime.effects.test_once_misuse prints it"


if __name__ == "__main__":
    print(table())
