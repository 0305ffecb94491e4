"""A process that is stopped (SIGSTOP) in the middle of its transaction, and tells what became of it when it goes on.

    python -m tests.runtime.transactions.holder KIND URL KEY FENCE (check|commit) (write|read) STEP

`check`: at its last `run.check()`, before the fence is checked. `commit`: between that check and its COMMIT.
"""

import os
import signal
import sqlite3
import sys
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql

from cronce.errors import CronceError
from cronce.model import read_fence
from cronce.runtime.transactions import Transaction, read_database
from tests.runtime.transactions.site import Run, put


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


class PausedPsycopg(psycopg.Connection[Any]):
    def commit(self) -> None:
        stop()
        super().commit()


class PausedPyMysql(pymysql.connections.Connection):
    def commit(self) -> None:
        stop()
        super().commit()


class PausedSqlite(sqlite3.Connection):
    def commit(self) -> None:
        stop()
        super().commit()


class PausedRun(Run):
    """Stopped when it is checked for the last time."""

    def check(self) -> None:
        super().check()
        if self.checks == 2:
            stop()


def connect(kind: str, url: str, *, paused: bool) -> Any:
    match kind:
        case "postgresql":
            return (PausedPsycopg if paused else psycopg.Connection).connect(url)
        case "mariadb":
            make = PausedPyMysql if paused else pymysql.connections.Connection
            return make(host="127.0.0.1", port=urlsplit(url).port or 0, user="root", database="cronce")
        case _:
            path = url.removeprefix("sqlite:///")
            return sqlite3.connect(path, factory=PausedSqlite if paused else sqlite3.Connection)


def main(kind: str, url: str, key: str, fence: str, where: str, what: str, step: str) -> str:
    database = read_database(url)
    run = (PausedRun if where == "check" else Run)(key, read_fence(fence))
    assert not database.raise_fence(run.key, run.fence)
    conn = connect(kind, url, paused=where == "commit")
    try:
        with Transaction(database, run, conn, step):
            cursor = conn.cursor()
            cursor.execute(put(key) if what == "write" else "SELECT who FROM written")
            cursor.close()
    except CronceError as error:
        return type(error).__name__
    finally:
        conn.close()
        database.close()
    return "committed"


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
