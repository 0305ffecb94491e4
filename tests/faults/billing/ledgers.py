"""Where the charges are: in the receiver's books, or in a table of the shop's. Read from outside, by nobody who has a
part in the play."""

import sqlite3
from pathlib import Path
from typing import Protocol

import psycopg

from cronce.value import NamedTuple
from tests.faults.billing.receiver import Entry, read_books

TABLE = "CREATE TABLE charges (id serial PRIMARY KEY, invoice int NOT NULL, who text NOT NULL)"
"""Nothing in it forbids a second charge."""

TIMEOUT = 60.0


class Progress(NamedTuple):
    invoices: int = 0
    """How many different ones are charged."""
    at_work: str = ""
    """Who charged last."""


class Ledger(Protocol):
    def progress(self) -> Progress: ...
    def entries(self) -> list[Entry]: ...
    def close(self) -> None: ...


class Books:
    """The receiver's file, read as it grows."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._file = path.open()
        self._torn = ""
        self._entries: list[Entry] = []
        self._progress = Progress()
        self._charged: set[int] = set()

    def progress(self) -> Progress:
        *whole, self._torn = (self._torn + self._file.read()).split("\n")
        new = read_books(whole)
        self._entries += new
        for entry in new:
            if entry.what == "charge":
                self._charged.add(entry.invoice)
            self._progress = Progress(len(self._charged), entry.who)
        return self._progress

    def entries(self) -> list[Entry]:
        self.progress()
        return self._entries

    def close(self) -> None:
        self._file.close()


class Table:
    """The shop's table, by a connection that nothing stands in the way of."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute(TABLE)

    def progress(self) -> Progress:
        ((invoices, who),) = self._connection.execute(
            "SELECT count(DISTINCT invoice), coalesce((SELECT who FROM charges ORDER BY id DESC LIMIT 1), '')"
            " FROM charges"
        )
        return Progress(invoices, who)

    def entries(self) -> list[Entry]:
        rows = self._connection.execute("SELECT invoice, who FROM charges ORDER BY id").fetchall()
        return [Entry("charge", invoice, who) for invoice, who in rows]

    def close(self) -> None:
        self._connection.close()


class File:
    """The shop's table, where the shop is a file. The page that writes it does not say who writes."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, timeout=TIMEOUT, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")  # who reads stands in no writer's way
        self._connection.execute("CREATE TABLE charges (invoice INTEGER)")

    def progress(self) -> Progress:
        ((invoices,),) = self._connection.execute("SELECT count(DISTINCT invoice) FROM charges")
        return Progress(invoices)

    def entries(self) -> list[Entry]:
        rows = self._connection.execute("SELECT invoice FROM charges ORDER BY rowid").fetchall()
        return [Entry("charge", invoice, "") for (invoice,) in rows]

    def close(self) -> None:
        self._connection.close()
