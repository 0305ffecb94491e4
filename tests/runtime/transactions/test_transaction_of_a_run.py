"""Runs that complete in the user's own database: before the body, when the holder is gone, and when it was only paused.
(What it is to each driver and database is in the files beside this one.)"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from cronce import Cronce
from cronce.errors import (
    AlreadyDone,
    BadInput,
    BadPolicy,
    CronceError,
    DatabaseUnavailable,
    InDoubt,
    LeaseLost,
    TimedOut,
)
from cronce.model import Slot
from cronce.protocol.commands import Busy, Held
from cronce.protocol.record import COMMITTED, Outcome, State
from cronce.protocol.retention import OUTCOMES, Keep, Limit
from cronce.runtime.declare import Declaration
from cronce.runtime.jobs import _tidied
from cronce.runtime.keeper import LeaseEnd
from cronce.runtime.ledger import Wanted
from cronce.runtime.operations import Operator
from cronce.runtime.run import Run, Skipped
from cronce.runtime.transactions.database import Settling
from tests.house.wait import wait_until
from tests.runtime.office import Office, dies, job, watch
from tests.runtime.shelf import START, Wire

NOON = Slot("billing", START)
FEW = Keep(dict.fromkeys(OUTCOMES, Limit(age=timedelta(seconds=1))), least=timedelta(0))
LEASE = {"lease": "10s"}


class Books:
    """The user's database: a table, and a connection to it."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self.conn = sqlite3.connect(path)
        self.conn.execute("create table charges (invoice)")
        self.conn.commit()

    def charge(self, run: Run, invoice: int = 1, step: str = "") -> None:
        with run.transaction(self.conn, step, per="slot") as tx:
            tx.execute("insert into charges values (?)", (invoice,))

    @property
    def charges(self) -> list[int]:
        return [invoice for (invoice,) in self.conn.execute("select invoice from charges order by invoice")]


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Books]:
    books = Books(tmp_path / "books.db")
    with closing(books.conn):
        yield books


@pytest.fixture
def billing(books: Books) -> Iterator[Callable[..., Declaration]]:
    made: list[Declaration] = []

    def declared(**policies: Any) -> Declaration:
        made.append(job(transaction=books.url, **LEASE, **policies))
        return made[-1]

    yield declared
    for one in made:
        assert one.database is not None
        one.database.close()


def settle(office: Office, declared: Declaration) -> None:
    assert declared.database is not None
    office.node.do(declared.database.settle_gone(office.node.ledger, [NOON.cell]))


@pytest.fixture
def other(store: Wire) -> Office:
    """Another process, which watches the store's clock."""
    office = Office(store)
    office.call(job("other"), lambda _run: None)
    return office


# --- committed, and never said so -------------------------------------------------------------------------------------


def _commits_and_dies(store: Wire, books: Books, declared: Declaration) -> None:
    dead = Office(store)

    def body(run: Run) -> None:
        books.charge(run)
        dies(dead)

    with pytest.raises(CronceError):
        dead.call(declared, body, when=NOON)


