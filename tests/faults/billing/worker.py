"""One of the three processes that bill the month.

    python -m tests.faults.billing.worker

What to do comes on standard input, and its end is the end. Again and again, as a trigger would, it calls the job, until
it hears that the month is billed. It expects to be killed and stopped at any moment.

The job is the same three times: under a slot, with charges by key (`by_key`) or in a joined transaction
(`by_transaction`); and under a lock as the seeds write it (`by_lock`). Beside these there are the same unpaid invoices
night after night (`nights`), and the recipes of the docs (`recipes`).
"""

import json
import os
import random
import signal
import sqlite3
import sys
import threading
import time
import traceback
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, get_args

from cronce import Cronce, Run, Skipped
from cronce.errors import AlreadyDone, DatabaseUnavailable, InDoubt, InProgress, LeaseLost, StoreUnavailable
from cronce.runtime.guard import Guard
from cronce.value import NamedTuple
from tests.faults.billing import nights, recipes
from tests.faults.billing.plain_lock import HeartbeatLock

if TYPE_CHECKING:
    import psycopg

Fire = Callable[[], bool]
"""One call of the job; whether the month is billed."""

MONTHLY: Final = "0 0 1 * *"
AGAIN: Final = 0.1
"""Seconds until the trigger calls again."""

TRIES: Final = 4
"""How often a payment is asked for that got no answer, under the same key."""

TAKES: Final = 0.008
"""Seconds at most, of a charge in a transaction; the payment service takes about as long."""

TIMEOUT: Final = 10.0
BUG: Final = 70
"""Exit code of a process that met something it was not written for."""


class Order(NamedTuple):
    name: str
    variant: str
    job: str
    slot: str
    invoices: int
    lease: int
    """Seconds; for the lock, its time to live."""
    store: str
    """Where cronce, or the lock, keeps what it knows."""
    shop: str
    """The billing application's own database: for `by_lock` a file in which invoices are marked as paid."""
    payments: str
    """The receiver."""
    said: str
    """A file in which to say that the month is billed."""

    def written(self) -> str:
        return json.dumps(self)


