"""What the MySQL store does beyond the contract, on one server that stays up."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cronce.clock import SystemClock
from cronce.errors import (
    BadInput,
    StoreCopied,
    StoreCorrupt,
    StoreError,
    StoreForgot,
    StoreNewer,
    StoreUnavailable,
    StoreUnusable,
)
from cronce.model import FREE, Cell, Mark, Origin, Refusal, Write, slot, to_us
from cronce.protocol.record import Outcome, Record, State, encode
from cronce.stores import mysql
from cronce.stores.base import Scan
from cronce.stores.mysql import SAID_READ, SAID_SWAP, MysqlStore, adopt, ddl, init, open_store, say_scan, server
from cronce.stores.mysql.schema import NOW, prepare
from cronce.stores.mysql.server import MySqlConnection, MySqlServer, explained, locate
from cronce.stores.sql import AFTER_ALL_INSTANTS, BEFORE_ALL_INSTANTS, bounds
from cronce.testing.contract import DAY, HOUR, cell_of, change, claim, keys_of, put, refusals, swap, win
from tests.house.wait import PATIENCE, wait_until
from tests.servers.patience import unanswered_within
from tests.stores.forks import Child
from tests.stores.test_mysql_contract import administrator, database


@pytest.fixture
def url(mysql_url: str, tmp_path: Path) -> str:
    return database(mysql_url, tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[MysqlStore]:
    store = open_store(url)
    yield store
    store.close()


@pytest.fixture
def sql(url: str) -> Iterator[Any]:
    """A cursor of somebody else's in the same database."""
    with administrator(url) as cursor:
        cursor.execute(f"USE {locate(url).database}")
        yield cursor


@contextmanager
def opened(url: str) -> Iterator[MysqlStore]:
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


def refused(url: str, kind: type[Exception]) -> str:
    """What opening it comes to, in words."""
    with pytest.raises(kind) as caught:
        open_store(url)
    assert type(caught.value) is kind
    return str(caught.value)


def with_user(url: str, user: str, password: str = "secret") -> str:
    place = locate(url)
    return f"mysql://{user}:{password}@{place.host}:{place.port}/{place.database}"


# --- URLs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://u:secret@h/db?colour=red&timeout=1", "mysql knows no colour; it knows timeout, unix_socket, ssl_ca"),
        ("mysql://u:secret@h", "names no database; write mysql://user:password@host:3306/database"),
        ("mysql://u:secret@h/", "names no database"),
        ("mysql://u:secret@h/a/b", "names no database"),
        ("mysql://u:secret@h:http/db", "Port could not be cast"),
        ("mysql://u:secret@h/db?timeout=soon", "timeout=soon is not a number of seconds"),
        ("mysql://u:secret@h/db?timeout=0", "timeout=0 is not a number of seconds"),
        ("mysql://u:secret@h/db?ssl_ca=/no/such/file", "its certificates cannot be read"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str, says: str) -> None:
    message = refused(url, BadInput)
    assert says in message
    assert "secret" not in message


def test_a_url_is_read_with_its_escapes() -> None:
    place = locate("mariadb://b%40b:p%C3%A9%2F@[::1]:3307/the%20db?timeout=2.5&unix_socket=/run/s")
    assert place[1:] == ("::1", 3307, "b@b", "pé/", "the db", 2.5, {"unix_socket": "/run/s"})


def test_without_the_driver_the_extra_is_named() -> None:
    code = "import sys; sys.modules['pymysql'] = None; from cronce.stores import open_store; open_store('mysql://h/db')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "BadInput: mysql:// needs PyMySQL: pip install 'cronce[mysql]'" in done.stderr


def test_a_wrong_password_is_said_and_not_shown(url: str) -> None:
    message = refused(with_user(url, "nobody-known", "hunter2"), StoreUnusable)
    assert "refused the user or the password" in message
    assert "hunter2" not in message


def test_a_missing_database_is_named_with_the_line_that_makes_it(url: str) -> None:
    message = refused(url + "_nowhere", StoreUnusable)
    assert f"run CREATE DATABASE `{locate(url).database}_nowhere` CHARACTER SET utf8mb4" in message


def test_a_server_that_does_not_run_is_unavailable() -> None:
    assert "does the server run" in refused("mysql://u@127.0.0.1:1/db", StoreUnavailable)


