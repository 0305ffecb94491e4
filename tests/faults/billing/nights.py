"""The same unpaid invoices, night after night: slots that are lost, in doubt or cut short, and the next ones meet them.

A night is a second here. Each process calls its job again and again; a run that is killed is closed as lost, and a
later slot, of whichever process, goes on. What was cut short at a receiver that knows no keys is in doubt, and stays
uncharged until somebody has read the receiver's books (`harness`).
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal

from cronce import AlreadyDone, Cronce, InDoubt, InProgress, Run
from cronce.clock import SystemClock
from cronce.errors import CronceError, SlotFailed
from cronce.runtime.effects.review import Unwatched, effects, places, resolve_effect
from cronce.runtime.machine import recall_clock
from cronce.runtime.operations import Operator

if TYPE_CHECKING:
    from tests.faults.billing.worker import Order

Nights = Literal["nights-once", "nights-cursor", "nights-each", "nights-queue", "nights-transaction"]
Fire = Callable[[], bool]
Pay = Callable[["Order", int, dict[str, str]], str]

PATIENCE: Final = 60.0
MOST: Final = 5000


def nightly(order: "Order", body: Callable[[Run], bool], transaction: str | None = None) -> Fire:
    """Call the job for its slot of now; whether it came by all invoices."""
    cron = Cronce(order.store)
    define = cron.job(
        every="1s", name=order.job, lease=f"{order.lease}s", on_lost="skip", retries=1, backoff="300ms",
        transaction=transaction,
    )  # fmt: skip
    night = define(body)

    def fire() -> bool:
        try:
            return night() is True
        except SlotFailed:  # its function returned: it came by all of them, and some wait for a person
            return True

    return fire


def invoices(order: "Order") -> range:
    return range(1, order.invoices + 1)


def once(order: "Order", pay: Pay) -> Fire:
    def body(run: Run) -> bool:
        for invoice in invoices(order):
            with suppress(InDoubt):
                run.on("invoice", invoice).once("charge", pay, order, invoice, {})
        return True

    return nightly(order, body)


def cursor(order: "Order", pay: Pay) -> Fire:
    def body(run: Run) -> bool:
        last = run.cursor.get(0)
        left = [invoice for invoice in invoices(order) if invoice > last]
        for invoice in run.cursor.over(left, at=lambda invoice: invoice):
            with suppress(InDoubt):
                run.on("invoice", invoice).once("charge", pay, order, invoice, {})
        return True

    return nightly(order, body)


def each(order: "Order", pay: Pay) -> Fire:
    def body(run: Run) -> bool:
        def charge(invoice: int) -> str:
            return pay(order, invoice, run.on("invoice", invoice).headers("charge"))

        run.once_each(invoices(order), on="invoice", key=lambda one: one, what="charge", fn=charge, unsure="retry")
        return True

    return nightly(order, body)


def queue(order: "Order", pay: Pay) -> Fire:
    """No slot at all: messages that are delivered again and again."""
    cron = Cronce(order.store)
    guard = cron.idempotent("charge", key=lambda invoice: ("invoice", invoice), lease=f"{order.lease}s")
    charge = guard(lambda invoice: pay(order, invoice, {}))

    def fire() -> bool:
        whole = True
        for invoice in invoices(order):
            try:
                charge(invoice)
            except InDoubt:
                continue
            except InProgress:
                whole = False
        return whole

    return fire


def transaction(order: "Order", connect: Callable[[], Any], takes: Callable[[], None]) -> Fire:
    def body(run: Run) -> bool:
        connection = connect()
        for invoice in invoices(order):
            with suppress(AlreadyDone), run.on("invoice", invoice).transaction(connection, "charge"):
                connection.execute("INSERT INTO charges (invoice, who) VALUES (%s, %s)", (invoice, order.name))
                takes()
        return True

    return nightly(order, body, order.shop)


# --- somebody reads the receiver's books ----------------------------------------------------------------------------


def in_doubt(url: str) -> set[int]:
    """Which invoices wait for a person; whoever was at one is over by now, or known to be when its lease has passed."""
    with Cronce(url) as cron:
        desk, deadline = cron.at_work().desk, time.monotonic() + PATIENCE
        while True:
            found = desk.do(effects(desk.do(places("charge")), MOST)).effects
            if all(one.state == "in doubt" for one in found):
                return {int(one.name.rpartition(":")[2]) for one in found}
            if time.monotonic() > deadline:
                raise CronceError(f"still in progress: {found[:3]}")
            time.sleep(0.1)


def resolve(url: str, doubtful: set[int], charged: set[int]) -> None:
    """As the books have it: done, or to be done again."""
    with Cronce(url) as cron:
        desk = cron.at_work().desk
        desk.do(recall_clock(desk.ledger))
        person, clock = Operator(desk.ledger, "the script"), SystemClock()
        for invoice in sorted(doubtful):
            deadline = clock.boot() + PATIENCE
            verdict: Any = "done" if invoice in charged else "retry"
            while isinstance(desk.do(resolve_effect(person, f"charge/invoice:{invoice}", verdict)), Unwatched):
                if clock.boot() > deadline:
                    raise CronceError(f"invoice {invoice} cannot be resolved")
                time.sleep(0.2)