def pay(order: Order, invoice: int, headers: Mapping[str, str]) -> str:
    """One request to the payment service; the number of the charge."""
    request = urllib.request.Request(
        f"{order.payments}/{invoice}", method="POST", headers={"From": order.name, **headers}
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        return str(answer.read().decode())


# --- under a slot ---


def guarded(order: Order, body: Callable[[Run], None], transaction: str | None = None) -> Fire:
    cron = Cronce(order.store)
    define = cron.job(
        MONTHLY, name=order.job, on_lost="rerun", retries=1000, backoff="100ms", lease=f"{order.lease}s",
        transaction=transaction,
    )  # fmt: skip
    billing: Guard[[], Skipped | None] = define(body)

    def fire() -> bool:
        answer = billing.at(order.slot)()
        if not isinstance(answer, Skipped) or answer.outcome == "succeeded":
            return True
        assert answer.kind == "held", answer  # nothing else is ever a reason
        return False

    return fire


def by_key(order: Order) -> Fire:
    def billing(run: Run) -> None:
        def charge(invoice: int) -> str:
            headers = run.on("invoice", invoice).headers("charge")
            for _ in range(TRIES - 1):
                with suppress(OSError):  # no answer: the service knows the key, so ask again
                    return pay(order, invoice, headers)
            return pay(order, invoice, headers)

        invoices = range(1, order.invoices + 1)
        run.once_each(invoices, on="invoice", key=lambda one: one, what="charge", fn=charge, unsure="retry")

    return guarded(order, billing)


class Shop:
    """The application's connection to its database, kept open as a pool would, and rolled back before it is used."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection | None = None

    def connection(self) -> "psycopg.Connection":
        import psycopg  # noqa: PLC0415  not where it is not needed

        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._url)
        self._connection.rollback()
        return self._connection


def by_transaction(order: Order) -> Fire:
    shop = Shop(order.shop)

    def billing(run: Run) -> None:
        connection = shop.connection()
        for invoice in range(1, order.invoices + 1):
            with suppress(AlreadyDone), run.on("invoice", invoice).transaction(connection, "charge"):
                connection.execute("INSERT INTO charges (invoice, who) VALUES (%s, %s)", (invoice, order.name))
                time.sleep(random.uniform(0, TAKES))  # whatever else a charge takes

    fire = guarded(order, billing, transaction=order.shop)

    def fire_connected() -> bool:
        shop.connection()  # whoever stands by has it open already
        return fire()

    return fire_connected


# --- under a lock ---


def unpaid(order: Order) -> list[int]:
    with closing(sqlite3.connect(order.shop, timeout=TIMEOUT)) as shop:
        return [invoice for (invoice,) in shop.execute("SELECT id FROM invoices WHERE NOT paid ORDER BY id")]


def mark_as_paid(order: Order, invoice: int) -> None:
    with closing(sqlite3.connect(order.shop, timeout=TIMEOUT)) as shop, shop:
        shop.execute("UPDATE invoices SET paid = 1 WHERE id = ?", (invoice,))


def by_lock(order: Order) -> Fire:
    import redis  # noqa: PLC0415  not where it is not needed

    client = redis.Redis.from_url(order.store, decode_responses=True, socket_timeout=TIMEOUT)

    def fire() -> bool:
        lock = HeartbeatLock(client, f"job_lock:{order.job}", order.lease)
        if lock.acquire():
            try:
                for invoice in unpaid(order):
                    pay(order, invoice, {})
                    mark_as_paid(order, invoice)
            finally:
                lock.release()
        return not unpaid(order)

    return fire


# --- the wrong scope: what the table is worth ---


def per_slot(order: Order) -> Fire:
    """The charge as an effect of the slot: the next slot meets an unpaid invoice, and knows nothing of the last one's
    charge. By key as well: the key is the slot's."""

    def body(run: Run) -> bool:
        for invoice in unpaid(order):
            with suppress(InDoubt):
                run.once(
                    f"charge:{invoice}", pay, order, invoice, run.headers(f"charge:{invoice}", per="slot"), per="slot"
                )
                mark_as_paid(order, invoice)
        return not unpaid(order)

    return nights.nightly(order, body)


# --- the process ---


def _night(play: nights.Play, receiver: nights.Receiver, order: Order) -> Fire:
    return play(order, pay, receiver)


def _recipe(recipe: recipes.Recipe, order: Order) -> Fire:
    return recipes.played(recipe, order, pay)


WRONG: Final = "wrong: per slot"
NIGHTS: Final[dict[str, Callable[[Order], Fire]]] = {
    **{
        f"{way}/{receiver}": partial(_night, play, receiver)
        for way, play in nights.WAYS.items()
        for receiver in get_args(nights.Receiver)
    },
    "transaction/PostgreSQL": lambda order: nights.transaction(
        order, Shop(order.shop).connection, lambda: time.sleep(random.uniform(0, TAKES))
    ),
    f"{WRONG}/keys": per_slot,
    **{name: partial(_recipe, recipe) for name, recipe in recipes.RECIPES.items()},
}
VARIANTS: Final[dict[str, Callable[[Order], Fire]]] = {
    "key": by_key,
    "transaction": by_transaction,
    "redis-lock": by_lock,
    **NIGHTS,
}


def marks_paid(variant: str) -> bool:
    """Whether the shop has a mark for each invoice that is paid."""
    return variant == "redis-lock" or variant.startswith(WRONG)


def keeps_shop(variant: str) -> bool:
    """Whether charges are rows in the shop's PostgreSQL."""
    return variant in ("transaction", "transaction/PostgreSQL")


def expected(variant: str) -> tuple[type[Exception], ...]:
    """What a body under fire raises. The trigger calls again; anything else is a bug. (A driver that is not needed is
    not imported: processes are killed and started again all the time.)"""
    ours = (LeaseLost, StoreUnavailable, DatabaseUnavailable, InProgress, OSError, sqlite3.OperationalError)
    if keeps_shop(variant):
        import psycopg  # noqa: PLC0415  not where it is not needed

        return (*ours, psycopg.Error)
    if variant == "redis-lock":
        import redis  # noqa: PLC0415  not where it is not needed

        return (*ours, redis.RedisError)
    return ours


def work(order: Order) -> None:
    fire, troubles = VARIANTS[order.variant](order), expected(order.variant)
    billed = False
    while not billed:
        try:
            billed = fire()
        except troubles as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        time.sleep(AGAIN)
    with open(order.said, "a") as said:  # noqa: PTH123
        said.write(f"{order.name}\n")


def safely(order: Order) -> None:
    """What is not foreseen ends the process, loudly."""
    try:
        work(order)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(BUG)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal; the harness ends us
    order = Order(*json.loads(sys.stdin.readline()))
    threading.Thread(target=safely, args=(order,), daemon=True).start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
