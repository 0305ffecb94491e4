"""The same unpaid invoices, night after night: slots that are lost, in doubt, retried or rerun, and the next ones meet
them.

A night is a second here. Two jobs charge the same invoices: `w1` and `w2` call the one, `w3` calls the other; a run
that is killed is closed as lost, and a later slot, of whichever process, goes on. A person reruns slots that went wrong
(`person`). What was cut short at a receiver that knows no keys is in doubt, and stays uncharged until somebody has read
the receiver's books.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal

from cronce import AlreadyDone, Cronce, InDoubt, InProgress, Run
from cronce.errors import SlotFailed

if TYPE_CHECKING:
    from tests.faults.billing.worker import Order

Fire = Callable[[], bool]
Pay = Callable[["Order", int, dict[str, str]], str]
Receiver = Literal["keys", "no keys"]
Play = Callable[["Order", Pay, Receiver], Fire]


def nightly(order: "Order", body: Callable[[Run], bool], transaction: str | None = None) -> Fire:
    """Call the job for its slot of now; whether it came by all invoices."""
    dunning = order.name.startswith("w3")
    define = Cronce(order.store).job(
        every="1s", name=f"{order.job}-dunning" if dunning else order.job, lease=f"{order.lease}s",
        on_lost="rerun" if dunning else "skip", retries=1, backoff="300ms", transaction=transaction,
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


def charge(run: Run, order: "Order", pay: Pay, receiver: Receiver, invoice: int) -> None:
    """As the receiver is: asked again under the same key, or left to a person when nobody knows."""
    thing = run.on("invoice", invoice)
    if receiver == "keys":
        thing.once("charge", pay, order, invoice, thing.headers("charge"), unsure="retry")
        return
    with suppress(InDoubt):
        thing.once("charge", pay, order, invoice, {})


def once(order: "Order", pay: Pay, receiver: Receiver) -> Fire:
    def body(run: Run) -> bool:
        for invoice in invoices(order):
            charge(run, order, pay, receiver, invoice)
        return True

    return nightly(order, body)


def cursor(order: "Order", pay: Pay, receiver: Receiver) -> Fire:
    def body(run: Run) -> bool:
        last = run.cursor.get(0)
        left = [invoice for invoice in invoices(order) if invoice > last]
        for invoice in run.cursor.over(left, at=lambda invoice: invoice):
            charge(run, order, pay, receiver, invoice)
        return True

    return nightly(order, body)


def once_each(order: "Order", pay: Pay, receiver: Receiver) -> Fire:
    """Where the receiver knows no keys, what is in doubt is passed over, so that the others come to their turn."""

    def body(run: Run) -> bool:
        def charge(invoice: int) -> str:
            return pay(order, invoice, run.on("invoice", invoice).headers("charge") if receiver == "keys" else {})

        unsure: Any = "retry" if receiver == "keys" else "skip"
        run.once_each(invoices(order), on="invoice", key=lambda one: one, what="charge", fn=charge, unsure=unsure)
        return True

    return nightly(order, body)


def idempotent(order: "Order", pay: Pay, receiver: Receiver) -> Fire:
    """Messages that are delivered again and again, with no slot at all; and a job that charges the same invoices."""
    if order.name.startswith("w3"):
        return once(order, pay, receiver)
    unsure: Any = "retry" if receiver == "keys" else "raise"
    guard = Cronce(order.store).idempotent(
        "charge", key=lambda invoice: ("invoice", invoice), lease=f"{order.lease}s", unsure=unsure
    )
    by_message = guard(
        lambda invoice: pay(
            order, invoice, {"Idempotency-Key": f"charge/invoice:{invoice}"} if receiver == "keys" else {}
        )
    )

    def fire() -> bool:
        whole = True
        for invoice in invoices(order):
            try:
                by_message(invoice)
            except InDoubt:
                continue
            except (InProgress, OSError):  # the message is not acknowledged, and comes again
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


WAYS: Final[dict[str, Play]] = {
    "once": once,
    "once_each": once_each,
    "cursor": cursor,
    "idempotent": idempotent,
}
