"""A holder that is paused between its last check and its commit, while another takes its slot over: by the fence in the
user's database it cannot commit any more, wherever cronce's store is."""

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pymysql
import pytest

from cronce.stores.mysql.server import locate

PAYER = Path(__file__).with_name("payer.py")
ROOT = Path(__file__).parents[2]
Connect = Callable[[], Any]


def database(kind: str, request: pytest.FixtureRequest, folder: Path) -> tuple[str, Connect]:
    if kind == "sqlite":
        path = folder / "books.db"
        return f"sqlite:///{path}", lambda: sqlite3.connect(path)
    url: str = request.getfixturevalue(kind).url
    if kind == "postgres":
        return url, lambda: psycopg.connect(url)
    place = locate(url)
    return url, lambda: pymysql.connect(
        host=place.host, port=place.port, user=place.user, password=place.password, database=place.database,
        unix_socket=place.options.get("unix_socket"),
    )  # fmt: skip


def paid(connect: Connect, table: str, statement: str = "select pid from {table}") -> list[int]:
    conn = connect()
    try:
        cursor = conn.cursor()
        cursor.execute(statement.format(table=table))
        rows = [pid for (pid,) in cursor.fetchall()] if cursor.description else []
        conn.commit()
        return rows
    finally:
        conn.close()


def payer(store: str, url: str, name: str, mode: str) -> "subprocess.Popen[str]":
    command = [sys.executable, str(PAYER), store, url, name, mode]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def told(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ended(process: "subprocess.Popen[str]") -> str:
    last = told(process)
    assert process.wait(60) == 0
    assert process.stdout is not None
    process.stdout.close()
    return last


@pytest.mark.parametrize(("kind", "where"), [("postgres", "store here"), ("mariadb", "store elsewhere")])
def test_a_paused_holder_cannot_commit_after_another_raised_the_fence(
    kind: str, where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url, connect = database(kind, request, tmp_path)
    store = url if where == "store here" else f"sqlite:///{tmp_path}/cronce.db"
    name = f"pay-{uuid4().hex[:8]}"
    table = name.replace("-", "_")
    paid(connect, table, "create table {table} (pid int)")
    paused = payer(store, url, name, "stop")
    assert told(paused) == "stopped"
    later = payer(store, url, name, "go")
    assert ended(later) == "committed"
    assert paid(connect, table) == [later.pid]
    paused.send_signal(signal.SIGCONT)
    assert "may not commit under its fence" in ended(paused)
    assert paid(connect, table) == [later.pid]


def test_with_sqlite_a_paused_holder_keeps_the_file_and_what_it_commits_counts_once(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """It has written, so that nobody else can, nor raise the fence: who comes later runs nothing, until it is over."""
    url, connect = database("sqlite", request, tmp_path)
    paid(connect, "pay", "create table {table} (pid int)")
    store = f"sqlite:///{tmp_path}/cronce.db"
    paused = payer(store, url, "pay", "stop")
    assert told(paused) == "stopped"
    assert ended(payer(store, url, "pay", "go")).startswith("DatabaseUnavailable")
    assert paid(connect, "pay") == []
    paused.send_signal(signal.SIGCONT)
    said = ended(paused)
    assert said.startswith(
        ("committed", "LeaseLost")
    )  # whether it had returned when it was told that its lease is over
    assert paid(connect, "pay") == [paused.pid]
    how = "" if said == "committed" else ", its transaction was committed"
    assert f"it is closed: succeeded{how}" in ended(payer(store, url, "pay", "go"))
    assert paid(connect, "pay") == [paused.pid]