def test_a_commit_without_a_finish_is_settled_as_succeeded_and_not_as_lost(
    store: Wire, other: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    declared = billing(on_lost="skip")
    _commits_and_dies(store, books, declared)
    watch(other, 12)
    settle(other, declared)
    record = other.record(NOON)
    assert (record.outcome, record.reason, books.charges) == (Outcome.SUCCEEDED, COMMITTED, [1])


def test_the_next_call_of_the_job_settles_it(
    store: Wire, other: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    declared = billing(on_lost="skip")
    _commits_and_dies(store, books, declared)
    watch(other, 12)
    told = other.call(declared, lambda run: books.charge(run, 2), when=NOON)
    assert isinstance(told, Skipped)
    assert (told.outcome, books.charges) == ("succeeded", [1])
    other.hand.turn(15 * 60)
    other.call(declared, lambda run: books.charge(run, 2))
    assert books.charges == [1, 2]


def test_a_scheduler_settles_it_beside_its_other_work(
    store: Wire, other: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    declared = billing(on_lost="skip")
    _commits_and_dies(store, books, declared)
    watch(other, 12)
    assert declared.database is not None
    Settling(other.node).soon(declared.database, NOON.cell)
    wait_until(lambda: other.record(NOON).outcome is Outcome.SUCCEEDED)


def test_under_rerun_the_next_run_finds_it_done_and_runs_nothing(
    store: Wire, other: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    declared = billing(on_lost="rerun")
    _commits_and_dies(store, books, declared)
    watch(other, 12)
    ran: list[str] = []
    other.call(declared, lambda run: ran.append(run.key), when=NOON)
    record = other.record(NOON)
    assert (record.outcome, record.reason, ran, books.charges) == (Outcome.SUCCEEDED, COMMITTED, [], [1])


def test_a_body_that_fails_after_its_commit_has_succeeded_and_is_not_run_again(
    office: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    def body(run: Run) -> None:
        books.charge(run)
        raise ValueError("afterwards")

    declared = billing(retries=3, backoff="1ms")
    with pytest.raises(ValueError, match="afterwards"):
        office.call(declared, body, when=NOON)
    assert office.record(NOON).outcome is Outcome.SUCCEEDED
    office.hand.turn(1)
    assert isinstance(office.call(declared, body, when=NOON), Skipped)
    assert books.charges == [1]


def test_steps_do_not_complete_the_run_and_are_not_repeated_by_the_next(
    office: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    def body(run: Run) -> None:
        for invoice in range(1, 4):
            with suppress(AlreadyDone):
                books.charge(run, invoice, f"invoice:{invoice}")
            if run.attempt < invoice:
                raise ValueError

    declared = billing(retries=5, backoff="1ms")
    for _ in range(3):
        try:
            office.call(declared, body, when=NOON)
        except ValueError:
            office.hand.turn(1)
    assert (books.charges, office.record(NOON).grant, office.record(NOON).outcome) == (
        [1, 2, 3], 3, Outcome.SUCCEEDED,
    )  # fmt: skip


def test_two_runs_of_a_process_do_not_share_a_connection(
    office: Office, books: Books, billing: Callable[..., Declaration], other: Office
) -> None:
    """The commit of one would be that of the other, too."""
    declared = billing(overlap="allow")
    later = Slot("billing", START.replace(minute=15))
    other.hand.turn(15 * 60)

    def body(run: Run) -> None:
        with run.transaction(books.conn) as tx:
            with pytest.raises(BadInput, match="this connection is in another transaction of a run"):
                other.call(declared, lambda second: books.charge(second, 2), when=later)
            tx.execute("insert into charges values (1)")

    office.call(declared, body, when=NOON)
    assert books.charges == [1]
    assert other.record(later).outcome is Outcome.FAILED


# --- committed, though the run thinks that it failed -----------------------------------------------------------------


class Broken(Exception):
    """What is raised by a commit that was carried out."""


def _commits_and_raises(conn: Any) -> Any:
    """A connection whose commit is carried out, and says that it was not."""

    class Wrong(sqlite3.Connection):
        def commit(self) -> None:
            super().commit()
            raise Broken("from a hook")

    return sqlite3.connect(conn, factory=Wrong)


def test_before_a_run_is_put_on_record_as_failed_its_database_is_asked(
    office: Office, books: Books, billing: Callable[..., Declaration], tmp_path: Path
) -> None:
    conn = _commits_and_raises(tmp_path / "books.db")

    def body(run: Run) -> None:
        with run.transaction(conn) as tx:
            tx.execute("insert into charges values (1)")

    with closing(conn), pytest.raises(Broken):
        office.call(billing(), body, when=NOON)
    record = office.record(NOON)
    assert (record.outcome, record.reason, books.charges) == (
        Outcome.SUCCEEDED, f"{COMMITTED}; then Broken: from a hook", [1],
    )  # fmt: skip


def test_a_run_that_failed_cannot_be_committed_later(
    office: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    kept: list[Run] = []

    def body(run: Run) -> None:
        kept.append(run)
        with run.transaction(books.conn):
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        office.call(billing(), body, when=NOON)
    (run,) = kept
    run.check = lambda: None  # type: ignore[method-assign]
    with pytest.raises(LeaseLost, match="may not commit under its fence"):
        books.charge(run)
    assert (office.record(NOON).outcome, books.charges) == (Outcome.FAILED, [])


def test_if_nobody_can_say_whether_it_was_committed_the_run_stays_open_for_whoever_asks_later(
    office: Office,
    other: Office,
    books: Books,
    billing: Callable[..., Declaration],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cronce.runtime.transactions.database.WAIT", 0.1)
    conn, declared = _commits_and_raises(tmp_path / "books.db"), billing(on_lost="skip")
    blocker = sqlite3.connect(tmp_path / "books.db", isolation_level=None)

    def body(run: Run) -> None:
        try:
            with run.transaction(conn) as tx:
                tx.execute("insert into charges values (1)")
        finally:
            blocker.execute("begin immediate")

    with closing(conn), closing(blocker):
        with pytest.raises(Broken):
            office.call(declared, body, when=NOON)
        assert office.record(NOON).state is State.RUNNING
    watch(other, 12)
    settle(other, declared)
    assert (other.record(NOON).outcome, books.charges) == (Outcome.SUCCEEDED, [1])


def test_a_stop_that_comes_while_the_block_begins_leaves_nothing_behind(
    office: Office, books: Books, billing: Callable[..., Declaration], tmp_path: Path
) -> None:
    runs: list[Run] = []

    class Stopping(sqlite3.Connection):
        def cursor(self, *args: Any, **named: Any) -> Any:
            if runs and runs[-1].trusted:
                office.keeper.end(runs[-1]._lease, LeaseEnd("drained", "it is drained"))
            return super().cursor(*args, **named)

    conn = sqlite3.connect(tmp_path / "books.db", factory=Stopping)

    def body(run: Run) -> None:
        runs.append(run)
        with run.transaction(conn) as tx:
            tx.execute("insert into charges values (1)")

    declared = billing(on_lost="rerun")
    with closing(conn):
        with pytest.raises(LeaseLost, match="it is drained"):
            office.call(declared, body, when=NOON)
        assert (conn.in_transaction, books.charges) == (False, [])
        runs.clear()
        office.call(declared, lambda run: books.charge(run, 2), when=NOON)
    assert books.charges == [2]


def test_a_stop_does_not_cut_a_commit_in_two(
    office: Office, books: Books, billing: Callable[..., Declaration], tmp_path: Path
) -> None:
    runs: list[Run] = []

    class Slow(sqlite3.Connection):
        def commit(self) -> None:
            office.keeper.end(runs[0]._lease, LeaseEnd("timed out", "timed out after 1s"))
            for _ in range(100):
                pass
            super().commit()

    conn = sqlite3.connect(tmp_path / "books.db", factory=Slow)

    def body(run: Run) -> None:
        runs.append(run)
        with run.transaction(conn) as tx:
            tx.execute("insert into charges values (1)")

    with closing(conn), pytest.raises(TimedOut):
        office.call(billing(), body, when=NOON)
    assert (runs[0].committed, office.record(NOON).outcome, books.charges) == (True, Outcome.SUCCEEDED, [1])


def test_a_doubt_outweighs_a_commit(office: Office, books: Books, billing: Callable[..., Declaration]) -> None:
    def body(run: Run) -> None:
        with suppress(InDoubt):
            run.once("mail", lambda: 1 / 0, per="slot")
        books.charge(run)

    office.call_failing(billing(), body, when=NOON)
    assert (office.record(NOON).outcome, books.charges) == (Outcome.UNKNOWN, [1])


def test_what_is_not_needed_any_more_is_deleted_there_too(
    office: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    declared = billing()
    office.call(declared, books.charge, when=NOON)
    for _ in range(3):
        office.node.do(office.node.ledger.jobs.purge("billing", FEW))
        office.hand.turn(61)
    office.hand.turn(timedelta(days=31).total_seconds())
    office.node.do(office.node.ledger.overdue())
    _tidied(office.keeper, declared, office.store)
    assert books.conn.execute("select count(*) from cronce_effects").fetchone() == (0,)


# --- not committed ----------------------------------------------------------------------------------------------------


def test_a_run_that_was_closed_as_lost_cannot_commit_when_it_wakes_up(
    store: Wire, other: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    declared = billing(on_lost="skip")
    paused = Office(store)

    def body(run: Run) -> None:
        watch(other, 12)
        settle(other, declared)
        run._lease.check = lambda: None  # type: ignore[method-assign]  # it was paused right after it had asked
        books.charge(run)

    with pytest.raises(CronceError, match="may not commit under its fence"):
        paused.call(declared, body, when=NOON)
    assert (other.record(NOON).outcome, books.charges) == (Outcome.LOST, [])


def test_a_run_that_was_taken_over_cannot_commit_and_the_later_one_can(
    store: Wire, other: Office, books: Books, billing: Callable[..., Declaration], tmp_path: Path
) -> None:
    declared = billing(on_lost="rerun")
    paused = Office(store)
    conn = sqlite3.connect(tmp_path / "books.db")

    def body(run: Run) -> None:
        watch(other, 12)
        other.call(declared, lambda later: books.charge(later, 2), when=NOON)
        run._lease.check = lambda: None  # type: ignore[method-assign]  # it was paused right after it had asked
        with run.transaction(conn) as tx:
            tx.execute("insert into charges values (1)")

    with closing(conn), pytest.raises(CronceError, match="may not commit under its fence"):
        paused.call(declared, body, when=NOON)
    assert (other.record(NOON).outcome, books.charges) == (Outcome.SUCCEEDED, [2])


def test_one_that_lives_is_neither_sealed_nor_closed(
    office: Office, books: Books, billing: Callable[..., Declaration], other: Office
) -> None:
    declared = billing(on_lost="skip")

    def body(run: Run) -> None:
        watch(other, 5)
        settle(other, declared)
        books.charge(run)

    office.call(declared, body, when=NOON)
    assert (office.record(NOON).outcome, office.record(NOON).reason, books.charges) == (Outcome.SUCCEEDED, "", [1])


def test_a_claim_alone_never_closes_such_a_run_as_lost(
    store: Wire, other: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    """Neither of the slot itself, nor of the next one, which waits for its turn."""
    declared = billing(on_lost="skip")
    _commits_and_dies(store, books, declared)
    watch(other, 12)
    later = Slot("billing", START.replace(minute=15))
    other.hand.turn(15 * 60)
    for carried, (slot, answer) in product((declared, job(**LEASE)), ((NOON, Held), (later, Busy))):
        wanted = Wanted(slot, carried.terms(slot, inferred=False))  # also by a process that knows of no database
        assert isinstance(other.node.do(other.node.ledger.claim([wanted]))[0], answer)
    other.node.do(Operator(other.node.ledger, "ada").cancel(NOON))
    assert other.record(NOON).state is State.RUNNING
    settle(other, declared)
    other.call(declared, lambda run: books.charge(run, 2), when=later)
    assert books.charges == [1, 2]


def test_a_database_that_does_not_answer_keeps_the_body_from_running_and_the_slot_is_given_back(
    office: Office, tmp_path: Path
) -> None:
    ran: list[str] = []
    declared = job(transaction=f"sqlite:///{tmp_path}/missing/books.db", retries=0, on_lost="skip")
    with pytest.raises(DatabaseUnavailable, match=r"books\.db, in which the run commits, did not answer"):
        office.call(declared, lambda run: ran.append(run.key), when=NOON)
    assert (ran, office.record(NOON).state) == ([], State.DUE)


def test_a_database_that_does_not_answer_keeps_a_run_open_whose_holder_is_gone(
    store: Wire,
    other: Office,
    books: Books,
    billing: Callable[..., Declaration],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    declared = billing(on_lost="skip")
    _commits_and_dies(store, books, declared)
    watch(other, 12)
    (tmp_path / "books.db").rename(tmp_path / "moved.db")
    (tmp_path / "books.db").mkdir()
    away = job(transaction=books.url, on_lost="skip", **LEASE)
    assert away.database is not None
    Settling(other.node).soon(away.database, NOON.cell)
    wait_until(lambda: "stays open, although its holder is gone" in caplog.text)
    assert other.record(NOON).state is State.RUNNING


def test_a_block_in_a_block_is_refused_and_nothing_is_committed(
    office: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    def body(run: Run) -> None:
        with run.transaction(books.conn, step="outer", per="slot") as tx:
            tx.execute("insert into charges values (1)")
            books.charge(run, 2, "inner")

    with pytest.raises(BadInput, match="this connection is in another transaction of a run"):
        office.call(billing(), body, when=NOON)
    assert books.charges == []


# --- as it is declared ------------------------------------------------------------------------------------------------


def test_a_transaction_needs_a_declared_database(office: Office, books: Books) -> None:
    with pytest.raises(BadInput, match=r"add it: @cron\.job"):
        office.call(job(), books.charge)


@pytest.mark.parametrize("table", ["there too", "missing"])
def test_a_connection_to_another_database_is_refused_and_nothing_is_written(
    office: Office, billing: Callable[..., Declaration], tmp_path: Path, table: str
) -> None:
    other = Books(tmp_path / "other.db")
    if table == "there too":
        other.conn.execute("create table cronce_effects (slot, step, fence, done)")
        other.conn.commit()
    with closing(other.conn):
        with pytest.raises(BadInput, match="this connection is to another database than the job's transaction="):
            office.call(billing(), other.charge)
        assert other.charges == []


def test_one_connection_is_no_database(books: Books) -> None:
    with pytest.raises(BadPolicy, match="is a single connection, and several are needed; give a URL"):
        job(transaction=books.conn)


def test_the_stores_own_file_is_refused(tmp_path: Path) -> None:
    with Cronce(f"sqlite:///{tmp_path}/cronce.db") as cron, pytest.raises(BadPolicy, match="store"):
        cron.job("@hourly", name="a", transaction=f"sqlite:///{tmp_path}/cronce.db")(lambda: None)


def test_a_job_in_the_store_has_no_database(tmp_path: Path) -> None:
    with Cronce(f"sqlite:///{tmp_path}/cronce.db") as cron, pytest.raises(BadInput, match="a URL may hold a password"):
        cron.add("a", "@hourly", function="app:mail", transaction="postgresql://u:secret@h/d")


def test_the_database_is_no_part_of_what_tells_versions_apart(books: Books) -> None:
    assert job().spec == job(transaction=books.url).spec


def test_jobs_that_name_the_same_database_share_it_and_closing_hangs_up(books: Books, tmp_path: Path) -> None:
    with Cronce(f"sqlite:///{tmp_path}/cronce.db") as cron:

        @cron.job(None, name="a", transaction=books.url)
        def charge(run: Run) -> None:
            books.charge(run)

        cron.job(None, name="b", transaction=books.url)(lambda: None)
        charge(slot="2026-03-29T12:00:00Z")  # type: ignore[call-arg]
        database = cron.jobs["a"].database
        assert database is not None
        assert database is cron.jobs["b"].database
        assert len(database._kept) == 1
    assert (database._kept, books.charges) == ([], [1])


# --- once for a thing -------------------------------------------------------------------------------------------------


def charge_thing(books: Books, run: Run, invoice: int = 7) -> None:
    with run.on("invoice", invoice).transaction(books.conn, "charge") as tx:
        tx.execute("insert into charges values (?)", (invoice,))


def test_a_thing_is_committed_once_whichever_slot_and_job_reaches_it(
    office: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    declared = billing()
    office.call(declared, lambda run: charge_thing(books, run))
    for later in (declared, declared._replace(name="dunning")):
        office.hand.turn(15 * 60)
        with pytest.raises(AlreadyDone, match="charge of invoice:7 was committed before"):
            office.call(later, lambda run: charge_thing(books, run))
    assert books.charges == [7]
    rows = books.conn.execute("select slot, step from cronce_effects where step <> ''").fetchall()
    assert rows == [("charge", "invoice:7")]


def test_two_things_and_two_names_are_committed_each(
    office: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    def body(run: Run) -> None:
        for invoice in (7, 8):
            charge_thing(books, run, invoice)
        with run.on("invoice", 7).transaction(books.conn, "remind") as tx:
            tx.execute("insert into charges values (70)")

    office.call(billing(), body)
    assert books.charges == [7, 8, 70]


def test_of_two_runs_at_one_thing_at_the_same_time_one_commits(
    store: Wire, tmp_path: Path, books: Books, billing: Callable[..., Declaration]
) -> None:
    """Each has looked before the other committed."""
    first, second, declared = Office(store), Office(store), billing()

    def body(run: Run) -> None:
        with run.on("invoice", 7).transaction(books.conn, "charge") as tx:
            with closing(sqlite3.connect(tmp_path / "books.db")) as mine:
                second.call(declared._replace(name="dunning"), partial(_charge_beside, mine))
            tx.execute("insert into charges values (1)")

    with pytest.raises(AlreadyDone, match="charge of invoice:7 was committed before"):
        first.call(declared, body)
    assert books.charges == [2]


def _charge_beside(conn: sqlite3.Connection, run: Run) -> None:
    with run.on("invoice", 7).transaction(conn, "charge") as tx:
        tx.execute("insert into charges values (2)")


def test_what_a_slot_and_a_thing_commit_is_told_apart(
    office: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    declared, done = billing(), []

    def body(run: Run) -> None:
        with run.transaction(books.conn, "invoice:7", per="slot") as tx:
            tx.execute("insert into charges values (1)")
        with suppress(AlreadyDone):
            charge_thing(books, run)
            done.append(run.slot)

    for _ in range(2):
        office.call(declared, body)
        office.hand.turn(15 * 60)
    assert (books.charges, len(done)) == ([1, 1, 7], 1)


def test_purging_the_slots_of_a_job_leaves_what_was_done_to_things(
    office: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    declared = billing()
    office.call(declared, lambda run: charge_thing(books, run))
    assert declared.database is not None
    declared.database.purge("charge", START + timedelta(days=400))
    declared.database.purge("billing", START + timedelta(days=400))
    rows = books.conn.execute("select slot, step from cronce_effects").fetchall()
    assert rows == [("charge", "invoice:7")]


# --- a failure that nobody made anything of is no success -------------------------------------------------------------


@pytest.mark.parametrize("step", ["", "totals", "thing"])
def test_a_transaction_whose_error_was_swallowed_is_not_a_success(
    office: Office, books: Books, billing: Callable[..., Declaration], step: str
) -> None:
    """Of the issue: rows were missing, and the slot succeeded."""

    def body(run: Run) -> str:
        joined = (
            run.on("invoice", 7).transaction(books.conn, "charge") if step == "thing"
            else run.transaction(books.conn, step, per="slot")
        )  # fmt: skip
        with suppress(Exception), joined as tx:
            tx.execute("insert into nowhere values (1)")
        return "went on"

    assert "no such table: nowhere" in office.call_failing(billing(), body, when=NOON)
    what = {"": NOON.key, "totals": f"the step 'totals' of {NOON.key}", "thing": "charge of invoice:7"}[step]
    record = office.record(NOON)
    assert (record.outcome, record.reason) == (
        Outcome.FAILED, f"{what} is not done: OperationalError: no such table: nowhere",
    )  # fmt: skip


@pytest.mark.parametrize("pending", ["refused", "another error"])
def test_a_run_that_began_no_transaction_is_closed_at_once_whatever_its_connection_holds(
    office: Office, books: Books, billing: Callable[..., Declaration], pending: str
) -> None:
    """Its own connection kept the database locked, so it could not be asked whether it was committed: its slot was
    running for a whole lease after its process had ended."""

    def body(run: Run) -> None:
        books.conn.execute("insert into charges values (7)")
        if pending == "refused":
            with run.transaction(books.conn):
                pass
        raise ValueError("not written yet")

    with pytest.raises(ValueError, match=r"not committed yet|not written yet"):  # BadInput is one, too
        office.call(billing(), body, when=NOON)
    assert office.record(NOON).outcome is Outcome.FAILED


def test_one_that_was_committed_in_a_second_try_is_a_success(
    office: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    def body(run: Run) -> None:
        for table in ("nowhere", "charges", "charges"):
            with suppress(sqlite3.Error, AlreadyDone), run.on("invoice", 7).transaction(books.conn, "charge") as tx:
                tx.execute(f"insert into {table} values (7)")

    office.call(billing(), body, when=NOON)
    assert (office.record(NOON).outcome, books.charges) == (Outcome.SUCCEEDED, [7])


def test_a_forgotten_with_is_an_error_at_the_end_of_the_run(
    office: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    def body(run: Run) -> None:
        run.on("invoice", 7).transaction(books.conn, "charge")

    with pytest.raises(
        BadInput, match="the transaction for charge of invoice:7 was never entered, and committed nothing: write `with`"
    ):
        office.call(billing(), body, when=NOON)
    assert office.record(NOON).outcome is Outcome.FAILED


def test_writes_before_the_transaction_are_refused_and_named(
    office: Office, books: Books, billing: Callable[..., Declaration]
) -> None:
    """They were committed with the run's, and once more by each repeat."""

    def body(run: Run) -> None:
        books.conn.execute("insert into charges values (1)")
        books.charge(run, 2)

    with pytest.raises(BadInput, match="has writes that are not committed yet"):
        office.call(billing(), body, when=NOON)
    books.conn.rollback()
    assert books.charges == []
