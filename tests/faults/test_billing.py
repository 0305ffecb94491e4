"""Billing under fire: every invoice is charged once, by the receiver's own books; under a plain Redis lock it is not.

Small here; 500 invoices and 50 kills, on every store, are in `make proof`.
"""

import ast
import os
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from http.client import RemoteDisconnected
from pathlib import Path
from typing import get_args

import pytest

from tests.faults.billing import nights, recipes
from tests.faults.billing.harness import DROPS, Billing, Settings
from tests.faults.billing.matrix import Combination, Kept, Size, combinations, figures, table, told_in_all
from tests.faults.billing.plan import BY, plan
from tests.faults.billing.receiver import Entry, read_books
from tests.faults.billing.servers import Store, database, places
from tests.faults.billing.verdict import Verdict, count
from tests.faults.billing.worker import WRONG
from tests.faults.notes import Note
from tests.proof.record import Source
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
    words = [sys.executable, "-m", "tests.faults.billing.receiver", str(tmp_path / "books"), "1"]
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
    assert cut_off == {1: 4, 2: 2}
    assert seen == {
        ("request", 1): 60 - cut_off[1],
        ("charge", 1): 1,
        ("hung-up", 1): keyed.count("") - cut_off[1],
        ("cut-off", 1): cut_off[1],
        ("request", 2): 60 - cut_off[2],
        ("charge", 2): 60 - cut_off[2],
        ("hung-up", 2): plain.count("") - cut_off[2],
        ("cut-off", 2): cut_off[2],
    }
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


# --- every way, store and receiver ----------------------------------------------------------------------------------


def verdict_of(**counts: int) -> Verdict:
    charged = {"charges": 9, "charged_once": 7, "waiting": 2, "once_after": 9, "duplicates": 0, "missing": 0}
    return Verdict(
        "once/keys", "sqlite", 0, 9, 8, 3, **(dict.fromkeys(("replies_dropped", "answers_dropped", "requests"), 0)),
        seconds=1.0, **(charged | counts),
    )  # fmt: skip


def test_each_way_is_played_on_each_store_at_receivers_with_keys_and_without_and_each_recipe_is() -> None:
    found = combinations()
    ways = {(one.way, one.receiver) for one in found}
    assert {(one.way, one.receiver, store) for one in found for store in get_args(Store)} == {*map(tuple, found)}
    assert {(way, receiver) for way in nights.WAYS for receiver in ("keys", "no keys")} <= ways
    assert ("transaction", "PostgreSQL") in ways
    assert {*recipes.RECIPES} <= {way for way, _ in ways}
    assert len(found) == 3 * (2 * 4 + 1 + 1 + len(recipes.RECIPES))


@pytest.mark.parametrize("name", recipes.RECIPES)
def test_each_recipe_is_the_text_of_its_page_with_what_a_reader_replaces(name: str) -> None:
    recipe = recipes.RECIPES[name]
    page = (ROOT / "docs" / "how-to" / f"{recipe.page}.md").read_text()
    for line in recipes.source(recipe).splitlines():
        assert line in page or any(instead in line for instead in recipe.swaps.values()), line
    defined = {one.name for one in recipes.defined(recipe).body if isinstance(one, ast.FunctionDef)}
    assert {job.removesuffix("*") for job in recipe.jobs} <= defined


def test_a_recipe_whose_page_has_changed_is_an_error() -> None:
    changed = recipes.RECIPES["billing: by key"]._replace(swaps={"cron.job('@yearly')": ""})
    with pytest.raises(LookupError, match=r"does not stand in billing\.md, 'By key' any more"):
        recipes.source(changed)


def test_a_play_shows_what_it_should_or_not() -> None:
    right, wrong = Combination("once", "keys", "sqlite"), Combination(WRONG, "keys", "sqlite")
    assert right.is_shown(verdict_of())
    for bad in (
        {"charges": 10, "duplicates": 1}, {"charges": 8, "missing": 1}, {"unexplained": 1}, {"waiting": 1},
        {"once_after": 8},
    ):  # fmt: skip
        assert not right.is_shown(verdict_of(**bad))
    assert wrong.is_shown(verdict_of(charges=10, duplicates=1))
    assert not wrong.is_shown(verdict_of())


def test_what_was_played_is_kept_for_the_same_commit_and_size_alone(tmp_path: Path) -> None:
    file, one = tmp_path / "kept", Combination("once", "keys", "sqlite")
    now, size = Source("1234567", dirty=False), Size()
    Kept(file, size, now).keep(one, verdict_of())
    assert Kept(file, size, now).verdicts == {one: verdict_of()}
    assert Kept(file, size._replace(kills=9), now).verdicts == {}
    assert Kept(file, size, Source("7654321", dirty=False)).verdicts == {}
    dirty = Source("1234567", dirty=True)
    Kept(file, size, dirty).keep(one, verdict_of())
    assert Kept(file, size, dirty).verdicts == {}


def test_the_table_adds_up_and_leaves_the_wrong_way_out_of_the_sum() -> None:
    one, other, wrong = (Combination(way, "keys", "sqlite") for way in ("once", "cursor", WRONG))
    plays = figures({one: verdict_of(), other: verdict_of(reruns=2), wrong: verdict_of(duplicates=4)})
    lines = table(plays, ("way",)).splitlines()
    assert lines[0].startswith("| way | things | kills | pauses | reruns | charged once | not charged, in doubt |")
    assert lines[2:] == [
        "| once | 9 | 8 | 3 | 0 | 7 | 2 | 0 | 0 | 9 | 0 |",
        "| cursor | 9 | 8 | 3 | 2 | 7 | 2 | 0 | 0 | 9 | 0 |",
        "| wrong: per slot | 9 | 8 | 3 | 0 | 7 | 2 | 0 | 0 | 9 | 4 |",
        "| all but the wrong one | 18 | 16 | 6 | 2 | 14 | 4 | 0 | 0 | 18 | 0 |",
    ]
    assert told_in_all(plays) == (
        "2 plays, 18 things, 16 kills, 6 pauses, 2 reruns: 14 charged once, 4 not charged and in doubt, 0 neither;"
        " 0 doubts resolved, then 18 charged once, 0 charges too many (4 where the charge belonged to the slot)"
    )
