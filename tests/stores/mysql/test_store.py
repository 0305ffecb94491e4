"""What the MySQL store does beyond the contract, on one server that stays up."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from cronce.clock import SystemClock
from cronce.errors import (
    BadInput,
    StoreUnavailable,
)
from cronce.model import FREE, Cell, Mark, Origin, Refusal, Write, to_us
from cronce.stores import mysql
from cronce.stores.base import Scan
from cronce.stores.mysql import READ_SQL, SWAP_SQL, MysqlStore, scan_statement, server
from cronce.stores.mysql.schema import NOW
from cronce.stores.mysql.server import MySqlConnection, locate
from cronce.stores.sql import AFTER_ALL_INSTANTS, BEFORE_ALL_INSTANTS, bounds
from cronce.testing.contract import DAY, HOUR, cell_of, change, claim, put, refusals, swap, win
from tests.house.wait import PATIENCE, wait_until
from tests.stores.forks import Child
from tests.stores.mysql.opening import opened

# --- text and size --------------------------------------------------------------------------------------------------


def test_keys_have_a_length_and_are_any_text(store: MysqlStore) -> None:
    keys = ["\0", "k" * 1000, "𝄞" * 250, "'; DROP TABLE cronce_cells; --", "%s %(wanted)s", "\\", "[\"'"]
    win(store, *(put(key, value=f"<{key}>") for key in keys))
    assert [cell.value for cell in store.load(keys).cells] == [f"<{key}>" for key in keys]
    for call in (lambda: store.load(["k" * 1001]), lambda: store.swap([put("ü" * 501)], (0, 0))):
        with pytest.raises(BadInput, match="at most 1000 bytes"):
            call()
    with pytest.raises(BadInput, match="not text that can be stored"):
        swap(store, put("a", value="\ud800"))


# --- the clock ------------------------------------------------------------------------------------------------------


def test_the_clock_is_utc_in_any_time_zone(url: str) -> None:
    connection = MySqlConnection(locate(url), None)
    (((there,),),) = connection.ask(f"SET time_zone = '+09:00'; SELECT {NOW}")
    connection.close()
    assert abs(there - to_us(datetime.now(UTC))) < 60_000_000  # zones are a quarter of an hour apart, or more


def test_a_swap_reads_the_clock_when_it_has_the_lock(url: str, sql: Any) -> None:
    found = []
    with opened(f"{url}?timeout=60") as store:
        sql.execute("BEGIN")
        sql.execute("SELECT * FROM cronce_meta FOR UPDATE")
        sql.nextset()
        waiting = threading.Thread(target=lambda: found.append(swap(store, claim("a"))))
        waiting.start()
        wait_for(sql, "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'", 1)
        sql.execute(f"SELECT {NOW}")
        ((released,),) = sql.fetchall()
        sql.execute("COMMIT")
        waiting.join()
    assert to_us(found[0].now) > released
    assert refusals(found[0]) == [None]


def wait_for(sql: Any, question: str, answer: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        sql.execute(question)
        if sql.fetchone() == (answer,):
            return
        assert time.monotonic() < deadline, question
        time.sleep(0.15)  # the server looks at its transactions anew every tenth of a second


def unanswered(ask: Callable[[], object]) -> str:
    """It gets no answer; why, says the server, if it comes to it in time."""
    with pytest.raises(StoreUnavailable) as late:
        ask()
    return str(late.value)


# --- locks and losers -----------------------------------------------------------------------------------------------


def test_a_loser_waits_for_no_lock_and_a_winner_not_for_ever(url: str, store: MysqlStore, sql: Any) -> None:
    with opened(f"{url}?timeout=2") as hasty:
        (cell,) = win(store, claim("a"))
        sql.execute("BEGIN")
        sql.execute("SELECT * FROM cronce_meta FOR UPDATE")
        sql.nextset()
        assert refusals(swap(store, claim("a"))) == [Refusal.VERSION]
        assert cell_of(store, "a") == cell
        kept = "locked by another client for too long, and nothing was written"
        wait_until(lambda: kept in unanswered(lambda: swap(hasty, claim("b"))))
        sql.execute("ROLLBACK")
        assert cell_of(store, "b") == Cell("b")
        assert refusals(swap(store, claim("b"))) == [None]


def test_a_swap_that_others_are_always_faster_than_gives_up_in_time(
    store: MysqlStore, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, boots = MySqlConnection.ask, [SystemClock().boot()]

    def outrun(connection: MySqlConnection, statements: str, **values: Any) -> Any:
        if statements == SWAP_SQL:
            boots.append(boots[-1] + 1)
            sql.execute("UPDATE cronce_cells SET version = version + 1 WHERE `key` = 'held'")
        return ask(connection, statements, **values)

    win(store, claim("held"))
    monkeypatch.setattr(server, "_boot", lambda: boots[-1])
    monkeypatch.setattr(MySqlConnection, "ask", outrun)
    with pytest.raises(StoreUnavailable, match=r"not done within 5 s; this process is too busy"):
        swap(store, claim("held"), claim("free"))
    assert len(boots) == 6
    assert cell_of(store, "free") == Cell("free")


def test_a_settled_loser_writes_nothing(store: MysqlStore, sql: Any) -> None:
    """Not a byte of the server's log; but MySQL gives each a number, and notes some of the numbers in 10 bytes."""
    allowed = 0 if "MariaDB" in server_version(sql) else 60
    win(store, claim("a"), claim("turn", group=1), claim("run", group=1))
    losers = [[claim("a")], [claim("new", group=1), claim("turn", group=1)], [claim("a"), claim("run")]]
    seen, deadline = store.load([]).epoch.seen, time.monotonic() + 30
    while True:
        before = quiet(sql)
        for batch in losers * 10:
            assert None not in refusals(store.swap(batch, seen))
        if log_position(sql) - before <= allowed:
            break
        assert time.monotonic() < deadline, "never once, so it is not the server's own business"
    win(store, claim("b"))
    assert log_position(sql) - before > 100