@pytest.mark.parametrize(
    ("version", "too_old"),
    [
        ("8.0.36", False),
        ("5.7.44", True),
        ("9.7.4-2", False),
        ("10.11.18-MariaDB-0+deb12u1", False),
        ("5.5.5-10.6.1-MariaDB", False),
        ("10.5.9-MariaDB", True),
        ("11.4.2-MariaDB", False),
    ],
)
def test_old_servers_are_told(version: str, too_old: bool) -> None:
    assert MySqlServer(version, 1, 0, 0, 1 << 20).too_old is too_old


# --- tables and privileges --------------------------------------------------------------------------------------------


def test_a_user_that_may_not_make_tables_uses_those_that_an_administrator_made(url: str, sql: Any) -> None:
    name = f"u{os.getpid()}"
    sql.execute(f"DROP USER IF EXISTS {name}@'%'; CREATE USER {name}@'%' IDENTIFIED BY 'sécret'")
    theirs = with_user(url, name, "s%C3%A9cret")
    assert "may not be used by this user; let an administrator run GRANT SELECT" in refused(theirs, StoreUnusable)
    sql.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {locate(url).database}.* TO {name}@'%'")
    assert "let an administrator run what `cronce store sql` prints" in refused(theirs, StoreUnusable)
    sql.execute(ddl(url))
    while sql.nextset():
        pass
    with opened(theirs) as store:
        (cell,) = win(store, claim("run/a"))
        assert keys_of(store.scan(Scan("run/")).cells) == ["run/a"]
        assert store.purge(store.load([cell.key]).cells) == 1
        assert {check.verdict for check in store.checks() if check.name == "writable"} == {"ok"}
    sql.execute(f"DROP USER {name}@'%'")


def test_processes_that_make_the_store_together_make_one(url: str) -> None:
    def start(me: Child) -> Any:
        me.wait()
        with opened(url) as store:
            return [store.load([]).epoch.birth, refusals(swap(store, claim("first"))) == [None]]

    children = [Child(start) for _ in range(6)]
    for child in children:
        child.go()
    answers = [child.end()[-1] for child in children]
    with opened(url) as store:
        assert {birth for birth, _ in answers} == {store.load([]).epoch.birth}
    assert [won for _, won in answers].count(True) == 1


def test_tables_that_were_made_half_are_made_whole(url: str, sql: Any) -> None:
    sql.execute(ddl(url).partition(";")[0])
    with opened(url) as store:
        win(store, claim("a"))
    sql.execute("SELECT COUNT(*) FROM cronce_runs")
    assert sql.fetchone() == (0,)


def test_a_newer_store_is_refused_even_by_those_that_have_it_open(url: str, store: MysqlStore, sql: Any) -> None:
    seen = store.load([]).epoch.seen
    sql.execute("UPDATE cronce_meta SET `schema` = 2")
    assert "its tables are version 2, this one knows 1" in refused(url, StoreNewer)
    with pytest.raises(StoreNewer):
        store.swap([claim("a")], seen)
    sql.execute("SELECT tally, (SELECT COUNT(*) FROM cronce_cells) FROM cronce_meta")
    assert sql.fetchone() == (0, 0)


def test_tables_that_vanish_in_use_are_missed(store: MysqlStore, sql: Any) -> None:
    win(store, claim("a"))
    sql.execute("DELETE FROM cronce_meta")
    with pytest.raises(StoreCorrupt, match="lost the row"):
        store.load(["a"])
    sql.execute("DROP TABLE cronce_meta, cronce_cells")
    for call in (lambda: store.load(["a"]), lambda: store.swap([claim("a")], (1, 1))):
        with pytest.raises(StoreForgot, match="lost its tables"):
            call()


def test_a_copy_under_another_name_is_refused_until_it_is_adopted(url: str, store: MysqlStore, sql: Any) -> None:
    (cell,) = win(store, claim("a"))
    copy = url + "_copy"
    name = locate(copy).database
    sql.execute(f"CREATE DATABASE {name}")
    for table in ("cronce_cells", "cronce_meta"):
        sql.execute(f"CREATE TABLE {name}.{table} LIKE {table}; INSERT INTO {name}.{table} SELECT * FROM {table}")
        sql.nextset()
    assert f"copy of the database '{locate(url).database}'" in refused(copy, StoreCopied)
    epoch = adopt(copy)
    assert (epoch.origin, epoch.base) == (Origin.RESTORED, cell.version)
    with opened(copy) as other:
        assert other.load([]).epoch == epoch
        assert cell_of(other, "a") == cell
    sql.execute(f"DROP DATABASE {name}")


