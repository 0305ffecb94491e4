"""Billing under fire: every invoice is charged once, by the receiver's own books; under a plain Redis lock it is not.

Small here; 500 invoices and 50 kills, on every store, are in `make proof`.
"""

import os
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from http.client import RemoteDisconnected
from pathlib import Path

import pytest

from tests.faults.billing.harness import DROPS, Billing, Settings
from tests.faults.billing.plan import BY, plan
from tests.faults.billing.receiver import Entry, read_books
from tests.faults.billing.servers import Store, database, places
from tests.faults.billing.verdict import Verdict, count
from tests.faults.notes import Note
from tests.servers.postgres import Postgres
from tests.servers.valkey import Valkey

ROOT = Path(__file__).parents[2]
FULL = bool(os.environ.get("CRONCE_BILLING"))  # `make proof`
INVOICES, KILLS, PAUSES, LOSSES = (500, 50, 6, 12) if FULL else (30, 2, 1, 1)
SEEDS = [1, 2, 3] if FULL else [4231]
"""By the one, all faults hit whoever charges just then, and the receiver hangs up early."""

STORES: list[Store] = ["postgres", "sqlite", "valkey"] if FULL else ["postgres"]

pytestmark = pytest.mark.timeout(1200 if FULL else 300)


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are started by their module's name."""
    monkeypatch.chdir(ROOT)


@pytest.fixture
def shop(postgres: Postgres) -> Iterator[str]:
    with database(postgres.url) as url:
        yield url


def play(settings: Settings, folder: Path, note: Note) -> Verdict:
    """The verdict, and not because nothing happened."""
    settings = settings._replace(invoices=INVOICES, kills=KILLS, pauses=PAUSES, drops=LOSSES)
    verdict = Billing(settings, folder).run()
    note(verdict._asdict())
    assert (verdict.kills, verdict.pauses) == (KILLS, PAUSES)
    if not settings.store.startswith("sqlite"):
        assert 0 < verdict.replies_dropped <= 2 * DROPS * LOSSES
    return verdict


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "postgres":
        yield request.getfixturevalue("shop")
        return
    with places("key", request.param, tmp_path) as (url, _):
        yield url


@pytest.mark.parametrize("seed", SEEDS)
def test_by_key_every_invoice_is_charged_once(store: str, seed: int, tmp_path: Path, note: Note) -> None:
    verdict = play(Settings("key", store, seed=seed), tmp_path, note)
    assert (verdict.charges, verdict.duplicates, verdict.missing) == (INVOICES, 0, 0)
    assert verdict.requests > INVOICES  # some were asked for again: it was the key that made the difference
    assert verdict.answers_dropped


@pytest.mark.parametrize("seed", SEEDS)
def test_in_a_joined_transaction_every_invoice_is_charged_once(
    seed: int, shop: str, tmp_path: Path, note: Note
) -> None:
    verdict = play(Settings("transaction", shop, shop, seed=seed), tmp_path, note)
    assert (verdict.charges, verdict.duplicates, verdict.missing) == (INVOICES, 0, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_under_a_plain_lock_invoices_are_charged_twice(seed: int, valkey: Valkey, tmp_path: Path, note: Note) -> None:
    verdict = play(Settings("redis-lock", valkey.url, seed=seed), tmp_path, note)
    assert verdict.missing == 0
    assert verdict.duplicates > 0
    assert verdict.charges == verdict.requests == INVOICES + verdict.duplicates
    assert not verdict.once_each


def test_night_after_night_every_invoice_is_charged_once_or_in_doubt_until_the_books_are_read(
    tmp_path: Path, note: Note
) -> None:
    with places("once/no keys", "sqlite", tmp_path) as (url, _):
        verdict = play(Settings("once/no keys", url, seed=SEEDS[0]), tmp_path, note)
    assert (verdict.charges, verdict.duplicates, verdict.missing, verdict.unexplained) == (INVOICES, 0, 0, 0)
    assert verdict.charged_once + verdict.waiting == INVOICES
    assert verdict.in_doubt


# --- what the verdict rests on --------------------------------------------------------------------------------------


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[str]:
    words = [sys.executable, "-m", "tests.faults.billing.receiver", str(tmp_path / "books"), "0"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"


def ask(url: str, invoice: int, **headers: str) -> str:
    """The answer, or "" if there was none."""
    request = urllib.request.Request(f"{url}/{invoice}", method="POST", headers={"From": "w1.1", **headers})
    try:
        with urllib.request.urlopen(request) as answer:
            return str(answer.read().decode())
    except RemoteDisconnected:
        return ""


def test_the_receiver_honours_keys_and_hangs_up_now_and_then(receiver: str, tmp_path: Path) -> None:
    keyed = [ask(receiver, 1, **{"Idempotency-Key": "a/invoice-1"}) for _ in range(60)]
    plain = [ask(receiver, 2) for _ in range(60)]
    entries = read_books((tmp_path / "books").read_text().splitlines())
    assert {*keyed} == {"charge-1", ""}
    assert len({*plain}) == 60 - plain.count("") + 1
    seen = Counter((entry.what, entry.invoice) for entry in entries)
    cut_off = {invoice: seen["cut-off", invoice] for invoice in (1, 2)}
    assert any(cut_off.values())
    assert seen == +Counter(
        {
            ("request", 1): 60 - cut_off[1],
            ("charge", 1): 1,
            ("hung-up", 1): keyed.count("") - cut_off[1],
            ("cut-off", 1): cut_off[1],
            ("request", 2): 60 - cut_off[2],
            ("charge", 2): 60 - cut_off[2],
            ("hung-up", 2): plain.count("") - cut_off[2],
            ("cut-off", 2): cut_off[2],
        }
    )
    assert entries[1] == Entry("charge", 1, "w1.1", "a/invoice-1")


def test_charges_that_are_too_many_and_too_few_are_counted() -> None:
    invoices = range(1, 5)
    assert count([1, 2, 3, 4], invoices) == (4, 0, 0)
    assert count([1, 2, 2, 2, 4], invoices) == (5, 2, 1)
    assert count([1, 2, 3, 4, 99], invoices) == (5, 1, 0)  # nobody's invoice


def test_the_same_seed_is_the_same_plan_and_all_of_it_comes_while_there_is_work() -> None:
    faults = plan(7, 500, 2, {"kill": 50, "pause": 6, "drop": 12})
    assert faults == plan(7, 500, 2, {"kill": 50, "pause": 6, "drop": 12}) != plan(8, 500, 2, {"kill": 68})
    assert Counter(fault.kind for fault in faults) == {"kill": 50, "pause": 6, "drop": 12}
    assert [fault.at for fault in faults] == sorted({fault.at for fault in faults})
    assert 0 < faults[0].at < faults[-1].at < 500 * BY
    assert all(fault.lasts > 2 for fault in faults)
