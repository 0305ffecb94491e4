"""From a run to where its effects land: what is delivered twice is done once."""

import asyncio
import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import httpx
import pytest

from cronce import Cronce, Run
from cronce.headers import read_headers
from cronce.receivers.asgi import Once, Receive, Scope, Send
from cronce.receivers.sql import SQLite


class Payments:
    """A service that charges: a line in its ledger each time."""

    def __init__(self) -> None:
        self.ledger: list[str] = []

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.ledger.append(scope["path"])
        body = json.dumps({"charge": len(self.ledger)}).encode()
        await send({"type": "http.response.start", "status": 201, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": body})


def test_a_job_that_runs_three_times_charges_each_invoice_once(tmp_path: Path) -> None:
    """The keys that it hands over are the same in every attempt; the other side has its own store, and knows them."""
    payments, attempts = Payments(), []
    with Cronce(f"sqlite:///{tmp_path}/sender.db") as cron, Cronce(f"sqlite:///{tmp_path}/receiver.db") as receiver:
        transport = httpx.ASGITransport(Once(payments, receiver, name="payments"))

        @cron.job("@yearly", retries=5, backoff="1ms")
        async def billing(run: Run) -> list[int]:
            attempts.append(run.attempt)
            charges = []
            async with httpx.AsyncClient(transport=transport, base_url="http://payments") as client:
                for invoice in range(4):
                    if (len(attempts), invoice) in ((1, 2), (2, 3)):
                        raise ConnectionError("the network is gone")
                    answer = await client.post(
                        f"/invoice-{invoice}", headers=run.headers(f"invoice-{invoice}", per="slot")
                    )
                    charges.append(answer.raise_for_status().json()["charge"])
            return charges

        charged = None
        while not charged:  # also for as long as its retry is not due
            with suppress(ConnectionError):
                charged = asyncio.run(billing())
    assert charged == [1, 2, 3, 4]
    assert attempts == [1, 2, 3]
    assert payments.ledger == [f"/invoice-{invoice}" for invoice in range(4)]


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_a_fence_counts_for_the_job_where_its_runs_exclude_each_other_else_for_the_slot(
    tmp_path: Path, overlap: str
) -> None:
    with Cronce(f"sqlite:///{tmp_path}/sender.db") as cron:

        @cron.job("@yearly", name="billing", overlap=overlap)  # type: ignore[arg-type]
        def billing(run: Run) -> tuple[dict[str, str], str, str]:
            return run.headers("invoice-7", per="slot"), run.key, str(run.fence)

        headers, key, fence = billing()  # type: ignore[misc]
    sent = read_headers(headers.items())
    assert (sent.key, str(sent.fence)) == (f"{key}/invoice-7", fence)
    assert sent.scope == ("billing" if overlap == "skip" else key)


def test_a_message_that_is_delivered_twice_is_absorbed_by_its_key_in_the_database(tmp_path: Path) -> None:
    """A queue that promises at-least-once: it delivers again what was not acknowledged, also if it was done."""
    database, receiver, acknowledged = tmp_path / "shop.db", SQLite(), []
    with closing(sqlite3.connect(database)) as shop, shop:
        for statement in (*receiver.tables, "CREATE TABLE stock (item TEXT, reserved INTEGER)"):
            shop.execute(statement)

    def consume(message: dict[str, str], *, dies: str = "") -> None:
        with closing(sqlite3.connect(database)) as shop:
            cursor = shop.cursor()
            if receiver.first(cursor, message["id"]):
                cursor.execute("INSERT INTO stock VALUES (?, 1)", [message["item"]])
                if dies == "before the commit":
                    return
            shop.commit()
        if dies != "before it is acknowledged":
            acknowledged.append(message["id"])

    message = {"id": "m-1", "item": "lamp"}
    for dies in ("before the commit", "before it is acknowledged", "", ""):
        consume(message, dies=dies)
    assert acknowledged == ["m-1", "m-1"]
    with closing(sqlite3.connect(database)) as shop:
        assert shop.execute("SELECT * FROM stock").fetchall() == [("lamp", 1)]