def test_a_store_that_is_written_to_while_it_is_adopted_is_not(url: str, store: MysqlStore) -> None:
    class Slow(MySqlConnection):
        def tell(self, statement: str, **values: Any) -> int:
            win(store, claim("a"))
            return super().tell(statement, **values)

    epoch, line = store.load([]).epoch, Slow(locate(url), None)
    with pytest.raises(StoreUnavailable, match="not adopted; try again"):
        prepare(line, store.traits, on_purpose=False, adopt=True)
    line.close()
    assert store.load([]).epoch == epoch._replace(tally=epoch.tally + 1)


def test_init_begins_a_store_once(url: str) -> None:
    epoch = init(url)
    assert epoch.origin is Origin.MADE
    assert init(url) == epoch


def test_people_read_runs_in_a_view(store: MysqlStore, sql: Any) -> None:
    at = datetime(2026, 3, 29, 1, tzinfo=UTC)
    started, finished = at + timedelta(seconds=1, microseconds=5), at + timedelta(seconds=2)
    record = Record(
        State.CLOSED, 2, holder='web "7"', started=started, finished=finished, outcome=Outcome.FAILED, reason="ü"
    )
    (cell,) = win(store, claim(slot("billing", at).cell, encode(record), at=at))
    win(store, put(slot("billing", at, "again").cell, value=encode(Record(State.DUE))), put("job/billing"))
    sql.execute("SET time_zone = '+05:00'")
    sql.execute("SELECT * FROM cronce_runs ORDER BY request")
    columns = "job slot request state outcome reason holder fence grant started finished due until"
    assert [column[0] for column in sql.description] == columns.split()
    first, second = sql.fetchall()
    plain = [instant.replace(tzinfo=None) for instant in (started, finished, at, cell.until) if instant]
    texts = ("billing", "2026-03-29T01:00:00Z", "", "closed", "failed", "ü", 'web "7"', str(cell.fence), 2)
    assert first == (*texts, *plain)
    assert second == ("billing", texts[1], "again", "due", None, None, None, None, 0, None, None, None, None)


# --- text and size ----------------------------------------------------------------------------------------------------


def test_keys_have_a_length_and_are_any_text(store: MysqlStore) -> None:
    keys = ["\0", "k" * 1000, "𝄞" * 250, "'; DROP TABLE cronce_cells; --", "%s %(wanted)s", "\\", "[\"'"]
    win(store, *(put(key, value=f"<{key}>") for key in keys))
    assert [cell.value for cell in store.load(keys).cells] == [f"<{key}>" for key in keys]
    for call in (lambda: store.load(["k" * 1001]), lambda: store.swap([put("ü" * 501)], (0, 0))):
        with pytest.raises(BadInput, match="at most 1000 bytes"):
            call()
    with pytest.raises(BadInput, match="not text that can be stored"):
        swap(store, put("a", value="\ud800"))


