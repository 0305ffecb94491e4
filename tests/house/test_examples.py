"""Every example runs, and says what it should."""

import runpy
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.billing.servers import database
from tests.servers.postgres import Postgres

ROOT = Path(__file__).parents[2]
VERDICTS = {
    "agent.py": "everything was paid for once",
    "billing.py": "every invoice was charged once",
    "guard.py": "each slot ran once, and nobody was in the lock with another",
    "order_sync.py": "each order has one e-mail and one reservation",
    "scheduler.py": "each slot ran once, in whichever process",
}


def test_no_example_is_left_out() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(VERDICTS)


@pytest.mark.parametrize("name", VERDICTS)
def test_the_example_ends_with_its_verdict(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / name)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == VERDICTS[name]


# In the books of those whom the effects reach: each example is killed with SIGKILL in the middle.


def play(name: str, folder: Path) -> None:
    main = runpy.run_path(str(ROOT / "examples" / name))["main"]
    assert main(folder) == 0
    assert (folder / "lost-power").exists()


def test_billing_on_postgresql(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with database(postgres.url) as url:
        monkeypatch.setenv("CRONCE_URL", url)
        play("billing.py", tmp_path)
    with closing(sqlite3.connect(tmp_path / "payments.db")) as books:
        rows = books.execute("SELECT invoice FROM charges").fetchall()
    assert Counter(invoice for (invoice,) in rows) == Counter(range(1, 501))
    assert not (tmp_path / "cronce.db").exists()


def test_order_sync(tmp_path: Path) -> None:
    play("order_sync.py", tmp_path)
    for book in ("emails", "reservations"):
        assert sorted(map(int, (tmp_path / book).read_text().split())) == [*range(1, 21)]


def test_a_nightly_agent(tmp_path: Path) -> None:
    play("agent.py", tmp_path)
    bill = (tmp_path / "bill").read_text().split()
    assert bill == ["think", "search", "think", "summarise", "think", "send", "think"]
