"""Order sync, every 15 minutes: a confirmation e-mail and a reservation in the warehouse for each new order.

    python examples/order_sync.py

Two servers run it, since nobody switched the old one off; a queue delivers some orders a second time; and one server
loses power between an order's e-mail and its reservation. Each order still gets one e-mail and one reservation.
"""

import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from cronce import Cronce, Run, Skipped

SERVERS, FATAL = 2, 7


class Order(NamedTuple):
    id: int
    email: str


ORDERS = [Order(number, f"customer-{number}@example.org") for number in range(1, 21)]

cron = Cronce()  # $CRONCE_URL
folder = Path(os.environ.get("ORDER_SYNC", "."))


@cron.idempotent("email", key=lambda order: ("order", order.id), unsure="skip")  # rather no e-mail than two
def send_email(order: Order) -> None:
    note("emails", order)


@cron.idempotent("reservation", key=lambda order: ("order", order.id))  # if in doubt, a person looks
def reserve(order: Order) -> str:
    note("reservations", order)
    return f"shelf {order.id % 4}"


@cron.job(every="15m", on_lost="rerun", lease="2s")  # 30 s unless you say so: here nobody wants to wait for it
def order_sync(run: Run) -> None:
    for order in run.cursor.over(orders_after(run.cursor.get(0)), at=lambda order: order.id):
        process(order)


def process(order: Order) -> None:
    """Two effects, two names, one order. The queue's consumer calls this, too."""
    send_email(order)
    if order.id == FATAL:
        lose_power_once()
    reserve(order)


def orders_after(last: int) -> Iterable[Order]:
    """What the shop's database says."""
    return [order for order in ORDERS if order.id > last]


def note(what: str, order: Order) -> None:
    """The e-mail service and the warehouse keep their own books."""
    with (folder / what).open("a") as book:
        book.write(f"{order.id}\n")


def lose_power_once() -> None:
    try:
        (folder / "lost-power").touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def server() -> None:
    """What cron does on each server: call the job. Whoever is late stands by, and takes over from the dead."""
    logging.basicConfig(format="%(message)s", stream=sys.stdout)  # cronce says so there
    while isinstance(answer := order_sync(), Skipped) and answer.kind == "held":
        time.sleep(0.1)
    for order in ORDERS[:5]:
        process(order)  # the queue delivers these again


def main(folder: Path) -> int:
    env = {**os.environ, "CRONCE_URL": f"sqlite:///{folder}/cronce.db", "ORDER_SYNC": str(folder)}
    servers = [subprocess.Popen([sys.executable, __file__, "server"], env=env) for _ in range(SERVERS)]  # noqa: S603
    ends = sorted(one.wait(60) for one in servers)
    emails, reservations = counted(folder / "emails"), counted(folder / "reservations")
    print(f"{len(ORDERS)} orders, {emails.total()} e-mails, {reservations.total()} reservations")
    once = ends == [-signal.SIGKILL, 0] and emails == reservations == Counter(order.id for order in ORDERS)
    print("each order has one e-mail and one reservation" if once else "this is not as it should be")
    return 0 if once else 1


def counted(book: Path) -> Counter[int]:
    return Counter(map(int, book.read_text().split()))


if __name__ == "__main__":
    if sys.argv[1:] == ["server"]:
        server()
    else:
        with tempfile.TemporaryDirectory() as made:
            sys.exit(main(Path(made)))