def server_version(sql: Any) -> str:
    sql.execute("SELECT VERSION()")
    ((version,),) = sql.fetchall()
    return str(version)


def log_position(sql: Any) -> int:
    sql.execute("SHOW ENGINE INNODB STATUS")  # MySQL counts late in its other places
    ((_, _, text),) = sql.fetchall()
    return int(text.partition("Log sequence number")[2].split()[0])


def quiet(sql: Any) -> int:
    """Where the log ends when the server has tidied up behind earlier writes."""
    deadline, position, same = time.monotonic() + PATIENCE, log_position(sql), 0
    while same < 10:
        assert time.monotonic() < deadline, "the server never rests"
        time.sleep(0.02)
        now = log_position(sql)
        position, same = now, same + 1 if now == position else 0
    return position


def test_a_client_that_stops_in_the_middle_of_a_swap_holds_no_lock(url: str, store: MysqlStore) -> None:
    """A batch as large as they come; its sender never reads the answer."""
    cells = win(store, *(claim(f"run/{number}", "x" * 10_000) for number in range(1000)))
    hope = mysql.expect_all_to_win([change(cell) for cell in cells], store.load([]).epoch.seen)
    assert hope is not None
    connection = MySqlConnection(locate(url), None)
    with connection.driver.cursor() as cursor:
        said = cursor.mogrify(SWAP_SQL, hope._asdict())
    connection.driver._execute_command(3, said)  # type: ignore[attr-defined]
    wait_until(lambda: cell_of(store, "run/999").value == "changed")  # it does not wait for its client
    win(store, claim("another"))
    connection.driver._force_close()  # type: ignore[attr-defined]


def test_nobody_is_told_what_is_not_on_disk_yet(url: str, store: MysqlStore, sql: Any) -> None:
    """A winner holds a named lock until its commit is flushed; here somebody else does."""
    with opened(f"{url}?timeout=2") as hasty:
        (cell,) = win(store, claim("a"))
        epoch = store.load([]).epoch
        sql.execute(f"SELECT GET_LOCK('cronce:{epoch.birth}:{epoch.tally}', 0)")
        assert sql.fetchone() == (1,)
        tells: list[Callable[[], object]] = [lambda: hasty.load(["a"]), lambda: hasty.swap([claim("a")], epoch.seen)]
        for tell in tells:
            wait_until(partial(not_flushed, tell))
        assert refusals(store.swap([claim("b")], epoch.seen)) == [None]  # its own commit flushes all before it
        assert cell_of(store, "a") == cell