def test_a_call_that_is_too_large_is_refused_before_it_is_sent(store: MysqlStore, sql: Any) -> None:
    sql.execute("SELECT @@max_allowed_packet")
    ((most,),) = sql.fetchall()
    with pytest.raises(StoreUnusable, match=f"takes {most:,} bytes at once.*Raise max_allowed_packet"):
        swap(store, put("a", value="x" * most))
    win(store, put("a", value="x" * (most // 4)))
    assert len(cell_of(store, "a").value) == most // 4


# --- the clock ------------------------------------------------------------------------------------------------------


def test_the_clock_is_utc_in_any_time_zone(url: str) -> None:
    line = MySqlConnection(locate(url), None)
    (((there,),),) = line.ask(f"SET time_zone = '+09:00'; SELECT {NOW}")
    line.close()
    assert abs(there - to_us(datetime.now(UTC))) < 60_000_000  # zones are a quarter of an hour apart, or more


def test_a_swap_reads_the_clock_when_it_has_the_lock(url: str, sql: Any) -> None:
    found = []
    with opened(f"{url}?timeout=60") as store:
        sql.execute("BEGIN; SELECT * FROM cronce_meta FOR UPDATE")
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


# --- locks and losers -------------------------------------------------------------------------------------------------


def test_a_loser_waits_for_no_lock_and_a_winner_not_for_ever(url: str, store: MysqlStore, sql: Any) -> None:
    with opened(f"{url}?timeout=2") as hasty:
        (cell,) = win(store, claim("a"))
        sql.execute("BEGIN; SELECT * FROM cronce_meta FOR UPDATE")
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

    def outrun(line: MySqlConnection, statements: str, **values: Any) -> Any:
        if statements == SAID_SWAP:
            boots.append(boots[-1] + 1)
            sql.execute("UPDATE cronce_cells SET version = version + 1 WHERE `key` = 'held'")
        return ask(line, statements, **values)

    win(store, claim("held"))
    monkeypatch.setattr(server, "_boot", lambda: boots[-1])
    monkeypatch.setattr(MySqlConnection, "ask", outrun)
    with pytest.raises(StoreUnavailable, match=r"not done within 5 s; this process is too busy"):
        swap(store, claim("held"), claim("free"))
    assert len(boots) == 6
    assert cell_of(store, "free") == Cell("free")


def test_a_round_trip_has_what_is_left_of_its_calls_time(store: MysqlStore) -> None:
    def slowly(line: MySqlConnection) -> None:
        line.deadline = SystemClock().boot() + 0.5
        line.ask("SELECT SLEEP(60)")

    def too_late(line: MySqlConnection) -> None:
        line.deadline -= 5
        line.tell("DELETE FROM cronce_meta")

    with pytest.raises(StoreUnavailable, match="gave no answer"):
        store._use(slowly)
    assert unanswered_within(4, lambda: store._use(slowly))
    with pytest.raises(StoreUnavailable, match="not done within 5 s"):
        store._use(too_late)
    assert refusals(swap(store, claim("a"))) == [None]


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
    hope = mysql.hope_for_all([change(cell) for cell in cells], store.load([]).epoch.seen)
    assert hope is not None
    line = MySqlConnection(locate(url), None)
    with line.connection.cursor() as cursor:
        said = cursor.mogrify(SAID_SWAP, hope._asdict())
    line.connection._execute_command(3, said)  # type: ignore[attr-defined]
    wait_until(lambda: cell_of(store, "run/999").value == "changed")  # it does not wait for its client
    win(store, claim("another"))
    line.connection._force_close()  # type: ignore[attr-defined]


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
    lock, commit, release = (SAID_SWAP.index(word) for word in ("GET_LOCK", "COMMIT", "RELEASE_ALL_LOCKS"))
    assert SAID_SWAP.index("UPDATE cronce_meta") < lock < commit < release


# --- round trips and plans --------------------------------------------------------------------------------------------


def test_a_call_is_one_round_trip(store: MysqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    trips = 0
    ask = MySqlConnection.ask

    def counted(line: MySqlConnection, statements: str, **values: Any) -> Any:
        nonlocal trips
        trips += 1
        return ask(line, statements, **values)

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
                    say_scan(by, mark, newest_first=newest_first).partition(";")[0],
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
    _, select, _ = SAID_READ.split(";")
    _, cells = explain(sql, select, {})
    assert (cells["table"], cells["type"], cells["key"]) == ("cronce_cells", "eq_ref", "PRIMARY")


def explain(sql: Any, statement: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    sql.execute("EXPLAIN FORMAT=TRADITIONAL " + statement, values)
    names = [column[0] for column in sql.description]
    return [dict(zip(names, row, strict=True)) for row in sql.fetchall()]


def touched(sql: Any, scan: Scan) -> int:
    """How many rows of an index the server looked at."""
    question = say_scan(scan.by, scan.mark, newest_first=scan.newest_first).partition(";")[0]
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


# --- many processes ---------------------------------------------------------------------------------------------------


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


# --- the doctor -----------------------------------------------------------------------------------------------------


def test_the_doctor_hears_of_other_stores_on_the_server(url: str, store: MysqlStore, sql: Any) -> None:
    checks = {check.name: check for check in store.checks()}
    names = ["version", "connection", "durable", "writable", "failover", "namespaces", "isolation", "time zone"]
    assert list(checks) == names
    assert [checks[name].verdict for name in ("version", "durable", "writable", "isolation")] == ["ok"] * 4
    assert "READ-COMMITTED" in checks["isolation"].says
    other = url.replace("/cronce_", "/cronce_00000")  # the first few of all that tests have made here are named
    sql.execute(f"CREATE DATABASE {locate(other).database}")
    with opened(other):
        (namespaces,) = (check for check in store.checks() if check.name == "namespaces")
    assert namespaces.verdict == "warn"
    assert locate(other).database in namespaces.says
    sql.execute(f"DROP DATABASE {locate(other).database}")


def test_an_error_without_a_number_is_no_answer() -> None:
    place = locate("mysql://h/db")
    assert type(explained(ValueError(), place)) is StoreUnavailable
    assert isinstance(explained(ValueError("odd"), place), StoreError)
