"""A process that pays in a joined transaction, and may stop itself between its last check and its commit.

python payer.py STORE DATABASE NAME stop|go
"""

import os
import signal
import sqlite3
import sys
import time
from typing import Any

import psycopg
import pymysql

from cronce import Cronce, Run, Skipped
from cronce.runtime.transactions import transaction
from cronce.runtime.transactions.connection import Driver, Talk
from cronce.runtime.transactions.fencing import close_joint
from cronce.stores.mysql.server import locate

STORE, DATABASE, NAME, MODE = sys.argv[1:]
SLOT = "2026-03-29T12:00:00Z"


def connect() -> Any:
    """The user's own connection."""
    if DATABASE.startswith("sqlite"):
        return sqlite3.connect(DATABASE.removeprefix("sqlite:///"), timeout=20)
    if DATABASE.startswith("postgresql"):
        return psycopg.connect(DATABASE)
    place = locate(DATABASE)
    return pymysql.connect(
        host=place.host, port=place.port, user=place.user, password=place.password, database=place.database,
        unix_socket=place.options.get("unix_socket"),
    )  # fmt: skip


def ours() -> Any:
    """A file's, which is kept locked: whoever wants to raise the fence waits for a moment, not for seconds."""
    return sqlite3.connect(DATABASE.removeprefix("sqlite:///"), timeout=0.5, isolation_level=None)


def stopped_before_the_fence_is_checked(driver: Driver, key: str, *rest: Any) -> Talk[None]:
    """Its lease was good a moment ago."""
    print("stopped", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    yield from close_joint(driver, key, *rest)


if MODE == "stop":
    setattr(transaction, "close_joint", stopped_before_the_fence_is_checked)  # noqa: B010

cron = Cronce(STORE)
conn = connect()


@cron.job(None, name=NAME, on_lost="rerun", lease="3s", transaction=ours if DATABASE.startswith("sqlite") else DATABASE)
def pay(run: Run) -> str:
    with run.transaction(conn) as tx:
        tx.cursor().execute(f"insert into {NAME.replace('-', '_')} values ({os.getpid()})")
    return "committed"


def paid() -> object:
    """One that stays: who takes over has watched the store's clock for a whole lease."""
    deadline = time.monotonic() + 60
    while True:
        told = pay(slot=SLOT)  # type: ignore[call-arg]
        if not isinstance(told, Skipped) or told.kind != "held" or time.monotonic() > deadline:
            return told
        time.sleep(0.05)


try:
    print(paid(), flush=True)
except Exception as error:
    story: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        story.append(f"{type(cause).__name__}: {cause}")
        cause = cause.__cause__ or cause.__context__
    print(" after ".join(story), flush=True)
