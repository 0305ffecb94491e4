"""A server of MySQL or MariaDB: URLs, a connection, errors in words, and what the doctor asks."""

import subprocess
import sys
from typing import Any

import pytest

from cronce.clock import SystemClock
from cronce.errors import (
    BadInput,
    StoreError,
    StoreUnavailable,
    StoreUnusable,
)
from cronce.stores.mysql import MysqlStore
from cronce.stores.mysql.server import MySqlConnection, MySqlServer, explained, locate
from cronce.testing.contract import cell_of, claim, put, refusals, swap, win
from tests.servers.patience import unanswered_within
from tests.stores.mysql.opening import opened, refused, with_user

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


# --- text and size --------------------------------------------------------------------------------------------------


def test_a_call_that_is_too_large_is_refused_before_it_is_sent(store: MysqlStore, sql: Any) -> None:
    sql.execute("SELECT @@max_allowed_packet")
    ((most,),) = sql.fetchall()
    with pytest.raises(StoreUnusable, match=f"takes {most:,} bytes at once.*Raise max_allowed_packet"):
        swap(store, put("a", value="x" * most))
    win(store, put("a", value="x" * (most // 4)))
    assert len(cell_of(store, "a").value) == most // 4


# --- locks and losers -----------------------------------------------------------------------------------------------


def test_a_round_trip_has_what_is_left_of_its_calls_time(store: MysqlStore) -> None:
    def slowly(connection: MySqlConnection) -> None:
        connection.deadline = SystemClock().boot() + 0.5
        connection.ask("SELECT SLEEP(60)")

    def too_late(connection: MySqlConnection) -> None:
        connection.deadline -= 5
        connection.tell("DELETE FROM cronce_meta")

    with pytest.raises(StoreUnavailable, match="gave no answer"):
        store._use(slowly)
    assert unanswered_within(4, lambda: store._use(slowly))
    with pytest.raises(StoreUnavailable, match="not done within 5 s"):
        store._use(too_late)
    assert refusals(swap(store, claim("a"))) == [None]


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