def not_flushed(tell: Callable[[], object]) -> bool:
    return "has not flushed its log for 1 s" in unanswered(tell)


def test_a_winner_holds_its_named_lock_over_the_commit() -> None:
    lock, commit, release = (SWAP_SQL.index(word) for word in ("GET_LOCK", "COMMIT", "RELEASE_ALL_LOCKS"))
    assert SWAP_SQL.index("UPDATE cronce_meta") < lock < commit < release


# --- round trips and plans ------------------------------------------------------------------------------------------


def test_a_call_is_one_round_trip(store: MysqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    trips = 0
    ask = MySqlConnection.ask

    def counted(connection: MySqlConnection, statements: str, **values: Any) -> Any:
        nonlocal trips
        trips += 1
        return ask(connection, statements, **values)

    monkeypatch.setattr(MySqlConnection, "ask", counted)
    seen = store.load([]).epoch.seen
    thousand = [claim(f"run/{number}", group=number // 2) for number in range(1000)]
    cases: list[tuple[list[Write], int, int]] = [
        ([claim("a")], 1, 1),
        ([claim("a")], 0, 1),
        ([claim("run", group=1), claim("turn", group=1)], 2, 1),
        ([claim("new", group=1), claim("turn", group=1)], 0, 1),
        (thousand, 1000, 1),
        (thousand, 0, 1),
        ([claim("a"), claim("c")], 1, 2),
        ([claim("d"), claim("d")], 1, 2),
    ]
    for writes, won, needed in cases:
        trips = 0
        assert refusals(store.swap(writes, seen)).count(None) == won
        assert trips == needed
    trips = 0
    store.load(["a"])
    store.scan(Scan(""))
    assert trips == 2


def test_scans_follow_an_index(store: MysqlStore, sql: Any) -> None:
    runs = (put(f"run/job-{n % 40:02}/{n:05}", list(Mark)[n % 4], at=DAY + n * HOUR, ttl=HOUR) for n in range(4000))
    win(store, *runs)
    sql.execute("ANALYZE TABLE cronce_cells")
    sql.fetchall()
    for by in ("key", "at", "until"):
        for mark in (None, *Mark):
            for newest_first in (False, True):
                scan = Scan("run/job-07/", by, mark, limit=50, newest_first=newest_first)
                (plan,) = explain(
                    sql,
                    scan_statement(by, mark, newest_first=newest_first).partition(";")[0],
                    bounds(scan, mysql.AFTER_ALL_TEXT),
                )
                assert plan["type"] in ("range", "ref"), (by, mark, plan)
                sorted_by_key = by == "key" and mark in (Mark.OPEN, Mark.ATTENTION)
                if not sorted_by_key and (by != "until" or mark):
                    assert "filesort" not in (plan["Extra"] or ""), (by, mark, plan)
    assert touched(sql, Scan("run/job-07/", newest_first=True, limit=50)) < 60
    assert touched(sql, Scan("run/", by="at", newest_first=True, limit=50)) < 60
    assert touched(sql, Scan("run/", by="until", mark=Mark.OPEN, limit=50)) < 60
    assert touched(sql, Scan("run/", by="at", mark=Mark.ATTENTION, newest_first=True, limit=50)) < 60


def test_cells_are_found_by_their_keys(store: MysqlStore, sql: Any) -> None:
    win(store, *(put(f"run/{number:05}") for number in range(3000)))
    sql.execute("ANALYZE TABLE cronce_cells")
    sql.fetchall()
    sql.execute('SET @wanted = \'[["run/00007", 0], ["run/00008", 0]]\'')
    _, select, _ = READ_SQL.split(";")
    _, cells = explain(sql, select, {})
    assert (cells["table"], cells["type"], cells["key"]) == ("cronce_cells", "eq_ref", "PRIMARY")


def explain(sql: Any, statement: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    sql.execute("EXPLAIN FORMAT=TRADITIONAL " + statement, values)
    names = [column[0] for column in sql.description]
    return [dict(zip(names, row, strict=True)) for row in sql.fetchall()]


def touched(sql: Any, scan: Scan) -> int:
    """How many rows of an index the server looked at."""
    question = scan_statement(scan.by, scan.mark, newest_first=scan.newest_first).partition(";")[0]
    sql.execute("FLUSH STATUS")
    sql.execute(question, bounds(scan, mysql.AFTER_ALL_TEXT))
    assert len(sql.fetchall()) == 51
    sql.execute("SHOW SESSION STATUS LIKE 'Handler_read_%'")
    return sum(int(count) for _, count in sql.fetchall())


# --- batches that only partly win -----------------------------------------------------------------------------------


def test_what_is_answered_is_what_was_written(store: MysqlStore) -> None:
    """Also of a cell that is written twice, and beside writes that come too early or too late."""
    now = store.load([]).now
    win(store, put("free", Mark.FREE))
    swapped = swap(
        store,
        put("twice", Mark.FREE, ttl=HOUR, grant=True, at=DAY),
        Write("twice", FREE, "second", Mark.OPEN),
        claim("early", not_before=now + HOUR),
        claim("late", not_after=now - HOUR),
        claim("free", not_before=now, not_after=now + HOUR),
    )
    assert refusals(swapped) == [None, None, Refusal.EARLY, Refusal.LATE, None]
    twice, free = swapped.verdicts[1].cell, swapped.verdicts[4].cell
    assert (twice.until, twice.at, twice.fence) == (swapped.now + HOUR, DAY, swapped.verdicts[0].cell.fence)
    assert list(store.load(["twice", "free"]).cells) == [twice, free]
    assert swapped.epoch == store.load([]).epoch


@pytest.mark.parametrize(
    ("early", "late", "at", "span"),
    [
        (10, 20, None, (10, 20)),
        (10, 20, 15, (10, 20)),
        (10, 20, 5, (BEFORE_ALL_INSTANTS, 9)),
        (10, 20, 25, (21, AFTER_ALL_INSTANTS)),
        (None, None, 25, (BEFORE_ALL_INSTANTS, AFTER_ALL_INSTANTS)),
    ],
)
def test_a_hope_holds_while_every_bound_is_as_it_was(
    early: int | None, late: int | None, at: int | None, span: tuple[int, int]
) -> None:
    def instant(us: int | None) -> datetime | None:
        return None if us is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)

    assert mysql.span([claim("a", not_before=instant(early), not_after=instant(late))], instant(at)) == span


def test_a_writer_that_is_ahead_begins_one_life_with_others(url: str, store: MysqlStore) -> None:
    epoch = store.load([]).epoch
    ahead = (epoch.birth, epoch.tally + 7)
    with opened(url) as other:
        assert store.swap([claim("a")], ahead).epoch.origin is Origin.RESTORED
        assert refusals(other.swap([claim("a")], ahead)) == [Refusal.EPOCH]
        assert store.load([]).epoch == other.load([]).epoch


# --- many processes -------------------------------------------------------------------------------------------------


def test_four_processes_win_each_of_two_thousand_slots_once_and_never_deadlock(url: str, sql: Any) -> None:
    with opened(url) as store:
        before = deadlocks(sql)
        children = [Child(partial(_compete, url, 5 * number)) for number in range(1, 5)]
        for child in children:
            child.go()
        won = [child.end()[-1] for child in children]
        assert sum(won) == 2000
        epoch = store.load([]).epoch
        assert (epoch.tally, epoch.origin) == (2000, Origin.MADE)
    assert deadlocks(sql) == before


def _compete(url: str, size: int, me: Child) -> int:
    with opened(url) as store:
        seen = store.load([]).epoch.seen
        me.wait()
        keys = [f"run/{slot:04}" for slot in range(2000)]
        batches = [keys[start : start + size] for start in range(0, 2000, size)]
        return sum(refusals(store.swap([claim(key) for key in batch], seen)).count(None) for batch in batches)


def deadlocks(sql: Any) -> int:
    sql.execute("SELECT `count` FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'")
    ((count,),) = sql.fetchall()
    return int(count)


def test_parent_and_children_are_claimants_with_lines_of_their_own(store: MysqlStore) -> None:
    def won() -> int:
        return sum(refusals(swap(store, claim(f"run/{number}"))) == [None] for number in range(40))

    def live(_: Child) -> int:
        mine = won()
        store.close()
        return mine

    win(store, claim("before"))
    children = [Child(live) for _ in range(3)]
    mine = won()
    assert mine + sum(child.end()[-1] for child in children) == 40
    assert store.load([]).epoch.tally == 41
