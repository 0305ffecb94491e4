"""Nightly billing: 500 invoices, three servers that all fire at midnight, and one of them loses power in the middle.

    python examples/billing.py                                        on an SQLite file
    CRONCE_URL=postgresql://localhost/app python examples/billing.py

One server charges, the others stand by. When it is gone one of them goes on, with what was not charged yet; the charge
that was just being made is asked for again, under its key, and the payment service knows that one. The next night finds
all invoices unpaid once more, since nobody has marked them: a charge belongs to its invoice, so none is made again.
"""

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cronce import Cronce, Run, Skipped

INVOICES, SERVERS, FATAL = range(1, 501), 3, 200
NIGHT = timedelta(days=1)

cron = Cronce()  # $CRONCE_URL
folder = Path(os.environ.get("BILLING", "."))


# 30 s unless you say so: here nobody wants to wait for it, and last night is billed first
@cron.job("0 0 * * *", on_lost="rerun", lease="2s", start_within="3d")
def billing(run: Run) -> int:
    def charge(invoice: int) -> int:
        return payment(invoice, idempotency_key=run.on("invoice", invoice).key_of("charge"))

    charges = run.once_each(
        INVOICES, on="invoice", key=lambda invoice: invoice, what="charge", fn=charge, unsure="retry"
    )
    return len(charges)


def payment(invoice: int, idempotency_key: str) -> int:
    """A payment service far away, with books of its own: one charge for each key, and the number of that one for
    whoever asks again."""
    with closing(sqlite3.connect(folder / "payments.db")) as books, books:
        books.execute("PRAGMA synchronous = OFF")  # the service's power does not fail
        books.execute(
            "INSERT INTO charges (key, invoice) VALUES (?, ?) ON CONFLICT DO NOTHING", (idempotency_key, invoice)
        )
        (number,) = books.execute("SELECT number FROM charges WHERE key = ?", (idempotency_key,)).fetchone()
    if number == FATAL:
        lose_power_once()  # it is charged, and nobody was told
    return int(number)


def lose_power_once() -> None:
    try:
        (folder / "lost-power").touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def server(night: str) -> None:
    """What cron does on each server: call the job. Whoever is late stands by, and takes over from the dead."""
    logging.basicConfig(format="%(message)s", stream=sys.stdout)  # cronce says so there
    while isinstance(answer := billing.at(night)(), Skipped) and answer.kind == "held":
        time.sleep(0.1)


def main(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "payments.db")) as books:
        books.execute("CREATE TABLE charges (number INTEGER PRIMARY KEY, key TEXT UNIQUE, invoice INTEGER)")
        env = {"CRONCE_URL": f"sqlite:///{folder}/cronce.db", **os.environ, "BILLING": str(folder)}
        ends: list[int] = []
        tonight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        for night in (f"{tonight - NIGHT:%Y-%m-%dT%H:%M:%SZ}", f"{tonight:%Y-%m-%dT%H:%M:%SZ}"):
            words = [sys.executable, __file__, night]
            servers = [subprocess.Popen(words, env=env) for _ in range(SERVERS)]  # noqa: S603
            ends += sorted(one.wait(60) for one in servers)
        charged = Counter(invoice for (invoice,) in books.execute("SELECT invoice FROM charges"))
    lost = ends.count(-signal.SIGKILL)
    print(f"2 nights, {len(charged)} invoices, {charged.total()} charges, {lost} server lost power")
    once = ends == [-signal.SIGKILL, 0, 0, 0, 0, 0] and charged == Counter(INVOICES)
    print("every invoice was charged once" if once else "this is not as it should be")
    return 0 if once else 1


if __name__ == "__main__":
    if sys.argv[1:]:
        server(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as made:
            sys.exit(main(Path(made)))
